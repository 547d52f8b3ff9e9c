"""Read-only structure check of APFS containers.

Apple File System Reference. A check reads everything that a scan reads and compares all that a scan compares; then it
reads every tree once more with whole keys, and counts every block. Each finding carries the address of the field that
contradicts the others; where two places disagree and neither can be told to be the wrong one, it is at one of them, as
the message says.
"""

from __future__ import annotations

from dataclasses import field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from layoutscope.filesystems import contract
from layoutscope.filesystems.apfs.check import (
    checkpoint_fields,
    claims,
    consistency,
    extents,
    inodes,
    keys,
    names,
    object_fields,
    pointers,
    rare_fields,
    records,
    snapshots,
    space,
    space_fields,
    states,
    volume_fields,
)
from layoutscope.filesystems.apfs.check.causes import CAUSES
from layoutscope.filesystems.apfs.check.needs import (
    unchecked_of_container,
    unchecked_rules,
    unread_trees,
    whole_for,
)
from layoutscope.filesystems.apfs.check.subject import MOST_CASES, of_volume, open_subject
from layoutscope.filesystems.apfs.container.container import report_changes, uuid_text
from layoutscope.filesystems.apfs.store.fsrecords import no_records
from layoutscope.findings import Finding, FindingLog, refined
from layoutscope.frozen import frozen
from layoutscope.ondisk.consequences import told_once, with_causes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.volume.parts import ContainerContents, VolumeParts
    from layoutscope.filesystems.contract import Unchecked


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
            extents.check_shape(subject.container.blocks, parts.file_extents(), subject.extents(parts))


def _references(subject: Subject) -> None:
    for parts, physical in _with_references(subject):
        if not parts.snapshots:
            extents.check_extent_references(parts, physical, subject.references(parts))
        elif len(parts.snapshots) == len(parts.snapshot_extents):
            extents.check_shared_references(parts, subject.log, MOST_CASES)


def _owners(subject: Subject) -> None:
    for parts, physical in _with_references(subject):
        extents.check_owners(parts, physical, subject.references(parts))


def _with_references(subject: Subject) -> list[tuple[VolumeParts, Columns]]:
    """Volumes in their live state, with their extent references; with none, where all are those of snapshots."""
    found = [(parts, parts.extentref.records.get("extent")) for parts in subject.whole if parts.view == "live"]
    return [(parts, physical if "refcnt" in physical else no_records("extent")) for parts, physical in found]


def _snapshots(subject: Subject) -> None:
    for parts in subject.whole:
        snapshots.check_snapshots(parts)


def _container_trees(subject: Subject) -> None:
    pointers.check_container_trees(subject)
    pointers.check_container_map(subject)
    keys.check_container_keys(subject)


CONTAINER_CHECKS: Final[dict[str, Callable[[Subject], None]]] = {
    "numbers": lambda subject: consistency.check_numbers(subject.reporting),
    "checkpoint-maps": lambda subject: consistency.check_maps(subject.reporting),
    "superblock-fields": checkpoint_fields.check_superblock,
    "superblock-copy": checkpoint_fields.check_copy,
    "map-fields": checkpoint_fields.check_map_headers,
    "reaper-fields": object_fields.check_reaper,
    "mapping-fields": checkpoint_fields.check_mappings,
    "space-fields": space_fields.check_space,
    "chunk-heads": space_fields.check_heads,
    "pool-versions": space_fields.check_versions,
    "map-head": object_fields.check_container_omap,
    "jumpstart": rare_fields.check_jumpstart,
    "key-bags": rare_fields.check_keybags,
    "write-cache": rare_fields.check_write_cache,
    "newer-superblocks": lambda subject: consistency.check_newer(subject.reporting),
    "chunk-checksums": lambda subject: consistency.check_space_blocks(subject.container, subject.parts),
    "checkpoints": pointers.check_checkpoints,
    "volumes": pointers.check_lost_volumes,
    "sizes": space.check_sizes,
    "internal-pool": space.check_pool,
    "chunks": space.check_chunks,
    "free-queues": claims.check_queues,
    "double-claims": claims.check_double_claims,
    "file-claims": claims.check_file_claims,
    "bitmaps": claims.check_bitmaps,
    "container-trees": _container_trees,
}
"""Every check of a container as a whole, in the order in which they run."""

