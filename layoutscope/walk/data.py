"""Orders that read file data: ``copy`` and ``read``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.walk.cache import read_once
from layoutscope.walk.descent import descend, turns_of
from layoutscope.walk.directories import grouped_walk, listed_entries, lookups, reached, way_to
from layoutscope.walk.elevator import send
from layoutscope.walk.filemap import PAGE_BYTES, Pieces, file_map, pieces
from layoutscope.walk.listing import buffers
from layoutscope.walk.mount import mounted
from layoutscope.walk.ranges import run_positions, starts_of
from layoutscope.walk.readahead import ReadAhead, sequential_windows
from layoutscope.walk.requests import requests
from layoutscope.walk.touches import CAUSES, columns, concatenated, merged
from layoutscope.walk.trace import AccessTrace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.walk.descent import Descent
    from layoutscope.walk.model import Model
    from layoutscope.walk.touches import Touches


NO_DATA: Final = Pieces(
    np.array([-1]), np.array([-1]), np.array([0]), np.array([0], np.uint8), np.array([-1], np.int32)
)
"""One piece that is never read, where no file has data."""


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
    read, each = _data_touches(model, parts, model.entries.parent_id[entries][file[parts.window]])
    per_file = np.bincount(file[parts.window], minlength=len(entries)) * each
    places = _by_turn([descent.turn[cut.directory], turn], [per_buffer, per_file])
    return _trace(model, concatenated([reached(model, start_id), merged([walked, read], places)]), parts)


def _files_in_turn(model: Model, descent: Descent) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entries of the files that have data, in the order of the walk, and their turns; each file once."""
    entries, turn = turns_of(descent, len(model.entries))
    wanted = np.flatnonzero(model.entries.is_file[entries] & (model.entries.size_bytes[entries] > 0))
    wanted = wanted[np.argsort(turn[wanted], kind="stable")]
    _, first = np.unique(model.entries.file_id[entries[wanted]], return_index=True)
    wanted = wanted[np.sort(first)]
    return entries[wanted], turn[wanted]


def read(
    model: Model, file_id: int, records: NDArray[np.int64] | None = None, record_bytes: int | None = None
) -> AccessTrace:
    """Look one file up and read it: whole, or record by record.

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
    data, _ = _data_touches(model, parts, np.full(len(parts), model.entries.parent_id[entry[0]]))
    return _trace(model, concatenated([lookups(model, np.array(way, np.int64))[0], data]), parts)


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


def _data_touches(model: Model, parts: Pieces, directory_id: NDArray[np.uint64]) -> tuple[Touches, int]:
    """For each piece the leaf in which it is looked up, then the piece itself; holes are not read."""
    own = np.arange(len(parts), dtype=np.int32) + np.int32(len(model.nodes))
    data = np.where(parts.image_offset >= 0, own, -1).astype(np.int32)
    cause = "overflow" if model.is_hfsplus else "extents"
    return columns([parts.node, data], [cause, "data"], directory_id, [0.0, 0.0]), 2


def _by_turn(turns: list[NDArray[np.int64]], counts: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Places of the elements of two sequences of groups that are merged by turn."""
    turn, count = np.concatenate(turns), np.concatenate(counts)
    order = np.argsort(turn, kind="stable")
    start = np.empty(len(turn), np.int64)
    start[order] = starts_of(count[order])
    edge = len(turns[0])
    return [run_positions(start[:edge], count[:edge]), run_positions(start[edge:], count[edge:])]


def _trace(model: Model, needed: Touches, parts: Pieces) -> AccessTrace:
    """Apply the cache, cut nodes into requests, and let the host's queue order them."""
    n_nodes = len(model.nodes)
    known = mounted(model)
    reads, think_us, _ = read_once(needed, model.nodes, n_nodes + len(parts), known)
    parts = parts if len(parts) else NO_DATA
    made = requests(model.layout, model.nodes, model.host)
    if made.are_shared:
        new = made.new(reads.node, known)
        reads, think_us = reads[new], np.diff(np.cumsum(think_us)[new], prepend=0.0)
    is_data = reads.node >= n_nodes
    piece = np.where(is_data, reads.node - n_nodes, 0)
    unit = np.where(is_data, 0, made.unit[np.where(is_data, 0, reads.node)])
    count = np.where(is_data, 1, made.start[unit + 1] - made.start[unit])
    source = np.repeat(np.arange(len(reads)), count)
    place = np.minimum(run_positions(made.start[unit], count), max(len(made.image_offset) - 1, 0))
    data, piece = is_data[source], piece[source]
    offset = np.where(data, parts.image_offset[piece], made.image_offset[place])
    length = np.where(data, parts.length_bytes[piece], made.length_bytes[place])
    window = np.where(data, parts.window[piece], -1)
    begins = np.diff(source, prepend=-1) != 0
    segment = min(PAGE_BYTES, model.layout.facts.block_size_bytes or PAGE_BYTES)
    largest = model.host.request_segments * segment
    sent = send(
        offset,
        length,
        window,
        holds_last=not model.is_hfsplus,
        sorts=model.host.elevator,
        largest_bytes=largest,
    )
    tree = np.where(data, len(model.nodes.trees), model.nodes.tree[np.where(is_data, 0, reads.node)][source])
    chosen = sent.source
    return AccessTrace(
        device=np.where(data, parts.device[piece], made.device[place])[chosen].astype(np.uint8),
        image_offset=offset[chosen] + sent.skipped_bytes,
        length_bytes=sent.length_bytes,
        cause=reads.cause[source][chosen],
        tree=tree[chosen].astype(np.uint8),
        directory_id=reads.directory_id[source][chosen],
        issuer=np.zeros(len(chosen), np.uint16),
        think_us=np.where(sent.skipped_bytes == 0, np.where(begins, think_us[source], 0.0)[chosen], 0.0),
        causes=CAUSES,
        trees=(*model.nodes.trees, "data"),
    )
