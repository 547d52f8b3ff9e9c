"""Verification of nodes: checksum or hash, identity, transaction, level and type.

Apple File System Reference, Objects (o_cksum, o_oid, o_xid). Whole batches are verified at once. In sealed volumes,
index nodes hold the hash of each child, and the integrity metadata holds the root's hash. A hash covers the whole node
as it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import ChecksumError, FormatError
from layoutscope.filesystems.apfs.nodes import UNREAD
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.checksum import fletcher64
from layoutscope.structs.records import BTREE_NODE, OBJ_PHYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.blocks import Blocks
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.filesystems.apfs.omap import OmapView
    from layoutscope.filesystems.apfs.source import OpenTree, Store, TreeSource
    from layoutscope.structs.grammar import T
    from layoutscope.structs.recordtypes import RecordColumn, RecordType


VALID_NAMES: Final = ("no", "structure", "checksum", "child-hash")
"""Categories of ``nodes.valid``; arrays hold positions in this tuple."""


def check_nodes(
    tree: OpenTree, places: NodeRows, head: dict[str, NDArray[Any]], objects: NDArray[np.uint8], level_wanted: int
) -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.bool_]]:
    """Verify a batch of nodes of one level.

    Return the position of each node in `VALID_NAMES`, whether its records can be used, and whether anything is wrong
    with it.
    """
    source, hash_type, unread = tree.source, tree.hash_type, places.condition == UNREAD

    def report(
        failed: NDArray[np.bool_], code: str, message: str, sides: tuple[NDArray[Any], NDArray[Any]] | None = None
    ) -> None:
        """Report each node that fails; unread nodes were reported when they were located."""
        for number in np.flatnonzero(failed & ~unread).tolist():
            expected, found = ("", "") if sides is None else (side[number] for side in sides)
            log = source.at_node(int(places.node_id[number]), int(places.paddr[number]))
            log.add(code, "error", message, expected=expected, found=found)

    level = head["level"] != level_wanted
    contradicts = np.zeros(len(places), bool)
    if hash_type:
        has_hash = bool(places.child_hash.shape[1])
        wrong = np.zeros(len(objects), bool)
        if has_hash:
            wrong = (hash_objects(hash_type, objects) != places.child_hash).any(axis=1)
        valid = np.where(wrong, 0, 3 if has_hash else 1)
        report(wrong, "checksum-mismatch", "the node's hash differs from the one that its parent holds")
    elif tree.is_noheader:
        # Nodes with neither header nor hash: only their structure can be checked.
        wrong = np.zeros(len(places), bool)
        valid = np.ones(len(places), np.uint8)
    else:
        computed = fletcher64(objects)
        wrong = computed != head["hdr.cksum"]
        report(wrong, "checksum-mismatch", "checksum differs", (computed, head["hdr.cksum"]))
        valid = np.where(wrong, 0, 2)
        kinds = grammar.ApfsObject.ObjectType
        is_tree = (head["hdr.type"] == int(kinds.btree)) | (head["hdr.type"] == int(kinds.btree_node))
        identity = (head["hdr.oid"] != places.node_id) | ~is_tree | (head["hdr.xid"] > source.max_xid)
        # Kinds of trees without an own object type, such as those of the checkpoint areas, accept any.
        subtype = source.subtype
        identity = (identity | ((head["hdr.subtype"] != subtype) & (subtype != 0))) & ~wrong
        message = "object is not the node that was looked for"
        report(identity, "node-invalid", message, (places.node_id, head["hdr.oid"]))
        # Each transaction that changes a virtual object rewrites it at another address, and maps it from that
        # transaction on. The object's header and the mapping's key name the same transaction, in all maps that macOS
        # and Linux wrote.
        other = (head["hdr.xid"] != places.xid) & (source.view is not None) & ~wrong & ~identity
        message = "node is of another transaction than the object map says"
        report(other, "node-invalid", message, (places.xid, head["hdr.xid"]))
        wrong |= identity | other
        # The records of a node whose header contradicts its place in the tree are used nevertheless.
        contradicts = _contradicts_place(source, places, head, level_wanted) & ~wrong & ~level
        message = "type, storage or flags contradict the node's place in the tree"
        report(contradicts, "node-header-differs", message)
    report(level & ~wrong, "node-invalid", f"level differs from {level_wanted}")
    wrong |= level | unread
    return np.where(level | unread, 0, valid).astype(np.uint8), ~wrong, wrong | contradicts


def _contradicts_place(
    source: TreeSource, places: NodeRows, head: dict[str, NDArray[Any]], level: int
) -> NDArray[np.bool_]:
    """Return which nodes have a type, a storage, flags or areas that do not fit their place in the tree."""
    kinds, storages = grammar.ApfsObject.ObjectType, grammar.ApfsObject.Storage
    # Leaves that a sweep restored have no parent either, so only the number identifies the root.
    is_root = places.node_id == np.uint64(source.root_oid)
    # A root has another object type than all other nodes of its tree; the only node of a tree is root and leaf.
    kind = np.where(is_root, int(kinds.btree), int(kinds.btree_node))
    own = storages.physical if source.ephemerals is None else storages.ephemeral
    storage = int(own if source.view is None else storages.virtual)
    area = head["table_space.ofs_data"].astype(np.int64) + head["table_space.len_data"]
    area += head["free_space.ofs_data"].astype(np.int64) + head["free_space.len_data"]
    wrong: NDArray[np.bool_] = (head["hdr.type"] != kind) | (head["hdr.storage"] != storage)
    wrong |= (head["is_root"] != is_root) | (head["is_leaf"] != (level == 0))
    wrong |= area > places.size_bytes - BTREE_NODE.width
    return wrong


def object_header(data: bytes, image_offset: int) -> grammar.ApfsObject.ObjPhys:
    """Parse the header of one object that was read from an image offset."""
    return grammar.parse(grammar.ApfsObject.ObjPhys, data, structure="object header", image_offset=image_offset)


def checksum_of(data: bytes) -> int:
    """Compute the checksum of one object."""
    return int(fletcher64(np.frombuffer(data, np.uint8)[None, :])[0])


def decode_objects(
    record_type: RecordType, objects: NDArray[np.uint8], fields: Sequence[RecordColumn]
) -> dict[str, NDArray[Any]]:
    """Decode fields at the start of each of many objects; one row per object."""
    starts = np.arange(len(objects), dtype=np.int64) * objects.shape[1]
    return decode_columns(record_type, objects.reshape(-1), starts, fields)


def report_damaged(store: Store, paddrs: NDArray[np.uint64], names: list[str]) -> NDArray[np.bool_]:
    """Verify one-block objects, report each damaged one as a finding, and return which are damaged."""
    blocks = store.blocks
    data = blocks.read(paddrs, blocks.block_size)
    stored, computed = decode_objects(OBJ_PHYS, data, (OBJ_PHYS.cksum,))["cksum"], fletcher64(data)
    wrong: NDArray[np.bool_] = computed != stored
    for row in np.flatnonzero(wrong).tolist():
        log = store.log.at(names[row], int(paddrs[row]))
        log.add("checksum-mismatch", "error", "checksum differs", expected=computed[row], found=stored[row])
    return wrong


def hash_size(hash_type: int) -> int:
    """Return the length of a hash in bytes, 0 for none; `hash_type` is that of the integrity metadata."""
    # Loading OpenSSL takes longer than reading a small volume, and few volumes are sealed.
    import hashlib

    # The grammar's names are those of hashlib.
    return hashlib.new(grammar.ApfsSealed.HashType(hash_type).name).digest_size if hash_type else 0


def hash_objects(hash_type: int, objects: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Hash each row."""
    import hashlib

    name = grammar.ApfsSealed.HashType(hash_type).name
    joined = b"".join(hashlib.new(name, row.tobytes()).digest() for row in objects)
    return np.frombuffer(joined, np.uint8).reshape(-1, hash_size(hash_type))


