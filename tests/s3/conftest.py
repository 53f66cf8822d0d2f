"""Fixtures: the real binary on a free loopback port with a fresh store, and real clients for it.

PENSTOCK_BINARY names the binary (default build/release/penstock). PENSTOCK_TEST_MODE=long runs the long modes.
"""
import os
import tempfile

import boto3
import pytest
from botocore.client import Config

from store import ACCOUNTS, Store

LONG = os.environ.get("PENSTOCK_TEST_MODE") == "long"


@pytest.fixture(scope="session")
def long_mode():
    return LONG


@pytest.fixture(scope="module")
def store():
    """One running store for all tests of a file. Tests use buckets of their own."""
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        with Store(directory) as running:
            yield running


@pytest.fixture
def fresh_store():
    """A store for one test that stops, damages or fills it."""
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        with Store(directory) as running:
            yield running


def make_client(store, account=0, **options):
    config = dict(retries={"max_attempts": 0}, s3={"addressing_style": "path"}, signature_version="s3v4",
                  connect_timeout=5, read_timeout=60, max_pool_connections=64)
    config.update(options)
    who = ACCOUNTS[account]
    return boto3.client("s3", endpoint_url=store.endpoint, region_name="us-east-1", aws_access_key_id=who["access_key"],
                        aws_secret_access_key=who["secret_key"], config=Config(**config))


@pytest.fixture
def s3(store):
    return make_client(store)


@pytest.fixture
def other(store):
    """A client of another account."""
    return make_client(store, account=1)


@pytest.fixture
def bucket(s3, request):
    name = "b-" + os.urandom(6).hex()
    s3.create_bucket(Bucket=name)
    return name
