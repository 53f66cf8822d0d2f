"""Buckets and the four kinds of LIST."""
import os

import pytest
from botocore.exceptions import ClientError

from test_objects import code_of


def fill(s3, bucket, keys):
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())


def pages(call, **options):
    """All (keys, prefixes) of V2 pages, by continuation token."""
    keys, prefixes, count = [], [], 0
    while True:
        page = call(**options)
        keys += [e["Key"] for e in page.get("Contents", [])]
        prefixes += [p["Prefix"] for p in page.get("CommonPrefixes", [])]
        count += 1
        assert page["KeyCount"] == len(page.get("Contents", [])) + len(page.get("CommonPrefixes", []))
        if not page["IsTruncated"]:
            assert "NextContinuationToken" not in page
            return keys, prefixes, count
        options["ContinuationToken"] = page["NextContinuationToken"]


def test_the_life_of_a_bucket(s3, other):
    name = "life-" + os.urandom(4).hex()
    assert s3.create_bucket(Bucket=name)["Location"] == "/" + name
    assert name in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    assert s3.head_bucket(Bucket=name)["BucketRegion"] == "us-east-1"
    assert s3.get_bucket_location(Bucket=name).get("LocationConstraint") is None
    with pytest.raises(ClientError) as error:
        other.create_bucket(Bucket=name)
    assert code_of(error) == ("BucketAlreadyExists", 409)
    s3.create_bucket(Bucket=name)  # one's own again
    s3.put_object(Bucket=name, Key="k", Body=b"x")
    with pytest.raises(ClientError) as error:
        s3.delete_bucket(Bucket=name)
    assert code_of(error) == ("BucketNotEmpty", 409)
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == b"x"
    s3.delete_object(Bucket=name, Key="k")
    s3.create_multipart_upload(Bucket=name, Key="open")  # does not hold it
    assert s3.delete_bucket(Bucket=name)["ResponseMetadata"]["HTTPStatusCode"] == 204
    for call in (lambda: s3.head_bucket(Bucket=name), lambda: s3.list_objects_v2(Bucket=name),
                 lambda: s3.put_object(Bucket=name, Key="k", Body=b"x"), lambda: s3.delete_bucket(Bucket=name)):
        with pytest.raises(ClientError) as error:
            call()
        assert code_of(error)[1] == 404
    s3.create_bucket(Bucket=name)
    assert s3.list_objects_v2(Bucket=name)["KeyCount"] == 0
    assert not s3.list_multipart_uploads(Bucket=name).get("Uploads")


@pytest.mark.parametrize("name", ["ab", "A" * 5, "a_b", "a..b", "192.168.1.1", "-ab", "ab-", "x" * 64, "xn--abc", "abc--x-s3", ".sys"])
def test_invalid_bucket_names(store, s3, name):
    s3.meta.events.unregister("before-parameter-build.s3", __import__("botocore.handlers", fromlist=["x"]).validate_bucket_name)
    with pytest.raises(ClientError) as error:
        s3.create_bucket(Bucket=name)
    assert code_of(error) == ("InvalidBucketName", 400)


KEYS = ["a", "b/1", "b/2", "b/c/3", "b0", "c/", "c/x", "d", "é", "\U0001f600"]


