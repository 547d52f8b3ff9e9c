"""Partition maps of real images, compared with independently measured offsets."""

from __future__ import annotations

import hashlib
import json
import os
import plistlib
import re
import shutil
import sys
import tarfile
from pathlib import Path
from uuid import UUID

import pytest
from typer.testing import CliRunner

import layoutscope
from fixtures.apfs.checksum import with_checksum
from fixtures.apfs.plan import (
    ContainerPlan,
    DirectoryPlan,
    EncryptionPlan,
    ExtentPlan,
    FilePlan,
    Remove,
    TakeSnapshot,
    Touch,
    TransactionPlan,
    TreeShape,
    XattrPlan,
)
from fixtures.apfs.plan import VolumePlan as ApfsVolume
from fixtures.apfs.scenarios import CLONES, GROUP, container, many
from fixtures.apfs.structures.volume import VolumeRole
from fixtures.apfs.writer import write
from fixtures.hfsplus.plan import Journal, Tree, VolumePlan, Wrapper
from fixtures.hfsplus.scenarios import folders
from fixtures.hfsplus.writer import render
from layoutscope import scan as scan_path
from layoutscope.cli.application import app
from layoutscope.errors import FormatError, ImageError, LockedError, UnsupportedError, UsageError
from layoutscope.image import MemorySource, RawFile, Window, open_image
from layoutscope.image.containers.udif import udif_trailer_at
from layoutscope.image.source import ReadCounter, Source
from layoutscope.partition import find_volumes
from layoutscope.partition.corestorage import read_physical_volume
from layoutscope.partition.filevault import unlock_volumes
from tests.conftest import cache_dir, shared_dir
from tests.unit.partition.builders import HFS, Disk, apm, gpt_disk, gpt_entry, mbr

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
    """Kind, label and first byte of each volume and partition, and the map's scheme, equal the recorded facts."""
    layout = facts[name]["layout"]
    with open_image(reference_image(f"apple/{name}.raw")) as source:
        found = find_volumes(source)
    assert source.size_bytes == layout["size"]
    assert {(item.label, item.image_offset) for item in found.readable} == {
        (volume["fs"], volume["off"]) for volume in layout["vols"]
    }
    assert found.schemes == (() if layout["scheme"] == "none" else (layout["scheme"],))
    assert found.findings == ()
    if layout["scheme"] != "none":
        expected = [(int(start, 16), size) for start, size, _ in layout["parts"]]
        assert [(item.image_offset, item.size_bytes) for item in found.partitions] == expected


@pytest.mark.parametrize("name", [*DRIVER, *BARE])
def test_volumes_of_drivers_images(name, reference_image):
    """Volumes are at the sectors that mmls prints; an image without a map is one volume from byte 0 to the end."""
    with open_image(reference_image(f"driver/{name}")) as source:
        found = find_volumes(source)
    assert found.findings == ()
    if name in BARE:
        (volume,) = found.candidates
        assert (volume.label, volume.image_offset, volume.size_bytes) == (BARE[name], 0, source.size_bytes)
        return
    assert [(item.stack[0], item.image_offset, item.size_bytes, item.label) for item in found.readable] == [
        (scheme, 512 * first, 512 * count, label) for scheme, first, count, label in DRIVER[name]
    ]


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


