"""What the processes tell Prometheus: all that the alert rules and the dashboard look at is there, and all that is there is explained."""
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

import pytest

from processes import Cluster, bytes_of
from store import ROOT, Store, make_client, wait_for

CONF = os.path.join(ROOT, "conf")
PAGE = os.path.join(ROOT, "server", "node", "METRICS.md")
NAME = re.compile(r"\bpenstock_[a-z0-9_]+")
OLD_GAUGES = {"penstock_background_total", "penstock_ring_change_total"}  # counts of steps that are to be done


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


class Metrics:
    """One answer of /metrics."""

    def __init__(self, text):
        self.text = text
        self.kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        self.samples = {}
        for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.M):
            self.samples.setdefault(name, []).append((dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)))

    def sum(self, name, **labels):
        return sum(value for found, value in self.samples.get(name, ()) if labels.items() <= found.items())


def metrics_of(cluster, name):
    with urllib.request.urlopen(cluster.find(name)["admin"] + "/metrics", timeout=5) as answer:
        return Metrics(answer.read().decode())


@pytest.fixture(scope="module")
def cluster():
    with Cluster(servers=3, gateways=1) as running:
        running.wait_whole()
        s3 = running.client(0)
        s3.create_bucket(Bucket="seen")
        for size in (10, 300_000):
            key = f"o{size}"
            s3.put_object(Bucket="seen", Key=key, Body=bytes_of(key, size))
            assert s3.get_object(Bucket="seen", Key=key)["Body"].read() == bytes_of(key, size)
        yield running


