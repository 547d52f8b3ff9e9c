"""Sound images, with the locations of their metadata and their entries."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from layoutscope import scan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from layoutscope.results.scan import ScanResult
    from tests.losses.images import Sound

BLOCK_BYTES = 4096
"""Each damage hits at most this many bytes of a structure."""

NEVER_DAMAGED = frozenset({"snapshot-data", "reserved", "boot-blocks", "internal-pool"})
"""Regions without metadata of the state that is read, or that no reader reads."""

Row = tuple[int, int, str | None]
"""An entry: its directory, its file number and its name."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A piece of metadata: its kind, such as ``fs leaf``, where it starts in the image, and its length."""

    structure: str
    at: int
    length: int


@dataclass(frozen=True, slots=True)
class Victim:
    """A sound image in a file of its own, which is damaged and then restored.

    `spots` are the places of its metadata, `rows` the entries of all volumes, and `older` the addresses of older
    versions of the object at an address (APFS).
    """

    name: str
    path: Path
    spots: tuple[Spot, ...]
    rows: Counter[Row]
    older: dict[int, tuple[int, ...]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_apfs(self) -> bool:
        """Whether blocks carry Fletcher's checksum, an object number and a transaction."""
        return any(spot.structure.startswith(("container", "checkpoint")) for spot in self.spots)

    def read(self, at: int, length: int) -> bytes:
        """Read bytes of the working copy."""
        with self.path.open("rb") as file:
            return os.pread(file.fileno(), length, at)


def victim_of(sound: Sound, folder: Path) -> Victim:
    """Copy a sound image, and locate its metadata."""
    path = folder / f"{sound.name}{sound.path.suffix}"
    subprocess.run(["cp", "--sparse=always", "--no-preserve=mode", sound.path, path], check=True)
    result = scan(path, drives=(), **sound.options)
    spots = tuple(sorted(set(_spots(result)), key=lambda spot: spot.at))
    return Victim(sound.name, path, spots, rows_of(result), _older(path, spots), sound.options)


def rows_of(result: ScanResult) -> Counter[Row]:
    """Count the entries of all volumes."""
    rows: Counter[Row] = Counter()
    for volume in result.parts:
        rows.update(volume.layout.entries.select("parent_id", "file_id", "name").iter_rows())
    return rows


def _spots(result: ScanResult) -> list[Spot]:
    """List metadata on the named image; the other half of a Fusion set is damaged as an image of its own."""
    spots = []
    for volume in result.parts:
        nodes = volume.layout.nodes.filter(device=0)
        for tree, kind, state, at, length in nodes.select(
            "tree", "kind", "state", "image_offset", "size_bytes"
        ).iter_rows():
            if kind != "free" and state == "live":
                spots.append(Spot(f"{tree} {kind}", at, length))
        regions = volume.layout.regions.filter(device=0)
        for name, at, length in regions.select("type", "image_offset", "length_bytes").iter_rows():
            if name not in NEVER_DAMAGED:
                places = range(at, at + length, BLOCK_BYTES)
                spots += [Spot(name, place, min(BLOCK_BYTES, at + length - place)) for place in places]
    return spots


def _older(path: Path, spots: tuple[Spot, ...]) -> dict[int, tuple[int, ...]]:
    """Find, for each APFS object, blocks that hold a version from an earlier transaction."""
    if not any(spot.structure.startswith("container") for spot in spots):
        return {}
    versions: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for at, page in pages_of(path):
        oid, xid = (int.from_bytes(page[place : place + 8], "little") for place in (8, 16))
        kind = int.from_bytes(page[24:26], "little")
        if oid and xid:
            versions.setdefault((oid, kind), []).append((xid, at))
    older = {}
    for found in versions.values():
        found.sort()
        older.update({at: tuple(place for other, place in found[:rank] if other < xid)
                      for rank, (xid, at) in enumerate(found)})  # fmt: skip
    return {at: places for at, places in older.items() if places}


def pages_of(path: Path) -> list[tuple[int, bytes]]:
    """Return the blocks of a sparse file that are not all zeros, with their addresses."""
    empty, found = bytes(BLOCK_BYTES), []
    size, at = path.stat().st_size, 0
    with path.open("rb") as file:
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:  # only a hole is left
                break
            at -= at % BLOCK_BYTES
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            for place in range(at, end, BLOCK_BYTES):
                page = os.pread(file.fileno(), BLOCK_BYTES, place)
                if page != empty[: len(page)]:
                    found.append((place, page))
            at = max(end, at + BLOCK_BYTES)
    return found
