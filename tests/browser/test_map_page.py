"""The map in a browser: it asks for nothing, complains of nothing, and says what the tables say."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from layoutscope.api.map import layout_map, map_page
from layoutscope.report.map.pyramid import from_layouts, held_by, partition
from layoutscope.report.map.scans import disks
from tests.browser.conftest import READY_MS, cells_of, drag, unfold

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "images"
WEB = Path(__file__).resolve().parents[2] / "layoutscope" / "report" / "map" / "web"
PAINTED = """() => [...document.querySelectorAll('.band canvas')].map((c) => {
  const { width, height } = c;
  return c.getContext('2d').getImageData(0, 0, width, height).data.some((byte) => byte > 0);
})"""
HOSTILE = "</script><img src=x onerror=alert(1)><b>bold</b>"


@pytest.mark.parametrize("name", ["hfsplus", "apfs", "both"])
def test_page_draws_without_a_network(visit, pages, name):
    """No request leaves the page, nothing is complained of, and every panel is drawn."""
    seen = visit(pages / f"{name}.html")
    assert [url for url in seen.requests if not url.startswith(("file:", "blob:", "data:"))] == []
    assert seen.complaints == []
    titles = seen.page.locator("section h2").all_inner_texts()
    assert {"Address space", "The walk", "Costs", "Directories by cost", "Distances", "Facts"} <= set(titles)
    assert ("History" in titles) == (name != "hfsplus")
    unfold(seen.page, "details")
    plots = seen.page.locator(".plot")
    assert plots.count() >= 6
    assert seen.page.locator(".plot .main-svg").count() >= plots.count()
    assert seen.complaints == []


def test_everything_but_the_pictures_is_text(browser, pages, scans):
    """Without scripts the page says what it shows, with times, shares of the disk, metrics and findings."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((pages / "apfs.html").as_uri())
    (disk,) = disks([scans["apfs"]])
    page.locator("#what summary").click()
    assert len(disk.story) > 1
    assert all(sentence in page.locator("#what").inner_text() for sentence in disk.story)
    assert "catalog" not in page.locator("#holdings").inner_text()
    page.locator("#holdings summary").click()
    held = page.locator("#holdings table tbody tr").all_inner_texts()
    assert sum("file data" in row for row in held) == 1
    page.locator("#facts summary").click()
    assert "metadata by tree" in page.locator("#facts").inner_text()
    assert "switched off" in page.locator("noscript").inner_text()
    context.close()


def test_times_of_directories_sum_up_to_the_walk(visit, pages, scans):
    """The boxes' areas are the seconds of all that lies below; the topmost has the whole walk's."""
    seen = visit(pages / "apfs.html")
    whole, boxes = seen.run(
        """() => {
          const d = layoutscope.page.disks[0].directories;
          document.querySelector('#directories details').open = true;
          return [d.whole.seconds, d.id.length];
        }"""
    )
    seen.page.wait_for_selector("#directories .main-svg")
    drawn = seen.run("() => document.querySelector('#directories .plot').data[0].values")
    (disk,) = disks([scans["apfs"]])
    walk = disk.walks[0]
    assert whole == pytest.approx(walk.seconds)
    assert len(drawn) == boxes + 1  # and the one around all
    assert max(drawn) == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_hover_at_block_level_tells_the_node_of_the_tables(visit, pages, scans, name):
    """Zoomed to single blocks, the cell at a leaf's address names its tree, number, level, records and keys."""
    layouts = [volume.layout for volume in scans[name].parts]
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
    layout = scans["hfsplus"].parts[0].layout
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
    name = layout.entries.filter(pl.col("file_id") == extent["file_id"])["name"][0]
    assert f"file {extent['file_id']} “/" in told
    assert name in told


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
    layout = next(volume.layout for volume in scans["apfs"].parts if volume.layout.entries.height)
    expected = layout.nodes.filter(pl.col("tree").cast(pl.String) == "fs").unique("image_offset")["size_bytes"].sum()
    seen = visit(pages / "apfs.html")
    drawn = seen.run(
        """async () => {
          const map = layoutscope.maps[0];
          await map.show(map.disk.start, map.full);
          const k = map.disk.classes.findIndex((c) => c.key === 'fs');
          return map.current[k].reduce((a, b) => a + b, 0);
        }"""
    )
    assert drawn == expected


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_cells_are_the_tables_at_every_zoom(visit, pages, scans, name):
    """At ten zooms each cell holds exactly the bytes that the tables give it, and nothing is unknown."""
    (disk,) = disks([scans[name]])
    shares = partition(from_layouts(disk.layouts), disk.image_offset, disk.size_bytes, disk.block_size_bytes)
    seen = visit(pages / f"{name}.html")
    draw = np.random.default_rng(7)
    for zoom in range(10):
        size = disk.size_bytes >> zoom // 2
        begin, cell, keys, held = cells_of(seen.page, 0, int(draw.integers(0, disk.size_bytes - size + 1)), size)
        edges = np.arange(16385) * cell + begin - disk.image_offset
        expected = held_by(shares, np.minimum(edges, disk.size_bytes))
        assert [share.item.key for share in shares] == keys
        assert np.array_equal(held, expected)
        assert not expected[keys.index("unclaimed")].any()


