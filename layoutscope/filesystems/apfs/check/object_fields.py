"""Rules of the fields of a container's own objects: superblock, its copy, maps, reaper, space manager, object maps.

Apple File System Reference; what only apfsck says was seen to hold of the containers that macOS makes. Free are times,
counters and identifiers that nothing else repeats, and the newest version that mounted the container.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.fieldrules import (
    ZERO,
    FieldRule,
    Structures,
    Want,
    bits_set,
    check_fields,
    equals,
    only_bits,
    rules,
)
from layoutscope.ondisk.records import (
    CHECKPOINT_MAP_HEAD,
    CHUNK_INFO,
    CIB_HEAD,
    NX_SUPERBLOCK,
    OMAP_PHYS,
    REAPER_HEAD,
    SPACEMAN_PHYS,
)
from layoutscope.recordtypes import Field, RecordType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.container.container import Container

REFERENCE: Final = "Apple File System Reference"
OBSERVED: Final = "as apfsck checks, observed"
TYPES = grammar.ApfsObject.ObjectType
STORAGE = grammar.ApfsObject.Storage
FEATURE = grammar.ApfsContainer.ContainerFeature
INCOMPATIBLE = grammar.ApfsContainer.ContainerIncompatibleFeature
NX, MAP, REAPER, SPACE = NX_SUPERBLOCK, CHECKPOINT_MAP_HEAD, REAPER_HEAD, SPACEMAN_PHYS
_RESERVED = "a reserved field is not zero"
_UNKNOWN = "bits that have no meaning"
_SUPERBLOCK_OID: Final = 1
_VOLUME_BYTES: Final = 512 << 20
_MOST_VOLUMES: Final = int(NX.fs_oid.counts[0])
_POOL_VERSIONS: Final = 16


def _stored(kind: int, storage: int) -> Want:
    return equals(kind | storage)


def _behind(index: str, used: str, room: str, container: Container) -> Want | None:
    """The next free block of a ring is the one behind those in use."""
    superblock = container.superblock
    size = getattr(superblock, room)
    return equals((getattr(superblock, index) + getattr(superblock, used)) % size) if size else None


def _most_volumes(container: Container) -> Want:
    size = container.superblock.num_blocks * container.blocks.block_size
    return equals(min(-(-size // _VOLUME_BYTES), _MOST_VOLUMES))


SUPERBLOCK_RULES: Final[tuple[FieldRule[Container], ...]] = (
    *rules(
        "superblock-differs",
        f"{REFERENCE}, nx_superblock_t",
        (NX.hdr.oid, equals(_SUPERBLOCK_OID), "superblocks of containers have one number"),
        (NX.hdr.type_and_flags, _stored(int(TYPES.nx_superblock), int(STORAGE.ephemeral)), "another type or storage"),
        (NX.hdr.subtype, ZERO, "superblocks have no subtype"),
        (NX.features, only_bits(int(FEATURE.defrag) | int(FEATURE.lcfd)), _UNKNOWN),
        (NX.readonly_compatible_features, ZERO, _UNKNOWN),
        (NX.incompatible_features, only_bits(sum(int(bit) for bit in INCOMPATIBLE)), _UNKNOWN),
        (NX.max_file_systems, _most_volumes, "a volume for each 512 MiB, begun ones too, and no more than 100"),
        (NX.test_type, ZERO, "a field for tests is set"),
        (NX.test_oid, ZERO, "a field for tests is set"),
        level="warning",
    ),
    *rules(
        "superblock-differs",
        OBSERVED,
        (NX.next_xid, lambda container: equals(container.xid + 1), "the next transaction does not follow this one"),
        (
            NX.xp_desc_next,
            partial(_behind, "xp_desc_index", "num_desc_used", "num_desc_blocks"),
            "the next block of the ring is not behind those in use",
        ),
        (
            NX.xp_data_next,
            partial(_behind, "xp_data_index", "num_data_used", "num_data_blocks"),
            "the next block of the ring is not behind those in use",
        ),
        (
            NX.fusion_uuid,
            lambda container: None if container.superblock.is_fusion else ZERO,
            "a container on one device belongs to no Fusion set",
        ),
        level="warning",
    ),
)
"""Rules of the superblock of a checkpoint."""

MAP_RULES: Final[tuple[FieldRule[NDArray[np.uint64]], ...]] = rules(
    "checkpoint-invalid",
    f"{REFERENCE}, checkpoint_map_phys_t",
    (MAP.hdr.oid, equals, "the number of a physical object is its address"),
    (MAP.hdr.subtype, ZERO, "checkpoint maps have no subtype"),
    (MAP.flags, only_bits(1), _UNKNOWN),
    level="warning",
)
"""Rules of checkpoint maps; their addresses are what is known otherwise."""


@frozen
class _Idle:
    """What is known of a reaper: its transaction, and whether it has nothing to do."""

    xid: int
    next_reap_id: int
    room: int
    is_idle: bool

    def empty(self) -> Want | None:
        return ZERO if self.is_idle else None

    def completed(self) -> Want | None:
        return equals(self.next_reap_id - 1) if self.is_idle else None


REAPER_RULES: Final[tuple[FieldRule[_Idle], ...]] = rules(
    "reaper-differs",
    f"{REFERENCE}, nx_reaper_phys_t; {OBSERVED}",
    (REAPER.hdr.xid, lambda idle: equals(idle.xid), "an ephemeral object is written with each checkpoint"),
    (REAPER.flags, bits_set(1), "the reaper is not initialised"),
    (REAPER.flags, only_bits(3), _UNKNOWN),
    (REAPER.completed_id, _Idle.completed, "an idle reaper has completed all that it began"),
    *(
        (field, _Idle.empty, "an idle reaper has nothing to reap")
        for field in (
            *(REAPER.tail_oid, REAPER.rlcount, REAPER.type, REAPER.len_object, REAPER.fs_oid, REAPER.oid),
            *(REAPER.xid, REAPER.nrle_flags),
        )
    ),
    (REAPER.len_state_buffer, lambda idle: equals(idle.room), "the state fills the rest of the block"),
    level="warning",
)
"""Rules of the reaper."""


@frozen
class _SpaceFacts:
    """What is known of a space manager: its transaction, block size, and the blocks that volumes reserve."""

    xid: int
    block_size: int
    num_reserved: int | None
    is_fusion: bool

    def chunks(self) -> Want:
        return equals((self.block_size - CIB_HEAD.width) // CHUNK_INFO.width)

    def cibs(self) -> Want:
        return equals((self.block_size - CIB_HEAD.width) // SPACE.num_ip_blocks.width)

    def reserved(self) -> Want | None:
        return None if self.num_reserved is None else equals(self.num_reserved)


SPACE_RULES: Final[tuple[FieldRule[_SpaceFacts], ...]] = rules(
    "spaceman-invalid",
    f"{REFERENCE}, spaceman_phys_t; {OBSERVED}",
    (SPACE.hdr.xid, lambda facts: equals(facts.xid), "an ephemeral object is written with each checkpoint"),
    (SPACE.chunks_per_cib, _SpaceFacts.chunks, "not as many as a block has room for"),
    (SPACE.cibs_per_cab, _SpaceFacts.cibs, "not as many as a block has room for"),
    (SPACE.ip_bm_tx_multiplier, equals(_POOL_VERSIONS), "the pool's bitmap is kept in sixteen versions"),
    (SPACE.flags, only_bits(1), _UNKNOWN),
    (SPACE.num_fs_reserve_blocks, _SpaceFacts.reserved, "volumes reserve another number of blocks"),
    level="warning",
)
"""Rules of the space manager."""

_MAP_FLAG = grammar.ApfsContainer.OmapFlag


def _map_flags(is_own: object) -> Want:
    """The container's object map has no snapshots: the system manages it by hand."""
    return equals(int(_MAP_FLAG.manually_managed)) if is_own else only_bits(sum(int(bit) for bit in _MAP_FLAG))


