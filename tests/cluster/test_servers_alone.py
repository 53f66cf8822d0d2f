"""Servers that start alone: old copies that are put back, failures that are remembered, starts of all at once, other addresses."""
import json
import os
import random
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from processes import Cluster, Load
from store import BINARY, CONFIG, ROOT, wait_for, write_private

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 30)))


@pytest.fixture(scope="module")
def cluster():
    print(f"PENSTOCK_TEST_SEED={SEED}")
    with Cluster(servers=6, gateways=2) as running:
        running.wait_whole()
        running.client(0).create_bucket(Bucket="load")
        yield running


def stop(cluster, *names, number="TERM"):
    for name in names:
        cluster.run("kill", name, number)
    for name in names:
        wait_for(lambda: not cluster.runs(name), f"{name} ends")


def start(cluster, *names):
    for name in names:
        cluster.run("start", name)


def volume_of(cluster, name):
    return cluster.find(name)["volumes"][0]["path"]


def change(cluster, name, make):
    """What cluster.json says of a process, for its next start."""
    info = cluster.info
    make(next(p for p in info["servers"] + info["gateways"] if p["name"] == name))
    write_private(os.path.join(cluster.data, "cluster.json"), json.dumps(info, indent=2))


def free_ports():
    import socket
    while True:
        port = random.randrange(10_000, 32_000, 2)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port, port + 1


def move(cluster, name, *words):
    """Its next start listens elsewhere; the map names the old address still."""
    port, admin = free_ports()

    def make(process):
        command = process["command"]
        command[command.index("--listen") + 1] = process["address"] = f"127.0.0.1:{port}"
        command[command.index("--admin-listen") + 1] = f"127.0.0.1:{admin}"
        process["admin"] = f"http://127.0.0.1:{admin}"
        command[command.index("--key"):command.index("--key")] = words

    change(cluster, name, make)


def asked(cluster, name):
    """/readyz: its status and its text."""
    try:
        with urllib.request.urlopen(cluster.find(name)["admin"] + "/readyz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, f"no answer: {error}"


def seconds_until_whole(cluster):
    begin = time.monotonic()
    cluster.wait_whole()
    return time.monotonic() - begin


# First: while the cluster of all others is not there yet, it needs less of the disk.
def test_a_failure_is_remembered_by_the_others(tmp_path):
    library, control = str(tmp_path / "faulty_io.so"), str(tmp_path / "control")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", library, os.path.join(ROOT, "tests", "s3", "faulty_io.c"), "-ldl"],
                   check=True)
    with Cluster(servers=3, gateways=1) as cluster:
        cluster.wait_whole()
        cluster.client(0).create_bucket(Bucket="load")
        stop(cluster, "s2")
        environment = dict(os.environ, LD_PRELOAD=library, FAULTY_IO_CONTROL=control)
        log = open(os.path.join(cluster.data, "s2.log"), "ab")
        faulty = subprocess.Popen([BINARY, *cluster.find("s2")["command"][1:]], env=environment, stderr=log, cwd=cluster.data)
        try:
            cluster.wait_whole()
            with Load(cluster, "load", f"{SEED}-failed") as load:
                load.goes_on()
                with open(control + ".new", "w") as file:
                    file.write(volume_of(cluster, "s2") + "\n")
                os.rename(control + ".new", control)
                wait_for(lambda: "degraded: 1 of 3" in cluster.ready("g1") or "critical: 1 of 3" in cluster.ready("g1"),
                         "the volume of s2 is closed")
                wait_for(lambda: "event=volume_lost" in open(log.name).read(), "s2 has noticed it, and tells the others")
                load.goes_on()
        finally:
            faulty.terminate()
            faulty.wait(60)
        start(cluster, "s2")  # its disk answers again
        wait_for(lambda: "it failed since the machine was booted" in cluster.ready("s2"), "s2 stays out")
        assert load.failed_reads == [] and load.wrong == []
        load.check_all()


