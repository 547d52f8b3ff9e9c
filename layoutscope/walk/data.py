"""Orders that read file data: ``copy`` and ``read``."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace

from layoutscope.access.descent import turns_of
from layoutscope.access.trace import FixedPlaces, columns, concatenate, interleave_touches
from layoutscope.errors import UsageError
from layoutscope.structs.arrays import ranges, starts_of
from layoutscope.walk.directories import drop_unlisted_entries, look_up_start, lookups, stat_walk, way_to
from layoutscope.walk.readahead import (
    PAGE_BYTES,
    ReadAhead,
    file_map,
    growing_windows,
    pieces,
    send,
    sequential_windows,
)
from layoutscope.walk.visits import read_passes, request_reads, requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.driver import Model
    from layoutscope.access.trace import AccessTrace, Touches


class FileTouches(NamedTuple):
    """Touches of a workload that reads files, before any cache."""

    needed: Touches  # nodes and pieces
    window: NDArray[np.int64]  # read-ahead window of each touch, -1 for touches of the walk
    parts: FixedPlaces  # pieces of files, numbered after the nodes; -1 is the offset of holes


def copy(model: Model, start_id: int) -> FileTouches:
    """Walk as ``fts`` does and read each regular file in its turn.

    All entries of a directory are stat'ed before its first file is read; a sub-directory is walked in its turn.
    """
    descent = drop_unlisted_entries(model, model.descend(start_id))
    visits = stat_walk(model, descent)
    walked, per_buffer = visits.lay_out()
    walk = walked, descent.turn[visits.directory], per_buffer
    return read_in_turn(
        model, [walk], files_in_turn(model, descent, model.entries.is_file), look_up_start(model, start_id)
    )


WalkPart: TypeAlias = "tuple[Touches, NDArray[np.int64], NDArray[np.int64]]"
"""Part of the touches of a walk: all touches group by group, the turn of each group, and its number of touches."""


def read_in_turn(
    model: Model,
    steps: Sequence[WalkPart],
    wanted: tuple[NDArray[np.int64], NDArray[np.int64]],
    way: Touches,
    first_bytes: NDArray[np.int64] | None = None,
) -> FileTouches:
    """Read files in their turns within a walk."""
    entries, turn = wanted
    files, largest = file_map(model, entries), model.host.read_ahead_bytes
    if first_bytes is not None and model.host.random_read_ahead:
        file, begin, end = growing_windows(files, largest, first_bytes)
    else:
        file, begin, end = sequential_windows(files, largest)
    of_piece, leaf, parts = pieces(files, begin, end)
    fetched = _data_touches(model, leaf, parts, model.entries.parent_id[entries][file[of_piece]])
    per_file = np.bincount(file[of_piece], minlength=len(entries)) * TOUCHES_OF_PIECE
    needed, turns, touched = zip(*steps, (fetched, turn, per_file), strict=True)
    places = places_by_turn(turns, touched)
    walked = interleave_touches(needed, places)
    window = np.full(len(way) + len(walked), -1)
    window[len(way) + places[-1]] = np.repeat(of_piece, TOUCHES_OF_PIECE)
    return FileTouches(concatenate([way, walked]), window, parts)


def files_in_turn(
    model: Model, descent: Descent, has_data: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the files that have data, in the order of a walk, and their turns."""
    entries, turn = turns_of(descent, len(model.entries))
    wanted = np.flatnonzero(has_data[entries] & (model.entries.size_bytes[entries] > 0))
    wanted = wanted[np.argsort(turn[wanted], kind="stable")]
    # At the second name of a hard link, the page cache already has its data.
    _, first = np.unique(model.entries.file_id[entries[wanted]], return_index=True)
    wanted = wanted[np.sort(first)]
    return entries[wanted], turn[wanted]


