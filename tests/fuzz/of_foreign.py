"""Containers written by other programs."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from fixtures.hfsplus.writer import render
from tests.fuzz.base import Base, base_of
from tests.fuzz.of_partitions import PLANS

_QEMU = {"qcow2": [], "vhdx": [], "vpc": [], "vmdk": []}


@cache
def bases() -> tuple[Base, ...]:
    """Wrap a small sound image with the installed programs; none without them."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-foreign-"))
    disk = folder / "disk.img"
    data = bytes(render(PLANS["mbr"])[0].to_bytearray())
    disk.write_bytes(data.ljust(-(-len(data) // 4096) * 4096, b"\0"))
    made = []
    if shutil.which("qemu-img"):
        for form in _QEMU:
            subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", form, disk, folder / form], check=True)
            made.append(folder / form)
    if shutil.which("ewfacquire"):
        command = ["ewfacquire", "-u", "-q", "-c", "fast", "-t", folder / "ewf", disk]
        subprocess.run(command, check=True, capture_output=True)
        made.append((folder / "ewf.E01").rename(folder / "ewf"))
    return tuple(_base(path) for path in made)


def _base(path: Path) -> Base:
    """Mutate likely structure starts: every 512 bytes, and all of the first and last bytes."""
    data = path.read_bytes()
    heads = [at for at in range(0, len(data), 512) if any(data[at : at + 512])]
    spots = [
        (at, 4) for start in (0, max(0, len(data) - 512)) for at in range(start, min(start + 512, len(data)) - 4, 4)
    ]
    spots += [(at + place, width) for at in heads[:64] for place, width in ((0, 8), (8, 8), (16, 4), (24, 8))]
    ranges = tuple((at, min(512, len(data) - at)) for at in heads)
    return base_of(path.name, data, spots=tuple(spots), ranges=ranges)


def run(path: Path, base: Base) -> int:  # noqa: ARG001
    """Scan the container with a sweep, which asks it for its stored areas."""
    from layoutscope import scan

    return scan(path, drives=(), sweep=True).exit_code
