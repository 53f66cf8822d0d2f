"""Clients that record what they did and saw, and faults under them."""
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse

from store import BINARY, make_client, wait_for

BUCKET = "live"
SIZES = [0, 90, 3000, 5000, 70_000, 300_000]
REFUSED = {"absent": {412}, "is": {412, 404}}


def body_of(number, size):
    """Bytes that say which write they are from, at every place."""
    word = b"%016d" % number
    return (word * (size // 16 + 1))[:size] if size else b""


class Values:
    """Numbers writes from 1, and knows which body and ETag each has. Empty bodies are told apart by a header, which all have."""

    def __init__(self):
        self.lock, self.sizes = threading.Lock(), [0]

    def new(self, size):
        with self.lock:
            self.sizes.append(size)
            return len(self.sizes) - 1

    def etag(self, number):
        return '"%s"' % hashlib.md5(body_of(number, self.sizes[number])).hexdigest()


class Recorder:
    def __init__(self):
        self.lock, self.operations, self.violations = threading.Lock(), [], []

    def add(self, **operation):
        with self.lock:
            self.operations.append(operation)

    def violation(self, text):
        with self.lock:
            self.violations.append(text)

    def judge(self, path):
        """The checker's summary; fails on a violation."""
        with open(path, "w") as file:
            for operation in self.operations:
                file.write(json.dumps(operation) + "\n")
        checker = os.path.join(os.path.dirname(BINARY), "penstock-sim")
        done = subprocess.run([checker, "--check", path], capture_output=True, text=True, timeout=1500)
        assert not self.violations, self.violations[:5]
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout.strip().splitlines()[-1]


class Client:
    """One connection of plain HTTP with presigned URLs: no retries, nothing between the test and the wire."""

    def __init__(self, store, seed, values, recorder):
        self.store, self.values, self.recorder = store, values, recorder
        self.dice, self.seen, self.urls = random.Random(seed), {}, {}
        self.signer, self.connection = make_client(store), None

    def connect(self):
        wait_for(self.is_connected, "the store takes connections", seconds=60)

    def is_connected(self):
        if self.connection is None:
            place = urllib.parse.urlsplit(self.store.endpoint)
            connection = http.client.HTTPConnection(place.hostname, place.port, timeout=40)
            try:
                connection.connect()
                self.connection = connection
            except OSError:
                connection.close()
        return self.connection is not None

    def request(self, method, key, body=None, headers=None):
        """(status, headers, body), or None if nobody knows what became of it. Waits until the store takes connections."""
        self.connect()
        call = {"PUT": "put_object", "GET": "get_object", "DELETE": "delete_object"}[method]
        if (call, key) not in self.urls:
            url = self.signer.generate_presigned_url(call, Params={"Bucket": BUCKET, "Key": key}, ExpiresIn=86400)
            self.urls[call, key] = url[url.index("/" + BUCKET):]
        answer = None
        try:
            self.connection.request(method, self.urls[call, key], body=body, headers=headers or {})
            answer = self.connection.getresponse()
            body = answer.read()
            return answer.status, answer.headers, body
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            return None
        finally:
            if answer is None or answer.status >= 500:
                time.sleep(self.dice.uniform(0.05, 0.3))  # as clients back off

    def write(self, key, method="PUT", condition="none"):
        number = self.values.new(self.dice.choice(SIZES)) if method == "PUT" else 0
        body = body_of(number, self.values.sizes[number]) if method == "PUT" else None
        self.connect()
        headers, operation = {}, {"key": key, "kind": "write", "value": number, "condition": condition}
        if method == "PUT":
            headers["Content-Disposition"] = str(number)  # stored and returned, and needs no signature
        if condition == "absent":
            headers["If-None-Match"] = "*"
        if condition == "is":
            operation["expected"] = self.seen[key]
            headers["If-Match"] = self.values.etag(self.seen[key])
        operation["call"] = time.monotonic_ns()
        answer = self.request(method, key, body, headers)
        operation["answer"] = time.monotonic_ns()
        operation["outcome"] = "unknown"
        if answer and answer[0] in (200, 204):
            operation["outcome"] = "ok"
            self.seen[key] = number
        elif answer and answer[0] in REFUSED.get(condition, ()):
            operation["outcome"] = "refused"
        elif answer and answer[0] not in (500, 503, 507):
            self.recorder.violation(f"{method} {key} if {condition}: {answer[0]} {answer[2][:300]}")
        self.recorder.add(**operation)
        return answer

    def read(self, key):
        self.connect()
        call = time.monotonic_ns()
        answer = self.request("GET", key)
        done = time.monotonic_ns()
        if answer is None or answer[0] in (500, 503):
            return
        if answer[0] == 404:
            value = 0
        elif answer[0] == 200:
            value = int(answer[1]["Content-Disposition"])
            if answer[2] != body_of(value, self.values.sizes[value]):
                self.recorder.violation(f"GET {key} shows other bytes than write {value} sent")
            if answer[1]["ETag"] != self.values.etag(value):
                self.recorder.violation(f"GET {key} shows another ETag than write {value} has")
        else:
            return self.recorder.violation(f"GET {key}: {answer[0]} {answer[2][:300]}")
        self.seen[key] = value
        self.recorder.add(key=key, kind="read", value=value, outcome="ok", call=call, answer=done)

    def step(self, key):
        dice = self.dice.random()
        if dice < 0.45:
            self.read(key)
        elif dice < 0.70:
            self.write(key)
        elif dice < 0.80:
            self.write(key, "DELETE")
        elif dice < 0.90 or not self.values.sizes[self.seen.get(key, 0)]:
            self.write(key, condition="absent")
        else:  # an ETag names one write only if its body is not empty
            self.write(key, condition="is")


class Faults:
    """One fault after the other: kill -9, SIGSTOP, a deleted volume (two at most), full disks."""

    def __init__(self, store, seed, deletions=2):
        self.store, self.dice, self.left, self.counts = store, random.Random(seed), deletions, {}

    def one(self):
        kinds = ["kill", "pause", "full"] + (["delete"] if self.left else [])
        kind = self.dice.choice(kinds)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        getattr(self, kind)()

    def kill(self):
        self.store.kill()
        self.store.start()

    def pause(self):
        self.store.process.send_signal(signal.SIGSTOP)
        time.sleep(self.dice.uniform(0.2, 3))
        self.store.process.send_signal(signal.SIGCONT)

    def full(self):
        """Restarted with the largest reserve, which few disks have, then with the usual one."""
        usual = self.store.config["free_space_min_bytes"]
        self.store.kill()
        self.store.config["free_space_min_bytes"] = 1 << 40
        self.store.start(wait=False)
        time.sleep(self.dice.uniform(0.5, 2))
        self.store.kill()
        self.store.config["free_space_min_bytes"] = usual
        self.store.start()

    def delete(self):
        self.left -= 1
        shutil.rmtree(self.store.volume(self.left * 3 + 1), ignore_errors=True)

    def __str__(self):
        return ", ".join(f"{count} x {kind}" for kind, count in sorted(self.counts.items()))
