"""What containers and volumes say of themselves, for reports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from layoutscope.filesystems.apfs.container.container import uuid_text
from layoutscope.filesystems.apfs.volume.volume import program, stored_name
from layoutscope.ondisk import grammar
from layoutscope.tables import TreeFacts, VolumeFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from enum import IntEnum

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.volume.volume import Volume

Details = dict[str, "str | int | float | bool"]


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
        if len(nodes)
    )


def shown_time(nanoseconds: int) -> str:
    """Return a time of the disk in UTC; empty where it is not set."""
    seconds = nanoseconds // 10**9
    if not 0 < seconds < 2**36:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def role_name(role: int) -> str:
    """Return the name of a volume's role."""
    try:
        return grammar.ApfsVolume.VolumeRole(role).name
    except ValueError:
        return f"{role:#x}"


def encryption_name(container: Container, superblock: Any) -> str:
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


def volume_features(superblock: Any) -> tuple[str, ...]:
    """Name every feature and flag of a volume."""
    kinds = grammar.ApfsVolume
    names = flag_names(superblock.incompatible_features, kinds.VolumeIncompatibleFeature)
    names += flag_names(superblock.features, kinds.VolumeFeature)
    return (*names, *flag_names(superblock.fs_flags, kinds.VolumeFlag))


def container_features(superblock: Any) -> tuple[str, ...]:
    """Name every feature and flag of a container."""
    kinds = grammar.ApfsContainer
    names = flag_names(superblock.incompatible_features, kinds.ContainerIncompatibleFeature)
    names += flag_names(superblock.features, kinds.ContainerFeature)
    return (*names, *flag_names(superblock.flags, kinds.ContainerFlag))


def history_facts(superblock: Any) -> Details:
    """Who formatted and changed the volume, and when."""
    details: Details = {
        "formatted by": program(superblock.formatted_by),
        "formatted": shown_time(superblock.formatted_by.timestamp),
    }
    users = [f"{program(entry)} (xid {entry.last_xid})" for entry in superblock.modified_by if entry.last_xid]
    return details | {"modified by": ", ".join(users)}


def volume_facts(
    container: Container,
    volume: Volume,
    stack: tuple[str, ...],
    trees: Sequence[NodeRows],
    view: str,
    details: Mapping[str, str | int | float | bool],
    coverage: tuple[int, int],
) -> VolumeFacts:
    """Describe a volume.

    Parameters
    ----------
    container : Container
        The container, which gives place, size and block size.
    volume : Volume
        The state that is shown.
    stack : tuple of str
        Layers around the container, outermost first.
    trees : sequence of NodeRows
        Trees of this state; empty ones are left out.
    view : str
        What the state is called: ``live``, ``xid N`` or ``snapshot NAME``.
    details : mapping
        Further facts, shown after those of the superblock.
    coverage : (int, int)
        Bytes of metadata that are known to exist, and those of them that could be read.

    Returns
    -------
    VolumeFacts
        Counts as the superblock has them; offset and size are the container's.
    """
    superblock = volume.superblock
    own: Details = {
        "role": role_name(superblock.role),
        "encryption": encryption_name(container, superblock),
        "snapshots": superblock.num_snapshots,
        "symlinks": superblock.num_symlinks,
        "other objects": superblock.num_other_fsobjects,
        "allocated blocks": superblock.fs_alloc_count,
        "reserved blocks": superblock.fs_reserve_block_count,
        "quota blocks": superblock.fs_quota_block_count,
        "unmounted": shown_time(superblock.unmount_time),
        "modified": shown_time(superblock.last_mod_time),
        "next object id": superblock.next_obj_id,
        **history_facts(superblock),
    }
    group = bytes(superblock.volume_group_id)
    if any(group):
        own["volume group"] = uuid_text(group)
    return VolumeFacts(
        filesystem="apfs",
        variant="APFS",
        volume=volume.number,
        name=stored_name(superblock),
        uuid=uuid_text(bytes(superblock.vol_uuid)),
        stack=stack,
        image_offset=container.blocks.image_offsets[0],
        size_bytes=container.superblock.block_count * container.blocks.block_size,
        block_size_bytes=container.blocks.block_size,
        case_sensitive=not superblock.is_case_insensitive,
        stamp=volume.xid,
        num_files=superblock.num_files,
        num_directories=superblock.num_directories,
        features=(*volume_features(superblock), *(["fusion"] if container.superblock.is_fusion else [])),
        details={**own, **details},
        trees=tree_facts(trees),
        view=view,
        metadata_known_bytes=coverage[0],
        metadata_read_bytes=coverage[1],
    )


def container_facts(
    container: Container,
    stack: tuple[str, ...],
    trees: Sequence[NodeRows],
    details: Mapping[str, str | int | float | bool],
    coverage: tuple[int, int],
    view: str,
) -> VolumeFacts:
    """Describe a container.

    Parameters
    ----------
    container : Container
        The container.
    stack : tuple of str
        Layers around it, outermost first.
    trees : sequence of NodeRows
        Trees that belong to no volume; empty ones are left out.
    details : mapping
        Further facts, shown after those of the superblock.
    coverage : (int, int)
        Bytes of metadata that are known to exist, and those of them that could be read.
    view : str
        What the state is called: ``live``, or ``xid N`` where the checkpoint is an older one.

    Returns
    -------
    VolumeFacts
        Without number, name and counts of files, which only volumes have.
    """
    superblock = container.superblock
    own: Details = {
        "volumes": sum(bool(oid) for oid in superblock.fs_oid),
        "most volumes": superblock.max_file_systems,
        "checkpoint at block": container.checkpoint.paddr,
        "descriptor blocks": superblock.desc_num_blocks,
        "data blocks": superblock.data_num_blocks,
        "next oid": superblock.next_oid,
    }
    return VolumeFacts(
        filesystem="apfs",
        variant="APFS container",
        volume=None,
        name="",
        uuid=uuid_text(bytes(superblock.uuid)),
        stack=stack,
        image_offset=container.blocks.image_offsets[0],
        size_bytes=superblock.block_count * container.blocks.block_size,
        block_size_bytes=container.blocks.block_size,
        case_sensitive=False,
        stamp=container.xid,
        num_files=0,
        num_directories=0,
        features=container_features(superblock),
        details={**own, **details},
        trees=tree_facts(trees),
        view=view,
        metadata_known_bytes=coverage[0],
        metadata_read_bytes=coverage[1],
    )
