"""Work that is done again: what the host's name cache answers of it."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from layoutscope.access.touches import CODE, Touches
from layoutscope.walk import directories
from layoutscope.walk.lru import evenly

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.access.model import Model


Beside = TypeVar("Beside", bound="NDArray[Any]")


def repeated(model: Model, once: Callable[[Model], tuple[Touches, Beside]], times: int) -> list[tuple[Touches, Beside]]:
    """Make the touches of each time that a workload is done.

    Each look-up takes a place in the name cache. If it does not hold them all, the host says what it keeps of them.
    """
    first = once(model)
    if times == 1:
        return [first]
    looked_up = int(np.count_nonzero(first[0].cause == CODE["name"]))
    room = model.host.name_cache_entries
    is_kept = room is None or looked_up <= room
    if is_kept:
        later = once(replace(model, names_are_cached=True))
    else:
        later = _partly_answered(model, first, kept_share(looked_up, room or 0) * model.host.name_cache_keeps)
    return [first, *[later] * (times - 1)]


def kept_share(names: int, room: int) -> float:
    """Return the share of names that a cache still has when they are all asked for again, one after the other.

    A cache that drops the least recently used would have none of them. Of one that drops any of its names with the same
    chance, a name is left over from the last pass with the chance that none of the misses since then took its place:
    ``h = (1 - 1 / room) ** ((1 - h) * names)``, which is solved here.

    >>> round(kept_share(277_800, 263_168), 2), kept_share(10, 0)
    (0.9, 0.0)
    """
    share = 0.0
    for _ in range(FIXED_POINT_STEPS if room else 0):
        share = exp(-(1 - share) * names / room)
    return share


FIXED_POINT_STEPS: Final = 2000


def _partly_answered(model: Model, found: tuple[Touches, Beside], share: float) -> tuple[Touches, Beside]:
    """Let the name cache answer a share of the look-ups."""
    needed, beside = found
    if not share:
        return found
    names = np.flatnonzero(needed.cause == CODE["name"])
    kept = names[evenly(len(names), share)]
    node, host_us = needed.node.copy(), needed.host_us.copy()
    node[kept], host_us[kept] = -1, model.driver.costs.entry_us
    # A look-up is a search by name, then those by number; what the cache answers needs none of them.
    others = len(directories.searches_of_lookup(model).nodes) - 1
    is_left = np.ones(len(needed), bool)
    is_left[(kept[:, None] + np.arange(1, others + 1)).ravel()] = False
    answered = Touches(node[is_left], needed.cause[is_left], needed.directory_id[is_left], host_us[is_left])
    return answered, cast("Beside", beside[is_left])
