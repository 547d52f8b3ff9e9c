"""A container: its superblock, checkpoint, object map and volumes.

Apple File System Reference, Container. Block 0 holds a copy of the superblock; it gives the block size and the place
of the checkpoint descriptor area, where the newest superblock is.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError, TruncatedError
from layoutscope.filesystems.apfs.container import checkpoint as checkpoints
from layoutscope.filesystems.apfs.container.checkpoint import read_descriptor_area, ring_paddrs
from layoutscope.filesystems.apfs.container.spaceman import device_blocks
from layoutscope.filesystems.apfs.container.younger import find_younger
from layoutscope.filesystems.apfs.store import omap as omaps
from layoutscope.filesystems.apfs.store.blocks import Blocks
from layoutscope.filesystems.apfs.store.nodes import lost_of
from layoutscope.filesystems.apfs.store.source import Store
from layoutscope.filesystems.apfs.store.verify import read_object
from layoutscope.filesystems.apfs.store.walk import read_omap
from layoutscope.frozen import frozen
from layoutscope.image.source import Window
from layoutscope.ondisk import grammar
from layoutscope.ondisk.checksum import fletcher64
from layoutscope.ondisk.decoder import BULK
from layoutscope.ondisk.records import NX_SUPERBLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.checkpoint import Checkpoint, DescriptorArea
    from layoutscope.filesystems.apfs.container.younger import Younger
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.store.omap import ObjectMap, OmapView
    from layoutscope.findings import FindingLog
    from layoutscope.image.source import Source
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.ondisk.grammar import ApfsContainer

MIN_BLOCK_BYTES: Final = 4096
SEARCHED_BLOCKS: Final = 512

Half = tuple["Source", int]
"""An image, and where the container or its half of a Fusion set starts there, in bytes."""

Halves = tuple[Half, Half | None]
"""The main device's image, and that of the second device of a Fusion set, if it was given."""


@frozen
class NoMap:
    """Stands in for the head of an object map that cannot be used."""

    tree_oid: int = 0
    snapshot_tree_oid: int = 0
    num_snapshots: int = 0
    most_recent_snap: int = 0


@frozen
class Container:
    """An opened container."""

    store: Store  # where it is read; findings that are about no volume go there
    area: DescriptorArea  # the checkpoint descriptor ring
    checkpoint: Checkpoint  # the state that was opened
    omap: ObjectMap  # the container's object map
    view: OmapView  # it, as of the checkpoint
    omap_header: ApfsContainer.OmapPhys | NoMap  # head of the object map
    data_paddrs: NDArray[np.uint64]  # blocks of the checkpoint data area, in the ring's order
    area_trees: list[NodeRows]  # trees that say where the checkpoint areas lie, if they lie in fragments
    device_blocks: tuple[int, ...]  # blocks of the main device, and of the second one of a Fusion set
    # a transaction after that of the checkpoint, of which there are traces and no more; None where an older state was
    # asked for
    younger: Younger | None = None

    @property
    def blocks(self) -> Blocks:
        """Where its blocks are read."""
        return self.store.blocks

    @property
    def decoder(self) -> Decoder:
        """Bulk or grammar."""
        return self.store.decoder

    @property
    def log(self) -> FindingLog:
        """Where findings go that are about no volume."""
        return self.store.log

    @property
    def superblock(self) -> ApfsContainer.NxSuperblock:
        """Superblock of the checkpoint."""
        return self.checkpoint.superblock

    @property
    def xid(self) -> int:
        """Transaction of the checkpoint."""
        return self.checkpoint.xid

    def at_superblock(self, field: str = "") -> FindingLog:
        """Bind the log to the checkpoint's superblock, or to a field of it."""
        plus = NX_SUPERBLOCK.offset_of(field) if field else 0
        return self.log.at("container superblock", self.checkpoint.paddr, plus=plus)


