"""Large pieces leave from the page cache: they are what was checked, however slow the reader is and whatever becomes of the disk."""
import hashlib
import mmap
import os
import socket

import pytest

from signing import Signer
from store import Store, make_client

MIB = 1 << 20
SIZE = 48 * MIB


def body_of(size):
    block = b"".join(hashlib.sha256(i.to_bytes(4, "little")).digest() for i in range(32_768))
    return (block * (size // len(block) + 1))[:size]


def data_files(store, volume):
    """What holds fragments: neither database nor log."""
    for directory, _, names in os.walk(store.volume(volume)):
        if os.path.basename(directory) in ("db", "log"):
            continue
        for name in names:
            path = os.path.join(directory, name)
            if name != "ballast" and os.path.getsize(path) >= MIB:
                yield path


def damage(path):
    """Changes the bytes on the disk, not those in the page cache, and evicts what is not held."""
    noise = mmap.mmap(-1, MIB)  # aligned
    noise.write(os.urandom(MIB))
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    try:
        # What has data, not the room that a segment keeps for more.
        blocks = os.fstat(file).st_blocks * 512
        for at in range(0, min(os.fstat(file).st_size, blocks) // MIB * MIB, MIB):
            os.pwritev(file, [noise], at)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def read_head(connection):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    return head


@pytest.mark.parametrize("uncopied", [True, False])
def test_what_is_sent_was_checked_though_the_disk_is_damaged_meanwhile(tmp_path, uncopied):
    config = {"sendfile": uncopied, "free_space_min_bytes": 0, "free_space_min_percent": 0}
    with Store(str(tmp_path), config=config) as store:
        s3 = make_client(store)
        s3.create_bucket(Bucket="slow")
        body = body_of(SIZE)
        s3.put_object(Bucket="slow", Key="shard", Body=body)
        assert s3.get_object(Bucket="slow", Key="shard")["Body"].read() == body  # all of it is in the page cache
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(60)
            connection.connect(("127.0.0.1", store.port))
            headers = Signer(store).headers("GET", "/slow/shard", "UNSIGNED-PAYLOAD")
            lines = "\r\n".join(["GET /slow/shard HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())])
            connection.sendall((lines + "\r\n\r\n").encode())
            assert read_head(connection).startswith(b"HTTP/1.1 200")
            damaged = [path for volume in (0, 1) for path in data_files(store, volume)]
            assert damaged
            for path in damaged:
                damage(path)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * MIB)
            got = bytearray()
            while len(got) < SIZE:
                step = connection.recv(MIB)
                assert step, "the answer ended early"
                got += step
        wrong = [at for at in range(0, SIZE, 4096) if got[at:at + 4096] != body[at:at + 4096]]
        assert not wrong, f"{len(wrong)} pages are wrong, the first at {wrong[0]}"
        assert s3.get_object(Bucket="slow", Key="shard")["Body"].read() == body  # rebuilt from the four others