def test_a_compressed_image_needs_no_unpacking(reference_file, reference_image):
    """The stored .zst gives the same volumes and bytes as the raw image."""
    with (
        open_image(reference_file("driver/gpt-both.img.zst")) as packed,
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


# Volume starts are confirmed by their data; volumes without a map entry are found with a bounded number of reads.


SECTOR, BLOCK, MIB = 512, 4096, 1024**2
SECTORS = (1, 2, 7, 8, 16, 34, 40, 63, 64, 100, 2048)
RESERVED = "E3C9E316-0B5C-4DB8-817D-F92DF00215AE"
"""Microsoft's reserved partition, which holds no volume."""
FILES = {"apfs": (40, 0), "hfsplus": (36, 3)}
"""Files and folders of the plans below."""


@pytest.fixture(scope="module")
def volumes(tmp_path_factory):
    """A 16 MiB container and a 4 MiB HFS+ volume, by file system."""
    path = tmp_path_factory.mktemp("bases") / "basic.img"
    write(ContainerPlan((ApfsVolume("Basic", many(40)),), block_count=4096), path)
    tree = Tree(4096, pieces=4, shuffled=0.5)
    canvas, _ = render(VolumePlan(name="Base", total_blocks=1024, root=folders(3, 12), catalog=tree, gap_blocks=1))
    return {"apfs": path.read_bytes(), "hfsplus": bytes(canvas.to_bytearray())}


@pytest.fixture
def scan(tmp_path):
    """Return a function that scans bytes."""

    def scanned(data, **options):
        path = tmp_path / "disk.img"
        path.write_bytes(data)
        return layoutscope.scan(path, drives=(), **options)

    return scanned


def without_first_header(kind, data):
    """Zero block 0 of a container, or the volume header of HFS+."""
    start, length = (0, BLOCK) if kind == "apfs" else (1024, SECTOR)
    return data[:start] + bytes(length) + data[start + length :]


def without_headers(kind, data):
    """Spoil every container superblock; zero both volume headers."""
    if kind == "hfsplus":
        return without_first_header(kind, data)[:-1024] + bytes(1024)
    return data.replace(b"NXSB", b"nxsb")


def found(result):
    """Return starts, files and folders of the volumes that were read."""
    facts = [item.layout.facts for item in result.parts if item.layout.facts.volume is not None]
    return [(each.image_offset, each.num_files, each.num_directories) for each in facts]


def codes(result, *levels):
    every = [*result.findings, *(item for volume in result.parts for item in volume.findings)]
    return {item.code for item in every if not levels or item.level in levels}


@pytest.mark.parametrize("kind", FILES)
def test_a_volume_behind_some_sectors_is_read_from_its_own_start(kind, volumes, scan):
    """Sound volumes give no error; without the first header the copies give the same start."""
    wrong = []
    for sectors in SECTORS:
        for is_sound in (True, False):
            data = volumes[kind] if is_sound else without_first_header(kind, volumes[kind])
            result = scan(bytes(sectors * SECTOR) + data)
            lost = (
                set() if is_sound else {"apfs": set(), "hfsplus": {"volume-header-lost", "volume-header-invalid"}}[kind]
            )
            if found(result) != [(sectors * SECTOR, *FILES[kind])] or codes(result, "error") != lost:
                wrong.append((sectors, is_sound, found(result), codes(result)))
            if is_sound and result.exit_code:
                wrong.append((sectors, result.exit_code))
    assert wrong == []


@pytest.mark.parametrize("sweep", [False, True])
def test_addresses_of_a_container_count_from_its_own_block_0(sweep, volumes, tmp_path):
    """After 40 sectors, each extent is 20,480 bytes further than in the container alone."""
    places = []
    for before in (0, 20_480):
        path = tmp_path / "disk.img"
        path.write_bytes(bytes(before) + volumes["apfs"])
        (layout,) = layoutscope.open(path, sweep=sweep).volumes
        places.append(layout.extents.sort("file_id", "image_offset")["image_offset"])
    assert (places[1] - places[0]).unique().to_list() == [20_480]


@pytest.mark.parametrize("kind", FILES)
def test_the_right_start_that_a_caller_names_is_no_damage(kind, volumes, scan):
    """The same holds next to another volume, about which nothing is reported then."""
    data = bytes(SECTOR) + without_first_header(kind, volumes[kind]) + bytes(7 * SECTOR)
    at = len(data)
    result = scan(data + volumes[kind], volume_at=at)
    assert found(result) == [(at, *FILES[kind])]
    assert codes(result, "error", "warning") == set()
    assert {item.image_offset for item in result.findings} <= {at}


@pytest.mark.parametrize("before", [0, 5 * BLOCK])
def test_a_copy_in_the_checkpoint_ring_is_no_start(before, volumes, scan):
    """The image is not called truncated: the copy's container, counted from its own block 0, ends with the image."""
    data = bytes(before) + volumes["apfs"]
    copies = [at for at in range(before + BLOCK, before + 8 * BLOCK, BLOCK) if data[at + 32 : at + 36] == b"NXSB"]
    assert copies
    for at in copies:
        right = f"no volume starts at byte {at:,}: .* byte {at:,} is a copy, its APFS starts at byte {before:,}$"
        with pytest.raises(UsageError, match=right):
            scan(data, volume_at=at)


@pytest.mark.parametrize("kind", FILES)
def test_each_of_two_volumes_without_a_map_is_found(kind, volumes, scan):
    """The second volume comes after the first and a gap."""
    size = len(volumes[kind])
    result = scan(bytes(63 * SECTOR) + volumes[kind] + bytes(9 * SECTOR) + volumes[kind] + bytes(3 * SECTOR))
    starts = [63 * SECTOR, 63 * SECTOR + size + 9 * SECTOR]
    assert found(result) == [(start, *FILES[kind]) for start in starts]


def test_a_container_that_has_no_superblock_left_is_placed_by_its_objects(volumes, scan):
    """Physical objects have their block numbers as identifiers: a sweep from byte 0 finds them 5 blocks too far."""
    result = scan(bytes(5 * BLOCK) + without_headers("apfs", volumes["apfs"]), sweep=True)
    assert found(result)[0][0] == 5 * BLOCK
    assert "start-uncertain" not in codes(result)
    assert codes(result, "error")


def test_a_start_that_nothing_confirms_is_called_uncertain(volumes, scan):
    """Without headers the start of HFS+ is unknown, unless the caller gives it."""
    data = bytes(8 * SECTOR) + without_headers("hfsplus", volumes["hfsplus"])
    result = scan(data, sweep=True)
    assert "start-uncertain" in codes(result, "error")
    assert result.exit_code == 3
    named = scan(data, sweep=True, volume_at=8 * SECTOR)
    assert named.volumes[0].layout.facts.image_offset == 8 * SECTOR
    assert "start-uncertain" not in codes(named)


def test_a_map_does_not_confirm_a_start_where_nothing_begins_like_a_volume(volumes, scan):
    """The entry is eight sectors too high: leaves are found, but file addresses are 4,096 bytes too high."""
    volume = volumes["hfsplus"][:-1024] + bytes(1024)  # without its second header
    late, count = 63 + 8, len(volume) // SECTOR
    result = scan(mbr((0xAF, late, count)) + bytes(62 * SECTOR) + volume, sweep=True, partition=1)
    assert result.volumes[0].layout.facts.image_offset == late * SECTOR
    assert "start-uncertain" in codes(result, "error")


def test_a_lone_superblock_does_not_confirm_itself(volumes):
    """A single sound copy in the ring that leads nowhere: its place in the ring is used, with a warning."""
    image = volumes["apfs"]
    ring = [at for at in range(BLOCK, 64 * BLOCK, BLOCK) if image[at + 32 : at + 36] == b"NXSB"]
    disk = bytearray(len(image))
    disk[ring[-1] : ring[-1] + BLOCK] = image[ring[-1] : ring[-1] + BLOCK]
    search = find_volumes(MemorySource(bytes(disk)))
    assert [item.image_offset for item in search.readable] == [0]
    (finding,) = [item for item in search.findings if item.code == "start-uncertain"]
    assert (finding.level, finding.image_offset) == ("error", 0)
    assert "superblock in block 0 at byte 0" in finding.message
    assert "object map at byte" in finding.message


def test_the_newest_header_in_a_journal_tells_where_the_volume_starts(scan):
    """Both headers are lost; a copy in the journal gives the place of the trees, 3 sectors further on."""
    plan = VolumePlan(name="Kept", total_blocks=1024, root=folders(2, 9), journal=Journal())
    canvas, _ = render(plan)
    data = bytearray(canvas.to_bytearray())
    header = data[1024:1536]
    (info,) = {int.from_bytes(header[12:16], "big") * BLOCK}
    start, size = (int.from_bytes(data[info + at : info + at + 8], "big") for at in (36, 44))
    data[start + size - 1024 : start + size - SECTOR] = header
    result = scan(bytes(3 * SECTOR) + without_headers("hfsplus", bytes(data)), sweep=True)
    assert found(result)[0][0] == 3 * SECTOR
    assert "start-uncertain" not in codes(result)


# Volumes without a map entry
def disks(data):
    """Make disks on which no partition holds the volume at sector 2,088, by what is left of the map."""
    start = 2088 * SECTOR
    size = start + len(data) + 64 * SECTOR
    size += -size % BLOCK
    last = size // SECTOR - 34
    return start, {
        "protective record": Disk(size).put(0, mbr((0xEE, 1, size // SECTOR - 1))).put(start, data),
        "reserved partition": gpt_disk(size, [gpt_entry(RESERVED, 34, 2000)]).put(start, data),
        "empty partition of its type": gpt_disk(size, [gpt_entry(HFS, last - 8, last)]).put(start, data),
        "empty Apple map": _with_apm(Disk(size)).put(start, data),
        "no map": Disk(size).put(start, data),
    }


def _with_apm(disk):
    apm(disk, [("Apple", "Apple_partition_map", 1, 63), ("Extra", "Apple_Free", 64, 2000)])
    return disk


ENTRIES = {
    ("GPT", "apfs"): "7C3457EF-0000-11AA-AA11-00306543ECAC",
    ("GPT", "hfsplus"): "48465300-0000-11AA-AA11-00306543ECAC",
    ("APM", "apfs"): "Apple_APFS",
    ("APM", "hfsplus"): "Apple_HFS",
}


@pytest.mark.parametrize("kind", FILES)
def test_a_volume_that_no_map_names_is_found_with_the_entry_for_it(kind, volumes, scan):
    """Sector 2,088 is byte 1,069,056; 16 MiB are 32,768 sectors, 4 MiB 8,192."""
    data = volumes[kind]
    start, made = disks(data)
    assert start == 1_069_056
    for name, disk in made.items():
        result = scan(bytes(disk.data))
        assert found(result) == [(start, *FILES[kind])], name
        (finding,) = [item for item in result.findings if item.code == "volume-unpartitioned"]
        scheme = "APM" if "Apple" in name else "GPT"
        words = (
            f"{scheme} entry for it: type {ENTRIES[scheme, kind]}, first sector 2,088, {len(data) // SECTOR:,} sectors"
        )
        assert words in finding.message, name
        assert (finding.level, finding.image_offset) == ("info" if name == "no map" else "warning", start)
        checked = layoutscope.check(scan.__closure__[0].cell_contents / "disk.img")
        assert [item.findings for item in checked.volumes if item.findings] == [], name


def test_a_map_in_large_sectors_is_told_in_its_own_unit(volumes):
    """Byte 1 MiB is sector 256 of 4,096 bytes; 4 MiB are 1,024 of them."""
    source = MemorySource(bytes(MIB) + volumes["hfsplus"])
    source.sector_size_bytes = BLOCK
    (finding,) = find_volumes(source).findings
    assert "first sector 256, 1,024 sectors of 4,096 bytes (last sector 1,279)" in finding.message


def test_a_wrapper_is_found_as_such(scan):
    """The volume inside is read; the entry would lead to the wrapper."""
    canvas, _ = render(VolumePlan(name="Inside", total_blocks=1024, root=folders(1, 5), wrapper=Wrapper()))
    data = bytes(2088 * SECTOR) + bytes(canvas.to_bytearray()) + bytes(MIB)
    data = data[:446] + mbr((0xEE, 1, len(data) // SECTOR - 1))[446:512] + data[512:]
    result = scan(data)
    (finding,) = [item for item in result.findings if item.code == "volume-unpartitioned"]
    assert "inside an HFS wrapper" in finding.message
    assert found(result)[0][1:] == (5, 1)
    assert found(result)[0][0] > 2088 * SECTOR


class Spread(Source):
    """A disk of zeros with pieces at given places; it records its reads."""

    def __init__(self, size_bytes, pieces):
        self.name, self.size_bytes, self.counter = "disk", size_bytes, ReadCounter()
        self.pieces = pieces

    def _fetch_into(self, image_offset, target):
        data = bytearray(len(target))
        for at, piece in self.pieces.items():
            low, high = max(at, image_offset), min(at + len(piece), image_offset + len(target))
            if low < high:
                data[low - image_offset : high - image_offset] = piece[low - at : high - at]
        target[:] = data


USUAL = 409_640 * SECTOR
"""Usual start of the first volume on a Mac, after an EFI partition of 200 MiB."""
MAX_READS = 600
"""16 of 4 MiB from the start, 450 single ones, one of the end, and those that confirm a few volumes."""
MAX_BYTES = 64 * MIB + 450 * BLOCK + MIB + 8 * MIB


@pytest.mark.parametrize(
    ("size", "start"),
    [(64 * 1024 * MIB, USUAL), (64 * 1024 * MIB, 300 * MIB), (2 * 1024 * MIB, 2 * 1024 * MIB - 17 * MIB)],
    ids=["usual", "aligned", "at the end"],
)
def test_the_search_of_a_large_disk_is_bounded(size, start, volumes):
    """The usual place, a whole MiB, and a copy of the header near the end of the disk."""
    data = volumes["hfsplus"]
    at = start if start < size - 100 * MIB else size - len(data) - 35 * SECTOR
    source = Spread(size, {0: mbr((0xEE, 1, 2**32 - 1)), at: data})
    assert [item.image_offset for item in find_volumes(source).readable] == [at]
    assert source.counter.reads < MAX_READS
    assert source.counter.bytes < MAX_BYTES


def test_nothing_is_searched_where_a_partition_holds_a_volume(volumes):
    """One volume is in the map, so another one after it is not searched for."""
    disk = gpt_disk(16 * MIB, [gpt_entry(HFS, 2048, 2048 + 8191)])
    disk.put(MIB, volumes["hfsplus"]).put(8 * MIB, volumes["hfsplus"])
    source = MemorySource(bytes(disk.data))
    search = find_volumes(source)
    assert [item.image_offset for item in search.readable] == [MIB]
    assert search.searched == ""
    assert source.counter.bytes < MIB


def test_a_sweep_searches_all_of_the_disk(volumes):
    """A volume at an odd sector after 600 MiB is beyond the bounded search."""
    at = 600 * MIB + 77 * SECTOR
    source = Spread(1024 * MIB, {0: mbr((0xEE, 1, 2**21 - 1)), at: volumes["hfsplus"]})
    assert find_volumes(source).readable == ()
    assert [item.image_offset for item in find_volumes(source, depth="everywhere").readable] == [at]


def test_a_refusal_says_what_was_searched_and_what_helps(scan):
    """Small images are searched completely; for a large one the searched parts are named."""
    with pytest.raises(ImageError) as refused:
        scan(bytes(MIB))
    assert re.search(
        r"no HFS\+ or APFS volume found; every sector of the image was searched\. --volume-at BYTES ",
        str(refused.value),
    )
    assert "--sweep" in str(refused.value)
    search = find_volumes(Spread(4096 * MIB, {}))
    assert search.searched == "the first 64.0 MiB, 450 likely places and the last 1.00 MiB"


def test_chance_letters_are_no_volume():
    """The magic numbers of both file systems in each sector, without a sound header."""
    disk = Disk(4 * MIB)
    for sector in range(3, 8000, 3):
        disk.put(sector * SECTOR, b"H+\0\4" + b"\xa5" * 28 + b"NXSB" + b"\x5a" * 64)
    assert find_volumes(MemorySource(bytes(disk.data))).readable == ()


# Truncated images
def test_a_cut_image_is_told_before_what_follows_from_it(volumes, scan):
    """A partition at 20,480 of 400 KiB of a disk: 20,480 + 16 MiB are 16,797,696 bytes."""
    disk = gpt_disk(20 * MIB, [gpt_entry("7C3457EF-0000-11AA-AA11-00306543ECAC", 40, 40 + 32_767)])
    disk.put(20_480, volumes["apfs"])
    for data, end in ((bytes(disk.data)[:409_600], 16_797_696), (volumes["apfs"][:409_600], 16_777_216)):
        with pytest.raises(FormatError, match=f"^the image ends at byte 409,600, its container at {end:,}: "):
            scan(data)


def test_a_whole_container_without_a_checkpoint_is_not_called_cut(volumes, scan):
    """The ring is zeroed, but nothing is missing at the end."""
    data = volumes["apfs"]
    blank = with_checksum(bytes(data[:BLOCK])) + bytes(63 * BLOCK)
    with pytest.raises(FormatError, match=r"^checkpoint descriptor area"):
        scan(blank + data[64 * BLOCK :])


# The list of partitions
def several_partitions(data):
    """Return a disk with three containers of 16 MiB, one in a partition of 20 MiB, and an empty partition."""
    kinds = ("69646961-6700-11AA-AA11-00306543ECAC", "7C3457EF-0000-11AA-AA11-00306543ECAC", HFS)
    recovery = "52637672-7900-11AA-AA11-00306543ECAC"
    places = ((1, 16, "ISC"), (18, 20, "Main"), (39, 1, ""), (40, 16, "Recovery"))
    rows = [
        gpt_entry(kind, at * MIB // SECTOR, (at + size) * MIB // SECTOR - 1, name)
        for kind, (at, size, name) in zip((*kinds, recovery), places, strict=True)
    ]
    disk = gpt_disk(60 * MIB, rows)
    for at in (1, 18, 40):
        disk.put(at * MIB, data)
    return bytes(disk.data)


def test_volumes_of_several_containers_in_larger_partitions(volumes, scan):
    """Three volumes of 40 files, each in its own partition."""
    result = scan(several_partitions(volumes["apfs"]))
    assert found(result) == [(at * MIB, 40, 0) for at in (1, 18, 40)]
    # The map calls the empty one HFS+.
    assert codes(result) == {"partition-content"} | ({"structure-invalid"} & codes(result))


def test_partitions_are_listed_before_the_volumes(volumes, tmp_path):
    """One line each: number, type, name, size, start, content; the same in JSON and for a capture."""
    path, kept = tmp_path / "disk.img", tmp_path / "disk.lscope"
    path.write_bytes(several_partitions(volumes["apfs"]))
    (text,) = {run("scan", image, *words).split("\n\n")[0] for image, words in ((path, ("--save", kept)), (path, ()))}
    lines = [line.split() for line in text.splitlines() if re.match(r"[1-4]  ", line)]
    assert [line[0] for line in lines] == ["1", "2", "3", "4"]
    assert lines[1] == 'Apple APFS "Main" 20.0 MiB at 18.0 MiB APFS of 16.0 MiB'.replace("Apple", "2 Apple").split()
    assert lines[2] == ["3", "Apple", "HFS+", "1.00", "MiB", "at", "39.0", "MiB", "not", "recognised"]
    assert lines[3][-6:] == ["16.0", "MiB", "at", "40.0", "MiB", "APFS"]
    rows = [json.loads(run("scan", image, "--json"))["partitions"] for image in (path, kept)]
    assert rows[0] == rows[1]
    assert rows[0][1] == {
        "scheme": "GPT",
        "number": 2,
        "type_name": "Apple APFS",
        "name": "Main",
        "image_offset": 18 * MIB,
        "size_bytes": 20 * MIB,
        "content": "APFS",
        "content_size_bytes": 16 * MIB,
        "roles": [],
        "is_encrypted": False,
    }
    unnamed = json.loads(run("scan", path, "--json", "--no-names"))["partitions"]
    assert {row["name"] for row in unnamed} == {""}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words]).stdout


def test_one_partition_is_no_list(volumes, tmp_path):
    """The volume alone shows as much; JSON has the entry."""
    path = tmp_path / "disk.img"
    disk = gpt_disk(8 * MIB, [gpt_entry(HFS, 2048, 2048 + 8191)]).put(MIB, volumes["hfsplus"])
    path.write_bytes(bytes(disk.data))
    assert not [line for line in run("scan", path).splitlines() if line.startswith("1  ")]
    assert len(json.loads(run("scan", path, "--json"))["partitions"]) == 1


@pytest.mark.parametrize("named", [63, 64])
def test_a_map_is_not_believed_against_a_copy_of_the_header(scan, named):
    """The map gives sector 64 for a volume of sector 63; header and trees are not where the copy would place them.

    The header is lost, so only its copy describes the volume; with a start in sector 63 the trees confirm it.
    """
    plan = {"block_size": 512, "total_blocks": 300, "catalog": Tree(512), "extents_overflow": Tree(512)}
    sound = bytearray(render(VolumePlan(root=folders(2, 4, 3000), attributes=None, **plan))[0].to_bytearray())
    sound[1024:1536] = bytes(512)
    disk = Disk(63 * SECTOR + len(sound)).put(0, mbr((0xAF, named, 63 + 300 - named))).put(63 * SECTOR, bytes(sound))
    for sweep in (False, True):
        result = scan(bytes(disk.data), sweep=sweep)
        assert named * SECTOR in {volume.layout.facts.image_offset for volume in result.volumes}
        told = [item for volume in result.volumes for item in (*volume.findings, *result.findings)]
        assert ("start-uncertain" in {item.code for item in told}) == (named == 64)


def test_a_sweep_does_not_believe_a_map_against_a_header_either(scan):
    """A volume of sector 63 that the map puts at 64: a sweep finds its header, but no tree at the mapped place."""
    plan = {"block_size": 512, "total_blocks": 300, "catalog": Tree(512), "extents_overflow": Tree(512)}
    sound = render(VolumePlan(root=folders(2, 4, 3000), attributes=None, **plan))[0].to_bytearray()
    disk = Disk(400 * SECTOR).put(0, mbr((0xAF, 64, 300))).put(63 * SECTOR, bytes(sound))
    result = scan(bytes(disk.data), sweep=True)
    told = {
        volume.layout.facts.image_offset: "start-uncertain" in {item.code for item in volume.findings}
        for volume in result.volumes
    }
    assert told == {63 * SECTOR: False, 64 * SECTOR: True}


@pytest.mark.parametrize("has_header", [True, False])
@pytest.mark.parametrize("late", [-1, 1, 2, 7])
def test_a_map_that_is_sectors_off_gives_no_unmarked_address(scan, late, has_header):
    """With one-sector blocks, a shifted start finds header nodes of other trees in place of its own."""
    plan = {"block_size": 512, "total_blocks": 300, "catalog": Tree(512), "extents_overflow": Tree(512)}
    volume = render(VolumePlan(root=folders(2, 4, 3000), attributes=None, **plan))[0].to_bytearray()
    if not has_header:
        volume[1024:1536] = bytes(512)
    disk = Disk(400 * SECTOR).put(0, mbr((0xAF, 63 + late, 310))).put(63 * SECTOR, bytes(volume))
    for sweep in (False, True):
        told = {
            found.layout.facts.image_offset: "start-uncertain" in {item.code for item in found.findings}
            for found in scan(bytes(disk.data), sweep=sweep).volumes
        }
        assert told[63 * SECTOR] is False
        assert all(is_uncertain for start, is_uncertain in told.items() if start != 63 * SECTOR)


# A small volume on a disk of many terabytes that is nearly all holes.


TIB = 1024**4


@pytest.fixture
def huge(reference_image, tmp_path):
    """Return 15 TiB with a volume in the last TiB; skips if the system cannot store such a file."""
    path = tmp_path / "huge.img"
    small = reference_image("driver/hfsplus-4k.img")
    try:
        with path.open("wb") as file, small.open("rb") as volume:
            file.truncate(15 * TIB)
            file.seek(14 * TIB)
            shutil.copyfileobj(volume, file)
    except OSError:
        pytest.skip("the file system allows no file of 15 TiB")
    return path, small


def test_a_small_volume_on_a_huge_disk_is_read_as_if_alone(huge):
    """Only the volume is read: the bytes of the volume's own image, and a few at the ends."""
    path, small = huge
    alone = scan_path(small, drives=())
    found = scan_path(path, volume_at=14 * TIB, drives=())
    assert found.image.read_bytes < alone.image.read_bytes + 1024**2
    assert found.parts[0].layout.entries.height == alone.parts[0].layout.entries.height


# Disk images made by macOS contain the disks that they were made from.


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


# A volume encrypted by macOS with FileVault 2: cryptsetup's tests hold a sample and its decrypted content.
#
# The sample has the metadata of CoreStorage and the first block of the logical volume; the rest was wiped. So it proves
# where the volume lies, its keys, the numbering of its sectors and its header; trees under FileVault 2 are proven by
# volumes of the fixtures' own alone. It is cryptsetup's, not ours: ``fvault2-images.tar.xz`` of its folder ``tests``,
# looked for at ``LAYOUTSCOPE_FVAULT2``, beside decompressed images (``~/.cache/layoutscope-tests``), and in
# ``images/corestorage`` of the folder of reference images.


pytest.importorskip("cryptography")
ARCHIVE = "fvault2-images.tar.xz"
PASSWORD = "heslo123"  # noqa: S105  the sample's, as its tests name it
START, SIZE = 67_108_864, 167_772_160
KEY = "20734d3389212774d7610c29d732880916f3be14c4b12ac7aaf07e5ccc77b319"
PLAIN = "2c662e36c0f7e2f5583e6a939bbcbdc660805692d0fccaa45ad4052beb3b8e18"
"""SHA-256 of the whole logical volume."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Path:
    """Return the image, sparse."""
    named = os.environ.get("LAYOUTSCOPE_FVAULT2")
    folders = [cache_dir(), *([shared_dir() / "images" / "corestorage"] if shared_dir() else [])]
    found = [
        path for path in (*([Path(named)] if named else []), *(each / ARCHIVE for each in folders)) if path.exists()
    ]
    if not found:
        pytest.skip(f"cryptsetup's {ARCHIVE} is absent (LAYOUTSCOPE_FVAULT2 names it)")
    path = tmp_path_factory.mktemp("fvault2") / "small.img"
    with tarfile.open(found[0]) as archive, path.open("wb") as target:
        member = archive.getmember("fvault2-images/small")
        data = archive.extractfile(member)
        while piece := data.read(1 << 20):
            target.seek(len(piece), os.SEEK_CUR) if not any(piece) else target.write(piece)
        target.truncate(member.size)
    return path


def test_the_whole_volume_is_decrypted_as_cryptsetup_does(sample, monkeypatch):
    """Place, size and identifiers are those that cryptsetup reports, and so are both halves of the volume key.

    Every sector is compared: wiped ones decrypt to something, too, which depends on the sector number.
    """
    from layoutscope.partition import filevault

    made, unlocked = [], filevault.UnlockedSource
    monkeypatch.setattr(
        filevault, "UnlockedSource", lambda source, stretches: made.extend(stretches) or unlocked(source, stretches)
    )
    with open_image(sample) as source:
        found = read_physical_volume(source)
        plain = unlock_volumes(source, find_volumes(source).candidates, PASSWORD)
        total = hashlib.sha256()
        for at in range(START, START + SIZE, 1 << 22):
            total.update(plain.read(at, 1 << 22))
    (volume,) = found.logical_volumes
    assert found.own_id.hex() == "fc52bfae5a1f4f9bb3a6f33303a0e401"
    assert volume.family.hex() == "33a76caa14814bc58d041ac1707c19c0"
    assert (volume.volume_offset, volume.size_bytes, volume.is_encrypted) == (START, SIZE, True)
    assert found.findings == ()
    assert [key.hex() for _, _, key in made] == [KEY]
    assert total.hexdigest() == PLAIN


def test_its_header_is_read_at_its_place(sample):
    """The UUID is the one that blkid shows for the opened volume; the trees are wiped, and that is reported."""
    result = scan_path(sample, password=PASSWORD, drives=())
    (volume,) = result.volumes
    assert volume.layout.facts.uuid == "DE124D8A-2164-394E-924F-8E28DB0A09CB"
    assert volume.layout.facts.image_offset == START
    assert volume.layout.facts.size_bytes == SIZE


def test_it_stays_locked_otherwise(sample):
    """Without the password the volume is reported as locked; a wrong password is reported as wrong."""
    with pytest.raises(UnsupportedError, match="logical volume 'Untitled' of 160 MiB, encrypted") as caught:
        scan_path(sample)
    assert caught.value.code == "file-vault"
    with pytest.raises(LockedError, match="does not open"):
        scan_path(sample, password=PASSWORD[:-1])


# Volumes of Time Machine and iOS: hundreds of snapshots, clones, files without data, groups, bundles.


BACKUP_BLOCK = 4096
NUM_SNAPSHOTS = 100
BACKUP_FILES = 60


def backups(num_snapshots):
    """Plan a backup volume with a number of snapshots; before each a file is touched and one is added."""
    steps = tuple(
        TransactionPlan((Touch(f"file {number % BACKUP_FILES:04}"), TakeSnapshot(f"backup {number:03}")))
        for number in range(num_snapshots)
    )
    volume = ApfsVolume("Backups", many(BACKUP_FILES), role=VolumeRole.BACKUP, fs_shape=TreeShape(16, 8))
    return container(volume, transactions=(*steps, TransactionPlan((Touch("file 0001"),))))


@pytest.fixture(scope="module")
def time_machine(tmp_path_factory):
    """Write a volume with 100 snapshots; return it with the expected states."""
    path = tmp_path_factory.mktemp("backups") / "disk.img"
    return path, write(backups(NUM_SNAPSHOTS), path)


def test_every_snapshot_is_listed(time_machine):
    """`checkpoints` lists them in order, each with all of its nodes; the role is named, and there is no damage."""
    path, _ = time_machine
    states = [state for state in layoutscope.checkpoints(path) if state.kind == "snapshot"]
    assert [state.label for state in states] == [f"backup {number:03}" for number in range(NUM_SNAPSHOTS)]
    assert all(state.is_complete and state.num_nodes == state.num_sound_nodes > 0 for state in states)
    result = layoutscope.scan(path, drives=())
    layout = result.parts[-1].layout
    assert (result.exit_code, layout.facts.details["role"], layout.facts.details["snapshots"]) == (
        0,
        "backup",
        NUM_SNAPSHOTS,
    )
    assert set(layout.node_views["view"].unique()) >= {"live", "snapshot backup 000", "snapshot backup 099"}


@pytest.mark.full
@pytest.mark.parametrize("number", [0, 50, NUM_SNAPSHOTS - 1])
def test_a_snapshot_shows_its_own_state(time_machine, number):
    """File times are as of then: file N was first touched in the transaction of snapshot N."""
    path, _ = time_machine
    result = layoutscope.scan(path, drives=(), snapshot=f"backup {number:03}")
    layout = result.parts[-1].layout
    assert (result.exit_code, layout.facts.view) == (0, f"snapshot backup {number:03}")
    assert layout.entries.filter(kind="file").height == BACKUP_FILES
    times = layout.entries.filter(kind="file").sort("name")["modify_time"]
    assert times.arg_max() == number % BACKUP_FILES


@pytest.mark.full
def test_work_grows_no_faster_than_snapshots(tmp_path):
    """Three times as many take about three times as many calls to list, read and check; nine would be quadratic."""
    took = []

    def count(_frame, event, _given):
        took[-1] += event == "call"

    for num_snapshots in (60, 180):
        path = tmp_path / f"{num_snapshots}.img"
        write(backups(num_snapshots), path)
        took.append(0)
        sys.setprofile(count)
        try:
            layoutscope.checkpoints(path)
            layoutscope.scan(path, drives=())
            layoutscope.scan(path, drives=(), snapshot="backup 030")
            layoutscope.check(path)
        finally:
            sys.setprofile(None)
    assert took[1] < 5 * took[0]


def uses(result):
    """Return the bytes by use from everywhere in a result."""
    found = {}
    for volume in result.parts:
        for use in volume.space:
            found[use.use] = found.get(use.use, 0) + use.size_bytes
    return found


def test_shared_extents_are_counted_once(tmp_path):
    """Four files, clones of each other, in two runs of five blocks in total: 20 KiB of data, not 80."""
    path = tmp_path / "clones.img"
    write(container(ApfsVolume("Clones", CLONES), block_count=16384), path)
    result = layoutscope.scan(path, drives=())
    assert uses(result)["data"] == 5 * BACKUP_BLOCK
    extents = result.parts[-1].layout.extents
    assert extents["length_bytes"].sum() == 4 * 5 * BACKUP_BLOCK
    assert (extents["flags"] & 1 == 1).all()


def test_data_that_only_snapshots_hold_is_data(tmp_path):
    """A deleted file of three blocks still occupies them while a snapshot has it."""
    path = tmp_path / "kept.img"
    steps = (TransactionPlan((TakeSnapshot("before"),)), TransactionPlan((Remove("gone"),)))
    write(
        container(ApfsVolume("Kept", (FilePlan("gone", (ExtentPlan(3),)),)), transactions=steps, block_count=16384),
        path,
    )
    result = layoutscope.scan(path, drives=())
    assert result.parts[-1].layout.entries.filter(name="gone").height == 0
    assert uses(result)["data"] == 3 * BACKUP_BLOCK


@pytest.fixture
def dataless(tmp_path):
    path = tmp_path / "dataless.img"
    files = (FilePlan("in the cloud", size_bytes=100_000, is_dataless=True), FilePlan("here", (ExtentPlan(3),)))
    write(container(ApfsVolume("Cloud", files), block_count=16384), path)
    return path


def test_files_without_data_keep_their_size(dataless):
    """They allocate nothing, have a flag, and neither scan nor check reports anything about them."""
    result = layoutscope.scan(dataless, drives=())
    entry = result.parts[-1].layout.entries.filter(name="in the cloud").row(0, named=True)
    assert (entry["size_bytes"], entry["flags"]) == (100_000, 16)
    assert result.parts[-1].layout.extents.filter(file_id=entry["file_id"]).height == 0
    assert (result.exit_code, layoutscope.check(dataless).exit_code) == (0, 0)
    assert uses(result)["data"] == 3 * BACKUP_BLOCK


@pytest.fixture
def group(tmp_path):
    """A system volume with firmlinks, its data volume, and one that belongs to no group."""
    path = tmp_path / "group.img"
    links = (
        DirectoryPlan("Users", (XattrPlan("com.apple.fs.firmlink", b"Users\0"),)),
        DirectoryPlan("usr"),
        DirectoryPlan("usr/local", (XattrPlan("com.apple.fs.firmlink", b"usr/local\0"),)),
    )
    volumes = (
        ApfsVolume("Macintosh HD", links, role=VolumeRole.SYSTEM, group=GROUP),
        ApfsVolume("Macintosh HD - Data", (DirectoryPlan("Users"),), role=VolumeRole.DATA, group=GROUP),
        ApfsVolume("Preboot", role=VolumeRole.PREBOOT),
    )
    write(container(*volumes, block_count=3 * 131072), path)
    return path


def test_a_volume_group_is_shown_with_its_firmlinks(group):
    """The container names the members with their roles, and each member its group.

    Folders of the system volume that show folders of the data volume are counted.
    """
    layouts = layoutscope.read_layouts(group)
    name = str(UUID(bytes=GROUP)).upper()
    told = {key: text for key, text in layouts[0].facts.details.items() if key.startswith("volume group")}
    assert told == {f"volume group {name}": "volume 1 (system) + volume 2 (data)"}
    details = {layout.facts.name: layout.facts.details for layout in layouts[1:]}
    assert [each.get("volume group") for each in details.values()] == [name, name, None]
    assert details["Macintosh HD"]["firmlinks"] == 2
    assert "firmlinks" not in details["Macintosh HD - Data"]


@pytest.mark.parametrize("name", ["empty", "locked"])
def test_a_system_volume_without_attributes_has_no_firmlinks(tmp_path, name):
    """The same if no file has attributes, or if nothing can be read without a password."""
    locked = EncryptionPlan("secret") if name == "locked" else None
    path = tmp_path / "system.img"
    write(container(ApfsVolume("System", many(3), role=VolumeRole.SYSTEM, encryption=locked), block_count=16384), path)
    result = layoutscope.scan(path, drives=())
    assert not result.parts[-1].layout.facts.details.get("firmlinks", 0)


@pytest.mark.full
def test_a_backup_in_bands_is_the_backup(time_machine, tmp_path):
    """A sparse bundle, as Time Machine makes on a server: missing bands are zeros, the tables are the same."""
    path, _ = time_machine
    band, folder = 1 << 20, tmp_path / "Mac.sparsebundle"
    (folder / "bands").mkdir(parents=True)
    facts = {
        "band-size": band,
        "size": path.stat().st_size,
        "diskimage-bundle-type": "com.apple.diskimage.sparsebundle",
    }
    (folder / "Info.plist").write_bytes(plistlib.dumps(facts))
    with path.open("rb") as file:
        for number in range(-(-facts["size"] // band)):
            data = file.read(band)
            if any(data):
                (folder / "bands" / f"{number:x}").write_bytes(data)
    assert len(list((folder / "bands").iterdir())) < facts["size"] // band
    raw, inside = (layoutscope.read_layouts(item) for item in (path, folder))
    assert [layout.facts.name for layout in inside] == [layout.facts.name for layout in raw]
    for one, other in zip(raw, inside, strict=True):
        assert one.nodes.equals(other.nodes)
        assert one.entries.equals(other.entries)
