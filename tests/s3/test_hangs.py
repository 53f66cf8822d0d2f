"""Disks that hang under load, at the start and at the end: the others go on, the store says which one it was and ends in time."""
import fcntl
import os
import random
import subprocess
import tempfile
import threading
import time

import pytest

from store import BINARY, Store, make_client, wait_for

DETECTED = 2 + 1.5  # the failure detector's patience, and what a busy machine adds
CALL_MAX = 10  # a call that is older closes its volume, as a rule
OTHER_CALL_MAX = 5  # where a test sets it
BUSY = 5  # what a busy machine adds to it
SIZES = [100, 5000, 100_000, 1_000_000, 9_000_000]


@pytest.fixture(scope="module")
def shim():
    source = os.path.join(os.path.dirname(__file__), "hanging_io.c")
    with tempfile.TemporaryDirectory() as directory:
        library = os.path.join(directory, "hanging_io.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", library, source, "-ldl"], check=True)
        yield library


def ring_status(store):
    return subprocess.run([BINARY, "ring", "status", store.data], capture_output=True, text=True, timeout=60).stdout


class HangingStore(Store):
    def __init__(self, directory, shim, **options):
        super().__init__(directory, preload=shim, environment={"HANGING_IO_CONTROL": os.path.join(directory, "control")}, **options)

    def hang(self, *places):
        """Volumes by number, other directories by path; all others go on."""
        path = os.path.join(self.directory, "control")
        with open(path + ".new", "w") as f:
            f.write("".join((place if isinstance(place, str) else self.volume(place)) + "\n" for place in places))
        os.rename(path + ".new", path)

    def memory_used(self):
        return self.metric('penstock_memory_budget_bytes{kind="used"}')

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * 4096


class Load:
    """Writers, readers and listers; every answer's time is kept, every body is checked."""

    def __init__(self, store):
        self.store, self.stopping = store, threading.Event()
        self.errors, self.slowest, self.counts = [], {}, {}
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(4)]

    def run(self, number):
        # An upload that loses two volumes at one moment is refused; clients come again.
        s3 = make_client(self.store, retries={"mode": "standard", "max_attempts": 3})
        dice, kept, i = random.Random(number), {}, 0
        while not self.stopping.is_set():
            for name in ("put", "get", "list", "multipart"):
                began = time.monotonic()
                try:
                    getattr(self, name)(s3, dice, kept, f"{number}/{i % 20}")
                except Exception as error:  # all are told at the end
                    with self.lock:
                        self.errors.append(f"{name} after {time.monotonic() - began:.1f} s: {error}"[:300])
                with self.lock:
                    self.counts[name] = self.counts.get(name, 0) + 1
                    self.slowest[name] = max(self.slowest.get(name, 0), time.monotonic() - began)
            i += 1

    def put(self, s3, dice, kept, key):
        body = dice.randbytes(dice.choice(SIZES))
        s3.put_object(Bucket="load", Key=key, Body=body)
        kept[key] = body

    def get(self, s3, dice, kept, _):
        if kept:
            key = dice.choice(list(kept))
            assert s3.get_object(Bucket="load", Key=key)["Body"].read() == kept[key], key

    def list(self, s3, dice, kept, _):
        assert len(s3.list_objects_v2(Bucket="load").get("Contents", [])) >= len(kept)

    def multipart(self, s3, dice, kept, key):
        if dice.random() > 0.2:
            return
        key = "m" + key
        upload = s3.create_multipart_upload(Bucket="load", Key=key)["UploadId"]
        name = dict(Bucket="load", Key=key, UploadId=upload)
        body = dice.randbytes(5 << 20) + b"end"
        tags = [s3.upload_part(PartNumber=n, Body=b, **name)["ETag"] for n, b in ((1, body[:5 << 20]), (2, body[5 << 20:]))]
        assert len(s3.list_parts(**name)["Parts"]) == 2
        s3.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": n + 1, "ETag": t} for n, t in enumerate(tags)]}, **name)
        kept[key] = body

    def progress(self, rounds):
        goal = self.counts.get("list", 0) + rounds
        wait_for(lambda: self.counts.get("list", 0) >= goal or len(self.errors) > 20, f"{rounds} more rounds", 120)

    def __enter__(self):
        [t.start() for t in self.threads]
        return self

    def __exit__(self, *error):
        self.stopping.set()
        [t.join() for t in self.threads]


@pytest.fixture
def call_max():
    return CALL_MAX


@pytest.fixture
def hanging(shim, call_max):
    config = {} if call_max == CALL_MAX else {"disk_call_max_seconds": call_max}
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory, HangingStore(directory, shim, config=config) as store:
        make_client(store).create_bucket(Bucket="load")
        yield store


