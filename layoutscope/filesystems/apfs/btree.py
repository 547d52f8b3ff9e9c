"""APFS B-trees, read level by level in whole arrays.

Apple File System Reference, B-Trees. Input: a root's identifier and, for virtual trees, an object map. Output: the
nodes of each level and the positions of their records. `walk_tree` reads trees of any size in passes, which yield nodes
in address order. `read_levels` reads batch by batch, for small trees and for callers that need keys in order. `Ahead`
reads the nodes that an object map names before the trees that lead to them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from msgspec import field
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs import nodes
from layoutscope.filesystems.apfs.nodes import DAMAGED, SOUND, UNKNOWN_LEVEL, UNREAD, NodeRows, join, rows_of
from layoutscope.filesystems.apfs.omap import NEWEST, ObjectMap
from layoutscope.filesystems.apfs.source import (
    Places,
    TreeSource,
    drop_repeated_names,
    locate_nodes,
    low_keys,
    object_of,
    places_of,
)
from layoutscope.filesystems.apfs.sweep import LARGEST_NODE
from layoutscope.filesystems.apfs.verify import NodeCheck, check_nodes, hash_size, read_object
from layoutscope.image.passes import read_alone
from layoutscope.structs import grammar
from layoutscope.structs.arrays import (
    GrowingColumn,
    Rows,
    concatenate,
    distinct,
    heads,
    is_ascending,
    match,
    owners,
    ranges,
)
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import BTREE_INFO, BTREE_NODE, CHILD_VAL, J_KEY, OMAP_KEY, OMAP_VAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.omap import OmapView
    from layoutscope.filesystems.apfs.source import Store
    from layoutscope.findings import FindingLog, Level
    from layoutscope.image import Workspace
    from layoutscope.image.passes import Reading, Want
    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.grammar import ApfsContainer
    from layoutscope.structs.recordtypes import RecordColumn, RecordType


BATCH_NODES: Final = 1024
MAX_LEVELS: Final = 16
TORN: Final = "a record's table entry, key or value leaves the node; its records were left out"
STRAY: Final = "the record's key or value leaves the node; it was left out"
INFO_FIELDS: Final = (
    BTREE_INFO.fixed.len_node,
    BTREE_INFO.fixed.len_key,
    BTREE_INFO.fixed.len_val,
    BTREE_INFO.fixed.is_hashed,
    BTREE_INFO.fixed.is_noheader,
    BTREE_INFO.num_keys,
    BTREE_INFO.num_nodes,
    BTREE_INFO.longest_key,
)


class Ends(Rows, frozen=True):
    """Per-node data for checking the key order of a tree; arrays of one length, one row per node."""

    num_records: NDArray[np.int64]
    # low, high: sort numbers of the first and the last key, see `low_keys`; 0 in empty nodes
    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    longest_key: NDArray[np.int32]  # in bytes
    is_disordered: NDArray[np.bool_]  # whether a key is lower than the one before it in its node


class ReadNodes(Struct, frozen=True):
    """Nodes that were read together, with their contents."""

    tree: OpenTree  # the tree that they belong to
    level: int  # 0 for leaves
    numbers: NDArray[np.int64]  # position of each among all nodes of the tree, which are ordered by level, then by key
    places: Places  # their addresses
    head: dict[str, NDArray[Any]]  # fields of their headers
    check: NodeCheck  # how each node was verified
    buffer: NDArray[np.uint8]  # their bytes, contiguous
    slots: nodes.Slots  # records of the sound nodes; `node` counts within this batch
    keys: NDArray[np.uint64]  # sort number of each record's key, see `low_keys`
    ends: Ends  # key range of each node's records
    num_after: int = 0  # number of nodes of the same level after this batch

    @property
    def size_bytes(self) -> int:
        """Size of each node."""
        return self.tree.shape.sizes.node

    @property
    def to_come(self) -> float:
        """Number of nodes after this batch in its level, as a multiple of the batch's own number."""
        return self.num_after / len(self.places)

    @property
    def node(self) -> NDArray[np.int64]:
        """Position of each record's node among all nodes of the tree."""
        return self.numbers[self.slots.node]

    def columns(
        self, part: Literal["key", "val"], record_type: RecordType, fields: Sequence[RecordColumn]
    ) -> dict[str, NDArray[Any]]:
        """Decode fields of the keys or values of all records, which share one type."""
        starts = self.slots.key_start if part == "key" else self.slots.val_start
        return decode_columns(record_type, self.buffer, starts, fields)

    def column(self, part: Literal["key", "val"], record_type: RecordType, field: RecordColumn) -> NDArray[Any]:
        """Decode one field of the keys or values of all records."""
        return self.columns(part, record_type, (field,))[field]

    def at(
        self, node: int, position: int | None = None, *, name: str = "", log: FindingLog | None = None
    ) -> FindingLog:
        """Bind a log to a node, or to a byte within it."""
        source, node_id = self.tree.source, self.places.node_id[node]
        plus = 0 if position is None else position - node * self.size_bytes
        structure = f"{source.tree} tree, {name or f'node {node_id}'}"
        return (log or source.store.log).at(structure, int(self.places.paddr[node]), plus=plus)


