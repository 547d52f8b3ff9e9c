"""The map in a browser: the figure matches the tables, uses no network, and logs no errors."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from layoutscope.api.map import layout_map, map_page
from layoutscope.report.map.figure import figure
from layoutscope.report.map.page import headline_of, shares_of
from layoutscope.report.map.scans import disks
from tests.browser.conftest import READY_MS, drag, range_of, show, unfold

HOSTILE = "</script><img src=x onerror=alert(1)><b>bold</b>"
OUTSIDE = re.compile("^(?!file:|blob:|data:|about:)")
TRACES = """() => layoutscope.figure.plot.data.map(({ meta, x, y, width }) => ({ ...meta, x, y, width }))"""
ENDS = "() => layoutscope.figure.plot.layout.annotations.filter((a) => a.name === 'end').map((a) => a.text)"


def _axis(page, name: str) -> list[float]:
    """Return an axis's start in the window, its length, and its range."""
    return page.evaluate(
        """(name) => {
          const { plot } = layoutscope.figure, axis = plot._fullLayout[name], box = plot.getBoundingClientRect();
          const at = name.startsWith('x') ? box.left : box.top;
          return [at + axis._offset, axis._length, ...axis.range];
        }""",
        name,
    )


@pytest.mark.parametrize("name", ["hfsplus", "apfs", "both"])
def test_page_draws_without_a_network(visit, pages, name):
    """No request leaves the page, no errors are logged, and every panel is drawn."""
    seen = visit(pages / f"{name}.html")
    assert not list(filter(OUTSIDE.match, seen.requests))
    titles = seen.page.locator("section h2").all_inner_texts()
    assert {"What is stored where", "Directories", "Distances", "Order on disk", "Facts"} <= set(titles)
    assert ("History" in titles) == (name != "hfsplus")
    unfold(seen.page)
    assert seen.page.locator(".card .plot").count() >= 5
    assert seen.complaints == []


def test_the_figure_and_the_sentence_are_those_of_the_library(visit, pages, scans):
    """The page's script gives each trace the same data as Python; the sentence is the only top-level heading."""
    drawn = disks(list(scans.values()))
    expected = figure(drawn, shares_of(drawn))["data"]
    seen = visit(pages / "both.html")
    assert seen.page.locator("h1").all_inner_texts() == [headline_of(drawn)]
    found = [trace for trace in seen.run(TRACES) if trace["part"] != "found"]
    assert [(trace["disk"], trace["part"], trace["role"]) for trace in found] == [
        tuple(trace["meta"].values()) for trace in expected
    ]
    for own, other in zip(found, expected, strict=True):
        for key in ("x", "y"):
            assert np.allclose(own[key], other[key], atol=2e-5), (own["part"], own["role"], key)


def test_one_list_of_drives_leads_everything(visit, pages, scans):
    """Sentence, causes, labels, dots and the time axis are those of the selected drive."""
    shown = disks(list(scans.values()))
    seen = visit(pages / "both.html")
    assert seen.page.locator("select").evaluate_all("all => all.filter((one) => one.title === 'drive').length") == 1
    seen.page.get_by_label("drive", exact=True).select_option("2")
    drive = "sata-ssd"
    seen.page.wait_for_function(
        "(text) => document.querySelector('h1').textContent === text", arg=headline_of(shown, drive)
    )
    walks = [next(walk for walk in disk.walks if walk.drive == drive) for disk in shown]
    seen.page.wait_for_function(
        "(most) => layoutscope.figure.plot._fullLayout.xaxis2.range[1] < most", arg=2 * walks[1].seconds
    )
    assert [re.search(r"[\d.]+ ms", text)[0] for text in seen.run(ENDS)] == [
        f"{1000 * walk.seconds:.3g} ms" for walk in walks
    ]
    assert "platter" not in seen.page.locator("#why").inner_text()
    last = max(max(trace["x"]) for trace in seen.run(TRACES) if trace["part"] == "dots" and trace["x"])
    assert last <= walks[1].seconds


