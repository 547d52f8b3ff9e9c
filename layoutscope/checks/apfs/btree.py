"""Check of the nodes of every tree: header, free lists, free space, and the root's description of its tree.

Apple File System Reference, B-Trees. A reader needs little of this, but a driver that changes a node takes its free
space from the header, and would overwrite records if that is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.checks.apfs.subject import list_container_sources, list_volume_roots
from layoutscope.checks.fieldrules import NOT_ZERO, ZERO, Want, check_fields, equals, one_of, only_bits, rules
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs import checkpoint as checkpoints
from layoutscope.filesystems.apfs.btree import read_levels
from layoutscope.filesystems.apfs.container import NoMap
from layoutscope.filesystems.apfs.fsrecords import find_losses, report_losses, tell_losses
from layoutscope.filesystems.apfs.mapped import are_misled, read_mapped, report_damaged_objects
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.verify import object_header, read_object, read_virtual
from layoutscope.filesystems.apfs.volume import list_volumes
from layoutscope.findings import MAX_CASES
from layoutscope.structs import grammar, records
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.checksum import fletcher64

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Subject
    from layoutscope.checks.fieldrules import FieldRule
    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.mapped import Mapped
    from layoutscope.filesystems.apfs.omap import ObjectMap
    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.grammar import ApfsContainer

    I64 = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Rules = tuple[FieldRule, ...]


DIFFERS: Final = "node-header-differs"
NODE, INFO, PIECE = records.BTREE_NODE, records.BTREE_INFO, records.NLOC
_FLAG, _TREE = grammar.ApfsBtree.BtreeNodeFlag, grammar.ApfsBtree.BtreeFlag
_STORED = grammar.ApfsObject.ObjectFlag
_PHYSICAL, _VARYING = int(_TREE.physical), int(_TREE.kv_nonaligned)
_SEALED: Final = int(_TREE.hashed | _TREE.noheader)
_END: Final = int(grammar.ApfsBtree.Location.invalid)

TREES: Final[dict[str, tuple[int, tuple[int, int], tuple[int, int]]]] = {
    "container-omap": (_PHYSICAL, (16, 16), (16, 16)),
    "omap": (_PHYSICAL, (16, 16), (16, 16)),
    "omap-snapshots": (_PHYSICAL, (8, 16), (8, 16)),
    "extentref": (_PHYSICAL | _VARYING, (0, 0), (records.J_KEY.width, records.PHYS_EXT_VAL.width)),
    "snapmeta": (_PHYSICAL | _VARYING, (0, 0), (0, 0)),
    "fext": (_PHYSICAL, (16, 16), (16, 16)),
    "fs": (_VARYING, (0, 0), (0, 0)),
    "spaceman": (int(_TREE.ephemeral | _TREE.allow_ghosts), (16, 8), (16, 8)),
}
"""Flags and lengths of keys and values by the kind of tree, in every container that macOS or Linux made.

The first pair of lengths is in the root, 0 where records vary; the second pair is that of the records themselves.
"""


def _expect_outside_mask(mask: int, expected: int, words: str) -> Want:
    """Demand a value for the bits outside of a mask."""
    return Want(lambda found: found & ~np.array(mask, found.dtype) == expected, words)


def make_node_rules(batch: ReadNodes, xid: int) -> Rules:
    """Return the rules of node headers (btree_node_phys_t)."""
    shape, source = batch.tree.shape, batch.tree.source
    flags = None
    if source.tree in TREES:
        expected = int(_FLAG.fixed_kv_size) if TREES[source.tree][1][0] else 0
        expected |= (int(_FLAG.hashed) if shape.is_hashed else 0) | (int(_FLAG.noheader) if shape.is_noheader else 0)
        # Root and leaf are compared while the tree is read.
        flags = _expect_outside_mask(int(_FLAG.root | _FLAG.leaf), expected, f"{expected:#x}, root and leaf aside")
    written = None if shape.is_noheader else NOT_ZERO if source.ephemerals is None else equals(xid)
    return rules(
        DIFFERS,
        (
            NODE.hdr.type_and_flags,
            only_bits(0xFFFF | int(_STORED.physical | _STORED.ephemeral | _STORED.encrypted)),
            "flags that a node cannot have",
        ),
        (NODE.hdr.xid, written, "not of the transaction that wrote it"),
        (NODE.flags, flags, "not the flags of its tree"),
        (NODE.table_space.ofs_data, ZERO, "the table of contents follows the head"),
    )


def make_info_rules(batch: ReadNodes) -> Rules:
    """Return the rules of the root's description of its tree (btree_info_t, apfsck); sequential insertion is a hint."""
    if batch.tree.source.tree not in TREES:
        return ()
    flags, (len_key, len_val), _ = TREES[batch.tree.source.tree]
    flags |= _SEALED if batch.tree.shape.is_hashed else 0
    hint = int(_TREE.sequential_insert)
    return rules(
        DIFFERS,
        (
            INFO.fixed.flags,
            _expect_outside_mask(hint, flags, f"{flags:#x}, and the hint {hint:#x}"),
            "not the flags of such a tree",
        ),
        (INFO.fixed.len_key, equals(len_key), "keys of such a tree have another size"),
        (INFO.fixed.len_val, equals(len_val), "values of such a tree have another size"),
    )


