"""Many clients race for one key: at most one wins each round, exactly one if nothing fails."""
import collections
import os
import random
import tempfile
import threading

import pytest

from live import BUCKET, Client, Faults, Recorder, Values
from store import Store, make_client

CLIENTS = 32


class Race:
    def __init__(self, store, recorder, values):
        self.clients = [Client(store, n, values, recorder) for n in range(CLIENTS)]
        self.values, self.recorder = values, recorder

    def round(self, key, condition):
        """Statuses of all clients; None for no answer."""
        start, statuses = threading.Barrier(CLIENTS), [None] * CLIENTS

        def run(number):
            start.wait()
            answer = self.clients[number].write(key, condition=condition)
            statuses[number] = answer[0] if answer else None

        threads = [threading.Thread(target=run, args=(n,)) for n in range(CLIENTS)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        return statuses

    def settle(self, key):
        """What the key holds now, as all clients then know."""
        reader = self.clients[0]
        while True:
            reader.seen.pop(key, None)
            reader.read(key)
            if key in reader.seen:
                for client in self.clients:
                    client.seen[key] = reader.seen[key]
                return reader.seen[key]


@pytest.mark.parametrize("faulty", [False, True])
def test_one_winner_a_round(faulty, nightly):
    rounds = 1000 if nightly else 100
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 30)))
    print(f"PENSTOCK_TEST_SEED={seed}")
    with tempfile.TemporaryDirectory(prefix="penstock-live-") as directory, Store(directory) as store:
        make_client(store).create_bucket(Bucket=BUCKET)
        values, recorder = Values(), Recorder()
        race, faults, stopping = Race(store, recorder, values), Faults(store, seed, deletions=1), threading.Event()

        def harm():
            dice = random.Random(seed)
            while not stopping.wait(dice.uniform(0.5, 2)):
                faults.one()

        background = threading.Thread(target=harm)
        if faulty:
            background.start()
        try:
            for number in range(rounds):
                for condition in ("absent", "is"):
                    key = f"round-{number}"  # a fresh key: absent, then the winner's
                    if condition == "is" and not race.values.sizes[race.settle(key)]:
                        continue  # nobody won, or the winner's body is empty and its ETag no name for it
                    statuses = race.round(key, condition)
                    winners = sum(status == 200 for status in statuses)
                    assert winners <= 1, (number, condition, collections.Counter(statuses))
                    assert 409 not in statuses
                    if not faulty and (winners != 1 or statuses.count(412) != CLIENTS - 1):
                        print(store.log()[-20_000:])  # an assertion shows no more than its first line
                        pytest.fail(f"round {number}, {condition}: {collections.Counter(statuses)}")
        finally:
            stopping.set()
            if faulty:
                background.join()
        print(recorder.judge(os.path.join(directory, "history")), "under", faults)
