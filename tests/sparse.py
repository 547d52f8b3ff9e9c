"""Files whose zero blocks take no disk space."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_BYTES = 1 << 16


def write_sparse(target: Path, source: BinaryIO) -> None:
    """Write the content of an open file, and leave holes for zero blocks."""
    with target.open("wb") as written:
        while data := source.read(BLOCK_BYTES):
            if data.count(0) == len(data):
                written.seek(len(data), 1)
            else:
                written.write(data)
        written.truncate()
