"""Rules of the fields of a checkpoint: superblock and its copy, maps and their entries, headers of ephemeral objects.

Apple File System Reference; what only apfsck says was seen to hold of the containers that macOS makes. Free are times,
counters and identifiers that nothing else repeats, and the newest version that mounted the container.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.filesystems.apfs.check.object_fields import (
    OBSERVED,
    REFERENCE,
    RESERVED,
    STORAGE,
    TYPES,
    UNKNOWN,
    UNKNOWN_TO_WRITERS,
    TypedBlocks,
    all_fields,
    columns_of,
    hold,
    stored_as,
)
from layoutscope.filesystems.apfs.container.checkpoint import MAX_OBJECT_BYTES
from layoutscope.ondisk import grammar
from layoutscope.ondisk.checksum import fletcher64
from layoutscope.ondisk.fieldrules import (
    ZERO,
    FieldRule,
    Structures,
    Want,
    check_fields,
    equals,
    only_bits,
    rules,
)
from layoutscope.ondisk.records import CHECKPOINT_MAP_HEAD, CHECKPOINT_MAPPING, NX_SUPERBLOCK, OBJ_PHYS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.findings import FindingLog
    from layoutscope.recordtypes import Field

NX, MAP = NX_SUPERBLOCK, CHECKPOINT_MAP_HEAD
FEATURE = grammar.ApfsContainer.ContainerFeature
_SUPERBLOCK_OID: Final = 1
_CONTAINER_FLAGS: Final = int(grammar.ApfsContainer.ContainerFlag.crypto_sw)
"""The two others are reserved."""
_EPHEMERAL: Final = 4 << 16 | 1
"""Of the first number about ephemeral objects: how many structures a volume has, and the version."""
_VOLUME_BYTES: Final = 512 << 20
_MOST_VOLUMES: Final = int(NX.fs_oid.counts[0])


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
        (NX.hdr.type_and_flags, stored_as(int(TYPES.nx_superblock), int(STORAGE.ephemeral)), "another type or storage"),
        (NX.hdr.subtype, ZERO, "superblocks have no subtype"),
        (NX.features, only_bits(int(FEATURE.defrag) | int(FEATURE.lcfd)), UNKNOWN),
        (NX.readonly_compatible_features, ZERO, UNKNOWN_TO_WRITERS),
        (NX.max_file_systems, _most_volumes, "a volume for each 512 MiB, begun ones too, and no more than 100"),
        (NX.flags, only_bits(_CONTAINER_FLAGS), UNKNOWN),
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
            NX.ephemeral_info,
            Want(
                lambda found: found & np.uint64(0xFFFF_FFFF) == np.array([_EPHEMERAL, 0, 0, 0]),
                f"{_EPHEMERAL:#x}, 0, 0, 0",
            ),
            "not the version and the number of structures that are known",
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
    (
        MAP.hdr.type_and_flags,
        stored_as(int(TYPES.checkpoint_map), int(STORAGE.physical)),
        "another type or storage",
    ),
    (MAP.hdr.subtype, ZERO, "checkpoint maps have no subtype"),
    (MAP.flags, only_bits(1), UNKNOWN),
    level="warning",
)
"""Rules of checkpoint maps; their addresses are what is known otherwise."""


MAPPING: Final = CHECKPOINT_MAPPING


def _some_volume(container: Container) -> Want:
    known = np.array([0, *(oid for oid in container.superblock.fs_oid if oid)], np.uint64)
    return Want(lambda found: np.isin(found, known), "a volume of the container, or 0")


MAPPING_RULES: Final[tuple[FieldRule[Container], ...]] = rules(
    "checkpoint-invalid",
    f"{REFERENCE}, checkpoint_mapping_t; {OBSERVED}",
    (MAPPING.pad, ZERO, RESERVED),
    (MAPPING.fs_oid, _some_volume, "it belongs to a volume that there is not"),
    level="warning",
)
"""Rules of the entries of checkpoint maps."""


def check_superblock(subject: Subject) -> None:
    """Every field of the checkpoint's superblock has the value that the others demand."""
    container = subject.container
    objects = TypedBlocks("container superblock", NX, [container.checkpoint.paddr])
    hold(subject, objects, SUPERBLOCK_RULES, container)


def check_map_headers(subject: Subject) -> None:
    """Checkpoint maps have the headers of physical objects."""
    paddrs = subject.container.checkpoint.map_paddrs
    objects = TypedBlocks("checkpoint map", MAP, [int(paddr) for paddr in paddrs])
    hold(subject, objects, MAP_RULES, np.array(paddrs, np.uint64))


