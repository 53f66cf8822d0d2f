"""The binary as an operator meets it: help, keys, refusals, a clean end, aws-cli."""
import json
import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time

from conftest import make_client
from store import ACCOUNTS, BINARY, Store, wait_for

AWS = os.path.join(os.path.dirname(sys.executable), "aws")


def run(*arguments, **options):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60, **options)


def test_twice_on_one_directory_is_refused(fresh_store):
    second = Store(fresh_store.directory)
    second.start(wait=False)
    assert second.process.wait(timeout=30) == 1
    assert "another process" in second.log() or "in use" in second.log()
    assert fresh_store.ready()


def test_term_drains_and_ends_with_0(fresh_store):
    s3 = make_client(fresh_store)
    s3.create_bucket(Bucket="bkt")
    s3.put_object(Bucket="bkt", Key="k", Body=b"x")
    assert fresh_store.stop() == 0
    fresh_store.start()
    assert s3.get_object(Bucket="bkt", Key="k")["Body"].read() == b"x"


class UnreadStore(Store):
    """Its standard error is a pipe that nobody reads, as of a terminal that stands still."""

    def start(self, wait=True):
        self.process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wait_for(self.ready_or_dead, "store ready")
        return self


def test_a_log_that_nobody_reads_stops_nothing():
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory, UnreadStore(directory, config={"log_level": "debug"}) as store:
        s3 = make_client(store, read_timeout=10)
        s3.create_bucket(Bucket="bkt")
        count = 0
        while store.metric("penstock_log_lines_dropped_total") == 0:
            s3.put_object(Bucket="bkt", Key=f"k{count % 10}", Body=b"x")
            count += 1
            assert count < 50_000, "the pipe and the queue are never full"
        assert s3.get_object(Bucket="bkt", Key="k0")["Body"].read() == b"x"
        began = time.monotonic()
        assert store.stop() == 0
        assert time.monotonic() - began < 20
        said = store.process.stderr.read().decode()  # what is left in the pipe
        assert said and all(line.startswith("20") for line in said.splitlines()[:-1])


def test_a_limit_of_the_size_of_files_is_told_before_it_harms():
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        done = run("local", os.path.join(directory, "data"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28)))
        assert done.returncode == 1 and "ulimit -f" in done.stderr, done
        assert not os.path.exists(os.path.join(directory, "data"))


def test_a_newer_or_other_format_is_refused(fresh_store):
    fresh_store.stop()
    for index in range(6):
        path = os.path.join(fresh_store.volume(index), "volume.json")
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(re.sub(r'"format": ?\d+', '"format": 99', text))
    fresh_store.start(wait=False)
    assert fresh_store.process.wait(timeout=30) == 1
    assert "format" in fresh_store.log()


def test_the_root_pair_is_made_once_and_kept_private():
    with tempfile.TemporaryDirectory() as directory:
        store = Store(directory)
        store.start()
        path = os.path.join(store.data, "root-credentials.json")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with open(path) as f:
            pair = json.load(f)[0]
        assert pair["secret_key"] not in store.log()  # standard output is no terminal
        assert path in store.log()
        store.stop()
        store.start()
        assert pair["secret_key"] not in store.log()
        root = dict(ACCOUNTS[0], access_key=pair["access_key"], secret_key=pair["secret_key"])
        make_client(store, account=root).create_bucket(Bucket="roots")
        store.stop()


def test_several_directories_are_one_volume_each():
    with tempfile.TemporaryDirectory() as directory:
        disks = [os.path.join(directory, f"disk{i}") for i in range(4)]
        store = Store(directory, volumes=disks)
        store.start()
        s3 = make_client(store)
        s3.create_bucket(Bucket="bkt")
        bodies = {f"k{n}": os.urandom(n) for n in (10, 50_000, 3_000_000)}
        for key, body in bodies.items():
            s3.put_object(Bucket="bkt", Key=key, Body=body)
        shutil.rmtree(disks[1])
        for key, body in bodies.items():
            assert s3.get_object(Bucket="bkt", Key=key)["Body"].read() == body
        store.stop()
        store.start()
        for key, body in bodies.items():
            assert s3.get_object(Bucket="bkt", Key=key)["Body"].read() == body
        store.stop()


def test_health_metrics_and_request_ids(store, s3, bucket):
    assert store.admin("/healthz")[0] == 200
    assert store.admin("/readyz")[0] == 200
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 1000)
    text = store.admin("/metrics")[1]
    volumes = ["penstock_volumes"] if store.has_volumes else []
    for name in ("penstock_requests_total", "penstock_memory_budget_bytes", "connections", *volumes):
        assert name in text
    before = store.metric('penstock_http_refused_total{reason="malformed_head"}')
    assert store.raw(b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert store.metric('penstock_http_refused_total{reason="malformed_head"}') == before + 1
    assert store.admin("/nothing")[0] == 404
    headers = s3.head_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPHeaders"]
    assert headers["x-amz-request-id"] and headers["x-amz-id-2"] and headers["server"] and headers["date"]
    wait_for(lambda: "store_ready" in store.log() or "ready" in store.log(), "a log line")


def test_aws_cli_copies_and_syncs(store, s3, bucket):
    environment = dict(os.environ, AWS_ACCESS_KEY_ID=ACCOUNTS[0]["access_key"], AWS_SECRET_ACCESS_KEY=ACCOUNTS[0]["secret_key"],
                       AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true")

    def aws(*arguments):
        done = subprocess.run([sys.executable, AWS, "--endpoint-url", store.endpoint, "s3", *arguments], env=environment,
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout
    with tempfile.TemporaryDirectory() as directory:
        for name, size in (("a", 0), ("b/c", 1000), ("b/d", 30_000_000)):
            path = os.path.join(directory, "in", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(os.urandom(size))
        aws("sync", os.path.join(directory, "in"), f"s3://{bucket}/tree")
        assert "b/d" in aws("ls", "--recursive", f"s3://{bucket}/")
        aws("sync", f"s3://{bucket}/tree", os.path.join(directory, "out"))
        assert subprocess.run(["diff", "-r", os.path.join(directory, "in"), os.path.join(directory, "out")]).returncode == 0
        aws("mv", f"s3://{bucket}/tree/b/d", f"s3://{bucket}/moved")
        aws("rm", "--recursive", f"s3://{bucket}/")
        aws("rb", f"s3://{bucket}")


def ask(store, question):
    """The answer of the control socket; empty if the connection just ends."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.path.join(store.data, "control.sock"))
        connection.sendall(json.dumps(question).encode() + b"\n")
        received = b""
        while block := connection.recv(65536):
            received += block
    return json.loads(received) if received else {}


def test_a_path_that_cannot_be_looked_at_ends_nothing(fresh_store, tmp_path):
    loop = str(tmp_path / "loop")
    os.symlink(loop, loop)
    for path in (str(tmp_path / ("x" * 300)), loop, loop + "/below", "/proc/self/fd/0/x", "/dev/null/x", "/x" * 3000):
        answer = ask(fresh_store, {"op": "replace", "volume": "v2", "with": path})
        assert answer.get("ok") is False and answer["error"], path
    assert ask(fresh_store, {"op": "status"})["whole"]
    assert fresh_store.process.poll() is None and fresh_store.ready()
