"""A container: its superblock, checkpoint, object map and volumes.

Apple File System Reference, Container. Block 0 holds a copy of the superblock. This copy gives the block size and the
address of the checkpoint descriptor area, which holds the newest superblock.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError, TruncatedError
from layoutscope.filesystems.apfs import checkpoint as checkpoints
from layoutscope.filesystems.apfs import omap as omaps
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.filesystems.apfs.btree import open_omap
from layoutscope.filesystems.apfs.checkpoint import descriptor_paddrs, find_younger, read_descriptor_area, ring_paddrs
from layoutscope.filesystems.apfs.nodes import find_unusable
from layoutscope.filesystems.apfs.source import Store
from layoutscope.filesystems.apfs.spaceman import device_blocks
from layoutscope.filesystems.apfs.verify import checksum_of, object_header
from layoutscope.filesystems.content import MAX_HITS, Content, sectors_with, stored_pieces
from layoutscope.findings import Finding
from layoutscope.image.source import Window
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_column
from layoutscope.structs.records import NX_SUPERBLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.checkpoint import Checkpoint, DescriptorArea
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.filesystems.apfs.omap import ObjectMap, OmapView
    from layoutscope.findings import FindingLog
    from layoutscope.image.source import Source
    from layoutscope.structs.grammar import ApfsContainer


MIN_BLOCK_BYTES: Final = 4096
SEARCHED_BLOCKS: Final = 512

Half = tuple["Source", int]
"""An image, and the byte offset in it at which the container or its half of a Fusion set starts."""

Halves = tuple[Half, Half | None]
"""The main device's half, and the half of a Fusion set's second device, if it was given."""


class Container(Struct, frozen=True):
    """An opened container."""

    store: Store  # blocks to read from, and the log for findings that concern no volume
    area: DescriptorArea  # the checkpoint descriptor ring
    checkpoint: Checkpoint  # the state that was opened
    view: OmapView  # the container's object map as of the checkpoint
    omap_header: ApfsContainer.OmapPhys  # header of the object map; it leads to no tree, 0, if the map cannot be used
    data_paddrs: NDArray[np.uint64]  # blocks of the checkpoint data area, in ring order
    area_trees: list[NodeRows]  # trees that map the checkpoint areas, if these are fragmented
    device_blocks: tuple[int, ...]  # number of blocks of the main device, and of the second device of a Fusion set
    # a later transaction of which only traces are left, see `find_younger`; None if an older state was requested
    younger: tuple[int, int, str] | None = None

    @property
    def blocks(self) -> Blocks:
        """The container's blocks."""
        return self.store.blocks

    @property
    def log(self) -> FindingLog:
        """Log for findings that concern no volume."""
        return self.store.log

    @property
    def omap(self) -> ObjectMap:
        """The container's object map: all versions of all objects."""
        return self.view.omap

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
    main: Half,  # the image, and the byte offset at which the container starts
    log: FindingLog,
    *,
    second: Half | None = None,
    xid: int | None = None,
) -> Container:
    """Open a container as a mount would."""
    # The copy in block 0 locates the ring. It is written at an unmount, so it may be older than those in the ring.
    first = find_superblock(*main, log)
    # For a Fusion set this is the size of both devices. A size that is too large is harmless: the image ends first.
    blocks = address_blocks((main, second), _size_bytes(first), int(first.len_block), int(first.num_blocks))
    store = Store.over(blocks, log)
    paddrs, trees = descriptor_paddrs(store, first)
    area = checkpoints.read_descriptor_area(store.blocks, paddrs)
    for checkpoint in checkpoints.usable(store, area, xid):
        try:
            opened = _open_state(store, first, area, checkpoint, trees)
        except FormatError as error:
            checkpoints.pass_over(log, checkpoint.xid, error)
            continue
        if checkpoint.xid == xid:
            return opened
        return replace(opened, younger=find_younger(area, checkpoint.xid, int(first.hdr.xid)))
    size, end, because = main[0].size_bytes, main[1] + _size_bytes(first), ""
    # The blocks of a Fusion set are on two images.
    if end > size and not first.is_fusion:
        because = f"the image ends at byte {size:,}, its container at {end:,}"
    where = store.blocks.at(int(area.paddr[0]) if len(area.paddr) else 0)
    structure = "checkpoint descriptor area"
    raise FormatError("no checkpoint can be used", structure=structure, image_offset=where, because=because)


