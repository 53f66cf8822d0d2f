"""Servers and gateways as processes of their own: what one gateway wrote all see; servers are killed, paused, started again."""
import itertools
import json
import os
import random
import subprocess
import threading
import time

import pytest

from processes import Cluster, Load, bytes_of
from store import BINARY, wait_for, write_private

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 30)))


@pytest.fixture(scope="module")
def cluster():
    print(f"PENSTOCK_TEST_SEED={SEED}")
    with Cluster(servers=6, gateways=3) as running:
        yield running


def make_bucket(cluster, name):
    cluster.wait_whole()
    cluster.client(0).create_bucket(Bucket=name)
    return name


def test_all_gateways_serve_one_store(cluster):
    bucket = make_bucket(cluster, "one-store")
    first, second, third = (cluster.client(i) for i in range(3))
    body = bytes_of("big", 3_000_000)
    etag = first.put_object(Bucket=bucket, Key="big", Body=body)["ETag"]
    answer = second.get_object(Bucket=bucket, Key="big", Range="bytes=1000000-1000099")
    assert answer["ETag"] == etag and answer["Body"].read() == body[1_000_000:1_000_100]
    upload = first.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    pieces = [bytes_of(f"part {i}", 5 << 20) for i in range(2)] + [b"end"]
    parts = []
    for number, (client, piece) in enumerate(zip((first, second, third), pieces), 1):
        tag = client.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=number, Body=piece)["ETag"]
        parts.append({"PartNumber": number, "ETag": tag})
    assert [p["ETag"] for p in third.list_parts(Bucket=bucket, Key="parts", UploadId=upload)["Parts"]] == [p["ETag"] for p in parts]
    second.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
    assert third.get_object(Bucket=bucket, Key="parts")["Body"].read() == b"".join(pieces)
    page = first.list_objects_v2(Bucket=bucket, MaxKeys=1)
    rest = third.list_objects_v2(Bucket=bucket, ContinuationToken=page["NextContinuationToken"])
    assert [o["Key"] for o in page["Contents"] + rest["Contents"]] == ["big", "parts"]
    first.delete_object(Bucket=bucket, Key="big")
    assert "big" not in str(second.list_objects_v2(Bucket=bucket)["Contents"])


def test_one_winner_among_gateways(cluster):
    bucket = make_bucket(cluster, "race")
    clients = [cluster.client(i % 3) for i in range(12)]
    for turn in range(20):
        start, winners = threading.Barrier(len(clients)), []

        def race(number):
            start.wait()
            try:
                clients[number].put_object(Bucket=bucket, Key=f"lock-{turn}", Body=str(number).encode(), IfNoneMatch="*")
                winners.append(number)
            except clients[number].exceptions.ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (412, 409), error

        threads = [threading.Thread(target=race, args=(n,)) for n in range(len(clients))]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert len(winners) == 1
        assert clients[turn % 3].get_object(Bucket=bucket, Key=f"lock-{turn}")["Body"].read() == str(winners[0]).encode()


def test_any_two_servers_may_die(cluster, nightly):
    bucket = make_bucket(cluster, "pairs")
    pairs = list(itertools.combinations(cluster.names("servers"), 2))
    if not nightly:
        pairs = random.Random(SEED).sample(pairs, 3)
    # What is written while two are dead survives no others: each pair has its own objects.
    for pair in pairs:
        with Load(cluster, bucket, f"{SEED}-{pair}") as load:
            for name in pair:
                cluster.run("kill", name)
            load.goes_on()
            for name in pair:
                cluster.run("start", name)
            cluster.wait_whole()
        print(f"{pair}: {load.reads} reads, {load.writes} writes, {len(load.failed_writes)} of them failed")
        assert load.failed_reads == [] and load.wrong == []
        load.check_all()


def test_a_paused_server_holds_up_nobody(cluster):
    bucket = make_bucket(cluster, "paused")
    with Load(cluster, bucket, SEED) as load:
        cluster.run("pause", "s3")
        load.goes_on(reads=40, writes=8)
        begin = time.monotonic()
        load.goes_on(reads=40, writes=8)
        print(f"40 reads and 8 writes beside a paused server: {time.monotonic() - begin:.2f} s")
        cluster.run("resume", "s3")
        cluster.wait_whole()
        load.goes_on()
    assert load.failed_reads == [] and load.wrong == []
    load.check_all()


