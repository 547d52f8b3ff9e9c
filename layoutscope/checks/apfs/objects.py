"""Rules of the fields of objects: superblocks, maps, the reaper, key bags, boot records, the write cache, seals.

Apple File System Reference. Rules that only apfsck has were confirmed on containers made by macOS. These have no rules:
times, counters, identifiers without a second copy, file counts in states that were not read, key versions, and the
newest version that mounted the container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.checks.fieldrules import (
    NOT_ZERO,
    ZERO,
    Want,
    at_least,
    at_most,
    bits_set,
    check_fields,
    equals,
    one_of,
    only_bits,
    rules,
)
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.checkpoint import MAX_OBJECT_BYTES, superblocks
from layoutscope.filesystems.apfs.keybag import container_keybag, decrypt_bag, volume_keybag_run
from layoutscope.filesystems.apfs.objects import Objects as Locator
from layoutscope.filesystems.apfs.verify import checksum_of, hash_objects, object_header, read_object
from layoutscope.structs import grammar, records
from layoutscope.structs.bulk import decode_column, decode_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Subject
    from layoutscope.checks.fieldrules import FieldRule
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.findings import FindingLog
    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.grammar import ApfsVolume
    from layoutscope.structs.recordtypes import Field, RecordType

    Rules = tuple[FieldRule, ...]
    Row = tuple[Field, Want | None, str]


TYPES: Final = grammar.ApfsObject.ObjectType
STORAGE: Final = grammar.ApfsObject.Storage
RESERVED: Final = "a reserved field is not zero"
UNKNOWN: Final = "bits that have no meaning"
UNKNOWN_TO_WRITERS: Final = "a feature that layoutscope does not know; it matters to programs that write"
OTHER_TYPE: Final = "another type or storage than that of its tree"
PAST: Final = "not a transaction of this container's past"
EPHEMERAL: Final = "an ephemeral object is written with each checkpoint"


PHYSICAL_TREE: Final = equals(TYPES.btree | STORAGE.physical)


def expect_range(least: int, most: int) -> Want:
    """Require a number within inclusive bounds."""
    return Want(lambda found: (found >= least) & (found <= most), f"{least} to {most}")


def make_header_rules(record: Any, noun: str, stored: int = 0, xid: int | None = None) -> Iterator[Row]:
    """Yield the rules of an object's header: its type and storage, no subtype, and a completed transaction."""
    if stored:
        yield record.hdr.type_and_flags, equals(int(stored)), "another type or storage"
    yield record.hdr.subtype, ZERO, f"{noun} have no subtype"
    if xid is not None:
        yield record.hdr.xid, expect_range(1, xid), PAST


def read_block(container: Container, paddr: int) -> U8:
    """Read one block."""
    return container.blocks.read(np.array([paddr], np.uint64), container.blocks.block_size).reshape(-1)


def is_readable(container: Container, paddr: int) -> bool:
    """Return whether a block can be read."""
    return bool(container.blocks.readable(np.array([paddr], np.uint64), container.blocks.block_size)[0])


def read_columns(
    container: Container, record_type: RecordType, paddr: int, fields: Sequence[Field]
) -> dict[str, NDArray[Any]]:
    """Decode fields of one object at an address."""
    return decode_columns(record_type, read_block(container, paddr), np.zeros(1, np.int64), tuple(fields))


def read_numbers(container: Container, record_type: RecordType, paddr: int, *fields: Field) -> list[int]:
    """Decode numbers of one object at an address."""
    columns = read_columns(container, record_type, paddr, fields)
    return [int(columns[field][0]) for field in fields]


def check_objects(subject: Subject, name: str, record_type: RecordType, paddrs: Sequence[int], declared: Rules) -> None:
    """Check objects of one type and name, each in one block, if all of them can be read."""
    blocks, places = subject.container.blocks, np.array(paddrs, np.uint64)
    if len(places) and blocks.readable(places, blocks.block_size).all():
        data = blocks.read(places, blocks.block_size).reshape(-1)
        starts = np.arange(len(places), dtype=np.int64) * blocks.block_size
        at = lambda row, byte: subject.log.at(name, paddrs[row], plus=byte % blocks.block_size)  # noqa: E731
        check_fields(record_type, data, starts, declared, at)


REAPER: Final = records.REAPER_HEAD


def make_reaper_rules(xid: int, next_reap_id: int, room: int, *, is_idle: bool) -> Rules:
    """Return the rules of the reaper (nx_reaper_phys_t, apfsck); an idle reaper is empty."""
    empty, all_completed = (ZERO, equals(next_reap_id - 1)) if is_idle else (None, None)
    used = (REAPER.tail_oid, REAPER.rlcount, REAPER.type, REAPER.len_object, REAPER.fs_oid, REAPER.oid, REAPER.xid)
    return rules(
        "reaper-differs",
        (REAPER.hdr.xid, equals(xid), EPHEMERAL),
        (REAPER.flags, bits_set(1), "the reaper is not initialised"),
        (REAPER.flags, only_bits(3), UNKNOWN),
        (REAPER.completed_id, all_completed, "an idle reaper has completed all that it began"),
        *((field, empty, "an idle reaper has nothing to reap") for field in (*used, REAPER.nrle_flags)),
        (REAPER.len_state_buffer, equals(room), "the state fills the rest of the block"),
    )


