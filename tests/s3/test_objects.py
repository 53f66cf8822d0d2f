"""Objects through boto3: what is put comes back, with all that S3 keeps beside the bytes."""
import base64
import datetime
import hashlib
import os
import zlib

import pytest
from botocore.exceptions import ClientError

from conftest import make_client

# Inline, replicated, striped; around every border of the layout.
SIZES = [0, 1, 4096, 4097, 16383, 16385, 131072, 131073, 1 << 20, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 20_000_001]


def code_of(error):
    return error.value.response["Error"]["Code"], error.value.response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_comes_back(s3, bucket, size):
    body = os.urandom(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=body)
    assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["ContentLength"] == size and got["Body"].read() == body
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ContentLength"] == size and head["ETag"] == put["ETag"]
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert (listed["Size"], listed["ETag"]) == (size, put["ETag"])


@pytest.mark.parametrize("size", [4096, 100_000, 9_000_001])
def test_ranges_of_all_forms(s3, bucket, size):
    body = os.urandom(size)
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    forms = [(0, 0), (0, 1), (size - 1, size - 1), (1, size - 2), (size // 2, size + 100), (size // 3, size // 2)]
    for first, last in forms:
        got = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={first}-{last}")
        end = min(last, size - 1)
        assert got["Body"].read() == body[first:end + 1]
        assert got["ContentRange"] == f"bytes {first}-{end}/{size}"
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert not [h for h in got["ResponseMetadata"]["HTTPHeaders"] if h.startswith("x-amz-checksum")]
    assert s3.get_object(Bucket=bucket, Key="k", Range="bytes=-7")["Body"].read() == body[-7:]
    assert s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={size - 5}-")["Body"].read() == body[-5:]
    assert s3.get_object(Bucket=bucket, Key="k", Range=f"bytes=0-{2**64 - 2}")["Body"].read() == body
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={size}-")
    assert code_of(error) == ("InvalidRange", 416)
    for odd in ("bytes=5-1", "lines=1-2", "bytes=a-b", "bytes=0-1,5-6"):
        got = s3.get_object(Bucket=bucket, Key="k", Range=odd)
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 200 and got["Body"].read() == body


def test_an_empty_object_and_ranges_as_crt_asks(s3, bucket):
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="empty", Range="bytes=0-8388607")
    assert code_of(error) == ("InvalidRange", 416)
    assert error.value.response["Error"]["ActualObjectSize"] == "0"
    got = s3.get_object(Bucket=bucket, Key="empty", PartNumber=1)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 200 and "ContentRange" not in got and got["Body"].read() == b""
    s3.put_object(Bucket=bucket, Key="full", Body=b"hello")
    got = s3.get_object(Bucket=bucket, Key="full", PartNumber=1)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206 and got["ContentRange"] == "bytes 0-4/5"
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="full", PartNumber=2)
    assert code_of(error) == ("InvalidPartNumber", 416)


def test_stored_headers_and_metadata_come_back(s3, bucket):
    given = dict(ContentType="text/x-test", CacheControl="max-age=7", ContentDisposition="attachment; filename=a",
                 ContentEncoding="gzip", ContentLanguage="de", Metadata={"color": "blue", "empty": "", "mixed-Case": "V"})
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Expires=datetime.datetime(2030, 1, 1), **given)
    for answer in (s3.head_object(Bucket=bucket, Key="k"), s3.get_object(Bucket=bucket, Key="k")):
        for name in ("ContentType", "CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage"):
            assert answer[name] == given[name]
        assert answer["Metadata"] == {"color": "blue", "empty": "", "mixed-case": "V"}
        assert answer["AcceptRanges"] == "bytes"
        assert "2030" in answer["ResponseMetadata"]["HTTPHeaders"]["expires"]
    got = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="a/b", ResponseCacheControl="no-store")
    assert got["ContentType"] == "a/b" and got["CacheControl"] == "no-store"
    s3.put_object(Bucket=bucket, Key="plain", Body=b"x")
    assert s3.head_object(Bucket=bucket, Key="plain")["ContentType"] == "binary/octet-stream"


KEYS = ["a//b", "./x", "../y", "a/../b", "%41", "q'q", "p+q", "ümläut/☃", "sp ace", "~t", "a&b<c>\"d", "\x01\x7f", "k" * 1024, "tab\tkey"]


