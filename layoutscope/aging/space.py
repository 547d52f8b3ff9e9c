"""Blocks of a volume: which are free, and which of them are taken next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import LayoutscopeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

MOST_BLOCKS: Final = 1 << 28
"""Blocks whose use is followed one by one, 1 TiB of 4 KiB; free ones beyond them are left out."""


class FullError(LayoutscopeError):
    """A volume has no room for what a forecast writes."""


class FreeBlocks:
    """Free blocks.

    >>> space = FreeBlocks(np.array([2, 9]), np.array([3, 100]))
    >>> space.take(4).tolist(), space.num_free
    ([2, 3, 4, 9], 99)
    >>> space.give_back(np.array([3]))
    >>> space.take(2).tolist(), space.take(1, after=50).tolist()
    ([3, 10], [50])
    """

    def __init__(
        self,
        free_start: I64,  # free_start, free_count: runs of free blocks, in ascending order
        free_count: I64,
    ) -> None:
        self.end = min(int((free_start + free_count).max(initial=0)), MOST_BLOCKS)
        # Behind the start of the last run nothing was ever used: its blocks are followed only when they are reached.
        self._used = np.ones(min(int(free_start.max(initial=0)), self.end), bool)
        for start, count in zip(free_start.tolist(), free_count.tolist(), strict=True):
            self._used[start : start + count] = False
        self.num_free = int(np.minimum(free_count, np.maximum(self.end - free_start, 0)).sum())
        self._low = int(np.argmin(self._used)) if len(self._used) else 0
        self._pinned = np.empty(0, np.int64)

    @property
    def num_pinned(self) -> int:
        """How many blocks are never free again."""
        return len(self._pinned)

    def pin(self, blocks: I64) -> None:
        """Keep blocks from ever being free again: snapshots hold them."""
        self._pinned = np.unique(blocks)

    def copy(self) -> FreeBlocks:
        """Return the same blocks, to be taken apart from these."""
        made = FreeBlocks(np.empty(0, np.int64), np.empty(0, np.int64))
        vars(made).update(vars(self), _used=self._used.copy())
        return made

    def take(self, count: int, after: int = 0, *, is_try: bool = False) -> I64:
        """Take the first free blocks, from a block on, and from the first where there are too few behind it."""
        self.check_room(count)
        found = self._free_from(max(after, self._low), count)
        if len(found) < count:
            rest = self._free_from(self._low, count)
            found = np.concatenate([found, rest[~np.isin(rest, found)][: count - len(found)]])
        if is_try:
            return found
        self._used[found] = True
        self.num_free -= count
        if not after:
            self._low = int(found[-1]) + 1 if count else self._low
        return found

    def check_room(self, count: int) -> None:
        """Refuse what does not fit."""
        if count > self.num_free:
            raise FullError(f"the volume is full: {count:,} blocks are written, and {self.num_free:,} are free")

    def give_back(self, blocks: I64) -> None:
        """Free blocks that are in use; those that are not followed, and what is free already, are left out."""
        blocks = np.unique(blocks[(blocks >= 0) & (blocks < len(self._used))])
        if len(self._pinned):
            place = np.minimum(np.searchsorted(self._pinned, blocks), len(self._pinned) - 1)
            blocks = blocks[self._pinned[place] != blocks]
        blocks = blocks[self._used[blocks]]
        self._used[blocks] = False
        self.num_free += len(blocks)
        self._low = min(self._low, int(blocks.min(initial=self._low)))

    def num_free_from(self, first: int) -> int:
        """Count the free blocks from one on."""
        return int((~self._used[first:]).sum()) + max(self.end - max(len(self._used), first), 0)

    def runs(self) -> tuple[I64, I64]:
        """Return the free runs: first blocks and counts."""
        start, count = block_runs(np.flatnonzero(~self._used))
        if self.end <= len(self._used):
            return start, count
        if len(start) and start[-1] + count[-1] == len(self._used):
            count[-1] += self.end - len(self._used)
            return start, count
        return np.append(start, len(self._used)), np.append(count, self.end - len(self._used))

    def _free_from(self, first: int, count: int) -> I64:
        """Find free blocks from one on; more room is looked at only where there is need."""
        found, at, step = [np.empty(0, np.int64)], first, max(4 * count, 1 << 14)
        missing = count
        while missing > 0 and at < self.end:
            stop = min(at + step, self.end)
            if stop > len(self._used):
                grown = np.zeros(max(stop, min(2 * len(self._used), self.end)), bool)
                grown[: len(self._used)] = self._used
                self._used = grown
            found.append(at + np.flatnonzero(~self._used[at:stop])[:missing])
            missing -= len(found[-1])
            at, step = stop, 2 * step
        return np.concatenate(found)


def block_runs(blocks: I64) -> tuple[I64, I64]:
    """Cut blocks into runs that follow each other: first blocks and counts.

    >>> [part.tolist() for part in block_runs(np.array([4, 5, 6, 2, 3]))]
    [[4, 2], [3, 2]]
    """
    begins = np.flatnonzero(np.diff(blocks, prepend=-2) != 1)
    return blocks[begins], np.diff(begins, append=len(blocks))