def open_container(
    main: Half,  # the image, and where the container starts there, in bytes
    decoder: Decoder,
    log: FindingLog,
    *,
    second: Half | None = None,
    xid: int | None = None,
) -> Container:
    """Open a container as a mount would."""
    # The copy in block 0 leads to the ring and may be older than what stands there: it is written at an unmount.
    first = find_superblock(*main, log)
    store = Store.over(_blocks(main, first, second), decoder, log)
    paddrs, trees = ring_paddrs(store, first.xp_desc_base, first.num_desc_blocks, is_tree=bool(first.desc_is_tree))
    area = checkpoints.read_descriptor_area(store.blocks, store.decoder, paddrs)
    for checkpoint in checkpoints.usable(store, area, xid):
        try:
            opened = _open_state(store, first, area, checkpoint, trees)
        except FormatError as error:
            checkpoints.pass_over(log, checkpoint.xid, error)
            continue
        if checkpoint.xid == xid:
            return opened
        return replace(opened, younger=find_younger(area, checkpoint.xid, int(first.hdr.xid)))
    where = store.blocks.at(int(area.paddr[0]) if len(area.paddr) else 0)
    raise FormatError(
        "no checkpoint can be used",
        structure="checkpoint descriptor area",
        image_offset=where,
        because=_cut_off(*main, first),
    )


def _cut_off(source: Source, image_offset: int, superblock: ApfsContainer.NxSuperblock) -> str:
    """Say that an image ends before its container, if it does; the blocks of a Fusion set are on two images."""
    end = image_offset + int(superblock.num_blocks) * int(superblock.len_block)
    if superblock.is_fusion or end <= source.size_bytes:
        return ""
    return f"the image ends at byte {source.size_bytes:,}, its container at {end:,}"


def _open_state(
    store: Store,
    first: ApfsContainer.NxSuperblock,
    area: DescriptorArea,
    checkpoint: Checkpoint,
    trees: list[NodeRows],
) -> Container:
    """Open the object map of a checkpoint; `trees` are those of the descriptor area."""
    superblock, apart = checkpoint.superblock, store.apart()
    header = read_object(store.blocks, grammar.ApfsContainer.OmapPhys, superblock.omap_oid, "container object map")
    omap = read_omap(apart, "container-omap", header.tree_oid, checkpoint.xid)
    if not len(omap.nodes) or (not len(omap) and any(superblock.fs_oid)):
        store.lost.extend([*apart.lost, *lost_of(omap.nodes)])
        found = apart.log.findings
        where = found[0].image_offset if found else store.blocks.at(superblock.omap_oid)
        raise FormatError("its tree cannot be read", structure="container object map", image_offset=where)
    _compare_copies(store.log, first, superblock)
    data, data_trees = ring_paddrs(
        store, superblock.xp_data_base, superblock.num_data_blocks, is_tree=bool(superblock.data_is_tree)
    )
    store.log.extend(apart.log.findings)
    view = omaps.view_at(omap, checkpoint.xid)
    sizes = device_blocks(store, checkpoint)
    _report_truncation(store, sizes)
    return Container(store, area, checkpoint, omap, view, header, data, trees + data_trees, sizes)


def _blocks(main: Half, superblock: ApfsContainer.NxSuperblock, second: Half | None) -> Blocks:
    source, image_offset = main
    # Of a Fusion set this is the size of both devices: what is too much does not hurt, the image ends first.
    windows: list[Source | None] = [Window(source, image_offset, superblock.num_blocks * superblock.len_block)]
    offsets = [image_offset]
    if second is not None:
        windows.append(Window(second[0], second[1], second[0].size_bytes - second[1]))
        offsets.append(second[1])
    return Blocks(tuple(windows), tuple(offsets), superblock.len_block, num_claimed=superblock.num_blocks)


def _report_truncation(store: Store, device_blocks: tuple[int, ...]) -> None:
    blocks = store.blocks
    marks, names = (0, blocks.tier2_mark), ("the container", "the second device of the Fusion set")
    for source, num_blocks, mark, name in zip(blocks.sources, device_blocks, marks, names, strict=False):
        claimed, present = num_blocks * blocks.block_size, source.size_bytes if source else 0
        # A converted HFS+ volume may end within the last block.
        if claimed - present >= blocks.block_size:
            log = store.log.at("container superblock", mark)
            message = f"{name} is larger than the rest of the image"
            log.add("truncated", "warning", message, expected=f"{claimed} bytes", found=f"{present} bytes")


def find_superblock(
    source: Source,
    image_offset: int,  # where the container starts there, in bytes
    log: FindingLog,
) -> ApfsContainer.NxSuperblock:
    """Parse the superblock in block 0 or, if that is damaged, the newest sound one near the start."""
    try:
        return parse_superblock(source, image_offset)
    except FormatError as error:
        found = search_superblock(source, image_offset)
        if found is None:
            raise
        message = f"copy in block 0 cannot be used: {error.reason}; one from the descriptor area is taken"
        # An error of a read knows how long it was, and not of what.
        replace(log.at_error(error), structure="container superblock").add("checkpoint-invalid", "warning", message)
        return found


