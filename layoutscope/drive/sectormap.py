"""The map of all sectors of a disk, as parameter extraction finds it: a file beside the profile.

Six columns of little-endian 32-bit numbers, one after another, a row for each run of consecutive sectors on a track:
sectors, cylinder, head, first sector on the track, sectors a track holds, angle of the first sector. Cylinder, head and
angle are differences to the row before, modulo 2**32. Compressed with zstd.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope import inputs
from layoutscope.drive import surface
from layoutscope.drive.limits import MAX_CYLINDERS, MAX_HEADS, unpacked
from layoutscope.drive.surface import SECTOR_BYTES
from layoutscope.errors import ImageError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile

MAX_PACKED_BYTES: Final = 1 << 28
"""Of a map as it is stored; that of a disk of 147 GB has half a megabyte."""

COLUMNS: Final = 6
SECTORS, CYLINDERS, HEADS, _, TRACK_SECTORS, ANGLES = range(COLUMNS)
CELL_BYTES: Final = 4


def mapped_runs(profile: DriveProfile) -> NDArray[np.int64]:
    """Return the runs of a disk whose profile has a map."""
    name = profile.text("map_file", "")
    try:
        runs = _runs(_packed(profile.folder, name))
    except (OSError, ImageError, ValueError) as error:
        raise UsageError(f"drive profile {profile.name}: {name} is no map of sectors: {error}") from error
    end = int(runs[-1, surface.LBN]) * SECTOR_BYTES
    if end < profile.capacity_bytes:
        raise UsageError(f"drive profile {profile.name}: {name} ends at byte {end:,}, the drive later")
    return runs


def _packed(folder: Path, name: str) -> bytes:
    """Read the file that a profile, which may be a stranger's, names; it lies beside it, and is no other one."""
    if name != Path(name).name:
        raise ValueError("it does not lie beside the profile")
    inputs.note(folder / name)
    with inputs.open_file(folder / name) as file:
        data = file.read(MAX_PACKED_BYTES + 1)
    if len(data) > MAX_PACKED_BYTES:
        raise ValueError(f"it is longer than {MAX_PACKED_BYTES:,} bytes")
    return data


@lru_cache(maxsize=2)
def _runs(packed: bytes) -> NDArray[np.int64]:
    """Read a map; the last ones are kept, since they are large."""
    raw = unpacked(packed)
    if not raw or len(raw) % (COLUMNS * CELL_BYTES):
        raise ValueError(f"{len(raw)} bytes are no {COLUMNS} columns")
    columns = np.frombuffer(raw, np.dtype(np.uint32).newbyteorder("<")).reshape(COLUMNS, -1)
    cylinder, head, angle = (np.cumsum(columns[k], dtype=np.uint32) for k in (CYLINDERS, HEADS, ANGLES))
    _check(columns, cylinder, head)
    runs = np.zeros((columns.shape[1] + 1, 8), np.int64)
    runs[1:, surface.LBN] = np.cumsum(columns[SECTORS], dtype=np.int64)
    runs[:-1, surface.CYLINDER] = cylinder
    runs[:-1, surface.HEAD] = head
    runs[:-1, surface.SECTOR] = surface.TURN // columns[TRACK_SECTORS].astype(np.int64)
    runs[:-1, surface.ANGLE] = angle
    runs[:-1, surface.TRACK_SECTORS] = columns[TRACK_SECTORS]
    return _with_tracks(runs)


def _check(columns: NDArray[np.uint32], cylinder: NDArray[np.uint32], head: NDArray[np.uint32]) -> None:
    """Refuse runs without a sector or longer than their track, and places that no disk has."""
    if not columns[SECTORS].all() or (columns[SECTORS] > columns[TRACK_SECTORS]).any():
        raise ValueError("a run has no sector, or more than its track")
    if cylinder.max() >= MAX_CYLINDERS or head.max() >= MAX_HEADS:
        raise ValueError(f"it has cylinder {cylinder.max():,} and head {head.max():,}")


def _with_tracks(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Fill in where the track of each run begins and ends."""
    place = runs[:-1, [surface.CYLINDER, surface.HEAD]]
    starts = np.flatnonzero(np.append(True, (np.diff(place, axis=0) != 0).any(axis=1)))
    bounds = np.append(runs[starts, surface.LBN], runs[-1, surface.LBN])
    track = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(place))))
    runs[:-1, surface.TRACK_BEGIN] = bounds[track]
    runs[:-1, surface.TRACK_END] = bounds[track + 1]
    return runs
