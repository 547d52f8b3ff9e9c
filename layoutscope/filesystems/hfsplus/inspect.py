"""A single node or region of an HFS+ volume as parsed by its grammar, for display; damage is reported in place."""

from __future__ import annotations

import itertools
import stat
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.contract import NO_TIME, InodeStats
from layoutscope.filesystems.hfsplus.catalog import EPOCH_SECONDS, FILE, FOLDER, PLAN, TYPE, format_date, unix_seconds
from layoutscope.filesystems.hfsplus.journal import find_journal, is_applied, replay_journal
from layoutscope.filesystems.hfsplus.nodes import FORMS, HEADER, INDEX, LEAF, decode_nodes, locate_records
from layoutscope.filesystems.hfsplus.volume import open_volume
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.comparison import compare_fields, compare_leaves, difference
from layoutscope.structs.grammar import Described, describe_structure
from layoutscope.structs.records import HEADER_RECORD, NODE_DESCRIPTOR, POINTER_RECORD, RECORD_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.contract import Piece, Row, VolumeRequest
    from layoutscope.filesystems.hfsplus.nodes import RecordBatch
    from layoutscope.image import Source
    from layoutscope.structs.arrays import I64, U8
    from layoutscope.structs.grammar import FieldValue
    from layoutscope.structs.recordtypes import RecordColumn, RecordType
    from layoutscope.tables import VolumeLayout

_RECORDS: Final = {
    "catalog": ("HfsplusCatalog", "CatalogLeafRecord", "CatalogIndexRecord"),
    "extents-overflow": ("HfsplusExtents", "ExtentLeafRecord", "ExtentIndexRecord"),
    "attributes": ("HfsplusAttributes", "AttributeLeafRecord", "AttributeIndexRecord"),
    "hot-files": ("HfsplusHotfiles", "HotFileLeafRecord", ""),
}
"""Grammar, and types of leaf and index records, by tree."""

_REGIONS: Final = {
    "volume-header": ("HfsplusVolume", "VolumeHeader"),
    "alternate-volume-header": ("HfsplusVolume", "VolumeHeader"),
    "journal-info-block": ("HfsplusJournal", "JournalInfoBlock"),
}
"""Grammar and type of each region type that is a single structure."""


def _values(tree: str, found: RecordBatch) -> Iterator[tuple[RecordType, I64, I64]]:
    """Yield the types of a tree's leaf records, their starts, and the rows of records of each type."""
    form = FORMS[tree]
    if form.leaf is not None:
        yield form.leaf, found.key, np.flatnonzero(found.stop - found.key >= form.leaf.width)
        return
    types = form.types_of(found.nodes.buffer, found.data, found.stop)
    for number, record_type in form.values.items():
        yield record_type, found.data, np.flatnonzero(types == number)


