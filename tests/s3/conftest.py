"""Fixtures: the real binary on a free loopback port with a fresh store, and real clients for it.

PENSTOCK_BINARY names the binary (default build/release/penstock). PENSTOCK_TEST_MODE=long, or nightly, runs the long modes.
PENSTOCK_TEST_CLUSTER names the directory of a running cluster (scripts/cluster): the tests then talk to its first gateway that runs.
Those that are about the process or the directories of `penstock local` are skipped, and say so.
"""
import os
import tempfile

import pytest

from cluster_store import ClusterStore
from store import ACCOUNTS, Store, make_client

CLUSTER = os.environ.get("PENSTOCK_TEST_CLUSTER")
LONG = os.environ.get("PENSTOCK_TEST_MODE") in ("long", "nightly")


def pytest_collection_modifyitems(items):
    for item in items if CLUSTER else []:
        if "store" not in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason="starts a process of its own"))


@pytest.fixture(scope="session")
def long_mode():
    return LONG


@pytest.fixture(scope="module")
def store():
    """One running store for all tests of a file. Tests use buckets of their own."""
    if CLUSTER:
        yield ClusterStore(CLUSTER)
        return
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        with Store(directory) as running:
            yield running


@pytest.fixture
def fresh_store():
    """A store for one test that stops, damages or fills it."""
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        with Store(directory) as running:
            yield running


@pytest.fixture
def s3(store):
    return make_client(store)


@pytest.fixture
def other(store):
    """A client of another account."""
    return make_client(store, account=1)


@pytest.fixture
def bucket(s3, request):
    name = "b-" + os.urandom(6).hex()
    s3.create_bucket(Bucket=name)
    return name
