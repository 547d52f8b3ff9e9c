"""What the page says in words beside its pictures, held to the tables: parts of an order, spans of a walk, a strip."""

from __future__ import annotations

import re

import polars as pl
import pytest

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.api.map import map_page
from layoutscope.api.scan import scan
from tests.browser.kinds import FIXTURES

ROWS = """(box) => [...box.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"""


def _told(seen, panel: str, number: int = 0) -> list[list[str]]:
    """Unfold a table in words below a plot, and read its rows."""
    box = seen.page.locator(f"#{panel} .told").nth(number)
    box.locator("summary").click()
    box.locator("tbody tr").first.wait_for()
    return box.evaluate(ROWS)


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_parts_of_an_order_are_whole_places(visit, pages, scans, name):
    """No place in key order is in two parts, none is left out, and each part has as many leaves as places."""
    seen = visit(pages / f"{name}.html")
    rows = _told(seen, "order")
    main = {"hfsplus": "catalog", "apfs": "fs"}[name]
    live = pl.col("state").cast(pl.String) == "live"
    (volume,) = [one for one in scans[name].parts if one.walk is not None]
    leaves = volume.layout.nodes.filter((pl.col("tree") == main) & (pl.col("kind") == "leaf") & live)
    following = 0
    for places, count, *_ in rows:
        first, _, last = places.replace(",", "").partition(" to ")
        assert int(first) == following
        following = int(last or first) + 1
        assert int(count) == following - int(first)
    assert following == leaves.height


def test_spans_of_a_walk_count_its_reads(visit, pages, scans):
    """All reads are in the table, with their bytes; and no span has more seeks than reads."""
    seen = visit(pages / "apfs.html")
    rows = _told(seen, "walk")
    (volume,) = [one for one in scans["apfs"].parts if one.walk is not None]
    trace = volume.walk.trace
    assert sum(int(row[1]) for row in rows) == len(trace)
    ends = trace.image_offset[:-1] + trace.length_bytes[:-1]
    assert sum(int(row[2]) for row in rows) == 1 + (trace.image_offset[1:] != ends).sum()
    assert all(int(row[2]) <= int(row[1]) for row in rows)


def test_places_in_a_partition_say_from_where_they_count(visit, pages, scans):
    """The volume begins behind the start of the image; one that begins there needs no word about it."""
    start = scans["hfsplus"].parts[0].layout.facts.image_offset
    assert start > 0
    for name, is_said in (("hfsplus", True), ("apfs", False)):
        seen = visit(pages / f"{name}.html")
        for panel in ("order", "walk"):
            said = seen.page.locator(f"#{panel}").inner_text()
            assert (f"Places count from byte {start:,}, where this disk begins." in said) == is_said
            assert ("Places count" in said) == is_said


def test_the_strip_frames_what_the_map_shows(visit, tmp_path):
    """A small part is in use, and the least of cells shows more: the frame is around all that is seen."""
    write(SCENARIOS["volumes"], tmp_path / "disk.img")
    (tmp_path / "map.html").write_text(map_page([scan(tmp_path / "disk.img")]), "utf-8")
    seen = visit(tmp_path / "map.html")
    used, shown, full = seen.run("() => layoutscope.maps.map((m) => [m.used, m.view.size, m.full])[0]")
    assert used < shown < full
    assert "the whole disk" in seen.page.locator("#map .strip").get_attribute("title")
    seen.page.locator("#map .card button", has_text="whole disk").click()
    assert seen.run("() => layoutscope.maps[0].view.size") == full


def test_names_of_volumes_stand_before_their_paths(visit, tmp_path):
    """Two volumes have a root each: what is found says whose it is; of a volume alone there is nothing to tell."""
    write(SCENARIOS["fusion"], tmp_path / "main.img", tmp_path / "second.img")
    result = scan(tmp_path / "main.img", second=tmp_path / "second.img")
    (tmp_path / "map.html").write_text(map_page([result]), "utf-8")
    (tmp_path / "alone.html").write_text(map_page([scan(FIXTURES / "apfs-scattered.img.zst")]), "utf-8")
    found = []
    for name in ("map", "alone"):
        seen = visit(tmp_path / f"{name}.html")
        seen.page.locator("#map input[type=search]").first.fill("2")
        root = seen.page.locator("#map .found button", has_text=re.compile(r"\(file 2\)$"))
        root.first.wait_for()
        found.append(root.all_inner_texts())
    assert sorted(found[0]) == ["Mixed: / (file 2)", "Slow: / (file 2)"]
    assert found[1] == ["/ (file 2)"]
