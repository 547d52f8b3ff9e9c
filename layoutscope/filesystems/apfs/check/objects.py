"""Rules of the fields of reapers and of the heads of object maps, and what all rules of objects need.

Apple File System Reference; what only apfsck says was seen to hold of the containers that macOS makes. Free are times,
counters and identifiers that nothing else repeats, and the newest version that mounted the container.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.checkpoint import MAX_OBJECT_BYTES
from layoutscope.filesystems.apfs.keybag import container_keybag, decrypt_bag, volume_keybag_run
from layoutscope.filesystems.apfs.objects import Objects as Locator
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.checksum import fletcher64
from layoutscope.structs.fieldrules import (
    NOT_ZERO,
    ZERO,
    FieldRule,
    Structures,
    Want,
    bits_set,
    check_fields,
    equals,
    one_of,
    only_bits,
    rules,
)
from layoutscope.structs.records import (
    CHECKPOINT_MAP_HEAD,
    CHECKPOINT_MAPPING,
    EFI_JUMPSTART,
    ENTRY_HEAD,
    FUSION_WBC,
    FUSION_WBC_LIST_HEAD,
    KEYBAG,
    NX_SUPERBLOCK,
    OBJ_PHYS,
    OMAP_PHYS,
    PRANGE,
    REAPER_HEAD,
    SNAP_META_EXT_OBJ,
)
from layoutscope.structs.recordtypes import Field, RecordType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.findings import FindingLog


REFERENCE: Final = "Apple File System Reference"
OBSERVED: Final = "as apfsck checks, observed"
TYPES = grammar.ApfsObject.ObjectType
STORAGE = grammar.ApfsObject.Storage
REAPER = REAPER_HEAD
RESERVED: Final = "a reserved field is not zero"
UNKNOWN: Final = "bits that have no meaning"
UNKNOWN_TO_WRITERS: Final = "a feature that layoutscope does not know, which matters to whoever writes"


def expect_storage(kind: int, storage: int) -> Want:
    """Demand a type of object and how it is stored, and no other flag."""
    return equals(kind | storage)


class _Idle(Struct, frozen=True):
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
    (REAPER.flags, only_bits(3), UNKNOWN),
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


_MAP_FLAG = grammar.ApfsContainer.OmapFlag


def _map_flags(is_own: object) -> Want:
    """The container's object map has no snapshots: the system manages it by hand, and no other."""
    by_hand = int(_MAP_FLAG.manually_managed)
    return equals(by_hand) if is_own else only_bits(sum(int(bit) for bit in _MAP_FLAG) - by_hand)


_TREE: Final = expect_storage(int(TYPES.btree), int(STORAGE.physical))

OMAP_RULES: Final[tuple[FieldRule[bool], ...]] = rules(
    "object-map-differs",
    f"{REFERENCE}, omap_phys_t; {OBSERVED}",
    (OMAP_PHYS.hdr.type_and_flags, expect_storage(int(TYPES.omap), int(STORAGE.physical)), "another type or storage"),
    (OMAP_PHYS.hdr.subtype, ZERO, "object maps have no subtype"),
    (OMAP_PHYS.flags, _map_flags, "flags that it cannot have"),
    (OMAP_PHYS.tree_type, _TREE, "another type or storage than that of its tree"),
    (OMAP_PHYS.snapshot_tree_type, _TREE, "another type or storage than that of its tree"),
    *(
        (field, lambda is_own: ZERO if is_own else None, "the container's object map has no snapshots")
        for field in (
            *(OMAP_PHYS.num_snapshots, OMAP_PHYS.snapshot_tree_oid, OMAP_PHYS.most_recent_snap),
            *(OMAP_PHYS.pending_revert_min, OMAP_PHYS.pending_revert_max),
        )
    ),
    level="warning",
)
"""Rules of object maps; whether it is the container's own is what is known otherwise."""


def check_reaper(subject: Subject) -> None:
    """The reaper belongs to the checkpoint, and is empty where it has nothing to do."""
    container = subject.container
    item = container.checkpoint.ephemerals.get(container.superblock.reaper_oid)
    if item is None:
        return
    heads = columns_of(container, REAPER, item.paddr, (REAPER.head_oid, REAPER.next_reap_id))
    idle = _Idle(
        container.xid,
        int(heads[REAPER.next_reap_id][0]),
        container.blocks.block_size - REAPER.width,
        not heads[REAPER.head_oid][0],
    )
    hold(subject, "reaper", REAPER, [item.paddr], REAPER_RULES, idle)
    data = container.blocks.read(np.array([item.paddr], np.uint64), container.blocks.block_size).reshape(-1)
    rest = np.flatnonzero(data[REAPER.width :])
    if idle.is_idle and len(rest):
        plus = REAPER.width + int(rest[0])
        message = "state_buffer: an idle reaper has nothing to reap"
        subject.log.at("reaper", item.paddr, plus=plus).add("reaper-differs", "warning", message, expected=0)


