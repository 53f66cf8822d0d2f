"""Accounts of a running store: revoked, added, rotated without a restart; who may read their file; Signature Version 2 off."""
import json
import os
import signal
import time

import botocore.exceptions
import pytest

from store import ACCOUNTS, Store, make_client, wait_for, write_private

THIRD = {"access_key": "TESTACCOUNTKEY000003", "secret_key": "testSecretKeyOfTheThirdAccount0000000003", "account_id": "3" * 64,
         "display_name": "third", "email": "third@example.com"}


def accounts_file(store):
    return os.path.join(store.directory, "accounts.json")


def code_of(call):
    try:
        call()
        return "ok"
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"]


def test_a_revoked_account_is_out_within_two_seconds_and_a_new_one_in(fresh_store):
    first, second, third = (make_client(fresh_store, account=who) for who in (0, 1, THIRD))
    first.create_bucket(Bucket="bkt")
    assert code_of(second.list_buckets) == "ok" and code_of(third.list_buckets) == "InvalidAccessKeyId"
    write_private(accounts_file(fresh_store), json.dumps([ACCOUNTS[0], THIRD]))
    began = time.monotonic()
    wait_for(lambda: code_of(second.list_buckets) == "InvalidAccessKeyId", "the account is revoked", 2)
    assert time.monotonic() - began < 2
    assert code_of(third.list_buckets) == "ok"
    assert code_of(lambda: first.head_bucket(Bucket="bkt")) == "ok"
    assert "accounts_reloaded" in fresh_store.log() and "removed=1" in fresh_store.log()
    assert fresh_store.metric("penstock_accounts") == 3  # and root


def test_a_secret_is_changed_on_a_hang_up(fresh_store):
    client = make_client(fresh_store)
    assert code_of(client.list_buckets) == "ok"  # its signing key is kept now
    changed = dict(ACCOUNTS[0], secret_key="another-secret-of-the-first-account")
    # Written in place, as an editor may.
    with open(accounts_file(fresh_store), "w") as f:
        json.dump([changed, ACCOUNTS[1]], f)
    fresh_store.process.send_signal(signal.SIGHUP)
    wait_for(lambda: code_of(client.list_buckets) == "SignatureDoesNotMatch", "the old secret is out", 2)
    assert code_of(make_client(fresh_store, account=changed).list_buckets) == "ok"


@pytest.mark.parametrize("text", ["", "[", "{}", '[{"access_key": "abc"}]', '[{"access_key": "abc", "secret_key": "short"}]', None])
def test_a_broken_file_changes_nothing_and_is_told(fresh_store, text):
    client = make_client(fresh_store)
    if text is None:
        os.remove(accounts_file(fresh_store))
    else:
        write_private(accounts_file(fresh_store), text)
    wait_for(lambda: "accounts_not_reloaded" in fresh_store.log(), "the complaint", 5)
    assert code_of(client.list_buckets) == "ok"
    assert fresh_store.metric('penstock_account_reloads_total{result="failed"}') == 1
    write_private(accounts_file(fresh_store), json.dumps([ACCOUNTS[1]]))
    wait_for(lambda: code_of(client.list_buckets) == "InvalidAccessKeyId", "the file is good again", 2)


def test_a_reload_that_takes_the_roots_key_is_refused(fresh_store):
    with open(os.path.join(fresh_store.data, "root-credentials.json")) as f:
        root = json.load(f)[0]
    write_private(accounts_file(fresh_store), json.dumps([dict(ACCOUNTS[0], access_key=root["access_key"])]))
    wait_for(lambda: "accounts_not_reloaded" in fresh_store.log() and "occurs twice" in fresh_store.log(), "the complaint", 5)
    assert code_of(make_client(fresh_store, account=root).list_buckets) == "ok"


def test_a_hang_up_ends_nothing_and_running_requests_go_on(fresh_store):
    client = make_client(fresh_store)
    client.create_bucket(Bucket="bkt")
    body = os.urandom(4 << 20)
    for n in range(5):
        fresh_store.process.send_signal(signal.SIGHUP)
        client.put_object(Bucket="bkt", Key=f"k{n}", Body=body)
        assert client.get_object(Bucket="bkt", Key=f"k{n}")["Body"].read() == body
    assert fresh_store.stop() == 0


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o640, 0o660, 0o666])
def test_a_file_of_secrets_that_others_may_read_is_refused(tmp_path, mode):
    store = Store(str(tmp_path))
    command = store.command()
    os.chmod(accounts_file(store), mode)
    store.command = lambda: command
    store.start(wait=False)
    assert store.process.wait(timeout=30) == 1
    assert "chmod 600" in store.log() and f"{mode:04o}" in store.log()
    assert not os.path.exists(store.data)  # nothing was made


def test_a_running_store_tells_of_a_file_that_was_opened_to_others(fresh_store):
    os.chmod(accounts_file(fresh_store), 0o644)
    wait_for(lambda: "accounts_not_reloaded" in fresh_store.log() and "chmod 600" in fresh_store.log(), "the complaint", 5)
    assert code_of(make_client(fresh_store).list_buckets) == "ok"


def test_the_roots_file_is_private_too(fresh_store):
    fresh_store.stop()
    path = os.path.join(fresh_store.data, "root-credentials.json")
    os.chmod(path, 0o644)
    fresh_store.start(wait=False)
    assert fresh_store.process.wait(timeout=30) == 1 and f"chmod 600 {path}" in fresh_store.log()
    os.chmod(path, 0o600)
    fresh_store.start()


def test_signature_v2_can_be_switched_off(tmp_path):
    with Store(str(tmp_path), config={"signature_v2": False}) as store:
        make_client(store).create_bucket(Bucket="bkt")
        old = make_client(store, signature_version="s3")
        try:
            old.put_object(Bucket="bkt", Key="k", Body=b"x")
            raise AssertionError("V2 was let in")
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "InvalidRequest"
            assert "AWS4-HMAC-SHA256" in error.response["Error"]["Message"]
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        link = old.generate_presigned_url("get_object", Params={"Bucket": "bkt", "Key": "k"})
        answer = store.raw(f"GET {link.split(str(store.port), 1)[1]} HTTP/1.1\r\nHost: {link.split('/')[2]}\r\nConnection: close\r\n\r\n".encode())
        assert b" 400 " in answer.split(b"\r\n")[0] and b"AWS4-HMAC-SHA256" in answer


def test_a_damaged_copy_of_the_root_pair_is_made_up_for(tmp_path):
    """It lies in every directory, so that no single disk locks anybody out."""
    disks = [str(tmp_path / f"disk{i}") for i in range(6)]
    for disk in disks:
        os.mkdir(disk)
    files = [os.path.join(disk, "root-credentials.json") for disk in disks]

    def texts():
        return [open(file).read() if os.path.exists(file) else None for file in files]

    with Store(str(tmp_path), volumes=disks) as store:
        assert store.stop() == 0
        before = texts()
        assert len(set(before)) == 1
        with open(files[0], "r+b") as f:
            f.seek(20)
            f.write(b"\0" * 10)
        os.remove(files[4])
        store.start()
        assert texts() == before
        assert all(os.stat(file).st_mode & 0o777 == 0o600 for file in files)
        assert store.log().count("root_credentials_written_again") == 2
        assert store.stop() == 0
        for file in files[1:]:
            os.remove(file)
        with open(files[0], "r+b") as f:
            f.write(b"\0")
        store.start(wait=False)  # no second pair beside what may be mended
        assert store.process.wait(timeout=30) == 1
        assert files[0] in store.log() and texts()[1:] == [None] * 5
