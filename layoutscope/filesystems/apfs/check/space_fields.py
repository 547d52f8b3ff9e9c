"""Rules of the fields of a space manager: sizes, queues, zones, versions of the pool's bitmap, heads of chunk blocks.

Apple File System Reference, Space Manager; what only apfsck says was seen to hold of the containers that macOS makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

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
from layoutscope.filesystems.apfs.check.space import INVALID, check_pool_bitmap, chunk_table, spaceman_field
from layoutscope.filesystems.apfs.check.subject import queue_sources
from layoutscope.filesystems.apfs.check.zone_fields import check_zones
from layoutscope.filesystems.apfs.store.walk import read_nodes
from layoutscope.findings import Contradiction
from layoutscope.frozen import frozen
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
from layoutscope.ondisk.records import (
    CAB_HEAD,
    CHUNK_INFO,
    CIB_HEAD,
    DATAZONE,
    FREE_QUEUE_KEY,
    RING_INDEX,
    SPACEMAN_PHYS,
    XID_ENTRY,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.findings import FindingLog
    from layoutscope.recordtypes import Field, RecordType

SPACE, CHUNK = SPACEMAN_PHYS, CHUNK_INFO
_POOL_VERSIONS: Final = 16
_BLOCK_BYTES: Final = 4096
_WHOLE: Final = SPACE.width + DATAZONE.width
"""Bytes of a versioned space manager before its arrays: its allocation zones follow the fixed part."""
_LIST_END, _VERSIONED = 0xFFFF, 1
_COUNT_BITS: Final = (1 << 20) - 1
"""Of the number of blocks of a chunk, and of its free blocks."""
_QUEUE_LIMITS: Final = ((0, 0, 4544, 1), (1 << 18, 261281, 2272, 116), (1 << 20, 0, 1 << 63, 512))
"""Nodes that a device's free queue may have: from so many blocks on, one more for so many blocks behind a start."""


def _first_array(*, is_versioned: bool) -> int:
    """Where the arrays begin; in the first version they stood where its number is now."""
    return _WHOLE if is_versioned else SPACE.version.offset


def queue_limit(num_blocks: int) -> int:
    """How many nodes the free queue of a device may have."""
    _, start, step, first = next(row for row in reversed(_QUEUE_LIMITS) if num_blocks >= row[0])
    limit = first + (num_blocks - start - (not start)) // step
    # Two nodes are of no use: a root that is divided needs a third.
    return 3 if limit == 2 else limit


def pool_limit(num_chunks: int) -> int:
    """How many nodes the free queue of the internal pool may have."""
    limit = 3 * (num_chunks + 751) // 1127 - 1
    return 3 if limit == 2 else limit


