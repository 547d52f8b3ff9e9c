"""APFS containers, opened as a caller asks: read into tables, or their states listed.

Tables are one layout of the container itself, then one of each volume. What belongs to no volume (checkpoint areas, the
container's object map, the space manager, free space) is in the first one, whose ``facts.volume`` is None.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError, UsageError
from layoutscope.filesystems.apfs import snapshots
from layoutscope.filesystems.apfs.container import open_container, report_changes
from layoutscope.filesystems.apfs.contents import ContainerContents, account, read_volume_parts
from layoutscope.filesystems.apfs.features import CONTAINER_INCOMPATIBLE, VOLUME_INCOMPATIBLE
from layoutscope.filesystems.apfs.fsrecords import report_losses
from layoutscope.filesystems.apfs.fusion import main_first, read_container_parts, report_missing, with_dirty
from layoutscope.filesystems.apfs.layout import (
    add_stale_nodes,
    build_container_layout,
    build_volume_layout,
    second_half,
)
from layoutscope.filesystems.apfs.mapped import report_unreached
from layoutscope.filesystems.apfs.rescue import Evidence, rebuilt, reopen_container, reopen_volume, salvage_container
from layoutscope.filesystems.apfs.snapshots import LIVE, count_dropped_nodes
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.sweep import sweep
from layoutscope.filesystems.apfs.volume import cipher_of, fs_source, list_volumes, open_volume
from layoutscope.filesystems.traits import report_features
from layoutscope.findings import FindingLog
from layoutscope.tables import attach_containers

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.filesystems.apfs.container import Container, Half, Halves
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.fusion import ContainerParts
    from layoutscope.filesystems.apfs.source import Store
    from layoutscope.filesystems.apfs.sweep import Swept
    from layoutscope.filesystems.apfs.volume import Volume
    from layoutscope.filesystems.contract import ReadableState
    from layoutscope.image.source import Source
    from layoutscope.tables import VolumeLayout


class Options(Struct, frozen=True):
    """How a container is read."""

    stack: tuple[str, ...] = ()  # layers around the container, outermost first
    first_volume: int = 1  # number of the container's first volume on the image
    second: tuple[Source, int] | None = None  # the other image of a Fusion set, and where its half starts there
    xid: int | None = None  # read the checkpoint of this transaction, or the snapshot of it
    snapshot: str | None = None  # read the snapshot of this name
    password: str | None = None  # password or recovery key of encrypted volumes
    sweep: bool = False  # look at the whole container for nodes, to rebuild broken trees and to count old copies


class KeptContainer(Struct, frozen=True):
    """What a check takes up of a container that was read for its tables."""

    contents: ContainerContents  # all that was read
    # drop what comparing for the tables wrote down since: a check says the same more exactly
    forget: list[Callable[[], None]]


def read_layouts(
    source: Source,
    *,
    image_offset: int = 0,  # where the container starts, in bytes
    options: Options | None = None,
    keep: Callable[[KeptContainer], None] | None = None,
    # compares the container's own structures (without a volume) and each volume's; their logs receive what differs
    compare: Callable[[ContainerContents, VolumeParts | None], None] | None = None,
) -> list[VolumeLayout]:
    """Read a container with all its volumes."""
    options = options or Options()
    half = (source, image_offset)
    if not options.second and (alone := second_half(half, options.stack, FindingLog(), sweeps=options.sweep)):
        return [alone]
    found = read_container(source, image_offset, options)
    container, parts = found.container, found.parts
    kept = KeptContainer(found, [log.mark() for log in (container.log, *(volume.log for volume in found.volumes))])
    if compare is not None:
        compare(found, None)
    for volume in found.volumes:
        if compare is not None:
            compare(found, volume)
        _bound_losses(volume, container.xid)
        for tree in (volume.fs, volume.extentref) if keep is None else ():
            tree.records.let_go()
    report_changes(container)
    view = snapshots.describe_state(container, options.xid)
    newest = (
        None if view == LIVE or container.younger else open_main_first(half, replace(options, xid=None), FindingLog())
    )
    layouts = [
        build_volume_layout(
            container, volume, options.stack, view, count_dropped_nodes(newest, volume.state, volume.fs.nodes)
        )
        for volume in found.volumes
    ]
    balance = account(container, parts, found.volumes)
    own = build_container_layout(found, balance, options.stack, view)
    if keep is not None:
        keep(kept)
    if found.swept is None:
        return attach_containers([own, *layouts])
    stale = add_stale_nodes(container.blocks, found.swept, own, list(zip(found.volumes, layouts, strict=True)))
    return attach_containers(stale)


def _bound_losses(parts: VolumeParts, max_xid: int) -> None:
    """Say which objects were in the parts of a damaged volume's trees that could not be read."""
    state, log = parts.state, parts.log
    if not log.has_errors or parts.is_locked or any(item.code == "tree-rebuilt" for item in log.findings):
        return
    report_losses(TreeSource(state.store, "omap", state.omap_header.tree_oid, max_xid), None, log)
    report_losses(fs_source(state.store, state, parts.cipher), parts.fs.records, log)


def is_second(half: Half, other: Half | None) -> bool:
    """Whether a half of a Fusion set is the second device, which tables number 1 whichever image was named first."""
    return main_first(half, other, FindingLog())[0] is not half


