"""A running `penstock local`: started, killed, restarted, looked into."""
import http.client
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import boto3
from botocore.client import Config

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("PENSTOCK_BINARY", os.path.join(ROOT, "build", "release", "penstock"))
ACCOUNTS = [
    {"access_key": "TESTACCOUNTKEY000001", "secret_key": "testSecretKeyOfTheFirstAccount0000000001",
     "account_id": "1" * 64, "display_name": "first", "email": "first@example.com"},
    {"access_key": "TESTACCOUNTKEY000002", "secret_key": "testSecretKeyOfTheSecondAccount000000002",
     "account_id": "2" * 64, "display_name": "second", "email": "second@example.com"},
]
# Small reserves, so that tests run on a nearly full disk, too.
CONFIG = {"free_space_min_bytes": 64 << 20, "free_space_min_percent": 0, "ballast_bytes": 1 << 20, "domains": ["s3.localhost"]}


def lives(pid):
    """Until its last thread has ended: what the kernel holds in a disk call keeps its process's files and ports."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            words = file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    state, threads = words[0], int(words[17])
    return state not in ("Z", "X") or threads > 1


def free_ports():
    """Two ports that were free a moment ago: the S3 one and the admin one."""
    with socket.socket() as a, socket.socket() as b:
        a.bind(("127.0.0.1", 0))
        b.bind(("127.0.0.1", 0))
        return a.getsockname()[1], b.getsockname()[1]


def wait_for(condition, what, seconds=30):
    """Polls until `condition()` is true; fails naming `what`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def write_private(path, text):
    """Replaces a file at once by one that only its owner can read."""
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def make_client(store, account=0, **options):
    # While botocore sends a body, its socket's timeout is still that of the connect.
    config = dict(retries={"max_attempts": 0}, s3={"addressing_style": "path"}, signature_version="s3v4",
                  connect_timeout=30, read_timeout=60, max_pool_connections=64)
    config.update(options)
    who = account if isinstance(account, dict) else ACCOUNTS[account]
    return boto3.client("s3", endpoint_url=store.endpoint, region_name="us-east-1", aws_access_key_id=who["access_key"],
                        aws_secret_access_key=who["secret_key"], config=Config(**config))


class Store:
    has_volumes = True  # in the process that answers

    def __init__(self, directory, volumes=(), preload=None, config=None, arguments=(), environment=None):
        self.directory = directory
        self.data = os.path.join(directory, "data")
        self.log_path = os.path.join(directory, "log")
        self.directories = list(volumes) or [self.data]
        self.preload = preload
        self.config = dict(CONFIG, **(config or {}))
        self.arguments = list(arguments)
        self.environment = environment or {}
        self.accounts = ACCOUNTS
        self.started = False
        self.process = None
        self.port, self.admin_port = free_ports()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def volume(self, index):
        return os.path.join(self.data, f"v{index}")

    def command(self):
        accounts = os.path.join(self.directory, "accounts.json")
        config = os.path.join(self.directory, "config.json")
        write_private(accounts, json.dumps(self.accounts))
        with open(config, "w") as f:
            json.dump(self.config, f)
        # Several directories become a store once, when somebody says so.
        first = ["--format"] if len(self.directories) > 1 and not self.started else []
        return [BINARY, "local", *first, "--listen", f"127.0.0.1:{self.port}", "--admin-listen", f"127.0.0.1:{self.admin_port}",
                "--credentials", accounts, "--config", config, *self.arguments, *self.directories]

    def start(self, wait=True):
        environment = dict(os.environ, **self.environment)
        for name in ("PENSTOCK_ACCESS_KEY", "PENSTOCK_SECRET_KEY"):
            environment.pop(name, None)
        if self.preload:
            environment["LD_PRELOAD"] = self.preload
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, env=environment)
        self.started = True
        if wait:
            wait_for(self.ready_or_dead, "store ready")
            assert self.process.poll() is None, "the store ended:\n" + self.log()[-2000:]
        return self

    def ready_or_dead(self):
        return self.process.poll() is not None or self.ready()

    def admin(self, path):
        """(status, text) of the admin port; (0, "") if nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError:
            return 0, ""

    def ready(self):
        return self.admin("/readyz")[0] == 200

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def metric(self, name):
        """Sum of all samples whose name and labels begin with `name`."""
        lines = [line for line in self.admin("/metrics")[1].splitlines() if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """SIGTERM; the exit code."""
        if self.process is None or self.process.poll() is not None:
            return self.process.returncode if self.process else None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def __enter__(self):
        return self.start()

    def __exit__(self, *error):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def raw(self, data, timeout=10):
        """Sends bytes as they are; everything that comes back until the server closes or is silent for a second."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(data)
            connection.settimeout(1)
            received = b""
            try:
                while block := connection.recv(65536):
                    received += block
            except TimeoutError:
                pass
            return received

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
