"""A gateway whose clock is an hour behind that of all servers: readers keep what an overwrite freed as long as ever, no Complete that
lives is taken for one that has stopped, and /readyz and a metric tell whose clock is off."""
import json
import os
import re
import subprocess
import threading
import time
import urllib.request

import pytest

from processes import Cluster, bytes_of
from store import wait_for

HOUR = 3600
HINT_DELAY = 6  # seconds
REMOVAL = {"hint_delay_seconds": HINT_DELAY, "hints_every_seconds": 1, "uploads_every_seconds": 1}
SERVERS = ["s1", "s2", "s3"]
BUCKET = "clocks"


class Skewed:
    """Where processes run, as Cluster wants it: each in this network, some with another clock."""

    def __init__(self, directory, seconds):
        self.seconds = seconds
        self.shim = os.path.join(directory, "skewed_clock.so")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "skewed_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.shim, source], check=True)

    def write_hosts(self, path):
        with open(path, "w") as file:
            json.dump({name: {"enter": ["env", f"LD_PRELOAD={self.shim}", f"SKEWED_CLOCK_SECONDS={seconds}"]}
                       for name, seconds in self.seconds.items()}, file)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    clocks = Skewed(str(tmp_path_factory.mktemp("clocks")), {name: HOUR for name in [*SERVERS, "g2"]})
    with Cluster(servers=3, gateways=2, network=clocks, config={"removal": REMOVAL}) as running:
        running.wait_whole()
        running.began = time.monotonic()
        running.client(0).create_bucket(Bucket=BUCKET)
        yield running


def metric(cluster, names, metric_name):
    total = 0
    for name in names:
        with urllib.request.urlopen(cluster.find(name)["admin"] + "/metrics", timeout=5) as answer:
            found = re.findall(rf"^{metric_name}(?:{{.*}})? (\S+)$", answer.read().decode(), re.M)
        assert found, (name, metric_name)
        total += sum(map(float, found))
    return total


def test_who_is_off_is_told(cluster):
    line = "clock: 3600 s behind the other servers'"
    wait_for(lambda: line in cluster.ready("g1").replace("3599", "3600"), "g1 tells that its clock is off")
    assert cluster.ready("g1").startswith("ready\n")
    assert abs(metric(cluster, ["g1"], "penstock_clock_offset_seconds") + HOUR) < 10
    for name in [*SERVERS, "g2"]:  # nobody takes the only clock that is right for a server's
        assert "clock" not in cluster.ready(name), cluster.ready(name)
        assert abs(metric(cluster, [name], "penstock_clock_offset_seconds")) < 10
    wait_for(lambda: metric(cluster, ["g1"], "penstock_peer_clock_offset_seconds") < 10, "g1 has asked the servers")
    assert "clocks_off" in cluster.log("g1")


def test_no_complete_is_taken_for_stopped_while_it_lives(cluster):
    seconds = 8
    done, failed = [], []

    def complete(number):
        client = cluster.client(0)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            key = f"upload-{number}-{len(done)}"
            upload = client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
            part = client.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=1, Body=b"part")
            parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
            try:
                client.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload=parts)
                done.append(key)
            except client.exceptions.ClientError as error:
                failed.append(error)

    threads = [threading.Thread(target=complete, args=(n,)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert done and not failed, failed
    assert metric(cluster, SERVERS, "penstock_background_uploads_rolled_forward_total") == 0


def test_readers_keep_what_was_freed(cluster):
    client = cluster.client(0)
    removed = "penstock_background_hint_fragments_removed_total"
    client.put_object(Bucket=BUCKET, Key="key", Body=bytes_of("old", 300_000))
    # After a start of a volume everything counts as read for twice the delay.
    time.sleep(max(0, cluster.began + 2 * HINT_DELAY + 1 - time.monotonic()))
    before = metric(cluster, SERVERS, removed)
    client.put_object(Bucket=BUCKET, Key="key", Body=bytes_of("new", 300_000))
    until = time.monotonic() + HINT_DELAY - 2
    while time.monotonic() < until:
        assert metric(cluster, SERVERS, removed) == before, "fragments went before their time"
        time.sleep(0.2)
    wait_for(lambda: metric(cluster, SERVERS, removed) > before, "what was freed goes in the end")
    assert client.get_object(Bucket=BUCKET, Key="key")["Body"].read() == bytes_of("new", 300_000)


def test_servers_probe_callers_that_are_silent(cluster):
    """Else a machine that was paused would come back over its old connections, and trust what servers have forgotten since."""
    ports = {int(cluster.find(name)["address"].rsplit(":", 1)[1]) for name in SERVERS}
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    established = [row for row in rows if row[3] == "01" and int(row[1].rsplit(":", 1)[1], 16) in ports]
    assert len(established) >= 3 * len(SERVERS)
    for row in established:
        assert row[5].split(":")[0] in ("01", "02"), f"no timer runs for {row}"  # 02: keep-alive; 01: bytes wait for their ack
