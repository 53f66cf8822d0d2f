"""A request can be followed: by its id and by its client's trace, through the gateway's logs into those of the servers."""
import os
import re

import pytest

from processes import Cluster
from store import wait_for

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def cluster():
    with Cluster(servers=3, gateways=1, config={"log_level": "debug"}) as running:
        running.wait_whole()
        running.client(0).create_bucket(Bucket="traced")
        yield running


def client_with(cluster, **headers):
    """Adds headers that are not signed."""
    s3 = cluster.client(0)

    def add(request, **_):
        for name, value in headers.items():
            request.headers[name.replace("_", "-")] = value
    s3.meta.events.register("before-send.s3", add)
    return s3


def request_id(answer):
    return answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"]


def lines_with(cluster, name, words):
    return [line for line in cluster.log(name).splitlines() if all(word in line for word in words)]


def test_servers_log_the_id_and_the_trace_of_a_request(cluster):
    id = request_id(client_with(cluster, traceparent=PARENT).put_object(Bucket="traced", Key="k", Body=b"x" * 300_000))
    for server in cluster.names("servers"):
        words = ["event=call ", f"request_id={id}", f"trace_id={TRACE}"]
        wait_for(lambda: lines_with(cluster, server, [*words, "operation=accept"]), f"{server} tells of the record")
        wait_for(lambda: lines_with(cluster, server, [*words, "operation=commit"]), f"{server} tells of the bytes")
    assert lines_with(cluster, "g1", ["event=request ", f"request_id={id}", f"trace_id={TRACE}"])


def test_reads_are_followed_too(cluster):
    s3 = client_with(cluster, traceparent=PARENT)
    s3.put_object(Bucket="traced", Key="r", Body=b"x" * 300_000)
    answer = s3.get_object(Bucket="traced", Key="r")
    assert len(answer["Body"].read()) == 300_000
    words = [f"request_id={request_id(answer)}", f"trace_id={TRACE}", "operation=read_fragment"]
    wait_for(lambda: any(lines_with(cluster, server, words) for server in cluster.names("servers")), "a server tells of the read")


@pytest.mark.parametrize("wrong", ["", "00-" + "0" * 32 + "-b7ad6b7169203331-01", PARENT.upper(), PARENT + "-x", "ff" + PARENT[2:], "nonsense"])
def test_a_wrong_trace_is_ignored_and_the_request_served(cluster, wrong):
    id = request_id(client_with(cluster, traceparent=wrong).put_object(Bucket="traced", Key="w", Body=b"x"))
    wait_for(lambda: lines_with(cluster, "g1", ["event=request ", f"request_id={id}"]), "the gateway tells of it")
    for name in ("g1", *cluster.names("servers")):
        assert not any("trace_id=" in line for line in lines_with(cluster, name, [f"request_id={id}"]))


def test_the_time_of_a_request_is_told_to_who_asks(cluster):
    s3 = client_with(cluster, x_penstock_timing="1")
    put = s3.put_object(Bucket="traced", Key="t", Body=b"x" * 300_000)
    get = s3.get_object(Bucket="traced", Key="t")
    assert len(get["Body"].read()) == 300_000
    for answer in (put, get):
        header = answer["ResponseMetadata"]["HTTPHeaders"]["server-timing"]
        phases = re.fullmatch(r"auth;dur=(\d+\.\d{3}), record;dur=(\d+\.\d{3}), data;dur=(\d+\.\d{3}), queue;dur=(\d+\.\d{3})", header)
        assert phases, header
        auth, record, data, queue = (float(phase) for phase in phases.groups())
        assert record > 0 and data > 0 and auth + record + data + queue < 60_000, header
    plain = cluster.client(0).get_object(Bucket="traced", Key="t")
    plain["Body"].read()
    assert "server-timing" not in plain["ResponseMetadata"]["HTTPHeaders"]
