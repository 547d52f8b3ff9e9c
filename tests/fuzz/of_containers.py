"""Files around images: Apple's and other disk image formats that need no library, and compressed files."""

from __future__ import annotations

import bz2
import gzip
import lzma
from typing import TYPE_CHECKING

import numpy as np

from fixtures.asif import Plan, asif
from fixtures.hfsplus.writer import render
from fixtures.wrappers import (
    apple_single,
    disc,
    expert_witness,
    im4p,
    mac_binary,
    parallels,
    sparse_image,
    vdi,
)
from layoutscope.zstd import zstd
from tests.fuzz.base import Base, base_of
from tests.fuzz.of_partitions import PLANS
from tests.unit.image.containers.test_udif import ADC, BZIP2, IGNORED, LZMA, PLAIN, ZEROS, ZLIB, udif

if TYPE_CHECKING:
    from pathlib import Path


def bases() -> tuple[Base, ...]:
    """Wrap a small sound image in every format."""
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
        _base("dmg-inside", udif([(ZLIB, disk)]) + bytes(700)),
        _base("sparse-image", sparse_image(disk, 4096, reverse=True)),
        _base("sparse-image-tables", sparse_image(disk + b"\x01" * 600_000, 512)),
        _base("parallels", parallels(disk, 4096)),
        _base("vdi", vdi(disk, 4096)),
        _base("e01", expert_witness(disk, per_table=3)[0]),
        _base("e01-plain", expert_witness(disk, packed=False, small=True)[0]),
        _base("mac-binary", mac_binary(disk)),
        _base("apple-single", apple_single(disk)),
        _base("im4p", im4p(disk)),
        _base("disc", disc(disk)),
        _base("gzip", gzip.compress(disk, mtime=0)),
        _base("bzip2", bz2.compress(disk)),
        _base("xz", lzma.compress(disk)),
        _base("zstd", zstd.compress(disk)),
    )


def _base(name: str, data: bytes) -> Base:
    tail = max(0, len(data) - 2048)
    spots = [(at, 4) for at in range(0, min(64, len(data) - 4), 4)]
    if name.startswith("dmg"):
        spots += [(at, 8) for at in range(len(data) - 512, len(data) - 8, 4)]
        spots += [(at, 1) for at in range(tail, len(data) - 512)]
    if name.startswith("asif"):
        spots += [(at, 8) for at in range(512, 1056, 8)] + [(at, 8) for at in _words(data)]
    if name.startswith(("sparse", "parallels", "vdi", "e01")):
        heads = [at for at in range(0, len(data), 512) if any(data[at : at + 512])]
        spots += [(at, 4) for at in range(0, min(1024, len(data)) - 4, 4)]
        spots += [(at + place, 4) for at in heads[:64] for place in range(0, 64, 4) if at + place + 4 <= len(data)]
    if name.startswith("e01"):
        spots += [(at + place, 8) for at in _sections(data) for place in range(0, 112, 4) if at + place + 8 < len(data)]
    ranges = tuple((at, min(512, len(data) - at)) for at in range(0, len(data), 512))
    return base_of(name, data, spots=tuple(spots), ranges=ranges)


def _sections(data: bytes) -> list[int]:
    """Find the section headers of an Expert Witness image."""
    return [data.find(name.ljust(16, b"\0")) for name in (b"volume", b"sectors", b"table", b"table2", b"done")]


def _words(data: bytes) -> list[int]:
    """Find references to chunks: words that hold only a state and a small number."""
    words = np.frombuffer(data[: len(data) // 8 * 8], ">u8")
    return (8 * np.flatnonzero((words > 0) & (words & np.uint64(2**62 - 1) < len(data) // 32768))).tolist()


def run(path: Path, base: Base) -> int:  # noqa: ARG001
    """Scan the wrapped image."""
    from layoutscope import scan

    return scan(path, drives=()).exit_code
