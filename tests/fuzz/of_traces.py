"""Trace files in every format, served by a drive model."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.fuzz.base import Base, base_of

if TYPE_CHECKING:
    from pathlib import Path

_CSV = b"device,image_offset,length_bytes,cause,think_us\n" + b"".join(
    b"0,%d,4096,node,%d\n" % (at * 8192 % 999_424, at) for at in range(40)
)
_FIO = b"fio version 2 iolog\n/dev/sda add\n/dev/sda open\n" + b"".join(
    b"/dev/sda read %d 4096\n" % (at * 12288) for at in range(20)
)
_BLKPARSE = b"".join(
    b"  8,0    3 %8d     0.%09d   697  D   R %d + 8 [kjournald]\n" % (at, at * 1000, at * 64) for at in range(20)
)
_FS_USAGE = b"".join(
    b"09:00:%02d.%06d    RdMeta   D=0x%08x  B=0x1000   /dev/disk1  0.000123 W  find.1\n" % (at, at, at * 16)
    for at in range(20)
)
_CORE_STORAGE = b"".join(
    b"23:59:%02d.%06d      RdChunkCS     D=0x%08x  B=0x1000   /dev/disk0s2   0.000123 W find.1\n"
    % (at + 40, at, at * 16)
    for at in range(20)
)
_IOSNOOP = b"STIME TIME UID PID D BLOCK SIZE COMM PATHNAME\n" + b"".join(
    b"%d %d 0 77 R %d 4096 find ??/a b\n" % (at * 9000, at * 9000 + 5000, at * 64) for at in range(20)
)
_BIOSNOOP = b"TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n" + b"".join(
    b"%d.004046 find %d sda R %d 4096 4.10\n" % (at, at, at * 64) for at in range(20)
)


def bases() -> tuple[Base, ...]:
    """Return a trace in each format."""
    texts = {"csv": _CSV, "fio": _FIO, "blkparse": _BLKPARSE, "fs_usage": _FS_USAGE}
    texts |= {"iosnoop": _IOSNOOP, "biosnoop": _BIOSNOOP}
    pairs = b"".join(struct.pack("<QQ", at * 8192, 4096) for at in range(40))
    return (
        *(base_of(name, text, is_text=True) for name, text in texts.items()),
        base_of("fs_usage", _CORE_STORAGE, is_text=True),
        base_of("pairs", pairs, spots=tuple((at, 8) for at in range(0, len(pairs), 8))),
    )


def run(path: Path, base: Base) -> int:
    """Read and serve a trace."""
    from layoutscope import replay

    replay(path, drives=("generic-7200", "sata-ssd"), form=base.name)
    return 0
