"""Servers that die, stand still, hang or lose their network while 16 clients go on through three gateways: no read fails, none shows
wrong bytes, and after a moment reads are about as fast as before. A day's seed chooses what is tried; nightly all is."""
import datetime
import itertools
import os
import random
import subprocess
import tempfile
import time

import pytest

import network
from processes import Cluster
from store import wait_for
from traffic import Traffic

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", datetime.date.today().toordinal()))
NIGHTLY = os.environ.get("PENSTOCK_TEST_MODE") == "nightly"
SETTLED_SECONDS = 5  # after so long, a loss is no news any more
NOISE = 0.05  # seconds that a fault may add to a percentile
BUDGET, REST = 512 << 20, 200 << 20  # of a gateway's memory: bodies of requests, and all else

PAIRS = list(itertools.combinations([f"s{n}" for n in range(1, 7)], 2))
FAULTS = ["pause", "hang", "delay", "drop", "deaf", "mute", "slow"]
if not NIGHTLY:
    PAIRS, FAULTS = random.Random(SEED).sample(PAIRS, 3), random.Random(SEED).sample(FAULTS, 2)


@pytest.fixture(scope="module")
def shim():
    source = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "s3", "hanging_io.c")
    with tempfile.TemporaryDirectory() as directory:
        library = os.path.join(directory, "hanging_io.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", library, source, "-ldl"], check=True)
        yield library


@pytest.fixture(scope="module")
def net():
    if why := network.missing():
        pytest.skip(why)
    with network.Network() as made:
        for name in [f"s{n}" for n in range(1, 7)] + [f"g{n}" for n in range(1, 4)]:
            made.add(name)
        yield made


@pytest.fixture(scope="module")
def cluster(net, shim):
    print(f"PENSTOCK_TEST_SEED={SEED}")
    with tempfile.TemporaryDirectory() as directory:
        control = os.path.join(directory, "control")
        with Cluster(servers=6, gateways=3, network=net, environment={"LD_PRELOAD": shim, "HANGING_IO_CONTROL": control}) as running:
            running.control = control
            yield running


def make_bucket(cluster, name):
    cluster.wait_whole()
    cluster.client(0).create_bucket(Bucket=name)
    return name


def resident_bytes(process):
    with open(f"/proc/{process['pid']}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_memory(cluster):
    for gateway in cluster.info["gateways"]:
        assert resident_bytes(gateway) < BUDGET + REST, f"{gateway['name']} has {resident_bytes(gateway) >> 20} MiB"


def test_any_two_servers_may_die_while_reads_go_on(cluster):
    bucket = make_bucket(cluster, "pairs")
    with Traffic(cluster, bucket, SEED) as traffic:
        healthy = traffic.healthy()
        for pair in PAIRS:
            traffic.forget()
            for name in pair:
                cluster.run("kill", name)
            time.sleep(SETTLED_SECONDS)
            dead = traffic.measure_until(3 * healthy + NOISE)
            print(f"{pair} dead: 99 of 100 reads within {1000 * dead:.0f} ms, {1000 * healthy:.0f} ms before")
            traffic.check()
            assert dead <= 3 * healthy + NOISE
            for name in pair:
                cluster.run("start", name)
            cluster.wait_whole()
    traffic.check()
    check_memory(cluster)


class Fault:
    """Something is wrong with one server, but its process does not end."""

    def __init__(self, cluster, net, kind, name):
        self.cluster, self.net, self.kind, self.name = cluster, net, kind, name

    def disk(self, prefix):
        """What the disk of the server does; None: what it should."""
        path = self.cluster.find(self.name)["volumes"][0]["path"]
        with open(self.cluster.control + ".new", "w") as file:
            file.write("" if prefix is None else f"{prefix}{path}\n")
        os.rename(self.cluster.control + ".new", self.cluster.control)

    def begin(self):
        sides = {"drop": ("from", "to"), "deaf": ("to",), "mute": ("from",)}
        if self.kind in sides:
            self.net.cut(self.net.around(self.name, sides[self.kind]))
        elif self.kind == "pause":
            self.cluster.run("pause", self.name)
        elif self.kind == "slow":
            self.net.slow(self.name, 1_000_000)
        else:
            self.disk({"hang": "", "delay": "5000 "}[self.kind])

    def end(self):
        sides = {"drop": ("from", "to"), "deaf": ("to",), "mute": ("from",)}
        if self.kind in sides:
            self.net.heal(self.net.around(self.name, sides[self.kind]))
        elif self.kind == "pause":
            self.cluster.run("resume", self.name)
        elif self.kind == "slow":
            self.net.slow(self.name, None)
        else:
            self.disk(None)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_server_that_is_there_in_part_holds_up_nobody(cluster, net, kind):
    bucket = make_bucket(cluster, "part-" + kind)
    fault = Fault(cluster, net, kind, random.Random(f"{SEED}-{kind}").choice(cluster.names("servers")))
    with Traffic(cluster, bucket, f"{SEED}-{kind}", read_retries=5) as traffic:
        healthy = traffic.healthy()
        fault.begin()
        try:
            time.sleep(SETTLED_SECONDS)
            for name in cluster.names("gateways"):
                wait_for(lambda: "degraded: " in (said := cluster.ready(name)) and (kind != "slow" or " volumes are slow (" in said),
                         f"{name} skips {fault.name}", seconds=30)
            limit = healthy + NOISE
            faulty = traffic.measure_until(limit)
            print(f"{fault.name} {kind}: 99 of 100 reads within {1000 * faulty:.0f} ms, {1000 * healthy:.0f} ms before; "
                  f"{traffic.repeated} tries were repeated; longest write {max(took for _, took in traffic.writes):.1f} s")
            traffic.check()
            check_memory(cluster)
            assert faulty <= limit
        finally:
            fault.end()
        if kind in ("hang", "delay"):  # a disk call that was too long closes its volume for good
            cluster.run("kill", fault.name)
            wait_for(lambda: not cluster.runs(fault.name), "it ends")
            cluster.run("start", fault.name)
        cluster.wait_whole()
    traffic.check()