# The one by the clocks that hold as a rule, past the deadline of all operations (30 s); the other sooner.
@pytest.mark.parametrize("victims, call_max, load_for", [((2,), OTHER_CALL_MAX, 12), ((0, 5), CALL_MAX, 31)])
def test_volumes_hang_under_load(hanging, victims, call_max, load_for):
    store = hanging
    with Load(store) as load:
        load.progress(20)
        before = store.resident_bytes()
        began = time.monotonic()
        store.hang(*victims)
        wait_for(lambda: store.metric('penstock_volumes{state="closed"}') == len(victims), "the volumes are closed", call_max + BUSY)
        assert time.monotonic() - began > call_max - 1, "no healthy disk is closed so fast"
        status, text = store.admin("/readyz")
        assert status == 200 and "not whole" in text
        for victim in victims:
            line = next(line for line in text.splitlines() if line.startswith(f"v{victim} "))
            assert "closed" in line and "stalled" in line, text
        assert store.metric('penstock_volumes{state="stalled"}') == len(victims)
        load.progress(40)
        while time.monotonic() - began < load_for:
            load.progress(4)
        assert store.admin("/healthz")[0] == 200
    assert not load.errors, (len(load.errors), load.errors[:3])
    # Each operation waits for the detector once or twice: a multipart upload is five of them.
    assert max(load.slowest[n] for n in ("put", "get", "list")) < 2 * DETECTED + 2, load.slowest
    # What a stuck thread was writing counts on, with the window of its upload: two threads a volume, 12 MiB at most.
    wait_for(lambda: store.memory_used() < len(victims) * 2 * (12 << 20) + (1 << 20), "the memory budget is given back")
    assert store.resident_bytes() < before + (256 << 20)
    began = time.monotonic()
    code = store.stop()
    assert time.monotonic() - began < 10, "all that is not stuck ends at once"
    assert code == 3 and "volumes_left_behind" in store.log()
    # The disk answers again: the next start takes the volume back, nothing is lost.
    store.hang()
    store.start()
    assert store.metric('penstock_volumes{state="open"}') == 6, store.admin("/readyz")
    assert "whole" in store.admin("/readyz")[1].splitlines()


def test_a_hang_that_passes_closes_nothing(hanging):
    store = hanging
    s3 = make_client(store)
    body = os.urandom(3_000_000)
    s3.put_object(Bucket="load", Key="before", Body=body)
    with Load(store) as load:
        load.progress(8)
        store.hang(4)
        wait_for(lambda: "v4 open suspect" in store.admin("/readyz")[1], "v4 is suspect")
        time.sleep(2)  # cached answers go on meanwhile, and do not make it look well
        assert "v4 open suspect" in store.admin("/readyz")[1]
        store.hang()
        wait_for(lambda: "v4 open suspect" not in store.admin("/readyz")[1], "v4 answers its probe")
        load.progress(8)
    assert not load.errors, load.errors[:3]
    assert store.metric('penstock_volumes{state="open"}') == 6
    assert s3.get_object(Bucket="load", Key="before")["Body"].read() == body
    assert store.stop() == 0


def test_readyz_and_metrics_agree_when_too_few_disks_answer(hanging):
    store = hanging
    with Load(store) as load:
        load.progress(4)
        store.hang(1)
        wait_for(lambda: store.metric("penstock_cluster_volumes_lost") == 1, "v1 counts as lost")
        status, text = store.admin("/readyz")
        assert status == 200 and text.startswith("ready\ndegraded: 1 of 6 volumes do not answer (v1)\n"), text
        store.hang(0, 1, 2)  # refused writes are what the load gets then
        # What a disk that hangs still answers from memory makes it look well for a moment, now and then.
        def readyz_refuses(status, text):
            return status == 503 and text.startswith("not ready: too few volumes for writes\ncritical: ")

        def ring_names_them(text):
            return text.startswith("whole, takes no writes") and text.count("open suspect") == 3
        wait_for(lambda: readyz_refuses(*store.admin("/readyz")), "/readyz says that writes are impossible", BUSY)
        wait_for(lambda: store.metric("penstock_cluster_writable") == 0, "/metrics say so, too", BUSY)
        wait_for(lambda: ring_names_them(ring_status(store)), "the ring says so and names them", BUSY)
        store.hang()
        wait_for(lambda: store.admin("/readyz")[0] == 200, "the disks answer")
        wait_for(lambda: "whole" in store.admin("/readyz")[1].splitlines(), "all are used again")
    assert store.metric('penstock_volumes{state="open"}') == 6