def _open_state(
    store: Store,
    first: ApfsContainer.NxSuperblock,
    area: DescriptorArea,
    checkpoint: Checkpoint,
    trees: list[NodeRows],
) -> Container:
    """Open the object map of a checkpoint; `trees` are those that map the descriptor area."""
    superblock, apart = checkpoint.superblock, store.apart()
    header, omap = open_omap(apart, "container-omap", superblock.omap_oid, checkpoint.xid)
    if not len(omap.nodes) or (not len(omap) and any(superblock.fs_oid)):
        store.lost.extend([*apart.lost, *find_unusable(omap.nodes)])
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
    report_missing_half(store, superblock)
    return Container(store, area, checkpoint, view, header, data, trees + data_trees, sizes)


def address_blocks(halves: Halves, main_bytes: int, block_size: int, num_claimed: int) -> Blocks:
    """Address the blocks of a container: up to a size on the main device, and to the end of the second image."""
    (source, start), second = halves
    windows: list[Source | None] = [Window(source, start, main_bytes)]
    offsets = [start]
    if second is not None:
        windows.append(Window(second[0], second[1], second[0].size_bytes - second[1]))
        offsets.append(second[1])
    return Blocks(tuple(windows), tuple(offsets), block_size, num_claimed=num_claimed)


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


def report_missing_half(store: Store, superblock: ApfsContainer.NxSuperblock) -> None:
    """Report that the second device of a Fusion set is missing."""
    if superblock.is_fusion and len(store.blocks.sources) < 2:
        message = "the second device's image was not given; its data is not read"
        store.log.at("container superblock", 0).add("fusion-half", "error", message)


