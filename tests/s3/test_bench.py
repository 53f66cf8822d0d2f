"""`penstock bench` against a real store: every workload runs, finds what an earlier run wrote, and tells what fails."""
import importlib.machinery
import importlib.util
import json
import os
import stat
import subprocess
import tempfile

import pytest

from store import ACCOUNTS, BINARY, make_client

TINY = ["--scale", "0.002", "--seconds", "0.3", "--warm-up", "0.1"]


def call_of(store, *arguments, secret=None):
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": ACCOUNTS[0]["access_key"], "AWS_SECRET_ACCESS_KEY": secret or ACCOUNTS[0]["secret_key"]}
    return {"args": [BINARY, "bench", "--endpoint", store.endpoint, *TINY, *arguments], "env": environment, "text": True}


def bench(store, *arguments, secret=None):
    return subprocess.run(**call_of(store, *arguments, secret=secret), capture_output=True, timeout=250)


@pytest.fixture(scope="module")
def work():
    with tempfile.TemporaryDirectory() as directory:
        yield directory


def test_every_workload_runs_and_gets_the_bytes_that_were_written(store, work):
    out = os.path.join(work, "all.json")
    done = bench(store, "--only", "all", "--verify", "--json", out, "--pids", str(os.getpid()))
    assert done.returncode == 0, done.stdout + done.stderr
    with open(out, encoding="utf-8") as f:
        report = json.load(f)
    rows = {row["workload"]: row for row in report["rows"]}
    assert {"W1", "W4b", "W5open", "W6head", "W7", "W8", "W8c", "W8s", "W9-r", "W10d", "W11b", "unet3d", "llama3-8b-w"} <= rows.keys()
    for name, row in rows.items():
        assert row["failed"] == 0 and "error" not in row, row
        assert row["requests"] > 0 or row["gib_per_s"] > 0 or name == "W15idle", row  # long ones may not end in so short a time
        assert row["server_peak_rss_mib"] > 0
    assert 0 < rows["cosmoflow"]["utilisation_percent"] <= 100.01
    assert rows["W5open"]["offered_per_s"] > 0


def test_a_later_run_finds_its_data_and_compares(store, work):
    # Enough that a bucket of its own would show whether it writes.
    out = os.path.join(work, "one.json")
    assert bench(store, "--only", "W6,W4a", "--bucket", "again", "--json", out).returncode == 0
    s3 = make_client(store)
    before = {entry["Key"]: entry["LastModified"] for entry in s3.list_objects_v2(Bucket="again")["Contents"]}
    done = bench(store, "--only", "W6,W4a", "--bucket", "again", "--compare", out)
    assert done.returncode == 0 and "now / then" in done.stdout
    assert {entry["Key"]: entry["LastModified"] for entry in s3.list_objects_v2(Bucket="again")["Contents"]} == before


def test_it_deletes_what_it_wrote_and_nothing_else_when_told_to(store):
    s3 = make_client(store)
    s3.create_bucket(Bucket="kept")
    s3.put_object(Bucket="kept", Key="mine", Body=b"x")
    assert bench(store, "--only", "W6get,W7", "--bucket", "kept", "--delete").returncode == 0
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket="kept")["Contents"]] == ["mine"]


def test_requests_that_fail_are_shown_and_make_the_exit_code_1(store):
    s3 = make_client(store)
    assert bench(store, "--only", "W4a", "--bucket", "broken").returncode == 0
    key = next(e["Key"] for e in s3.list_objects_v2(Bucket="broken")["Contents"] if e["Size"] > 0)
    s3.delete_object(Bucket="broken", Key=key)
    done = bench(store, "--only", "W4a", "--bucket", "broken")  # found out before anything is measured
    assert done.returncode == 1 and "404" in done.stderr and "--delete" in done.stderr
    done = bench(store, "--only", "W4a", "--bucket", "broken", "--warm-up", "0")
    assert done.returncode == 1
    assert "FAILED" in done.stdout and "404" in done.stdout


def test_content_is_looked_at_only_when_asked(store):
    s3 = make_client(store)
    assert bench(store, "--only", "W4a", "--bucket", "wrong").returncode == 0
    for entry in s3.list_objects_v2(Bucket="wrong")["Contents"]:
        if entry["Size"] > 0:
            s3.put_object(Bucket="wrong", Key=entry["Key"], Body=bytes(entry["Size"]))
    assert bench(store, "--only", "W4a", "--bucket", "wrong").returncode == 0
    done = bench(store, "--only", "W4a", "--bucket", "wrong", "--verify")
    assert done.returncode == 1 and "wrong content" in done.stderr and "--delete" in done.stderr
    done = bench(store, "--only", "W4a", "--bucket", "wrong", "--verify", "--warm-up", "0")
    assert done.returncode == 1 and "wrong content" in done.stdout