_TREE: Final = _stored(int(TYPES.btree), int(STORAGE.physical))

OMAP_RULES: Final[tuple[FieldRule[bool], ...]] = rules(
    "object-map-differs",
    f"{REFERENCE}, omap_phys_t; {OBSERVED}",
    (OMAP_PHYS.hdr.type_and_flags, _stored(int(TYPES.omap), int(STORAGE.physical)), "another type or storage"),
    (OMAP_PHYS.hdr.subtype, ZERO, "object maps have no subtype"),
    (OMAP_PHYS.flags, _map_flags, "flags that it cannot have"),
    (OMAP_PHYS.tree_type, _TREE, "another type or storage than that of its tree"),
    (OMAP_PHYS.snapshot_tree_type, _TREE, "another type or storage than that of its tree"),
    *(
        (field, lambda is_own: ZERO if is_own else None, "the container's object map has no snapshots")
        for field in (OMAP_PHYS.num_snapshots, OMAP_PHYS.snapshot_tree_oid, OMAP_PHYS.most_recent_snap)
    ),
    level="warning",
)
"""Rules of object maps; whether it is the container's own is what is known otherwise."""


def check_superblock(subject: Subject) -> None:
    """Every field of the checkpoint's superblock has the value that the others demand."""
    container = subject.container
    objects = _Objects("container superblock", NX, [container.checkpoint.paddr])
    _hold(subject, objects, SUPERBLOCK_RULES, container)


def check_maps(subject: Subject) -> None:
    """Checkpoint maps have the headers of physical objects."""
    paddrs = subject.container.checkpoint.map_paddrs
    objects = _Objects("checkpoint map", MAP, [int(paddr) for paddr in paddrs])
    _hold(subject, objects, MAP_RULES, np.array(paddrs, np.uint64))


