"""Where a container starts: told by its superblocks, confirmed by what they lead to.

Apple File System Reference, Container. Copies of the superblock are in block 0 and in the checkpoint descriptor area.
A copy does not say which of the two it is, but every address in it counts from block 0: what lies at the right distance
from an assumed block 0 confirms it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import parse_superblock
from layoutscope.filesystems.recognition import MAX_HITS, Content, sectors_with, stored_pieces
from layoutscope.findings import Finding
from layoutscope.ondisk import grammar
from layoutscope.ondisk.checksum import fletcher64
from layoutscope.ondisk.records import NX_SUPERBLOCK, OBJ_PHYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from layoutscope.image.source import Source, Window
    from layoutscope.ondisk.grammar import ApfsContainer

NEAR_BYTES: Final = 64 * 4096
"""How far superblocks are looked for where block 0 is damaged: those of a new container lie right behind it."""
MAX_COPIES: Final = 8
"""Superblocks that are tried for one assumed start, the newest first: those of one container agree."""

_MAGIC: Final = int(grammar.ApfsContainer.ContainerMagic.nx_superblock).to_bytes(4, "little")
_KINDS: Final = grammar.ApfsObject.ObjectType


class Located(NamedTuple):
    """A container that was found by its superblocks."""

    start: int  # its block 0, in bytes from the start of the source
    size_bytes: int  # its size as its superblock has it
    # the structures that would confirm the start, if none of them is there; empty where one is
    missing: tuple[str, ...] = ()


def superblock_places(data: NDArray[np.uint8], offset: int) -> list[int]:
    """List the sectors of a piece that begin like a superblock, in bytes from where `offset` counts."""
    return sectors_with(data, offset, NX_SUPERBLOCK.magic.offset, _MAGIC)[:MAX_HITS]


def locate(source: Source, places: Iterable[int]) -> Iterator[Located]:
    """Yield the containers whose superblocks stand at some places; those whose start is confirmed come first."""
    copies: dict[int, ApfsContainer.NxSuperblock] = {}
    bases: dict[int, list[int]] = {}
    for place in places:
        try:
            copies[place] = parse_superblock(source, place)
        except FormatError:
            continue
        for base in _assumed_starts(place, copies[place]):
            bases.setdefault(base, []).append(place)
    left = set(copies)
    for base in sorted(bases, key=lambda base: (-len(bases[base]), base)):
        newest = sorted(left.intersection(bases[base]), key=lambda place: -copies[place].hdr.xid)[:MAX_COPIES]
        sound = next((place for place in newest if _witnesses(source, base, place, copies[place])[0]), None)
        if sound is not None:
            found = Located(base, _size_bytes(copies[sound]))
            left -= {place for place in left if base <= place < base + found.size_bytes}
            yield found
    for place in sorted(left, key=lambda place: -copies[place].hdr.xid)[:1]:
        # A copy that nothing confirms is more likely one of many in the ring than the single one in block 0.
        base = max(_assumed_starts(place, copies[place]), key=lambda base: base != place)
        yield Located(base, _size_bytes(copies[place]), _witnesses(source, base, place, copies[place])[1])


def _size_bytes(superblock: ApfsContainer.NxSuperblock) -> int:
    return int(superblock.num_blocks) * int(superblock.len_block)


def _ring_block(superblock: ApfsContainer.NxSuperblock) -> int | None:
    """Say in which block the checkpoint has its superblock, the last of its blocks in the ring.

    None if the ring is in fragments.
    """
    num_blocks = int(superblock.num_desc_blocks)
    if superblock.desc_is_tree or not num_blocks:
        return None
    row = (int(superblock.xp_desc_index) + int(superblock.num_desc_used) - 1) % num_blocks
    return int(superblock.xp_desc_base) + row


def _assumed_starts(place: int, superblock: ApfsContainer.NxSuperblock) -> list[int]:
    """List where a container may start that has a superblock at a place."""
    block = _ring_block(superblock)
    ring = [] if block is None else [place - block * int(superblock.len_block)]
    return [place, *(start for start in ring if 0 <= start < place)]


def _witnesses(
    source: Source, base: int, place: int, superblock: ApfsContainer.NxSuperblock
) -> tuple[list[str], tuple[str, ...]]:
    """List which structures are where a superblock has them if the container starts at `base`, and which are not.

    The copy at `place`, from which the start was assumed, does not confirm itself.
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
    note("object map", oid, is_there=_has_object(source, base + oid * size, size, oid, int(_KINDS.omap)))
    return found, tuple(missing)


def _is_copy(source: Source, where: int, superblock: ApfsContainer.NxSuperblock, *, same_xid: bool) -> bool:
    """Whether a sound superblock of the same container, and of the same transaction, is at a place."""
    try:
        other = parse_superblock(source, where)
    except FormatError:
        return False
    return bool(other.uuid == superblock.uuid and (not same_xid or other.hdr.xid == superblock.hdr.xid))


def _has_object(source: Source, where: int, size: int, oid: int, kind: int) -> bool:
    """Whether a sound physical object is at a place, whose number is its block."""
    try:
        data = np.frombuffer(source.read(where, size), np.uint8)
        head = grammar.parse(
            grammar.ApfsObject.ObjPhys, data[: OBJ_PHYS.width].tobytes(), structure="object", image_offset=where
        )
    except FormatError:
        return False
    return bool(head.oid == oid and head.type == kind and head.cksum == int(fletcher64(data[None, :])[0]))


def contents_at(stretch: Window, places: Iterable[int]) -> list[Content]:
    """Say what containers begin in a stretch by the superblocks at some places, see :func:`locate`."""
    contents = []
    for found in locate(stretch, places):
        at = stretch.origin + found.start
        findings: tuple[Finding, ...] = ()
        if found.missing:
            lacking = "; ".join(found.missing)
            message = f"addresses are uncertain: where the container starts is inferred, and it lacks there {lacking}"
            findings = (Finding("start-uncertain", "error", "container", at, message),)
        size = min(found.size_bytes, stretch.size_bytes - found.start)
        layers = (f"byte {at}",) if found.start else ()
        contents.append(Content("apfs", "APFS", found.start, size, layers, "", (), findings))
    return contents


def probe_near(stretch: Window) -> Content | None:
    """Tell a container by the superblocks near the start of a stretch, whose block 0 may be damaged."""
    places = [
        place for offset, data in stored_pieces(stretch, 0, NEAR_BYTES) for place in superblock_places(data, offset)
    ]
    found = next(iter(contents_at(stretch, places)), None)
    # A container that begins with its stretch may fill it; that it is cut off is told when it is read.
    return found if found is None or found.volume_offset else found._replace(size_bytes=stretch.size_bytes)