@pytest.mark.parametrize("key", KEYS)
def test_any_byte_in_a_key(s3, bucket, key):
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    listed = s3.list_objects_v2(Bucket=bucket, EncodingType="url")
    assert [entry["Key"] for entry in listed["Contents"]] == [__import__("urllib.parse").parse.quote(key, safe="/-_.~*")] or \
        __import__("urllib.parse").parse.unquote(listed["Contents"][0]["Key"]) == key
    s3.delete_object(Bucket=bucket, Key=key)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_conditions_on_reads(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    past, future = datetime.datetime(2000, 1, 1), datetime.datetime.now() - datetime.timedelta(seconds=-3600 * 24)
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)["Body"].read() == b"x"
    assert s3.get_object(Bucket=bucket, Key="k", IfNoneMatch='"0"')["Body"].read() == b"x"
    assert s3.get_object(Bucket=bucket, Key="k", IfModifiedSince=past)["Body"].read() == b"x"
    assert s3.get_object(Bucket=bucket, Key="k", IfUnmodifiedSince=future)["Body"].read() == b"x"
    for options, status in ((dict(IfMatch='"0"'), 412), (dict(IfNoneMatch=etag), 304), (dict(IfUnmodifiedSince=past), 412)):
        for call in (s3.get_object, s3.head_object):
            with pytest.raises(ClientError) as error:
                call(Bucket=bucket, Key="k", **options)
            assert code_of(error)[1] == status


def test_conditions_on_writes(s3, bucket):
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket=bucket, Key="k", Body=b"0", IfMatch='"0"')
    assert code_of(error) == ("NoSuchKey", 404)
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    for size in (10, 10_000, 200_000):
        with pytest.raises(ClientError) as error:
            s3.put_object(Bucket=bucket, Key="k", Body=b"2" * size, IfNoneMatch="*")
        assert code_of(error) == ("PreconditionFailed", 412)
        with pytest.raises(ClientError) as error:
            s3.put_object(Bucket=bucket, Key="k", Body=b"2" * size, IfMatch='"0"')
        assert code_of(error) == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"1"
    s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=etag)
    with pytest.raises(ClientError) as error:
        s3.delete_object(Bucket=bucket, Key="k", IfMatch=etag)
    assert code_of(error) == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"3"


def test_delete_and_delete_many(s3, bucket):
    for i in range(5):
        s3.put_object(Bucket=bucket, Key=f"k{i}", Body=b"x")
    assert s3.delete_object(Bucket=bucket, Key="k0")["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert s3.delete_object(Bucket=bucket, Key="never")["ResponseMetadata"]["HTTPStatusCode"] == 204
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="k0")
    assert code_of(error) == ("NoSuchKey", 404)
    many = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in ("k1", "k2", "never")]})
    assert sorted(d["Key"] for d in many["Deleted"]) == ["k1", "k2", "never"]
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Quiet": True, "Objects": [{"Key": "k3"}]})
    assert "Deleted" not in quiet and "Errors" not in quiet
    assert [e["Key"] for e in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k4"]
    with pytest.raises(ClientError) as error:
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": f"x{i}"} for i in range(1001)]})
    assert code_of(error) == ("MalformedXML", 400)


@pytest.mark.parametrize("size", [0, 10, 50_000, 9_000_000])
def test_copies(s3, bucket, size):
    body = os.urandom(size)
    s3.put_object(Bucket=bucket, Key="src", Body=body, ContentType="a/b", Metadata={"m": "1"})
    copied = s3.copy_object(Bucket=bucket, Key="dst é", CopySource={"Bucket": bucket, "Key": "src"})["CopyObjectResult"]
    assert copied["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="dst é")
    assert got["Body"].read() == body and got["ContentType"] == "a/b" and got["Metadata"] == {"m": "1"}
    s3.copy_object(Bucket=bucket, Key="src", CopySource={"Bucket": bucket, "Key": "src"}, MetadataDirective="REPLACE",
                   Metadata={"m": "2"}, ContentType="c/d")
    got = s3.get_object(Bucket=bucket, Key="src")
    assert got["Body"].read() == body and got["ContentType"] == "c/d" and got["Metadata"] == {"m": "2"}
    with pytest.raises(ClientError) as error:
        s3.copy_object(Bucket=bucket, Key="src", CopySource={"Bucket": bucket, "Key": "src"})
    assert code_of(error) == ("InvalidRequest", 400)
    with pytest.raises(ClientError) as error:
        s3.copy_object(Bucket=bucket, Key="x", CopySource={"Bucket": bucket, "Key": "src"}, CopySourceIfMatch='"0"')
    assert code_of(error) == ("PreconditionFailed", 412)
    with pytest.raises(ClientError) as error:
        s3.copy_object(Bucket=bucket, Key="x", CopySource={"Bucket": bucket, "Key": "none"})
    assert code_of(error) == ("NoSuchKey", 404)


def raw_checksum(algorithm, body):
    if algorithm == "CRC32":
        return zlib.crc32(body).to_bytes(4, "big")
    if algorithm in ("SHA1", "SHA256"):
        return hashlib.new(algorithm.lower(), body).digest()
    from awscrt import checksums
    if algorithm == "CRC32C":
        return checksums.crc32c(body).to_bytes(4, "big")
    return checksums.crc64nvme(body).to_bytes(8, "big")


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
@pytest.mark.parametrize("size", [0, 11, 200_000])
def test_checksums_are_verified_stored_and_returned(s3, bucket, algorithm, size):
    body = os.urandom(size)
    value = base64.b64encode(raw_checksum(algorithm, body)).decode()
    name = "Checksum" + algorithm
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, ChecksumAlgorithm=algorithm)
    assert put[name] == value and put["ChecksumType"] == "FULL_OBJECT"
    assert s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[name] == value
    assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[name] == value
    wrong = base64.b64encode(bytes(len(base64.b64decode(value)))).decode()
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket=bucket, Key="k", Body=b"other", **{name: wrong})
    assert code_of(error) == ("BadDigest", 400)
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket=bucket, Key="k", Body=b"other", **{name: "bad"})
    assert code_of(error) == ("InvalidRequest", 400)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == body


