"""Aging of HFS+: a catalog whose nodes stay in place, node numbers that are reused, and clumps added at its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from layoutscope.aging import trees as rec
from layoutscope.aging.layouts import (
    build_filled_layout,
    build_filled_nodes,
    count_nodes,
    fill_leaves,
    place_evenly,
    place_grown,
)
from layoutscope.aging.trees import (
    BALANCED,
    NOWHERE,
    Edits,
    NodeRule,
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
    numbers_of,
    read_data,
    read_entries,
    read_free,
)
from layoutscope.structs.arrays import I64, distinct, find, is_among
from layoutscope.structs.records import (
    CATALOG_FILE,
    CATALOG_FOLDER,
    CATALOG_KEY,
    CATALOG_THREAD,
    NODE_DESCRIPTOR,
    POINTER_RECORD,
)
from layoutscope.tables import NULL_ROW, Table, Values, VolumeLayout, build_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.aging.layouts import FilledLevel
    from layoutscope.aging.trees import NodeTouches
    from layoutscope.aging.volume import Cycle

CATALOG: Final = "catalog"
NODE_HEAD: Final = NODE_DESCRIPTOR.width + 2
"""Bytes of a node's descriptor and of its free-space offset (TN1150, B-Trees)."""
TABLE_ENTRY: Final = 2
SMALLEST_CLUMP_BLOCKS: Final = 256

THREAD: Final = 0
"""Position of a thread record among those of its directory: before all names."""

_UNIT_BYTES: Final = 2
_FIXED_BYTES: Final = CATALOG_KEY.width + TABLE_ENTRY
"""Fixed bytes of every record: its key without the name, and its offset at the end of the node."""

SHORT_INDEX_BYTES: Final = _FIXED_BYTES + POINTER_RECORD.width
INDEX_BYTES: Final = SHORT_INDEX_BYTES + 33
"""Bytes of an index record: for a thread record's key, and for a key with a name."""

LINUX: Final = Policy(
    # fs/hfsplus/brec.c splits a full node in the middle, less two bytes for the offset of each record that stays. Half
    # of the records stay, so this is one byte per record. It removes only empty nodes. bitmap.c takes the first free
    # block.
    split_less=1,
    next_fit=False,
)
MACOS: Final = Policy(
    # Apple's BTreeTreeOps.c moves records to the left neighbour before it splits, and frees a node with its last record
    # (DeleteTree). It does not merge nodes.
    balances=True,
    next_fit=True,
    assumes={"next_fit": "New blocks follow those that were allocated last."},
)
POLICIES: Final = {"linux": LINUX, "macos": MACOS}


