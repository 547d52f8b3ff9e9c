"""APFS images against data from other programs and an independent walker."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import layoutscope
from fixtures.apfs import locate as at
from fixtures.apfs.checksum import with_checksum
from fixtures.apfs.plan import ContainerPlan, ExtentPlan, FilePlan, VolumePlan, XattrPlan
from fixtures.apfs.scenarios import RICH, SCENARIOS, container
from fixtures.apfs.structures.records import RecordType
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from fixtures.hfsplus.plan import File, Fork, Xattr
from fixtures.hfsplus.plan import VolumePlan as HfsPlan
from fixtures.hfsplus.writer import render
from layoutscope.checks.apfs import namehashes
from layoutscope.image.raw import RawFile
from layoutscope.metrics import measure
from layoutscope.tables import TextColumn
from layoutscope.tables.schema import FORKS
from tests.agreement import node_differences
from tests.apfs import read_layouts
from tests.layouts import file_id

DRIVER = ("apfs-ci", "apfs-empty", "apfs-frag", "apfs-normsens", "apfs-snap")
AGED = ("apfs-20000-c00", "apfs-20000-c20")
BLOCK = 4096
# Apple's images: start of the container, and the numbers of files, directories and symbolic links in its superblock.
APPLE = {
    "offsite_source_2snaps": (0x5000, 6, 1, 0),
    "dissect_jhfs_converted": (0, 21, 4, 2),
    "sparkle_apfs_lzma_aux": (0x5000, 161, 72, 7),
    "dissect_case_sensitive_beta": (0, 15, 3, 2),
    "hdimac_apfs-c": (0x5000, 3, 0, 0),
    "ronin_apfs_content": (0, 7, 2, 1),
}
LOCKED = "dissect_encrypted"


@pytest.fixture(scope="session")
def layouts(reference_image):
    """Return a function from an image's name to its layouts, read once."""

    @cache
    def get(name: str, offset: int = 0):
        with RawFile(reference_image(name)) as source:
            return read_layouts(source, image_offset=offset)

    return get


def image_of(name: str) -> str:
    """Return the file of a driver's or an aged image."""
    return f"{'aged' if name in AGED else 'driver'}/{name}.img"


def live(nodes: pl.DataFrame) -> pl.DataFrame:
    """Return the nodes of the live state."""
    return nodes.filter(pl.col("state") == "live")


def by_level(nodes: pl.DataFrame, tree: str) -> dict[str, int]:
    """Count the nodes of a tree per level, as the reference data do."""
    counts = live(nodes).filter(pl.col("tree") == tree).group_by("level").len()
    return {str(level): count for level, count in counts.rows()}


@pytest.mark.parametrize("name", DRIVER + AGED)
def test_a_volume_is_what_the_independent_walk_found(layouts, truth, name):
    """Nodes of each tree and level, records of each type, map entries, transaction and superblock are those counted.

    On the aged volumes so are the numbers of adjacent and backward steps between leaves, per tree.
    """
    expected = json.loads(truth(f"{name}.img.gt.json"))
    container, volume = layouts(image_of(name))
    wanted, details = expected["volumes"][0], volume.facts.details
    assert by_level(container.nodes, "container-omap") == expected["container_omap_nodes_by_level"]
    for tree, key in (("omap", "omap"), ("fs", "fstree"), ("extentref", "extentref"), ("snapmeta", "snapmeta")):
        assert by_level(volume.nodes, tree) == wanted[f"{key}_nodes_by_level"], tree
    found = {key.removesuffix(" records"): value for key, value in details.items() if key.endswith(" records")}
    assert found == wanted["fstree_records_by_type"]
    assert details["object map entries"] == wanted["omap_versions"]
    assert container.facts.stamp == expected["newest_xid"]
    assert container.facts.details["checkpoint at block"] == expected["checkpoint_sb_block"]
    counts = wanted["superblock_counts"]
    assert (volume.facts.num_files, volume.facts.num_directories) == (counts["files"], counts["dirs"])
    if name in AGED:
        metrics = {(each.subject, each.name): each.value for each in measure(volume)}
        for tree, key in (("fs", "fstree"), ("omap", "omap"), ("extentref", "extentref")):
            leaf = wanted[f"{key}_leaf_layout"]
            steps = leaf["nodes"] - 1
            assert metrics[tree, "next-leaf-adjacent"] == pytest.approx(leaf["in_key_order_adjacent"] / steps)
            assert metrics[tree, "backward-steps"] == pytest.approx(leaf["backward_jumps"] / steps)