def test_a_hang_at_the_start_and_a_return_too_late(shim):
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory, \
            HangingStore(directory, shim, config={"disk_call_max_seconds": OTHER_CALL_MAX}) as store:
        s3 = make_client(store)
        s3.create_bucket(Bucket="load")
        bodies = {f"k{n}": os.urandom(n * 70_000 + 1) for n in range(10)}
        for key, body in bodies.items():
            s3.put_object(Bucket="load", Key=key, Body=body)
        assert store.stop() == 0
        store.hang(1, 3)
        began = time.monotonic()
        store.start()
        assert time.monotonic() - began < 2 * OTHER_CALL_MAX + BUSY
        text = store.admin("/readyz")[1]
        assert all(any(line.startswith(f"v{v} closed (stalled") for line in text.splitlines()) for v in (1, 3)), text
        for key, body in bodies.items():
            assert s3.get_object(Bucket="load", Key=key)["Body"].read() == body
        s3.put_object(Bucket="load", Key="new", Body=b"n" * 400_000)
        store.hang()  # late answers change nothing
        time.sleep(1)
        assert store.metric('penstock_volumes{state="open"}') == 4
        store.stop()
        store.start()
        assert store.metric('penstock_volumes{state="open"}') == 6
        assert s3.get_object(Bucket="load", Key="new")["Body"].read() == b"n" * 400_000


@pytest.mark.parametrize("victim", [0, 3])
def test_a_disk_of_several_hangs_at_the_start(shim, victim):
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        disks = [os.path.join(directory, f"disk{i}") for i in range(6)]
        for disk in disks:
            os.mkdir(disk)
        with HangingStore(directory, shim, volumes=disks, config={"disk_call_max_seconds": OTHER_CALL_MAX}) as store:
            s3 = make_client(store)
            s3.create_bucket(Bucket="load")
            s3.put_object(Bucket="load", Key="k", Body=b"k" * 300_000)
            assert store.stop() == 0
            store.hang(disks[victim])
            began = time.monotonic()
            store.start()
            wait_for(lambda: store.log().count("event=store_ready") == 2, "the start ends", 2 * OTHER_CALL_MAX + BUSY)
            assert time.monotonic() - began < 2 * OTHER_CALL_MAX + BUSY
            assert s3.get_object(Bucket="load", Key="k")["Body"].read() == b"k" * 300_000
            began = time.monotonic()
            assert store.stop() in (0, 3)
            assert time.monotonic() - began < 30


def test_sigterm_right_after_a_hang_ends_in_time(hanging):
    store = hanging
    with Load(store) as load:
        load.progress(8)
        store.hang(3)
        began = time.monotonic()
        store.process.terminate()
        code = store.process.wait(timeout=60)
        assert time.monotonic() - began < 30
        load.stopping.set()
    assert code in (0, 3), store.log()[-1000:]
    store.hang()
    store.start()
    assert store.metric('penstock_volumes{state="open"}') == 6


def test_one_of_several_directories_hangs(shim):
    """Each of them has a control socket of its own, whose file lies on the disk that hangs."""
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        disks = [os.path.join(directory, f"d{n}") for n in range(4)]
        for disk in disks:
            os.mkdir(disk)
        with HangingStore(directory, shim, volumes=disks, config={"disk_call_max_seconds": OTHER_CALL_MAX}) as store:
            s3 = make_client(store)
            s3.create_bucket(Bucket="load")
            body = os.urandom(1_000_000)
            s3.put_object(Bucket="load", Key="k", Body=body)
            store.hang(disks[1])
            wait_for(lambda: store.metric('penstock_volumes{state="stalled"}') == 1, "the volume is closed", OTHER_CALL_MAX + BUSY)
            began = time.monotonic()
            assert store.stop() == 3
            assert time.monotonic() - began < 10
            store.start()
            wait_for(lambda: store.log().count("store_ready") == 2, "the start ends")
            assert store.metric('penstock_volumes{state="stalled"}') == 1, store.admin("/readyz")
            assert "stalled" in store.admin("/readyz")[1]
            shown = subprocess.run([BINARY, "ring", "status", disks[0]], capture_output=True, text=True, timeout=10)
            assert shown.returncode == 4 and disks[1] in shown.stdout, shown
            assert s3.get_object(Bucket="load", Key="k")["Body"].read() == body
            store.hang(disks[1], disks[2])  # where a socket of this process lies
            began = time.monotonic()
            assert store.stop() in (0, 3)
            assert time.monotonic() - began < 20
            assert "stop_cut_off" not in store.log()
            store.hang()
            store.start()
            assert store.metric('penstock_volumes{state="open"}') == 4
            assert s3.get_object(Bucket="load", Key="k")["Body"].read() == body


