"""What a cycle does to the entries of a volume, whatever its file system: which are replaced, added and deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.aging.trees import NOWHERE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.aging.volume import AgingEntries
    from layoutscope.aging.workloads import CycleWork

    I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Done:
    """A cycle's operations, one a turn: first the files that are written, then those that only go."""

    old: AgingEntries  # files as they were before they were replaced or deleted
    old_turn: I64  # when
    new: AgingEntries  # files that are written, with their new numbers; turns are 0, 1, 2 …
    is_replaced: NDArray[np.bool_]  # which of them take the place of others
    kept: AgingEntries  # all other entries
    num_turns: int  # how many operations there are
    next_ident: int  # the next number


def files_by_seat(entries: AgingEntries) -> I64:
    """Return the files that a cycle may replace, in the order in which they were created."""
    files = np.flatnonzero(entries.is_file)
    found: I64 = files[np.argsort(entries.seat[files], kind="stable")]
    return found


def done(entries: AgingEntries, work: CycleWork, next_ident: int, ids_per_file: int, rng: np.random.Generator) -> Done:
    """CycleWork out what a cycle does."""
    files = files_by_seat(entries)
    replaced, deleted = files[work.replaced], files[work.deleted]
    written = np.sort(np.concatenate([work.replaced, work.added]))
    is_replaced = np.isin(written, work.replaced)
    new = entries.taken(files[written])
    num = len(written)
    new.ident = next_ident + np.arange(num) * ids_per_file
    # A file that is written anew has another size: that of any file of the volume.
    new.size_bytes = entries.size_bytes[files[rng.integers(0, max(len(files), 1), num)]] if num else new.size_bytes
    new.has_sibling = np.zeros(num, bool)
    fresh = ~is_replaced
    siblings = entries.place[files[rng.integers(0, max(len(files), 1), num)]] if num else new.place
    new.place = np.where(fresh, np.where(new.place > 0, siblings % np.maximum(new.place, 1), siblings), new.place)
    gone = np.concatenate([replaced, deleted])
    old_turn = np.concatenate([np.flatnonzero(is_replaced), num + np.arange(len(deleted))])
    stays = np.ones(len(entries), bool)
    stays[gone] = False
    return Done(
        old=entries.taken(gone),
        old_turn=old_turn.astype(np.int64),
        new=new,
        is_replaced=is_replaced,
        kept=entries.taken(np.flatnonzero(stays)),
        num_turns=num + len(deleted),
        next_ident=next_ident + num * ids_per_file,
    )


def present(*parts: tuple[I64, I64 | int, I64]) -> tuple[I64, I64, I64]:
    """Join records: keys, sizes and turns, those left out that have no key."""
    keys, sizes, turns = [], [], []
    for key, size, turn in parts:
        there = key != NOWHERE
        keys.append(key[there])
        sizes.append(np.broadcast_to(np.asarray(size), key.shape)[there])
        turns.append(turn[there])
    return np.concatenate(keys), np.concatenate(sizes).astype(np.int64), np.concatenate(turns)
