"""Rare structures of APFS: reaper, shrinking, encryption in progress, feature bits, Fusion sets, jumpstart."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import layoutscope
from fixtures.apfs import locate, underway
from fixtures.apfs.checksum import with_checksum
from fixtures.apfs.locate import field_offset
from fixtures.apfs.plan import ContainerPlan
from fixtures.apfs.plan import VolumePlan as ApfsVolume
from fixtures.apfs.scenarios import SCENARIOS, many
from fixtures.apfs.structures import container as nx
from fixtures.apfs.structures import objects as disk
from fixtures.apfs.structures import space
from fixtures.apfs.structures import underway as work
from fixtures.apfs.structures.container import NX_SUPERBLOCK
from fixtures.apfs.structures.volume import FS_SUPERBLOCK
from fixtures.apfs.writer import write
from fixtures.hfsplus.plan import VolumePlan
from fixtures.hfsplus.scenarios import folders
from fixtures.hfsplus.writer import render
from layoutscope.cli.application import app
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.image.raw import RawFile
from layoutscope.structs import grammar
from tests.apfs import read_layouts
from tests.sparse import write_sparse

HEADER = disk.OBJECT_HEADER_SIZE
ENTRIES = HEADER + disk.REAP_LIST.sizeof()
LIST_HEADER = HEADER + space.FUSION_WBC_LIST.sizeof()
UNKNOWN_TYPE = 0x7777


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return images and planned layout of a scenario."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            paths = [folder / "main.img"] + ([folder / "second.img"] if SCENARIOS[name].fusion else [])
            made[name] = paths, write(SCENARIOS[name], *paths)
        return made[name]

    return get


def read(paths):
    """Read a container of one or two images."""
    with RawFile(paths[0]) as source:
        second = (RawFile(paths[1]), 0) if len(paths) > 1 else None
        return read_layouts(source, second=second)


def changed(written, name, folder, change):
    """Change a copy of a scenario's first image; return the images and the result of the change."""
    paths, expected = written(name)
    data = bytearray(paths[0].read_bytes())
    where = change(data, expected)
    path = folder / "changed.img"
    write_sparse(path, BytesIO(data))
    return [path, *paths[1:]], where


def ephemerals(image, expected, kind):
    """Return addresses of the newest checkpoint's ephemeral objects of a type."""
    found = [item for _, item in locate.mappings(image, expected) if item.cpm_type & 0xFFFF == kind]
    return [item.cpm_paddr * expected.block_size for item in found]


def put(image, expected, start, structure, field, value, *, inside=HEADER):
    """Set a field of an object and correct its checksum; return the field's address."""
    where = locate.put_field(image, start + inside, structure, field, lambda _: value)
    locate.fix_checksum(image, start, expected.block_size)
    return where


def found(layouts):
    """Return code and address of every finding."""
    return [row for layout in layouts for row in layout.findings.select("code", "image_offset").rows()]


def test_work_under_way_is_told(written):
    """Objects to be reaped, blocks to be moved, and the progress of encryption are counted as planned."""
    container, volume = read(written("under-way")[0])
    details = container.facts.details
    assert details["objects to be reaped"] == len(underway.REAPED)
    assert details["being reaped"] == "fs 9000"
    assert details["reaping phase"] == "snapshots"
    assert details["blocks to be moved"] == 5 + 7
    assert details["blocked-out blocks"] == "2,000 from block 29,000"
    assert volume.facts.details["encryption under way"] == "encrypting"
    assert volume.facts.details["encryption progress"] == "40 of 100 blocks"
    assert found([container, volume]) == []
    assert volume.regions.filter(pl.col("type") == "er-recovery-block").height == underway.RECOVERY_BLOCKS


def test_the_write_back_cache_is_counted(written):
    """The blocks in the cache's list and in the middle tree are the planned ones, all of them dirty."""
    details = read(written("fusion")[0])[0].facts.details
    lengths = sum(length for _, _, length in SCENARIOS["fusion"].fusion.cached_runs)
    assert details["write-back cache blocks in use"] == lengths
    assert details["cached blocks"] == details["dirty cached blocks"] == lengths


def list_field(field, value, index=0):
    """Change a field of a reap list."""

    def apply(image, expected):
        start = ephemerals(image, expected, disk.ObjectType.NX_REAP_LIST)[index]
        return put(image, expected, start, disk.REAP_LIST, field, value)

    return apply