def test_a_drag_zooms_bars_and_walk_of_all_disks(visit, pages):
    """Positions match on all disks, bars are recounted, a double click goes back, and finally to the whole."""
    seen = visit(pages / "both.html")
    whole = range_of(seen.page)
    before = [trace for trace in seen.run(TRACES) if trace["part"] == "bars"]
    left, wide, *_ = _axis(seen.page, "xaxis")
    top, high, *_ = _axis(seen.page, "yaxis")
    drag(seen.page, (left + wide / 2, top + high * 0.5), (left + wide / 2, top + high * 0.75))
    seen.page.wait_for_function(f"() => layoutscope.view.range.high < {0.9 * whole['high']}")
    seen.run("() => layoutscope.view.done")
    zoomed = range_of(seen.page)
    assert zoomed["low"] / whole["high"] == pytest.approx(0.25, abs=0.02)
    assert zoomed["high"] / whole["high"] == pytest.approx(0.5, abs=0.02)
    assert (
        _axis(seen.page, "yaxis")[2:]
        == _axis(seen.page, "yaxis2")[2:]
        == [zoomed["low"] / 2**20, zoomed["high"] / 2**20]
    )
    after = [trace for trace in seen.run(TRACES) if trace["part"] == "bars"]
    assert max(after[1]["width"]) < max(before[1]["width"]) / 3
    start, length, *_ = _axis(seen.page, "xaxis2")
    drag(seen.page, (start + length * 0.1, top + 30), (start + length * 0.3, top + 33))
    seen.page.wait_for_function(f"() => layoutscope.view.range.to < {whole['to'] / 2}")
    assert range_of(seen.page)["low"] == zoomed["low"]
    for expected in (zoomed, whole):
        seen.page.wait_for_timeout(400)
        seen.page.mouse.dblclick(start + length / 2, top + high / 2)
        seen.page.wait_for_function("(to) => layoutscope.view.range.to === to && true", arg=expected["to"])
        seen.run("() => layoutscope.view.done")
        assert range_of(seen.page) == expected


def test_the_pointer_names_what_is_there(visit, pages, scans):
    """On a dot: the read, its time, tree and node; on a bar: the range, the classes, and the file if zoomed in."""
    (disk,) = disks([scans["apfs"]])
    walk = disk.walks[0]
    seen = visit(pages / "apfs.html")
    place, when = int(walk.trace.image_offset[300]), float(walk.begin_s[300])
    left, wide, x0, x1 = _axis(seen.page, "xaxis2")
    top, high, y0, y1 = _axis(seen.page, "yaxis")
    seen.page.mouse.move(left + wide * (when - x0) / (x1 - x0), top + high * (1 - (place / 2**20 - y0) / (y1 - y0)))
    told = seen.page.locator(".tip:visible").inner_text()
    assert f"at byte {place:,}" in told
    assert re.search(r"(fs|omap) (leaf|index) node \d+", told)
    extent = scans["apfs"].parts[1].layout.extents.filter(pl.col("length_bytes") >= 8192).row(9, named=True)
    at = extent["image_offset"] - disk.image_offset
    show(seen.page, at - 2**19, at + 2**19)
    seen.page.wait_for_timeout(300)
    left, wide, *_ = _axis(seen.page, "xaxis")
    seen.page.mouse.move(left + wide / 2, top + high / 2)
    told = seen.page.locator(".tip:visible").inner_text()
    assert re.search(r"file data [\d.]+ %|file data 100 %", told)
    assert re.search(r"data of .*file \d+ “", told)


def test_keys_zoom_move_and_go_back(visit, pages):
    """Plus and minus, arrows, 0 and Backspace."""
    seen = visit(pages / "apfs.html")
    whole = range_of(seen.page)
    seen.page.locator("#figure > .plot").focus()
    for key, size in (("+", 4), ("+", 16), ("-", 4)):
        seen.page.keyboard.press(key)
        assert range_of(seen.page)["high"] - range_of(seen.page)["low"] == pytest.approx(whole["high"] / size)
    before = range_of(seen.page)
    seen.page.keyboard.press("ArrowUp")
    assert range_of(seen.page)["low"] > before["low"]
    seen.page.keyboard.press("Backspace")
    assert range_of(seen.page) == before
    seen.page.keyboard.press("0")
    assert range_of(seen.page) == whole