def list_states(
    source: Source,
    *,
    image_offset: int = 0,  # where the container starts, in bytes
    second: tuple[Source, int] | None = None,
) -> list[ReadableState]:
    """List the checkpoints and snapshots of a container that can be read."""
    half, alone = (source, image_offset), FindingLog()
    if not second and second_half(half, (), alone):
        raise FormatError(alone.findings[-1].message, structure="container superblock", image_offset=image_offset)
    return snapshots.states_of(open_main_first(half, Options(second=second), FindingLog()))


def read_container(
    source: Source,
    image_offset: int,  # where the container starts there, in bytes
    options: Options,
) -> ContainerContents:
    """Read a container with all its volumes; nothing is compared yet."""
    container, swept = _open_or_salvage((source, image_offset), options)
    parts = read_container_parts(container)
    container = with_dirty(container, parts.dirty)
    volumes = _read_volumes(container, parts, options, swept)
    if not (volumes or _wants_live(container, options)):
        raise UsageError(snapshots.no_such_state(container, options.snapshot, options.xid))
    listed = list_volumes(container)
    report_features(
        CONTAINER_INCOMPATIBLE,
        int(container.superblock.incompatible_features),
        container.at_superblock("incompatible_features"),
    )
    for volume in volumes:
        state = volume.state
        value = int(state.superblock.incompatible_features)
        report_features(VOLUME_INCOMPATIBLE, value, state.at_superblock("incompatible_features"))
    slots = {options.first_volume + number: slot for number, (slot, _) in enumerate(listed)}
    return ContainerContents(container, parts, volumes, slots, len(listed), swept)


def _open_or_salvage(half: Half, options: Options) -> tuple[Container, Swept | None]:
    """Open a container and sweep it if that is wanted.

    If nothing can be opened, or only an older state, the sweep must find everything: the nodes of
    the last one are still there, as a rule.
    """
    log = FindingLog()
    halves = main_first(half, options.second, log)
    opened: Container | None = None
    try:
        opened = _open_halves(halves, options, log)
        if opened.younger is None or options.xid is not None:
            return opened, sweep(opened.blocks) if options.sweep else None
        lost, where = opened.younger, opened.blocks.at(opened.younger.paddr)
        why = FormatError(f"that of transaction {lost.xid}: {lost.why}", structure="checkpoint", image_offset=where)
    except FormatError as error:
        why = error
    if options.sweep and options.xid is None:
        with suppress(FormatError):
            salvaged, swept = salvage_container(halves, log, why)
            report_missing(salvaged)
            return salvaged, swept
    else:
        reopened = reopen_container(halves, log, after_xid=opened.xid if opened else 0, xid=options.xid)
        if reopened is not None:
            report_missing(reopened)
            opened = reopened
    if opened is None:
        raise why
    return opened, sweep(opened.blocks) if options.sweep else None


def open_main_first(
    half: Half,  # the image, and where the container starts there, in bytes
    options: Options,
    log: FindingLog,
) -> Container:
    """Open a container with its main device first."""
    return _open_halves(main_first(half, options.second, log), options, log)


def _open_halves(halves: Halves, options: Options, log: FindingLog) -> Container:
    main, second = halves
    container = open_container(main, log, second=second, xid=options.xid)
    report_missing(container)
    return container


def _wants_live(container: Container, options: Options) -> bool:
    """Return whether no snapshot was requested: neither by its name nor by a transaction without a checkpoint."""
    return options.snapshot is None and options.xid in (None, container.xid)


def _read_volumes(
    container: Container, parts: ContainerParts, options: Options, swept: Swept | None
) -> list[VolumeParts]:
    """Read every volume in the state that was asked for; what cannot be opened, from what is left of it."""
    found: dict[int, VolumeParts | None] = {}
    broken: list[tuple[int, int, Store, FormatError]] = []
    for number, (_, oid) in enumerate(list_volumes(container), options.first_volume):
        store = container.store.apart()
        try:
            volume = open_volume(container, store, oid, number)
            found[number] = _read_state(container, volume, options)
        except FormatError as error:
            broken.append((number, oid, store, error))
    evidence = Evidence(container, parts.space, [item for item in found.values() if item is not None], swept)
    for number, oid, store, why in broken:
        store.log.survive(why, code="volume-unreadable")
        try:
            volume = reopen_volume(container, store, oid, number, evidence)
            found[number] = _read_state(container, volume, options)
        except FormatError as error:
            container.log.extend(store.log.findings)
            container.log.survive(error, code="volume-unreadable")
            parts.lost.extend(store.lost)  # of its object map
    volumes = [item for _, item in sorted(found.items()) if item is not None]
    for item in volumes:
        # A repaired map leads only to sound objects.
        if item.log.has_errors and not item.is_locked:
            report_unreached(item)
    return [rebuilt(item, evidence, volumes) for item in volumes]


def _read_state(container: Container, volume: Volume, options: Options) -> VolumeParts | None:
    """Read the state of a volume that was asked for; None if it has no such state."""
    is_live = _wants_live(container, options)
    view = LIVE if is_live else snapshots.snapshot_view(container, volume, options.snapshot, options.xid)
    if view is None:
        return None
    return read_volume_parts(container, volume, cipher=cipher_of(container, volume, options.password), chosen=view)
