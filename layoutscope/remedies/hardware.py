"""Remedies that are bought: another drive, two, or a fast one for the metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from layoutscope.drive import load_profile
from layoutscope.drive.profile import DriveProfile, Figure
from layoutscope.remedies.case import Case, Changed, NotHere, Part
from layoutscope.remedies.effort import copying_s
from layoutscope.remedies.words import said

DISK: Final = "generic-7200"
FLASH: Final = "sata-ssd"
CHUNK_BYTES: Final = 65_536

MOVED: Final = "the files are copied to the new drive; the old one is a copy until it is erased"


class OtherDisk:
    """A quicker disk."""

    words = said("other-disk")

    def model(self, case: Case) -> Changed | NotHere:
        """Serve the reads on it."""
        if case.drive.geometry == "none":
            return NotHere("the drive has no arm, and is quicker")
        return _on(case, load_profile(DISK))


class SolidState:
    """Flash."""

    words = said("solid-state")

    def model(self, case: Case) -> Changed | NotHere:
        """Serve the reads on it."""
        if case.drive.geometry == "none":
            return NotHere("the drive is one already")
        return _on(case, load_profile(FLASH))


def _on(case: Case, drive: DriveProfile) -> Changed | NotHere:
    if drive.geometry == case.drive.geometry and drive.name == case.drive.name:
        return NotHere("the drive is one already")
    end = int((case.reads.image_offset + case.reads.length_bytes).max(initial=0))
    if end > drive.capacity_bytes:
        return NotHere("the volume does not fit on it")
    return Changed((Part(case.reads, drive),), copying_s(case))


class MetadataOnFlash:
    """A fast drive for the metadata."""

    words = said("metadata-on-flash")

    def model(self, case: Case) -> Changed | NotHere:
        """Serve nodes on flash, and the rest where it is."""
        if case.drive.geometry == "none" or case.drive.kind == "fusion":
            return NotHere("the metadata lie on flash already, or may do so")
        is_node = case.by_node.node >= 0
        flash = replace(case.reads[is_node], after_us=0.0)
        rest = Part(case.reads[~is_node], case.drive, start_offset_bytes=case.start_offset_bytes)
        drive = load_profile(FLASH)
        if int((flash.image_offset + flash.length_bytes).max(initial=0)) > drive.capacity_bytes:
            # The nodes alone lie on it: where on flash they do makes no difference.
            flash = replace(flash, image_offset=flash.image_offset % (drive.capacity_bytes // 2))
        return Changed((Part(flash, drive), rest), copying_s(case))


class Striped:
    """Two drives as one."""

    words = said("striped")

    def model(self, case: Case) -> Changed | NotHere:
        """Serve the reads on two of the drive."""
        if case.drive.members:
            return NotHere("the drive is a set already")
        chunk = {"chunk_bytes": Figure(CHUNK_BYTES, "datasheet", "as this remedy says")}
        made = DriveProfile(
            f"two {case.drive.name}",
            f"two of {case.drive.title}",
            "stripe",
            chunk,
            case.drive.folder,
            (case.drive,) * 2,
        )
        return Changed((Part(case.reads, made, start_offset_bytes=case.start_offset_bytes),), copying_s(case))
