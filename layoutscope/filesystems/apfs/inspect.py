"""One node or object of an APFS container as its grammar parses it, for people.

Apple File System Reference, B-Trees. Input: the bytes of a node or object. Damage is told where it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from layoutscope.filesystems.apfs.store.fsrecords import HASHED_DREC, SHAPES
from layoutscope.ondisk import bulk, grammar
from layoutscope.ondisk.described import Described, describe, joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.ondisk.grammar import FieldValue

_FIXED: Final = {
    "omap": ("apfs_container.omap_key", "apfs_container.omap_val"),
    "container-omap": ("apfs_container.omap_key", "apfs_container.omap_val"),
    "spaceman": ("apfs_spaceman.free_queue_key", "apfs_spaceman.free_queue_val"),
    "fext": ("apfs_fsrecords.fext_key", "apfs_fsrecords.fext_val"),
    "omap-snapshots": ("apfs_container.omap_snapshot_key", "apfs_container.omap_snapshot"),
    "fusion-middle": ("apfs_fusion.fusion_mt_key", "apfs_fusion.fusion_mt_val"),
    "gbitmap": ("apfs_encryption.gbitmap_key", "apfs_encryption.gbitmap_val"),
    "evict-mapping": ("apfs_container.evict_mapping_key", "apfs_container.evict_mapping_val"),
    "checkpoint-area": ("apfs_container.omap_snapshot_key", "apfs_object.prange"),
}
"""Types of key and value of trees with one kind of record."""

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
    "integrity_meta": ("ApfsSealed", "IntegrityMeta"),
    "nx_fusion_wbc": ("ApfsFusion", "FusionWbc"),
    "nx_fusion_wbc_list": ("ApfsFusion", "FusionWbcListHead"),
    "er_state": ("ApfsEncryption", "ErState"),
    "gbitmap": ("ApfsEncryption", "Gbitmap"),
    "er_recovery_block": ("ApfsEncryption", "ErRecoveryBlock"),
}
"""Grammar and type of an object, by the name of its type."""


class _Slot(NamedTuple):
    """Where key and value of a record lie in the node; a ghost has a value of no bytes."""

    key: tuple[int, int]
    val: tuple[int, int]


def describe_node(data: bytes, tree: str) -> list[Described]:
    """List the structures of a node: its head, its records in key order, in a root the tree's information.

    Parameters
    ----------
    data : bytes
        The whole node.
    tree : str
        Name of its tree.

    Returns
    -------
    list of Described
        Addresses count from the start of the node.
    """
    types, size = grammar.ApfsBtree, bulk.size("apfs_btree.btree_node")
    head = describe(types.BtreeNode, data, 0, size, "node head")
    if head.error:
        return [head]
    info = bulk.size("apfs_btree.btree_info") if head.value("is_root") else 0
    end = len(data) - info
    records = [_record(data, tree, slot, head, number) for number, slot in enumerate(_slots(data, tree, head, end))]
    trailer = [describe(types.BtreeInfo, data, end, len(data), "tree information")] if info else []
    return [head, *records, *trailer]


def _slots(data: bytes, tree: str, head: Described, end: int) -> Iterator[_Slot]:
    """Yield where records lie: keys count from the end of the table upwards, values from `end` downwards."""
    named = {field.path: field.value for field in head.fields}
    table = bulk.size("apfs_btree.btree_node") + int(str(named["table_space.start"]))
    keys = table + int(str(named["table_space.len"]))
    kind = "kvoff" if named["is_fixed"] else "kvloc"
    width, cls = (
        bulk.size(f"apfs_btree.{kind}"),
        grammar.ApfsBtree.Kvoff if kind == "kvoff" else grammar.ApfsBtree.Kvloc,
    )
    for number in range(min(int(str(named["num_keys"])), len(data) // width)):
        entry = describe(cls, data, table + number * width, table + (number + 1) * width, "table entry")
        if entry.error:
            return
        found = {field.path: int(str(field.value)) for field in entry.fields}
        if kind == "kvoff":
            key_len, val_len = _fixed_sizes(tree, is_leaf=bool(named["is_leaf"]))
            found = {
                "key.start": found["key_start"],
                "key.len": key_len,
                "val.start": found["val_start"],
                "val.len": val_len,
            }
        is_ghost = found["val.start"] == int(grammar.ApfsBtree.Location.invalid)
        start, stop = keys + found["key.start"], end - found["val.start"]
        yield _Slot((start, start + found["key.len"]), (stop, stop + found["val.len"]) if not is_ghost else (end, end))


def _fixed_sizes(tree: str, *, is_leaf: bool) -> tuple[int, int]:
    key, val = _FIXED.get(tree, _FIXED["omap"])
    return bulk.size(key), bulk.size(val if is_leaf else "apfs_btree.child_val")


def _record(data: bytes, tree: str, slot: _Slot, head: Described, number: int) -> Described:
    key_type, val_type, name = _types(data, tree, slot)
    if not head.value("is_leaf"):
        # Children of sealed trees are followed by their hash, which only the integrity metadata measures.
        val_type = "apfs_btree.child_val"
    parts = [describe(_class(key_type), data, *slot.key, "key")]
    if slot.val[0] < slot.val[1]:
        parts.append(describe(_class(val_type), data, *slot.val, "value"))
    found = joined(f"record {number}{name}", *parts)
    return replace(found, fields=tuple(map(_with_name, found.fields)))


def _types(data: bytes, tree: str, slot: _Slot) -> tuple[str, str, str]:
    """Name the types of key and value of a record, and the record's own."""
    if tree in _FIXED:
        return (*_FIXED[tree], "")
    head = describe(grammar.ApfsFsrecords.JKey, data, *slot.key, "key")
    kind = head.value("record_type")
    known = {int(member): member.name for member in grammar.ApfsFsrecords.RecordType}
    name = known.get(int(str(kind)), "") if kind is not None else ""
    if name not in SHAPES:
        return "apfs_fsrecords.j_key", "apfs_btree.child_val", " (unknown)"
    shape = SHAPES[name]
    if name == "dir_rec" and not _is_plain_drec(data, slot):
        shape = HASHED_DREC
    val = {"inode_val_fixed": "inode_val", "drec_val_fixed": "drec_val"}.get(shape.val_type, shape.val_type)
    return f"apfs_fsrecords.{shape.key_type}", f"apfs_fsrecords.{val}", f" ({name.replace('_', ' ')})"