def test_a_rolling_restart_fails_nothing(cluster):
    bucket = make_bucket(cluster, "rolling")
    with Load(cluster, bucket, SEED, retries=5) as load:
        for name in cluster.names("servers") + cluster.names("gateways"):
            cluster.run("kill", name, "TERM")
            wait_for(lambda: not cluster.runs(name), f"{name} ends")
            cluster.run("start", name)
            cluster.wait_whole()
        load.goes_on()
    assert load.failed_reads == [] and load.failed_writes == [] and load.wrong == []
    load.check_all()


def test_all_killed_at_once(cluster, nightly):
    bucket = make_bucket(cluster, "all-killed")
    for turn in range(20 if nightly else 2):
        with Load(cluster, bucket, f"{SEED}-{turn}") as load:
            load.goes_on()
            for process in cluster.processes():
                os.kill(process["pid"], 9)
        wait_for(lambda: not any(cluster.runs(p["name"]) for p in cluster.processes()), "all have ended")
        cluster.up()
        cluster.wait_whole()
        assert load.wrong == []
        load.check_all()


def test_a_process_with_another_key_is_refused(cluster, tmp_path):
    key = str(tmp_path / "other.key")
    subprocess.run([BINARY, "admin", "keygen", key], check=True, stdout=subprocess.DEVNULL)
    with open(cluster.info["key"]) as file:
        right = json.load(file)
    with open(key) as file:
        other = json.load(file)
    write_private(key, json.dumps({"cluster": right["cluster"], "key": other["key"]}))
    address = cluster.find("s1")["address"]
    made = subprocess.run([BINARY, "ring", "make", "--key", key, "--map", str(tmp_path / "map.json"), "--server", address],
                          capture_output=True, text=True, timeout=60)
    assert made.returncode == 1 and "cluster key" in made.stderr
    assert "another cluster key" in next(line for line in cluster.log("s1").splitlines() if "peer_refused" in line)
    # A server with that key, as after a key file was copied to the wrong machine.
    words = cluster.find("s2")["command"]
    cluster.run("kill", "s2")
    with open(tmp_path / "log", "wb") as log:
        wrong = subprocess.Popen([BINARY, *(key if w == cluster.info["key"] else w for w in words[1:])], stdout=log, stderr=log)

    def tells_reason():
        assert wrong.poll() is None, (tmp_path / "log").read_text()
        return "another cluster key" in cluster.ready("s2")

    try:
        wait_for(tells_reason, "its /readyz names the reason")
        time.sleep(3)
        told = [line for line in (tmp_path / "log").read_text().splitlines() if "server_refused" in line]
        assert len(told) == len(cluster.names("servers")) - 1 and all("another cluster key" in line for line in told)
    finally:
        wrong.kill()
        wrong.wait()
    cluster.run("start", "s2")
    cluster.wait_whole()


def test_wrong_use_is_told(cluster, tmp_path):
    def run(*words):
        done = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1, (words, done)
        return done.stderr

    key, where = cluster.info["key"], cluster.info["map"].removeprefix("file:")
    empty = str(tmp_path / "empty")
    os.mkdir(empty)
    assert "--format" in run("server", "--key", key, "--listen", "127.0.0.1:0", empty)
    assert "no file" in run("server", "--key", "/dev/null", empty)
    assert "keygen" in run("server", "--key", cluster.accounts, empty)
    assert "ring make" in run("gateway", "--key", key, "--map", str(tmp_path / "none"), "--credentials", cluster.accounts)
    fresh = run("ring", "make", "--key", key, "--map", str(tmp_path / "second"), "--server", cluster.find("s1")["address"])
    assert "already" in fresh and not os.path.exists(tmp_path / "second")
    subprocess.run([BINARY, "ring", "make", "--key", key, "--map", where], check=True, stdout=subprocess.DEVNULL)
    assert "already" in run("admin", "keygen", key)
