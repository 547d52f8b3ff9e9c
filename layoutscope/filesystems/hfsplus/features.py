"""The feature bits and versions of an HFS+ volume, and what each means for reading.

TN1150, "Volume Header" and "Journal". A program must know the version to read a volume. Unknown attributes are reserved
and do not prevent reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.traits import Feature, FeatureField
from layoutscope.structs import grammar

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.volume import Volume

_ATTRIBUTE, _JOURNAL = grammar.HfsplusVolume.VolumeAttribute, grammar.HfsplusJournal.JournalInfoFlag
_VERSION, _SIGNATURE = grammar.HfsplusVolume.Version, grammar.HfsplusVolume.Signature

VERSION: Final = FeatureField(
    "version",
    "Version of a volume",
    "An unknown version is an error (`version-unknown`): files may be missing.",
    (
        Feature(_VERSION.hfsplus, "The version of HFS+."),
        Feature(_VERSION.hfsx, "The version of HFSX."),
    ),
)

FEATURE_FIELDS: Final = (
    FeatureField(
        "signature",
        "Signature of a volume",
        "With an unknown signature the volume header is damaged. Its copy is read instead.",
        (
            Feature(_SIGNATURE.hfsplus, "HFS+: names are compared without regard to case."),
            Feature(_SIGNATURE.hfsx, "HFSX: the header of the catalog says whether case matters."),
        ),
    ),
    VERSION,
    FeatureField(
        "attributes",
        "Attributes of a volume",
        "Unknown bits are reserved, and ignored as TN1150 has it.",
        (
            Feature(_ATTRIBUTE.hardware_locked, "The device was write-protected. Nothing is read differently."),
            Feature(_ATTRIBUTE.unmounted, "The volume was unmounted cleanly."),
            Feature(_ATTRIBUTE.spared_blocks, "Extents of the bad-block file are in the extents-overflow file."),
            Feature(_ATTRIBUTE.no_cache_required, "The volume is not to be cached. Nothing is read differently."),
            Feature(_ATTRIBUTE.boot_inconsistent, "The volume was mounted for writing and not unmounted."),
            Feature(_ATTRIBUTE.cnid_reused, "Catalog node IDs wrapped around and are used again."),
            Feature(_ATTRIBUTE.journaled, "The volume has a journal; it is applied in memory unless `--no-journal`."),
            Feature(_ATTRIBUTE.software_locked, "The volume is write-protected. Nothing is read differently."),
            Feature(_ATTRIBUTE.expanded_times, "The dates of the header count from 1970."),
            Feature(_ATTRIBUTE.content_protected, "Files have keys of their own. Nothing is read differently."),
            Feature(_ATTRIBUTE.unused_node_fix, "Unused nodes of the catalog file are zeroed."),
        ),
    ),
    FeatureField(
        "JournalInfoBlock.flags",
        "Flags of a journal",
        "An unknown bit is an error (`journal-invalid`).",
        (
            Feature(_JOURNAL.in_file_system, "The journal is on the volume."),
            Feature(_JOURNAL.on_other_device, "The journal is on another device; it is not read."),
            Feature(_JOURNAL.initialisation, "The journal holds nothing yet."),
        ),
    ),
)
"""All fields with such bits, in the order of the structures."""


def report_version(volume: Volume) -> None:
    """Report an unpublished version in the volume header."""
    version = int(volume.header.version)
    if version not in [int(item.bit) for item in VERSION.features]:
        label = "HFSX" if volume.is_hfsx else "HFS+"
        message = f"version {version} of {label} is not known to layoutscope: files may be missing"
        volume.header_field("version").add("version-unknown", "error", message, expected="4 or 5", found=version)
