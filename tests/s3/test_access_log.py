"""The access log and the warnings of refused logins."""
import json
import os
import re
import signal
import socket
import stat
import time
import urllib.parse

import botocore.exceptions
import pytest

from store import ACCOUNTS, Store, make_client, wait_for


def lines_of(path):
    if not os.path.exists(path):
        return []
    with open(path, "rb") as f:
        return [json.loads(line) for line in f.read().decode("utf-8").splitlines()]


@pytest.fixture
def logged(tmp_path):
    """A store with an access log: (store, path of the log)."""
    path = str(tmp_path / "access.log")
    with Store(str(tmp_path), config={"access_log": path}) as store:
        yield store, path


def line_where(path, seconds=5, **fields):
    found = []

    def look():
        found[:] = [line for line in lines_of(path) if all(line.get(name) == value for name, value in fields.items())]
        return found
    wait_for(look, f"a line with {fields}", seconds)
    return found[0]


def test_each_request_is_one_line_of_json(logged):
    store, path = logged
    s3 = make_client(store, user_agent='tester/1 "quoted" \\')
    s3.create_bucket(Bucket="bkt")
    key = 'a b/"quoted"\\ \u00fc\n\t\U0001f600'
    before = time.time()
    answer = s3.put_object(Bucket="bkt", Key=key, Body=b"x" * 1000)
    line = line_where(path, operation="PutObject", key=key)
    assert line["bucket"] == "bkt" and line["status"] == 200 and line["address"] == "127.0.0.1"
    assert line["account"] == ACCOUNTS[0]["account_id"] and line["access_key"] == ACCOUNTS[0]["access_key"]
    assert line["bytes_in"] >= 1000 and line["method"] == "PUT" and line["ms"] >= 0
    assert line["request_id"] == answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"]
    assert line["user_agent"].startswith('tester/1 "quoted" \\')
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    told = time.mktime(time.strptime(line["time"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    assert abs(told - before) < 30
    assert s3.get_object(Bucket="bkt", Key=key, Range="bytes=10-19")["Body"].read() == b"x" * 10
    line = line_where(path, operation="GetObject", key=key)
    assert line["bytes_out"] == 10 and line["status"] == 206 and line["range"] == "bytes=10-19"
    with pytest.raises(botocore.exceptions.ClientError):
        s3.get_object(Bucket="bkt", Key="absent")
    line = line_where(path, key="absent")
    assert line["status"] == 404 and line["error"] == "NoSuchKey"
    assert stat.S_IMODE(os.stat(path).st_mode) & 0o037 == 0


def test_what_never_became_a_request_is_logged_too(logged):
    store, path = logged
    store.raw(b"GET / HTTP/1.1\r\n\r\n")
    assert line_where(path, operation="Unreadable")["status"] == 400
    store.raw(b"GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    wait_for(lambda: len([line for line in lines_of(path) if line["operation"] == "Unreadable"]) == 2, "two lines")
    store.raw(b"GET /bkt/secret HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    line = line_where(path, key="secret")
    assert line["status"] == 403 and line["account"] == "" and line["operation"] == "GetObject"
    # Any bytes make a line of JSON in UTF-8.
    store.raw(b"GET /bkt/%ff%00%22%5c%c3%28%ed%a0%80 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: \xff\x80\r\nConnection: close\r\n\r\n")
    wait_for(lambda: any(line.get("user_agent") for line in lines_of(path)[3:]), "the line of the odd request")
    odd = [line for line in lines_of(path) if line.get("user_agent")][0]
    assert odd["user_agent"] == "\ufffd\ufffd" and odd["target"].startswith("/bkt/%ff")


def test_the_log_is_opened_anew_after_it_was_moved(logged):
    store, path = logged
    s3 = make_client(store)
    s3.create_bucket(Bucket="bkt")
    line_where(path, operation="CreateBucket")
    os.rename(path, path + ".1")
    store.process.send_signal(signal.SIGHUP)
    wait_for(lambda: os.path.exists(path), "a new file")
    s3.put_object(Bucket="bkt", Key="later", Body=b"x")
    line_where(path, key="later")
    assert not [line for line in lines_of(path + ".1") if line["key"] == "later"]


def test_a_pipe_that_nobody_reads_stalls_nobody_and_what_is_lost_is_counted(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    with Store(str(tmp_path), arguments=["--access-log", path]) as store:
        name = "k" * 1000
        request = b"".join(b"GET /bkt/%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % name.encode() for _ in range(50))
        began = time.monotonic()

        def storm():
            # Past the 4 MiB that may wait.
            for _ in range(5):
                with store_connection(store) as connection:
                    for _ in range(10):
                        connection.sendall(request)
                        read_answers(connection, 50)
            return store.metric('penstock_access_log_lines_total{result="dropped"}') > 0
        wait_for(storm, "lines are dropped", 60)
        assert time.monotonic() - began < 60
        assert store.ready()
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        received = b""

        def drain():
            nonlocal received
            try:
                while block := os.read(reader, 1 << 16):
                    received += block
            except BlockingIOError:
                pass
            return b'"dropped":' in received and received.endswith(b"\n")
        wait_for(drain, "the note of what was dropped")
        lines = [json.loads(line) for line in received.decode().splitlines()]  # none is torn
        dropped = sum(line.get("dropped", 0) for line in lines)
        assert dropped > 0 and all(line["key"] == name for line in lines if "key" in line)
        os.close(reader)
        assert store.stop() == 0


def store_connection(store):
    return socket.create_connection(("127.0.0.1", store.port), timeout=30)


def read_answers(connection, count):
    received = b""
    while received.count(b"</Error>") < count:
        block = connection.recv(1 << 20)
        assert block
        received += block


def test_a_full_disk_stalls_nobody(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with Store(str(tmp_path), arguments=["--access-log", "/dev/full"]) as store:
        s3 = make_client(store)
        s3.create_bucket(Bucket="bkt")
        for n in range(20):
            s3.put_object(Bucket="bkt", Key=str(n), Body=b"x")
        wait_for(lambda: store.metric('penstock_access_log_lines_total{result="dropped"}') >= 21, "drops are counted")
        assert "access_log_failed" in store.log()


def test_standard_output_takes_lines_and_is_off_by_default(tmp_path):
    os.makedirs(tmp_path / "a")
    with Store(str(tmp_path / "a"), arguments=["--access-log", "stdout"]) as store:
        make_client(store).create_bucket(Bucket="bkt")
        wait_for(lambda: any(line.startswith('{"time"') and json.loads(line)["operation"] == "CreateBucket"
                             for line in store.log().splitlines()), "a line")
    os.makedirs(tmp_path / "b")
    with Store(str(tmp_path / "b")) as store:
        make_client(store).create_bucket(Bucket="bkt")
        assert store.stop() == 0
        assert '{"time"' not in store.log() and "access_log" not in store.admin("/metrics")[1]


def test_refused_logins_are_told_and_counted(fresh_store):
    wrong = make_client(fresh_store, account=dict(ACCOUNTS[0], secret_key="not-the-secret-of-this-account"))
    unknown = make_client(fresh_store, account=dict(ACCOUNTS[0], access_key="WHO-IS-THAT"))
    for client in (wrong, unknown):
        with pytest.raises(botocore.exceptions.ClientError):
            client.list_buckets()
    log = fresh_store.log()
    refused = [line for line in log.splitlines() if "event=login_refused" in line]
    assert len(refused) == 2 and "code=SignatureDoesNotMatch" in refused[0] and "code=InvalidAccessKeyId" in refused[1]
    assert "access_key=WHO-IS-THAT" in refused[1] and "address=127.0.0.1" in refused[1]
    assert "not-the-secret" not in log
    fresh_store.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")  # nobody: no login
    assert fresh_store.log().count("event=login_refused") == 2
    # A storm of them, with odd bytes, is bounded in lines and in bytes, and what is left out is told.
    credential = urllib.parse.quote("\x1b[31m\"" + "A" * 4000 + "/20260101/us-east-1/s3/aws4_request", safe="")
    request = (f"GET /?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date=20260101T000000Z&X-Amz-Expires=5"
               "&X-Amz-SignedHeaders=host&X-Amz-Signature=" + "0" * 64 + " HTTP/1.1\r\nHost: localhost\r\n\r\n").encode()
    before = fresh_store.metric("penstock_logins_refused_total")
    with store_connection(fresh_store) as connection:
        for _ in range(10):
            connection.sendall(request * 20)
            read_answers(connection, 20)
    assert fresh_store.metric("penstock_logins_refused_total") == before + 200
    wait_for(lambda: sum(map(int, re.findall(r"left_out=(\d+)", fresh_store.log())))
             + fresh_store.log().count("event=login_refused") == 2 + 200, "all are told or counted", 10)
    told = [line for line in fresh_store.log().splitlines() if "event=login_refused" in line]
    assert all(len(line) < 2000 and "\x1b" not in line for line in told)
