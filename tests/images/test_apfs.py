"""APFS images against data from other programs and an independent walker."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from layoutscope.image.raw import RawFile
from layoutscope.metrics import measure
from tests.agreement import node_differences
from tests.apfs import read_layouts
from tests.layouts import FIND_LETTERS

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


def paths_of(entries: pl.DataFrame) -> dict[str, tuple]:
    """Rebuild the path of every entry below the root directory, with its listing data."""
    rows = {row["file_id"]: row for row in entries.filter(pl.col("kind") == "directory").to_dicts()}
    folders: dict[int, str] = {2: ""}

    def folder(number: int) -> str:
        if number not in folders:
            row = rows[number]
            folders[number] = f"{folder(row['parent_id'])}{row['name']}/"
        return folders[number]

    found = {}
    for row in entries.filter((pl.col("parent_id") > 1) & (pl.col("flags") & 4 == 0)).to_dicts():
        path = folder(row["parent_id"]) + row["name"]
        found[path] = (row["file_id"], row["kind"], row["link_count"], row["size_bytes"])
    return found


@pytest.mark.parametrize("name", DRIVER + AGED)
def test_nodes_of_every_tree_and_level_are_those_of_the_independent_walk(layouts, truth, name):
    """Every tree has as many nodes on each level as an independent walker counted."""
    expected = json.loads(truth(f"{name}.img.gt.json"))
    container, volume = layouts(image_of(name))
    wanted = expected["volumes"][0]
    assert by_level(container.nodes, "container-omap") == expected["container_omap_nodes_by_level"]
    assert by_level(volume.nodes, "omap") == wanted["omap_nodes_by_level"]
    assert by_level(volume.nodes, "fs") == wanted["fstree_nodes_by_level"]
    assert by_level(volume.nodes, "extentref") == wanted["extentref_nodes_by_level"]
    assert by_level(volume.nodes, "snapmeta") == wanted["snapmeta_nodes_by_level"]


@pytest.mark.parametrize("name", AGED)
def test_metrics_of_leaves_are_those_of_the_independent_walk(layouts, truth, name):
    """Per tree, the numbers of adjacent and backward steps between leaves equal an independent count."""
    wanted = json.loads(truth(f"{name}.img.gt.json"))["volumes"][0]
    found = {(each.subject, each.name): each.value for each in measure(layouts(image_of(name))[1])}
    for tree, key in (("fs", "fstree"), ("omap", "omap"), ("extentref", "extentref")):
        leaf = wanted[f"{key}_leaf_layout"]
        steps = leaf["nodes"] - 1
        assert found[tree, "next-leaf-adjacent"] == pytest.approx(leaf["in_key_order_adjacent"] / steps)
        assert found[tree, "backward-steps"] == pytest.approx(leaf["backward_jumps"] / steps)


@pytest.mark.parametrize("name", DRIVER + AGED)
def test_records_by_type_and_map_entries_are_those_of_the_independent_walk(layouts, truth, name):
    """Records of each type, object-map entries, transaction and superblock equal an independent count."""
    expected = json.loads(truth(f"{name}.img.gt.json"))
    container, volume = layouts(image_of(name))
    wanted, details = expected["volumes"][0], volume.facts.details
    found = {key.removesuffix(" records"): value for key, value in details.items() if key.endswith(" records")}
    assert found == wanted["fstree_records_by_type"]
    assert details["object map entries"] == wanted["omap_versions"]
    assert container.facts.stamp == expected["newest_xid"]
    assert container.facts.details["checkpoint at block"] == expected["checkpoint_sb_block"]
    assert (volume.facts.num_files, volume.facts.num_directories) == (
        wanted["superblock_counts"]["files"],
        wanted["superblock_counts"]["dirs"],
    )


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


@pytest.mark.parametrize("name", [name for name in DRIVER if name != "apfs-empty"])
def test_paths_are_those_that_the_driver_lists(layouts, truth, name):
    """Every path has the inode, type, links and size that the mounted volume showed."""
    kinds = {letter: kind for kind, letter in FIND_LETTERS.items()}
    expected = {}
    for line in truth(f"{name}.find.tsv.zst").decode().splitlines():
        inode, kind, links, size, _, path = line.split("\t")
        if path:
            expected[path] = (int(inode), kinds[kind], int(links), int(size))
    found = paths_of(layouts(image_of(name))[1].entries)
    # The driver shows symbolic links as empty; macOS shows the length of the target.
    assert {path: row for path, row in found.items() if row[1] != "symlink"} == {
        path: row for path, row in expected.items() if row[1] != "symlink"
    }
    assert {path: row[:3] for path, row in found.items()} == {path: row[:3] for path, row in expected.items()}


def test_extents_are_those_that_the_kernel_maps(layouts, truth):
    """The six fragmented files are where FIBMAP reported them, extent by extent."""
    volume = layouts("driver/apfs-frag.img")[1]
    ids = {path: row[0] for path, row in paths_of(volume.entries).items()}
    expected = pl.read_csv(
        truth("apfs-frag.filefrag.tsv.zst"),
        separator="\t",
        has_header=False,
        new_columns=["path", "logical", "physical", "length"],
    )
    for (path,), wanted in expected.group_by("path"):
        rows = volume.extents.filter((pl.col("file_id") == ids[path]) & (pl.col("flags") & 4 == 0)).sort(
            "logical_offset"
        )
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


@pytest.mark.parametrize("name", DRIVER + AGED)
def test_every_block_is_accounted_for(layouts, name):
    """On volumes that apfsck calls clean, each used block is claimed and no claimed one is free."""
    details = layouts(image_of(name))[0].facts.details
    assert details["unclaimed blocks"] == 0
    assert details["claimed but free blocks"] == 0
    assert details["used blocks"] + details["free blocks"] == details["blocks"]
    assert details["claimed blocks"] == details["used blocks"]


@pytest.mark.parametrize("name", APPLE)
def test_apple_images_are_accounted_for_to_the_block(layouts, name):
    """On volumes that macOS wrote, each used block is claimed as well."""
    details = layouts(f"apple/{name}.raw", APPLE[name][0])[0].facts.details
    assert details["unclaimed blocks"] == 0
    assert details["claimed but free blocks"] == 0


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


@pytest.mark.parametrize(("image", "offset"), all_images())
def test_all_records_decode(layouts, image, offset, capsys):
    """Every record decodes, not just most."""
    details = layouts(image, offset)[1].facts.details
    with capsys.disabled():
        print(f"\n{image}: {details['records decoded']:,} of {details['records']:,} records decoded")  # noqa: T201  (the share is the point)
    assert details["records decoded"] == details["records"] > 0


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
def test_rows_refer_to_what_they_say(layouts, image, offset):
    """Parents are one level up, map leaves in the map, entries and extents in leaves of the fs tree."""
    volume = layouts(image, offset)[1]
    nodes = live(volume.nodes)
    level = dict(zip(volume.nodes["row"], volume.nodes["level"], strict=True))
    tree = dict(zip(volume.nodes["row"], volume.nodes["tree"].cast(pl.String), strict=True))
    children = nodes.filter(pl.col("parent_row").is_not_null())
    assert all(level[row["parent_row"]] == row["level"] + 1 for row in children.to_dicts())
    mapped = nodes.filter(pl.col("tree") == "fs")
    assert all((tree[row], level[row]) == ("omap", 0) for row in mapped["locator_row"])
    columns = ("entry_node_row", "inode_node_row", "xattr_node_row", "dstream_node_row", "listing_node_row")
    for column in columns:
        rows = volume.entries[column].drop_nulls().unique()
        assert all((tree[row], level[row]) == ("fs", 0) for row in rows)
    assert all((tree[row], level[row]) == ("fs", 0) for row in volume.extents["node_row"].unique())


@pytest.mark.parametrize(("image", "offset"), all_images())
def test_nothing_overlaps(layouts, image, offset):
    """Nodes, regions and free runs of a container and its volumes do not overlap."""
    found = layouts(image, offset)
    parts = [
        layout.table(name).select("image_offset", length)
        for layout in found
        for name, length in (("nodes", "size_bytes"), ("regions", "length_bytes"), ("free", "length_bytes"))
    ]
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


@pytest.mark.parametrize(("snapshot", "file"), [("snap1", "apfs-snap.snap1"), ("snap2", "apfs-snap.snap2")])
def test_snapshots_show_the_paths_that_the_driver_lists(reference_image, truth, snapshot, file):
    """Mounted snapshots listed these paths with these inodes, links and sizes."""
    with RawFile(reference_image("driver/apfs-snap.img")) as source:
        volume = read_layouts(source, snapshot=snapshot)[1]
    expected = {}
    for line in truth(f"{file}.find.tsv.zst").decode().splitlines():
        inode, kind, links, size, _, path = line.split("\t")
        if path:
            expected[path] = (int(inode), int(links), int(size) if kind != "l" else None)
    found = {
        path: (row[0], row[2], row[3] if row[1] != "symlink" else None)
        for path, row in paths_of(volume.entries).items()
    }
    assert found == expected