@pytest.mark.parametrize(
    ("image", "file"),
    [
        ("aged/apfs-20000-c20.img", "apfs-20000-c20.nodes.tsv.zst"),
        ("aged/apfs-200000-c00.img", "apfs-200000-c00.nodes.tsv.zst"),
        pytest.param("aged/apfs-200000-c20.img", "apfs-200000-c20.nodes.tsv.zst", marks=pytest.mark.slow),
    ],
)
def test_every_live_node_stands_at_the_address_of_the_truth(layouts, truth, image, file):
    """Address, tree, level, oid, xid and number of keys of every live node equal the independent list."""
    expected = pl.read_csv(truth(file), separator="\t").rename({"#paddr": "paddr"})
    names = {"nx_omap": "container-omap", "vol_omap:Aged": "omap", "fstree:Aged": "fs"}
    names |= {"extentref:Aged": "extentref", "snapmeta:Aged": "snapmeta"}
    expected = expected.with_columns(pl.col("tree").replace_strict(names)).sort("paddr")
    tables = [layout.nodes.with_columns(pl.col("tree").cast(pl.String)) for layout in layouts(image)]
    nodes = pl.concat(tables).filter(pl.col("tree").is_in(list(names.values())))
    found = nodes.select(
        paddr=pl.col("image_offset") // BLOCK, tree="tree", level="level", oid="node_id", xid="xid", nkeys="num_records"
    ).sort("paddr")
    assert_frame_equal(found, expected, check_dtypes=False)


def test_extents_are_those_that_the_kernel_maps(layouts, truth):
    """The six fragmented files are where FIBMAP reported them, extent by extent."""
    volume = layouts("driver/apfs-frag.img")[1]
    expected = pl.read_csv(
        truth("apfs-frag.filefrag.tsv.zst"),
        separator="\t",
        has_header=False,
        new_columns=["path", "logical", "physical", "length"],
    )
    for (path,), wanted in expected.group_by("path"):
        own = volume.extents.filter(file_id=file_id(volume, *path.split("/")))
        rows = own.filter(pl.col("flags") & 4 == 0).sort("logical_offset")
        found = merged(rows["logical_offset"].to_list(), rows["image_offset"].to_list(), rows["length_bytes"].to_list())
        rows = wanted.sort("logical")
        assert found == merged(rows["logical"].to_list(), rows["physical"].to_list(), rows["length"].to_list())


def merged(logical: list[int], physical: list[int], length: list[int]) -> list[list[int]]:
    """Join extents that are contiguous both in the file and on the disk."""
    joined: list[list[int]] = []
    for start, place, size in zip(logical, physical, length, strict=True):
        if joined and joined[-1][0] + joined[-1][2] == start and joined[-1][1] + joined[-1][2] == place:
            joined[-1][2] += size
        else:
            joined.append([start, place, size])
    return joined


@pytest.mark.parametrize("name", APPLE)
def test_apple_images_hold_what_their_superblock_counts(layouts, name):
    """Entries counted from the tree equal the superblock's counts, hard links counted once."""
    offset, files, directories, symlinks = APPLE[name]
    container, volume = layouts(f"apple/{name}.raw", offset)
    assert container.facts.volume is None
    assert (volume.facts.num_files, volume.facts.num_directories) == (files, directories)
    shown = volume.entries.filter((pl.col("parent_id") > 1) & (pl.col("flags") & 4 == 0)).unique("file_id")
    counts = dict(shown.group_by("kind").len().rows())
    assert (counts["file"], counts.get("directory", 0), counts.get("symlink", 0)) == (files, directories, symlinks)
    assert len(container.findings) == 0
    # hfs_convert left a directory with a larger count than its entries.
    expected = ["count-differs"] if name == "dissect_jhfs_converted" else []
    assert volume.findings["code"].to_list() == expected
    assert set(volume.findings["level"]) <= {"info"}