def test_hidden_nodes_are_neither_free_nor_unknown(visit, pages):
    """With the oldest nodes alone shown, what is hidden is counted as hidden, at every zoom, and hover says so."""
    seen = visit(pages / "apfs.html")
    told = seen.run(
        """async () => {
          const map = layoutscope.maps[0], sum = (of) => of.reduce((a, b) => a + b, 0);
          const place = (key) => map.disk.classes.findIndex((c) => c.key === key);
          const k = place('fs'), u = place('unclaimed'), f = map.pyramid.free;
          const out = [];
          for (const size of [map.full, map.full / 16, 1]) {
            map.maxXid = Infinity; await map.show(map.disk.start, size);
            const whole = sum(map.current[k]), free = sum(map.current[f]);
            map.maxXid = 1; await map.draw();
            const cell = map.hiddenBytes.findIndex((n) => n > 0);
            if (cell >= 0) map.describe(cell);
            const text = map.info.textContent;
            out.push([whole - sum(map.current[k]) <= sum(map.hiddenBytes), sum(map.current[u]),
                      free - sum(map.current[f]), cell < 0 || text.includes('hidden by the legend or the slider'),
                      text.includes('owner unknown')]);
          }
          return out;
        }"""
    )
    assert told == [[True, 0, 0, True, False]] * 3


def test_walks_are_played_in_the_same_time(visit, pages):
    """Half way through the slower walk, the quicker one is done, and its clock says so."""
    seen = visit(pages / "both.html")
    seen.run("() => layoutscope.race.show(layoutscope.race.longest() / 2)")
    clocks = seen.page.locator("#what .clock").all_inner_texts()[:2]
    totals = seen.run("() => layoutscope.race.players.map((p) => p.total())")
    half = max(totals) / 2
    assert [", done" in clock for clock in clocks] == [total <= half for total in totals]
    assert seen.run(PAINTED) == [True, True]
    heads = seen.run("() => layoutscope.maps.map((m) => m.head)")
    assert None not in heads
    seen.page.get_by_text("■ stop").click()
    assert seen.run("() => layoutscope.maps.map((m) => m.head)") == [None, None]
    assert seen.run(PAINTED) == [False, False]


def test_the_race_starts_by_itself_where_motion_is_welcome(visit, pages):
    """It plays once when the page is opened, at the speed that was chosen; who wants less motion starts it himself."""
    seen = visit(pages / "both.html", is_still=False)
    seen.page.wait_for_function("() => layoutscope.race.now > 0")
    seen.page.get_by_text("❚❚ pause").click()
    stopped = seen.run("() => layoutscope.race.now")
    seen.page.locator("#race select").select_option("4")
    assert seen.run("() => layoutscope.race.now") == stopped
    still = visit(pages / "both.html")
    still.page.wait_for_timeout(300)
    assert still.run("() => layoutscope.race.now") == 0
    assert still.page.get_by_text("▶ play").count() == 1


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080), (390, 844)])
def test_the_first_screen_has_the_sentence_and_both_bands(visit, pages, size):
    """Nothing must be scrolled for it, and nothing reaches over the window's edge."""
    seen = visit(pages / "both.html")
    seen.page.set_viewport_size({"width": size[0], "height": size[1]})
    ends = seen.run("() => [...document.querySelectorAll('.band')].map((b) => b.getBoundingClientRect().bottom)")
    assert max(ends) <= size[1]
    # The charts follow a window that changes its size a moment later.
    seen.page.wait_for_function(f"() => document.documentElement.scrollWidth <= {size[0]}")


