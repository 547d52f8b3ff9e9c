"""Rules of the fields of structures that few containers have: boot records, key bags, caches of Fusion sets.

Apple File System Reference, EFI Jumpstart, Encryption, Snapshot Metadata and Fusion. Free are the keys themselves, of
which their wrapping alone tells whether a password opens them, and identifiers that nothing else repeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.check.object_fields import (
    OBSERVED,
    REFERENCE,
    RESERVED,
    STORAGE,
    TYPES,
    UNKNOWN,
    TypedBlocks,
    hold,
    passed,
    stored_as,
)
from layoutscope.filesystems.apfs.container.keybag import container_keybag, decrypted_bag, volume_keybag_run
from layoutscope.filesystems.apfs.container.objects import Objects as Locator
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.fieldrules import (
    NOT_ZERO,
    ZERO,
    FieldRule,
    Structures,
    Want,
    check_fields,
    equals,
    one_of,
    rules,
)
from layoutscope.ondisk.records import (
    EFI_JUMPSTART,
    ENTRY_HEAD,
    FUSION_WBC,
    FUSION_WBC_LIST_HEAD,
    KEYBAG,
    PRANGE,
    SNAP_META_EXT_OBJ,
)

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.findings import FindingLog

JUMPSTART, EXTENDED, BAG, CACHE = EFI_JUMPSTART, SNAP_META_EXT_OBJ, KEYBAG, FUSION_WBC
LIST: Final = FUSION_WBC_LIST_HEAD
INVALID: Final = "structure-invalid"
TAG: Final = grammar.ApfsKeybag.KeybagTag
_BAG_VERSION: Final = 2
_PHYSICAL: Final = int(STORAGE.physical)
_ALIGNMENT: Final = 16
_TAGS: Final = tuple(int(tag) for tag in TAG if tag not in (TAG.unknown, TAG.reserved_1))


@frozen
class _Driver:
    """What is known of a boot record: the container, and bytes of the extents that it names."""

    container: Container
    room: int

    def age(self) -> Want:
        return passed(self.container.xid)

    def length(self) -> Want:
        last = self.room - self.container.blocks.block_size
        return Want(lambda found: (found > max(last, 0)) & (found <= self.room), f"{last + 1} to {self.room}")


JUMPSTART_RULES: Final[tuple[FieldRule[_Driver], ...]] = rules(
    INVALID,
    f"{REFERENCE}, nx_efi_jumpstart_t",
    (
        JUMPSTART.hdr.type_and_flags,
        stored_as(int(TYPES.efi_jumpstart), int(STORAGE.physical)),
        "another type or storage",
    ),
    (JUMPSTART.hdr.subtype, ZERO, "boot records have no subtype"),
    (JUMPSTART.hdr.xid, _Driver.age, "not a transaction of this container's past"),
    (JUMPSTART.version, equals(1), "no known version"),
    (JUMPSTART.reserved, ZERO, RESERVED),
    (JUMPSTART.len_efi_file, _Driver.length, "the driver does not fill its extents"),
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
    facts = _Driver(container, sum(run.num_blocks for run in record.extents) * container.blocks.block_size)
    hold(subject, TypedBlocks("EFI jumpstart", JUMPSTART, [paddr]), JUMPSTART_RULES, facts)


@frozen
class _Metadata:
    """What is known of extended metadata: the last transaction, and those of snapshots."""

    xid: int
    snapshots: tuple[int, ...]

    def age(self) -> Want:
        return passed(self.xid)


EXTENDED_RULES: Final[tuple[FieldRule[_Metadata], ...]] = rules(
    "snapshot-differs",
    f"{REFERENCE}, snap_meta_ext_obj_phys_t; {OBSERVED}",
    (EXTENDED.hdr.type_and_flags, stored_as(int(TYPES.snap_meta_ext), int(STORAGE.virtual)), "another type or storage"),
    (EXTENDED.hdr.subtype, ZERO, "such objects have no subtype"),
    (EXTENDED.hdr.xid, _Metadata.age, "not a transaction of this container's past"),
    (EXTENDED.ext.version, equals(1), "no known version"),
    (EXTENDED.ext.flags, ZERO, UNKNOWN),
    (EXTENDED.ext.snap_xid, _Metadata.age, "not a transaction of this container's past"),
    level="warning",
)
"""Rules of the extended metadata of the newest snapshot."""


def check_extended_metadata(subject: Subject) -> None:
    """Extended metadata of snapshots are of a known version, and of a transaction that is over."""
    for parts in subject.volumes:
        oid = parts.state.superblock.snap_meta_ext_oid
        if oid:
            paddr = Locator(subject.container, parts.state.view, subject.log).find(oid).paddr
            facts = _Metadata(subject.container.xid, tuple(int(item.xid) for item in parts.snapshots))
            hold(subject, TypedBlocks("extended snapshot metadata", EXTENDED, [paddr]), EXTENDED_RULES, facts)


@frozen
class _Bag:
    """What is known of a key bag: the last transaction, bytes of its entries, and of its blocks."""

    xid: int
    used: int
    room: int

    def age(self) -> Want:
        return passed(self.xid)

    def length(self) -> Want:
        # macOS counts an empty entry that ends the list; others do not.
        return Want(lambda found: (found >= self.used) & (found <= self.room), f"{self.used} to {self.room}")


BAG_RULES: Final[tuple[FieldRule[_Bag], ...]] = rules(
    INVALID,
    f"{REFERENCE}, media_keybag_t, kb_locker_t",
    (BAG.hdr.subtype, ZERO, "key bags have no subtype"),
    (BAG.hdr.xid, _Bag.age, "not a transaction of this container's past"),
    (BAG.locker.version, equals(_BAG_VERSION), "no known version"),
    (BAG.locker.padding, ZERO, RESERVED),
    (BAG.locker.num_bytes, _Bag.length, "not the bytes of its entries"),
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
        data = np.frombuffer(decrypted_bag(container, run, owner, name), np.uint8)
    except FormatError as error:
        subject.log.survive(error)
        return

    def at(_: int, plus: int) -> FindingLog:
        return subject.log.at(name, run[0], plus=plus)

    start = np.zeros(1, np.int64)
    count = int(container.decoder.column(BAG, data, start, BAG.locker.num_keys)[0])
    places, end = [], BAG.width
    for _ in range(count):
        if end + ENTRY_HEAD.width > len(data):
            break
        length = int(container.decoder.column(ENTRY_HEAD, data, np.array([end]), ENTRY_HEAD.len_key)[0])
        places.append(end)
        # The last entry is not padded; where its data end, the list does.
        last = end + ENTRY_HEAD.width + length
        end += -(-(ENTRY_HEAD.width + length) // _ALIGNMENT) * _ALIGNMENT
    used = last - BAG.width if places else 0
    check_fields(
        Structures(BAG, data, start, container.decoder), BAG_RULES, _Bag(container.xid, used, len(data) - BAG.width), at
    )
    entries = Structures(ENTRY_HEAD, data, np.array(places, np.int64), container.decoder)
    check_fields(entries, ENTRY_RULES, None, lambda row, plus: at(row, places[row] + plus))


@frozen
class _Cache:
    """What is known of a write cache: the transaction, and blocks of the checkpoint's data area."""

    xid: int

    def age(self) -> Want:
        return passed(self.xid)


CACHE_RULES: Final[tuple[FieldRule[_Cache], ...]] = rules(
    INVALID,
    f"{REFERENCE}, fusion_wbc_phys_t",
    (CACHE.hdr.xid, _Cache.age, "not a transaction of this container's past"),
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
    hold(subject, TypedBlocks("write-back cache", CACHE, [paddr]), CACHE_RULES, _Cache(container.xid))
    if not container.blocks.readable(np.array([paddr], np.uint64), container.blocks.block_size)[0]:
        return
    data = container.blocks.read(np.array([paddr], np.uint64), container.blocks.block_size).reshape(-1)
    heads = container.decoder.columns(CACHE, data, np.zeros(1, np.int64), (CACHE.list_head_oid, CACHE.list_tail_oid))
    for number in dict.fromkeys(int(values[0]) for values in heads.values()):
        if number:
            place = locator.find(number).paddr
            hold(subject, TypedBlocks(f"cache list {number}", LIST, [place]), LIST_RULES, container.xid)
