"""A network of namespaces: each process of a cluster has one of its own, joined by a link to that of the test, which routes between
them. Links are cut, in one direction or both, or made slow. Needs root, iproute2 and nftables. Nothing of the machine's own network
changes, and all is gone when the context ends."""
import ctypes
import json
import os
import shutil
import subprocess
import time

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def missing():
    """Why there can be no such network here; None: there can."""
    for tool in ("ip", "nft", "tc", "unshare", "nsenter"):
        if not shutil.which(tool) and not os.path.exists("/usr/sbin/" + tool):
            return f"there is no {tool} (packages iproute2, nftables, util-linux)"
    done = subprocess.run(["unshare", "-n", "nft", "add table inet probe"], capture_output=True)
    return None if os.geteuid() == 0 and done.returncode == 0 else "network namespaces and nftables want root and a kernel that has them"


def run(*words, stdin=None):
    done = subprocess.run(words, input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


class Network:
    """While the context lasts, the calling thread and all that it starts are in the namespace in the middle."""

    def __init__(self):
        self.hosts, self.own = {}, None

    def __enter__(self):
        self.own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.enter(lambda: libc.unshare(CLONE_NEWNET))
        run("ip", "link", "set", "lo", "up")
        with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
            file.write("1")
        run("nft", "-f", "-", stdin="""
            table inet faults {
              set cut { type ipv4_addr . ipv4_addr; }
              chain forward { type filter hook forward priority 0; ip saddr . ip daddr @cut drop; }
              chain output { type filter hook output priority 0; ip saddr . ip daddr @cut drop; }
            }""")
        return self

    def __exit__(self, *_):
        for host in self.hosts.values():
            host["holder"].kill()
            host["holder"].wait()
        self.enter(lambda: libc.setns(self.own, CLONE_NEWNET))
        os.close(self.own)

    @staticmethod
    def enter(call):
        if call() != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def add(self, name):
        """A host, which waits for a process."""
        number = len(self.hosts) + 1
        holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        here, there = os.readlink("/proc/thread-self/ns/net"), f"/proc/{holder.pid}/ns/net"
        end = time.monotonic() + 10
        while os.readlink(there) == here:
            assert time.monotonic() < end, "no namespace was made"
            time.sleep(0.005)
        enter = ["nsenter", f"--net={there}"]
        near, far, link = f"10.77.{number}.1", f"10.77.{number}.2", f"to-{name}"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        run("ip", "addr", "add", near + "/30", "dev", link)
        run("ip", "link", "set", link, "up")
        run(*enter, "ip", "link", "set", "lo", "up")
        run(*enter, "ip", "addr", "add", far + "/30", "dev", "eth0")
        run(*enter, "ip", "link", "set", "eth0", "up")
        run(*enter, "ip", "route", "add", "default", "via", near)
        self.hosts[name] = {"holder": holder, "address": far, "link": link, "enter": enter}

    def write_hosts(self, path):
        """What `scripts/cluster up --hosts` wants."""
        with open(path, "w") as file:
            json.dump({name: {"address": host["address"], "enter": host["enter"]} for name, host in self.hosts.items()}, file)

    # ---- faults

    def change(self, verb, pairs):
        elements = ", ".join(f"{self.hosts[a]['address']} . {self.hosts[b]['address']}" for a, b in pairs)
        if elements:
            run("nft", "-f", "-", stdin=f"{verb} element inet faults cut {{ {elements} }}")

    def cut(self, pairs):
        """No packet of a reaches b, for each (a, b)."""
        self.change("add", pairs)

    def heal(self, pairs):
        self.change("delete", pairs)

    def around(self, name, sides=("from", "to")):
        """The pairs of a host with each other one."""
        others = [other for other in self.hosts if other != name]
        return [(name, o) for o in others if "from" in sides] + [(o, name) for o in others if "to" in sides]

    def between(self, one, other):
        return [pair for a in one for b in other for pair in ((a, b), (b, a))]

    def slow(self, name, bytes_per_second):
        """Both directions of a host's link; None: as fast as ever."""
        host = self.hosts[name]
        for enter, link in (([], host["link"]), (host["enter"], "eth0")):
            if bytes_per_second is None:
                run(*enter, "tc", "qdisc", "del", "dev", link, "root")
            else:
                run(*enter, "tc", "qdisc", "add", "dev", link, "root", "tbf", "rate", f"{8 * bytes_per_second}bit", "burst", "32kb",
                    "latency", "300ms")
