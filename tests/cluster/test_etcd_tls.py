"""The map in an etcd that speaks TLS only, to those alone whose certificates it knows."""
import json
import os
import shutil
import socket
import subprocess

import pytest

from processes import Endpoint, bytes_of
from store import ACCOUNTS, BINARY, make_client, wait_for, write_private
from test_tls import script

pytestmark = pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed")


def free_ports(count):
    with_ports = [socket.socket() for _ in range(count)]
    try:
        for held in with_ports:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in with_ports]
    finally:
        for held in with_ports:
            held.close()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    """(its endpoint without a scheme, the folder of the certificates)"""
    folder = str(tmp_path_factory.mktemp("etcd-tls"))
    script.certify(folder, "ca", 30)
    script.certify(folder, "other-ca", 30)
    signed = ["-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key", "-addext", "basicConstraints=critical,CA:FALSE", "-addext"]
    script.certify(folder, "etcd", 30, *signed, "subjectAltName=IP:127.0.0.1")
    script.certify(folder, "elsewhere", 30, *signed, "subjectAltName=IP:127.0.0.2")
    script.certify(folder, "client", 30, *signed, "subjectAltName=DNS:client")
    client, peer, wrong, wrong_peer = free_ports(4)
    words = ["--cert-file={0}.pem", "--key-file={0}.key", f"--trusted-ca-file={folder}/ca.pem", "--client-cert-auth", "--logger=zap"]
    running = []
    for name, port, other in (("etcd", client, peer), ("elsewhere", wrong, wrong_peer)):
        urls = [f"--listen-client-urls=https://127.0.0.1:{port}", f"--advertise-client-urls=https://127.0.0.1:{port}",
                f"--listen-peer-urls=http://127.0.0.1:{other}", f"--initial-advertise-peer-urls=http://127.0.0.1:{other}",
                f"--initial-cluster={name}=http://127.0.0.1:{other}"]
        with open(f"{folder}/{name}.log", "wb") as log:
            running.append(subprocess.Popen(["etcd", "--name", name, f"--data-dir={folder}/{name}.data", *urls,
                                             *[w.format(f"{folder}/{name}") for w in words]], stdout=log, stderr=log))
    try:
        wait_for(lambda: all("serving client traffic" in open(f"{folder}/{n}.log").read() for n in ("etcd", "elsewhere")), "etcd serves")
        yield f"127.0.0.1:{client}", f"127.0.0.1:{wrong}", folder
    finally:
        for process in running:
            process.kill()
            process.wait()


def start(log, ready, *words):
    with open(log, "wb") as out:
        process = subprocess.Popen([BINARY, *map(str, words)], stdout=out, stderr=out)
    wait_for(lambda: ready in open(log).read() or process.poll() is not None, f"{words[0]} starts")
    assert process.poll() is None, open(log).read()
    return process


def run(*words, code=0):
    done = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=90)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def test_a_cluster_keeps_its_map_there(etcd, tmp_path):
    endpoint, _, folder = etcd
    key, accounts = str(tmp_path / "cluster.key"), str(tmp_path / "accounts.json")
    cluster = run("admin", "keygen", key).split()[1].rstrip(":")
    write_private(accounts, json.dumps(ACCOUNTS))
    place = f"etcds://{endpoint}/{cluster}?ca={folder}/ca.pem&cert={folder}/client.pem&key={folder}/client.key"
    ports = free_ports(2)
    server = start(tmp_path / "server.log", "server_ready", "server", "--key", key, "--map", place, "--listen", f"127.0.0.1:{ports[0]}",
                   "--admin-listen", "127.0.0.1:0", "--format", *[tmp_path / f"v{n}" for n in range(3)])
    gateway = None
    try:
        assert "3 volumes" in run("ring", "make", "--key", key, "--map", place)  # of those that announce themselves there
        gateway = start(tmp_path / "gateway.log", "gateway_ready", "gateway", "--key", key, "--map", place, "--credentials", accounts,
                        "--listen", f"127.0.0.1:{ports[1]}", "--admin-listen", "127.0.0.1:0")
        client = make_client(Endpoint(f"http://127.0.0.1:{ports[1]}"), retries={"max_attempts": 10, "mode": "standard"})
        client.create_bucket(Bucket="tls")
        client.put_object(Bucket="tls", Key="k", Body=bytes_of("k", 300_000))
        assert client.get_object(Bucket="tls", Key="k")["Body"].read() == bytes_of("k", 300_000)
        wait_for(lambda: '"ok": true' in run("ring", "status", "--json", "--key", key, "--map", place), "all is well")
        assert folder not in open(tmp_path / "gateway.log").read()  # the name of a source is without its files
    finally:
        for process in [gateway, server]:
            if process:
                process.terminate()
                assert process.wait(60) == 0


def test_the_first_map_leaves_out_no_server_that_announced_itself(etcd, tmp_path):
    endpoint, _, folder = etcd
    key = str(tmp_path / "cluster.key")
    cluster = run("admin", "keygen", key).split()[1].rstrip(":")
    place = f"etcds://{endpoint}/{cluster}?ca={folder}/ca.pem&cert={folder}/client.pem&key={folder}/client.key"
    ports = free_ports(3)

    def serve(n, *more):
        return start(tmp_path / f"s{n}.log", "server_ready", "server", "--key", key, "--map", place, "--listen", f"127.0.0.1:{ports[n]}",
                     "--admin-listen", "127.0.0.1:0", *more, tmp_path / f"s{n}")
    servers = [serve(n, "--format") for n in range(3)]
    try:
        servers[1].kill()
        servers[1].wait()
        told = run("ring", "make", "--key", key, "--map", place, code=1)
        assert f"127.0.0.1:{ports[1]}" in told and "--server" in told
        servers[1] = serve(1)
        assert "3 volumes" in run("ring", "make", "--key", key, "--map", place)
    finally:
        for process in servers:
            process.kill()
            process.wait()


def test_who_shows_no_certificate_or_meets_a_wrong_one_is_told(etcd, tmp_path):
    endpoint, wrong, folder = etcd
    key = str(tmp_path / "cluster.key")
    cluster = run("admin", "keygen", key).split()[1].rstrip(":")
    own = f"&cert={folder}/client.pem&key={folder}/client.key"
    os.chmod(shutil.copy(f"{folder}/client.key", tmp_path / "open.key"), 0o644)

    def told(place):
        return run("ring", "make", "--key", key, "--map", place, code=1)
    for place, said in ((f"etcds://{endpoint}/{cluster}?ca={folder}/other-ca.pem{own}", "certificate verify failed"),
                        (f"etcds://{wrong}/{cluster}?ca={folder}/ca.pem{own}", "certificate verify failed"),
                        (f"etcds://{endpoint}/{cluster}?ca={folder}/none.pem{own}", "none.pem"),
                        (f"etcds://{endpoint}/{cluster}?ca={folder}/ca.pem&cert={folder}/client.pem&key={tmp_path}/open.key", "chmod 600"),
                        (f"etcds://{endpoint}/{cluster}?ca={folder}/ca.pem&cert={folder}/client.pem", "go together"),
                        (f"etcds://{endpoint}/{cluster}?ca={folder}/ca.pem", "etcd")):
        assert said in told(place), place
