"""Conditions that are there are heeded or refused, never dropped: empty ones, weak ones, lists, and repeated ones."""
import base64
import hashlib

import pytest
from botocore.exceptions import ClientError

from test_odd_requests import ask

EMPTY = ["", '""', ' "" ']
BODY = b"0123456789"


def status_of(call, **arguments):
    try:
        return call(**arguments)["ResponseMetadata"]["HTTPStatusCode"]
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.fixture
def kept(s3, bucket):
    """A bucket whose object "k" is there, unchanged, after the test."""
    etag = s3.put_object(Bucket=bucket, Key="k", Body=BODY)["ETag"]
    yield bucket, etag
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == BODY and got["ETag"] == etag


@pytest.mark.parametrize("header", ["if-match", "if-none-match"])
@pytest.mark.parametrize("value", EMPTY)
def test_an_empty_condition_is_met_by_no_write(store, s3, kept, header, value):
    bucket, _ = kept
    extra = {header: value.strip()}
    assert ask(store, "PUT", f"/{bucket}/k", body=b"x", extra=extra)[0] == 412
    assert ask(store, "PUT", f"/{bucket}/new", body=b"x", extra=extra)[0] == 412
    assert ask(store, "DELETE", f"/{bucket}/k", extra=extra)[0] == 412
    assert ask(store, "PUT", f"/{bucket}/k", extra={"x-amz-copy-source": f"{bucket}/k", "x-amz-metadata-directive": "REPLACE", **extra})[0] == 412
    assert ask(store, "PUT", f"/{bucket}/new", extra={"x-amz-copy-source": f"{bucket}/k", **extra})[0] == 412
    source = "x-amz-copy-source-" + header
    assert ask(store, "PUT", f"/{bucket}/new", extra={"x-amz-copy-source": f"{bucket}/k", source: value.strip()})[0] == 412
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    document = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part}</ETag></Part></CompleteMultipartUpload>".encode()
    assert ask(store, "POST", f"/{bucket}/k", f"uploadId={upload}", body=document, extra=extra)[0] == 412
    assert ask(store, "PUT", f"/{bucket}/k", f"partNumber=1&uploadId={upload}",
               extra={"x-amz-copy-source": f"{bucket}/k", source: value.strip()})[0] == 412
    assert [e["Key"] for e in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]


@pytest.mark.parametrize("etag", ["<ETag></ETag>", "<ETag/>", "<ETag> </ETag>", '<ETag>""</ETag>', "<ETag>&quot;&quot;</ETag>", '<ETag>W/""</ETag>'])
def test_an_empty_etag_deletes_nothing(store, kept, etag):
    bucket, _ = kept
    body = f"<Delete><Object><Key>k</Key>{etag}</Object></Delete>".encode()
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    status, _, text = ask(store, "POST", f"/{bucket}", "delete=", body=body, extra={"content-md5": md5})
    assert status == 200 and "<Code>PreconditionFailed</Code>" in text and "<Deleted>" not in text


def test_an_empty_condition_of_a_read_names_nothing(store, kept):
    bucket, etag = kept
    for method in ("GET", "HEAD"):
        for value in ("", '""', ",", 'W/""', '"*"', f"W/{etag}", f'*, {etag[:-2]}"'):
            assert ask(store, method, f"/{bucket}/k", extra={"if-match": value})[0] == 412, value
        for value in ("", '""', ","):
            assert ask(store, method, f"/{bucket}/k", extra={"if-none-match": value})[0] == 200, value
        for value in (etag, f"W/{etag}", "*", f'"x", {etag}', f'"x",W/{etag}', etag.strip('"')):
            assert ask(store, method, f"/{bucket}/k", extra={"if-none-match": value})[0] == 304, value


@pytest.mark.parametrize("header,value,status", [
    ("if-match", 'W/"{etag}"', 412), ("if-match", '"*"', 412), ("if-match", '"a", "{etag}"', 501), ("if-match", '*, "{etag}"', 501),
    ("if-match", "LONG", 412), ("if-none-match", 'W/"{etag}"', 412), ("if-none-match", '"*"', 501), ("if-none-match", "*", 412),
    ("if-none-match", '"{etag}"', 412), ("if-none-match", '"a", "b"', 501), ("if-none-match", "LONG", 501),
    ("if-modified-since", "", 501), ("if-unmodified-since", "yesterday", 501)])
def test_odd_conditions_of_writes(store, kept, header, value, status):
    bucket, etag = kept
    extra = {header: value.replace("{etag}", etag.strip(chr(34))).replace("LONG", "a" * 5000)}
    assert ask(store, "PUT", f"/{bucket}/k", body=b"x", extra=extra)[0] == status
    assert ask(store, "DELETE", f"/{bucket}/k", extra=extra)[0] == status
    assert ask(store, "PUT", f"/{bucket}/k", extra={"x-amz-copy-source": f"{bucket}/k", "x-amz-metadata-directive": "REPLACE", **extra})[0] == status


def test_conditions_that_hold_let_writes_through(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    assert status_of(s3.put_object, Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*") == 412
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch=etag)["ETag"]
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=etag.strip('"'))["ETag"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch="*")
    result = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k", "ETag": etag}]})
    assert [e["Key"] for e in result["Deleted"]] == ["k"]


@pytest.mark.parametrize("name,value", [("x-amz-copy-source-if-modified-since", ""), ("x-amz-copy-source-if-unmodified-since", "soon")])
def test_a_date_of_a_copy_that_cannot_be_read_is_refused(store, kept, name, value):
    bucket, _ = kept
    status, _, text = ask(store, "PUT", f"/{bucket}/new", extra={"x-amz-copy-source": f"{bucket}/k", name: value})
    assert (status, "<Code>InvalidArgument</Code>" in text) == (400, True)


@pytest.mark.parametrize("method,query,name", [
    ("PUT", "partNumber=1&uploadId={upload}", "if-none-match"), ("POST", "uploads=", "if-none-match"), ("DELETE", "uploadId={upload}", "if-match"),
    ("DELETE", "uploadId={upload}", "x-amz-if-match-initiated-time"), ("DELETE", "", "x-amz-if-match-last-modified-time"),
    ("DELETE", "", "x-amz-if-match-size"), ("PUT", "", "x-amz-copy-source-if-match"), ("PUT", "", "content-range"),
    ("PUT", "", "x-amz-no-such-thing"), ("GET", "", "x-amz-s3session-token")])
def test_what_an_operation_does_not_heed_is_refused(store, s3, kept, method, query, name):
    bucket, _ = kept
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    body = b"x" if method == "PUT" else b""
    status, _, text = ask(store, method, f"/{bucket}/k", query.replace("{upload}", upload), body=body, extra={name: "*"})
    assert (status, "<Code>NotImplemented</Code>" in text) == (501, True)
    assert "Uploads" in s3.list_multipart_uploads(Bucket=bucket)
