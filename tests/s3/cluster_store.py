"""A gateway of a running cluster, in place of a `penstock local` that the tests start."""
import json
import os
import urllib.parse

import pytest

from store import Store


class ClusterStore(Store):
    """What a test can ask of any store; what only `penstock local` has skips the test."""

    has_volumes = False
    LOCAL = ("data", "directories", "volume", "process", "log", "log_path", "start", "stop", "kill", "config", "command", "preload")

    def __init__(self, directory):
        with open(os.path.join(directory, "cluster.json")) as file:
            gateways = json.load(file)["gateways"]
        for gateway in gateways:
            self.place = urllib.parse.urlsplit(gateway["endpoint"])
            self.port, self.admin_port = self.place.port, urllib.parse.urlsplit(gateway["admin"]).port
            if self.ready():
                return
        raise AssertionError(f"no gateway of {directory} is ready")

    def __getattribute__(self, name):
        if name in ClusterStore.LOCAL:
            pytest.skip(f"about the process or the directories of `penstock local`: {name}")
        return super().__getattribute__(name)
