"""Which drive of a set serves which bytes: stripes, concatenations, Fusion sets.

Input: reads in bytes from the start of the set. Output: pieces, each on one drive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import UsageError
from layoutscope.structs.arrays import ordinals, owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile


class Parts(Struct, frozen=True):
    """Pieces of reads; all arrays have shape (n_parts,) and follow the order of the reads."""

    read: NDArray[np.int64]  # number of the read that a piece belongs to
    member: NDArray[np.int64]  # the drive, as an index into the leaves of the profile
    # offset, length_bytes: in bytes from the start of that drive
    offset: NDArray[np.int64]
    length_bytes: NDArray[np.int64]


def single_drives(profile: DriveProfile) -> list[DriveProfile]:
    """Return the single drives of a profile, in order."""
    if not profile.members:
        return [profile]
    return [leaf for member in profile.members for leaf in single_drives(member)]


def split(
    profile: DriveProfile, offset: NDArray[np.int64], length_bytes: NDArray[np.int64], device: NDArray[np.uint8]
) -> Parts:
    """Cut reads at the borders of drives."""
    parts = Parts(np.arange(len(offset), dtype=np.int64), np.zeros(len(offset), np.int64), offset, length_bytes)
    if profile.kind == "fusion":
        return _join(profile, parts, device.astype(np.int64))
    _check_capacity(profile, offset, length_bytes)
    return _split(profile, parts)


def _check_capacity(profile: DriveProfile, offset: NDArray[np.int64], length_bytes: NDArray[np.int64]) -> None:
    """Raise `UsageError` if a read ends beyond the drive."""
    end = int((offset + length_bytes).max(initial=0))
    if end > profile.capacity_bytes:
        raise UsageError(f"a read ends at byte {end:,}, drive {profile.name} at {profile.capacity_bytes:,}")


def _split(profile: DriveProfile, parts: Parts) -> Parts:
    if profile.kind == "stripe":
        return _join(profile, *stripe(parts, int(profile.number("chunk_bytes")), len(profile.members)))
    if profile.kind == "concat":
        bounds = np.cumsum([0, *(member.capacity_bytes for member in profile.members)])
        return _join(profile, *concatenation(parts, bounds))
    return parts


def _join(profile: DriveProfile, parts: Parts, member: NDArray[np.int64]) -> Parts:
    """Split each member's pieces further and number the drives through."""
    pieces, first = [], 0
    for k, drive in enumerate(profile.members):
        chosen = member == k
        inner = Parts(parts.read[chosen], parts.member[chosen], parts.offset[chosen], parts.length_bytes[chosen])
        _check_capacity(drive, inner.offset, inner.length_bytes)
        inner = _split(drive, inner)
        pieces.append(Parts(inner.read, inner.member + first, inner.offset, inner.length_bytes))
        first += len(single_drives(drive))
    return _sort_pieces(pieces)


def _sort_pieces(pieces: list[Parts]) -> Parts:
    order = np.argsort(np.concatenate([piece.read for piece in pieces]), kind="stable")
    names = ("read", "member", "offset", "length_bytes")
    return Parts(*(np.concatenate([getattr(piece, name) for piece in pieces])[order] for name in names))


def number_pieces(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row that each piece comes from, and its number within that row."""
    return owners(counts), ordinals(counts)


def stripe(parts: Parts, chunk_bytes: int, width: int) -> tuple[Parts, NDArray[np.int64]]:
    """Cut at the borders of chunks; chunk i lies on drive i modulo width."""
    end = parts.offset + parts.length_bytes
    first = parts.offset // chunk_bytes
    row, step = number_pieces(np.maximum(-(-end // chunk_bytes) - first, 1))
    chunk = first[row] + step
    begin = np.maximum(parts.offset[row], chunk * chunk_bytes)
    length = np.minimum(end[row], (chunk + 1) * chunk_bytes) - begin
    offset = (chunk // width) * chunk_bytes + begin - chunk * chunk_bytes
    # A read is done when the slowest of its pieces is; the drives work side by side.
    return Parts(parts.read[row], np.zeros(len(row), np.int64), offset, length), chunk % width


def concatenation(parts: Parts, bounds: NDArray[np.int64]) -> tuple[Parts, NDArray[np.int64]]:
    """Cut at the ends of drives; `bounds` are the sums of their sizes, from 0."""
    end = parts.offset + parts.length_bytes
    first = np.searchsorted(bounds, parts.offset, side="right") - 1
    last = np.searchsorted(bounds, end, side="left") - 1
    row, step = number_pieces(np.maximum(last - first, 0) + 1)
    member = first[row] + step
    begin = np.maximum(parts.offset[row], bounds[member])
    length = np.minimum(end[row], bounds[member + 1]) - begin
    return Parts(parts.read[row], np.zeros(len(row), np.int64), begin - bounds[member], length), member
