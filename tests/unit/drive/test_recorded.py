"""Recordings of disks: real lines of each format, and lines that are cut, hostile, or foreign.

The lines in ``recordings`` are from public places: a course report and tests of parsers (macOS on Apple silicon), the
issue keybase/client#4237 (macOS 10.12 on CoreStorage), brendangregg.com/DTrace/iosnoop_example.html, the examples of
biosnoop in iovisor/bcc and of iosnoop in perf-tools; paths of people are shortened. One row each of iosnoop-times and
biosnoop was changed so that a command has a space.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from layoutscope.drive.recordings import (
    CHUNK,
    FILE_SYSTEM,
    HIGHEST_BLOCK,
    Place,
    load_trace,
    read_fs_usage,
    read_snoop,
)
from layoutscope.errors import ImageError
from tests.unit.drive.toys import read_trace

FOLDER = Path(__file__).parent / "recordings"
APPLE_SILICON = (FOLDER / "fs_usage-apple-silicon.txt").read_text()
CORE_STORAGE = (FOLDER / "fs_usage-corestorage.txt").read_text()
IOSNOOP = (FOLDER / "iosnoop.txt").read_text()
IOSNOOP_TIMES = (FOLDER / "iosnoop-times.txt").read_text()
BIOSNOOP = (FOLDER / "biosnoop.txt").read_text()
PERF_TOOLS = (FOLDER / "iosnoop-perf-tools.txt").read_text()


def parts(found):
    """Return device, process, block and length of each read in a recording."""
    return [
        (found.devices[device], found.processes[process], block, length)
        for device, process, block, length in zip(
            found.device, found.process, found.block, found.length_bytes, strict=True
        )
    ]


def test_lines_of_fs_usage():
    """Real lines of two kinds of Macs."""
    # Paths with spaces, bracketed flags and threads are parsed; writes and calls are counted, reads are as issued.
    found = read_fs_usage(APPLE_SILICON.encode())
    assert parts(found) == [
        ("disk3", "dd", 0x8AE0, 0x1000),
        ("disk3s5", "Telegram", 0xA886D2, 0x1000),
        ("disk3s1s1", "bash", 0x490F371, 0x4000),
        ("disk3s5", "searchpartyd", 0x5945AB6, 0x4000),
        ("disk3s5", "launchd", 0x5C63194, 0x4000),
    ]
    assert found.is_metadata.tolist() == [True, False, False, False, False]
    lines = found.lines
    assert (lines.reads, lines.writes, lines.other, lines.unparsed, lines.failed) == (5, 3, 1, 0, 0)
    assert (found.done_us - found.issued_us).round().tolist() == [745, 875, 164, 415, 551]
    # A read of a logical volume has two lines, which differ in the requesting process.
    found = read_fs_usage(CORE_STORAGE.encode())
    assert set(found.layer.tolist()) == {FILE_SYSTEM, CHUNK}
    assert parts(found[found.layer == FILE_SYSTEM]) == [
        ("disk1", "ls", 0x39D520, 0x2000),
        ("disk1", "ls", 0x39D540, 0x2000),
    ]
    assert parts(found[found.layer == CHUNK]) == [
        ("disk0s2", "ls", 0x39D520, 0x2000),
        ("disk0s2", "ls", 0x39D540, 0x2000),
    ]


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("09:00:00.000100    RdMeta[S]       D=0x00000008  [  5]                      0.000745 W find.12", "failed"),
        ("09:00:00.000100    RdMeta[S]       D=0x00000008  B=0x0      /dev/disk2  0.000745 W find.12", "failed"),
        ("09:00:00.000100      RdMetaCS      D=0x00000008  [  5]                      0.000745 W find.12", "failed"),
        ("09:00:00.000100    RdMeta[S]       D=0x00000008  B=0x10", "unparsed"),
        ("09:00:00.000100    RdMeta[S]       D=0x00000008  B=0x1000   /dev/disk2  0.0007", "unparsed"),
        ("09:00:00.000100    RdMeta[S]       D=0xzz  B=0x1000   /dev/disk2  0.000745 W find.12", "unparsed"),
        (
            "09:00:00.000100    RdMeta[S]       D=0xffffffffffffffff  B=0x1000   /dev/disk2  0.000745 W find.12",
            "unparsed",
        ),
        ("09:00:00.000100    RdFuture[S]     D=0x00000008  B=0x1000   /dev/disk2  0.000745 W find.12", "unparsed"),
        ("09:00:00.000100    WrMeta[S]       D=0x00000008  B=0x10", "writes"),
        ("fs_usage: buffer overrun, events generated too quickly: 6", "lost"),
        ("09:00:00.000100  stat64                                   /a/D=0x0000  0.000012   find.301", "other"),
    ],
)
def test_what_is_no_read_is_counted(text, counted):
    """Failed, cut and damaged lines are counted by kind; the number of the first one is reported."""
    found = read_fs_usage(f"a title\n{text}\n".encode())
    assert len(found) == 0
    assert getattr(found.lines, counted) == (2 if counted == "other" else 1)
    assert found.lines.first_unparsed == (2 if counted == "unparsed" else 0)


def test_reads_are_in_the_order_of_issue():
    """Also over midnight, and if their times overlap."""
    # The clock restarts, and the read of the next day comes 2 us after that of the day before.
    text = (
        "23:59:59.999999    RdMeta[S]       D=0x00000008  B=0x1000   /dev/disk2  0.000100 W find.12\n"
        "00:00:00.000051    RdMeta[S]       D=0x00000010  B=0x1000   /dev/disk2  0.000050 W find.12\n"
    )
    found = read_fs_usage(text.encode())
    assert found.block.tolist() == [8, 16]
    assert found.gaps_us().round().tolist() == [0, 2]
    assert round(found.busy_us()) == 150
    # A long asynchronous read is listed after a short one that came later; neither time belongs to one read alone.
    text = (
        "09:00:00.000200    RdData[A]       D=0x00000010  B=0x1000   /dev/disk2  /b  0.000050 W find.12\n"
        "09:00:00.000300    RdData[A]       D=0x00000008  B=0x1000   /dev/disk2  /a  0.000300 W find.12\n"
        "09:00:00.000500    RdData[S]       D=0x00000018  B=0x1000   /dev/disk2  /c  0.000100 W find.12\n"
    )
    found = read_fs_usage(text.encode())
    assert found.block.tolist() == [8, 16, 24]
    assert found.overlaps().tolist() == [True, True, False]
    assert found.gaps_us().round().tolist() == [0, 0, 100]
    assert round(found.busy_us()) == 400
    # With -b, the bytes are followed by flags of the buffer cache.
    text = "09:00:00.000100    RdData[S]       D=0x00000008  B=0x1000   BC:X /dev/disk2  /a  0.000045 W find.12"
    assert parts(read_fs_usage(text.encode())) == [("disk2", "find", 8, 4096)]


def test_each_snoop_tool_has_its_titles_units_and_times():
    # Blocks and bytes are found by their titles; there are no times and no block size.
    found = read_snoop(IOSNOOP.encode())
    assert parts(found) == [("", "tar", 3808, 8192), ("", "tar", 35904, 6144)]
    assert (found.host, found.unit_bytes, found.is_timed, found.lines.writes) == ("macos", None, False, 1)
    # A date has four words, and a command ends where its path begins.
    assert parts(read_snoop(IOSNOOP_TIMES.encode())) == [("", "Web Help", 3808, 8192)]
    # Sectors have 512 bytes; the command may have spaces, and times are completion times.
    found = read_snoop(BIOSNOOP.encode())
    assert parts(found) == [("xvda1", "Web Content", 13115272, 4096), ("xvdc", "xfsaild/md0", 62901512, 8192)]
    assert (found.form, found.host, found.unit_bytes, found.lines.writes) == ("biosnoop", "linux", 512, 1)
    assert found.done_us.tolist() == [1022346.0, 2003920.0]
    assert found.issued_us.round().tolist() == [1022346 - 980, 2003920 - 230]
    # The tool of the same name on Linux has other columns.
    found = read_snoop(PERF_TOOLS.encode())
    assert parts(found) == [("202,1", "tar", 8457608, 4096), ("202,1", "tar", 7469344, 4096)]
    assert (found.host, found.unit_bytes) == ("linux", 512)
    assert math.isnan(found.done_us[0])
    # The output of the dtrace script in docs/workloads.md is read by its titles; a read has a start but no end.
    text = "STIME DEVICE D BLOCK SIZE COMM\n812000345 disk2 R 8 4096 find\n812000900 disk2 W 8 4096 find\n"
    found = read_snoop(text.encode())
    assert parts(found) == [("disk2", "find", 8, 4096)]
    assert (found.issued_us.tolist(), found.is_timed) == ([812000345.0], False)


@pytest.mark.parametrize("row", ["100 15795 R x 8192 tar /a", "100 15795 R 3808", "100 1 R -8 8192 tar /a"])
def test_a_row_that_does_not_fit_its_titles(row):
    """Such a row is counted, and its line number is reported."""
    found = read_snoop(f"{IOSNOOP}{row}\n".encode())
    assert (len(found), found.lines.unparsed, found.lines.first_unparsed) == (2, 1, 5)


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a", APPLE_SILICON, "fs_usage"),
        ("b", CORE_STORAGE, "fs_usage"),
        ("c", IOSNOOP, "iosnoop"),
        ("d", BIOSNOOP, "biosnoop"),
        ("e", PERF_TOOLS, "biosnoop"),
    ],
)
def test_the_content_tells_the_format(tmp_path, name, text, form):
    """The format does not have to be given."""
    (tmp_path / name).write_text(text)
    assert load_trace(tmp_path / name).form == form


@pytest.mark.parametrize("rest", ["08  B=0x10", f"{HIGHEST_BLOCK:x}  B=0x1000   /dev/disk2  0.000745 W find.12"])
def test_a_trace_of_cut_lines_is_refused_with_the_first_of_them(tmp_path, rest):
    (tmp_path / "cut.txt").write_text(f"TIMESTAMP\n09:00:00.000100    RdMeta[S]       D=0x{rest}\n")
    with pytest.raises(ImageError, match=r"holds no reads.*; line 2 begins as one and is cut or damaged"):
        read_trace(tmp_path / "cut.txt")


def test_a_place_says_where_the_blocks_are():
    """Address = block times unit plus start; reads before the image and reads of another device are left out."""
    found = read_fs_usage(APPLE_SILICON.encode())
    reads = found.trace([Place("disk3", 4096, -0x8AE0 * 4096), Place("disk3s5", 4096, -0xA886D2 * 4096 - 1)])
    assert reads.image_offset.tolist() == [0, (0x5945AB6 - 0xA886D2) * 4096 - 1, (0x5C63194 - 0xA886D2) * 4096 - 1]
    assert np.array_equal(reads.length_bytes, [0x1000, 0x4000, 0x4000])
