"""Rules of the fields of reapers and of the heads of object maps, and what all rules of objects need.

Apple File System Reference; what only apfsck says was seen to hold of the containers that macOS makes. Free are times,
counters and identifiers that nothing else repeats, and the newest version that mounted the container.
"""

from __future__ import annotations

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
    OBJ_PHYS,
    OMAP_PHYS,
    REAPER_HEAD,
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
REAPER = REAPER_HEAD
RESERVED: Final = "a reserved field is not zero"
UNKNOWN: Final = "bits that have no meaning"
UNKNOWN_TO_WRITERS: Final = "a feature that layoutscope does not know, which matters to whoever writes"


def stored_as(kind: int, storage: int) -> Want:
    """Demand a type of object and how it is stored, and no other flag."""
    return equals(kind | storage)


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


_TREE: Final = stored_as(int(TYPES.btree), int(STORAGE.physical))

OMAP_RULES: Final[tuple[FieldRule[bool], ...]] = rules(
    "object-map-differs",
    f"{REFERENCE}, omap_phys_t; {OBSERVED}",
    (OMAP_PHYS.hdr.type_and_flags, stored_as(int(TYPES.omap), int(STORAGE.physical)), "another type or storage"),
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
    hold(subject, TypedBlocks("reaper", REAPER, [item.paddr]), REAPER_RULES, idle)
    data = container.blocks.read(np.array([item.paddr], np.uint64), container.blocks.block_size).reshape(-1)
    rest = np.flatnonzero(data[REAPER.width :])
    if idle.is_idle and len(rest):
        plus = REAPER.width + int(rest[0])
        message = "state_buffer: an idle reaper has nothing to reap"
        subject.log.at("reaper", item.paddr, plus=plus).add("reaper-differs", "warning", message, expected=0)


def check_transactions(subject: Subject, name: str, paddrs: Sequence[int]) -> None:
    """Objects were written by a transaction that is over."""
    hold(subject, TypedBlocks(name, OBJ_PHYS, paddrs), _AGE_RULES, subject.container.xid)


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
        hold(subject, TypedBlocks("container object map", OMAP_PHYS, [paddr]), OMAP_RULES, facts=True)
        check_transactions(subject, "container object map", [paddr])


def check_volume_omaps(subject: Subject) -> None:
    """Heads of volumes' object maps have types that fit."""
    for parts in subject.volumes:
        paddr = parts.state.superblock.omap_oid
        if paddr:
            hold(subject, TypedBlocks("volume object map", OMAP_PHYS, [paddr]), OMAP_RULES, facts=False)
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
    return container.decoder.columns(record_type, data, np.zeros(1, np.int64), fields)


@frozen
class TypedBlocks:
    """Blocks that hold objects of one type, and what they are called."""

    name: str
    record_type: RecordType
    paddrs: Sequence[int]


def hold(subject: Subject, objects: TypedBlocks, declared: tuple[FieldRule[Any], ...], facts: object) -> None:
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