def _is_plain_drec(data: bytes, slot: _Slot) -> bool:
    """Whether a directory key is one without hash: its length field then accounts for the whole key."""
    plain = describe(grammar.ApfsFsrecords.DrecKey, data, *slot.key, "key")
    length = plain.value("name_len")
    return (
        not plain.error
        and isinstance(length, int)
        and bulk.size("apfs_fsrecords.drec_key") + length == slot.key[1] - slot.key[0]
    )


def _class(type_name: str) -> Any:
    family, _, name = type_name.partition(".")
    return getattr(getattr(grammar, _camel(family)), _camel(name))


def _camel(identifier: str) -> str:
    return "".join(part.capitalize() for part in identifier.split("_"))


def _with_name(field: FieldValue) -> FieldValue:
    """Show a name as text; names on disk are UTF-8 with a zero byte at the end."""
    if field.path.rpartition(".")[2] == "name" and isinstance(field.value, bytes):
        return replace(field, value=field.value.rstrip(b"\0").decode("utf-8", "backslashreplace"))
    return field


def describe_region(data: bytes) -> list[Described]:
    """Describe an object with a header, of a known type; nothing for blocks without one."""
    head = describe(grammar.ApfsObject.ObjPhys, data, 0, bulk.size("apfs_object.obj_phys"), "object header")
    kind = head.value("type")
    known = {int(member): member.name for member in grammar.ApfsObject.ObjectType}
    name = known.get(int(str(kind)), "") if kind is not None else ""
    if name not in _OBJECTS:
        return [head] if name and not head.error else []
    family, cls = _OBJECTS[name]
    return [describe(getattr(getattr(grammar, family), cls), data, 0, len(data), name.replace("_", " "))]


def is_about(record: Described, file_id: int) -> bool:
    """Whether a record belongs to an inode, or is a directory entry of it."""
    values = {field.path: field.value for field in record.fields}
    return values.get("value.file_id", values.get("value.fixed.file_id")) == file_id or (
        file_id in (values.get("key.obj_id"), values.get("key.hdr.obj_id")) and "dir rec" not in record.title
    )
