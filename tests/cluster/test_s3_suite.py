"""The tests of tests/s3 through a gateway while two of six servers are dead: the same results as of `penstock local`."""
import os
import random
import subprocess
import sys

import pytest

from processes import Cluster
from store import ROOT

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(1 << 30)))


def test_real_clients_see_no_difference(nightly):
    if not nightly:
        pytest.skip("minutes long: nightly")
    print(f"PENSTOCK_TEST_SEED={SEED}")
    with Cluster(servers=6, gateways=1) as cluster:
        cluster.wait_whole()
        for name in random.Random(SEED).sample(cluster.names("servers"), 2):
            print(f"{name} is dead")
            cluster.run("kill", name)
        command = [sys.executable, "-m", "pytest", "-q", "-rs", os.path.join(ROOT, "tests", "s3")]
        done = subprocess.run(command, env=dict(os.environ, PENSTOCK_TEST_CLUSTER=cluster.data), text=True, capture_output=True)
        print(done.stdout[-8000:])
        assert done.returncode == 0