def read_object(blocks: Blocks, cls: type[T], paddr: int, structure: str, *, oid: int | None = None) -> T:
    """Read and parse one physical object, or a virtual one at a known address."""
    with blocks.concerning(paddr):
        data = blocks.read_object(paddr)
        where = blocks.at(paddr)
        head = object_header(data, where)
        computed, stored = checksum_of(data), int(head.cksum)
        if computed != stored:
            sides = {"expected": f"{computed:#x}", "found": f"{stored:#x}"}
            raise ChecksumError("checksum differs", structure=structure, image_offset=where, **sides)
        wanted, found = paddr if oid is None else oid, int(head.oid)
        if wanted != found:
            sides = {"expected": str(wanted), "found": str(found)}
            raise FormatError("another object", structure=structure, image_offset=where, **sides)
        return grammar.parse(cls, data, structure=structure, image_offset=where)


def read_virtual(blocks: Blocks, cls: type[T], view: OmapView, oid: int, structure: str) -> tuple[T, int]:
    """Look up one virtual object in an object map, then read and parse it."""
    row = view.find_one(oid)
    if row is None:
        message = "the object map does not know it"
        raise FormatError(message, structure=f"{structure} {oid}", image_offset=None)
    paddr, xid = int(view.omap.paddr[row]), int(view.omap.xid[row])
    parsed: Any = read_object(blocks, cls, paddr, structure, oid=oid)
    if parsed.hdr.xid != xid:
        message, where = "object is of another transaction than the object map says", blocks.at(paddr)
        sides = {"expected": str(xid), "found": str(parsed.hdr.xid)}
        raise FormatError(message, structure=structure, image_offset=where, **sides)
    return parsed, paddr
