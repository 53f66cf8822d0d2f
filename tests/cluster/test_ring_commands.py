"""`penstock ring` and `penstock admin` on clusters of processes: every shape with the same commands, volumes that join, maps that are lost
and forked, and a store of `penstock local` that becomes a cluster."""
import concurrent.futures
import json
import os
import random
import shutil
import socket
import subprocess
import time

import pytest

from processes import Cluster, Endpoint, bytes_of
from store import BINARY, CONFIG, make_client, wait_for, write_private

TROUBLE = 4


def penstock(*words, code=0):
    """What the command wrote; its exit code must be `code`."""
    done = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=90)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if code in (0, TROUBLE) else done.stderr


def status_of(cluster, code=0):
    return json.loads(penstock("ring", "status", "--json", "--cluster", cluster.data, code=code))


def looked_at(cluster):
    """The same, whatever it finds: other tests leave servers behind that are away."""
    words = [BINARY, "ring", "status", "--json", "--cluster", cluster.data]
    return json.loads(subprocess.run(words, capture_output=True, text=True, timeout=90).stdout)


def epoch_of(cluster):
    return looked_at(cluster)["follow"]["epoch"]


def findings_of(cluster):
    return {(f["what"], f["volume"]) for f in status_of(cluster, code=TROUBLE)["findings"]}


def wait_well(cluster):
    def is_well():
        done = subprocess.run([BINARY, "ring", "status", "--cluster", cluster.data], capture_output=True, text=True, timeout=60)
        return done.returncode == 0
    wait_for(is_well, "ring status finds all well")


def free_port():
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as held:
            try:
                held.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Server:
    """One more server than scripts/cluster has started."""

    def __init__(self, cluster, name, *options):
        self.address = f"127.0.0.1:{free_port()}"
        self.directory = os.path.join(cluster.data, name)
        self.options = ["server", "--key", cluster.info["key"], "--map", cluster.info["map"], "--config", cluster.settings,
                        "--listen", self.address, "--admin-listen", "127.0.0.1:0", *options, self.directory]
        self.log_path = self.directory + ".log"
        self.start("--format")

    def start(self, *more):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([BINARY, *self.options, *more], stdout=log, stderr=log)
        wait_for(lambda: "server_ready" in open(self.log_path).read(), "the new server serves")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.directory)  # its volumes are away from now on


def fragments_at(cluster, address):
    """What `admin status` says that the server's volumes hold."""
    words = [BINARY, "admin", "status", "--json", "--cluster", cluster.data]
    for server in json.loads(subprocess.run(words, capture_output=True, text=True, timeout=60).stdout)["servers"]:
        if server["address"] == address:
            return sum(volume["fragments"] for volume in server["volumes"])
    raise AssertionError(f"admin status does not name {address}")


def add_words(cluster, *addresses):
    words = ["ring", "add", "--cluster", cluster.data]
    for address in addresses:
        words += ["--server", address]
    return words


@pytest.mark.parametrize("servers, volumes, zones, layout, survives", [
    (1, 6, 0, "4+2", 2), (3, 1, 0, "1+2", 1), (6, 1, 3, "4+2", 2), (12, 1, 3, "8+3", 3)])