def test_a_link_leads_to_what_was_seen(visit, pages):
    """When opened, and when pasted into an open page; a range outside all disks is moved into them."""
    seen = visit(pages / "both.html")
    show(seen.page, 2**24, 2**25, **{"from": 0.5, "to": 1.0})
    seen.page.wait_for_function("() => location.hash.startsWith('#v=')")
    link, kept = seen.run("() => location.hash"), range_of(seen.page)
    again = visit(pages / "both.html", fragment=link)
    assert range_of(again.page) == kept
    other = visit(pages / "both.html")
    other.page.evaluate("(link) => { location.hash = link; }", link)
    other.page.wait_for_function("(low) => layoutscope.view.range.low === low", arg=kept["low"])
    assert range_of(other.page) == kept
    wild = visit(pages / "both.html", fragment="#v=0,1000000000000000,0,99999,77,9,9")
    assert range_of(wild.page)["high"] <= 2**29
    assert wild.complaints == []


def test_links_to_parts_open_them(visit, pages):
    """The address of a folded part unfolds it and scrolls there."""
    seen = visit(pages / "both.html", fragment="#distances")
    seen.page.wait_for_function("() => document.querySelector('#distances details').open")
    seen.page.wait_for_function(
        "() => Math.abs(document.querySelector('#distances').getBoundingClientRect().top) < 300"
    )
    seen.run("() => { location.hash = '#facts'; }")
    seen.page.wait_for_function("() => document.querySelector('#facts details').open")


def test_search_shows_where_a_file_lies(visit, pages, scans):
    """A part of a path finds the file; its extents and the leaf of its inode are marked and described."""
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
    seen.page.wait_for_function("() => layoutscope.detail.disks[0].marks.length > 0")
    marks = seen.run("() => layoutscope.detail.disks[0].marks")
    assert set(extents["image_offset"].to_list()) <= set(marks)
    inode = layout.nodes.row(entry["inode_node_row"], named=True)
    assert inode["image_offset"] in marks
    seen.page.get_by_text(f"leaf node {inode['node_id']}").first.wait_for()
    told = seen.page.locator(".found-info").inner_text()
    assert f"at byte {extents['image_offset'][0]:,}" in told
    seen.page.locator(".search input").fill("1,000,000")
    seen.page.locator(".found button", has_text="byte 1,000,000").click()
    seen.page.wait_for_function("() => layoutscope.detail.disks[0].marks[0] === 1000000")
    seen.page.locator(".search input").fill("no such name")
    seen.page.locator(".found", has_text="nothing of that name").wait_for()


def test_what_is_in_view_is_listed(visit, pages, scans):
    """The table lists the metadata blocks of the range from the tables, and can be saved as CSV."""
    layouts = [volume.layout for volume in scans["apfs"].parts]
    places = pl.concat(
        [layout.nodes.select("image_offset", "size_bytes") for layout in layouts], how="vertical_relaxed"
    )
    seen = visit(pages / "apfs.html")
    show(seen.page, 2**26, 2**27)
    seen.page.get_by_text("list metadata blocks in view").click()
    here = places.filter(pl.col("image_offset").is_between(2**26, 2**27 - 1))
    chosen = seen.run(
        "() => { const s = layoutscope.detail.drawn.selection; return s.nodes.map((i) => s.all.offset[i]); }"
    )
    assert set(chosen) == set(here["image_offset"].to_list())
    assert f"{len(chosen):,} nodes" in seen.page.locator(".chosen b").inner_text()
    with seen.page.expect_download() as kept:
        seen.page.get_by_text("save as CSV").click()
    assert len(Path(kept.value.path()).read_text().splitlines()) == len(chosen) + 1
    seen.page.get_by_text("clear selection").click()
    assert seen.page.locator(".chosen b").count() == 0


def test_times_of_directories_sum_up_to_the_walk(visit, pages, scans):
    """Each box's area is the seconds of its subtree; the chart starts at the first directory with a choice."""
    seen = visit(pages / "apfs.html")
    unfold(seen.page, "#directories > details")
    drawn = seen.run(
        "() => { const [t] = document.querySelector('#directories .plot').data; return [t.values, t.level]; }"
    )
    (disk,) = disks([scans["apfs"]])
    assert sum(drawn[0]) == pytest.approx(disk.walks[0].seconds, rel=1e-3)
    assert drawn[1] != "all"


