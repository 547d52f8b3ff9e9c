"""Damaged nodes are rows of the node table, exactly where the writer put them."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import layoutscope
from fixtures.apfs.scenarios import PASSWORD
from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write
from fixtures.hfsplus.scenarios import SCENARIOS as HFSPLUS
from fixtures.hfsplus.writer import render
from layoutscope.image.raw import RawFile
from layoutscope.image.source import Window
from layoutscope.report.map.page import disk_shares
from layoutscope.report.map.pyramid import from_layouts
from layoutscope.report.map.scans import disks
from tests.apfs import read_layouts
from tests.cases import for_each
from tests.hfsplus import read_layout
from tests.losses.nodes import places_of_damage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from layoutscope.image.source import Source
    from layoutscope.tables import VolumeLayout

NAMES = {"free-queue-ip": "spaceman", "free-queue-main": "spaceman", "free-queue-tier2": "spaceman"}
NAMES |= {"extent-references": "extentref", "snapshots": "snapmeta", "snapshot-metadata": "snapmeta"}


class Place(NamedTuple):
    """A written node; its level is None for header and map nodes."""

    tree: str
    kind: str
    level: int | None
    at: int
    size: int


class Victim(NamedTuple):
    """A sound image in a file, and its nodes in use, roots first within each tree."""

    name: str
    path: Path
    nodes: tuple[Place, ...]

    def of(self, tree: str, level: int | None = 0, kind: str = "") -> list[Place]:
        """Return nodes of a tree and level."""
        return [node for node in self.nodes if (node.tree, node.level) == (tree, level) and kind in node.kind]

    def bytes_of(self, place: Place) -> bytes:
        """Return the bytes of a node."""
        with self.path.open("rb") as file:
            file.seek(place.at)
            return file.read(place.size)

    @contextmanager
    def changed(self, changes: Mapping[int, bytes]) -> Iterator[Path]:
        """Write bytes at some addresses, and restore the old ones at the end."""
        with self.path.open("r+b", buffering=0) as file:
            before = {}
            for at, data in changes.items():
                file.seek(at)
                before[at] = file.read(len(data))
                file.seek(at)
                file.write(data)
            try:
                yield self.path
            finally:
                for at, data in before.items():
                    file.seek(at)
                    file.write(data)

    def read(
        self, changes: Mapping[int, bytes], *, size: int | None = None, gaps: Sequence[Place] = (), **options: Any
    ) -> list[VolumeLayout]:
        """Read the image with some bytes changed, truncated, or with some places unreadable."""
        with self.changed(changes) as path, RawFile(path) as source:
            seen = Gaps(source, 0, source.size_bytes if size is None else size, gaps)
            if self.name in HFSPLUS:
                return [read_layout(seen, **options)]
            options.setdefault("password", PASSWORD if self.name == "encrypted" else None)
            return read_layouts(seen, **options)


class Gaps(Window):
    """An image with places that could not be read."""

    def __init__(self, source: Source, start: int, size: int, gaps: Sequence[Place]) -> None:
        super().__init__(source, start, size)
        self._gaps = np.array([[place.at, place.size] for place in gaps], np.int64).reshape(-1, 2)

    def unread_ranges(self) -> np.ndarray:
        """Return these places."""
        return self._gaps


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """Return a function that writes an image of either file system by scenario name."""

    @cache
    def get(name: str) -> Victim:
        path = tmp_path_factory.mktemp("damaged") / f"{name}.img"
        nodes = _hfsplus(name, path) if name in HFSPLUS else _apfs(name, path)
        return Victim(name, path, tuple(sorted(nodes, key=lambda node: -(node.level or 0))))

    return get


def _hfsplus(name: str, path: Path) -> list[Place]:
    canvas, expected = render(HFSPLUS[name])
    canvas.save(path)
    return [
        Place(node.tree, node.kind, node.level, node.image_offset, node.size_bytes)
        for node in expected.nodes
        if node.kind != "free" and len(node.fragments) == 1
    ]


def _apfs(name: str, path: Path) -> list[Place]:
    expected = write(APFS[name], path)
    block = expected.block_size
    return [
        Place(NAMES.get(node.tree, node.tree), "", node.level, node.paddr * block, node.num_blocks * block)
        for node in expected.live.nodes
    ]


def spoiled(places: Iterable[Place], how: str) -> dict[int, bytes]:
    """Return the bytes that overwrite some nodes: zeros or noise."""
    noise = np.random.default_rng(38)
    return {place.at: bytes(place.size) if how == "zeroed" else noise.bytes(place.size) for place in places}


def wrong(layouts: list[VolumeLayout]) -> pl.DataFrame:
    """Return the rows of damaged or unread nodes, by address."""
    return pl.concat([layout.nodes for layout in layouts], how="vertical_relaxed").filter(
        pl.col("condition").cast(pl.String) != "sound"
    ).sort("image_offset")  # fmt: skip


def rows(layouts: list[VolumeLayout]) -> list[tuple]:
    """Return the fields of these rows."""
    words = (pl.col("tree").cast(pl.String), "level", "image_offset", "size_bytes", pl.col("condition").cast(pl.String))
    return wrong(layouts).select(*words).rows()


def planted(places: Iterable[Place], condition: str = "damaged") -> list[tuple]:
    """Return the expected rows of some nodes."""
    return sorted(((p.tree, p.level, p.at, p.size, condition) for p in places), key=lambda row: row[2])


def some(places: list[Place], count: int) -> list[Place]:
    """Choose nodes spread over a list."""
    return [places[number] for number in np.linspace(0, len(places) - 1, count).astype(int).tolist()]


HFSPLUS_LEAVES = [
    *(("strewn-catalog", "catalog", count) for count in (1, 3, 8, 40)),
    *(("half-full-nodes", "catalog", count) for count in (1, 3, 8, 40)),
    *(("overflow", "extents-overflow", count) for count in (1, 3, 8)),
    *(("attributes", "attributes", count) for count in (1, 3, 8)),
    ("map-nodes", "catalog", 40),
    ("hot-files", "hot-files", 1),
]


APFS_LEAVES = [
    *(("strided", "fs", count) for count in (1, 3, 8, 40)),
    *(("sealed-deep", "fs", count) for count in (1, 3, 8, 40)),
    *(("encrypted", "fs", count) for count in (1, 3, 8)),
    *(("deep", "fs", count) for count in (8, 40)),
    ("strided", "extentref", 3),
    ("sealed-deep", "omap", 3),
]


@for_each("how", ["zeroed", "random"])
@for_each("name, tree, count", HFSPLUS_LEAVES + APFS_LEAVES)
def test_as_many_rows_as_damaged_leaves(victim, name, tree, count, how):
    """Each leaf is one row with the level given by its parent, and nothing from its own bytes."""
    image = victim(name)
    bad = some(image.of(tree), count)
    layouts = image.read(spoiled(bad, how))
    assert rows(layouts) == planted(bad)
    found = wrong(layouts)
    assert set(found["kind"]) == {"unreadable"}
    unknown = ("num_records", "used_bytes", "free_bytes", "first_key_id", "last_key_id")
    assert all(found[column].null_count() == count for column in unknown)
    assert layouts[-1].facts.details["damaged nodes"] == count


HFSPLUS_OTHERS = [
    *(("map-nodes", "catalog", kind, None) for kind in ("header", "map")),
    *(("map-nodes", "catalog", "index", level) for level in (1, 2)),
    *(("overflow", "extents-overflow", kind, level) for kind, level in (("header", None), ("index", 1))),
    *(("attributes", "attributes", kind, level) for kind, level in (("header", None), ("index", 1))),
    ("attributes", "extents-overflow", "leaf", 0),
]  # fmt: skip


@for_each("sweep", [False, True])
@for_each("how", ["zeroed", "random"])
@for_each("name, tree, kind, level", HFSPLUS_OTHERS)
def test_headers_maps_roots_and_index_nodes_of_hfsplus(victim, name, tree, kind, level, how, sweep):
    """One row, at its address and with its size; a root's level comes from the header."""
    image = victim(name)
    bad = image.of(tree, level, kind)[:1]
    assert rows(image.read(spoiled(bad, how), sweep=sweep)) == planted(bad)


