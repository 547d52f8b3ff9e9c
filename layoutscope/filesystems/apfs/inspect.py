"""The bytes of an APFS container, with its nodes and objects as parsed by the grammar, for display.

Apple File System Reference, B-Trees and Encryption. Damage is reported at its location. The checksum of an encrypted
node is that of its plaintext: if the stored bytes match their checksum, they are not encrypted.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs import nodes as toc
from layoutscope.filesystems.apfs.container import open_container
from layoutscope.filesystems.apfs.fsrecords import HASHED_DREC, SHAPES, records_plan
from layoutscope.filesystems.apfs.keybag import unlock
from layoutscope.filesystems.apfs.nodes import KINDS
from layoutscope.filesystems.apfs.verify import checksum_of, object_header
from layoutscope.filesystems.apfs.volume import format_disk_time
from layoutscope.filesystems.contract import InodeStats
from layoutscope.findings import FindingLog
from layoutscope.structs import grammar, records
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.comparison import compare_fields, compare_leaves, difference
from layoutscope.structs.grammar import Described, combined, describe_structure
from layoutscope.structs.leaves import LeafBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.blocks import Blocks
    from layoutscope.filesystems.contract import Piece, Row, VolumeRequest
    from layoutscope.image.source import Source
    from layoutscope.structs.grammar import FieldValue
    from layoutscope.structs.recordtypes import RecordType
    from layoutscope.tables import VolumeLayout

_FIXED: Final = {tree: (key, val) for tree, (key, val, _) in KINDS.items() if val is not None}
"""Types of key and value, for trees with one kind of record."""

_WHOLE: Final[dict[RecordType, RecordType]] = {
    records.INODE_VAL_FIXED: records.INODE_VAL,
    records.DREC_VAL_FIXED: records.DREC_VAL,
}
"""Values with extended fields, which the tables decode separately."""

_OBJECTS: Final = {
    "nx_superblock": ("ApfsContainer", "NxSuperblock"),
    "checkpoint_map": ("ApfsContainer", "CheckpointMap"),
    "omap": ("ApfsContainer", "OmapPhys"),
    "efi_jumpstart": ("ApfsContainer", "EfiJumpstart"),
    "fs": ("ApfsVolume", "ApfsSuperblock"),
    "spaceman": ("ApfsSpaceman", "SpacemanPhys"),
    "spaceman_cib": ("ApfsSpaceman", "ChunkInfoBlock"),
    "spaceman_cab": ("ApfsSpaceman", "CibAddrBlock"),
    "nx_reaper": ("ApfsReaper", "ReaperPhys"),
    "nx_reap_list": ("ApfsReaper", "ReapListPhys"),
    "snap_meta_ext": ("ApfsSnapshot", "SnapMetaExtObj"),
    "integrity_meta": ("ApfsSealed", "IntegrityMeta"),
    "nx_fusion_wbc": ("ApfsFusion", "FusionWbc"),
    "nx_fusion_wbc_list": ("ApfsFusion", "FusionWbcListHead"),
    "er_state": ("ApfsEncryption", "ErState"),
    "gbitmap": ("ApfsEncryption", "Gbitmap"),
    "er_recovery_block": ("ApfsEncryption", "ErRecoveryBlock"),
}
"""Grammar class and structure type of an object, by the name of its object type."""


_NS_PER_US: Final = 1000
TIME_BYTES: Final = 8


Span: TypeAlias = tuple[int, int]
"""Start and end of a key or value in its node."""


def _extended_fields(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Parse a collection of extended fields; yield type, start and size of each field."""
    blob = grammar.parse(grammar.ApfsXfields.XfBlob, data, structure="extended fields", image_offset=0)
    for description, item in zip(blob.fields, blob.data, strict=True):
        yield description.type, item._debug["data"]["start"], description.len_data  # noqa: SLF001


