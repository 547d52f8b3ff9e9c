"""APFS B-trees, read level by level in whole arrays.

Apple File System Reference, B-Trees. Input: a root's identifier and, for virtual trees, an object map. Output: the
nodes of each level and the positions of their records. A `Descent` leads from the root to the leaves. `walk_tree` reads
its levels in passes, which yield nodes in address order, for trees of any size. `read_levels` reads them batch by
batch, for small trees and for callers that need keys in order. `Ahead` reads the nodes that an object map names before
the trees that lead to them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs import nodes
from layoutscope.filesystems.apfs.nodes import DAMAGED, NO_SLOTS, SOUND, UNREAD, NodeRows, join, rows_of
from layoutscope.filesystems.apfs.omap import NEWEST, ObjectMap
from layoutscope.filesystems.apfs.source import (
    OpenTree,
    TreeSource,
    drop_repeated_names,
    locate_nodes,
    low_keys,
    mapped_nodes,
)
from layoutscope.filesystems.apfs.sweep import LARGEST_NODE, MAX_LEVELS
from layoutscope.filesystems.apfs.verify import check_nodes, hash_size, read_object
from layoutscope.image.passes import read_alone
from layoutscope.structs import grammar
from layoutscope.structs.arrays import (
    GrowingTable,
    concatenate,
    distinct,
    heads,
    is_ascending,
    match,
    owners,
    ranges,
)
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import BTREE_INFO, BTREE_NODE, CHILD_VAL, OMAP_KEY, OMAP_VAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.omap import OmapView
    from layoutscope.filesystems.apfs.source import Store
    from layoutscope.findings import FindingLog, Level
    from layoutscope.image.passes import Reading, Want
    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.grammar import ApfsContainer
    from layoutscope.structs.recordtypes import RecordColumn, RecordType


BATCH_NODES: Final = 1024
TORN: Final = "a record's table entry, key or value leaves the node; its records were left out"
STRAY: Final = "the record's key or value leaves the node; it was left out"
INFO_FIELDS: Final = tuple(
    BTREE_INFO.column(name)
    for name in (
        *("fixed.len_node", "fixed.len_key", "fixed.len_val", "fixed.is_hashed", "fixed.is_noheader"),
        *("num_keys", "num_nodes", "longest_key"),
    )
)


class ReadNodes(Struct, frozen=True):
    """Nodes that were read together, with their contents."""

    tree: OpenTree  # the tree that they belong to
    level: int  # 0 for leaves
    numbers: NDArray[np.int64]  # position of each among all nodes of the tree, which are ordered by level, then by key
    rows: NodeRows  # ``key_rank`` is set when the batches of a tree are joined
    head: dict[str, NDArray[Any]]  # fields of their headers
    is_sound: Mask  # whether the records of a node can be used
    buffer: NDArray[np.uint8]  # their bytes, contiguous
    slots: nodes.Slots  # records of the sound nodes; `node` counts within this batch
    keys: NDArray[np.uint64]  # sort number of each record's key, see `low_keys`
    num_after: int = 0  # number of nodes of the same level after this batch
    # of leaves that were decoded before their tree led to them: position of each among the nodes that were read ahead;
    # such a batch has neither bytes nor records
    ahead: I64 | None = None

    @property
    def size_bytes(self) -> int:
        """Size of each node."""
        return self.tree.node_bytes

    @property
    def to_come(self) -> float:
        """Number of nodes after this batch in its level, as a multiple of the batch's own number."""
        return self.num_after / len(self.rows)

    @property
    def node(self) -> NDArray[np.int64]:
        """Position of each record's node among all nodes of the tree."""
        return self.numbers[self.slots.node]

    def find_disorder(self) -> I64:
        """Return the nodes in which a key is lower than the one before it."""
        # Equal numbers are in order: for example, two names in one directory differ in a part that the number omits.
        descends, node = np.flatnonzero(self.keys[1:] < self.keys[:-1]), self.slots.node
        return distinct(node[descends[node[descends] == node[descends + 1]]])

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
        source, node_id = self.tree.source, self.rows.node_id[node]
        plus = 0 if position is None else position - node * self.size_bytes
        structure = f"{source.tree} tree, {name or f'node {node_id}'}"
        return (log or source.store.log).at(structure, int(self.rows.paddr[node]), plus=plus)