def test_a_disk_that_hangs_while_a_failed_start_ends(shim):
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory, \
            HangingStore(directory, shim, config={"disk_call_max_seconds": OTHER_CALL_MAX}) as store:
        assert store.stop() == 0
        held = [open(os.path.join(store.volume(n), "lock"), "rb") for n in (3, 4, 5)]
        for file in held:
            fcntl.flock(file, fcntl.LOCK_EX)
        store.start(wait=False)

        def is_open(volume):
            links = [os.path.join(f"/proc/{store.process.pid}/fd", fd) for fd in os.listdir(f"/proc/{store.process.pid}/fd")]
            return any(os.readlink(link).startswith(store.volume(volume) + "/log/") for link in links if os.path.lexists(link))
        wait_for(lambda: is_open(2), "the volumes that nobody keeps are open", 10)
        store.hang(0)
        assert store.process.wait(timeout=3 + OTHER_CALL_MAX + BUSY) == 1
        assert "in use by another process" in store.log()
        for file in held:
            file.close()
        store.hang()
        store.start()
        assert store.metric('penstock_volumes{state="open"}') == 6


@pytest.mark.parametrize("passes", [False, True])
def test_a_signal_ends_a_start_that_its_only_directory_holds_up(shim, passes):
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory, HangingStore(directory, shim) as store:
        s3 = make_client(store)
        s3.create_bucket(Bucket="load")
        assert store.stop() == 0
        store.hang(store.data)
        store.start(wait=False)
        wait_for(lambda: "start_takes_long" in store.log(), "the start says that it waits", 5 + BUSY)
        assert 'waits_for="the disks of its directories"' in store.log()
        store.process.terminate()
        if passes:  # then the end is in order
            store.hang()
        assert store.process.wait(timeout=3 + BUSY) == (0 if passes else 3)
        assert ("before the start was over" in store.log()) != passes
        store.hang()
        store.start()
        assert s3.list_buckets()["Buckets"][0]["Name"] == "load"


def test_a_volume_that_another_process_keeps_is_done_without(fresh_store):
    """A process that is stuck in a disk cannot be killed, and keeps the locks of its volumes there."""
    store = fresh_store
    s3 = make_client(store)
    s3.create_bucket(Bucket="load")
    body = os.urandom(1_000_000)
    s3.put_object(Bucket="load", Key="k", Body=body)
    assert store.stop() == 0
    held = [open(os.path.join(store.volume(n), "lock"), "rb") for n in range(4)]
    for file in held:
        fcntl.flock(file, fcntl.LOCK_EX)
    store.start(wait=False)
    assert store.process.wait(timeout=30) == 1, "four of six are too many"
    assert "in use by another process" in store.log()
    for file in held[1:]:
        file.close()
    store.start()
    assert store.metric('penstock_volumes{state="open"}') == 5
    assert "in use by another process" in store.admin("/readyz")[1]
    assert s3.get_object(Bucket="load", Key="k")["Body"].read() == body
    s3.put_object(Bucket="load", Key="new", Body=body)
    assert store.stop() == 0
    held[0].close()
    store.start()
    assert store.metric('penstock_volumes{state="open"}') == 6
    assert s3.get_object(Bucket="load", Key="new")["Body"].read() == body


def test_a_replacement_waits_for_no_disk_that_hangs(shim):
    def ring(*arguments):
        began = time.monotonic()
        done = subprocess.run([BINARY, "ring", *arguments], capture_output=True, text=True, timeout=60)
        assert time.monotonic() - began < OTHER_CALL_MAX + BUSY, "no longer than a disk may take"
        return done

    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory, \
            HangingStore(directory, shim, config={"disk_call_max_seconds": OTHER_CALL_MAX}) as store:
        s3 = make_client(store)
        s3.create_bucket(Bucket="load")
        body = os.urandom(1_000_000)
        s3.put_object(Bucket="load", Key="k", Body=body)
        new = os.path.join(directory, "new")
        os.mkdir(new)
        replace = ["replace", store.data, "--volume", "v4", "--with", new]
        store.hang(new)
        refused = ring(*replace)
        assert refused.returncode == 1 and "stalled" in refused.stderr, refused
        again = ring(*replace)  # leaves no second thread there
        assert again.returncode == 1 and "has not returned yet" in again.stderr, again
        assert "v4" in ring("status", store.data).stdout
        # The new disk answers, two old ones do not: they are looked at by nobody.
        store.hang(1, 4)
        wait_for(lambda: store.metric('penstock_volumes{state="stalled"}') == 2, "the volumes are closed", OTHER_CALL_MAX + BUSY)
        begun = ring(*replace)
        assert begun.returncode == 0, begun
        wait_for(lambda: " v4 " not in ring("status", store.data).stdout, "v4 is replaced", 60)
        assert new in ring("status", store.data).stdout
        assert s3.get_object(Bucket="load", Key="k")["Body"].read() == body
