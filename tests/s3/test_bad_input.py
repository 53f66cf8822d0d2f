"""Bad input: each gets S3's error, changes nothing, and never ends the server."""
import base64
import datetime
import hashlib
import os
import socket
import zlib

import pytest

from signing import EMPTY, Signer, send

UNSIGNED_TRAILER, SIGNED, SIGNED_TRAILER = ("STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
                                            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER")
OLD = b"the old object"


@pytest.fixture
def kept(s3, bucket, store):
    """A path whose object must be unchanged at the end, and the store alive."""
    s3.put_object(Bucket=bucket, Key="k", Body=OLD)
    yield f"/{bucket}/k"
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == OLD
    assert store.process.poll() is None and store.ready()


def crc32(body):
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


@pytest.mark.parametrize("mode", [UNSIGNED_TRAILER, SIGNED, SIGNED_TRAILER, "UNSIGNED-PAYLOAD", "hash"])
@pytest.mark.parametrize("size", [0, 5, 70_000, 3_000_000])
def test_every_payload_mode_stores_the_body(store, s3, bucket, mode, size):
    body, path, signer = os.urandom(size), f"/{bucket}/k", Signer(store)
    if mode in ("UNSIGNED-PAYLOAD", "hash"):
        headers = signer.headers("PUT", path, hashlib.sha256(body).hexdigest() if mode == "hash" else mode)
        sent = body
    else:
        extra = {"x-amz-decoded-content-length": str(size), "content-encoding": "gzip,aws-chunked"}
        trailer = ("x-amz-checksum-crc32", crc32(body)) if "TRAILER" in mode else None
        if trailer:
            extra["x-amz-trailer"] = trailer[0]
        headers = signer.headers("PUT", path, mode, extra)
        pieces = [body[i:i + 65536] for i in range(0, size, 65536)]
        sent = signer.chunks(pieces, signed=mode != UNSIGNED_TRAILER, trailer=trailer)
    status, text = send(store, "PUT", path, headers, sent)
    assert status == 200, text
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == body
    if "TRAILER" in mode:
        assert got["ChecksumCRC32"] == crc32(body)
    if mode.startswith("STREAMING"):
        assert got["ContentEncoding"] == "gzip"


@pytest.mark.parametrize("mode", [UNSIGNED_TRAILER, SIGNED, SIGNED_TRAILER, "UNSIGNED-PAYLOAD", EMPTY])
def test_a_wrong_secret_is_refused_in_every_mode(store, kept, mode):
    signer = Signer(store, secret="w" * 40)
    extra = {"x-amz-decoded-content-length": "5"} if mode.startswith("STREAMING") else {}
    status, text = send(store, "PUT", kept, signer.headers("PUT", kept, mode, extra), b"5\r\nhello\r\n0\r\n\r\n")
    assert status == 403 and "SignatureDoesNotMatch" in text


def test_who_is_nobody(store, kept):
    signer = Signer(store)
    signer.access = "NOSUCHACCESSKEY00000"
    status, text = send(store, "GET", kept, signer.headers("GET", kept, EMPTY))
    assert status == 403 and "InvalidAccessKeyId" in text
    status, text = send(store, "GET", kept, {"host": signer.host})
    assert status == 403 and "AccessDenied" in text
    late = Signer(store, when=datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=16))
    status, text = send(store, "GET", kept, late.headers("GET", kept, EMPTY))
    assert status == 403 and "RequestTimeTooSkewed" in text


