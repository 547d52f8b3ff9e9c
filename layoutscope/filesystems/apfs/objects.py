"""Single objects by identifier, with any type of storage.

Apple File System Reference, Objects. Where Apple does not document how an object is stored, all three ways are tried:
ephemeral in the checkpoint, virtual through an object map, and physical with the identifier as its address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from layoutscope import display
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.spaceman import Details, Region, type_name
from layoutscope.filesystems.apfs.verify import checksum_of
from layoutscope.structs import grammar
from layoutscope.structs.records import REAP_LIST_ENTRY, REAP_LIST_HEAD, REAPER_HEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.omap import OmapView
    from layoutscope.findings import FindingLog
    from layoutscope.structs.grammar import ApfsReaper, Struct


T = TypeVar("T", bound="Struct")


class Objects(display.Struct, frozen=True):
    """Objects of a container, or of a volume."""

    container: Container
    view: OmapView  # object map that locates the virtual ones
    log: FindingLog  # receives findings about unusable objects

    def find(self, oid: int) -> tuple[int, int, int | None]:
        """Return the address and size of an object, and its transaction if a map gives it."""
        item = self.container.checkpoint.ephemerals.get(oid)
        if item is not None:
            return item.paddr, item.size_bytes, None
        row = self.view.find_one(oid)
        if row is not None:
            omap = self.view.omap
            return int(omap.paddr[row]), int(omap.size_bytes[row]), int(omap.xid[row])
        # No map contains it, so it is a physical object, whose number is its address.
        return oid, self.container.blocks.block_size, None

    def regions(self, kind: str, owner: str, oid: int) -> list[Region]:
        """Make a region of an object, unless the regions of the checkpoint area already show it."""
        return [] if oid in self.container.checkpoint.ephemerals else [Region(kind, owner, self.find(oid)[0])]

    def read(self, cls: type[T], kind: int, structure: str, oid: int) -> tuple[T, int]:
        """Locate, verify and parse an object of a type; return it with its address."""
        (paddr, size, xid), blocks = self.find(oid), self.container.blocks
        with blocks.concerning(paddr):
            where = blocks.at(paddr)
            if size <= 0 or size % blocks.block_size:
                raise FormatError("impossible size", structure=structure, image_offset=where, found=str(size))
            data = blocks.read_object(paddr, size)
            head = grammar.parse(grammar.ApfsObject.ObjPhys, data, structure=structure, image_offset=where)
            # The checksum of ephemeral and virtual objects, too, is over all their blocks as stored.
            computed = checksum_of(data)
            for what, wanted, stored in (
                ("checksum differs", computed, head.cksum),
                ("another object", oid, head.oid),
                ("another version of the object", head.xid if xid is None else xid, head.xid),
                ("object of another type", int(kind), head.type),
            ):
                if wanted != stored:
                    sides = {"expected": f"{wanted:#x}", "found": f"{stored:#x}"}
                    raise FormatError(what, structure=structure, image_offset=where, **sides)
            return grammar.parse(cls, data, structure=structure, image_offset=where), paddr

    def try_read(self, cls: type[T], kind: int, structure: str, oid: int) -> tuple[T, int] | None:
        """Read an object; if it cannot be used, report a finding and return None."""
        try:
            return self.read(cls, kind, structure, oid)
        except FormatError as error:
            self.log.survive(error)
            return None

    def follow(
        self, cls: type[T], kind: int, structure: str, oid: int, next_oid: Callable[[T], int]
    ) -> Iterator[tuple[int, tuple[T, int] | None]]:
        """Read a chain of objects, each of which names the next; stop at a loop, which only damage causes.

        Yield the number of each, and the object with its address; the chain ends with one that cannot be used. In
        `structure`, ``{oid}`` becomes the number.
        """
        seen = set[int]()
        while oid and oid not in seen:
            seen.add(oid)
            found = self.try_read(cls, kind, structure.format(oid=oid), oid)
            yield oid, found
            oid = next_oid(found[0]) if found else 0


def objects_of(container: Container) -> Objects:
    """Return the objects that belong to no volume."""
    return Objects(container, container.view, container.log)


KINDS: Final = grammar.ApfsObject.ObjectType
NO_SLOT: Final = int(grammar.ApfsReaper.Slot.none)


def read_reaper(container: Container) -> Details:
    """Read the reaper with its lists and its state; return facts for a report, none if nothing is being reaped."""
    oid = container.superblock.reaper_oid
    if not oid:
        return {}
    found = objects_of(container).try_read(grammar.ApfsReaper.ReaperPhys, KINDS.nx_reaper, "reaper", oid)
    if found is None:
        return {}
    reaper, paddr = found
    # Large objects are deleted over several transactions; until then their blocks are used and belong to the reaper.
    waiting, num_lists = _read_lists(container, reaper.head.head_oid)
    if num_lists != reaper.head.rlcount:
        log = container.log.at("reaper", paddr, plus=REAPER_HEAD.rlcount.offset)
        message = "it counts other lists than it has"
        log.add("count-differs", "warning", message, expected=num_lists, found=reaper.head.rlcount)
    details: Details = {"objects to be reaped": waiting} if waiting else {}
    if reaper.head.oid:
        details |= _state(container, reaper, paddr)
    return details


def _read_lists(container: Container, head_oid: int) -> tuple[int, int]:
    """Return the number of entries in all lists, and the number of lists."""
    kind = grammar.ApfsReaper.ReapListPhys, KINDS.nx_reap_list, "reap list {oid}"
    num_entries = num_lists = 0
    for _, found in objects_of(container).follow(*kind, head_oid, lambda own: int(own.head.next_oid)):
        num_lists += 1
        num_entries += _read_entries(container, *found) if found else 0
    return num_entries, num_lists


def _read_entries(container: Container, own: ApfsReaper.ReapListPhys, paddr: int) -> int:
    """Follow the entries of a list and return their number."""
    size = REAP_LIST_ENTRY.width
    name, seen, slot = f"reap list {own.head.hdr.oid}", set[int](), own.head.first
    # The entries of a list are chained by their slots; a damaged chain may loop.
    while slot != NO_SLOT and slot not in seen:
        if slot >= len(own.entries):
            log = container.log.at(name, paddr, plus=REAP_LIST_HEAD.first.offset)
            log.add("structure-invalid", "warning", "an entry is outside of the list", found=slot)
            break
        seen.add(slot)
        entry = own.entries[slot]
        if not entry.is_valid or not grammar.member_name(KINDS, entry.object_type):
            log = container.log.at(name, paddr, plus=REAP_LIST_HEAD.width + slot * size)
            message = "an entry is unused, or of no known type of object"
            log.add("record-invalid", "warning", message, found=type_name(entry.object_type))
        slot = entry.next
    if len(seen) != own.head.num_entries:
        log = container.log.at(name, paddr, plus=REAP_LIST_HEAD.num_entries.offset)
        log.add("count-differs", "warning", "it counts other entries", expected=len(seen), found=own.head.num_entries)
    return len(seen)


def _state(container: Container, reaper: ApfsReaper.ReaperPhys, paddr: int) -> Details:
    """Return the progress of reaping an object; report a state of an unknown kind as a finding."""
    head, types = reaper.head, grammar.ApfsReaper
    details: Details = {"being reaped": f"{type_name(head.object_type)} {head.oid}"}
    by_type: dict[int, Any] = {
        int(KINDS.fs): types.ApfsReapState,
        int(KINDS.omap): types.OmapCleanupState if head.is_cleanup else types.OmapReapState,
    }
    start = REAPER_HEAD.width
    # The buffer contains one of three structures (reference, p. 166 to 168). Only the type of the object that is being
    # reaped determines which one; for an object map, also whether a deleted snapshot is cleaned up.
    cls = by_type.get(head.object_type)
    if cls is None:
        log, kind = container.log.at("reaper", paddr, plus=start), type_name(head.object_type)
        log.add("record-invalid", "info", "state of a kind that is not documented", found=kind)
        return details
    try:
        at = container.blocks.at(paddr) + start
        state = grammar.parse(cls, reaper.state_buffer, structure="state of the reaper", image_offset=at)
    except FormatError as error:
        container.log.survive(error)
        return details
    # Phases of a volume count from 0, those of an object map from 1; the state's own type names them.
    phase = getattr(state, "phase", None)
    name = getattr(phase, "name", str(phase)).replace("_", " ")
    return details if phase is None else details | {"reaping phase": name}


def report_unknown(container: Container) -> None:
    """Report ephemeral objects of unknown types: their contents are not read."""
    for item in container.checkpoint.ephemerals.values():
        if not grammar.member_name(KINDS, item.type):
            log, kind = container.log.at(f"ephemeral object {item.oid}", item.paddr), type_name(item.type)
            log.add("record-invalid", "warning", "object of an unknown type; it was not read", found=kind)