def make_longest_rules(batch: ReadNodes, longest: tuple[int, int]) -> Rules:
    """Return the rules of the root's description of all records, once they are read (btree_info_t)."""
    if batch.tree.source.tree not in TREES:
        return ()
    _, sizes, lengths = TREES[batch.tree.source.tree]

    def expect_length(fixed: int, read: int) -> Want:
        if fixed:
            # A tree that never had a record stores 0.
            return equals(fixed) if read or sizes[0] else one_of(0, fixed)
        # Longer records may have been deleted, but none can be longer than a node.
        return Want(lambda found: (found >= read) & (found < batch.size_bytes), f"{read} to {batch.size_bytes}")

    key, val = (expect_length(*each) for each in zip(lengths, longest, strict=True))
    return rules(
        "count-differs",
        (INFO.longest_key, key, "not the length of the longest key"),
        (INFO.longest_val, val, "not the length of the longest value"),
    )


class TreeNodes:
    """Checks the nodes of one tree, batch by batch."""

    def __init__(self, subject: Subject) -> None:
        """Begin a tree."""
        self.subject = subject
        self.root: ReadNodes | None = None
        self.longest = (0, 0)
        self.xids = np.empty(0, np.uint64)

    def add(self, batch: ReadNodes) -> None:
        """Check the nodes of a batch."""
        rows = np.flatnonzero(batch.check.is_sound)
        starts = rows * batch.size_bytes
        at = lambda row, plus: batch.at(int(rows[row]), int(starts[row]) + plus, log=self.subject.log)  # noqa: E731
        check_fields(NODE, batch.buffer, starts, make_node_rules(batch, self.subject.container.xid), at)
        if self.root is None:
            # The next batch may reuse the buffer of this one.
            self.root = batch
            _check_root(self.subject, batch, make_info_rules(batch))
        if len(batch.slots):
            values = int(batch.slots.val_len.max()) if not batch.level else 0
            key, val = self.longest
            self.longest = (max(key, int(batch.slots.key_len.max())), max(val, values))
        if len(rows):
            _check_room(self.subject, batch)
        self._check_age(batch)

    def _check_age(self, batch: ReadNodes) -> None:
        """Check that no physical node is younger than its parent: a change moves a node and so changes its parents."""
        xids, parent = batch.head["hdr.xid"], batch.places.parent
        if batch.tree.source.view is None and parent[0] >= 0:
            limit = self.xids[parent]
            wrong = batch.check.is_sound & (xids > limit)
            message = "hdr.xid: younger than the node that leads to it"
            _report(self.subject, batch, wrong, NODE.hdr.xid.offset, message, limit, xids)
        self.xids = np.append(self.xids, xids)

    def close(self) -> None:
        """Check the root's description of all records."""
        if self.root is not None:
            _check_root(self.subject, self.root, make_longest_rules(self.root, self.longest))


def _check_root(subject: Subject, batch: ReadNodes, declared: Rules) -> None:
    start = batch.size_bytes - INFO.width
    at = lambda _, plus: batch.at(0, start + plus, log=subject.log)  # noqa: E731
    check_fields(INFO, batch.buffer, np.array([start], np.int64), declared, at)


_HEAD: Final = (
    *(NODE.table_space.ofs_data, NODE.table_space.len_data, NODE.free_space.ofs_data, NODE.free_space.len_data),
    *(NODE.key_free_list.ofs_data, NODE.key_free_list.len_data),
    *(NODE.val_free_list.ofs_data, NODE.val_free_list.len_data),
)


