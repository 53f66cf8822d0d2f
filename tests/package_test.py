#!/usr/bin/env python3
"""Installs the Debian package into a copy of this machine, an overlay in a mount namespace that ends with the test, and uses it there:
files, manual pages, user and unit are as an operator expects them; the command of the unit starts a store as the unit's user, with the
example configuration; its objects outlive the package's removal; a purge leaves them and their user, and nothing else.

    sudo build/clients/bin/python tests/package_test.py [build/release/penstock_VERSION_ARCH.deb]

Needs root, dpkg, and a kernel with overlayfs; without them it does nothing and exits 77. scripts/package makes the package."""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED = 77
DATA = "var/lib/penstock"
UNITS = ("penstock-local", "penstock-server@", "penstock-gateway")
PAGES = ("", "-local", "-server", "-gateway", "-bench", "-admin", "-admin-keygen", "-ring", "-ring-make", "-ring-status", "-ring-replace")
EXAMPLES = ("local.json", "server.json", "gateway.json", "prometheus.yml", "alerts.yml", "grafana-dashboard.json")
FILES = {  # path -> mode
    "usr/bin/penstock": 0o755, "usr/lib/sysusers.d/penstock.conf": 0o644,
    **{f"usr/lib/systemd/system/{unit}.service": 0o644 for unit in UNITS},
    **{f"usr/share/doc/penstock/examples/{name}": 0o644 for name in EXAMPLES}, "usr/share/doc/penstock/README.md": 0o644,
    **{f"usr/share/man/man1/penstock{page}.1.gz": 0o644 for page in PAGES},
}
# What tools write about any package, and the user, who owns the data that stays.
LEFT_BY_TOOLS = re.compile(r"var/lib/dpkg/|var/log/|var/cache/|var/lib/systemd/|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$"
                           r"|etc/\.(pwd\.lock|updated)$|etc/ld\.so\.cache$|run/|tmp/|dev/|proc/")
EXPOSURE_MAX = 3.0  # what `systemd-analyze security` calls OK


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def expect(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")
    print(f"  {what}", flush=True)


class Scratch:
    """The machine as it is, with changes of its own: `root` is seen by commands, `upper` holds what they changed."""

    def __init__(self, folder):
        self.root, self.upper = (os.path.join(folder, name) for name in ("root", "upper"))
        for path in (self.root, self.upper, os.path.join(folder, "work")):
            os.mkdir(path)
        mount("-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={self.upper},workdir={folder}/work", self.root)
        for path in ("proc", "dev"):
            mount("--rbind", f"/{path}", f"{self.root}/{path}")
        # LevelDB and segments want a real file system, which takes fallocate and direct I/O.
        os.makedirs(f"{self.root}/{DATA}")
        self.data = os.path.join(folder, "data")
        os.mkdir(self.data)
        mount("--bind", self.data, f"{self.root}/{DATA}")

    def run(self, *command, **options):
        return subprocess.run(["chroot", self.root, *command], capture_output=True, text=True, **options)

    def must(self, *command):
        done = self.run(*command)
        if done.returncode != 0:
            sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def left(self):
        """Files and links that were made or changed, but for those of the tools; a file that was removed is a device there."""
        paths = (os.path.relpath(os.path.join(folder, name), self.upper) for folder, _, names in os.walk(self.upper) for name in names)
        return sorted(path for path in paths if not LEFT_BY_TOOLS.match(path))


def mount(*arguments):
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        skip(f"mount {' '.join(arguments)}: {done.stderr.strip()}")


def check_files(scratch):
    for path, mode in FILES.items():
        status = os.stat(os.path.join(scratch.root, path))
        expect(status.st_mode & 0o7777 == mode and status.st_uid == 0, f"/{path} is root's, {mode:o}")
    listed = {line[1:] for line in scratch.must("dpkg", "-L", "penstock").split("\n") if line}
    expect({path for path in listed if not os.path.isdir(os.path.join(scratch.root, path))} <= FILES.keys(), "it brings nothing else")
    expect(scratch.must("dpkg", "-V", "penstock") == "", "files are as their checksums say")
    expect("penstock" in scratch.must("/usr/bin/penstock", "--version"), "the program finds its libraries")
    user = scratch.must("getent", "passwd", "penstock").strip()
    expect(user.endswith("nologin") and ":0:" not in user, f"its user cannot log in: {user}")


def check_hardening(scratch):
    """What the compiler and the linker were asked for is in the program."""
    headers = scratch.must("readelf", "--wide", "--program-headers", "--dynamic", "/usr/bin/penstock")
    expect("GNU_RELRO" in headers and "NOW" in headers, "its tables of addresses are read-only once it runs (full RELRO)")
    expect("Shared object" in headers or "DYN" in headers, "it is loaded anywhere (PIE)")
    symbols = scratch.must("readelf", "--wide", "--dyn-syms", "/usr/bin/penstock")
    expect("__stack_chk_fail" in symbols, "its stacks are guarded")
    expect(re.search(r"__\w+_chk@", symbols.replace("__stack_chk_fail", "")), "calls of the C library are bounded (_FORTIFY_SOURCE)")


def check_unit(scratch, name):
    if not shutil.which("systemd-analyze"):
        print("  no systemd-analyze: the units are not checked")
        return
    unit = f"/usr/lib/systemd/system/{name}.service"
    done = scratch.run("systemd-analyze", "verify", unit)
    expect(done.returncode == 0 and done.stderr == "", f"systemd takes {name} {done.stderr}")
    done = scratch.run("systemd-analyze", "security", "--offline=yes", f"--threshold={int(EXPOSURE_MAX * 10)}", "--no-pager", unit)
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout + done.stderr)
    expect(level and float(level.group(1)) <= EXPOSURE_MAX, f"its exposure is {level and level.group(1)}, at most {EXPOSURE_MAX}")


