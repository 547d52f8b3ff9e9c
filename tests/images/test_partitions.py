"""Partition maps of real images, compared with independently measured offsets."""

from __future__ import annotations

import json
import subprocess

import pytest

from layoutscope.image import MemorySource, RawFile, Window, open_image
from layoutscope.image.signatures import udif_trailer_at
from layoutscope.partition import find_volumes

KINDS = {"HFS+": "hfsplus", "HFSX": "hfsplus", "APFS": "apfs"}
DRIVER = {
    # name: (map, bytes of the first sector, bytes in all, file system), read with sleuthkit's mmls in 512-byte sectors
    "gpt-both.img": [("GPT", 2048, 57344, "HFS+"), ("GPT", 59392, 57344, "APFS")],
    "apm-hfsplus.img": [("APM", 4096, 57344, "HFS+")],
    "hybrid-hfsplus.iso": [("APM", 280, 4644, "HFS+")],
}
BARE = {
    "apfs-ci.img": "APFS",
    "apfs-empty.img": "APFS",
    "apfs-snap.img": "APFS",
    "hfsplus-4k.img": "HFS+",
    "hfsplus-b512-n4096.img": "HFS+",
    "hfsplus-empty-plain.img": "HFS+",
    "hfsx-cs.img": "HFSX",
}


@pytest.fixture(scope="module")
def facts(shared):
    """Return independent measurements of the images made by macOS, by name."""
    return {item["id"]: item for item in json.loads((shared / "images" / "apple" / "FACTS.json").read_text())}


APPLE = [
    "hfsinspect_hfsj",
    "offsite_source_2snaps",
    "dissect_jhfs_converted",
    "slate_20121008",
    "sparkle_apfs_lzma_aux",
    "plaso_spotlight10.13",
    "goapfsv2_hfs-basic",
    "dissect_encrypted",
    "dissect_case_sensitive_beta",
    "hdimac_hfsx_j",
    "hfsinspect_MBR",
    "hdimac_apfs-c",
    "ronin_apfs_content",
]


@pytest.mark.parametrize("name", APPLE)
def test_volumes_lie_where_others_found_them(name, facts, reference_image):
    """Kind, label and first byte of each volume, and the map's scheme, equal the recorded facts; no damage is found."""
    layout = facts[name]["layout"]
    with open_image(reference_image(f"apple/{name}.raw")) as source:
        found = find_volumes(source)
    assert source.size_bytes == layout["size"]
    assert {(item.label, item.image_offset) for item in found.readable} == {
        (volume["fs"], volume["off"]) for volume in layout["vols"]
    }
    assert found.schemes == (() if layout["scheme"] == "none" else (layout["scheme"],))
    assert found.findings == ()


@pytest.mark.parametrize("name", APPLE)
def test_partitions_lie_where_others_found_them(name, facts, reference_image):
    """First byte, length and name of each partition equal the recorded facts."""
    layout = facts[name]["layout"]
    with open_image(reference_image(f"apple/{name}.raw")) as source:
        found = find_volumes(source)
    if layout["scheme"] != "none":
        expected = [(int(start, 16), size) for start, size, _ in layout["parts"]]
        assert [(item.image_offset, item.size_bytes) for item in found.partitions] == expected


@pytest.mark.parametrize("name", list(DRIVER))
def test_partitioned_images(name, reference_image):
    """Volumes of the partitioned images of the Linux drivers are at the sectors that mmls prints."""
    with open_image(reference_image(f"driver/{name}")) as source:
        found = find_volumes(source)
    assert [(item.stack[0], item.image_offset, item.size_bytes, item.label) for item in found.readable] == [
        (scheme, 512 * first, 512 * count, label) for scheme, first, count, label in DRIVER[name]
    ]
    assert found.findings == ()


@pytest.mark.parametrize("name", list(BARE))
def test_bare_images(name, reference_image):
    """Images without a map are one volume from byte 0 to the end."""
    with open_image(reference_image(f"driver/{name}")) as source:
        (volume,) = find_volumes(source).candidates
    assert (volume.label, volume.image_offset, volume.size_bytes) == (BARE[name], 0, source.size_bytes)


@pytest.mark.parametrize("name", ["driver/gpt-both.img", "driver/apm-hfsplus.img", "apple/hfsinspect_MBR.raw"])
def test_partitions_agree_with_mmls(name, reference_image, peer):
    """Sleuthkit lists the same partitions with the same sectors."""
    path = reference_image(name)
    listing = subprocess.run([peer("mmls"), path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines() if line[:3].isdigit()]
    expected = {(int(row[2]), int(row[4])) for row in rows if row[1].replace(":", "").isdigit()}
    with open_image(path) as source:
        found = find_volumes(source).partitions
    assert {(item.image_offset // 512, item.size_bytes // 512) for item in found} == expected


@pytest.mark.parametrize("name", ["slate_20121008", "sparkle_apfs_lzma_aux", "hdimac_hfsx_j"])
def test_every_lost_sector_of_the_primary_leads_to_the_backup(name, reference_image):
    """Whichever of the first 34 sectors is overwritten, the volumes are found at the same place."""
    data = reference_image(f"apple/{name}.raw").read_bytes()
    expected = [item.image_offset for item in find_volumes(MemorySource(data)).readable]
    for sector in range(1, 34):
        damaged = data[: sector * 512] + b"\xa5" * 512 + data[(sector + 1) * 512 :]
        found = find_volumes(MemorySource(damaged))
        assert [item.image_offset for item in found.readable] == expected
        assert [item.code for item in found.findings] == ["gpt-primary-damaged"]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 1024, 4096, 20_480, 20_481, 24_576, 1_000_000])
def test_a_cut_image_ends_in_findings(size, reference_image):
    """A GPT disk truncated anywhere gives the data that are left, and never an error."""
    with open_image(reference_image("apple/slate_20121008.raw")) as source:
        found = find_volumes(Window(source, 0, size))
    assert [item.image_offset for item in found.readable] == ([20_480] if size > 20_480 else [])


def test_a_compressed_image_needs_no_unpacking(shared, reference_image):
    """The stored .zst gives the same volumes and bytes as the raw image."""
    with (
        open_image(shared / "images" / "driver" / "gpt-both.img.zst") as packed,
        open_image(reference_image("driver/gpt-both.img")) as raw,
    ):
        assert find_volumes(packed) == find_volumes(raw)
        assert packed.read(0, packed.size_bytes) == raw.read(0, raw.size_bytes)


def test_a_disk_image_is_told_by_its_trailer(shared):
    """Every .dmg file of the images is recognized by its content, including one that begins with an xz chunk."""
    for path in sorted((shared / "images" / "apple").glob("*.dmg")):
        with RawFile(path) as source:
            assert udif_trailer_at(source) is not None, path.name


def test_a_terabyte_of_holes_costs_nothing(reference_image):
    """Finding the volumes of a sparse image of 1 TiB reads less than 64 KiB."""
    with open_image(reference_image("aged/apfs-200000-c20.img")) as source:
        (volume,) = find_volumes(source).candidates
    assert (volume.kind, volume.size_bytes) == ("apfs", 1 << 40)
    assert source.counter.bytes < 64 * 1024