def _slots(data: bytes, tree: str, head: Described, end: int) -> Iterator[tuple[Span, Span]]:
    """Yield the positions of the key and the value of each record; a ghost has a value of length 0.

    Keys count upwards from the end of the table, values downwards from `end`.
    """
    named = {field.path: field.value for field in head.fields}
    table = records.BTREE_NODE.width + int(str(named["table_space.ofs_data"]))
    keys = table + int(str(named["table_space.len_data"]))
    record_type = records.KVOFF if named["is_fixed"] else records.KVLOC
    width, cls = record_type.width, grammar.parser(record_type)
    for number in range(min(int(str(named["num_keys"])), len(data) // width)):
        entry = describe_structure(cls, data, table + number * width, table + (number + 1) * width, "table entry")
        if entry.error:
            return
        found = {field.path: int(str(field.value)) for field in entry.fields if field.length_bytes}
        if record_type is records.KVOFF:
            key_len, val_len = _fixed_entry_sizes(tree, is_leaf=bool(named["is_leaf"]))
            found = {
                "key.ofs_data": found["ofs_key"],
                "key.len_data": key_len,
                "val.ofs_data": found["ofs_val"],
                "val.len_data": val_len,
            }
        is_ghost = found["val.ofs_data"] == int(grammar.ApfsBtree.Location.invalid)
        start, stop = keys + found["key.ofs_data"], end - found["val.ofs_data"]
        value = (end, end) if is_ghost else (stop, stop + found["val.len_data"])
        yield (start, start + found["key.len_data"]), value


def _fixed_entry_sizes(tree: str, *, is_leaf: bool) -> tuple[int, int]:
    key, val = _FIXED.get(tree, _FIXED["omap"])
    return key.width, (val if is_leaf else records.CHILD_VAL).width


def _record(data: bytes, tree: str, key: Span, value: Span, head: Described, number: int) -> Described:
    key_type, val_type, name = _types(data, tree, key)
    if not head.value("is_leaf"):
        # In sealed trees, a hash follows each child's number; only the integrity metadata gives its length.
        val_type = records.CHILD_VAL
    parts = [describe_structure(grammar.parser(key_type), data, *key, "key")]
    if value[0] < value[1]:
        parts.append(describe_structure(grammar.parser(val_type), data, *value, "value"))
    found = combined(f"record {number}{name}", *parts)
    return replace(found, fields=tuple(map(_show_name, found.fields)))


def _types(data: bytes, tree: str, key: Span) -> tuple[RecordType, RecordType, str]:
    """Return the types of a record's key and value, and the name of its record type."""
    if tree in _FIXED:
        return (*_FIXED[tree], "")
    head = describe_structure(grammar.ApfsRecord.JKey, data, *key, "key")
    name = grammar.member_name(grammar.ApfsRecord.RecordType, head.value("record_type"))
    if name not in SHAPES:
        return records.J_KEY, records.CHILD_VAL, " (unknown)"
    shape = SHAPES[name]
    if name == "dir_rec":
        # The length field of a key without a hash accounts for the whole key.
        plain = describe_structure(grammar.ApfsDirectory.DrecKey, data, *key, "key")
        length = plain.value("len_name")
        if plain.error or not isinstance(length, int) or records.DREC_KEY.width + length != key[1] - key[0]:
            shape = HASHED_DREC
    return shape.key_type, _WHOLE.get(shape.val_type, shape.val_type), f" ({name.replace('_', ' ')})"


def _show_name(field: FieldValue) -> FieldValue:
    """Show a name as text; names on disk are UTF-8 with a terminating zero byte."""
    if field.path.rpartition(".")[2] == "name" and isinstance(field.value, bytes):
        return replace(field, value=field.value.rstrip(b"\0").decode("utf-8", "backslashreplace"))
    return field


def _is_sound(data: bytes) -> bool:
    """Return whether an object's checksum is correct."""
    return checksum_of(data) == object_header(data, 0).cksum


def open_view(request: VolumeRequest, layout: VolumeLayout) -> ContainerView:
    """Open the bytes of a container; a password unlocks the nodes of the volume.

    Nodes stay as stored if the volume is not encrypted in software, or if the password does not unlock it.
    """
    facts, password = layout.facts, request.options.get("password")
    view = ContainerView(request.source, request.second[0] if request.second is not None else None)
    if password is None or facts.volume is None or facts.details.get("locked"):
        return view
    try:
        container = open_container((request.source, facts.image_offset), FindingLog(), second=request.second)
        if not container.superblock.is_crypto_sw:
            return view
        return replace(view, blocks=container.blocks, key=unlock(container, UUID(facts.uuid).bytes, password))
    except FormatError:
        return view


class ContainerView(Struct, frozen=True):
    """The bytes of a container as stored, except that nodes of an unlocked volume are decrypted."""

    source: Source  # the image
    second: Source | None = None  # the other image of a Fusion set
    # blocks, key: blocks and key of an unlocked volume's nodes
    blocks: Blocks | None = None
    key: bytes | None = None

    def read(self, row: Row, piece: Piece) -> bytes:
        """Read a piece from the row's device; only the file-system tree is encrypted."""
        source = self.second if row["device"] and self.second is not None else self.source
        data = source.read(*piece)
        if self.key is None or self.blocks is None or row.get("tree") != "fs" or _is_sound(data):
            return data
        paddr = (piece[0] - self.blocks.image_offsets[row["device"]]) // self.blocks.block_size
        # The address is part of the cipher: equal stored bytes at different addresses decrypt to different data.
        where = np.array([paddr + row["device"] * self.blocks.tier2_mark], np.uint64)
        stored = np.frombuffer(data, np.uint8)[None, :]
        plain = self.blocks.decrypt(self.key, stored, where, np.ones(1, bool)).tobytes()
        return plain if _is_sound(plain) else data

    def describe_node(self, data: bytes, tree: str) -> list[Described]:
        """List the structures of a node: header, records in key order, and in a root the tree information."""
        types, size = grammar.ApfsBtree, records.BTREE_NODE.width
        head = describe_structure(types.BtreeNode, data, 0, size, "node head")
        if head.error:
            return [head]
        info = records.BTREE_INFO.width if head.value("is_root") else 0
        end = len(data) - info
        slots = enumerate(_slots(data, tree, head, end))
        found = [_record(data, tree, key, value, head, number) for number, (key, value) in slots]
        trailer = [describe_structure(types.BtreeInfo, data, end, len(data), "tree information")] if info else []
        return [head, *found, *trailer]

    def compare_node(self, data: bytes, tree: str) -> tuple[int, list[str]]:
        """Decode the records of a node in bulk and parse them one by one; return their number and the differences."""
        buffer, zero = np.frombuffer(data, np.uint8), np.zeros(1, np.int64)
        differences = list(compare_fields(records.BTREE_NODE, buffer, zero, ["node head"]))
        head = describe_structure(grammar.ApfsBtree.BtreeNode, data, 0, records.BTREE_NODE.width, "node head")
        if head.error:
            return 0, [*differences, head.error]
        is_leaf, is_root = bool(head.value("is_leaf")), bool(head.value("is_root"))
        end = len(data) - (records.BTREE_INFO.width if is_root else 0)
        if is_root:
            differences += compare_fields(records.BTREE_INFO, buffer, zero + end, ["tree information"])
        is_fixed = bool(head.value("is_fixed"))
        if is_fixed and tree not in _FIXED:
            # The flag is damaged: records of this tree have no fixed sizes, so their ends are unknown.
            return int(str(head.value("num_keys"))), differences
        # Only tables of contents for fixed-size records need these.
        key_bytes, val_bytes = _fixed_entry_sizes(tree, is_leaf=is_leaf) if is_fixed else (0, 0)
        sizes = key_bytes, val_bytes, records.CHILD_VAL.width
        found, _, (_, stray, _) = toc.slots(buffer, toc.node_heads(buffer, zero), len(data), sizes)
        parsed = list(_slots(data, tree, head, end))
        rows = np.setdiff1d(np.arange(len(found) + len(stray)), stray).tolist()
        titles = [f"record {row}" for row in rows]
        by_type: dict[RecordType, list[tuple[int, int]]] = {}
        is_hashed = False
        places = zip(found.key_start, found.key_len, found.val_start, found.val_len, strict=True)
        for number, (row, (key, key_len, val, val_len)) in enumerate(zip(rows, places, strict=True)):
            slot = parsed[row]
            in_bulk = ((int(key), int(key + key_len)), (int(val), int(val + val_len)))
            if in_bulk != slot:
                differences.append(difference(f"{titles[number]}, key and value", in_bulk, slot))
                continue
            key_type, val_type, _ = _types(data, tree, slot[0])
            is_hashed |= key_type is records.DREC_HASHED_KEY
            if key_len >= key_type.width:
                by_type.setdefault(key_type, []).append((number, int(key)))
            val_type = val_type if is_leaf else records.CHILD_VAL
            if val_len >= val_type.width:
                by_type.setdefault(val_type, []).append((number, int(val)))
        for record_type, spots in by_type.items():
            starts = np.array([start for _, start in spots], np.int64)
            differences += compare_fields(record_type, buffer, starts, [titles[number] for number, _ in spots])
        if is_leaf and (tree not in _FIXED or tree == "fext"):
            plan = records_plan(hashed_names=is_hashed, is_fext=tree == "fext")
            columns = (found.node, found.key_start, found.key_len, found.val_start, found.val_len)
            differences += compare_leaves(plan, LeafBatch(buffer, len(data), zero, *columns), titles, _extended_fields)
        return len(titles), differences

    def describe_region(self, data: bytes, type_name: str) -> list[Described]:  # noqa: ARG002  (objects name their type)
        """Describe an object with a header and a known type; return nothing for blocks without a header."""
        head = describe_structure(grammar.ApfsObject.ObjPhys, data, 0, records.OBJ_PHYS.width, "object header")
        name = grammar.member_name(grammar.ApfsObject.ObjectType, head.value("type"))
        if name not in _OBJECTS:
            return [head] if name and not head.error else []
        family, cls = _OBJECTS[name]
        return [describe_structure(getattr(getattr(grammar, family), cls), data, 0, len(data), name.replace("_", " "))]

    def is_about(self, record: Described, file_id: int) -> bool:
        """Return whether a record belongs to an inode, or is a directory entry for it."""
        values = {field.path: field.value for field in record.fields}
        return values.get("value.file_id", values.get("value.fixed.file_id")) == file_id or (
            file_id in (values.get("key.obj_id"), values.get("key.hdr.obj_id")) and "dir rec" not in record.title
        )

    def decode_field(self, part: Described, field: FieldValue) -> str:  # noqa: ARG002  (names show times and modes)
        """Return the meaning of a time or a mode; empty for other fields, and for unset times."""
        name, value = field.path.rpartition(".")[2], field.value
        if not isinstance(value, int) or not value:
            return ""
        if name == "mode":
            return stat.filemode(value)
        is_time = field.length_bytes == TIME_BYTES and name.endswith(("time", "timestamp", "date_added"))
        time = format_disk_time(value) if is_time else ""
        return time and f"{time} UTC"

    def inode_stats(self, nodes: NDArray[np.uint8]) -> InodeStats:
        """Decode the inode records of leaves of the file-system tree."""
        buffer, size = nodes.ravel(), nodes.shape[1]
        starts = np.arange(len(nodes), dtype=np.int64) * size
        found = toc.slots(buffer, toc.node_heads(buffer, starts), size)[0]
        fits = (found.key_len >= records.J_KEY.width) & (found.val_len >= records.INODE_VAL_FIXED.width)
        found = found.take(fits)
        keys = decode_columns(records.J_KEY, buffer, found.key_start, (records.J_KEY.obj_id, records.J_KEY.record_type))
        is_inode = keys[records.J_KEY.record_type] == int(grammar.ApfsRecord.RecordType.inode)
        inode = records.INODE_VAL_FIXED
        fields = (inode.mode, inode.owner, inode.group, inode.access_time, inode.change_time)
        values = decode_columns(inode, buffer, found.val_start[is_inode], fields)
        mode, owner, group, access, change = (values[name] for name in fields)
        return InodeStats(
            keys[records.J_KEY.obj_id][is_inode].astype(np.uint64),
            mode.astype(np.uint16),
            owner.astype(np.uint32),
            group.astype(np.uint32),
            access // _NS_PER_US,
            change // _NS_PER_US,
        )
