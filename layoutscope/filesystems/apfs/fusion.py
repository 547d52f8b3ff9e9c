"""Fusion sets: a container on a solid-state drive and a hard disk, one of whose images may be missing.

Apple File System Reference, Fusion. The main device holds the checkpoints. The second device holds a copy of the
superblock and data; its addresses have a mark. The middle tree maps runs of the second device to their cached copies on
the main device. Apple does not document how the write-back cache's state and lists are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.btree import read_nodes
from layoutscope.filesystems.apfs.container import Half, Halves, find_superblock
from layoutscope.filesystems.apfs.objects import objects_of
from layoutscope.filesystems.apfs.source import Store, TreeSource
from layoutscope.filesystems.apfs.spaceman import Details, Region
from layoutscope.findings import FindingLog
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.records import (
    FUSION_MT_KEY,
    FUSION_MT_VAL,
    FUSION_WBC_LIST_ENTRY,
    FUSION_WBC_LIST_HEAD,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.structs.grammar import ApfsContainer


KINDS: Final = grammar.ApfsObject.ObjectType
LIST: Final = FUSION_WBC_LIST_HEAD
ENTRY: Final = FUSION_WBC_LIST_ENTRY
CACHE: Final = "write-back cache"


def order_halves(first: Half, second: Half | None, log: FindingLog) -> Halves:
    """Order the halves of a set with the main device first, whichever image was named first."""
    if second is None:
        return first, None
    halves = first, second
    found: list[ApfsContainer.NxSuperblock | FormatError] = []
    for half in halves:
        try:
            # Opening the main device reports the rest.
            found.append(find_superblock(*half, FindingLog()))
        except FormatError as error:
            found.append(error)
    known = [item for item in found if not isinstance(item, FormatError)]
    for number, lost in enumerate(found):
        if isinstance(lost, FormatError):
            if not known or not known[0].is_fusion:
                raise lost
            is_main = not known[0].is_fusion_main
            message = f"this half's own superblock cannot be used, so that nothing proves its set: {lost.reason}"
            at = log.at_byte(lost.structure, lost.image_offset, int(not is_main))
            at.add("checkpoint-invalid", "warning", message)
            return halves if is_main == (number == 0) else (second, first)
    one, two = known
    if not one.is_fusion or _set_of(one) != _set_of(two) or one.is_fusion_main == two.is_fusion_main:
        message = "the two images are not the halves of one Fusion set"
        raise FormatError(message, structure="container superblock", image_offset=first[1])
    return halves if one.is_fusion_main else (second, first)


def _set_of(superblock: ApfsContainer.NxSuperblock) -> bytes:
    """Return the common part of both devices' identifiers."""
    *shared, last = bytes(superblock.fusion_uuid)
    # A single bit distinguishes the devices.
    return bytes([*shared, last & ~1])


def list_second_regions(container: Container) -> list[Region]:
    """Return the regions at fixed addresses on the second device."""
    if not container.superblock.is_fusion:
        return []
    return [Region("container-superblock", "copy on the second device", container.blocks.tier2_mark)]


def middle_tree(container: Container) -> tuple[list[NodeRows], NDArray[np.uint64], Details]:
    """Read the tree that maps cached blocks of the second device; return nodes, dirty runs, and facts for a report."""
    oid = container.superblock.fusion_mt_oid
    if not oid:
        return [], container.blocks.dirty, {}
    nodes, leaves = read_nodes(TreeSource(container.store, "fusion-middle", oid, container.xid))
    parts = [_decode_cached_runs(container, batch) for batch in leaves]
    none = np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, bool)
    target, paddr, count, is_dirty = (np.concatenate(column) for column in zip(none, *parts, strict=True))
    start, stop = target[is_dirty], target[is_dirty] + count[is_dirty].astype(np.uint64)
    # Keys ascend; if two runs overlap nevertheless, a block belongs to the later one.
    dirty = np.stack([start, np.minimum(stop, np.append(start[1:], NO_BLOCK)), paddr[is_dirty]])
    details: Details = {"cached blocks": int(count.sum()), "dirty cached blocks": int(count[is_dirty].sum())}
    return [nodes], dirty, details


NO_BLOCK: Final = np.uint64(2**64 - 1)


def use_cache(container: Container, dirty: NDArray[np.uint64]) -> Container:
    """Make a container read blocks from the main device if their newest bytes are there."""
    blocks = replace(container.blocks, dirty=dirty)
    return replace(container, store=Store.over(blocks, container.log)) if dirty.size else container


