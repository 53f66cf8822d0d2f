"""What is no longer referenced gives its space back: hints, the sweep of orphans, expired uploads. With short graces."""
import os
import tempfile

import pytest

from store import Store, make_client, wait_for

# Hints after 1 s, orphans after 4 s, uploads after 5 s.
REMOVAL = {"hint_delay_seconds": 1, "lease_seconds": 4, "hints_every_seconds": 1, "sweep_every_seconds": 1,
           "uploads_every_seconds": 1, "upload_expiry_seconds": 5, "upload_kept_seconds": 2}
MIB = 1 << 20


@pytest.fixture(scope="module")
def removing():
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        with Store(directory, config={"removal": REMOVAL}) as running:
            yield running


@pytest.fixture
def client(removing):
    made = make_client(removing)
    made.bucket = "b-" + os.urandom(6).hex()
    made.create_bucket(Bucket=made.bucket)
    return made


def stored(store):
    """Bytes of fragments on all volumes."""
    return store.metric("penstock_volume_fragment_bytes")


def test_overwrites_and_deletes_give_their_space_back(removing, client):
    before = stored(removing)
    for _ in range(6):
        client.put_object(Bucket=client.bucket, Key="same", Body=os.urandom(4 * MIB))
    client.put_object(Bucket=client.bucket, Key="other", Body=os.urandom(4 * MIB))
    assert stored(removing) - before > 4 * MIB * 2  # two objects and their parity; hints may have run already
    last = os.urandom(4 * MIB)
    client.put_object(Bucket=client.bucket, Key="same", Body=last)
    client.delete_object(Bucket=client.bucket, Key="other")
    wait_for(lambda: stored(removing) - before < 4 * MIB * 1.6, "space of six overwrites and a delete")
    assert client.get_object(Bucket=client.bucket, Key="same")["Body"].read() == last
    wait_for(lambda: removing.metric("penstock_background_hints_waiting") == 0, "no hint is left")
    assert removing.metric("penstock_background_hints_done_total") >= 7
    assert removing.metric("penstock_background_hint_fragments_removed_total") >= 7 * 6  # 4 + 2


def test_uploads_that_nobody_ends_expire_and_are_forgotten(removing, client):
    before = stored(removing)
    upload = client.create_multipart_upload(Bucket=client.bucket, Key="big")["UploadId"]
    client.upload_part(Bucket=client.bucket, Key="big", UploadId=upload, PartNumber=1, Body=os.urandom(5 * MIB))
    assert stored(removing) - before > 5 * MIB
    wait_for(lambda: "Uploads" not in client.list_multipart_uploads(Bucket=client.bucket), "the upload expires", 60)
    wait_for(lambda: stored(removing) <= before, "the space of its part", 60)
    wait_for(lambda: removing.metric("penstock_background_uploads_forgotten_total") >= 1, "it is forgotten", 60)


def test_what_a_dead_process_left_behind_is_swept():
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        with Store(directory, config={"removal": dict(REMOVAL, hint_delay_seconds=3600)}) as store:
            client = make_client(store)
            client.create_bucket(Bucket="bucket")
            kept = os.urandom(3 * MIB)
            client.put_object(Bucket="bucket", Key="kept", Body=kept)
            client.put_object(Bucket="bucket", Key="gone", Body=os.urandom(3 * MIB))
            size = stored(store) / 2
            client.delete_object(Bucket="bucket", Key="gone")
            store.kill()
            store.start()
            # The hint waits for an hour: only the sweep can do this.
            wait_for(lambda: stored(store) <= size, "orphans are removed after their lease", 60)
            assert client.get_object(Bucket="bucket", Key="kept")["Body"].read() == kept
            assert store.metric("penstock_background_orphans_removed_total") > 0
            assert store.metric("penstock_background_last_sweep_timestamp_seconds") > 0