def check_transactions(subject: Subject, name: str, paddrs: Sequence[int]) -> None:
    """Objects were written by a transaction that is over."""
    hold(subject, name, OBJ_PHYS, paddrs, _AGE_RULES, subject.container.xid)


def passed(xid: int) -> Want:
    """Demand a transaction that is over: none has the number 0, and none is younger than the checkpoint."""
    return Want(lambda found: (found > 0) & (found <= xid), f"1 to {xid}")


_AGE_RULES: Final[tuple[FieldRule[int], ...]] = rules(
    "object-map-differs",
    f"{REFERENCE}, obj_phys_t",
    (OBJ_PHYS.xid, passed, "not a transaction of this container's past"),
    level="warning",
)


def check_container_omap(subject: Subject) -> None:
    """The head of the container's object map is that of a map without snapshots."""
    if len(subject.container.omap.nodes):
        paddr = subject.container.superblock.omap_oid
        hold(subject, "container object map", OMAP_PHYS, [paddr], OMAP_RULES, facts=True)
        check_transactions(subject, "container object map", [paddr])


def check_volume_omaps(subject: Subject) -> None:
    """Heads of volumes' object maps have types that fit."""
    for parts in subject.volumes:
        paddr = parts.state.superblock.omap_oid
        if paddr:
            hold(subject, "volume object map", OMAP_PHYS, [paddr], OMAP_RULES, facts=False)
            check_transactions(subject, "volume object map", [paddr])
            _check_revert(subject, paddr)


def _check_revert(subject: Subject, paddr: int) -> None:
    """A return to a snapshot that is under way concerns transactions from one to another, both over."""
    first, last = OMAP_PHYS.pending_revert_min, OMAP_PHYS.pending_revert_max
    if not subject.container.blocks.readable(np.array([paddr], np.uint64), subject.container.blocks.block_size)[0]:
        return
    found = columns_of(subject.container, OMAP_PHYS, paddr, (first, last))
    low, high = (int(found[field][0]) for field in (first, last))
    if (low or high) and not 0 < low <= high <= subject.container.xid:
        field = last if not low or high > subject.container.xid else first
        log = subject.log.at("volume object map", paddr, plus=field.offset)
        message = f"{field}: transactions that a return to a snapshot cannot concern"
        log.add("object-map-differs", "warning", message, found=f"{low} to {high}")


def all_fields(record_type: RecordType) -> Iterator[Field]:
    """Yield the fields of a structure, and of those in it."""
    for member in record_type.members():
        if isinstance(member, RecordType):
            yield from all_fields(member)
        elif isinstance(member, Field):
            yield member


def columns_of(
    container: Container, record_type: RecordType, paddr: int, fields: list[Field] | tuple[Field, ...]
) -> dict[str, NDArray[Any]]:
    """Decode fields of one object that lies at an address."""
    blocks = container.blocks
    data = blocks.read(np.array([paddr], np.uint64), blocks.block_size).reshape(-1)
    return decode_columns(record_type, data, np.zeros(1, np.int64), fields)


def hold(
    subject: Subject,
    name: str,  # what the objects are called
    record_type: RecordType,
    paddrs: Sequence[int],
    declared: tuple[FieldRule[Any], ...],
    facts: object,
) -> None:
    """Hold objects of one type, each in a block, against rules, if all of them can be read."""
    blocks, places = subject.container.blocks, np.array(paddrs, np.uint64)
    if len(places) and blocks.readable(places, blocks.block_size).all():
        data = blocks.read(places, blocks.block_size).reshape(-1)
        structures = Structures(record_type, data, np.arange(len(places), dtype=np.int64) * blocks.block_size)
        check_fields(structures, declared, facts, lambda row, plus: subject.log.at(name, paddrs[row], plus=plus))