def read_root(source: TreeSource) -> tuple[OpenTree, NodeRows] | None:
    """Find and read the root of a tree; if it cannot be used, report a finding and return None."""
    root = locate_nodes(source, np.array([source.root_oid], np.uint64))
    if not len(root):
        return None
    try:
        tree = None if root.condition[0] == UNREAD else _open_tree(source, root)
    except FormatError as error:
        source.store.log.survive(error, code="tree-unreadable")
        tree = None
    if tree is None:
        # Address, size and transaction are those of the reference to the root.
        size, block = int(root.size_bytes[0]), source.blocks.block_size
        is_possible = block <= size <= LARGEST_NODE and size % block == 0
        size_bytes = np.array([size if is_possible else block])
        condition = np.where(root.condition == UNREAD, UNREAD, DAMAGED).astype(np.uint8)
        source.store.lost.append(replace(root, size_bytes=size_bytes, condition=condition))
        return None
    if source.root_hash:
        root = replace(root, child_hash=np.frombuffer(source.root_hash, np.uint8)[None, :])
    return tree, root


def _open_tree(source: TreeSource, root: NodeRows) -> OpenTree:
    """Read the tree information at the end of a root."""
    size, paddr = int(root.size_bytes[0]), int(root.paddr[0])
    structure, address = f"{source.tree} tree, node {source.root_oid}", source.blocks.at(paddr)
    if size < source.blocks.block_size or size % source.blocks.block_size:
        raise FormatError(f"impossible size of {size} bytes", structure=structure, image_offset=address)
    data = _fetch(source, root, size)
    # The tree information is at the very end of the root, after the values.
    start = np.array([data.size - BTREE_INFO.width], np.int64)
    info = {name: values[0] for name, values in decode_columns(BTREE_INFO, data, start, INFO_FIELDS).items()}
    head = nodes.node_heads(data, np.zeros_like(start))
    level, node_size, problem = int(head["level"][0]), int(info["fixed.len_node"]), ""
    if not bool(head["is_root"][0]):
        problem = "node is not a root"
    elif level >= MAX_LEVELS:
        problem = f"tree of {level + 1} levels"
    elif node_size != size:
        problem = f"node size {node_size} differs from the object's {size}"
    if problem:
        with source.blocks.concerning(paddr):
            raise FormatError(problem, structure=structure, image_offset=address)
    # Only the root describes its tree, so the tree can be read without the seal, but not verified.
    is_hashed = bool(info["fixed.is_hashed"])
    hash_type = source.hash_type if is_hashed else 0
    child = CHILD_VAL.width + hash_size(hash_type)
    return OpenTree(
        source,
        size,
        (int(info["fixed.len_key"]), int(info["fixed.len_val"]), child),
        level,
        is_hashed,
        hash_type,
        is_noheader=bool(info["fixed.is_noheader"]),
        num_keys=int(info["num_keys"]),
        num_nodes=int(info["num_nodes"]),
        longest_key=int(info["longest_key"]),
        paddr=paddr,
    )


def _fetch(source: TreeSource, places: NodeRows, size_bytes: int) -> NDArray[np.uint8]:
    """Read and decrypt nodes into one buffer; nodes that cannot be read are zeros."""
    is_unread = places.condition == UNREAD
    if is_unread.any():
        whole = np.zeros((len(places), size_bytes), np.uint8)
        there = np.flatnonzero(~is_unread)
        whole[there] = _fetch(source, places.take(there), size_bytes).reshape(-1, size_bytes)
        return whole.reshape(-1)
    return _decrypt(source, places, source.blocks.read(places.paddr, size_bytes)).reshape(-1)


