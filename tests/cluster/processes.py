"""A cluster of processes on loopback (scripts/cluster): started, killed, paused, looked into."""
import concurrent.futures
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from store import ACCOUNTS, BINARY, CONFIG, ROOT, lives, make_client, wait_for, write_private

SCRIPT = os.path.join(ROOT, "scripts", "cluster")


class Endpoint:
    """What make_client() wants of a store."""

    def __init__(self, endpoint):
        self.endpoint = endpoint


class Cluster:
    """Up while the context lasts."""

    def __init__(self, servers=6, gateways=2, volumes=1, etcd=0, config=None, zones=0, network=None, tls=False, environment=None):
        """`network`: each process has a host of it. `environment`: of all processes, beside that of the test."""
        self.counts, self.etcd, self.zones = (servers, gateways, volumes), etcd, zones
        self.config = config or {}
        self.network, self.tls, self.environment = network, tls, environment or {}
        self.directory = tempfile.TemporaryDirectory(prefix="penstock-cluster-")
        self.data = os.path.join(self.directory.name, "data")

    def __enter__(self):
        settings = os.path.join(self.directory.name, "settings.json")
        write_private(settings, json.dumps(dict(CONFIG, **self.config)))
        self.accounts = os.path.join(self.directory.name, "accounts.json")
        write_private(self.accounts, json.dumps(ACCOUNTS))
        self.settings = settings
        try:
            self.up()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *failure):
        if os.path.exists(os.path.join(self.data, "cluster.json")):
            self.run("down")  # those that are paused, too
        if failure[0] is not None and os.path.exists(os.path.join(self.data, "cluster.json")):
            for process in self.processes():
                print(f"---- {process['name']}\n" + self.log(process["name"])[-2000:])
        self.directory.cleanup()

    def run(self, command, *words):
        done = subprocess.run([sys.executable, SCRIPT, command, "--data", self.data, *map(str, words)], text=True,
                              capture_output=True, env=dict(os.environ, PENSTOCK_BINARY=BINARY, **self.environment), timeout=120)
        assert done.returncode == 0, f"{command} {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def up(self):
        servers, gateways, volumes = self.counts
        more = ["--tls"] if self.tls else []
        if self.network:
            more += ["--hosts", os.path.join(self.directory.name, "hosts.json")]
            self.network.write_hosts(more[-1])
        self.run("up", servers, "--gateways", gateways, "--volumes", volumes, "--base-port", 0, "--config", self.settings,
                 "--credentials", self.accounts, "--zones", self.zones, *(["--etcd", self.etcd] if self.etcd else ["--map-file"]), *more)

    @property
    def info(self):
        with open(os.path.join(self.data, "cluster.json")) as file:
            return json.load(file)

    def processes(self):
        info = self.info
        return info["servers"] + info["gateways"] + (info["etcd"] or {"members": []})["members"]

    def find(self, name):
        return next(p for p in self.processes() if p["name"] == name)

    def names(self, kind):
        return [p["name"] for p in self.info[kind]]

    def runs(self, name):
        return lives(self.find(name)["pid"])

    def log(self, name):
        return self.run("log", name)

    def ready(self, name):
        try:
            with urllib.request.urlopen(self.find(name)["admin"] + "/readyz", timeout=5) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError as error:
            return f"no answer: {error}"

    def wait_whole(self):
        for name in self.names("gateways"):
            wait_for(lambda: self.ready(name).startswith("ready\nwhole\n"), f"{name} finds the cluster whole")

    def client(self, number, **options):
        """Of gateway number 0 ...; no retries unless asked for."""
        return make_client(Endpoint(self.info["gateways"][number]["endpoint"]), **options)


def bytes_of(key, size):
    return (hashlib.sha256(key.encode()).digest() * (size // 32 + 1))[:size]


SIZES = (100, 20_000, 300_000, 2_000_000)
PAUSE_SECONDS = 0.05  # between two operations of a client: its own share of the CPU stays small


class LargeBytes:
    """How much of large objects a load may write: what it writes stays on the disk until long after the test."""
    FIRST, PER_SECOND = 8 << 20, 1 << 20

    def __init__(self):
        self.begin, self.taken = time.monotonic(), 0

    def some(self, dice, sizes):
        """One of the sizes; of the first two if the others were written often enough for now."""
        left = self.FIRST + self.PER_SECOND * (time.monotonic() - self.begin) - self.taken
        size = dice.choice(sizes if left > 0 else sizes[:2])
        self.taken += size if size in sizes[2:] else 0
        return size


class Load:
    """Readers and writers through all gateways until they are stopped; what failed is kept. What failed is tried again through the next
    gateway, `retries` times: like an SDK's retries, but a gateway that is down for long costs no minutes of waiting for it."""

    def __init__(self, cluster, bucket, seed, retries=0):
        self.clients = [cluster.client(i) for i in range(len(cluster.info["gateways"]))]
        self.bucket, self.seed, self.retries = bucket, seed, retries
        self.sizes, self.failed_reads, self.failed_writes, self.wrong = {}, [], [], []
        self.reads, self.writes, self.large = 0, 0, LargeBytes()
        self.lock, self.stopping, self.threads = threading.Lock(), threading.Event(), []
        for i, size in enumerate(SIZES * 2):
            key = f"first-{i}"
            self.clients[0].put_object(Bucket=bucket, Key=key, Body=bytes_of(key, size))
            self.sizes[key] = size

    def attempt(self, dice, operation):
        first = dice.randrange(len(self.clients))
        for turn in range(self.retries + 1):
            try:
                return operation(self.clients[(first + turn) % len(self.clients)])
            except Exception:  # any failure is one
                if turn == self.retries:
                    raise
            self.stopping.wait(dice.uniform(0, 0.1 * 2 ** turn))

    def read(self, dice):
        with self.lock:
            key = dice.choice(list(self.sizes))
            size = self.sizes[key]
        try:
            body = self.attempt(dice, lambda client: client.get_object(Bucket=self.bucket, Key=key)["Body"].read())
        except Exception as error:
            self.failed_reads.append(f"{key}: {error}")
            return
        self.reads += 1
        if body != bytes_of(key, size):
            self.wrong.append(key)

    def write(self, dice, number, count):
        key, size = f"w{number}-{count}", self.large.some(dice, SIZES)
        try:
            self.attempt(dice, lambda client: client.put_object(Bucket=self.bucket, Key=key, Body=bytes_of(key, size)))
        except Exception as error:
            self.failed_writes.append(f"{key}: {error}")
            return
        self.writes += 1
        with self.lock:
            self.sizes[key] = size

    def __enter__(self):
        def run(number):
            dice, count = random.Random(f"{self.seed}-{number}"), 0
            while not self.stopping.wait(dice.uniform(0, 2 * PAUSE_SECONDS)):
                count += 1
                self.read(dice) if number % 3 else self.write(dice, number, count)

        self.threads = [threading.Thread(target=run, args=(n,)) for n in range(6)]
        [t.start() for t in self.threads]
        return self

    def __exit__(self, *_):
        self.stopping.set()
        [t.join() for t in self.threads]

    def goes_on(self, reads=20, writes=4):
        reads, writes = self.reads + reads, self.writes + writes
        wait_for(lambda: self.reads >= reads and self.writes >= writes, "reads and writes go on", seconds=60)

    def check_all(self):
        """Each acknowledged object, through each gateway."""
        def check(client):
            for key, size in self.sizes.items():
                assert client.get_object(Bucket=self.bucket, Key=key)["Body"].read() == bytes_of(key, size), key

        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(check, self.clients))
