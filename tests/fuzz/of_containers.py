"""Files around images: Apple disk images, sparse images of macOS 26, and compressed files."""

from __future__ import annotations

import bz2
import gzip
import lzma
from typing import TYPE_CHECKING

import numpy as np
import zstandard

from fixtures.asif import Plan, asif
from fixtures.hfsplus.writer import render
from tests.fuzz.base import Base, base_of
from tests.fuzz.of_partitions import PLANS
from tests.unit.image.containers.test_udif import ADC, BZIP2, IGNORED, LZMA, PLAIN, ZEROS, ZLIB, udif

if TYPE_CHECKING:
    from pathlib import Path


def bases() -> tuple[Base, ...]:
    """Wrap a small sound image in every way."""
    disk = bytes(render(PLANS["mbr"])[0].to_bytearray())
    disk += bytes(-len(disk) % 512)
    piece = 64 * 512
    parts = [disk[at : at + piece] for at in range(0, len(disk), piece)]
    ways = (PLAIN, ADC, ZLIB, BZIP2, LZMA)
    dmg = udif([(ZEROS if not any(part) else ways[place % len(ways)], part) for place, part in enumerate(parts)])
    return (
        _base("dmg", dmg),
        _base("dmg-tail", udif([(ZLIB, disk), (IGNORED, bytes(512))])),
        _base("asif", asif(Plan(disk, partial=frozenset(range(0, 99, 3))))),
        _base("asif-large", asif(Plan(disk, more_sectors=200_000, with_metadata=False))),
        _base("gzip", gzip.compress(disk, mtime=0)),
        _base("bzip2", bz2.compress(disk)),
        _base("xz", lzma.compress(disk)),
        _base("zstd", zstandard.ZstdCompressor().compress(disk)),
    )


def _base(name: str, data: bytes) -> Base:
    tail = max(0, len(data) - 2048)
    spots = [(at, 4) for at in range(0, min(64, len(data) - 4), 4)]
    if name.startswith("dmg"):
        spots += [(at, 8) for at in range(len(data) - 512, len(data) - 8, 4)]
        spots += [(at, 1) for at in range(tail, len(data) - 512)]
    if name.startswith("asif"):
        spots += [(at, 8) for at in range(512, 1056, 8)] + [(at, 8) for at in _words(data)]
    ranges = tuple((at, min(512, len(data) - at)) for at in range(0, len(data), 512))
    return base_of(name, data, spots=tuple(spots), ranges=ranges)


def _words(data: bytes) -> list[int]:
    """Find references to chunks: words with nothing but a state and a small number."""
    words = np.frombuffer(data[: len(data) // 8 * 8], ">u8")
    return (8 * np.flatnonzero((words > 0) & (words & np.uint64(2**62 - 1) < len(data) // 32768))).tolist()


def run(path: Path, base: Base) -> int:  # noqa: ARG001
    """Scan through the wrapping."""
    from layoutscope import scan

    return scan(path, drives=()).exit_code
