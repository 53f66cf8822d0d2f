"""Version 2 signatures of botocore, for every operation, in both styles of addresses."""
import socket

import pytest

from store import make_client

KEYS = ["plain", "a b/c+d", "ü/%41&=?#", "/slash", "tilde~'()*!"]


@pytest.fixture(params=["path", "virtual"])
def v2(store, request, monkeypatch):
    client_options = {"signature_version": "s3"}
    if request.param == "virtual":
        real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more, **named: real("127.0.0.1", *more, **named))
        client_options["s3"] = {"addressing_style": "virtual"}

        class Named:
            endpoint = f"http://s3.localhost:{store.port}"
        return make_client(Named, **client_options)
    return make_client(store, **client_options)


def test_every_operation_is_let_in(v2, bucket):
    B = {"Bucket": bucket}
    made = "v2-" + bucket
    v2.create_bucket(Bucket=made)
    v2.head_bucket(Bucket=made)
    v2.delete_bucket(Bucket=made)
    assert v2.list_buckets()["Buckets"]
    for key in KEYS:
        etag = v2.put_object(**B, Key=key, Body=b"0123456789", Metadata={"m": "a  b"}, ContentType="text/plain")["ETag"]
        got = v2.get_object(**B, Key=key, Range="bytes=2-4", ResponseContentType="a/b; c=\"d e\"", ResponseExpires="Thu, 01 Jan 2026 00:00:00 GMT")
        assert got["Body"].read() == b"234" and got["ContentType"] == "a/b; c=\"d e\""
        assert v2.head_object(**B, Key=key, VersionId="null")["ETag"] == etag
        v2.copy_object(**B, Key=key + "-copy", CopySource={**B, "Key": key})
        v2.get_object_acl(**B, Key=key)
        v2.get_object_tagging(**B, Key=key)
        v2.get_object_attributes(**B, Key=key, ObjectAttributes=["ETag"])
        v2.delete_object(**B, Key=key + "-copy")
    assert len(v2.list_objects(**B, Prefix="a b")["Contents"]) == 1
    assert len(v2.list_objects_v2(**B, Delimiter="/", MaxKeys=2, StartAfter="a")["Contents"]) <= 2
    v2.list_object_versions(**B)
    v2.get_bucket_location(**B)
    v2.get_bucket_versioning(**B)
    v2.get_bucket_acl(**B)
    with pytest.raises(v2.exceptions.ClientError) as error:
        v2.get_bucket_policy(**B)
    assert error.value.response["Error"]["Code"] == "NoSuchBucketPolicy"
    upload = v2.create_multipart_upload(**B, Key="m ü")["UploadId"]
    M = {**B, "Key": "m ü", "UploadId": upload}
    assert len(v2.list_multipart_uploads(**B)["Uploads"]) == 1
    etag = v2.upload_part(**M, PartNumber=1, Body=bytes(5 << 20))["ETag"]
    copied = v2.upload_part_copy(**M, PartNumber=2, CopySource={**B, "Key": KEYS[1]}, CopySourceRange="bytes=0-3")["CopyPartResult"]["ETag"]
    assert len(v2.list_parts(**M)["Parts"]) == 2
    v2.complete_multipart_upload(**M, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}, {"PartNumber": 2, "ETag": copied}]})
    assert v2.head_object(**B, Key="m ü")["ContentLength"] == (5 << 20) + 4
    upload = v2.create_multipart_upload(**B, Key="m")["UploadId"]
    v2.abort_multipart_upload(**B, Key="m", UploadId=upload)
    result = v2.delete_objects(**B, Delete={"Objects": [{"Key": key} for key in [*KEYS, "m ü"]]})
    assert len(result["Deleted"]) == len(KEYS) + 1 and "Contents" not in v2.list_objects_v2(**B)


def test_a_wrong_secret_is_not(store, v2, bucket):
    wrong = make_client(store, signature_version="s3")
    wrong._request_signer._credentials.secret_key = "x" * 40
    for call in (lambda: wrong.list_objects(Bucket=bucket), lambda: wrong.list_buckets(), lambda: wrong.list_multipart_uploads(Bucket=bucket)):
        with pytest.raises(wrong.exceptions.ClientError) as error:
            call()
        assert error.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