def reaper_field(field, value, at=None):
    """Change a field of the reaper; the finding is at `at`, in bytes from its start."""

    def apply(image, expected):
        start = ephemerals(image, expected, disk.ObjectType.NX_REAPER)[0]
        where = put(image, expected, start, disk.REAPER, field, value)
        return where if at is None else start + at

    return apply


def entry_field(field, value):
    """Change a field of the only entry of the first reap list, in slot 1; the finding is at the entry."""

    def apply(image, expected):
        start = ephemerals(image, expected, disk.ObjectType.NX_REAP_LIST)[0]
        entry = ENTRIES + disk.REAP_LIST_ENTRY_SIZE
        put(image, expected, start, work.REAP_LIST_ENTRY, field, value, inside=entry)
        return start + entry

    return apply


def region_field(kind, structure, field, value, *, at=None):
    """Change a field of an object of the volume."""

    def apply(image, expected):
        start = locate.region(kind)(image, expected)
        where = put(image, expected, start, structure, field, value)
        return where if at is None else start + at

    return apply


def move_target(image, expected):
    """Direct the first run of blocks to be moved to a place without blocks."""
    start = locate.root("evict-mapping", -1)(image, expected)
    place = locate.records(image, start, expected.block_size)[0]
    return put(image, expected, start, work.EVICT_MAPPING_VALUE, "dst_paddr", 1 << 40, inside=place.value - start)


def bitmap_record(image, expected):
    """Make the record of the bitmap's tree point to a block without a bitmap."""
    start = locate.root("gbitmap")(image, expected)
    place = locate.records(image, start, expected.block_size)[0]
    image[place.value : place.value + 8] = (3).to_bytes(8, "little")
    locate.fix_checksum(image, start, expected.block_size)
    return place.key


