"""Convert the contents of volumes and containers to tables."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.filesystems.apfs.container import find_superblock, uuid_text
from layoutscope.filesystems.apfs.contents import NO_RUNS, account, num_missing_entries
from layoutscope.filesystems.apfs.entries import entries_table, extents_table
from layoutscope.filesystems.apfs.nodes import DAMAGED, LOCKED, SOUND, UNKNOWN_LEVEL, NodeRows, rows_of, take_nodes
from layoutscope.filesystems.apfs.snapshots import LIVE
from layoutscope.filesystems.apfs.spaceman import Details, Region, rest, to_runs
from layoutscope.filesystems.apfs.sweep import TREES, Swept, sweep
from layoutscope.filesystems.apfs.verify import VALID_NAMES
from layoutscope.filesystems.apfs.volume import decode_stored_name, format_disk_time, program
from layoutscope.findings import FindingLog
from layoutscope.image.source import Window
from layoutscope.structs import arrays, grammar
from layoutscope.structs.arrays import is_among
from layoutscope.tables import (
    NULL_ROW,
    Table,
    TreeFacts,
    Values,
    VolumeFacts,
    VolumeLayout,
    build_table,
    findings_table,
    layout_findings,
    stack_tables,
)
from layoutscope.tables.columns import condition_details
from layoutscope.tables.schema import CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from enum import IntEnum

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.contents import ContainerContents, VolumeParts
    from layoutscope.filesystems.contract import VolumeRequest
    from layoutscope.structs.grammar import ApfsContainer


def feature_names(superblock: Any, *fields: tuple[str, type[IntEnum]]) -> tuple[str, ...]:
    """Return the names of the set bits in flag fields of a superblock; bits without a name as numbers."""
    names: list[str] = []
    for field, flags in fields:
        value = getattr(superblock, field)
        names += [item.name.replace("_", "-") for item in flags if value & item]
        left = value & ~sum(flags)
        names += [f"{left:#x}"] if left else []
    return tuple(names)


def tree_facts(trees: Sequence[NodeRows]) -> tuple[TreeFacts, ...]:
    """Describe trees as they were found."""
    return tuple(
        TreeFacts(
            tree=nodes.tree,
            node_size_bytes=int(nodes.size_bytes[0]),
            height=int(nodes.level[0]) + 1,
            num_nodes=len(nodes),
            num_free_nodes=0,
            num_leaf_records=int(nodes.num_records[nodes.level == 0].sum()),
            root_node_id=int(nodes.node_id[0]),
        )
        for nodes in trees
        # If a root cannot be used, only its address is known.
        if len(nodes) and not (nodes.level[0] == UNKNOWN_LEVEL and nodes.condition[0] != LOCKED)
    )


def role_name(role: int) -> str:
    """Return the name of a volume's role."""
    return grammar.member_name(grammar.ApfsVolume.VolumeRole, role) or f"{role:#x}"


def device_facts(container: Container) -> Details:
    """Return the size of each device of a Fusion set; nothing for other containers, which have a single device."""
    if not container.superblock.is_fusion:
        return {}
    size = container.blocks.block_size
    return {f"bytes of device {number}": count * size for number, count in enumerate(container.device_blocks)}