def test_volumes_that_cannot_be_opened_are_named_and_their_server_stays(tmp_path):
    with Cluster(servers=3, gateways=1, volumes=2) as cluster:
        cluster.wait_whole()
        paths = [volume["path"] for volume in cluster.find("s2")["volumes"]]
        current = [os.path.join(path, "db", "CURRENT") for path in paths]
        kept = {}

        def damage(file):
            with open(file) as whole:
                kept[file] = whole.read()
            os.truncate(file, 0)

        stop(cluster, "s2")
        damage(current[0])
        start(cluster, "s2")
        wait_for(lambda: asked(cluster, "s2")[0] == 200, "s2 serves its other volume")
        said = asked(cluster, "s2")[1]
        assert "degraded: 1 of 2 volumes are not open" in said and os.path.basename(paths[0]) in said, said
        stop(cluster, "s2")
        damage(current[1])
        start(cluster, "s2")
        wait_for(lambda: asked(cluster, "s2")[0] == 503, "s2 is there, and not ready")
        said = asked(cluster, "s2")[1]
        assert said.startswith("not ready: no volume is open: ") and "start the server again" in said, said
        wait_for(lambda: "critical" in cluster.ready("g1") or "degraded" in cluster.ready("g1"), "its volumes are missed")
        words = [BINARY, "ring", "status", "--json", "--cluster", cluster.data]
        found = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=60).stdout)["findings"]
        meanings = [f["meaning"] for f in found if f["what"] == "volume_missing"]
        assert len(meanings) == 2 and all("start the server again" in m and os.path.basename(paths[0]) in m for m in meanings), found
        assert cluster.runs("s2") and "event=volume_lost" in cluster.log("s2")
        stop(cluster, "s2")
        for file, text in kept.items():
            with open(file, "w") as whole:
                whole.write(text)
        start(cluster, "s2")
        cluster.wait_whole()


def can_mount():
    probe = "mount -t tmpfs none /mnt"
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", probe], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="no mounts in a namespace of one's own here")
def test_no_volume_is_made_of_a_mount_point_whose_disk_is_missing(tmp_path):
    key, settings, log = (str(tmp_path / name) for name in ("key", "settings", "log"))
    subprocess.run([BINARY, "admin", "keygen", key], check=True, stdout=subprocess.DEVNULL)
    write_private(settings, json.dumps(CONFIG))
    folders = [str(tmp_path / f"d{i}") for i in range(3)]
    for folder in folders:
        os.mkdir(folder)
    mounts = "; ".join(f"mount -t tmpfs none {folder}" for folder in folders[:2])
    port, admin = free_ports()
    server = f"{BINARY} server --key {key} --config {settings} --listen 127.0.0.1:{port} --admin-listen 127.0.0.1:{admin} --format"
    script = f"{mounts}; exec {server} {' '.join(folders)}"
    with open(log, "wb") as out:
        process = subprocess.Popen(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script], stdout=out, stderr=out)
    try:
        wait_for(lambda: "server_ready" in open(log).read() or process.poll() is not None, "it serves the others")
        said = open(log).read()
        assert process.poll() is None and said.count("event=volume_format") == 2, said
        assert "not mounted" in next(line for line in said.splitlines() if "event=volume_lost" in line and folders[2] in line)
        assert os.listdir(folders[2]) == []
    finally:
        process.terminate()
        process.wait(60)


def test_an_old_copy_is_refused(cluster, tmp_path):
    old, newest, place = str(tmp_path / "old"), str(tmp_path / "newest"), volume_of(cluster, "s1")
    stop(cluster, "s1")
    shutil.copytree(place, old)
    start(cluster, "s1")
    cluster.wait_whole()
    with Load(cluster, "load", f"{SEED}-old") as load:
        load.goes_on(writes=10)
    assert load.failed_reads == [] and load.failed_writes == [] and load.wrong == []
    stop(cluster, "s1")
    os.rename(place, newest)
    for dead in ((), ("s2", "s5")):  # as many as may be lost
        stop(cluster, *dead, number="KILL")
        shutil.copytree(old, place)
        start(cluster, "s1")
        wait_for(lambda: "it is an old copy: this would be its start number 2, but v" in cluster.ready("s1"), "s1 refuses its copy")
        start(cluster, *dead)
        wait_for(lambda: cluster.ready("g1").startswith("ready\ndegraded: 1 of 6"), "the others serve")
        stop(cluster, "s1")
        shutil.rmtree(place)
    assert "volume_refused" in cluster.log("s1")
    load.check_all()
    os.rename(newest, place)
    start(cluster, "s1")
    cluster.wait_whole()
    load.check_all()