def all_images() -> list[tuple[str, int]]:
    """List every APFS image that needs no key, with the offset of its container."""
    return [(image_of(name), 0) for name in DRIVER + AGED] + [
        (f"apple/{name}.raw", row[0]) for name, row in APPLE.items()
    ]


@pytest.mark.full
@pytest.mark.parametrize(("image", "offset"), [item for item in all_images() if item[0].split("/")[0] != "aged"])
def test_grammars_agree_on_every_node(layouts, reference_image, image, offset):
    """Bulk decoding and the grammars read the same records."""
    assert node_differences(RawFile(reference_image(image)), layouts(image, offset)) == []


@pytest.mark.slow
def test_grammars_agree_on_every_node_of_an_aged_volume(layouts, reference_image):
    """The same holds for 150,000 records in 6,151 leaves."""
    name = image_of("apfs-20000-c20")
    assert node_differences(RawFile(reference_image(name)), layouts(name)) == []


@pytest.mark.parametrize(("image", "offset"), all_images())
def test_tables_of_an_image_are_consistent(layouts, image, offset):
    """All records decode, each used block is claimed and no claimed one is free, and nothing overlaps.

    Parents are one level up, map leaves in the map, entries and extents in leaves of the fs tree.
    """
    own, volume = found = layouts(image, offset)
    assert volume.facts.details["records decoded"] == volume.facts.details["records"] > 0
    details = own.facts.details
    assert (details["unclaimed blocks"], details["claimed but free blocks"]) == (0, 0)
    assert details["claimed blocks"] == details["used blocks"] == details["blocks"] - details["free blocks"]

    level = dict(zip(volume.nodes["row"], volume.nodes["level"], strict=True))
    tree = dict(zip(volume.nodes["row"], volume.nodes["tree"].cast(pl.String), strict=True))
    children = live(volume.nodes).filter(pl.col("parent_row").is_not_null())
    assert all(level[row["parent_row"]] == row["level"] + 1 for row in children.to_dicts())
    mapped = live(volume.nodes).filter(pl.col("tree") == "fs")
    assert all((tree[row], level[row]) == ("omap", 0) for row in mapped["locator_row"])
    columns = ("entry_node_row", "inode_node_row", "xattr_node_row", "dstream_node_row", "listing_node_row")
    leaves = [*(volume.entries[column] for column in columns), volume.extents["node_row"]]
    assert all((tree[row], level[row]) == ("fs", 0) for rows in leaves for row in rows.drop_nulls().unique())

    lengths = (("nodes", "size_bytes"), ("regions", "length_bytes"), ("free", "length_bytes"))
    parts = [layout.table(name).select("image_offset", length) for layout in found for name, length in lengths]
    runs = np.concatenate([part.to_numpy() for part in parts if len(part)]).astype(np.int64)
    runs = runs[np.argsort(runs[:, 0])]
    assert (runs[1:, 0] >= runs[:-1, 0] + runs[:-1, 1]).all()


def test_the_encrypted_image_opens_with_its_password(reference_image):
    """With the password from the index, the tree matches the superblock's counts, and everything is verified."""
    with RawFile(reference_image(f"apple/{LOCKED}.raw")) as source:
        container, volume = read_layouts(source, password="password")  # noqa: S106  (stands in the images' index)
    shown = volume.entries.filter((pl.col("parent_id") > 1) & (pl.col("flags") & 4 == 0)).unique("file_id")
    counts = dict(shown.group_by("kind").len().rows())
    assert (counts["file"], counts["directory"], counts["symlink"]) == (19, 3, 2)
    assert volume.facts.details["records decoded"] == volume.facts.details["records"]
    assert set(volume.nodes["valid"].cast(pl.String)) == {"checksum"}
    assert container.facts.details["unclaimed blocks"] == 0
    assert volume.findings.rows() == container.findings.rows() == []


