"""Aging of APFS: three trees whose nodes are rewritten by every transaction that changes them.

The file-system tree holds names, inodes and extents. The object map holds the addresses of its nodes. The extent
references hold the owners of blocks. In all three trees, each changed node moves to another block, and the old block is
free after the transaction.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from layoutscope.aging import trees as rec
from layoutscope.aging.layouts import (
    build_filled_layout,
    build_filled_nodes,
    count_nodes,
    fill_leaves,
    place_evenly,
    place_grown,
    to_rows,
)
from layoutscope.aging.trees import (
    NAME,
    NOWHERE,
    Edits,
    NodeRule,
    NodeTouches,
    Records,
    RecordWrites,
    SplitRule,
    apply_edits,
    grow_tree,
)
from layoutscope.aging.volume import (
    AgingVolume,
    Policy,
    blocks_of,
    find_tree,
    join_records,
    leaves_of,
    make_main_tree,
    make_tree,
    node_blocks,
    numbers_of,
    read_data,
    read_entries,
    read_free,
)
from layoutscope.drivers.apfs import BEFORE
from layoutscope.structs.arrays import I64, distinct, find, is_among
from layoutscope.tables import NULL_ROW, Table, VolumeLayout, build_table
from layoutscope.tables.columns import are_walked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.aging.layouts import FilledLevel
    from layoutscope.aging.trees import AgingTree, GrownLevel
    from layoutscope.aging.volume import AgingEntries, Cycle, CycleWork, Data, TreeRows

INODE: Final = 3
XATTR: Final = 4
SIBLING_LINK: Final = 5
DATA_STREAM: Final = 6
FILE_EXTENT: Final = 8
SIBLING_MAP: Final = 12
"""Types of records in the order of their keys."""

DATA_STREAM_BYTES: Final = 8 + 8 + 4
EXTENT_BYTES: Final = 8 + 16 + 24
SIBLING_MAP_BYTES: Final = 8 + 8 + 8
INDEX_BYTES: Final = 8 + 17 + 8
SHORT_INDEX_BYTES: Final = 8 + 8 + 8
NAME_VALUE_BYTES: Final = 18
CHILD_BYTES: Final = 8
MAP_TABLE_BYTES: Final = 4
MAP_BYTES: Final = MAP_TABLE_BYTES + 16 + 16
MAP_INDEX_BYTES: Final = 4 + 16 + 8
REFERENCE_BYTES: Final = 8 + 8 + 20
REFERENCE_INDEX_BYTES: Final = 8 + 8 + 8


def inode_bytes(letters: I64, has_data: NDArray[np.bool_]) -> I64:
    """Return the bytes of inode records: fixed part, name field, and data-stream field."""
    return 8 + 8 + 92 + 4 + 4 + (letters + 8) // 8 * 8 + np.where(has_data, 4 + 40, 0)


def entry_name_bytes(letters: I64, *, has_sibling: bool | NDArray[np.bool_] = False) -> I64:
    """Return the bytes of directory records; those of hard links include the sibling's id."""
    return 8 + 12 + letters + 1 + NAME_VALUE_BYTES + np.where(has_sibling, 16, 0)


def sibling_link_bytes(letters: I64) -> I64:
    """Return the bytes of records that link an inode to one of its names."""
    return 8 + 16 + 10 + letters + 1


NODES, DATA, REFERENCES = range(3)
"""Kinds of content to which blocks are allocated."""


def new_extents(given: I64, turn: I64, need: I64) -> tuple[I64, I64]:
    """Return the first blocks of new files' extents, and the turns in which they were written."""
    file = np.repeat(np.arange(len(need)), need)
    cuts = (np.diff(file, prepend=-2) != 0) | (np.diff(given, prepend=-2) != 1)
    return given[cuts], turn[file[cuts]]


TREES: Final = ("fs", "omap", "extentref")
CHUNK_BLOCKS: Final = 32768
MAP_RECORDS: Final = 112
"""Records for which an object-map leaf reserves table space, even if it holds fewer (node size 4,096 bytes)."""
NO_KEYS: Final = np.empty(0, np.int64)
NO_FILE: Final = (0.0, 0.0)