def test_header_of_a_tree_that_has_nothing_left(victim):
    """An empty tree without a header has one row; its size is unknown, so the block size is used."""
    image = victim("map-nodes")
    (header,) = image.of("attributes", None)
    block = 512
    layouts = image.read(spoiled([header], "zeroed"))
    assert rows(layouts) == planted([header._replace(size=block)])


@pytest.mark.parametrize("how", ["zeroed", "random"])
def test_header_of_the_hot_files(victim, how):
    """A file leads to this tree, not the volume header; nothing gives its node size, so the block size is used."""
    image = victim("hot-files")
    (header,) = image.of("hot-files", None)
    with image.changed({}) as path:
        block = layoutscope.scan(path, drives=()).volumes[0].layout.facts.block_size_bytes
    assert rows(image.read(spoiled([header], how))) == planted([header._replace(size=max(512, min(block, 4096)))])


@pytest.mark.parametrize("how", ["zeroed", "random"])
def test_leaves_below_a_damaged_index_node_of_hfsplus(victim, how):
    """The map marks them as used and no other node does: both levels are rows, the lower one without its level."""
    image = victim("half-full-nodes")
    bad = [image.of("catalog", 1)[1], *some(image.of("catalog"), 5)]
    found = rows(image.read(spoiled(bad, how)))
    assert [row[2] for row in found] == sorted(place.at for place in bad)
    told = {row[2]: row[1] for row in found}
    assert told[bad[0].at] == 1
    assert set(told.values()) <= {0, 1, None}


