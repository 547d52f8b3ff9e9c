"""The subject of a check: all data read from a volume, and all records of its trees with their places.

TN1150, "Extents Overflow File" and "Hot Files".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec import field
from msgspec.structs import astuple

from layoutscope.checks.engine import Table
from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus import names
from layoutscope.filesystems.hfsplus.attributes import COMPRESSION_ATTRIBUTE, DECMPFS, EXTENT_FIELDS, FORK, INLINE, KEY
from layoutscope.filesystems.hfsplus.btree import read_batches
from layoutscope.filesystems.hfsplus.catalog import FILE, FOLDER, THREAD
from layoutscope.filesystems.hfsplus.contents import OVERFLOW_FIELDS
from layoutscope.filesystems.hfsplus.forks import locate_byte
from layoutscope.filesystems.hfsplus.keys import Keys, read_keys
from layoutscope.filesystems.hfsplus.nodes import DESCRIPTOR, FORMS, INDEX, LENGTH_BYTES, OFFSET_BYTES, record_bounds
from layoutscope.filesystems.hfsplus.tree import Tree, is_case_sensitive
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import GrowingColumn, GrowingTable, concatenate, heads, signed, starts_of
from layoutscope.structs.bulk import decode_column, decode_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.contents import Contents
    from layoutscope.filesystems.hfsplus.nodes import Bounds, ReadNodes, RecordForm
    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.arrays import I64, U8, Columns, Mask
    from layoutscope.structs.recordtypes import RecordColumn, RecordType

    # Tables decoded from leaves, by name.
    Leaves = dict[str, Columns]
    # Takes the bytes of nodes, the columns of their records, and the number of rows before these.
    Decoder = Callable[[U8, Columns, int], Leaves]


ROW_COLUMNS: Final = ("node", "level", "key", "data", "child")
OFFSET_FLAW, COUNT_FLAW, KEY_FLAW, NAME_FLAW = range(4)


class TreeRecords(Struct, frozen=True):
    """All sound records of a tree, leaves first, each level in the order of its nodes."""

    volume: Volume
    tree: Tree
    # `node, level` (0 at the leaf), `key, data` in bytes from the start of the tree's file, `child` (0 in leaves)
    rows: Columns
    keys: Keys  # their keys
    flaws: Columns  # `at, node, kind` of impossible offsets, counts and keys
    # tables decoded from the leaves in key order, by name; "" has a row per record. If all records have one type, this
    # table has none of those that are too short, and a column `row`, the position among all rows of the tree.
    leaves: Leaves

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.leaves[""][name]

    def __len__(self) -> int:
        return len(next(iter(self.leaves[""].values())))

    @property
    def name(self) -> str:
        """Name of the tree."""
        return self.tree.file.tree

    def at(self, place: int) -> FindingLog:
        """Bind the log to a byte offset in the tree's file; the structure is the node that contains it."""
        file = self.tree.file
        offset = locate_byte(self.volume, file.fork, place)
        return self.volume.log.at(f"{self.name} node {place // file.node_size_bytes}", offset)

    def locate(self, part: str, plus: int = 0) -> Callable[[int, str], FindingLog]:
        """Bind the log to a byte of the key or data of a row."""
        return lambda row, _: self.at(int(self.rows[part][row]) + plus)

    def leaf_field(self, record: int, path: str) -> FindingLog:
        """Bind the log to a field of a record in a leaf; ``#`` and a number after the name select an extent."""
        form = FORMS[self.name]
        # Trees with records of several types have a leaf record per row of their table.
        row = int(self["row"][record] if form.leaf else record)
        part, record_type = "key", form.leaf or form.key_type
        if not form.leaf and not path.startswith("key."):
            part, record_type = "data", form.values.get(int(self["kind"][record]), form.start)
        name, _, item = path.partition("#")
        own = name.removeprefix("key.") if record_type is form.key_type else name
        plus = record_type.offset_of(own) + int(item or 0) * records.HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width
        return self.at(int(self.rows[part][row]) + plus).within(self.path(row, path))

    def path(self, row: int, field: str) -> str:
        """Return the path of a field of a record in its node."""
        node, first = self.rows["node"], row
        while first and node[first - 1] == node[row]:
            first -= 1
        name, _, item = field.partition("#")
        return f"record {row - first}/{name}[{item}]" if item else f"record {row - first}/{name}"


