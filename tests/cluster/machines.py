"""Machines that stand in for those of the operations page: each has a directory tree, a loopback address, and the units of `conf/`, whose
commands a systemctl of its own starts. What stands for what is one rule, `Machines.translate`."""
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "s3"))
from store import CONFIG, lives, write_private

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ETCD_UNIT = "/lib/systemd/system/etcd.service"
# Programs of a machine that are not what they are elsewhere. `apt-get install ./NAME.deb` takes the binary into use under that name;
# there is one user only; scp copies between directories.
PROGRAMS = {
    "apt-get": 'place=$MACHINE/opt/$(basename "$2" .deb); mkdir -p "$place"\n'
               'ln -f "$PENSTOCK_BINARY" "$place/penstock" 2>/dev/null || cp "$PENSTOCK_BINARY" "$place/penstock"\n'
               'ln -sfn "$place/penstock" "$MACHINE/usr/bin/penstock"',
    "chown": ":",
    "scp": 'exec cp -p "$@"',
    "hostname": '[ "$1" = -I ] && echo "$ADDRESS "',
    "systemctl": 'exec "$PYTHON" "$MACHINES" "$@"',
}


# ---- systemctl

class Unit:
    """One unit of the machine of the environment."""

    def __init__(self, name):
        self.name = name.removesuffix(".service")
        self.machine = os.environ["MACHINE"]
        instance = self.name.split("@")[1] if "@" in self.name else ""
        self.words = {"%i": instance, "%p": self.name.split("@")[0], "%H": os.environ["ADDRESS"]}
        path = ETCD_UNIT if self.name == "etcd" else os.path.join(ROOT, "conf", self.name.replace("@" + instance, "@") + ".service")
        with open(path) as file:
            self.lines = re.findall(r"^(\w+)=(.*)$", file.read(), re.M)
        self.pid_file = f"{self.machine}/run/{self.name}.pid"

    def all(self, key):
        values = [value for name, value in self.lines if name == key]
        for word, meaning in self.words.items():
            values = [value.replace(word, meaning) for value in values]
        return values

    def rooted(self, text):
        return re.sub(r"(?<![\w./])/(?=(etc|var|usr/bin/penstock)\b)", self.machine + "/", text)

    def environment(self):
        found = dict(os.environ)
        for line in self.all("Environment"):
            found.update(word.split("=", 1) for word in shlex.split(self.rooted(line)))
        for path in self.all("EnvironmentFile"):
            path = self.rooted(path.removeprefix("-"))
            if os.path.exists(path):
                with open(path) as file:
                    found.update(line.strip().split("=", 1) for line in file if "=" in line and not line.startswith("#"))
        return found

    def command(self, environment):
        words = []
        for word in shlex.split(self.rooted(self.all("ExecStart")[-1])):
            variable = re.fullmatch(r"\$(\w+)", word)
            words += environment.get(variable.group(1), "").split() if variable else [word]
        return words

    def pid(self):
        """None: it does not run."""
        try:
            with open(self.pid_file) as file:
                pid = int(file.read())
        except (OSError, ValueError):
            return None
        return pid if lives(pid) else None

    def start(self, wait=True):
        if self.pid():
            return
        environment = self.environment()
        notify = None
        if self.all("Type") == ["notify"]:
            notify, place = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), f"{self.machine}/run/{self.name}.notify"
            if os.path.exists(place):
                os.remove(place)
            notify.bind(place)
            environment["NOTIFY_SOCKET"] = place
        mask = int((self.all("UMask") or ["0022"])[-1], 8)
        with open(f"{self.machine}/run/{self.name}.log", "ab") as log:
            process = subprocess.Popen(self.command(environment), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True, umask=mask)
        with open(self.pid_file, "w") as file:
            file.write(str(process.pid))
        if notify and wait:
            notify.settimeout(90)
            while b"READY=1" not in notify.recv(4096):
                pass

    def stop(self):
        pid = self.pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + int((self.all("TimeoutStopSec") or ["90"])[-1])
        while self.pid():
            if time.monotonic() > end:
                sys.exit(f"{self.name} does not end")
            time.sleep(0.02)

    def reload(self):
        subprocess.run(self.all("ExecReload")[-1].replace("$MAINPID", str(self.pid())), shell=True, check=True)


def systemctl(words):
    options = [word for word in words if word.startswith("-")]
    verb, *names = [word for word in words if not word.startswith("-")]
    for unit in map(Unit, names):
        if verb in ("stop", "restart"):
            unit.stop()
        if verb in ("start", "restart") or (verb == "enable" and "--now" in options):
            unit.start(wait="--no-block" not in options)
        elif verb == "reload":
            unit.reload()
        elif verb not in ("enable", "disable", "stop"):
            sys.exit(f"no such word here: {verb}")


# ---- machines