def test_nodes_of_hfsplus_that_nothing_leads_to_say_nothing(victim):
    """In an undamaged tree, an empty node in use is a leftover, not damage."""
    image = victim("strewn-catalog")
    (header,) = image.of("catalog", None)
    # The map is the third record of the header node, after its descriptor, header record and 128 bytes (TN1150).
    start, data = 14 + 106 + 128, bytearray(image.bytes_of(header))
    free = int(np.flatnonzero(np.unpackbits(np.frombuffer(data[start : start + 32], np.uint8)) == 0)[0])
    data[start + free // 8] |= 0x80 >> free % 8
    used = {header.at: bytes(data)}
    assert rows(image.read(used)) == []
    # The same holds if leaves are lost that an index node leads to.
    bad = some(image.of("catalog"), 3)
    assert rows(image.read(used | spoiled(bad, "zeroed"))) == planted(bad)


@pytest.mark.parametrize("tree", ["hot-files", "catalog"])
def test_sound_leaf_in_place_of_another_in_hfsplus(victim, tree):
    """A leaf of another tree, or with other keys of the same tree, is damage where it is stored."""
    image = victim("hot-files")
    source, target = image.of(tree)[-1], image.of("catalog")[1]
    assert source.size == target.size
    assert rows(image.read({target.at: image.bytes_of(source)})) == planted([target])


def test_nodes_behind_a_cut_of_hfsplus_are_unread(victim):
    """Nodes in use after the end of the image are rows with their addresses, and the leaves have a level."""
    image = victim("strewn-catalog")
    leaves = sorted(place.at for place in image.of("catalog"))
    lost = [node for node in image.nodes if node.at + node.size > leaves[60]]
    assert len(lost) >= 8
    found = rows(image.read({}, size=leaves[60]))
    assert [row[2:] for row in found] == [row[2:] for row in planted(lost, "unread")]
    assert {row[1] for row in found} == {0}


APFS_ROOTS = ("container-omap", "spaceman", "omap", "omap-snapshots", "fs", "extentref", "snapmeta")


@for_each("sweep", [False, True])
@for_each("how", ["zeroed", "random"])
@for_each("tree", APFS_ROOTS)
def test_roots_of_apfs(victim, tree, how, sweep):
    """An unusable root is a row, too: its reference gives address and size, but no level."""
    image = victim("snapshots")
    root = next(node for node in image.nodes if node.tree == tree)
    layouts = image.read(spoiled([root], how), sweep=sweep)
    assert rows(layouts) == planted([root._replace(level=None)])
    assert wrong(layouts)["state"].to_list() == ["live"]


@pytest.mark.parametrize("how", ["zeroed", "random"])
def test_index_nodes_and_roots_of_sealed_volumes(victim, how):
    """Index nodes hold the hashes of their children; the tree of extents has checksums."""
    image = victim("sealed-deep")
    (index,), (root,), (extents,) = image.of("fs", 2)[1:2], image.of("fs", 3), image.of("fext")
    assert rows(image.read(spoiled([index], how))) == planted([index])
    assert rows(image.read(spoiled([root], how))) == planted([root._replace(level=None)])
    assert rows(image.read(spoiled([extents], how))) == planted([extents._replace(level=None)])


@pytest.mark.parametrize("how", ["zeroed", "random"])
def test_leaf_below_a_damaged_index_node_of_apfs(victim, how):
    """Only the object map leads to the leaf, and it gives no level."""
    image = victim("deep")
    index, leaf = image.of("fs", 1)[0], image.of("fs")[0]
    assert rows(image.read(spoiled([index, leaf], how))) == planted([index, leaf._replace(level=None)])


def test_node_that_snapshots_share_is_one_row(victim):
    """A leaf reached from several views is damaged once; one that only a snapshot has belongs to that snapshot."""
    image = victim("snapshots")
    sound = image.read({})[1].nodes
    own = sound.filter((pl.col("tree").cast(pl.String) == "fs") & (pl.col("level") == 0))
    for state in ("live", "snapshot"):
        row = own.filter(pl.col("state").cast(pl.String) == state).row(0, named=True)
        place = Place("fs", "", 0, row["image_offset"], row["size_bytes"])
        layouts = image.read(spoiled([place], "zeroed"))
        assert rows(layouts) == planted([place])
        assert wrong(layouts)["state"].to_list() == [state]


def test_sound_node_of_another_tree_in_apfs(victim):
    """Its checksum is right, but its object and transaction are not those of the expected node."""
    image = victim("strided")
    source, target = image.of("extentref")[1], image.of("fs")[5]
    sound = {row["image_offset"]: row["xid"] for row in image.read({})[1].nodes.to_dicts()}
    layouts = image.read({target.at: image.bytes_of(source)})
    assert rows(layouts) == planted([target])
    assert wrong(layouts)["xid"].to_list() == [sound[target.at]]


def test_nodes_behind_a_cut_of_apfs_are_unread(victim):
    """Nodes of the container past the image's end are rows, with the addresses in the object map."""
    image = victim("aged")
    lost = sorted(image.nodes, key=lambda node: node.at)[-3:]
    assert {(node.tree, node.level) for node in lost} == {("fs", 0)}
    assert rows(image.read({}, size=lost[0].at)) == planted(lost, "unread")


def test_places_without_bytes_of_apfs_are_unread(victim):
    """Leaves in an unreadable area are rows, and all others are sound."""
    image = victim("strided")
    lost = some(image.of("fs"), 3)
    gaps = sorted(lost, key=lambda place: place.at)
    assert rows(image.read({}, gaps=gaps)) == planted(lost, "unread")


def test_locked_nodes_are_neither_sound_nor_damaged(victim):
    """Without the password only the places of an encrypted tree's nodes are known."""
    layouts = victim("encrypted").read({}, password=None)
    nodes = layouts[1].nodes.filter(pl.col("tree").cast(pl.String) == "fs")
    assert set(nodes["condition"]) == {"locked"}
    assert "damaged nodes" not in layouts[1].facts.details


@pytest.mark.parametrize("name", [*("populated", "overflow", "hot-files", "map-nodes"), *("snapshots", "volumes")])
def test_sound_images_have_sound_nodes(victim, name):
    """Written images have no damaged or unread nodes."""
    image = victim(name)
    assert rows(image.read({})) == []


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("name", ["strewn-catalog", "strided"])
def test_map_exports_and_captures_have_the_same_places(victim, tmp_path, name, count):
    """Map, exported table and capture have as many damaged places as were planted, and the map's class their bytes."""
    image = victim(name)
    tree = "catalog" if name in HFSPLUS else "fs"
    bad = some(image.of(tree), count)
    wanted = sorted(place.at for place in bad)
    with image.changed(spoiled(bad, "random")) as path:
        result = layoutscope.scan(path)
        assert sorted(places_of_damage(result).elements()) == wanted
        (disk,) = disks([result])
        shares = disk_shares(disk, from_layouts(disk.layouts, disk.device))
        held = [share.size_bytes for share in shares if share.item.key == "damaged"]
        assert sum(held) == sum(place.size for place in bad)
        layoutscope.export(path, "nodes", tmp_path / "nodes.parquet")
        result.save(tmp_path / "disk.lscope")
    table = pl.read_parquet(tmp_path / "nodes.parquet").filter(pl.col("condition").cast(pl.String) == "damaged")
    assert sorted(table["image_offset"].to_list()) == wanted
    captured = layoutscope.read_layouts(tmp_path / "disk.lscope")
    assert wrong(list(captured))["image_offset"].to_list() == wanted
