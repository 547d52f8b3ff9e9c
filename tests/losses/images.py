"""The sound images that are damaged: those that our writers make, and small ones of real drivers and of macOS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fixtures.apfs.scenarios import PASSWORD
from fixtures.apfs.writer import write
from fixtures.hfsplus.writer import write as write_hfsplus
from tests.conftest import cache_dir
from tests.fuzz import of_apfs, of_hfsplus

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1 << 27
"""Larger reference images are left out."""


def images(folder: Path) -> list[tuple[Path, str | None]]:
    """Write our own images into a folder; list them, and the reference images that the tests have decompressed."""
    return written_images(folder) + [(path, None) for path in reference_images()]


def written_images(folder: Path) -> list[tuple[Path, str | None]]:
    """Write our own images into a folder; list them with their passwords."""
    found: list[tuple[Path, str | None]] = []
    for name, plan in of_apfs.PLANS.items():
        path = folder / f"written-apfs-{name}.img"
        write(plan, path)
        found.append((path, PASSWORD if name == "encrypted" else None))
    for name, volume in of_hfsplus.PLANS.items():
        path = folder / f"written-hfsplus-{name}.img"
        write_hfsplus(volume, path)
        found.append((path, None))
    return found


def reference_images() -> list[Path]:
    """List small sound images of drivers and of macOS with entries that need no password."""
    paths = sorted([*cache_dir().glob("driver/*.img"), *cache_dir().glob("apple/*.raw")])
    return [path for path in paths if path.stat().st_size <= MOST_BYTES and "encrypted" not in path.name]
