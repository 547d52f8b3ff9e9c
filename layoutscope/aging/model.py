"""What ages a volume: the rules of a driver, and what each cycle of a workload does."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.aging.trees import NOWHERE
from layoutscope.arrays.lookup import is_among
from layoutscope.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from layoutscope.aging.volume import AgingEntries

    I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Policy:
    """A driver's rules."""

    # leaf_keep, index_keep, map_keep: share of a node that stays left of a split: of leaves, of index nodes, of what
    # maps them
    leaf_keep: float
    index_keep: float
    map_keep: float
    merge_share: float  # share of a node into which neighbours are merged; 0 where only empty ones go
    next_fit: bool  # whether blocks are taken behind the last ones that were, or the first free ones of the volume
    # whether nodes get their blocks at the end of a transaction, in key order, or when they change first
    at_commit: bool = False
    # files that are written in one transaction, where the blocks of the next two do not say it
    files_per_transaction: int = 1000
    # queue_blocks, buffer_blocks: blocks that wait to be freed, and that are written, when a transaction ends; 0 where
    # that is not known
    queue_blocks: int = 0
    buffer_blocks: int = 0
    waits: int = 0  # how many transactions later blocks are free that were left in one
    length_spread: float = 1.0  # factor within which the length of transactions is drawn
    ids_per_file: int = 1  # object ids that a replaced file uses up
    leaves_siblings: bool = False  # whether a rename leaves the records of a hard link behind
    split_less: int = 0  # bytes by which less stays left of a split, for each record of the node
    split_by_count: bool = False  # whether a node is split at a share of its records, not of its room
    assumes: tuple[str, ...] = ()  # what is assumed, a sentence each

    def drawn(
        self,
        share: float,  # where in its spread, from -1 to 1
    ) -> Policy:
        """Return the policy with transactions of another length.

        >>> as_it_is = Policy(0.5, 0.5, 0.5, 0.0, next_fit=False, files_per_transaction=100, length_spread=2.0)
        >>> as_it_is.drawn(-1).files_per_transaction
        50
        """
        factor = self.length_spread**share
        return replace(
            self,
            files_per_transaction=max(round(self.files_per_transaction * factor), 1),
            queue_blocks=round(self.queue_blocks * factor),
            buffer_blocks=round(self.buffer_blocks * factor),
        )


def model_errors(filesystem: str, host: str) -> Mapping[tuple[str, str], float]:
    """Return by which share of itself each number was off, by metric and subject; nothing where none was held.

    >>> model_errors("one of another package", "linux")
    {}
    """
    # No other host's volumes were there to hold forecasts against.
    if host != "linux":
        return {}
    told = json.loads(files("layoutscope.aging").joinpath("errors.json").read_text()).get(filesystem, {})
    return {(name.partition(" ")[0], name.partition(" ")[2]): share for name, share in told.items()}


class CycleWork(NamedTuple):
    """What a cycle does, in this order; arrays of places among the files of a volume."""

    replaced: I64  # files that are written anew under a temporary name, which then takes the place of theirs
    added: I64  # files beside which another one of the same size is made
    deleted: I64  # files that go


class CycleKind(NamedTuple):
    """A workload as it is known: what a cycle does, and how it chooses."""

    does: str
    choose: Callable[[I64, int, np.random.Generator], CycleWork]


NONE: Final = np.empty(0, np.int64)


def _choose_files(num_files: int, wanted: int, rng: np.random.Generator) -> I64:
    return np.sort(rng.permutation(num_files)[:wanted])


def _replace(directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    return CycleWork(_choose_files(len(directory), wanted, rng), NONE, NONE)


def _replace_directories(directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    """Whole directories, one after the other, until there are so many files; the last one in part."""
    _, number = np.unique(directory, return_inverse=True)
    turn = rng.permutation(int(number.max(initial=-1)) + 1)[number]
    return CycleWork(np.sort(np.argsort(turn, kind="stable")[:wanted]), NONE, NONE)


def _add(directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    return CycleWork(NONE, _choose_files(len(directory), wanted, rng), NONE)


def _delete(directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    return CycleWork(NONE, NONE, _choose_files(len(directory), wanted, rng))


def _mix_work(directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    order = rng.permutation(len(directory))[:wanted]
    third = len(order) // 3
    return CycleWork(np.sort(order[2 * third :]), np.sort(order[:third]), np.sort(order[third : 2 * third]))


WORKLOADS: Final = {
    "replace": CycleKind("replaces files drawn at random, each under a temporary name first", _replace),
    "replace-directories": CycleKind("replaces the files of directories drawn at random", _replace_directories),
    "add": CycleKind("adds files beside some drawn at random, of their sizes", _add),
    "delete": CycleKind("deletes files drawn at random", _delete),
    "mixed": CycleKind("adds a third of its files, deletes a third and replaces a third", _mix_work),
}
"""What a cycle may do, by name."""


def workload(name: str) -> CycleKind:
    """Return a workload by its name.

    >>> work = workload("replace-directories").choose(np.array([2, 2, 3, 3]), 2, np.random.default_rng(1))
    >>> work.replaced.tolist() in ([0, 1], [2, 3])
    True
    """
    if name not in WORKLOADS:
        raise UsageError(f"no workload {name!r}{did_you_mean(name, WORKLOADS)}; there are {', '.join(WORKLOADS)}")
    return WORKLOADS[name]


@dataclass(frozen=True)
class Cycle:
    """The operations of a cycle, one per turn: first the files that are written, then those that only go."""

    old: AgingEntries  # files as they were before they were replaced or deleted
    old_turn: I64  # when
    new: AgingEntries  # files that are written, with their new numbers; turns are 0, 1, 2 …
    is_replaced: NDArray[np.bool_]  # which of them take the place of others
    kept: AgingEntries  # all other entries
    num_turns: int  # how many operations there are
    next_ident: int  # the next number

    def turn_of(self, ident: I64) -> I64:
        """Return when files are replaced or deleted, by their numbers."""
        order = np.argsort(self.old.ident)
        return self.old_turn[order[np.searchsorted(self.old.ident[order], ident)]]


def plan_cycle(
    entries: AgingEntries, work: CycleWork, next_ident: int, ids_per_file: int, rng: np.random.Generator
) -> Cycle:
    """Work out what a cycle does."""
    files = entries.files_by_seat()
    replaced, deleted = files[work.replaced], files[work.deleted]
    written = np.sort(np.concatenate([work.replaced, work.added]))
    is_replaced = is_among(written, work.replaced)
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
    return Cycle(
        old=entries.taken(gone),
        old_turn=old_turn.astype(np.int64),
        new=new,
        is_replaced=is_replaced,
        kept=entries.taken(np.flatnonzero(stays)),
        num_turns=num + len(deleted),
        next_ident=next_ident + num * ids_per_file,
    )


def join_records(*parts: tuple[I64, I64 | int, I64]) -> tuple[I64, I64, I64]:
    """Join records: keys, sizes and turns; those without a key are left out."""
    keys, sizes, turns = [], [], []
    for key, size, turn in parts:
        there = key != NOWHERE
        keys.append(key[there])
        sizes.append(np.broadcast_to(np.asarray(size), key.shape)[there])
        turns.append(turn[there])
    return np.concatenate(keys), np.concatenate(sizes).astype(np.int64), np.concatenate(turns)
