"""A transaction of APFS as it ages: who takes blocks in it, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from layoutscope.aging.edits import NodeTouches
from layoutscope.arrays.ragged import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.aging.volume import Data

    I64 = NDArray[np.int64]

NODES, DATA, REFERENCES = range(3)
"""What takes blocks."""


class FileWork(NamedTuple):
    """What a transaction does to files; turns are the places of operations in it."""

    # turn, need, ident: when each new file is written, its blocks, its number
    turn: I64
    need: I64
    ident: I64
    # gone, gone_turn: first blocks of extents that are deleted, and when
    gone: I64
    gone_turn: I64


def joined_turns(turns: tuple[I64, ...], counts: tuple[I64, ...]) -> tuple[I64, I64, I64]:
    """Join what takes blocks: when, what it is, and how many blocks it takes."""
    kind = np.repeat(np.arange(len(turns)), [len(part) for part in turns])
    return np.concatenate(turns), kind, np.concatenate(counts)


def order_of_blocks(turn: I64, kind: I64, at_commit: bool) -> I64:
    """Return the order in which blocks are taken: nodes before the data that belong to them, references behind."""
    if at_commit:
        return np.lexsort((np.where(kind == DATA, turn, 0), kind != DATA))
    return np.lexsort((kind, turn))


def new_extents(given: I64, work: FileWork) -> tuple[I64, I64]:
    """Return the first blocks of the extents of new files, and when they were written."""
    file = np.repeat(np.arange(len(work.need)), work.need)
    cuts = (np.diff(file, prepend=-2) != 0) | (np.diff(given, prepend=-2) != 1)
    return given[cuts], work.turn[file[cuts]]


def touches_within(touched: NodeTouches, first: int, stop: int) -> NodeTouches:
    """Return what changes from one turn to another."""
    mine = (touched.turn >= first) & (touched.turn < stop)
    return NodeTouches(touched.level[mine], touched.node[mine], touched.turn[mine])


def blocks_of_extents(data: Data, rows: NDArray[np.bool_]) -> I64:
    """Return the blocks of some extents."""
    return np.asarray(ranges(data.start[rows], data.count[rows]), np.int64)