def volume_facts(
    container: Container,
    parts: VolumeParts,
    stack: tuple[str, ...],  # layers around the container, outermost first
    view: str,  # name of the state: `live`, `xid N` or `snapshot NAME`
    nodes: Table,
    details: Details,  # further facts, listed after those of the superblock
) -> VolumeFacts:
    """Describe a volume."""
    volume, kinds = parts.state, grammar.ApfsVolume
    superblock = volume.superblock
    where = "software" if container.superblock.is_crypto_sw else "hardware-bound or software"
    keys = "one key" if superblock.is_onekey else "a key for each file"
    users = [f"{program(entry)} (xid {entry.last_xid})" for entry in superblock.modified_by if entry.last_xid]
    own: Details = {
        "role": role_name(superblock.role),
        "encryption": "none" if superblock.is_unencrypted else f"{where}, {keys}",
        "snapshots": superblock.num_snapshots,
        "symlinks": superblock.num_symlinks,
        "other objects": superblock.num_other_fsobjects,
        "allocated blocks": superblock.num_alloced_blocks,
        "reserved blocks": superblock.num_reserve_blocks,
        "quota blocks": superblock.num_quota_blocks,
        "unmounted (UTC)": format_disk_time(superblock.unmount_time),
        "modified (UTC)": format_disk_time(superblock.last_mod_time),
        "next object id": superblock.next_obj_id,
        "formatted by": program(superblock.formatted_by),
        "formatted (UTC)": format_disk_time(superblock.formatted_by.timestamp),
        "modified by": ", ".join(users),
    }
    # System and data volumes of one macOS share a group since 10.15; other volumes store zeros.
    group = bytes(superblock.volume_group_id)
    if any(group):
        own["volume group"] = uuid_text(group)
    features = feature_names(
        superblock,
        ("incompatible_features", kinds.VolumeIncompatibleFeature),
        ("features", kinds.VolumeFeature),
        ("fs_flags", kinds.VolumeFlag),
    )
    # Unreadable nodes without a row have no address in the container either: no map leads to them, or a wrong one.
    missing = sum(item.code in ("node-missing", "unread-area") for item in parts.log.findings)
    missing = max(0, missing - int(nodes["condition"].equals("unread").sum()))
    unit = int(parts.fs.nodes.size_bytes[0]) if len(parts.fs.nodes) else 0
    sizes = nodes["size_bytes"].data
    # An inferred node may be an old copy of a lost one: it was read, but does not count as the lost node.
    is_read = nodes["condition"].equals("sound") & ~nodes["state"].equals("inferred")
    return VolumeFacts(
        filesystem="apfs",
        variant="APFS",
        volume=volume.number,
        name=decode_stored_name(superblock),
        uuid=uuid_text(bytes(superblock.vol_uuid)),
        stack=stack,
        image_offset=container.blocks.image_offsets[0],
        size_bytes=container.superblock.num_blocks * container.blocks.block_size,
        block_size_bytes=container.blocks.block_size,
        case_sensitive=not superblock.is_case_insensitive,
        stamp=volume.xid,
        num_files=superblock.num_files,
        num_directories=superblock.num_directories,
        features=(*features, *(["fusion"] if container.superblock.is_fusion else [])),
        details={**own, **device_facts(container), **_details(parts), **condition_details(nodes), **details},
        trees=tree_facts(parts.own_trees()),
        view=view,
        metadata_known_bytes=int(sizes.sum()) + missing * unit,
        metadata_read_bytes=int(sizes[is_read].sum()),
        num_missing_entries=num_missing_entries(parts),
    )


def container_facts(
    superblock: ApfsContainer.NxSuperblock, blocks: Blocks, stack: tuple[str, ...], details: Details
) -> VolumeFacts:
    """Describe a container, without number, name and file counts, which only volumes have."""
    kinds = grammar.ApfsContainer
    return VolumeFacts(
        filesystem="apfs",
        variant="APFS container",
        volume=None,
        name="",
        uuid=uuid_text(bytes(superblock.uuid)),
        stack=stack,
        image_offset=blocks.image_offsets[0],
        size_bytes=superblock.num_blocks * blocks.block_size,
        block_size_bytes=blocks.block_size,
        case_sensitive=False,
        stamp=superblock.hdr.xid,
        num_files=0,
        num_directories=0,
        features=feature_names(
            superblock,
            ("incompatible_features", kinds.ContainerIncompatibleFeature),
            ("features", kinds.ContainerFeature),
            ("flags", kinds.ContainerFlag),
        ),
        details=details,
    )


CONTENT_COLUMNS = ("num_records", "used_bytes", "free_bytes", "first_key_id", "last_key_id")
STATES = ("live", "snapshot", "stale", "inferred")
KINDS = ("leaf", "index", "locked", "unreadable")
SHOWN_TRANSACTIONS: Final = 8


def rows_before(trees: Sequence[NodeRows]) -> list[int]:
    """Number the nodes of several trees consecutively; return the row of each tree's first node."""
    return list(accumulate((len(nodes) for nodes in trees[:-1]), initial=0))[: len(trees)]


