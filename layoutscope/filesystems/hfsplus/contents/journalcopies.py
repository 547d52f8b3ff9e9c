"""What a journal wrote last, to which places: its ring keeps transactions long after they were written to theirs.

TN1150, "Journal". The ring is written from its header on and begins anew at its end, so that behind the newest
transaction stand the oldest ones, the first of which is cut off. Nothing leads to them: their block lists are found by
their checksums, at each sector. Of two nodes with the same keys the one is the tree's that the
journal wrote later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus.tree.btree import pieces_of
from layoutscope.filesystems.hfsplus.volume.fork import ForkPieces, read_parts
from layoutscope.filesystems.hfsplus.volume.journal import read_list, unrolled
from layoutscope.frozen import frozen
from layoutscope.ondisk.records import BLOCK_LIST_HEADER_BE, BLOCK_LIST_HEADER_LE

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, U8
    from layoutscope.filesystems.hfsplus.tree.btree import TreeFile
    from layoutscope.filesystems.hfsplus.volume.journal import Journal
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

UNKNOWN: Final = -1
MOST_COMPARED: Final = 10_000
"""Nodes that are compared with the journal; there are more where a damaged volume repeats itself."""


def written_ages(volume: Volume, journal: Journal | None, file: TreeFile, numbers: I64) -> I64:
    """Say of some nodes which write of the journal they are from; it is read only where there are several of them.

    Counted from the oldest; -1 of nodes that are not what the journal wrote there last.
    """
    if len(numbers) < 2:
        return np.full(len(numbers), UNKNOWN, np.int64)
    return JournalCopies.of(volume, journal).ages(volume, file, numbers)


@frozen
class JournalCopies:
    """Blocks that stand in a journal, written to their places or not, the oldest first."""

    # volume_offset, length_bytes: where they belong
    volume_offset: I64
    length_bytes: I64
    data_start: I64  # their contents, in bytes from the start of `data`
    data: U8  # the ring in one piece

    @classmethod
    def of(cls, volume: Volume, journal: Journal | None) -> Self:
        """Find all block lists of a journal that are sound; none where there is no journal."""
        none = np.empty(0, np.int64)
        ring = _ring(volume, journal)
        if journal is None or journal.header is None or not len(ring):
            return cls(none, none, none, ring)
        found, end = [], 0
        for start in _list_starts(journal, volume, ring).tolist():
            # What stands inside of a transaction is a block of somebody's file, whatever it looks like.
            part = read_list(journal, volume, ring, start) if start >= end else ""
            if not isinstance(part, str):
                found.append((start, part))
                end = start + part.used_bytes
        # From the ring's start on come the transactions that are not yet in their places; those behind them are older.
        pending, sector = journal.num_pending_bytes, int(journal.header.len_header)
        parts = [part for _, part in sorted(found, key=lambda item: (item[0] < pending, item[0]))]
        places = np.concatenate([none, *(part.bnum * sector for part in parts)])
        sizes, starts = (
            np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in ("sizes", "starts")
        )
        return cls(places, sizes, starts, ring)

    def ages(self, volume: Volume, file: TreeFile, numbers: I64) -> I64:
        """Say which write nodes are from."""
        ages = np.full(len(numbers), UNKNOWN, np.int64)
        if not len(self.volume_offset):
            return ages
        pieces = pieces_of(volume, file.fork, file.node_size_bytes, numbers[:MOST_COMPARED])
        rows = zip(pieces.part.tolist(), pieces.volume_offset.tolist(), pieces.length_bytes.tolist(), strict=True)
        for place, at, size in rows:
            covers = (self.volume_offset <= at) & (at < self.volume_offset + self.length_bytes)
            last = int(np.flatnonzero(covers)[-1]) if covers.any() else UNKNOWN
            if last != UNKNOWN and self._is_copy(volume, last, at, size):
                ages[place] = max(int(ages[place]), last)
        return ages

    def _is_copy(self, volume: Volume, write: int, at: int, size: int) -> bool:
        """Whether a piece of the volume holds what a write put there, as far as the write goes."""
        inside = at - int(self.volume_offset[write])
        size = min(size, int(self.length_bytes[write]) - inside)
        start = int(self.data_start[write]) + inside
        piece = ForkPieces(*(np.array([value], np.int64) for value in (0, at, size)))
        return bool((read_parts(volume, piece) == self.data[start : start + size]).all())


def _ring(volume: Volume, journal: Journal | None) -> U8:
    """Read the journal's buffer; nothing where there is none, or where it cannot be read."""
    if journal is not None and journal.header is not None:
        try:
            return unrolled(volume, journal)
        except FormatError:
            pass
    return np.empty(0, np.uint8)


def _list_starts(journal: Journal, volume: Volume, ring: U8) -> I64:
    """Where block lists may start, by their counts: at sectors of the ring, in order."""
    if journal.header is None:
        return np.empty(0, np.int64)
    header = BLOCK_LIST_HEADER_LE if journal.is_little_endian else BLOCK_LIST_HEADER_BE
    list_size = int(journal.header.len_block_list)
    starts = np.arange(0, max(len(ring) - list_size, 0), int(journal.header.len_header), dtype=np.int64)
    head = volume.decoder.columns(header, ring, starts, (header.num_blocks, header.len_used))
    count, used = head["num_blocks"].astype(np.int64), head["len_used"].astype(np.int64)
    may_be: I64 = starts[(count >= 1) & (used >= list_size) & (used <= len(ring))]
    return may_be