class Machines:
    """Up to nine machines, while the context lasts."""
    count = 0

    def __init__(self, binary):
        self.binary = os.path.realpath(binary)
        # Loopback addresses that no other such test has.
        Machines.count += 1
        self.net = f"127.{10 * (1 + os.getpid() % 24) + Machines.count}.{1 + os.getpid() // 24 % 250}"
        self.directory = tempfile.TemporaryDirectory(prefix="penstock-machines-")
        self.root = self.directory.name

    def __enter__(self):
        write_private(os.path.join(self.root, "settings.json"), json.dumps({k: v for k, v in CONFIG.items() if k != "domains"}))
        common = os.path.join(self.root, "bin")
        os.mkdir(common)
        for name, text in PROGRAMS.items():
            with open(os.path.join(common, name), "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as file:
                file.write("#!/bin/bash\nset -e\n" + text + "\n")
        for number in range(1, 10):
            for folder in ("etc/default", "etc/penstock", "mnt", "var/lib/etcd", "usr/bin", "run", "root"):
                os.makedirs(self.path(number, folder))
        return self

    def __exit__(self, *failure):
        pids = {int(open(path).read()): os.path.basename(path) for path in self.run_files(".pid")}
        for last in (False, True):
            for pid in filter(self.runs, pids):
                # A member of etcd waits for others that are gone as well.
                os.kill(pid, signal.SIGKILL if last or pids[pid] == "etcd.pid" else signal.SIGTERM)
            end = time.monotonic() + 45
            while any(map(self.runs, pids)) and time.monotonic() < end:
                time.sleep(0.02)
        if failure[0] is not None:
            for path in self.run_files(".log"):
                print(f"---- {path}\n" + open(path).read()[-1500:])
        self.directory.cleanup()

    def run_files(self, ending):
        folders = [self.path(number, "run") for number in range(1, 10)]
        return [os.path.join(f, name) for f in folders if os.path.isdir(f) for name in sorted(os.listdir(f)) if name.endswith(ending)]

    def runs(self, pid):
        """One of ours: what stands in an old file may be the number of somebody else by now."""
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return f"MACHINE={self.root}/".encode() in file.read()
        except OSError:
            return False

    def path(self, number, *parts):
        return os.path.join(self.root, str(number), *parts)

    def translate(self, text, number):
        """The rule: the address 10.0.0.N is one of loopback; a file of another machine, ADDRESS:/PATH, is one in that machine's tree;
        /etc, /mnt, /var and /root are in the tree of the machine where the command is run."""
        text = re.sub(r"\b10\.0\.0\.(\d+|\$\w+):(?=/)", lambda found: f"{self.root}/{found.group(1)}", text)
        text = re.sub(r"(?<![\w.$/}])/(?=(etc|mnt|var|root)\b)", self.path(number) + "/", text)
        return re.sub(r"\b10\.0\.0\.(?=\d|\$)", self.net + ".", text)

    def environment(self, number):
        return dict(os.environ, PENSTOCK_CONFIG=os.path.join(self.root, "settings.json"),  # small reserves of room
                    MACHINE=self.path(number), ADDRESS=f"{self.net}.{number}", PENSTOCK_BINARY=self.binary,
                    PYTHON=sys.executable, MACHINES=os.path.abspath(__file__), HOME=self.path(number, "root"),
                    PATH=":".join([os.path.join(self.root, "bin"), self.path(number, "usr/bin"), os.path.dirname(sys.executable),
                                   os.environ["PATH"]]))

    def run(self, number, text, seconds=120):
        """What the commands say at the machine, with the addresses and paths of the page. Fails if one of them does."""
        done = subprocess.run(["bash", "-ec", self.translate(text, number)], env=self.environment(number), text=True,
                              cwd=self.path(number, "root"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=seconds)
        assert done.returncode == 0, f"on machine {number}:\n{text}\nexit code {done.returncode}:\n{done.stdout}"
        return done.stdout.replace(self.path(number) + "/", "/").replace(self.net + ".", "10.0.0.")

    def start(self, number, name, text):
        """One command that goes on, as a shell would start it in the background."""
        with open(self.path(number, "run", name + ".log"), "ab") as log:
            process = subprocess.Popen(["bash", "-ec", "exec " + self.translate(text, number)], env=self.environment(number),
                                       cwd=self.path(number, "root"), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        with open(self.path(number, "run", name + ".pid"), "w") as file:
            file.write(str(process.pid))

    def pid(self, number, unit):
        with open(self.path(number, "run", unit + ".pid")) as file:
            pid = int(file.read())
        return pid if self.runs(pid) else None

    def log(self, number, unit):
        with open(self.path(number, "run", unit + ".log")) as file:
            return file.read()

    def accounts(self):
        with open(self.path(1, "etc/penstock/accounts.json")) as file:
            return json.load(file)


if __name__ == "__main__":
    systemctl(sys.argv[1:])