def nodes_table(
    trees: Sequence[NodeRows], blocks: Blocks, volume: int | None, states: list[NDArray[np.int64]]
) -> Table:
    """Make the table of nodes, in the order of their rows."""
    state = np.concatenate([np.empty(0, np.int64), *states])
    trees = [nodes for nodes in trees if len(nodes)]
    if not trees:
        return build_table("nodes", {})
    names = list(dict.fromkeys(nodes.tree for nodes in trees))
    codes = np.concatenate([np.full(len(nodes), names.index(nodes.tree)) for nodes in trees])
    paddr = blocks.newest(_all(trees, "paddr"))
    level, condition, xid = (_all(trees, name) for name in ("level", "condition", "xid"))
    # If a damaged node has sound records, these count, and its other contents are known too.
    is_known = (condition == SOUND) | ((condition == DAMAGED) & (_all(trees, "num_records") > 0))
    kind = np.where(is_known, np.minimum(level, 1), np.where(condition == LOCKED, 2, 3))
    columns: dict[str, Any] = {
        "device": blocks.split(paddr)[0],
        "volume": volume,
        "tree": (codes, names),
        "node_id": _all(trees, "node_id"),
        "image_offset": blocks.image_offset(paddr),
        "size_bytes": _all(trees, "size_bytes"),
        "level": Values(level, level != UNKNOWN_LEVEL),
        "kind": (kind, KINDS),
        # Only physical nodes store their transaction. That of a damaged node is not trusted, and 0 means none.
        "xid": Values(xid, is_known | (xid > 0)),
        **{name: Values(_all(trees, name), is_known) for name in CONTENT_COLUMNS},
        "key_rank": Values(_all(trees, "key_rank"), level != UNKNOWN_LEVEL),
        "parent_row": np.concatenate(
            [_refer(nodes.parent, first) for nodes, first in zip(trees, rows_before(trees), strict=True)]
        ),
        "locator_row": _refer(_all(trees, "omap_leaf"), 0),
        "state": (state, STATES),
        "valid": (_all(trees, "valid"), VALID_NAMES),
        "condition": (condition, CONDITIONS),
    }
    return build_table("nodes", columns)


def drop_known_nodes(lost: Sequence[NodeRows], trees: Sequence[NodeRows]) -> list[NodeRows]:
    """Drop lost nodes that are also in other trees, or are repeated: states share their nodes."""
    seen = np.concatenate([np.empty(0, np.uint64), *(nodes.paddr for nodes in trees)])
    kept = []
    for nodes in lost:
        fresh = nodes.take(np.flatnonzero(~np.isin(nodes.paddr, seen)))
        if len(fresh):
            kept.append(fresh)
            seen = np.concatenate([seen, fresh.paddr])
    return kept


def _all(trees: Sequence[NodeRows], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(nodes, name) for nodes in trees])


def _refer(position: NDArray[np.int64], first_row: int) -> NDArray[np.uint32]:
    """Convert positions in a tree to rows; null if the position is negative."""
    return np.where(position < 0, NULL_ROW, position + first_row).astype(np.uint32)


def add_stale_nodes(
    blocks: Blocks, swept: Swept, own: VolumeLayout, volumes: list[tuple[VolumeParts, VolumeLayout]]
) -> list[VolumeLayout]:
    """Add the nodes that no state uses, to the volume whose object map contains them or to the container's layout."""
    # A node that is current in any state of any volume is not an old copy; all of them share one address space.
    layouts = [own, *(layout for _, layout in volumes)]
    tables = [layout.columns("nodes") for layout in layouts]
    # Address and device as one number.
    known = np.concatenate([table["image_offset"].data * 2 + table["device"].data for table in tables])
    nodes = swept.take(swept.is_node & (swept.level >= 0))
    where = blocks.image_offset(nodes.paddr)
    device = blocks.split(nodes.paddr)[0].astype(np.int64)
    left = nodes.take(~np.isin(where * 2 + device, known))
    owner = np.full(len(left), -1, np.int64)
    for number, (parts, _) in enumerate(volumes):
        mine = np.isin(left.oid, parts.state.omap.oid) & (left.subtype == _subtype("fs"))
        owner[mine & (owner < 0)] = number
        if len(volumes) == 1:
            owner[left.subtype == _subtype("fs")] = number
    return [_add_nodes(layout, left.take(owner == number - 1), blocks) for number, layout in enumerate(layouts)]


def _subtype(tree: str) -> int:
    return next(number for number, name in TREES.items() if name == tree)