def _check_room(subject: Subject, batch: ReadNodes) -> None:
    """Check that the free space is between keys and values, and that the free lists match the bytes free in both."""
    size = batch.size_bytes
    starts = np.arange(len(batch.places), dtype=np.int64) * size
    found = decode_columns(NODE, batch.buffer, starts, _HEAD)
    head = {name: values.astype(np.int64) for name, values in found.items()}
    keys = starts + NODE.width + head["table_space.ofs_data"] + head["table_space.len_data"]
    gap = keys + head["free_space.ofs_data"]
    values, end = gap + head["free_space.len_data"], starts + size - np.where(batch.head["is_root"], INFO.width, 0)
    slots = batch.slots
    # A ghost has no value and so no position.
    has_value = slots.val_len > 0
    # Name of each area, where it starts and ends, and where its records are; positions in the buffer.
    areas = (
        ("key", keys, gap, slots.key_start, slots.key_len.astype(np.int64)),
        ("val", values, end, np.where(has_value, slots.val_start, end[slots.node]), slots.val_len.astype(np.int64)),
    )
    sound = batch.check.is_sound.copy()
    message = "the free space is not between keys and values"
    wrong = sound & ((values > end) | (gap > end))
    outside = np.zeros(len(slots), bool)
    for _, first, stop, start, length in areas:
        outside |= (start < first[slots.node]) | (start + length > stop[slots.node])
    wrong[slots.node[outside]] = True
    _report(subject, batch, wrong & sound, NODE.free_space.ofs_data.offset, message)
    sound &= ~wrong
    for area in areas:
        _check_area(subject, batch, head, sound, *area)


def _report(
    subject: Subject,
    batch: ReadNodes,
    wrong: Mask,
    plus: int,
    message: str,
    expected: NDArray[Any] | None = None,
    found: NDArray[Any] | None = None,
) -> None:
    def at(node: int) -> FindingLog:
        return batch.at(node, node * batch.size_bytes + plus, log=subject.log)

    subject.log.cases(wrong, DIFFERS, message, at, expected=expected, found=found, most=MAX_CASES)


def _check_area(
    subject: Subject,
    batch: ReadNodes,
    head: dict[str, I64],  # fields of the nodes' heads
    sound: Mask,
    name: str,
    # first, stop: of the area in each node; start, length: of each record
    first: I64,
    stop: I64,
    start: I64,
    length: I64,
) -> None:
    """Compare the free bytes of an area with its free list, and check that no byte is in use twice."""
    slots, field = batch.slots, getattr(NODE, f"{name}_free_list")
    used = np.bincount(slots.node, length, len(sound)).astype(np.int64)
    # The sum counts gaps that are too small for an entry of the list too.
    free, counted = stop - first - used, head[field.len_data]
    message = f"{field.len_data}: not the bytes that its records leave free"
    _report(subject, batch, sound & (free != counted), field.len_data.offset, message, free, counted)
    # Keys are counted upwards from the start of their area, values downwards from the end of theirs.
    origin, step = (first, 1) if name == "key" else (stop, -1)
    position = lambda nodes, offset: origin[nodes] + step * offset  # noqa: E731
    lists = np.flatnonzero(sound), head[field.ofs_data][sound]
    owner, piece, room, torn = _walk_free_lists(batch, *lists, first, stop, position)
    message = f"{field.ofs_data}: the list of free bytes leaves its area or does not end"
    broken = np.zeros(len(sound), bool)
    broken[torn] = True
    _report(subject, batch, broken, field.ofs_data.offset, message)
    # Sorted by position, no record or free piece begins before its predecessor ends.
    node = np.concatenate([slots.node, owner])
    start = np.concatenate([start, piece])
    stop = start + np.concatenate([length, room])
    order = np.argsort(start, kind="stable")
    node, start, stop = node[order], start[order], stop[order]
    twice = np.flatnonzero((start[1:] < stop[:-1]) & (node[1:] == node[:-1]) & (stop[1:] > start[1:])) + 1
    for row in twice[sound[node[twice]]][:MAX_CASES].tolist():
        log = batch.at(int(node[row]), int(start[row]), log=subject.log)
        log.add(DIFFERS, "warning", f"bytes of its {name} area are in use twice")


