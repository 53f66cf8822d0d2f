"""Many clients on few keys while the store is killed, stopped, filled and loses volumes: each key's history is linearizable."""
import os
import random
import tempfile
import threading
import time

from live import BUCKET, Client, Faults, Recorder, Values
from store import Store, make_client

CLIENTS = 16
KEYS_PER_PERIOD = 12
PERIOD_SECONDS = 4  # fresh keys then: each write of unknown outcome makes its key's history harder to judge


def test_every_key_is_linearizable(nightly):
    seconds = 300 if nightly else 60
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 30)))
    print(f"PENSTOCK_TEST_SEED={seed}")
    with tempfile.TemporaryDirectory(prefix="penstock-live-") as directory, Store(directory) as store:
        make_client(store).create_bucket(Bucket=BUCKET)
        values, recorder, faults = Values(), Recorder(), Faults(store, seed)
        begin, stopping = time.monotonic(), threading.Event()

        def run(number):
            client = Client(store, seed + number, values, recorder)
            while not stopping.is_set():
                period = int((time.monotonic() - begin) / PERIOD_SECONDS)
                client.step(f"p{period}/k{client.dice.randrange(KEYS_PER_PERIOD)}")

        threads = [threading.Thread(target=run, args=(n,)) for n in range(CLIENTS)]
        [t.start() for t in threads]
        dice = random.Random(seed)
        try:
            while time.monotonic() < begin + seconds:
                time.sleep(dice.uniform(0.5, 3))
                faults.one()
        finally:
            stopping.set()
            [t.join() for t in threads]
        assert store.process.poll() is None
        # What is acknowledged is there at the end, too: one more read of each key, by a fresh client.
        last = Client(store, seed, values, recorder)
        for key in sorted({operation["key"] for operation in recorder.operations}):
            last.read(key)
        print(recorder.judge(os.path.join(directory, "history")), "under", faults)
        assert len(recorder.operations) > 20 * seconds
