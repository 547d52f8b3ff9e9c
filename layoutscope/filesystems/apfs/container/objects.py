"""Single objects by their identifier, however they are stored.

Apple File System Reference, Objects. Where Apple does not say how an object is stored, all three ways are tried:
ephemeral in the checkpoint, virtual through an object map, physical at the address that the identifier then is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.checksum import fletcher64

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.omap import OmapView
    from layoutscope.findings import FindingLog
    from layoutscope.ondisk.grammar import Struct

T = TypeVar("T", bound="Struct")


class ObjectPlace(NamedTuple):
    """Where an object lies, whether a region of the checkpoint already shows it, and its transaction if a map says."""

    paddr: int
    size_bytes: int
    is_ephemeral: bool
    xid: int | None = None


class ObjectKind(NamedTuple, Generic[T]):
    """An object's generated class, the type that its header must say, and its name."""

    cls: type[T]
    type: int
    structure: str


@frozen
class Objects:
    """Objects of a container, or of a volume."""

    container: Container
    view: OmapView  # object map that knows the virtual ones
    log: FindingLog  # is told of those that cannot be used

    def find(self, oid: int) -> ObjectPlace:
        """Locate an object."""
        item = self.container.checkpoint.ephemerals.get(oid)
        if item is not None:
            return ObjectPlace(item.paddr, item.size_bytes, is_ephemeral=True)
        found = self.view.find(np.array([oid], np.uint64))
        if not found.is_missing[0]:
            paddr, size = int(found.paddr[0]), int(found.size_bytes[0])
            return ObjectPlace(paddr, size, is_ephemeral=False, xid=int(found.xid[0]))
        # No map knows it: a physical object has its address for a number.
        return ObjectPlace(oid, self.container.blocks.block_size, is_ephemeral=False)

    def read(self, kind: ObjectKind[T], oid: int) -> tuple[T, ObjectPlace]:
        """Locate, verify and parse an object."""
        place = self.find(oid)
        with self.container.blocks.concerning(place.paddr):
            return _parse(self.container, kind, oid, place), place

    def try_read(self, kind: ObjectKind[T], oid: int) -> tuple[T, ObjectPlace] | None:
        """Read an object; None and a finding if it cannot be used."""
        try:
            return self.read(kind, oid)
        except FormatError as error:
            self.log.survive(error)
            return None


def objects_of(container: Container) -> Objects:
    """Return the objects that belong to no volume."""
    return Objects(container, container.view, container.log)


def _parse(container: Container, kind: ObjectKind[T], oid: int, place: ObjectPlace) -> T:
    """Verify and parse an object."""
    where, structure = container.blocks.at(place.paddr), kind.structure
    if place.size_bytes <= 0 or place.size_bytes % container.blocks.block_size:
        raise FormatError("impossible size", structure=structure, image_offset=where, found=str(place.size_bytes))
    data = container.blocks.read_object(place.paddr, place.size_bytes)
    head = grammar.parse(grammar.ApfsObject.ObjPhys, data, structure=structure, image_offset=where)
    # Ephemeral and virtual objects have their checksum like all others: over all their blocks as they are stored.
    computed = int(fletcher64(np.frombuffer(data, np.uint8)[None, :])[0])
    for what, expected, found in (
        ("checksum differs", computed, head.cksum),
        ("another object", oid, head.oid),
        ("another version of the object", head.xid if place.xid is None else place.xid, head.xid),
        ("object of another type", kind.type, head.type),
    ):
        if expected != found:
            sides = {"expected": f"{expected:#x}", "found": f"{found:#x}"}
            raise FormatError(what, structure=structure, image_offset=where, **sides)
    return grammar.parse(kind.cls, data, structure=structure, image_offset=where)
