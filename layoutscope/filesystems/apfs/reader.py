"""APFS container to tables: one layout of the container itself, then one of each volume.

What belongs to no volume (checkpoint areas, the container's object map, the space manager, free space) stands in the
first layout, whose ``facts.volume`` is None; free space is shared by all volumes and listed only there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.errors import FormatError, UsageError
from layoutscope.filesystems.apfs import decoding
from layoutscope.filesystems.apfs.btree import TreeSource, lead_type
from layoutscope.filesystems.apfs.consistency import check_volume
from layoutscope.filesystems.apfs.consistency_container import check_container
from layoutscope.filesystems.apfs.consistency_extents import check_extents
from layoutscope.filesystems.apfs.container import open_container
from layoutscope.filesystems.apfs.containerlayout import account, build_container_layout, read_container_parts
from layoutscope.filesystems.apfs.fusion import main_first, report_missing, second_half
from layoutscope.filesystems.apfs.keybag import unlock
from layoutscope.filesystems.apfs.live import report_changes
from layoutscope.filesystems.apfs.lost import report_losses
from layoutscope.filesystems.apfs.options import Options
from layoutscope.filesystems.apfs.rebuild import mended, rebuild_tree, reopen_volume
from layoutscope.filesystems.apfs.salvage import salvage_container
from layoutscope.filesystems.apfs.stale import with_stale
from layoutscope.filesystems.apfs.states import LIVE, ReadableState, given_up, read_snapshots, shown_as, states_of
from layoutscope.filesystems.apfs.sweep import sweep
from layoutscope.filesystems.apfs.volume import fs_source, list_volumes, open_volume
from layoutscope.filesystems.apfs.volumelayout import build_layout
from layoutscope.filesystems.apfs.volumeparts import is_encrypted, read_parts
from layoutscope.findings import Finding, from_error

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.containerlayout import ContainerParts
    from layoutscope.filesystems.apfs.crypto import Cipher
    from layoutscope.filesystems.apfs.sweep import Swept
    from layoutscope.filesystems.apfs.volume import Volume
    from layoutscope.filesystems.apfs.volumeparts import VolumeParts
    from layoutscope.image.source import Source
    from layoutscope.tables import VolumeLayout

__all__ = ["Options", "ReadableState", "list_states", "read_layouts"]


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
        half = second_half(source, image_offset, options.stack, [], sweeps=options.sweep)
        if half is not None:
            return [half]
    found = open_contents(source, image_offset, options)
    container, parts = found.container, found.parts
    check_container(container, parts)
    for volume in found.volumes:
        check_volume(container.blocks, volume, found.slots[volume.state.number])
        check_extents(container.blocks, volume)
        _bound_losses(container, volume)
    report_changes(container, parts.findings)
    view = shown_as(container, options.xid)
    newest = None if view == LIVE else _open(source, image_offset, replace(options, xid=None), [])
    layouts = [
        build_layout(container, volume, options.stack, view, given_up(newest, volume)) for volume in found.volumes
    ]
    balance = account(container, parts, found.volumes)
    own = build_container_layout(container, parts, found.volumes, balance, options.stack, view)
    if found.swept is None:
        return [own, *layouts]
    return with_stale(container.blocks, found.swept, own, list(zip(found.volumes, layouts, strict=True)))


@dataclass(frozen=True, slots=True)
class Contents:
    """A container as it was read, before its parts are compared.

    Attributes
    ----------
    container : Container
        The container.
    parts : ContainerParts
        What belongs to no volume, and the findings outside of volumes.
    volumes : list of VolumeParts
        Every volume that could be opened.
    slots : dict
        Each volume's place in the container's list, by its number.
    num_volumes : int
        How many the container names.
    swept : Swept or None
        What a sweep found, if it was asked for.
    """

    container: Container
    parts: ContainerParts
    volumes: list[VolumeParts]
    slots: dict[int, int]
    num_volumes: int
    swept: Swept | None = None


def open_contents(source: Source, image_offset: int, options: Options) -> Contents:
    """Read a container with all its volumes; nothing is compared yet.

    Raises
    ------
    FormatError
        If there is no usable superblock or checkpoint.
    UsageError
        If the state that was asked for does not exist.
    """
    findings: list[Finding] = []
    container, swept = _open_or_salvage(source, image_offset, options, findings)
    parts = read_container_parts(container, findings)
    volumes = _read_volumes(container, options, findings, swept)
    if not volumes and (options.snapshot is not None or _wants_snapshot(container, options)):
        raise UsageError(_no_such_state(container, options))
    listed = list_volumes(container)
    slots = {options.first_volume + number: slot for number, (slot, _) in enumerate(listed)}
    return Contents(container, parts, volumes, slots, len(listed), swept)


def _open_or_salvage(
    source: Source, image_offset: int, options: Options, findings: list[Finding]
) -> tuple[Container, Swept | None]:
    """Open a container and sweep it if that is wanted; with nothing to open, the sweep has to tell all."""
    try:
        container = _open(source, image_offset, options, findings)
    except FormatError as error:
        if not options.sweep or options.second is not None or options.xid is not None:
            raise
        return salvage_container(source, image_offset, decoding.choose(options.decoder), findings, error)
    return container, sweep(container.blocks) if options.sweep else None


def _bound_losses(container: Container, parts: VolumeParts) -> None:
    """Say which objects were in the parts of a damaged volume's trees that could not be read."""
    codes = {item.code for item in parts.findings if item.level == "error"}
    if not codes or parts.is_locked or any(item.code == "tree-rebuilt" for item in parts.findings):
        return
    blocks, decoder, root = container.blocks, container.decoder, parts.state.omap_header.tree_oid
    maps = TreeSource("omap", blocks, decoder, root, None, *lead_type("omap"), container.xid)
    report_losses(maps, None, parts.findings)
    report_losses(fs_source(blocks, decoder, parts.state, parts.cipher), parts.fs.records, parts.findings)