def read(
    model: Model,
    file_id: int,
    # offsets of the records in the file, in bytes and ascending; None reads the whole file
    records: NDArray[np.int64] | None = None,
    record_bytes: int | None = None,  # length of a record; None means a page
) -> FileTouches:
    """Look one file up and read it: whole, or record by record."""
    way = way_to(model, file_id)
    if not way:
        raise UsageError(f"the volume lists no file {file_id} that could be read")
    entry = np.array(way[-1:], np.int64)
    files = file_map(model, entry)
    if records is None:
        _, begin, end = sequential_windows(files, model.host.read_ahead_bytes)
    else:
        state = ReadAhead(
            int(model.entries.size_bytes[entry[0]]),
            model.host.read_ahead_bytes // PAGE_BYTES,
            optimal_pages=model.host.optimal_read_bytes // PAGE_BYTES,
            detects_streams=model.host.random_read_ahead,
        )
        for offset in records.tolist():
            state.read(offset, record_bytes or PAGE_BYTES)
        begin, end = (np.array(state.windows, np.int64).reshape(-1, 2) * PAGE_BYTES).T
    of_piece, leaf, parts = pieces(files, begin, end)
    fetched = _data_touches(model, leaf, parts, np.full(len(parts), model.entries.parent_id[entry[0]]))
    searched, _ = lookups(model, np.array(way, np.int64))
    window = np.concatenate([np.full(len(searched), -1), np.repeat(of_piece, TOUCHES_OF_PIECE)])
    return FileTouches(concatenate([searched, fetched]), window, parts)


TOUCHES_OF_PIECE = 2


def _data_touches(
    model: Model, leaf: NDArray[np.int32], parts: FixedPlaces, directory_id: NDArray[np.uint64]
) -> Touches:
    """Touch, for each piece, the leaf in which it is looked up and then the piece itself; holes are not read."""
    own = np.arange(len(parts), dtype=np.int32) + np.int32(len(model.nodes))
    data = np.where(parts.image_offset >= 0, own, -1).astype(np.int32)
    return columns([leaf, data], [model.driver.extents_cause, "data"], directory_id, [0.0, 0.0])


def places_by_turn(turns: Sequence[NDArray[np.int64]], counts: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Return the places of the elements of several sequences of groups after a merge by turn."""
    turn, count = np.concatenate(turns), np.concatenate(counts)
    order = np.argsort(turn, kind="stable")
    start = np.empty(len(turn), np.int64)
    start[order] = starts_of(count[order])
    edges = np.cumsum([0, *map(len, turns)]).tolist()
    return [ranges(start[begin:end], count[begin:end]) for begin, end in pairwise(edges)]


def merge_by_turn(steps: Sequence[WalkPart]) -> Touches:
    """Merge the parts of a walk by turn."""
    needed, turns, counts = zip(*steps, strict=True)
    return interleave_touches(needed, places_by_turn(turns, counts))


def data_trace(model: Model, found: FileTouches) -> AccessTrace:
    """Make the reads of a workload that runs once, as :func:`file_reads` does."""
    return file_reads(model, [(found.needed, found.window)], found.parts)


def file_reads(
    model: Model, passes: Sequence[tuple[Touches, NDArray[np.int64]]], parts: FixedPlaces, *, uncounted: int = 0
) -> AccessTrace:
    """Apply the cache, cut nodes into requests, and let the host's queue order them.

    A cache of limited size holds or evicts a piece as a whole.
    """
    made = requests(model).append_requests([parts])
    reads, window, at_us = read_passes(model, made, passes, model.host.cache_bytes, uncounted, parts.length_bytes)
    in_turn, read = request_reads(model, made, reads, at_us)
    # A segment of a request holds a page, or a block if blocks are smaller.
    segment = min(PAGE_BYTES, model.layout.facts.block_size_bytes or PAGE_BYTES)
    source, skipped_bytes, length_bytes = send(
        in_turn.image_offset,
        in_turn.length_bytes,
        window[read],
        reads.node[read] < len(model.nodes),
        holds_last=model.driver.holds_last_piece,
        sorts=model.host.elevator,
        largest_bytes=model.host.request_segments * segment,
    )
    chosen = in_turn[source]
    return replace(
        chosen,
        image_offset=chosen.image_offset + skipped_bytes,
        length_bytes=length_bytes,
        think_us=np.where(skipped_bytes == 0, chosen.think_us, 0.0),
    )


_MASK = 2**64 - 1


def random_records(size_bytes: int, count: int, record_bytes: int, seed: int) -> NDArray[np.int64]:
    """Draw offsets of whole records with splitmix64.

    The offsets are in bytes and are multiples of `record_bytes`.

    [1] Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.

    >>> random_records(2**40, 2, 4096, seed=1).tolist() == random_records(2**40, 2, 4096, seed=1).tolist()
    True
    """
    places = size_bytes // record_bytes
    if places < 1:
        raise ValueError(f"a file of {size_bytes} bytes has no record of {record_bytes}")
    state, drawn = seed & _MASK, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _MASK
        drawn.append((mixed ^ (mixed >> 31)) % places * record_bytes)
    return np.array(drawn, np.int64)
