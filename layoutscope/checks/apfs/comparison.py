"""What a scan compares: the checks that need no second reading, each with its first case alone.

A scan must not load the other checks, nor the rules of fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from layoutscope.checks.apfs import extents, inodes
from layoutscope.checks.apfs.names import compare_names
from layoutscope.checks.apfs.subject import open_subject

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.contents import ContainerContents, VolumeParts


def compare_contents(contents: ContainerContents, parts: VolumeParts | None) -> None:
    """Compare a container's own structures, or those of one volume; findings go to their logs."""
    log = contents.container.log if parts is None else parts.log
    subject = replace(open_subject(contents), log=log, most=1)
    if parts is None:
        inodes.check_numbers(subject)
        inodes.check_maps(subject)
        inodes.check_newer(subject)
        if subject.parts.space is not None:
            inodes.check_queue_counts(subject, subject.parts.space)
            inodes.check_space_blocks(subject)
        return
    inodes.check_identity(subject, parts)
    # The hash of a name is in the same record, so it can be checked even if other records are lost.
    compare_names(subject, parts, plain_alone=not log.has_errors)
    # Other findings would just follow from the missing records.
    if not (parts.is_locked or log.has_errors):
        inodes.check_counts(subject, parts)
        inodes.check_links(subject, parts)
        inodes.check_streams(subject, parts)
        inodes.check_attributes(subject, parts)
    if not (parts.is_locked or log.has_errors):
        extents.check_shape(subject, parts)
        if "refcnt" in parts.extentref.records.get("extent"):
            extents.check_owners(subject, parts)
            extents.check_references(subject, parts)
        extents.check_snapshots(subject, parts)
