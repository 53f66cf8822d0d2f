"""Requests that no SDK sends: S3's code and status, the Resource and one request id in header and body."""
import base64
import hashlib
import http.client
import re
from urllib.parse import quote

import pytest

from signing import Signer

PART = "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>"
COMPLETE = "<CompleteMultipartUpload>{}</CompleteMultipartUpload>"
NO_UPLOAD = "a" * 32


def ask(store, method, path, query="", body=b"", extra=None, account=0, unsigned=None, drop=()):
    """(status, headers, text) of one request, signed but for `unsigned` headers."""
    headers = Signer(store, account=account).headers(method, path, hashlib.sha256(body).hexdigest(), extra, query)
    headers.update(unsigned or {})
    headers = {name: value for name, value in headers.items() if name not in drop}
    connection = http.client.HTTPConnection("127.0.0.1", store.port, timeout=20)
    connection.putrequest(method, quote(path, safe="/-_.~") + ("?" + query if query else ""), skip_host=True, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.putheader("content-length", str(len(body)))
    connection.endheaders()
    connection.send(body)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text


def delete_of(keys):
    return ("<Delete>" + "".join(f"<Object><Key>d{i}</Key></Object>" for i in range(keys)) + "</Delete>").encode()


def md5_of(body):
    return {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()}


def copy_from(source, **extra):
    return {"extra": {"x-amz-copy-source": source, **{name.replace("_", "-"): value for name, value in extra.items()}}}


# Method, path below the bucket, query, what else, status, code. The object "k" has ten bytes.
ODD = [
    *(("GET", "/k", f"partNumber={n}", {}, 400, "InvalidArgument") for n in ("0", "10001", "x", "-1", "1.5", "")),
    ("GET", "/k", "partNumber=2", {}, 416, "InvalidPartNumber"),
    ("GET", "/k", "versionId=", {}, 400, "InvalidArgument"),
    ("GET", "/k", "", {"extra": {"range": "bytes=10-"}}, 416, "InvalidRange"),
    ("GET", "/k", "", {"extra": {"range": "bytes=-0"}}, 416, "InvalidRange"),
    ("GET", "/k", "partNumber=1", {"extra": {"range": "bytes=0-1"}}, 400, "InvalidRequest"),
    ("GET", "/k", "", {"extra": {"x-amz-expected-bucket-owner": "123456789012"}}, 403, "AccessDenied"),
    ("GET", "/k", "attributes=", {"extra": {"x-amz-object-attributes": "Colour"}}, 400, "InvalidArgument"),
    ("GET", "/k", "response-content-type=a%0D%0Ab", {}, 400, "InvalidArgument"),
    ("GET", "/k", "", {"account": 1}, 403, "AccessDenied"),
    ("GET", "", "", {"account": 1}, 403, "AccessDenied"),
    *(("PUT", "/m", f"partNumber={n}&uploadId={NO_UPLOAD}", {"body": b"x"}, 400, "InvalidArgument") for n in ("0", "10001", "x", "")),
    ("PUT", "/m", f"partNumber=1&uploadId={NO_UPLOAD}", {"body": b"x"}, 404, "NoSuchUpload"),
    ("GET", "/m", f"uploadId={NO_UPLOAD}", {}, 404, "NoSuchUpload"),
    ("GET", "/m", "uploadId=short", {}, 404, "NoSuchUpload"),
    ("DELETE", "/m", f"uploadId={NO_UPLOAD}", {}, 404, "NoSuchUpload"),
    ("POST", "/m", f"uploadId={NO_UPLOAD}", {"body": COMPLETE.format(PART.format(1, "e")).encode()}, 404, "NoSuchUpload"),
    ("POST", "/m", f"uploadId={NO_UPLOAD}", {"body": COMPLETE.format("").encode()}, 400, "MalformedXML"),
    ("POST", "", "delete=", {"body": delete_of(1001), "extra": md5_of(delete_of(1001))}, 400, "MalformedXML"),
    ("POST", "", "delete=", {"body": delete_of(0), "extra": md5_of(delete_of(0))}, 400, "MalformedXML"),
    ("POST", "", "delete=", {"body": delete_of(1)}, 400, "InvalidRequest"),
    ("POST", "", "delete=", {"body": delete_of(1), "extra": md5_of(b"")}, 400, "BadDigest"),
    ("POST", "", "delete=", {"body": delete_of(1), "extra": {"content-md5": "abc"}}, 400, "InvalidDigest"),
    ("PUT", "/c", "", copy_from("/{bucket}/none"), 404, "NoSuchKey"),
    ("PUT", "/c", "", copy_from("/no-such-bucket/k"), 404, "NoSuchBucket"),
    *(("PUT", "/c", "", copy_from(source), 400, "InvalidArgument") for source in ("x", "/", "//", "", "/{bucket}/", "/{bucket}/%zz")),
    ("PUT", "/k", "", copy_from("/{bucket}/k"), 400, "InvalidRequest"),
    ("PUT", "/c", "", copy_from("/{bucket}/k", x_amz_metadata_directive="MERGE"), 400, "InvalidArgument"),
    ("PUT", "/c", "", copy_from("/{bucket}/k", x_amz_copy_source_if_match="other"), 412, "PreconditionFailed"),
    *(("PUT", "/m", "partNumber=1&uploadId={upload}", copy_from("/{bucket}/k", x_amz_copy_source_range=text), 400, "InvalidArgument")
      for text in ("0-2", "bytes=0-", "bytes=-5", "bytes=5-2", "bytes=0-1,2-3", "")),
    ("PUT", "/k", "", {"body": b"x", "extra": {"x-amz-storage-class": "COLD"}}, 400, "InvalidStorageClass"),
    ("PUT", "/k", "", {"body": b"x", "extra": {"x-amz-acl": "everybody"}}, 400, "InvalidArgument"),
    ("PUT", "/k", "", {"body": b"x", "extra": {"x-amz-server-side-encryption": "AES256"}}, 501, "NotImplemented"),
    ("PUT", "/k", "", {"body": b"x", "extra": {"x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-crc32c": "AAAAAA=="}}, 400,
     "InvalidRequest"),
    ("PUT", "/k", "", {"body": b"x", "extra": {"if-none-match": "*"}}, 412, "PreconditionFailed"),
    ("PUT", "/none", "", {"body": b"x", "extra": {"if-match": '"e"'}}, 404, "NoSuchKey"),
    ("PUT", "/k", "", {"body": b"x", "unsigned": {"x-amz-meta-a": "b"}}, 403, "AccessDenied"),
    *(("GET", "", query, {}, 400, "InvalidArgument") for query in
      ("max-keys=x", "max-keys=-1", "list-type=3", "encoding-type=xml", "continuation-token=%25&list-type=2", "max-uploads=x&uploads=",
       "version-id-marker=x&versions=")),
    *((method, path, "", {}, 405, "MethodNotAllowed") for method in ("PATCH", "TRACE", "BREW") for path in ("/k", "")),
    ("POST", "/k", "", {}, 405, "MethodNotAllowed"),
    ("DELETE", "", "", {}, 409, "BucketNotEmpty"),
    ("PUT", "", "", {"account": 1}, 409, "BucketAlreadyExists"),
    ("PUT", "", "", {"body": b"<a/>"}, 400, "MalformedXML"),
    ("GET", "/k", "", {"unsigned": {"authorization": "Basic Zm9vOmJhcg=="}}, 400, "InvalidArgument"),
    ("GET", "/k", "", {"unsigned": {"authorization": "AWS4-HMAC-SHA256 Credential=x"}}, 400, "AuthorizationHeaderMalformed"),
    ("GET", "/k", "", {"drop": ("authorization",)}, 403, "AccessDenied"),
]


@pytest.fixture(scope="module")
def odd_bucket(store):
    from conftest import make_client
    s3 = make_client(store)
    s3.create_bucket(Bucket="odd-requests")
    s3.put_object(Bucket="odd-requests", Key="k", Body=b"0123456789")
    yield "odd-requests", s3.create_multipart_upload(Bucket="odd-requests", Key="m")["UploadId"]
    assert s3.get_object(Bucket="odd-requests", Key="k")["Body"].read() == b"0123456789"
    assert [e["Key"] for e in s3.list_objects_v2(Bucket="odd-requests")["Contents"]] == ["k"]
    assert store.process.poll() is None


@pytest.mark.parametrize("method,path,query,more,status,code", ODD)
def test_an_odd_request_gets_the_error_of_s3(store, odd_bucket, method, path, query, more, status, code):
    bucket, upload = odd_bucket
    resource = f"/{bucket}{path}"
    more = dict(more)
    if "extra" in more:
        more["extra"] = {name: value.replace("{bucket}", bucket) for name, value in more["extra"].items()}
    got, headers, text = ask(store, method, resource, query.replace("{upload}", upload), **more)
    assert (got, re.findall("<Code>(.*?)</Code>", text)) == (status, [code]), text
    assert f"<Resource>{resource}</Resource>" in text and headers["content-type"] == "application/xml"
    assert f"<RequestId>{headers['x-amz-request-id']}</RequestId>" in text and f"<HostId>{headers['x-amz-id-2']}</HostId>" in text


@pytest.mark.parametrize("path,query,more,status", [("/none", "", {}, 404), ("/k", "", {"extra": {"range": "bytes=99-"}}, 416),
                                                    ("/k", "", {"extra": {"if-match": '"e"'}}, 412), ("", "", {"account": 1}, 403)])
def test_an_error_of_a_head_has_no_body_and_keeps_the_connection(store, odd_bucket, path, query, more, status):
    got, headers, text = ask(store, "HEAD", f"/{odd_bucket[0]}{path}", query, **more)
    assert (got, text) == (status, "") and headers["x-amz-request-id"] and headers.get("connection") != "close"
