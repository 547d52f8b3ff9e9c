from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from layoutscope.errors import ImageError, TruncatedError, UnreadError
from layoutscope.image import RawFile

MIB = 1024**2


@pytest.fixture
def sparse_file(tmp_path):
    """Return 16 MiB with one MiB of 0xAA at 4 MiB and one of 0xBB at 12 MiB; skip if files have no holes."""
    path = tmp_path / "sparse.img"
    with path.open("wb") as file:
        for start, value in ((4 * MIB, 0xAA), (12 * MIB, 0xBB)):
            file.seek(start)
            file.write(bytes([value]) * MIB)
        file.truncate(16 * MIB)
    if path.stat().st_blocks * 512 >= 16 * MIB:
        pytest.skip("the file system stores holes")
    return path


def test_holes_cost_no_request(sparse_file):
    """A read of two MiB, half of it a hole, counts one MiB read and one MiB of hole."""
    with RawFile(sparse_file) as source:
        assert source.read(3 * MIB, 2 * MIB) == bytes(MIB) + b"\xaa" * MIB
        assert (source.counter.reads, source.counter.bytes, source.counter.hole_bytes) == (1, MIB, MIB)
    # The end of the file is a hole: it reads as zeros without a request.
    with RawFile(sparse_file) as source:
        assert source.read(16 * MIB - 4096, 4096) == bytes(4096)
        assert source.counter.reads == 0
    # All 16 MiB read at once equal the file.
    with RawFile(sparse_file) as source:
        assert source.read(0, 16 * MIB) == sparse_file.read_bytes()
    # Extents in and between the data, in no order, equal the slices of the file.
    starts = np.array([12 * MIB - 5, 0, 5 * MIB - 1, 4 * MIB, 8 * MIB])
    lengths = np.array([10, 7, 2, 100, 3])
    data = sparse_file.read_bytes()
    with RawFile(sparse_file) as source:
        found = source.read_extents(starts, lengths).tobytes()
    assert found == b"".join(data[s : s + n] for s, n in zip(starts, lengths, strict=True))
    # The three holes are around the two stretches of data.
    with RawFile(sparse_file) as source:
        assert source.holes.tolist() == [[0, 4 * MIB], [5 * MIB, 7 * MIB], [13 * MIB, 3 * MIB]]


def test_a_read_error_of_the_system_has_an_address(tmp_path, monkeypatch):
    """An input/output error of the disk gives an error with the address, not a traceback."""
    path = tmp_path / "image"
    path.write_bytes(b"x" * 1000)

    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("layoutscope.image.raw.pread_into", fail)
    with RawFile(path) as source, pytest.raises(UnreadError, match="input/output error") as caught:
        source.read(512, 10)
    assert caught.value.image_offset == 512


def test_files_that_are_no_image(tmp_path):
    """A missing file and a pipe are one line each."""
    # The message is the path and the reason.
    with pytest.raises(ImageError, match=r"nothing: no such file$"):
        RawFile(tmp_path / "nothing")
    # Opening it for reading would wait for a writer that never comes.
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ImageError, match="is a pipe, not a file"):
        RawFile(tmp_path / "pipe")


def test_nothing_is_written(tmp_path):
    """The descriptor is read-only: the system refuses a write."""
    path = tmp_path / "image"
    path.write_bytes(b"x")
    with RawFile(path) as source, pytest.raises(OSError, match="Bad file descriptor"):
        os.write(source._descriptor, b"y")


def test_reading_without_preadv_is_the_same(tmp_path, monkeypatch):
    """Systems without the scattered read call use the plain one."""
    path = tmp_path / "image"
    path.write_bytes(bytes(range(256)))
    monkeypatch.delattr(os, "preadv")
    with RawFile(path) as source:
        assert source.read(250, 6) == bytes(range(250, 256))


def test_pieces_come_to_their_places(tmp_path):
    """Small and large pieces, stored or in a hole, are read to their places; stored bytes are counted."""
    path = tmp_path / "a.img"
    with path.open("wb") as file:
        file.write(b"a" * 4096)
        file.truncate(1 << 20)
    with RawFile(path) as source:
        target = bytearray(b"x" * (4 + 100_000))
        source.read_pieces(*np.array([[4094, 0], [4, 100_000], [100_000, 0]]), memoryview(target))
    assert bytes(target) == b"a" * 4096 + bytes(100_000 - 4096) + b"aa\0\0"
    # Bytes that disappear while the image is open are an error, not zeros.
    path = tmp_path / "image"
    path.write_bytes(b"x" * 1000)
    with RawFile(path) as source:
        os.truncate(path, 500)
        with pytest.raises(TruncatedError, match="became shorter"):
            source.read(400, 200)


def test_pieces_past_a_cut_are_truncated(tmp_path):
    """A file that became shorter is an error with the address of the missing piece."""
    path = tmp_path / "a.img"
    path.write_bytes(b"a" * 8192)
    with RawFile(path) as source:
        os.truncate(path, 4096)
        with pytest.raises(TruncatedError) as caught:
            source.read_pieces(*np.array([[0, 4096], [4096, 4096], [0, 4096]]), memoryview(bytearray(8192)))
    assert caught.value.image_offset == 4096


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="the system shows no memory as a file")
def test_a_file_without_a_size_is_no_disk():
    """It opens but has no end to search; the message is about the image, not an output."""
    with pytest.raises(ImageError, match="has no size, so it holds no disk"):
        RawFile(Path("/proc/self/mem"))
