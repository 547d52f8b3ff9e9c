"""Read APFS containers into tables, or list their states.

The container itself has one layout, followed by one layout per volume. Structures that belong to no volume (checkpoint
areas, the container's object map, the space manager, free space) are in the first one, whose ``facts.volume`` is None.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from layoutscope.errors import FormatError, UsageError
from layoutscope.filesystems.apfs import snapshots
from layoutscope.filesystems.apfs.btree import read_levels
from layoutscope.filesystems.apfs.container import open_container, report_changes
from layoutscope.filesystems.apfs.contents import read_container_parts, read_volume_parts
from layoutscope.filesystems.apfs.fsrecords import find_losses, report_losses
from layoutscope.filesystems.apfs.fusion import order_halves
from layoutscope.filesystems.apfs.layout import (
    add_stale_nodes,
    build_container_layout,
    build_volume_layout,
    lone_half_layout,
)
from layoutscope.filesystems.apfs.rescue import (
    Evidence,
    rebuild_volume,
    reopen_container,
    reopen_volume,
    report_unreached,
    salvage_container,
)
from layoutscope.filesystems.apfs.snapshots import LIVE, count_dropped_nodes
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.sweep import sweep
from layoutscope.filesystems.apfs.volume import fs_source, key_of, list_volumes, open_volume
from layoutscope.findings import FindingLog
from layoutscope.structs import grammar
from layoutscope.tables import attach_containers

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import IntEnum

    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.contents import ContainerContents, VolumeParts
    from layoutscope.filesystems.apfs.source import Store
    from layoutscope.filesystems.apfs.sweep import Swept
    from layoutscope.filesystems.apfs.volume import Volume
    from layoutscope.filesystems.contract import ReadableState, VolumeRequest
    from layoutscope.tables import VolumeLayout


def read_layouts(
    request: VolumeRequest,
    # compares the structures of the container (without a volume) or of a volume; findings go to their logs
    compare: Callable[[ContainerContents, VolumeParts | None], None] | None = None,
) -> list[VolumeLayout]:
    """Read a container with all its volumes."""
    stack = request.stack
    if not request.second and (alone := lone_half_layout(request, FindingLog())):
        return [alone]
    found = read_container(request)
    container = found.container
    marks = [log.mark() for log in (container.log, *(volume.log for volume in found.volumes))]
    if compare is not None:
        compare(found, None)
    for volume in found.volumes:
        if compare is not None:
            compare(found, volume)
        state, log = volume.state, volume.log
        is_rebuilt = any(item.code == "tree-rebuilt" for item in log.findings)
        if log.has_errors and not volume.is_locked and not is_rebuilt:
            # The first reading reported the damaged nodes.
            apart = state.store.apart()
            object_map = TreeSource(apart, "omap", state.omap_header.tree_oid, container.xid)
            for source, tree in ((object_map, None), (fs_source(apart, state, volume.key), volume.fs)):
                report_losses(find_losses(read_levels(source))[0], source, tree, log)
        for tree in (volume.fs, volume.extentref) if request.kept is None else ():
            tree.drop_check_columns()
    report_changes(container)
    view = snapshots.describe_state(container, request.options.get("xid"))
    newest = None if view == LIVE or container.younger else open_newest(request)
    layouts = [
        build_volume_layout(container, volume, stack, view, count_dropped_nodes(newest, volume.state, volume.fs.nodes))
        for volume in found.volumes
    ]
    own = build_container_layout(found, stack, view)
    request.keep(found, marks)
    if found.swept is None:
        return attach_containers([own, *layouts])
    stale = add_stale_nodes(container.blocks, found.swept, own, list(zip(found.volumes, layouts, strict=True)))
    return attach_containers(stale)


def is_second(request: VolumeRequest) -> bool:
    """Return whether the first of two images holds a Fusion set's second device, which tables always number 1."""
    half = request.source, request.image_offset
    return order_halves(half, request.second, FindingLog())[0] is not half


def list_states(request: VolumeRequest) -> list[ReadableState]:
    """List the readable checkpoints and snapshots of a container."""
    alone = FindingLog()
    if not request.second and lone_half_layout(replace(request, sweep=False), alone):
        where = request.image_offset
        raise FormatError(alone.findings[-1].message, structure="container superblock", image_offset=where)
    return snapshots.states_of(open_newest(request))