NX, MAP = NX_SUPERBLOCK, CHECKPOINT_MAP_HEAD
FEATURE = grammar.ApfsContainer.ContainerFeature
_SUPERBLOCK_OID: Final = 1
_CONTAINER_FLAGS: Final = int(grammar.ApfsContainer.ContainerFlag.crypto_sw)
"""The two others are reserved."""
_EPHEMERAL: Final = 4 << 16 | 1
"""Of the first number about ephemeral objects: how many structures a volume has, and the version."""
_VOLUME_BYTES: Final = 512 << 20
_MOST_VOLUMES: Final = int(NX.fs_oid.counts[0])


def _expect_next_free(index: str, used: str, room: str, container: Container) -> Want | None:
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
        (
            NX.hdr.type_and_flags,
            expect_storage(int(TYPES.nx_superblock), int(STORAGE.ephemeral)),
            "another type or storage",
        ),
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
            partial(_expect_next_free, "xp_desc_index", "num_desc_used", "num_desc_blocks"),
            "the next block of the ring is not behind those in use",
        ),
        (
            NX.xp_data_next,
            partial(_expect_next_free, "xp_data_index", "num_data_used", "num_data_blocks"),
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
        expect_storage(int(TYPES.checkpoint_map), int(STORAGE.physical)),
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
    hold(subject, "container superblock", NX, [container.checkpoint.paddr], SUPERBLOCK_RULES, container)


def check_map_headers(subject: Subject) -> None:
    """Checkpoint maps have the headers of physical objects."""
    paddrs = subject.container.checkpoint.map_paddrs
    places = [int(paddr) for paddr in paddrs]
    hold(subject, "checkpoint map", MAP, places, MAP_RULES, np.array(paddrs, np.uint64))


def check_mappings(subject: Subject) -> None:
    """Entries of checkpoint maps belong to volumes that there are, and bear the whole type of their objects."""
    container = subject.container
    size, head = container.blocks.block_size, (MAP.num_mappings,)
    for paddr in map(int, container.checkpoint.map_paddrs):
        data = container.blocks.read(np.array([paddr], np.uint64), size).reshape(-1)
        count = int(decode_columns(MAP, data, np.zeros(1, np.int64), head)[MAP.num_mappings][0])
        starts = MAP.width + np.arange(min(count, (size - MAP.width) // MAPPING.width), dtype=np.int64) * MAPPING.width
        structures = Structures(MAPPING, data, starts)
        at = partial(_locate_mapping, subject, paddr, starts)
        check_fields(structures, MAPPING_RULES, container, at)
        found = decode_columns(MAPPING, data, starts, (MAPPING.type_and_flags, MAPPING.len_object, MAPPING.paddr))
        for row, (kind, length, where) in enumerate(zip(*(found[name].tolist() for name in found), strict=True)):
            _check_ephemeral(subject, where, length, kind, at(row, MAPPING.type_and_flags.offset))


def _locate_mapping(subject: Subject, paddr: int, starts: NDArray[np.int64], row: int, plus: int) -> FindingLog:
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
    hold(subject, "ephemeral object", OBJ_PHYS, [paddr], EPHEMERAL_RULES, container)


EPHEMERAL_RULES: Final[tuple[FieldRule[Container], ...]] = rules(
    "checkpoint-invalid",
    f"{REFERENCE}, Ephemeral Objects",
    (OBJ_PHYS.xid, lambda container: equals(container.xid), "an ephemeral object is written with each checkpoint"),
    level="warning",
)
"""Rules of every ephemeral object."""


_OWN_TO_EACH: Final = ("hdr.cksum", "counters", "flags")
"""Fields that are another in block 0 of containers that macOS made."""


def list_copied_fields() -> list[Field]:
    """List the fields of the superblock that its copy in block 0 repeats."""
    return [each for each in all_fields(NX) if each not in _OWN_TO_EACH]


def check_copy(subject: Subject) -> None:
    """Block 0 is a copy of the superblock of the checkpoint, where it is of the same transaction."""
    container = subject.container
    fields = list_copied_fields()
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
        hold(subject, "container superblock, copy in block 0", NX, [0], declared, None)


def _same(values: NDArray[Any]) -> Want:
    shown = values.ravel()[0] if values.size == 1 and values.dtype.kind != "V" else "as there"
    return Want(lambda found: found == values, shown)


JUMPSTART, EXTENDED, BAG, CACHE = EFI_JUMPSTART, SNAP_META_EXT_OBJ, KEYBAG, FUSION_WBC
LIST: Final = FUSION_WBC_LIST_HEAD
INVALID: Final = "structure-invalid"
TAG: Final = grammar.ApfsKeybag.KeybagTag
_BAG_VERSION: Final = 2
_PHYSICAL: Final = int(STORAGE.physical)
_ALIGNMENT: Final = 16
_TAGS: Final = tuple(int(tag) for tag in TAG if tag not in (TAG.unknown, TAG.reserved_1))


class _Sized(Struct, frozen=True):
    """What is known of an object with a length: the last transaction, and between which bytes the length lies."""

    xid: int
    least: int
    most: int

    def age(self) -> Want:
        return passed(self.xid)

    def length(self) -> Want:
        return Want(lambda found: (found >= self.least) & (found <= self.most), f"{self.least} to {self.most}")


JUMPSTART_RULES: Final[tuple[FieldRule[_Sized], ...]] = rules(
    INVALID,
    f"{REFERENCE}, nx_efi_jumpstart_t",
    (
        JUMPSTART.hdr.type_and_flags,
        expect_storage(int(TYPES.efi_jumpstart), int(STORAGE.physical)),
        "another type or storage",
    ),
    (JUMPSTART.hdr.subtype, ZERO, "boot records have no subtype"),
    (JUMPSTART.hdr.xid, _Sized.age, "not a transaction of this container's past"),
    (JUMPSTART.version, equals(1), "no known version"),
    (JUMPSTART.reserved, ZERO, RESERVED),
    (JUMPSTART.len_efi_file, _Sized.length, "the driver does not fill its extents"),
    level="warning",
)
"""Rules of the record that leads firmware to its driver."""


def check_jumpstart(subject: Subject) -> None:
    """The boot record has a driver in extents that are not empty."""
    container = subject.container
    paddr = container.superblock.efi_jumpstart
    # The address is a number with a sign.
    if paddr <= 0 or not container.blocks.readable(np.array([paddr], np.uint64), container.blocks.block_size)[0]:
        return
    try:
        cls = grammar.ApfsContainer.EfiJumpstart
        record = grammar.parse(cls, container.blocks.read_object(paddr), structure="EFI jumpstart", image_offset=0)
    except FormatError:
        # What is no boot record is found while it is read.
        return
    for number, run in enumerate(record.extents):
        if not run.num_blocks:
            plus = JUMPSTART.width + number * PRANGE.width + PRANGE.num_blocks.offset
            log = subject.log.at("EFI jumpstart", paddr, plus=plus)
            log.add(INVALID, "warning", f"extents[{number}].num_blocks: an extent without blocks")
    block = container.blocks.block_size
    room = sum(run.num_blocks for run in record.extents) * block
    facts = _Sized(container.xid, max(room - block, 0) + 1, room)
    hold(subject, "EFI jumpstart", JUMPSTART, [paddr], JUMPSTART_RULES, facts)


EXTENDED_RULES: Final[tuple[FieldRule[int], ...]] = rules(
    "snapshot-differs",
    f"{REFERENCE}, snap_meta_ext_obj_phys_t; {OBSERVED}",
    (
        EXTENDED.hdr.type_and_flags,
        expect_storage(int(TYPES.snap_meta_ext), int(STORAGE.virtual)),
        "another type or storage",
    ),
    (EXTENDED.hdr.subtype, ZERO, "such objects have no subtype"),
    (EXTENDED.hdr.xid, passed, "not a transaction of this container's past"),
    (EXTENDED.ext.version, equals(1), "no known version"),
    (EXTENDED.ext.flags, ZERO, UNKNOWN),
    (EXTENDED.ext.snap_xid, passed, "not a transaction of this container's past"),
    level="warning",
)
"""Rules of the extended metadata of the newest snapshot."""


def check_extended_metadata(subject: Subject) -> None:
    """Extended metadata of snapshots are of a known version, and of a transaction that is over."""
    for parts in subject.volumes:
        oid = parts.state.superblock.snap_meta_ext_oid
        if oid:
            paddr = Locator(subject.container, parts.state.view, subject.log).find(oid).paddr
            hold(subject, "extended snapshot metadata", EXTENDED, [paddr], EXTENDED_RULES, subject.container.xid)


BAG_RULES: Final[tuple[FieldRule[_Sized], ...]] = rules(
    INVALID,
    f"{REFERENCE}, media_keybag_t, kb_locker_t",
    (BAG.hdr.subtype, ZERO, "key bags have no subtype"),
    (BAG.hdr.xid, _Sized.age, "not a transaction of this container's past"),
    (BAG.locker.version, equals(_BAG_VERSION), "no known version"),
    (BAG.locker.padding, ZERO, RESERVED),
    (BAG.locker.num_bytes, _Sized.length, "not the bytes of its entries"),
    level="warning",
)
"""Rules of key bags, whoever owns them."""

ENTRY_RULES: Final[tuple[FieldRule[None], ...]] = rules(
    INVALID,
    f"{REFERENCE}, keybag_entry_t",
    (ENTRY_HEAD.tag, one_of(*_TAGS), "no known kind of entry"),
    (ENTRY_HEAD.len_key, NOT_ZERO, "an entry without data"),
    (ENTRY_HEAD.padding, ZERO, RESERVED),
    level="warning",
)
"""Rules of the entries of key bags."""


def check_keybags(subject: Subject) -> None:
    """Key bags of the container and of volumes, which their owners' UUIDs open."""
    container = subject.container
    locker = container.superblock.keylocker
    if not locker.num_blocks:
        return
    run = int(locker.start_paddr), int(locker.num_blocks)
    _check_bag(subject, run, bytes(container.superblock.uuid), "container key bag")
    try:
        entries = container_keybag(container)
    except FormatError:
        return
    for parts in subject.volumes:
        uuid = bytes(parts.state.superblock.vol_uuid)
        own = volume_keybag_run(entries, uuid)
        if own is not None:
            _check_bag(subject, own, uuid, f"key bag of volume {parts.state.number}")


def _check_bag(subject: Subject, run: tuple[int, int], owner: bytes, name: str) -> None:
    container = subject.container
    try:
        data = np.frombuffer(decrypt_bag(container, run, owner, name), np.uint8)
    except FormatError as error:
        subject.log.survive(error)
        return

    def at(_: int, plus: int) -> FindingLog:
        return subject.log.at(name, run[0], plus=plus)

    start = np.zeros(1, np.int64)
    count = int(decode_column(BAG, data, start, BAG.locker.num_keys)[0])
    places, end = [], BAG.width
    for _ in range(count):
        if end + ENTRY_HEAD.width > len(data):
            break
        length = int(decode_column(ENTRY_HEAD, data, np.array([end]), ENTRY_HEAD.len_key)[0])
        places.append(end)
        # The last entry is not padded; where its data end, the list does.
        last = end + ENTRY_HEAD.width + length
        end += -(-(ENTRY_HEAD.width + length) // _ALIGNMENT) * _ALIGNMENT
    used = last - BAG.width if places else 0
    # macOS counts an empty entry that ends the list; others do not.
    facts = _Sized(container.xid, used, len(data) - BAG.width)
    check_fields(Structures(BAG, data, start), BAG_RULES, facts, at)
    entries = Structures(ENTRY_HEAD, data, np.array(places, np.int64))
    check_fields(entries, ENTRY_RULES, None, lambda row, plus: at(row, places[row] + plus))


CACHE_RULES: Final[tuple[FieldRule[int], ...]] = rules(
    INVALID,
    f"{REFERENCE}, fusion_wbc_phys_t",
    (CACHE.hdr.xid, passed, "not a transaction of this container's past"),
    (CACHE.hdr.subtype, ZERO, "such objects have no subtype"),
    (CACHE.reserved, ZERO, RESERVED),
    level="warning",
)
"""Rules of the state of a Fusion set's write cache."""

LIST_RULES: Final[tuple[FieldRule[int], ...]] = rules(
    INVALID,
    f"{REFERENCE}, fusion_wbc_list_phys_t",
    (LIST.hdr.xid, passed, "not a transaction of this container's past"),
    (LIST.hdr.subtype, ZERO, "such objects have no subtype"),
    (LIST.reserved, ZERO, RESERVED),
    level="warning",
)
"""Rules of the lists of a Fusion set's write cache."""


def check_write_cache(subject: Subject) -> None:
    """The state of the write cache and its lists are of this container's past."""
    container = subject.container
    oid = container.superblock.fusion_wbc_oid
    if not oid:
        return
    locator = Locator(container, container.view, subject.log)
    paddr = locator.find(oid).paddr
    hold(subject, "write-back cache", CACHE, [paddr], CACHE_RULES, container.xid)
    if not container.blocks.readable(np.array([paddr], np.uint64), container.blocks.block_size)[0]:
        return
    data = container.blocks.read(np.array([paddr], np.uint64), container.blocks.block_size).reshape(-1)
    heads = decode_columns(CACHE, data, np.zeros(1, np.int64), (CACHE.list_head_oid, CACHE.list_tail_oid))
    for number in dict.fromkeys(int(values[0]) for values in heads.values()):
        if number:
            place = locator.find(number).paddr
            hold(subject, f"cache list {number}", LIST, [place], LIST_RULES, container.xid)