def read_batch(tree: OpenTree, places: NodeRows, level: int, numbers: NDArray[np.int64]) -> ReadNodes:
    """Read and verify nodes of one level, and locate their records."""
    return take_apart(tree, places, level, numbers, _fetch(tree.source, places, tree.node_bytes))


def take_apart(
    tree: OpenTree, places: NodeRows, level: int, numbers: NDArray[np.int64], buffer: NDArray[np.uint8]
) -> ReadNodes:
    """Verify nodes of one level that were already read and decrypted, and locate their records."""
    source, size = tree.source, tree.node_bytes
    head = nodes.node_heads(buffer, np.arange(len(places), dtype=np.int64) * size)
    valid, is_sound, is_damaged = check_nodes(tree, places, head, buffer.reshape(-1, size), level)
    usable = {"num_keys": np.where(is_sound, head["num_keys"], 0)}
    slots, torn, strays = nodes.slots(buffer, head | usable, size, tree.entry_bytes)
    torn &= is_sound
    for number in np.flatnonzero(torn).tolist():
        log = source.at_node(int(places.node_id[number]), int(places.paddr[number]))
        log.add("node-invalid", "error", TORN)
    for at, number, start in np.stack(strays, axis=1).tolist():
        name = f"{source.tree} tree, record {number} of node {places.node_id[at]}"
        log = source.store.log.at(name, int(places.paddr[at]), plus=start - at * size)
        log.add("record-invalid", "error", STRAY)
    # Such nodes do not count as valid.
    torn_or_short = torn.copy()
    torn_or_short[strays[0]] = True
    valid[torn_or_short], is_damaged[torn_or_short], is_sound[torn] = 0, True, False
    keys = low_keys(source, buffer, slots.key_start)
    condition = np.where(places.condition == UNREAD, UNREAD, np.where(is_damaged, DAMAGED, SOUND))
    # Nodes of sealed volumes have no header; only the object map records their transaction.
    has_header = (head["hdr.xid"] != 0) & is_sound
    known: dict[str, Any] = {
        "node_id": places.node_id,
        "xid": np.where(has_header, head["hdr.xid"], places.xid),
        "paddr": places.paddr,
        "size_bytes": np.full(len(places), size, np.int64),
        "level": np.full(len(places), level, np.uint8),
        "num_records": np.where(is_sound, head["num_keys"], 0),
        "free_bytes": sum(head[name].astype(np.int64) for name in _FREE_FIELDS),
        "parent": places.parent,
        "omap_leaf": places.omap_leaf,
        "low_key": places.low_key,
        "valid": valid,
        "condition": condition,
        "is_encrypted": places.is_encrypted,
    }
    rows = rows_of(source.tree, known | _measure_records(len(places), slots, keys))
    return ReadNodes(tree, level, numbers, rows, head, is_sound, buffer, slots, keys)


_FREE_FIELDS: Final = ("free_space.len_data", "key_free_list.len_data", "val_free_list.len_data")


def _measure_records(num_nodes: int, slots: nodes.Slots, keys: NDArray[np.uint64]) -> dict[str, NDArray[Any]]:
    """Return columns of nodes that follow from their records; 0 in empty nodes."""
    bounds = np.searchsorted(slots.node, np.arange(num_nodes + 1))
    lengths = np.append(0, np.cumsum(slots.key_len + slots.val_len, dtype=np.int64))
    first, stop = bounds[:-1], bounds[1:]
    filled = np.flatnonzero(stop > first)
    first_key, last_key = np.zeros((2, num_nodes), np.uint64)
    longest_key = np.zeros(num_nodes, np.int32)
    if len(filled):
        first_key[filled], last_key[filled] = keys[first[filled]], keys[stop[filled] - 1]
        longest_key[filled] = np.maximum.reduceat(slots.key_len, first[filled])
    used = np.diff(lengths[bounds])
    return {"used_bytes": used, "first_key": first_key, "last_key": last_key, "longest_key": longest_key}


