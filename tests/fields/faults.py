"""Generates changes of single fields of an image, and records what ``check`` reports for each."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.api.check import check_volumes
from layoutscope.api.reading import make_request, open_volumes
from layoutscope.errors import LayoutscopeError
from layoutscope.structs.checksum import fletcher64
from tests.fields.grammars import place
from tests.fields.sightings import look_at, watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from layoutscope.findings import Finding

WORD: Final = 8
"""Bytes of the longest number; in a longer field only the first ones are changed."""
CHECKSUM_BYTES: Final = 8
HEADER_BYTES: Final = 36
SPECIAL_NODES: Final = {"kind 1": 4, "kind 2": 2}
"""Entries of the offset tables of header and map nodes."""
REFUSED: Final = "not opened"


@dataclass(frozen=True)
class Field:
    """A field at one place of an image.

    Attributes
    ----------
    address : str
        Its grammar, type and name.
    start, size : int
        The object that contains it, in bytes of the image; in APFS it has a checksum.
    at, length : int
        Its place in the object, and its bytes.
    owner : str
        Kind of the object, according to its own header.
    """

    address: str
    start: int
    size: int
    at: int
    length: int
    owner: str = ""


@dataclass(frozen=True)
class Outcome:
    """Findings for an image with one changed field.

    Attributes
    ----------
    field : Field
        The changed field.
    change : str
        How.
    codes : tuple of str
        Codes of warnings and errors; empty if there are none.
    is_at_field : bool
        Whether one of them has the field's address.
    """

    field: Field
    change: str
    codes: tuple[str, ...]
    is_at_field: bool


def fields_of(path: Path, places: int = 2, **options: Any) -> list[Field]:
    """List the fields of an image that readers and ``inspect`` parse, each at some of its places.

    Parameters
    ----------
    path : path
        The image.
    places : int
        Of each field in each kind of object, spread over the image; those that hold something come first.
    **options
        How it is read.
    """
    with watched() as sightings:
        look_at(sightings, path, **options)
    found: dict[tuple[str, str], list[tuple[Field, bool]]] = defaultdict(list)
    with path.open("rb") as file:
        for address, seen in sorted(sightings.places.items()):
            known = place(address)
            if not known.member and known.size:
                for start, size, at, length, holds in dict.fromkeys(seen):
                    owner = _owner(file, start)
                    found[address, owner].append((Field(address, start, size, at, length, owner), holds))
    chosen = [each for several in found.values() for each in _spread(several, places)]
    return [*chosen, *(each for node in chosen for each in _of_special_node(node))]


def _owner(file: BinaryIO, start: int) -> str:
    """Name the object at an address: type and subtype of an APFS object, kind of a node of HFS+, block 0."""
    file.seek(start)
    head = file.read(HEADER_BYTES)
    if head[32:36] == b"NXSB":
        return "checkpoint" if start else "block 0"
    if any(head[26:28]) or not any(head[24:26]):
        return f"kind {head[8]}" if head[8] in (0, 1, 2, 255) else ""
    return f"object {int.from_bytes(head[24:26], 'little'):#x} {int.from_bytes(head[28:32], 'little'):#x}"


def _of_special_node(node: Field) -> Iterator[Field]:
    """Yield fields of header and map nodes that ``inspect`` does not show: the offset table, and the end of the map."""
    if node.address == "hfsplus_btree.node_descriptor.kind" and node.owner in SPECIAL_NODES:
        entries = SPECIAL_NODES[node.owner]
        for number in range(1, entries + 1):
            yield replace(node, address="hfsplus_btree.record_offset.ofs_record", at=node.size - 2 * number, length=2)
        at = node.size - 2 * entries - 4
        yield replace(node, address="hfsplus_btree.map_record.bitmap", at=at, length=2)


def _spread(several: list[tuple[Field, bool]], places: int) -> list[Field]:
    holding = [field for field, holds in several if holds] or [field for field, _ in several]
    count = min(places, len(holding))
    return [holding[round(k * (len(holding) - 1) / max(count - 1, 1))] for k in range(count)]


def changes(stored: bytes, field: Field, order: str, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield the changes of a field by name, each as the object's bytes with a correct checksum.

    Parameters
    ----------
    stored : bytes
        The object.
    field : Field
        The field in it.
    order : str
        Byte order of its number.
    seed : int
        Of what is random.
    """
    length = min(field.length, WORD)
    old = int.from_bytes(stored[field.at : field.at + length], order)
    top = (1 << (8 * length)) - 1
    chance = random.Random(f"{seed} {field}")  # noqa: S311
    values = {
        "bit": old ^ 1 << chance.randrange(8 * length),
        "plus": old + 1 & top,
        "minus": old - 1 & top,
        "zero": 0,
        "ones": top,
        "random": chance.randrange(top + 1),
    }
    seen = {old}
    for name, value in values.items():
        if value not in seen:
            seen.add(value)
            changed = stored[: field.at] + value.to_bytes(length, order) + stored[field.at + length :]
            yield name, mended(stored, changed, field)
    yield from _exchanged(stored, field, length)


def _exchanged(stored: bytes, field: Field, length: int) -> Iterator[tuple[str, bytes]]:
    """Swap the field with the bytes after it."""
    stop = field.at + length
    own, next_ = stored[field.at : stop], stored[stop : stop + length]
    if own != next_ and len(next_) == length:
        yield "exchange", mended(stored, stored[: field.at] + next_ + own + stored[stop + length :], field)


def mended(stored: bytes, changed: bytes, field: Field) -> bytes:
    """Correct the checksum if there is one and it was right before."""
    has_checksum = len(stored) > CHECKSUM_BYTES and len(stored) % 4 == 0 and field.at >= CHECKSUM_BYTES
    if not has_checksum or _sum(stored) != int.from_bytes(stored[:CHECKSUM_BYTES], "little"):
        return changed
    return _sum(changed).to_bytes(CHECKSUM_BYTES, "little") + changed[CHECKSUM_BYTES:]


def _sum(data: bytes) -> int:
    return int(fletcher64(np.frombuffer(data, np.uint8)[None, :])[0])


def outcomes(path: Path, fields: list[Field], order: str, seed: int = 0, **options: Any) -> Iterator[Outcome]:
    """Plant each change of each field in an image, check it, and restore the image.

    Parameters
    ----------
    path : path
        The image, which is written to.
    fields : list of Field
        What is changed.
    order : str
        Byte order of numbers.
    seed : int
        Of what is random.
    **options
        How it is read.
    """
    before = found_on(path, **options)
    with path.open("r+b", buffering=0) as file:
        for field in fields:
            file.seek(field.start)
            stored = file.read(field.size)
            for name, data in changes(stored, field, order, seed):
                file.seek(field.start)
                file.write(data)
                try:
                    new = found_on(path, **options) - before
                finally:
                    file.seek(field.start)
                    file.write(stored)
                first = field.start + field.at
                here = any(at is not None and first <= at < first + field.length for _, at in new)
                yield Outcome(field, name, tuple(sorted({code for code, _ in new})), here)


def found_on(path: Path, **options: Any) -> set[tuple[str, int | None]]:
    """Return codes and addresses of the warnings and errors of an image."""
    request = make_request(options)
    try:
        with open_volumes(path, request) as image:
            groups: list[tuple[Finding, ...]] = [each.findings for each in check_volumes(image, request, {})]
            groups.append(tuple(image.findings))
    except LayoutscopeError:
        return {(REFUSED, None)}
    return {(each.code, each.image_offset) for group in groups for each in group if each.level != "info"}