def check_reaper(subject: Subject) -> None:
    """The reaper belongs to the checkpoint, and is empty where it has nothing to do."""
    container = subject.container
    item = container.checkpoint.ephemerals.get(container.superblock.reaper_oid)
    if item is None:
        return
    heads = _columns(container, REAPER, item.paddr, (REAPER.head_oid, REAPER.next_reap_id))
    idle = _Idle(
        container.xid,
        int(heads[REAPER.next_reap_id][0]),
        container.blocks.block_size - REAPER.width,
        not heads[REAPER.head_oid][0],
    )
    _hold(subject, _Objects("reaper", REAPER, [item.paddr]), REAPER_RULES, idle)


def check_space(subject: Subject) -> None:
    """Fields of the space manager that follow from the block size, the volumes and the checkpoint."""
    container = subject.container
    item = container.checkpoint.ephemerals.get(container.superblock.spaceman_oid)
    if item is None or subject.parts.space is None:
        return
    volumes = [parts.state.superblock for parts in subject.volumes if parts.view == "live"]
    is_known = subject.is_whole and len(volumes) == len([oid for oid in container.superblock.fs_oid if oid])
    reserved = sum(int(volume.num_reserve_blocks) for volume in volumes) if is_known else None
    facts = _SpaceFacts(container.xid, container.blocks.block_size, reserved, container.superblock.is_fusion)
    _hold(subject, _Objects("space manager", SPACE, [item.paddr]), SPACE_RULES, facts)


def check_container_omap(subject: Subject) -> None:
    """The head of the container's object map is that of a map without snapshots."""
    if len(subject.container.omap.nodes):
        paddr = subject.container.superblock.omap_oid
        _hold(subject, _Objects("container object map", OMAP_PHYS, [paddr]), OMAP_RULES, facts=True)


def check_volume_omaps(subject: Subject) -> None:
    """Heads of volumes' object maps have types that fit."""
    for parts in subject.volumes:
        paddr = parts.state.superblock.omap_oid
        if paddr:
            _hold(subject, _Objects("volume object map", OMAP_PHYS, [paddr]), OMAP_RULES, facts=False)


_OWN_TO_EACH: Final = ("hdr.cksum", "counters", "flags")
"""Fields that are another in block 0 of containers that macOS made."""


def copied_fields() -> list[Field]:
    """List the fields of the superblock that its copy in block 0 repeats."""
    return [each for each in _fields(NX) if each not in _OWN_TO_EACH]


def check_copy(subject: Subject) -> None:
    """Block 0 is a copy of the superblock of the checkpoint, where it is of the same transaction."""
    container = subject.container
    fields = copied_fields()
    newest = _columns(container, NX, container.checkpoint.paddr, fields)
    if not container.blocks.readable(np.zeros(1, np.uint64), container.blocks.block_size)[0]:
        return
    copy = _columns(container, NX, 0, (NX.hdr.xid,))
    if copy[NX.hdr.xid][0] == container.xid and container.checkpoint.paddr:
        declared: tuple[FieldRule[None], ...] = rules(
            "superblock-differs",
            OBSERVED,
            *((each, _same(newest[each]), "the copy is not as the checkpoint's") for each in fields),
            level="warning",
        )
        _hold(subject, _Objects("container superblock, copy in block 0", NX, [0]), declared, None)


def _same(values: NDArray[Any]) -> Want:
    shown = values.ravel()[0] if values.size == 1 and values.dtype.kind != "V" else "as there"
    return Want(lambda found: found == values, shown)


def _fields(record_type: RecordType) -> Iterator[Field]:
    for member in record_type.members():
        if isinstance(member, RecordType):
            yield from _fields(member)
        elif isinstance(member, Field):
            yield member


def _columns(
    container: Container, record_type: RecordType, paddr: int, fields: list[Field] | tuple[Field, ...]
) -> dict[str, NDArray[Any]]:
    blocks = container.blocks
    data = blocks.read(np.array([paddr], np.uint64), blocks.block_size).reshape(-1)
    return container.decoder.columns(record_type, data, np.zeros(1, np.int64), fields)


@frozen
class _Objects:
    """Blocks that hold objects of one type, and what they are called."""

    name: str
    record_type: RecordType
    paddrs: Sequence[int]


def _hold(subject: Subject, objects: _Objects, declared: tuple[FieldRule[Any], ...], facts: object) -> None:
    """Hold objects that can be read against rules."""
    container = subject.container
    blocks, places = container.blocks, np.array(objects.paddrs, np.uint64)
    if len(places) and blocks.readable(places, blocks.block_size).all():
        data = blocks.read(places, blocks.block_size).reshape(-1)
        starts = np.arange(len(places), dtype=np.int64) * blocks.block_size
        structures = Structures(objects.record_type, data, starts, container.decoder)
        log = subject.log
        check_fields(
            structures, declared, facts, lambda row, plus: log.at(objects.name, objects.paddrs[row], plus=plus)
        )
