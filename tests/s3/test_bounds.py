"""What strangers, stalled clients and one greedy account can take: bounded memory and places, and never all of them.

Raw sockets against the real binary. The long mode runs the sizes at which the bounds were broken once.
"""
import hashlib
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import LONG
from signing import EMPTY, Signer
from store import Store, make_client, wait_for

MIB = 1 << 20
UNSIGNED = "UNSIGNED-PAYLOAD"


class Server(Store):
    """A store in a directory of its own, and the sockets that were opened to it."""

    def __init__(self, directory, config=None, **options):
        super().__init__(str(directory), config=dict({"free_space_min_bytes": 0, "free_space_min_percent": 0}, **(config or {})), **options)
        self.sockets = []

    def __exit__(self, *error):
        for connection in self.sockets:
            connection.close()
        super().__exit__(*error)

    def dial(self, data=b"", receive_buffer=None, port=None, source=None):
        connection = socket.socket()
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            connection.bind((source, 0))
        connection.settimeout(30)
        connection.connect(("127.0.0.1", port or self.port))
        connection.sendall(data)
        self.sockets.append(connection)
        return connection

    def hang_up(self):
        for connection in self.sockets:
            connection.close()
        self.sockets.clear()

    def rss(self):
        """MiB that the process has resident."""
        return self.memory("VmRSS")

    def peak(self):
        """... and had at the most."""
        return self.memory("VmHWM")

    def memory(self, which):
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith(which))
        return int(line.split()[1]) / 1024

    def used(self, use):
        return self.metric(f'penstock_memory_used_bytes{{use="{use}"}}')

    def refused(self, reason):
        return self.metric(f'penstock_http_refused_total{{reason="{reason}"}}')


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path) as running:
        yield running


def head(server, method, path, length=None, query="", account=0, payload=UNSIGNED, extra=None):
    """The bytes of a signed request's head."""
    headers = Signer(server, account).headers(method, path, payload, extra, query)
    if length is not None:
        headers["content-length"] = str(length)
    lines = [f"{method} {path}{'?' + query if query else ''} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def body_of(size, seed=b"x"):
    block = b"".join(hashlib.sha256(seed + bytes([i])).digest() for i in range(256))
    return (block * (size // len(block) + 1))[:size]


def goes_on(client, bucket, rounds=3):
    """Everything that a client does, without a refusal; the slowest step in seconds."""
    slowest = 0.0
    part = body_of(5 * MIB)
    steps = [
        lambda: client.put_object(Bucket=bucket, Key="small", Body=b"s" * 1000),
        lambda: client.put_object(Bucket=bucket, Key="large", Body=part),
        lambda: client.get_object(Bucket=bucket, Key="large")["Body"].read() == part or pytest.fail("other bytes"),
        lambda: client.list_objects_v2(Bucket=bucket),
        lambda: client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "small"}]}),
    ]
    for _ in range(rounds):
        for step in steps:
            began = time.monotonic()
            step()
            slowest = max(slowest, time.monotonic() - began)
    upload = client.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    with ThreadPoolExecutor(4) as pool:
        send = lambda n: client.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=n, Body=part)["ETag"]
        tags = list(pool.map(send, range(1, 9)))
    client.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={
        "Parts": [{"PartNumber": n, "ETag": tag} for n, tag in enumerate(tags, 1)]})
    return slowest


