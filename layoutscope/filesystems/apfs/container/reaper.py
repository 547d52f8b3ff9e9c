"""The reaper: which large objects wait to be freed over several transactions, and how far that has come.

Apple File System Reference, Reaper. The reaper and its lists are ephemeral; the checkpoint's regions show them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.objects import try_kind
from layoutscope.filesystems.apfs.container.regions import type_name
from layoutscope.findings import Finding, from_error
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import REAP_LIST_ENTRY, REAP_LIST_HEAD, REAPER_HEAD

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container

KINDS: Final = grammar.ApfsObject.ObjectType
NO_SLOT: Final = int(grammar.ApfsReaper.Slot.none)

Details = dict[str, "str | int | float | bool"]


def read_reaper(container: Container, findings: list[Finding]) -> Details:
    """Read the reaper with its lists and its state.

    Parameters
    ----------
    container : Container
        The container.
    findings : list of Finding
        Collects what contradicts itself or is not understood, with its address.

    Returns
    -------
    dict
        Numbers for a report; empty where nothing is being reaped.
    """
    oid = container.superblock.reaper_oid
    if not oid:
        return {}
    found = try_kind(container, grammar.ApfsReaper.ReaperPhys, oid, int(KINDS.nx_reaper), "reaper", findings)
    if found is None:
        return {}
    reaper, place = found
    waiting, num_lists = _read_lists(container, reaper.head.head_oid, findings)
    where = container.blocks.at(place.paddr)
    if num_lists != reaper.head.rlcount:
        at = where + REAPER_HEAD.rlcount.offset
        sides = str(num_lists), str(reaper.head.rlcount)
        findings.append(Finding("count-differs", "warning", "reaper", at, "it counts other lists than it has", *sides))
    details: Details = {"objects to be reaped": waiting} if waiting else {}
    if reaper.head.oid:
        details |= _state(reaper, where, findings)
    return details


def _read_lists(container: Container, head_oid: int, findings: list[Finding]) -> tuple[int, int]:
    """Count the entries of all lists, and the lists."""
    waiting, seen = 0, set[int]()
    oid = head_oid
    while oid and oid not in seen:
        seen.add(oid)
        kind = int(KINDS.nx_reap_list)
        found = try_kind(container, grammar.ApfsReaper.ReapListPhys, oid, kind, f"reap list {oid}", findings)
        if found is None:
            break
        own, place = found
        waiting += _read_entries(own, container.blocks.at(place.paddr), findings)
        oid = own.head.next_oid
    return waiting, len(seen)


def _read_entries(own: Any, where: int, findings: list[Finding]) -> int:
    """Follow the entries of a list; give their number."""
    size = REAP_LIST_ENTRY.width
    name, seen, slot = f"reap list {own.head.hdr.oid}", set[int](), own.head.first
    while slot != NO_SLOT and slot not in seen:
        at = where + REAP_LIST_HEAD.width + slot * size
        if slot >= len(own.entries):
            field = where + REAP_LIST_HEAD.first.offset
            message = "an entry lies outside of the list"
            findings.append(Finding("structure-invalid", "warning", name, field, message, found=str(slot)))
            break
        seen.add(slot)
        entry = own.entries[slot]
        if not entry.is_valid or not _is_known(entry.object_type):
            message, sides = "an entry is unused, or of no known type of object", ("", type_name(entry.object_type))
            findings.append(Finding("record-invalid", "warning", name, at, message, *sides))
        slot = entry.next
    if len(seen) != own.head.num_entries:
        field = where + REAP_LIST_HEAD.num_entries.offset
        sides = str(len(seen)), str(own.head.num_entries)
        findings.append(Finding("count-differs", "warning", name, field, "it counts other entries", *sides))
    return len(seen)


def _is_known(kind: int) -> bool:
    return any(int(member) == kind for member in KINDS)


def _state(reaper: Any, where: int, findings: list[Finding]) -> Details:
    """Tell how far the reaping of an object has come; a state of an unknown kind is a finding."""
    head, types = reaper.head, grammar.ApfsReaper
    details: Details = {"being reaped": f"{type_name(head.object_type)} {head.oid}"}
    by_type: dict[int, Any] = {
        int(KINDS.fs): types.ApfsReapState,
        int(KINDS.omap): types.OmapCleanupState if head.is_cleanup else types.OmapReapState,
    }
    at = where + REAPER_HEAD.width
    cls = by_type.get(head.object_type)
    if cls is None:
        message, kind = "state of a kind that is not documented", type_name(head.object_type)
        findings.append(Finding("record-invalid", "info", "reaper", at, message, found=kind))
        return details
    try:
        state = grammar.parse(cls, reaper.state_buffer, structure="state of the reaper", image_offset=at)
    except FormatError as error:
        findings.append(from_error(error))
        return details
    return details | ({"reaping phase": _phase(state.phase)} if hasattr(state, "phase") else {})


def _phase(number: int) -> str:
    names = {int(member): member.name for member in grammar.ApfsReaper.ReapPhase}
    return names.get(number, str(number)).replace("_", " ")


def report_unknown(container: Container, findings: list[Finding]) -> None:
    """Find ephemeral objects of types that are not known: what they hold is not read."""
    for item in container.checkpoint.ephemerals.values():
        if not _is_known(item.type):
            where, name = container.blocks.at(item.paddr), f"ephemeral object {item.oid}"
            message, kind = "object of an unknown type; it was not read", type_name(item.type)
            findings.append(Finding("record-invalid", "warning", name, where, message, found=kind))