def check_mappings(subject: Subject) -> None:
    """Entries of checkpoint maps belong to volumes that there are, and bear the whole type of their objects."""
    container = subject.container
    size, head = container.blocks.block_size, (MAP.num_mappings,)
    for paddr in map(int, container.checkpoint.map_paddrs):
        data = container.blocks.read(np.array([paddr], np.uint64), size).reshape(-1)
        count = int(container.decoder.columns(MAP, data, np.zeros(1, np.int64), head)[MAP.num_mappings][0])
        starts = MAP.width + np.arange(min(count, (size - MAP.width) // MAPPING.width), dtype=np.int64) * MAPPING.width
        structures = Structures(MAPPING, data, starts, container.decoder)
        at = partial(_at_mapping, subject, paddr, starts)
        check_fields(structures, MAPPING_RULES, container, at)
        found = container.decoder.columns(
            MAPPING, data, starts, (MAPPING.type_and_flags, MAPPING.len_object, MAPPING.paddr)
        )
        for row, (kind, length, where) in enumerate(zip(*(found[name].tolist() for name in found), strict=True)):
            _check_ephemeral(subject, where, length, kind, at(row, MAPPING.type_and_flags.offset))


def _at_mapping(subject: Subject, paddr: int, starts: NDArray[np.int64], row: int, plus: int) -> FindingLog:
    return subject.log.at("checkpoint map", paddr, plus=int(starts[row]) + plus)


def _check_ephemeral(subject: Subject, paddr: int, length: int, kind: int, log: FindingLog) -> None:
    """Each ephemeral object is written with every checkpoint, and its mapping repeats its type.

    What fails its own checksum contradicts nothing.
    """
    container, where = subject.container, np.array([paddr], np.uint64)
    is_sized = 0 < length <= MAX_OBJECT_BYTES and length % container.blocks.block_size == 0
    if not is_sized or not container.blocks.readable(where, length)[0]:
        return
    computed = fletcher64(container.blocks.read(where, length))
    if columns_of(container, OBJ_PHYS, paddr, (OBJ_PHYS.cksum,))[OBJ_PHYS.cksum][0] != computed[0]:
        return
    head = columns_of(container, OBJ_PHYS, paddr, (OBJ_PHYS.type_and_flags, OBJ_PHYS.xid))
    stored = int(head[OBJ_PHYS.type_and_flags][0])
    if stored != kind:
        message = f"{MAPPING.type_and_flags}: the object there has another type or other flags"
        log.add("checkpoint-invalid", "warning", message, expected=f"{stored:#x}", found=f"{kind:#x}")
    hold(subject, TypedBlocks("ephemeral object", OBJ_PHYS, [paddr]), EPHEMERAL_RULES, container)


EPHEMERAL_RULES: Final[tuple[FieldRule[Container], ...]] = rules(
    "checkpoint-invalid",
    f"{REFERENCE}, Ephemeral Objects",
    (OBJ_PHYS.xid, lambda container: equals(container.xid), "an ephemeral object is written with each checkpoint"),
    level="warning",
)
"""Rules of every ephemeral object."""


_OWN_TO_EACH: Final = ("hdr.cksum", "counters", "flags")
"""Fields that are another in block 0 of containers that macOS made."""


def copied_fields() -> list[Field]:
    """List the fields of the superblock that its copy in block 0 repeats."""
    return [each for each in all_fields(NX) if each not in _OWN_TO_EACH]


def check_copy(subject: Subject) -> None:
    """Block 0 is a copy of the superblock of the checkpoint, where it is of the same transaction."""
    container = subject.container
    fields = copied_fields()
    newest = columns_of(container, NX, container.checkpoint.paddr, fields)
    if not container.blocks.readable(np.zeros(1, np.uint64), container.blocks.block_size)[0]:
        return
    copy = columns_of(container, NX, 0, (NX.hdr.xid,))
    if copy[NX.hdr.xid][0] == container.xid and container.checkpoint.paddr:
        declared: tuple[FieldRule[None], ...] = rules(
            "superblock-differs",
            OBSERVED,
            *((each, _same(newest[each]), "the copy is not as the checkpoint's") for each in fields),
            level="warning",
        )
        hold(subject, TypedBlocks("container superblock, copy in block 0", NX, [0]), declared, None)


def _same(values: NDArray[Any]) -> Want:
    shown = values.ravel()[0] if values.size == 1 and values.dtype.kind != "V" else "as there"
    return Want(lambda found: found == values, shown)