@pytest.mark.parametrize("password", [None, "wrong"])
def test_without_its_password_the_encrypted_image_still_shows_its_layout(reference_image, password):
    """The five nodes of the locked tree have addresses, and every block is accounted for."""
    with RawFile(reference_image(f"apple/{LOCKED}.raw")) as source:
        container, volume = read_layouts(source, password=password)
    locked = volume.nodes.filter(pl.col("kind") == "locked")
    assert len(locked) == volume.facts.details["object map entries"] == 5
    assert container.facts.details["unclaimed blocks"] == 0
    assert volume.findings["code"].to_list() == ["volume-locked"]
    # Locked: 5 of the 8 nodes (object map, extent references and snapshot metadata have one each).
    assert volume.coverage == 3 / 8


@pytest.mark.parametrize("image", ["driver/apfs-snap.img", "apple/offsite_source_2snaps.raw"])
def test_both_snapshots_show_with_layouts_of_their_own(layouts, image):
    """Two snapshots and the live state: three views, all with different nodes."""
    volume = layouts(image, 0 if image.startswith("driver") else 0x5000)[1]
    views = {name: frozenset(frame["node_row"]) for (name,), frame in volume.node_views.group_by("view")}
    assert len(views) == len(set(views.values())) == 3


# Impossible sizes of APFS files.