CONTRADICTIONS = {
    "number of entries": (list_field("nrl_count", 9), "count-differs"),
    "first entry": (list_field("nrl_first", 5000), "structure-invalid"),
    "number of lists": (reaper_field("nr_rlcount", 5), "count-differs"),
    "what is reaped": (reaper_field("nr_type", 0x2, HEADER + disk.REAPER.sizeof()), "record-invalid"),
    "type of an entry": (entry_field("nrle_type", UNKNOWN_TYPE), "record-invalid"),
    "flags of an entry": (entry_field("nrle_flags", 0), "record-invalid"),
    "version of the state": (
        region_field("er-state", work.ER_STATE, "ersb_version", 9),
        "structure-invalid",
    ),
    "magic of the state": (region_field("er-state", work.ER_STATE, "ersb_magic", 9), "structure-invalid"),
    "where blocks move": (move_target, "record-invalid"),
    "record of the bitmap": (bitmap_record, "record-invalid"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_what_is_not_understood_is_found_at_its_address(written, tmp_path, name):
    """A field that contradicts others gives a finding at its byte."""
    change, code = CONTRADICTIONS[name]
    paths, where = changed(written, "under-way", tmp_path, change)
    assert (code, where) in found(read(paths))


@pytest.mark.full
def test_an_entry_that_leads_out_of_the_cache_is_found(written, tmp_path):
    """The second entry of the write-back cache's list gives a finding at its place if it names a block outside."""

    def change(image, expected):
        start = ephemerals(image, expected, disk.ObjectType.NX_FUSION_WBC_LIST)[0]
        entry = LIST_HEADER + space.FUSION_WBC_LIST_ENTRY.sizeof()
        put(image, expected, start, space.FUSION_WBC_LIST_ENTRY, "fwle_wbc_lba", 5, inside=entry)
        return start + entry

    paths, where = changed(written, "fusion", tmp_path, change)
    assert ("record-invalid", where) in found(read(paths))


def test_a_driver_longer_than_its_extents_is_found(written, tmp_path):
    """The boot record's driver length is compared with its blocks."""

    def change(image, expected):
        start = locate.region("efi-jumpstart", -1)(image, expected)
        return put(image, expected, start, nx.EFI_JUMPSTART, "nej_efi_file_len", 6 * 4096 + 1)

    paths, where = changed(written, "jumpstart", tmp_path, change)
    assert found(read(paths)) == [("structure-invalid", where)]


def test_an_ephemeral_object_of_an_unknown_type_is_found(written, tmp_path):
    """An object with an unknown type in the checkpoint maps gives a finding at the object."""

    def change(image, expected):
        place, mapping = next(item for item in locate.mappings(image, expected) if item[1].cpm_type & 0xFFFF == 0x12)
        field = locate.field_offset(disk.CHECKPOINT_MAPPING, "cpm_type")
        image[place + field : place + field + 2] = UNKNOWN_TYPE.to_bytes(2, "little")
        locate.fix_checksum(image, locate.checkpoint_map(image, expected), expected.block_size)
        return mapping.cpm_paddr * expected.block_size

    paths, where = changed(written, "under-way", tmp_path, change)
    assert ("record-invalid", where) in found(read(paths))


def test_damage_on_the_second_device_says_so(written, tmp_path):
    """A node of the second device with a wrong checksum is reported with that device and its address there."""
    paths, expected = written("fusion")
    node = next(n for n in expected.live.nodes if n.device == 1 and n.tree == "fs" and n.level == 0)
    data = bytearray(paths[1].read_bytes())
    data[node.paddr * expected.block_size + 100] ^= 1
    second = tmp_path / "second.img"
    write_sparse(second, BytesIO(data))
    layouts = read([paths[0], second])
    rows = layouts[2].findings.filter(pl.col("code") == "checksum-mismatch").select("device", "image_offset").rows()
    assert rows == [(1, node.paddr * expected.block_size)]


def test_nodes_on_a_missing_device_are_named_with_it(written):
    """Without the second image of a Fusion set, unreadable nodes are reported with device 1.

    Objects that are missing everywhere, such as another copy of a superblock, are reported at the container's start.
    """
    layouts = read(written("fusion")[0][:1])
    found = [row for layout in layouts for row in layout.findings.rows(named=True) if row["level"] == "error"]
    missing = [row for row in found if row["code"] != "fusion-half" and row["image_offset"]]
    assert missing
    assert {row["device"] for row in missing} == {1}


@pytest.mark.parametrize("sweeps", [False, True])
def test_the_second_device_alone_tells_what_lies_on_it(written, sweeps):
    """Its superblock names the set and counts its volumes; a sweep finds exactly the planned nodes on it."""
    paths, expected = written("fusion")
    with RawFile(paths[1]) as source:
        (layout,) = read_layouts(source, sweep=sweeps)
    details = layout.facts.details
    assert details["volumes"] == len(SCENARIOS["fusion"].volumes)
    assert details["blocks of both devices"] == sum(expected.block_counts)
    assert layout.facts.size_bytes == expected.block_counts[1] * expected.block_size
    assert "fusion-half" in layout.findings["code"].to_list()
    found = set(layout.nodes.select("image_offset", "node_id", "level").rows())
    planned = {(n.paddr * expected.block_size, n.oid, n.level) for n in expected.live.nodes if n.device == 1}
    assert planned <= found if sweeps else not found


# Unknown incompatible feature bits are errors everywhere; known ones are not.


BLOCK, HEADER_BYTES = 4096, 32
RESTORE = "a restore of this volume was interrupted: files may be missing"
UNKNOWN = "uses feature {}, which layoutscope does not know: files may be missing"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "basic.img"
    write(ContainerPlan((ApfsVolume("Basic", many(40)),), block_count=4096), path)
    return path.read_bytes()


def change_feature(image, magic, structure, **bits):
    """Set bits of fields in every superblock of a kind, and correct the checksums."""
    data = bytearray(image)
    for start in range(0, len(data), BLOCK):
        if data[start + 32 : start + 36] != magic:
            continue
        for name, value in bits.items():
            at = start + HEADER_BYTES + field_offset(structure, name)
            data[at : at + 8] = (int.from_bytes(data[at : at + 8], "little") | value).to_bytes(8, "little")
        data[start : start + BLOCK] = with_checksum(bytes(data[start : start + BLOCK]))
    return bytes(data)


def volume_with(image, **bits):
    return change_feature(image, b"APSB", FS_SUPERBLOCK, **bits)


def container_with(image, **bits):
    return change_feature(image, b"NXSB", NX_SUPERBLOCK, **bits)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(
    ("make", "bits", "code", "message"),
    [
        (volume_with, {"apfs_incompatible_features": 0x10}, "restore-incomplete", RESTORE),
        (volume_with, {"apfs_incompatible_features": 0x100}, "feature-unknown", UNKNOWN.format("0x100")),
        (volume_with, {"apfs_incompatible_features": 1 << 63}, "feature-unknown", UNKNOWN.format(f"{1 << 63:#x}")),
        (container_with, {"nx_incompatible_features": 0x10}, "feature-unknown", UNKNOWN.format("0x10")),
        (
            volume_with,
            {"apfs_incompatible_features": 0x1300},
            "feature-unknown",
            "uses features 0x100, 0x200 and 0x1000, which layoutscope does not know: files may be missing",
        ),
        (
            container_with,
            {"nx_incompatible_features": 1},
            "version-unknown",
            "the container has version 1 of APFS, which is not published: files may be missing",
        ),
    ],
    ids=["restore", "unknown", "highest", "container", "several", "version 1"],
)
def test_what_forbids_reading_is_an_error_everywhere(make, bits, code, message, sound, tmp_path):
    """All 40 files are listed; their total is unknown, with exit code 3."""
    path = tmp_path / "disk.img"
    path.write_bytes(make(sound, **bits))
    scanned = layoutscope.scan(path, drives=())
    told = [item for volume in scanned.parts for item in volume.findings if item.level == "error"]
    assert [(item.code, item.message) for item in told] == [(code, message)]
    assert (scanned.coverage, scanned.exit_code) == (None, 3)
    (layout,) = layoutscope.open(path).volumes
    assert layout.entries.filter(kind="file").height == 40
    assert layout.coverage is None
    checked = layoutscope.check(path)
    told = [item for volume in checked.volumes for item in volume.findings if item.level != "info"]
    assert [(item.code, item.level, item.message) for item in told] == [(code, "error", message)]
    assert checked.exit_code == 3
    for command in ("scan", "check"):
        result = run(command, path)
        assert result.exit_code == 3
        assert message.split(":")[0] in " ".join(result.output.split())
    exported = run("export", path, "--table", "entries")
    assert exported.exit_code == 3
    assert exported.stdout.count("file 00") == 40
    assert "an unknown share" in exported.stderr
    assert layoutscope.read_layouts(path)[-1].coverage is None


def test_the_first_screen_says_that_files_may_be_missing(sound, tmp_path):
    """No error reports a loss: the screen says that files may be missing."""
    path = tmp_path / "disk.img"
    path.write_bytes(volume_with(sound, apfs_incompatible_features=0x10))
    for words in (("scan", path), ("scan", path, "--details")):
        text = " ".join(run(*words).output.split())
        assert "the volume itself reports that files may be missing" in text
        assert "errors say that more is lost" not in text


def test_flags_that_another_tool_left_are_no_damage(sound, tmp_path):
    """A decrypted volume whose flags still name one key: all files are listed without a password."""
    path = tmp_path / "disk.img"
    data = bytearray(sound)
    for start in range(0, len(data), BLOCK):
        if data[start + 32 : start + 36] == b"APSB":
            at = start + HEADER_BYTES + field_offset(FS_SUPERBLOCK, "apfs_fs_flags")
            data[at : at + 8] = (8).to_bytes(8, "little")
            data[start : start + BLOCK] = with_checksum(bytes(data[start : start + BLOCK]))
    noise = bytes((7 * place + 3) % 251 for place in range(BLOCK))
    data[3000 * BLOCK : 3001 * BLOCK] = noise
    image = bytes(data)
    at = HEADER_BYTES + field_offset(NX_SUPERBLOCK, "nx_keylocker")
    for start in range(0, len(data), BLOCK):
        if data[start + 32 : start + 36] == b"NXSB":
            data[start + at : start + at + 16] = (3000).to_bytes(8, "little") + (1).to_bytes(8, "little")
            data[start : start + BLOCK] = with_checksum(bytes(data[start : start + BLOCK]))
    assert bytes(data) != image
    path.write_bytes(bytes(data))
    (layout,) = layoutscope.open(path).volumes
    assert layout.entries.filter(kind="file").height == 40
    assert any("key bag" in item.structure or "key bag" in item.message for item in _findings(path))


def _findings(path):
    checked = layoutscope.check(path)
    return [*checked.findings, *(item for volume in checked.volumes for item in volume.findings)]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (volume_with, "apfs_readonly_compatible_features"),
        (container_with, "nx_readonly_compatible_features"),
    ],
)
def test_a_feature_that_matters_to_writers_is_a_warning_of_a_check(make, field, sound, tmp_path):
    """The data read are complete, and a scan reports nothing."""
    path = tmp_path / "disk.img"
    path.write_bytes(make(sound, **{field: 4}))
    assert layoutscope.scan(path, drives=()).exit_code == 0
    (finding,) = [item for item in _findings(path) if item.level != "info"]
    assert finding.level == "warning"
    assert "matters to programs that write" in finding.message


