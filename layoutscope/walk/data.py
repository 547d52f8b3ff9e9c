"""Orders that read file data: ``copy`` and ``read``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.descent import descend, turns_of
from layoutscope.access.touches import columns, concatenated, interleaved
from layoutscope.arrays.ragged import ranges, starts_of
from layoutscope.walk.assemble import Timeline, read_pages_once, requested, requests
from layoutscope.walk.cache import cached_by_mount
from layoutscope.walk.directories import grouped_walk, listed_entries, lookups, reached, way_to
from layoutscope.walk.elevator import QueueRules, send
from layoutscope.walk.filemap import PAGE_BYTES, FilePieces, file_map, pieces
from layoutscope.walk.listing import buffers
from layoutscope.walk.readahead import ReadAhead, sequential_windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.model import Model
    from layoutscope.access.touches import Touches
    from layoutscope.access.trace import AccessTrace


def copy(model: Model, start_id: int) -> AccessTrace:
    """Walk as ``fts`` does and read each regular file when its turn comes.

    All entries of a directory are stat'ed before its first file is read; a sub-directory is walked in its turn. The
    cache is taken to hold all that is read: :attr:`HostProfile.cache_bytes` limits orders of metadata alone.
    """
    descent = listed_entries(model, descend(model.entries, start_id))
    cut = buffers(model, descent)
    walked, per_buffer = grouped_walk(model, descent, cut)
    entries, turn = _files_in_turn(model, descent)
    files = file_map(model, entries)
    file, begin, end = sequential_windows(files, model.host.read_ahead_bytes)
    parts = pieces(files, begin, end)
    fetched, each = _data_touches(model, parts, model.entries.parent_id[entries][file[parts.window]])
    per_file = np.bincount(file[parts.window], minlength=len(entries)) * each
    places = _by_turn([descent.turn[cut.directory], turn], [per_buffer, per_file])
    way = reached(model, start_id)
    window = np.full(len(way) + len(walked) + len(fetched), -1)
    window[len(way) + places[1]] = np.repeat(parts.window, each)
    return _trace(model, concatenated([way, interleaved([walked, fetched], places)]), window, parts)


def _files_in_turn(model: Model, descent: Descent) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entries of the files that have data, in the order of the walk, and their turns; each file once."""
    entries, turn = turns_of(descent, len(model.entries))
    wanted = np.flatnonzero(model.entries.is_file[entries] & (model.entries.size_bytes[entries] > 0))
    wanted = wanted[np.argsort(turn[wanted], kind="stable")]
    # When the second name of a hard link comes, the page cache has its data.
    _, first = np.unique(model.entries.file_id[entries[wanted]], return_index=True)
    wanted = wanted[np.sort(first)]
    return entries[wanted], turn[wanted]


def read(
    model: Model, file_id: int, records: NDArray[np.int64] | None = None, record_bytes: int | None = None
) -> AccessTrace:
    """Look one file up and read it: whole, or record by record.

    Parameters
    ----------
    model : Model
        The volume and its host.
    file_id : int
        The file.
    records : int64 array, optional
        Offsets of the records in the file, in bytes and in order; the whole file without it.
    record_bytes : int, optional
        Their length, a page without it.

    Raises
    ------
    ValueError
        If there is no such file.
    """
    way = way_to(model, file_id)
    if not way:
        raise ValueError(f"the volume lists no file {file_id}")
    entry = np.array(way[-1:], np.int64)
    files = file_map(model, entry)
    if records is None:
        _, begin, end = sequential_windows(files, model.host.read_ahead_bytes)
    else:
        begin, end = _record_windows(
            model, int(model.entries.size_bytes[entry[0]]), records, record_bytes or PAGE_BYTES
        )
    parts = pieces(files, begin, end)
    fetched, each = _data_touches(model, parts, np.full(len(parts), model.entries.parent_id[entry[0]]))
    searched, _ = lookups(model, np.array(way, np.int64))
    window = np.concatenate([np.full(len(searched), -1), np.repeat(parts.window, each)])
    return _trace(model, concatenated([searched, fetched]), window, parts)