def _decode_cached_runs(
    container: Container, batch: ReadNodes
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64], NDArray[np.bool_]]:
    """Decode the runs of one batch; report and skip runs on the wrong device.

    Return the first block of each run on the second device and on the main device, its number of blocks, and whether it
    is dirty. For runs that are not dirty, both devices hold the bytes that were written last.
    """
    slots = batch.slots
    values = batch.columns(
        "val", FUSION_MT_VAL, (FUSION_MT_VAL.paddr, FUSION_MT_VAL.num_blocks, FUSION_MT_VAL.is_dirty)
    )
    keys = batch.column("key", FUSION_MT_KEY, FUSION_MT_KEY.paddr)
    length = values["num_blocks"].astype(np.int64)
    limit = container.device_blocks[0]
    wrong = (values["paddr"] < 0) | (values["paddr"] > limit - length) | (keys < container.blocks.tier2_mark)
    for row in np.flatnonzero(wrong).tolist():
        log = batch.at(int(slots.node[row]), int(slots.val_start[row]))
        log.add("record-invalid", "warning", "it is cached on the wrong device")
    target, paddr = keys[~wrong].astype(np.uint64), values["paddr"][~wrong].astype(np.uint64)
    return target, paddr, length[~wrong], values["is_dirty"][~wrong].astype(bool)


def write_cache(container: Container) -> tuple[list[Region], Details]:
    """Read the write-back cache's state and lists; return regions outside the checkpoint areas, and numbers."""
    oid = container.superblock.fusion_wbc_oid
    if not oid:
        return [], {}
    objects = objects_of(container)
    found = objects.try_read(grammar.ApfsFusion.FusionWbc, KINDS.nx_fusion_wbc, CACHE, oid)
    if found is None:
        return [], {}
    state, regions = found[0], objects.regions("fusion-wbc", CACHE, oid)
    if state.rc_stash.num_blocks:
        run = state.rc_stash
        regions.append(Region("fusion-read-cache-stash", CACHE, run.start_paddr, run.num_blocks))
    held = 0
    # Lists do not contain the address of the next one; the state names the first and the last.
    for list_oid in dict.fromkeys((state.list_head_oid, state.list_tail_oid)):
        more, count = _read_list(container, list_oid) if list_oid else ([], 0)
        regions += more
        held += count
    return regions, {"write-back cache blocks in use": held}


def _read_list(container: Container, oid: int) -> tuple[list[Region], int]:
    """Read a list of the cache; return its region, and the number of blocks that it names."""
    name, objects = f"cache list {oid}", objects_of(container)
    found = objects.try_read(grammar.ApfsFusion.FusionWbcListHead, KINDS.nx_fusion_wbc_list, name, oid)
    if found is None:
        return [], 0
    head, (paddr, size_bytes, _) = found[0], objects.find(oid)
    regions = objects.regions("fusion-wbc-list", CACHE, oid)
    first, stop, size = head.index_begin, head.index_end, ENTRY.width
    if not first <= stop <= head.index_max or LIST.width + stop * size > size_bytes:
        log = container.log.at(name, paddr, plus=LIST.index_begin.offset)
        log.add("structure-invalid", "warning", "entries that do not fit into the list")
        return regions, 0
    data = np.frombuffer(container.blocks.read_object(paddr, size_bytes), np.uint8)
    starts = LIST.width + np.arange(first, stop, dtype=np.int64) * size
    entries = decode_columns(ENTRY, data, starts, (ENTRY.wbc_paddr, ENTRY.target_paddr, ENTRY.num_blocks))
    # Entries that are outside of the cache, or do not belong to a block of the second device.
    cache, place = container.superblock.fusion_wbc, entries["wbc_paddr"]
    base, room = cache.start_paddr, cache.num_blocks
    length = np.minimum(entries["num_blocks"], np.uint64(room + 1)).astype(np.int64)
    wrong = (place < base) | (place > base + room - length)
    wrong |= entries["target_paddr"] < container.blocks.tier2_mark
    for start in starts[wrong].tolist():
        message = "an entry leads out of the cache, or not to the second device"
        container.log.at(name, paddr, plus=start).add("record-invalid", "warning", message)
    return regions, int(entries["num_blocks"][~wrong].sum())