@pytest.mark.parametrize("version", [0, 3, 6, 500])
@pytest.mark.parametrize("hfsx", [False, True])
def test_a_version_that_nobody_published(hfsx, version, tmp_path):
    """Versions 4 and 5 are known; another one is an error, without a second finding about it."""
    canvas, _ = render(VolumePlan(name="Base", total_blocks=1024, root=folders(3, 12), hfsx=hfsx))
    data = canvas.to_bytearray()
    for at in (1024, len(data) - 1024):
        data[at + 2 : at + 4] = version.to_bytes(2, "big")
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(data))
    scanned = layoutscope.scan(path, drives=())
    assert scanned.volume.layout.entries.filter(kind="file").height == 36
    assert (scanned.coverage, scanned.exit_code) == (None, 3)
    (finding,) = [item for item in _findings(path) if item.level != "info"]
    label = "HFSX" if hfsx else "HFS+"
    assert (finding.code, finding.level, finding.image_offset) == ("version-unknown", "error", 1026)
    assert finding.message == f"version {version} of {label} is not known to layoutscope: files may be missing"


def test_nested_folder_links_are_no_damage():
    """Inodes of folders with links to folders and files, on HFSX: 12 files and 8 folders."""
    path = Path(__file__).parent / "recorded" / "ok-folder-links-nested.img.zst"
    facts = layoutscope.scan(path, drives=()).volume.layout.facts
    assert (facts.num_files, facts.num_directories) == (12, 8)
    assert layoutscope.check(path).is_clean


