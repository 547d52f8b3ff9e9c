"""Check of every tree's nodes and keys: header, free lists, free space, order, and the references to each node.

Apple File System Reference, B-Trees. A reader needs few of these fields, but a driver that changes a node takes its
free space from the header, and overwrites records if the header is wrong.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.checks.apfs.records import check_records
from layoutscope.checks.apfs.snapshots import open_snapshots
from layoutscope.checks.apfs.subject import list_container_sources, list_volume_roots, locate_byte
from layoutscope.checks.engine import Table
from layoutscope.checks.fieldrules import NOT_ZERO, ZERO, Want, check_fields, equals, one_of, only_bits, rules
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.btree import decode_children, level_of_disorder, read_levels
from layoutscope.filesystems.apfs.fsrecords import find_losses, find_tail, records_plan, report_losses
from layoutscope.filesystems.apfs.omap import are_misled, read_mapped, report_damaged_objects
from layoutscope.filesystems.apfs.source import TreeSource, low_keys
from layoutscope.filesystems.apfs.verify import read_object, read_virtual
from layoutscope.filesystems.apfs.volume import fs_source, list_volumes
from layoutscope.findings import MAX_CASES
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import Index, Rows, index_of, is_head
from layoutscope.structs.bulk import decode_column, decode_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Notes, Subject
    from layoutscope.checks.fieldrules import FieldRule
    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.omap import Mapped, ObjectMap
    from layoutscope.filesystems.apfs.volume import Volume
    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.recordtypes import Field

    Rules = tuple[FieldRule, ...]


DIFFERS: Final = "node-header-differs"
NODE, INFO, PIECE = records.BTREE_NODE, records.BTREE_INFO, records.NLOC
_FLAG, _TREE = grammar.ApfsBtree.BtreeNodeFlag, grammar.ApfsBtree.BtreeFlag
_STORED = grammar.ApfsObject.ObjectFlag
_PHYSICAL, _VARYING = int(_TREE.physical), int(_TREE.kv_nonaligned)
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
"""Flags and lengths of keys and values by kind of tree, as in every container that macOS or Linux made.

The first pair of lengths is in the root, 0 where records vary; the second pair is that of the records themselves.
"""


def _expect_outside_mask(mask: int, expected: int, words: str) -> Want:
    """Require a value for the bits outside of a mask."""
    return Want(lambda found: found & ~np.array(mask, found.dtype) == expected, words)


def make_node_rules(batch: ReadNodes, xid: int) -> Rules:
    """Return the rules of node headers (btree_node_phys_t)."""
    tree, source = batch.tree, batch.tree.source
    flags = None
    if source.tree in TREES:
        expected = int(_FLAG.fixed_kv_size) if TREES[source.tree][1][0] else 0
        expected |= (int(_FLAG.hashed) if tree.is_hashed else 0) | (int(_FLAG.noheader) if tree.is_noheader else 0)
        # Root and leaf are compared while the tree is read.
        flags = _expect_outside_mask(int(_FLAG.root | _FLAG.leaf), expected, f"{expected:#x}, root and leaf aside")
    written = None if tree.is_noheader else NOT_ZERO if source.ephemerals is None else equals(xid)
    stored = only_bits(0xFFFF | int(_STORED.physical | _STORED.ephemeral | _STORED.encrypted))
    return rules(
        DIFFERS,
        (NODE.hdr.type_and_flags, stored, "flags that a node cannot have"),
        (NODE.hdr.xid, written, "not of the transaction that wrote it"),
        (NODE.flags, flags, "not the flags of its tree"),
        (NODE.table_space.ofs_data, ZERO, "the table of contents follows the head"),
    )


def make_info_rules(batch: ReadNodes) -> Rules:
    """Return the rules of a root's tree information (btree_info_t, apfsck); sequential insertion is only a hint."""
    if batch.tree.source.tree not in TREES:
        return ()
    flags, (len_key, len_val), _ = TREES[batch.tree.source.tree]
    flags |= int(_TREE.hashed | _TREE.noheader) if batch.tree.is_hashed else 0
    hint = int(_TREE.sequential_insert)
    of_tree = _expect_outside_mask(hint, flags, f"{flags:#x}, and the hint {hint:#x}")
    return rules(
        DIFFERS,
        (INFO.fixed.flags, of_tree, "not the flags of such a tree"),
        (INFO.fixed.len_key, equals(len_key), "keys of such a tree have another size"),
        (INFO.fixed.len_val, equals(len_val), "values of such a tree have another size"),
    )


