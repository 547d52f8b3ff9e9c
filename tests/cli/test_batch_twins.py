"""Volumes with equal names on one disk: each has its own rows, capture, time and card."""

import json

import polars as pl
import pytest

import layoutscope
from fixtures.apfs import writer as apfs
from fixtures.apfs.plan import VolumePlan
from fixtures.apfs.scenarios import container, many
from fixtures.hfsplus import writer as hfsplus
from fixtures.hfsplus.plan import File
from fixtures.hfsplus.plan import VolumePlan as HfsVolume
from fixtures.partitions import mbr_of_several
from layoutscope.api.export import export_document
from layoutscope.results.scan import volume_names

FILES = {1: 140, 2: 190, 3: 120}
"""Number of files per volume number."""

CONTAINER = 'APFS "Untitled" (volume 1)', 'APFS "Untitled" (volume 2)', "APFS (volume 3)"
PARTITIONS = 'MBR > partition 1 > HFS+ "Untitled"', 'MBR > partition 2 > HFS+ "Untitled"'
KEYED = ("metrics", "predictions")


def hfs_volume(number):
    return hfsplus.render(HfsVolume("Untitled", root=tuple(File(f"file {place:04}") for place in range(number))))[0]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A batch of two disks, each with volumes of equal names: an APFS container, and two partitions of HFS+."""
    folder = tmp_path_factory.mktemp("twins")
    names = ("Untitled", "Untitled", "")
    volumes = [VolumePlan(name, many(number)) for name, number in zip(names, FILES.values(), strict=True)]
    apfs.write(container(*volumes), folder / "apfs.img")
    mbr_of_several(hfs_volume(FILES[1]), hfs_volume(FILES[2]), start_bytes=1 << 20).save(folder / "hfs.img")
    layoutscope.batch([folder / "apfs.img", folder / "hfs.img"], folder / "fleet", drives=["generic-7200"])
    return folder / "fleet"


def table(fleet, name):
    return pl.read_parquet(fleet / f"{name}.parquet")


def test_volume_is_a_key_within_its_source(fleet):
    """Source and volume identify one row of volumes, and each row of the other tables belongs to one of these."""
    volumes = table(fleet, "volumes").drop_nulls("number")
    assert volumes["volume"].to_list() == [*CONTAINER, *PARTITIONS]
    assert table(fleet, "volumes").select("source", "volume").is_unique().all()
    files = dict(volumes.select("volume", "num_files").rows())
    assert [files[name] for name in (*CONTAINER, *PARTITIONS)] == [*FILES.values(), FILES[1], FILES[2]]
    for name in KEYED:
        found = table(fleet, name)
        assert set(volumes["volume"]) <= set(found["volume"])
        joined = found.join(table(fleet, "volumes"), on=["source", "volume"])
        assert joined.height == found.height


def test_a_name_that_is_nobody_elses_is_left_as_it_is(tmp_path):
    """A number is appended only where it tells volumes apart."""
    apfs.write(container(VolumePlan("Untitled", many(5)), VolumePlan("untitled", many(5))), tmp_path / "two.img")
    layouts = layoutscope.read_layouts(tmp_path / "two.img")
    assert [name for name in volume_names(layouts) if "(" in name] == []
    assert len(set(volume_names(layouts))) == len(layouts)


def test_twins_are_the_same_in_what_is_asked_of_the_image_alone(fleet):
    """Scan, predict, check and plan name the volumes as the batch does, so their frames can be joined."""
    image = fleet.parent / "apfs.img"
    scanned = layoutscope.scan(image, drives="generic-7200")
    predicted = layoutscope.predict(image, drives="generic-7200")
    assert scanned.times["volume"].to_list() == predicted.times["volume"].to_list() == list(CONTAINER)
    assert set(CONTAINER) <= set(scanned.metrics["volume"])
    assert [each.volume for each in layoutscope.check(image).volumes] == ["APFS", *CONTAINER]
    assert [each.volume for each in layoutscope.plan(image, drive="generic-7200").volumes] == list(CONTAINER)
    listed = layoutscope.predict(image, drives="generic-7200", order="all").times["volume"]
    assert listed.unique(maintain_order=True).to_list() == list(CONTAINER)


def test_lists_of_files_keep_twins_apart(fleet, tmp_path):
    """In a body file a path begins with its volume: no two volumes share a prefix, and none is another's prefix."""
    export_document(fleet.parent / "apfs.img", tmp_path / "list.body", file_format="bodyfile")
    lines = (tmp_path / "list.body").read_text().splitlines()
    firsts = [line.split("|")[1].split("/")[1].partition("<")[0] for line in lines]
    counts = {name: firsts.count(name) for name in dict.fromkeys(firsts)}
    assert list(counts) == ["Untitled (volume 1)", "Untitled (volume 2)", "volume 3"]
    assert all(counts[name] >= number for name, number in zip(counts, FILES.values(), strict=True))


def test_a_resumed_batch_keeps_them_all(fleet):
    """Nothing is read again, and the tables have the same rows."""
    before = {name: table(fleet, name) for name in ("batch", "volumes", *KEYED)}
    again = layoutscope.batch(
        [fleet.parent / "apfs.img", fleet.parent / "hfs.img"], fleet, drives=["generic-7200"], resume=True
    )
    assert again.kept == 2
    assert all(table(fleet, name).equals(before[name]) for name in before)


def test_a_query_counts_each_of_them_once(fleet):
    """Joins on source and volume give each volume its own time, and captures give each its own entries."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    joined = "SELECT volume, num_files, reads FROM predictions JOIN volumes USING (source, volume) ORDER BY num_files"
    rows = layoutscope.query(fleet, joined).frame.rows()
    assert len(rows) == len({name for name, _, _ in rows}) == 5
    counted = "SELECT volume, count(*) FILTER (kind = 'file') FROM entries GROUP BY ALL"
    assert dict(layoutscope.query(fleet, counted).frame.rows()) == {
        **dict(zip(CONTAINER, FILES.values(), strict=True)),
        **dict(zip(PARTITIONS, FILES.values(), strict=False)),
    }


def test_the_page_has_a_card_for_each_with_its_own_time(fleet):
    """No volume has the seconds or the reads of its namesake."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    from layoutscope.fleet.query import FleetViews
    from layoutscope.fleet.report import _AGES_SQL, _STRIPS_SQL, _gather_page

    with FleetViews(fleet, _STRIPS_SQL + _AGES_SQL) as known:
        cards = {card.volume: card for card in _gather_page(known, fleet, {}, [], names=True).volumes}
    wanted = {row["volume"]: row for row in table(fleet, "predictions").iter_rows(named=True)}
    assert set(cards) == set(wanted) == {*CONTAINER, *PARTITIONS}
    assert all(cards[name].seconds == {"generic-7200": row["seconds"]} for name, row in wanted.items())
    assert all(cards[name].reads == row["reads"] for name, row in wanted.items())
    assert len({card.metadata for card in cards.values()}) == len(cards)


def test_no_two_captures_or_layouts_of_a_disk_are_one(fleet):
    """The capture of the container stores each of its volumes at its own place."""
    capture = next((fleet / "captures").glob("apfs*"))
    rows = [pl.read_parquet(capture / str(place) / "entries.parquet").height for place in (1, 2, 3)]
    assert len(set(rows)) == 3
    document = json.loads(next(file.read_text() for file in (fleet / "rows").iterdir() if "apfs" in file.read_text()))
    assert [row["volume"] for row in document["volumes"]] == ["APFS", *CONTAINER]
