"""What is no longer referenced gives its space back: hints, the sweep of orphans, expired uploads. With short graces."""
import os
import tempfile
import time

import pytest

from store import Store, make_client, wait_for

# Hints after 1 s, orphans after 4 s, uploads after 5 s.
REMOVAL = {"hint_delay_seconds": 1, "lease_seconds": 4, "hints_every_seconds": 1, "sweep_every_seconds": 1,
           "uploads_every_seconds": 1, "upload_expiry_seconds": 5, "upload_kept_seconds": 2,
           "tombstones_every_seconds": 1, "tombstone_wait_seconds": 1, "buckets_every_seconds": 1}
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


def test_rows_of_what_was_deleted_are_purged(removing, client):
    before = removing.metric("penstock_background_tombstones_purged_total")
    for key in ("a", "b", "c"):
        client.put_object(Bucket=client.bucket, Key=key, Body=b"first")
        client.delete_object(Bucket=client.bucket, Key=key)
    wait_for(lambda: removing.metric("penstock_background_tombstones_purged_total") >= before + 3, "three rows", 60)
    wait_for(lambda: removing.metric("penstock_background_tombstones_waiting") == 0, "no tombstone is left", 60)
    assert client.list_objects_v2(Bucket=client.bucket)["KeyCount"] == 0
    client.put_object(Bucket=client.bucket, Key="a", Body=b"second", IfNoneMatch="*")
    assert client.get_object(Bucket=client.bucket, Key="a")["Body"].read() == b"second"


def test_each_job_tells_how_far_it_is(removing, client):
    for what in ("hints", "fragments", "uploads", "rows", "tombstones", "buckets"):
        for figure in ("running", "done", "total", "steps_per_second"):
            name = f'penstock_background_{figure}{{what="{what}"}}'
            wait_for(lambda: name in removing.admin("/metrics")[1], name)


def test_what_a_dead_process_left_behind_is_swept():
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        with Store(directory, config={"removal": dict(REMOVAL, hints_every_seconds=3600)}) as store:
            client = make_client(store)
            client.create_bucket(Bucket="bucket")
            kept = os.urandom(3 * MIB)
            client.put_object(Bucket="bucket", Key="kept", Body=kept)
            client.put_object(Bucket="bucket", Key="gone", Body=os.urandom(3 * MIB))
            size = stored(store) / 2
            client.delete_object(Bucket="bucket", Key="gone")
            store.kill()
            store.start()
            # The hints are looked at once, too early, then an hour later: only the sweep can do this.
            wait_for(lambda: stored(store) <= size, "orphans are removed after their lease", 60)
            assert client.get_object(Bucket="bucket", Key="kept")["Body"].read() == kept
            assert store.metric("penstock_background_orphans_removed_total") > 0
            assert store.metric("penstock_background_last_sweep_timestamp_seconds") > 0


def test_a_slow_reader_keeps_what_was_overwritten_while_it_reads():
    # The lease of the object's fragments is over long before the grace of readers; sweeps come all the time.
    removal = dict(REMOVAL, hint_delay_seconds=12, lease_seconds=2, hints_every_seconds=3600)
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        with Store(directory, config={"removal": removal}) as store:
            client = make_client(store)
            client.create_bucket(Bucket="bucket")
            body = os.urandom(64 * MIB)
            client.put_object(Bucket="bucket", Key="slow", Body=body)
            wait_for(lambda: store.metric("penstock_background_last_sweep_timestamp_seconds") > 0, "a sweep")
            time.sleep(3)  # the lease is a matter of time alone
            stream = client.get_object(Bucket="bucket", Key="slow")["Body"]
            read = stream.read(MIB)
            client.put_object(Bucket="bucket", Key="slow", Body=b"other")
            for _ in range(8):
                time.sleep(1)
                read += stream.read(2 * MIB)
            read += stream.read()
            assert read == body
            wait_for(lambda: stored(store) < MIB, "the space of what was overwritten", 90)
