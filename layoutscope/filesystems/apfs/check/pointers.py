"""Fields and object maps that lead somewhere: what lies there is what it should be.

Apple File System Reference. Reading reports what is wrong at its own address; here the field that led to it is named,
because it may as well be the one that is wrong. An entry of an object map is (object, transaction) -> address, size and
flags; the object's own header repeats number and transaction, unless it has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.check.subject import MOST_CASES, container_sources, volume_roots
from layoutscope.filesystems.apfs.container import checkpoint as checkpoints
from layoutscope.filesystems.apfs.container.container import NoMap
from layoutscope.filesystems.apfs.store.losses import find_losses, report_losses, tell_losses
from layoutscope.filesystems.apfs.store.source import TreeSource
from layoutscope.filesystems.apfs.store.verify import object_header, read_object, read_virtual
from layoutscope.filesystems.apfs.store.walk import read_levels
from layoutscope.filesystems.apfs.volume.mapped import are_misled, read_mapped, report_damaged_objects
from layoutscope.filesystems.apfs.volume.volume import list_volumes
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.checksum import fletcher64
from layoutscope.ondisk.records import (
    APFS_SUPERBLOCK,
    CHECKPOINT_MAP_HEAD,
    CHECKPOINT_MAPPING,
    NX_SUPERBLOCK,
    OBJ_PHYS,
    OMAP_KEY,
    OMAP_VAL,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.omap import ObjectMap
    from layoutscope.filesystems.apfs.volume.mapped import Mapped
    from layoutscope.findings import Level
    from layoutscope.ondisk.grammar import ApfsContainer

SUPERBLOCK: Final = NX_SUPERBLOCK
VOLUME: Final = APFS_SUPERBLOCK
MAPPING: Final = CHECKPOINT_MAPPING
KEY: Final = OMAP_KEY
VALUE: Final = OMAP_VAL
OID_BYTES: Final = OBJ_PHYS.xid.offset - OBJ_PHYS.oid.offset
MAPPING_FIELDS: Final = (MAPPING.type, MAPPING.subtype, MAPPING.len_object, MAPPING.oid, MAPPING.paddr)
ENTRY_FIELDS: Final = (VALUE.paddr, VALUE.len_object, VALUE.is_deleted, VALUE.is_encrypted, VALUE.is_noheader)


def check_roots(subject: Subject) -> None:
    """Every tree of a volume can be reached from the field that names its root, and every node from its parent."""
    for parts in subject.volumes:
        # Whoever reads a tree tells of each node that is no node of it: where nothing was told, nothing is missing.
        for source, log in volume_roots(subject, parts) if parts.log.findings or parts.view != "live" else ():
            losses, has_root = find_losses(source)
            if not has_root:
                message = f"leads to no root of the {source.tree} tree"
                log.add("tree-unreadable", "error", message, found=f"object {source.root_oid}")
            tell_losses(losses, source, parts.fs.records if source.tree == "fs" else None, subject.log)


def check_container_trees(subject: Subject) -> None:
    """Every node of the container's own trees can be reached from its parent."""
    for source in container_sources(subject):
        report_losses(source, None, subject.log)


def check_lost_volumes(subject: Subject) -> None:
    """Every volume that the container names has a superblock with an object map."""
    container = subject.container
    for slot, oid in list_volumes(container):
        plus = SUPERBLOCK.fs_oid.offset + slot * OID_BYTES
        log = subject.log.at(f"volume {oid}", container.checkpoint.paddr, plus=plus)
        cls = grammar.ApfsVolume.ApfsSuperblock
        try:
            superblock, paddr = read_virtual(container.blocks, cls, container.view, oid, "volume superblock")
            log = subject.log.at(f"volume {oid}", paddr, plus=VOLUME.omap_oid.offset)
            _ = read_object(container.blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "object map")
        except FormatError as error:
            message = f"the volume in slot {slot} cannot be opened as it stands: {error.reason}"
            log.add("volume-unreadable", "error", message)


def check_checkpoints(subject: Subject) -> None:
    """Every checkpoint that is not older than the one in use has its objects where its maps say."""
    container = subject.container
    for paddr, superblock in checkpoints.superblocks(subject.apart, container.area):
        if superblock.hdr.xid >= container.xid:
            _check_maps(subject, superblock)
            if superblock.hdr.xid > container.xid or isinstance(container.omap_header, NoMap):
                _check_omap(subject, paddr, superblock)


