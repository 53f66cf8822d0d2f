"""Links: what stands in a presigned query is the header that it stands for, in both versions of the signature."""
import urllib.error
import urllib.request

import pytest

from signing import Signer
from store import make_client

VERSIONS = ["s3", "s3v4"]


def follow(url, method="GET", body=None, headers=None):
    """(status, headers, text) of a request that sends no header of its own but those given."""
    request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": "", **(headers or {})})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as answer:
        return answer.code, {k.lower(): v for k, v in answer.headers.items()}, answer.read().decode(errors="replace")


def hoisted(store, method, path, parameters):
    """A version 4 link with headers in its query, as the SDKs of JavaScript, Go and Java make it: only host is a signed header."""
    import hashlib
    from urllib.parse import quote
    signer = Signer(store)
    query = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{signer.access}/{signer.scope}", "X-Amz-Date": signer.stamp,
             "X-Amz-Expires": "600", "X-Amz-SignedHeaders": "host", **parameters}
    text = "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted(query.items()))
    canonical = "\n".join([method, quote(path, safe="/-_.~"), text, f"host:{signer.host}", "", "host", "UNSIGNED-PAYLOAD"])
    signature = signer._hmac("\n".join(["AWS4-HMAC-SHA256", signer.stamp, signer.scope, hashlib.sha256(canonical.encode()).hexdigest()]))
    return f"{store.endpoint}{quote(path, safe='/-_.~')}?{text}&X-Amz-Signature={signature}"


@pytest.fixture
def source(s3, bucket):
    s3.put_object(Bucket=bucket, Key="src é", Body=b"source", Metadata={"m": "1"}, ContentType="a/b")
    s3.put_object(Bucket=bucket, Key="dst", Body=b"old")
    return bucket


def test_a_default_link_for_a_copy_copies(store, s3, source):
    client = make_client(store, signature_version=None)
    url = client.generate_presigned_url("copy_object", Params={"Bucket": source, "Key": "dst", "CopySource": {"Bucket": source, "Key": "src é"},
                                                               "Metadata": {"n": "2"}, "MetadataDirective": "REPLACE"})
    assert "x-amz-copy-source" in url
    assert follow(url, "PUT")[0] == 200
    got = s3.get_object(Bucket=source, Key="dst")
    assert got["Body"].read() == b"source" and got["Metadata"] == {"n": "2"}


def test_a_hoisted_link_for_a_copy_copies(store, s3, source):
    url = hoisted(store, "PUT", f"/{source}/dst", {"x-amz-copy-source": f"{source}/src%20%C3%A9"})
    assert follow(url, "PUT")[0] == 200
    assert s3.get_object(Bucket=source, Key="dst")["Body"].read() == b"source"
    upload = s3.create_multipart_upload(Bucket=source, Key="dst")["UploadId"]
    url = hoisted(store, "PUT", f"/{source}/dst", {"x-amz-copy-source": f"{source}/src%20%C3%A9", "x-amz-copy-source-range": "bytes=1-3",
                                                   "partNumber": "1", "uploadId": upload})
    assert follow(url, "PUT")[0] == 200
    assert s3.list_parts(Bucket=source, Key="dst", UploadId=upload)["Parts"][0]["Size"] == 3
    url = hoisted(store, "PUT", f"/{source}/dst", {"x-amz-copy-source": f"{source}/src%20%C3%A9", "x-amz-copy-source-if-match": '"no"'})
    assert follow(url, "PUT")[0] == 412