class TreeShape(Struct, frozen=True):
    """Properties that a root declares: sizes in bytes, level, whether and how its children are hashed (0: unknown)."""

    sizes: nodes.Sizes
    level: int
    is_hashed: bool = False
    hash_type: int = 0
    is_noheader: bool = False
    num_keys: int = 0
    num_nodes: int = 0
    longest_key: int = 0
    paddr: int = 0


class OpenTree(Struct, frozen=True):
    """A tree whose root was read, with its source and the shape that the root declares."""

    source: TreeSource
    shape: TreeShape


def read_root(source: TreeSource) -> tuple[OpenTree, Places] | None:
    """Find and read the root of a tree; if it cannot be used, report a finding and return None."""
    root = locate_nodes(source, np.array([source.root_oid], np.uint64))
    if not len(root):
        return None
    try:
        shape = None if root.is_unread[0] else read_shape(source, root)
    except FormatError as error:
        source.store.log.survive(error, code="tree-unreadable")
        shape = None
    if shape is None:
        source.store.lost.append(_make_unreadable_root(source, root))
        return None
    if source.root_hash:
        root = replace(root, child_hash=np.frombuffer(source.root_hash, np.uint8)[None, :])
    return OpenTree(source, shape), root


def _make_unreadable_root(source: TreeSource, root: Places) -> NodeRows:
    """Make a row for an unusable root, with address, size and transaction from the reference to it."""
    size, block = int(root.size_bytes[0]), source.blocks.block_size
    is_possible = block <= size <= LARGEST_NODE and size % block == 0
    known = {
        "node_id": root.node_id,
        "xid": root.xid,
        "paddr": root.paddr,
        "size_bytes": np.array([size if is_possible else block]),
        "level": np.array([UNKNOWN_LEVEL]),
        "omap_leaf": root.omap_leaf,
        "condition": np.where(root.is_unread, UNREAD, DAMAGED),
    }
    return rows_of(source.tree, known)


def read_shape(source: TreeSource, root: Places) -> TreeShape:
    """Read the tree information at the end of a root."""
    size = int(root.size_bytes[0])
    if size < source.blocks.block_size or size % source.blocks.block_size:
        where = source.blocks.at(int(root.paddr[0]))
        raise FormatError(
            f"impossible size of {size} bytes",
            structure=f"{source.tree} tree, node {source.root_oid}",
            image_offset=where,
        )
    data = _fetch(source, root, size)
    # The tree information is at the very end of the root, after the values.
    start = np.array([data.size - BTREE_INFO.width], np.int64)
    info = {
        name.removeprefix("fixed."): values
        for name, values in decode_columns(BTREE_INFO, data, start, INFO_FIELDS).items()
    }
    head = nodes.node_heads(data, np.zeros_like(start))
    level, node_size = int(head["level"][0]), int(info["len_node"][0])
    address = source.blocks.at(int(root.paddr[0]))
    problem = ""
    if not bool(head["is_root"][0]):
        problem = "node is not a root"
    elif level >= MAX_LEVELS:
        problem = f"tree of {level + 1} levels"
    elif node_size != size:
        problem = f"node size {node_size} differs from the object's {size}"
    if problem:
        with source.blocks.concerning(int(root.paddr[0])):
            raise FormatError(problem, structure=f"{source.tree} tree, node {source.root_oid}", image_offset=address)
    # Only the root describes its tree, so the tree can be read without the seal, but not verified.
    is_hashed = bool(info["is_hashed"][0])
    hash_type = source.hash_type if is_hashed else 0
    child = CHILD_VAL.width + hash_size(hash_type)
    sizes = nodes.Sizes(size, int(info["len_key"][0]), int(info["len_val"][0]), child)
    return TreeShape(
        sizes,
        level,
        is_hashed,
        hash_type,
        is_noheader=bool(info["is_noheader"][0]),
        num_keys=int(info["num_keys"][0]),
        num_nodes=int(info["num_nodes"][0]),
        longest_key=int(info["longest_key"][0]),
        paddr=int(root.paddr[0]),
    )


def _fetch(
    source: TreeSource, places: Places, size_bytes: int, workspace: Workspace | None = None
) -> NDArray[np.uint8]:
    """Read and decrypt nodes into one buffer; nodes that cannot be read are zeros."""
    if places.is_unread.any():
        whole = np.zeros((len(places), size_bytes), np.uint8)
        there = np.flatnonzero(~places.is_unread)
        whole[there] = _fetch(source, places.take(there), size_bytes).reshape(-1, size_bytes)
        return whole.reshape(-1)
    return _decrypt(source, places, source.blocks.read(places.paddr, size_bytes, workspace)).reshape(-1)


