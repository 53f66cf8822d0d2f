"""One name, one meaning: what is signed joined must not be read singly."""
import hashlib

import pytest

from signing import Signer, send_request


def ask_lines(store, method, path, lines, query="", body=b""):
    """Like an SDK that sends header lines as they are, and signs repeats joined with commas."""
    joined = {}
    for name, value in lines:
        joined[name.lower()] = f"{joined[name.lower()]},{value}" if name.lower() in joined else value
    signed = Signer(store).headers(method, path, hashlib.sha256(body).hexdigest(), joined, query)
    lines = [*((name, value) for name, value in signed.items() if name not in joined), *lines]
    status, _, text = send_request(store, method, path, query, lines, body)
    return status, text


def test_two_sources_of_a_copy_are_refused(store, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    status, text = ask_lines(store, "PUT", f"/{bucket}/c", [("x-amz-copy-source", f"{bucket}/a"), ("x-amz-copy-source", "b")])
    assert (status, "<Code>InvalidArgument</Code>" in text) == (400, True)


@pytest.mark.parametrize("name,values", [
    ("x-amz-acl", ("private", "private")), ("content-type", ("a/b", "c/d")), ("x-amz-storage-class", ("STANDARD", "GLACIER")),
    ("content-md5", ("a", "a")), ("x-amz-checksum-crc32", ("AAAAAA==", "AAAAAA==")), ("expires", ("a", "b")), ("range", ("bytes=0-0", "bytes=1-1")),
    ("if-unmodified-since", ("a", "b")), ("x-amz-expected-bucket-owner", ("1", "2")), ("x-amz-tagging", ("", "a=b")),
    ("x-amz-website-redirect-location", ("/a", "/b")), ("x-amz-unheard-of", ("1", "2")), ("content-disposition", ("a", "b"))])
def test_a_header_twice_is_refused(store, bucket, name, values):
    for method in ("PUT", "GET"):
        status, text = ask_lines(store, method, f"/{bucket}/k", [(name, value) for value in values])
        assert (status, "<Code>InvalidArgument</Code>" in text) == (400, True)


def test_metadata_and_lists_are_joined(store, s3, bucket):
    lines = [("x-amz-meta-a", "1"), ("X-Amz-Meta-A", "2"), ("cache-control", "no-cache"), ("Cache-Control", "no-store"),
             ("content-language", "de"), ("content-language", "en"), ("content-encoding", "gzip"), ("content-encoding", "deflate"), ("via", "x"),
             ("via", "y")]
    assert ask_lines(store, "PUT", f"/{bucket}/k", lines, body=b"x")[0] == 200
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["Metadata"] == {"a": "1,2"} and head["CacheControl"] == "no-cache,no-store"
    assert head["ContentLanguage"] == "de,en" and head["ContentEncoding"] == "gzip,deflate"
    etag = head["ETag"]
    assert ask_lines(store, "GET", f"/{bucket}/k", [("if-none-match", '"x"'), ("if-none-match", etag)])[0] == 304
    assert ask_lines(store, "GET", f"/{bucket}/k", [("if-match", '"x"'), ("if-match", etag)])[0] == 200
    assert ask_lines(store, "PUT", f"/{bucket}/k", [("if-match", etag), ("if-match", '"x"')], body=b"y")[0] == 501
    assert ask_lines(store, "PUT", f"/{bucket}/k", [("if-match", ""), ("if-match", etag)], body=b"y")[0] == 501
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


@pytest.mark.parametrize("query", ["partNumber=1&partNumber=2", "versionId=null&versionId=null", "prefix=a&prefix=b", "x-id=a&x-id=b"])
def test_a_query_parameter_twice_is_refused(store, bucket, query):
    path = f"/{bucket}" if "prefix" in query else f"/{bucket}/k"
    status, text = ask_lines(store, "GET", path, [], query=query)
    assert (status, "<Code>InvalidArgument</Code>" in text) == (400, True)