def check_reaper(subject: Subject) -> None:
    """Check that the reaper is of the checkpoint's transaction, and empty when idle."""
    container = subject.container
    item = container.checkpoint.ephemerals.get(container.superblock.reaper_oid)
    if item is None:
        return
    head, next_reap_id = read_numbers(container, REAPER, item.paddr, REAPER.head_oid, REAPER.next_reap_id)
    room = container.blocks.block_size - REAPER.width
    declared = make_reaper_rules(container.xid, next_reap_id, room, is_idle=not head)
    check_objects(subject, "reaper", REAPER, [item.paddr], declared)
    rest = np.flatnonzero(read_block(container, item.paddr)[REAPER.width :])
    if not head and len(rest):
        plus = REAPER.width + int(rest[0])
        message = "state_buffer: an idle reaper has nothing to reap"
        subject.log.at("reaper", item.paddr, plus=plus).add("reaper-differs", "warning", message, expected=0)


OBJECT, OMAP = records.OBJ_PHYS, records.OMAP_PHYS
_MAP_FLAG: Final = grammar.ApfsContainer.OmapFlag


def make_omap_rules(*, is_own: bool) -> Rules:
    """Return the rules of object map headers (omap_phys_t, apfsck)."""
    # Only the container's map is manually managed, and it has no snapshots.
    manual = int(_MAP_FLAG.manually_managed)
    others = sum(int(bit) for bit in _MAP_FLAG) - manual
    of_snapshots = (OMAP.num_snapshots, OMAP.snapshot_tree_oid, OMAP.most_recent_snap)
    of_reverts = (OMAP.pending_revert_min, OMAP.pending_revert_max)
    none = ZERO if is_own else None
    return rules(
        "object-map-differs",
        *make_header_rules(OMAP, "object maps", TYPES.omap | STORAGE.physical),
        (OMAP.flags, equals(manual) if is_own else only_bits(others), "flags that it cannot have"),
        (OMAP.tree_type, PHYSICAL_TREE, OTHER_TYPE),
        (OMAP.snapshot_tree_type, PHYSICAL_TREE, OTHER_TYPE),
        *((field, none, "the container's object map has no snapshots") for field in (*of_snapshots, *of_reverts)),
    )


def _check_omap(subject: Subject, name: str, paddr: int, *, is_own: bool) -> None:
    check_objects(subject, name, OMAP, [paddr], make_omap_rules(is_own=is_own))
    declared = rules("object-map-differs", (OBJECT.xid, expect_range(1, subject.container.xid), PAST))
    check_objects(subject, name, OBJECT, [paddr], declared)


def check_container_omap(subject: Subject) -> None:
    """Check that the header of the container's object map is that of a map without snapshots."""
    if len(subject.container.omap.nodes):
        _check_omap(subject, "container object map", subject.container.superblock.omap_oid, is_own=True)


def check_volume_omap(subject: Subject, parts: VolumeParts) -> None:
    """Check the header of a volume's object map."""
    container, paddr = subject.container, parts.state.superblock.omap_oid
    if not paddr:
        return
    _check_omap(subject, "volume object map", paddr, is_own=False)
    if not is_readable(container, paddr):
        return
    first, last = OMAP.pending_revert_min, OMAP.pending_revert_max
    low, high = read_numbers(container, OMAP, paddr, first, last)
    # A pending revert to a snapshot names a range of completed transactions.
    if (low or high) and not 0 < low <= high <= container.xid:
        field = last if not low or high > container.xid else first
        log = subject.log.at("volume object map", paddr, plus=field.offset)
        message = f"{field}: transactions that a return to a snapshot cannot concern"
        log.add("object-map-differs", "warning", message, found=f"{low} to {high}")


NX: Final = records.NX_SUPERBLOCK
FEATURE: Final = grammar.ApfsContainer.ContainerFeature
_EPHEMERAL: Final = 4 << 16 | 1
"""The first number of the ephemeral-object settings: structures per volume, and the version."""


