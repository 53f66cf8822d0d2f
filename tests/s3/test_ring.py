"""`penstock ring` on the running store: a volume, lost or working, is replaced by a new one while clients go on."""
import hashlib
import json
import os
import shutil
import socket
import stat
import subprocess
import threading

import pytest

from store import BINARY, Store, make_client, wait_for

SIZES = [0, 100, 5_000, 200_000, 3_000_000, 9_000_000]


def body_of(key, size):
    seed = hashlib.sha256(key.encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


def ring(*arguments, timeout=180):
    return subprocess.run([BINARY, "ring", *arguments], capture_output=True, text=True, timeout=timeout)


def status(store):
    done = ring("status", store.directories[0], "--json")
    shown = json.loads(done.stdout)
    assert done.returncode == (0 if shown["whole"] and shown["writable"] else 4), done.stderr
    assert shown["ok"] == (done.returncode == 0)
    return shown


def replace(store, volume, new, *more):
    return ring("replace", store.directories[0], "--volume", volume, "--with", new, *more)


def wait_whole(store, seconds=120):
    wait_for(lambda: status(store)["change"] is None, "the replacement ends", seconds)
    assert status(store)["whole"], status(store)


class Load:
    """Objects of all sizes, a multipart one with more parts than a record holds, and writers that go on."""

    def __init__(self, store, bucket="ring"):
        self.store, self.bucket = store, bucket
        self.expected = {}
        self.stopping = threading.Event()
        self.errors = []
        make_client(store).create_bucket(Bucket=bucket)

    def put(self, key, size, client=None):
        (client or make_client(self.store)).put_object(Bucket=self.bucket, Key=key, Body=body_of(key, size))
        self.expected[key] = size

    def put_some(self, prefix):
        client = make_client(self.store)
        for size in SIZES:
            self.put(f"{prefix}/{size}", size, client)
        for number in range(40):
            self.put(f"{prefix}/small-{number}", 50, client)

    def put_parts(self, key, count=34, size=5 << 20):
        client = make_client(self.store)
        upload = client.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
        whole = body_of(key, count * size)
        parts = []
        for number in range(count):
            piece = whole[number * size:(number + 1) * size]
            answer = client.upload_part(Bucket=self.bucket, Key=key, UploadId=upload, PartNumber=number + 1, Body=piece)
            parts.append({"PartNumber": number + 1, "ETag": answer["ETag"]})
        client.complete_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
        self.expected[key] = count * size

    def run(self):
        client = make_client(self.store, retries={"max_attempts": 5, "mode": "standard"})
        number = 0
        while not self.stopping.is_set():
            key, size = f"during/{number}", SIZES[number % len(SIZES)]
            number += 1
            try:
                self.put(key, size, client)
                self.check_one(client, key)
            except Exception as error:  # told at the end, by the test
                self.errors.append(f"{key}: {error!r}")

    def start(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def stop(self):
        self.stopping.set()
        self.thread.join()

    def check_one(self, client, key):
        got = client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        assert got == body_of(key, self.expected[key]), f"{key}: other bytes"

    def check(self):
        client = make_client(self.store)
        for key in list(self.expected):
            self.check_one(client, key)
        listed = [entry["Key"] for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
                  for entry in page.get("Contents", [])]
        assert listed == sorted(self.expected), "the list differs"


def path_of(store, name):
    return next(volume["path"] for volume in status(store)["volumes"] if volume["name"] == name)


def lose(store, name):
    shutil.rmtree(path_of(store, name))
    wait_for(lambda: any(v["name"] == name and v["state"] != "open" for v in status(store)["volumes"]), f"{name} is lost")


def check_others_may_go(store, load, names):
    """The promise of a whole 4+2 store: any two volumes may be lost."""
    for name in names:
        lose(store, name)
    load.check()


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "working"])
def test_a_volume_is_replaced_under_load(fresh_store, tmp_path, lost):
    load = Load(fresh_store)
    load.put_some("before")
    load.put_parts("parts")
    if lost:
        lose(fresh_store, "v1")
        assert not status(fresh_store)["whole"]
        load.put_some("degraded")
    load.start()
    new = str(tmp_path / "new-disk")
    done = replace(fresh_store, "v1", new, "--wait")
    load.stop()
    assert done.returncode == 0, done.stderr
    assert "whole" in done.stdout
    assert load.errors == []
    wait_whole(fresh_store)
    names = [volume["name"] for volume in status(fresh_store)["volumes"]]
    assert "v1" not in names and "v6" in names
    assert "\nwhole\n" in fresh_store.admin("/readyz")[1]
    assert fresh_store.metric("penstock_ring_whole") == 1
    assert fresh_store.metric("penstock_ring_fragments_moved_total") > 0
    load.put_some("after")
    load.check()
    check_others_may_go(fresh_store, load, ["v0", "v3"])


