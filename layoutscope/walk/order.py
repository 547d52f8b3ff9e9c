"""What a program does on a volume: an order, and the work that it is given.

An :class:`Order` says what it needs and how it runs; which orders there are stands in :mod:`layoutscope.walk.orders`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.access.touches import CODE
from layoutscope.walk.assemble import metadata_reads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.model import Model
    from layoutscope.access.touches import Touches
    from layoutscope.access.trace import AccessTrace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """What an order is done on, and how often.

    Attributes
    ----------
    start_directory_id : int
        Directory (CNID or oid) in which to start; the root without it.
    stat : bool
        False for ``fts`` with FTS_NOSTAT: only directories are stat'ed.
    paths : sequence of str or None
        For ``paths``: what to look up, from the root.
    file_id : int or None
        For ``read``: the file.
    records : int64 array or None
        For ``read``: offsets of the records in the file, in order; the whole file from its beginning without it.
    record_bytes : int or None
        For ``read`` with `records`: their length.
    warm : bool
        Start with the metadata of a first, uncounted pass in the cache, and with its names in the name cache.
    passes : int
        How often the order is done; what the cache keeps is not read again.
    """

    start_directory_id: int = ROOT_ID
    stat: bool = True
    paths: Sequence[str] | None = None
    file_id: int | None = None
    records: NDArray[np.int64] | None = None
    record_bytes: int | None = None
    warm: bool = False
    passes: int = 1

    @property
    def is_repeated(self) -> bool:
        """Whether the order is done with something cached."""
        return self.warm or self.passes > 1


@dataclass(frozen=True, slots=True)
class Order:
    """A way in which a program goes through a volume.

    Attributes
    ----------
    name : str
        As users say it.
    run : callable
        Makes the reads of some work on a model.
    needs : str
        ``paths`` or ``file`` where the work must name them, an empty string otherwise.
    is_done_once : bool
        Whether it is done once, with nothing cached.
    """

    name: str
    run: Callable[[Model, Work], AccessTrace]
    needs: Literal["", "paths", "file"] = ""
    is_done_once: bool = False

    def check(self, given: Collection[str], *, is_repeated: bool) -> None:
        """Refuse work that this order cannot do.

        Parameters
        ----------
        given : collection of str
            Which of ``paths`` and ``file`` the work names.
        is_repeated : bool
            Whether it is to be done with something cached.

        Raises
        ------
        ValueError
            If something is missing, or the order is done once and was to be repeated.
        """
        if self.needs and self.needs not in given:
            raise ValueError(f"the order {self.name} needs its {self.needs}")
        if self.is_done_once and is_repeated:
            raise ValueError(f"the order {self.name} is done once, with nothing cached")


def by_touches(
    needed: Callable[[Model, Work], Touches | tuple[Touches, NDArray[np.uint16]]],
) -> Callable[[Model, Work], AccessTrace]:
    """Make an order's run of what it touches, before any cache, and of the threads that do so if they are several."""

    def run(model: Model, work: Work) -> AccessTrace:
        def once(one: Model) -> tuple[Touches, NDArray[np.uint16]]:
            found = needed(one, work)
            return found if isinstance(found, tuple) else (found, np.zeros(len(found), np.uint16))

        return metadata_reads(model, _repeated(model, once, work.passes + work.warm), uncounted=work.warm)

    return run


def _repeated(model: Model, once: Callable[[Model], tuple[Touches, T]], times: int) -> list[tuple[Touches, T]]:
    """Make the touches of each time that a workload is done.

    Each look-up takes a place in the name cache. Gone through in one order again and again, a cache that drops the
    least recently used answers all of them if it holds them all, and none otherwise.
    """
    first = once(model)
    looked_up = np.count_nonzero(first[0].cause == CODE["name"])
    room = model.host.name_cache_entries
    is_kept = times > 1 and (room is None or looked_up <= room)
    later = once(replace(model, names_are_cached=True)) if is_kept else first
    return [first, *[later] * (times - 1)]