def read_batch(
    tree: OpenTree, places: Places, level: int, numbers: NDArray[np.int64], workspace: Workspace | None = None
) -> ReadNodes:
    """Read and verify nodes of one level, and locate their records."""
    return take_apart(tree, places, level, numbers, _fetch(tree.source, places, tree.shape.sizes.node, workspace))


def take_apart(
    tree: OpenTree, places: Places, level: int, numbers: NDArray[np.int64], buffer: NDArray[np.uint8]
) -> ReadNodes:
    """Verify nodes of one level that were already read and decrypted, and locate their records."""
    source, shape = tree.source, tree.shape
    starts = np.arange(len(places), dtype=np.int64) * shape.sizes.node
    head = nodes.node_heads(buffer, starts)
    check = check_nodes(
        source,
        places,
        head,
        buffer.reshape(-1, shape.sizes.node),
        level_wanted=level,
        hash_type=shape.hash_type,
        is_noheader=shape.is_noheader,
    )
    usable = {"num_keys": np.where(check.is_sound, head["num_keys"], 0)}
    found = nodes.slots(buffer, head | usable, shape.sizes)
    check = _check_bounds(source, places, check, found)
    keys = low_keys(source, buffer, found.slots.key_start)
    ends = _find_ends(found.slots, keys, len(places))
    return ReadNodes(tree, level, numbers, places, head, check, buffer, found.slots, keys, ends)


def _find_ends(slots: nodes.Slots, keys: NDArray[np.uint64], num_nodes: int) -> Ends:
    bounds = np.searchsorted(slots.node, np.arange(num_nodes + 1))
    first, stop = bounds[:-1], bounds[1:]
    filled = np.flatnonzero(stop > first)
    low, high = np.zeros((2, num_nodes), np.uint64)
    low[filled], high[filled] = keys[first[filled]], keys[stop[filled] - 1]
    longest_key = np.zeros(num_nodes, np.int32)
    if len(filled):
        longest_key[filled] = np.maximum.reduceat(slots.key_len, first[filled])
    # Equal numbers are in order: for example, two names in one directory differ in a part that the number omits.
    descends = np.flatnonzero(keys[1:] < keys[:-1])
    is_disordered = np.zeros(num_nodes, np.bool_)
    is_disordered[slots.node[descends[slots.node[descends] == slots.node[descends + 1]]]] = True
    return Ends(stop - first, low, high, longest_key, is_disordered)


def _check_bounds(source: TreeSource, places: Places, check: NodeCheck, found: nodes.Located) -> NodeCheck:
    """Report nodes and records that exceed their bounds; such a node does not count as valid."""
    torn = found.torn & check.is_sound
    for number in np.flatnonzero(torn).tolist():
        log = source.at_node(int(places.node_id[number]), int(places.paddr[number]))
        log.add("node-invalid", "error", TORN)
    node = found.strays.node
    size = int(places.size_bytes[0])
    for at, number, start in zip(*(column.tolist() for column in found.strays), strict=True):
        name = f"{source.tree} tree, record {number} of node {places.node_id[at]}"
        log = source.store.log.at(name, int(places.paddr[at]), plus=start - at * size)
        log.add("record-invalid", "error", STRAY)
    valid = np.where(torn, 0, check.valid).astype(np.uint8)
    valid[node] = 0
    damaged = check.is_damaged | torn
    damaged[node] = True
    return replace(check, valid=valid, is_sound=check.is_sound & ~torn, is_damaged=damaged)


def decode_children(
    batch: ReadNodes,
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]]:
    """Decode the records of a batch of index nodes: node position in the batch, child, low key and hash."""
    source, shape = batch.tree.source, batch.tree.shape
    sizes = shape.sizes
    rows = np.flatnonzero(batch.slots.val_len >= sizes.child)
    slots, low = batch.slots.take(rows), batch.keys[rows]
    oids = decode_columns(CHILD_VAL, batch.buffer, slots.val_start, (CHILD_VAL.oid,))["oid"]
    hashes = _child_hashes(batch.buffer, slots.val_start, sizes.child - CHILD_VAL.width)
    if shape.is_hashed:
        # In sealed volumes, child identifiers are relative to the root's.
        oids = oids + np.uint64(source.root_oid)
    return slots.node, oids, low, hashes


def _child_hashes(buffer: NDArray[np.uint8], val_start: NDArray[np.int64], hash_size: int) -> NDArray[np.uint8]:
    if not hash_size:
        return np.empty((len(val_start), 0), np.uint8)
    first = val_start[:, None] + CHILD_VAL.width
    hashes: NDArray[np.uint8] = buffer[first + np.arange(hash_size)]
    return hashes