def make_superblock_rules(container: Container) -> Rules:
    """Return the rules of a checkpoint's superblock (nx_superblock_t; from the next transaction on, apfsck)."""
    superblock = container.superblock
    size_bytes = superblock.num_blocks * container.blocks.block_size
    # One volume for each 512 MiB (reference, nx_max_file_systems).
    volumes = equals(min(-(-size_bytes // (512 << 20)), int(NX.fs_oid.counts[0])))
    ephemeral = Want(
        lambda found: found & np.uint64(0xFFFF_FFFF) == np.array([_EPHEMERAL, 0, 0, 0]), f"{_EPHEMERAL:#x}, 0, 0, 0"
    )
    no_fusion = None if superblock.is_fusion else ZERO
    rings = (
        (superblock.xp_desc_index, superblock.num_desc_used, superblock.num_desc_blocks),
        (superblock.xp_data_index, superblock.num_data_used, superblock.num_data_blocks),
    )
    next_desc, next_data = (equals((index + used) % room) if room else None for index, used, room in rings)
    ring = "the next block of the ring does not follow those in use"
    return rules(
        "superblock-differs",
        (NX.hdr.oid, equals(1), "superblocks of containers have one number"),
        *make_header_rules(NX, "superblocks", TYPES.nx_superblock | STORAGE.ephemeral),
        (NX.features, only_bits(int(FEATURE.defrag) | int(FEATURE.lcfd)), UNKNOWN),
        (NX.readonly_compatible_features, ZERO, UNKNOWN_TO_WRITERS),
        (NX.max_file_systems, volumes, "a volume for each 512 MiB, begun ones too, and no more than 100"),
        # The other two flags are reserved.
        (NX.flags, only_bits(int(grammar.ApfsContainer.ContainerFlag.crypto_sw)), UNKNOWN),
        (NX.test_type, ZERO, "a field for tests is set"),
        (NX.test_oid, ZERO, "a field for tests is set"),
        (NX.next_xid, equals(container.xid + 1), "the next transaction does not follow this one"),
        (NX.xp_desc_next, next_desc, ring),
        (NX.xp_data_next, next_data, ring),
        (NX.ephemeral_info, ephemeral, "not the version and the number of structures that are known"),
        (NX.fusion_uuid, no_fusion, "a container on one device belongs to no Fusion set"),
    )


def check_superblock(subject: Subject) -> None:
    """Check the fields of the checkpoint's superblock against each other."""
    container = subject.container
    check_objects(subject, "container superblock", NX, [container.checkpoint.paddr], make_superblock_rules(container))


_OWN_TO_EACH: Final = ("hdr.cksum", "counters", "flags")
"""Fields that differ in block 0 of containers made by macOS."""


def list_copied_fields() -> list[Field]:
    """List the fields of the superblock that must be equal in its copy in block 0."""
    return [each for each in NX.fields() if each not in _OWN_TO_EACH]


def check_copy(subject: Subject) -> None:
    """Check that block 0 is a copy of the checkpoint's superblock, if it has the same transaction (apfsck)."""
    container, paddr = subject.container, subject.container.checkpoint.paddr
    if not paddr or not is_readable(container, 0) or read_numbers(container, NX, 0, NX.hdr.xid) != [container.xid]:
        return
    newest = read_columns(container, NX, paddr, list_copied_fields())
    rows = ((each, _expect_equal(newest[each]), "the copy is not as the checkpoint's") for each in list_copied_fields())
    check_objects(subject, "container superblock, copy in block 0", NX, [0], rules("superblock-differs", *rows))


def _expect_equal(values: NDArray[Any]) -> Want:
    words = values.ravel()[0] if values.size == 1 and values.dtype.kind != "V" else "as there"
    return Want(lambda found: found == values, words)


MAP, MAPPING = records.CHECKPOINT_MAP_HEAD, records.CHECKPOINT_MAPPING


def make_map_rules(paddrs: NDArray[np.uint64]) -> Rules:
    """Return the rules of checkpoint maps (checkpoint_map_phys_t)."""
    return rules(
        "checkpoint-invalid",
        (MAP.hdr.oid, equals(paddrs), "the number of a physical object is its address"),
        *make_header_rules(MAP, "checkpoint maps", TYPES.checkpoint_map | STORAGE.physical),
        (MAP.flags, only_bits(1), UNKNOWN),
    )


def check_map_headers(subject: Subject) -> None:
    """Check that checkpoint maps have the headers of physical objects."""
    paddrs = subject.container.checkpoint.map_paddrs
    check_objects(subject, "checkpoint map", MAP, list(map(int, paddrs)), make_map_rules(np.array(paddrs, np.uint64)))


def _read_mappings(block: U8) -> tuple[int, I64, list[dict[str, int]]]:
    """Return how many mappings a checkpoint map counts, and the starts and fields of those that fit into it."""
    count = int(decode_column(MAP, block, np.zeros(1, np.int64), MAP.num_mappings)[0])
    room = (len(block) - MAP.width) // MAPPING.width
    starts = MAP.width + np.arange(min(count, room), dtype=np.int64) * MAPPING.width
    found = decode_columns(MAPPING, block, starts, (MAPPING.type, *MAPPING.fields()))
    rows = zip(*(values.tolist() for values in found.values()), strict=True)
    return count, starts, [dict(zip(found, row, strict=True)) for row in rows]


def check_mappings(subject: Subject) -> None:
    """Check that entries of checkpoint maps (checkpoint_mapping_t) name existing volumes and have complete types."""
    container = subject.container
    known = np.array([0, *(oid for oid in container.superblock.fs_oid if oid)], np.uint64)
    is_known = Want(lambda columns: np.isin(columns, known), "a volume of the container, or 0")
    declared = rules(
        "checkpoint-invalid",
        (MAPPING.pad, ZERO, RESERVED),
        (MAPPING.fs_oid, is_known, "it belongs to a volume that there is not"),
    )
    for paddr in map(int, container.checkpoint.map_paddrs):
        data = read_block(container, paddr)
        _, starts, mappings = _read_mappings(data)

        def at(_: int, byte: int, paddr: int = paddr) -> FindingLog:
            return subject.log.at("checkpoint map", paddr, plus=byte)

        check_fields(MAPPING, data, starts, declared, at)
        for start, mapping in zip(starts.tolist(), mappings, strict=True):
            _check_ephemeral(subject, mapping, at(0, start + MAPPING.type_and_flags.offset))


def _check_ephemeral(subject: Subject, mapping: dict[str, int], log: FindingLog) -> None:
    """Check that an ephemeral object is of the checkpoint's transaction, and that its mapping has the same type."""
    container, paddr, kind = subject.container, mapping["paddr"], mapping["type_and_flags"]
    # The check of checkpoints reports sizes, addresses and checksums.
    field, _ = _find_mapping_problem(container, mapping)
    if field in ("len_object", "paddr"):
        return
    (stored,) = read_numbers(container, OBJECT, paddr, OBJECT.type_and_flags)
    if stored != kind:
        message = f"{MAPPING.type_and_flags}: the object there has another type or other flags"
        log.add("checkpoint-invalid", "warning", message, expected=f"{stored:#x}", found=f"{kind:#x}")
    declared = rules("checkpoint-invalid", (OBJECT.xid, equals(container.xid), EPHEMERAL))
    check_objects(subject, "ephemeral object", OBJECT, [paddr], declared)


def check_checkpoints(subject: Subject) -> None:
    """Check that each checkpoint not older than the one in use has its objects at the addresses in its maps."""
    container = subject.container
    for paddr, superblock in superblocks(subject.silent_store, container.area):
        if superblock.hdr.xid >= container.xid:
            _check_maps(subject, superblock)
            if superblock.hdr.xid == container.xid and container.omap_header.tree_oid:
                continue
            try:
                read_object(container.blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "object map")
            except FormatError as error:
                name, plus = f"container superblock of xid {superblock.hdr.xid}", NX.omap_oid.offset
                message = f"the object map cannot be used: {error.reason}"
                subject.log.at(name, paddr, plus=plus).add("checkpoint-invalid", "warning", message)


def _check_maps(subject: Subject, superblock: grammar.ApfsContainer.NxSuperblock) -> None:
    """Compare the mappings of a checkpoint with the objects in the data area."""
    area, ring = subject.container.area, len(subject.container.area.paddr)
    name = f"checkpoint map of xid {superblock.hdr.xid}"
    # The descriptor area is a ring: a checkpoint that begins near its end continues at its start.
    for row in ((superblock.xp_desc_index + np.arange(min(superblock.num_desc_used, ring))) % max(ring, 1)).tolist():
        if area.kind[row] != int(TYPES.checkpoint_map):
            continue
        paddr, (count, starts, mappings) = int(area.paddr[row]), _read_mappings(area.blocks[row])
        if count > len(starts):
            log = subject.log.at(name, paddr, plus=MAP.num_mappings.offset)
            log.add("checkpoint-invalid", "warning", "it counts more mappings than fit", found=count)
            continue
        for start, mapping in zip(starts.tolist(), mappings, strict=True):
            field, problem = _find_mapping_problem(subject.container, mapping)
            if field:
                plus, found = start + MAPPING.offset_of(field), "" if field == "type_and_flags" else mapping[field]
                log = subject.log.at(f"{name}, object {mapping['oid']}", paddr, plus=plus)
                log.add("checkpoint-invalid", "warning", problem, found=found)


def _find_mapping_problem(container: Container, mapping: dict[str, int]) -> tuple[str, str]:
    """Return the wrong field of a mapping, and the reason; two empty texts if the object is at its address."""
    blocks, size = container.blocks, mapping["len_object"]
    if not 0 < size <= MAX_OBJECT_BYTES or size % blocks.block_size:
        return "len_object", "its size is not a whole number of blocks, or impossibly large"
    try:
        data = blocks.read_object(mapping["paddr"], size)
    except FormatError as error:
        return "paddr", error.reason
    head = object_header(data, blocks.at(mapping["paddr"]))
    if checksum_of(data) != head.cksum:
        return "paddr", "the object there has a wrong checksum"
    if head.oid != mapping["oid"]:
        return "oid", "the object there has another number"
    if (head.type, head.subtype) != (mapping["type"], mapping["subtype"]):
        return "type_and_flags", "the object there is of another type"
    return "", ""


JUMPSTART, EXTENDED = records.EFI_JUMPSTART, records.SNAP_META_EXT_OBJ
INVALID: Final = "structure-invalid"


def check_jumpstart(subject: Subject) -> None:
    """Check that the boot record (nx_efi_jumpstart_t) names a driver in extents that are not empty."""
    container = subject.container
    paddr = container.superblock.efi_jumpstart
    # The address is a signed number.
    if paddr <= 0 or not is_readable(container, paddr):
        return
    try:
        cls = grammar.ApfsContainer.EfiJumpstart
        record = grammar.parse(cls, container.blocks.read_object(paddr), structure="EFI jumpstart", image_offset=0)
    except FormatError:
        # Reading reports an object that is not a boot record.
        return
    for number, run in enumerate(record.extents):
        if not run.num_blocks:
            plus = JUMPSTART.width + number * records.PRANGE.width + records.PRANGE.num_blocks.offset
            log = subject.log.at("EFI jumpstart", paddr, plus=plus)
            log.add(INVALID, "warning", f"extents[{number}].num_blocks: an extent without blocks")
    block = container.blocks.block_size
    room = sum(run.num_blocks for run in record.extents) * block
    declared = rules(
        INVALID,
        *make_header_rules(JUMPSTART, "boot records", TYPES.efi_jumpstart | STORAGE.physical, container.xid),
        (JUMPSTART.version, equals(1), "no known version"),
        (JUMPSTART.reserved, ZERO, RESERVED),
        (JUMPSTART.len_efi_file, expect_range(max(room - block, 0) + 1, room), "the driver does not fill its extents"),
    )
    check_objects(subject, "EFI jumpstart", JUMPSTART, [paddr], declared)


def check_extended_metadata(subject: Subject, parts: VolumeParts) -> None:
    """Check that extended metadata of the newest snapshot (snap_meta_ext_obj_phys_t, apfsck) have a known version."""
    oid, xid = parts.state.superblock.snap_meta_ext_oid, subject.container.xid
    if not oid:
        return
    declared = rules(
        "snapshot-differs",
        *make_header_rules(EXTENDED, "such objects", TYPES.snap_meta_ext | STORAGE.virtual, xid),
        (EXTENDED.ext.version, equals(1), "no known version"),
        (EXTENDED.ext.flags, ZERO, UNKNOWN),
        (EXTENDED.ext.snap_xid, expect_range(1, xid), PAST),
    )
    paddr = Locator(subject.container, parts.state.view, subject.log).find(oid)[0]
    check_objects(subject, "extended snapshot metadata", EXTENDED, [paddr], declared)


BAG, ENTRY = records.KEYBAG, records.ENTRY_HEAD
TAG: Final = grammar.ApfsKeybag.KeybagTag
_TAGS: Final = tuple(int(tag) for tag in TAG if tag not in (TAG.unknown, TAG.reserved_1))


def make_bag_rules(xid: int, used: int, room: int) -> Rules:
    """Return the rules of key bags of container and volumes (media_keybag_t, kb_locker_t)."""
    return rules(
        INVALID,
        *make_header_rules(BAG, "key bags", xid=xid),
        (BAG.locker.version, equals(2), "no known version"),
        (BAG.locker.padding, ZERO, RESERVED),
        # macOS counts an empty entry at the end of the list; other writers do not.
        (BAG.locker.num_bytes, expect_range(used, room), "not the bytes of its entries"),
    )


ENTRY_RULES: Final = rules(
    INVALID,
    (ENTRY.tag, one_of(*_TAGS), "no known kind of entry"),
    (ENTRY.len_key, NOT_ZERO, "an entry without data"),
    (ENTRY.padding, ZERO, RESERVED),
)
"""Rules of the entries of key bags (keybag_entry_t)."""


def check_keybags(subject: Subject) -> None:
    """Check the key bags of container and volumes, which are decrypted with their owners' UUIDs."""
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
    for parts in subject.contents.volumes:
        uuid = bytes(parts.state.superblock.vol_uuid)
        keybag_run = volume_keybag_run(entries, uuid)
        if keybag_run is not None:
            _check_bag(subject, keybag_run, uuid, f"key bag of volume {parts.state.number}")


def _check_bag(subject: Subject, run: tuple[int, int], owner: bytes, name: str) -> None:
    container = subject.container
    try:
        data = np.frombuffer(decrypt_bag(container, run, owner, name), np.uint8)
    except FormatError as error:
        subject.log.survive(error)
        return
    start = np.zeros(1, np.int64)
    count = int(decode_column(BAG, data, start, BAG.locker.num_keys)[0])
    places, end, last = [], BAG.width, BAG.width
    for _ in range(count):
        if end + ENTRY.width > len(data):
            break
        length = int(decode_column(ENTRY, data, np.array([end]), ENTRY.len_key)[0])
        places.append(end)
        # Entries are padded to sixteen bytes, except the last one: the list ends with its data.
        last = end + ENTRY.width + length
        end += -(-(ENTRY.width + length) // 16) * 16
    declared = make_bag_rules(container.xid, last - BAG.width, len(data) - BAG.width)
    at = lambda _, byte: subject.log.at(name, run[0], plus=byte)  # noqa: E731
    check_fields(BAG, data, start, declared, at)
    check_fields(ENTRY, data, np.array(places, np.int64), ENTRY_RULES, at)


CACHE, LIST = records.FUSION_WBC, records.FUSION_WBC_LIST_HEAD


def check_write_cache(subject: Subject) -> None:
    """Check the state of a Fusion set's write cache and its lists (fusion_wbc_phys_t, fusion_wbc_list_phys_t)."""
    container = subject.container
    oid = container.superblock.fusion_wbc_oid
    if not oid:
        return
    locator = Locator(container, container.view, subject.log)

    def check(name: str, record: Any, oid: int) -> int:
        paddr = locator.find(oid)[0]
        header = make_header_rules(record, "such objects", xid=container.xid)
        declared = rules(INVALID, *header, (record.reserved, ZERO, RESERVED))
        check_objects(subject, name, record, [paddr], declared)
        return paddr

    paddr = check("write-back cache", CACHE, oid)
    if is_readable(container, paddr):
        for number in dict.fromkeys(read_numbers(container, CACHE, paddr, CACHE.list_head_oid, CACHE.list_tail_oid)):
            if number:
                check(f"cache list {number}", LIST, number)


VOLUME, SEAL = records.APFS_SUPERBLOCK, records.INTEGRITY_META
VOLUME_FLAG, VOLUME_FEATURE = grammar.ApfsVolume.VolumeFlag, grammar.ApfsVolume.VolumeFeature
_SET_FLAGS: Final = int(
    VOLUME_FLAG.unencrypted
    | VOLUME_FLAG.onekey
    | VOLUME_FLAG.spilledover
    | VOLUME_FLAG.run_spillover_cleaner
    | VOLUME_FLAG.always_check_extentref
)
_NO_PROTECTION: Final = 6
_VIRTUAL, _PHYSICAL = (int(TYPES.btree) | int(storage) for storage in (STORAGE.virtual, STORAGE.physical))


def make_volume_rules(
    container: Container,
    superblock: ApfsVolume.ApfsSuperblock,
    live: ApfsVolume.ApfsSuperblock,
    snapshots: list[tuple[int, int]],  # transaction of each snapshot, and the address of its superblock
    *,
    is_copy: bool,  # whether it is the copy in a snapshot
) -> tuple[FieldRule, ...]:
    """Return the rules of a volume superblock (apfs_superblock_t, apfsck)."""
    stop = int(container.superblock.next_oid)
    # Lower numbers are reserved (reference, OID_RESERVED_COUNT).
    own_number = Want(lambda found: (found == 0) | ((found >= 1024) & (found < stop)), f"0, or 1024 to {stop - 1}")
    least = max(int(superblock.num_reserve_blocks), 0 if is_copy else int(live.num_alloced_blocks))
    quota = Want(lambda found: (found == 0) | (found >= least), f"0, or at least {least}")
    # The keys of an encrypted volume are in the container's key bag.
    has_keys = int(container.superblock.keylocker.num_blocks) > 0
    unencrypted, one_key = int(VOLUME_FLAG.unencrypted), int(VOLUME_FLAG.onekey)
    keys = Want(
        lambda found: (
            (found & unencrypted != 0) ^ (found & one_key != 0) | ((found & (unencrypted | one_key) == 0) & has_keys)
        ),
        "unencrypted, or one key for all",
    )
    no_group = None if int(superblock.features) & int(VOLUME_FEATURE.volgrp_system_ino_space) else ZERO
    # The classes of protection from A to D, F and M (reference, PROTECTION_CLASS_A).
    protection = equals(_NO_PROTECTION) if superblock.is_unencrypted else one_of(1, 2, 3, 4, _NO_PROTECTION, 14)
    epoch = at_most(int(superblock.next_obj_id)) if superblock.cloneinfo_xid else ZERO
    epoch_xid = expect_range(1, int(superblock.hdr.xid)) if superblock.cloneinfo_id_epoch else ZERO
    is_past = at_most(int(superblock.hdr.xid))
    snapshot_xid = one_of(0, *(xid for xid, _ in snapshots))
    snapshot_copy = one_of(0, *(at for _, at in snapshots if at))
    none_of_copy, reached = (ZERO, at_most(int(live.next_obj_id))) if is_copy else (None, None)
    only_live = VOLUME.omap_oid, VOLUME.extentref_tree_oid, VOLUME.snap_meta_tree_oid
    allocated = at_most(int(superblock.num_blocks_ever_alloced))
    sealed, with_seal = NOT_ZERO if superblock.is_sealed else ZERO, "set where the volume is sealed, and only there"
    # The copy in a snapshot is a physical object. Rules that reading already applies to the live superblock are
    # omitted.
    stored = TYPES.fs | (STORAGE.physical if is_copy else STORAGE.virtual)
    return rules(
        "superblock-differs",
        *make_header_rules(VOLUME, "superblocks", stored, container.xid),
        # The bit for pre-releases must not be set any more (reference, APFS_FEATURE_DEFRAG_PRERELEASE).
        (VOLUME.features, only_bits(sum(VOLUME_FEATURE) - VOLUME_FEATURE.defrag_prerelease), UNKNOWN),
        (VOLUME.readonly_compatible_features, ZERO, UNKNOWN_TO_WRITERS),
        (
            VOLUME.incompatible_features,
            only_bits(sum(grammar.ApfsVolume.VolumeIncompatibleFeature)) if is_copy else None,
            UNKNOWN,
        ),
        (VOLUME.fs_index, equals(int(live.fs_index)) if is_copy else None, "another slot than the volume's"),
        (VOLUME.num_quota_blocks, quota, "less than the volume reserves or uses"),
        (VOLUME.meta_crypto.major_version, equals(5), "the only version"),
        (VOLUME.meta_crypto.minor_version, ZERO, "the only version"),
        (VOLUME.meta_crypto.cpflags, ZERO, UNKNOWN),
        (VOLUME.meta_crypto.persistent_class, protection, "not the protection of such a volume"),
        (VOLUME.meta_crypto.key_revision, at_least(1), "keys are counted from 1"),
        (VOLUME.meta_crypto.unused, ZERO, RESERVED),
        (VOLUME.root_tree_type, one_of(_VIRTUAL, _PHYSICAL), "another type or storage than that of a tree"),
        (VOLUME.extentref_tree_type, PHYSICAL_TREE, OTHER_TYPE),
        (VOLUME.snap_meta_tree_type, PHYSICAL_TREE, OTHER_TYPE),
        (VOLUME.fext_tree_type, one_of(0, _VIRTUAL, _PHYSICAL), "another type or storage than that of a tree"),
        (VOLUME.reserved_type, one_of(0, _PHYSICAL), RESERVED),
        (VOLUME.reserved_oid, ZERO, RESERVED),
        (VOLUME.reserved, ZERO, RESERVED),
        # The copy in a snapshot does not name trees that only the live volume has.
        *((field, none_of_copy, "a snapshot has none of its own") for field in only_live),
        (VOLUME.root_tree_oid, equals(int(live.root_tree_oid)) if is_copy else None, "another tree than the volume's"),
        (VOLUME.role, one_of(*map(int, grammar.ApfsVolume.VolumeRole)) if is_copy else None, "no known role"),
        (VOLUME.next_obj_id, reached, "more than the volume has come to since"),
        (VOLUME.revert_to_xid, snapshot_xid, "there is no such snapshot"),
        (VOLUME.revert_to_sblock_oid, snapshot_copy, "there is no such snapshot"),
        (VOLUME.root_to_xid, snapshot_xid, "there is no such snapshot"),
        (VOLUME.num_blocks_ever_freed, allocated, "more than were ever allocated"),
        (VOLUME.fs_flags, only_bits(_SET_FLAGS), UNKNOWN),
        (VOLUME.fs_flags, keys, "neither unencrypted nor of one key, without a key bag"),
        (VOLUME.formatted_by.last_xid, is_past, "a transaction that is still to come"),
        (VOLUME.modified_by.last_xid, is_past, "a transaction that is still to come"),
        (VOLUME.next_doc_id, at_least(3), "numbers below are reserved"),
        (VOLUME.er_state_oid, own_number, "no number of an object of this container"),
        (VOLUME.snap_meta_ext_oid, own_number, "no number of an object of this container"),
        (VOLUME.cloneinfo_id_epoch, epoch, "of a transaction that is not named, or a number still to come"),
        (VOLUME.cloneinfo_xid, epoch_xid, "without an epoch, or still to come"),
        (VOLUME.volume_group_id, no_group, "a member of a group without the feature of groups"),
        (VOLUME.integrity_meta_oid, sealed, with_seal),
        (VOLUME.fext_tree_oid, sealed, with_seal),
    )


def check_superblocks(subject: Subject, parts: VolumeParts) -> None:
    """Check the fields of a volume's superblock and of its copies in snapshots."""
    live = parts.state.superblock
    snapshots = [(int(item.xid), int(item.sblock_paddr)) for item in parts.snapshots]

    def check(name: str, paddr: int, superblock: ApfsVolume.ApfsSuperblock, *, is_copy: bool) -> None:
        declared = make_volume_rules(subject.container, superblock, live, snapshots, is_copy=is_copy)
        check_objects(subject, name, VOLUME, [paddr], declared)
        texts = (VOLUME.volname, VOLUME.formatted_by.id)
        history = (VOLUME.modified_by.id, VOLUME.modified_by.timestamp, VOLUME.modified_by.last_xid)
        found = read_columns(subject.container, VOLUME, paddr, (*texts, *history))
        for field in texts:
            text = found[field].ravel()[0].tobytes()
            if text[0] == 0 or 0 not in text:
                message = f"{field}: no text that ends with a zero byte"
                log = subject.log.at(name, paddr, plus=field.offset)
                log.add("superblock-differs", "warning", message, found=text[:16].hex())
        _check_history(subject, name, paddr, found)

    check("volume superblock", parts.state.paddr, live, is_copy=False)
    for item in parts.snapshots if parts.view == "live" else ():
        paddr, blocks, magic = int(item.sblock_paddr), subject.container.blocks, VOLUME.magic
        if paddr and is_readable(subject.container, paddr):
            data = blocks.read_object(paddr)
            if data[magic.offset : magic.offset + magic.width] == b"APSB":
                copy = grammar.parse(type(live), data, structure="volume superblock", image_offset=blocks.at(paddr))
                check(f"volume superblock of {item.view}", paddr, copy, is_copy=True)


def _check_history(subject: Subject, name: str, paddr: int, found: dict[Any, NDArray[Any]]) -> None:
    """Check that programs that changed the volume are listed newest first, and that unused entries are empty."""
    entry = VOLUME.modified_by
    has_id = np.array([item.tobytes()[0] != 0 for item in found[entry.id].ravel()])
    times, xids = found[entry.timestamp].ravel(), found[entry.last_xid].ravel()
    width = entry.id.strides[0]

    def report(wrong: Mask, field: Any, message: str) -> None:
        for row in np.flatnonzero(wrong)[:1].tolist():
            log = subject.log.at(name, paddr, plus=field.offset + row * width)
            log.add("superblock-differs", "warning", f"{field}[{row}]: {message}")

    report(~has_id & (times != 0), entry.timestamp, "an entry without program")
    report(~has_id & (xids != 0), entry.last_xid, "an entry without program")
    report(has_id & (xids == 0), entry.id, "an entry without transaction")
    report(has_id & (times == 0), entry.id, "an entry without time")
    report(np.append(False, has_id[1:] & ~has_id[:-1]), entry.id, "an entry after the last one")
    both = has_id[1:] & has_id[:-1]
    report(np.append(False, both & (xids[1:] > xids[:-1])), entry.last_xid, "younger than the entry before it")


def make_seal_rules(xid: int) -> tuple[FieldRule, ...]:
    """Return the rules of the integrity metadata of a sealed volume (integrity_meta_phys_t)."""
    return rules(
        "seal-broken",
        *make_header_rules(SEAL, "integrity metadata", TYPES.integrity_meta | STORAGE.virtual, xid),
        (SEAL.version, one_of(1, 2), "no known version"),
        (SEAL.flags, only_bits(1), UNKNOWN),
        (SEAL.reserved, ZERO, RESERVED),
    )


def check_integrity(subject: Subject, parts: VolumeParts) -> None:
    """Check the fields of integrity metadata, and that a broken seal names its transaction."""
    seal, now = parts.state.seal, subject.container.xid
    if seal is None:
        return
    check_objects(subject, "integrity metadata", SEAL, [seal.paddr], make_seal_rules(now))
    flags, xid = read_numbers(subject.container, SEAL, seal.paddr, SEAL.flags, SEAL.broken_xid)
    if flags & 1 != bool(xid) or xid > now:
        log = subject.log.at("integrity metadata", seal.paddr, plus=SEAL.broken_xid.offset)
        message = f"{SEAL.broken_xid}: set where the seal is broken, and only there"
        log.add("seal-broken", "warning", message, found=xid)


def check_seals(subject: Subject, parts: VolumeParts) -> None:
    """Check that the hash of a sealed volume's root node matches its integrity metadata."""
    blocks, seal, nodes = subject.container.blocks, parts.state.seal, parts.fs.nodes
    if seal is None or not seal.hash_type or not len(nodes):
        return
    # A node's hash is in its parent; the root has no parent, so its hash is stored outside the tree.
    data = blocks.read(nodes.paddr[:1], int(nodes.size_bytes[0]))
    found = hash_objects(seal.hash_type, data).tobytes()
    if found != seal.root_hash:
        (plus,) = read_numbers(subject.container, SEAL, seal.paddr, SEAL.ofs_root_hash)
        log = subject.log.at("integrity metadata", seal.paddr, plus=plus)
        message, stored = "the hash of the root is another", seal.root_hash.hex()
        log.add("seal-broken", "error", message, expected=found.hex(), found=stored)
