"""The map in a browser: it asks for nothing, complains of nothing, and says what the tables say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from layoutscope.api.map import map_page
from layoutscope.api.scan import scan

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "images"
HOSTILE = "</script><img src=x onerror=alert(1)><b>bold</b>"


@pytest.fixture(scope="session")
def scans():
    """Scans of the two committed images."""
    return {name: scan(FIXTURES / f"{name}-scattered.img.zst") for name in ("hfsplus", "apfs")}


@pytest.fixture(scope="session")
def pages(scans, tmp_path_factory):
    """Their pages: each alone, and both side by side."""
    folder = tmp_path_factory.mktemp("pages")
    for name, chosen in {**{name: [one] for name, one in scans.items()}, "both": list(scans.values())}.items():
        (folder / f"{name}.html").write_text(map_page(chosen), "utf-8")
    return folder


@pytest.mark.parametrize("name", ["hfsplus", "apfs", "both"])
def test_page_draws_without_a_network(visit, pages, name):
    """No request leaves the page, nothing is complained of, and every panel is drawn."""
    seen = visit(pages / f"{name}.html")
    assert [url for url in seen.requests if not url.startswith(("file:", "blob:", "data:"))] == []
    assert seen.complaints == []
    titles = seen.page.locator("section > h2").all_inner_texts()
    assert {"Address space", "The walk", "Costs", "Directories by cost", "Distances", "Facts"} <= set(titles)
    assert ("History" in titles) == (name != "hfsplus")
    plots = seen.page.locator(".plot")
    assert plots.count() >= 6
    assert seen.page.locator(".plot .main-svg").count() >= plots.count()


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_hover_at_block_level_tells_the_node_of_the_tables(visit, pages, scans, name):
    """Zoomed to single blocks, the cell at a leaf's address names its tree, number, level, records and keys."""
    layouts = [volume.layout for volume in scans[name].volumes]
    main = next(layout for layout in layouts if layout.entries.height)
    tree = {"hfsplus": "catalog", "apfs": "fs"}[name]
    leaves = main.nodes.filter((pl.col("tree").cast(pl.String) == tree) & (pl.col("level") == 0))
    leaf = leaves.row(leaves.height // 2, named=True)
    seen = visit(pages / f"{name}.html")
    text = seen.run(
        f"""async () => {{
          const map = layoutscope.maps[0];
          await map.show({leaf["image_offset"]} - 1000 * map.disk.block, 1);
          map.describe(Math.floor(({leaf["image_offset"]} - map.from) / map.cellSize));
          return map.cellSize + '|' + map.info.textContent;
        }}"""
    )
    cell, told = text.split("|", 1)
    assert int(cell) == main.facts.block_size_bytes
    assert f"{tree} leaf node {leaf['node_id']} · level 0" in told
    assert f"{leaf['num_records']} records" in told
    assert f"keys of {leaf['first_key_id']} to {leaf['last_key_id']}" in told
    assert f"at byte {leaf['image_offset']:,}" in told
    if leaf["xid"] is not None:
        assert f"xid {leaf['xid']}" in told


def test_hover_on_data_names_the_file(visit, pages, scans):
    """At block level the cell of a file's first extent names the file."""
    layout = scans["hfsplus"].volumes[0].layout
    extent = layout.extents.filter((pl.col("file_id") >= 16) & (pl.col("length_bytes") >= 8192)).row(0, named=True)
    seen = visit(pages / "hfsplus.html")
    told = seen.run(
        f"""async () => {{
          const map = layoutscope.maps[0];
          await map.show({extent["image_offset"]} - 500 * map.disk.block, 1);
          map.describe(Math.floor(({extent["image_offset"]} - map.from) / map.cellSize));
          return map.info.textContent;
        }}"""
    )
    assert f"file {extent['file_id']}" in told


def test_real_pointer_hovers_and_zooms(visit, pages):
    """A pointer over the picture fills the status line, a click zooms in sixteenfold."""
    seen = visit(pages / "apfs.html")
    before = seen.run("() => layoutscope.maps[0].to - layoutscope.maps[0].from")
    box = seen.page.locator(".map").bounding_box()
    seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    seen.page.wait_for_function("() => /bytes [\\d,. ]+ to /.test(layoutscope.maps[0].info.textContent)")
    seen.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 40)
    seen.page.wait_for_function(f"() => layoutscope.maps[0].to - layoutscope.maps[0].from < {before}")


