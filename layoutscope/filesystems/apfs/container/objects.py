"""Single objects by their identifier, however they are stored.

Apple File System Reference, Objects. Where Apple does not say how an object is stored, all three ways are tried:
ephemeral in the checkpoint, virtual through an object map, physical at the address that the identifier then is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.findings import from_error
from layoutscope.ondisk import grammar
from layoutscope.ondisk.checksum import fletcher64

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.omap import OmapView
    from layoutscope.findings import Finding


class Place(NamedTuple):
    """Where an object lies, and whether a region of the checkpoint already shows it."""

    paddr: int
    size_bytes: int
    is_ephemeral: bool


def find_object(container: Container, oid: int, view: OmapView | None = None) -> Place:
    """Locate an object.

    Parameters
    ----------
    container : Container
        The container.
    oid : int
        Its identifier.
    view : OmapView, optional
        Object map of the volume that it belongs to; the container's if left out.
    """
    item = container.checkpoint.ephemerals.get(oid)
    if item is not None:
        return Place(item.paddr, item.size_bytes, is_ephemeral=True)
    found = (view or container.view).find(np.array([oid], np.uint64))
    if not found.is_missing[0]:
        return Place(int(found.paddr[0]), int(found.size_bytes[0]), is_ephemeral=False)
    return Place(oid, container.blocks.block_size, is_ephemeral=False)


def read_kind(
    container: Container, cls: Any, oid: int, kind: int, structure: str, view: OmapView | None = None
) -> tuple[Any, Place]:
    """Locate, verify and parse an object.

    Parameters
    ----------
    container : Container
        The container.
    cls : type
        Generated class.
    oid : int
        Identifier.
    kind : int
        Object type that its header must say.
    structure : str
        Its name, for errors.
    view : OmapView, optional
        Object map of its volume.

    Raises
    ------
    FormatError
        If it lies outside, its checksum differs, it is another object, or it contradicts its grammar.
    """
    place = find_object(container, oid, view)
    with container.blocks.concerning(place.paddr):
        return _parse(container, cls, (oid, kind), place, structure), place


def _parse(container: Container, cls: Any, identity: tuple[int, int], place: Place, structure: str) -> Any:
    """Verify and parse an object of a number and type."""
    where = container.blocks.at(place.paddr)
    if place.size_bytes <= 0 or place.size_bytes % container.blocks.block_size:
        raise FormatError("impossible size", structure=structure, image_offset=where, found=str(place.size_bytes))
    data = container.blocks.read_object(place.paddr, place.size_bytes)
    head = grammar.parse(grammar.ApfsObject.ObjPhys, data, structure=structure, image_offset=where)
    computed = int(fletcher64(np.frombuffer(data, np.uint8)[None, :])[0])
    for what, expected, found in (
        ("checksum differs", computed, head.cksum),
        ("another object", identity[0], head.oid),
        ("object of another type", identity[1], head.type),
    ):
        if expected != found:
            sides = {"expected": f"{expected:#x}", "found": f"{found:#x}"}
            raise FormatError(what, structure=structure, image_offset=where, **sides)
    return grammar.parse(cls, data, structure=structure, image_offset=where)


def try_kind(
    container: Container,
    cls: Any,
    oid: int,
    kind: int,
    structure: str,
    findings: list[Finding],
    view: OmapView | None = None,
) -> tuple[Any, Place] | None:
    """Read an object; None and a finding if it cannot be used."""
    try:
        return read_kind(container, cls, oid, kind, structure, view)
    except FormatError as error:
        findings.append(from_error(error))
        return None
