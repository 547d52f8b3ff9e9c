"""Trees that are filled write by write, as a driver fills a new volume: what comes to lie together, and when.

The order of the writes decides how full nodes stay: one that is filled at its end leaves half of it behind at each
split, one that is filled in its middle fills up again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.native import Kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    I64 = NDArray[np.int64]

GROW_LEVEL: Final = Kernel("grow_level", "lllllnnnnLLIIIILLLLILLL")


class RecordWrites(NamedTuple):
    """What is written to a level of a tree, in the order of time; arrays of shape (n_writes,)."""

    record: I64  # place of the record in key order
    more: I64  # bytes by which its node holds more then: all of a new record, what an old one grows by, or none
    lost: I64  # bytes that it leaves unused in the node, until that is split
    when: I64  # when, on a clock that several trees share
    batch: I64  # in which transaction


class Grown(NamedTuple):
    """A level of a tree, its nodes in key order."""

    node: I64  # where each record lies
    born: I64  # when each node was split off
    seat: I64  # the same as its place among all nodes of the level
    # taken_by, taken_at: nodes that got a block, new ones and those that a transaction changes first, and when
    taken_by: I64
    taken_at: I64
    taken_in: I64  # in which transaction
    first: I64  # the record at which each node begins


@dataclass(frozen=True)
class SplitRule:
    """When nodes are split, and where."""

    capacity_bytes: int  # room for records
    stays_at_cut: bool  # whether a record that comes to the very cut stays, too
    # of a full node the records stay that fill this room, with the one that goes beyond it; without that one, if the
    # next record comes before it. If not given, half of the records stay, and the one in the middle.
    room_bytes: int | None = None
    less_per_record: int = 0  # bytes by which the room is less for each record that goes, as its offset does

    def cut(self, sizes: list[int], place: int) -> int:
        """Return how many records of a full node stay, given their sizes and the place that the next one gets."""
        if self.room_bytes is None:
            return len(sizes) - len(sizes) // 2
        beyond = self.room_bytes - self.less_per_record * len(sizes)
        filled = (size - self.less_per_record for size in sizes)
        kept = next((turn for turn, end in enumerate(accumulate(filled), 1) if end > beyond), len(sizes))
        kept = min(kept, len(sizes) - 1)
        return max(kept - (place < kept), 1)


class _Nodes:
    """The nodes of a level while it grows."""

    def __init__(self, num_records: int, rule: SplitRule) -> None:
        self.rule = rule
        self.size = [0] * num_records
        self.held: list[list[int]] = [[]]
        self.load, self.lost = [0], [0]
        self.first, self.order = [-1], [0]
        self.born, self.batch = [0], [0]
        # The first node is there before anything is written.
        self.taken = [(0, 0, 0)]

    def write(self, record: int, more: int, lost: int, when: int, batch: int) -> None:
        """Write a record; split what is too full for it."""
        at = bisect_right(self.first, record) - 1
        node = self.order[at]
        self._take(node, when, batch)
        is_new = not self.size[record]
        while self.load[node] + self.lost[node] + more + lost > self.rule.capacity_bytes and len(self.held[node]) > 1:
            at = self._split(at, (record, is_new), when, batch)
            node = self.order[at]
            lost = lost if is_new else 0
        if is_new:
            held = self.held[node]
            held.insert(bisect_left(held, record), record)
        self.size[record] += more
        self.load[node] += more
        self.lost[node] += lost

    def _take(self, node: int, when: int, batch: int) -> None:
        """Have a transaction take a block for a node that it has not changed yet."""
        if self.batch[node] != batch:
            self.batch[node] = batch
            self.taken.append((node, when, batch))

    def _split(self, at: int, wanted: tuple[int, bool], when: int, batch: int) -> int:
        """Split a node in two; returns where the wanted record belongs."""
        record, is_new = wanted
        node = self.order[at]
        held, sizes = self.held[node], [self.size[item] for item in self.held[node]]
        place = bisect_left(held, record)
        cut = self.rule.cut(sizes, place)
        new = len(self.held)
        self.held.append(held[cut:])
        del held[cut:]
        self.load.append(sum(sizes[cut:]))
        self.lost.append(0)
        self.load[node], self.lost[node] = sum(sizes[:cut]), 0
        self.born.append(when)
        self.batch.append(-1)
        self._take(new, when, batch)
        goes = place > cut or (place == cut and not (is_new and self.rule.stays_at_cut))
        begins = self.held[new][0]
        self.first.insert(at + 1, min(begins, record) if goes else begins)
        self.order.insert(at + 1, new)
        return at + goes

    def nodes(self) -> I64:
        """Return the place in key order of each record's node."""
        node = np.empty(len(self.size), np.int64)
        node[np.concatenate([np.array(self.held[each], np.int64) for each in self.order])] = np.repeat(
            np.arange(len(self.order)), [len(self.held[each]) for each in self.order]
        )
        return node