def read_container(request: VolumeRequest) -> ContainerContents:
    """Read a container with all its volumes, without comparing anything yet."""
    opened, swept = _open_or_salvage(request)
    contents = replace(read_container_parts(opened), swept=swept)
    container, own = contents.container, request.options
    # Volumes that cannot be opened are opened again from what is left of them.
    found: dict[int, VolumeParts | None] = {}
    broken: list[tuple[int, int, Store, FormatError]] = []
    for number, (_, oid) in enumerate(list_volumes(container), request.first_volume):
        store = container.store.apart()
        try:
            found[number] = _read_state(container, open_volume(container, store, oid, number), request)
        except FormatError as error:
            broken.append((number, oid, store, error))
    evidence = Evidence(replace(contents, volumes=[item for item in found.values() if item is not None]))
    for number, oid, store, why in broken:
        store.log.survive(why, code="volume-unreadable")
        try:
            found[number] = _read_state(container, reopen_volume(container, store, oid, number, evidence), request)
        except FormatError as error:
            container.log.extend(store.log.findings)
            container.log.survive(error, code="volume-unreadable")
            contents.lost.extend(store.lost)  # from its object map
    opened_volumes = [item for _, item in sorted(found.items()) if item is not None]
    for item in opened_volumes:
        # A repaired map leads only to sound objects.
        if item.log.has_errors and not item.is_locked:
            report_unreached(item)
    volumes = [rebuild_volume(item, evidence, opened_volumes) for item in opened_volumes]
    if not (volumes or _wants_live(container, request)):
        raise UsageError(snapshots.no_such_state(container, own.get("snapshot"), own.get("xid")))
    field = "incompatible_features"
    value = int(container.superblock.incompatible_features)
    _report_features(grammar.ApfsContainer.ContainerIncompatibleFeature, value, container.at_superblock(field))
    for state in (volume.state for volume in volumes):
        value = int(state.superblock.incompatible_features)
        _report_features(grammar.ApfsVolume.VolumeIncompatibleFeature, value, state.at_superblock(field))
    slots = {request.first_volume + number: slot for number, (slot, _) in enumerate(list_volumes(container))}
    return replace(contents, volumes=volumes, slots=slots)


_MISSING_FILES: Final = {
    "version1": (
        "version-unknown",
        "the container has version 1 of APFS, which is not published: files may be missing",
    ),
    "incomplete_restore": ("restore-incomplete", "a restore of this volume was interrupted: files may be missing"),
}
"""Codes and messages of incompatible features because of which files may be missing."""


def _report_features(
    known: type[IntEnum],  # a program that does not know one of the bits must not read the container or volume
    value: int,
    log: FindingLog,  # bound to the field
) -> None:
    """Report the bits in a field of incompatible features because of which files may be missing."""
    for item in known:
        if item.name in _MISSING_FILES and value & item:
            code, message = _MISSING_FILES[item.name]
            log.add(code, "error", message)
    unknown = value & ~sum(known)
    bits = [f"{1 << place:#x}" for place in range(unknown.bit_length()) if unknown >> place & 1]
    if bits:
        words = f"feature {bits[0]}" if len(bits) == 1 else f"features {', '.join(bits[:-1])} and {bits[-1]}"
        message = f"uses {words}, which layoutscope does not know: files may be missing"
        log.add("feature-unknown", "error", message)


def _open_or_salvage(request: VolumeRequest) -> tuple[Container, Swept | None]:
    """Open a container, and sweep it if requested.

    If nothing can be opened, or only an older state, the sweep must find everything: the nodes of the last state
    usually still exist.
    """
    log, xid = FindingLog(), request.options.get("xid")
    halves = order_halves((request.source, request.image_offset), request.second, log)
    opened: Container | None = None
    try:
        opened = open_container(halves[0], log, second=halves[1], xid=xid)
        if opened.younger is None or xid is not None:
            return opened, sweep(opened.blocks) if request.sweep else None
        lost_xid, paddr, reason = opened.younger
        reason, where = f"that of transaction {lost_xid}: {reason}", opened.blocks.at(paddr)
        why = FormatError(reason, structure="checkpoint", image_offset=where)
    except FormatError as error:
        why = error
    if request.sweep and xid is None:
        with suppress(FormatError):
            return salvage_container(halves, log, why)
    else:
        opened = reopen_container(halves, log, after_xid=opened.xid if opened else 0, xid=xid) or opened
    if opened is None:
        raise why
    return opened, sweep(opened.blocks) if request.sweep else None


def open_newest(request: VolumeRequest) -> Container:
    """Open the newest state of a container; its findings are reported elsewhere."""
    log = FindingLog()
    main, second = order_halves((request.source, request.image_offset), request.second, log)
    return open_container(main, log, second=second)


def _wants_live(container: Container, request: VolumeRequest) -> bool:
    """Return whether no snapshot was requested, neither by name nor by a transaction without a checkpoint."""
    return request.options.get("snapshot") is None and request.options.get("xid") in (None, container.xid)


def _read_state(container: Container, volume: Volume, request: VolumeRequest) -> VolumeParts | None:
    """Read the requested state of a volume; None if it has no such state."""
    own = request.options
    is_live = _wants_live(container, request)
    view = LIVE if is_live else snapshots.snapshot_view(container, volume, own.get("snapshot"), own.get("xid"))
    if view is None:
        return None
    return read_volume_parts(container, volume, key=key_of(container, volume, own.get("password")), chosen=view)