def read_records(volume: Volume, tree: Tree, decode: Decoder) -> TreeRecords:
    """Read all reachable nodes of a tree, level by level, and decode the leaves in batches."""
    form = FORMS[tree.file.tree]
    rows = GrowingTable(dict.fromkeys(ROW_COLUMNS, np.int64))
    keys, units = GrowingTable({"ident": np.int64, "count": np.int64}), GrowingColumn(np.uint16)
    flaws: list[Columns] = []
    none = np.empty(0, np.int64)
    # Without leaves, the tables still have their columns.
    nothing = decode(np.empty(0, np.uint8), dict.fromkeys((*ROW_COLUMNS, "stop", "shift"), none), 0)
    leaves = {name: GrowingTable() for name in nothing}
    for level, numbers in list_levels(tree):
        for nodes in read_batches(volume, tree.file, numbers):
            first = len(rows)
            batch, own = _locate_records(tree, nodes, level, flaws)
            rows.add(batch, nodes.to_come)
            keys.add({"ident": own.ident, "count": own.count}, nodes.to_come)
            units.add(own.units, nodes.to_come)
            for name, table in decode(nodes.buffer, batch, first).items() if level == 0 else ():
                leaves[name].add(table, nodes.to_come)
    count = keys.values["count"]
    # Names of attributes compare exactly on all volumes (hfs_xattr.c, `hfs_attrkeycompare`): only catalogs fold case.
    is_folded = form.has_name and not form.tail and not is_case_sensitive(volume, tree)
    return TreeRecords(
        volume,
        tree,
        rows.values,
        Keys(keys.values["ident"], units.values, starts_of(count), count, is_folded),
        concatenate(flaws, dict.fromkeys(("at", "node", "kind"), none)),
        {name: table.values or nothing[name] for name, table in leaves.items()},
    )


def list_levels(tree: Tree) -> Iterator[tuple[int, I64]]:
    """Yield each level with the numbers of its nodes, in key order."""
    yield 0, tree.reach.leaves
    reached = np.flatnonzero((tree.nodes.key_rank >= 0) & (tree.nodes.kind == INDEX))
    for level in sorted(set((tree.nodes.height[reached] - 1).tolist())):
        chosen = reached[tree.nodes.height[reached] - 1 == level]
        yield level, chosen[np.argsort(tree.nodes.key_rank[chosen], kind="stable")]


def _locate_records(tree: Tree, nodes: ReadNodes, level: int, flaws: list[Columns]) -> tuple[Columns, Keys]:
    """Locate the sound records of nodes with their keys as stored, and add impossible ones to the flaws."""
    form = FORMS[tree.file.tree]
    bounds = record_bounds(nodes)
    shift = nodes.number * nodes.node_size_bytes - nodes.start
    flaws.append(_find_offset_flaws(form, nodes, bounds, shift))
    sound = bounds.is_sound
    node = bounds.node[sound]
    key = nodes.start[node] + bounds.first[sound]
    stop = nodes.start[node] + bounds.stop[sound]
    length = decode_column(records.KEY_HEADER, nodes.buffer, key, records.KEY_HEADER.len_key)
    key_length = length.astype(np.int64)
    # The length in a key is that of its used part. In index nodes, a key may take the space of the longest, depending
    # on the attributes in the tree header. Data starts at an even offset (TN1150, "Keyed Records").
    stored = key_length
    if level and not tree.file.header.has_variable_index_keys:
        stored = np.full(len(key), int(tree.file.header.len_key_max))
    data = key + LENGTH_BYTES + stored + stored % 2
    flaw = _find_key_flaws(form, nodes.buffer, (key, key_length, data, stop), level)
    name_offset = form.key_type.offset_of("num_name_units") if form.has_name else 0
    at = key + np.where(flaw == NAME_FLAW, name_offset, 0) + shift[node]
    whole = flaw < 0
    flaws.append({"at": at[~whole], "node": nodes.number[node[~whole]], "kind": flaw[~whole]})
    node, key, data, stop = (values[whole] for values in (node, key, data, stop))
    child, own_shift = np.zeros(len(node), np.int64), shift[node]
    if level:
        pointer = records.POINTER_RECORD
        child = decode_column(pointer, nodes.buffer, data, pointer.child_node).astype(np.int64)
    rows = {
        "node": nodes.number[node],
        "level": np.full(len(node), level, np.int64),
        "child": child,
        "key": key + own_shift,
        "data": data + own_shift,
        "stop": stop + own_shift,
        "shift": own_shift,
    }
    return rows, read_keys(form, nodes.buffer, key)