KINDS = {
    "APFS": (
        grammar.ApfsContainer.ContainerIncompatibleFeature,
        grammar.ApfsContainer.ContainerFeature,
        grammar.ApfsContainer.ContainerFlag,
        grammar.ApfsVolume.VolumeIncompatibleFeature,
        grammar.ApfsVolume.VolumeFeature,
        grammar.ApfsVolume.VolumeFlag,
        grammar.ApfsSnapshot.SnapMetaFlag,
    ),
    "HFS+": (
        grammar.HfsplusVolume.Signature,
        grammar.HfsplusVolume.Version,
        grammar.HfsplusVolume.VolumeAttribute,
        grammar.HfsplusJournal.JournalInfoFlag,
    ),
}


@pytest.mark.parametrize("filesystem", KINDS)
def test_the_page_has_every_bit_of_the_grammar_once(filesystem):
    """Each has its meaning for readers."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "features.md"
    (section,) = (part for part in page.read_text("utf-8").split("\n## ") if part.startswith(f"{filesystem}\n"))
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| 0x")]
    known = [(f"{int(item):#x}", f"`{item.name.replace('_', '-')}`") for kind in KINDS[filesystem] for item in kind]
    assert sorted((value, name) for value, name, *_ in rows) == sorted(known)
    assert all(meaning.strip().endswith(".") for _, _, meaning, *_ in rows)


# The Fusion pair that mkapfs made (`fusion/`): two devices, one container, clean to apfsck 0.2.1.


FUSION_BLOCK = 4096
MAIN_BLOCKS, SECOND_BLOCKS = 153_600, 524_288
UUID_AT = 1280
"""nx_fusion_uuid in the superblock."""


@pytest.fixture(scope="module")
def pair(reference_image):
    return reference_image("fusion/main.img"), reference_image("fusion/tier2.img")


@pytest.fixture
def copies(pair, tmp_path):
    """Return copies whose set identifier has the other highest bit, as in half of all sets."""
    paths = []
    for image in pair:
        path = tmp_path / image.name
        with image.open("rb") as source, path.open("wb") as target:
            target.truncate(image.stat().st_size)
            for at in range(0, 16 << 20, FUSION_BLOCK):
                source.seek(at)
                block = source.read(FUSION_BLOCK)
                if block[32:36] == b"NXSB":
                    changed = bytearray(block)
                    changed[UUID_AT] ^= 0x80
                    block = with_checksum(bytes(changed))
                if any(block):
                    target.seek(at)
                    target.write(block)
        paths.append(path)
    return tuple(paths)


def levels(result):
    found = [finding.level for finding in result.findings]
    return found + [level for volume in result.parts for level in volume.layout.findings["level"]]


@pytest.mark.images
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_pair_opens_whichever_half_is_named_first(pair, order):
    """Everything is read, without findings."""
    first, second = (pair[place] for place in order)
    result = layoutscope.scan(first, second=second, drives=())
    assert result.exit_code == 0
    assert set(levels(result)) <= {"info"}
    assert [volume.layout.facts.name for volume in result.parts] == ["", "Fuse"]


@pytest.mark.images
def test_blocks_of_both_devices_are_told_apart(pair):
    """The superblock counts the blocks of both; on the second device only its superblock copy is used."""
    result = layoutscope.scan(pair[0], second=pair[1], drives=())
    layout = result.parts[0].layout
    assert layout.facts.details["blocks"] == MAIN_BLOCKS + SECOND_BLOCKS
    assert layout.facts.details["claimed but free blocks"] == 0
    assert layout.facts.details["unclaimed blocks"] == 0
    free = layout.free.select("device", "image_offset", "length_bytes").rows()
    assert [row for row in free if row[0] == 1] == [(1, FUSION_BLOCK, (SECOND_BLOCKS - 1) * FUSION_BLOCK)]
    assert max(at + length for device, at, length in free if device == 0) == MAIN_BLOCKS * FUSION_BLOCK


@pytest.mark.images
def test_check_finds_nothing(pair):
    """As with apfsck."""
    for first, second in (pair, pair[::-1]):
        result = layoutscope.check(first, second=second)
        assert [finding for finding in result.findings if finding.level != "info"] == []


@pytest.mark.images
def test_halves_alone_say_which_one_is_missing(pair):
    """Each is identified, and the missing one is damage."""
    # Nothing on the second device can be read alone: the main device has all checkpoints.
    for image, words, code in zip(pair, ("second device", "main device"), (3, 1), strict=True):
        result = layoutscope.scan(image, drives=())
        messages = [message for volume in result.parts for message in volume.layout.findings["message"]]
        assert result.exit_code == code
        assert any(words in message and "not given" in message for message in messages)


@pytest.mark.images
def test_second_device_alone_has_no_checkpoints(pair):
    """Commands that list states name this half and the missing one."""
    with pytest.raises(FormatError, match=r"second device of a Fusion set; its main device.* was not given"):
        layoutscope.checkpoints(pair[1])
    assert [state.kind for state in layoutscope.checkpoints(pair[0])] == ["checkpoint"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Write a set with nodes and data on both devices."""
    folder = tmp_path_factory.mktemp("filled")
    paths = folder / "main.img", folder / "second.img"
    write(SCENARIOS["fusion"], *paths)
    return paths


