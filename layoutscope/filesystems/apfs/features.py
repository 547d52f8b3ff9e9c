"""Feature bits of APFS containers, volumes and snapshots, and their effects on reading.

Apple File System Reference: Container, Volumes and Snapshot Metadata, each with its feature flags. A program must not
read a container or volume that has an incompatible feature unknown to it. It must not write to one that has an unknown
read-only compatible feature.
"""

from __future__ import annotations

from typing import Final

from layoutscope.filesystems.traits import Feature, FeatureField
from layoutscope.structs import grammar

_CONTAINER, _VOLUME = grammar.ApfsContainer, grammar.ApfsVolume
_REQUIRED, _OPTIONAL, _FLAG = _VOLUME.VolumeIncompatibleFeature, _VOLUME.VolumeFeature, _VOLUME.VolumeFlag
_SNAPSHOT: Final = grammar.ApfsSnapshot.SnapMetaFlag

_INCOMPATIBLE: Final = "An unknown bit is an error: files may be missing."
_READ_ONLY: Final = "An unknown bit is a warning of `check`, because it matters to programs that write."
_COMPATIBLE: Final = "An unknown bit is a warning of `check`. It does not matter to programs that only read."
_NOT_PUBLISHED: Final = "Reserved; its meaning is not published. Nothing is read differently."

CONTAINER_INCOMPATIBLE: Final = FeatureField(
    "nx_incompatible_features",
    "Incompatible features of a container",
    _INCOMPATIBLE,
    (
        Feature(
            _CONTAINER.ContainerIncompatibleFeature.version1,
            "The container has version 1 of the format, of macOS 10.12, which is not published.",
            "version-unknown",
            "the container has version 1 of APFS, which is not published: files may be missing",
        ),
        Feature(_CONTAINER.ContainerIncompatibleFeature.version2, "Version 2 of the format: the one that is read."),
        Feature(
            _CONTAINER.ContainerIncompatibleFeature.fusion,
            "The container spans the two devices of a Fusion set; both images are needed (`--second`).",
        ),
    ),
)

VOLUME_INCOMPATIBLE: Final = FeatureField(
    "apfs_incompatible_features",
    "Incompatible features of a volume",
    _INCOMPATIBLE,
    (
        Feature(_REQUIRED.case_insensitive, "Names are compared without regard to case and normalization."),
        Feature(_REQUIRED.dataless_snaps, "A snapshot has no data of its own any more; its metadata is read as usual."),
        Feature(_REQUIRED.enc_rolled, "The encryption was changed at least once; extents have the keys of their time."),
        Feature(_REQUIRED.normalization_insensitive, "Names are compared without regard to normalization."),
        Feature(
            _REQUIRED.incomplete_restore,
            "A restore of the volume was interrupted: files that it should have are not there.",
            "restore-incomplete",
            "a restore of this volume was interrupted: files may be missing",
        ),
        Feature(
            _REQUIRED.sealed_volume,
            "The volume is sealed: nodes have hashes instead of headers, and extents have a tree of their own.",
        ),
        Feature(_REQUIRED.reserved_40, _NOT_PUBLISHED),
    ),
)

FEATURE_FIELDS: Final = (
    CONTAINER_INCOMPATIBLE,
    FeatureField(
        "nx_readonly_compatible_features",
        "Read-only compatible features of a container",
        _READ_ONLY,
    ),
    FeatureField(
        "nx_features",
        "Compatible features of a container",
        _COMPATIBLE,
        (
            Feature(_CONTAINER.ContainerFeature.defrag, "Volumes may be defragmented. Nothing is read differently."),
            Feature(_CONTAINER.ContainerFeature.lcfd, "A Fusion set with a small solid-state device."),
        ),
    ),
    FeatureField(
        "nx_flags",
        "Flags of a container",
        _COMPATIBLE,
        (
            Feature(_CONTAINER.ContainerFlag.reserved_1, _NOT_PUBLISHED),
            Feature(_CONTAINER.ContainerFlag.reserved_2, _NOT_PUBLISHED),
            Feature(
                _CONTAINER.ContainerFlag.crypto_sw,
                "Keys are made by software, so a password opens an encrypted volume on any machine.",
            ),
        ),
    ),
    VOLUME_INCOMPATIBLE,
    FeatureField(
        "apfs_readonly_compatible_features",
        "Read-only compatible features of a volume",
        _READ_ONLY,
    ),
    FeatureField(
        "apfs_features",
        "Compatible features of a volume",
        _COMPATIBLE,
        (
            Feature(
                _OPTIONAL.defrag_prerelease,
                "Defragmented by an early version, which may have lost data. Nothing is read differently.",
            ),
            Feature(_OPTIONAL.hardlink_map_records, "Hard links have sibling records, by which they are found."),
            Feature(_OPTIONAL.defrag, "The volume may be defragmented. Nothing is read differently."),
            Feature(_OPTIONAL.strictatime, "Each access changes the time of the last one."),
            Feature(
                _OPTIONAL.volgrp_system_ino_space,
                "Inode numbers are shared with the other volumes of the volume group.",
            ),
        ),
    ),
    FeatureField(
        "apfs_fs_flags",
        "Flags of a volume",
        _COMPATIBLE,
        (
            Feature(_FLAG.unencrypted, "The volume is not encrypted."),
            Feature(_FLAG.reserved_2, _NOT_PUBLISHED),
            Feature(_FLAG.reserved_4, _NOT_PUBLISHED),
            Feature(_FLAG.onekey, "One key, of the volume, encrypts all files."),
            Feature(
                _FLAG.spilledover,
                "The volume ran out of space on the fast device of a Fusion set. Nothing is read differently.",
            ),
            Feature(
                _FLAG.run_spillover_cleaner,
                "Space on the fast device is to be freed at the next mount. Nothing is read differently.",
            ),
            Feature(
                _FLAG.always_check_extentref,
                "A program that overwrites an extent looks up its references first. Nothing is read differently.",
            ),
            Feature(_FLAG.reserved_80, _NOT_PUBLISHED),
            Feature(_FLAG.reserved_100, _NOT_PUBLISHED),
        ),
    ),
    FeatureField(
        "j_snap_metadata_val_t.flags",
        "Flags of a snapshot",
        _COMPATIBLE,
        (
            Feature(
                _SNAPSHOT.pending_dataless,
                "The data of the snapshot are to be given up; its metadata is read as usual.",
            ),
            Feature(
                _SNAPSHOT.merge_in_progress,
                "The snapshot is being merged with another one; what is left of it is read.",
            ),
        ),
    ),
)
"""All feature fields, in the order of the structures."""