def test_bodies_that_do_not_match(store, kept):
    signer = Signer(store)
    put = lambda payload, extra, body: send(store, "PUT", kept, signer.headers("PUT", kept, payload, extra), body)
    cases = [
        (hashlib.sha256(b"other").hexdigest(), {}, b"hello", "XAmzContentSHA256Mismatch"),
        ("UNSIGNED-PAYLOAD", {"content-md5": base64.b64encode(hashlib.md5(b"x").digest()).decode()}, b"hello", "BadDigest"),
        ("UNSIGNED-PAYLOAD", {"content-md5": "short"}, b"hello", "InvalidDigest"),
        ("UNSIGNED-PAYLOAD", {"x-amz-checksum-crc32": crc32(b"x")}, b"hello", "BadDigest"),
        ("UNSIGNED-PAYLOAD", {"x-amz-checksum-crc32": "?"}, b"hello", "InvalidRequest"),
        ("UNSIGNED-PAYLOAD", {"x-amz-sdk-checksum-algorithm": "CRC32"}, b"hello", "InvalidRequest"),
    ]
    for payload, extra, body, code in cases:
        for size in (1, 1000, 60_000):
            status, text = put(payload, extra, body * size)
            assert status == 400 and code in text, (extra, size, status, text)


@pytest.mark.parametrize("what,code", [
    ("first", "SignatureDoesNotMatch"), ("last", "SignatureDoesNotMatch"), ("short", "IncompleteBody"), ("long", "IncompleteBody"),
    ("size", "InvalidRequest"), ("trailer", "BadDigest"), ("trailer-signature", "SignatureDoesNotMatch"), ("no-end", "IncompleteBody")])
def test_broken_chunks(store, kept, what, code):
    signer, body = Signer(store), os.urandom(150_000)
    length = {"short": len(body) + 10, "long": len(body) - 10}.get(what, len(body))
    extra = {"x-amz-decoded-content-length": str(length), "x-amz-trailer": "x-amz-checksum-crc32"}
    headers = signer.headers("PUT", kept, SIGNED_TRAILER, extra)
    pieces = [body[:65536], body[65536:131072], body[131072:]]
    sent = signer.chunks(pieces, trailer=("x-amz-checksum-crc32", crc32(b"?" if what == "trailer" else body)))
    if what == "first":
        sent = sent.replace(b"chunk-signature=", b"chunk-signature=0", 1)
    elif what == "last":
        at = sent.rindex(b"0;chunk-signature=") + 20
        sent = sent[:at] + (b"0" if sent[at:at + 1] != b"0" else b"1") + sent[at + 1:]
    elif what == "size":
        sent = b"ffffffffffffffffff" + sent[5:]
    elif what == "trailer-signature":
        at = sent.index(b"x-amz-trailer-signature:") + 30
        sent = sent[:at] + (b"0" if sent[at:at + 1] != b"0" else b"1") + sent[at + 1:]
    elif what == "no-end":
        sent = sent[:sent.rindex(b"0;chunk-signature=")]
    status, text = send(store, "PUT", kept, headers, sent)
    assert status in (400, 403) and "<Error>" in text, text
    if what != "size":
        assert code in text, text


def test_a_client_that_goes_away_leaves_nothing(store, kept, s3, bucket):
    signer, size = Signer(store), 20 << 20
    for sent in (0, 1000, 9 << 20):
        for path in (kept, f"/{bucket}/new"):
            headers = signer.headers("PUT", path, "UNSIGNED-PAYLOAD")
            head = f"PUT {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + f"content-length: {size}\r\n\r\n"
            with socket.create_connection(("127.0.0.1", store.port)) as connection:
                connection.sendall(head.encode() + b"x" * sent)
    assert [e["Key"] for e in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]


FRAMING = [
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    b"Content-Length: 5\r\nContent-Length: 5\r\n", b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: +5\r\n",
    b"Content-Length: 5,5\r\n", b"Content-Length: -1\r\n", b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: chunked, chunked\r\n",
    b"Content-Length : 5\r\n", b"X: a\r\n b\r\n", b"X: a\x00b\r\n", b"X: a\nY: b\r\n", b"X: a\rb\r\n"]