REFUSED = [({"x-amz-server-side-encryption": "AES256"}, 501, "NotImplemented"), ({"x-amz-tagging": "a=b"}, 501, "NotImplemented"),
           ({"x-amz-acl": "public-read"}, 501, "NotImplemented"), ({"x-amz-acl": "nobody"}, 400, "InvalidArgument"),
           ({"x-amz-object-lock-mode": "COMPLIANCE"}, 400, "InvalidRequest"), ({"x-amz-storage-class": "GLACIER"}, 400, "InvalidStorageClass"),
           ({"x-amz-checksum-crc32": "AAAAAA=="}, 400, "BadDigest"), ({"x-amz-checksum-algorithm": "MD4"}, 400, "InvalidRequest"),
           ({"x-amz-sdk-checksum-algorithm": "CRC32"}, 400, "InvalidRequest"), ({"x-amz-expected-bucket-owner": "123"}, 403, "AccessDenied"),
           ({"x-amz-grant-read": "id=x"}, 501, "NotImplemented"), ({"x-amz-write-offset-bytes": "0"}, 501, "NotImplemented"),
           ({"x-amz-security-token": "x"}, 400, "InvalidToken"), ({"X-Amz-Security-Token": "x"}, 400, "InvalidToken"),
           ({"x-amz-meta-a": "1\r\nx: y"}, 400, "InvalidArgument"), ({"x-amz-no-such-thing": "x"}, 501, "NotImplemented")]


@pytest.mark.parametrize("parameters,status,code", REFUSED)
def test_a_link_is_refused_as_its_headers_would_be(store, s3, source, parameters, status, code):
    got, _, text = follow(hoisted(store, "PUT", f"/{source}/dst", parameters), "PUT", b"new")
    assert (got, f"<Code>{code}</Code>" in text) == (status, True), text
    assert s3.get_object(Bucket=source, Key="dst")["Body"].read() == b"old"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("asked,status", [({"ACL": "public-read"}, 501), ({"ServerSideEncryption": "AES256"}, 501), ({"Tagging": "a=b"}, 501),
                                          ({"StorageClass": "GLACIER"}, 400), ({"ObjectLockMode": "COMPLIANCE"}, 400),
                                          ({"ChecksumCRC32": "AAAAAA=="}, 400), ({"ExpectedBucketOwner": "1"}, 403), ({"ChecksumAlgorithm": "SHA256"}, 400)])
def test_a_link_of_boto3_is_refused_as_its_headers_would_be(store, s3, source, version, asked, status):
    client = make_client(store, signature_version=version)
    url = client.generate_presigned_url("put_object", Params={"Bucket": source, "Key": "dst", **asked})
    names = {"ACL": "x-amz-acl", "ServerSideEncryption": "x-amz-server-side-encryption", "Tagging": "x-amz-tagging", "StorageClass": "x-amz-storage-class",
             "ObjectLockMode": "x-amz-object-lock-mode", "ChecksumCRC32": "x-amz-checksum-crc32", "ExpectedBucketOwner": "x-amz-expected-bucket-owner",
             "ChecksumAlgorithm": "x-amz-sdk-checksum-algorithm"}
    # Version 4 of boto3 leaves headers to who follows the link.
    sent = {} if version == "s3" else {names[name]: value for name, value in asked.items()}
    assert follow(url, "PUT", b"new", sent)[0] == status
    assert s3.get_object(Bucket=source, Key="dst")["Body"].read() == b"old"


def test_a_link_carries_metadata_type_and_checksums(store, s3, bucket):
    url = make_client(store, signature_version="s3").generate_presigned_url(
        "put_object", Params={"Bucket": bucket, "Key": "k", "Metadata": {"Colour": "red"}, "ContentType": "text/x", "ACL": "private",
                              "RequestPayer": "requester", "WebsiteRedirectLocation": "/there"})
    assert follow(url, "PUT", b"123456789")[0] in (200, 403)  # urllib sends a Content-Type; the next one sends the same
    assert follow(url, "PUT", b"123456789", {"Content-Type": "text/x"})[0] == 200
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["Metadata"] == {"colour": "red"} and head["ContentType"] == "text/x" and head["WebsiteRedirectLocation"] == "/there"
    url = hoisted(store, "PUT", f"/{bucket}/k", {"x-amz-checksum-crc32": "y/Q5Jg==", "x-amz-sdk-checksum-algorithm": "CRC32", "x-amz-meta-a": "b"})
    assert follow(url, "PUT", b"123456789")[0] == 200
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32"] == "y/Q5Jg==" and head["Metadata"] == {"a": "b"}
    url = hoisted(store, "GET", f"/{bucket}/k", {"x-amz-checksum-mode": "ENABLED"})
    assert follow(url)[1]["x-amz-checksum-crc32"] == "y/Q5Jg=="
    url = hoisted(store, "PUT", f"/{bucket}/k", {"x-amz-checksum-algorithm": "SHA256"})
    assert "x-amz-checksum-sha256" in follow(url, "PUT", b"123456789")[1]


