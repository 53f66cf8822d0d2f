"""Requests that no SDK sends: S3's code and status, the Resource and one request id in header and body."""
import base64
import hashlib
import re

import pytest

from signing import Signer, send_request

PART = "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>"
COMPLETE = "<CompleteMultipartUpload>{}</CompleteMultipartUpload>"
NO_UPLOAD = "a" * 32


def ask(store, method, path, query="", body=b"", extra=None, account=0, unsigned=None, drop=()):
    """(status, headers, text) of one request, signed but for `unsigned` headers."""
    headers = Signer(store, account=account).headers(method, path, hashlib.sha256(body).hexdigest(), extra, query)
    headers.update(unsigned or {})
    headers = {name: value for name, value in headers.items() if name not in drop}
    return send_request(store, method, path, query, headers.items(), body)


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
    *(("PUT", "/m", "partNumber=1&uploadId={upload}", copy_from("/{bucket}/k", x_amz_copy_source_range=text), 400, "InvalidArgument")
      for text in ("bytes=0-10", "bytes=10-10", "bytes=99-100", "bytes=0-99999999999999999999")),
    ("PUT", "/c", "", copy_from("/{bucket}/k", x_amz_copy_source_range="bytes=0-1"), 501, "NotImplemented"),
    *(("PUT", "/c", "", copy_from("/{bucket}/" + source), 400, "InvalidArgument") for source in ("%ff", "a%c0%af", "%ed%a0%80")),
    *(("GET", "", f"{name}=%FF", {}, 400, "InvalidURI") for name in ("prefix", "marker", "start-after", "delimiter", "key-marker")),
    ("GET", "/k", "partNumber=1&partNumber=1", {}, 400, "InvalidArgument"),
    ("PUT", "/k", "", {"body": b"x", "extra": {"x-amz-security-token": "no-such-session"}}, 400, "InvalidToken"),
    ("GET", "/k", "", {"extra": {"x-amz-security-token": "no-such-session"}}, 400, "InvalidToken"),
    ("GET", "/k", "response-x-amz-acl=a", {}, 400, "InvalidArgument"),
    ("GET", "/k", "", {"extra": {"x-amz-server-side-encryption": "AES256"}}, 400, "InvalidArgument"),
    ("PUT", "", "", {"extra": {"x-amz-bucket-namespace": "account-regional"}}, 501, "NotImplemented"),
    ("PUT", "", "", {"body": b"<CreateBucketConfiguration><DataRedundancy>x</DataRedundancy></CreateBucketConfiguration>"}, 501, "NotImplemented"),
    ("PUT", "/k", "", {"body": b"x", "extra": {"cache-control": "c" * 8200}}, 400, "RequestHeaderSectionTooLarge"),
    ("POST", "/m", "uploads=", {"extra": {"cache-control": "c" * 8200}}, 400, "RequestHeaderSectionTooLarge"),
    ("POST", "/m", "uploads=", {"extra": {"x-amz-meta-a": "c" * 2048}}, 400, "MetadataTooLarge"),
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


@pytest.mark.parametrize("path", ["/k%FF", "/%C0%80", "/a%ED%A0%80", "/%E2%82"])
def test_a_key_that_is_no_utf8_is_refused(store, odd_bucket, path):
    for method in ("PUT", "GET", "HEAD", "DELETE"):
        answer = store.raw(f"{method} /{odd_bucket[0]}{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 400 ") and (method == "HEAD" or b"<Code>InvalidURI</Code>" in answer)


def signed_head(store, method, path, extra, payload="UNSIGNED-PAYLOAD", query=""):
    """The request's head as bytes, without its last empty line."""
    headers = Signer(store).headers(method, path, payload, extra, query)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path}{'?' + query if query else ''} HTTP/1.1\r\n{lines}".encode()


@pytest.mark.parametrize("method,query,body,status", [("GET", "", b"0\r\n\r\n", 200), ("HEAD", "", b"0\r\n\r\n", 200), ("GET", "", b"1\r\nx\r\n0\r\n\r\n", 200),
                                                      ("POST", "uploads=", b"0\r\n\r\n", 200), ("PUT", "", b"0\r\n\r\n", 411)])