def test_v2_with_prefix_delimiter_and_pages(s3, bucket):
    fill(s3, bucket, KEYS)
    ordered = sorted(KEYS, key=str.encode)
    for size in (1, 2, 3, 1000):
        keys, prefixes, count = pages(s3.list_objects_v2, Bucket=bucket, MaxKeys=size)
        assert keys == ordered and not prefixes
        assert count == -(-len(KEYS) // size)
        keys, prefixes, _ = pages(s3.list_objects_v2, Bucket=bucket, MaxKeys=size, Delimiter="/")
        assert prefixes == ["b/", "c/"] and keys == [k for k in ordered if "/" not in k]
        keys, prefixes, _ = pages(s3.list_objects_v2, Bucket=bucket, MaxKeys=size, Delimiter="/", Prefix="b/")
        assert (keys, prefixes) == (["b/1", "b/2"], ["b/c/"])
        keys, _, _ = pages(s3.list_objects_v2, Bucket=bucket, MaxKeys=size, StartAfter="b/2")
        assert keys == ordered[ordered.index("b/2") + 1:]
    empty = s3.list_objects_v2(Bucket=bucket, MaxKeys=0)
    assert not empty["IsTruncated"] and empty["KeyCount"] == 0 and "NextContinuationToken" not in empty
    owner = s3.list_objects_v2(Bucket=bucket, FetchOwner=True)["Contents"][0]["Owner"]
    assert owner["ID"] == "1" * 64
    assert "Owner" not in s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    with pytest.raises(ClientError) as error:
        s3.list_objects_v2(Bucket=bucket, ContinuationToken="%%%")
    assert code_of(error) == ("InvalidArgument", 400)


def test_v1_markers(s3, bucket):
    fill(s3, bucket, KEYS)
    page = s3.list_objects(Bucket=bucket, Delimiter="/", MaxKeys=2)
    assert [e["Key"] for e in page["Contents"]] == ["a"] and page["CommonPrefixes"] == [{"Prefix": "b/"}]
    assert page["IsTruncated"] and page["NextMarker"] == "b/"
    rest = s3.list_objects(Bucket=bucket, Delimiter="/", Marker=page["NextMarker"])
    assert [e["Key"] for e in rest["Contents"]] == ["b0", "d", "é", "\U0001f600"]
    assert rest["CommonPrefixes"] == [{"Prefix": "c/"}]
    assert rest["Contents"][0]["Owner"]["ID"] == "1" * 64


def pages_v1(s3, **options):
    """What V1 pages show, in order, by NextMarker or, where there is none, by the last key."""
    shown = []
    while True:
        page = s3.list_objects(**options)
        entries = [e["Key"] for e in page.get("Contents", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])]
        shown += sorted(entries, key=str.encode)
        assert len(entries) <= options["MaxKeys"]
        if not page["IsTruncated"]:
            assert "NextMarker" not in page
            return shown
        options["Marker"] = page["NextMarker"] if "Delimiter" in options else page["Contents"][-1]["Key"]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_v1_pages_repeat_and_skip_nothing(s3, bucket, size):
    fill(s3, bucket, KEYS + ["b/c/4", "b/d/1", "x--1", "x--2", "x--3"])
    ordered = sorted(KEYS + ["b/c/4", "b/d/1", "x--1", "x--2", "x--3"], key=str.encode)
    assert pages_v1(s3, Bucket=bucket, MaxKeys=size) == ordered
    for delimiter, prefix in (("/", ""), ("/", "b"), ("/", "b/"), ("/", "b/c/"), ("--", ""), ("c/", ""), ("c/", "b/"), ("/", "none")):
        expected = []
        for key in (k for k in ordered if k.startswith(prefix)):
            at = key.find(delimiter, len(prefix))
            name = key if at < 0 else key[:at + len(delimiter)]
            if name not in expected:
                expected.append(name)
        assert pages_v1(s3, Bucket=bucket, MaxKeys=size, Delimiter=delimiter, Prefix=prefix) == expected, (delimiter, prefix)


@pytest.mark.parametrize("marker,shown", [
    ("a", ["b/", "b0", "c/", "d"]), ("b", ["b/", "b0", "c/", "d"]), ("b/", ["b0", "c/", "d"]), ("b/1", ["b/", "b0", "c/", "d"]),
    ("b/2", ["b/", "b0", "c/", "d"]), ("b/c/", ["b/", "b0", "c/", "d"]), ("b/c/3", ["b0", "c/", "d"]), ("b/zz", ["b0", "c/", "d"]),
    ("c/", ["d"]), ("c/w", ["c/", "d"]), ("c/x", ["d"]), ("d", []), ("zz/", [])])