def _walk_free_lists(
    batch: ReadNodes,
    nodes: I64,
    offset: I64,  # where the list of each node begins
    # first, stop: of the area in each node of the batch
    first: I64,
    stop: I64,
    position: Callable[[I64, I64], I64],  # place in the buffer of an offset in nodes
) -> list[I64]:
    """Walk the free lists of many nodes at once, one step per round.

    Returns the node, start and length of each piece, and the nodes whose list is broken.
    """
    found: list[tuple[I64, ...]] = []
    broken: list[I64] = []
    # Each piece begins with the place of the next one and its own length, so that it has at least four bytes.
    for _ in range(batch.size_bytes // PIECE.width):
        going = offset != _END
        nodes, offset = nodes[going], offset[going]
        if not len(nodes):
            break
        at = position(nodes, offset)
        inside = (at >= first[nodes]) & (at + PIECE.width <= stop[nodes])
        broken.append(nodes[~inside])
        nodes, at = nodes[inside], at[inside]
        pieces = decode_columns(PIECE, batch.buffer, at, (PIECE.ofs_data, PIECE.len_data))
        length = pieces["len_data"].astype(np.int64)
        fits = (length >= PIECE.width) & (at + length <= stop[nodes])
        broken.append(nodes[~fits])
        nodes, offset = nodes[fits], pieces["ofs_data"].astype(np.int64)[fits]
        found.append((nodes, at[fits], length[fits]))
    broken.append(nodes[offset != _END] if len(offset) == len(nodes) else nodes)
    pieces_of = [np.concatenate([np.empty(0, np.int64), *(step[part] for step in found)]) for part in range(3)]
    return [*pieces_of, np.concatenate(broken)]


SUPERBLOCK, VOLUME = records.NX_SUPERBLOCK, records.APFS_SUPERBLOCK
MAP_HEAD, MAPPING = records.CHECKPOINT_MAP_HEAD, records.CHECKPOINT_MAPPING
KEY, VALUE = records.OMAP_KEY, records.OMAP_VAL
OID_BYTES: Final = records.OBJ_PHYS.xid.offset - records.OBJ_PHYS.oid.offset
MAPPING_FIELDS: Final = (MAPPING.type, MAPPING.subtype, MAPPING.len_object, MAPPING.oid, MAPPING.paddr)
ENTRY_FIELDS: Final = (VALUE.paddr, VALUE.len_object, VALUE.is_deleted, VALUE.is_encrypted, VALUE.is_noheader)


def check_roots(subject: Subject, parts: VolumeParts) -> None:
    """Check that each tree of a volume can be reached from the superblock, and each node from its parent."""
    # Reading a tree reports each damaged node, so without a finding no node is missing.
    for source, log in list_volume_roots(subject, parts) if parts.log.findings or parts.view != "live" else ():
        losses, has_root = find_losses(source)
        if not has_root:
            message = f"leads to no root of the {source.tree} tree"
            log.add("tree-unreadable", "error", message, found=f"object {source.root_oid}")
        tell_losses(losses, source, parts.fs.records if source.tree == "fs" else None, subject.log)


def check_container_trees(subject: Subject) -> None:
    """Check that every node of the container's own trees can be reached from its parent."""
    for source in list_container_sources(subject):
        report_losses(source, None, subject.log)


def check_lost_volumes(subject: Subject) -> None:
    """Check that every volume that the container names has a superblock and an object map."""
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
            message = f"the volume in slot {slot} cannot be opened: {error.reason}"
            log.add("volume-unreadable", "error", message)


def check_checkpoints(subject: Subject) -> None:
    """Check that each checkpoint not older than the one in use has its objects at the addresses in its maps."""
    container = subject.container
    for paddr, superblock in checkpoints.superblocks(subject.silent_store, container.area):
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
    head, size = MAP_HEAD.width, MAPPING.width
    # The descriptor area is a ring: what begins near its end goes on at its start.
    for row in ((superblock.xp_desc_index + np.arange(min(superblock.num_desc_used, ring))) % max(ring, 1)).tolist():
        if area.kind[row] != kind:
            continue
        block = area.blocks[row]
        count = decode_column(MAP_HEAD, block, np.zeros(1, np.int64), MAP_HEAD.num_mappings)[0]
        if count > (blocks.block_size - head) // size:
            plus = MAP_HEAD.num_mappings.offset
            log = subject.log.at(f"checkpoint map of xid {superblock.hdr.xid}", int(area.paddr[row]), plus=plus)
            log.add("checkpoint-invalid", "warning", "it counts more mappings than fit", found=count)
            continue
        starts = head + np.arange(int(count), dtype=np.int64) * size
        found = decode_columns(MAPPING, block, starts, MAPPING_FIELDS)
        for number, start in enumerate(starts.tolist()):
            mapping = {name: int(values[number]) for name, values in found.items()}
            problem = _find_mapping_problem(subject, mapping)
            if problem:
                field, message = problem
                name = f"checkpoint map of xid {superblock.hdr.xid}, object {mapping['oid']}"
                log = subject.log.at(name, int(area.paddr[row]), plus=start + MAPPING.offset_of(field))
                log.add("checkpoint-invalid", "warning", message, found=mapping.get(field, ""))


def _find_mapping_problem(subject: Subject, mapping: dict[str, int]) -> tuple[str, str] | None:
    """Return the wrong field of a mapping, and the reason; None if the object is at its address."""
    blocks = subject.container.blocks
    size = mapping["len_object"]
    if not 0 < size <= checkpoints.MAX_OBJECT_BYTES or size % blocks.block_size:
        return "len_object", "its size is not a whole number of blocks, or impossibly large"
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
        _check_map(
            subject, TreeSource(subject.silent_store, "container-omap", root, container.xid), container.omap, mapped
        )


def check_object_map(subject: Subject, parts: VolumeParts) -> None:
    """Compare every entry of a volume's object map with its object."""
    state = parts.state
    known = [parts.fs.nodes] if parts.view == "live" and not parts.log.findings else list(parts.views.values())
    mapped = read_mapped(state.omap, state.store, known, parts.cipher)
    source = TreeSource(subject.silent_store, "omap", state.omap_header.tree_oid, subject.container.xid)
    _check_map(subject, source, state.omap, mapped, may_encrypt=not state.superblock.is_unencrypted)


_STRUCTURE_NAMES: Final = {"omap": "fs tree, node", "container-omap": "volume"}
"""Structure names of the objects in each map, as in findings of readers."""


def _check_map(
    subject: Subject, source: TreeSource, omap: ObjectMap, mapped: Mapped, *, may_encrypt: bool = False
) -> None:
    """Compare the entries of an object map with their objects, and report damaged objects."""
    misled = are_misled(omap, mapped)
    report_damaged_objects(omap, mapped, misled, _STRUCTURE_NAMES[source.tree], subject.log)
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

    def report(
        wrong: Mask,
        field: str,
        message: str,
        expected: NDArray[Any] | None = None,
        found: NDArray[Any] | None = None,
        level: Level = "warning",
    ) -> None:
        part, _, path = field.partition(".")
        starts, plus = getattr(batch.slots, f"{part}_start"), (KEY if part == "key" else VALUE).offset_of(path)

        def at(row: int) -> FindingLog:
            name, start = f"entry of object {entry['oid'][row]}", int(starts[row]) + plus
            return batch.at(int(batch.slots.node[row]), start, name=name, log=subject.log)

        most = MAX_CASES
        subject.log.cases(
            wrong, "object-map-differs", message, at, level=level, expected=expected, found=found, most=most
        )

    # An error loses the object that the entry names; what a warning is about was read all the same.
    report(future, "key.xid", "its transaction is younger than the container", found=entry["xid"], level="error")
    message = "its size is not a whole number of blocks"
    report(odd, "val.len_object", message, found=entry["len_object"], level="error")
    row, is_sound = mapped.of(entry["paddr"])
    is_sound &= ~(deleted | outside)
    stored = size.copy()
    stored[is_sound] = mapped.size_bytes[row[is_sound]]
    report(~odd & (stored != size), "val.len_object", "the node there has another size", stored, size)
    report(outside, "val.paddr", "it leads out of the image", found=entry["paddr"], level="error")
    message = "it says deleted, but no older entry is there to delete"
    report(alone, "val.flags", message, level="error")
    report(strange, "val.flags", "it says encrypted on a volume that is not")
    # Contents of a block with a wrong checksum do not count as contradictions.
    found = {name: entry[name].copy() for name in ("oid", "xid")}
    plain = np.flatnonzero(is_sound & ~(future | odd))
    found["oid"][plain], found["xid"][plain] = mapped.oid[row[plain]], mapped.xid[row[plain]]
    other = found["oid"] != entry["oid"]
    message = "the object there has another number"
    is_misled = other & np.isin(entry["paddr"], wrong)
    report(is_misled, "key.oid", message, entry["oid"], found["oid"], level="error")
    report(other & ~is_misled, "key.oid", message, entry["oid"], found["oid"])
    later = (found["xid"] != entry["xid"]) & ~other
    report(later, "key.xid", "the object there is of another transaction", entry["xid"], found["xid"])


def _has_older(oid: NDArray[np.uint64]) -> NDArray[np.bool_]:
    # Keys are object and transaction: versions of one object are adjacent, the oldest first.
    result = np.ones(len(oid), bool)
    result[1:] = oid[1:] == oid[:-1]
    return result