def put_slowly(cluster, key, meanwhile):
    """A PUT of 12 MiB; `meanwhile` is called when half of it was sent."""
    body = bytes_of(key, 12 << 20)
    url = urllib.parse.urlsplit(cluster.client(0).generate_presigned_url("put_object", Params={"Bucket": "seen", "Key": key}))
    connection = http.client.HTTPConnection(url.netloc, timeout=60)
    connection.putrequest("PUT", f"{url.path}?{url.query}")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    connection.send(body[:len(body) // 2])
    time.sleep(1)
    meanwhile()
    connection.send(body[len(body) // 2:])
    assert connection.getresponse().status == 200
    connection.close()
    assert cluster.client(0).get_object(Bucket="seen", Key=key)["Body"].read() == body


def test_leases_of_an_upload_are_asked_for_again_when_a_connection_broke(cluster):
    def restart():
        cluster.run("kill", "s3")
        cluster.run("start", "s3")

    def pins():
        return metrics_of(cluster, "g1").sum("penstock_peer_calls_total", op="pin")

    before = pins()
    put_slowly(cluster, "unbroken", lambda: None)
    assert pins() == before
    put_slowly(cluster, "broken", restart)
    assert pins() >= before + 2  # at the servers that may have started anew, for all that the gateway knows
    cluster.wait_whole()


def test_a_server_sweeps_its_own_volumes_alone():
    with Cluster(servers=3, gateways=1, config={"removal": {"sweep_every_seconds": 1}}) as cluster:
        cluster.wait_whole()
        cluster.client(0).create_bucket(Bucket="own")
        for i in range(3):
            cluster.client(0).put_object(Bucket="own", Key=f"k{i}", Body=bytes_of(f"k{i}", 300_000))

        def swept():
            return [metrics_of(cluster, name).sum("penstock_background_total", what="fragments") for name in cluster.names("servers")]

        wait_for(lambda: min(swept()) >= 3, "each server sweeps")
        assert swept() == [3, 3, 3]  # one fragment of each object, none of another server's


@pytest.fixture(scope="module")
def families(cluster):
    """Name -> kind, of all roles together."""
    kinds = {}
    for name in ("s1", "g1"):
        kinds.update(metrics_of(cluster, name).kinds)
    with tempfile.TemporaryDirectory(prefix="penstock-metrics-") as directory, Store(directory, arguments=[
            "--access-log", os.path.join(directory, "access.log")]) as store:
        kinds.update(Metrics(store.admin("/metrics")[1]).kinds)
    return kinds


def with_series(families):
    """The names that PromQL may use."""
    names = set()
    for name, kind in families.items():
        names |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    return names


def expressions():
    yield from ((rule, expression.strip()) for rule, expression in re.findall(
        r"- alert: (\w+)\n\s+expr: (?:>\n)?((?:.*\n)+?)\s+(?:for|labels):", read(CONF, "alerts.yml")))
    for panel in json.loads(read(CONF, "grafana-dashboard.json"))["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel.get("targets", ()))


def test_rules_and_dashboard_look_at_metrics_that_exist(families):
    found = list(expressions())
    rules = read(CONF, "alerts.yml").count("- alert:")
    assert rules > 10 and sum(not title.startswith("Penstock") for title, _ in found) > 10
    assert sum(title.startswith("Penstock") for title, _ in found) == rules, "an expression was not found"
    known = with_series(families)
    for title, expression in found:
        names = set(NAME.findall(re.sub(r'"[^"]*"', '""', expression)))
        assert names or "up{" in expression, (title, expression)
        assert names <= known, (title, names - known)


def test_each_metric_is_explained_and_no_other(families):
    explained = re.findall(r"^\| `(penstock_[a-z0-9_]+)", read(PAGE), re.M)
    assert len(explained) == len(set(explained)), "explained twice"
    assert set(explained) == set(families), set(explained) ^ set(families)


def test_names_keep_to_the_conventions(families):
    for name, kind in families.items():
        assert name.endswith("_total") == (kind == "counter") or name in OLD_GAUGES, (name, kind)
        assert kind != "histogram" or name.endswith("_seconds"), name
        assert not re.search(r"_(ms|us|milliseconds|kib|mib|kb|mb)(_|$)", name), name


def test_promtool_takes_rules_and_configuration():
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed (Debian's prometheus)")
    for arguments in (("check", "rules", os.path.join(CONF, "alerts.yml")), ("check", "config", os.path.join(CONF, "prometheus.yml"))):
        done = subprocess.run([tool, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_gateway_tells_of_each_server(cluster):
    servers = [server["address"] for server in cluster.info["servers"]]
    now = metrics_of(cluster, "g1")
    for peer in servers:
        assert now.sum("penstock_peer_up", peer=peer) == 1
        assert now.sum("penstock_peer_connections", peer=peer) >= 3
        assert now.sum("penstock_peer_connects_total", peer=peer, outcome="ok") >= 3
        assert now.sum("penstock_peer_calls_total", peer=peer, op="accept", outcome="ok") > 0
        assert now.sum("penstock_peer_received_bytes_total", peer=peer) > 0
        assert now.sum("penstock_peer_sent_bytes_total", peer=peer) > 0
        calls = now.sum("penstock_peer_calls_total", peer=peer)
        assert now.sum("penstock_peer_call_duration_seconds_count", peer=peer) <= calls
    assert now.sum("penstock_cluster_writable") == 1 and now.sum("penstock_cluster_level", level="whole") == 1
    assert {labels["peer"] for labels, _ in now.samples["penstock_cluster_volume_up"]} == set(servers)


def test_a_server_tells_of_its_callers_and_its_disk(cluster):
    now = metrics_of(cluster, "s1")
    assert now.sum("penstock_served_calls_total", role="gateway", op="accept", outcome="ok") > 0
    assert now.sum("penstock_served_call_duration_seconds_count", role="gateway", kind="record") > 0
    assert now.sum("penstock_served_connections") >= 3
    assert now.sum("penstock_volume_open") == 1 and now.sum("penstock_volumes", state="open") == 1
    assert now.sum("penstock_volume_sync_seconds_count") > 0
    assert 0 < now.sum("penstock_volume_free_bytes") <= now.sum("penstock_volume_total_bytes")
    assert not [name for name in now.samples if name.startswith("penstock_requests")], "it serves no S3"


def test_a_lost_server_is_seen(cluster):
    gone = cluster.find("s3")["address"]
    cluster.run("kill", "s3")
    try:
        wait_for(lambda: metrics_of(cluster, "g1").sum("penstock_peer_up", peer=gone) == 0, "g1 tells that s3 is gone")
        now = metrics_of(cluster, "g1")
        assert now.sum("penstock_cluster_volumes_lost") == 1 and now.sum("penstock_cluster_level", level="whole") == 0
        assert now.sum("penstock_cluster_volume_up", peer=gone) == 0
        line = cluster.ready("g1").splitlines()[1]
        assert "1 of 3 volumes do not answer" in line and gone in line, line
    finally:
        cluster.run("start", "s3")
    cluster.wait_whole()
    now = metrics_of(cluster, "g1")
    assert now.sum("penstock_peer_up", peer=gone) == 1 and now.sum("penstock_peer_connects_total", peer=gone, outcome="failed") > 0