def _add_nodes(layout: VolumeLayout, left: Swept, blocks: Blocks) -> VolumeLayout:
    """Add nodes to a layout's table, counts to its facts, and a finding per tree."""
    trees: list[NodeRows] = []
    log = FindingLog(locate=blocks.place)
    details: dict[str, Any] = {}
    for name in dict.fromkeys([*TREES.values(), "other"]):
        rows = ~np.isin(left.subtype, list(TREES)) if name == "other" else np.isin(left.subtype, [_subtype(name)])
        some = left.take(rows)
        if len(some):
            # Their places in the tree are unknown.
            known = {column: getattr(some, column) for column in ("xid", "paddr", "size_bytes", "level", "num_records")}
            valid = np.full(len(some), VALID_NAMES.index("checksum"), np.uint8)
            trees.append(rows_of(name, known | {"node_id": some.oid, "valid": valid}))
            xids, counts = np.unique(some.xid, return_counts=True)
            newest = [f"xid {xid}: {count}" for xid, count in zip(xids.tolist(), counts.tolist(), strict=True)][::-1]
            shown = ", ".join(newest[:SHOWN_TRANSACTIONS]) + (", ..." if len(newest) > SHOWN_TRANSACTIONS else "")
            copies = np.unique(some.oid, return_counts=True)[1].max()
            message = (
                f"{len(some)} old nodes of {len(xids)} transactions remain, up to {copies} copies of one ({shown})"
            )
            log.at(f"{name} tree", int(some.paddr[0])).add("stale-nodes", "info", message)
            details[f"stale {name} nodes"] = len(some)
            details[f"stale {name} transactions"] = len(xids)
    if not trees:
        return layout.changed(facts=replace(layout.facts, details={**layout.facts.details, "stale nodes": 0}))
    states = [np.full(len(nodes), STATES.index("stale")) for nodes in trees]
    table = nodes_table(trees, blocks, layout.facts.volume, states)
    before = layout.columns("nodes")
    first = int(before["row"].data.max()) + 1 if len(before) else 0
    nodes = stack_tables([before, table.changed("row", Values(table["row"].data + np.uint32(first)))])
    findings = findings_table([*layout_findings(layout), *log.findings])
    facts = replace(layout.facts, details={**layout.facts.details, "stale nodes": len(left), **details})
    return layout.changed(facts=facts, nodes=nodes, findings=findings)


def regions_table(
    regions: Sequence[Region],
    blocks: Blocks,
    volume: int | None,  # number of the volume on the image; None for the container's own
) -> Table:
    """Make the table of regions, in address order."""
    if not regions:
        return build_table("regions", {})
    ordered = sorted(regions, key=lambda item: item.paddr)
    paddr = np.array([item.paddr for item in ordered], np.uint64)
    return build_table(
        "regions",
        {
            "device": blocks.split(paddr)[0],
            "volume": volume,
            "type": [item.type for item in ordered],
            "owner": [item.owner for item in ordered],
            "image_offset": blocks.image_offset(paddr),
            "length_bytes": np.array([item.num_blocks for item in ordered], np.int64) * blocks.block_size,
        },
    )


FIRMLINK: Final = b"com.apple.fs.firmlink"
"""Attribute of a system-volume folder that shows a folder of the data volume; not in Apple's reference."""

FS: Final = 1


def build_volume_layout(
    container: Container, parts: VolumeParts, stack: tuple[str, ...], live: str, details: Details
) -> VolumeLayout:
    """Convert the contents of a volume to tables."""
    blocks, state = container.blocks, parts.state
    view = live if parts.view == LIVE else parts.view
    own = parts.own_trees()
    read = [*own, *_exclusive_trees(parts, own)]
    lost = drop_known_nodes(parts.lost, read)
    trees = [*read, *lost, *drop_known_nodes(parts.lost_of_snapshots, [*read, *lost])]
    first = rows_before(trees)
    extent_row = first[own.index(parts.fext.nodes)] if len(parts.fext.nodes) else first[FS]
    states = _states(parts, read, len(own))
    states += [np.full(len(each), int(place >= len(lost))) for place, each in enumerate(trees[len(read) :])]
    nodes = nodes_table(trees, blocks, state.number, states)
    entries = entries_table(parts.fs, first[FS], state.number, parts.log)
    extents = extents_table(parts, extent_row)
    # In a locked volume, no data is known to belong to a file.
    kind = "file-data" if parts.is_locked else "snapshot-data" if parts.snapshots else "referenced-data"
    held = rest(kind, "extent references", parts.data_runs, parts.file_runs)
    return VolumeLayout(
        facts=volume_facts(container, parts, stack, view, nodes, details),
        nodes=nodes,
        node_fragments=build_table("node_fragments", {}),
        regions=regions_table([*parts.regions, *held], blocks, state.number),
        extents=extents,
        entries=entries,
        free=build_table("free", {}),
        findings=findings_table(parts.log.findings),
        node_views=_views(parts, trees, live),
    )