def parse_superblock(source: Source, image_offset: int) -> ApfsContainer.NxSuperblock:
    """Parse a superblock whose checksum is right."""
    data = source.read(image_offset, MIN_BLOCK_BYTES)
    parsed = grammar.parse(
        grammar.ApfsContainer.NxSuperblock, data, structure="container superblock", image_offset=image_offset
    )
    if parsed.len_block & (parsed.len_block - 1):
        raise FormatError(
            "block size is no power of two",
            structure="container superblock",
            image_offset=image_offset,
            found=str(parsed.len_block),
        )
    if parsed.hdr.type != int(grammar.ApfsObject.ObjectType.nx_superblock):
        raise FormatError(
            "object of another type",
            structure="container superblock",
            image_offset=image_offset,
            found=str(parsed.hdr.type),
        )
    whole = np.frombuffer(source.read(image_offset, parsed.len_block), np.uint8)
    computed = int(fletcher64(whole[None, :])[0])
    if computed != parsed.hdr.cksum:
        raise FormatError(
            "checksum differs",
            structure="container superblock",
            image_offset=image_offset,
            expected=f"{computed:#x}",
            found=f"{parsed.hdr.cksum:#x}",
        )
    return parsed


def search_superblock(
    source: Source,
    image_offset: int,  # where the container starts there, in bytes
) -> ApfsContainer.NxSuperblock | None:
    """Parse the newest sound superblock behind block 0; None where there is none."""
    first = image_offset + MIN_BLOCK_BYTES
    count = min(SEARCHED_BLOCKS - 1, (source.size_bytes - first) // MIN_BLOCK_BYTES)
    starts = first + MIN_BLOCK_BYTES * np.arange(max(count, 0), dtype=np.int64)
    best = None
    for where in starts[_bear_magic(source, starts)].tolist():
        try:
            found = parse_superblock(source, where)
        except FormatError:
            continue
        best = found if best is None or found.hdr.xid > best.hdr.xid else best
    return best


def _bear_magic(source: Source, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which blocks have a superblock's magic; all may, where some of them were never read."""
    try:
        blocks = source.read_extents(starts, np.full(len(starts), MIN_BLOCK_BYTES, np.int64))
    except FormatError:
        return np.ones(len(starts), np.bool_)
    found = BULK.column(NX_SUPERBLOCK, blocks, starts - starts[:1], NX_SUPERBLOCK.magic)
    result: NDArray[np.bool_] = found == int(grammar.ApfsContainer.ContainerMagic.nx_superblock)
    return result


def _compare_copies(log: FindingLog, first: ApfsContainer.NxSuperblock, newest: ApfsContainer.NxSuperblock) -> None:
    """Block 0 is written when a container is unmounted: an older copy there is normal after a crash."""
    copy = log.at("container superblock", 0)
    if first.hdr.xid < newest.hdr.xid:
        message = "copy in block 0 is of an earlier transaction than the checkpoint"
        copy.add("superblock-older", "info", message, expected=newest.hdr.xid, found=first.hdr.xid)
    if first.uuid != newest.uuid or first.len_block != newest.len_block:
        copy.add("structure-invalid", "error", "copy in block 0 belongs to another container than the checkpoint")


def uuid_text(raw: bytes) -> str:
    """Return an identifier as people write it."""
    return str(uuid.UUID(bytes=raw)).upper()


def newest_xid(area: DescriptorArea) -> int:
    """Return the newest transaction of a sound superblock in the ring, 0 if there is none."""
    rows = np.flatnonzero(area.kind == int(grammar.ApfsObject.ObjectType.nx_superblock))
    return int(area.xid[rows].max(initial=0))


def report_changes(container: Container) -> None:
    """Look whether a newer transaction appeared since the container was opened."""
    before = newest_xid(container.area)
    try:
        after = newest_xid(read_descriptor_area(container.blocks, container.decoder, container.area.paddr))
    except TruncatedError:
        after = 0
    if after != before:
        message = "the container changed while it was read; what was read is of no single state"
        container.at_superblock().add("container-changed", "warning", message, expected=before, found=after)