@pytest.mark.images
@pytest.mark.full
def test_bytes_are_those_of_the_device_in_the_tables(filled, tmp_path):
    """Whichever half is named first: metadata hash, owners and modes of files, single nodes, check, inspect."""
    seen = []
    for first, second in (filled, filled[::-1]):
        result = layoutscope.scan(first, second=second, drives=(), identify=True)
        nodes = [row for item in result.parts for row in item.layout.nodes.iter_rows(named=True)]
        assert {row["device"] for row in nodes} == {0, 1}
        shown = [
            layoutscope.inspect(first, second=second, node=f"fs:{row['node_id']}").structures
            for row in nodes
            if row["tree"] == "fs" and row["level"] == 0
        ]
        assert all(fields.fields for each in shown for fields in each)
        layoutscope.export(first, None, tmp_path / "list", second=second, file_format="bodyfile", force=True)
        checked = layoutscope.check(first, second=second)
        seen.append((result.image.metadata_sha256, shown, (tmp_path / "list").read_bytes(), checked.volumes))
    assert seen[0] == seen[1]


@pytest.mark.images
def test_first_byte_of_the_identifier_says_nothing(copies):
    """Only the last bit distinguishes the devices."""
    result = layoutscope.scan(copies[1], second=copies[0], drives=())
    assert result.exit_code == 0
    assert layoutscope.scan(copies[0], drives=()).parts[-1].layout.facts.name == "Fuse"