@dataclass(kw_only=True)
class ApfsVolume(AgingVolume):
    """An APFS volume between two cycles, with those of the three trees in `TREES` that were read."""

    # next_oid, xid: the next node id, and the last transaction
    next_oid: int
    xid: int
    is_apart: bool  # whether nodes are in separate chunks, after all data
    # share of blocks in the most recently written files that are not contiguous with the previous block
    broken_share: float = 0.0
    held: list[I64] = field(default_factory=list)  # blocks that snapshots hold, one array per cycle
    waiting: list[I64] = field(default_factory=list)  # blocks that are not yet free, one array per transaction
    # blocks freed and written per file in the last cycle
    a_file: tuple[float, float] | None = None

    main: ClassVar[str] = "fs"
    maps: ClassVar[str] = "omap"
    entry_bytes: ClassVar[dict[str, int]] = {"fs": 8, "omap": 4, "extentref": 8}

    def begins(self, ident: I64) -> dict[str, I64]:
        """Return the keys at which listings of directories begin and end; listings run backwards."""
        last = rec.key_of(ident, NAME, rec.MAX_PLACES)
        return {"listing_node_row": last, "listing_end_node_row": rec.key_of(ident, NAME) - 1}

    def unused_table(self, name: str, count: I64) -> I64:
        """Return the unused bytes of nodes' tables for the given numbers of records."""
        if name == "omap":
            return np.maximum(MAP_RECORDS - count, 0) * MAP_TABLE_BYTES
        return -count % 8 * self.entry_bytes[name]

    def change(self, work: CycleWork, rng: np.random.Generator) -> None:
        """Simulate one cycle on some files."""
        if self.policy.queue_blocks and self.a_file is None:
            # A trial cycle shows how many blocks a file takes.
            self.a_file = NO_FILE
            trial = self.copy()
            trial.change(work, deepcopy(rng))
            self.a_file = trial.a_file
        super().change(work, rng)

    def _write(self, cycle: Cycle) -> None:
        # Every operation has two turns: one before the file's data is written, one when the file gets its name.
        batch = np.repeat(np.arange(cycle.num_turns) // self._length(), 2)
        before = self.trees["fs"].join("ident")
        self.trees["fs"], touched, freed = apply_edits(self.trees["fs"], _fs_edits(self, cycle), batch)
        events = [("fs", touched)]
        # Every new node is numbered, so that nodes have ids even if the volume's map was not read.
        edits = self._update_object_map(before, touched)
        if "omap" in self.trees:
            self.trees["omap"], mapped, gone = apply_edits(self.trees["omap"], edits, batch)
            events.append(("omap", mapped))
            freed = np.concatenate([freed, gone])
        self._place(cycle, events, batch, freed)

    def _length(self) -> int:
        """Return the number of files per transaction, limited by the blocks that wait to be freed or written."""
        if not self.policy.queue_blocks or self.a_file is None or self.a_file == NO_FILE:
            return self.policy.files_per_transaction
        freed, written = self.a_file
        queue = self.policy.queue_blocks / (self.policy.waits + 1)
        return max(int(min(queue / max(freed, 1e-9), self.policy.buffer_blocks / max(written, 1e-9))), 1)

    def _update_object_map(self, before: I64, touched: NodeTouches) -> Edits:
        """Number new nodes in the order of their writes, and return the object map's edits for all written nodes."""
        tree, (node, turn) = self.trees["fs"], touched
        ident, new = tree.join("ident"), tree.list_new_nodes(touched)
        ident[new] = self.next_oid + np.arange(len(new))
        self.next_oid += len(new)
        self.trees["fs"] = tree.with_nodes(ident=ident)
        born = np.zeros(len(ident), np.int64)
        born[node[::-1]] = turn[::-1]
        gone = distinct(before[~is_among(before, ident)])
        gone = gone[is_among(gone, self.trees["omap"].key)] if "omap" in self.trees else NO_KEYS
        kept = ~is_among(node, new)
        inserted = Records(ident[new], np.full(len(new), MAP_BYTES), born[new])
        # Records that only change take no more room.
        changed = Records(ident[node[kept]], np.zeros(int(kept.sum()), np.int64), turn[kept])
        none = np.zeros_like(gone)
        return Edits(inserted, Records(gone, none, none), changed)

    def _place(self, cycle: Cycle, events: list[tuple[str, NodeTouches]], batch: I64, freed: I64) -> None:
        """Give blocks to data and nodes, transaction by transaction."""
        self.data, old = self.data.split_off(cycle.old.ident)
        num_extents = len(self.data)
        old_turn = 2 * cycle.turn_of(old.ident) + 1
        need = blocks_of(cycle.new.size_bytes, self.block_bytes)
        holding, num_freed, num_written = [freed], len(freed), int(need.sum())
        edges = np.append(np.flatnonzero(np.diff(batch, prepend=-1)), len(batch))
        for first, stop in zip(edges.tolist(), edges[1:].tolist(), strict=False):
            self.xid += 1
            mine = np.arange(first // 2, min(stop // 2, len(need)))
            going = (old_turn >= first) & (old_turn < stop)
            nodes = [(name, touched.between(first, stop)) for name, touched in events]
            deleted = old.start[going], old_turn[going] - first
            given, replaced = self._write_transaction(nodes, (2 * mine - first, need[mine]), deleted, stop - first)
            self.data = self.data.with_blocks(np.repeat(cycle.new.ident[mine], need[mine]), given)
            released = np.concatenate([replaced, old.blocks(going)])
            num_freed, num_written = num_freed + len(released), num_written + len(replaced)
            if self.keep_cycles:
                holding.append(released)
            else:
                self._free_later(released, self.waiting, self.policy.waits)
        extents = len(self.data) - num_extents
        inside = int(np.maximum(need - 1, 0).sum())
        self.broken_share = (extents - int((need > 0).sum())) / inside if inside else 0.0
        self.a_file = (num_freed / cycle.num_turns, num_written / cycle.num_turns)
        self._free_later(np.concatenate(holding), self.held, self.keep_cycles)

    def _free_later(self, blocks: I64, queue: list[I64], length: int) -> None:
        """Queue released blocks, and free those that were queued first beyond a length."""
        queue.append(blocks)
        while len(queue) > length:
            self.space.give_back(queue.pop(0))

    def _write_transaction(
        self,
        nodes: list[tuple[str, NodeTouches]],  # changed nodes, by tree; turns count from the start of the transaction
        written: tuple[I64, I64],  # turn of each new file's write, and its number of blocks
        deleted: tuple[I64, I64],  # first blocks of deleted extents, and their turns
        turns: int,
    ) -> tuple[I64, I64]:
        """Allocate a transaction's blocks; return the data blocks in file order, and the replaced node blocks."""
        starts = np.cumsum([0] + [len(touched.node) for _, touched in nodes])
        own_turn = np.concatenate([touched.turn for _, touched in nodes])
        (file_turn, need), (gone, gone_turn) = written, deleted
        takes = [(own_turn, np.ones_like(own_turn)), (file_turn, need)]
        if "extentref" in self.trees and not self.policy.at_commit:
            # The tentative data placement determines which references change; their nodes take blocks in between.
            keys, likely_turns = new_extents(self._allocate_in_order(takes, is_try=True)[DATA], *written)
            extra = self._date_reference_changes(
                np.concatenate([keys, gone]), np.concatenate([likely_turns, gone_turn])
            )
            takes.append((extra, np.ones_like(extra)))
        given = self._allocate_in_order(takes)
        replaced = [
            self._move_nodes(name, touched.node, given[NODES][a:b])
            for (name, touched), a, b in zip(nodes, starts, starts[1:], strict=False)
        ]
        references = self._write_references(given[DATA], written, deleted, given[REFERENCES], turns)
        return given[DATA], np.concatenate([*replaced, references])

    def _allocate_in_order(self, takes: Sequence[tuple[I64, I64]], *, is_try: bool = False) -> tuple[I64, I64, I64]:
        """Allocate blocks to nodes, data and references, each given as turns and numbers of blocks."""
        turn, count = (np.concatenate(each) for each in zip(*takes, strict=True))
        kind = np.repeat(np.arange(len(takes)), [len(part) for part, _ in takes])
        # A damaged file may claim any size, so a request that does not fit is refused before it is expanded to blocks.
        self.space.check_room(int(count.sum()))
        # Nodes come before their data and references last; at the end of a transaction, data come first.
        keys = (np.where(kind == DATA, turn, 0), kind != DATA) if self.policy.at_commit else (kind, turn)
        order = np.lexsort(keys)
        kinds = np.repeat(kind[order], count[order])
        blocks = np.empty(len(kinds), np.int64)
        is_data = kinds == DATA
        if self.is_apart:
            blocks[is_data] = self._take(int(is_data.sum()), is_try=is_try)
            blocks[~is_data] = 0 if is_try else self._take_apart(int((~is_data).sum()))
        else:
            blocks[:] = self._take(len(kinds), is_try=is_try)
        own = np.empty(int((kind == NODES).sum()), np.int64)
        own[order[kind[order] == NODES]] = blocks[kinds == NODES]
        return own, blocks[is_data], blocks[kinds == REFERENCES]

    def _date_reference_changes(self, key: I64, turn: I64) -> I64:
        """Return the turn of the first change of each extent-reference node, in ascending order."""
        found = []
        for level in self.trees["extentref"].levels:
            first = np.full(len(level), np.iinfo(np.int64).max)
            np.minimum.at(first, level.node_of(key), turn)
            found.append(first[first < np.iinfo(np.int64).max])
        return np.sort(np.concatenate(found))

    def _move_nodes(self, name: str, node: I64, blocks: I64) -> I64:
        """Move nodes to their new blocks; return their old blocks."""
        tree = self.trees[name]
        block, xid = tree.join("block"), tree.join("xid")
        left = block[node]
        block[node], xid[node] = blocks, self.xid
        self.trees[name] = tree.with_nodes(block=block, xid=xid)
        found: I64 = left[left != NOWHERE]
        return found

    def _write_references(
        self, given: I64, written: tuple[I64, I64], deleted: tuple[I64, I64], spare: I64, turns: int
    ) -> I64:
        """Apply a transaction's changes to the extent references; return the blocks that are free afterwards."""
        tree = self.trees.get("extentref")
        if tree is None:
            return spare
        key, turn = new_extents(given, *written)
        gone, gone_turn = deleted
        there = is_among(gone, tree.key)
        added = Records(key, np.full(len(key), REFERENCE_BYTES), turn)
        removed = Records(gone[there], np.zeros(int(there.sum()), np.int64), gone_turn[there])
        edits = Edits(added, removed, Records(*(NO_KEYS,) * 3))
        self.trees["extentref"], (node, changed), freed = apply_edits(tree, edits, np.zeros(turns, np.int64))
        node = np.sort(node) if self.policy.at_commit else node[np.lexsort((node, changed))]
        more = max(len(node) - len(spare), 0)
        late = self._take_apart(more) if self.is_apart else self._take(more)
        blocks, left = np.concatenate([spare[: len(node)], late]), spare[len(node) :]
        return np.concatenate([self._move_nodes("extentref", node, blocks), freed, left])

    def _take_apart(self, count: int) -> I64:
        """Take blocks in the lowest chunk with nodes; if it has too few, in lower chunks."""
        # New nodes do not have a block yet.
        block = self.trees["fs"].join("block")
        chunk = int(block[block != NOWHERE].min(initial=1 << 60)) // CHUNK_BLOCKS * CHUNK_BLOCKS
        while chunk > 0 and self.space.num_free_from(chunk) < count:
            chunk -= CHUNK_BLOCKS
        return self.space.take(count, max(chunk, 0))


def _fs_edits(volume: ApfsVolume, cycle: Cycle) -> Edits:
    """Compute a cycle's changes to the file-system tree's records, and set the keys of the new entries."""
    new, old = cycle.new, cycle.old
    turn, old_turn = 2 * np.arange(len(new)), 2 * cycle.old_turn + 1
    linked = cycle.is_replaced & volume.policy.leaves_siblings
    new.has_sibling = linked
    none = np.full(len(new), NOWHERE)
    stream, extent = (
        np.where(new.is_file, rec.key_of(new.ident, kind), NOWHERE) for kind in (DATA_STREAM, FILE_EXTENT)
    )
    entry, inode = rec.key_of(new.parent, NAME, new.place), rec.key_of(new.ident, INODE)
    new.keys = {"entry": entry, "inode": inode, "dstream": stream, "thread": none, "xattr": none}
    link, link_map = _sibling_keys(new.ident, linked)
    # The extent records of a file are counted as one; their number follows the latest fragmentation.
    followers = np.maximum(blocks_of(new.size_bytes, volume.block_bytes) - 1, 0)
    extent_bytes = EXTENT_BYTES * (1 + np.rint(followers * volume.broken_share).astype(np.int64))
    inserted = join_records(
        (entry, entry_name_bytes(new.letters, has_sibling=linked), turn + 1),
        (inode, inode_bytes(new.letters, new.is_file), turn),
        (stream, DATA_STREAM_BYTES, turn),
        (extent, extent_bytes, turn),
        (link, sibling_link_bytes(new.letters), turn + 1),
        (link_map, SIBLING_MAP_BYTES, turn + 1),
    )
    gone = join_records(
        *((old.keys[name], 0, old_turn) for name in ("entry", "inode", "dstream", "xattr")),
        (rec.key_of(old.ident, FILE_EXTENT), 0, old_turn),
        *((key, 0, old_turn) for key in _sibling_keys(old.ident, old.has_sibling)),
    )
    temporary = cycle.is_replaced
    longer = entry_name_bytes(new.letters[temporary] + rec.TEMPORARY_LETTERS)
    # Names that were assigned to a leaf are not separate records.
    deleted = volume.trees["fs"].select_records(gone)
    return Edits(inserted, deleted, Records(entry[temporary], longer, turn[temporary]))


def _sibling_keys(ident: I64, linked: NDArray[np.bool_]) -> tuple[I64, I64]:
    """Return the keys of the hard-link records that a rename leaves behind: the sibling link and the sibling map."""
    return (
        np.where(linked, rec.key_of(ident, SIBLING_LINK), NOWHERE),
        np.where(linked, rec.key_of(ident + 2, SIBLING_MAP), NOWHERE),
    )


TABLE_ENTRY: Final = 8
MAP_TABLE_ENTRY: Final = 4
TABLE_SLACK: Final = 8 * 4
"""Bytes of a node's table that are almost never used: the table grows by eight records of eight bytes."""
NODE_HEAD: Final = 56
"""Bytes of a node's headers: object header and node header (Apple File System Reference, btree_node_phys)."""


def read_apfs(layout: VolumeLayout, policy: Policy) -> ApfsVolume | None:
    """Build a volume from a layout; return None if its tree was not read or is on several devices."""
    read = {name: found for name in TREES if (found := find_tree(layout, name)) is not None}
    if "fs" not in read:
        return None
    numbers = numbers_of(layout)
    entries = read_entries(layout, numbers)
    data = read_data(layout, numbers)
    leaf = leaves_of(layout, read["fs"])
    nodes = layout.columns("nodes")
    room = int(nodes["size_bytes"].data[read["fs"][0][0]]) - NODE_HEAD
    trees = {"fs": _fs_tree(layout, policy, read["fs"], entries, leaf, room)}
    rule = NodeRule(room, policy.map_keep, policy.merge_share, by_count=policy.split_by_count)
    if "omap" in read:
        trees["omap"] = _map_tree(layout, trees["fs"], read["omap"], rule)
    if "extentref" in read:
        trees["extentref"] = _reference_tree(layout, data, read["extentref"], rule)
    space = read_free(layout)
    space.pin(_find_snapshot_blocks(layout, read, data, entries.ident, leaf["inode"]))
    blocks = node_blocks(layout, np.concatenate(read["fs"]))
    known = data.start[data.ident != NOWHERE]
    return ApfsVolume(
        policy=policy,
        block_bytes=layout.facts.block_size_bytes,
        entries=entries,
        data=data,
        space=space,
        trees=trees,
        numbers=numbers,
        next_ident=len(numbers),
        next_oid=int(nodes["node_id"].signed().max(initial=0)) + 1,
        xid=int(nodes["xid"].signed().max(initial=0)),
        is_apart=_are_apart(blocks, known),
        cursor=int(max(blocks.max(), known.max(initial=0))) + 1,
    )


def _are_apart(nodes: I64, data: I64) -> bool:
    return len(data) > 0 and bool(np.quantile(nodes, 0.1) > np.quantile(data, 0.9))


def lies_apart(layout: VolumeLayout) -> bool:
    """Return whether the nodes of a volume are located after all data."""
    read = find_tree(layout, "fs")
    data = read_data(layout, numbers_of(layout))
    return read is not None and _are_apart(node_blocks(layout, np.concatenate(read)), data.start[data.ident != NOWHERE])


def _find_snapshot_blocks(layout: VolumeLayout, read: dict[str, TreeRows], data: Data, ident: I64, leaf: I64) -> I64:
    """Return the blocks that snapshots also hold, which are not freed when they are replaced.

    A snapshot holds everything written up to the time it was made. These are nodes, by their transactions, and the data
    of files whose inodes are in such leaves. For files in other leaves it is unknown.
    """
    nodes = layout.columns("nodes")
    xid = nodes["xid"].signed()
    made = nodes["tree"].equals("omap-snapshots") & nodes["state"].equals("live")
    if not layout.facts.details.get("snapshots") or not made.any():
        return np.empty(0, np.int64)
    last = int(xid[made].max())
    held = []
    for tree in ("fs", "extentref"):
        if tree in read:
            rows = np.concatenate(read[tree])
            held.append(node_blocks(layout, rows)[(xid[rows] > 0) & (xid[rows] <= last)])
    there = leaf >= 0
    old = (xid[read["fs"][0]] <= last)[leaf[there]]
    files = is_among(data.ident, ident[there][old]) & (data.ident != NOWHERE)
    held.append(data.blocks(files))
    return np.concatenate(held)


def _fs_tree(
    layout: VolumeLayout, policy: Policy, read: TreeRows, entries: AgingEntries, leaf: dict[str, I64], room: int
) -> AgingTree:
    has_data = leaf["dstream"] >= 0
    records: dict[str, tuple[I64, I64 | int | None]] = {
        "entry": (
            rec.key_of(entries.parent, NAME, entries.place),
            entry_name_bytes(entries.letters, has_sibling=entries.has_sibling),
        ),
        "inode": (rec.key_of(entries.ident, INODE), inode_bytes(entries.letters, has_data)),
        "dstream": (rec.key_of(entries.ident, DATA_STREAM), DATA_STREAM_BYTES),
        "xattr": (rec.key_of(entries.ident, XATTR), DATA_STREAM_BYTES),
    }
    # All extents of a file are modelled as one record, so that shares refer to bytes.
    extent_key = np.where(has_data & entries.is_file, rec.key_of(entries.ident, FILE_EXTENT), NOWHERE)
    leaf_rule, index_rule = (
        NodeRule(room - TABLE_SLACK, keep, policy.merge_share) for keep in (policy.leaf_keep, policy.index_keep)
    )
    extents = extent_key, EXTENT_BYTES, leaf["dstream"]
    return make_main_tree(
        layout, read, entries, leaf, records, (leaf_rule, index_rule, INDEX_BYTES), TABLE_ENTRY, extents
    )


def _map_tree(layout: VolumeLayout, mapped: AgingTree, read: TreeRows, rule: NodeRule) -> AgingTree:
    """Build the object map: one record per node, in the leaf that maps it."""
    nodes = layout.columns("nodes")
    live = nodes["tree"].equals("fs") & nodes["state"].equals("live") & nodes["level"].is_known & are_walked(nodes)
    leaf, key = (
        find(nodes["row"].signed()[read[0]], nodes["locator_row"].signed()[live]),
        nodes["node_id"].signed()[live],
    )
    known = (leaf >= 0) & is_among(key, mapped.join("ident"))
    records = (key[known], np.full(int(known.sum()), MAP_BYTES), leaf[known])
    return make_tree(layout, read, records, (rule, rule, MAP_INDEX_BYTES), MAP_TABLE_ENTRY)


def _reference_tree(layout: VolumeLayout, data: Data, read: TreeRows, rule: NodeRule) -> AgingTree:
    """Build the extent-reference tree: one record per extent, in the last leaf that does not begin after it."""
    key = distinct(data.start)
    first = layout.columns("nodes")["first_key_id"].signed()[read[0]]
    leaf = np.maximum(np.searchsorted(first, key, side="right") - 1, 0)
    records = (key, np.full(len(key), REFERENCE_BYTES), leaf)
    return make_tree(layout, read, records, (rule, rule, REFERENCE_INDEX_BYTES), TABLE_ENTRY)


NODE_BYTES: Final = 4096

LEAF_BYTES: Final = 2541
"""Bytes of records and their table-of-contents entries per leaf: 6,083,136 bytes in 2,394 leaves, fresh."""

NAME_BYTES: Final = 46
"""Bytes of a directory record without its name: key, value, terminator, entry in the table of contents."""

OWN_BYTES: Final = 208
"""Bytes of an entry's other records: inode, data stream, extents."""

FANOUT: Final = 73
MAP_FANOUT: Final = 56
"""Children of an index node, and nodes mapped by an object-map leaf; measured on the same volume."""


def remade(layout: VolumeLayout) -> VolumeLayout:
    """Put the entries of a volume into trees filled like measured ones, with contiguous nodes in key order."""
    table = sort_by_name(layout)
    own, parent = table["file_id"].data, table["parent_id"].data
    # A file with several names has one inode, which is created with the first name.
    first = find(own, own)
    is_own = first == np.arange(len(own))
    is_name = np.repeat(np.array([0, 1], np.uint8), len(own))
    order = np.lexsort((np.tile(np.arange(len(own)), 2), is_name, np.concatenate([own, parent])))
    size = np.concatenate([OWN_BYTES * is_own, NAME_BYTES + table.texts("name").num_chars()])
    leaf = fill_leaves(size, order, LEAF_BYTES)
    widths = count_nodes(int(leaf.max(initial=0)) + 1, FANOUT)
    map_widths = count_nodes(-(-sum(widths) // MAP_FANOUT), FANOUT)
    # Node ids are assigned as nodes are created, here level by level, so a map leaf holds consecutive ids.
    before = np.cumsum(widths[::-1])[::-1] - widths
    map_leaf = [(start + np.arange(width)) // MAP_FANOUT for start, width in zip(before, widths, strict=True)]
    tree, maps = place_evenly(widths, FANOUT, sum(map_widths)), place_evenly(map_widths, FANOUT, 0)
    return _lay_out(layout, table, (leaf[: len(own)][first], leaf[len(own) :]), tree, maps, map_leaf)


def sort_by_name(layout: VolumeLayout) -> Table:
    """Return the entries of a volume in the key order of their names."""
    table = layout.columns("entries")
    rank: I64 = table["entry_rank"].signed()
    if layout.facts.filesystem != "apfs":
        # APFS lists names by hash, so any order unrelated to names is equivalent.
        # Knuth's multiplicative hash (The Art of Computer Programming 3, 6.4) scatters entries sorted by name.
        rank = rank * 2_654_435_761 % 2**32
    return table.take(np.lexsort((rank, table["parent_id"].data)))


def _lay_out(
    layout: VolumeLayout,
    table: Table,
    leaves: tuple[I64, I64],  # leaves of the inode and the name of each entry
    tree: Sequence[FilledLevel],
    maps: Sequence[FilledLevel],
    map_leaf: Sequence[I64],  # for each level of the tree, the object-map leaves that map its nodes
) -> VolumeLayout:
    """Build a layout from the entries of a volume, a tree filled with them, and the object map of its nodes."""
    columns, block = build_filled_nodes({"omap": maps, "fs": tree})
    num_maps = sum(len(level.block) for level in maps)
    locator = num_maps - len(maps[0].block) + np.concatenate(map_leaf[::-1])
    columns |= {
        "node_id": np.arange(len(block)),
        "image_offset": layout.facts.image_offset + block * NODE_BYTES,
        "size_bytes": NODE_BYTES,
        "used_bytes": LEAF_BYTES,
        "locator_row": to_rows(np.concatenate([np.full(num_maps, NOWHERE), locator])),
    }
    first_leaf = len(block) - len(tree[0].block)
    inode_row, name_row = ((leaf + first_leaf).astype(np.uint32) for leaf in leaves)
    is_folder = table["kind"].equals("directory")
    has_data = table["kind"].equals("file") & (table["size_bytes"].filled(0) > 0)
    # A listing begins at a directory's last name, or at its inode if it is empty.
    own, parent = table["file_id"].data, table["parent_id"].data
    last = np.searchsorted(parent, own, side="right") - 1
    has_names = (last >= 0) & (parent[np.maximum(last, 0)] == own)
    rows: dict[str, Any] = {
        "entry_node_row": name_row,
        "inode_node_row": inode_row,
        "dstream_node_row": np.where(has_data, inode_row, NULL_ROW),
        "listing_node_row": np.where(
            is_folder, np.where(has_names, name_row[np.maximum(last, 0)], inode_row), NULL_ROW
        ),
        # A directory's names come after its inode, so a backward listing ends at the inode.
        "listing_end_node_row": np.where(is_folder, inode_row, NULL_ROW),
    }
    return build_filled_layout(layout, table, build_table("nodes", columns), rows, ("apfs", "APFS"))


MAX_STARTS: Final = 65_536
"""Calls that create a file or write a page, after which a transaction ends (``TRANSACTION_STARTS_MAX``)."""

KEY_AND_TABLE: Final = 8 + 8
"""Bytes of an inode record besides its value: its key, and its entry in the table of contents."""

RULE: Final = SplitRule(NODE_BYTES - NODE_HEAD, stays_at_cut=True)


def copies_by_linux(
    layout: VolumeLayout,
    # whether a node is compacted before it is split; several values if unknown
    joins_pieces: Sequence[bool],
) -> tuple[VolumeLayout, ...]:
    """Lay entries out as a Linux driver does when it creates them in the order of their numbers."""
    is_apart = lies_apart(layout) if layout.facts.filesystem == "apfs" else None
    ways = [(joins, bool(is_apart)) for joins in joins_pieces]
    if is_apart is None:
        ways.append((joins_pieces[0], True))
    table = sort_by_name(layout)
    writes, index_bytes, places, data = _list_writes(table)
    grown = {}
    for joins in joins_pieces:
        own = writes._replace(lost=np.zeros_like(writes.lost)) if joins else writes
        tree = grow_tree(own, (RULE, RULE), index_bytes)
        grown[joins] = tree, *_map_nodes(tree)
    num_blocks = layout.facts.size_bytes // NODE_BYTES
    made = []
    for joins, apart in ways:
        tree, maps, map_leaf = grown[joins]
        blocks = _find_last_blocks([*tree, *maps], None if apart else data, num_blocks)
        leaves = tree[0].node[places[0]], tree[0].node[places[1]]
        levels, map_levels = place_grown(tree, blocks[: len(tree)]), place_grown(maps, blocks[len(tree) :])
        made.append(_lay_out(layout, table, leaves, levels, map_levels, map_leaf))
    return tuple(made)


def _list_writes(table: Table) -> tuple[RecordWrites, I64, tuple[I64, I64], tuple[I64, I64]]:
    """List the writes, in time order, of a driver that leaves free space fragmented.

    Return the writes, the bytes of records in index nodes, the positions of inodes and names in key order, and the
    numbers of data blocks with the writes that they follow.
    """
    own, letters = table["file_id"].data, table.texts("name").num_chars()
    first = find(own, own)
    # A file with several names has one inode, which is created with the first name.
    is_own = first == np.arange(len(own))
    size = np.where(table["kind"].equals("file") & is_own, table["size_bytes"].filled(0).astype(np.int64), 0)
    need = -(-size // NODE_BYTES)
    (inode, stream, extent, name), order = _ranks(own, table["parent_id"].data, is_own, size > 0)
    every, files = np.flatnonzero(is_own), np.flatnonzero(size > 0)
    plain = inode_bytes(letters, np.zeros(len(letters), bool))
    grows = (inode_bytes(letters, size > 0) - plain)[files]
    # Each step has the entries, the record, its growth, and the fragment left behind. The inode, the name and the
    # stream are written first, with the contents. The extents, and the inode again, follow when the transaction ends.
    steps: list[tuple[I64, I64, I64 | int, I64 | int]] = [
        (every, inode[every], plain[every], 0),
        (np.arange(len(own)), name, entry_name_bytes(letters), 0),
        (files, stream[files], DATA_STREAM_BYTES, 0),
        (files, extent[files], EXTENT_BYTES, 0),
        (files, inode[files], grows, plain[files] - KEY_AND_TABLE),
    ]
    who, record, more, lost = np.concatenate([np.stack(np.broadcast_arrays(*step)) for step in steps], axis=1)
    number = np.repeat(np.arange(len(steps)), [len(step[0]) for step in steps])
    turn = np.empty(len(own), np.int64)
    turn[np.argsort(own, kind="stable")] = np.arange(len(own))
    batch = np.cumsum((1 + need)[np.argsort(turn)])[turn] // MAX_STARTS
    is_late = number > STREAM
    # At that point the last entry is written first. The last transaction ends with a write-out by the system, which
    # starts with the first inode.
    is_backwards = is_late & (batch[who] < batch.max(initial=0))
    time = np.lexsort((number, np.where(is_backwards, -turn[who], turn[who]), is_late, batch[who]))
    writing = np.flatnonzero(number[time] == STREAM)
    named = entry_name_bytes(letters) - NAME_VALUE_BYTES + CHILD_BYTES
    index_bytes = np.concatenate([np.full(3 * len(own), SHORT_INDEX_BYTES), named])
    writes = RecordWrites(record[time], more[time], lost[time], np.arange(len(time)), batch[who][time])
    return writes, index_bytes[order], (inode[first], name), (need[who[time][writing]], writing)


STREAM: Final = 2
"""Index of the data-stream record among the writes of an entry."""


def _ranks(
    own: NDArray[np.uint64], parent: NDArray[np.uint64], is_own: NDArray[np.bool_], has_data: NDArray[np.bool_]
) -> tuple[I64, I64]:
    """Return the positions of inodes, data streams, extents and names in key order, and the records in that order."""
    number = np.concatenate([own, own, own, parent])
    kind = np.repeat([INODE, DATA_STREAM, FILE_EXTENT, NAME], len(own))
    order = np.lexsort((np.tile(np.arange(len(own)), 4), kind, number))
    there = np.concatenate([is_own, has_data, has_data, np.ones(len(own), bool)])
    order = order[there[order]]
    rank = np.full(len(number), NOWHERE)
    rank[order] = np.arange(len(order))
    return rank.reshape(4, -1), order


def _list_takes(levels: Sequence[GrownLevel]) -> tuple[I64, I64, I64, I64]:
    """List allocations of node blocks in time order: level, index in it, time, transaction."""
    level = np.repeat(np.arange(len(levels)), [len(each.taken_by) for each in levels])
    node, when, batch = (
        np.concatenate([getattr(each, name) for each in levels]) for name in ("taken_by", "taken_at", "taken_in")
    )
    order = np.lexsort((level, when))
    return level[order], node[order], when[order], batch[order]


def _map_nodes(tree: Sequence[GrownLevel]) -> tuple[list[GrownLevel], list[I64]]:
    """Number the tree's nodes in the order of allocation, and build an object map of all allocated nodes."""
    level, place, when, batch = _list_takes(tree)
    starts = np.cumsum([0] + [len(each.born) for each in tree])
    node = starts[level] + place
    _, first, own = np.unique(node, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    more = np.zeros(len(node), np.int64)
    more[first] = MAP_BYTES
    writes = RecordWrites(number[own], more, np.zeros_like(more), when, batch)
    maps = grow_tree(writes, (RULE, RULE), np.full(len(number), MAP_INDEX_BYTES))
    return maps, np.split(maps[0].node[number], starts[1:-1])


def _find_last_blocks(
    levels: Sequence[GrownLevel],
    data: tuple[I64, I64] | None,  # from `_list_writes`; None if nodes get blocks from the end of the disk
    num_blocks: int,
) -> list[I64]:
    """Return the final block of each node of all levels: that of its last write."""
    level, node, when, _ = _list_takes(levels)
    block = np.arange(len(when))
    if data is None:
        # Chunks are used from the last one down, each from its start.
        block = (num_blocks // CHUNK_BLOCKS - 1 - block // CHUNK_BLOCKS) * CHUNK_BLOCKS + block % CHUNK_BLOCKS
    else:
        counts, after = data
        block = block + np.concatenate([[0], np.cumsum(counts)])[np.searchsorted(after, when)]
    block = np.clip(block, 0, num_blocks - 1)
    placed = [np.zeros(len(each.born), np.int64) for each in levels]
    for number, each in enumerate(placed):
        mine = level == number
        # A node keeps the last of several blocks.
        each[node[mine]] = block[mine]
    return placed


LINUX: Final = Policy(
    # linux-apfs-rw (node.c) moves half of the records of a full node to a new one.
    split_by_count=True,
    next_fit=False,
    # Its constants, since 0.3.12: numbers of blocks waiting to be freed, or written, that end a transaction.
    queue_blocks=10_000,
    buffer_blocks=65_536,
    # It ends earlier if nothing is written for a tenth of a second.
    length_spread=1.25,
    # The inode of the temporary file, and a sibling for each of its two names.
    ids_per_file=3,
    leaves_siblings=True,
    assumes={
        "queue_blocks": "A transaction ends when 10,000 blocks wait to be freed, as the Linux driver's do since 0.3.12."
    },
)
# Before that version, 4,096 blocks of the last five transactions waited together.
LINUX_BEFORE: Final = replace(
    LINUX,
    queue_blocks=4096,
    waits=4,
    assumes={
        "queue_blocks": "A transaction ends when 4,096 blocks of five wait to be freed, as the Linux driver's did up "
        "to 0.3.9."
    },
)

MACOS: Final = Policy(
    leaf_keep=0.86,
    index_keep=0.86,
    map_keep=0.86,
    merge_share=0.5,
    next_fit=True,
    at_commit=True,
    length_spread=2.0,
    assumes={
        "files_per_transaction": "A transaction writes 1,000 files; lengths are drawn within a factor of two.",
        "at_commit": "Nodes are written at the end of a transaction, in the order of their keys.",
        "next_fit": "New blocks follow those that were allocated last.",
        "merge_share": "Neighbours that fill half a node together are merged.",
    },
)

POLICIES: Final = {"linux": LINUX, "macos": MACOS}


def policy_of(layout: VolumeLayout, host: str) -> Policy:
    """Return the policy of a host's driver, in the version that last wrote the volume, if known."""
    if host == "linux" and BEFORE in str(layout.facts.details.get("modified by", "")).partition("(xid")[0]:
        return LINUX_BEFORE
    return POLICIES[host]