def test_an_empty_body_in_chunks(store, odd_bucket, s3, method, query, body, status):
    path = f"/{odd_bucket[0]}/k"
    answer = store.raw(signed_head(store, method, path, {}, query=query) + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("trailer", [b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n", b"a: b\r\n\r\n"])
def test_trailer_fields_of_http_are_refused_and_not_taken_for_a_stall(store, odd_bucket, trailer):
    head = signed_head(store, "PUT", f"/{odd_bucket[0]}/k", {"x-amz-decoded-content-length": "1"}, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    body = b"1\r\nx\r\n0\r\n\r\n"
    answer = store.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n0\r\n" % (len(body), body) + trailer)
    assert answer.startswith(b"HTTP/1.1 400 ") and b"<Code>InvalidRequest</Code>" in answer and b"trailer" in answer


def test_an_unsigned_trailer_as_minio_go_writes_it(store, odd_bucket, s3):
    from awscrt import checksums
    value = base64.b64encode(checksums.crc32c(b"x").to_bytes(4, "big"))
    body = b"1\r\nx\r\n0\r\nx-amz-checksum-crc32c:" + value + b"\n\r\n\r\n"
    extra = {"x-amz-decoded-content-length": "1", "x-amz-trailer": "x-amz-checksum-crc32c"}
    head = signed_head(store, "PUT", f"/{odd_bucket[0]}/minio", extra, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    answer = store.raw(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    got = s3.get_object(Bucket=odd_bucket[0], Key="minio", ChecksumMode="ENABLED")
    assert got["Body"].read() == b"x" and got["ChecksumCRC32C"] == value.decode()
    s3.delete_object(Bucket=odd_bucket[0], Key="minio")


@pytest.mark.parametrize("path", ["", "/"])
def test_a_form_is_not_served_and_says_so(store, odd_bucket, path):
    boundary = "xyz"
    body = (f"--{boundary}\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n--{boundary}\r\n"
            f"Content-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--{boundary}--\r\n").encode()
    answer = store.raw(f"POST /{odd_bucket[0]}{path} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary={boundary}\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert answer.startswith(b"HTTP/1.1 501 ") and b"<Code>NotImplemented</Code>" in answer


def test_a_wrong_signature_echoes_little(store, odd_bucket):
    for query in ("a" * 20000 + "=1", "&".join(f"{'%26' * 40}{i}=%3C" for i in range(150))):
        answer = store.raw(signed_head(store, "GET", f"/{odd_bucket[0]}/k", {"x-amz-meta-a": "b" * 8000}).replace(
            b"/k HTTP", b"/k?" + query.encode() + b" HTTP") + b"\r\n")
        assert b"<Code>SignatureDoesNotMatch</Code>" in answer
        body = answer.split(b"\r\n\r\n", 1)[1]
        assert len(body) < 4096 + 700 and body.endswith(b"</Error>") and b"<StringToSign>AWS4-HMAC-SHA256" in body


@pytest.mark.parametrize("zone", ["GMT", "+0000", "-0000"])
def test_a_date_instead_of_x_amz_date(store, odd_bucket, zone):
    import datetime
    import hmac
    now = datetime.datetime.now(datetime.timezone.utc)
    signer = Signer(store, when=now)
    date = now.strftime("%a, %d %b %Y %H:%M:%S ") + zone
    headers = {"date": date, "host": signer.host, "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    path = f"/{odd_bucket[0]}/k"
    canonical = "\n".join(["GET", path, "", *(f"{k}:{v}" for k, v in sorted(headers.items())), "", ";".join(sorted(headers)), "UNSIGNED-PAYLOAD"])
    text = "\n".join(["AWS4-HMAC-SHA256", signer.stamp, signer.scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signature = hmac.new(signer.key, text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={signer.access}/{signer.scope}, SignedHeaders={';'.join(sorted(headers))}, "
                                f"Signature={signature}")
    lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    assert store.raw(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()).startswith(b"HTTP/1.1 200 ")


def test_buckets_of_a_region_are_listed(store, odd_bucket):
    for region, there in (("us-east-1", True), ("eu-west-1", False)):
        status, _, text = ask(store, "GET", "/", f"bucket-region={region}")
        assert status == 200 and (f"<Name>{odd_bucket[0]}</Name>" in text) == there


def test_uploads_of_the_largest_headers_are_completed(store, odd_bucket, s3):
    bucket = odd_bucket[0]
    extra = {"cache-control": "c" * 5200, "x-amz-meta-a": "m" * 2000}
    status, _, text = ask(store, "POST", f"/{bucket}/large", "uploads=", extra=extra)
    assert status == 200, text
    upload = re.findall("<UploadId>(.*?)</UploadId>", text)[0]
    parts = [{"PartNumber": i, "ETag": s3.upload_part(Bucket=bucket, Key="large", UploadId=upload, PartNumber=i, Body=bytes(5 << 20))["ETag"]}
             for i in range(1, 34)]
    for count in (32, 33):
        if count == 33:
            status, _, text = ask(store, "POST", f"/{bucket}/large", "uploads=", extra=extra)
            upload = re.findall("<UploadId>(.*?)</UploadId>", text)[0]
            parts = [{"PartNumber": i, "ETag": s3.upload_part(Bucket=bucket, Key="large", UploadId=upload, PartNumber=i, Body=bytes(5 << 20))["ETag"]}
                     for i in range(1, 34)]
        s3.complete_multipart_upload(Bucket=bucket, Key="large", UploadId=upload, MultipartUpload={"Parts": parts[:count]})
        assert s3.head_object(Bucket=bucket, Key="large")["CacheControl"] == "c" * 5200
    s3.delete_object(Bucket=bucket, Key="large")