def _check_omap(subject: Subject, paddr: int, superblock: ApfsContainer.NxSuperblock) -> None:
    try:
        read_object(subject.container.blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "object map")
    except FormatError as error:
        name, plus = f"container superblock of xid {superblock.hdr.xid}", SUPERBLOCK.omap_oid.offset
        message = f"the object map cannot be used: {error.reason}"
        subject.log.at(name, paddr, plus=plus).add("checkpoint-invalid", "warning", message)


def _check_maps(subject: Subject, superblock: ApfsContainer.NxSuperblock) -> None:
    """Compare the mappings of a checkpoint with the objects in the data area."""
    container = subject.container
    blocks, area, ring = container.blocks, container.area, len(container.area.paddr)
    kind = int(grammar.ApfsObject.ObjectType.checkpoint_map)
    head, size = CHECKPOINT_MAP_HEAD.width, MAPPING.width
    # The descriptor area is a ring: what begins near its end goes on at its start.
    for row in ((superblock.xp_desc_index + np.arange(min(superblock.num_desc_used, ring))) % max(ring, 1)).tolist():
        if area.kind[row] != kind:
            continue
        block = area.blocks[row]
        count = container.decoder.column(
            CHECKPOINT_MAP_HEAD, block, np.zeros(1, np.int64), CHECKPOINT_MAP_HEAD.num_mappings
        )[0]
        if count > (blocks.block_size - head) // size:
            plus = CHECKPOINT_MAP_HEAD.num_mappings.offset
            log = subject.log.at(f"checkpoint map of xid {superblock.hdr.xid}", int(area.paddr[row]), plus=plus)
            log.add("checkpoint-invalid", "warning", "it counts more mappings than fit", found=count)
            continue
        starts = head + np.arange(int(count), dtype=np.int64) * size
        found = container.decoder.columns(MAPPING, block, starts, MAPPING_FIELDS)
        for number, start in enumerate(starts.tolist()):
            mapping = {name: int(values[number]) for name, values in found.items()}
            problem = _mapping_problem(subject, mapping)
            if problem:
                field, message = problem
                name = f"checkpoint map of xid {superblock.hdr.xid}, object {mapping['oid']}"
                log = subject.log.at(name, int(area.paddr[row]), plus=start + MAPPING.offset_of(field))
                log.add("checkpoint-invalid", "warning", message, found=mapping.get(field, ""))


def _mapping_problem(subject: Subject, mapping: dict[str, int]) -> tuple[str, str] | None:
    """Field that cannot be right, and why; None if the object is there."""
    blocks = subject.container.blocks
    size = mapping["len_object"]
    if not 0 < size <= checkpoints.MAX_OBJECT_BYTES or size % blocks.block_size:
        return "len_object", "its size is no whole number of blocks, or impossibly large"
    try:
        data = np.frombuffer(blocks.read_object(mapping["paddr"], size), np.uint8)
    except FormatError as error:
        return "paddr", error.reason
    head = object_header(data.tobytes(), blocks.at(mapping["paddr"]))
    if int(fletcher64(data[None, :])[0]) != head.cksum:
        return "paddr", "the object there has a wrong checksum"
    if head.oid != mapping["oid"]:
        return "oid", "the object there has another number"
    if (head.type, head.subtype) != (mapping["type"], mapping["subtype"]):
        return "type_and_flags", "the object there is of another type"
    return None


def check_container_map(subject: Subject) -> None:
    """Compare every entry of the container's object map with its object."""
    container = subject.container
    if len(container.omap.nodes):
        mapped = read_mapped(container.omap, container.store)
        root = container.omap_header.tree_oid
        _check_map(subject, TreeSource(subject.apart, "container-omap", root, container.xid), container.omap, mapped)


def check_object_maps(subject: Subject) -> None:
    """Compare every entry of volumes' object maps with its object."""
    for parts in subject.volumes:
        state = parts.state
        known = [parts.fs.nodes] if parts.view == "live" and not parts.log.findings else list(parts.views.values())
        mapped = read_mapped(state.omap, state.store, known, parts.cipher)
        source = TreeSource(subject.apart, "omap", state.omap_header.tree_oid, subject.container.xid)
        _check_map(subject, source, state.omap, mapped, may_encrypt=not state.superblock.is_unencrypted)


_KINDS: Final = {"omap": "fs tree, node", "container-omap": "volume"}
"""What the objects of a map are called, as where trees lead to them."""


