"""Reading many extents in address order, in large requests, without a loop per extent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.errors import TruncatedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.image.source import Source


def read_extents(
    source: Source, image_offsets: NDArray[np.int64], lengths_bytes: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Read extents in address order; see :meth:`Source.read_extents`."""
    starts = np.ascontiguousarray(image_offsets, np.int64)
    lengths = np.ascontiguousarray(lengths_bytes, np.int64)
    _check(source, starts, lengths)
    out_starts = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    order = np.argsort(starts, kind="stable")
    for group in _requests(starts[order], lengths[order]):
        members = order[group]
        _scatter(source, starts[members], lengths[members], out, out_starts[members])
    return out


def _check(source: Source, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    bad = (starts < 0) | (lengths < 0) | (starts > source.size_bytes - lengths)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise TruncatedError(
            "extent leaves the image",
            structure=f"{lengths[first]} bytes",
            image_offset=int(starts[first]),
            expected=f"an end at or before byte {source.size_bytes:,}",
            found=f"{int(starts[first]) + int(lengths[first]):,}",
        )


def _requests(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[slice]:
    """Split sorted extents into runs that one request fetches."""
    from layoutscope.image.source import MAX_REQUEST_BYTES, MERGE_GAP_BYTES

    if not len(starts):
        return []
    ends = np.maximum.accumulate(starts + lengths)
    breaks = np.flatnonzero(starts[1:] - ends[:-1] > MERGE_GAP_BYTES) + 1
    bounds = np.concatenate([[0], breaks, [len(starts)]])
    pieces: list[slice] = []
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        buckets = (starts[first:last] - starts[first]) // MAX_REQUEST_BYTES
        cuts = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), last - first]
        pieces += [slice(first + a, first + b) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    return pieces


def _scatter(
    source: Source,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
    out_starts: NDArray[np.int64],
) -> None:
    """Fetch one run and put each extent where it belongs."""
    base = int(starts[0])
    data = source.read_array(base, int((starts + lengths).max()) - base)
    unit = int(lengths[0])
    if unit and (lengths == unit).all():
        rows = np.ndarray((len(data) - unit + 1, unit), np.uint8, data, strides=(1, 1))
        windows = np.ndarray((len(out) - unit + 1, unit), np.uint8, out, strides=(1, 1))
        windows[out_starts] = rows[starts - base]
        return
    for start, length, target in zip((starts - base).tolist(), lengths.tolist(), out_starts.tolist(), strict=True):
        out[target : target + length] = data[start : start + length]