def make_longest_rules(batch: ReadNodes, longest: tuple[int, int]) -> Rules:
    """Return the rules of a root's information about all records, once these are read (btree_info_t)."""
    if batch.tree.source.tree not in TREES:
        return ()
    _, sizes, lengths = TREES[batch.tree.source.tree]

    def expect_length(fixed: int, read: int) -> Want:
        if fixed:
            # A tree that never had a record stores 0.
            return equals(fixed) if read or sizes[0] else one_of(0, fixed)
        # Longer records may have been deleted, but no record can be longer than a node.
        return Want(lambda found: (found >= read) & (found < batch.size_bytes), f"{read} to {batch.size_bytes}")

    key, val = (expect_length(*each) for each in zip(lengths, longest, strict=True))
    return rules(
        "count-differs",
        (INFO.longest_key, key, "not the length of the longest key"),
        (INFO.longest_val, val, "not the length of the longest value"),
    )


def _check_nodes(subject: Subject, batch: ReadNodes, before: NDArray[np.uint64]) -> None:
    """Check the nodes of a batch; `before` has the transactions of all nodes of the tree before them."""
    # Drivers free empty nodes; only a root may be empty.
    is_empty = batch.is_sound & (batch.head["num_keys"] == 0) & (batch.rows.parent >= 0)
    _table_of_nodes(subject, batch, NODE.num_keys, "error").report(is_empty, "a node that is not a root is empty")
    starts = np.flatnonzero(batch.is_sound) * batch.size_bytes
    at = lambda _, byte: locate_byte(subject, batch, byte)  # noqa: E731
    check_fields(NODE, batch.buffer, starts, make_node_rules(batch, subject.container.xid), at)
    if not len(before):
        _check_root(subject, batch, make_info_rules(batch))
    if len(starts):
        _check_room(subject, batch)
    # A change moves a physical node and so changes its parents: none of them is older.
    xids, parent = batch.head["hdr.xid"], batch.rows.parent
    if batch.tree.source.view is None and parent[0] >= 0:
        limit, table = before[parent], _table_of_nodes(subject, batch, NODE.hdr.xid)
        wrong, message = batch.is_sound & (xids > limit), f"{NODE.hdr.xid}: younger than the node that leads to it"
        table.report(wrong, message, expected=limit, found=xids)


def _check_root(subject: Subject, batch: ReadNodes, declared: Rules) -> None:
    at = lambda _, byte: locate_byte(subject, batch, byte)  # noqa: E731
    check_fields(INFO, batch.buffer, np.array([batch.size_bytes - INFO.width]), declared, at)


def _check_room(subject: Subject, batch: ReadNodes) -> None:
    """Check that the free space is between keys and values, and that the free lists match the free bytes of both."""
    size = batch.size_bytes
    starts = np.arange(len(batch.rows), dtype=np.int64) * size
    spans = NODE.table_space, NODE.free_space, NODE.key_free_list, NODE.val_free_list
    found = decode_columns(NODE, batch.buffer, starts, [field for span in spans for field in span.fields()])
    head = {name: values.astype(np.int64) for name, values in found.items()}
    keys = starts + NODE.width + head["table_space.ofs_data"] + head["table_space.len_data"]
    gap = keys + head["free_space.ofs_data"]
    values, end = gap + head["free_space.len_data"], starts + size - np.where(batch.head["is_root"], INFO.width, 0)
    slots = batch.slots
    # A ghost has no value, and therefore no position.
    has_value = slots.val_len > 0
    # For each area: its name, its start and end, and the positions of its records in the buffer.
    areas = (
        ("key", keys, gap, slots.key_start, slots.key_len.astype(np.int64)),
        ("val", values, end, np.where(has_value, slots.val_start, end[slots.node]), slots.val_len.astype(np.int64)),
    )
    sound = batch.is_sound.copy()
    message = "the free space is not between keys and values"
    wrong = sound & ((values > end) | (gap > end))
    outside = np.zeros(len(slots), bool)
    for _, first, stop, start, length in areas:
        outside |= (start < first[slots.node]) | (start + length > stop[slots.node])
    wrong[slots.node[outside]] = True
    _table_of_nodes(subject, batch, NODE.free_space.ofs_data).report(wrong & sound, message)
    sound &= ~wrong
    for area in areas:
        _check_area(subject, batch, head, sound, *area)