def decode_children(batch: ReadNodes) -> dict[str, NDArray[Any]]:
    """Decode the records of index nodes: the node in the batch, and number, low key and hash of the child."""
    tree, size = batch.tree, batch.tree.entry_bytes[2]
    rows = np.flatnonzero(batch.slots.val_len >= size)
    slots, low = batch.slots.take(rows), batch.keys[rows]
    oids = decode_columns(CHILD_VAL, batch.buffer, slots.val_start, (CHILD_VAL.oid,))["oid"]
    # A hash may follow the child's number.
    hashes = batch.buffer[slots.val_start[:, None] + np.arange(CHILD_VAL.width, size)]
    if tree.is_hashed:
        # In sealed volumes, child identifiers are relative to the root's.
        oids = oids + np.uint64(tree.source.root_oid)
    return {"node": slots.node, "oid": oids, "low_key": low, "hash": hashes}


class Pool:
    """Nodes that were read for one or more states of a tree, and the children of the index nodes among them."""

    def __init__(self) -> None:
        # nodes in reading order; if they come from several trees, ranks and parents have no meaning
        self.parts: list[NodeRows] = []
        # one row per index record, in the order of its node: `node` is that node's row; `oid`, `low_key` and `hash`
        # describe the child
        self.children: list[dict[str, NDArray[Any]]] = []
        # addresses, numbers and levels of the nodes, by address, and their rows
        self._known = _no_nodes()
        self._order = np.empty(0, np.int64)
        # the same of the nodes that were requested; not all of them may be read yet. Each state requests all of its
        # nodes, so arrays take a tenth of the memory that a set would.
        self._requested = _no_nodes()

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def add(self, batch: ReadNodes) -> None:
        """Add nodes, and the children of index nodes."""
        base = len(self)
        self.parts.append(batch.rows)
        if batch.level:
            children = decode_children(batch)
            self.children.append(children | {"node": children["node"] + base})

    def find(self, places: NodeRows, level: int) -> NDArray[np.int64]:
        """Return rows of nodes by address, number and level; -1 for nodes that were not read."""
        if not self.parts:
            return np.full(len(places), -1, np.int64)
        if len(self._order) < len(self):
            self.parts = [NodeRows.join(self.parts)]
            rows = self.parts[0]
            self._order = np.argsort(rows.paddr, kind="stable")
            self._known = tuple(column[self._order] for column in (rows.paddr, rows.node_id, rows.level))
        spot = _find_nodes(self._known, places, level)
        return np.where(spot >= 0, self._order[spot], -1)

    def request(self, places: NodeRows, level: int) -> Mask:
        """Return which nodes of a level nobody requested before, and note that they are requested now."""
        is_new: Mask = _find_nodes(self._requested, places, level) < 0
        if is_new.any():
            levels = np.full(int(is_new.sum()), level, np.uint8)
            added: tuple[NDArray[Any], ...] = places.paddr[is_new], places.node_id[is_new], levels
            columns = [np.concatenate(pair) for pair in zip(self._requested, added, strict=True)]
            order = np.argsort(columns[0], kind="stable")
            self._requested = tuple(column[order] for column in columns)
        return is_new

    def find_children(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """Return the children of some index nodes in order: the parent's position in `rows`, and the records."""
        empty = {name: np.empty(0, np.int64) for name in ("node", "oid", "low_key", "hash")}
        columns = concatenate(self.children, empty)
        self.children = [columns]
        first = np.searchsorted(columns["node"], rows, side="left")
        counts = np.searchsorted(columns["node"], rows, side="right") - first
        record = ranges(first, counts)
        return owners(counts), {name: values[record] for name, values in columns.items()}


def _no_nodes() -> tuple[NDArray[Any], ...]:
    return np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.uint8)


