"""Orders: from a layout and a workload to the reads that reach the drive.

>>> sorted(ORDERS)
['bulk', 'catalog', 'copy', 'fts', 'names', 'paths', 'read', 'readdir-stat', 'searchfs']
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeVar, get_args

import numpy as np

from layoutscope.walk import directories, scans
from layoutscope.walk.assemble import metadata_reads
from layoutscope.walk.data import copy, read
from layoutscope.walk.entries import ROOT_ID
from layoutscope.walk.host import HostProfile, host_profile
from layoutscope.walk.model import model_of
from layoutscope.walk.paths import paths as path_touches
from layoutscope.walk.touches import CODE, concatenated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.model import Model
    from layoutscope.walk.touches import Touches
    from layoutscope.walk.trace import AccessTrace

T = TypeVar("T")

Order = Literal["readdir-stat", "fts", "bulk", "names", "catalog", "searchfs", "paths", "copy", "read"]

ORDERS: Final[tuple[str, ...]] = get_args(Order)
"""Names of all orders."""

COLD_ORDERS: Final = ("copy", "read", "searchfs")
"""Orders that are done once, with nothing cached."""


def trace(  # noqa: PLR0913  # an order has as many arguments as workloads differ
    layout: VolumeLayout,
    *,
    order: Order = "fts",
    host: str | HostProfile = "linux",
    start_directory_id: int | None = None,
    stat: bool = True,
    paths: Sequence[str] | None = None,
    file_id: int | None = None,
    records: NDArray[np.int64] | None = None,
    record_bytes: int | None = None,
    warm: bool = False,
    passes: int = 1,
) -> AccessTrace:
    """Work out the reads of a workload on one volume.

    Parameters
    ----------
    layout : VolumeLayout
        Tables of the volume.
    order : str
        One of :data:`ORDERS`.
    host : str or HostProfile
        ``linux``, ``macos`` or a profile with changes.
    start_directory_id : int, optional
        Directory (CNID or oid) in which to start; the root without it.
    stat : bool
        False for ``fts`` with FTS_NOSTAT: only directories are stat'ed.
    paths : sequence of str, optional
        For ``paths``: what to look up, from the root.
    file_id : int, optional
        For ``read``: the file.
    records : int64 array, optional
        For ``read``: offsets of the records in the file, in order; the whole file from its beginning without it.
    record_bytes : int, optional
        For ``read`` with `records`: their length.
    warm : bool
        Start with the metadata of a first, uncounted pass in the cache, and with its names in the name cache.
    passes : int
        How often the workload is done; what the cache keeps is not read again.

    Returns
    -------
    AccessTrace
        Reads in the order in which they reach the drive.

    Raises
    ------
    KeyError
        If the order or the host is unknown.
    ValueError
        If an order misses its list of paths or its file, or is one of :data:`COLD_ORDERS` and to be repeated.
    """
    if order not in ORDERS:
        raise KeyError(order)
    if order in COLD_ORDERS and (warm or passes > 1):
        raise ValueError(f"the order {order} is done once, with nothing cached")
    model = model_of(layout, host_profile(host))
    start = ROOT_ID if start_directory_id is None else start_directory_id
    if order in ("copy", "read"):
        return copy(model, start) if order == "copy" else read(model, _needed(file_id, order), records, record_bytes)
    if order == "searchfs" and model.is_hfsplus:
        return scans.all_nodes(model)

    def once(one: Model) -> tuple[Touches, NDArray[np.uint16]]:
        if order == "paths":
            return path_touches(one, _needed(paths, order), ROOT_ID)
        needed = _needed_touches(one, order, start, stat=stat)
        return needed, np.zeros(len(needed), np.uint16)

    return metadata_reads(model, _repeated(model, once, passes + warm), uncounted=warm)


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


def _needed_touches(model: Model, order: str, start: int, *, stat: bool) -> Touches:
    """Return the leaves that an order needs, before any cache."""
    if order in ("catalog", "searchfs"):
        return scans.leaves(model)
    return concatenated([directories.reached(model, start), _walk(model, order, start, stat=stat)])


def _walk(model: Model, order: str, start: int, *, stat: bool) -> Touches:
    if order == "names":
        return directories.names(model, start)
    if order == "bulk":
        return directories.bulk(model, start)
    if order == "fts" and stat and model.host.listing_carries_attributes:
        return directories.bulk(model, start, descend_by_stat=True)
    return directories.fts(model, start, stat=stat)


def _needed(value: T | None, order: str) -> T:
    if value is None:
        raise ValueError(f"the order {order} needs its {'paths' if order == 'paths' else 'file'}")
    return value