@pytest.mark.images
def test_two_images_of_one_half_are_refused(pair, tmp_path):
    """They are not two halves of a set."""
    other = tmp_path / "other.img"
    other.symlink_to(pair[0])
    with pytest.raises(FormatError):
        layoutscope.scan(pair[0], second=other, drives=())


@pytest.mark.images
@pytest.mark.parametrize("has_second", [True, False])
def test_the_same_byte_of_two_devices_is_counted_twice(pair, has_second):
    """Everything but the metadata is free by the main device's bitmaps, and every byte of the set has one use."""
    result = layoutscope.scan(pair[0], second=pair[1] if has_second else None, drives=())
    container = result.parts[0]
    held = {row.use: row.size_bytes for row in container.space}
    assert set(held) == {"metadata", "free"}
    assert held["free"] == container.layout.free["length_bytes"].sum()
    assert sum(held.values()) == (MAIN_BLOCKS + SECOND_BLOCKS) * FUSION_BLOCK


@pytest.mark.images
def test_uses_of_both_devices_are_those_of_their_tables(tmp_path):
    """With files and nodes on both, even at equal addresses, data and free space add up per device."""
    paths = tmp_path / "main", tmp_path / "second"
    write(SCENARIOS["fusion"], *paths)
    volumes = layoutscope.scan(paths[0], second=paths[1], drives=()).parts
    (held,) = ({row.use: row.size_bytes for row in item.space} for item in volumes if item.space)
    layouts = [item.layout for item in volumes]
    assert set(layouts[0].free["device"].to_list()) == {0, 1}
    used = sum(size for use, size in held.items() if use in ("metadata", "data"))
    details = layouts[0].facts.details
    assert held["free"] == details["free blocks"] * FUSION_BLOCK
    assert (
        used + held["free"] + held.get("pending-free", 0) + held.get("unaccounted", 0)
        == details["blocks"] * FUSION_BLOCK
    )
    assert held.get("unaccounted", 0) == 0


# The write-back cache of a Fusion set: the newest bytes of dirty runs are on the main device.


CACHED_BLOCK = 4096
FAR = 500
"""First block, on the second device, of the four-block extent in the middle of the file "far"."""