def _exclusive_trees(parts: VolumeParts, own: list[NodeRows]) -> list[NodeRows]:
    """Return the nodes that only other states hold, each physical node once."""
    known = np.concatenate([np.empty(0, np.uint64), *(nodes.paddr for nodes in own)])
    views = [nodes for nodes in parts.views.values() if not any(nodes is other for other in own)]
    if not views:
        return [tree.nodes for tree in parts.snapshot_extents]
    shown = np.concatenate([known, *(nodes.paddr for nodes in views)])
    first = np.sort(np.unique(shown, return_index=True)[1])
    stops = np.cumsum([len(known), *(len(nodes) for nodes in views)])
    fresh = np.split(first, np.searchsorted(first, stops))[1:-1]
    extra = [take_nodes(nodes, rows - start) for nodes, rows, start in zip(views, fresh, stops[:-1], strict=True)]
    return extra + [tree.nodes for tree in parts.snapshot_extents]


def _states(parts: VolumeParts, trees: list[NodeRows], num_own: int) -> list[NDArray[np.int64]]:
    """Return the state of each node: in the live state, only in snapshots, or inferred to be live."""
    live = next(iter(parts.views.values()))
    states = [
        (~is_among(nodes.paddr, live.paddr)).astype(np.int64)
        if nodes.tree == "fs" and nodes is not live
        else np.full(len(nodes), int(number >= num_own))
        for number, nodes in enumerate(trees)
    ]
    if len(parts.inferred):
        states[FS][is_among(trees[FS].paddr, parts.inferred)] = STATES.index("inferred")
    return states


def _views(parts: VolumeParts, trees: list[NodeRows], live: str) -> Table:
    """Return the views of the file-system tree's nodes; an empty table if there is only one view."""
    if len(parts.views) < 2:
        return build_table("node_views", {})
    chosen = [(nodes, first) for nodes, first in zip(trees, rows_before(trees), strict=True) if nodes.tree == "fs"]
    paddr = np.concatenate([nodes.paddr for nodes, _ in chosen])
    rows = np.concatenate([np.arange(first, first + len(nodes), dtype=np.uint32) for nodes, first in chosen])
    order = np.argsort(paddr, kind="stable")
    paddr, rows = paddr[order], rows[order]
    node_rows, parent_rows = [], []
    for nodes in parts.views.values():
        own = rows[np.searchsorted(paddr, nodes.paddr)]
        node_rows.append(own)
        parent_rows.append(np.where(nodes.parent < 0, NULL_ROW, own[np.maximum(nodes.parent, 0)]).astype(np.uint32))
    codes = np.repeat(np.arange(len(parts.views)), [len(own) for own in node_rows])
    columns = {
        "node_row": np.concatenate(node_rows),
        "view": (codes, [live if name == LIVE else name for name in parts.views]),
        "parent_row": np.concatenate(parent_rows),
        "key_rank": _all(list(parts.views.values()), "key_rank"),
    }
    return build_table("node_views", columns)


def _details(parts: VolumeParts) -> Details:
    trees = (parts.fs, parts.extentref, parts.snapmeta, parts.fext)
    details: Details = {
        "locked": parts.is_locked,
        "object map entries": len(parts.state.omap),
        "records": sum(tree.num_records for tree in trees),
        "records decoded": sum(tree.num_decoded for tree in trees),
    }
    for name in sorted(parts.fs.tables):
        details[f"{name} records"] = parts.fs.count(name)
    xattrs = parts.fs.get("xattr")
    # Names are unknown in a tree that has no attributes, or is locked.
    if role_name(parts.state.superblock.role) == "system" and "xattr" in parts.fs.tables:
        details["firmlinks"] = int(xattrs["name"].equal_to(FIRMLINK).sum())
    details |= parts.rolling_details
    if len(parts.views) > 1:
        # The nodes of each view, those that it holds exclusively, and the bytes that views share.
        views = list(parts.views.values())
        _, first, place, counts = np.unique(
            _all(views, "paddr"), return_index=True, return_inverse=True, return_counts=True
        )
        size, start = _all(views, "size_bytes")[first], 0
        details["shared metadata bytes"] = int(size[counts > 1].sum())
        details["exclusive metadata bytes"] = int(size[counts == 1].sum())
        for name, nodes in parts.views.items():
            alone = counts[place[start : start + len(nodes)]] == 1
            details |= {f"{name} nodes": len(alone), f"{name} nodes held by it alone": int(alone.sum())}
            start += len(nodes)
    if parts.state.seal:
        details["seal"] = "broken" if parts.state.seal.is_broken else "intact"
    return details


