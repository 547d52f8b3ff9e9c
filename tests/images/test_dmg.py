"""Disk images made by macOS contain the disks that they were made from."""

from __future__ import annotations

import hashlib
import json

import pytest

from layoutscope.image import open_image

NAMES = [
    "goapfsv2_hfs-basic", "hdimac_apfs-c", "hdimac_hfsx_j", "offsite_source_2snaps", "plaso_spotlight10.13",
    "slate_20121008", "sparkle_apfs_lzma_aux",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_disk_inside_is_the_recorded_disk(shared, name):
    """Size and SHA-256 of the disk inside equal those of the raw form, however its pieces are stored."""
    facts = json.loads((shared / "images" / "apple" / "FACTS.json").read_text())
    recorded = next(item for item in facts if item["id"] == name)
    with open_image(shared / "images" / "apple" / f"{name}.dmg") as source:
        digest = hashlib.sha256()
        for at in range(0, source.size_bytes, 1 << 20):
            digest.update(source.read(at, min(1 << 20, source.size_bytes - at)))
        assert (source.size_bytes, digest.hexdigest()) == (recorded["raw_size"], recorded["raw_sha256"])
