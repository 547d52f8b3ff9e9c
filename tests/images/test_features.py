"""Unknown incompatible feature bits are errors everywhere; known ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import layoutscope
from fixtures.apfs.checksum import with_checksum
from fixtures.apfs.locate import field_offset
from fixtures.apfs.plan import ContainerPlan
from fixtures.apfs.plan import VolumePlan as ApfsVolume
from fixtures.apfs.scenarios import many
from fixtures.apfs.structures.container import NX_SUPERBLOCK
from fixtures.apfs.structures.volume import FS_SUPERBLOCK
from fixtures.apfs.writer import write
from fixtures.hfsplus.plan import VolumePlan
from fixtures.hfsplus.scenarios import folders
from fixtures.hfsplus.writer import render
from layoutscope.cli.application import app
from layoutscope.filesystems.apfs import features as apfs_features
from layoutscope.filesystems.hfsplus import features as hfsplus_features
from layoutscope.structs import grammar

BLOCK, HEADER = 4096, 32
RESTORE = "a restore of this volume was interrupted: files may be missing"
UNKNOWN = "uses feature {}, which layoutscope does not know: files may be missing"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "basic.img"
    write(ContainerPlan((ApfsVolume("Basic", many(40)),), block_count=4096), path)
    return path.read_bytes()


def changed(image, magic, structure, **bits):
    """Set bits of fields in every superblock of a kind, and correct the checksums."""
    data = bytearray(image)
    for start in range(0, len(data), BLOCK):
        if data[start + 32 : start + 36] != magic:
            continue
        for name, value in bits.items():
            at = start + HEADER + field_offset(structure, name)
            data[at : at + 8] = (int.from_bytes(data[at : at + 8], "little") | value).to_bytes(8, "little")
        data[start : start + BLOCK] = with_checksum(bytes(data[start : start + BLOCK]))
    return bytes(data)


def volume_with(image, **bits):
    return changed(image, b"APSB", FS_SUPERBLOCK, **bits)


def container_with(image, **bits):
    return changed(image, b"NXSB", NX_SUPERBLOCK, **bits)


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
            at = start + HEADER + field_offset(FS_SUPERBLOCK, "apfs_fs_flags")
            data[at : at + 8] = (8).to_bytes(8, "little")
            data[start : start + BLOCK] = with_checksum(bytes(data[start : start + BLOCK]))
    noise = bytes((7 * place + 3) % 251 for place in range(BLOCK))
    data[3000 * BLOCK : 3001 * BLOCK] = noise
    image = bytes(data)
    at = HEADER + field_offset(NX_SUPERBLOCK, "nx_keylocker")
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
    apfs_features: (
        grammar.ApfsContainer.ContainerIncompatibleFeature,
        grammar.ApfsContainer.ContainerFeature,
        grammar.ApfsContainer.ContainerFlag,
        grammar.ApfsVolume.VolumeIncompatibleFeature,
        grammar.ApfsVolume.VolumeFeature,
        grammar.ApfsVolume.VolumeFlag,
        grammar.ApfsSnapshot.SnapMetaFlag,
    ),
    hfsplus_features: (
        grammar.HfsplusVolume.Signature,
        grammar.HfsplusVolume.Version,
        grammar.HfsplusVolume.VolumeAttribute,
        grammar.HfsplusJournal.JournalInfoFlag,
    ),
}


@pytest.mark.parametrize("module", KINDS, ids=lambda module: module.__name__.split(".")[-2])
def test_the_table_has_every_bit_of_the_grammar_once(module):
    """Each has its meaning for readers."""
    rows = [item for table in module.FEATURE_FIELDS for item in table.features]
    known = [item for kind in KINDS[module] for item in kind]
    assert sorted(f"{type(item.bit).__name__}.{item.bit.name}" for item in rows) == sorted(
        f"{type(item).__name__}.{item.name}" for item in known
    )
    assert all(item.meaning.endswith(".") for item in rows)
