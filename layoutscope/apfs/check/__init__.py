"""Read-only structure check of APFS containers.

Apple File System Reference. A check reads everything that a scan reads and compares all that a scan compares; then it
reads every tree once more with whole keys, and counts every block. Each finding carries the address of the field that
contradicts the others; where two places disagree and neither can be told to be the wrong one, it is at one of them, as
the message says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.apfs import consistency, consistency_container, consistency_extents
from layoutscope.apfs.check import claims, keys, names, objectmap, pointers, records, snapshots, space
from layoutscope.apfs.check.live import report_changes
from layoutscope.apfs.check.subject import Subject, open_subject
from layoutscope.apfs.options import Options
from layoutscope.apfs.reader import open_contents

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from layoutscope.findings import Finding
    from layoutscope.image import Source


def _identity(subject: Subject) -> None:
    for parts in subject.volumes:
        consistency.check_identity(subject.container.blocks, parts, subject.slots[parts.state.number])


def _counts(subject: Subject) -> None:
    for parts in subject.whole:
        consistency.check_counts(subject.container.blocks, parts)


def _links(subject: Subject) -> None:
    for parts in subject.whole:
        consistency.check_links(parts, subject.records(parts))


def _streams(subject: Subject) -> None:
    for parts in subject.whole:
        consistency.check_streams(parts, subject.records(parts))


def _attributes(subject: Subject) -> None:
    for parts in subject.whole:
        consistency.check_attributes(parts, subject.records(parts))


def _extents(subject: Subject) -> None:
    for parts in subject.whole:
        if len(parts.file_extents()["obj_id"]):
            consistency_extents.check_shape(subject.container.blocks, parts.file_extents(), subject.extents(parts))


def _references(subject: Subject) -> None:
    for parts in subject.whole:
        physical = parts.extentref.records.get("extent")
        if "refcnt" in physical and not parts.snapshots:
            report = subject.references(parts)
            consistency_extents.check_references(subject.container.blocks, parts.file_extents(), physical, report)


def _owners(subject: Subject) -> None:
    for parts in subject.whole:
        physical = parts.extentref.records.get("extent")
        if "refcnt" in physical and not parts.snapshots:
            consistency_extents.check_owners(parts, physical, subject.references(parts))


def _snapshots(subject: Subject) -> None:
    for parts in subject.whole:
        consistency_extents.check_snapshots(subject.container.blocks, parts)


CHECKS: Final[dict[str, Callable[[Subject], None]]] = {
    "numbers": lambda subject: consistency_container.check_numbers(subject.container, subject.findings),
    "checkpoint-maps": lambda subject: consistency_container.check_maps(subject.container, subject.findings),
    "newer-superblocks": lambda subject: consistency_container.check_newer(subject.container, subject.findings),
    "chunk-checksums": lambda subject: consistency_container.check_space_blocks(subject.container, subject.parts),
    "checkpoints": pointers.check_checkpoints,
    "roots": pointers.check_roots,
    "volumes": pointers.check_lost_volumes,
    "sizes": space.check_sizes,
    "internal-pool": space.check_pool,
    "chunks": space.check_chunks,
    "free-queues": space.check_queues,
    "object-maps": objectmap.check_object_maps,
    "keys": keys.check_keys,
    "volume-identity": _identity,
    "volume-counts": _counts,
    "entries": records.check_entries,
    "links": _links,
    "sibling-links": records.check_sibling_links,
    "directories": records.check_directories,
    "name-hashes": names.check_name_hashes,
    "streams": _streams,
    "stream-sizes": records.check_stream_sizes,
    "attributes": _attributes,
    "lost-records": records.check_lost_inodes,
    "extents": _extents,
    "references": _references,
    "reference-owners": _owners,
    "snapshots": _snapshots,
    "snapshot-records": snapshots.check_snapshot_records,
    "seals": snapshots.check_seals,
    "double-claims": claims.check_double_claims,
    "file-claims": claims.check_file_claims,
    "bitmaps": claims.check_bitmaps,
}
"""Every check by its name, in the order in which they run; what is found while reading comes before all of them."""


def check_container(
    source: Source, *, image_offset: int = 0, options: Options | None = None, without: Collection[str] = ()
) -> list[Finding]:
    """Check the structure of an APFS container.

    Parameters
    ----------
    source : Source
        The image.
    image_offset : int
        Where the container starts, in bytes.
    options : Options, optional
        Decoder, state, second image, password; as for reading.
    without : collection of str
        Names of checks that are left out.

    Returns
    -------
    list of Finding
        What is found while reading first, then in the order of the checks.

    Raises
    ------
    FormatError
        If there is no usable superblock or checkpoint.
    """
    contents = open_contents(source, image_offset, options or Options())
    lists = [contents.parts.findings, *(parts.findings for parts in contents.volumes)]
    coarse = [item for findings in lists for item in findings]
    subject = open_subject(contents)
    for name, check in CHECKS.items():
        if name not in without:
            check(subject)
    report_changes(contents.container, subject.findings)
    fine = [item for findings in lists for item in findings if item not in coarse]
    return refined(coarse, [*fine, *subject.findings])


def refined(coarse: list[Finding], fine: list[Finding]) -> list[Finding]:
    """Leave out what was found while reading where a check names the very byte of it."""
    exact = {(item.code, item.structure) for item in fine if item.image_offset is not None}
    codes = {code for code, _ in exact}
    kept = [
        item
        for item in coarse
        if (item.code, item.structure) not in exact and (item.image_offset is not None or item.code not in codes)
    ]
    return list(dict.fromkeys([*kept, *fine]))


__all__ = ["CHECKS", "Subject", "check_container", "refined"]
