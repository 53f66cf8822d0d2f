"""Clients under faults: how long each operation takes, which fail, which show wrong bytes."""
import http.client
import random
import threading
import time
import urllib.parse

from processes import LargeBytes, bytes_of
from store import wait_for

SIZES = (100, 20_000, 300_000, 2_000_000)
RANGE = 100_000  # of an object that is longer, so much is read
PAUSE_SECONDS = 0.05  # between two operations of a client: its own share of the CPU stays small


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


class Connection:
    """Plain HTTP with presigned URLs to one gateway."""

    def __init__(self, cluster, gateway, bucket):
        self.bucket = bucket
        self.signer = cluster.client(gateway)
        self.place = urllib.parse.urlsplit(cluster.info["gateways"][gateway]["endpoint"])
        self.connection = None

    def request(self, method, key, body=None, headers=None):
        """(status, body); what nobody answered is (0, why)."""
        call = "get_object" if method == "GET" else "put_object"
        url = urllib.parse.urlsplit(self.signer.generate_presigned_url(call, Params={"Bucket": self.bucket, "Key": key}))
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=60)
            self.connection.request(method, f"{url.path}?{url.query}", body=body, headers=headers or {})
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            if self.connection is not None:
                self.connection.close()
                self.connection = None
            return 0, repr(error).encode()


class Traffic:
    """12 readers and 4 writers, spread over the gateways, until the context ends. Readers read what was written while all was well
    (`settled`), and what was written since the last call of forget(): an object that was written while some servers were away may
    not survive the loss of others."""

    def __init__(self, cluster, bucket, seed, read_retries=0, write_retries=5, clients=16, objects=24):
        self.cluster, self.bucket, self.seed, self.clients = cluster, bucket, seed, clients
        self.retries = {"GET": read_retries, "PUT": write_retries}
        self.lock, self.stopping, self.large = threading.Lock(), threading.Event(), LargeBytes()
        self.reads, self.writes, self.failed, self.wrong, self.repeated = [], [], [], [], 0
        first = Connection(cluster, 0, bucket)
        self.settled, self.recent = [], []
        for number in range(objects):
            key, size = f"settled-{number}", SIZES[number % len(SIZES)]
            assert first.request("PUT", key, bytes_of(key, size))[0] == 200
            self.settled.append((key, size))

    def forget(self):
        with self.lock:
            self.recent = []

    def repeat(self, dice, connection, method, *words, **more):
        """One operation as an SDK makes it."""
        for attempt in range(self.retries[method] + 1):
            status, body = connection.request(method, *words, **more)
            if status in (200, 206) or (0 < status < 500):
                return status, body
            if attempt < self.retries[method]:
                with self.lock:
                    self.repeated += 1
                time.sleep(dice.uniform(0, 0.2 * 2 ** attempt))
        return status, body

    def read(self, dice, connection):
        with self.lock:
            key, size = dice.choice(self.settled + self.recent[-50:])
        begin = dice.randrange(size - RANGE) if size > RANGE else 0
        end = min(begin + RANGE, size)
        status, body = self.repeat(dice, connection, "GET", key, headers={"Range": f"bytes={begin}-{end - 1}"})
        if status != 206:
            return f"GET {key}: {status} {body[:200]}"
        if body != bytes_of(key, size)[begin:end]:
            self.wrong.append(key)
        return None

    def write(self, dice, connection, key):
        size = self.large.some(dice, SIZES)
        status, body = self.repeat(dice, connection, "PUT", key, body=bytes_of(key, size))
        if status != 200:
            return f"PUT {key}: {status} {body[:200]}"
        with self.lock:
            self.recent.append((key, size))
        return None

    def run(self, number):
        dice, count = random.Random(f"{self.seed}-{number}"), 0
        connection = Connection(self.cluster, number % len(self.cluster.info["gateways"]), self.bucket)
        while not self.stopping.wait(dice.uniform(0, 2 * PAUSE_SECONDS)):
            count += 1
            begin = time.monotonic()
            writes = number % 4 == 0
            failure = self.write(dice, connection, f"w{self.seed}-{number}-{count}") if writes else self.read(dice, connection)
            with self.lock:
                (self.writes if writes else self.reads).append((begin, time.monotonic() - begin))
                if failure:
                    self.failed.append(f"after {time.monotonic() - begin:.1f} s: {failure}")

    def __enter__(self):
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(self.clients)]
        [t.start() for t in self.threads]
        return self

    def __exit__(self, *_):
        self.stopping.set()
        [t.join() for t in self.threads]

    def measure(self, reads=400, writes=40, seconds=120):
        """The 99th percentile of so many reads that begin from now on, in seconds; so many writes end meanwhile."""
        now, written = time.monotonic(), len(self.writes) + writes

        def times():
            with self.lock:
                return [took for begin, took in self.reads if begin >= now]
        wait_for(lambda: len(times()) >= reads and len(self.writes) >= written, f"{reads} reads and {writes} writes", seconds)
        return percentile(times(), 0.99)

    def healthy(self):
        """The same, when all connections are made and all is warm."""
        self.measure(reads=200, writes=10)
        return self.measure()

    def measure_until(self, limit, tries=3):
        """The same; again if it was more than `limit`: something else may have kept this machine busy."""
        for _ in range(tries):
            seconds = self.measure()
            if seconds <= limit:
                break
        return seconds

    def check(self):
        assert self.wrong == []
        assert self.failed == [], self.failed[:5]
