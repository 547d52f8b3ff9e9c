"""A volume of the toy file system, written from nothing."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from .toyfs import BLOCK, HEADER, MAGIC, RECORD

NUM_FILES = 100
BLOCKS = 110


def written(*, first_of_the_last: int = 105) -> bytes:
    """A directory and 99 files of a block each: 64 records in block 7, 36 in block 2, the map in block 4."""
    records = [RECORD.pack(2, 0, 0, b"folder")]
    records += [RECORD.pack(2, BLOCK, 8 + number, f"file{number}".encode()) for number in range(NUM_FILES - 2)]
    records += [RECORD.pack(16, BLOCK, first_of_the_last, b"inside")]
    table = b"".join(records)
    image = bytearray(BLOCKS * BLOCK)
    image[: HEADER.size] = HEADER.pack(MAGIC, BLOCKS, 2, 4)
    image[4 * BLOCK : 4 * BLOCK + 8] = struct.pack("<II", 7, 2)
    image[7 * BLOCK : 8 * BLOCK] = table[:BLOCK]
    image[2 * BLOCK : 2 * BLOCK + len(table) - BLOCK] = table[BLOCK:]
    return bytes(image)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(written())
