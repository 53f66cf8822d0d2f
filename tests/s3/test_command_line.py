"""What may be said to the binary, and what it says to the rest; how directories become a store."""
import json
import os
import pty
import re
import signal
import subprocess
import tempfile

import pytest

from store import BINARY, Store, free_ports, make_client, wait_for


def run(*arguments, **options):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60, **options)


def test_help_teaches():
    text = run("--help").stdout
    assert "local" in text and "penstock" in text
    local = run("local", "--help").stdout
    for option in ("--listen", "--credentials", "--config", "--volumes", "--admin-listen", "--format", "--access-log", "DIR"):
        assert option in local
    assert run("--version").stdout.strip()


def test_options_come_from_the_command_line_then_the_environment_then_the_file():
    def listens_at(environment, *arguments):
        with tempfile.TemporaryDirectory() as directory:
            done = run("local", *arguments, directory, env={**os.environ, **environment})
            return done.stderr
    # Each value is one that no process can start with, so that the one that counts is named.
    assert "from-environment" in listens_at({"PENSTOCK_LISTEN": "from-environment"})
    told = listens_at({"PENSTOCK_LISTEN": "from-environment"}, "--listen", "from-command-line")
    assert "from-command-line" in told and "from-environment" not in told
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        config.write('{"access_log": "/nonexistent/from-file"} // a comment')
        config.flush()
        assert "from-file" in listens_at({"PENSTOCK_CONFIG": config.name})
        told = listens_at({"PENSTOCK_CONFIG": config.name, "PENSTOCK_ACCESS_LOG": "/nonexistent/from-environment"})
        assert "from-environment" in told and "from-file" not in told


def test_each_role_takes_what_its_options_say_from_its_file_too():
    def told(role, settings, *arguments, **environment):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
            json.dump(settings, config)
            config.flush()
            done = run(role, "--config", config.name, *arguments, env={**os.environ, **environment})
            assert done.returncode == 1, done.stderr
            return done.stderr
    # Each value is one that no process can start with, so that the one that counts is named.
    needed = {"local": {"directories": ["/nonexistent/d"]}, "server": {"directories": ["/nonexistent/d"], "key": "/nonexistent/key"},
              "gateway": {"credentials": "/nonexistent/accounts", "key": "/nonexistent/key", "map": "/nonexistent/map"}}
    for role, settings in needed.items():
        listens = dict(settings, listen="from-file")
        assert "from-file" in told(role, listens)
        assert "from-environment" in told(role, listens, PENSTOCK_LISTEN="from-environment")
        assert "from-line" in told(role, listens, "--listen", "from-line", PENSTOCK_LISTEN="from-environment")
        for key in settings:
            missing = told(role, {k: v for k, v in settings.items() if k != key})
            assert {"directories": "DIR", "map": "--map or --servers"}.get(key, f"--{key}") in missing
        if role != "local":
            assert "/nonexistent/key" in told(role, settings)
            assert "/nonexistent/other" in told(role, settings, "--key", "/nonexistent/other")


@pytest.mark.parametrize("role", ["local", "server", "gateway"])
def test_help_names_the_environment(role):
    text = run(role, "--help").stdout
    for option in re.findall(r"^\s+(?:-\w,)?--([a-z-]+) TEXT", text, re.M):
        assert f"PENSTOCK_{option.upper().replace('-', '_')}" in text, option
    assert "PENSTOCK_FORMAT" not in text and "PENSTOCK_LISTEN" in text


def test_what_cannot_start_says_why():
    with tempfile.TemporaryDirectory() as directory:
        for arguments, named in ((["local"], "DIR"), (["local", "--listen", "nonsense", directory], "listen"),
                                 (["local", "--volumes", "2", directory + "/x"], "at least 3"),
                                 (["local", "--config", "/nonexistent", directory], "/nonexistent"),
                                 (["local", "--credentials", "/nonexistent", directory], "/nonexistent"),
                                 (["local", "--access-log", "/nonexistent/log", directory], "/nonexistent/log")):
            done = run(*arguments)
            assert done.returncode != 0 and named in done.stderr, (arguments, done.stderr)
        with open(os.path.join(directory, "bad.json"), "w") as f:
            f.write('{"regoin": "x"}')
        done = run("local", "--config", os.path.join(directory, "bad.json"), directory + "/y")
        assert done.returncode != 0 and "regoin" in done.stderr


