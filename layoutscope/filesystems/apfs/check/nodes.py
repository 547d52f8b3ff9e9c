"""Nodes of every tree as a driver keeps them: head, free lists, room, and what the root says of its tree.

Apple File System Reference, B-Trees. A reader needs little of this, yet a driver that changes a node takes its free
space as the head tells it, and would write over records where that is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs import checkpoint as checkpoints
from layoutscope.filesystems.apfs.btree import read_levels
from layoutscope.filesystems.apfs.check.subject import MAX_CASES, container_sources, volume_roots
from layoutscope.filesystems.apfs.container import NoMap
from layoutscope.filesystems.apfs.fsrecords import find_losses, report_losses, tell_losses
from layoutscope.filesystems.apfs.mapped import are_misled, read_mapped, report_damaged_objects
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.verify import object_header, read_object, read_virtual
from layoutscope.filesystems.apfs.volume import list_volumes
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.checksum import fletcher64
from layoutscope.structs.fieldrules import (
    NOT_ZERO,
    ZERO,
    FieldRule,
    Structures,
    Want,
    at_least,
    check_fields,
    equals,
    one_of,
    only_bits,
    rules,
)
from layoutscope.structs.records import (
    APFS_SUPERBLOCK,
    BTREE_INFO,
    BTREE_NODE,
    CHECKPOINT_MAP_HEAD,
    CHECKPOINT_MAPPING,
    J_KEY,
    NLOC,
    NX_SUPERBLOCK,
    OBJ_PHYS,
    OMAP_KEY,
    OMAP_VAL,
    PHYS_EXT_VAL,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.mapped import Mapped
    from layoutscope.filesystems.apfs.omap import ObjectMap
    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.grammar import ApfsContainer


REFERENCE: Final = "Apple File System Reference, B-Trees"
OBSERVED: Final = "as apfsck checks, observed"
DIFFERS: Final = "node-header-differs"
NODE, INFO, PIECE = BTREE_NODE, BTREE_INFO, NLOC
_FLAG, _TREE = grammar.ApfsBtree.BtreeNodeFlag, grammar.ApfsBtree.BtreeFlag
_STORED = grammar.ApfsObject.ObjectFlag
_PHYSICAL, _VARYING = int(_TREE.physical), int(_TREE.kv_nonaligned)
_SEALED: Final = int(_TREE.hashed | _TREE.noheader)
_END: Final = int(grammar.ApfsBtree.Location.invalid)


class TreeRow(Struct, frozen=True):
    """What the root of a tree of one kind says of it."""

    flags: int
    len_key: int = 0
    len_val: int = 0
    longest: tuple[int, int] = (0, 0)
    """Where all records have one length although the tree does not say so."""


TREES: Final = {
    "container-omap": TreeRow(_PHYSICAL, 16, 16),
    "omap": TreeRow(_PHYSICAL, 16, 16),
    "omap-snapshots": TreeRow(_PHYSICAL, 8, 16),
    "extentref": TreeRow(_PHYSICAL | _VARYING, longest=(J_KEY.width, PHYS_EXT_VAL.width)),
    "snapmeta": TreeRow(_PHYSICAL | _VARYING),
    "fext": TreeRow(_PHYSICAL, 16, 16),
    "fs": TreeRow(_VARYING),
    "spaceman": TreeRow(int(_TREE.ephemeral | _TREE.allow_ghosts), 16, 8),
}
"""Flags and sizes by the kind of tree, in every container that macOS or Linux made; sequential insertion is a hint."""


class _Facts(Struct, frozen=True):
    """What is known of the nodes of a batch, and of their tree."""

    batch: ReadNodes
    xid: int
    longest: tuple[int, int] = (0, 0)

    @property
    def row(self) -> TreeRow | None:
        return TREES.get(self.batch.tree.source.tree)

    def node_flags(self) -> Want | None:
        shape = self.batch.tree.shape
        if self.row is None:
            return None
        expected = int(_FLAG.fixed_kv_size) if self.row.len_key else 0
        expected |= int(_FLAG.hashed) if shape.is_hashed else 0
        expected |= int(_FLAG.noheader) if shape.is_noheader else 0
        # Root and leaf are compared while the tree is read.
        place = int(_FLAG.root | _FLAG.leaf)
        return Want(
            lambda found: found & ~np.array(place, found.dtype) == expected, f"{expected:#x}, root and leaf aside"
        )

    def transaction(self) -> Want | None:
        if self.batch.tree.shape.is_noheader:
            return None
        return NOT_ZERO if self.batch.tree.source.ephemerals is None else equals(self.xid)

    def tree_flags(self) -> Want | None:
        if self.row is None:
            return None
        expected = self.row.flags | (_SEALED if self.batch.tree.shape.is_hashed else 0)
        hint = int(_TREE.sequential_insert)
        return Want(
            lambda found: found & ~np.array(hint, found.dtype) == expected, f"{expected:#x}, and the hint {hint:#x}"
        )

    def len_key(self) -> Want | None:
        return None if self.row is None else equals(self.row.len_key)

    def len_val(self) -> Want | None:
        return None if self.row is None else equals(self.row.len_val)

    def longest_key(self) -> Want | None:
        return None if self.row is None else self._longest(self.row.len_key or self.row.longest[0], self.longest[0])

    def longest_val(self) -> Want | None:
        return None if self.row is None else self._longest(self.row.len_val or self.row.longest[1], self.longest[1])

    def _longest(self, fixed: int, seen: int) -> Want:
        if fixed:
            # A tree that never held a record knows no longest one.
            return equals(fixed) if seen or self.row is None or self.row.len_key else one_of(0, fixed)
        # A tree remembers records that were longer than those of today, but none that no node could hold.
        room = self.batch.size_bytes
        least = at_least(seen)
        return Want(lambda found: least.is_met(found) & (found < room), f"{seen} to {room}")


NODE_RULES: Final[tuple[FieldRule[_Facts], ...]] = rules(
    DIFFERS,
    f"{REFERENCE}, btree_node_phys_t",
    (
        NODE.hdr.type_and_flags,
        only_bits(0xFFFF | int(_STORED.physical | _STORED.ephemeral | _STORED.encrypted)),
        "flags that a node cannot have",
    ),
    (NODE.hdr.xid, _Facts.transaction, "not of the transaction that wrote it"),
    (NODE.flags, _Facts.node_flags, "not the flags of its tree"),
    (NODE.table_space.ofs_data, ZERO, "the table of contents follows the head"),
    level="warning",
)
"""Rules of the heads of nodes."""

TREE_RULES: Final[tuple[FieldRule[_Facts], ...]] = rules(
    DIFFERS,
    f"{REFERENCE}, btree_info_t; {OBSERVED}",
    (INFO.fixed.flags, _Facts.tree_flags, "not the flags of such a tree"),
    (INFO.fixed.len_key, _Facts.len_key, "keys of such a tree have another size"),
    (INFO.fixed.len_val, _Facts.len_val, "values of such a tree have another size"),
    level="warning",
)
"""Rules of what a root says of its tree, as soon as it is read."""

LONGEST_RULES: Final[tuple[FieldRule[_Facts], ...]] = rules(
    "count-differs",
    f"{REFERENCE}, btree_info_t",
    (INFO.longest_key, _Facts.longest_key, "not the length of the longest key"),
    (INFO.longest_val, _Facts.longest_val, "not the length of the longest value"),
    level="warning",
)
"""Rules of what a root says of its records, when all of them are read."""


class TreeNodes:
    """The nodes of one tree, looked at batch by batch."""

    def __init__(self, subject: Subject) -> None:
        """Begin a tree."""
        self.subject = subject
        self.root: ReadNodes | None = None
        self.longest = (0, 0)
        self.xids = np.empty(0, np.uint64)

    def add(self, batch: ReadNodes) -> None:
        """Check the nodes of a batch."""
        facts = _Facts(batch, self.subject.container.xid)
        rows = np.flatnonzero(batch.check.is_sound)
        _apply_rules(self.subject, batch, rows, NODE_RULES, facts)
        if self.root is None:
            # The bytes of a batch may be gone with the next one.
            self.root = batch
            _apply_root_rules(self.subject, batch, TREE_RULES, facts)
        if len(batch.slots):
            values = int(batch.slots.val_len.max()) if not batch.level else 0
            key, val = self.longest
            self.longest = (max(key, int(batch.slots.key_len.max())), max(val, values))
        if len(rows):
            _check_room(self.subject, batch)
        self._check_age(batch)

    def _check_age(self, batch: ReadNodes) -> None:
        """A physical node has another address after each change, so that its parents change with it."""
        xids, parent = batch.head["hdr.xid"], batch.places.parent
        if batch.tree.source.view is None and parent[0] >= 0:
            limit = self.xids[parent]
            wrong = batch.check.is_sound & (xids > limit)
            message = "hdr.xid: younger than the node that leads to it"
            _report(self.subject, batch, wrong, NODE.hdr.xid.offset, message, limit, xids)
        self.xids = np.append(self.xids, xids)

    def close(self) -> None:
        """Check what the root says of all records."""
        if self.root is not None:
            facts = _Facts(self.root, self.subject.container.xid, self.longest)
            _apply_root_rules(self.subject, self.root, LONGEST_RULES, facts)


def _apply_rules(
    subject: Subject, batch: ReadNodes, rows: NDArray[np.int64], declared: tuple[FieldRule[_Facts], ...], facts: _Facts
) -> None:
    starts = rows * batch.size_bytes
    structures = Structures(NODE, batch.buffer, starts)

    def at(row: int, plus: int) -> Any:
        return batch.at(int(rows[row]), int(starts[row]) + plus, log=subject.log)

    check_fields(structures, declared, facts, at)


def _apply_root_rules(
    subject: Subject, batch: ReadNodes, declared: tuple[FieldRule[_Facts], ...], facts: _Facts
) -> None:
    start = np.array([batch.size_bytes - INFO.width], np.int64)
    structures = Structures(INFO, batch.buffer, start)
    check_fields(structures, declared, facts, lambda _, plus: batch.at(0, int(start[0]) + plus, log=subject.log))


class _Area(Struct, frozen=True):
    """Where keys or values of each node lie, and its free list; positions in the buffer.

    Keys are counted upwards from the start of their area, values downwards from the end of theirs.
    """

    name: str
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    rec_start: NDArray[np.int64]
    rec_len: NDArray[np.int64]
    is_upward: bool

    def position(self, nodes: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.first[nodes] + offset if self.is_upward else self.stop[nodes] - offset


_HEAD: Final = (
    *(NODE.table_space.ofs_data, NODE.table_space.len_data, NODE.free_space.ofs_data, NODE.free_space.len_data),
    *(NODE.key_free_list.ofs_data, NODE.key_free_list.len_data),
    *(NODE.val_free_list.ofs_data, NODE.val_free_list.len_data),
)


def _check_room(subject: Subject, batch: ReadNodes) -> None:
    """The gap is between keys and values, and what is free in their areas is what the lists say."""
    size = batch.size_bytes
    starts = np.arange(len(batch.places), dtype=np.int64) * size
    found = decode_columns(NODE, batch.buffer, starts, _HEAD)
    head = {name: values.astype(np.int64) for name, values in found.items()}
    keys = starts + NODE.width + head["table_space.ofs_data"] + head["table_space.len_data"]
    gap = keys + head["free_space.ofs_data"]
    values, end = gap + head["free_space.len_data"], starts + size - np.where(batch.head["is_root"], INFO.width, 0)
    slots = batch.slots
    # A ghost has no value, and stands nowhere.
    has_value = slots.val_len > 0
    areas = (
        _Area("key", keys, gap, head["key_free_list.ofs_data"], head["key_free_list.len_data"],
              slots.key_start, slots.key_len.astype(np.int64), is_upward=True),
        _Area("val", values, end, head["val_free_list.ofs_data"], head["val_free_list.len_data"],
              np.where(has_value, slots.val_start, end[slots.node]), slots.val_len.astype(np.int64), is_upward=False),
    )  # fmt: skip
    sound = batch.check.is_sound.copy()
    message = "the free space does not lie between keys and values"
    wrong = sound & ((values > end) | (gap > end))
    outside = np.zeros(len(slots), bool)
    for area in areas:
        outside |= (area.rec_start < area.first[slots.node]) | (area.rec_start + area.rec_len > area.stop[slots.node])
    wrong[slots.node[outside]] = True
    _report(subject, batch, wrong & sound, NODE.free_space.ofs_data.offset, message)
    sound &= ~wrong
    for area in areas:
        _check_area(subject, batch, area, sound)


def _report(
    subject: Subject,
    batch: ReadNodes,
    wrong: NDArray[np.bool_],
    plus: int,
    message: str,
    expected: NDArray[Any] | None = None,
    found: NDArray[Any] | None = None,
) -> None:
    def at(node: int) -> FindingLog:
        return batch.at(node, node * batch.size_bytes + plus, log=subject.log)

    subject.log.cases(wrong, DIFFERS, message, at, expected=expected, found=found, most=MAX_CASES)


def _check_area(subject: Subject, batch: ReadNodes, area: _Area, sound: NDArray[np.bool_]) -> None:
    """Compare the free bytes of an area with its list, and see that no byte is in use twice."""
    slots, field = batch.slots, getattr(NODE, f"{area.name}_free_list")
    used = np.bincount(slots.node, area.rec_len, len(sound)).astype(np.int64)
    # The sum counts gaps that are too small for an entry of the list too.
    free = area.stop - area.first - used
    wrong = sound & (free != area.length)
    message = f"{field.len_data}: not the bytes that its records leave free"
    _report(subject, batch, wrong, field.len_data.offset, message, free, area.length)
    owner, piece, length, torn = _walk_free_lists(batch, area, np.flatnonzero(sound))
    message = f"{field.ofs_data}: the list of free bytes leaves its area or does not end"
    broken = np.zeros(len(sound), bool)
    broken[torn] = True
    _report(subject, batch, broken, field.ofs_data.offset, message)
    # Records and free pieces of all nodes, by their place: none begins before the one before it ends.
    node = np.concatenate([slots.node, owner])
    start = np.concatenate([area.rec_start, piece])
    stop = start + np.concatenate([area.rec_len, length])
    order = np.argsort(start, kind="stable")
    node, start, stop = node[order], start[order], stop[order]
    twice = np.flatnonzero((start[1:] < stop[:-1]) & (node[1:] == node[:-1]) & (stop[1:] > start[1:])) + 1
    for row in twice[sound[node[twice]]][:MAX_CASES].tolist():
        log = batch.at(int(node[row]), int(start[row]), log=subject.log)
        log.add(DIFFERS, "warning", f"bytes of its {area.name} area are in use twice")


def _walk_free_lists(batch: ReadNodes, area: _Area, nodes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Walk the free lists of many nodes at once, a step at a time.

    The node, start and length of each piece, and the nodes whose list is broken.
    """
    found: list[tuple[NDArray[np.int64], ...]] = []
    broken: list[NDArray[np.int64]] = []
    offset = area.offset[nodes]
    # Each piece begins with the place of the next one and its own length, so that it has at least four bytes.
    for _ in range(batch.size_bytes // PIECE.width):
        going = offset != _END
        nodes, offset = nodes[going], offset[going]
        if not len(nodes):
            break
        at = area.position(nodes, offset)
        inside = (at >= area.first[nodes]) & (at + PIECE.width <= area.stop[nodes])
        broken.append(nodes[~inside])
        nodes, at = nodes[inside], at[inside]
        pieces = decode_columns(PIECE, batch.buffer, at, (PIECE.ofs_data, PIECE.len_data))
        length = pieces["len_data"].astype(np.int64)
        fits = (length >= PIECE.width) & (at + length <= area.stop[nodes])
        broken.append(nodes[~fits])
        nodes, offset = nodes[fits], pieces["ofs_data"].astype(np.int64)[fits]
        found.append((nodes, at[fits], length[fits]))
    broken.append(nodes[offset != _END] if len(offset) == len(nodes) else nodes)
    pieces_of = [np.concatenate([np.empty(0, np.int64), *(step[part] for step in found)]) for part in range(3)]
    return [*pieces_of, np.concatenate(broken)]


SUPERBLOCK: Final = NX_SUPERBLOCK
VOLUME: Final = APFS_SUPERBLOCK
MAPPING: Final = CHECKPOINT_MAPPING
KEY: Final = OMAP_KEY
VALUE: Final = OMAP_VAL
OID_BYTES: Final = OBJ_PHYS.xid.offset - OBJ_PHYS.oid.offset
MAPPING_FIELDS: Final = (MAPPING.type, MAPPING.subtype, MAPPING.len_object, MAPPING.oid, MAPPING.paddr)
ENTRY_FIELDS: Final = (VALUE.paddr, VALUE.len_object, VALUE.is_deleted, VALUE.is_encrypted, VALUE.is_noheader)


def check_roots(subject: Subject) -> None:
    """Every tree of a volume can be reached from the field that names its root, and every node from its parent."""
    for parts in subject.volumes:
        # Whoever reads a tree tells of each node that is no node of it: where nothing was told, nothing is missing.
        for source, log in volume_roots(subject, parts) if parts.log.findings or parts.view != "live" else ():
            losses, has_root = find_losses(source)
            if not has_root:
                message = f"leads to no root of the {source.tree} tree"
                log.add("tree-unreadable", "error", message, found=f"object {source.root_oid}")
            tell_losses(losses, source, parts.fs.records if source.tree == "fs" else None, subject.log)


def check_container_trees(subject: Subject) -> None:
    """Every node of the container's own trees can be reached from its parent."""
    for source in container_sources(subject):
        report_losses(source, None, subject.log)


def check_lost_volumes(subject: Subject) -> None:
    """Every volume that the container names has a superblock with an object map."""
    container = subject.container
    for slot, oid in list_volumes(container):
        plus = SUPERBLOCK.fs_oid.offset + slot * OID_BYTES
        log = subject.log.at(f"volume {oid}", container.checkpoint.paddr, plus=plus)
        cls = grammar.ApfsVolume.ApfsSuperblock
        try:
            superblock, paddr = read_virtual(container.blocks, cls, container.view, oid, "volume superblock")
            log = subject.log.at(f"volume {oid}", paddr, plus=VOLUME.omap_oid.offset)
            _ = read_object(container.blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "object map")
        except FormatError as error:
            message = f"the volume in slot {slot} cannot be opened as it stands: {error.reason}"
            log.add("volume-unreadable", "error", message)


def check_checkpoints(subject: Subject) -> None:
    """Every checkpoint that is not older than the one in use has its objects where its maps say."""
    container = subject.container
    for paddr, superblock in checkpoints.superblocks(subject.apart, container.area):
        if superblock.hdr.xid >= container.xid:
            _check_maps(subject, superblock)
            if superblock.hdr.xid > container.xid or isinstance(container.omap_header, NoMap):
                _check_omap(subject, paddr, superblock)


def _check_omap(subject: Subject, paddr: int, superblock: ApfsContainer.NxSuperblock) -> None:
    try:
        read_object(subject.container.blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "object map")
    except FormatError as error:
        name, plus = f"container superblock of xid {superblock.hdr.xid}", SUPERBLOCK.omap_oid.offset
        message = f"the object map cannot be used: {error.reason}"
        subject.log.at(name, paddr, plus=plus).add("checkpoint-invalid", "warning", message)


def _check_maps(subject: Subject, superblock: ApfsContainer.NxSuperblock) -> None:
    """Compare the mappings of a checkpoint with the objects in the data area."""
    container = subject.container
    blocks, area, ring = container.blocks, container.area, len(container.area.paddr)
    kind = int(grammar.ApfsObject.ObjectType.checkpoint_map)
    head, size = CHECKPOINT_MAP_HEAD.width, MAPPING.width
    # The descriptor area is a ring: what begins near its end goes on at its start.
    for row in ((superblock.xp_desc_index + np.arange(min(superblock.num_desc_used, ring))) % max(ring, 1)).tolist():
        if area.kind[row] != kind:
            continue
        block = area.blocks[row]
        count = decode_column(CHECKPOINT_MAP_HEAD, block, np.zeros(1, np.int64), CHECKPOINT_MAP_HEAD.num_mappings)[0]
        if count > (blocks.block_size - head) // size:
            plus = CHECKPOINT_MAP_HEAD.num_mappings.offset
            log = subject.log.at(f"checkpoint map of xid {superblock.hdr.xid}", int(area.paddr[row]), plus=plus)
            log.add("checkpoint-invalid", "warning", "it counts more mappings than fit", found=count)
            continue
        starts = head + np.arange(int(count), dtype=np.int64) * size
        found = decode_columns(MAPPING, block, starts, MAPPING_FIELDS)
        for number, start in enumerate(starts.tolist()):
            mapping = {name: int(values[number]) for name, values in found.items()}
            problem = _mapping_problem(subject, mapping)
            if problem:
                field, message = problem
                name = f"checkpoint map of xid {superblock.hdr.xid}, object {mapping['oid']}"
                log = subject.log.at(name, int(area.paddr[row]), plus=start + MAPPING.offset_of(field))
                log.add("checkpoint-invalid", "warning", message, found=mapping.get(field, ""))


def _mapping_problem(subject: Subject, mapping: dict[str, int]) -> tuple[str, str] | None:
    """Field that cannot be right, and why; None if the object is there."""
    blocks = subject.container.blocks
    size = mapping["len_object"]
    if not 0 < size <= checkpoints.MAX_OBJECT_BYTES or size % blocks.block_size:
        return "len_object", "its size is no whole number of blocks, or impossibly large"
    try:
        data = np.frombuffer(blocks.read_object(mapping["paddr"], size), np.uint8)
    except FormatError as error:
        return "paddr", error.reason
    head = object_header(data.tobytes(), blocks.at(mapping["paddr"]))
    if int(fletcher64(data[None, :])[0]) != head.cksum:
        return "paddr", "the object there has a wrong checksum"
    if head.oid != mapping["oid"]:
        return "oid", "the object there has another number"
    if (head.type, head.subtype) != (mapping["type"], mapping["subtype"]):
        return "type_and_flags", "the object there is of another type"
    return None


def check_container_map(subject: Subject) -> None:
    """Compare every entry of the container's object map with its object."""
    container = subject.container
    if len(container.omap.nodes):
        mapped = read_mapped(container.omap, container.store)
        root = container.omap_header.tree_oid
        _check_map(subject, TreeSource(subject.apart, "container-omap", root, container.xid), container.omap, mapped)


def check_object_maps(subject: Subject) -> None:
    """Compare every entry of volumes' object maps with its object."""
    for parts in subject.volumes:
        state = parts.state
        known = [parts.fs.nodes] if parts.view == "live" and not parts.log.findings else list(parts.views.values())
        mapped = read_mapped(state.omap, state.store, known, parts.cipher)
        source = TreeSource(subject.apart, "omap", state.omap_header.tree_oid, subject.container.xid)
        _check_map(subject, source, state.omap, mapped, may_encrypt=not state.superblock.is_unencrypted)


_KINDS: Final = {"omap": "fs tree, node", "container-omap": "volume"}
"""What the objects of a map are called, as where trees lead to them."""


def _check_map(
    subject: Subject, source: TreeSource, omap: ObjectMap, mapped: Mapped, *, may_encrypt: bool = False
) -> None:
    """Compare the entries of an object map with their objects, and report the objects that are damaged themselves."""
    misled = are_misled(omap, mapped)
    report_damaged_objects(omap, mapped, misled, _KINDS[source.tree], subject.log)
    wrong = np.unique(omap.paddr[misled])
    for batch in read_levels(source):
        if not batch.level and len(batch.slots):
            _check_entries(subject, batch, mapped, wrong, may_encrypt=may_encrypt)


def _check_entries(
    subject: Subject, batch: ReadNodes, mapped: Mapped, wrong: NDArray[np.uint64], *, may_encrypt: bool
) -> None:
    source = batch.tree.source
    blocks = source.blocks
    entry = batch.columns("key", KEY, (KEY.oid, KEY.xid)) | batch.columns("val", VALUE, ENTRY_FIELDS)
    deleted, size = entry["is_deleted"], entry["len_object"].astype(np.int64)
    future = entry["xid"] > np.uint64(source.max_xid)
    odd = ~deleted & ((size == 0) | (size % blocks.block_size != 0))
    outside = ~deleted & ~blocks.present(entry["paddr"], blocks.block_size)
    alone = deleted & ~_has_older(entry["oid"])
    strange = ~deleted & entry["is_encrypted"] & (not may_encrypt)
    report = _Entries(subject, batch, entry)
    # An error loses the object that the entry names; what a warning is about was read all the same.
    report.cases(future, "key.xid", "its transaction is younger than the container", found=entry["xid"], level="error")
    message = "its size is no whole number of blocks"
    report.cases(odd, "val.len_object", message, found=entry["len_object"], level="error")
    row, is_sound = mapped.of(entry["paddr"])
    is_sound &= ~(deleted | outside)
    stored = size.copy()
    stored[is_sound] = mapped.size_bytes[row[is_sound]]
    report.cases(~odd & (stored != size), "val.len_object", "the node there has another size", stored, size)
    report.cases(outside, "val.paddr", "it leads out of the image", found=entry["paddr"], level="error")
    message = "it says deleted, but no older entry is there to delete"
    report.cases(alone, "val.flags", message, level="error")
    report.cases(strange, "val.flags", "it says encrypted on a volume that is not")
    # Where the block fails its own checksum, what stands in it contradicts nothing.
    found = {name: entry[name].copy() for name in ("oid", "xid")}
    plain = np.flatnonzero(is_sound & ~(future | odd))
    found["oid"][plain], found["xid"][plain] = mapped.oid[row[plain]], mapped.xid[row[plain]]
    other = found["oid"] != entry["oid"]
    message = "the object there has another number"
    is_misled = other & np.isin(entry["paddr"], wrong)
    report.cases(is_misled, "key.oid", message, entry["oid"], found["oid"], level="error")
    report.cases(other & ~is_misled, "key.oid", message, entry["oid"], found["oid"])
    later = (found["xid"] != entry["xid"]) & ~other
    report.cases(later, "key.xid", "the object there is of another transaction", entry["xid"], found["xid"])


def _has_older(oid: NDArray[np.uint64]) -> NDArray[np.bool_]:
    # Keys are object and transaction: versions of one object stand side by side, the oldest first.
    result = np.ones(len(oid), bool)
    result[1:] = oid[1:] == oid[:-1]
    return result


class _Entries(Struct, frozen=True):
    """Reports entries of a batch of leaves."""

    subject: Subject
    batch: ReadNodes
    entry: dict[str, NDArray[Any]]

    def cases(
        self,
        wrong: NDArray[np.bool_],
        field: str,
        message: str,
        expected: NDArray[Any] | None = None,
        found: NDArray[Any] | None = None,
        *,
        level: Level = "warning",
    ) -> None:
        """Report entries at a field of their key or value."""
        slots, (part, _, path) = self.batch.slots, field.partition(".")
        starts, type_name = (slots.key_start, KEY) if part == "key" else (slots.val_start, VALUE)
        plus = type_name.offset_of(path)
        for row in np.flatnonzero(wrong)[:MAX_CASES].tolist():
            sides = ["" if side is None else side[row] for side in (expected, found)]
            name, at = f"entry of object {self.entry['oid'][row]}", int(starts[row]) + plus
            log = self.batch.at(int(slots.node[row]), at, name=name, log=self.subject.log)
            log.add("object-map-differs", level, message, expected=sides[0], found=sides[1])