def to_node_rows(batch: Batch) -> NodeRows:
    """Turn a batch of nodes into rows; ``key_rank`` is set when the batches of a tree are joined."""
    if isinstance(batch, AheadLeaves):
        return batch.rows
    places, head, ends, count = batch.places, batch.head, batch.ends, len(batch.places)
    first_key, last_key = ends.low, ends.high
    if batch.tree.source.kind.key_type is J_KEY:
        first_key, last_key = object_of(first_key), object_of(last_key)
    bounds = np.append(0, np.cumsum(ends.num_records))
    lengths = np.append(0, np.cumsum(batch.slots.key_len + batch.slots.val_len, dtype=np.int64))
    # Nodes of sealed volumes have no header; only the object map records their transaction.
    has_header = (head["hdr.xid"] != 0) & batch.check.is_sound
    known = {
        "node_id": places.node_id,
        "xid": np.where(has_header, head["hdr.xid"], places.xid),
        "paddr": places.paddr,
        "size_bytes": np.full(count, batch.size_bytes, np.int64),
        "level": np.full(count, batch.level, np.uint8),
        "num_records": np.where(batch.check.is_sound, head["num_keys"], 0),
        "used_bytes": np.diff(lengths[bounds]),
        "free_bytes": _free_bytes(head),
        "parent": places.parent,
        "omap_leaf": places.omap_leaf,
        "low_key": places.low_key,
        "first_key_id": first_key,
        "last_key_id": last_key,
        "valid": batch.check.valid,
        "condition": np.where(places.is_unread, UNREAD, np.where(batch.check.is_damaged, DAMAGED, SOUND)),
    }
    return rows_of(batch.tree.source.tree, known)