def test_cells_share_out_every_byte(visit, pages, scans):
    """The shares of a class over all cells sum up to the bytes of the table: nothing is drawn twice or lost."""
    layout = next(volume.layout for volume in scans["apfs"].volumes if volume.layout.entries.height)
    expected = layout.nodes.filter(pl.col("tree").cast(pl.String) == "fs").unique("image_offset")["size_bytes"].sum()
    seen = visit(pages / "apfs.html")
    drawn = seen.run(
        """async () => {
          const map = layoutscope.maps[0];
          await map.show(map.disk.start, map.full);
          const k = map.disk.classes.findIndex((c) => c.key === 'fs');
          return map.current[k].reduce((a, b) => a + b, 0) * map.cellSize;
        }"""
    )
    assert drawn == pytest.approx(expected, rel=1e-4)


def test_legend_orders_and_slider_act(visit, pages):
    """Hiding a class, choosing an order and moving the slider change the picture."""
    seen = visit(pages / "apfs.html")
    count = "() => layoutscope.maps[0].current.map((c) => (c ? c.reduce((a, b) => a + b, 0) : 0))"
    whole = seen.run(count)
    boxes = seen.page.locator(".legend input")
    boxes.first.click()
    seen.page.wait_for_function("() => layoutscope.maps[0].hidden.size === 1")
    assert seen.run(count) != whole
    boxes.first.click()
    for order in ("snake", "hilbert", "linear"):
        seen.page.locator(".card .bar select").first.select_option(order)
        seen.page.wait_for_function(f"() => layoutscope.maps[0].order === '{order}'")
    seen.run("() => layoutscope.maps[0].draw()")
    assert seen.run(count) == whole
    slider = seen.page.locator("input[type=range]")
    slider.evaluate("s => { s.value = s.min; s.dispatchEvent(new Event('input')); }")
    seen.page.wait_for_function("() => layoutscope.maps[0].maxXid !== Infinity")
    seen.run("() => layoutscope.maps[0].draw()")
    assert sum(seen.run(count)) < sum(whole)


def test_selected_time_shows_in_the_map(visit, pages):
    """A span of time of the walk marks its places in the address map; playing moves the head."""
    seen = visit(pages / "hfsplus.html")
    seen.run(
        """async () => {
          const plots = [...document.querySelectorAll('.plot')];
          const plot = plots.find((p) => p.layout.xaxis?.title?.text?.startsWith('seconds since'));
          await Plotly.relayout(plot, { 'xaxis.range[0]': 0, 'xaxis.range[1]': 0.05 });
        }"""
    )
    assert seen.run("() => layoutscope.maps[0].marks.length") > 0
    seen.page.get_by_text("▶ play").click()
    seen.page.wait_for_function("() => layoutscope.maps[0].head !== null")


def test_dark_and_light_both_draw(visit, pages):
    """The page follows the reader's scheme, and the button turns it over."""
    seen = visit(pages / "hfsplus.html", dark=True)
    background = "() => getComputedStyle(document.body).backgroundColor"
    dark = seen.run(background)
    seen.run("() => { delete document.documentElement.dataset.ready; }")
    seen.page.locator("#theme").click()
    seen.page.wait_for_selector("html[data-ready=yes]")
    assert seen.run(background) != dark
    assert seen.complaints == []


def test_hostile_names_stay_text(visit, scans, tmp_path):
    """A name that tries to be markup or script is shown as it is, wherever it stands."""
    result = scans["hfsplus"]
    volume = result.volumes[0]
    layout = volume.layout
    entries = layout.entries.with_columns(name=pl.lit(HOSTILE))
    layout = replace(layout, entries=entries, facts=replace(layout.facts, name=HOSTILE))
    image = replace(result.image, name=f"/x/{HOSTILE}")
    changed = replace(result, image=image, volumes=(replace(volume, layout=layout),))
    (tmp_path / "page.html").write_text(map_page([changed]), "utf-8")
    seen = visit(tmp_path / "page.html")
    assert seen.complaints == []
    assert seen.page.locator("img[src=x]").count() == 0
    assert seen.page.locator("main b", has_text="bold").count() == 0
    assert "<b>bold</b>" in seen.page.locator("main").inner_text()
