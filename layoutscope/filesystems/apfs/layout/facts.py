"""What containers and volumes say of themselves, for reports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from layoutscope.filesystems.apfs.container.container import uuid_text
from layoutscope.filesystems.apfs.store.nodes import LOCKED, UNKNOWN_LEVEL
from layoutscope.filesystems.apfs.volume.volume import program, stored_name
from layoutscope.ondisk import grammar
from layoutscope.tables import TreeFacts, VolumeFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from enum import IntEnum

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.regions import Details
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.volume.volume import Volume


def flag_names(value: int, flags: type[IntEnum]) -> tuple[str, ...]:
    """Names of the bits that are set; bits without a name as numbers."""
    names = [item.name.replace("_", "-") for item in flags if value & item]
    left = value & ~sum(flags)
    return (*names, *([f"{left:#x}"] if left else []))


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
        # Of a root that cannot be used only its place is known.
        if len(nodes) and not (nodes.level[0] == UNKNOWN_LEVEL and nodes.condition[0] != LOCKED)
    )


def shown_time(nanoseconds: int) -> str:
    """Return a time of the disk in UTC; empty where it is not set."""
    seconds = nanoseconds // 10**9
    # Up to the year 4147: beyond it are damaged fields, up to more years than a date can have.
    if not 0 < seconds < 2**36:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def role_name(role: int) -> str:
    """Return the name of a volume's role."""
    try:
        return grammar.ApfsVolume.VolumeRole(role).name
    except ValueError:
        return f"{role:#x}"


def encryption_name(container: Container, superblock: grammar.ApfsVolume.ApfsSuperblock) -> str:
    """Tell how a volume is encrypted, as far as superblocks say."""
    if superblock.is_unencrypted:
        return "none"
    where = "software" if container.superblock.is_crypto_sw else "hardware-bound or software"
    keys = "one key" if superblock.is_onekey else "a key for each file"
    return f"{where}, {keys}"


def volume_groups(volumes: Sequence[Volume]) -> Details:
    """List the volumes of each group together, with their roles."""
    groups: dict[bytes, list[str]] = {}
    for volume in volumes:
        group, role = bytes(volume.superblock.volume_group_id), role_name(volume.superblock.role)
        if any(group):
            groups.setdefault(group, []).append(f"volume {volume.number} ({role})")
    return {f"volume group {uuid_text(group)}": " + ".join(members) for group, members in groups.items()}


def volume_features(superblock: grammar.ApfsVolume.ApfsSuperblock) -> tuple[str, ...]:
    """Name every feature and flag of a volume."""
    kinds = grammar.ApfsVolume
    names = flag_names(superblock.incompatible_features, kinds.VolumeIncompatibleFeature)
    names += flag_names(superblock.features, kinds.VolumeFeature)
    return (*names, *flag_names(superblock.fs_flags, kinds.VolumeFlag))


def container_features(superblock: grammar.ApfsContainer.NxSuperblock) -> tuple[str, ...]:
    """Name every feature and flag of a container."""
    kinds = grammar.ApfsContainer
    names = flag_names(superblock.incompatible_features, kinds.ContainerIncompatibleFeature)
    names += flag_names(superblock.features, kinds.ContainerFeature)
    return (*names, *flag_names(superblock.flags, kinds.ContainerFlag))


def device_facts(container: Container) -> Details:
    """Size of each device of a Fusion set; other containers have one, whose size is theirs."""
    if not container.superblock.is_fusion:
        return {}
    size = container.blocks.block_size
    return {f"bytes of device {number}": count * size for number, count in enumerate(container.device_blocks)}


def history_facts(superblock: grammar.ApfsVolume.ApfsSuperblock) -> Details:
    """Who formatted and changed the volume, and when."""
    details: Details = {
        "formatted by": program(superblock.formatted_by),
        "formatted (UTC)": shown_time(superblock.formatted_by.timestamp),
    }
    users = [f"{program(entry)} (xid {entry.last_xid})" for entry in superblock.modified_by if entry.last_xid]
    return details | {"modified by": ", ".join(users)}


