"""Reference for the kernel: a tree level that grows record by record."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.aging.trees import BALANCED, GrownLevel, _order_level

if TYPE_CHECKING:
    from layoutscope.aging.trees import I64, RecordWrites, SplitRule


def cut(rule: SplitRule, sizes: list[int], place: int) -> int:
    """Return how many records of a full node stay, from their sizes and the position of the next record."""
    if rule.room_bytes < 0:
        return len(sizes) - len(sizes) // 2
    beyond = rule.room_bytes - rule.less_per_record * len(sizes)
    filled = (size - rule.less_per_record for size in sizes)
    kept = next((turn for turn, end in enumerate(accumulate(filled), 1) if end > beyond), len(sizes))
    kept = min(kept, len(sizes) - 1)
    return max(kept - (place < kept), 1)


class Nodes:
    """The nodes of a level while it grows."""

    def __init__(self, num_records: int, rule: SplitRule) -> None:
        self.rule = rule
        self.balances = rule.room_bytes == BALANCED
        self.size = [0] * num_records
        self.held: list[list[int]] = [[]]
        self.load, self.lost = [0], [0]
        self.first, self.order = [-1], [0]
        self.born, self.batch = [0], [0]
        # The first node exists before any write.
        self.taken = [(0, 0, 0)]

    def write(self, record: int, more: int, lost: int, when: int, batch: int) -> None:
        """Write a record and split an overfull node."""
        at = bisect_right(self.first, record) - 1
        node = self.order[at]
        self._take(node, when, batch)
        is_new = not self.size[record]
        while not self.balances and self._is_too_full(node, more + lost):
            at = self._split(at, (record, is_new), when, batch)
            node = self.order[at]
            lost = lost if is_new else 0
        if is_new:
            held = self.held[node]
            held.insert(bisect_left(held, record), record)
        self.size[record] += more
        self.load[node] += more
        self.lost[node] += lost
        if self.balances:
            self._spread(at, when, batch)

    def delete(self, record: int) -> None:
        """Delete a record, and its node if the record was the last one."""
        at = bisect_right(self.first, record) - 1
        node = self.order[at]
        self.held[node].remove(record)
        self.load[node] -= self.size[record]
        self.size[record] = 0
        if not self.held[node] and len(self.order) > 1:
            del self.order[at], self.first[at]
            self.first[0] = -1
        elif at:
            self.first[at] = self.held[node][0]

    def _is_too_full(self, node: int, more: int) -> bool:
        return self.load[node] + self.lost[node] + more > self.rule.capacity_bytes and len(self.held[node]) > 1

    def _spread(self, at: int, when: int, batch: int) -> None:
        """Make room in an overfull node: in the previous node, or else in a new one before it."""
        node = self.order[at]
        while self.load[node] > self.rule.capacity_bytes and len(self.held[node]) > 1:
            if at and self._balance(at, is_new=False):
                self._take(self.order[at - 1], when, batch)
                return
            for column, value in ((self.held, []), (self.load, 0), (self.lost, 0), (self.born, when), (self.batch, -1)):
                column.append(value)
            self._take(len(self.held) - 1, when, batch)
            self.first.insert(at, self.first[at])
            self.order.insert(at, len(self.held) - 1)
            at += 1
            assert self._balance(at, is_new=True)

    def _balance(self, at: int, *, is_new: bool) -> bool:
        """Move the first records of a node to the previous one if the rest then fits, and to a new one in any case."""
        left, right = self.order[at - 1], self.order[at]
        sizes = [self.size[item] for item in self.held[right]]
        before = list(accumulate(sizes, initial=self.load[left]))
        behind = [self.load[left] + self.load[right] - each for each in before]
        number = next(turn for turn, (one, other) in enumerate(zip(before, behind, strict=True)) if one >= other)
        number = max(number - (before[number] > self.rule.capacity_bytes), int(is_new), 0)
        if not is_new and behind[number] > self.rule.capacity_bytes:
            return False
        self.held[left] += self.held[right][:number]
        del self.held[right][:number]
        self.load[left], self.load[right] = before[number], behind[number]
        if number:
            self.first[at] = self.held[right][0]
        return True

    def _take(self, node: int, when: int, batch: int) -> None:
        """Take a block for a node that the transaction has not changed yet."""
        if self.batch[node] != batch:
            self.batch[node] = batch
            self.taken.append((node, when, batch))

    def _split(self, at: int, wanted: tuple[int, bool], when: int, batch: int) -> int:
        """Split a node in two; return where the new record belongs."""
        record, is_new = wanted
        node = self.order[at]
        held, sizes = self.held[node], [self.size[item] for item in self.held[node]]
        place = bisect_left(held, record)
        stay = cut(self.rule, sizes, place)
        new = len(self.held)
        self.held.append(held[stay:])
        del held[stay:]
        self.load.append(sum(sizes[stay:]))
        self.lost.append(0)
        self.load[node], self.lost[node] = sum(sizes[:stay]), 0
        self.born.append(when)
        self.batch.append(-1)
        self._take(new, when, batch)
        goes = place > stay or (place == stay and not (is_new and self.rule.stays_at_cut))
        begins = self.held[new][0]
        self.first.insert(at + 1, min(begins, record) if goes else begins)
        self.order.insert(at + 1, new)
        return at + goes

    def nodes(self) -> I64:
        """Return the rank in key order of each record's node."""
        node = np.empty(len(self.size), np.int64)
        node[np.concatenate([np.array(self.held[each], np.int64) for each in self.order])] = np.repeat(
            np.arange(len(self.order)), [len(self.held[each]) for each in self.order]
        )
        return node


def plain_grown(writes: RecordWrites, rule: SplitRule) -> GrownLevel:
    """Grow a level in Python; the reference for the kernel."""
    nodes = Nodes(int(writes.record.max(initial=-1)) + 1, rule)
    for each in zip(*(column.tolist() for column in writes), strict=True):
        nodes.write(*each)
    by, at, batch = np.array(nodes.taken, np.int64).reshape(-1, 3).T
    return _order_level(nodes.nodes(), (nodes.order, nodes.first, nodes.born), (by, at, batch))
