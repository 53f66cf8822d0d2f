"""Large pieces may leave from the page cache: they are what was checked, however slow the reader is and whatever becomes of the disk."""
import hashlib
import mmap
import os
import socket

import pytest

from store import make_client
from test_bounds import Server, head

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


def damage_pages(path):
    """Changes the bytes in the page cache, as a program that writes to the file does."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        for at in range(0, min(len(pages), os.fstat(file.fileno()).st_blocks * 512), 4096):
            pages[at] ^= 1


def stored(store):
    s3 = make_client(store)
    s3.create_bucket(Bucket="slow")
    body = body_of(SIZE)
    s3.put_object(Bucket="slow", Key="shard", Body=body)
    assert s3.get_object(Bucket="slow", Key="shard")["Body"].read() == body  # all of it is in the page cache
    return body


def read_while(store, harm, volumes):
    """What a slow reader gets who has the head when `harm` comes over the files of these volumes."""
    with store.dial(head(store, "GET", "/slow/shard"), receive_buffer=4096) as connection:
        assert read_head(connection).startswith(b"HTTP/1.1 200")
        damaged = [path for volume in volumes for path in data_files(store, volume)]
        assert damaged
        for path in damaged:
            harm(path)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * MIB)
        got = bytearray()
        while len(got) < SIZE and (step := connection.recv(MIB)):
            got += step
        return got


def wrong_pages(got, body):
    return [at for at in range(0, len(got), 4096) if got[at:at + 4096] != body[at:min(at + 4096, len(got))]]


@pytest.mark.parametrize("uncopied", [True, False])
def test_what_is_sent_was_checked_though_the_disk_is_damaged_meanwhile(tmp_path, uncopied):
    with Server(tmp_path, config={"sendfile": uncopied}) as store:
        body = stored(store)
        got = read_while(store, damage, range(2))
        assert len(got) == SIZE, "the answer ended early"
        assert not wrong_pages(got, body)
        assert make_client(store).get_object(Bucket="slow", Key="shard")["Body"].read() == body  # rebuilt from the four others


def test_by_default_not_even_a_program_that_writes_to_the_files_changes_what_is_sent(tmp_path):
    with Server(tmp_path) as store:
        body = stored(store)
        got = read_while(store, damage_pages, range(6))  # nothing is left to rebuild from: the answer ends early
        assert 0 < len(got) < SIZE
        assert not wrong_pages(got, body)