@frozen
class _Facts:
    """What is known of a space manager besides its fields."""

    xid: int
    block_size: int
    num_reserved: int | None
    is_fusion: bool
    is_versioned: bool
    oldest: tuple[int | None, ...]
    num_blocks: tuple[int, ...]
    num_chunks: int

    def chunks(self) -> Want:
        return equals((self.block_size - CIB_HEAD.width) // CHUNK_INFO.width)

    def cibs(self) -> Want:
        return equals((self.block_size - CIB_HEAD.width) // SPACE.num_ip_blocks.width)

    def reserved(self) -> Want | None:
        return None if self.num_reserved is None else equals(self.num_reserved)

    def alloced(self) -> Want | None:
        limit = self.num_reserved
        return None if limit is None else Want(lambda found: found <= limit, f"at most {limit}")

    def versioned(self) -> Want | None:
        return equals(1) if self.is_versioned else None

    def len_struct(self) -> Want | None:
        return equals(_WHOLE) if self.is_versioned else None

    def first_array(self) -> Want:
        return equals(_first_array(is_versioned=self.is_versioned))

    def second(self) -> Want | None:
        """Only a Fusion set has a second device."""
        return None if self.is_fusion else Want(_is_last_zero, "0 of a second device, which there is not")

    def oldest_xid(self) -> Want:
        return self._items(self.oldest)

    def limits(self) -> Want | None:
        # Of nodes of other sizes nobody says how many there may be.
        if self.block_size != _BLOCK_BYTES:
            return None
        return self._items((pool_limit(self.num_chunks), *(queue_limit(n) if n else 0 for n in self.num_blocks)))

    @staticmethod
    def _items(expected: tuple[int | None, ...]) -> Want:
        known = np.array([item is not None for item in expected])
        wanted = np.array([item or 0 for item in expected], np.uint64)
        return Want(lambda found: (found == wanted) | ~known, " and ".join(map(str, expected)))


def _is_last_zero(found: NDArray[Any]) -> NDArray[np.bool_]:
    met = np.ones(found.shape, bool)
    met[:, -1] = found[:, -1] == 0
    return met


_SECOND: Final = (
    *(SPACE.devices.num_blocks, SPACE.devices.num_chunks, SPACE.devices.num_cibs, SPACE.devices.num_cabs),
    *(SPACE.devices.num_free_blocks, SPACE.free_queues.num_blocks, SPACE.free_queues.tree_oid),
    *(SPACE.free_queues.oldest_xid, SPACE.free_queues.tree_node_limit),
)

SPACE_RULES: Final[tuple[FieldRule[_Facts], ...]] = rules(
    INVALID,
    f"{REFERENCE}, spaceman_phys_t; {OBSERVED}",
    (SPACE.hdr.xid, lambda facts: equals(facts.xid), "an ephemeral object is written with each checkpoint"),
    (SPACE.chunks_per_cib, _Facts.chunks, "not as many as a block has room for"),
    (SPACE.cibs_per_cab, _Facts.cibs, "not as many as a block has room for"),
    (SPACE.ip_bm_tx_multiplier, equals(_POOL_VERSIONS), "the pool's bitmap is kept in sixteen versions"),
    (SPACE.flags, only_bits(_VERSIONED), UNKNOWN),
    (SPACE.num_fs_reserve_blocks, _Facts.reserved, "volumes reserve another number of blocks"),
    (SPACE.num_fs_reserve_alloced, _Facts.alloced, "more of the reserve is in use than there is"),
    (SPACE.version, _Facts.versioned, "the only version"),
    (SPACE.len_struct, _Facts.len_struct, "another size than that of the structure"),
    (SPACE.ofs_ip_bm_xid, _Facts.first_array, "the first array follows the structure"),
    (SPACE.devices.reserved, ZERO, RESERVED),
    (SPACE.devices.reserved2, ZERO, RESERVED),
    (SPACE.free_queues.pad16, ZERO, RESERVED),
    (SPACE.free_queues.pad32, ZERO, RESERVED),
    (SPACE.free_queues.reserved, ZERO, RESERVED),
    (SPACE.free_queues.oldest_xid, _Facts.oldest_xid, "not the oldest transaction in the queue"),
    (SPACE.free_queues.tree_node_limit, _Facts.limits, "not the nodes that a queue of this size may have"),
    *((field, _Facts.second, "there is no second device") for field in _SECOND),
    level="warning",
)
"""Rules of the space manager."""


def check_space(subject: Subject) -> None:
    """Fields of the space manager that follow from the block size, the volumes and the checkpoint."""
    container, space = subject.container, subject.parts.space
    item = container.checkpoint.ephemerals.get(container.superblock.spaceman_oid)
    if item is None or space is None:
        return
    volumes = [parts.state.superblock for parts in subject.volumes if parts.view == "live"]
    is_known = len(volumes) == len([oid for oid in container.superblock.fs_oid if oid])
    reserved = sum(int(volume.num_reserve_blocks) for volume in volumes) if is_known else None
    header = space.header
    for number, queue in enumerate(header.free_queues):
        if queue.tree_oid and queue.tree_oid not in container.checkpoint.ephemerals:
            message = f"free_queues.tree_oid[{number}]: the checkpoint holds no such object"
            log = spaceman_field(subject, "tree_oid", queue=number).within(f"free_queues.tree_oid[{number}]")
            log.add(INVALID, "warning", message, found=queue.tree_oid)
        if queue.num_blocks and not queue.tree_oid:
            log = spaceman_field(subject, "num_blocks", queue=number)
            message = f"free_queues.num_blocks[{number}]: blocks of a queue that has no tree"
            log.add(INVALID, "warning", message, expected=0, found=queue.num_blocks)
    oldest: list[int | None] = [0 if not queue.tree_oid else None for queue in header.free_queues]
    for number, source in queue_sources(subject):
        nodes, leaves = read_nodes(source)
        limit = int(header.free_queues[number].tree_node_limit)
        if len(nodes) > limit:
            # Linux's driver 0.3.0 lets a queue grow beyond its limit while much is deleted; apfsck says so too.
            message = f"free_queues.tree_node_limit[{number}]: the queue has more nodes than it may have"
            log = spaceman_field(subject, "tree_node_limit", queue=number)
            log.add(INVALID, "warning", message, expected=f"at least {len(nodes)}", found=limit)
        xids = [batch.column("key", FREE_QUEUE_KEY, FREE_QUEUE_KEY.xid) for batch in leaves if len(batch.slots)]
        oldest[number] = int(xids[0][0]) if xids else 0
    facts = _Facts(
        container.xid,
        container.blocks.block_size,
        reserved,
        container.superblock.is_fusion,
        bool(int(header.flags) & _VERSIONED),
        tuple(oldest),
        tuple(int(device.num_blocks) for device in header.devices),
        sum(int(device.num_chunks) for device in header.devices),
    )
    hold(subject, TypedBlocks("space manager", SPACE, [item.paddr]), SPACE_RULES, facts)
    if facts.is_versioned:
        check_zones(subject, item.paddr)


_CHUNK_HEADS: Final = (("spaceman-cib", CIB_HEAD, TYPES.spaceman_cib), ("spaceman-cab", CAB_HEAD, TYPES.spaceman_cab))

CHUNK_RULES: Final[tuple[FieldRule[NDArray[np.uint64]], ...]] = rules(
    INVALID,
    f"{REFERENCE}, chunk_info_t",
    (
        CHUNK.xid,
        lambda xids: Want(lambda found: (found > 0) & (found <= xids), "a transaction no younger than its block's"),
        "not a transaction of this container's past",
    ),
    (CHUNK.num_blocks_and_flags, only_bits(_COUNT_BITS), RESERVED),
    (CHUNK.num_free_and_flags, only_bits(_COUNT_BITS), RESERVED),
    level="warning",
)
"""Rules of chunks; the transactions of the blocks that hold them are what is known otherwise."""


def check_heads(subject: Subject) -> None:
    """Blocks of chunk information and of their addresses have the headers of physical objects."""
    space, container = subject.parts.space, subject.container
    if space is None:
        return
    for region, head, kind in _CHUNK_HEADS:
        paddrs = [item.paddr for item in space.regions if item.type == region]
        declared: tuple[FieldRule[int], ...] = rules(
            INVALID,
            f"{REFERENCE}, chunk_info_block, cib_addr_block",
            (head.hdr.type_and_flags, stored_as(int(kind), int(STORAGE.physical)), "another type or storage"),
            (head.hdr.subtype, ZERO, "such blocks have no subtype"),
            (head.hdr.xid, passed, "not a transaction of this container's past"),
            level="warning",
        )
        hold(subject, TypedBlocks(region, head, paddrs), declared, container.xid)
    for number, device in enumerate(space.header.devices):
        if device.num_blocks:
            _check_chunks(subject, number)


def _check_chunks(subject: Subject, device: int) -> None:
    container = subject.container
    table, heads = chunk_table(subject, device)
    if not table.columns:
        return
    size = container.blocks.block_size
    buffer = container.blocks.read(heads["paddr"], size).reshape(-1)
    block = np.searchsorted(np.sort(heads["paddr"]), table.cib_paddr)
    row = np.argsort(heads["paddr"])[block]
    structures = Structures(CHUNK, buffer, row * size + table.plus, container.decoder)

    def at(number: int, plus: int) -> FindingLog:
        where = int(table.plus[number]) + plus
        return subject.log.at(f"chunk {number}", int(table.cib_paddr[number]), plus=where)

    check_fields(structures, CHUNK_RULES, heads["hdr.xid"][row], at)
    newest = np.zeros(len(heads["paddr"]), np.uint64)
    np.maximum.at(newest, row, table.columns["xid"])
    what = Contradiction(INVALID, "hdr.xid: not that of its youngest chunk", "warning", newest, heads["hdr.xid"])
    wrong = (newest != heads["hdr.xid"]) & (newest > 0)

    def at_head(number: int) -> FindingLog:
        return subject.log.at("chunk information", int(heads["paddr"][number]), plus=CIB_HEAD.hdr.xid.offset)

    # A block of chunks is written anew with a chunk, and only then.
    subject.log.cases(wrong, what, at_head)


def check_versions(subject: Subject) -> None:
    """The pool's bitmap is one of sixteen versions, and the blocks of the others are a list."""
    container, space = subject.container, subject.parts.space
    item = container.checkpoint.ephemerals.get(container.superblock.spaceman_oid)
    if item is None or space is None:
        return
    header = space.header
    data = np.frombuffer(container.blocks.read_object(item.paddr, item.size_bytes), np.uint8)
    used, count = int(header.num_ip_bm_used), int(header.num_ip_bm_blocks)
    places = (
        (SPACE.ofs_ip_bm_xid, int(header.ofs_ip_bm_xid), used * XID_ENTRY.width),
        (SPACE.ofs_ip_bitmap, int(header.ofs_ip_bitmap), used * RING_INDEX.width),
        (SPACE.ofs_ip_bm_free_next, int(header.ofs_ip_bm_free_next), count * RING_INDEX.width),
        *(
            (SPACE.devices.ofs_addresses, int(device.ofs_addresses), 8 * int(device.num_cabs or device.num_cibs))
            for device in header.devices
        ),
    )

    def tell(plus: int) -> FindingLog:
        return subject.log.at("space manager", item.paddr, plus=plus)

    first = _first_array(is_versioned=bool(int(header.flags) & _VERSIONED))
    if not _fit(places, first, len(data), tell):
        return
    xids = _array(container, data, XID_ENTRY.xid, XID_ENTRY, places[0])
    ring = _array(container, data, RING_INDEX.index, RING_INDEX, places[1])
    follows = _array(container, data, RING_INDEX.index, RING_INDEX, places[2])
    for row in np.flatnonzero((xids == 0) | (xids > np.uint64(container.xid))).tolist():
        message = "the pool's bitmap is not of a transaction of this container's past"
        tell(places[0][1] + row * XID_ENTRY.width).add(INVALID, "warning", message, found=xids[row])
    _check_list(header, ring, follows, tell, places)
    check_pool_bitmap(subject, space, int(header.ip_bm_base) + ring.astype(np.int64))


def _array(
    container: Container, data: NDArray[np.uint8], field: Field, kind: RecordType, place: tuple[Field, int, int]
) -> NDArray[Any]:
    _, start, length = place
    starts = np.arange(start, start + length, kind.width, dtype=np.int64)
    found: NDArray[Any] = container.decoder.column(kind, data, starts, field)
    return found


def _fit(places: tuple[tuple[Field, int, int], ...], first: int, stop: int, tell: Callable[[int], FindingLog]) -> bool:
    """The arrays lie behind the structure, eight bytes apart, in the object, and none in another."""
    fits, end = True, first
    for field, start, length in sorted(places, key=lambda each: each[1]):
        if start % 8 or start < end or start + length > stop:
            message = f"{field}: the array is not aligned, lies in another, or leaves the space manager"
            tell(field.offset).add(INVALID, "warning", message, found=start)
            fits = False
        end = max(end, start + length)
    return fits


def _check_list(
    header: Any,
    ring: NDArray[np.uint16],
    follows: NDArray[np.uint16],
    tell: Callable[[int], FindingLog],
    places: tuple[tuple[Field, int, int], ...],
) -> None:
    """From head to tail, the list holds every block of the ring but those in use, each once."""
    listed: list[int] = []
    index = int(header.ip_bm_free_head)
    while index < len(follows) and index not in listed:
        listed.append(index)
        index = int(follows[index])
    free = set(range(len(follows))) - set(ring.tolist())
    if index != _LIST_END or set(listed) != free:
        message = "ip_bm_free_head: the list of free bitmaps is not that of all but those in use"
        sides = {"expected": f"{len(free)} bitmaps", "found": f"{len(listed)} bitmaps"}
        tell(SPACE.ip_bm_free_head.offset).add(INVALID, "warning", message, **sides)
    elif listed[-1:] != [int(header.ip_bm_free_tail)]:
        message = "ip_bm_free_tail: not the last of the list of free bitmaps"
        log = tell(SPACE.ip_bm_free_tail.offset)
        log.add(INVALID, "warning", message, expected=listed[-1], found=int(header.ip_bm_free_tail))
    for place in ring[ring < len(follows)].tolist():
        if follows[place] != _LIST_END:
            message = "a bitmap in use is followed by a free one"
            log = tell(places[2][1] + place * RING_INDEX.width)
            log.add(INVALID, "warning", message, expected=_LIST_END, found=follows[place])
