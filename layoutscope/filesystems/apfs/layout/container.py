"""What belongs to a container as a whole: checkpoint areas, object map, space manager and their like, in tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.filesystems.apfs.container.regions import as_runs, from_runs
from layoutscope.filesystems.apfs.layout.facts import container_facts, volume_groups
from layoutscope.filesystems.apfs.layout.nodes import nodes_table, place
from layoutscope.filesystems.apfs.layout.regions import free_table, regions_table
from layoutscope.filesystems.apfs.volume.accounting import NO_RUNS, Account
from layoutscope.tables import VolumeLayout, build_table, findings_table

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.parts import ContainerParts
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts


def build_container_layout(
    container: Container,
    parts: ContainerParts,
    volumes: list[VolumeParts],
    balance_of: Account,
    stack: tuple[str, ...],
    view: str,
) -> VolumeLayout:
    """Put what belongs to the container into tables; ``volume`` is null in them.

    Parameters
    ----------
    container : Container
        The container; its findings are those of the layout.
    parts : ContainerParts
        What belongs to no volume.
    volumes : list of VolumeParts
        Every volume that could be opened, for the groups that they form.
    balance_of : Account
        Which blocks are free, and which are used and claimed by nothing.
    stack : tuple of str
        Layers around the container, outermost first.
    view : str
        What the state is called: ``live``, or ``xid N`` where the checkpoint is an older one.

    Returns
    -------
    VolumeLayout
        Facts, nodes, regions, free runs and findings; extents and entries belong to volumes.
    """
    blocks = container.blocks
    placed = place([(nodes, -1) for nodes in parts.trees])
    unclaimed = from_runs("unclaimed", "space manager", balance_of.unclaimed) if parts.space else []
    nodes = nodes_table(placed, blocks, None, [np.zeros(len(tree), np.int64) for tree in parts.trees])
    read = int(nodes["size_bytes"].sum())
    known = read + blocks.block_size * ((parts.space is None) + (not len(container.omap.nodes)))
    waiting = intervals.total(as_runs(parts.space.pending)) if parts.space else 0
    details = (
        volume_groups([item.state for item in volumes])
        | parts.details
        | balance_of.details()
        | {"pending-free blocks": waiting}
    )
    return VolumeLayout(
        facts=container_facts(container, stack, parts.trees, details, (known, read), view),
        nodes=nodes,
        node_fragments=build_table("node_fragments", {}),
        regions=regions_table([*parts.regions, *unclaimed], blocks, None),
        extents=build_table("extents", {}),
        entries=build_table("entries", {}),
        free=free_table(balance_of.free if parts.space else NO_RUNS, blocks, None),
        findings=findings_table(container.log.findings),
    )