def _open(source: Source, image_offset: int, options: Options, findings: list[Finding]) -> Container:
    """Open the container with its main device first."""
    (main, start), second = main_first((source, image_offset), options.second, findings)
    decoder = decoding.choose(options.decoder)
    container = open_container(main, decoder, findings, image_offset=start, second=second, xid=options.xid)
    report_missing(container, findings)
    return container


def _wants_snapshot(container: Container, options: Options) -> bool:
    """Tell whether the transaction that was asked for is no checkpoint's."""
    return options.xid is not None and options.xid != container.xid


def _read_volumes(
    container: Container, options: Options, findings: list[Finding], swept: Swept | None
) -> list[VolumeParts]:
    """Read every volume that can be opened, in the state that was asked for."""
    volumes = []
    for number, (_, oid) in enumerate(list_volumes(container)):
        own: list[Finding] = []
        try:
            volume = _open_volume(container, oid, options.first_volume + number, own, swept)
            view = _chosen_view(container, volume, options)
            if view is not None:
                cipher = _unlock(container, volume, options, own)
                volumes.append(read_parts(container, volume, own, cipher=cipher, chosen=view))
        except FormatError as error:
            findings += [*own, from_error(error, code="volume-unreadable")]
    return volumes if swept is None else [_rebuilt(container, parts, swept, volumes) for parts in volumes]


def _open_volume(container: Container, oid: int, number: int, findings: list[Finding], swept: Swept | None) -> Volume:
    """Open a volume; after a sweep, from old copies if need be."""
    try:
        return open_volume(container, oid, number, findings)
    except FormatError as error:
        if swept is None:
            raise
        findings.append(from_error(error, code="volume-unreadable"))
        return reopen_volume(container, oid, number, swept, findings)


def _rebuilt(container: Container, parts: VolumeParts, swept: Swept, volumes: list[VolumeParts]) -> VolumeParts:
    """Rebuild the live tree of a volume where part of it is missing."""
    is_damaged = any(item.level == "error" for item in parts.findings)
    if not is_damaged or parts.is_locked or parts.view != "live" or parts.state.superblock.is_sealed:
        return parts
    others = [item.state.omap.oid for item in volumes if item is not parts]
    state = mended(parts.state, swept)
    foreign = np.setdiff1d(np.concatenate([np.empty(0, np.uint64), *others]), parts.state.view.oid)
    return rebuild_tree(container, replace(parts, state=state), swept, foreign)


def _chosen_view(container: Container, volume: Volume, options: Options) -> str | None:
    """Name of the view to read; None if this volume does not have it."""
    if options.snapshot is None and not _wants_snapshot(container, options):
        return "live"
    for snapshot in read_snapshots(container, volume):
        if options.snapshot in (None, snapshot.name) and options.xid in (None, container.xid, snapshot.xid):
            return snapshot.view
    return None


def _unlock(container: Container, volume: Volume, options: Options, findings: list[Finding]) -> Cipher | None:
    """Find the key of an encrypted volume; without one it stays locked, and a finding says why."""
    if not is_encrypted(volume):
        return None
    code = "volume-locked"
    uuid = bytes(volume.superblock.vol_uuid)
    where = container.blocks.at(volume.paddr)
    if options.password is not None and container.superblock.is_crypto_sw:
        try:
            cipher = unlock(container, uuid, options.password)
        except FormatError as error:
            findings.append(from_error(error))
            cipher = None
        if cipher is not None:
            return cipher
        message = "the password opens none of the volume's keys"
    elif container.superblock.is_crypto_sw:
        message = "the volume is encrypted; a password or recovery key unlocks it"
    else:
        code = "volume-hardware-locked"
        message = (
            "the volume's keys are bound to the hardware that made them, so that no password unlocks an image: unlock "
            "it on the Mac it belongs to, and copy or clone it there to a disk of software encryption or none"
        )
    findings.append(Finding(code, "warning", f"volume {volume.name}", where, message))
    return None


def _no_such_state(container: Container, options: Options) -> str:
    wanted = f"snapshot {options.snapshot!r}" if options.snapshot is not None else f"state of transaction {options.xid}"
    known = ", ".join(f"{row.kind} {row.label}" for row in states_of(container)) or "none"
    return f"there is no {wanted}; there are: {known}"


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
    return states_of(_open(source, image_offset, Options(second=second), []))
