"""The map in etcd: drivers race, etcd is away, paused, slow, wiped, older, forked; reads and writes go on and no epoch goes back."""
import base64
import json
import os
import random
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from processes import Cluster, Load
from store import BINARY, wait_for

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 30)))
pytestmark = pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed")


@pytest.fixture(scope="module")
def cluster():
    print(f"PENSTOCK_TEST_SEED={SEED}")
    begin = time.monotonic()
    with Cluster(servers=3, gateways=2, volumes=2, etcd=1) as running:
        print(f"ready after {time.monotonic() - begin:.1f} s")
        yield running


def b64(text):
    return base64.b64encode(text.encode()).decode()


class EtcdMap:
    """The map in etcd, as a driver sees it that knows nothing of volumes."""

    def __init__(self, cluster, endpoint=None):
        self.endpoint = endpoint or cluster.info["etcd"]["endpoint"]
        self.key = f"/penstock/{cluster.info['map'].rsplit('/', 1)[1]}/map"

    def call(self, path, body):
        request = urllib.request.Request(self.endpoint + path, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    def listens(self):
        try:
            self.read()
            return True
        except urllib.error.URLError:
            return False

    def read(self):
        rows = self.call("/v3/kv/range", {"key": b64(self.key)}).get("kvs")
        return (json.loads(base64.b64decode(rows[0]["value"])), rows[0]["mod_revision"]) if rows else (None, "0")

    def replace(self, text, expected):
        compare = [{"target": "MOD", "result": "EQUAL", "key": b64(self.key), "mod_revision": expected}]
        put = [{"request_put": {"key": b64(self.key), "value": b64(json.dumps(text))}}]
        return self.call("/v3/kv/txn", {"compare": compare, "success": put}).get("succeeded", False)

    def change(self, zone="changed"):
        """The next map: the driver puts it there and dies before any volume has it."""
        now, revision = self.read()
        after = next_map(now, zone)
        assert self.replace(after, revision)
        return after["epoch"]


def next_map(now, zone):
    after = json.loads(json.dumps(now))
    after["epoch"] += 1
    for group in after["groups"]:
        group["epoch"] += 1
    after["volumes"][0]["zone"] = zone
    return after


def epoch_of(cluster, name):
    found = re.search(r"^map of epoch (\d+)", cluster.ready(name), re.M)
    return int(found.group(1)) if found else 0


def everybody(cluster):
    return cluster.names("servers") + cluster.names("gateways")


def wait_for_epoch(cluster, epoch, names=None):
    for name in names or everybody(cluster):
        wait_for(lambda: epoch_of(cluster, name) >= epoch, f"{name} is at epoch {epoch}", seconds=20)


def wait_untroubled(cluster):
    for name in [p["name"] for p in cluster.processes()]:
        if not cluster.runs(name):  # a test before this one has failed
            cluster.run("start", name)
    cluster.wait_whole()
    for name in everybody(cluster):
        end = time.monotonic() + 40
        while "map trouble" in (said := cluster.ready(name)) or "away" in said:
            assert time.monotonic() < end, f"{name} says: {said}"
            time.sleep(0.05)


def make_bucket(cluster, name):
    wait_untroubled(cluster)
    cluster.client(0).create_bucket(Bucket=name)
    return name


def restore(cluster):
    done = subprocess.run([BINARY, "ring", "restore", "--key", cluster.info["key"], "--map", cluster.info["map"],
                           "--servers", ",".join(s["address"] for s in cluster.info["servers"])], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return done.stdout


# First: while the cluster of all others is not there yet, it needs less of the disk.
def test_three_members_and_the_leader_killed():
    with Cluster(servers=3, gateways=1, etcd=3) as cluster:
        cluster.wait_whole()
        cluster.client(0).create_bucket(Bucket="members")
        members = cluster.info["etcd"]["members"]

        def leader():
            for member in members:
                try:
                    status = EtcdMap(cluster, member["endpoint"]).call("/v3/maintenance/status", {})
                except OSError:
                    continue
                if status.get("leader") == status["header"]["member_id"]:
                    return member
            return None

        first = leader()
        with Load(cluster, "members", SEED) as load:
            cluster.run("kill", first["name"])
            wait_for(lambda: leader() not in (None, first), "another member leads", seconds=30)
            begin = time.monotonic()
            epoch = EtcdMap(cluster, leader()["endpoint"]).change("led by another")
            wait_for_epoch(cluster, epoch)
            print(f"at the next epoch {time.monotonic() - begin:.2f} s after a new leader")
            load.goes_on()
            cluster.run("start", first["name"])
        assert load.failed_reads == [] and load.failed_writes == [] and load.wrong == []


def test_a_driver_dies_and_its_map_reaches_all(cluster):
    bucket = make_bucket(cluster, "driver-dies")
    with Load(cluster, bucket, SEED) as load:
        for turn in range(3):
            epoch = EtcdMap(cluster).change(f"zone-{turn}")
            begin = time.monotonic()
            wait_for_epoch(cluster, epoch, cluster.names("gateways"))
            print(f"the gateways are at epoch {epoch} after {time.monotonic() - begin:.2f} s")
            assert time.monotonic() - begin < 2
            wait_for_epoch(cluster, epoch)
            load.goes_on()
    assert load.failed_reads == [] and load.failed_writes == [] and load.wrong == []
    load.check_all()


def test_of_two_drivers_one_wins_each_round(cluster):
    wait_untroubled(cluster)
    for turn in range(5):
        start, won = threading.Barrier(4), []

        def race(number):
            source = EtcdMap(cluster)
            now, revision = source.read()
            after = next_map(now, f"driver-{number}")
            start.wait()
            if source.replace(after, revision):
                won.append(after["epoch"])

        threads = [threading.Thread(target=race, args=(n,)) for n in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert len(won) == 1, turn
    wait_for_epoch(cluster, won[0])
    wait_untroubled(cluster)


def test_a_gateway_of_the_older_epoch_learns_without_etcd(cluster):
    bucket = make_bucket(cluster, "older-epoch")
    cluster.run("pause", "g1")
    epoch = EtcdMap(cluster).change("while-paused")
    wait_for_epoch(cluster, epoch, cluster.names("servers") + ["g2"])
    cluster.run("kill", "etcd")
    cluster.run("resume", "g1")
    begin = time.monotonic()
    cluster.client(0).put_object(Bucket=bucket, Key="learned", Body=b"x")
    spent = time.monotonic() - begin
    print(f"a gateway of the older epoch wrote after {spent:.2f} s")
    assert spent < 1 and epoch_of(cluster, "g1") == epoch
    cluster.run("start", "etcd")
    wait_untroubled(cluster)


def test_without_etcd_all_goes_on_and_processes_start(cluster):
    bucket = make_bucket(cluster, "etcd-away")
    epoch = EtcdMap(cluster).change("before")
    wait_for_epoch(cluster, epoch)
    cluster.run("kill", "etcd")
    with Load(cluster, bucket, SEED, retries=5) as load:
        load.goes_on()
        for name in ("s1", "g2"):
            cluster.run("kill", name)
            load.goes_on(writes=0)
            cluster.run("start", name)
            cluster.wait_whole()
        load.goes_on()
        for name in everybody(cluster):
            wait_for(lambda: "map source away" in cluster.ready(name), f"{name} says that etcd is away", seconds=20)
        assert [epoch_of(cluster, name) for name in everybody(cluster)] == [epoch] * 5
        cluster.run("start", "etcd")
        wait_untroubled(cluster)
        wait_for_epoch(cluster, EtcdMap(cluster).change("after"))
        load.goes_on()
    assert load.wrong == []
    load.check_all()


def test_a_server_that_was_down_learns_the_head(cluster):
    wait_untroubled(cluster)
    cluster.run("kill", "s2")
    for turn in range(2):
        epoch = EtcdMap(cluster).change(f"down-{turn}")
    wait_for_epoch(cluster, epoch, ["s1", "s3", "g1", "g2"])
    cluster.run("start", "s2")
    wait_for_epoch(cluster, epoch)
    wait_untroubled(cluster)


def test_a_paused_etcd_holds_up_nobody(cluster):
    bucket = make_bucket(cluster, "etcd-paused")
    with Load(cluster, bucket, SEED) as load:
        cluster.run("pause", "etcd")
        load.goes_on()
        for name in everybody(cluster):
            wait_for(lambda: "map source away" in cluster.ready(name), f"{name} says that etcd is away", seconds=60)
        cluster.run("resume", "etcd")
        wait_untroubled(cluster)
        wait_for_epoch(cluster, EtcdMap(cluster).change("resumed"))
        load.goes_on()
    assert load.failed_reads == [] and load.failed_writes == [] and load.wrong == []


def trouble_is_told(cluster, what):
    for name in everybody(cluster):
        wait_for(lambda: f"map trouble: {what}" in cluster.ready(name), f"{name} tells of {what}", seconds=60)


def test_a_wiped_etcd_is_told_and_restored(cluster):
    bucket = make_bucket(cluster, "etcd-wiped")
    epoch = EtcdMap(cluster).read()[0]["epoch"]
    with Load(cluster, bucket, SEED) as load:
        cluster.run("wipe", "etcd")
        cluster.run("start", "etcd")
        trouble_is_told(cluster, "source_empty")
        load.goes_on()
        assert [epoch_of(cluster, name) for name in everybody(cluster)] == [epoch] * 5
        restore(cluster)
        wait_untroubled(cluster)
        assert EtcdMap(cluster).read()[0]["epoch"] == epoch
        load.goes_on()
    assert load.failed_reads == [] and load.failed_writes == [] and load.wrong == []


class OneMoreGateway:
    """Without --servers: it knows of the source alone."""

    def __init__(self, cluster, source, tmp_path):
        self.port, self.log = free_port(), tmp_path / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([BINARY, "gateway", "--key", cluster.info["key"], "--map", source, "--credentials",
                                             cluster.accounts, "--listen", "127.0.0.1:0", "--admin-listen", f"127.0.0.1:{self.port}"],
                                            stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(40) == 0, self.log.read_text()

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""


def test_what_is_no_map_in_etcd_is_told_and_restored(cluster, tmp_path):
    bucket = make_bucket(cluster, "etcd-damaged")
    now, _ = EtcdMap(cluster).read()
    foreign = {**now, "cluster": "7" * 32, "epoch": now["epoch"] + 5}
    with Load(cluster, bucket, SEED) as load:
        for damage in ("garbage", json.dumps(foreign), "zlib1\nshort"):
            EtcdMap(cluster).call("/v3/kv/put", {"key": b64(EtcdMap(cluster).key), "value": b64(damage)})
            trouble_is_told(cluster, "source_damaged")
            load.goes_on()
            assert [epoch_of(cluster, name) for name in everybody(cluster)] == [now["epoch"]] * 5
            with OneMoreGateway(cluster, cluster.info["map"], tmp_path) as gateway:
                wait_for(lambda: gateway.ready().startswith("ready"), "a gateway starts beside it", seconds=30)
                assert f"map of epoch {now['epoch']} " in gateway.ready()
            assert "Written to" in restore(cluster)
            wait_untroubled(cluster)
            assert EtcdMap(cluster).read()[0] == now
        load.goes_on()
    assert load.failed_reads == [] and load.failed_writes == [] and load.wrong == []


def test_an_older_and_then_forked_etcd_takes_nothing_back(cluster):
    bucket = make_bucket(cluster, "etcd-older")
    where = os.path.join(cluster.data, "etcd")
    with Load(cluster, bucket, SEED) as load:
        cluster.run("kill", "etcd", "TERM")
        wait_for(lambda: not cluster.runs("etcd"), "etcd ends")
        shutil.copytree(where, where + ".old")
        cluster.run("start", "etcd")
        wait_untroubled(cluster)
        for turn in range(2):
            epoch = EtcdMap(cluster).change(f"lost-{turn}")
            wait_for_epoch(cluster, epoch)
        cluster.run("wipe", "etcd")
        shutil.move(where + ".old", where)
        cluster.run("start", "etcd")
        trouble_is_told(cluster, "source_behind")
        for turn in range(2):
            assert EtcdMap(cluster).change(f"forked-{turn}") == epoch - 1 + turn
        trouble_is_told(cluster, "source_forked")
        load.goes_on()
        assert [epoch_of(cluster, name) for name in everybody(cluster)] == [epoch] * 5
        restore(cluster)
        wait_for_epoch(cluster, epoch + 1)
        wait_untroubled(cluster)
        assert EtcdMap(cluster).read()[0]["volumes"][0]["zone"] == "lost-1"
        load.goes_on()
    assert load.failed_reads == [] and load.failed_writes == [] and load.wrong == []
    load.check_all()


def held_by_nobody(cluster):
    """Forks the source: (the epoch that is held, the zone of its first volume). etcd comes back as it was before, and is changed."""
    where = os.path.join(cluster.data, "etcd")
    cluster.run("kill", "etcd", "TERM")
    wait_for(lambda: not cluster.runs("etcd"), "etcd ends")
    shutil.copytree(where, where + ".old")
    cluster.run("start", "etcd")
    wait_untroubled(cluster)
    epoch = EtcdMap(cluster).change("held")
    wait_for_epoch(cluster, epoch)
    wait_untroubled(cluster)
    cluster.run("wipe", "etcd")
    shutil.move(where + ".old", where)
    cluster.run("start", "etcd")
    wait_for(EtcdMap(cluster).listens, "etcd listens")
    assert EtcdMap(cluster).change("forked") == epoch
    trouble_is_told(cluster, "source_forked")
    return epoch


def test_servers_that_restart_beside_a_forked_etcd_stay_at_what_is_held(cluster):
    bucket = make_bucket(cluster, "etcd-forked")
    with Load(cluster, bucket, SEED, retries=20) as load:
        epoch = held_by_nobody(cluster)
        for name in cluster.names("servers"):
            cluster.run("kill", name)
            cluster.run("start", name)
            cluster.wait_whole()
            wait_for_epoch(cluster, epoch, [name])
            load.goes_on()
        for name in cluster.names("servers"):
            cluster.run("kill", name)
        for name in cluster.names("servers"):
            cluster.run("start", name)
        cluster.wait_whole()
        load.goes_on()
        cluster.run("kill", "g1")
        cluster.run("start", "g1")
        cluster.wait_whole()
        wait_for_epoch(cluster, epoch)
        trouble_is_told(cluster, "source_forked")
        load.goes_on()
        assert [epoch_of(cluster, name) for name in everybody(cluster)] == [epoch] * 5
        restore(cluster)
        wait_for_epoch(cluster, epoch + 1)
        wait_untroubled(cluster)
        assert EtcdMap(cluster).read()[0]["volumes"][0]["zone"] == "held"
        load.goes_on()
    assert load.wrong == []
    load.check_all()


class SlowProxy:
    """Passes bytes on, each piece late."""

    def __init__(self, target, seconds):
        self.target, self.seconds = target, seconds
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target)
            except OSError:
                return
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, sink):
        try:
            while piece := source.recv(65536):
                time.sleep(self.seconds)
                sink.sendall(piece)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]


def test_a_slow_etcd_is_waited_for(cluster, tmp_path):
    wait_untroubled(cluster)
    host, port = cluster.info["etcd"]["endpoint"].removeprefix("http://").split(":")
    proxy = SlowProxy((host, int(port)), 0.4)
    source = f"etcd://{proxy.address}/{cluster.info['map'].rsplit('/', 1)[1]}"
    with OneMoreGateway(cluster, source, tmp_path) as gateway:
        wait_for(lambda: gateway.ready().startswith("ready"), "a gateway behind a slow etcd is ready", seconds=30)
        epoch = EtcdMap(cluster).change("slow")
        wait_for(lambda: f"map of epoch {epoch} " in gateway.ready(), "it learns the change", seconds=10)
        assert "away" not in gateway.ready()


def test_one_more_server_is_announced(cluster):
    wait_untroubled(cluster)
    cluster.run("add")
    added = cluster.info["servers"][-1]
    prefix = f"/penstock/{cluster.info['map'].rsplit('/', 1)[1]}/servers/"

    def announced():
        rows = EtcdMap(cluster).call("/v3/kv/range", {"key": b64(prefix), "range_end": b64(prefix[:-1] + "0")}).get("kvs", [])
        return {told["address"]: {v["id"] for v in told["volumes"]} for told in (json.loads(base64.b64decode(r["value"])) for r in rows)}

    wait_for(lambda: added["address"] in announced(), "the server announces itself", seconds=20)
    assert announced()[added["address"]] == {volume["id"] for volume in added["volumes"]}
    assert len(announced()) == 4
    assert "no map yet" in cluster.ready(added["name"])
    cluster.run("kill", added["name"])
    wait_for(lambda: added["address"] not in announced(), "what it announced ends with its lease", seconds=30)
