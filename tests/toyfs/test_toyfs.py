"""Everything that can be done with a volume works for a file system that none of this package has heard of."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

import layoutscope
from layoutscope.cli import app
from layoutscope.errors import UsageError
from layoutscope.filesystems.contract import FileSystem
from layoutscope.filesystems.registry import filesystem, filesystem_names, joined, read_options
from layoutscope.filesystems.traits import ReadOption, TreeTraits
from layoutscope.tables import build_table
from layoutscope.walk import host_profile, trace
from layoutscope.walk.host import LINUX, set_properties
from tests.toyfs.toyfs import BLOCK, TOY
from tests.toyfs.volume import BLOCKS, NUM_FILES, written

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _toy():
    """Let the toy join for the length of a test."""
    with joined(TOY):
        yield


@pytest.fixture
def image(tmp_path):
    """Return the path of a sound volume."""
    path = tmp_path / "toy.img"
    path.write_bytes(written())
    return path


def run(*words: object) -> str:
    """Run a command that is to succeed."""
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_it_is_what_the_contract_asks_for():
    """The object has every member of the protocol, and is found by its name."""
    members = {name for name in vars(FileSystem) if not name.startswith("_")}
    assert members <= set(dir(TOY))
    assert filesystem("toyfs") is TOY


def test_it_leaves_as_it_came():
    """Of two that go by one name, the second is refused; outside of the block nobody knows it."""
    with pytest.raises(ValueError, match="'toyfs' already"), joined(TOY):
        pass
    assert filesystem_names()[-1] == "toyfs"


def test_it_scans(image):
    """100 records in three metadata blocks, which are read once; the map's own place is told too."""
    scanned = layoutscope.scan(image)
    (volume,) = scanned.volumes
    assert volume.layout.facts.variant == "ToyFS"
    assert len(volume.layout.entries) == NUM_FILES
    assert volume.layout.nodes["image_offset"].to_list() == [4 * BLOCK, 7 * BLOCK, 2 * BLOCK]
    assert "99 files, 1 folder" in run("scan", image)


def test_counts_that_are_unknown_are_not_printed(image, monkeypatch):
    """A folder that is left out is not counted as -1, and neither is what the superblock does not count."""
    assert "96 files, 0 folders" in run("scan", image, "--first-file", 20)
    read = TOY.read
    monkeypatch.setattr(
        TOY,
        "read",
        lambda request: [
            replace(
                item,
                facts=msgspec.structs.replace(item.facts, num_files=-1, num_directories=-1),
                entries=build_table("entries", {}),
            )
            for item in read(request)
        ],
    )
    for words in ((), ("--details",)):
        assert not re.search(r"(?<![\w-])-1 ", run("scan", image, *words))


def test_it_is_found_in_a_partition(tmp_path):
    """A master boot record that announces it leads to it, and an empty partition of its type is a broken promise."""
    record = bytearray(512)
    for place, (start, count) in enumerate([(1, BLOCKS * 8), (1 + BLOCKS * 8, 8)]):
        record[446 + 16 * place : 462 + 16 * place] = struct.pack("<B3sB3sII", 0, b"", 0x7F, b"", start, count)
    record[510:] = b"\x55\xaa"
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(record) + written() + bytes(8 * 512))
    scanned = layoutscope.scan(path)
    assert scanned.volumes[0].layout.facts.stack == ("MBR", "partition 1", "ToyFS")
    assert {finding.code for finding in scanned.findings} >= {"partition-content"}


@pytest.mark.parametrize(("first", "codes"), [(105, []), (BLOCKS, ["toy-file-outside"])])
def test_it_checks(tmp_path, first, codes):
    """A file in block 110 of 110 blocks, counted from 0, ends behind the volume; in block 105 it does not."""
    path = tmp_path / "toy.img"
    path.write_bytes(written(first_of_the_last=first))
    (volume,) = layoutscope.check(path).volumes
    assert [finding.code for finding in volume.findings] == codes


def test_it_is_walked(image):
    """The mount has read the map; a listing enters the table's first block, then the second: 7, then 2."""
    (layout,) = [volume.layout for volume in layoutscope.scan(image).volumes]
    reads = trace(layout)
    assert reads.image_offset.tolist() == [7 * BLOCK, 2 * BLOCK]
    # 100 names at 1 us, 100 stats at 7 us, two nodes at 10 us.
    assert reads.host_us == pytest.approx(100 * 1 + 100 * 7 + 2 * 10)


def test_what_locates_a_block_is_read_before_it(image):
    """With memory for one block the map, which the mount has read, is read again before the table's second block."""
    (layout,) = [volume.layout for volume in layoutscope.scan(image).volumes]
    reads = trace(layout, order="catalog", host=host_profile("linux", cache_bytes=BLOCK))
    assert reads.image_offset.tolist() == [7 * BLOCK, 4 * BLOCK, 2 * BLOCK]


