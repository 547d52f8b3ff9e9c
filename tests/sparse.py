"""Files whose zeros take no room on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_BYTES = 1 << 16


def write_sparse(target: Path, source: BinaryIO) -> None:
    """Write what an open file has, and leave holes for blocks of zeros."""
    with target.open("wb") as written:
        while data := source.read(BLOCK_BYTES):
            if data.count(0) == len(data):
                written.seek(len(data), 1)
            else:
                written.write(data)
        written.truncate()