def _find_offset_flaws(form: RecordForm, nodes: ReadNodes, bounds: Bounds, shift: I64) -> Columns:
    """Find the first impossible entry of each offset table.

    The first record follows the descriptor, records are contiguous, and the free space follows the last one.
    """
    node, slot = bounds.node, bounds.slot
    # The offset table grows from the end of the node, and has one more entry than there are records: the free space.
    bad_start = (slot == 0) & (bounds.first != DESCRIPTOR.width)
    bad_stop = (bounds.stop < bounds.first + LENGTH_BYTES) | (bounds.stop > bounds.limit[node]) | (bounds.stop % 2 != 0)
    entry = np.where(bad_start, 0, slot + 1)
    # If the start is after the end, and after the end of the next record as well, the start is wrong.
    following = np.append(bounds.stop[1:], 0)
    is_moved = (bounds.stop < bounds.first + LENGTH_BYTES) & (slot > 0) & (bounds.counts[node] > slot + 1)
    entry = np.where(~bad_start & is_moved & (following > bounds.stop) & (bounds.first > following), slot, entry)
    rows = np.flatnonzero(bad_start | bad_stop)
    rows = rows[heads(node[rows])]
    owner = node[rows]
    at = nodes.start[owner] + nodes.node_size_bytes - OFFSET_BYTES * (entry[rows] + 1)
    # If the count is one too high, only the last entry of the table is wrong, and the last record starts at the free
    # space, which is usually zeros.
    last = nodes.start[owner] + np.clip(bounds.first[rows], 0, nodes.node_size_bytes - LENGTH_BYTES)
    length = decode_column(records.KEY_HEADER, nodes.buffer, last, records.KEY_HEADER.len_key).astype(np.int64)
    has_key = (length >= form.fixed_length) & (length <= (form.max_length or form.fixed_length))
    is_count = (entry[rows] == bounds.counts[owner]) & (bounds.counts[owner] > 1) & ~has_key
    count_at = nodes.start[owner] + DESCRIPTOR.num_records.offset
    at, kind = np.where(is_count, count_at, at), np.where(is_count, COUNT_FLAW, OFFSET_FLAW)
    overfull = np.flatnonzero(bounds.is_overfull)
    is_single = ~bounds.is_overfull[owner]
    place = np.concatenate([at[is_single], nodes.start[overfull] + DESCRIPTOR.num_records.offset])
    owner = np.concatenate([owner[is_single], overfull])
    kinds = np.concatenate([kind[is_single], np.full(len(overfull), COUNT_FLAW, np.int64)])
    return {"at": place + shift[owner], "node": nodes.number[owner], "kind": kinds}


def _find_key_flaws(form: RecordForm, buffer: U8, places: tuple[I64, I64, I64, I64], level: int) -> I64:
    """Return the flaw of each key, -1 without one; places are key, length of the key, data, and end of the record."""
    key, length, data, stop = places
    flaw = np.full(len(key), -1, np.int64)
    limit = form.max_length if form.max_length is not None else form.fixed_length
    need = records.POINTER_RECORD.width if level else 0
    bad = (length < form.fixed_length) | (length > limit) | (data + need > stop)
    flaw[bad] = KEY_FLAW
    if form.has_name:
        rows = np.flatnonzero(~bad)
        units = decode_column(form.key_type, buffer, key[rows], form.key_type.column("num_name_units"))
        differs = form.fixed_length + 2 * units.astype(np.int64) != length[rows]
        rows = rows[differs]
        # If the key ends at the data of its record, its length is right, so the length of the name is wrong.
        if level:
            fits = data[rows] + need == stop[rows]
        else:
            fits = data[rows] + form.start.width <= stop[rows]
            types = decode_column(form.start, buffer, np.where(fits, data[rows], 0), form.start.column("record_type"))
            fits &= np.isin(types.astype(np.int64), sorted(form.values))
        flaw[rows] = np.where(fits, NAME_FLAW, KEY_FLAW)
    return flaw


TYPES = grammar.HfsplusAttributes.RecordType
HEADER_FIELDS: Final = (DECMPFS.compression_magic, DECMPFS.compression_type, DECMPFS.len_uncompressed)
"""Fields of the header of a compressed file that are compared with its forks."""

# CNIDs have 32 bits, so the largest is 4294967295.
MAX_DIGITS: Final = 10