def test_it_predicts(image):
    """Two reads of one block each, on whatever drive."""
    document = json.loads(run("predict", image, "--drive", "generic-7200", "--json"))
    assert document["volumes"][0]["walk"]["reads"] == 2


def test_it_is_drawn(image, tmp_path):
    """The legend of the map has the words of its trees."""
    run("map", image, "-o", tmp_path / "map.html")
    page = (tmp_path / "map.html").read_text()
    assert "file table" in page
    assert "table map" in page


def _known_with(folder, announced):
    """Start a program with an installed package that announces a file system; return what it knows and prints."""
    about = folder / "toys-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[layoutscope.filesystems]\ntoy = {announced}\n")
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    asked = "from layoutscope.filesystems.registry import filesystem_names; print(*filesystem_names())"
    found = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    return found.stdout.split(), found.stderr


def test_one_of_an_installed_package_joins(tmp_path):
    """A package whose installer lists the entry point is known to a program that starts, wherever its path has it."""
    assert _known_with(tmp_path, "tests.toyfs.toyfs:TOY") == (["apfs", "hfsplus", "toyfs"], "")


def test_a_broken_one_is_named_and_the_others_read(tmp_path):
    """What cannot be imported is left out with a warning that names it."""
    names, said = _known_with(tmp_path, "no_such_module:TOY")
    assert names == ["apfs", "hfsplus"]
    assert "the file system toy (no_such_module:TOY) cannot be loaded" in said


def test_its_own_option_is_taken(image):
    """From file 20 on there are 96 of 100 entries, in every command; its help is under its label."""
    (volume,) = layoutscope.scan(image, first_file=20).volumes
    assert volume.layout.entries["file_id"].to_list() == list(range(20, 116))
    assert run("export", image, "--table", "entries", "--first-file", 20).count("\n") == 1 + 96
    assert "--first-file N" in run("scan", "--help-all")
    assert "ToyFS: only files from this number on." in run("scan", "--help-all")


def test_its_own_option_needs_the_image(image, tmp_path):
    """A capture has what was read already, so it accepts only the default of the option."""
    run("scan", image, "--save", tmp_path / "toy.lscope")
    assert layoutscope.scan(tmp_path / "toy.lscope", first_file=16).volumes
    with pytest.raises(UsageError, match="first-file needs the image itself"):
        layoutscope.scan(tmp_path / "toy.lscope", first_file=20)


def test_nobody_elses_option_is_taken(image):
    """A keyword that no file system declares is an error of the caller, as of any function."""
    with pytest.raises(TypeError, match="last_file"):
        layoutscope.scan(image, last_file=20)


@pytest.mark.parametrize(
    "option", [ReadOption("sweep", "switch", "something else."), ReadOption("xid", "text", "something else.")]
)
def test_an_option_has_one_meaning(option):
    """No file system's own option has the name of one that all have, nor another kind than a namesake."""
    twin = type("Twin", (type(TOY),), {"name": "twin", "traits": replace(TOY.traits, options=(option,))})()
    with joined(twin), pytest.raises(ValueError, match="has another meaning already"):
        read_options()


def test_words_and_colours_are_those_of_its_own_trees():
    """A tree of the same name in another file system has that one's words."""
    own = TreeTraits("catalog", "list of files", "main", words="The list")
    assert replace(TOY.traits, trees=(own,)).tree("catalog") == own
    assert filesystem("hfsplus").traits.tree("catalog").words == "The catalog"
    assert TOY.traits.tree("unheard").label == "unheard B-tree"


def test_its_places_have_owners(image):
    """A byte in block 7 has the name of its table, although the format shows no structures."""
    document = json.loads(run("inspect", image, "--at", 7 * BLOCK + 5, "--json"))
    assert [(owner["facts"]["tree"], owner["facts"]["locator"]) for owner in document["owners"]] == [("table", "map:0")]
    assert document["structures"] == []


def test_it_is_saved_and_loaded(image, tmp_path):
    """A capture of it is scanned without the image."""
    run("scan", image, "--save", tmp_path / "toy.lscope")
    assert layoutscope.scan(tmp_path / "toy.lscope").volumes[0].layout.facts.filesystem == "toyfs"


def test_its_host_properties_have_names(image):
    """Users change what its driver costs: 100 stats of 70 us instead of 7 are 6,300 us more."""
    (layout,) = [volume.layout for volume in layoutscope.scan(image).volumes]
    slow = trace(layout, host=set_properties(LINUX, {"toyfs.stat_us": "70"}))
    assert slow.host_us - trace(layout).host_us == pytest.approx(100 * 63)