def _table_of_nodes(subject: Subject, batch: ReadNodes, field: Field, level: Level = "warning") -> Table:
    """Make a table of the nodes of a batch, each reported at a field of its header."""
    at = lambda node, _: locate_byte(subject, batch, node * batch.size_bytes + field.offset)  # noqa: E731
    return Table(at, DIFFERS, level)


def _check_area(
    subject: Subject,
    batch: ReadNodes,
    head: dict[str, I64],  # fields of the nodes' headers
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
    # The counter includes gaps that are too small for an entry of the list.
    free, counted = stop - first - used, head[field.len_data]
    message = f"{field.len_data}: not the bytes that its records leave free"
    table = _table_of_nodes(subject, batch, field.len_data)
    table.report(sound & (free != counted), message, expected=free, found=counted)
    # Keys are counted upwards from the start of their area, values downwards from the end of theirs.
    origin, step = (first, 1) if name == "key" else (stop, -1)
    position = lambda nodes, offset: origin[nodes] + step * offset  # noqa: E731
    lists = np.flatnonzero(sound), head[field.ofs_data][sound]
    owner, piece, room, torn = _walk_free_lists(batch, *lists, first, stop, position)
    message = f"{field.ofs_data}: the list of free bytes leaves its area or does not end"
    broken = np.zeros(len(sound), bool)
    broken[torn] = True
    _table_of_nodes(subject, batch, field.ofs_data).report(broken, message)
    # Sorted by position, no record or free piece begins before its predecessor ends.
    node = np.concatenate([slots.node, owner])
    start = np.concatenate([start, piece])
    stop = start + np.concatenate([length, room])
    order = np.argsort(start, kind="stable")
    node, start, stop = node[order], start[order], stop[order]
    twice = np.flatnonzero((start[1:] < stop[:-1]) & (node[1:] == node[:-1]) & (stop[1:] > start[1:])) + 1
    for row in twice[sound[node[twice]]][:MAX_CASES].tolist():
        log = locate_byte(subject, batch, int(start[row]))
        log.add(DIFFERS, "warning", f"bytes of its {name} area are in use twice")


def _walk_free_lists(
    batch: ReadNodes,
    nodes: I64,
    offset: I64,  # start of each node's list
    # first, stop: of the area in each node of the batch
    first: I64,
    stop: I64,
    position: Callable[[I64, I64], I64],  # converts an offset in nodes to a position in the buffer
) -> list[I64]:
    """Traverse the free lists of many nodes at once, one step per round.

    Return the node, start and length of each piece, and the nodes with a broken list.
    """
    found: list[tuple[I64, ...]] = []
    broken: list[I64] = []
    # Each piece begins with the offset of the next one and its own length, so it has at least four bytes.
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
KEY, VALUE = records.OMAP_KEY, records.OMAP_VAL


def check_roots(subject: Subject, parts: VolumeParts) -> None:
    """Check that each tree of a volume can be reached from the superblock, and each node from its parent."""
    # Reading a tree reports each damaged node, so without a finding no node is missing.
    for source, log in list_volume_roots(subject, parts) if parts.log.findings or parts.view != "live" else ():
        losses, has_root = find_losses(read_levels(source))
        if not has_root:
            message = f"leads to no root of the {source.tree} tree"
            log.add("tree-unreadable", "error", message, found=f"object {source.root_oid}")
        report_losses(losses, source, parts.fs if source.tree == "fs" else None, subject.log)


def check_container_trees(subject: Subject) -> None:
    """Check the nodes, the object map and the keys of the container's own trees."""
    container, sources = subject.container, list(list_container_sources(subject))
    for source in sources:
        report_losses(find_losses(read_levels(source))[0], source, None, subject.log)
    for source in sources:
        if source.tree == "container-omap":
            _check_map(subject, source, container.omap, read_mapped(container.omap, container.blocks))
    for source in sources:
        check_tree(subject, source)


def check_lost_volumes(subject: Subject) -> None:
    """Check that every volume that the container names has a superblock and an object map."""
    container = subject.container
    for slot, oid in list_volumes(container):
        plus = SUPERBLOCK.fs_oid.offset + slot * SUPERBLOCK.fs_oid.strides[0]
        log = subject.log.at(f"volume {oid}", container.checkpoint.paddr, plus=plus)
        cls = grammar.ApfsVolume.ApfsSuperblock
        try:
            superblock, paddr = read_virtual(container.blocks, cls, container.view, oid, "volume superblock")
            log = subject.log.at(f"volume {oid}", paddr, plus=VOLUME.omap_oid.offset)
            _ = read_object(container.blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "object map")
        except FormatError as error:
            message = f"the volume in slot {slot} cannot be opened: {error.reason}"
            log.add("volume-unreadable", "error", message)


def check_object_map(subject: Subject, parts: VolumeParts) -> None:
    """Compare every entry of a volume's object map with its object."""
    state = parts.state
    known = [parts.fs.nodes] if parts.view == "live" and not parts.log.findings else list(parts.views.values())
    mapped = read_mapped(state.omap, state.store.blocks, known, parts.key)
    source = TreeSource(subject.silent_store, "omap", state.omap_header.tree_oid, subject.container.xid)
    _check_map(subject, source, state.omap, mapped, may_encrypt=not state.superblock.is_unencrypted)


def _check_map(
    subject: Subject, source: TreeSource, omap: ObjectMap, mapped: Mapped, *, may_encrypt: bool = False
) -> None:
    """Compare the entries of an object map with their objects, and report damaged objects."""
    misled = are_misled(omap, mapped)
    # The objects have the same structure names in the findings of readers.
    report_damaged_objects(omap, mapped, misled, "fs tree, node" if source.tree == "omap" else "volume", subject.log)
    wrong = np.unique(omap.paddr[misled])
    for batch in read_levels(source):
        if not batch.level and len(batch.slots):
            _check_entries(subject, batch, mapped, wrong, may_encrypt=may_encrypt)


def _check_entries(
    subject: Subject, batch: ReadNodes, mapped: Mapped, wrong: NDArray[np.uint64], *, may_encrypt: bool
) -> None:
    source = batch.tree.source
    blocks = source.blocks
    fields = VALUE.paddr, VALUE.len_object, VALUE.is_deleted, VALUE.is_encrypted
    entry = batch.columns("key", KEY, (KEY.oid, KEY.xid)) | batch.columns("val", VALUE, fields)
    deleted, size = entry["is_deleted"], entry["len_object"].astype(np.int64)
    future = entry["xid"] > np.uint64(source.max_xid)
    odd = ~deleted & ((size == 0) | (size % blocks.block_size != 0))
    outside = ~deleted & ~blocks.present(entry["paddr"], blocks.block_size)
    # Keys are object and transaction: versions of one object are adjacent, oldest first.
    alone = deleted & is_head(entry["oid"])
    alone[:1] = False
    strange = ~deleted & entry["is_encrypted"] & (not may_encrypt)

    def at(row: int, field: str) -> FindingLog:
        part, _, path = field.partition(".")
        plus = (KEY if part == "key" else VALUE).offset_of(path)
        start = int(getattr(batch.slots, f"{part}_start")[row]) + plus
        return locate_byte(subject, batch, start, f"entry of object {entry['oid'][row]}")

    report = Table(at, "object-map-differs", "warning").report
    # An error means that the object of the entry is lost; an object with a warning was read nevertheless.
    report(future, "its transaction is younger than the container", "key.xid", found=entry["xid"], level="error")
    message = "its size is not a whole number of blocks"
    report(odd, message, "val.len_object", found=entry["len_object"], level="error")
    row, is_sound = mapped.of(entry["paddr"])
    is_sound &= ~(deleted | outside)
    stored = size.copy()
    stored[is_sound] = mapped.size_bytes[row[is_sound]]
    message = "the node there has another size"
    report(~odd & (stored != size), message, "val.len_object", expected=stored, found=size)
    report(outside, "it leads out of the image", "val.paddr", found=entry["paddr"], level="error")
    message = "it says deleted, but no older entry is there to delete"
    report(alone, message, "val.flags", level="error")
    report(strange, "it says encrypted on a volume that is not", "val.flags")
    # Contents of a block with a wrong checksum do not count as contradictions.
    found = {name: entry[name].copy() for name in ("oid", "xid")}
    plain = np.flatnonzero(is_sound & ~(future | odd))
    found["oid"][plain], found["xid"][plain] = mapped.oid[row[plain]], mapped.xid[row[plain]]
    other = found["oid"] != entry["oid"]
    message = "the object there has another number"
    is_misled = other & np.isin(entry["paddr"], wrong)
    report(is_misled, message, "key.oid", expected=entry["oid"], found=found["oid"], level="error")
    report(other & ~is_misled, message, "key.oid", expected=entry["oid"], found=found["oid"])
    later, message = (found["xid"] != entry["xid"]) & ~other, "the object there is of another transaction"
    report(later, message, "key.xid", expected=entry["xid"], found=found["xid"])


UNORDERED: Final = "keys-unordered"
SECOND: Final = {
    "omap": records.OMAP_KEY.xid,
    "container-omap": records.OMAP_KEY.xid,
    "spaceman": records.FREE_QUEUE_KEY.paddr,
    "fext": records.FEXT_KEY.logical_addr,
}
"""The second sort field of keys, in trees with one kind of record."""


class DecodedKeys(Rows, frozen=True):
    """Keys of consecutive records, and where they are."""

    # lead, second: two numbers that sort like the tree
    lead: NDArray[np.uint64]
    second: NDArray[np.uint64]
    # name, stop: start of the name in the buffer, and the end of the key; equal in a key without a name
    name: I64
    stop: I64
    image_offset: I64
    child: NDArray[np.uint64]  # node that an index record leads to


def check_keys(subject: Subject, parts: VolumeParts) -> None:
    """Compare all keys of a volume's trees."""

    def notes(view: str) -> Notes:
        return subject.inodes.setdefault((parts.state.number, view), {})

    for source, _ in list_volume_roots(subject, parts):
        check_tree(subject, source, parts.state, notes=notes(parts.view) if source.tree == "fs" else None)
    # States of a volume share most of their leaves; these are checked once.
    known = parts.fs.nodes.paddr
    for view, state in open_snapshots(subject, parts):
        source = fs_source(state.store, state, parts.key)
        check_tree(subject, source, state, known=known, notes=notes(view))
        known = np.union1d(known, parts.views[view].paddr)


def check_tree(
    subject: Subject,
    source: TreeSource,
    state: Volume | None = None,
    known: NDArray[np.uint64] | None = None,
    notes: Notes | None = None,
) -> None:
    """Check the nodes, keys and records of one tree, level by level."""
    volume = None if state is None else state.superblock
    root: ReadNodes | None = None
    longest, xids = np.zeros(2, np.int64), np.empty(0, np.uint64)
    above: tuple[DecodedKeys, Index] | None = None
    for level, batches in groupby(read_levels(source, known=known), key=lambda batch: batch.level):
        own: list[DecodedKeys] = []
        last: tuple[int, int, bytes] | None = None
        for batch in batches:
            keys = decode_keys(batch, hashed_names=volume is not None and bool(volume.has_hashed_names))
            _check_order(subject, batch, keys, last)
            if above is not None:
                _check_bounds(subject, batch, keys, *above)
            _check_nodes(subject, batch, xids)
            check_records(subject, batch, volume, notes)
            root, xids = root or batch, np.append(xids, batch.head["hdr.xid"])
            if len(keys):
                lengths = batch.slots.key_len.max(), 0 if level else batch.slots.val_len.max()
                longest = np.maximum(longest, lengths)
                last = _get_key(batch.buffer, keys, -1)
            own += [keys] if level else []
        if own:
            whole = DecodedKeys.join(own)
            above = whole, index_of(whole.child)
    if root is not None:
        _check_root(subject, root, make_longest_rules(root, (int(longest[0]), int(longest[1]))))


def decode_keys(batch: ReadNodes, *, hashed_names: bool) -> DecodedKeys:
    """Decode the keys of a batch of nodes."""
    source, slots = batch.tree.source, batch.slots
    # Keys do not sort by their bytes: numbers are little-endian, and the record type is in the high bits of the object
    # number, but sorts after it (reference, j_key_t).
    lead = low_keys(source, batch.buffer, slots.key_start)
    second, name = np.zeros(len(slots), np.uint64), slots.key_start + slots.key_len
    if source.key_type is records.J_KEY:
        kinds = batch.column("key", records.J_KEY, records.J_KEY.record_type)
        # Neither linux-apfs-rw nor apfsck compares the length in the lower bits of a hash.
        for shape in records_plan(hashed_names=hashed_names).leaves:
            rows = np.flatnonzero((kinds == shape.kind) & (slots.key_len >= shape.key_type.width))
            # The first column of a key is the object, which `lead` contains.
            _, *columns = shape.key_columns.values()
            for column in columns:
                second[rows] = decode_column(shape.key_type, batch.buffer, slots.key_start[rows], column)
            if find_tail(shape, "key") is not None:
                name[rows] = slots.key_start[rows] + shape.key_type.width
    elif source.tree in SECOND:
        second = batch.column("key", source.key_type, SECOND[source.tree])
    within = slots.key_start - slots.node * batch.size_bytes
    where = source.blocks.image_offset(batch.rows.paddr[slots.node]) + within
    child = np.zeros(len(slots), np.uint64)
    if batch.level:
        child[slots.val_len >= batch.tree.entry_bytes[2]] = decode_children(batch)["oid"]
    return DecodedKeys(lead, second, name, slots.key_start + slots.key_len, where, child)


def _get_key(buffer: U8, keys: DecodedKeys, row: int) -> tuple[int, int, bytes]:
    name = buffer[int(keys.name[row]) : int(keys.stop[row])].tobytes()
    return int(keys.lead[row]), int(keys.second[row]), name


def _check_order(subject: Subject, batch: ReadNodes, keys: DecodedKeys, last: tuple[int, int, bytes] | None) -> None:
    """Check that the keys are in order."""
    tree, buffer, lead, second = batch.tree.source.tree, batch.buffer, keys.lead, keys.second
    wrong = (lead[1:] < lead[:-1]) | ((lead[1:] == lead[:-1]) & (second[1:] < second[:-1]))
    # Names are compared only where the numbers are equal.
    same = np.flatnonzero((lead[1:] == lead[:-1]) & (second[1:] == second[:-1])).tolist()
    pairs = [(row + 1, _get_key(buffer, keys, row), _get_key(buffer, keys, row + 1)) for row in same]
    if last is not None and len(keys):
        pairs.insert(0, (0, last, _get_key(buffer, keys, 0)))
    rows = {*(np.flatnonzero(wrong) + 1).tolist(), *(row for row, *both in pairs if _is_unordered(tree, *both))}
    ties = [
        row for row, earlier, later in pairs if earlier[:2] == later[:2] and later[2] < earlier[2] and row not in rows
    ]
    tie = "of names with one hash, this one is after one with greater bytes"
    kinds: tuple[tuple[list[int], Level, str], ...]
    kinds = (sorted(rows), level_of_disorder(tree), "key is out of order"), (ties, "info", tie)
    for chosen, level, message in kinds:
        for row in chosen[:MAX_CASES]:
            locate_byte(subject, batch, int(batch.slots.key_start[row])).add(UNORDERED, level, message)


def _is_unordered(tree: str, before: tuple[int, int, bytes], after: tuple[int, int, bytes]) -> bool:
    """Return whether a key does not sort after the one before it.

    Names with equal hashes may be in any order: apfsck requires the order of their bytes, while linux-apfs-rw keeps
    them in the order of creation and searches only by the hash. The behaviour of macOS is not documented.
    """
    is_hashed = before[1] != 0 or tree not in {"fs", "snapmeta"}
    return after == before if is_hashed and after[:2] == before[:2] else after <= before


def _check_bounds(subject: Subject, batch: ReadNodes, keys: DecodedKeys, above: DecodedKeys, children: Index) -> None:
    """Check that the first key of a node is not before the key that leads to it."""
    firsts = np.flatnonzero(np.diff(batch.slots.node, prepend=-1) != 0)
    node = batch.slots.node[firsts]
    entry, known = children.find(batch.rows.node_id[node])
    known &= above.lead[entry] == batch.rows.low_key[node]
    first, node, entry = keys.take(firsts[known]), node[known], entry[known]
    lead, second, where = above.lead[entry], above.second[entry], above.image_offset[entry].tolist()
    wrong = (first.lead < lead) | ((first.lead == lead) & (first.second < second))
    # Drivers keep the keys of an index exact (apfsck requires this), although a search needs only a lower bound.
    other = ~wrong & ((first.lead != lead) | (first.second != second))
    for chosen, how_bad, message in (
        (wrong, level_of_disorder(batch.tree.source.tree), "the key that leads to it is after its first key"),
        (other, "warning", "the key that leads to it is not its first key"),
    ):
        for row in np.flatnonzero(chosen).tolist():
            log = locate_byte(subject, batch, int(node[row]) * batch.size_bytes)
            # The finding is about the node; the key that may be wrong is in its parent.
            log.at_byte(log.structure, where[row], log.device).add(UNORDERED, how_bad, message)