HOT_FILE, HOT_KEY = records.HOT_FILE_LEAF_RECORD, records.HOT_FILE_LEAF_RECORD.key
HOT_FILE_FIELDS: Final = (HOT_KEY.file_id, HOT_KEY.fork_type, HOT_KEY.temperature, HOT_KEY.is_thread, HOT_FILE.data)


def _decode_fixed(
    record_type: RecordType, fields: tuple[RecordColumn, ...], buffer: U8, rows: Columns, first: int
) -> Leaves:
    """Decode leaf records of one type and length; too short ones are reported while the tree is read."""
    whole = np.flatnonzero(rows["stop"] - rows["key"] >= record_type.width)
    found = decode_columns(record_type, buffer, (rows["key"] - rows["shift"])[whole], fields)
    return {"": {"row": first + whole, **{name: values.astype(np.int64) for name, values in found.items()}}}


def _decode_attributes(buffer: U8, places: Columns, _: int) -> Leaves:
    """Decode leaves of the attributes tree.

    ``key, data, stop`` are offsets in the tree's file. ``kind`` is 0 if a record has an unknown type or is too short.
    ``size`` is that of an inline value or of a fork, whose blocks are ``blocks``. ``first_link`` is the number in an
    attribute of this name, 0 if it is not a number, -1 in other attributes. The header fields of compressed files are
    -1 in other attributes.
    """
    key, data, stop = (places[name] - places["shift"] for name in ("key", "data", "stop"))
    kind = FORMS["attributes"].types_of(buffer, data, stop)
    keys = decode_columns(KEY, buffer, key, (KEY.file_id, KEY.start_block, KEY.num_name_units))
    counts = keys["num_name_units"].astype(np.int64)
    units = names.gather(buffer, key + KEY.width, counts)
    columns: Columns = {"kind": kind} | {name: places[name] for name in ("key", "data", "stop")}
    columns |= {name: keys[name].astype(np.int64) for name in ("file_id", "start_block")}
    size, blocks = np.zeros((2, len(data)), np.int64)
    starts, extent_counts = np.zeros((2, len(data), 8), np.int64)
    is_inline, is_fork = kind == TYPES.inline_data, kind == TYPES.fork_data
    size[is_inline] = decode_column(INLINE, buffer, data[is_inline], INLINE.len_attribute)
    for number, (record_type, fields) in EXTENT_FIELDS.items():
        chosen = kind == number
        values = decode_columns(record_type, buffer, data[chosen], fields)
        starts[chosen], extent_counts[chosen] = values[fields[0]], values[fields[1]]
    values = decode_columns(FORK, buffer, data[is_fork], (FORK.the_fork.len_logical, FORK.the_fork.num_blocks))
    size[is_fork], blocks[is_fork] = signed(values["the_fork.len_logical"]), values["the_fork.num_blocks"]
    columns |= {"size": size, "blocks": blocks, "starts": starts, "counts": extent_counts}
    # An attribute of a folder with hard links names the first link, as digits and a zero byte.
    rows = _find_named(units, counts, "com.apple.system.hfs.firstlink")
    rows = rows[is_inline[rows]]
    columns["first_link"] = np.full(len(data), -1, np.int64)
    start = data[rows] + INLINE.width
    ends = np.minimum(start + np.clip(columns["size"][rows], 0, MAX_DIGITS + 1), stop[rows])
    texts = (buffer[first:end].tobytes() for first, end in zip(start.tolist(), ends.tolist(), strict=True))
    columns["first_link"][rows] = [_parse_number(text) for text in texts]
    columns["is_access_list"] = np.zeros(len(data), np.bool_)
    # kauth.h, KAUTH_FILESEC_XATTR
    columns["is_access_list"][_find_named(units, counts, "com.apple.system.Security")] = True
    # A shorter value is not a header.
    rows = _find_named(units, counts, COMPRESSION_ATTRIBUTE)
    rows = rows[is_inline[rows] & (data[rows] + INLINE.width + DECMPFS.width <= stop[rows])]
    header = decode_columns(DECMPFS, buffer, data[rows] + INLINE.width, HEADER_FIELDS)
    for name in HEADER_FIELDS:
        columns[name] = np.full(len(data), -1, np.int64)
        columns[name][rows] = signed(header[name])
    return {"": columns}


