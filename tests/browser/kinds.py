"""Five kinds of map pages: a sound pair, an aged disk, a locked one, a damaged one, and a Fusion set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.api.scan import scan
from layoutscope.zstd import zstd

if TYPE_CHECKING:
    from layoutscope.results.scan import ScanResult

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "images"
DESTROYED = slice(3, 40, 9)
"""Leaves of the file-system tree that are overwritten on the damaged disk."""


def nodes_of(result: ScanResult) -> pl.DataFrame:
    """Return the nodes of all volumes of a scan."""
    return pl.concat([volume.layout.nodes for volume in result.parts], how="vertical_relaxed")


def _pair(_folder: Path) -> list[ScanResult]:
    return [scan(FIXTURES / f"{name}-scattered.img.zst") for name in ("hfsplus", "apfs")]


def _aged(folder: Path) -> list[ScanResult]:
    write(SCENARIOS["aged"], folder / "aged.img")
    return [scan(folder / "aged.img")]


def _locked(folder: Path) -> list[ScanResult]:
    write(SCENARIOS["encrypted"], folder / "locked.img")
    return [scan(folder / "locked.img")]


def _damaged(folder: Path) -> list[ScanResult]:
    """Overwrite some leaves of the file list, including with an apparent transaction of the far future."""
    image = FIXTURES / "apfs-scattered.img.zst"
    raw = bytearray(zstd.decompress(image.read_bytes()))
    is_leaf = (pl.col("tree").cast(pl.String) == "fs") & (pl.col("kind").cast(pl.String) == "leaf")
    leaves = nodes_of(scan(image, drives=())).filter(is_leaf & (pl.col("state").cast(pl.String) == "live"))
    for place, size in leaves.select("image_offset", "size_bytes").rows()[DESTROYED]:
        raw[place : place + size] = b"\xa5" * size
    (folder / "damaged.img").write_bytes(raw)
    return [scan(folder / "damaged.img")]


def _fusion(folder: Path) -> list[ScanResult]:
    write(SCENARIOS["fusion"], folder / "main.img", folder / "second.img")
    return [scan(folder / "main.img", second=folder / "second.img")]


KINDS = {"pair": _pair, "aged": _aged, "locked": _locked, "damaged": _damaged, "fusion": _fusion}