def test_the_bands_are_there_without_scripts(browser, pages):
    """Sentence, bands, times and what they hold are in the page itself."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((pages / "both.html").as_uri())
    assert page.locator(".band svg path").count() > 4
    assert page.locator(".band svg").first.bounding_box()["width"] > 1000
    assert "as long as" in page.locator(".headline").inner_text()
    assert page.locator(".stack i").count() > 4
    context.close()


def test_no_button_leaves_the_page(visit, pages):
    """Every button of every chart and of the page is pressed: no request, no window, no cloud."""
    seen = visit(pages / "both.html")
    opened = []
    seen.page.context.on("page", lambda page: opened.append(page.url))
    titles = seen.page.locator(".modebar-btn").evaluate_all("all => all.map((b) => b.getAttribute('data-title'))")
    assert titles
    assert not [
        title for title in titles if any(word in title.lower() for word in ("cloud", "share", "edit", "studio"))
    ]
    seen.run(
        """() => document.querySelectorAll('.modebar-btn, main button')
          .forEach((b) => b.dispatchEvent(new MouseEvent('click', { bubbles: true })))"""
    )
    seen.page.wait_for_timeout(500)
    assert opened == []
    assert [url for url in seen.requests if not url.startswith(("file:", "blob:", "data:"))] == []


def test_wheel_keys_and_drag_move_the_map(visit, pages):
    """The wheel zooms around the pointer, keys zoom and move, dragging moves, and one can go back."""
    seen = visit(pages / "apfs.html")
    view = "() => [layoutscope.maps[0].view.from, layoutscope.maps[0].view.size]"
    first = seen.run(view)
    box = seen.page.locator(".map").bounding_box()
    seen.page.mouse.move(box["x"] + 300, box["y"] + 100)
    seen.page.mouse.wheel(0, -100)
    seen.page.wait_for_function(f"() => layoutscope.maps[0].view.size === {first[1]} / 2")
    zoomed = seen.run(view)
    seen.page.mouse.down()
    seen.page.mouse.move(box["x"] + 300, box["y"] + 60, steps=4)
    seen.page.mouse.up()
    dragged = seen.run(view)
    assert dragged[0] > zoomed[0]
    assert dragged[1] == zoomed[1]
    seen.page.locator(".map").focus()
    seen.page.keyboard.press("Backspace")
    assert seen.run(view) == zoomed
    seen.page.keyboard.press("Backspace")
    assert seen.run(view) == first
    seen.page.keyboard.press("+")
    seen.page.keyboard.press("ArrowDown")
    assert seen.run(view)[1] == first[1] / 4
    seen.page.keyboard.press("0")
    assert seen.run(view)[1] == seen.run("() => layoutscope.maps[0].full")


def test_maps_of_two_disks_move_together_where_it_is_asked_for(visit, pages):
    """With the box ticked a zoom of one map is one of the other; without it, it is not."""
    seen = visit(pages / "both.html")
    views = "() => layoutscope.maps.map((m) => [m.view.from - m.disk.start, m.view.size])"
    zoom = "(size) => layoutscope.maps[0].show(layoutscope.maps[0].disk.start + 8192 * 1000, size)"
    seen.page.evaluate(zoom, 2**27)
    first, other = seen.run(views)
    assert first != other
    seen.page.get_by_label("together").check()
    seen.page.evaluate(zoom, 2**26)
    first, other = seen.run(views)
    assert first == other


def test_the_address_leads_to_what_was_seen(visit, pages):
    """A link with view, order, age and filters opens with them; what no disk has is left out of it."""
    seen = visit(pages / "apfs.html")
    seen.run(
        """async () => {
          const m = layoutscope.maps[0];
          m.hidden.add(0); m.maxXid = 2; m.order = 'hilbert';
          await m.show(m.disk.start + 4096 * 999, 1);
        }"""
    )
    seen.page.wait_for_function("() => location.hash.startsWith('#v=')")
    state = "() => { const m = layoutscope.maps[0]; return [m.view, [...m.hidden], m.maxXid, m.order]; }"
    kept, link = seen.run(state), seen.run("() => location.hash")
    again = visit(pages / "apfs.html", fragment=link)
    assert again.run(state) == kept
    wild = visit(pages / "apfs.html", fragment="#v=1e18,1e30,spiral,x,77,")
    view, hidden, _, order = wild.run(state)
    assert (view["size"] <= wild.run("() => layoutscope.maps[0].full"), hidden, order) == (True, [], "linear")
    assert wild.complaints == []


@pytest.fixture
def phone(browser, pages):
    """Return a page on a screen that is touched, its map in sight."""
    context = browser.new_context(has_touch=True, viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    context.set_default_timeout(READY_MS)
    page = context.new_page()
    page.goto((pages / "apfs.html").as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    page.locator(".map").scroll_into_view_if_needed()
    yield page
    context.close()


def test_a_finger_reads_before_it_zooms(phone):
    """The first tap tells what a cell holds and leaves the view; a second one at the same place zooms in."""
    box = phone.locator(".map").bounding_box()
    size = "() => layoutscope.maps[0].view.size"
    before = phone.evaluate(size)
    phone.touchscreen.tap(box["x"] + 60, box["y"] + 40)
    phone.wait_for_function("() => /bytes [\\d,]+ to /.test(layoutscope.maps[0].info.textContent)")
    assert phone.evaluate(size) == before
    phone.touchscreen.tap(box["x"] + 60, box["y"] + 40)
    phone.wait_for_function(f"() => layoutscope.maps[0].view.size < {before}")


def test_two_fingers_zoom(phone):
    """Apart they zoom in to what lies between them, together they zoom out; neither chooses nor leaves the page."""
    box = phone.locator(".map").bounding_box()
    device = phone.context.new_cdp_session(phone)

    def pinch(*apart):
        """Put two fingers down, so many pixels apart, and move them."""
        for number, distance in enumerate(apart):
            points = [{"x": box["x"] + 150 + side * distance / 2, "y": box["y"] + 40} for side in (-1, 1)]
            kind = "touchMove" if number else "touchStart"
            device.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        device.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    size = "layoutscope.maps[0].view.size"
    whole = phone.evaluate(f"() => {size}")
    pinch(40, 60, 90, 130, 200)
    phone.wait_for_function(f"() => {size} <= {whole / 2}")
    near = phone.evaluate(f"() => {size}")
    pinch(200, 130, 90, 60, 40)
    phone.wait_for_function(f"() => {size} > {near}")
    assert phone.evaluate("() => layoutscope.maps[0].selection.nodes.length") == 0


def test_other_colours_keep_the_view(visit, pages):
    """The button for dark and light draws anew what was on the screen: view, filters, choices."""
    seen = visit(pages / "apfs.html")
    map_ = "const m = layoutscope.maps[0];"
    seen.run(f"async () => {{ {map_} m.hidden.add(0); m.maxXid = 2; await m.show(4096 * 1000, 1); }}")
    sections = "document.querySelectorAll('section').length"
    kept = f"() => {{ {map_} return [m.view, [...m.hidden], m.maxXid, {sections}]; }}"
    before = seen.run(kept)
    seen.run("async () => { document.getElementById('theme').click(); document.getElementById('theme').click(); }")
    seen.page.wait_for_selector("html[data-ready=yes]")
    seen.page.wait_for_timeout(300)
    seen.page.wait_for_selector("html[data-ready=yes]")
    assert seen.run(kept) == before


def test_search_shows_where_a_file_lies(visit, pages, scans):
    """A part of a path finds the file; its extents and the leaf of its inode are marked and told."""
    layout = scans["hfsplus"].parts[0].layout
    of_file = pl.col("file_id") == layout.extents.filter(pl.col("file_id") >= 16)["file_id"][0]
    extents = layout.extents.filter(of_file).sort("image_offset")
    entry = layout.entries.filter(of_file).row(0, named=True)
    seen = visit(pages / "hfsplus.html")
    seen.page.locator("body").press("/")
    seen.page.keyboard.type(entry["name"].upper())
    hit = seen.page.locator(".found button", has_text=f"(file {entry['file_id']})")
    assert entry["name"] in hit.inner_text()
    hit.click()
    seen.page.wait_for_function("() => layoutscope.maps[0].marks.length > 0")
    told = seen.run("() => layoutscope.maps[0].info.textContent")
    marks = seen.run("() => layoutscope.maps[0].marks")
    assert set(extents["image_offset"].to_list()) <= set(marks)
    inode = layout.nodes.row(entry["inode_node_row"], named=True)
    assert inode["image_offset"] in marks
    assert f"leaf node {inode['node_id']}" in told
    assert f"at byte {extents['image_offset'][0]:,}" in told
    seen.page.locator(".search input").fill("1,000,000")
    seen.page.locator(".found button", has_text="byte 1,000,000").click()
    seen.page.wait_for_function("() => layoutscope.maps[0].head === 1000000")
    seen.page.locator(".search input").fill("no such name")
    seen.page.locator(".found", has_text="nothing of that name").wait_for()


def test_marks_go_when_the_whole_walk_is_shown_again(visit, pages):
    """A span of time marks places; the whole span, another drive or a double click takes the marks away."""
    seen = visit(pages / "hfsplus.html")
    marks = """async (keys) => {
      const plot = [...document.querySelectorAll('.plot')]
        .find((p) => p.layout.xaxis?.title?.text?.startsWith('seconds since'));
      await Plotly.relayout(plot, keys);
      return layoutscope.maps[0].marks.length;
    }"""
    assert seen.page.evaluate(marks, {"xaxis.range[0]": 0, "xaxis.range[1]": 0.05}) > 0
    assert seen.page.evaluate(marks, {"xaxis.range": [0, 1e6]}) == 0
    assert seen.page.evaluate(marks, {"xaxis.range": [0, 0.05]}) > 0
    assert seen.page.evaluate(marks, {"xaxis.autorange": True}) == 0


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
    slider = seen.page.locator("#map .card input[type=range]")
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
    seen.page.get_by_text("▶ play").first.click()
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
    volume = result.parts[0]
    layout = volume.layout
    entries = layout.entries.with_columns(name=pl.lit(HOSTILE))
    layout = layout.changed(entries=entries, facts=replace(layout.facts, name=HOSTILE))
    image = replace(result.image, name=f"/x/{HOSTILE}")
    changed = replace(result, image=image, parts=(replace(volume, layout=layout),))
    (tmp_path / "page.html").write_text(map_page([changed]), "utf-8")
    seen = visit(tmp_path / "page.html")
    assert seen.complaints == []
    assert seen.page.locator("img[src=x]").count() == 0
    assert seen.page.locator("main b", has_text="bold").count() == 0
    assert "<b>bold</b>" in seen.page.locator("main").inner_text()


def test_two_printed_pages_hold_the_answer(visit, pages):
    """On paper: sentence, bands with their colours, why, where the time goes; then the maps; no controls."""
    seen = visit(pages / "both.html", dark=True)
    paper = seen.page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page[^s]", paper)) == 2
    seen.page.emulate_media(media="print")
    seen.page.set_viewport_size({"width": 700, "height": 1000})
    visible = seen.page.locator("button:visible, select:visible, #race:visible, nav:visible, .hover:visible")
    assert visible.count() == 0
    assert seen.run("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert seen.page.locator(".map:visible").count() == 2


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(visit, pages, dark):
    """Names, roles, contrasts and order are as axe-core wants them, with every panel open."""
    axe = WEB / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("axe-core is not installed (npm ci in layoutscope/report/map/web)")
    seen = visit(pages / "both.html", dark=dark)
    unfold(seen.page, "details")
    seen.run(axe.read_text("utf-8"))
    broken = seen.run("async () => (await axe.run()).violations.map((v) => [v.id, v.nodes.map((n) => n.html)])")
    assert broken == []


def test_what_is_chosen_in_one_view_is_chosen_in_all(visit, pages, scans):
    """A drag with shift over the map chooses its nodes, of the tables; order, walk and table show the same ones."""
    layout = next(volume.layout for volume in scans["apfs"].parts if volume.layout.entries.height)
    seen = visit(pages / "apfs.html")
    plot = seen.page.locator(".map")
    plot.evaluate("plot => plot.scrollIntoView({block: 'center'})")
    box = plot.bounding_box()
    drag(seen.page, (box["x"] + 10, box["y"] + 100), (box["x"] + 300, box["y"] + 160), shift=True)
    seen.page.wait_for_selector(".chosen table")
    low, high = (
        int(text.replace(",", ""))
        for text in re.search(
            r"between bytes ([\d,]+) and ([\d,]+)", seen.run("() => layoutscope.maps[0].selection.about")
        ).groups()
    )
    nodes = layout.nodes.filter(pl.col("image_offset").is_between(low, high - 1))
    chosen = seen.run("() => { const s = layoutscope.maps[0].selection; return s.nodes.map((i) => s.all.offset[i]); }")
    assert 0 < nodes.height <= len(chosen)
    assert set(nodes["image_offset"].to_list()) <= set(chosen)
    assert f"{len(chosen):,} nodes" in seen.page.locator(".chosen b").inner_text()
    shown = """async (panel) => {
      await layoutscope.maps[0].selection.shown;
      return [...document.querySelectorAll(panel + ' .plot')].reduce((sum, plot) => sum + plot.data.at(-1).x.length, 0);
    }"""
    of_tree = (pl.col("kind").cast(pl.String) == "leaf") & (pl.col("tree").cast(pl.String) == "fs")
    leaves = nodes.filter(of_tree & pl.col("key_rank").is_not_null()).height
    assert 0 < leaves <= seen.page.evaluate(shown, "#order") <= len(chosen)
    assert seen.page.evaluate(shown, "#walk") > 0
    seen.page.get_by_text("choose none").click()
    assert seen.run("() => layoutscope.maps[0].selection.nodes.length") == 0
    assert seen.page.evaluate(shown, "#walk") == 0


def test_a_box_over_the_order_chooses_leaves(visit, pages):
    """Drawn over a part of the key order it chooses the leaves of that part, which the map shows in their colour."""
    seen = visit(pages / "apfs.html")
    plot = seen.page.locator("#order .plot").first
    plot.evaluate("plot => plot.scrollIntoView({block: 'center'})")
    box = plot.bounding_box()
    drag(seen.page, (box["x"] + 100, box["y"] + 30), (box["x"] + 400, box["y"] + 200))
    seen.page.wait_for_function("() => layoutscope.maps[0].selection.nodes.length > 0")
    told = seen.page.locator(".chosen b").inner_text()
    assert "chosen in key order of file-system B-tree" in told
    ranks = seen.run("() => { const s = layoutscope.maps[0].selection; return s.nodes.map((i) => s.all.rank[i]); }")
    assert max(ranks) - min(ranks) + 1 >= len(set(ranks)) > 1  # leaves of the snapshot have ranks of their own
    pixels = """() => {
      const c = document.querySelector('.cells'), { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height);
      let n = 0;
      for (let i = 0; i < data.length; i += 4) n += data[i] === 0xe0 && data[i + 1] === 0 && data[i + 2] === 0xc8;
      return n;
    }"""
    assert seen.run(pixels) > 0
    with seen.page.expect_download() as kept:
        seen.page.get_by_text("save as CSV").click()
    lines = Path(kept.value.path()).read_text().splitlines()
    assert lines[0].startswith("tree,kind,node,byte")
    assert len(lines) == 1 + len(ranks)


def test_nodes_are_coloured_by_age_and_level(visit, pages, scans):
    """The scale spans what the tables have; a node's cell has its step, and one that the slider hides has not."""
    layouts = [volume.layout for volume in scans["apfs"].parts]
    nodes = pl.concat([layout.nodes for layout in layouts], how="vertical_relaxed").filter(pl.col("xid") > 0)
    oldest = nodes.sort("xid").row(0, named=True)
    seen = visit(pages / "apfs.html")
    seen.page.get_by_label("what colours nodes").select_option("age")
    seen.page.get_by_text("transaction that wrote it: ").last.wait_for()
    told = seen.page.get_by_text("transaction that wrote it: ").last.inner_text()
    assert f"it: {nodes['xid'].min():,}" in told
    assert told.rstrip().endswith(f"{nodes['xid'].max():,}")
    colour = """async ([at, newest]) => {
      const m = layoutscope.maps[0];
      m.maxXid = newest;
      await m.show(at - 4096 * 5000, 1);
      const cell = Math.floor((at - m.from) / m.cellSize);
      const c = document.querySelector('.cells');
      const fine = c.width / 256, [x, y] = [cell % 256, Math.floor(cell / 256)];
      const { data } = c.getContext('2d').getImageData(x * fine, y * fine, 1, 1);
      return '#' + [...data].slice(0, 3).map((byte) => byte.toString(16).padStart(2, '0')).join('');
    }"""
    assert seen.page.evaluate(colour, [oldest["image_offset"], 1e9]) == "#440154"
    assert seen.page.evaluate(colour, [oldest["image_offset"], oldest["xid"] - 1]) != "#440154"
    seen.page.get_by_label("what colours nodes").select_option("level")
    seen.page.get_by_text("level, 0 at the leaves: ").last.wait_for()