def _free_bytes(head: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    names = ("free_space.len_data", "key_free_list.len_data", "val_free_list.len_data")
    total = sum(head[name].astype(np.int64) for name in names)
    return np.asarray(total, np.int64)


class _Descent(Struct):
    """A top-down traversal of a tree: the nodes of the current level, and the counts from the levels above."""

    tally: Tally
    level: int
    first: int  # position of the level's first node among all nodes of the tree
    places: Places
    sinks: tuple[Callable[[Batch], None], ...] = ()  # receivers of the batches
    children: list[Places] = field(default_factory=list)

    @classmethod
    def begin(cls, source: TreeSource, *sinks: Callable[[Batch], None]) -> _Descent | None:
        """Read the root of a tree; None if it cannot be used."""
        opened = read_root(source)
        if opened is None:
            return None
        return cls(Tally(opened[0], len(source.store.log.findings)), opened[0].shape.level, 0, opened[1], sinks)

    def add(self, batch: Batch) -> None:
        """Count some nodes of the level, pass them to the sinks, and locate their children."""
        self.tally.add(batch)
        for take in self.sinks:
            take(batch)
        if isinstance(batch, ReadNodes) and batch.level:
            node, oids, low, hashes = decode_children(batch)
            self.children.append(locate_nodes(batch.tree.source, oids, (batch.numbers[node], low, hashes)))

    def below(self, *, is_whole: bool = True) -> _Descent | None:
        """Move to the level below; after the last one compare the counts, unless some leaves were skipped."""
        self.tally.report_order(self.places, self.first)
        first = self.first + len(self.places)
        if not self.level:
            if is_whole:
                self.tally.compare(first)
            return None
        places = Places.join(self.children)
        if not is_ascending(places.parent):
            places = places.take(np.argsort(places.parent, kind="stable"))
        places = drop_repeated_names(self.tally.tree.source, places)
        return _Descent(self.tally, self.level - 1, first, places, self.sinks) if len(places) else None


def read_levels(
    source: TreeSource, workspace: Workspace | None = None, *, known: NDArray[np.uint64] | None = None
) -> Iterator[ReadNodes]:
    """Read a tree from the root down in key order; report unusable nodes as findings, without records.

    Leaves at `known` addresses are skipped if their parents are known too.
    """
    at, above = _Descent.begin(source), np.empty(0, np.uint64)
    while at is not None:
        if known is not None and not at.level and len(above):
            is_new = ~np.isin(above, known)
            chosen = ~np.isin(at.places.paddr, known) | is_new[at.places.parent - (at.first - len(above))]
            at.places = at.places.take(chosen)
        above = at.places.paddr
        for start in range(0, len(above), BATCH_NODES):
            some = at.places.take(slice(start, start + BATCH_NODES))
            numbers = np.arange(at.first + start, at.first + start + len(some))
            batch = read_batch(at.tally.tree, some, at.level, numbers, workspace)
            at.add(batch)
            yield batch
        at = at.below(is_whole=known is None)


def walk_tree(
    source: TreeSource, take: Callable[[Batch], None], pool: Pool | None = None, ahead: Ahead | None = None
) -> Reading[None]:
    """Read a tree from the root down in passes; each batch contains nodes of one level, in address order.

    Nodes that were read ahead are not read again. All nodes are added to the pool, if there is one, for other states of
    the volume. Findings are added to the log at the end, so those of trees that are read together do not mix.
    """
    apart = source.apart()
    at = _Descent.begin(apart, take, *([pool.add] if pool is not None else []))
    while at is not None:
        if pool is not None:
            pool.claim(at.places, at.level)
        yield wants(at.tally.tree, at.places, at.level, at.first, at.add, ahead)
        at = at.below()
    source.store.absorb(apart.store)


def wants(
    tree: OpenTree,
    places: Places,
    level: int,
    first: int,
    take: Callable[[Batch], None],
    ahead: Ahead | None = None,
) -> list[Want]:
    """List the reads needed for nodes of one level; pass nodes to `take` as they arrive, available ones immediately."""
    left = len(places)

    def add(rows: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
        nonlocal left
        some, left = places.take(rows), left - len(rows)
        batch = take_apart(tree, some, level, first + rows, _decrypt(tree.source, some, data).reshape(-1))
        take(replace(batch, num_after=left))

    size = tree.shape.sizes.node
    is_new = ~places.is_unread
    if ahead is not None and ahead.is_of(tree):
        rows, number = ahead.find_leaves(places) if not level else (np.empty(0, np.int64),) * 2
        if len(rows):
            is_new[rows], left = False, left - len(rows)
            take(ahead.leaves(first + rows, places.take(rows), number))
        rows, data = ahead.find_others(places, np.flatnonzero(is_new))
        if len(rows):
            is_new[rows] = False
            add(rows, data)
    unread, there = np.flatnonzero(places.is_unread), np.flatnonzero(is_new)
    if len(unread):
        add(unread, np.zeros((len(unread), size), np.uint8))
    return tree.source.blocks.wants(places.paddr[there], size, lambda rows, data: add(there[rows], data), level)


def _decrypt(source: TreeSource, places: Places, data: U8) -> U8:
    if source.cipher is None or not places.is_encrypted.any():
        return data
    return source.cipher.decrypt_objects(data, places.paddr, places.is_encrypted)


class AheadLeaves(Struct, frozen=True):
    """Leaves that were decoded before their tree led to them."""

    level: ClassVar[int] = 0
    numbers: I64  # position of each among all nodes of the tree
    places: Places
    rows: NodeRows
    ends: Ends
    ahead: I64  # position of each among the nodes that were read ahead


Batch: TypeAlias = ReadNodes | AheadLeaves

MAX_KEPT_BYTES: Final = 1 << 27
"""Limit for nodes that were read ahead and are not sound leaves: enough for the index nodes of 30 million files."""


class Ahead:
    """Nodes of an object map, read in one pass before the trees that lead to them.

    Leaves are decoded as they are read, and numbered by address. They are compared with their parent's entries when a
    tree leads to them. Index nodes and damaged leaves are kept unchanged for the trees.
    """

    def __init__(self, decode: Callable[[ReadNodes, int], I64]) -> None:
        # Takes leaves of the tree itself and the number of all nodes; returns the leaves with invalid records.
        self._decode = decode
        self._shape: TreeShape | None = None

    def read(self, source: TreeSource, states: Sequence[OmapView]) -> Reading[None]:
        """Read the nodes of a tree with its records, and the nodes that the tree has only in other states."""
        # The object map records transactions: each node must match its own, whichever state it belongs to.
        apart, blocks = replace(source.apart(), max_xid=NEWEST), source.blocks
        opened = read_root(apart)
        if opened is None or source.view is None or not _has_headers(opened[0].shape) or not opened[0].shape.level:
            return
        tree, size, omap = OpenTree(apart, opened[0].shape), opened[0].shape.sizes.node, source.view.omap
        rows = np.concatenate([source.view.row, *(view.row for view in states)])
        # Read each address once; the tree itself comes first.
        order = np.argsort(omap.paddr[rows], kind="stable")
        order = order[heads(omap.paddr[rows[order]])]
        order = order[omap.size_bytes[rows[order]] == size]
        order = order[blocks.readable(omap.paddr[rows[order]], size)]
        places, is_own = places_of(omap, rows[order]), order < len(source.view.row)
        own, rest = np.flatnonzero(is_own), np.flatnonzero(~is_own)
        leaves: list[tuple[I64, NodeRows, Ends]] = []
        others: list[tuple[I64, U8]] = []
        room = MAX_KEPT_BYTES // size

        def add(numbers: I64, rows: I64, data: U8) -> None:
            nonlocal room
            chosen, to_come = numbers[rows], len(numbers) - 1 - int(rows[-1])
            some = places.take(chosen)
            plain = _decrypt(source, some, data).reshape(-1)
            level = decode_column(BTREE_NODE, plain, np.arange(len(rows), dtype=np.int64) * size, BTREE_NODE.level)
            # Nodes that are marked as unread are not verified.
            batch = take_apart(tree, replace(some, is_unread=level > 0), 0, chosen, plain)
            is_sound = batch.check.is_sound & ~batch.check.is_damaged & ~batch.ends.is_disordered
            if numbers is own:
                is_sound[self._decode(replace(batch, num_after=to_come), len(places))] = False
            leaves.append((chosen[is_sound], to_node_rows(batch).take(is_sound), batch.ends.take(is_sound)))
            kept = np.flatnonzero(~is_sound)[:room]
            others.append((chosen[kept], data[kept]))
            room -= len(kept)

        yield [want for each in (own, rest) for want in blocks.wants(places.paddr[each], size, partial(add, each))]
        if not leaves:
            return
        self._shape, self._places = tree.shape, places
        numbers, rows_of_leaves, ends = zip(*leaves, strict=True)
        self._leaf, self._rows = _positions(len(places), numbers), join(source.tree, rows_of_leaves)
        self._ends = Ends.join(ends)
        numbers, data = zip(*others, strict=True)
        self._other, self._data = _positions(len(places), numbers), np.concatenate(data)

    def is_of(self, tree: OpenTree) -> bool:
        """Return whether the nodes that were read ahead have the same sizes as those of a tree, and headers."""
        return self._shape is not None and tree.shape.sizes == self._shape.sizes and _has_headers(tree.shape)

    def find_leaves(self, places: Places) -> tuple[I64, I64]:
        """Return which of some leaves were read ahead and are sound, and their numbers."""
        number, is_known = self._find(places)
        rows = np.flatnonzero(is_known & (self._leaf[number] >= 0))
        ends = self._ends.take(self._leaf[number[rows]])
        # Records may precede the key in their parent's entry: the tree reports it.
        rows = rows[(ends.low >= places.low_key[rows]) | (ends.num_records == 0)]
        return rows, number[rows]

    def leaves(self, numbers: I64, places: Places, ahead: I64) -> AheadLeaves:
        """Return leaves that were read ahead, with the parents and low keys that their tree gives."""
        leaf = self._leaf[ahead]
        origin = {"parent": places.parent, "omap_leaf": places.omap_leaf, "low_key": places.low_key}
        return AheadLeaves(numbers, places, replace(self._rows.take(leaf), **origin), self._ends.take(leaf), ahead)

    def find_others(self, places: Places, rows: I64) -> tuple[I64, U8]:
        """Return which of some nodes were kept, and their bytes, in the address order of a pass."""
        number, is_known = self._find(places.take(rows))
        found = np.flatnonzero(is_known & (self._other[number] >= 0))
        found = found[np.argsort(number[found])]
        return rows[found], self._data[self._other[number[found]]]

    def _find(self, places: Places) -> tuple[I64, Mask]:
        known = self._places
        number = np.minimum(np.searchsorted(known.paddr, places.paddr), len(known) - 1)
        is_same = (known.paddr[number] == places.paddr) & (known.node_id[number] == places.node_id)
        return number, is_same & (known.xid[number] == places.xid)


def _has_headers(shape: TreeShape) -> bool:
    """Return whether nodes have headers; those without are verified by the hashes in their parents."""
    return not (shape.is_hashed or shape.is_noheader)


def _positions(count: int, parts: Sequence[I64]) -> I64:
    """Return the position of each number in the given parts, -1 if it is absent."""
    found, numbers = np.full(count, -1), np.concatenate(parts)
    found[numbers] = np.arange(len(numbers))
    return found


def read_nodes(source: TreeSource) -> tuple[NodeRows, list[ReadNodes]]:
    """Read a whole small tree; return its nodes and the batches of its leaves."""
    batches = list(read_levels(source))
    nodes = join(source.tree, [to_node_rows(batch) for batch in batches])
    return nodes, [batch for batch in batches if batch.level == 0]


_VALUE_FIELDS = (OMAP_VAL.paddr, OMAP_VAL.len_object, OMAP_VAL.is_deleted, OMAP_VAL.is_encrypted, OMAP_VAL.is_noheader)


_DTYPES = {
    "oid": np.uint64,
    "xid": np.uint64,
    "paddr": np.uint64,
    "size_bytes": np.int64,
    "is_deleted": np.bool_,
    "is_encrypted": np.bool_,
    "is_noheader": np.bool_,
    "leaf": np.int64,
}


def open_omap(
    store: Store, tree: Literal["container-omap", "omap"], paddr: int, max_xid: int
) -> tuple[ApfsContainer.OmapPhys, ObjectMap]:
    """Read an object map's header, then its tree."""
    owner = "volume" if tree == "omap" else "container"
    header = read_object(store.blocks, grammar.ApfsContainer.OmapPhys, paddr, f"{owner} object map")
    return header, read_omap(store, tree, header.tree_oid, max_xid)


def read_omap(store: Store, tree: Literal["container-omap", "omap"], tree_oid: int, max_xid: int) -> ObjectMap:
    """Read an object map's tree."""
    parts: list[ReadRows] = []
    columns = {name: GrowingColumn(dtype) for name, dtype in _DTYPES.items()}

    def take(batch: Batch) -> None:
        parts.append(ReadRows(batch.numbers, to_node_rows(batch)))
        if isinstance(batch, ReadNodes) and not batch.level:
            for name, values in _mappings(batch).items():
                columns[name].add(values, batch.to_come)

    read_alone(walk_tree(TreeSource(store, tree, tree_oid, max_xid), take))
    found = {name: column.values for name, column in columns.items()}
    if not is_ascending(found["leaf"]):
        order = np.argsort(found["leaf"], kind="stable")
        found = {name: values[order] for name, values in found.items()}
    oid, xid = found["oid"], found["xid"]
    if not np.all((oid[1:] > oid[:-1]) | ((oid[1:] == oid[:-1]) & (xid[1:] > xid[:-1]))):
        # The map is damaged, and a finding reports that: without sorting, binary searches would miss objects.
        order = np.lexsort((xid, oid))
        found = {name: values[order] for name, values in found.items()}
    return ObjectMap(join_by_number(tree, parts), **found)


class ReadRows(NamedTuple):
    """Rows of nodes in reading order, and the position of each among all nodes of the tree."""

    numbers: NDArray[np.int64]
    rows: NodeRows


def join_by_number(tree: str, parts: list[ReadRows]) -> NodeRows:
    """Join the batches of a tree and sort its nodes by number."""
    if not parts:
        return join(tree, [])
    numbers = np.concatenate([part.numbers for part in parts])
    order = None if is_ascending(numbers) else np.argsort(numbers)
    return join(tree, [part.rows for part in parts], order)


def level_of_disorder(tree: str) -> Level:
    """Return the severity of unordered keys: in an object map, binary searches miss objects."""
    return "error" if tree in ("omap", "container-omap") else "warning"


def _mappings(batch: ReadNodes) -> dict[str, NDArray[Any]]:
    """Decode the mappings in one batch of leaves."""
    keys = batch.columns("key", OMAP_KEY, (OMAP_KEY.oid, OMAP_KEY.xid))
    values = batch.columns("val", OMAP_VAL, _VALUE_FIELDS)
    return {"size_bytes": values.pop(OMAP_VAL.len_object), **keys, **values, "leaf": batch.node}


class Tally(Struct):
    """Running counts for a tree."""

    tree: OpenTree  # the tree; its nodes are not read yet
    num_findings: int  # number of findings in the log at the start
    num_keys: int = 0
    longest_key: int = 0
    # for the current level: nodes whose own keys do not ascend; nodes with records, and their first and last keys
    disordered: list[NDArray[np.int64]] = field(default_factory=list)
    ends: list[tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Count a batch and check the order of its keys."""
        number, ends = batch.numbers, batch.ends
        filled = np.flatnonzero(ends.num_records)
        if not len(filled):
            return
        self.longest_key = max(self.longest_key, int(ends.longest_key.max()))
        # The tree information counts only the keys of leaves, but gives the longest key of all levels.
        self.num_keys += 0 if batch.level else int(ends.num_records.sum())
        # Records may precede the key in their parent's entry.
        early = filled[ends.low[filled] < batch.places.low_key[filled]]
        self.disordered += [number[ends.is_disordered], number[early]]
        self.ends.append((number[filled], ends.low[filled], ends.high[filled]))

    def report_order(self, places: Places, first: int) -> None:
        """Report the nodes of a level whose keys do not ascend, within the node or after the previous one."""
        if self.ends:
            number, low, high = (np.concatenate(column) for column in zip(*self.ends, strict=True))
            order = np.argsort(number)
            number, low, high = number[order], low[order], high[order]
            self.disordered.append(number[1:][low[1:] < high[:-1]])
            level, source = level_of_disorder(self.tree.source.tree), self.tree.source
            for row in (distinct(np.concatenate(self.disordered)) - first).tolist():
                log = source.at_node(int(places.node_id[row]), int(places.paddr[row]))
                log.add("keys-unordered", level, "keys do not ascend")
        self.disordered, self.ends = [], []

    def compare(self, num_nodes: int) -> None:
        """Compare the counts with the tree information, unless a finding shows that part of the tree is missing."""
        source, shape = self.tree.source, self.tree.shape
        if len(source.store.log.findings) > self.num_findings:
            return
        log = source.at_node(source.root_oid, shape.paddr)
        for what, found, declared in (("keys", self.num_keys, shape.num_keys), ("nodes", num_nodes, shape.num_nodes)):
            if found < declared:
                message = (
                    f"{declared - found:,} {what} are missing: the tree information counts more than the tree holds"
                )
                log.add("count-differs", "error", message, expected=found, found=declared)
            elif found > declared:
                message = f"the tree information counts fewer {what} than the tree holds"
                log.add("count-differs", "warning", message, expected=found, found=declared)
        if self.longest_key > shape.longest_key:
            message = "a key is longer than the tree information says"
            log.add("count-differs", "warning", message, expected=self.longest_key, found=shape.longest_key)


class Pool(Struct):
    """Nodes that were read for one volume's states, and the children of the index nodes among them."""

    # in reading order; they come from several trees, so ranks and parents have no meaning
    parts: list[NodeRows] = field(default_factory=list)
    # one row per index record, in the order of its node: `node` is that node's row; `oid`, `low_key` and `hash`
    # describe the child
    children: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # rows sorted by address
    # nodes per level that the reader of a state is waiting for
    waiting: list[tuple[int, Places]] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def add(self, batch: Batch) -> None:
        """Add nodes, and the children of index nodes."""
        base = len(self)
        self.parts.append(to_node_rows(batch))
        if isinstance(batch, ReadNodes) and batch.level:
            owner, oid, low_key, child_hash = decode_children(batch)
            self.children.append({"node": owner + base, "oid": oid, "low_key": low_key, "hash": child_hash})

    def nodes(self) -> NodeRows | None:
        """Return all nodes, and update the index by address."""
        if len(self.order) < len(self):
            self.parts = [join(self.parts[0].tree, self.parts)]
            self.order = np.argsort(self.parts[0].paddr, kind="stable")
        return self.parts[0] if self.parts else None

    def find(self, places: Places, level: int) -> NDArray[np.int64]:
        """Return rows of nodes by address, number and level; -1 for nodes that were not read."""
        nodes = self.nodes()
        if nodes is None:
            return np.full(len(places), -1, np.int64)
        known = nodes.paddr[self.order]
        row = self.order[np.minimum(np.searchsorted(known, places.paddr), len(known) - 1)]
        same = (nodes.paddr[row] == places.paddr) & (nodes.node_id[row] == places.node_id)
        return np.where(same & (nodes.level[row] == level), row, -1)

    def claim(self, places: Places, level: int) -> Places:
        """Return the nodes of a level that are neither read nor awaited, and mark them as awaited."""
        is_new = self.find(places, level) < 0
        self.waiting = [(at, some) for at, some in self.waiting if (self.find(some, at) < 0).any()]
        for at, some in self.waiting:
            spot, is_known = match(some.paddr, places.paddr)
            if at == level and is_known.any():
                is_new &= ~(is_known & (some.node_id[spot] == places.node_id))
        new = places.take(is_new)
        if len(new):
            self.waiting.append((level, new.take(np.argsort(new.paddr))))
        return new

    def find_children(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """Return the children of some index nodes in order: the parent's position in `rows`, and the records."""
        empty = {name: np.empty(0, np.int64) for name in ("node", "oid", "low_key", "hash")}
        columns = concatenate(self.children, empty)
        self.children = [columns]
        first = np.searchsorted(columns["node"], rows, side="left")
        counts = np.searchsorted(columns["node"], rows, side="right") - first
        record = ranges(first, counts)
        return owners(counts), {name: values[record] for name, values in columns.items()}


def walk_shared(source: TreeSource, pool: Pool, ahead: Ahead | None = None) -> Reading[NodeRows]:
    """Read the nodes of one state's tree; fetch only those that the pool does not have, and add them to it.

    Findings that another state already reported are not repeated.
    """
    apart = source.apart()
    nodes = yield from _walk_pool(apart, pool, ahead)
    source.store.absorb(apart.store)
    return nodes


def _walk_pool(source: TreeSource, pool: Pool, ahead: Ahead | None) -> Reading[NodeRows]:
    opened = read_root(source)
    if opened is None:
        return join(source.tree, [])
    tree, places = opened
    tally, parts, base = Tally(tree, len(source.store.log.findings)), list[NodeRows](), 0

    def take(batch: Batch) -> None:
        tally.add(batch)
        pool.add(batch)

    for level in range(tree.shape.level, -1, -1):
        new = pool.claim(places, level)
        yield wants(tree, new, level, 0, take, ahead)
        tally.report_order(new, 0)
        rows, known = pool.find(places, level), pool.nodes()
        if known is not None:
            here = known.take(rows)
            parts.append(replace(here, parent=places.parent, omap_leaf=places.omap_leaf, low_key=places.low_key))
        if level:
            owner, named = pool.find_children(rows)
            origin = (owner + base, named["low_key"], named["hash"])
            places = drop_repeated_names(source, locate_nodes(source, named["oid"], origin))
            base += len(rows)
    nodes = join(source.tree, parts)
    tally.num_keys = int(nodes.num_records[nodes.level == 0].sum())
    if nodes.valid.all():
        tally.compare(len(nodes))
    return nodes