def test_size_that_no_file_can_have_is_unknown(tmp_path):
    """Such a size, including a negative one, is damage, and is shown as unknown."""
    path = tmp_path / "disk.img"
    write(ContainerPlan((VolumePlan("Rich", RICH),), block_count=16384), path)
    whole = layoutscope.scan(path, drives=())
    rows = {row["name"]: row for row in whole.parts[-1].layout.entries.iter_rows(named=True)}
    size, node = rows["short"]["size_bytes"], rows["short"]["inode_node_row"]
    nodes = whole.parts[-1].layout.nodes
    (at,) = nodes.filter(nodes["row"] == node)["image_offset"]
    data = bytearray(path.read_bytes())
    block = bytes(data[at : at + BLOCK])
    # The stream's size is stored before its allocated size (j_dstream_t).
    found = struct.pack("<QQ", size, -(-size // BLOCK) * BLOCK)
    assert block.count(found) == 1
    changed = block.replace(found, struct.pack("<Q", 2**63 + 5) + found[8:])
    data[at : at + BLOCK] = with_checksum(changed)
    path.write_bytes(data)
    result = layoutscope.scan(path, drives=())
    rows = {row["name"]: row for row in result.parts[-1].layout.entries.iter_rows(named=True)}
    assert rows["short"]["size_bytes"] is None
    assert result.exit_code == 3
    assert all(row["size_bytes"] is None or row["size_bytes"] >= 0 for row in rows.values())


# APFS names that were damaged inside otherwise sound records with correct checksums.


HEAD = 12
"""Bytes before the name in the key of a hashed directory record: identifier and type, length and hash."""


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """Write a container; return its image and layout."""
    path = tmp_path_factory.mktemp("names") / "disk.img"
    return path, write(VICTIMS["victim"], path)


@pytest.fixture
def renamed(victim, tmp_path):
    """Return a function that changes one byte of an entry's name, and corrects the checksum of its node."""
    path, expected = victim

    def change(which, byte, *, of=RecordType.DIR_REC, head=HEAD):
        data = bytearray(path.read_bytes())
        node, place = at.leaf_records(data, expected, of)[which]
        start = (place.value if of == RecordType.SIBLING_LINK else place.key) + head
        data[start] = byte
        at.fix_checksum(data, node, expected.block_size)
        copy = tmp_path / "renamed.img"
        copy.write_bytes(data)
        return copy

    return change


def told(result):
    return {(item.code, item.level) for volume in result.volumes for item in volume.findings}


LINK = {"of": RecordType.SIBLING_LINK, "head": 10}
RENAMED = [
    *((which, ord("Q"), {}, "name-hash-differs") for which in (3, 20, -1)),
    (20, 0xFF, {}, "record-invalid"),  # no valid UTF-8
    # The record at an inode and the entry in its directory have the same name.
    (0, ord("Q"), LINK, "record-differs"),
]


@pytest.mark.parametrize(("which", "byte", "of", "code"), RENAMED)
def test_changed_name_is_damage_in_a_scan_and_a_check(renamed, which, byte, of, code):
    """Exit code 3, and coverage below 1 where the hash reveals it."""
    path = renamed(which, byte, **of)
    for result in (layoutscope.scan(path, drives=()), layoutscope.check(path)):
        assert (code, "error") in told(result)
        assert result.exit_code == 3
    assert code != "name-hash-differs" or layoutscope.scan(path, drives=()).coverage != 1


def test_name_that_is_no_text_is_damage_where_names_have_no_hashes(tmp_path):
    """Early APFS volumes store names without hashes; invalid UTF-8 reveals damage there, too."""
    path = tmp_path / "disk.img"
    expected = write(replace(SCENARIOS["plain-keys"], block_count=16384), path)
    assert layoutscope.scan(path, drives=()).exit_code == 0
    data = bytearray(path.read_bytes())
    node, place = at.leaf_records(data, expected, RecordType.DIR_REC)[5]
    # The key has eight bytes of identifier and type and two of length, followed by the name.
    data[place.key + 10] = 0xFF
    at.fix_checksum(data, node, expected.block_size)
    path.write_bytes(data)
    result = layoutscope.scan(path, drives=())
    assert ("record-invalid", "error") in told(result)
    assert result.exit_code == 3


@pytest.mark.parametrize(
    ("name", "stored"),
    [("\u1c90", 3_222_383), ("\u1c90\u1c91", 1_713_518), ("\u1c90\u10d1", 3_399_766), ("\u10d0", 1_633_879)],
)
def test_hashes_of_letters_younger_than_the_tables_of_apfs(name, stored):
    """Georgian capitals of Unicode 11 do not fold: the hashes are those that Linux's driver stored in a volume."""
    raw = np.frombuffer(name.encode(), np.uint8)
    hashes, known = namehashes.hash_names(TextColumn(raw, np.array([len(raw)], np.uint32)), folded=True)
    assert known.all()
    assert hashes.tolist() == [stored]


def test_sound_names_are_not_told(victim):
    """Every name matches its hash, and the names of each link agree."""
    assert layoutscope.scan(victim[0], drives=()).exit_code == 0


def test_names_in_other_scripts_are_hashed_where_they_are_few(monkeypatch, victim):
    """Above the limit only ASCII names are compared, without a note on the others."""
    monkeypatch.setattr(namehashes, "MAX_SLOW_HASHES", -1)
    assert layoutscope.scan(victim[0], drives=()).exit_code == 0


# Attribute data is kept apart from a file's own data, whatever the attribute's name.


LENGTH = 4096 * 3
NAMES = (*FORKS, "attribute:data", "plain")
TOLD = {"data", "attribute:data", "attribute:resource", "attribute:orphan", "attribute:attribute:data", "plain"}


@pytest.fixture(params=["apfs", "hfsplus"])
def image(request, tmp_path):
    """A volume with one file of three blocks, whose attributes have their own blocks and the names of forks."""
    path = tmp_path / "disk.img"
    if request.param == "apfs":
        held = tuple(XattrPlan(name, b"x" * 5000, is_streamed=True) for name in NAMES)
        write(container(VolumePlan("Forks", (FilePlan("/a", (ExtentPlan(3),), xattrs=held),))), path)
    else:
        held = tuple(Xattr(name, fork=Fork(5000)) for name in NAMES)
        canvas, _ = render(HfsPlan("Forks", total_blocks=2048, root=(File("a", Fork(LENGTH), xattrs=held),)))
        path.write_bytes(bytes(canvas.to_bytearray()))
    return path


def test_an_attribute_called_data_is_not_the_files_data(image):
    """The file has exactly its three blocks; each attribute has its own fork."""
    with layoutscope.open(image) as disk:
        layout = disk.scan(drives=()).volume.layout
    number = layout.entries.row(by_predicate=pl.col("name") == "a", named=True)["file_id"]
    extents = layout.extents.filter(file_id=number).with_columns(pl.col("fork").cast(pl.String))
    assert set(extents["fork"]) == TOLD
    assert extents.filter(fork="data")["length_bytes"].sum() == LENGTH
    assert extents.filter(pl.col("fork") != "data").height == len(NAMES)