def grown(writes: RecordWrites, rule: SplitRule) -> Grown:
    """Write records to a level of a tree, one after the other, and split its nodes as its driver does.

    >>> at_end = RecordWrites(np.arange(8), np.full(8, 10), np.zeros(8, int), np.arange(8), np.zeros(8, int))
    >>> grown(at_end, SplitRule(40, stays_at_cut=True)).node.tolist()
    [0, 0, 1, 1, 2, 2, 2, 2]
    """
    num_records = int(writes.record.max(initial=-1)) + 1
    most, width = _room(writes, rule, num_records)
    size, node = np.empty((2, num_records), np.int64)
    held = np.empty(most * width, np.int32)
    count, first, order = np.empty((3, most), np.int32)
    load, lost, born, batch = np.empty((4, most), np.int64)
    num_takes = len(writes.record) + most
    by, (at, within) = np.empty(num_takes, np.int32), np.empty((2, num_takes), np.int64)
    num_taken = np.zeros(1, np.int64)
    room = -1 if rule.room_bytes is None else rule.room_bytes
    numbers = rule.capacity_bytes, room, rule.less_per_record, int(rule.stays_at_cut)
    nodes = held, count, first, order, load, lost, born, batch
    num_nodes = GROW_LEVEL(*writes, *numbers, size, node, *nodes, by, at, within, num_taken)
    if num_nodes is None:
        return plain_grown(writes, rule)
    taken = tuple(column[: num_taken[0]].astype(np.int64) for column in (by, at, within))
    return _in_key_order(node, (order[:num_nodes], first[:num_nodes], born[:num_nodes]), taken)


def _room(writes: RecordWrites, rule: SplitRule, num_records: int) -> tuple[int, int]:
    """Return for how many nodes the kernel gets room, and for how many records in each.

    Nodes are as good as never less than a quarter full; what needs more is refused, and done in Python.
    """
    size = np.zeros(num_records, np.int64)
    size[writes.record[::-1]] = writes.more[::-1]
    written = int(writes.more.sum() + writes.lost.sum())
    most = min(4 * written // max(rule.capacity_bytes, 1), num_records) + 2
    return most, max(rule.capacity_bytes // max(int(size.min(initial=rule.capacity_bytes)), 1), 1) + 1


def plain_grown(writes: RecordWrites, rule: SplitRule) -> Grown:
    """Do the same in Python: what the kernel is held against."""
    nodes = _Nodes(int(writes.record.max(initial=-1)) + 1, rule)
    for each in zip(*(column.tolist() for column in writes), strict=True):
        nodes.write(*each)
    by, at, batch = np.array(nodes.taken, np.int64).reshape(-1, 3).T
    return _in_key_order(nodes.nodes(), (nodes.order, nodes.first, nodes.born), (by, at, batch))


def _in_key_order(node: I64, nodes: tuple[ArrayLike, ArrayLike, ArrayLike], taken: tuple[I64, ...]) -> Grown:
    """Bring a level into key order, from the number of each node, where it begins, and when it was split off."""
    order, first, born = (np.asarray(column, np.int64) for column in nodes)
    by, at, batch = taken
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return Grown(node, born[order], order, place[by], at, batch, np.maximum(first, 0))


def grown_tree(writes: RecordWrites, rules: tuple[SplitRule, SplitRule], index_bytes: I64) -> list[Grown]:
    """Write records to a tree, and return its levels from the leaves up to the root."""
    leaf, index = rules
    levels = [grown(writes, leaf)]
    while len(levels[-1].born) > 1:
        below = levels[-1]
        index_bytes = index_bytes[below.first]
        order = np.argsort(below.seat)
        batch = np.zeros(len(order), np.int64)
        batch[below.taken_by[::-1]] = below.taken_in[::-1]
        none = np.zeros(len(order), np.int64)
        levels.append(grown(RecordWrites(order, index_bytes[order], none, below.born[order], batch[order]), index))
    return levels
