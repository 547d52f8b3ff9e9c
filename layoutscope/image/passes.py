"""Reading in passes: readers request addresses, and each pass reads all requested blocks once, by address.

A reader is a generator. It yields its requests, continues when they were served, and returns its result. Concurrent
readers share each pass, so the head of a disk crosses it once for all of them.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from layoutscope.image.source import Workspace
from layoutscope.progress import NULL_PHASE, phase
from layoutscope.structs.arrays import I64, U8, order_of, ordinals, owners

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from contextlib import AbstractContextManager

    from layoutscope.image.source import Source
    from layoutscope.progress import Phase

T = TypeVar("T")

PART_BYTES: Final = 8 << 20
"""Amount that is read at a time and handed over before the pass continues."""


class Want(NamedTuple):
    """Pieces of equal size that a reader requests."""

    source: Source
    image_offsets: I64
    size_bytes: int  # of each piece
    # take(rows, data): receives some of these pieces, by their position in `image_offsets`, in address order; `data`
    # has shape (len(rows), size_bytes) and is valid during the call
    take: Callable[[I64, U8], None]
    # minimum number of further passes that follow from these pieces: those with the most go first, so that the last
    # requests of all readers share one pass
    more: int = 0


Reading: TypeAlias = "Generator[Sequence[Want], None, T]"
"""A reader, which yields requests and returns its result."""


def read_together(readings: Sequence[Reading[T]]) -> list[T]:
    """Run readers concurrently and return their results. If several are served, the first continues first."""
    results: dict[int, T] = {}
    waiting: dict[int, Sequence[Want]] = {}
    ready = list(range(len(readings)))
    while ready or waiting:
        for number in ready:
            try:
                waiting[number] = next(readings[number])
            except StopIteration as end:
                results[number] = end.value
        most = max((want.more for wants in waiting.values() for want in wants), default=0)
        ready = sorted(number for number, wants in waiting.items() if all(want.more == most for want in wants))
        serve([want for number in ready for want in waiting.pop(number)])
    return [results[number] for number in range(len(readings))]


def read_alone(reading: Reading[T]) -> T:
    """Run one reader and return its result."""
    return read_together([reading])[0]


def serve(wants: Sequence[Want]) -> None:
    """Read the requested ranges in one pass over each source, from its start to its end."""
    for source in {id(want.source): want.source for want in wants}.values():
        _serve_source(source, [want for want in wants if want.source is source])


def _serve_source(source: Source, wants: Sequence[Want]) -> None:
    counts = np.array([len(want.image_offsets) for want in wants])
    owner, row = owners(counts), ordinals(counts)
    offset = np.concatenate([want.image_offsets for want in wants])
    size = np.repeat(np.array([want.size_bytes for want in wants], np.int64), counts)
    order = order_of(offset)
    part = np.cumsum(size[order]) // PART_BYTES
    workspace = Workspace()
    with phase_of_pass(source, int(size.sum())) as under_way:
        for by_address in np.split(order, np.flatnonzero(np.diff(part)) + 1):
            # Pieces of one reader end up together.
            chosen = by_address[np.argsort(owner[by_address], kind="stable")]
            data = source.read_extents(offset[chosen], size[chosen], workspace)
            bounds = np.searchsorted(owner[chosen], np.arange(len(wants) + 1))
            start = 0
            for want, first, last in zip(wants, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
                if first < last:
                    stop = start + (last - first) * want.size_bytes
                    want.take(row[chosen[first:last]], data[start:stop].reshape(last - first, want.size_bytes))
                    start = stop
            under_way.advance(len(data))


def phase_of_pass(source: Source, size_bytes: int) -> AbstractContextManager[Phase]:
    """Declare a pass as a phase, since its size is known before it starts. Short passes report no progress."""
    return phase(f"reading {source.name}", size_bytes) if size_bytes > PART_BYTES else nullcontext(NULL_PHASE)