def build_container_layout(contents: ContainerContents, stack: tuple[str, ...], view: str) -> VolumeLayout:
    """Convert the container's own structures to tables; ``volume`` is null in them."""
    container, space = contents.container, contents.space
    blocks = container.blocks
    is_known = space is not None and space.is_free_known
    balance = account(contents)
    unclaimed = rest("unclaimed", "space manager", balance["unclaimed blocks"], NO_RUNS) if is_known else []
    trees = [*contents.trees, *drop_known_nodes(contents.lost, contents.trees)]
    nodes = nodes_table(trees, blocks, None, [np.zeros(len(tree), np.int64) for tree in trees])
    sizes = nodes["size_bytes"].data
    read = int(sizes[nodes["condition"].equals("sound")].sum())
    known = int(sizes.sum()) + blocks.block_size * ((space is None) + (not len(container.omap.nodes)))
    waiting = arrays.total(to_runs(space.pending)) if space else 0
    superblock = container.superblock
    groups: dict[str, list[str]] = {}
    for state in (volume.state for volume in contents.volumes):
        group = bytes(state.superblock.volume_group_id)
        if any(group):
            member = f"volume {state.number} ({role_name(state.superblock.role)})"
            groups.setdefault(f"volume group {uuid_text(group)}", []).append(member)
    details: Details = {
        "volumes": sum(bool(oid) for oid in superblock.fs_oid),
        "most volumes": superblock.max_file_systems,
        "checkpoint at block": container.checkpoint.paddr,
        "descriptor blocks": superblock.num_desc_blocks,
        "data blocks": superblock.num_data_blocks,
        "next oid": superblock.next_oid,
        **device_facts(container),
        **{group: " + ".join(members) for group, members in groups.items()},
        **contents.details,
        **({name: arrays.total(runs) for name, runs in balance.items()} if is_known else {"free space": "unknown"}),
        "pending-free blocks": waiting,
        **condition_details(nodes),
    }
    free = balance["free blocks"] if is_known else NO_RUNS
    free_paddr = free[:, 0].astype(np.uint64)
    facts = replace(
        container_facts(superblock, blocks, stack, details),
        stamp=container.xid,
        trees=tree_facts(contents.trees),
        view=view,
        metadata_known_bytes=known,
        metadata_read_bytes=read,
    )
    return VolumeLayout(
        facts=facts,
        nodes=nodes,
        node_fragments=build_table("node_fragments", {}),
        regions=regions_table([*contents.regions, *unclaimed], blocks, None),
        extents=build_table("extents", {}),
        entries=build_table("entries", {}),
        free=build_table(
            "free",
            {
                "device": blocks.split(free_paddr)[0],
                "volume": None,
                "image_offset": blocks.image_offset(free_paddr),
                "length_bytes": free[:, 1] * blocks.block_size,
            },
        ),
        findings=findings_table(container.log.findings),
    )


def lone_half_layout(request: VolumeRequest, log: FindingLog) -> VolumeLayout | None:
    """Make a layout of the second device of a Fusion set without the main one; None for any other image.

    It contains the data of the superblock's copy and, after a sweep, the nodes on the device.
    """
    source, image_offset = request.source, request.image_offset
    try:
        superblock = find_superblock(source, image_offset, log)
    except FormatError:
        return None
    if not superblock.is_fusion or superblock.is_fusion_main:
        return None
    message = "this is the second device of a Fusion set; its main device, with all checkpoints, was not given"
    log.at("container superblock", image_offset).add("fusion-half", "error", message)
    size = source.size_bytes - image_offset
    blocks = Blocks((Window(source, image_offset, size),), (image_offset,), superblock.len_block)
    empty = {name: build_table(name, {}) for name in ("nodes", "node_fragments", "extents", "entries", "free")}
    own = regions_table([Region("container-superblock", "copy in block 0", 0)], blocks, None)
    details: Details = {
        "fusion device": "second",
        "fusion set": uuid_text(bytes(superblock.fusion_uuid)),
        "volumes": sum(bool(oid) for oid in superblock.fs_oid),
        "most volumes": superblock.max_file_systems,
        "blocks of both devices": superblock.num_blocks,
        "next oid": superblock.next_oid,
    }
    facts = replace(container_facts(superblock, blocks, request.stack, details), size_bytes=size)
    layout = VolumeLayout(facts=facts, regions=own, findings=findings_table(log.findings), **empty)
    return add_stale_nodes(blocks, sweep(blocks), layout, [])[0] if request.sweep else layout