@pytest.mark.parametrize("name", ["both", "apfs"])
def test_the_page_is_whole_without_scripts(browser, pages, scans, name):
    """Sentence, figure, story, numbers and facts are in the page itself."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((pages / f"{name}.html").as_uri())
    assert page.locator("h1").inner_text()
    rows = page.locator(".srow .sbars")
    assert rows.count() == (2 if name == "both" else 1)
    assert rows.first.bounding_box()["width"] > 150
    assert page.locator(".swalk .dots").count() >= 1
    for row, svg in zip(page.locator(".srow:not(.foot)").all(), rows.all(), strict=True):
        assert row.bounding_box()["height"] == pytest.approx(svg.bounding_box()["height"], abs=2)
    assert page.locator(".scripted:visible, button:visible, select:visible").count() == 0
    page.locator("#what summary").click()
    for disk in disks([scans["apfs"]]):
        assert all(sentence in page.locator("#what").inner_text() for sentence in disk.story)
    page.locator("#holdings summary").click()
    assert "file data" in page.locator("#holdings").inner_text()
    page.locator("#facts summary").click()
    assert "metadata by tree" in page.locator("#facts").inner_text()
    assert "switched off" in page.locator("noscript").inner_text()
    context.close()


@pytest.mark.parametrize("size", [(1366, 768), (1920, 1080), (390, 844)])
def test_the_first_screen_has_the_whole_figure(visit, pages, size):
    """The figure needs no scrolling and does not exceed the window."""
    seen = visit(pages / "both.html", size=size)
    box = seen.page.locator("#figure").bounding_box()
    assert box["y"] + box["height"] <= size[1]
    assert seen.run("() => document.documentElement.scrollWidth") <= size[0]
    labels = seen.page.locator("#figure .annotation").all()
    boxes = [label.bounding_box() for label in labels]
    assert all(one["x"] >= 0 and one["x"] + one["width"] <= size[0] + 1 for one in boxes)


def test_theme_button_keeps_the_view(visit, pages):
    """The page follows the reader's scheme; the button switches it, and the view stays."""
    seen = visit(pages / "hfsplus.html", dark=True)
    show(seen.page, 2**24, 2**26)
    background = "() => getComputedStyle(document.body).backgroundColor"
    hue = "() => layoutscope.figure.plot.data[0].marker.color"
    before = [seen.run(background), seen.run(hue), range_of(seen.page)]
    seen.page.locator("#theme").click()
    seen.page.wait_for_function(f"(hue) => ({hue})() !== hue", arg=before[1])
    assert seen.run(background) != before[0]
    assert range_of(seen.page) == before[2]
    assert seen.complaints == []


def page_of(result, name, folder):
    """Write the page of a disk whose volume and files have a name, twice next to itself."""
    volume = result.parts[0]
    layout = volume.layout.changed(
        entries=volume.layout.entries.with_columns(name=pl.lit(name)), facts=replace(volume.layout.facts, name=name)
    )
    image = replace(result.image, name=f"/x/{name}")
    changed = replace(result, image=image, parts=(replace(volume, layout=layout),))
    (folder / "page.html").write_text(map_page([changed, changed]), "utf-8")
    return folder / "page.html"


def test_hostile_names_stay_text(visit, scans, tmp_path):
    """A name that looks like markup or script is shown as it is, at every place."""
    seen = visit(page_of(scans["hfsplus"], HOSTILE, tmp_path))
    unfold(seen.page)
    assert seen.complaints == []
    assert seen.page.locator("img[src=x]").count() == 0
    assert seen.page.locator("main b", has_text=re.compile("^bold$")).count() == 0
    assert "<b>bold</b>" in seen.page.locator("header").inner_text()


