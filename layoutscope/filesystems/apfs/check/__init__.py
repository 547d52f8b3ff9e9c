"""Read-only structure check of APFS containers.

Apple File System Reference. A check reads everything that a scan reads and compares all that a scan compares; then it
reads every tree once more with whole keys, and counts every block. Each finding carries the address of the field that
contradicts the others; where two places disagree and neither can be told to be the wrong one, it is at one of them, as
the message says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.apfs.check import (
    claims,
    consistency,
    consistency_container,
    consistency_extents,
    keys,
    names,
    objectmap,
    pointers,
    records,
    snapshots,
    space,
)
from layoutscope.filesystems.apfs.check.subject import MOST_CASES, of_volume, open_subject
from layoutscope.filesystems.apfs.container.container import uuid_text
from layoutscope.filesystems.apfs.container.live import report_changes
from layoutscope.filesystems.apfs.layout.half import second_half
from layoutscope.filesystems.apfs.opening import Options, open_contents
from layoutscope.findings import Finding, FindingLog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.image import Source


def _identity(subject: Subject) -> None:
    for parts in subject.volumes:
        consistency.check_identity(parts, subject.slots[parts.state.number])


def _counts(subject: Subject) -> None:
    for parts in subject.whole:
        consistency.check_counts(parts)


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
    for parts, physical in _with_references(subject):
        if not parts.snapshots:
            consistency_extents.check_references(parts, physical, subject.references(parts))
        elif len(parts.snapshots) == len(parts.snapshot_extents):
            consistency_extents.check_shared_references(parts, subject.log, MOST_CASES)


def _owners(subject: Subject) -> None:
    for parts, physical in _with_references(subject):
        consistency_extents.check_owners(parts, physical, subject.references(parts))


def _with_references(subject: Subject) -> list[tuple[VolumeParts, Columns]]:
    """Volumes in their live state, with their extent references."""
    found = [(parts, parts.extentref.records.get("extent")) for parts in subject.whole if parts.view == "live"]
    return [(parts, physical) for parts, physical in found if "refcnt" in physical]


def _snapshots(subject: Subject) -> None:
    for parts in subject.whole:
        consistency_extents.check_snapshots(parts)


def _container_trees(subject: Subject) -> None:
    pointers.check_container_trees(subject)
    objectmap.check_container_map(subject)
    keys.check_container_keys(subject)


CONTAINER_CHECKS: Final[dict[str, Callable[[Subject], None]]] = {
    "numbers": lambda subject: consistency_container.check_numbers(subject.reporting),
    "checkpoint-maps": lambda subject: consistency_container.check_maps(subject.reporting),
    "newer-superblocks": lambda subject: consistency_container.check_newer(subject.reporting),
    "chunk-checksums": lambda subject: consistency_container.check_space_blocks(subject.container, subject.parts),
    "checkpoints": pointers.check_checkpoints,
    "volumes": pointers.check_lost_volumes,
    "sizes": space.check_sizes,
    "internal-pool": space.check_pool,
    "chunks": space.check_chunks,
    "free-queues": space.check_queues,
    "double-claims": claims.check_double_claims,
    "file-claims": claims.check_file_claims,
    "bitmaps": claims.check_bitmaps,
    "container-trees": _container_trees,
}
"""Every check of a container as a whole, in the order in which they run."""

VOLUME_CHECKS: Final[dict[str, Callable[[Subject], None]]] = {
    "roots": pointers.check_roots,
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
}
"""Every check of one volume; what is found while reading comes before all of them."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found.

    Attributes
    ----------
    outside : list of Finding
        Outside of volumes.
    volumes : dict
        Of each volume, by its UUID as people write it.
    """

    outside: list[Finding]
    volumes: dict[str, list[Finding]]

    def findings(self) -> list[Finding]:
        """Everything that was found."""
        return [*self.outside, *(item for found in self.volumes.values() for item in found)]


def check_container(
    source: Source, *, image_offset: int = 0, options: Options | None = None, without: Collection[str] = ()
) -> Checked:
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
    Checked
        Of each part what is found while reading first, then in the order of the checks.

    Raises
    ------
    FormatError
        If there is no usable superblock or checkpoint.
    """
    options = options or Options()
    if options.second is None:
        alone = FindingLog()
        if second_half((source, image_offset), options.stack, alone) is not None:
            return Checked(alone.findings, {})
    contents = open_contents(source, image_offset, options)
    subject = open_subject(contents)
    outside = _run(subject, contents.container.log, CONTAINER_CHECKS, without)
    volumes, seen = dict[str, list[Finding]](), len(subject.log.findings)
    for parts in contents.volumes:
        found = _run(of_volume(subject, parts), parts.log, VOLUME_CHECKS, without)
        volumes.setdefault(uuid_text(bytes(parts.state.superblock.vol_uuid)), []).extend(found)
    report_changes(subject.reporting)
    return Checked([*outside, *subject.log.findings[seen:]], volumes)


def _run(
    subject: Subject, read: FindingLog, checks: dict[str, Callable[[Subject], None]], without: Collection[str]
) -> list[Finding]:
    """Run checks; `read` is what reading found, and some checks add to it."""
    coarse = list(read.findings)
    for name, check in checks.items():
        if name not in without:
            check(subject)
    return refined(coarse, [*read.findings[len(coarse) :], *subject.log.findings])


def refined(coarse: Sequence[Finding], fine: Sequence[Finding]) -> list[Finding]:
    """Leave out what was found while reading where a check names the very byte of it."""
    exact = {(item.code, item.structure) for item in fine if item.image_offset is not None}
    codes = {code for code, _ in exact}
    kept = [
        item
        for item in coarse
        if (item.code, item.structure) not in exact and (item.image_offset is not None or item.code not in codes)
    ]
    return list(dict.fromkeys([*kept, *fine]))


__all__ = ["CONTAINER_CHECKS", "VOLUME_CHECKS", "Checked", "check_container", "refined"]