VOLUME_CHECKS: Final[dict[str, Callable[[Subject], None]]] = {
    "roots": pointers.check_roots,
    "map-heads": object_fields.check_volume_omaps,
    "superblocks": volume_fields.check_superblocks,
    "integrity-metadata": volume_fields.check_integrity,
    "extended-metadata": rare_fields.check_extended_metadata,
    "object-maps": pointers.check_object_maps,
    "keys": keys.check_keys,
    "volume-identity": _identity,
    "volume-counts": _counts,
    "entries": records.check_entries,
    "links": _links,
    "sibling-links": records.check_sibling_links,
    "directories": records.check_directories,
    "name-hashes": names.check_name_hashes,
    "inodes": inodes.check_inode_notes,
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

OF_STATES: Final = (
    *("volume-counts", "entries", "links", "sibling-links", "directories", "name-hashes", "inodes"),
    *("streams", "stream-sizes", "attributes", "lost-records", "extents"),
)
"""Checks of a volume that the states of its snapshots are put to."""


def _states(subject: Subject) -> None:
    states.check_states(subject, [VOLUME_CHECKS[name] for name in OF_STATES])


VOLUME_CHECKS["states"] = _states


@frozen
class CheckedContainer:
    """What was found."""

    outside: list[Finding]  # outside of volumes
    volumes: dict[str, list[Finding]]  # of each volume, by its UUID as people write it
    # rules that were not held against everything, by the same UUIDs; those of the container itself by ""
    unchecked: dict[str, list[Unchecked]] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        """Everything that was found."""
        return [*self.outside, *(item for found in self.volumes.values() for item in found)]

    def of(self, uuid: str | None) -> contract.Checked:
        """Return what concerns one volume, or the container itself."""
        if uuid is None:
            return contract.Checked(tuple(self.outside), len(CONTAINER_CHECKS), tuple(self.unchecked.get("", ())))
        findings, unchecked = self.volumes.get(uuid, ()), self.unchecked.get(uuid, ())
        return contract.Checked(tuple(findings), len(VOLUME_CHECKS), tuple(unchecked))


def with_one_cause(found: CheckedContainer) -> CheckedContainer:
    """Tell everything once, and name causes, which may lie in another part of the container."""
    outside, *volumes = [told_once(findings) for findings in (found.outside, *found.volumes.values())]
    of = ["" for _ in outside] + [uuid for uuid, each in zip(found.volumes, volumes, strict=True) for _ in each]
    told = iter(with_causes([*outside, *(item for each in volumes for item in each)], CAUSES, of))
    first = list(islice(told, len(outside)))
    return replace(
        found,
        outside=first,
        volumes={uuid: list(islice(told, len(each))) for uuid, each in zip(found.volumes, volumes, strict=True)},
    )


def run_checks(contents: ContainerContents, without: Collection[str] = ()) -> CheckedContainer:
    """Check the structure of a container that was read."""
    subject = open_subject(contents)
    unread = {parts.state.number: unread_trees(parts) for parts in contents.volumes}
    unchecked = {"": list(unchecked_of_container(contents, subject, unread))}
    outside = _run(subject, contents.container.log, CONTAINER_CHECKS, without)
    volumes, seen = dict[str, list[Finding]](), len(subject.log.findings)
    for parts in contents.volumes:
        lost = unread[parts.state.number]
        found = _run(of_volume(subject, parts), parts.log, VOLUME_CHECKS, without, lost)
        uuid = uuid_text(bytes(parts.state.superblock.vol_uuid))
        volumes.setdefault(uuid, []).extend(found)
        unchecked.setdefault(uuid, []).extend(unchecked_rules(VOLUME_CHECKS, lost))
    report_changes(subject.reporting)
    return with_one_cause(CheckedContainer([*outside, *subject.log.findings[seen:]], volumes, unchecked))


def _run(
    subject: Subject,
    read: FindingLog,
    checks: dict[str, Callable[[Subject], None]],
    without: Collection[str],
    unread: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Run checks; `read` is what reading found, and some checks add to it, `unread` what of a volume is not whole."""
    coarse = list(read.findings)
    for name, check in checks.items():
        if name not in without:
            check(subject if unread is None else whole_for(subject, name, unread))
    fine = [*read.findings[len(coarse) :], *subject.log.findings]
    # Reading finds what is wrong with a structure, a check the byte of it; what has no place is what others sum up.
    exact = {(item.code, item.structure) for item in fine if item.image_offset is not None}
    codes = {code for code, _ in exact}

    def is_refined(item: Finding) -> bool:
        return (item.code, item.structure) in exact or (item.image_offset is None and item.code in codes)

    return list(dict.fromkeys(refined(coarse, fine, is_refined)))