@pytest.mark.parametrize("lines", FRAMING)
def test_framing_that_two_readers_could_read_differently(store, kept, lines):
    inner = f"GET {kept} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    received = store.raw(f"PUT {kept} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode() + lines + b"\r\nhello" + inner)
    assert received.startswith(b"HTTP/1.1 400 ") and received.count(b"HTTP/1.1 ") == 1


def test_heads_beyond_the_limits(store, kept):
    received = store.raw(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 400 ") and b"<Code>RequestHeaderSectionTooLarge</Code>" in received
    received = store.raw(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: a\r\n" % i for i in range(1000)) + b"\r\n")
    assert received.startswith(b"HTTP/1.1 400 ") and b"<Code>RequestHeaderSectionTooLarge</Code>" in received
    for target in (b"", b"*", b"/%", b"/%zz", b"/a b", b"/\x01"):
        assert store.raw(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 4")


BAD_XML = [b"", b"<", b"<a/>", b"<!DOCTYPE a [<!ENTITY b 'c'>]><Delete>&b;</Delete>", b"<Delete>" * 1000, b"<Delete><Object></Object></Delete>",
           b"\xff\xfe<\x00D\x00", b"<CompleteMultipartUpload><Part><PartNumber>x</PartNumber></Part></CompleteMultipartUpload>"]


@pytest.mark.parametrize("xml", BAD_XML)
def test_xml_that_is_none(store, kept, s3, bucket, xml):
    signer = Signer(store)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    md5 = base64.b64encode(hashlib.md5(xml).digest()).decode()
    for path, query in ((f"/{bucket}", "delete="), (f"/{bucket}/m", f"uploadId={upload}")):
        headers = signer.headers("POST", path, hashlib.sha256(xml).hexdigest(), {"content-md5": md5}, query)
        status, text = send(store, "POST", path + "?" + query, headers, xml)
        assert status == 400 and "<Code>MalformedXML</Code>" in text, (path, status, text)
    assert len(s3.list_multipart_uploads(Bucket=bucket)["Uploads"]) == 1


def test_names_and_lengths(store, kept, s3, bucket):
    signer = Signer(store)
    for method, path, code in (("PUT", f"/{bucket}/{'k' * 1025}", "KeyTooLongError"), ("GET", f"/{bucket}/none", "NoSuchKey"),
                               ("GET", "/no-such-bucket/k", "NoSuchBucket"), ("PUT", "/no-such-bucket/k", "NoSuchBucket")):
        status, text = send(store, method, path, signer.headers(method, path, EMPTY))
        assert f"<Code>{code}</Code>" in text and status in (400, 404), (path, text)
        assert "<RequestId>" in text and "<Resource>" in text
    headers = signer.headers("PUT", kept, "UNSIGNED-PAYLOAD")
    head = f"PUT {kept} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    assert b"MissingContentLength" in store.raw(head.encode() + b"\r\n")
    assert b"EntityTooLarge" in store.raw(head.encode() + b"content-length: 5368709121\r\nexpect: 100-continue\r\n\r\n")
    metadata = {"x-amz-meta-a": "v" * 2100}
    status, text = send(store, "PUT", kept, signer.headers("PUT", kept, EMPTY, metadata))
    assert status == 400 and "MetadataTooLarge" in text


def test_expect_is_answered_or_refused_before_the_body(store, kept):
    signer = Signer(store)
    good = signer.headers("PUT", kept, hashlib.sha256(OLD).hexdigest())
    for headers, first in ((good, b"HTTP/1.1 100 "), (dict(good, authorization=good["authorization"][:-1] + "x"), b"HTTP/1.1 403 ")):
        head = f"PUT {kept} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        with socket.create_connection(("127.0.0.1", store.port), timeout=5) as connection:
            connection.sendall(head.encode() + f"content-length: {len(OLD)}\r\nExpect: 100-Continue\r\n\r\n".encode())
            assert connection.recv(65536).startswith(first)
            if first.startswith(b"HTTP/1.1 100"):
                connection.sendall(OLD)
                assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