def _find_named(units: NDArray[np.uint16], counts: I64, name: str) -> I64:
    """Return the rows with a name."""
    name_units = np.array([ord(letter) for letter in name], np.uint16)
    rows = np.flatnonzero(counts == len(name_units))
    start = starts_of(counts)[rows]
    named_rows: I64 = rows[(units[start[:, None] + np.arange(len(name_units))] == name_units).all(axis=1)]
    return named_rows


def _parse_number(text: bytes) -> int:
    """Parse a decimal number that ends with its value or with a zero byte; 0 for another text."""
    digits = text.partition(b"\0")[0]
    return int(digits) if digits.isdigit() and len(digits) <= MAX_DIGITS else 0


CATALOG_TYPES = grammar.HfsplusCatalog.RecordType

FILE_FIELDS: Final[tuple[RecordColumn, ...]] = (
    FILE.file_id,
    FILE.flags,
    # For an inode with links, this is the CNID of its first link (`hl_firstLinkID` in hfs_format.h), else zero.
    FILE.reserved1,
    FILE.create_date,
    # For a link in a chain, these are the CNIDs of its neighbours; the inode has the owner and group of the file.
    FILE.permissions.owner_id,
    FILE.permissions.group_id,
    # A union: the inode number of a link, the link count of an inode, or a device number (TN1150, HFSPlusBSDInfo).
    FILE.permissions.special,
    *(FILE.permissions.file_mode, FILE.permissions.owner_flags, FILE.permissions.file_type, FILE.text_encoding),
    *(FILE.user_info.file_type, FILE.user_info.file_creator, FILE.user_info.is_alias),
    *(FILE.has_thread, FILE.has_attributes, FILE.has_security, FILE.has_link_chain, FILE.has_expanded_times),
    *(
        field
        for fork in (FILE.data_fork, FILE.resource_fork)
        for field in (fork.len_logical, fork.num_blocks, fork.extents.start_block, fork.extents.num_blocks)
    ),
)
FOLDER_FIELDS: Final[tuple[RecordColumn, ...]] = (
    *(FOLDER.folder_id, FOLDER.create_date, FOLDER.flags, FOLDER.valence, FOLDER.num_folders, FOLDER.text_encoding),
    *(FOLDER.permissions.special, FOLDER.permissions.file_mode, FOLDER.permissions.owner_flags),
    *(FOLDER.user_info.finder_flags, FOLDER.has_expanded_times, FOLDER.has_attributes, FOLDER.has_security),
    *(FOLDER.has_folder_count, FOLDER.has_link_chain),
)
THREAD_FIELDS: Final[tuple[RecordColumn, ...]] = (THREAD.parent_id, THREAD.num_name_units)

Kind = Literal["files", "folders", "threads"]


class CatalogRecords(TreeRecords, frozen=True):
    """Catalog records in key order.

    The columns of leaf records are ``kind``, 0 if the type is unknown or the record too short for it, and ``excess``,
    whether a file or folder is longer than its type. Tables of files, folders and threads have their fields, and
    ``row``, the position among the leaf records. The number of a thread's name units is -1 if they exceed its record.
    """

    @property
    def parent_id(self) -> I64:
        """The parent folder in the key of each record; in threads, the file's own ID."""
        return self.keys.ident

    @property
    def files(self) -> Columns:
        """Fields of files."""
        return self.leaves["files"]

    @property
    def folders(self) -> Columns:
        """Fields of folders."""
        return self.leaves["folders"]

    @property
    def threads(self) -> Columns:
        """Fields of threads."""
        return self.leaves["threads"]

    def locate_kind(self, kind: Kind) -> Callable[[int, str], FindingLog]:
        """Bind the log to a field of a file, folder or thread by its position among them."""
        rows: I64 = self.leaves[kind]["row"]
        return lambda place, field: self.leaf_field(rows[place], field)

    def locate_ids(self) -> Callable[[int, str], FindingLog]:
        """Bind the log to the CNID of a file or folder by its position among the entries."""
        rows, _, is_folder = self.entries()
        return lambda place, _: self.leaf_field(rows[place], "folder_id" if is_folder[place] else "file_id")

    def entries(self) -> tuple[I64, I64, Mask]:
        """Return the rows of files and folders in key order, their IDs, and whether they are folders."""
        rows = np.concatenate([self.files["row"], self.folders["row"]])
        ids = np.concatenate([self.files["file_id"], self.folders["folder_id"]]).astype(np.int64)
        is_folder = np.arange(len(rows)) >= len(self.files["row"])
        order = np.argsort(rows, kind="stable")
        return rows[order], ids[order], is_folder[order]

    def key_name(self, row: int) -> str:
        """Return the name in the key of a record, for messages."""
        start = self.keys.start[row]
        return names.shown(self.keys.units[start : start + self.keys.count[row]])