def test_a_replacement_goes_on_after_kill_9(fresh_store, tmp_path):
    load = Load(fresh_store)
    load.put_some("before")
    lose(fresh_store, "v2")
    done = replace(fresh_store, "v2", str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr
    for _ in range(4):
        fresh_store.kill()
        fresh_store.start()
        change = status(fresh_store)["change"]
        if change is None:
            break
        assert change["leaving"] == "v2" and change["joining"] == "v6"
    load.put_some("during")
    wait_whole(fresh_store)
    assert os.path.samefile(path_of(fresh_store, "v6"), tmp_path / "new")
    fresh_store.stop()
    fresh_store.start()
    assert status(fresh_store)["whole"]
    load.check()
    check_others_may_go(fresh_store, load, ["v4", "v5"])


def test_a_disk_is_swapped_in_place(fresh_store):
    load = Load(fresh_store)
    load.put_some("before")
    place = path_of(fresh_store, "v3")
    lose(fresh_store, "v3")
    os.mkdir(place)  # a fresh disk in the old one's place: still a missing volume
    assert not status(fresh_store)["whole"]
    fresh_store.stop()
    fresh_store.start()
    assert not status(fresh_store)["whole"]
    done = replace(fresh_store, "v3", place, "--wait")
    assert done.returncode == 0, done.stderr
    wait_whole(fresh_store)
    fresh_store.stop()
    fresh_store.start()
    assert status(fresh_store)["whole"]
    load.check()
    check_others_may_go(fresh_store, load, ["v0", "v1"])


def test_a_replaced_volume_never_comes_back(fresh_store, tmp_path):
    load = Load(fresh_store)
    load.put_some("before")
    old = path_of(fresh_store, "v0")
    assert replace(fresh_store, old, str(tmp_path / "new"), "--wait").returncode == 0
    load.put_some("after")
    fresh_store.stop()
    fresh_store.start()
    names = [volume["name"] for volume in status(fresh_store)["volumes"]]
    assert sorted(names) == ["v1", "v2", "v3", "v4", "v5", "v6"]
    refused = replace(fresh_store, "v1", old)
    assert refused.returncode == 1
    assert "is a volume already" in refused.stderr and "empty" in refused.stderr
    assert status(fresh_store)["change"] is None
    load.check()


def test_volumes_on_directories_of_their_own(tmp_path):
    folders = [str(tmp_path / f"disk{number}") for number in range(6)]
    with Store(str(tmp_path), volumes=folders) as store:
        load = Load(store)
        load.put_some("before")
        done = replace(store, folders[4], str(tmp_path / "disk9"), "--wait")
        assert done.returncode == 0, done.stderr
        store.stop()
        shutil.rmtree(folders[4])
        store.start()
        wait_whole(store)
        load.check()


def test_a_store_outlives_all_its_first_volumes(fresh_store, tmp_path):
    load = Load(fresh_store)
    load.put_some("before")
    for number in range(6):
        done = replace(fresh_store, f"v{number}", str(tmp_path / f"disk{number}"), "--wait")
        assert done.returncode == 0, done.stderr
    fresh_store.stop()
    fresh_store.start()
    for number in range(6):
        shutil.rmtree(fresh_store.volume(number))
    fresh_store.stop()
    identity = tmp_path / "disk5" / "volume.json"
    identity.write_text(identity.read_text().replace("penstock", "penstick"))
    (tmp_path / "disk4").rename(tmp_path / "away")
    fresh_store.start()
    states = {volume["path"]: volume["state"] for volume in status(fresh_store)["volumes"]}
    assert states == {str(tmp_path / f"disk{number}"): ["open", "open", "open", "open", "missing", "closed"][number]
                      for number in range(6)}
    load.check()


def test_within_a_volume_no_store_is_made(fresh_store, tmp_path):
    volume = fresh_store.volume(2)
    before = sorted(os.listdir(volume))
    other = Store(str(tmp_path), volumes=[volume])
    other.start(wait=False)
    assert other.process.wait(timeout=30) == 1
    assert "is one volume of a store" in other.log()
    assert sorted(os.listdir(volume)) == before
    asked = ring("status", volume)
    assert asked.returncode == 1 and "it is one volume of a store" in asked.stderr


def test_a_copy_of_a_store_has_volumes_of_its_own(fresh_store, tmp_path):
    """Below DIR they go with it; one that lies elsewhere is not used by two stores."""
    data, copied, elsewhere = fresh_store.data, str(tmp_path / "copy"), str(tmp_path / "elsewhere")

    def copy():
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(data, copied)

    def of(directory):
        return Store(str(tmp_path), volumes=[directory])

    s3 = make_client(fresh_store)
    s3.create_bucket(Bucket="kept")
    s3.put_object(Bucket="kept", Key="k", Body=b"original")
    assert replace(fresh_store, "v1", os.path.join(data, "w1"), "--wait").returncode == 0
    assert fresh_store.stop() == 0
    copy()
    with of(copied) as other:
        assert {os.path.dirname(v["path"]) for v in status(other)["volumes"]} == {copied}
        make_client(other).put_object(Bucket="kept", Key="k", Body=b"copy")
        assert other.stop() == 0
    fresh_store.start()
    assert status(fresh_store)["whole"] and s3.get_object(Bucket="kept", Key="k")["Body"].read() == b"original"
    assert replace(fresh_store, "v2", elsewhere, "--wait").returncode == 0
    assert fresh_store.stop() == 0
    copy()
    refused = of(copied)
    refused.start(wait=False)
    assert refused.process.wait(timeout=60) == 1
    assert "is a copy of that" in refused.log() and copied in refused.log(), refused.log()
    fresh_store.start()
    assert status(fresh_store)["whole"]
    assert fresh_store.stop() == 0
    # Where the original is away an old copy opens that volume, too, but it is no home of it.
    aside = str(tmp_path / "aside")
    os.rename(data, aside)
    old = of(copied)
    old.start(wait=False)
    wait_for(lambda: old.admin("/readyz")[0] != 0, "an answer")
    assert old.admin("/readyz")[0] == 503 and "old copy" in old.log(), old.log()
    old.kill()
    os.rename(aside, data)
    fresh_store.start()
    assert status(fresh_store)["whole"]
    assert fresh_store.stop() == 0
    shutil.rmtree(copied)
    os.rename(data, copied)
    with of(copied) as moved:
        assert status(moved)["whole"] and make_client(moved).get_object(Bucket="kept", Key="k")["Body"].read() == b"original"
        assert moved.stop() == 0


def test_a_copy_with_links_to_the_originals_volumes_is_refused(fresh_store, tmp_path):
    """One disk a volume, linked into DIR, and a DIR that is started under another name, which is gone later."""
    data, copied, link = fresh_store.data, str(tmp_path / "copy"), str(tmp_path / "link")
    s3 = make_client(fresh_store)
    s3.create_bucket(Bucket="kept")
    s3.put_object(Bucket="kept", Key="k", Body=b"original")
    assert fresh_store.stop() == 0
    shutil.move(fresh_store.volume(3), tmp_path / "disk3")
    os.symlink(tmp_path / "disk3", fresh_store.volume(3))
    os.symlink(data, link)
    fresh_store.directories = [link]
    fresh_store.start()
    assert status(fresh_store)["whole"] and fresh_store.stop() == 0
    os.remove(link)
    shutil.copytree(data, copied, symlinks=True)
    for place in (copied, link):
        if place == link:
            os.symlink(copied, link)
        refused = Store(str(tmp_path), volumes=[place])
        refused.start(wait=False)
        assert refused.process.wait(timeout=60) == 1
        assert "is a copy of that" in refused.log(), refused.log()
        os.remove(refused.log_path)
    fresh_store.directories = [data]
    fresh_store.start()
    assert status(fresh_store)["whole"] and s3.get_object(Bucket="kept", Key="k")["Body"].read() == b"original"
    assert fresh_store.stop() == 0
    # Other names of all its volumes are no copy.
    names = tmp_path / "names"
    names.mkdir()
    for number in range(6):
        os.symlink(fresh_store.volume(number), names / f"v{number}")
    with Store(str(tmp_path), volumes=[str(names)]) as other:
        assert status(other)["whole"] and make_client(other).get_object(Bucket="kept", Key="k")["Body"].read() == b"original"
        assert other.stop() == 0


def test_wrong_requests_say_what_to_do(fresh_store, tmp_path):
    new = str(tmp_path / "new")
    os.symlink(path_of(fresh_store, "v2"), tmp_path / "way")
    (tmp_path / "replaced").mkdir()
    (tmp_path / "replaced" / "volume.json").write_text("{}")
    cases = [
        (replace(fresh_store, "v1", str(tmp_path / "way" / "new")), "lies within the volume"),
        (replace(fresh_store, "v1", str(tmp_path / "replaced" / "a" / "b")), "lies within the volume"),
        (replace(fresh_store, "v1", os.path.join(path_of(fresh_store, "v2"), "files", "aa")), "lies within the volume"),
        (replace(fresh_store, "v1", fresh_store.data), "lie within each other"),
        (replace(fresh_store, "v9", new), "there are: v0 v1 v2 v3 v4 v5"),
        (replace(fresh_store, "v1", path_of(fresh_store, "v2")), "is volume v2 of this store"),
        (ring("status", str(tmp_path)), "start it with `penstock local"),
        (ring("status", str(tmp_path / "nowhere")), "cannot open"),
    ]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "holiday.jpg").write_text("dear to somebody")
    cases.append((replace(fresh_store, "v1", str(tmp_path / "full")), "is not empty: it holds holiday.jpg"))
    for done, text in cases:
        assert done.returncode == 1
        assert text in done.stderr
    assert (tmp_path / "full" / "holiday.jpg").read_text() == "dear to somebody"
    assert status(fresh_store)["whole"]
    assert "Example" in ring("replace", "--help").stdout


def test_the_control_socket_is_its_owners_and_bounded(fresh_store):
    path = os.path.join(fresh_store.directories[0], "control.sock")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    for question, answered in [(b"nonsense\n", True), (b'{"op":"dance"}\n', True), (b"x" * 10_000, False)]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(20)
            connection.connect(path)
            try:
                connection.sendall(question)
                answer = connection.recv(65536)
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
            assert bool(answer) == answered
            if answered:
                assert json.loads(answer)["ok"] is False
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(path)
        assert status(fresh_store)["ok"]
    assert fresh_store.stop() == 0
    assert not os.path.exists(path)
