"""Foreign traces: every format is read, and a written trace reads back."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.access.trace import AccessTrace
from layoutscope.drive.recordings import blkparse_lines, csv_text, fio_lines
from layoutscope.errors import ImageError, UsageError
from layoutscope.zstd import zstd
from tests.cases import for_each
from tests.unit.drive.toys import read_trace

FIO2 = """fio version 2 iolog
/dev/sdb add
/dev/sdb open
/dev/sdb read 8192 4096
/dev/sdb wait 150 0
/dev/sdb write 0 4096
/dev/sdb read 1048576 131072
/dev/sdb close
"""
FIO3 = """fio version 3 iolog
0 /dev/sdb add
0 /dev/sdb open
5 /dev/sdb read 8192 4096
900 /dev/sdb write 0 512
1900 /dev/sdb read 1048576 131072
2000 /dev/sdb close
"""
BLKPARSE = """  8,16   3        1     0.000000000   697  Q   R 2048 + 8 [fts]
  8,16   3        2     0.000001000   697  G   R 2048 + 8 [fts]
  8,16   3        3     0.000100000   697  D   R 2048 + 8 [fts]
  8,16   3        4     0.010100000     0  C   R 2048 + 8 [0]
  8,16   3        5     0.010120000   697  D  WS 9000 + 8 [kworker]
  8,16   3        6     0.010130000     0  C  WS 9000 + 8 [0]
  8,16   3        7     0.010300000   697  D  RM 4096 + 16 [fts]
  8,16   3        8     0.011300000     0  C  RM 4096 + 16 [0]
CPU3 (8,16):
 Reads Queued:           2,       12KiB
"""
FS_USAGE = """TIMESTAMP  CALL             FILE DESCRIPTOR  BYTE COUNT  PATHNAME  TIME INTERVAL(W)  PROCESS NAME
12:30:01.010000    RdMeta[S]       D=0x00000800  B=0x1000   /dev/disk2s2  /Volumes/x/a         0.010000 W find.301
12:30:01.010500    stat64                                   /Volumes/x/b                      0.000012   find.301
12:30:01.012000    WrData[A]       D=0x00000010  B=0x1000   /dev/disk2s2                       0.000100 W syslogd.40
12:30:01.020000    RdData          D=0x00001000  B=0x20000  /dev/disk2s2  /Volumes/x/b         0.009000 W find.301
12:30:01.031000    PgIn[A]         D=0x00003000  B=0x2000   /dev/disk2s2                       0.010000 W find.301
"""


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a file and reads it as a trace."""

    def get(content, name="x.txt", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_trace(path, **options)

    return get


def rows(trace):
    """Return (offset, length, think) of each read."""
    columns = (trace.image_offset, trace.length_bytes, trace.think_us.round(3))
    return list(zip(*(column.tolist() for column in columns), strict=True))


QUEUED = "\n".join(line for line in BLKPARSE.splitlines() if " D " not in line and " C " not in line)


@for_each(
    "text, options, expected",
    [
        # Writes are left out; a wait is the think time of the next read, time stamps imply none.
        (FIO2, {}, [(8192, 4096, 0), (1 << 20, 131072, 150)]),
        (FIO2, {"think_us": 100.0}, [(8192, 4096, 0), (1 << 20, 131072, 100)]),
        (FIO3, {}, [(8192, 4096, 0), (1 << 20, 131072, 0)]),
        # Issued reads are in sectors; the second comes 200 us after the completion of the first.
        (BLKPARSE, {}, [(2048 * 512, 4096, 0), (4096 * 512, 8192, 200)]),
        # If nothing was recorded at issue, the time of queueing counts.
        (QUEUED, {}, [(2048 * 512, 4096, 0)]),
        # Only disk reads count; think time is the gap from a completion to the next issue: 1 ms, 1 ms.
        (FS_USAGE, {}, [(0x800 * 512, 0x1000, 0), (0x1000 * 512, 0x20000, 1000), (0x3000 * 512, 0x2000, 1000)]),
        (FS_USAGE, {"block_bytes": 4096},
         [(0x800 * 4096, 0x1000, 0), (0x1000 * 4096, 0x20000, 1000), (0x3000 * 4096, 0x2000, 1000)]),
        ("offset,length\n512,1024\n0,512\n", {"name": "x.csv"}, [(512, 1024, 0), (0, 512, 0)]),
    ],
)  # fmt: skip
def test_other_formats_give_offset_length_and_think_time(read, text, options, expected):
    """Each gives offset, length and think time of its reads."""
    assert rows(read(text, **options)) == expected


def test_pairs(read):
    """Little-endian pairs of offset and length, packed or not."""
    plain = bytes.fromhex("00100000000000000002000000000000")  # 4096, 512
    packed = zstd.compress(plain)
    assert rows(read(plain, "a.trace")) == rows(read(packed, "a.trace.zst")) == [(4096, 512, 0)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "start,offset\n1,2\n", "needs a column length_bytes"),
        ("x.trace", b"123", "not a multiple of 16"),
        ("x.trace.zst", b"no zstd", "Unknown frame descriptor"),
        ("x.txt", "hello\n", "no reads"),
        ("x.txt", "", "no reads"),
    ],
)
def test_what_is_no_trace_is_refused(read, name, content, message):
    """The error says what is wrong with the file."""
    with pytest.raises(ImageError, match=message):
        read(content, name)


def test_a_missing_file_is_an_error(tmp_path):
    """So is an unknown format."""
    with pytest.raises(ImageError, match="no such file"):
        read_trace(tmp_path / "none.csv")
    (tmp_path / "a").write_text("x")
    with pytest.raises(UsageError, match="unknown trace format"):
        read_trace(tmp_path / "a", form="pcap")


@pytest.fixture
def sample():
    """Return three reads with causes, trees and think times."""
    return AccessTrace(
        device=np.array([0, 0, 1], np.uint8),
        image_offset=np.array([4096, 0, 1 << 40]),
        length_bytes=np.array([4096, 8192, 512]),
        cause=np.array([0, 1, 0], np.uint8),
        tree=np.array([1, 1, 0], np.uint8),
        directory_id=np.array([2, 2, 1 << 60], np.uint64),
        issuer=np.zeros(3, np.uint16),
        think_us=np.array([0.0, 100.0, 250.0]),
        causes=("list", "stat"),
        trees=("catalog", "extents"),
    )


def test_traces_read_back_as_written(read, sample):
    """Reads, causes, trees and times are kept."""
    # A trace written as CSV reads back the same, with names of causes and trees.
    again = read(csv_text(sample), "x.csv")
    for name in ("device", "image_offset", "length_bytes", "directory_id", "issuer", "think_us"):
        assert np.array_equal(getattr(again, name), getattr(sample, name)), name
    assert [again.causes[code] for code in again.cause] == ["list", "stat", "list"]
    assert [again.trees[code] for code in again.tree] == ["extents", "extents", "catalog"]
    # A written iolog has the reads in order, with their times in microseconds.
    lines = list(fio_lines(sample, file="/dev/sdz"))
    assert lines[3:6] == [
        "0 /dev/sdz read 4096 4096",
        "100 /dev/sdz read 0 8192",
        "350 /dev/sdz read 1099511627776 512",
    ]
    assert rows(read("\n".join(lines)))[2][:2] == (1 << 40, 512)
    # Without completions, blkparse has no think times.
    lines = list(blkparse_lines(sample))
    assert [line.split()[3] for line in lines] == ["0.000000000", "0.000100000", "0.000350000"]
    assert [row[:2] for row in rows(read("\n".join(lines)))] == [row[:2] for row in rows(sample)]