@pytest.mark.parametrize("arguments, said", [
    (["bogus"], '"bogus"'), ([], "local, server, gateway, ring, admin"), (["local", "--bogus"], '"--bogus"'), (["local", "--bogus", "/x"], '"--bogus"'),
    (["local", "--lisen=127.0.0.1:1", "/x"], '"--lisen"'), (["local"], "DIR"), (["ring"], "status, restore, export, replace"),
    (["ring", "bogus", "/x"], '"bogus"'), (["ring", "status"], "DIR"), (["ring", "replace", "/x"], "--volume"),
    (["server", "--key", "k"], "DIR"), (["gateway"], "--credentials"), (["admin"], "keygen"), (["ring", "make"], "--map"),
    (["--bogus"], '"--bogus"'), (["local", "--volumes", "many", "/x"], "many"), (["local", "/x", "--config"], "--config"),
])
def test_what_cannot_be_understood_is_named(arguments, said):
    done = run(*arguments)
    assert done.returncode == 2 and said in done.stderr and "--help" in done.stderr, done.stderr
    assert not done.stdout


@pytest.mark.parametrize("listen, admin, said", [
    ("127.0.0.1:65535", None, "--admin-listen"), (":65535", None, "--admin-listen"), ("127.0.0.1:65536", None, "65535"),
    ("127.0.0.1:-1", None, "65535"), ("127.0.0.1:", None, "65535"), ("127.0.0.1", None, "no port"), ("", None, "no port"),
    ("::1:9000", None, "brackets"), ("[127.0.0.1]:9000", None, "not an IP address"), ("example.com:9000", None, "not an IP address"),
    ("300.1.1.1:9000", None, "not an IP address"), ("127.0.0.1:9000", "127.0.0.1:9000", "two ports"),
    ("127.0.0.1:9000", "nonsense", "--admin-listen"),
])
def test_an_address_that_cannot_be_is_refused_before_anything_is_made(tmp_path, listen, admin, said):
    arguments = ["--listen", listen] + (["--admin-listen", admin] if admin else [])
    done = run("local", *arguments, str(tmp_path / "data"))
    assert done.returncode == 1 and said in done.stderr, done.stderr
    assert not (tmp_path / "data").exists()


def listening(log):
    """The addresses that the log tells, once the store is ready."""
    lines = [line for line in log.splitlines() if "event=store_ready" in line]
    return dict(field.split("=", 1) for field in lines[-1].split() if "=" in field) if lines else None


@pytest.mark.parametrize("listen, admin", [("127.0.0.1:0", None), ("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", None), (":0", None),
                                           ("localhost:0", None)])
def test_port_0_is_any_free_one(tmp_path, listen, admin):
    arguments = ["--listen", listen] + (["--admin-listen", admin] if admin else [])
    process = subprocess.Popen([BINARY, "local", *arguments, str(tmp_path / "data")], stderr=subprocess.PIPE, text=True)
    try:
        log = ""
        while not listening(log):
            line = process.stderr.readline()
            assert line, log
            log += line
        told = listening(log)
        ports = [told[name].rpartition(":")[2] for name in ("listen", "admin")]
        assert "0" not in ports and ports[0] != ports[1]
        if listen.startswith("["):
            assert told["listen"].startswith("[::1]:")
    finally:
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(timeout=60) == 0


def test_an_admin_port_that_is_given_may_follow_the_last_port(tmp_path):
    port = free_ports()[1]
    done = run("local", "--listen", "127.0.0.1:65535", "--admin-listen", f"127.0.0.1:{port}", "--config", "/nonexistent", str(tmp_path))
    assert "/nonexistent" in done.stderr and "admin" not in done.stderr


@pytest.mark.parametrize("config, said", [({"region": ""}, "us-east-1"), ({"region": "a/b"}, "region"), ({"domains": [""]}, "domains"),
                                          ({"signature_v2": "no"}, "signature_v2"), ({"access_log": 1}, "access_log")])
def test_a_setting_that_cannot_be_is_refused(tmp_path, config, said):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    done = run("local", "--config", str(path), str(tmp_path / "data"))
    assert done.returncode == 1 and said in done.stderr
    assert not (tmp_path / "data").exists()


