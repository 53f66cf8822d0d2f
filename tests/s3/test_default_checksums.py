"""CRC64NVME, where the client names no checksum: computed, kept, shown when it is asked for, and never on a range."""
import base64
import os

import pytest
from awscrt import checksums
from botocore.exceptions import ClientError

from store import make_client
from test_odd_requests import ask

SIZES = [0, 1, 4096, 100_000, 3_000_000]


def crc64(body):
    return base64.b64encode(checksums.crc64nvme(body).to_bytes(8, "big")).decode()


@pytest.fixture
def bare(store):
    """A client that names no checksum by itself."""
    return make_client(store, request_checksum_calculation="when_required", response_checksum_validation="when_required")


def shown(s3, bucket, key):
    """What HEAD, GET and GetObjectAttributes say, which must be the same."""
    head = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    get = s3.get_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    attributes = s3.get_object_attributes(Bucket=bucket, Key=key, ObjectAttributes=["Checksum"])["Checksum"]
    found = [{name: value for name, value in answer.items() if name.startswith("Checksum")} for answer in (head, get, attributes)]
    assert found[0] == found[1] == found[2]
    return found[0]


@pytest.mark.parametrize("size", SIZES)
def test_a_put_gets_one_and_its_copies_too(bare, bucket, size):
    body = os.urandom(size)
    expected = {"ChecksumCRC64NVME": crc64(body), "ChecksumType": "FULL_OBJECT"}
    put = bare.put_object(Bucket=bucket, Key="k", Body=body)
    assert put["ChecksumCRC64NVME"] == expected["ChecksumCRC64NVME"]
    assert shown(bare, bucket, "k") == expected
    copied = bare.copy_object(Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "k"})["CopyObjectResult"]
    assert copied["ChecksumCRC64NVME"] == expected["ChecksumCRC64NVME"] and shown(bare, bucket, "c") == expected
    bare.copy_object(Bucket=bucket, Key="k", CopySource={"Bucket": bucket, "Key": "k"}, MetadataDirective="REPLACE", Metadata={"a": "b"})
    assert shown(bare, bucket, "k") == expected
    listed = bare.list_objects_v2(Bucket=bucket)["Contents"]
    assert all(e["ChecksumAlgorithm"] == ["CRC64NVME"] for e in listed)
    assert "ChecksumCRC64NVME" not in bare.head_object(Bucket=bucket, Key="k")


def test_one_that_is_named_stays(bare, s3, bucket):
    bare.put_object(Bucket=bucket, Key="k", Body=b"x", ChecksumAlgorithm="SHA256")
    assert list(shown(bare, bucket, "k")) == ["ChecksumSHA256", "ChecksumType"]
    bare.copy_object(Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "k"})
    assert list(shown(bare, bucket, "c")) == ["ChecksumSHA256", "ChecksumType"]


def test_a_partial_answer_has_none_unless_it_covers_exactly_what_is_sent(store, bare, bucket):
    bare.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    for range_ in ("bytes=0-9", "bytes=0-", "bytes=1-2", "bytes=-10"):
        status, headers, _ = ask(store, "GET", f"/{bucket}/k", extra={"range": range_, "x-amz-checksum-mode": "ENABLED"})
        assert status == 206 and not [name for name in headers if name.startswith("x-amz-checksum")]
    got = bare.get_object(Bucket=bucket, Key="k", PartNumber=1, ChecksumMode="ENABLED")
    assert got["ChecksumCRC64NVME"] == crc64(got["Body"].read())


def test_an_upload_without_an_algorithm_gets_one_combined_from_its_parts(bare, bucket):
    pieces = [os.urandom(5 << 20), os.urandom(5 << 20), os.urandom(12345)]
    bare.put_object(Bucket=bucket, Key="src", Body=b"xx" + pieces[1])
    upload = bare.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    M = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    parts = []
    for number, piece in enumerate(pieces, 1):
        if number == 2:
            part = bare.upload_part_copy(**M, PartNumber=2, CopySource={"Bucket": bucket, "Key": "src"},
                                         CopySourceRange=f"bytes=2-{len(piece) + 1}")["CopyPartResult"]
        else:
            part = bare.upload_part(**M, PartNumber=number, Body=piece)
        assert part["ChecksumCRC64NVME"] == crc64(piece)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    parts[0]["ChecksumCRC64NVME"] = crc64(pieces[0])
    whole = crc64(b"".join(pieces))
    for wrong in ({"ChecksumCRC64NVME": crc64(b"")}, {"ChecksumType": "COMPOSITE"}, {"ChecksumCRC32": "AAAAAA=="}):
        with pytest.raises(ClientError) as error:
            bare.complete_multipart_upload(**M, MultipartUpload={"Parts": parts}, **wrong)
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    done = bare.complete_multipart_upload(**M, MultipartUpload={"Parts": parts}, ChecksumCRC64NVME=whole)
    assert done["ChecksumCRC64NVME"] == whole and done["ChecksumType"] == "FULL_OBJECT"
    assert shown(bare, bucket, "k") == {"ChecksumCRC64NVME": whole, "ChecksumType": "FULL_OBJECT"}
    got = bare.get_object(Bucket=bucket, Key="k", PartNumber=2, ChecksumMode="ENABLED")
    assert got["ChecksumCRC64NVME"] == crc64(got["Body"].read())
    listed = bare.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ObjectParts"])["ObjectParts"]["Parts"]
    assert [p["ChecksumCRC64NVME"] for p in listed] == [crc64(piece) for piece in pieces]


@pytest.mark.parametrize("named", [{"ChecksumCRC32C": "AAAAAA=="}, {"ChecksumSHA1": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}])
def test_a_parts_checksum_of_another_algorithm_is_refused(s3, bucket, named):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="CRC32")["UploadId"]
    M = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    part = s3.upload_part(**M, PartNumber=1, Body=b"x", ChecksumAlgorithm="CRC32")
    with pytest.raises(ClientError) as error:
        s3.complete_multipart_upload(**M, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"], **named}]})
    assert error.value.response["Error"]["Code"] == "InvalidRequest"
    s3.complete_multipart_upload(**M, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}]})
