"""What an order works on: the host, the nodes and the entries of one layout as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from layoutscope.access.entries import entry_table
from layoutscope.access.nodes import node_table

if TYPE_CHECKING:
    from layoutscope.access.entries import EntryTable
    from layoutscope.access.host import Costs, HostProfile
    from layoutscope.access.nodes import NodeTable
    from layoutscope.tables import VolumeLayout


@dataclass(frozen=True, slots=True)
class Model:
    """One layout as one host sees it.

    Attributes
    ----------
    layout : VolumeLayout
        The tables.
    host : HostProfile
        Who walks.
    nodes : NodeTable
        Its nodes.
    entries : EntryTable
        Its entries in the host's listing order.
    is_hfsplus : bool
        HFS+, or APFS.
    names_are_cached : bool
        Whether the name cache answers every look-up, as it does when a workload that fits into it is done again.
    """

    layout: VolumeLayout
    host: HostProfile
    nodes: NodeTable
    entries: EntryTable
    is_hfsplus: bool
    names_are_cached: bool = False

    @property
    def costs(self) -> Costs:
        """Host time of this file system, as the host's threads leave it."""
        alone = self.host.costs(self.layout.facts.filesystem)
        return alone.contended() if self.host.parallel_threads > 1 else alone


def model_of(layout: VolumeLayout, host: HostProfile) -> Model:
    """Turn tables into arrays."""
    nodes = node_table(layout)
    entries = entry_table(layout, nodes, host)
    return Model(layout, host, nodes, entries, is_hfsplus=layout.facts.filesystem == "hfsplus")