@dataclass(kw_only=True)
class HfsPlusVolume(AgingVolume):
    """An HFS+ volume between two cycles; node addresses are byte offsets, since nodes may be smaller than blocks."""

    node_bytes: int  # size of the nodes of the catalog
    spare: I64  # numbers of free nodes, in ascending order
    offset_of: I64  # byte offset of each node, by its number; -1 if unknown
    clump_blocks: int  # growth step of the catalog

    main: ClassVar[str] = CATALOG
    entry_bytes: ClassVar[dict[str, int]] = {CATALOG: 2}
    place_bytes: ClassVar[int] = 1

    def begins(self, ident: I64) -> dict[str, I64]:
        """Return the keys at which listings of directories begin: those of the thread records."""
        return {"listing_node_row": rec.key_of(ident, THREAD)}

    def _write(self, cycle: Cycle) -> None:
        self._place(cycle)
        before = self.trees[CATALOG].join("ident")
        at_once = np.zeros(cycle.num_turns, np.int64)
        self.trees[CATALOG], touched, _ = apply_edits(self.trees[CATALOG], self._edits(cycle), at_once)
        self._number(before, touched)

    def _place(self, cycle: Cycle) -> None:
        """Give files blocks; the blocks of an old file are free when the next file is written."""
        self.data, old = self.data.split_off(cycle.old.ident)
        need = blocks_of(cycle.new.size_bytes, self.block_bytes)
        old_turn = cycle.turn_of(old.ident)
        # Steps of a hundredth of the cycle: single files would be slower with hardly any difference.
        step = max(cycle.num_turns // 100, 1)
        for first in range(0, cycle.num_turns, step):
            mine = np.arange(first, min(first + step, len(need)))
            if len(mine):
                blocks = self._take(int(need[mine].sum()))
                self.data = self.data.with_blocks(np.repeat(cycle.new.ident[mine], need[mine]), blocks)
            self.space.give_back(old.blocks((old_turn >= first) & (old_turn < first + step)))

    def _edits(self, cycle: Cycle) -> Edits:
        """Compute a cycle's changes to the catalog's records, and set the keys of the new entries."""
        new, old, turn = cycle.new, cycle.old, np.arange(len(cycle.new))
        none = np.full(len(new), NOWHERE)
        name = rec.key_of(new.parent, rec.NAME, new.place)
        # A file's name and its record are the same record.
        thread = rec.key_of(new.ident, THREAD)
        new.keys = {"entry": name, "inode": name, "thread": thread, "xattr": none, "dstream": none}
        inserted = join_records(
            # A thread record comes first (cat_create in Apple's hfs_catalog.c).
            (thread, thread_bytes(new.letters), turn),
            (name, catalog_bytes(new.letters, new.is_directory), turn),
        )
        gone = join_records(*((old.keys[part], 0, cycle.old_turn) for part in ("entry", "thread")))
        temporary = cycle.is_replaced
        longer = catalog_bytes(new.letters[temporary] + rec.TEMPORARY_LETTERS, is_directory=False)
        # A name that begins with a full stop precedes the others of its directory.
        begin = rec.key_of(new.parent[temporary], rec.NAME) - 1
        deleted = self.trees[CATALOG].select_records(gone)
        return Edits(inserted, deleted, Records(begin, longer, turn[temporary]))

    def _number(self, before: I64, touched: NodeTouches) -> None:
        """Give new nodes the lowest free numbers in order of appearance, and free the numbers of removed nodes."""
        tree = self.trees[CATALOG]
        ident, block, new = tree.join("ident"), tree.join("block"), tree.list_new_nodes(touched)
        self._grow(len(new))
        ident[new], self.spare = self.spare[: len(new)], self.spare[len(new) :]
        block[new] = self.offset_of[ident[new]]
        freed = before[~is_among(before, ident) & (before >= 0)]
        self.spare = distinct(np.concatenate([self.spare, freed]))
        self.trees[CATALOG] = tree.with_nodes(ident=ident, block=block)

    def _grow(self, wanted: int) -> None:
        """Add clumps to the catalog until it has the wanted number of free nodes."""
        while len(self.spare) < wanted:
            blocks = self.space.take(self.clump_blocks, self.cursor if self.policy.next_fit else 0)
            place = np.arange(self.clump_blocks * self.block_bytes // self.node_bytes) * self.node_bytes
            offset = blocks[place // self.block_bytes] * self.block_bytes + place % self.block_bytes
            number = len(self.offset_of) + np.arange(len(place))
            self.offset_of = np.concatenate([self.offset_of, offset])
            self.spare = np.concatenate([self.spare, number])


def read_hfsplus(layout: VolumeLayout, policy: Policy) -> HfsPlusVolume | None:
    """Build a volume from a layout; return None if its catalog was not read."""
    read = find_tree(layout, CATALOG)
    if read is None:
        return None
    numbers = numbers_of(layout)
    entries = read_entries(layout, numbers)
    name, thread = rec.key_of(entries.parent, rec.NAME, entries.place), rec.key_of(entries.ident, THREAD)
    nodes = layout.columns("nodes")
    node_bytes = int(nodes["size_bytes"].data[read[0][0]])
    rule = NodeRule(
        node_bytes - NODE_HEAD, policy.leaf_keep, policy.merge_share, policy.split_less, balances=policy.balances
    )
    records = {
        "entry": (name, catalog_bytes(entries.letters, entries.is_directory)),
        "inode": (name, None),
        "thread": (thread, thread_bytes(entries.letters)),
    }
    rules = (rule, rule, INDEX_BYTES)
    main_tree = make_main_tree(layout, read, entries, leaves_of(layout, read), records, rules, TABLE_ENTRY)
    offset = nodes["image_offset"].signed() - layout.facts.image_offset
    tree = main_tree.with_nodes(block=offset[np.concatenate(read)])
    # The numbers of free nodes, and the offset of every node.
    mine = np.flatnonzero(nodes["tree"].equals(CATALOG) & nodes["image_offset"].is_known)
    number = nodes["node_id"].signed()[mine]
    offset_of = np.full(int(number.max(initial=-1)) + 1, NOWHERE)
    offset_of[number] = offset[mine]
    spare = np.sort(number[nodes["kind"].equals("free")[mine]])
    block_bytes = layout.facts.block_size_bytes
    clump = int(layout.facts.details.get("catalog clump bytes", 0)) // block_bytes
    data = read_data(layout, numbers)
    return HfsPlusVolume(
        policy=policy,
        block_bytes=block_bytes,
        node_bytes=node_bytes,
        entries=entries,
        data=data,
        space=read_free(layout),
        trees={CATALOG: replace(tree, short_index_bytes=SHORT_INDEX_BYTES)},
        numbers=numbers,
        spare=spare,
        offset_of=offset_of,
        clump_blocks=max(clump, SMALLEST_CLUMP_BLOCKS, node_bytes // block_bytes),
        next_ident=len(numbers),
        cursor=int((data.start + data.count).max(initial=0)),
    )


def catalog_bytes(letters: I64, is_directory: NDArray[np.bool_] | bool) -> I64:
    """Return the bytes of records of files or folders: key, value and offset (TN1150, Catalog File)."""
    return _FIXED_BYTES + _UNIT_BYTES * letters + np.where(is_directory, CATALOG_FOLDER.width, CATALOG_FILE.width)


def thread_bytes(letters: I64) -> I64:
    """Return the bytes of thread records: the name is in the record, not in the key."""
    return _FIXED_BYTES + CATALOG_THREAD.width + _UNIT_BYTES * letters


NODE_BYTES: Final = 8192
"""Node size of the catalogs that newfs_hfs and mkfs.hfsplus make on volumes of 1 GiB or more."""

FILL: Final = 0.47
"""Share of leaves that records take: 0.50 and 0.52 on fresh volumes of 20,000 and 200,000 files, 0.42 and 0.44 on aged.

Insertion in key order leaves nodes half full: a full node is split in two, and nothing is added to the first half.
"""

FANOUT: Final = 60
"""Children of an index node: keys with names of typical length, in nodes that are also half full."""

FIRST_NODE: Final = 1
"""The first node number assigned: the header has 0."""


def split_rule(host: str) -> SplitRule:
    """Return how the driver of a host splits the nodes of a catalog."""
    if host == "linux":
        # fs/hfsplus/brec.c, hfs_bnode_split: records stay until they reach the middle of the node. The middle is
        # counted with the descriptor; two bytes per record of the node and the descriptor are then subtracted again.
        room = NODE_BYTES // 2 - 2 * NODE_DESCRIPTOR.width
        return SplitRule(NODE_BYTES - NODE_HEAD, room, less_per_record=TABLE_ENTRY)
    # BTreeTreeOps.c of Apple's hfs, InsertNode, RotateLeft, SplitLeft: the first records of a full node move to its
    # left neighbour until both hold the same amount. If the new record still does not fit, half of the records move to
    # a new node on the left.
    return SplitRule(NODE_BYTES - NODE_HEAD, BALANCED)


def remade(layout: VolumeLayout) -> VolumeLayout:
    """Put the entries of a volume into a contiguous catalog in key order, filled like the measured catalogs."""
    return _lay_out(layout, None)


def fill_catalogs(layout: VolumeLayout, host: str) -> tuple[VolumeLayout, ...]:
    """Lay entries out as a driver does when it creates them in the order of their numbers."""
    return (_lay_out(layout, split_rule(host)),) if has_names(layout) else ()


def has_names(layout: VolumeLayout) -> bool:
    """Return whether names are known, since they determine the catalog order; hashed names all have the same length."""
    names = layout.columns("entries").texts("name")
    return names.known is None and bool((names.length != names.length[:1]).any())


def _lay_out(layout: VolumeLayout, rule: SplitRule | None) -> VolumeLayout:
    """Put the entries of a volume into a catalog, split by a rule or filled evenly.

    Each entry has a thread record and a file or folder record.
    """
    table = layout.columns("entries")
    table = table.take(_order_by_catalog_key(table, is_of_catalog=layout.facts.filesystem == "hfsplus"))
    is_folder = table["kind"].equals("directory")
    own, parent = table["file_id"].data, table["parent_id"].data
    # A thread has no name: it is the first of the records under one number.
    is_entry = np.repeat(np.array([0, 1], np.uint8), len(own))
    order = np.lexsort((np.tile(np.arange(len(own)), 2), is_entry, np.concatenate([own, parent])))
    letters = table.texts("name").num_chars()
    size = np.concatenate([thread_bytes(letters), catalog_bytes(letters, is_folder)])
    index_bytes = SHORT_INDEX_BYTES + _UNIT_BYTES * np.concatenate([np.zeros_like(letters), letters])
    if rule is None:
        leaf = fill_leaves(size, order, int(NODE_BYTES * FILL))
        levels = place_evenly(count_nodes(int(leaf.max(initial=0)) + 1, FANOUT), FANOUT, FIRST_NODE)
    else:
        leaf, levels = _fill_by_driver(rule, own, order, size, index_bytes)
    columns, number = build_filled_nodes({CATALOG: levels}, FIRST_NODE)
    columns |= {
        "node_id": number,
        "image_offset": layout.facts.image_offset + number * NODE_BYTES,
        "size_bytes": NODE_BYTES,
        "used_bytes": None,
    }
    first_leaf = len(number) - len(levels[0].block)
    thread_row, entry_row = ((part + first_leaf).astype(np.uint32) for part in np.split(leaf, 2))
    counts = np.bincount(np.maximum(find(own, parent), 0), minlength=len(own))
    rows = {
        "entry_node_row": entry_row,
        "inode_node_row": entry_row,
        "thread_node_row": thread_row,
        "listing_node_row": np.where(is_folder, thread_row, NULL_ROW),
        "valence": Values(counts.astype(np.uint32), is_folder),
    }
    return build_filled_layout(layout, table, build_table("nodes", columns), rows, ("hfsplus", "HFS+"))


def _order_by_catalog_key(table: Table, *, is_of_catalog: bool) -> I64:
    """Order the entries as a catalog does: by folder, then in HFS+ order if known, else by name without case.

    Names that agree in their first bytes or have non-ASCII letters may be out of order. They move within a leaf or to
    the next, and the number of leaves is the same.
    """
    if is_of_catalog:
        return np.lexsort((table["entry_rank"].signed(), table["parent_id"].data))
    return table.texts("name").order_by_text(table["parent_id"].data, ignores_case=True)


def _fill_by_driver(
    rule: SplitRule, own: NDArray[np.uint64], order: I64, size: I64, index_bytes: I64
) -> tuple[I64, list[FilledLevel]]:
    """Write the thread and the record of each entry, in the order of their numbers."""
    count = len(own)
    rank = np.empty(2 * count, np.int64)
    rank[order] = np.arange(2 * count)
    made = np.argsort(own, kind="stable")
    written = np.stack([made, made + count], axis=1).ravel()
    none = np.zeros(2 * count, np.int64)
    writes = RecordWrites(rank[written], size[written], none, np.arange(2 * count), none)
    levels = grow_tree(writes, (rule, rule), index_bytes[order])
    born = np.concatenate([level.born for level in levels])
    depth = np.repeat(np.arange(len(levels)), [len(level.born) for level in levels])
    number = np.empty(len(born), np.int64)
    number[np.lexsort((depth, born))] = FIRST_NODE + np.arange(len(born))
    numbers = np.split(number, np.cumsum([len(level.born) for level in levels])[:-1])
    return levels[0].node[rank], place_grown(levels, numbers)
