"""A cluster whose processes know each other by certificates: it serves; who has a wrong certificate, or none, gets nowhere and both
ends say why; certificates are read again."""
import concurrent.futures
import importlib.machinery
import importlib.util
import os
import shutil
import signal
import subprocess

import pytest

from processes import SCRIPT, Cluster, bytes_of
from store import BINARY, wait_for

loader = importlib.machinery.SourceFileLoader("cluster_script", SCRIPT)
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("cluster_script", loader))
loader.exec_module(script)


@pytest.fixture(scope="module")
def cluster():
    with Cluster(servers=3, gateways=1, tls=True) as running:
        running.wait_whole()
        yield running


def cluster_id(cluster):
    folder = cluster.info["tls"]
    text = subprocess.run(["openssl", "x509", "-in", f"{folder}/admin.pem", "-noout", "-ext", "subjectAltName"], capture_output=True, text=True).stdout
    return text.split("penstock://")[1].split("/")[0]


def knock(cluster, *trust):
    """What a process is told that calls the first server."""
    made = subprocess.run([BINARY, "ring", "make", *trust, "--map", os.path.join(cluster.directory.name, "no-map"), "--server",
                           cluster.find("s1")["address"]], capture_output=True, text=True, timeout=60)
    assert made.returncode == 1
    return made.stderr


def trust_of(folder, role="admin", authority=None):
    return ["--tls-cert", f"{folder}/{role}.pem", "--tls-key", f"{folder}/{role}.key", "--tls-ca", f"{authority or folder}/ca.pem"]


def test_it_serves(cluster):
    s3 = cluster.client(0)
    s3.create_bucket(Bucket="tls")
    for size in (10, 3_000_000):
        s3.put_object(Bucket="tls", Key=str(size), Body=bytes_of(str(size), size))
        assert s3.get_object(Bucket="tls", Key=str(size))["Body"].read() == bytes_of(str(size), size)
    assert "already" in knock(cluster, *trust_of(cluster.info["tls"]))  # it got in: the volumes have a map


@pytest.fixture(scope="module")
def told(cluster, tmp_path_factory):
    """What they are told who have no right to be there. Each is patient for many seconds, so all are at once."""
    good, made = cluster.info["tls"], str(tmp_path_factory.mktemp("tls"))
    other, stranger, key = f"{made}/other", f"{made}/stranger", f"{made}/cluster.key"
    script.make_certificates(other, cluster_id(cluster))
    shutil.copytree(good, stranger)
    script.make_role("admin", stranger, "0" * 31 + "1")
    subprocess.run([BINARY, "admin", "keygen", key], check=True, stdout=subprocess.DEVNULL)
    with Cluster(servers=1, gateways=1) as plain, concurrent.futures.ThreadPoolExecutor() as pool:
        knocks = {"another authority": (cluster, trust_of(other)), "unknown to the server": (cluster, trust_of(other, authority=good)),
                  "another cluster": (cluster, trust_of(stranger)), "another role": (cluster, trust_of(good, "gateway")),
                  "a key": (cluster, ["--key", key]), "TLS": (plain, trust_of(good))}
        answers = {name: pool.submit(knock, at, *trust) for name, (at, trust) in knocks.items()}
        yield {name: answer.result() for name, answer in answers.items()} | {"plain": plain}


def test_wrong_certificates_are_refused(cluster, told):
    assert "the peer's certificate is refused" in told["another authority"]
    assert "the peer refuses this process: tlsv1 alert unknown ca" in told["unknown to the server"]
    assert "another cluster" in told["another cluster"]
    assert 'of a role "gateway"; this process is "admin"' in told["another role"]
    wait_for(lambda: "peer_refused" in cluster.log("s1") and "certificate is refused" in cluster.log("s1"), "the server says why")
    cluster.wait_whole()


def test_plain_and_tls_do_not_meet(told):
    assert "does not speak it, this server does" in told["a key"]
    assert "perhaps it speaks no TLS" in told["TLS"]
    wait_for(lambda: "the peer speaks TLS, this process does not" in told["plain"].log("s1"), "the server says why")


def test_certificates_are_read_again(cluster):
    folder, server = cluster.info["tls"], cluster.find("s1")
    script.make_role("server", folder, cluster_id(cluster))
    os.kill(server["pid"], signal.SIGHUP)
    wait_for(lambda: "event=certificates_read" in cluster.log("s1"), "the server reads its certificate")
    with open(f"{folder}/server.pem", "w") as file:
        file.write("nonsense")
    os.kill(server["pid"], signal.SIGHUP)
    wait_for(lambda: "event=certificates_kept" in cluster.log("s1"), "the server keeps what it had")
    cluster.run("kill", "g1")
    cluster.run("start", "g1")  # new connections
    cluster.wait_whole()


def test_half_of_the_options_is_none(tmp_path):
    done = subprocess.run([BINARY, "server", "--tls-cert", "x", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 2 and "--tls-" in done.stderr