def test_an_open_loop_sends_what_is_offered(store, work):
    out = os.path.join(work, "open.json")
    done = bench(store, "--only", "W6get", "--seconds", "1", "--rate", "200", "--json", out)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(out, encoding="utf-8") as f:
        row = json.load(f)["rows"][0]
    assert 150 <= row["rps"] <= 210 and row["offered_per_s"] == 200


def test_what_an_open_loop_could_not_begin_counts_as_waiting(store, work):
    out = os.path.join(work, "behind.json")
    done = bench(store, "--only", "W6get", "--seconds", "1", "--rate", "1000000", "--connections", "2", "--json", out)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(out, encoding="utf-8") as f:
        row = json.load(f)["rows"][0]
    assert row["not_begun"] > 100_000 and row["p50_us"] > 300_000


def test_a_signal_ends_a_run_with_a_report(store, work):
    out = os.path.join(work, "interrupted.json")
    call = call_of(store, "--only", "W1,W6get", "--seconds", "2", "--json", out)
    with subprocess.Popen(**call, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        head, row = running.stdout.readline(), running.stdout.readline()
        assert head.startswith("workload") and row.startswith("W1")
        running.terminate()
        assert running.wait(timeout=60) == 130
        assert "interrupted" in running.stderr.read()
    with open(out, encoding="utf-8") as f:
        assert [row["workload"] for row in json.load(f)["rows"]] == ["W1"]


def test_a_report_goes_into_a_pipe_and_to_no_full_device(store, work):
    pipe = os.path.join(work, "pipe")
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert bench(store, "--only", "W6get", "--json", pipe).returncode == 0
        assert json.loads(reader.stdout.read())["rows"][0]["workload"] == "W6get"
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    link, report = os.path.join(work, "link"), os.path.join(work, "report.json")
    with open(report, "w", encoding="utf-8") as f:
        f.write("x" * 100_000)
    os.symlink(report, link)
    assert bench(store, "--only", "W6get", "--json", link).returncode == 0
    with open(report, encoding="utf-8") as f:
        assert json.load(f)["rows"][0]["workload"] == "W6get" and os.path.islink(link)
    full = bench(store, "--only", "W6get", "--json", "/dev/full")
    assert full.returncode == 1 and "--json" in full.stderr
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_errors_say_what_to_do(store):
    assert "--list" in bench(store, "--only", "W77").stderr
    wrong = bench(store, "--only", "W1", secret="x" * 20)
    assert wrong.returncode == 1 and "AWS_SECRET_ACCESS_KEY" in wrong.stderr and "SignatureDoesNotMatch" in wrong.stderr
    nobody = bench(store, "--endpoint", "http://127.0.0.1:1", "--only", "W1")
    assert nobody.returncode == 1 and "penstock local" in nobody.stderr
    assert bench(store, "--pids", "999999999").returncode == 2
    for name in ("--seconds", "--warm-up", "--scale", "--rate", "--timeout", "--compute-time"):
        assert bench(store, "--only", "W1", name, "nan").returncode == 2, name
    early = bench(store, "--only", "W6get", "--json", "/nowhere/at/all.json")
    assert early.returncode == 2 and "--json" in early.stderr and early.stdout == ""
    assert bench(store, "--compare", BINARY).returncode != 0
    without = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run([BINARY, "bench"], capture_output=True, text=True, env=without, timeout=60)
    assert done.returncode == 2 and "root-credentials.json" in done.stderr


def test_files_for_a_server_of_files_hold_the_same(store, work):
    root = os.path.join(work, "root")
    assert bench(store, "--only", "W6get", "--write-files", root).returncode == 0
    assert bench(store, "--only", "W6get").returncode == 0
    s3 = make_client(store)
    names = [os.path.join(path, name) for path, _, files in os.walk(root) for name in files]
    some = next(name for name in names if name.endswith("/0000007"))
    with open(some, "rb") as f:
        assert f.read() == s3.get_object(Bucket="bench", Key=os.path.relpath(some, os.path.join(root, "bench")))["Body"].read()


def test_a_ratio_is_worse_beyond_one_and_a_half_times_the_stored_one():
    path = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "bench")
    loader = importlib.machinery.SourceFileLoader("bench_script", path)
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_script", loader))
    loader.exec_module(script)
    stored = {"W1": 3.0, "W6get": 2.0, "gone": 1.0}
    assert script.worse({"W1": 4.5, "W6get": 3.01, "new": 9.0}, stored) == ["W6get"]
    assert script.worse({"W1": 0.1, "W6get": 3.0}, stored) == []
    assert {"W1", "W8", "md5-lanes", "sigv4-check"} <= script.read_ratios(script.STORED).keys()
