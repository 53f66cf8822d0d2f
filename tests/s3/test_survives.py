"""Volumes are lost, emptied, damaged or fail under load: reads stay right, writes go on, and the store says what is lost."""
import os
import random
import shutil
import subprocess
import tempfile
import threading

import pytest
from botocore.exceptions import ClientError

from conftest import make_client
from store import Store, wait_for

SIZES = [0, 100, 4096, 5000, 100_000, 131_073, 1_000_000, 9_000_000]


class Load:
    """Writers and readers in threads; every acknowledged body is remembered and checked."""

    def __init__(self, store, bucket, threads=4):
        self.store, self.bucket, self.kept, self.errors = store, bucket, {}, []
        self.stopping, self.writes, self.reads = threading.Event(), 0, 0
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(threads)]
        self.count_lock = threading.Lock()

    def run(self, number):
        # An upload that loses two volumes at one moment is refused; clients come again. Reads need no second try.
        s3 = make_client(self.store, retries={"mode": "standard", "max_attempts": 3})
        reader = make_client(self.store, response_checksum_validation="when_required")  # check() tells more
        dice, mine = random.Random(number), {}
        i = 0
        while not self.stopping.is_set():
            try:
                key = f"w{number}/{i % 40}"
                body = dice.randbytes(dice.choice(SIZES))
                s3.put_object(Bucket=self.bucket, Key=key, Body=body)
                mine[key] = body
                read = dice.choice(list(mine))
                self.check(reader, read, mine[read])
                with self.count_lock:
                    self.writes, self.reads = self.writes + 1, self.reads + 1
            except Exception as error:  # every failure is told at the end
                self.errors.append(f"{type(error).__name__}: {error}"[:300])
                if len(self.errors) > 20:
                    break
            i += 1
        self.kept.update(mine)

    def check(self, s3, key, body):
        """Reads `key` and says where it differs, and if it does so again."""
        answer = s3.get_object(Bucket=self.bucket, Key=key)
        got = answer["Body"].read()
        if got == body:
            return
        differ = [i for i, (a, b) in enumerate(zip(got, body)) if a != b]
        again = s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() == body
        raise AssertionError(f"wrong bytes of {key}: {len(got)} for {len(body)}, {len(differ)} differ in {differ[:1]}..{differ[-1:]}, "
                             f"right the second time: {again}, ETag {answer['ETag']}, request {answer['ResponseMetadata']['RequestId']}")

    def progress(self, count):
        """Waits until `count` more writes have succeeded."""
        goal = self.writes + count
        wait_for(lambda: self.writes >= goal or len(self.errors) > 20, f"{count} more writes", 60)

    def __enter__(self):
        [t.start() for t in self.threads]
        return self

    def __exit__(self, *error):
        self.stopping.set()
        [t.join() for t in self.threads]

    def check_all(self, s3):
        for key, body in self.kept.items():
            assert s3.get_object(Bucket=self.bucket, Key=key)["Body"].read() == body, key
        listed = {}
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            listed.update((e["Key"], e["Size"]) for e in page.get("Contents", []))
        assert listed == {k: len(b) for k, b in self.kept.items()}


def delete(store, index):
    shutil.rmtree(store.volume(index))


def replace_by_empty(store, index):
    shutil.rmtree(store.volume(index))
    os.mkdir(store.volume(index))


def flip_bits(store, index):
    dice = random.Random(index)
    for folder, _, names in os.walk(store.volume(index)):
        for name in names:
            path = os.path.join(folder, name)
            size = os.path.getsize(path)
            if name == "LOCK" or size == 0:
                continue
            with open(path, "r+b") as f:
                for _ in range(64 + size // 4096 if size < (8 << 20) else 4096):
                    at = dice.randrange(size)
                    f.seek(at)
                    byte = f.read(1)
                    if byte:
                        f.seek(at)
                        f.write(bytes([byte[0] ^ (1 << dice.randrange(8))]))


def fail_io(store, index):
    with open(os.path.join(store.directory, "control"), "a") as f:
        f.write(store.volume(index) + "\n")


@pytest.fixture(scope="module")
def shim():
    source = os.path.join(os.path.dirname(__file__), "faulty_io.c")
    with tempfile.TemporaryDirectory() as directory:
        library = os.path.join(directory, "faulty_io.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", library, source, "-ldl"], check=True)
        yield library


def started(directory, shim=None):
    environment = {"FAULTY_IO_CONTROL": os.path.join(directory, "control")}
    return Store(directory, preload=shim, environment=environment)


@pytest.mark.parametrize("harm", [delete, replace_by_empty, flip_bits, fail_io])
@pytest.mark.parametrize("victims", [(0,), (1, 4), (5, 2)])
def test_one_or_two_of_six(harm, victims, shim, long_mode):
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory, started(directory, shim if harm is fail_io else None) as store:
        s3 = make_client(store)
        s3.create_bucket(Bucket="load")
        with Load(store, "load") as load:
            load.progress(60)
            for victim in victims:
                harm(store, victim)
                load.progress(40)
            load.progress(200 if long_mode else 40)
        assert not load.errors, load.errors[:3]
        load.check_all(s3)
        assert store.process.poll() is None
        if harm is not flip_bits:  # flipped bits show when they are read
            wait_for(lambda: store.metric('penstock_volumes{state="open"}') == 6 - len(victims), "metrics tell the loss")
            status, text = store.admin("/readyz")
            assert status == 200
            for victim in victims:
                assert any(line.startswith((f"v{victim} missing", f"v{victim} closed")) for line in text.splitlines()), text
                assert f"v{victim}" in store.log()
        # After a restart the same is true.
        store.stop()
        with_control = os.path.join(directory, "control")
        if os.path.exists(with_control):
            os.remove(with_control)
        store.start()
        load.check_all(s3)
        s3.put_object(Bucket="load", Key="w0/after", Body=b"x" * 300_000)
        assert s3.get_object(Bucket="load", Key="w0/after")["Body"].read() == b"x" * 300_000


