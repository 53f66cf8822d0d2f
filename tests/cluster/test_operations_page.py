"""The page of operations does what it says: its blocks are run in their order, on machines that are directories and loopback addresses,
while clients go on, and say what the page shows."""
import concurrent.futures
import json
import os
import re
import shutil

import pytest

from machines import ROOT, Machines
from processes import Endpoint, Load, bytes_of
from store import ACCOUNTS, BINARY, make_client

FIRST_PAGE = os.path.join(ROOT, "README.md")
PAGE = os.path.join(ROOT, "server", "node", "CLUSTER.md")
EACH = list(range(1, 7))
# Sections during which clients read and write, and nothing of it may fail (with an SDK's retries).
UNDER_LOAD = {"Upgrade", "A server is lost", "etcd is lost", "Add a gateway", "Add a server", "Other addresses", "A disk is lost for good"}
pytestmark = pytest.mark.skipif(any(shutil.which(tool) is None for tool in ("etcd", "jq", "curl", "openssl")),
                                reason="etcd, jq, curl or openssl is not installed")


class Block:
    def __init__(self, text):
        self.text, self.shown = text, []
        where = text.splitlines()[0]
        assert where.startswith("# on "), f"where is this run?\n{text}"
        self.machines = EACH if "each machine" in where else []
        self.machines = self.machines + [int(number) for number in re.findall(r"10\.0\.0\.(\d+)", where)]
        self.in_turn = "one after the other" in where


def read_page():
    """Section -> its blocks."""
    sections, section = {}, None
    with open(PAGE) as file:
        page = file.read()
    for heading, kind, text in re.findall(r"^## ([^\n]+)$|^```(\w*)\n(.*?)^```$", page, re.M | re.S):
        if heading:
            section = sections.setdefault(heading, [])
        elif kind == "text":
            assert not section[-1].shown
            section[-1].shown = text.splitlines()
        else:
            assert kind == "sh", f"a block of no kind:\n{text}"
            section.append(Block(text))
    return {name: blocks for name, blocks in sections.items() if blocks}


SECTIONS = read_page()


def check_said(block, said):
    """Each line that the page shows is there, in this order; `…` is anything."""
    lines, at = said.splitlines(), 0
    for shown in block.shown:
        pattern = re.compile(".*".join(re.escape(part) for part in shown.split("…")))
        while at < len(lines) and not pattern.fullmatch(lines[at]):
            at += 1
        assert at < len(lines), f"the page shows\n  {shown}\nand not so the command:\n{block.text}\nwhich says:\n{said}"
        at += 1 if shown != "…" else 0


def run(machines, blocks):
    for block in blocks:
        with concurrent.futures.ThreadPoolExecutor(1 if block.in_turn else len(block.machines)) as pool:
            for said in pool.map(lambda number: machines.run(number, block.text), block.machines):
                check_said(block, said)


class Running:
    """What processes.Load wants of a cluster."""

    def __init__(self, machines):
        self.info = {"gateways": [{"endpoint": f"http://{machines.net}.{number}:9000"} for number in (1, 2)]}
        self.account = machines.accounts()[0]

    def client(self, number, **options):
        return make_client(Endpoint(self.info["gateways"][number]["endpoint"]), account=self.account, **options)


@pytest.fixture(scope="module")
def machines():
    with Machines(BINARY) as made:
        made.done = []
        yield made


def servers(machines):
    return [(number, "penstock-server@d1") for number in EACH] + [(number, "penstock-gateway") for number in (1, 2)]


def check_upgrade(machines):
    for number, unit in servers(machines):
        assert "penstock_0.1.1" in os.readlink(f"/proc/{machines.pid(number, unit)}/exe"), (number, unit)


def check_certificates(machines):
    for number, unit in [*servers(machines), (3, "penstock-gateway"), (7, "penstock-server@d1")]:
        assert "event=certificates_read" in machines.log(number, unit), (number, unit)


AFTER = {"Upgrade": check_upgrade, "Certificates": check_certificates}


def test_the_first_page():
    """Its commands for several machines, by hand: six servers, etcd, one gateway."""
    with open(FIRST_PAGE) as file:
        block = next(b for b in re.findall(r"^```\n(.*?)^```$", file.read(), re.M | re.S) if "penstock ring make" in b)
    keygen, where, server, make, gateway = [line.split("#")[0].strip() for line in block.splitlines()]
    with Machines(BINARY) as machines:
        for number in EACH:
            machines.run(number, "apt-get install ./penstock.deb")
        run(machines, [b for b in SECTIONS["Six machines"] if "ETCD_NAME" in b.text or "2379/health" in b.text])
        where = where.replace("CLUSTER-ID", re.match(r"Cluster (\w+):", machines.run(1, keygen)).group(1))
        machines.run(1, "echo '" + json.dumps(ACCOUNTS) + "' > accounts.json; chmod 0600 accounts.json")
        for number in EACH:
            if number > 1:
                machines.run(1, f"scp cluster.key 10.0.0.{number}:/root/")
            words = f"{where}; " + server.replace("10.0.0.1:9200", f"10.0.0.{number}:9200").replace("penstock", "exec penstock", 1)
            machines.start(number, "server", "bash -ec '" + words + "'")
        for number in EACH:
            machines.run(number, f"until curl -fs http://10.0.0.{number}:9201/readyz; do sleep 0.1; done")
        assert "Map of 6 volumes" in machines.run(1, f"{where}; until {make}; do sleep 0.1; done")
        words = f"{where}; " + gateway.replace("0.0.0.0:", "10.0.0.1:").replace("penstock", "exec penstock", 1)
        machines.start(1, "gateway", "bash -ec '" + words + "'")
        machines.run(1, "until curl -fs http://10.0.0.1:9001/readyz | grep -x whole; do sleep 0.1; done")
        client = make_client(Endpoint(f"http://{machines.net}.1:9000"))
        client.create_bucket(Bucket="first")
        client.put_object(Bucket="first", Key="k", Body=bytes_of("k", 3_000_000))
        assert client.get_object(Bucket="first", Key="k")["Body"].read() == bytes_of("k", 3_000_000)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section(machines, section):
    before = list(SECTIONS)[:list(SECTIONS).index(section)]
    assert machines.done == before, "a section before this one has failed"
    if section in UNDER_LOAD:
        running = Running(machines)
        with Load(running, "first", section.replace(" ", "-"), retries=8) as load:
            load.goes_on()
            run(machines, SECTIONS[section])
            load.goes_on()
        assert load.failed_reads == [] and load.failed_writes == [] and load.wrong == []
        load.check_all()
    else:
        run(machines, SECTIONS[section])
    AFTER.get(section, lambda _: None)(machines)
    machines.done.append(section)