PANEL_WORDS = {
    "what": ("as long as", "file list"),
    "map": ("Address space", "a cell is", "catalog B-tree"),
    "costs": ("Costs", "seek", "SATA SSD"),
    "order": ("Order on disk", "leaves", "place in key order"),
    "walk": ("The walk", "seconds since the start of the walk"),
    "directories": ("Directories by cost",),
    "history": ("Transaction that wrote each node",),
    "distances": ("From a file's inode to its first data",),
}


def _kept(seen, panel: str, form: str) -> Path:
    with seen.page.expect_download() as kept:
        seen.page.locator(f"#{panel} .pictures button", has_text=form).click()
    assert kept.value.suggested_filename == f"layoutscope-{panel}.{form.lower()}"
    return Path(kept.value.path())


def test_each_panel_is_kept_as_svg_and_png(browser, visit, pages):
    """What a panel shows is a file of its own: its words are in the SVG, which needs nothing else; the PNG is drawn."""
    seen = visit(pages / "both.html")
    unfold(seen.page, "details")
    alone = browser.new_page()
    for panel, words in PANEL_WORDS.items():
        svg = _kept(seen, panel, "SVG").read_text("utf-8")
        told = alone.evaluate(
            """(svg) => {
              const root = new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement;
              const outside = [...root.querySelectorAll('*')].flatMap((node) => [...node.attributes])
                .filter(({ name, value }) => /href$/.test(name) && !/^(data:|#)/.test(value));
              return [root.tagName, root.textContent, outside.length];
            }""",
            svg,
        )
        assert (told[0], told[2]) == ("svg", 0)
        assert [word for word in words if word not in told[1]] == []
        png = _kept(seen, panel, "PNG").read_bytes()
        colours = alone.evaluate(
            """async (png) => {
              const image = await createImageBitmap(await (await fetch('data:image/png;base64,' + png)).blob());
              const canvas = new OffscreenCanvas(image.width, image.height), pen = canvas.getContext('2d');
              pen.drawImage(image, 0, 0);
              const pixels = new Uint32Array(pen.getImageData(0, 0, image.width, image.height).data.buffer);
              return [image.width, new Set(pixels).size];
            }""",
            base64.b64encode(png).decode(),
        )
        assert colours[0] == 2400
        assert colours[1] > 10
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith(("file:", "blob:", "data:"))] == []
    alone.close()


