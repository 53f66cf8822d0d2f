"""Many clients on few keys through three gateways while the network falls apart in groups, some links in one direction only, and the
clocks of processes are an hour apart: each key's history is linearizable, and what was acknowledged is there at the end."""
import concurrent.futures
import os
import random
import subprocess
import threading
import time

import pytest

import network
from live import BUCKET, Client, Recorder, Values
from processes import Cluster, Endpoint


NIGHTLY = os.environ.get("PENSTOCK_TEST_MODE") == "nightly"
OPERATIONS, SECONDS_MAX = (200_000, 3600) if NIGHTLY else (10_000, 500)
CLIENTS, KEYS_PER_PERIOD = (48, 36) if NIGHTLY else (16, 12)  # many wait for an answer that a partition keeps: more go on meanwhile
READERS = 6  # at the end, of each key
PERIOD_SECONDS = 4  # fresh keys then: each write of unknown outcome makes its key's history harder to judge
NAMES = [f"s{n}" for n in range(1, 7)] + [f"g{n}" for n in range(1, 4)]
# Clients sign with the true time; a gateway that is behind it would take their requests for ones from the future.
CLOCKS = {"s2": 3600, "s3": -3600, "s5": 3600, "g3": 3600}  # seconds


@pytest.fixture
def net(tmp_path):
    if why := network.missing():
        pytest.skip(why)
    shim = str(tmp_path / "skewed_clock.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "skewed_clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source], check=True)
    with network.Network() as made:
        for name in NAMES:
            made.add(name)
            if name in CLOCKS:
                made.hosts[name]["enter"] += ["env", f"LD_PRELOAD={shim}", f"SKEWED_CLOCK_SECONDS={CLOCKS[name]}"]
        yield made


class Swizzle:
    """Cuts a group of hosts off the others, link by link in some order, and heals the links in another."""

    def __init__(self, net, dice):
        self.net, self.dice, self.count = net, dice, 0

    def one(self):
        group = self.dice.sample(NAMES, self.dice.randrange(1, 5))
        links = self.net.between(group, [name for name in NAMES if name not in group])
        if self.dice.random() < 0.3:  # in one direction
            links = [(a, b) for a, b in links if a in group]
        self.each_some(links, self.net.cut)
        time.sleep(self.dice.uniform(0.1, 3))
        self.each_some(links, self.net.heal)
        self.count += 1

    def each_some(self, links, change):
        links = self.dice.sample(links, len(links))
        while links:
            some = self.dice.randrange(1, 9)
            change(links[:some])
            links = links[some:]
            time.sleep(self.dice.uniform(0, 0.1))


@pytest.mark.timeout(SECONDS_MAX + 1800)  # the history is judged afterwards
def test_histories_are_linearizable_under_partitions(net, tmp_path):
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 30)))
    print(f"PENSTOCK_TEST_SEED={seed}")
    with Cluster(servers=6, gateways=3, network=net) as cluster:
        cluster.wait_whole()
        cluster.client(0).create_bucket(Bucket=BUCKET)
        values, recorder = Values(), Recorder()
        begin, stopping = time.monotonic(), threading.Event()
        gateways = [Endpoint(gateway["endpoint"]) for gateway in cluster.info["gateways"]]

        def run(number):
            client = Client(gateways[number % len(gateways)], seed + number, values, recorder)
            while not stopping.is_set():
                period = int((time.monotonic() - begin) / PERIOD_SECONDS)
                client.step(f"p{period}/k{client.dice.randrange(KEYS_PER_PERIOD)}")

        threads = [threading.Thread(target=run, args=(n,)) for n in range(CLIENTS)]
        [t.start() for t in threads]
        dice = random.Random(seed)
        swizzle = Swizzle(net, dice)
        try:
            while len(recorder.operations) < OPERATIONS and time.monotonic() < begin + SECONDS_MAX:
                time.sleep(dice.uniform(0.2, 1.5))
                swizzle.one()
        finally:
            stopping.set()
            [t.join() for t in threads]
        seconds = time.monotonic() - begin
        print(f"{len(recorder.operations)} operations in {seconds:.0f} s: {len(recorder.operations) / seconds:.0f}/s")
        cluster.wait_whole()
        keys = sorted({operation["key"] for operation in recorder.operations})

        def read_again(number):
            client = Client(gateways[number % len(gateways)], seed, values, recorder)
            for key in keys[number::READERS]:
                client.read(key)

        with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
            list(pool.map(read_again, range(READERS)))
        judged = time.monotonic()
        print(recorder.judge(str(tmp_path / "history")), f"under {swizzle.count} partitions, clocks:", CLOCKS,
              f"judged in {time.monotonic() - judged:.1f} s")
        assert len(recorder.operations) >= OPERATIONS