def _check_map(
    subject: Subject, source: TreeSource, omap: ObjectMap, mapped: Mapped, *, may_encrypt: bool = False
) -> None:
    """Compare the entries of an object map with their objects, and report the objects that are damaged themselves."""
    misled = are_misled(omap, mapped)
    report_damaged_objects(omap, mapped, misled, _KINDS[source.tree], subject.log)
    wrong = np.unique(omap.paddr[misled])
    for batch in read_levels(source):
        if not batch.level and len(batch.slots):
            _check_entries(subject, batch, mapped, wrong, may_encrypt=may_encrypt)


def _check_entries(
    subject: Subject, batch: ReadNodes, mapped: Mapped, wrong: NDArray[np.uint64], *, may_encrypt: bool
) -> None:
    source = batch.tree.source
    blocks = source.blocks
    entry = batch.columns("key", KEY, (KEY.oid, KEY.xid)) | batch.columns("val", VALUE, ENTRY_FIELDS)
    deleted, size = entry["is_deleted"], entry["len_object"].astype(np.int64)
    future = entry["xid"] > np.uint64(source.max_xid)
    odd = ~deleted & ((size == 0) | (size % blocks.block_size != 0))
    outside = ~deleted & ~blocks.present(entry["paddr"], blocks.block_size)
    alone = deleted & ~_has_older(entry["oid"])
    strange = ~deleted & entry["is_encrypted"] & (not may_encrypt)
    report = _Entries(subject, batch, entry)
    # An error loses the object that the entry names; what a warning is about was read all the same.
    report.cases(future, "key.xid", "its transaction is younger than the container", found=entry["xid"], level="error")
    message = "its size is no whole number of blocks"
    report.cases(odd, "val.len_object", message, found=entry["len_object"], level="error")
    row, is_sound = mapped.of(entry["paddr"])
    is_sound &= ~(deleted | outside)
    stored = size.copy()
    stored[is_sound] = mapped.size_bytes[row[is_sound]]
    report.cases(~odd & (stored != size), "val.len_object", "the node there has another size", stored, size)
    report.cases(outside, "val.paddr", "it leads out of the image", found=entry["paddr"], level="error")
    message = "it says deleted, but no older entry is there to delete"
    report.cases(alone, "val.flags", message, level="error")
    report.cases(strange, "val.flags", "it says encrypted on a volume that is not")
    # Where the block fails its own checksum, what stands in it contradicts nothing.
    found = {name: entry[name].copy() for name in ("oid", "xid")}
    plain = np.flatnonzero(is_sound & ~(future | odd))
    found["oid"][plain], found["xid"][plain] = mapped.oid[row[plain]], mapped.xid[row[plain]]
    other = found["oid"] != entry["oid"]
    message = "the object there has another number"
    is_misled = other & np.isin(entry["paddr"], wrong)
    report.cases(is_misled, "key.oid", message, entry["oid"], found["oid"], level="error")
    report.cases(other & ~is_misled, "key.oid", message, entry["oid"], found["oid"])
    later = (found["xid"] != entry["xid"]) & ~other
    report.cases(later, "key.xid", "the object there is of another transaction", entry["xid"], found["xid"])


def _has_older(oid: NDArray[np.uint64]) -> NDArray[np.bool_]:
    # Keys are object and transaction: versions of one object stand side by side, the oldest first.
    result = np.ones(len(oid), bool)
    result[1:] = oid[1:] == oid[:-1]
    return result


@frozen
class _Entries:
    """Reports entries of a batch of leaves."""

    subject: Subject
    batch: ReadNodes
    entry: dict[str, NDArray[Any]]

    def cases(
        self,
        wrong: NDArray[np.bool_],
        field: str,
        message: str,
        expected: NDArray[Any] | None = None,
        found: NDArray[Any] | None = None,
        *,
        level: Level = "warning",
    ) -> None:
        """Report entries at a field of their key or value."""
        slots, (part, _, path) = self.batch.slots, field.partition(".")
        starts, type_name = (slots.key_start, KEY) if part == "key" else (slots.val_start, VALUE)
        plus = type_name.offset_of(path)
        for row in np.flatnonzero(wrong)[:MOST_CASES].tolist():
            sides = ["" if side is None else side[row] for side in (expected, found)]
            name, at = f"entry of object {self.entry['oid'][row]}", int(starts[row]) + plus
            log = self.batch.at(int(slots.node[row]), at, name=name, log=self.subject.log)
            log.add("object-map-differs", level, message, expected=sides[0], found=sides[1])