def test_a_type_in_a_version_2_link_is_stored_without_the_header(store, s3, bucket):
    url = make_client(store, signature_version="s3").generate_presigned_url(
        "put_object", Params={"Bucket": bucket, "Key": "k", "ContentType": "text/x"})
    connection = store.connection()
    connection.request("PUT", url[len(store.endpoint):], body=b"x")
    assert connection.getresponse().status == 200
    assert s3.head_object(Bucket=bucket, Key="k")["ContentType"] == "text/x"


def test_a_header_and_its_parameter_must_agree(store, s3, bucket):
    url = make_client(store, signature_version="s3").generate_presigned_url(
        "put_object", Params={"Bucket": bucket, "Key": "k", "ACL": "private"})
    connection = store.connection()
    for value, status in (("private", 200), ("bucket-owner-read", 403)):
        connection.request("PUT", url[len(store.endpoint):], body=b"x", headers={"x-amz-acl": value})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    # Version 4 lets no header be added that it does not cover, equal or not.
    url = hoisted(store, "PUT", f"/{bucket}/k", {"x-amz-acl": "private"})
    for value in ("private", "bucket-owner-read"):
        assert follow(url, "PUT", b"x", {"x-amz-acl": value})[0] == 403


def test_what_version_2_does_not_cover_is_refused(store, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = make_client(store, signature_version="s3").generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
    for extra in ("X-Amz-Copy-Source=a/b", "X-Amz-Acl=private", "x-amz-acl=private"):
        connection = store.connection()
        connection.request("PUT", url[len(store.endpoint):] + "&" + extra, body=b"y")
        assert connection.getresponse().status == 403
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


@pytest.mark.parametrize("version", VERSIONS)
def test_links_for_lists_and_the_rest(store, s3, bucket, version):
    client = make_client(store, signature_version=version)
    s3.put_object(Bucket=bucket, Key="a b/ü+&=%", Body=b"1")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    B = {"Bucket": bucket}
    for name, parameters in [("list_objects", {"Prefix": "a b/"}), ("list_objects_v2", {"Prefix": "a", "MaxKeys": 1, "Delimiter": "/"}),
                             ("list_object_versions", {}), ("list_multipart_uploads", {}), ("get_bucket_location", {}), ("get_bucket_versioning", {}),
                             ("get_bucket_acl", {}), ("get_object", {"Key": "a b/ü+&=%", "ResponseContentType": "x/y; a=\"b c\""}),
                             ("get_object", {"Key": "a b/ü+&=%", "VersionId": "null"}), ("get_object_acl", {"Key": "a b/ü+&=%"}),
                             ("list_parts", {"Key": "m", "UploadId": upload})]:
        url = client.generate_presigned_url(name, Params={**B, **parameters})
        status, headers, text = follow(url)
        assert status == 200, (name, text)
    assert follow(client.generate_presigned_url("head_bucket", Params=B), "HEAD")[0] == 200
    assert follow(client.generate_presigned_url("list_buckets"))[0] == 200
    assert follow(client.generate_presigned_url("create_multipart_upload", Params={**B, "Key": "n"}), "POST")[0] == 200
    assert follow(client.generate_presigned_url("upload_part", Params={**B, "Key": "m", "UploadId": upload, "PartNumber": 1}), "PUT", b"x")[0] == 200
    assert follow(client.generate_presigned_url("abort_multipart_upload", Params={**B, "Key": "m", "UploadId": upload}), "DELETE")[0] == 204
    assert follow(client.generate_presigned_url("delete_object", Params={**B, "Key": "a b/ü+&=%"}), "DELETE")[0] == 204