def _find_nodes(known: tuple[NDArray[Any], ...], places: NodeRows, level: int) -> I64:
    """Return the positions of nodes of a level among addresses, numbers and levels; -1 for those that are absent."""
    paddr, node_id, levels = known
    spot, is_known = match(paddr, places.paddr)
    found = np.where(is_known, spot, -1)
    left = np.flatnonzero(is_known)
    # Damaged trees and maps lead to one address at several levels, or as several nodes.
    while len(left):
        left = left[(node_id[found[left]] != places.node_id[left]) | (levels[found[left]] != level)]
        found[left] += 1
        is_past = found[left] == len(paddr)
        is_past[~is_past] = paddr[found[left[~is_past]]] != places.paddr[left[~is_past]]
        found[left[is_past]] = -1
        left = left[~is_past]
    return found


class Descent:
    """A traversal of a tree from its root down: the nodes of the current level, and the counts of all levels so far."""

    def __init__(self, source: TreeSource, pool: Pool | None = None) -> None:
        """Read the root; the places stay empty if it cannot be used."""
        opened = read_root(source)
        self.source, self.pool = source, Pool() if pool is None else pool
        self._num_findings = len(source.store.log.findings)
        self.places = rows_of(source.tree)
        if opened is not None:
            self.tree, self.places = opened
            self.level = self.tree.level
        self.first = 0  # position of the level's first node among all nodes of the tree
        # for the current level: nodes whose own keys do not ascend; nodes with records, and their first and last keys
        self._disordered: list[I64] = []
        self._ends: list[tuple[I64, NDArray[np.uint64], NDArray[np.uint64]]] = []

    def add(self, batch: ReadNodes) -> None:
        """Take nodes of the level, and compare the order of their keys."""
        self.pool.add(batch)
        number, rows = batch.numbers, batch.rows
        filled = np.flatnonzero(rows.num_records)
        if len(filled):
            # Records may precede the key in their parent's entry.
            early = filled[rows.first_key[filled] < rows.low_key[filled]]
            self._disordered += [number[batch.find_disorder()], number[early]]
            self._ends.append((number[filled], rows.first_key[filled], rows.last_key[filled]))

    def go_down(self) -> NodeRows:
        """Move to the level below, if it has nodes; return the nodes of the level above it, all of which were read."""
        if self._ends:
            # The nodes whose keys do not ascend, within the node or after the previous one.
            number, low, high = (np.concatenate(column) for column in zip(*self._ends, strict=True))
            order = np.argsort(number)
            number, low, high = number[order], low[order], high[order]
            self._disordered.append(number[1:][low[1:] < high[:-1]])
            for row in (distinct(np.concatenate(self._disordered)) - self.first).tolist():
                log = self.source.at_node(int(self.places.node_id[row]), int(self.places.paddr[row]))
                log.add("keys-unordered", level_of_disorder(self.source.tree), "keys do not ascend")
        self._disordered, self._ends = [], []
        places, rows = self.places, self.pool.find(self.places, self.level)
        level = self.pool.parts[0].take(rows)
        level = replace(level, parent=places.parent, omap_leaf=places.omap_leaf, low_key=places.low_key)
        self.places = rows_of(self.source.tree)
        if self.level:
            owner, found = self.pool.find_children(rows)
            origin = (owner + self.first, found["low_key"], found["hash"])
            self.places = drop_repeated_names(self.source, locate_nodes(self.source, found["oid"], origin))
        self.level, self.first = self.level - 1, self.first + len(rows)
        return level

    def compare_counts(self, rows: NodeRows) -> None:
        """Compare all nodes with the tree information, unless a finding shows that part of the tree is missing."""
        source, tree = self.source, self.tree
        if self.level >= 0 or not rows.valid.all() or len(source.store.log.findings) > self._num_findings:
            return
        log, num_keys = source.at_node(source.root_oid, tree.paddr), int(rows.num_records[rows.level == 0].sum())
        for what, found, declared in (("keys", num_keys, tree.num_keys), ("nodes", len(rows), tree.num_nodes)):
            if found < declared:
                message = (
                    f"{declared - found:,} {what} are missing: the tree information counts more than the tree holds"
                )
                log.add("count-differs", "error", message, expected=found, found=declared)
            elif found > declared:
                message = f"the tree information counts fewer {what} than the tree holds"
                log.add("count-differs", "warning", message, expected=found, found=declared)
        # The tree information gives the longest key of all levels, but counts only the keys of leaves.
        longest_key = int(rows.longest_key.max(initial=0))
        if longest_key > tree.longest_key:
            message = "a key is longer than the tree information says"
            log.add("count-differs", "warning", message, expected=longest_key, found=tree.longest_key)