class Store:
    """The unit's command, run as the unit's user with the unit's mask; systemd itself does not run here."""

    def __init__(self, scratch):
        with open(f"{scratch.root}/usr/lib/systemd/system/penstock-local.service", encoding="utf-8") as f:
            unit = dict(re.findall(r"^(User|UMask|ExecStart|Environment|StateDirectoryMode)=(.*)$", f.read(), re.M))
        options = "--listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --config /usr/share/doc/penstock/examples/local.json"
        words = dict(word.split("=", 1) for word in unit["Environment"].split())
        command = unit["ExecStart"].replace("$PENSTOCK_OPTIONS", options).replace("$PENSTOCK_DIRS", words["PENSTOCK_DIRS"])
        # What StateDirectory= does.
        scratch.must("chown", f"{unit['User']}:{unit['User']}", words["PENSTOCK_DIRS"])
        scratch.must("chmod", unit["StateDirectoryMode"], words["PENSTOCK_DIRS"])
        self.process = subprocess.Popen(["chroot", scratch.root, "setpriv", f"--reuid={unit['User']}", f"--regid={unit['User']}",
                                         "--clear-groups", "--no-new-privs", "--bounding-set=-all", "sh", "-c",
                                         f"umask {unit['UMask']}; exec {command}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.endpoint, self.admin = self.wait_until_ready()

    def wait_until_ready(self):
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if "store_ready" in line:
                # The endpoint comes first, the admin port second.
                addresses = re.findall(r"127\.0\.0\.1:(\d+)", line)
                if len(addresses) >= 2:
                    return tuple(f"http://127.0.0.1:{port}" for port in addresses[:2])
        sys.exit("FAILED: the store did not start:\n" + "".join(seen))

    def get(self, path):
        with urllib.request.urlopen(self.admin + path, timeout=10) as answer:
            return answer.status

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.stdout.read()
        return self.process.wait(60)


def client(scratch, endpoint):
    import boto3
    import json
    with open(f"{scratch.root}/{DATA}/root-credentials.json", encoding="utf-8") as f:
        keys = json.load(f)[0]
    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=keys["access_key"],
                        aws_secret_access_key=keys["secret_key"])


def use_store(scratch, body, fresh):
    store = Store(scratch)
    expect(store.get("/readyz") == 200, "the unit's command starts a store as its user, with the example configuration")
    s3 = client(scratch, store.endpoint)
    if fresh:
        s3.create_bucket(Bucket="first")
        s3.put_object(Bucket="first", Key="object", Body=body)
    expect(s3.get_object(Bucket="first", Key="object")["Body"].read() == body, "an object comes back" + ("" if fresh else " from the data that was left"))
    ended = store.stop()
    expect(ended == 0, f"SIGTERM ends it with {ended}")


def inside(deb, folder):
    scratch = Scratch(folder)
    if scratch.run("dpkg", "-s", "penstock").returncode == 0:
        skip("the package is installed on this machine; remove it first")
    shutil.copy(deb, f"{scratch.root}/tmp/penstock.deb")
    body = os.urandom(3 << 20)
    print("dpkg --install")
    scratch.must("dpkg", "--install", "/tmp/penstock.deb")
    check_files(scratch)
    check_hardening(scratch)
    for unit in UNITS:
        check_unit(scratch, unit)
    use_store(scratch, body, fresh=True)
    print("dpkg --remove, and --install again")
    scratch.must("dpkg", "--remove", "penstock")
    expect(not os.path.exists(f"{scratch.root}/usr/bin/penstock"), "the program is gone")
    scratch.must("dpkg", "--install", "/tmp/penstock.deb")
    use_store(scratch, body, fresh=False)
    print("dpkg --purge")
    scratch.must("dpkg", "--purge", "penstock")
    expect(os.path.exists(f"{scratch.data}/root-credentials.json"), "the data is still there")
    expect("penstock" in scratch.must("getent", "passwd", "penstock"), "so is its owner")
    expect(scratch.left() == [], f"nothing else is left {' '.join(scratch.left())}")
    print("package: passed")


def main():
    if sys.argv[1:2] == ["--inside"]:
        return inside(*sys.argv[2:])
    if os.geteuid() != 0 or not all(map(shutil.which, ("dpkg", "unshare", "setpriv"))):
        skip("needs root, dpkg, unshare and setpriv")
    debs = sys.argv[1:] or glob.glob(os.path.join(ROOT, "build/release/penstock_*.deb"))
    if len(debs) != 1:
        sys.exit(f"found {len(debs)} packages: scripts/package")
    # Beside the build, since it wants a real disk; the namespace ends with its process, and the mounts with it.
    with tempfile.TemporaryDirectory(prefix="package-test-", dir=os.path.join(ROOT, "build")) as folder:
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, __file__, "--inside",
                               os.path.abspath(debs[0]), folder])
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