def test_the_secret_is_shown_on_a_terminal_only(tmp_path):
    shown, terminal = pty.openpty()
    ports = free_ports()
    command = [BINARY, "local", "--listen", f"127.0.0.1:{ports[0]}", "--admin-listen", f"127.0.0.1:{ports[1]}", str(tmp_path / "data")]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=terminal, stderr=log)
    os.close(terminal)
    try:
        wait_for(lambda: "store_ready" in (tmp_path / "log").read_text() or process.poll() is not None, "store ready")
        secret = json.loads((tmp_path / "data" / "root-credentials.json").read_text())[0]["secret_key"]
        assert secret in os.read(shown, 65536).decode()
        log = (tmp_path / "log").read_text()
        assert secret not in log and "root-credentials.json" in log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        os.close(shown)


def disks(directory, count=4):
    return [os.path.join(directory, f"disk{i}") for i in range(count)]


@pytest.mark.parametrize("made", ["absent", "empty", "lost+found"])
def test_several_empty_directories_become_a_store_only_when_somebody_says_so(tmp_path, made):
    folders = disks(str(tmp_path))
    for folder in folders if made != "absent" else []:
        os.makedirs(os.path.join(folder, "lost+found") if made == "lost+found" else folder)
    store = Store(str(tmp_path), volumes=folders)
    store.started = True  # so without --format
    store.start(wait=False)
    assert store.process.wait(timeout=30) == 1
    assert "--format" in store.log() and "mount" in store.log() and "volume_format" not in store.log()
    for folder in folders if made != "absent" else []:
        assert os.listdir(folder) == (["lost+found"] if made == "lost+found" else [])
    store.started = False
    with store:
        make_client(store).create_bucket(Bucket="bkt")
        assert store.stop() == 0
        before = store.log()
        store.started = False  # --format on what holds a store changes nothing
        store.start()
        assert "format_not_needed" in store.log()[len(before):] and "volume_format" not in store.log()[len(before):]
        assert [b["Name"] for b in make_client(store).list_buckets()["Buckets"]] == ["bkt"]


def test_a_format_makes_no_volume_of_an_empty_disk_beside_others(tmp_path):
    folders = disks(str(tmp_path))
    store = Store(str(tmp_path), volumes=folders)
    with store:
        make_client(store).create_bucket(Bucket="bkt")
        store.stop()
        os.rename(folders[2], folders[2] + ".away")
        os.mkdir(folders[2])
        store.started = False
        store.start()
        wait_for(lambda: "volumes_open=3/4" in store.log(), "the log says how many volumes are open")
        assert "volume.json" not in os.listdir(folders[2])
        assert make_client(store).head_bucket(Bucket="bkt")


def test_one_directory_given_twice_is_refused(tmp_path):
    folders = disks(str(tmp_path), 3)
    os.symlink(folders[0], str(tmp_path / "link"))
    os.mkdir(folders[0])
    for twice in (folders[0] + "/", str(tmp_path / "link")):
        done = run("local", "--format", *folders, twice)
        assert done.returncode == 1 and "one directory" in done.stderr
        assert not os.listdir(folders[0])


def can_mount():
    probe = "mount -t tmpfs none /mnt"
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", probe], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="no mounts in a namespace of one's own here")
def test_a_directory_whose_disk_is_not_mounted_is_refused(tmp_path):
    folders = disks(str(tmp_path))
    for folder in folders:
        os.mkdir(folder)
    mounts = "; ".join(f"mount -t tmpfs none {folder}" for folder in folders[:3])
    script = f"{mounts}; exec {BINARY} local --listen 127.0.0.1:0 --format {' '.join(folders)}"
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and folders[3] in done.stderr and "not mounted" in done.stderr, done.stderr
    assert not os.listdir(folders[3]) and "volume_format" not in done.stderr


def test_a_directory_beside_a_mount_is_refused(tmp_path):
    mount = "/dev/shm"
    if os.stat(mount).st_dev in (os.stat(str(tmp_path)).st_dev, os.stat("/dev").st_dev) or os.listdir(mount):
        pytest.skip("no empty mount to borrow")
    folders = disks(str(tmp_path), 3)
    done = run("local", "--format", "--listen", "127.0.0.1:0", mount, *folders)
    assert done.returncode == 1 and "not mounted" in done.stderr and not os.listdir(mount)
    assert not any(os.path.exists(folder) for folder in folders)