def test_every_shape_with_the_same_commands(servers, volumes, zones, layout, survives):
    with Cluster(servers=servers, gateways=1, volumes=volumes, zones=zones) as cluster:
        client = cluster.client(0)
        client.create_bucket(Bucket="shape")
        # Of twelve, fragments of more than 16 MiB: files of their own take less room than a segment on each.
        body = bytes_of("shape", 3_000_000 if servers < 12 else 140 << 20)
        client.put_object(Bucket="shape", Key="k", Body=body)
        assert client.get_object(Bucket="shape", Key="k")["Body"].read() == body
        shown = json.loads(penstock("ring", "show", "--json", "--cluster", cluster.data))
        assert len(shown["volumes"]) == servers * volumes and len({v["zone"] for v in shown["volumes"]}) == max(zones, 1)
        outlook = shown["outlook"]
        assert f"{outlook['layout']['k']}+{outlook['layout']['m']}" == layout and outlook["losses_survived"] == survives
        assert outlook["zone_survived"] == (servers == 6)
        assert outlook["domain"] == ("volume" if servers == 1 else "host")
        wait_well(cluster)  # on a busy machine a server may just have been suspect
        assert status_of(cluster)["ok"]
        some = cluster.info["servers"][0]["address"]
        assert "all is well" in penstock("ring", "status", "--key", cluster.info["key"], "--servers", some)
        told = json.loads(penstock("admin", "status", "--json", "--key", cluster.info["key"], "--servers", some))
        assert told["ok"] and len(told["servers"]) == servers
        for server in told["servers"]:
            assert server["epoch"] == 1 and abs(server["clock_ahead_seconds"]) < 1 and not server["leaving"]
            assert len(server["volumes"]) == volumes and server["volumes"][0]["total_bytes"] > 0
            assert {job["what"] for job in server["jobs"]}
        gateway = cluster.info["gateways"][0]["endpoint"].split("//")[1]
        assert [(g["name"], g["epoch"], g["servers"]) for g in told["gateways"]] == [(gateway, 1, servers)]
        assert f"gateway {gateway}  from 127.0.0.1  epoch 1" in penstock("admin", "status", "--cluster", cluster.data)
        cluster.run("kill", "g1")
        wait_for(lambda: json.loads(penstock("admin", "status", "--json", "--cluster", cluster.data))["gateways"] == [], "it is gone")
        then = json.loads(penstock("ring", "what-if", "--json", "--cluster", cluster.data, "--lose", shown["volumes"][0]["name"]))
        assert then["now"]["losses_survived"] == survives and then["then"]["losses_survived"] == survives - 1


