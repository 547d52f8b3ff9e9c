"""APFS container to tables: one layout of the container itself, then one of each volume.

What belongs to no volume (checkpoint areas, the container's object map, the space manager, free space) stands in the
first layout, whose ``facts.volume`` is None; free space is shared by all volumes and listed only there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from layoutscope.filesystems.apfs.check.consistency import check_volume
from layoutscope.filesystems.apfs.check.consistency_container import check_container
from layoutscope.filesystems.apfs.check.consistency_extents import check_extents
from layoutscope.filesystems.apfs.container.live import report_changes
from layoutscope.filesystems.apfs.layout.container import build_container_layout
from layoutscope.filesystems.apfs.layout.half import second_half
from layoutscope.filesystems.apfs.layout.stale import with_stale
from layoutscope.filesystems.apfs.layout.volume import build_layout
from layoutscope.filesystems.apfs.opening import Options, open_contents, open_with
from layoutscope.filesystems.apfs.recovery.lost import report_losses
from layoutscope.filesystems.apfs.store.source import TreeSource
from layoutscope.filesystems.apfs.volume.accounting import account
from layoutscope.filesystems.apfs.volume.states import LIVE, given_up, shown_as, states_of
from layoutscope.filesystems.apfs.volume.volume import fs_source
from layoutscope.findings import FindingLog

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.filesystems.contract import ReadableState
    from layoutscope.image.source import Source
    from layoutscope.tables import VolumeLayout

__all__ = ["Options", "list_states", "read_layouts"]


def read_layouts(source: Source, *, image_offset: int = 0, options: Options | None = None) -> list[VolumeLayout]:
    """Read a container with all its volumes.

    Parameters
    ----------
    source : Source
        The image.
    image_offset : int
        Where the container starts, in bytes.
    options : Options, optional
        Decoder, view, second image, password.

    Returns
    -------
    list of VolumeLayout
        The container's own layout, then one of each volume in the order of their slots.

    Raises
    ------
    FormatError
        If there is no usable superblock or checkpoint.
    UsageError
        If the state that was asked for does not exist.
    """
    options = options or Options()
    if options.second is None:
        half = second_half((source, image_offset), options.stack, FindingLog(), sweeps=options.sweep)
        if half is not None:
            return [half]
    found = open_contents(source, image_offset, options)
    container, parts = found.container, found.parts
    check_container(container, parts)
    for volume in found.volumes:
        check_volume(volume, found.slots[volume.state.number])
        check_extents(volume)
        _bound_losses(volume, container.xid)
    report_changes(container)
    view = shown_as(container, options.xid)
    newest = None if view == LIVE else open_with((source, image_offset), replace(options, xid=None), FindingLog())
    layouts = [
        build_layout(container, volume, options.stack, view, given_up(newest, volume)) for volume in found.volumes
    ]
    balance = account(container, parts, found.volumes)
    own = build_container_layout(container, parts, found.volumes, balance, options.stack, view)
    if found.swept is None:
        return [own, *layouts]
    return with_stale(container.blocks, found.swept, own, list(zip(found.volumes, layouts, strict=True)))


def _bound_losses(parts: VolumeParts, max_xid: int) -> None:
    """Say which objects were in the parts of a damaged volume's trees that could not be read."""
    state, log = parts.state, parts.log
    if not log.has_errors or parts.is_locked or any(item.code == "tree-rebuilt" for item in log.findings):
        return
    report_losses(TreeSource(state.store, "omap", state.omap_header.tree_oid, max_xid), None, log)
    report_losses(fs_source(state.store, state, parts.cipher), parts.fs.records, log)


def list_states(
    source: Source, *, image_offset: int = 0, second: tuple[Source, int] | None = None
) -> list[ReadableState]:
    """List the checkpoints and snapshots of a container that can be read.

    Parameters
    ----------
    source : Source
        The image.
    image_offset : int
        Where the container starts, in bytes.
    second : (Source, int), optional
        The other image of a Fusion set.

    Returns
    -------
    list of ReadableState
        Checkpoints from the newest on, then the snapshots of each volume.

    Raises
    ------
    FormatError
        If there is no usable superblock or checkpoint.
    """
    return states_of(open_with((source, image_offset), Options(second=second), FindingLog()))
