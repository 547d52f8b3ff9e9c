"""Orders: from a layout and a workload to the reads that reach the drive.

>>> sorted(ORDERS)
['bulk', 'catalog', 'copy', 'fts', 'names', 'paths', 'read', 'readdir-stat', 'searchfs']
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from layoutscope.access.entries import ROOT_ID, entry_table
from layoutscope.access.model import Model
from layoutscope.access.nodes import node_table
from layoutscope.access.touches import concatenated
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.walk import data, directories, scans
from layoutscope.walk.host import host_profile
from layoutscope.walk.order import Order, Work, by_touches
from layoutscope.walk.paths import paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.access.host import HostProfile
    from layoutscope.access.touches import Touches
    from layoutscope.access.trace import AccessTrace
    from layoutscope.tables import VolumeLayout


def trace(
    layout: VolumeLayout, *, order: str = "fts", host: str | HostProfile = "linux", work: Work | None = None
) -> AccessTrace:
    """Work out the reads of a workload on one volume.

    Parameters
    ----------
    layout : VolumeLayout
        Tables of the volume.
    order : str
        Key of :data:`ORDERS`.
    host : str or HostProfile
        ``linux``, ``macos`` or a profile with changes.
    work : Work, optional
        What it is done on, and how often: once from the root without it, with nothing cached.

    Returns
    -------
    AccessTrace
        Reads in the order in which they reach the drive.

    Raises
    ------
    KeyError
        If the order or the host is unknown.
    ValueError
        If the order cannot do the work.
    """
    chosen, work = ORDERS[order], work or Work()
    given = {"paths": work.paths, "file": work.file_id}
    chosen.check([name for name, value in given.items() if value is not None], is_repeated=work.is_repeated)
    return chosen.run(model_of(layout, host_profile(host)), work)


def model_of(layout: VolumeLayout, host: HostProfile) -> Model:
    """Turn tables into the arrays of one host's driver."""
    chosen = filesystem_of(layout)
    driver, nodes = chosen.driver(host), node_table(layout)
    entries = entry_table(layout, nodes, backwards=driver.lists_backwards, hidden_names=driver.hidden_names)
    return Model(layout, host, driver, chosen.traits.main_tree, nodes, entries)


def _from_the_start(model: Model, work: Work, walked: Touches) -> Touches:
    """Put before a walk what leads to the directory in which it starts."""
    return concatenated([directories.reached(model, work.start_directory_id), walked])


def _readdir_stat(model: Model, work: Work) -> Touches:
    return _from_the_start(model, work, directories.fts(model, work.start_directory_id, stat=work.stat))


def _fts(model: Model, work: Work) -> Touches:
    if not (work.stat and model.host.listing_carries_attributes):
        return _readdir_stat(model, work)
    return _from_the_start(model, work, directories.bulk(model, work.start_directory_id, descend_by_stat=True))


def _bulk(model: Model, work: Work) -> Touches:
    return _from_the_start(model, work, directories.bulk(model, work.start_directory_id))


def _names(model: Model, work: Work) -> Touches:
    return _from_the_start(model, work, directories.names(model, work.start_directory_id))


def _catalog(model: Model, _: Work) -> Touches:
    return scans.leaves(model)


def _searchfs(model: Model, work: Work) -> AccessTrace:
    return scans.all_nodes(model) if model.driver.scans_by_number else by_touches(_catalog)(model, work)


def _paths(model: Model, work: Work) -> tuple[Touches, NDArray[np.uint16]]:
    return paths(model, work.paths or (), ROOT_ID)


def _copy(model: Model, work: Work) -> AccessTrace:
    return data.copy(model, work.start_directory_id)


def _read(model: Model, work: Work) -> AccessTrace:
    return data.read(model, work.file_id or 0, work.records, work.record_bytes)


ORDERS: Final[Mapping[str, Order]] = MappingProxyType(
    {
        order.name: order
        for order in (
            Order("readdir-stat", by_touches(_readdir_stat)),
            Order("fts", by_touches(_fts)),
            Order("bulk", by_touches(_bulk)),
            Order("names", by_touches(_names)),
            Order("catalog", by_touches(_catalog)),
            Order("searchfs", _searchfs, is_done_once=True),
            Order("paths", by_touches(_paths), needs="paths"),
            Order("copy", _copy, is_done_once=True),
            Order("read", _read, needs="file", is_done_once=True),
        )
    }
)
"""Every order by its name."""