_PARTS: Final = {
    "files": (FILE, FILE_FIELDS, (CATALOG_TYPES.file,)),
    "folders": (FOLDER, FOLDER_FIELDS, (CATALOG_TYPES.folder,)),
    "threads": (THREAD, THREAD_FIELDS, (CATALOG_TYPES.folder_thread, CATALOG_TYPES.file_thread)),
}


def _decode_catalog(buffer: U8, rows: Columns, first: int) -> Leaves:
    """Decode leaves of the catalog: record types, the fields of files, folders and threads, and names in threads."""
    data, stop = rows["data"] - rows["shift"], rows["stop"] - rows["shift"]
    kind = FORMS["catalog"].types_of(buffer, data, stop)
    # Threads end with a name of any length, so they cannot be too long.
    excess = np.zeros(len(data), np.bool_)
    for number, width in ((CATALOG_TYPES.folder, FOLDER.width), (CATALOG_TYPES.file, FILE.width)):
        excess |= (kind == number) & (data + width < stop)
    tables: Leaves = {"": {"kind": kind.astype(np.uint8), "excess": excess}}
    for part, (record_type, fields, types) in _PARTS.items():
        chosen = np.flatnonzero(np.isin(kind, [int(item) for item in types]))
        tables[part] = {"row": first + chosen, **decode_columns(record_type, buffer, data[chosen], fields)}
    threads = np.isin(kind, [int(item) for item in _PARTS["threads"][2]])
    start, counts = data[threads] + THREAD.width, tables["threads"]["num_name_units"].astype(np.int64)
    fits = start + names.UNIT_BYTES * counts <= stop[threads]
    tables["threads"]["num_name_units"] = np.where(fits, counts, -1)
    tables["thread-names"] = {"units": names.gather(buffer, start, np.where(fits, counts, 0))}
    return tables


class Subject(Struct, frozen=True):
    """The volume that is checked."""

    volume: Volume  # collects findings
    contents: Contents  # the data that a scan reads
    trees: dict[str, TreeRecords]  # by name
    # catalog, attributes, overflow, hot_files: the records of these trees; None if the tree is absent or lost
    catalog: CatalogRecords | None
    attributes: TreeRecords | None
    overflow: TreeRecords | None
    hot_files: TreeRecords | None
    known: dict[str, Any] = field(default_factory=dict)  # cached values that several checks use

    def table(self, code: str, noun: str, at: Callable[[int, str], FindingLog], level: Level = "error") -> Table:
        """Make a table of rows that `noun` names, whose rules have a code and level in common."""
        return Table(at, code, level, rest=self.volume.log.at(noun))

    def header(self, code: str, level: Level = "error") -> Table:
        """Make a table of only the volume header."""
        return Table(lambda _, field: self.volume.header_field(field), code, level)

    @property
    def headed_trees(self) -> dict[str, TreeRecords]:
        """The trees with a header node; faults of other trees are reported for their headers."""
        lost = {item.structure for item in self.volume.log.findings if item.code == "tree-header-invalid"}
        # The file of a tree from a sweep consists of its leaves, so its node 0 is not a header.
        return {
            name: located
            for name, located in self.trees.items()
            if f"{name} B-tree header node" not in lost
            and located.tree.file.readable[0]
            and not located.tree.file.is_inferred
        }


_DECODERS: Final[dict[str, Decoder]] = {
    "catalog": _decode_catalog,
    "attributes": _decode_attributes,
    "extents-overflow": partial(_decode_fixed, records.EXTENT_LEAF_RECORD, OVERFLOW_FIELDS),
    "hot-files": partial(_decode_fixed, HOT_FILE, HOT_FILE_FIELDS),
}


def read_subject(volume: Volume, contents: Contents) -> Subject:
    """Read all trees of a volume record by record."""
    files = contents.trees
    trees = {name: read_records(volume, files[name], decode) for name, decode in _DECODERS.items() if name in files}
    catalog = CatalogRecords(*astuple(trees["catalog"])) if "catalog" in trees else None
    attributes, overflow, hot_files = (trees.get(name) for name in ("attributes", "extents-overflow", "hot-files"))
    return Subject(volume, contents, trees, catalog, attributes, overflow, hot_files)
