"""Libraries for containers run in a process of their own, which ends alone, whatever a container makes of it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from layoutscope.errors import ImageError, UnreadError
from layoutscope.image import open_image
from layoutscope.image.containers import foreign

STAND_IN = """
import ctypes, os, socket, sys, time

HELD = []

def forever():
    while True:
        pass

def memory():
    while True:
        HELD.append(bytearray(1 << 24))

def write():
    with open({outside!r}, "w") as file:
        file.write("escaped")

WAYS = {{
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "loop": forever,
    "sleep": lambda: time.sleep(1000),
    "memory": memory,
    "exit": lambda: os._exit(7),
    "raise": lambda: (_ for _ in ()).throw(RuntimeError("libqcow: nothing\\nsecond line")),
    "write": write,
    "socket": lambda: socket.create_connection(("127.0.0.1", {port})),
    "shell": lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "true"], {{}}),
    "chatter": lambda: os.write(1, b"x" * (1 << 23)),
    "none": lambda: None,
}}

class file:
    def open_file_object(self, source):
        self.source = source
        self.words = source.read(512)[4:].split(b"\\0")[0].decode().split()
        if self.words[0] == "open":
            WAYS[self.words[1]]()

    def get_media_size(self):
        return int(self.words[2]) if len(self.words) > 2 else 1 << 20

    def read_buffer_at_offset(self, length, offset):
        if self.words[0] == "read" and offset >= 1 << 19:
            WAYS[self.words[1]]()
        length = min(length, self.get_media_size() - offset)
        numbers = range(offset // 512, (offset + length) // 512 + 1)
        return b"".join(bytes([number % 251]) * 512 for number in numbers)[offset % 512 :][:length]
"""

REFUSED = "its header or tables are damaged, or the file, which ends at byte 8,192, is cut"
"""What is said of whatever the library says."""

WORDS = {
    "abort": "its reader crashed (SIGABRT)",
    "segfault": "its reader crashed (SIGSEGV)",
    "loop": "its reader takes more time than any sound one needs",
    "sleep": "its reader does not answer any more",
    "memory": "it asks for more memory than any that is sound",
    "exit": "its reader ended with 7",
    "raise": REFUSED,
    "write": REFUSED,
    "socket": REFUSED,
    "chatter": "its reader answers without end",
}


@pytest.fixture
def container(tmp_path, monkeypatch):
    """Return what writes a container that makes the stand-in for libqcow do something."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "pyqcow.py").write_text(STAND_IN.format(outside=str(tmp_path / "escaped"), port=9))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(foreign, "READ_SECONDS", 1.0)
    monkeypatch.setattr(foreign, "WAIT_SECONDS", 600.0)  # a second of a processor may take long
    monkeypatch.setattr(foreign, "MEMORY_BYTES", 1 << 28)

    def write(words: str):
        path = tmp_path / "disk.qcow2"
        path.write_bytes((b"QFI\xfb" + words.encode()).ljust(8192, b"\0"))
        return path

    return write


def test_what_a_library_refuses_to_read_is_unread(container):
    """One finding says how much, and where the file ends; what the library gives is read."""
    size, last = 1 << 24, 15 << 20
    with open_image(container(f"read raise {size}")) as source:
        assert source.read(0, 1 << 16)[-512:] == bytes([127]) * 512
        target = bytearray(b"x" * (size - last))
        source.read_into(last, memoryview(target))
        assert not any(target)
        assert source.unread_ranges().tolist() == [[last, size - last]]
        (finding,) = source.findings
        assert (finding.code, finding.level) == ("image-incomplete", "error")
        assert "ends at byte 8,192)" in finding.message
        assert "1.00 MiB" in finding.message


def read_twice(path):
    """Read at the start, where nothing happens, and in the second half."""
    with open_image(path) as source:
        assert source.read(0, 100) == bytes(100)
        source.read(1 << 19, 4096)


@pytest.mark.parametrize("way", WORDS)
@pytest.mark.parametrize("when", ["open", "read"])
def test_whatever_a_parser_does_ends_in_one_line(container, tmp_path, monkeypatch, when, way):
    """Crash, loop, sleep, hunger, escape: an error of one line, and no process is left."""
    path = container(f"{when} {way}")
    if way == "sleep":
        monkeypatch.setattr(foreign, "WAIT_SECONDS", 1.0)
    started, start_one = [], subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **kept: started.append(start_one(*args, **kept)) or started[-1]
    )
    with pytest.raises(UnreadError if when == "read" and WORDS[way] == REFUSED else ImageError) as error:
        read_twice(path)
    assert "\n" not in str(error.value)
    if isinstance(error.value, ImageError):
        assert str(error.value) == f"{path}: QEMU image (qcow2) cannot be read: {WORDS[way]}"
    assert not (tmp_path / "escaped").exists()
    assert [process.returncode is None for process in started] == [False]


@pytest.mark.parametrize("way", ["segfault", "raise", "memory"])
def test_the_command_ends_with_1(container, tmp_path, way):
    """One line on standard error, no traceback, exit code 1."""
    command = [sys.executable, "-m", "layoutscope", "scan", container(f"open {way}")]
    paths = os.pathsep.join([str(tmp_path / "library"), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": paths}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert WORDS[way] in result.stderr


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() == 0, reason="root may start processes without limit")
def test_no_process_is_started(container):
    """A parser that wants a shell gets none."""
    with pytest.raises(ImageError, match="cannot be read"):
        open_image(container("open shell"))


@pytest.mark.parametrize("size", [2**47, 2**62, 2**63 - 1])
def test_disks_that_nobody_stored_are_refused(container, size):
    """A small file may claim any size; above that of every real disk it is an error that names both."""
    with pytest.raises(ImageError, match=r"claims a disk of .*; at most 64.0 TiB are read"):
        open_image(container(f"open none {size}"))


def test_reads_of_every_length_and_order(container):
    """Whatever is kept, asked for ahead, or too long to be kept: bytes are those of the disk, also at its end."""
    size = (9 << 20) + 700
    disk = b"".join(bytes([number % 251]) * 512 for number in range(size // 512 + 1))[:size]
    with open_image(container(f"open none {size}")) as source:
        assert source.size_bytes == size
        for start, length in ((0, 5 << 20), (size - 900, 900), (65_530, 12), (1 << 20, 70_000), (3, 4), (0, size)):
            assert source.read(start, length) == disk[start : start + length]
        starts, lengths = np.array([8 << 20, 512, 0]), np.array([5000, 700, 9])
        wanted = b"".join(disk[a : a + b] for a, b in zip(starts, lengths, strict=True))
        assert source.read_extents(starts, lengths).tobytes() == wanted


def test_reads_that_follow_one_another_are_asked_for_ahead(container):
    """A hundred reads of 4 KiB in a row need few answers; a read again needs none."""
    with open_image(container(f"open none {1 << 24}")) as source:
        before = source.counter.reads
        for place in range(100):
            source.read(place * 4096, 4096)
        asked = source.counter.reads - before
        source.read(50 * 4096, 4096)
        assert asked <= 4
        assert source.counter.reads - before == asked


def test_what_is_kept_is_bounded(container, monkeypatch):
    """However much is read piece by piece, the last pieces alone stay."""
    monkeypatch.setattr(foreign, "KEPT_BLOCKS", 16)
    with open_image(container(f"open none {1 << 24}")) as source:
        for place in range(0, 1 << 24, 1 << 16):
            source.read(place, 10)
        assert len(source._kept) == 16