def read_levels(source: TreeSource, *, known: NDArray[np.uint64] | None = None) -> Iterator[ReadNodes]:
    """Read a tree from the root down in key order; report unusable nodes as findings, without records.

    Leaves at `known` addresses are skipped if their parents are known too.
    """
    at, above, levels = Descent(source), np.empty(0, np.uint64), list[NodeRows]()
    while len(at.places):
        if known is not None and not at.level and len(above):
            is_new = ~np.isin(above, known)
            at.places = at.places.take(
                ~np.isin(at.places.paddr, known) | is_new[at.places.parent - (at.first - len(above))]
            )
        above = at.places.paddr
        for start in range(0, len(above), BATCH_NODES):
            some = at.places.take(slice(start, start + BATCH_NODES))
            numbers = np.arange(at.first + start, at.first + start + len(some))
            batch = read_batch(at.tree, some, at.level, numbers)
            at.add(batch)
            yield batch
        levels.append(at.go_down())
    if levels and known is None:
        at.compare_counts(join(source.tree, levels))


def walk_tree(
    source: TreeSource,
    take: Callable[[ReadNodes], None] | None = None,
    *,
    pool: Pool | None = None,
    ahead: Ahead | None = None,
) -> Reading[NodeRows]:
    """Read a tree from the root down in passes, and return its nodes; nodes that were read ahead are not read again.

    `take` receives all nodes, in batches of one level, in address order. Without it, nodes in the pool are not read
    again. All nodes are added to the pool, if there is one, for other states of the volume. Findings are added to the
    log at the end, without those that another state already reported, so those of trees that are read together do not
    mix.
    """
    apart, levels = source.apart(), list[NodeRows]()
    at = Descent(apart, pool if take is None else None)

    def add(batch: ReadNodes) -> None:
        at.add(batch)
        if take is not None:
            take(batch)
            if pool is not None:
                pool.add(batch)

    while len(at.places):
        is_new = np.ones(len(at.places), np.bool_) if pool is None else pool.request(at.places, at.level)
        yield list_wants(at, np.flatnonzero(is_new if take is None else np.ones_like(is_new)), add, ahead)
        while (at.pool.find(at.places, at.level) < 0).any():
            # Another state requested some of the nodes, and its pass is still to come.
            yield []
        levels.append(at.go_down())
    if levels:
        at.compare_counts(join(source.tree, levels))
    source.store.absorb(apart.store)
    return join(source.tree, levels)


def list_wants(at: Descent, rows: I64, take: Callable[[ReadNodes], None], ahead: Ahead | None = None) -> list[Want]:
    """List the reads needed for nodes of a level; pass nodes to `take` as they arrive, available ones immediately."""
    tree, places, level, left = at.tree, at.places, at.level, len(rows)
    first, size = at.first, tree.node_bytes

    def add(chosen: I64, data: U8) -> None:
        nonlocal left
        some, left = places.take(chosen), left - len(chosen)
        batch = take_apart(tree, some, level, first + chosen, _decrypt(tree.source, some, data).reshape(-1))
        take(replace(batch, num_after=left))

    is_unread = places.condition[rows] == UNREAD
    unread, rows = rows[is_unread], rows[~is_unread]
    if ahead is not None and ahead.is_of(tree):
        if not level:
            leaves = ahead.find_leaves(at, rows)
            if leaves is not None:
                left -= len(leaves.rows)
                take(leaves)
                rows = np.setdiff1d(rows, leaves.numbers - first, assume_unique=True)
        found, data = ahead.find_others(places, rows)
        if len(found):
            add(found, data)
            rows = np.setdiff1d(rows, found, assume_unique=True)
    if len(unread):
        add(unread, np.zeros((len(unread), size), np.uint8))
    return tree.source.blocks.wants(places.paddr[rows], size, lambda some, data: add(rows[some], data), level)