def _offsets(data: bytes, count: int) -> Iterator[int]:
    """Yield the offsets of records; the table grows from the end of the node towards its start."""
    width = RECORD_OFFSET.width
    for number in range(1, min(count, len(data) // width) + 1):
        at = len(data) - number * width
        entry = describe_structure(grammar.HfsplusBtree.RecordOffset, data, at, at + width, "record offset")
        offset = entry.value("ofs_record")
        yield offset if isinstance(offset, int) else 0


def _show_name(field: FieldValue) -> FieldValue:
    """Show a name as text; names on disk are big-endian UTF-16."""
    if field.path.rpartition(".")[2] == "name" and isinstance(field.value, bytes):
        return replace(field, value=field.value.decode("utf-16-be", "surrogatepass").replace("/", ":"))
    return field


DATE_BYTES: Final = 4


def open_view(request: VolumeRequest, layout: VolumeLayout) -> MountedView:
    """Open the bytes of a volume as a mount would see them, after the journal's replay unless that is disabled."""
    stored = MountedView(request.source, 0)
    if not is_applied(request):
        return stored
    start = layout.facts.image_offset
    try:
        volume = open_volume(request.source, start, layout.facts.size_bytes)
    except FormatError:
        # If only a sweep found the volume, the journal was not applied.
        return stored
    journal = find_journal(volume)
    overlay = replay_journal(volume, journal) if journal is not None else None
    return MountedView(volume.source if overlay is None else overlay, start)


class MountedView(Struct, frozen=True):
    """The bytes of a volume after the journal's replay."""

    source: Source  # the image, or only the volume
    origin: int  # its address 0 on the image, in bytes

    def read(self, row: Row, piece: Piece) -> bytes:  # noqa: ARG002  (every row is on the one image)
        """Read a piece."""
        return self.source.read(piece[0] - self.origin, piece[1])

    def describe_node(self, data: bytes, tree: str) -> list[Described]:
        """List the structures of a node: descriptor, then records in key order."""
        types, size = grammar.HfsplusBtree, NODE_DESCRIPTOR.width
        descriptor = describe_structure(types.NodeDescriptor, data, 0, size, "node descriptor")
        kind, count = descriptor.value("kind"), descriptor.value("num_records")
        if kind == types.NodeKind.header:
            stop = size + HEADER_RECORD.width
            return [descriptor, describe_structure(types.HeaderRecord, data, size, stop, "header record")]
        if not isinstance(count, int) or kind not in (types.NodeKind.leaf, types.NodeKind.index):
            return [descriptor]
        family, leaf, index = _RECORDS[tree]
        name = leaf if kind == types.NodeKind.leaf else index
        record_class = getattr(getattr(grammar, family), name) if name else types.KeyHeader
        found = [descriptor]
        for number, (start, stop) in enumerate(itertools.pairwise(_offsets(data, count + 1))):
            record = describe_structure(record_class, data, start, stop, f"record {number}")
            found.append(replace(record, fields=tuple(map(_show_name, record.fields))))
        return found

    def compare_node(self, data: bytes, tree: str) -> tuple[int, list[str]]:
        """Decode the records of a node in bulk, parse them, and return their number and the differences."""
        buffer, zero = np.frombuffer(data, np.uint8), np.zeros(1, np.int64)
        nodes = decode_nodes(buffer, len(data), zero)
        kind = int(nodes.kind[0])
        differences = list(compare_fields(NODE_DESCRIPTOR, buffer, zero, ["node descriptor"]))
        if kind == HEADER:
            at = zero + NODE_DESCRIPTOR.width
            return 0, differences + list(compare_fields(HEADER_RECORD, buffer, at, ["header record"]))
        form = FORMS[tree]
        found = locate_records(nodes, None, form.key_type.width)
        bounds = list(_offsets(data, int(nodes.num_records[0]) + 1))
        titles = [f"record {number}" for number in found.slot.tolist()]
        for title, slot, start, stop in zip(titles, found.slot, found.key, found.stop, strict=True):
            if (start, stop) != (bounds[slot], bounds[slot + 1]):
                parsed = f"{bounds[slot]} to {bounds[slot + 1]}"
                differences.append(difference(f"{title}, bytes", f"{start} to {stop}", parsed))
        everything = np.arange(len(titles))
        parts = [(form.key_type, found.key, everything)]
        parts += [(POINTER_RECORD, found.data, everything)] if kind == INDEX else _values(tree, found)
        for record_type, starts, rows in parts:
            differences += compare_fields(record_type, buffer, starts[rows], [titles[row] for row in rows])
        if tree == "catalog" and kind == LEAF:
            differences += compare_leaves(PLAN, found.in_leaves(np.ones(len(titles), np.bool_)), titles)
        return len(titles), differences

    def describe_region(self, data: bytes, type_name: str) -> list[Described]:
        """List the structures of a region, if its type is a single structure."""
        if type_name not in _REGIONS:
            return []
        family, name = _REGIONS[type_name]
        return [
            describe_structure(getattr(getattr(grammar, family), name), data, 0, len(data), type_name.replace("-", " "))
        ]

    def is_about(self, record: Described, file_id: int) -> bool:
        """Return whether a catalog record belongs to a file or folder, or is its thread."""
        if record.value("file_id", "folder_id") == file_id:
            return True
        key = [field.value for field in record.fields if field.path in ("key.parent_id", "key.num_name_units")]
        return key == [file_id, 0] or record.value("file_id") == file_id

    def decode_field(self, part: Described, field: FieldValue) -> str:
        """Return the meaning of a date or a mode; empty for other fields and for dates that were never set."""
        name, value = field.path.rpartition(".")[2], field.value
        if not isinstance(value, int) or not value:
            return ""
        if name == "file_mode":
            return stat.filemode(value)
        if field.length_bytes != DATE_BYTES or not name.endswith(("date", "date_added")):
            return ""
        # The Finder counts from 1970, as does a volume with expanded times.
        is_unix = name == "date_added" or bool(part.value("has_expanded_times"))
        if not is_unix and value < EPOCH_SECONDS:
            return ""
        # The creation date of a volume header is in local time (TN1150, createDate).
        is_local = name == "create_date" and part.title.endswith("volume header")
        return f"{format_date(value, is_expanded=is_unix)} {'local time' if is_local else 'UTC'}"

    def inode_stats(self, nodes: NDArray[np.uint8]) -> InodeStats:
        """Decode the owners, modes and times in the records of files and folders."""
        read = decode_nodes(nodes.ravel(), nodes.shape[1], np.arange(len(nodes), dtype=np.int64))
        records = locate_records(read, None)
        room = records.stop - records.data
        start, room = records.data[room >= TYPE.width], room[room >= TYPE.width]
        kind = decode_column(TYPE, read.buffer, start, TYPE.record_type)
        parts = [
            _stats_of(read.buffer, start[(kind == number) & (room >= record_type.width)], record_type, file_id)
            for number, record_type, file_id in (
                (int(grammar.HfsplusCatalog.RecordType.folder), FOLDER, FOLDER.folder_id),
                (int(grammar.HfsplusCatalog.RecordType.file), FILE, FILE.file_id),
            )
        ]
        return InodeStats(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _stats_of(buffer: U8, starts: I64, record_type: RecordType, file_id: RecordColumn) -> InodeStats:
    # Files and folders have these fields at the same offsets, with the same names.
    fields = (FILE.access_date, FILE.attribute_mod_date, FILE.has_expanded_times)
    owners = (FILE.permissions.file_mode, FILE.permissions.owner_id, FILE.permissions.group_id)
    found = decode_columns(record_type, buffer, starts, (file_id, *fields, *owners))
    dates = [found[name].astype(np.uint32) for name in fields[:2]]
    access, change = (
        np.where(date > 0, unix_seconds(date, found[FILE.has_expanded_times]) * 1_000_000, NO_TIME) for date in dates
    )
    mode, owner, group = (found[name] for name in owners)
    return InodeStats(
        found[file_id].astype(np.uint64),
        mode.astype(np.uint16),
        owner.astype(np.uint32),
        group.astype(np.uint32),
        access,
        change,
    )
