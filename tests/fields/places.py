"""Fields of the objects in use in an APFS container, each at all its places, and an even draw among them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.apfs.container import open_container
from layoutscope.findings import FindingLog
from layoutscope.image import open_image
from layoutscope.structs import grammar
from layoutscope.structs.checksum import fletcher64
from layoutscope.structs.records import BTREE_INFO, BTREE_NODE, SPACEMAN_PHYS
from tests.fields.faults import CHECKSUM_BYTES, HEADER_BYTES, WORD, Field, changes
from tests.fields.grammars import place
from tests.fields.sightings import look_at, watched

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from layoutscope.filesystems.apfs.container import Container

KIND: Final = slice(24, 26)
SUBTYPE: Final = slice(28, 30)
LIST_END: Final = 0xFFFF
MAX_ENTRIES: Final = 64

Places = dict[str, dict[int, dict[str, list[Field]]]]
"""Fields by the kind of their object, its start, and the field's address."""


def fields_in_use(path: Path) -> Places:
    """List the fields of the newest checkpoint's objects, and of the objects that it leads to.

    Parameters
    ----------
    path : path
        A container that fills its image.
    """
    with watched() as sightings:
        look_at(sightings, path)
    found: Places = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    with open_image(path) as source:
        container = open_container((source, 0), FindingLog())
        size = container.blocks.block_size
        older = _older(container)
        data = np.memmap(path, np.uint8, "r")
        seen: dict[int, str] = {}
        for address, several in sorted(sightings.places.items()):
            if place(address).member or address.endswith(".cksum"):
                continue
            for start, _, at, length, _ in dict.fromkeys(several):
                begin, offset = start + at - (start + at) % size, (start + at) % size
                if begin not in seen:
                    seen[begin] = "" if begin in older else _kind(data[begin : begin + size])
                if seen[begin]:
                    own = Field(address, begin, size, offset, min(length, WORD), seen[begin])
                    found[seen[begin]][begin][address].append(own)
        for kind, objects in found.items():
            for start, fields in objects.items():
                for own in _unnamed(data[start : start + size].tobytes(), kind):
                    fields[own.address].append(replace(own, start=start))
    return found


def _older(container: Container) -> set[int]:
    """Return addresses of checkpoint ring blocks that hold no object of the newest checkpoint, in bytes."""
    size = container.blocks.block_size
    ring = {int(paddr) for paddr in container.area.paddr}
    superblock = container.superblock
    ring |= set(range(superblock.xp_data_base, superblock.xp_data_base + superblock.num_data_blocks))
    items = container.checkpoint.ephemerals.values()
    newest = {container.checkpoint.paddr, *map(int, container.checkpoint.map_paddrs), *(item.paddr for item in items)}
    return {paddr * size for paddr in ring - newest}


def _kind(block: np.ndarray) -> str:
    """Return an object's kind from its header; empty if the block has none."""
    head = block[:HEADER_BYTES].tobytes()
    if int(fletcher64(np.asarray(block)[None, :])[0]) != int.from_bytes(head[:CHECKSUM_BYTES], "little"):
        return ""
    names = {int(each): each.name for each in grammar.ApfsObject.ObjectType}
    kind, subtype = (names.get(int.from_bytes(head[part], "little"), "?") for part in (KIND, SUBTYPE))
    return kind if int.from_bytes(head[SUBTYPE], "little") == 0 else f"{kind} {subtype}"


def _unnamed(data: bytes, kind: str) -> Iterator[Field]:
    """Yield parts that no structure describes: entries of a node's free lists, and the space manager's arrays."""
    number = lambda at: int.from_bytes(data[at : at + 2], "little")  # noqa: E731
    if kind.startswith("btree"):
        table = number(BTREE_NODE.table_space.ofs_data.offset) + number(BTREE_NODE.table_space.len_data.offset)
        keys, end = BTREE_NODE.width + table, len(data) - (BTREE_INFO.width if data[BTREE_NODE.flags.offset] & 1 else 0)
        for name, head, place_of in (
            ("key_free_list", BTREE_NODE.key_free_list, lambda ofs: keys + ofs),
            ("val_free_list", BTREE_NODE.val_free_list, lambda ofs: end - ofs),
        ):
            offset = number(head.ofs_data.offset)
            for _ in range(MAX_ENTRIES):
                if offset == LIST_END:
                    break
                at = place_of(offset)
                for part, plus in (("next", 0), ("len", 2)):
                    yield Field(f"apfs_btree.free_list_entry.{name}_{part}", 0, len(data), at + plus, 2, kind)
                offset = number(at)
    elif kind == "spaceman":
        for name, step in (("ofs_ip_bm_xid", 8), ("ofs_ip_bitmap", 2), ("ofs_ip_bm_free_next", 2)):
            first = int.from_bytes(data[(at := getattr(SPACEMAN_PHYS, name).offset) : at + 4], "little")
            for item in range(16 if step == 2 else 1):
                yield Field(f"apfs_spaceman.{name[4:]}.item", 0, len(data), first + item * step, step, kind)


def drawn(places: Places, chance: random.Random) -> Field:
    """Draw a field: first the kind of object, then the object, the field's name, and its place.

    Parameters
    ----------
    places : dict
        From :func:`fields_in_use`.
    chance : random.Random
        What draws.
    """
    found = places
    for _ in range(3):
        found = found[chance.choice(sorted(found))]  # type: ignore[assignment,type-var]
    return chance.choice(found)  # type: ignore[arg-type]


def one_change(stored: bytes, field: Field, chance: random.Random) -> tuple[str, bytes]:
    """Draw a change of a field.

    Parameters
    ----------
    stored : bytes
        The object.
    field : Field
        The field in it.
    chance : random.Random
        What draws.

    Returns
    -------
    str, bytes
        Its name, and the object with it and a right checksum.
    """
    return chance.choice(list(changes(stored, field, "little", chance.randrange(1 << 30))))