def test_one_alone_waits_and_says_for_whom(cluster):
    names = cluster.names("servers")
    stop(cluster, *names, number="KILL")
    start(cluster, "s4")
    wait_for(lambda: "waits for 3 of 5 other volumes" in cluster.ready("s4"), "s4 says what it waits for")
    status, said = asked(cluster, "s4")
    assert status == 503 and said.startswith("not ready: no volume is open: "), said
    address = cluster.find("s1")["address"]
    assert "closed" in said and f"v0 at {address}" in said, said
    others = [n for n in names if n != "s4"]
    start(cluster, *others)
    cluster.wait_whole()


def test_all_start_at_once(cluster):
    with Load(cluster, "load", f"{SEED}-all") as load:
        load.goes_on()
    names = cluster.names("servers")
    for _ in range(3):
        stop(cluster, *names, number="KILL")
        start(cluster, *names)
        seconds = seconds_until_whole(cluster)
        print(f"all killed and started: whole {seconds:.2f} s after the last start")
        assert seconds < 5
    load.check_all()


def test_a_server_is_admitted_at_once_beside_others(cluster):
    for name in ("s2", "s5"):
        stop(cluster, name, number="KILL")
        start(cluster, name)
        seconds = seconds_until_whole(cluster)
        print(f"{name} killed and started: whole {seconds:.2f} s after its start")
        assert seconds < 4


def test_a_server_is_found_at_another_address(cluster, tmp_path):
    old = cluster.find("s3")["address"]
    with Load(cluster, "load", f"{SEED}-moved") as load:
        load.goes_on()
        stop(cluster, "s3")
        move(cluster, "s3")
        start(cluster, "s3")
        seconds = seconds_until_whole(cluster)
        print(f"s3 moved from {old} to {cluster.find('s3')['address']}: found {seconds:.2f} s after its start")
        load.goes_on()
        # Another server at the old address, with another volume: nobody takes it for s3.
        other = subprocess.Popen([BINARY, "server", "--key", cluster.info["key"], "--listen", old, "--admin-listen", "127.0.0.1:0",
                                  "--format", str(tmp_path / "other")], stderr=subprocess.DEVNULL)
        try:
            load.goes_on(reads=60, writes=10)
            cluster.wait_whole()
            stop(cluster, "s3", number="KILL")
            wait_for(lambda: "degraded: 1 of 6" in cluster.ready("g1"), "the volume of s3 is missed")
            load.goes_on()
            start(cluster, "s3")
            cluster.wait_whole()
        finally:
            other.terminate()
            other.wait(30)
    # A gateway that starts now has only the old address.
    stop(cluster, "g2", number="KILL")
    start(cluster, "g2")
    cluster.wait_whole()
    assert load.failed_reads == [] and load.wrong == []
    assert seconds < 4
    load.check_all()
    address = cluster.find("s3")["address"]
    status = [BINARY, "ring", "status", "--key", cluster.info["key"], "--servers", cluster.find("s1")["address"]]
    done = subprocess.run(status, capture_output=True, text=True, timeout=60)
    assert f"`penstock ring add --server {address}`" in done.stdout and done.returncode == 4, (done.stdout, done.stderr)
    adding = [BINARY, "ring", "add", "--cluster", cluster.data, "--server", address]
    for wanted in (f"Moved: v2 is served at {address} now\n", "Nothing to add"):
        done = subprocess.run(adding, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0 and done.stdout.startswith(wanted), (done.stdout, done.stderr)
    shown = subprocess.run([BINARY, "ring", "show", "--json", "--cluster", cluster.data], capture_output=True, text=True, timeout=60)
    assert [v["address"] for v in json.loads(shown.stdout)["volumes"] if v["name"] == "v2"] == [address]
    cluster.wait_whole()


def test_servers_that_all_moved_find_each_other(cluster):
    names = cluster.names("servers")
    stop(cluster, *names, number="KILL")
    move(cluster, names[0])
    first = cluster.find(names[0])["address"]
    for name in names[1:]:
        move(cluster, name, "--peers", first)
    start(cluster, *names)
    for name in names:
        wait_for(lambda: " open" in cluster.ready(name) and "closed" not in cluster.ready(name), f"{name} is admitted")