def test_the_picture_of_the_map_has_its_cells(visit, pages):
    """The cells of both maps are in it, as they are on the page."""
    seen = visit(pages / "both.html")
    svg = _kept(seen, "map", "SVG").read_text("utf-8")
    cells = seen.run("() => [...document.querySelectorAll('canvas.cells')].map((c) => c.toDataURL())")
    assert len(cells) == 2
    assert [one in svg for one in cells] == [True, True]


def test_a_notebook_has_the_page_alive(browser, scans):
    """In the frame that a notebook shows, the wheel zooms the map; nothing is asked of the network or complained of."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(READY_MS)
    page.set_content(layout_map(scans["apfs"])._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready=yes]").wait_for()
    box = frame.locator(".map").bounding_box()
    inner = page.frames[1]
    before = inner.evaluate("() => layoutscope.maps[0].view.size")
    frame.locator(".map").scroll_into_view_if_needed()
    box = frame.locator(".map").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 20)
    page.mouse.wheel(0, -100)
    inner.wait_for_function(f"() => layoutscope.maps[0].view.size === {before} / 2")
    page.wait_for_timeout(500)
    assert complaints == []
    assert [url for url in asked if not url.startswith(("about:", "blob:", "data:"))] == []
    page.close()


def test_figures_of_a_notebook_have_no_button_that_leaves_it(browser, scans, tmp_path):
    """With the whole of Plotly, as a notebook has it."""
    figure = layout_map(scans["hfsplus"])["walk"]
    (tmp_path / "figure.html").write_text(figure.to_html(include_plotlyjs=True), "utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "figure.html").as_uri())
    page.wait_for_selector(".modebar-btn", state="attached")
    titles = page.locator(".modebar-btn").evaluate_all("all => all.map((b) => b.getAttribute('data-title'))")
    assert len(titles) > 3
    assert [title for title in titles if re.search("cloud|share|studio", title, re.IGNORECASE)] == []
    page.close()
