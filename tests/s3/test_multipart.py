"""Multipart uploads through boto3."""
import base64
import hashlib
import os
import threading

import pytest
from botocore.exceptions import ClientError

from test_objects import code_of, raw_checksum

MiB = 1 << 20


def upload(s3, bucket, key, parts, **create):
    upload_id = s3.create_multipart_upload(Bucket=bucket, Key=key, **create)["UploadId"]
    done = []
    for number, body in parts.items():
        answer = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=body)
        assert answer["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
        done.append({"PartNumber": number, "ETag": answer["ETag"]})
    return upload_id, done


def complete(s3, bucket, key, upload_id, done, **options):
    return s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": done}, **options)


def etag_of(bodies):
    return '"%s-%d"' % (hashlib.md5(b"".join(hashlib.md5(b).digest() for b in bodies)).hexdigest(), len(bodies))


def test_parts_become_one_object(s3, bucket):
    parts = {1: os.urandom(5 * MiB), 3: os.urandom(6 * MiB + 1), 7: os.urandom(100)}
    upload_id, done = upload(s3, bucket, "k", parts, ContentType="a/b", Metadata={"x": "y"})
    answer = complete(s3, bucket, "k", upload_id, done)
    assert answer["ETag"] == etag_of(list(parts.values()))
    whole = b"".join(parts.values())
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == whole and got["ContentType"] == "a/b" and got["Metadata"] == {"x": "y"}
    for first, last in ((0, 10), (5 * MiB - 3, 5 * MiB + 3), (11 * MiB - 5, 11 * MiB + 90)):
        assert s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={first}-{last}")["Body"].read() == whole[first:last + 1]
    second = s3.get_object(Bucket=bucket, Key="k", PartNumber=2)
    assert second["Body"].read() == parts[3] and second["PartsCount"] == 3
    assert s3.head_object(Bucket=bucket, Key="k", PartNumber=3)["ContentLength"] == 100
    again = complete(s3, bucket, "k", upload_id, done)
    assert again["ETag"] == answer["ETag"]


def test_forty_parts_use_a_manifest(s3, bucket):
    part = os.urandom(5 * MiB)
    upload_id, done = upload(s3, bucket, "k", {i: part for i in range(1, 41)})
    assert complete(s3, bucket, "k", upload_id, done)["ETag"].endswith('-40"')
    assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == 40 * len(part)
    offset = 33 * len(part) - 10
    assert s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={offset}-{offset + 19}")["Body"].read() == part[-10:] + part[:10]


def test_a_part_may_be_sent_again_and_an_empty_one_may_be_the_only_one(s3, bucket):
    upload_id, _ = upload(s3, bucket, "k", {1: b"first"})
    _, done = None, [{"PartNumber": 1, "ETag": s3.upload_part(Bucket=bucket, Key="k", UploadId=upload_id, PartNumber=1, Body=b"second")["ETag"]}]
    complete(s3, bucket, "k", upload_id, done)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"second"
    upload_id, done = upload(s3, bucket, "empty", {1: b""})
    assert complete(s3, bucket, "empty", upload_id, done)["ETag"] == etag_of([b""])
    assert s3.get_object(Bucket=bucket, Key="empty")["Body"].read() == b""


def test_lists_of_parts_and_uploads(s3, bucket):
    upload_id, _ = upload(s3, bucket, "a/k", {i: b"x" * i for i in (1, 2, 5, 9)})
    page = s3.list_parts(Bucket=bucket, Key="a/k", UploadId=upload_id, MaxParts=3)
    assert [p["PartNumber"] for p in page["Parts"]] == [1, 2, 5] and page["IsTruncated"]
    rest = s3.list_parts(Bucket=bucket, Key="a/k", UploadId=upload_id, PartNumberMarker=page["NextPartNumberMarker"])
    assert [(p["PartNumber"], p["Size"]) for p in rest["Parts"]] == [(9, 9)] and not rest["IsTruncated"]
    other = s3.create_multipart_upload(Bucket=bucket, Key="b")["UploadId"]
    listed = s3.list_multipart_uploads(Bucket=bucket)
    assert [(u["Key"], u["UploadId"]) for u in listed["Uploads"]] == [("a/k", upload_id), ("b", other)]
    assert [p["Prefix"] for p in s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")["CommonPrefixes"]] == ["a/"]
    s3.abort_multipart_upload(Bucket=bucket, Key="b", UploadId=other)
    assert len(s3.list_multipart_uploads(Bucket=bucket)["Uploads"]) == 1
    for call in (lambda: s3.abort_multipart_upload(Bucket=bucket, Key="b", UploadId="x" * 32),
                 lambda: s3.upload_part(Bucket=bucket, Key="b", UploadId=other, PartNumber=1, Body=b"x"),
                 lambda: s3.list_parts(Bucket=bucket, Key="b", UploadId=other)):
        with pytest.raises(ClientError) as error:
            call()
        assert code_of(error) == ("NoSuchUpload", 404)


def test_wrong_lists_of_parts_change_nothing(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    upload_id, done = upload(s3, bucket, "k", {1: b"small", 2: b"x"})
    bad = [
        ([done[1], done[0]], "InvalidPartOrder"),
        ([done[0], done[1]], "EntityTooSmall"),
        ([{"PartNumber": 1, "ETag": '"0"'}], "InvalidPart"),
        ([{"PartNumber": 3, "ETag": done[0]["ETag"]}], "InvalidPart"),
    ]
    for parts, code in bad:
        with pytest.raises(ClientError) as error:
            complete(s3, bucket, "k", upload_id, parts)
        assert code_of(error) == (code, 400)
        if code == "EntityTooSmall":
            told = error.value.response["Error"]
            assert (told["ProposedSize"], told["MinSizeAllowed"]) == ("5", str(5 << 20))
    with pytest.raises(ClientError) as error:
        complete(s3, bucket, "k", upload_id, [])
    assert code_of(error)[1] == 400
    for options, status in ((dict(IfNoneMatch="*"), 412), (dict(IfMatch='"0"'), 412)):
        with pytest.raises(ClientError) as error:
            complete(s3, bucket, "k", upload_id, [done[0]], **options)
        assert code_of(error)[1] == status
    for number in (0, 10001):
        with pytest.raises(ClientError) as error:
            s3.upload_part(Bucket=bucket, Key="k", UploadId=upload_id, PartNumber=number, Body=b"x")
        assert code_of(error) == ("InvalidArgument", 400)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"old"
    complete(s3, bucket, "k", upload_id, [done[0]])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"small"


@pytest.mark.parametrize("algorithm,kind", [("SHA256", "COMPOSITE"), ("SHA1", "COMPOSITE"), ("CRC32", "COMPOSITE"),
                                            ("CRC32C", "FULL_OBJECT"), ("CRC64NVME", "FULL_OBJECT"), ("CRC32", "FULL_OBJECT")])
def test_checksums_of_parts_make_that_of_the_object(s3, bucket, algorithm, kind):
    bodies = [os.urandom(5 * MiB), os.urandom(777)]
    created = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm=algorithm, ChecksumType=kind)
    assert created["ChecksumAlgorithm"] == algorithm and created["ChecksumType"] == kind
    name, done, raw = "Checksum" + algorithm, [], []
    for number, body in enumerate(bodies, 1):
        part = s3.upload_part(Bucket=bucket, Key="k", UploadId=created["UploadId"], PartNumber=number, Body=body,
                              ChecksumAlgorithm=algorithm)
        raw.append(raw_checksum(algorithm, body))
        assert part[name] == base64.b64encode(raw[-1]).decode()
        done.append({"PartNumber": number, "ETag": part["ETag"], name: part[name]})
    answer = complete(s3, bucket, "k", created["UploadId"], done)
    whole = raw_checksum(algorithm, b"".join(bodies) if kind == "FULL_OBJECT" else b"".join(raw))
    expected = base64.b64encode(whole).decode() + ("" if kind == "FULL_OBJECT" else "-2")
    assert answer[name] == expected and answer["ChecksumType"] == kind
    assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[name] == expected
    assert s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")["Body"].read() == b"".join(bodies)


def test_part_copies(s3, bucket):
    body = os.urandom(12 * MiB)
    s3.put_object(Bucket=bucket, Key="src", Body=body)
    upload_id = s3.create_multipart_upload(Bucket=bucket, Key="dst")["UploadId"]
    done = []
    for number, (first, last) in enumerate(((0, 5 * MiB - 1), (5 * MiB, 12 * MiB - 1)), 1):
        part = s3.upload_part_copy(Bucket=bucket, Key="dst", UploadId=upload_id, PartNumber=number,
                                   CopySource={"Bucket": bucket, "Key": "src"}, CopySourceRange=f"bytes={first}-{last}")
        done.append({"PartNumber": number, "ETag": part["CopyPartResult"]["ETag"]})
    complete(s3, bucket, "dst", upload_id, done)
    assert s3.get_object(Bucket=bucket, Key="dst")["Body"].read() == body


def test_racing_completes_agree(s3, bucket):
    upload_id, done = upload(s3, bucket, "k", {1: b"hello"})
    answers = []

    def race():
        try:
            answers.append(complete(s3, bucket, "k", upload_id, done)["ETag"])
        except ClientError as error:
            answers.append(error.response["Error"]["Code"])
    threads = [threading.Thread(target=race) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert set(answers) == {etag_of([b"hello"])}