def test_presigned_urls_of_both_versions(store, bucket, s3):
    import urllib.request
    s3.put_object(Bucket=bucket, Key="a b/ü", Body=b"hello")
    for client in (make_client(store), make_client(store, signature_version="s3")):
        get = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/ü"}, ExpiresIn=60)
        assert urllib.request.urlopen(get).read() == b"hello"
        put = client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "new"}, ExpiresIn=60)
        request = urllib.request.Request(put, data=b"by url", method="PUT", headers={"Content-Type": ""})
        assert urllib.request.urlopen(request).status == 200
        assert s3.get_object(Bucket=bucket, Key="new")["Body"].read() == b"by url"
        for broken in (get.replace("Signature=", "Signature=A"), get.replace("a%20b", "a%20c")):
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(broken)
            assert error.value.code == 403


@pytest.mark.parametrize("expires,status,code", [
    ("-7", 403, "AccessDenied"), ("-x", 400, "AuthorizationQueryParametersError"), ("604801", 400, "AuthorizationQueryParametersError"),
    ("soon", 400, "AuthorizationQueryParametersError"), ("60", 403, "SignatureDoesNotMatch")])
def test_an_expiry_out_of_range_is_refused_before_the_signature(store, bucket, s3, expires, status, code):
    import urllib.request
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = make_client(store).generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=61)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(url.replace("X-Amz-Expires=61", "X-Amz-Expires=" + expires))
    assert error.value.code == status and f"<Code>{code}</Code>" in error.value.read().decode()


def test_a_v2_url_that_has_expired_is_denied(store, bucket):
    import urllib.request
    url = make_client(store, signature_version="s3").generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=-7)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(url)
    assert error.value.code == 403 and "<Code>AccessDenied</Code>" in error.value.read().decode()


def test_virtual_hosts(store, bucket, s3):
    s3.put_object(Bucket=bucket, Key="k", Body=b"hello")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    connection = store.connection()
    connection.request("GET", "/k", headers={"Host": f"{bucket}.s3.localhost:{store.port}"})
    assert connection.getresponse().status == 403  # found the bucket, not the signature
    assert url


def test_other_accounts_see_nothing(s3, other, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for call in (lambda: other.get_object(Bucket=bucket, Key="k"), lambda: other.list_objects_v2(Bucket=bucket),
                 lambda: other.put_object(Bucket=bucket, Key="k", Body=b"y"), lambda: other.delete_object(Bucket=bucket, Key="k"),
                 lambda: other.delete_bucket(Bucket=bucket),
                 lambda: other.copy_object(Bucket=bucket, Key="k2", CopySource={"Bucket": bucket, "Key": "k"})):
        with pytest.raises(ClientError) as error:
            call()
        assert code_of(error) == ("AccessDenied", 403)
    assert bucket not in [b["Name"] for b in other.list_buckets()["Buckets"]]
