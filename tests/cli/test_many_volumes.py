"""Disks with more volumes than a byte can count: up to 1,024 partitions of a GPT are read."""

from __future__ import annotations

import json

import polars as pl
import pytest

from fixtures.hfsplus.plan import File, Fork, VolumePlan
from fixtures.hfsplus.writer import render
from layoutscope import read_layouts, scan
from layoutscope.api.save import save
from layoutscope.drive import simulation
from layoutscope.tables.capture import hash_tables
from layoutscope.units import MAX_LISTED
from tests.unit.partition.builders import HFS, gpt_disk, gpt_entry

COUNT = 258
SECTOR = 512
FIRST = 2048
"""Sector of the first volume, after all entries of the table."""


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """Write many copies of a small volume, each in its own partition."""
    canvas, _ = render(VolumePlan(attributes=None, total_blocks=64, root=(File("a", Fork(10)),)))
    volume = bytes(canvas.to_bytearray())
    size = len(volume) // SECTOR
    starts = [FIRST + number * size for number in range(COUNT)]
    made = gpt_disk((FIRST + COUNT * size + FIRST) * SECTOR, [gpt_entry(HFS, at, at + size - 1) for at in starts])
    for at in starts:
        made.put(at * SECTOR, volume)
    path = tmp_path_factory.mktemp("many") / "many.img"
    path.write_bytes(made.data)
    return path


@pytest.fixture(scope="module")
def result(disk):
    """Scan it without drives."""
    return scan(disk, drives=())


@pytest.fixture(scope="module")
def capture(result, tmp_path_factory):
    """Save it."""
    path = tmp_path_factory.mktemp("many") / "many.lscope"
    save(result, path)
    return path


def test_every_volume_has_its_number(result):
    """The numbers are 1 to 258 in the facts, in every table that has rows, and in all tables together."""
    layouts = [volume.layout for volume in result.volumes]
    assert [layout.facts.volume for layout in layouts] == list(range(1, COUNT + 1))
    for name in ("nodes", "entries", "extents", "regions", "free"):
        assert layouts[-1].table(name)["volume"].unique().to_list() == [COUNT], name


@pytest.mark.full
def test_a_capture_gives_all_of_them_back(result, capture):
    """The saved capture gives the same result when opened."""
    saved = read_layouts(capture)
    assert len(saved) == COUNT
    for one, other in zip(saved, result.volumes, strict=True):
        assert one.nodes.equals(other.layout.nodes)
        assert one.entries.equals(other.layout.entries)


@pytest.mark.full
def test_a_capture_whose_numbers_have_eight_bits_opens(result, tmp_path):
    """Captures written before the number became wider stay readable."""
    save(result, tmp_path / "old.lscope")
    manifest = json.loads((tmp_path / "old.lscope" / "manifest.json").read_text())
    manifest["volumes"] = manifest["volumes"][:255]
    for number, volume in enumerate(manifest["volumes"]):
        folder = tmp_path / "old.lscope" / str(number)
        for table in volume["sha256"]:
            frame = pl.read_parquet(folder / f"{table}.parquet")
            if "volume" in frame.columns:
                frame.with_columns(pl.col("volume").cast(pl.UInt8)).write_parquet(folder / f"{table}.parquet")
        volume["sha256"] = hash_tables(folder)
    (tmp_path / "old.lscope" / "manifest.json").write_text(json.dumps(manifest))
    saved = read_layouts(tmp_path / "old.lscope")
    assert len(saved) == 255
    assert all(one.nodes.equals(other.layout.nodes) for one, other in zip(saved, result.volumes, strict=False))


@pytest.mark.full
def test_verbs_take_all_of_them(run, disk, capture, tmp_path):
    """Each ends as for one such volume, and its output has rows of all of them."""
    ended = {
        words: run(*words.replace("DISK", str(disk)).replace("CAPTURE", str(capture)).split()).exit_code
        for words in (
            "check DISK",
            f"export CAPTURE --table nodes -o {tmp_path}/nodes.csv",
            f"map CAPTURE -o {tmp_path}/map.html",
            "predict CAPTURE:258 --drive sata-ssd",
            f"batch {capture} -o {tmp_path}/fleet --drive sata-ssd",
        )
    }
    assert ended == dict.fromkeys(ended, 0)
    rows = pl.read_csv(tmp_path / "nodes.csv")
    assert rows["volume"].unique().sort().to_list() == list(range(1, COUNT + 1))
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    asked = run("query", tmp_path / "fleet", "SELECT max(number) AS n, count(DISTINCT number) AS m FROM nodes")
    assert asked.stdout.split()[-2:] == [str(COUNT), str(COUNT)]


@pytest.mark.full
def test_the_screen_and_the_messages_stay_short(run, capture):
    """At most 24 lines, with the number of hidden ones; a message lists some names and counts the rest."""
    screen = run("scan", capture)
    assert screen.exit_code == 0
    assert len(screen.stdout.splitlines()) <= 24
    assert "Not shown here, but in --details: " in screen.stdout
    for words in (("forecast", capture, "--cycles", "1"), ("scan", f"{capture}:none")):
        told = run(*words)
        assert told.exit_code == 2
        assert f"'Fixture' and {COUNT - MAX_LISTED} more" in told.stderr


@pytest.mark.full
def test_no_drive_is_drawn_for_volumes_that_read_nothing(capture, monkeypatch):
    """Mounting reads all of such a small volume, so listing it takes only host time, on every drive."""

    def refuse(*given):
        raise AssertionError(f"a drive was drawn: {given}")

    monkeypatch.setattr(simulation, "draw_drive", refuse)
    found = scan(f"{capture}:1", drives=("generic-7200",))
    (volume,) = found.volumes
    assert volume.walk.reads == 0
    assert volume.predictions[0].seconds_low <= volume.predictions[0].seconds <= volume.predictions[0].seconds_high