def test_status_says_what_is_wrong(tmp_path):
    with Cluster(servers=4, gateways=1) as cluster:
        wait_well(cluster)
        cluster.run("kill", "s2")
        wait_for(lambda: findings_of(cluster) == {("server_away", "v1")}, "the dead server is told of")
        cluster.run("wipe", "s2")
        words = cluster.find("s2")["command"]
        fresh = subprocess.Popen([BINARY, *words[1:], "--format"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: ("volume_wiped", "v1") in findings_of(cluster), "the wiped volume is told of")
            told = json.loads(penstock("admin", "status", "--json", "--cluster", cluster.data, code=TROUBLE))
            assert [v["candidate"] for s in told["servers"] for v in s["volumes"]].count(True) == 1
        finally:
            fresh.kill()
            fresh.wait()
        for name in ("s1", "s3", "s4"):
            cluster.run("kill", name)
        some = ["--key", cluster.info["key"], "--servers", cluster.find("s1")["address"]]
        assert "nobody answers" in penstock("ring", "status", *some, code=1)
        assert penstock("ring", "show", *some, code=1)


def flip(directory, known):
    """Changes the bytes `known`, which one file below the directory holds."""
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                at = file.read().find(known)
            if at < 0:
                continue
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(bytes(255 - byte for byte in known))
            return True
    return False


def test_status_tells_of_damaged_fragments():
    with Cluster(servers=6, gateways=1) as cluster:
        wait_well(cluster)
        s3 = cluster.client(0)
        s3.create_bucket(Bucket="damaged")
        body = os.urandom(3 << 20)
        s3.put_object(Bucket="damaged", Key="whole", Body=body)
        known = body[:64]
        hurt = next(s for s in cluster.info["servers"] if flip(s["volumes"][0]["path"], known))
        assert s3.get_object(Bucket="damaged", Key="whole")["Body"].read() == body
        found = next(f for f in status_of(cluster)["findings"] if f["what"] == "volume_damaged")
        assert hurt["volumes"][0]["path"] in found["meaning"]
        told = json.loads(penstock("admin", "status", "--json", "--cluster", cluster.data))
        counts = {v["path"]: v["damaged_reads"] for s in told["servers"] for v in s["volumes"]}
        assert [path for path, count in counts.items() if count > 0] == [hurt["volumes"][0]["path"]]
        assert "damaged reads" in penstock("admin", "status", "--cluster", cluster.data)


def test_a_map_source_that_lost_the_map_gets_it_back(tmp_path):
    with Cluster(servers=3, gateways=1) as cluster:
        where = cluster.info["map"].removeprefix("file:")
        first = str(tmp_path / "first.json")
        shutil.copy(where, first)
        with Server(cluster, "second-epoch") as server:
            penstock(*add_words(cluster, server.address))
            newest = json.load(open(where))
            shutil.copy(first, where)
            assert ("source_behind", "") in findings_of(cluster)
            refused = penstock(*add_words(cluster, server.address), code=1)
            assert "restore" in refused
            penstock("ring", "restore", "--cluster", cluster.data)
            assert json.load(open(where)) == newest
            wait_well(cluster)
            os.remove(where)
            assert ("source_empty", "") in findings_of(cluster)
            assert "restore" in penstock("ring", "make", "--cluster", cluster.data, "--server", server.address, code=1)
            penstock("ring", "restore", "--cluster", cluster.data)
            wait_well(cluster)
            assert "Nothing to restore" in penstock("ring", "restore", "--cluster", cluster.data)
            for damage in ("garbage", json.dumps({**newest, "cluster": "7" * 32})):
                with open(where, "w") as out:
                    out.write(damage)
                assert ("source_damaged", "") in findings_of(cluster)
                assert "restore" in penstock(*add_words(cluster, server.address), code=1)
                assert "restore" in penstock("ring", "make", "--cluster", cluster.data, "--server", server.address, code=1)
                assert "Written to" in penstock("ring", "restore", "--cluster", cluster.data)
                assert json.load(open(where)) == newest
                wait_well(cluster)
            os.remove(where)
            for name in ("s1", "s2"):
                cluster.run("kill", name)
            assert penstock("ring", "restore", "--cluster", cluster.data, code=1)
            assert not os.path.exists(where)


@pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed")
def test_candidates_that_announce_themselves_join(tmp_path):
    with Cluster(servers=3, gateways=1, etcd=1) as cluster:
        assert "Nothing to add" in penstock("ring", "add", "--cluster", cluster.data)
        cluster.run("add")
        assert "4 volumes" in penstock("ring", "add", "--cluster", cluster.data)  # it has announced itself before it was ready
        wait_well(cluster)
        assert json.loads(penstock("ring", "show", "--json", "--cluster", cluster.data))["epoch"] == 2


@pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed")
def test_a_server_that_others_reach_elsewhere_keeps_the_address_that_it_announces(tmp_path):
    with Cluster(servers=3, gateways=1, etcd=1) as cluster:
        wait_well(cluster)
        entry, here = cluster.find("s2"), f"127.0.0.1:{free_port()}"
        cluster.run("kill", "s2")
        words = list(entry["command"][1:])
        words[words.index("--listen") + 1] = here
        with open(tmp_path / "log", "wb") as log:
            moved = subprocess.Popen([BINARY, *words, "--address", entry["address"]], stdout=log, stderr=log)
        try:
            wait_for(lambda: "server_ready" in (tmp_path / "log").read_text(), "it serves")
            assert "Nothing to add" in penstock(*add_words(cluster, here))
            assert epoch_of(cluster) == 1
        finally:
            moved.terminate()
            moved.wait(60)


def test_what_if_without_a_cluster():
    words = [w for i in range(12) for w in ("--add", f"h{i},zone=z{i % 3}")]
    narrow = json.loads(penstock("ring", "what-if", "--json", *words))
    assert narrow["then"]["layout"] == {"k": 8, "m": 3} and not narrow["then"]["zone_survived"]
    wide = json.loads(penstock("ring", "what-if", "--json", "--layout", "8+4", *words))
    assert wide["then"]["zone_survived"]
    assert "1 or at least 3" in penstock("ring", "what-if", "--add", "a", "--add", "b", code=1)
    assert "volumes=0" in penstock("ring", "what-if", "--add", "a,volumes=0", code=1)


class Process:
    def __init__(self, log, ready, *words):
        self.log = str(log)
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen([BINARY, *map(str, words)], stdout=out, stderr=out)
        wait_for(lambda: ready in open(self.log).read() or self.process.poll() is not None, f"{words[0]} starts")
        assert self.process.poll() is None, open(self.log).read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(60) == 0


def test_a_store_becomes_a_cluster_of_one_server(tmp_path):
    settings, data, to = str(tmp_path / "settings.json"), str(tmp_path / "data"), str(tmp_path / "cluster")
    write_private(settings, json.dumps({k: v for k, v in CONFIG.items() if k != "domains"}))
    s3, address = free_port(), f"127.0.0.1:{free_port()}"
    local = ["local", "--config", settings, "--listen", f"127.0.0.1:{s3}", "--admin-listen", "127.0.0.1:0", data]
    sizes = {"tiny": 100, "small": 20_000, "large": 5_000_000}
    export = ["ring", "export", data, "--to", to, "--listen", address, "--host", "one"]

    def client():  # tries again after a 503, as clients do: six volumes on one busy disk may all be late
        pair = json.load(open(os.path.join(data, "root-credentials.json")))[0]
        return make_client(Endpoint(f"http://127.0.0.1:{s3}"), account=pair, retries={"max_attempts": 5, "mode": "standard"})

    assert "no store" in penstock(*export, code=1)  # and none is made
    assert not os.path.exists(data)
    with Process(tmp_path / "local.log", "store_ready", *local):
        client().create_bucket(Bucket="kept")
        etags = {k: client().put_object(Bucket="kept", Key=k, Body=bytes_of(k, n), Metadata={"a": k})["ETag"] for k, n in sizes.items()}
        before = client().list_objects_v2(Bucket="kept", FetchOwner=True)["Contents"]
        assert "in use" in penstock(*export, code=1)
    files = sorted(os.listdir(os.path.join(data, "v0")))
    said = penstock(*export)
    assert "penstock server" in said and "penstock gateway" in said
    assert sorted(os.listdir(os.path.join(data, "v0"))) == files
    assert penstock(*export) == said  # again: the same
    refused = penstock(*local, code=1)
    assert "belongs to a cluster" in refused and "penstock server" in refused
    for name in ("cluster.key", "credentials.json"):
        assert os.stat(os.path.join(to, name)).st_mode & 0o077 == 0
    lines = [line.split() for line in said.splitlines() if line.strip().startswith("penstock ")]
    server = [*lines[0][1:], "--config", settings, "--admin-listen", "127.0.0.1:0"]
    gateway = [*lines[1][1:], "--config", settings, "--listen", f"127.0.0.1:{s3}", "--admin-listen", "127.0.0.1:0"]
    with Process(tmp_path / "server.log", "server_ready", *server):
        with Process(tmp_path / "gateway.log", "gateway_ready", *gateway):
            for key, size in sizes.items():
                answer = client().get_object(Bucket="kept", Key=key)
                assert answer["ETag"] == etags[key] and answer["Metadata"] == {"a": key}
                assert answer["Body"].read() == bytes_of(key, size)
            assert client().list_objects_v2(Bucket="kept", FetchOwner=True)["Contents"] == before
            client().put_object(Bucket="kept", Key="later", Body=bytes_of("later", 300_000))
            assert "in use" in penstock(*export, code=1)
            assert penstock(*local, code=1)
            shown = json.loads(penstock("ring", "show", "--json", "--cluster", to))
            assert len(shown["volumes"]) == 6 and {v["address"] for v in shown["volumes"]} == {address}
            assert "all is well" in penstock("ring", "status", "--cluster", to)
    assert "belongs to a cluster" in penstock(*local, code=1)
    assert "store is a cluster" in penstock(*export)


# ---- a server joins. Each time a fresh cluster: beside servers that were left behind, each command waits for those

@pytest.fixture
def cluster(request):
    with Cluster(servers=getattr(request, "param", 3), gateways=2) as running:
        running.client(0).create_bucket(Bucket="ring")
        yield running


@pytest.mark.parametrize("cluster", [6], indirect=True)
def test_a_server_joins_and_takes_new_data(cluster):
    client = cluster.client(0)
    wait_well(cluster)  # a volume that still waits for its peers takes no map
    old = {f"old-{i}": client.put_object(Bucket="ring", Key=f"old-{i}", Body=bytes_of(f"old-{i}", 300_000))["ETag"] for i in range(10)}
    with Server(cluster, "joins", "--host", "h7", "--zone", "z9") as server:
        planned = penstock("ring", "what-if", "--cluster", cluster.data, "--add", "h7,zone=z9")
        assert "7 hosts" in planned and "4+2" in planned
        said = penstock(*add_words(cluster, server.address))
        assert "7 volumes, taken by 7 of them" in said and "old data stays" in said
        begin, count = time.monotonic(), 0
        while fragments_at(cluster, server.address) == 0:
            client.put_object(Bucket="ring", Key=f"new-{count}", Body=bytes_of(f"new-{count}", 300_000))
            count += 1
            assert time.monotonic() - begin < 5
        print(f"new data lay on the new server after {time.monotonic() - begin:.2f} s and {count} objects")
        shown = json.loads(penstock("ring", "show", "--json", "--cluster", cluster.data))
        entry = next(v for v in shown["volumes"] if v["address"] == server.address)
        assert (entry["host"], entry["zone"], entry["name"]) == ("h7", "z9", "v6")
        assert shown["epoch"] == 2 and shown["outlook"]["shares"][entry["id"]] > 0.1
        assert "Nothing to add" in penstock(*add_words(cluster, server.address))
        assert json.loads(penstock("ring", "show", "--json", "--cluster", cluster.data))["epoch"] == 2
        wait_well(cluster)
        for key, etag in old.items():
            answer = cluster.client(1).get_object(Bucket="ring", Key=key)
            assert answer["ETag"] == etag and answer["Body"].read() == bytes_of(key, 300_000)
        for i in range(count):
            assert cluster.client(1).get_object(Bucket="ring", Key=f"new-{i}")["Body"].read() == bytes_of(f"new-{i}", 300_000)
    assert ("server_away", "v6") in findings_of(cluster)


def test_an_add_that_was_killed_ends_when_said_again(cluster):
    epoch = epoch_of(cluster)
    where = cluster.info["map"].removeprefix("file:")
    with Server(cluster, "killed") as server:
        before = os.stat(where).st_ino
        adding = subprocess.Popen([BINARY, *add_words(cluster, server.address)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while os.stat(where).st_ino == before:  # the volumes get the map after the source has it
            assert adding.poll() is None
        adding.kill()
        print("the command was killed" if adding.wait() == -9 else "the command was faster than its killer")
        assert "Nothing to add" in penstock(*add_words(cluster, server.address))
        wait_for(lambda: "volume_behind" not in str(looked_at(cluster)["findings"]), "all that answer hold the map")
        assert epoch_of(cluster) == epoch + 1
        cluster.client(0).put_object(Bucket="ring", Key="after", Body=b"x" * 200_000)


def changed_by_hand(now, **more):
    """The next map, as a person writes it into the source."""
    after = {**json.loads(json.dumps(now)), **more, "epoch": now["epoch"] + 1}
    for group in after["groups"]:
        group["epoch"] = now["epoch"] + 1
    return after


def write_head(cluster, text):
    where = cluster.info["map"].removeprefix("file:")
    with open(where + ".next", "w") as out:
        json.dump(text, out)
    os.replace(where + ".next", where)


def test_make_forces_no_head_that_lacks_volumes(cluster):
    where = cluster.info["map"].removeprefix("file:")
    old = json.load(open(where))
    make = ["ring", "make", "--cluster", cluster.data]
    with Server(cluster, "lacking") as server:
        penstock(*add_words(cluster, server.address))
        wait_well(cluster)
        newest = json.load(open(where))
        for turn in range(3):  # the source came back older, and was changed until it was newer
            old = changed_by_hand(old)
        write_head(cluster, old)
        wait_for(lambda: ("source_lacks_volumes", "") in {(f["what"], f["volume"]) for f in looked_at(cluster)["findings"]}, "it is told")
        assert "ring restore" in penstock(*make, code=1)
        assert epoch_of(cluster) == newest["epoch"]
        penstock("ring", "restore", "--cluster", cluster.data)
        wait_well(cluster)
        assert {v["name"] for v in json.load(open(where))["volumes"]} == {v["name"] for v in newest["volumes"]}


def test_make_over_a_map_says_what_it_did_not_do(cluster):
    wait_well(cluster)
    make = ["ring", "make", "--cluster", cluster.data]
    assert "Map of 3 volumes" in penstock(*make)
    members = [word for s in cluster.info["servers"] for word in ("--server", s["address"])]
    assert "Map of 3 volumes" in penstock(*make, *members, "--layout", "1+2")
    refused = penstock(*make, "--layout", "2+1", code=1)
    assert "layout 1+2: it stays" in refused and "2+1 was not made" in refused
    with Server(cluster, "named") as server:
        refused = penstock(*make, *members, "--server", server.address, code=1)
        assert server.address in refused and "ring add" in refused
    assert epoch_of(cluster) == 1


def test_a_volume_that_the_map_lost_is_kept_and_can_be_written_back(cluster):
    client, where = cluster.client(0), cluster.info["map"].removeprefix("file:")
    with Server(cluster, "left-out", "--host", "h4") as server:
        penstock(*add_words(cluster, server.address))
        wait_well(cluster)
        bodies = {}
        while fragments_at(cluster, server.address) == 0:  # a gateway that is not connected to it yet writes elsewhere
            key = f"k{len(bodies)}"
            client.put_object(Bucket="ring", Key=key, Body=bodies.setdefault(key, bytes_of(key, 300_000)))
            assert len(bodies) < 500
        server.process.kill()
        server.process.wait()
        full = json.load(open(where))
        entry = next(v for v in full["volumes"] if v["address"] == server.address)
        rest = [v for v in full["volumes"] if v is not entry]
        leaves = changed_by_hand(full, volumes=[*rest, {**entry, "weight": 0, "successor": rest[0]["id"]}])
        write_head(cluster, leaves)
        wait_for(lambda: epoch_of(cluster) == leaves["epoch"], "they follow")
        wait_for(lambda: "volume_behind" not in str(looked_at(cluster)["findings"]), "all that answer hold the map")
        write_head(cluster, lost := changed_by_hand(leaves, volumes=rest))
        wait_for(lambda: "volume_behind" not in str(looked_at(cluster)["findings"]), "all that answer hold the map")
        with open(server.log_path, "ab") as log:
            server.process = subprocess.Popen([BINARY, *server.options], stdout=log, stderr=log)
        some = ["--key", cluster.info["key"], "--map", cluster.info["map"], "--servers", server.address]
        wait_for(lambda: "volume_not_in_the_map" in subprocess.run([BINARY, "ring", "status", "--json", *some], capture_output=True,
                                                                   text=True, timeout=60).stdout, "status tells of it")
        assert "Remove nothing" in penstock("ring", "status", *some, code=TROUBLE)
        refused = penstock(*add_words(cluster, server.address), code=1)
        assert "Remove nothing" in refused and "empty its directory" not in refused
        write_head(cluster, changed_by_hand(lost, volumes=[*rest, entry]))
        wait_well(cluster)
        for key, body in bodies.items():
            assert cluster.client(1).get_object(Bucket="ring", Key=key)["Body"].read() == body


def test_two_adds_at_once_both_succeed(cluster):
    epoch = epoch_of(cluster)
    with Server(cluster, "two-a") as first, Server(cluster, "two-b") as second:
        racing = [subprocess.Popen([BINARY, *add_words(cluster, s.address)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                  for s in (first, second)]
        said = [(p.communicate(timeout=90), p.returncode) for p in racing]
        for server, ((out, wrong), code) in zip((first, second), said):
            assert code == 0 and f"({server.address})" in out, (out, wrong)
        shown = json.loads(penstock("ring", "show", "--json", "--cluster", cluster.data))
        assert {first.address, second.address} <= {v["address"] for v in shown["volumes"]} and shown["epoch"] == epoch + 2


def test_what_cannot_join_is_refused(cluster):
    member = cluster.info["servers"][0]["address"]
    tries = [("Nothing to add", add_words(cluster, member), 0),
             ("refused", add_words(cluster, "127.0.0.1:1"), 1),  # after 15 s: it may be about to start
             ("--server", ["ring", "add", "--cluster", cluster.data], 1),
             ("--map", ["ring", "add", "--key", cluster.info["key"], "--server", member], 2),  # words are missing
             ("--key", ["ring", "show", "--servers", member], 1)]
    other = os.path.join(cluster.data, "other.key")
    penstock("admin", "keygen", other)
    begin = time.monotonic()
    assert "another cluster" in penstock("ring", "make", "--key", other, "--map", other + ".map", "--server", member, code=1)
    assert time.monotonic() - begin < 5  # it will say so again: there is nothing to wait for
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for (wanted, _, _), said in zip(tries, pool.map(lambda each: penstock(*each[1], code=each[2]), tries)):
            assert wanted in said
