"""Running out of file descriptors: requests are refused, no volume is."""
import os
import socket
import subprocess
import tempfile
import threading

import pytest

from store import Store, make_client, wait_for

LIMIT = 600


class LimitedStore(Store):
    def command(self):
        return ["prlimit", f"--nofile={LIMIT}", *super().command()]


def test_strangers_take_all_descriptors_and_no_volume_falls():
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory, LimitedStore(directory) as store:
        s3 = make_client(store)
        s3.create_bucket(Bucket="bkt")
        body = os.urandom(400_000)
        for n in range(20):
            s3.put_object(Bucket="bkt", Key=f"before{n}", Body=body)
        assert "connections_limited" in store.log()
        strangers = []
        for _ in range(700):
            try:
                strangers.append(socket.create_connection(("127.0.0.1", store.port), timeout=2))
            except OSError:
                pass
        answers, lock = [], threading.Lock()

        def work(number):
            mine = make_client(store, read_timeout=20)
            for n in range(20):
                for call in (lambda: mine.put_object(Bucket="bkt", Key=f"w{number}-{n}", Body=body),
                             lambda: mine.get_object(Bucket="bkt", Key=f"before{n}")["Body"].read()):
                    try:
                        call()
                        answer = 200
                    except Exception as error:
                        response = getattr(error, "response", None)
                        answer = response["ResponseMetadata"]["HTTPStatusCode"] if response else type(error).__name__
                    with lock:
                        answers.append(answer)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert 500 not in answers and 404 not in answers, answers
        for stranger in strangers:
            stranger.close()
        wait_for(lambda: store.metric("penstock_http_connections") < 50, "the strangers are gone")
        assert store.metric('penstock_volumes{state="open"}') == 6, store.admin("/readyz")
        s3.put_object(Bucket="bkt", Key="after", Body=body)
        assert store.stop() == 0
        store.start()
        assert store.metric('penstock_volumes{state="open"}') == 6, store.admin("/readyz")
        assert s3.get_object(Bucket="bkt", Key="after")["Body"].read() == body


@pytest.mark.parametrize("number", ["EMFILE", "ENFILE", "ENOMEM", "EAGAIN"])
def test_errors_of_the_process_close_no_volume(number):
    source = os.path.join(os.path.dirname(__file__), "scarce_io.c")
    with tempfile.TemporaryDirectory(prefix="penstock-s3-") as directory:
        library = os.path.join(directory, "scarce_io.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", f"-DNUMBER={number}", "-o", library, source, "-ldl"], check=True)
        control = os.path.join(directory, "control")
        with Store(directory, preload=library, environment={"SCARCE_IO_CONTROL": control}) as store:
            s3 = make_client(store)
            s3.create_bucket(Bucket="bkt")
            body, big = os.urandom(300_000), bytes(80 << 20)
            for n in range(10):
                s3.put_object(Bucket="bkt", Key=f"k{n}", Body=body)
            with open(control, "w") as f:
                f.write(store.data)
            codes = []
            for n in range(30):
                try:
                    s3.put_object(Bucket="bkt", Key=f"scarce{n}", Body=os.urandom(3000) if n else big)  # a file of its own
                    codes.append(200)
                except Exception as error:
                    codes.append(error.response["ResponseMetadata"]["HTTPStatusCode"] if hasattr(error, "response") else 0)
            os.remove(control)
            assert codes[0] == 503 and set(codes) <= {200, 503}, codes
            assert store.metric('penstock_volumes{state="open"}') == 6, store.admin("/readyz")
            s3.put_object(Bucket="bkt", Key="after", Body=body)
            s3.put_object(Bucket="bkt", Key="big", Body=big)
            for key in ("k3", "after"):
                assert s3.get_object(Bucket="bkt", Key=key)["Body"].read() == body
            assert store.stop() == 0
            store.start()
            assert store.metric('penstock_volumes{state="open"}') == 6