def test_a_marker_that_is_a_prefix_or_lies_in_one(s3, bucket, marker, shown):
    fill(s3, bucket, KEYS[:8])
    assert pages_v1(s3, Bucket=bucket, MaxKeys=1000, Delimiter="/", Marker=marker) == shown
    assert pages_v1(s3, Bucket=bucket, MaxKeys=1, Delimiter="/", Marker=marker) == shown
    page = s3.list_objects_v2(Bucket=bucket, Delimiter="/", StartAfter=marker)
    assert sorted([e["Key"] for e in page.get("Contents", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])]) == shown


def test_versions_of_a_bucket_that_has_none(s3, bucket):
    fill(s3, bucket, ["a", "b"])
    listed = s3.list_object_versions(Bucket=bucket)
    assert [(v["Key"], v["VersionId"], v["IsLatest"]) for v in listed["Versions"]] == [("a", "null", True), ("b", "null", True)]
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a", "VersionId": "null"}]})
    assert [e["Key"] for e in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["b"]


def test_a_thousand_keys_and_more(s3, bucket):
    keys = [f"k{i:05d}" for i in range(1203)]
    fill(s3, bucket, keys)
    assert pages(s3.list_objects_v2, Bucket=bucket)[0] == keys
    first = s3.list_objects_v2(Bucket=bucket)
    assert first["KeyCount"] == 1000 and first["IsTruncated"]
    for start in range(0, len(keys), 1000):
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in keys[start:start + 1000]]})
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    s3.delete_bucket(Bucket=bucket)


@pytest.mark.parametrize("call,code", [
    ("get_bucket_policy", "NoSuchBucketPolicy"), ("get_bucket_cors", "NoSuchCORSConfiguration"),
    ("get_bucket_website", "NoSuchWebsiteConfiguration"), ("get_bucket_lifecycle_configuration", "NoSuchLifecycleConfiguration"),
    ("get_bucket_replication", "ReplicationConfigurationNotFoundError"),
    ("get_bucket_encryption", "ServerSideEncryptionConfigurationNotFoundError"),
    ("get_object_lock_configuration", "ObjectLockConfigurationNotFoundError"), ("get_bucket_tagging", "NoSuchTagSet"),
    ("get_public_access_block", "NoSuchPublicAccessBlockConfiguration"),
    ("get_bucket_ownership_controls", "OwnershipControlsNotFoundError")])
def test_configuration_that_there_is_not(s3, bucket, call, code):
    with pytest.raises(ClientError) as error:
        getattr(s3, call)(Bucket=bucket)
    assert code_of(error) == (code, 404)


@pytest.mark.parametrize("call,options", [
    ("put_object_tagging", dict(Key="k", Tagging={"TagSet": []})), ("put_bucket_cors", dict(CORSConfiguration={"CORSRules": []})),
    ("put_bucket_versioning", dict(VersioningConfiguration={"Status": "Enabled"})), ("restore_object", dict(Key="k")),
    ("put_bucket_policy", dict(Policy="{}")), ("get_object_torrent", dict(Key="k"))])
def test_what_is_not_there_says_so_and_changes_nothing(s3, bucket, call, options):
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    with pytest.raises(ClientError) as error:
        getattr(s3, call)(Bucket=bucket, **options)
    assert code_of(error) == ("NotImplemented", 501)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"kept"


def test_sub_resources_never_become_a_plain_put(store, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    for sub in ("renameObject", "acl", "tagging", "retention", "legal-hold", "torrent", "select", "attributes", "append", "encryption"):
        url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
        connection = store.connection()
        connection.request("PUT", url.split(str(store.port), 1)[1] + "&" + sub, body=b"lost")
        assert connection.getresponse().status in (403, 501)
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"kept"