def _decrypt(source: TreeSource, places: NodeRows, data: U8) -> U8:
    if source.key is None or not places.is_encrypted.any():
        return data
    return source.blocks.decrypt(source.key, data, places.paddr, places.is_encrypted)


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
        self._tree: OpenTree | None = None

    def read(self, source: TreeSource, states: Sequence[OmapView]) -> Reading[None]:
        """Read the nodes of a tree with its records, and the nodes that the tree has only in other states."""
        # The object map records transactions: each node must match its own, whichever state it belongs to.
        apart, blocks = replace(source.apart(), max_xid=NEWEST), source.blocks
        opened = read_root(apart)
        if opened is None or source.view is None or not opened[0].has_headers or not opened[0].level:
            return
        tree, size, omap = opened[0], opened[0].node_bytes, source.view.omap
        rows = np.concatenate([source.view.row, *(view.row for view in states)])
        # Read each address once; the tree itself comes first.
        order = np.argsort(omap.paddr[rows], kind="stable")
        order = order[heads(omap.paddr[rows[order]])]
        order = order[omap.size_bytes[rows[order]] == size]
        order = order[blocks.readable(omap.paddr[rows[order]], size)]
        places, is_own = mapped_nodes(source.tree, omap, rows[order]), order < len(source.view.row)
        own, rest = np.flatnonzero(is_own), np.flatnonzero(~is_own)
        leaves: list[tuple[I64, NodeRows]] = []
        others: list[tuple[I64, U8]] = []
        room = MAX_KEPT_BYTES // size

        def add(numbers: I64, rows: I64, data: U8) -> None:
            nonlocal room
            chosen, to_come = numbers[rows], len(numbers) - 1 - int(rows[-1])
            some = places.take(chosen)
            plain = _decrypt(source, some, data).reshape(-1)
            level = decode_column(BTREE_NODE, plain, np.arange(len(rows), dtype=np.int64) * size, BTREE_NODE.level)
            # Nodes that are marked as unread are not verified.
            some = replace(some, condition=np.where(level > 0, UNREAD, SOUND).astype(np.uint8))
            batch = take_apart(tree, some, 0, chosen, plain)
            is_sound = batch.rows.condition == SOUND
            is_sound[batch.find_disorder()] = False
            if numbers is own:
                is_sound[self._decode(replace(batch, num_after=to_come), len(places))] = False
            leaves.append((chosen[is_sound], batch.rows.take(is_sound)))
            kept = np.flatnonzero(~is_sound)[:room]
            others.append((chosen[kept], data[kept]))
            room -= len(kept)

        yield [want for each in (own, rest) for want in blocks.wants(places.paddr[each], size, partial(add, each))]
        if not leaves:
            return
        self._tree, self._places = tree, places
        numbers, rows_of_leaves = zip(*leaves, strict=True)
        self._leaf, self._rows = _positions(len(places), numbers), join(source.tree, rows_of_leaves)
        numbers, data = zip(*others, strict=True)
        self._other, self._data = _positions(len(places), numbers), np.concatenate(data)

    def is_of(self, tree: OpenTree) -> bool:
        """Return whether the nodes that were read ahead have the same sizes as those of a tree, and headers."""
        own = self._tree
        if own is None or not tree.has_headers:
            return False
        return (tree.node_bytes, tree.entry_bytes) == (own.node_bytes, own.entry_bytes)

    def find_leaves(self, at: Descent, rows: I64) -> ReadNodes | None:
        """Return those of some leaves of a level that were read ahead and are sound; None if there are none."""
        number, is_known = self._find(at.places, rows)
        found = np.flatnonzero(is_known & (self._leaf[number] >= 0))
        number, places = number[found], at.places.take(rows[found])
        # The tree gives their parents and low keys.
        origin = {"parent": places.parent, "omap_leaf": places.omap_leaf, "low_key": places.low_key}
        leaves = replace(self._rows.take(self._leaf[number]), **origin)
        # Records may precede the key in their parent's entry: the tree reports it.
        kept = np.flatnonzero((leaves.first_key >= leaves.low_key) | (leaves.num_records == 0))
        if not len(kept):
            return None
        numbers, is_sound = at.first + rows[found[kept]], np.ones(len(kept), np.bool_)
        no_bytes, no_keys = np.empty(0, np.uint8), np.empty(0, np.uint64)
        own, ahead = leaves.take(kept), number[kept]
        return ReadNodes(at.tree, 0, numbers, own, {}, is_sound, no_bytes, NO_SLOTS, no_keys, ahead=ahead)

    def find_others(self, places: NodeRows, rows: I64) -> tuple[I64, U8]:
        """Return which of some nodes were kept, and their bytes, in the address order of a pass."""
        number, is_known = self._find(places, rows)
        found = np.flatnonzero(is_known & (self._other[number] >= 0))
        found = found[np.argsort(number[found])]
        return rows[found], self._data[self._other[number[found]]]

    def _find(self, places: NodeRows, rows: I64) -> tuple[I64, Mask]:
        known, paddr = self._places, places.paddr[rows]
        number = np.minimum(np.searchsorted(known.paddr, paddr), len(known) - 1)
        is_same = (known.paddr[number] == paddr) & (known.node_id[number] == places.node_id[rows])
        return number, is_same & (known.xid[number] == places.xid[rows])