def test_names_that_reorder_text_are_shown_as_escapes(visit, scans, tmp_path):
    """A bidirectional name is shown with its control characters escaped, by search and by pointer."""
    seen = visit(page_of(scans["hfsplus"], "\u202egnp.exe", tmp_path))
    seen.page.locator(".search input").fill("gnp")
    hit = seen.page.locator(".found button", has_text="exe").first
    hit.wait_for()
    assert "\\u202egnp.exe" in hit.inner_text()
    assert "\u202e" not in seen.run("() => document.documentElement.innerText")
    assert hit.locator("bdi").count() == 1


@pytest.mark.parametrize("drive", [0, 1])
def test_print_has_the_sentence_and_the_figure(visit, pages, drive):
    """On one white sheet, for the selected drive, without controls; then the screen is as before."""
    seen = visit(pages / "both.html", dark=True)
    seen.page.get_by_label("drive", exact=True).select_option(index=drive)
    label = seen.page.evaluate("(drive) => layoutscope.page.drives[drive].ends[1].label.text.split('</b>')[0]", drive)
    seen.page.wait_for_function(
        "(label) => layoutscope.figure.plot.layout.annotations.some(({ text }) => text.startsWith(label))", arg=label
    )
    paper = seen.page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page[^s]", paper)) == 1
    seen.page.emulate_media(media="print", color_scheme="dark")
    seen.run("() => dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator("button:visible, .tools:visible, .search:visible, .help:visible").count() == 0
    assert seen.run("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert seen.page.locator("h1:visible").count() == 1
    plot = seen.page.locator("#figure > .plot")
    assert plot.is_visible()
    assert not seen.page.locator("#figure .static").is_visible()
    assert plot.bounding_box()["width"] == 1000
    printed = seen.run(
        "() => { const { layout } = layoutscope.figure.plot; return [layout.font.color, layout.shapes[1].x1]; }"
    )
    assert printed[0] in ("rgb(0, 0, 0)", "rgb(27, 31, 36)")
    assert printed[1] == seen.page.evaluate("(drive) => layoutscope.page.drives[drive].ends[1].shape.x1", drive)
    seen.page.emulate_media(media="screen")
    seen.run("() => dispatchEvent(new Event('afterprint'))")
    assert seen.run("() => layoutscope.figure.plot.layout.font.color") == "rgb(230, 233, 237)"


def test_nothing_leaves_the_page_whatever_is_pressed(visit, pages):
    """Every button is pressed: no request, no window; the figure is saved as SVG."""
    seen = visit(pages / "both.html")
    opened = []
    seen.page.context.on("page", lambda page: opened.append(page.url))
    with seen.page.expect_download() as kept:
        seen.page.get_by_text("save picture").click()
    text = Path(kept.value.path()).read_text("utf-8")
    assert text.startswith("<svg")
    assert "APFS: 4.55 s" in text
    seen.run("() => document.querySelectorAll('main button').forEach((one) => one.click())")
    seen.page.wait_for_timeout(500)
    assert opened == []
    assert not list(filter(OUTSIDE.match, seen.requests))
    assert seen.page.locator(".modebar-btn:visible").count() == 0


def test_a_notebook_has_the_page_alive(browser, scans):
    """The figure can be zoomed in a notebook's frame, without a network request or an error."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(READY_MS)
    page.set_content(layout_map(scans["apfs"])._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready=yes]").wait_for()
    frame.locator("#figure > .plot").focus()
    page.keyboard.press("+")
    assert page.frames[1].evaluate("() => layoutscope.view.isWhole") is False
    assert frame.get_by_role("button", name="copy link").count() == 0
    page.wait_for_timeout(500)
    assert complaints == []
    assert not list(filter(OUTSIDE.match, asked))
    page.close()


def test_the_figure_of_a_notebook_has_no_button_that_leaves_it(browser, scans, tmp_path):
    """With the complete Plotly, as in a notebook."""
    drawn = layout_map(scans["hfsplus"])
    (tmp_path / "figure.html").write_text(drawn.to_html(include_plotlyjs=True), "utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "figure.html").as_uri())
    page.wait_for_selector(".modebar-btn", state="attached")
    titles = page.locator(".modebar-btn").evaluate_all("all => all.map((b) => b.getAttribute('data-title'))")
    assert len(titles) > 3
    assert [title for title in titles if re.search("cloud|share|studio", title, re.IGNORECASE)] == []
    page.close()