def read_answer(connection):
    """(head, body) of one answer with a Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        block = connection.recv(65536)
        assert block, data
        data += block
    top, _, body = data.partition(b"\r\n\r\n")
    length = next(int(l.split(b":")[1]) for l in top.split(b"\r\n") if l.lower().startswith(b"content-length"))
    while len(body) < length:
        block = connection.recv(1 << 20)
        assert block, f"cut after {len(body)} of {length} bytes"
        body += block
    return top, body


@pytest.mark.parametrize("announced, sent", [(1 << 30, 100), (6 * MIB, 64 * 1024 + 1)])
def test_uploads_that_stall_hold_what_has_arrived(server, announced, sent):
    first, other = make_client(server), make_client(server, account=1)
    first.create_bucket(Bucket="greedy")
    other.create_bucket(Bucket="other")
    before = server.rss()
    count = 500 if LONG else 70
    for i in range(count):
        server.dial(head(server, "PUT", f"/greedy/k{i}", length=announced) + b"b" * sent)
    limit = server.metric('penstock_memory_budget_bytes{kind="limit"}')
    if sent == 100:
        wait_for(lambda: server.used("writes") == count * 64 * 1024, "all uploads have begun")
    else:
        wait_for(lambda: server.used("writes") > limit / 4, "the account holds much")
    slowest = goes_on(other, "other")
    used, rss = server.used("writes"), server.rss()
    print(f"{count} PUTs that sent {sent}: {used / MIB:.1f} MiB counted, RSS {before:.0f} -> {rss:.0f} MiB, slowest {slowest:.2f} s")
    assert used < limit * 0.6
    if sent == 100:
        first.put_object(Bucket="greedy", Key="mine", Body=body_of(5 * MIB))  # it holds little itself
    server.hang_up()
    wait_for(lambda: server.used("writes") == 0, "the memory of uploads that went away is given back")


def test_downloads_that_are_not_read_hold_nothing(server):
    first, other = make_client(server), make_client(server, account=1)
    first.create_bucket(Bucket="greedy")
    other.create_bucket(Bucket="other")
    body = body_of(32 * MIB)
    first.put_object(Bucket="greedy", Key="big", Body=body)
    goes_on(other, "other")  # what it takes by itself
    before = server.rss()
    count = 3000 if LONG else 300
    request = head(server, "GET", "/greedy/big")
    for i in range(count):
        server.dial(request, receive_buffer=4096 if i > 2 else 65536)  # a tiny one would take minutes to read on
    slowest = goes_on(other, "other")
    wait_for(lambda: server.used("reads") == 0, "readers that do not read give their memory back")
    wait_for(lambda: server.rss() - before < 64 + count * 0.064, "the system has it again")
    rss = server.rss()
    print(f"{count} GETs unread: RSS {before:.0f} -> {rss:.0f} MiB, slowest of another account {slowest:.2f} s")
    slowest = max(slowest, goes_on(other, "other"))
    for connection in server.sockets[:3]:
        top, read = read_answer(connection)
        assert top.startswith(b"HTTP/1.1 200") and read == body or top.startswith(b"HTTP/1.1 503")
    assert first.get_object(Bucket="greedy", Key="big")["Body"].read() == body


def test_documents_count_as_they_arrive(server):
    first, other = make_client(server), make_client(server, account=1)
    first.create_bucket(Bucket="greedy")
    other.create_bucket(Bucket="other")
    before = server.rss()
    count = 400
    request = head(server, "POST", "/greedy", length=4 * MIB, query="delete=", extra={"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="})
    for _ in range(count):
        server.dial(request + b"<Delete>")
    wait_for(lambda: server.used("documents") == count * 32 * 1024, "all documents have begun")
    goes_on(other, "other", rounds=1)
    rss = server.rss()
    print(f"{count} announced documents of 4 MiB: RSS {before:.0f} -> {rss:.0f} MiB")
    assert rss - before < 64 + 150  # the other account's work is in it


def test_lists_that_are_not_read_count(server):
    first, other = make_client(server), make_client(server, account=1)
    first.create_bucket(Bucket="greedy")
    other.create_bucket(Bucket="other")
    names = [f"{i:04d}" + "k" * 900 for i in range(1000)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: first.put_object(Bucket="greedy", Key=name, Body=b""), names))
    before = server.rss()
    count = 300
    request = head(server, "GET", "/greedy", query="list-type=2")
    for _ in range(count):
        server.dial(request, receive_buffer=4096)
    goes_on(other, "other", rounds=1)
    wait_for(lambda: server.metric("penstock_http_connections") >= count, "all asked")
    rss, used = server.rss(), server.used("documents")
    print(f"{count} unread lists: {used / MIB:.0f} MiB counted, RSS {before:.0f} -> {rss:.0f} MiB")
    assert 0 < used < server.metric('penstock_memory_budget_bytes{kind="limit"}') / 2
    assert rss - before < used / MIB + 250


def test_lists_of_parts_hold_what_they_show(server):
    """A page of one part costs no more than that, and Completes take memory of their account for the list that they read."""
    s3 = make_client(server)
    s3.create_bucket(Bucket="parts")
    upload = s3.create_multipart_upload(Bucket="parts", Key="k")["UploadId"]
    count = 3000
    with ThreadPoolExecutor(8) as pool:
        send = lambda n: s3.upload_part(Bucket="parts", Key="k", UploadId=upload, PartNumber=n, Body=b"p")["ETag"]
        tags = list(pool.map(send, range(1, count + 1)))
    assert [p["PartNumber"] for p in s3.list_parts(Bucket="parts", Key="k", UploadId=upload, PartNumberMarker=2998)["Parts"]] == [2999, 3000]
    page = s3.list_parts(Bucket="parts", Key="k", UploadId=upload, MaxParts=2, PartNumberMarker=255)
    assert [p["PartNumber"] for p in page["Parts"]] == [256, 257] and page["IsTruncated"] and page["NextPartNumberMarker"] == 257
    before = server.peak()
    request = head(server, "GET", "/parts/k", query=f"max-parts=1&uploadId={upload}")
    answers = [read_answer(connection)[0][:12] for connection in [server.dial(request) for _ in range(300)]]
    assert set(answers) <= {b"HTTP/1.1 200", b"HTTP/1.1 503"} and answers.count(b"HTTP/1.1 200") > 16, answers
    lists = server.peak()
    body = ("<CompleteMultipartUpload>" + "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>"
                                                  for n, tag in enumerate(tags, 1)) + "</CompleteMultipartUpload>").encode()
    request = head(server, "POST", "/parts/k", length=len(body), query=f"uploadId={upload}")
    answers = [read_answer(connection)[0][:12] for connection in [server.dial(request + body) for _ in range(100)]]
    assert set(answers) <= {b"HTTP/1.1 400", b"HTTP/1.1 503"}, answers  # parts of one byte
    assert answers.count(b"HTTP/1.1 400") > 16, "those who read come to their end, whoever waits"
    completes = server.peak()
    print(f"peak: {before:.0f} MiB, {lists:.0f} after 300 lists, {completes:.0f} after 100 completes")
    assert lists - before < 32 and completes - lists < 150
    wait_for(lambda: server.used("documents") == 0, "the lists' memory is given back")


def test_garbage_that_is_refused_holds_little(server):
    before = server.rss()
    count = 9500 if LONG else 1500
    worst = before
    for i in range(count):
        server.dial(b"\x16\x03\x01 garbage\r\n\r\n")
        if i % 500 == 0:
            worst = max(worst, server.rss())
    worst = max(worst, server.rss())
    print(f"{count} refused connections: RSS {before:.0f} -> {worst:.0f} MiB")
    assert worst - before < 32 + count * 0.02
    assert server.ready()


def test_long_heads_count(server):
    before = server.rss()
    count = 2000 if LONG else 300
    for _ in range(count):
        server.dial(b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 20000)
    wait_for(lambda: server.used("documents") >= count * 32 * 1024, "heads beyond 4 KiB count")
    print(f"{count} half heads of 20 kB: RSS {before:.0f} -> {server.rss():.0f} MiB")
    server.hang_up()
    wait_for(lambda: server.used("documents") == 0, "heads give their memory back")


def test_idle_connections_hold_next_to_nothing(server):
    s3 = make_client(server)
    s3.create_bucket(Bucket="idle")
    s3.put_object(Bucket="idle", Key="k", Body=b"v")
    before = server.rss()
    count = 7000 if LONG else 1000
    request = head(server, "GET", "/idle/k")
    for _ in range(count):
        connection = server.dial(request)
        assert read_answer(connection)[1] == b"v"
    wait_for(lambda: server.metric("penstock_http_connections") >= count, "all are there")
    each = lambda: (server.rss() - before) * 1024 / count
    wait_for(lambda: each() < 12 + 8 * 1024 / count, "an idle connection holds next to nothing")
    rss = server.rss()
    print(f"{count} idle connections: RSS {before:.0f} -> {rss:.0f} MiB, {(rss - before) * 1024 / count:.1f} KiB each")


def test_silent_strangers_make_room(tmp_path):
    with Server(tmp_path, config={"connections_max": 200}) as server:
        s3 = make_client(server)
        s3.create_bucket(Bucket="open")
        s3.put_object(Bucket="open", Key="big", Body=body_of(16 * MIB))
        upload = server.dial(head(server, "PUT", "/open/moving", length=200) + b"x" * 100)  # in work
        reader = server.dial(head(server, "GET", "/open/big"), receive_buffer=65536)
        for i in range(600):
            server.dial(b"GET" if i % 3 == 0 else b"")
        for _ in range(5):
            fresh = make_client(server)
            fresh.put_object(Bucket="open", Key="k", Body=b"v" * 100_000)
            assert fresh.get_object(Bucket="open", Key="k")["Body"].read() == b"v" * 100_000
        upload.sendall(b"x" * 100)
        assert read_answer(upload)[0].startswith(b"HTTP/1.1 200")
        assert read_answer(reader)[1] == body_of(16 * MIB)
        assert server.refused("evicted_idle") > 300
        assert server.metric("penstock_http_connections") <= 200 + 64


def test_who_works_is_not_put_out(tmp_path):
    with Server(tmp_path, config={"connections_max": 40}) as server:
        s3 = make_client(server)
        s3.create_bucket(Bucket="full")
        moving = []
        for i in range(40):
            request = head(server, "PUT", f"/full/k{i}", length=200, extra={"expect": "100-continue"})
            moving.append(server.dial(request))
            assert moving[-1].recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"  # it is in work
            moving[-1].sendall(b"x" * 100)
        wait_for(lambda: server.metric("penstock_http_connections") == 40, "all are there, in the place of what was idle")
        late = server.dial()
        late.sendall(head(server, "GET", "/full/k"))
        top, body = read_answer(late)
        assert top.startswith(b"HTTP/1.1 503") and b"<Code>SlowDown</Code>" in body
        for connection in moving:
            connection.sendall(b"x" * 100)
            assert read_answer(connection)[0].startswith(b"HTTP/1.1 200")


def test_a_bound_per_address(tmp_path):
    with Server(tmp_path, config={"connections_max": 1000, "connections_per_address_max": 20}) as server:
        make_client(server).create_bucket(Bucket="shared")
        near = [server.dial(head(server, "PUT", f"/shared/k{i}", length=200) + b"x" * 100, source="127.0.0.2") for i in range(20)]
        wait_for(lambda: server.metric("penstock_http_connections") >= 20, "all are there")
        top, _ = read_answer(server.dial(head(server, "GET", "/shared/k"), source="127.0.0.2"))
        assert top.startswith(b"HTTP/1.1 503")
        assert server.refused("too_many_of_address") == 1
        make_client(server).put_object(Bucket="shared", Key="from-another-address", Body=b"v")
        for connection in near:
            connection.sendall(b"x" * 100)
            assert read_answer(connection)[0].startswith(b"HTTP/1.1 200")


def stalled_puts(server, bucket, count, source):
    """How many of `count` uploads from one address are in work, each half sent."""
    begun = 0
    for i in range(count):
        connection = server.dial(source=source)
        connection.sendall(head(server, "PUT", f"/{bucket}/k{i}", length=20000, extra={"expect": "100-continue"}))
        try:
            begun += connection.recv(100).startswith(b"HTTP/1.1 100")
        except ConnectionError:
            continue
    return begun


def test_a_bound_per_address_holds_though_others_idle(tmp_path):
    with Server(tmp_path, config={"connections_max": 1000, "connections_per_address_max": 20}) as server:
        s3 = make_client(server)
        s3.create_bucket(Bucket="shared")
        idle = server.dial(head(server, "GET", "/shared"))
        read_answer(idle)
        stalled_puts(server, "shared", 100, "127.0.0.2")
        wait_for(lambda: server.metric("penstock_http_connections") <= 20 + 3, "one address has its bound, beside the idle", 10)


def test_one_busy_address_leaves_room_that_idle_ones_can_make(tmp_path):
    with Server(tmp_path, config={"connections_max": 80}) as server:
        make_client(server).create_bucket(Bucket="shared")
        for _ in range(15):
            read_answer(server.dial(head(server, "GET", "/shared"), source="127.0.0.3"))
        stalled_puts(server, "shared", 120, "127.0.0.2")
        for _ in range(5):  # in the place of an idle one
            top, _ = read_answer(server.dial(head(server, "GET", "/shared"), source="127.0.0.4"))
            assert top.startswith(b"HTTP/1.1 200"), top


def test_pages_count_before_they_are_made(tmp_path):
    budget = 128 * MIB
    with Server(tmp_path, config={"memory": 4 * budget}) as server:
        s3 = make_client(server)
        s3.create_bucket(Bucket="greedy")
        names = [f"{i:04d}" + '"' * 1000 for i in range(1000)]  # six bytes each, in XML
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda name: s3.put_object(Bucket="greedy", Key=name, Body=b""), names))
        before, worst = server.rss(), 0
        request = head(server, "GET", "/greedy", query="list-type=2")
        for i in range(600):
            server.dial(request, receive_buffer=4096)
            worst = max(worst, server.rss())
        answered = lambda: server.metric('penstock_requests_total{operation="ListObjectsV2"}') >= 600
        end = time.monotonic() + 15  # those in a queue, too; unread ones are no answers yet
        while time.monotonic() < end and not answered():
            worst = max(worst, server.rss())
        print(f"600 pages of 6 MB: RSS {before:.0f} -> {worst:.0f} MiB, {budget / MIB:.0f} MiB may be held")
        assert worst - before < 1.5 * budget / MIB


def test_the_first_byte_comes_within_ten_seconds(server):
    silent = server.dial()
    spoke = server.dial(b"GET /idle HTTP/1.1\r\nHost: h\r\n\r\n")
    read_answer(spoke)
    began = time.monotonic()
    assert silent.recv(1) == b""
    assert 8 < time.monotonic() - began < 13
    spoke.sendall(b"GET /idle HTTP/1.1\r\nHost: h\r\n\r\n")  # a connection that was used may idle for longer
    assert read_answer(spoke)[0].startswith(b"HTTP/1.1 403")


def test_the_admin_port_answers_behind_silent_connections(server):
    for i in range(300):
        server.dial(b"GET /me" if i % 2 else b"", port=server.admin_port)
    for _ in range(20):
        assert server.admin("/healthz")[0] == 200
    assert server.ready()


REMOVAL = {"removal": {"hint_delay_seconds": 3, "lease_seconds": 10, "hints_every_seconds": 1, "sweep_every_seconds": 1}}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pause", [80, 300] if LONG else [12])
def test_a_reader_may_pause(tmp_path, pause):
    """Even if its object is overwritten meanwhile, and what it reads would be removed after seconds."""
    with Server(tmp_path, config=REMOVAL) as server:
        s3 = make_client(server)
        s3.create_bucket(Bucket="pauses")
        body = body_of(32 * MIB)
        s3.put_object(Bucket="pauses", Key="k", Body=body)
        reader = server.dial(head(server, "GET", "/pauses/k"), receive_buffer=65536)
        assert reader.recv(1000)
        s3.put_object(Bucket="pauses", Key="k", Body=b"new" * MIB)
        wait_for(lambda: server.used("reads") == 0, "a reader that pauses holds nothing")
        end = time.monotonic() + pause
        while time.monotonic() < end:
            time.sleep(1)
            assert server.ready()
        received = 1000
        while received < len(body):
            block = reader.recv(1 << 20)
            assert block, f"cut after {received} bytes"
            received += len(block)


def test_a_reader_that_never_reads_is_closed(tmp_path):
    with Server(tmp_path, config={"reader_pause_seconds": 10}) as server:
        s3 = make_client(server)
        s3.create_bucket(Bucket="pauses")
        s3.put_object(Bucket="pauses", Key="k", Body=body_of(32 * MIB))
        server.dial(head(server, "GET", "/pauses/k"), receive_buffer=65536)
        wait_for(lambda: server.metric("penstock_http_connections") >= 1, "it is there")
        wait_for(lambda: server.metric("penstock_memory_used_bytes") == 0, "nothing is held")
        steady = server.dial(head(server, "GET", "/pauses/k"), receive_buffer=65536)
        end = time.monotonic() + (60 if LONG else 15)
        received = 0
        while time.monotonic() < end:  # 20 kB/s, in the rhythm of a player
            block = steady.recv(4000)
            assert block, f"cut after {received} bytes"
            received += len(block)
            time.sleep(0.2)
        wait_for(lambda: server.metric("penstock_http_connections") == 2, "only the dead one is closed")  # and a client's
        while received < 32 * MIB:
            block = steady.recv(1 << 20)
            assert block, f"cut after {received} bytes"
            received += len(block)


@pytest.mark.skipif(not LONG, reason="minutes")
@pytest.mark.parametrize("rate", [2_000, 10_000, 60_000])
def test_slow_readers_are_not_cut(server, rate):
    s3 = make_client(server)
    s3.create_bucket(Bucket="slow")
    s3.put_object(Bucket="slow", Key="k", Body=body_of(16 * MIB))
    reader = server.dial(head(server, "GET", "/slow/k"))
    end = time.monotonic() + 150
    received = 0
    while time.monotonic() < end:
        block = reader.recv(rate)
        assert block, f"cut after {received} bytes"
        received += len(block)
        time.sleep(1)
    while received < 16 * MIB:
        block = reader.recv(1 << 20)
        assert block, f"cut after {received} bytes"
        received += len(block)
