"""Files whose zero blocks take no disk space."""

from __future__ import annotations

import subprocess
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


def copy_zeroed(source: Path, target: Path, *places: int, length: int = 4096) -> Path:
    """Copy an image, and fill blocks of it with zeros."""
    subprocess.run(["cp", "--sparse=always", "--no-preserve=mode", source, target], check=True)
    with target.open("r+b") as file:
        for at in places:
            file.seek(at)
            file.write(bytes(length))
    return target