class Summary(NamedTuple):
    """What reports are told of a volume or container beside its superblock."""

    stack: tuple[str, ...]  # layers around the container, outermost first
    view: str  # what the state is called: `live`, `xid N` or `snapshot NAME`
    trees: Sequence[NodeRows]  # its trees; empty ones are left out
    details: Mapping[str, str | int | float | bool]  # further facts, shown after those of the superblock
    # known_bytes, read_bytes: metadata that are known to exist, and those of them that could be read
    known_bytes: int
    read_bytes: int
    num_missing_entries: int = 0  # entries that are lost at the least


def volume_facts(container: Container, volume: Volume, summary: Summary) -> VolumeFacts:
    """Describe a volume."""
    superblock = volume.superblock
    own: Details = {
        "role": role_name(superblock.role),
        "encryption": encryption_name(container, superblock),
        "snapshots": superblock.num_snapshots,
        "symlinks": superblock.num_symlinks,
        "other objects": superblock.num_other_fsobjects,
        "allocated blocks": superblock.num_alloced_blocks,
        "reserved blocks": superblock.num_reserve_blocks,
        "quota blocks": superblock.num_quota_blocks,
        "unmounted (UTC)": shown_time(superblock.unmount_time),
        "modified (UTC)": shown_time(superblock.last_mod_time),
        "next object id": superblock.next_obj_id,
        **history_facts(superblock),
    }
    # System and data volumes of one macOS share a group since 10.15; all others have zeros there.
    group = bytes(superblock.volume_group_id)
    if any(group):
        own["volume group"] = uuid_text(group)
    return VolumeFacts(
        filesystem="apfs",
        variant="APFS",
        volume=volume.number,
        name=stored_name(superblock),
        uuid=uuid_text(bytes(superblock.vol_uuid)),
        stack=summary.stack,
        image_offset=container.blocks.image_offsets[0],
        size_bytes=container.superblock.num_blocks * container.blocks.block_size,
        block_size_bytes=container.blocks.block_size,
        case_sensitive=not superblock.is_case_insensitive,
        stamp=volume.xid,
        num_files=superblock.num_files,
        num_directories=superblock.num_directories,
        features=(*volume_features(superblock), *(["fusion"] if container.superblock.is_fusion else [])),
        details={**own, **device_facts(container), **summary.details},
        trees=tree_facts(summary.trees),
        view=summary.view,
        metadata_known_bytes=summary.known_bytes,
        metadata_read_bytes=summary.read_bytes,
        num_missing_entries=summary.num_missing_entries,
    )


def container_facts(container: Container, summary: Summary) -> VolumeFacts:
    """Describe a container: without number, name and counts of files, which only volumes have."""
    superblock = container.superblock
    own: Details = {
        "volumes": sum(bool(oid) for oid in superblock.fs_oid),
        "most volumes": superblock.max_file_systems,
        "checkpoint at block": container.checkpoint.paddr,
        "descriptor blocks": superblock.num_desc_blocks,
        "data blocks": superblock.num_data_blocks,
        "next oid": superblock.next_oid,
    }
    return VolumeFacts(
        filesystem="apfs",
        variant="APFS container",
        volume=None,
        name="",
        uuid=uuid_text(bytes(superblock.uuid)),
        stack=summary.stack,
        image_offset=container.blocks.image_offsets[0],
        size_bytes=superblock.num_blocks * container.blocks.block_size,
        block_size_bytes=container.blocks.block_size,
        case_sensitive=False,
        stamp=container.xid,
        num_files=0,
        num_directories=0,
        features=container_features(superblock),
        details={**own, **device_facts(container), **summary.details},
        trees=tree_facts(summary.trees),
        view=summary.view,
        metadata_known_bytes=summary.known_bytes,
        metadata_read_bytes=summary.read_bytes,
    )
