"""What a cluster costs that nobody uses: six servers, two gateways and etcd; and how soon it takes its first write."""
import os
import time

import pytest

from processes import Cluster

READY_SECONDS = 5
IDLE_SECONDS = 60
CORE_SHARE, RESIDENT_BYTES = 0.02, 400 << 20  # of all processes together; what they share counts for each
pytestmark = pytest.mark.skipif(os.environ.get("PENSTOCK_TEST_MODE") != "nightly", reason="wants a quiet machine: nightly")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_seconds(pid):
    """The same by the scheduler's clock, finer than ticks: of all threads that are there."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def memory_of(pid):
    """All that is resident, and the same with a part only of what processes share."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        sizes = dict(line.split()[:2] for line in file if line.startswith(("Rss:", "Pss:")))
    return int(sizes["Rss:"]) * 1024, int(sizes["Pss:"]) * 1024


def test_an_idle_cluster_costs_little():
    begin = time.monotonic()
    with Cluster(servers=6, gateways=2, etcd=1) as cluster:
        client = cluster.client(0)
        client.create_bucket(Bucket="first")
        client.put_object(Bucket="first", Key="k", Body=b"x" * 300_000)
        ready = time.monotonic() - begin
        cluster.wait_whole()
        time.sleep(10)  # what a start has left to do
        pids = {process["name"]: process["pid"] for process in cluster.processes()}
        before = {name: run_seconds(pid) for name, pid in pids.items()}
        begin = time.monotonic()
        time.sleep(IDLE_SECONDS)
        seconds = time.monotonic() - begin
        shares = {name: (run_seconds(pid) - before[name]) / seconds for name, pid in pids.items()}
        memory = {name: memory_of(pid) for name, pid in pids.items()}
        for name, (resident, proportional) in memory.items():
            print(f"{name:5} {100 * shares[name]:5.2f} % of a core, {resident >> 20} MiB, {proportional >> 20} MiB in proportion")
        resident, proportional = (sum(sizes) for sizes in zip(*memory.values()))
        print(f"the first object after {ready:.1f} s; together {100 * sum(shares.values()):.2f} % of a core, "
              f"{resident >> 20} MiB, {proportional >> 20} MiB in proportion; "
              f"without etcd {100 * (sum(shares.values()) - shares['etcd']):.2f} %")
        assert ready < READY_SECONDS
        assert sum(shares.values()) < CORE_SHARE
        assert resident < RESIDENT_BYTES