def find_superblock(
    source: Source,
    image_offset: int,  # byte offset at which the container starts
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
        # A read error has the length of the read, but not the name of the structure.
        replace(log.at_error(error), structure="container superblock").add("checkpoint-invalid", "warning", message)
        return found


def parse_superblock(source: Source, image_offset: int) -> ApfsContainer.NxSuperblock:
    """Parse a superblock and verify its checksum."""
    data = source.read(image_offset, MIN_BLOCK_BYTES)
    cls, structure = grammar.ApfsContainer.NxSuperblock, "container superblock"
    parsed = grammar.parse(cls, data, structure=structure, image_offset=image_offset)
    size, kind = int(parsed.len_block), int(grammar.ApfsObject.ObjectType.nx_superblock)
    problem, expected, found = "", "", ""
    if size & (size - 1):
        problem, found = "block size is not a power of two", str(size)
    elif parsed.hdr.type != kind:
        problem, found = "object of another type", str(parsed.hdr.type)
    else:
        computed = checksum_of(source.read(image_offset, size))
        if computed != parsed.hdr.cksum:
            problem, expected, found = "checksum differs", f"{computed:#x}", f"{parsed.hdr.cksum:#x}"
    if problem:
        sides = {"expected": expected, "found": found}
        raise FormatError(problem, structure=structure, image_offset=image_offset, **sides)
    return parsed


def search_superblock(
    source: Source,
    image_offset: int,  # byte offset at which the container starts
) -> ApfsContainer.NxSuperblock | None:
    """Parse the newest sound superblock after block 0; None if there is none."""
    first = image_offset + MIN_BLOCK_BYTES
    count = min(SEARCHED_BLOCKS - 1, (source.size_bytes - first) // MIN_BLOCK_BYTES)
    starts = first + MIN_BLOCK_BYTES * np.arange(max(count, 0), dtype=np.int64)
    best = None
    try:
        blocks = source.read_extents(starts, np.full(len(starts), MIN_BLOCK_BYTES, np.int64))
        magic = decode_column(NX_SUPERBLOCK, blocks, starts - starts[:1], NX_SUPERBLOCK.magic)
        starts = starts[magic == int(grammar.ApfsContainer.ContainerMagic.nx_superblock)]
    except FormatError:
        # Some blocks were never read into the image: try each of them.
        pass
    for where in starts.tolist():
        try:
            found = parse_superblock(source, where)
        except FormatError:
            continue
        best = found if best is None or found.hdr.xid > best.hdr.xid else best
    return best


def _compare_copies(log: FindingLog, first: ApfsContainer.NxSuperblock, newest: ApfsContainer.NxSuperblock) -> None:
    """Compare the copy in block 0 with the newest; it is written at an unmount, so a crash leaves an old one."""
    copy = log.at("container superblock", 0)
    if first.hdr.xid < newest.hdr.xid:
        message = "copy in block 0 is of an earlier transaction than the checkpoint"
        copy.add("superblock-older", "info", message, expected=newest.hdr.xid, found=first.hdr.xid)
    if first.uuid != newest.uuid or first.len_block != newest.len_block:
        copy.add("structure-invalid", "error", "copy in block 0 belongs to another container than the checkpoint")


def uuid_text(raw: bytes) -> str:
    """Format a UUID as text."""
    return str(uuid.UUID(bytes=raw)).upper()


def newest_xid(area: DescriptorArea) -> int:
    """Return the newest transaction with a sound superblock in the ring, 0 if there is none."""
    rows = np.flatnonzero(area.kind == int(grammar.ApfsObject.ObjectType.nx_superblock))
    return int(area.xid[rows].max(initial=0))


def report_changes(container: Container) -> None:
    """Report a newer transaction that appeared since the container was opened."""
    before = newest_xid(container.area)
    try:
        after = newest_xid(read_descriptor_area(container.blocks, container.area.paddr))
    except TruncatedError:
        after = 0
    if after != before:
        message = "the container changed while it was read; what was read is of no single state"
        container.at_superblock().add("container-changed", "warning", message, expected=before, found=after)


NEAR_BYTES: Final = 64 * 4096
"""Range of the search for superblocks if block 0 is damaged: a new container has them directly after it."""
MAX_COPIES: Final = 8
"""Maximum number of superblocks to check per possible start, newest first: those of one container agree."""

_MAGIC: Final = int(grammar.ApfsContainer.ContainerMagic.nx_superblock).to_bytes(4, "little")
_KINDS: Final = grammar.ApfsObject.ObjectType


def superblock_places(data: NDArray[np.uint8], offset: int) -> list[int]:
    """List the sectors of a piece that begin like a superblock, in bytes from the origin of `offset`."""
    return sectors_with(data, offset, NX_SUPERBLOCK.magic.offset, _MAGIC)[:MAX_HITS]


def locate(source: Source, places: Iterable[int]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield start and size of the containers of superblocks at some offsets; those with a confirmed start come first.

    If no start was confirmed, the last item lists the structures that would confirm it, none of which was found.
    """
    copies: dict[int, ApfsContainer.NxSuperblock] = {}
    bases: dict[int, list[int]] = {}
    for place in places:
        try:
            copies[place] = parse_superblock(source, place)
        except FormatError:
            continue
        for base in _list_possible_starts(place, copies[place]):
            bases.setdefault(base, []).append(place)
    left = set(copies)
    for base in sorted(bases, key=lambda base: (-len(bases[base]), base)):
        newest = sorted(left.intersection(bases[base]), key=lambda place: -copies[place].hdr.xid)[:MAX_COPIES]
        sound = next((place for place in newest if _witnesses(source, base, place, copies[place])[0]), None)
        if sound is not None:
            size = _size_bytes(copies[sound])
            left -= {place for place in left if base <= place < base + size}
            yield base, size, ()
    for place in sorted(left, key=lambda place: -copies[place].hdr.xid)[:1]:
        # An unconfirmed copy is more likely one of the many in the ring than the single one in block 0.
        base = max(_list_possible_starts(place, copies[place]), key=lambda base: base != place)
        yield base, _size_bytes(copies[place]), _witnesses(source, base, place, copies[place])[1]


def _size_bytes(superblock: ApfsContainer.NxSuperblock) -> int:
    return int(superblock.num_blocks) * int(superblock.len_block)


def _ring_block(superblock: ApfsContainer.NxSuperblock) -> int | None:
    """Return the block of the checkpoint's superblock, its last block in the ring; None if the ring is fragmented."""
    num_blocks = int(superblock.num_desc_blocks)
    if superblock.desc_is_tree or not num_blocks:
        return None
    row = (int(superblock.xp_desc_index) + int(superblock.num_desc_used) - 1) % num_blocks
    return int(superblock.xp_desc_base) + row


def _list_possible_starts(place: int, superblock: ApfsContainer.NxSuperblock) -> list[int]:
    """List the possible starts of a container that has a superblock at an offset."""
    block = _ring_block(superblock)
    ring = [] if block is None else [place - block * int(superblock.len_block)]
    return [place, *(start for start in ring if 0 <= start < place)]


def _witnesses(
    source: Source, base: int, place: int, superblock: ApfsContainer.NxSuperblock
) -> tuple[list[str], tuple[str, ...]]:
    """List the structures that are present if the container starts at `base`, and those that are missing.

    The copy at `place`, from which the start was inferred, does not confirm itself.
    """
    size = int(superblock.len_block)
    found: list[str] = []
    missing: list[str] = []

    def note(name: str, block: int, *, is_there: bool) -> None:
        where = base + block * size
        if where != place:
            (found if is_there else missing).append(f"{name} at byte {where:,}")

    note("superblock in block 0", 0, is_there=_is_copy(source, base, superblock, same_xid=False))
    block = _ring_block(superblock)
    if block is not None:
        is_there = _is_copy(source, base + block * size, superblock, same_xid=True)
        note("superblock of the checkpoint", block, is_there=is_there)
    oid = int(superblock.omap_oid)
    where, is_there = base + oid * size, False
    # The number of a physical object is its block.
    with suppress(FormatError):
        data = source.read(where, size)
        head = object_header(data, where)
        is_there = bool(head.oid == oid and head.type == int(_KINDS.omap) and head.cksum == checksum_of(data))
    note("object map", oid, is_there=is_there)
    return found, tuple(missing)


def _is_copy(source: Source, where: int, superblock: ApfsContainer.NxSuperblock, *, same_xid: bool) -> bool:
    """Return whether a sound superblock of the same container, optionally of the same transaction, is at an offset."""
    try:
        other = parse_superblock(source, where)
    except FormatError:
        return False
    return bool(other.uuid == superblock.uuid and (not same_xid or other.hdr.xid == superblock.hdr.xid))


def contents_at(stretch: Window, places: Iterable[int]) -> list[Content]:
    """List the containers in a stretch, from the superblocks at some offsets, see :func:`locate`."""
    contents = []
    for start, size, missing in locate(stretch, places):
        at = stretch.origin + start
        findings: tuple[Finding, ...] = ()
        if missing:
            lacking = "; ".join(missing)
            message = f"addresses are uncertain: where the container starts is inferred, and it lacks there {lacking}"
            findings = (Finding("start-uncertain", "error", "container", at, message),)
        layers = (f"byte {at}",) if start else ()
        held = min(size, stretch.size_bytes - start)
        contents.append(Content("apfs", "APFS", start, held, layers, (), findings))
    return contents


def probe_near(stretch: Window) -> Content | None:
    """Recognise a container by the superblocks near the start of a stretch, whose block 0 may be damaged."""
    places = [
        place for offset, data in stored_pieces(stretch, 0, NEAR_BYTES) for place in superblock_places(data, offset)
    ]
    found = next(iter(contents_at(stretch, places)), None)
    # A container that starts with its stretch may fill it; a truncated one is reported when it is read.
    return found if found is None or found.volume_offset else found._replace(size_bytes=stretch.size_bytes)
