"""GNU ddrescue map files next to an image."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from fixtures.hfsplus.writer import render
from tests.fuzz.base import Base, base_of
from tests.fuzz.of_partitions import PLANS

_MAP = b"""# Mapfile. Created by GNU ddrescue version 1.27
# current_pos  current_status  current_pass
0x00010000     ?               1
#      pos        size  status
0x00000000  0x00008000  +
0x00008000  0x00000200  -
0x00008200  0x00007E00  +
0x00010000  0x00010000  *
0x00020000  0x00010000  /
0x00030000  0x00010000  ?
"""


@cache
def image() -> Path:
    """Write the image that the maps describe."""
    path = Path(tempfile.mkdtemp(prefix="fuzz-map-")) / "disk.img"
    path.write_bytes(render(PLANS["mbr"])[0].to_bytearray())
    return path


def bases() -> tuple[Base, ...]:
    """Return one map with every status."""
    return (base_of("map", _MAP, is_text=True),)


def run(path: Path, base: Base) -> int:
    """Scan with the map; hidden areas are damage, so the sound map is handled separately."""
    from layoutscope import scan

    code = scan(image(), drives=(), ddrescue_map=path).exit_code
    return 0 if path.read_bytes() == base.whole() and code == 3 else code
