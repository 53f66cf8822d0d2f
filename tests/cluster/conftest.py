"""Tests of the whole binary under load and faults, whose histories the simulator's checker judges."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "s3"))


@pytest.fixture
def nightly():
    return os.environ.get("PENSTOCK_TEST_MODE") == "nightly"