def _positions(count: int, parts: Sequence[I64]) -> I64:
    """Return the position of each number in the given parts, -1 if it is absent."""
    found, numbers = np.full(count, -1), np.concatenate(parts)
    found[numbers] = np.arange(len(numbers))
    return found


def read_nodes(source: TreeSource) -> tuple[NodeRows, list[ReadNodes]]:
    """Read a whole small tree; return its nodes and the batches of its leaves."""
    batches = list(read_levels(source))
    nodes = join(source.tree, [batch.rows for batch in batches])
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
    columns = GrowingTable(_DTYPES)

    def take(batch: ReadNodes) -> None:
        if not batch.level:
            keys = batch.columns("key", OMAP_KEY, (OMAP_KEY.oid, OMAP_KEY.xid))
            values = batch.columns("val", OMAP_VAL, _VALUE_FIELDS)
            found = {"size_bytes": values.pop(OMAP_VAL.len_object), **keys, **values, "leaf": batch.node}
            columns.add(found, batch.to_come)

    nodes = read_alone(walk_tree(TreeSource(store, tree, tree_oid, max_xid), take))
    found = columns.values
    if not is_ascending(found["leaf"]):
        order = np.argsort(found["leaf"], kind="stable")
        found = {name: values[order] for name, values in found.items()}
    oid, xid = found["oid"], found["xid"]
    if not np.all((oid[1:] > oid[:-1]) | ((oid[1:] == oid[:-1]) & (xid[1:] > xid[:-1]))):
        # The map is damaged, and a finding reports that: without sorting, binary searches would miss objects.
        order = np.lexsort((xid, oid))
        found = {name: values[order] for name, values in found.items()}
    return ObjectMap(nodes, **found)


def level_of_disorder(tree: str) -> Level:
    """Return the severity of unordered keys: in an object map, binary searches miss objects."""
    return "error" if tree in ("omap", "container-omap") else "warning"
