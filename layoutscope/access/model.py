"""What an order works on: one layout as one host's driver sees it, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from layoutscope.access.driver import Driver
    from layoutscope.access.entries import EntryTable
    from layoutscope.access.host import Costs, HostProfile
    from layoutscope.access.nodes import NodeTable
    from layoutscope.tables import VolumeLayout


@frozen
class Model:
    """One layout as one host sees it."""

    layout: VolumeLayout  # the tables
    host: HostProfile  # who walks
    driver: Driver  # what it does on this file system
    main_tree: str  # the tree with names and inodes
    nodes: NodeTable
    entries: EntryTable  # its entries in the host's listing order
    # whether the name cache answers every look-up, as it does when a workload that fits into it is done again
    names_are_cached: bool = False

    @property
    def costs(self) -> Costs:
        """Host time of this file system, as the host's threads leave it."""
        alone = self.driver.costs
        return alone.contended() if self.host.parallel_threads > 1 else alone

    @property
    def main_tree_code(self) -> int:
        """Code of the tree with names and inodes among those of the nodes, -1 if there is none."""
        return self.nodes.tree_code(self.main_tree)