def cached(folder, *runs, flags=space.FUSION_MT_DIRTY) -> tuple[list, int]:
    """Write a set that caches some runs; return its images and the cache's first block."""
    plan = SCENARIOS["fusion"]
    plan = replace(plan, fusion=replace(plan.fusion, cached_runs=runs))
    paths = [folder / "main.img", folder / "second.img"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(space, "FUSION_MT_DIRTY", flags)
        write(plan, *paths)
    layout = layoutscope.scan(paths[0], second=paths[1], drives=()).parts[0].layout
    (cache,) = layout.regions.filter(layout.regions["type"] == "fusion-write-cache")["image_offset"].to_list()
    return paths, cache // CACHED_BLOCK


def pieces_of_far(paths):
    """Return the rows of the file whose middle four blocks are on the second device."""
    layout = layoutscope.scan(paths[0], second=paths[1], drives=()).parts[1].layout
    (number,) = layout.entries.filter(layout.entries["name"] == "far")["file_id"].to_list()
    rows = layout.extents.filter(layout.extents["file_id"] == number)
    return rows.select("device", "image_offset", "logical_offset", "length_bytes").rows()


@pytest.mark.parametrize(
    ("run", "middle"),
    [
        # (cache block, block on the second device, blocks) -> (device, block, block in the file, blocks); the file has
        # two blocks on the main device before these four.
        ((0, 600, 4), [(1, FAR, 2, 4)]),
        ((7, FAR, 4), [(0, 7, 2, 4)]),
        ((7, FAR - 3, 20), [(0, 10, 2, 4)]),
        ((7, FAR + 1, 2), [(1, FAR, 2, 1), (0, 7, 3, 2), (1, FAR + 3, 5, 1)]),
        ((7, FAR - 1, 2), [(0, 8, 2, 1), (1, FAR + 1, 3, 3)]),
        ((7, FAR + 3, 9), [(1, FAR, 2, 3), (0, 7, 5, 1)]),
    ],
)
def test_extents_follow_dirty_runs(tmp_path, run, middle):
    """An extent is split where a dirty run begins and ends: that piece is in the cache on the main device."""
    paths, cache = cached(tmp_path, run)
    base = {0: cache, 1: 0}
    wanted = [
        (device, (base[device] + block) * CACHED_BLOCK, at * CACHED_BLOCK, count * CACHED_BLOCK)
        for device, block, at, count in middle
    ]
    first, *found, last = pieces_of_far(paths)
    assert found == wanted
    assert (first[0], first[2:]) == (0, (0, 2 * CACHED_BLOCK))
    assert (last[0], last[2:]) == (0, (6 * CACHED_BLOCK, CACHED_BLOCK))


def test_two_runs_that_touch_are_two_pieces(tmp_path):
    """The cache stores adjacent runs of the second device at separate places."""
    paths, cache = cached(tmp_path, (20, FAR, 2), (3, FAR + 2, 2))
    _, *found, _ = pieces_of_far(paths)
    assert [row[:2] for row in found] == [(0, (cache + 20) * CACHED_BLOCK), (0, (cache + 3) * CACHED_BLOCK)]


def test_clean_runs_are_the_same_on_both_devices(tmp_path):
    """Blocks that are not dirty keep their address."""
    paths, _ = cached(tmp_path, (7, FAR, 4), flags=0)
    assert pieces_of_far(paths)[1][:2] == (1, FAR * CACHED_BLOCK)


def test_nodes_are_read_where_they_are_newest(tmp_path):
    """A dirty node of the second device is read from the cache and shown there; its old version is not shown."""
    paths, _ = cached(tmp_path, (0, 600, 4))
    whole = layoutscope.scan(paths[0], second=paths[1], drives=()).parts[2].layout
    leaves = whole.nodes.filter((whole.nodes["tree"] == "fs") & (whole.nodes["level"] == 0)).sort("key_rank")
    home = leaves["image_offset"][1] // CACHED_BLOCK
    assert leaves["device"][1] == 1
    folder = tmp_path / "cached"
    folder.mkdir()
    paths, cache = cached(folder, (5, home, 1))
    data = bytearray(paths[1].read_bytes())
    node = bytes(data[home * CACHED_BLOCK : (home + 1) * CACHED_BLOCK])
    data[home * CACHED_BLOCK : (home + 1) * CACHED_BLOCK] = bytes(CACHED_BLOCK)
    paths[1].write_bytes(data)
    with paths[0].open("r+b") as file:
        file.seek((cache + 5) * CACHED_BLOCK)
        file.write(node)
    result = layoutscope.scan(paths[0], second=paths[1], drives=())
    found = result.parts[2].layout
    assert result.exit_code == 0
    assert found.entries.equals(whole.entries)
    moved = found.nodes.filter(found.nodes["node_id"] == leaves["node_id"][1], found.nodes["tree"] == "fs")
    assert moved.select("device", "image_offset").rows() == [(0, (cache + 5) * CACHED_BLOCK)]
    check = layoutscope.check(paths[0], second=paths[1])
    assert [item.code for item in check.findings if item.level == "error"] == []


def test_dirty_runs_find_blocks():
    """Two runs of the second device, blocks 10 to 12 and 20, are in the cache at 100 and 200."""
    mark = Blocks((), (), CACHED_BLOCK).tier2_mark
    start, stop, cached = [mark + 10, mark + 20], [mark + 13, mark + 21], [100, 200]
    blocks = Blocks((), (), CACHED_BLOCK, dirty=np.array([start, stop, cached], np.uint64))
    wanted = np.array([10, mark + 9, mark + 10, mark + 12, mark + 13, mark + 20, mark + 21], np.uint64)
    assert blocks.newest(wanted).tolist() == [10, mark + 9, 100, 102, mark + 13, 200, mark + 21]
