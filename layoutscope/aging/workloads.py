"""What happens to a volume in a cycle: named workloads, each a choice of files by a stream of random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    I64 = NDArray[np.int64]


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


def _chosen(num_files: int, wanted: int, rng: np.random.Generator) -> I64:
    return np.sort(rng.permutation(num_files)[:wanted])


def _replace(directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    return CycleWork(_chosen(len(directory), wanted, rng), NONE, NONE)


def _replace_directories(directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    """Whole directories, one after the other, until there are so many files; the last one in part."""
    _, number = np.unique(directory, return_inverse=True)
    turn = rng.permutation(int(number.max(initial=-1)) + 1)[number]
    return CycleWork(np.sort(np.argsort(turn, kind="stable")[:wanted]), NONE, NONE)


def _add(directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    return CycleWork(NONE, _chosen(len(directory), wanted, rng), NONE)


def _delete(directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    return CycleWork(NONE, NONE, _chosen(len(directory), wanted, rng))


def _mixed(directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    order = rng.permutation(len(directory))[:wanted]
    third = len(order) // 3
    return CycleWork(np.sort(order[2 * third :]), np.sort(order[:third]), np.sort(order[third : 2 * third]))


WORKLOADS: Final = {
    "replace": CycleKind("replaces files drawn at random, each under a temporary name first", _replace),
    "replace-directories": CycleKind("replaces the files of directories drawn at random", _replace_directories),
    "add": CycleKind("adds files beside some drawn at random, of their sizes", _add),
    "delete": CycleKind("deletes files drawn at random", _delete),
    "mixed": CycleKind("adds a third of its files, deletes a third and replaces a third", _mixed),
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