def test_three_of_six_is_too_many_and_said_so(fresh_store):
    store = fresh_store
    s3 = make_client(store)
    s3.create_bucket(Bucket="bkt")
    s3.put_object(Bucket="bkt", Key="k", Body=b"x" * 200_000)
    for victim in (0, 1, 2):
        delete(store, victim)
    wait_for(lambda: store.admin("/readyz")[0] == 503, "/readyz says that writes are impossible")
    for call in (lambda: s3.put_object(Bucket="bkt", Key="n", Body=b"x" * 200_000), lambda: s3.list_objects_v2(Bucket="bkt")):
        try:
            call()
        except Exception as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert store.admin("/healthz")[0] == 200


def test_a_restored_copy_is_refused(fresh_store):
    store = fresh_store
    s3 = make_client(store)
    s3.create_bucket(Bucket="bkt")
    store.stop()
    shutil.copytree(store.volume(3), os.path.join(store.directory, "old"))
    store.start()
    bodies = {f"k{i}": os.urandom(50_000) for i in range(20)}
    for key, body in bodies.items():
        s3.put_object(Bucket="bkt", Key=key, Body=body)
    store.stop()
    shutil.rmtree(store.volume(3))
    shutil.move(os.path.join(store.directory, "old"), store.volume(3))
    for _ in range(4):  # also when it has been started as often as the others saw it
        store.start()
        assert store.metric('penstock_volumes{state="open"}') == 5
        assert "v3" in store.log()
        for key, body in bodies.items():
            assert s3.get_object(Bucket="bkt", Key=key)["Body"].read() == body
        store.stop()


def test_kill_at_any_moment_of_a_mixed_load(long_mode):
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory, Store(directory) as store:
        s3 = make_client(store)
        s3.create_bucket(Bucket="load")
        acknowledged, unknown, dice = {}, {}, random.Random(7)
        for round_number in range(20 if long_mode else 5):
            stopping = threading.Event()

            def write(number):
                client, i = make_client(store), 0
                while not stopping.is_set():
                    key = f"w{number}/{i % 10}"
                    body = os.urandom(random.choice(SIZES))
                    unknown.setdefault(key, []).append(body)
                    try:
                        client.put_object(Bucket="load", Key=key, Body=body)
                        acknowledged[key], unknown[key] = body, []
                    except Exception:  # unknown outcome; after the kill nothing answers any more
                        if store.process.poll() is not None:
                            return
                    i += 1
            threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
            [t.start() for t in threads]
            wait_for(lambda: len(acknowledged) >= 10, "some writes")
            goal = store.metric("penstock_requests_total") + dice.randrange(20, 120)
            wait_for(lambda: store.metric("penstock_requests_total") >= goal, "the load goes on")
            store.kill()
            stopping.set()
            [t.join() for t in threads]
            store.start()
            listed = {e["Key"]: e["Size"] for e in s3.list_objects_v2(Bucket="load").get("Contents", [])}
            for key, body in list(acknowledged.items()):
                got = s3.get_object(Bucket="load", Key=key)["Body"].read()
                assert got == body or got in unknown.get(key, []), f"{key} after kill {round_number}"
                assert listed[key] == len(got)
                acknowledged[key], unknown[key] = got, []


def test_an_object_whose_bytes_are_lost_is_not_absent(tmp_path):
    """Lost beyond what the store survives: every read of it fails as such, none says that there is no object."""
    with started(str(tmp_path)) as store:
        s3 = make_client(store)
        s3.create_bucket(Bucket="lost")
        s3.put_object(Bucket="lost", Key="plain", Body=os.urandom(30_000))
        s3.put_object(Bucket="lost", Key="part", Body=os.urandom(5 << 20))
        upload = {"Bucket": "lost", "Key": "long", "UploadId": s3.create_multipart_upload(Bucket="lost", Key="long")["UploadId"]}
        tags = [s3.upload_part_copy(**upload, PartNumber=n, CopySource="lost/part")["CopyPartResult"]["ETag"] for n in range(1, 36)]
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": n, "ETag": t} for n, t in enumerate(tags, 1)]})
        other = {"Bucket": "lost", "Key": "other", "UploadId": s3.create_multipart_upload(Bucket="lost", Key="other")["UploadId"]}
        store.stop()
        for volume in range(6):
            for name in os.listdir(os.path.join(store.volume(volume), "segments")):
                os.remove(os.path.join(store.volume(volume), "segments", name))
        store.start()
        for key in ("plain", "long"):
            s3.head_object(Bucket="lost", Key=key)
            calls = [lambda: s3.get_object(Bucket="lost", Key=key)["Body"].read(),
                     lambda: s3.get_object(Bucket="lost", Key=key, Range="bytes=9-99")["Body"].read(),
                     lambda: s3.copy_object(Bucket="lost", Key="copy", CopySource=f"lost/{key}"),
                     lambda: s3.upload_part_copy(**other, PartNumber=1, CopySource=f"lost/{key}")]
            if key == "long":
                calls += [lambda: s3.get_object(Bucket="lost", Key=key, PartNumber=1)["Body"].read(),
                          lambda: s3.get_object_attributes(Bucket="lost", Key=key, ObjectAttributes=["ObjectParts"])]
            for number, call in enumerate(calls):
                with pytest.raises(ClientError) as failed:
                    call()
                assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500, (key, number, failed.value)