def _record_windows(
    model: Model, size_bytes: int, records: NDArray[np.int64], record_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    state = ReadAhead(
        size_bytes,
        model.host.read_ahead_bytes // PAGE_BYTES,
        optimal_pages=model.host.optimal_read_bytes // PAGE_BYTES,
        detects_streams=model.host.random_read_ahead,
    )
    for offset in records.tolist():
        state.read(offset, record_bytes)
    windows = np.array(state.windows, np.int64).reshape(-1, 2) * PAGE_BYTES
    return windows[:, 0], windows[:, 1]


def _data_touches(model: Model, parts: FilePieces, directory_id: NDArray[np.uint64]) -> tuple[Touches, int]:
    """For each piece the leaf in which it is looked up, then the piece itself; holes are not read."""
    own = np.arange(len(parts), dtype=np.int32) + np.int32(len(model.nodes))
    data = np.where(parts.image_offset >= 0, own, -1).astype(np.int32)
    return columns([parts.node, data], [model.driver.extents_cause, "data"], directory_id, [0.0, 0.0]), 2


def _by_turn(turns: list[NDArray[np.int64]], counts: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Places of the elements of two sequences of groups that are merged by turn."""
    turn, count = np.concatenate(turns), np.concatenate(counts)
    order = np.argsort(turn, kind="stable")
    start = np.empty(len(turn), np.int64)
    start[order] = starts_of(count[order])
    edge = len(turns[0])
    return [ranges(start[:edge], count[:edge]), ranges(start[edge:], count[edge:])]


def _trace(model: Model, needed: Touches, window: NDArray[np.int64], parts: FilePieces) -> AccessTrace:
    """Apply the cache, cut nodes into requests, and let the host's queue order them.

    Parameters
    ----------
    model : Model
        The volume.
    needed : Touches
        Nodes and pieces.
    window : (n_touches,) int64 array
        Read-ahead window that each belongs to, -1 for those of the walk.
    parts : FilePieces
        What is numbered on behind the nodes.
    """
    made = requests(model)
    made = made.followed_by(parts.device, parts.image_offset, parts.length_bytes)
    reads, touch = read_pages_once(made, needed, model, len(model.nodes) + len(parts), cached_by_mount(model))
    in_turn, read = requested(model, made, Timeline(needed), reads, touch)
    sent = send(
        in_turn.image_offset,
        in_turn.length_bytes,
        window[touch[read]],
        reads.node[read] < len(model.nodes),
        QueueRules(model.driver.holds_last_piece, model.host.elevator, _largest_request(model)),
    )
    chosen = in_turn[sent.source]
    return replace(
        chosen,
        image_offset=chosen.image_offset + sent.skipped_bytes,
        length_bytes=sent.length_bytes,
        think_us=np.where(sent.skipped_bytes == 0, chosen.think_us, 0.0),
    )


def _largest_request(model: Model) -> int:
    """Bytes that fit into one request: a segment holds a page, or a block where blocks are smaller."""
    segment = min(PAGE_BYTES, model.layout.facts.block_size_bytes or PAGE_BYTES)
    return model.host.request_segments * segment


_MASK = 2**64 - 1


def random_records(size_bytes: int, count: int, record_bytes: int, seed: int) -> NDArray[np.int64]:
    """Draw offsets of whole records with splitmix64.

    Parameters
    ----------
    size_bytes : int
        Length of the file; its incomplete last record is never drawn.
    count, record_bytes : int
        How many records, and their length.
    seed : int
        State at the start.

    Returns
    -------
    (count,) int64 array
        Offsets in bytes, multiples of `record_bytes`.

    Raises
    ------
    ValueError
        If the file is shorter than a record.

    References
    ----------
    .. [1] Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.

    Examples
    --------
    >>> random_records(2**40, 2, 4096, seed=1).tolist() == random_records(2**40, 2, 4096, seed=1).tolist()
    True
    """
    places = size_bytes // record_bytes
    if places < 1:
        raise ValueError(f"a file of {size_bytes} bytes has no record of {record_bytes}")
    state, drawn = seed & _MASK, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        drawn.append(_mixed(state) % places * record_bytes)
    return np.array(drawn, np.int64)


def _mixed(state: int) -> int:
    mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _MASK
    return mixed ^ (mixed >> 31)
