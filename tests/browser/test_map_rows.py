"""Every way to use the map, on five kinds of page: it works, or where it has no meaning it is not there or says so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fixtures.hfsplus.plan import VolumePlan as HfsplusPlan
from fixtures.hfsplus.writer import write
from layoutscope.api.map import map_page
from layoutscope.api.scan import scan
from layoutscope.report.map.page import disk_shares
from layoutscope.report.map.pyramid import METADATA, UNKNOWN, from_layouts, held_by
from tests.browser.conftest import Visit, cells_of, drag, unfold
from tests.browser.kinds import KINDS, Opened, nodes_of

RESET = """async () => {
  await layoutscope.race.stop?.();
  scrollTo(0, 0);
  for (const [i, m] of layoutscope.maps.entries()) {
    const card = document.querySelectorAll('#map .card')[i];
    for (const box of card.querySelectorAll('.legend input')) box.checked = true;
    for (const field of card.querySelectorAll('input[type=search]')) {
      field.value = ''; field.dispatchEvent(new Event('input'));
    }
    const [order, by] = card.querySelectorAll('.bar .bar select, .bar select');
    m.hidden.clear(); m.maxXid = Infinity; m.order = 'linear'; m.by = 'tree';
    for (const box of card.querySelectorAll('select[title*=colours], select[title*=addresses]')) box.selectedIndex = 0;
    m.selection.choose([], ''); m.cursor.byte = null;
    await m.mark([], null);
    await m.show(m.disk.start, m.full, true);
    m.earlier = [];
  }
  for (const plot of document.querySelectorAll('#walk .plot')) await Plotly.relayout(plot, { 'xaxis.autorange': true });
  document.activeElement?.blur();
}"""
VIEWS = "() => layoutscope.maps.map((m) => [m.view.from - m.disk.start, m.view.size])"
CHOSEN = "() => layoutscope.maps.map((m) => m.selection.nodes.length)"


@pytest.fixture(scope="module", params=KINDS)
def opened(request, browser, tmp_path_factory):
    """Open a page of a kind, once for all tests of it."""
    folder = tmp_path_factory.mktemp(request.param)
    results = KINDS[request.param](folder)
    path = folder / "page.html"
    path.write_text(map_page(results), "utf-8")
    seen = Visit(browser, path)
    seen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield Opened(request.param, results, path, seen)
    seen.page.context.close()


@pytest.fixture
def kind(opened):
    """Give the page as it was at first, and hold it to silence at the end."""
    opened.seen.run(RESET)
    yield opened
    assert opened.seen.complaints == []
    assert [url for url in opened.seen.requests if not url.startswith(("file:", "blob:", "data:"))] == []


def _shares(disk):
    return disk_shares(disk, from_layouts(disk.layouts, disk.device))


def _metadata(disk) -> np.ndarray:
    """Give the runs of all metadata of a disk, from its first byte."""
    return np.concatenate([share.runs for share in _shares(disk) if share.item.group == METADATA])


def _dearest(disk):
    """Give the class that one looks for first on a disk, and a byte of it: what is damaged or locked, else any tree."""
    held = [share for share in _shares(disk) if share.item.group == METADATA and len(share.runs)]
    bad = [share for share in held if share.item.key in ("damaged", "locked")]
    share = (bad or held)[0]
    return share.item, int(share.runs[0, 0]) + disk.image_offset


def _cards(kind):
    return kind.seen.page.locator("#map .card")


def _center(locator) -> tuple[float, float]:
    locator.evaluate("node => node.scrollIntoView({ block: 'center' })")
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def _place(kind, number: int, byte: int) -> tuple[float, float]:
    """Zoom a map to blocks around a byte, and return where its cell lies on the screen."""
    return tuple(
        kind.seen.page.evaluate(
            """async ([number, byte]) => {
              const m = layoutscope.maps[number], plot = document.querySelectorAll('.map')[number];
              await m.show(byte - 5000 * m.disk.block, 1, true);
              plot.scrollIntoView({ block: 'center' });
              const cell = Math.floor((byte - m.from) / m.cellSize), { xaxis, yaxis } = plot._fullLayout;
              const box = plot.getBoundingClientRect();
              const [column, row] = [m.places.column[cell], m.places.row[cell]];
              return [box.left + xaxis._offset + ((column + 0.5) / m.places.columns) * xaxis._length,
                      box.top + yaxis._offset + ((row + 0.5) / m.places.rows) * yaxis._length];
            }""",
            [number, byte],
        )
    )


def test_a_cell_is_read_by_mouse_finger_and_keys(kind):
    """Each of them tells the very class that the tables have at that byte."""
    page = kind.seen.page
    for number, disk in enumerate(kind.disks):
        item, byte = _dearest(disk)
        info = _cards(kind).nth(number).locator(".hover")
        x, y = _place(kind, number, byte)
        page.mouse.move(x, y)
        page.wait_for_function(
            "([n, word]) => layoutscope.maps[n].info.textContent.includes(word)", arg=[number, item.label]
        )
        assert re.search(r"bytes [\d,]+ to [\d,]+", info.inner_text())
        info.evaluate("node => { node.textContent = ''; }")
        before = kind.seen.run(VIEWS)[number]
        page.evaluate(
            """([number, clientX, clientY]) => {
              const plot = document.querySelectorAll('.map')[number];
              for (const type of ['pointerdown', 'pointerup'])
                plot.dispatchEvent(new PointerEvent(type, { pointerType: 'touch', pointerId: 7, clientX, clientY,
                  bubbles: true, button: 0 }));
            }""",
            [number, x, y],
        )
        assert item.label in info.inner_text()
        assert kind.seen.run(VIEWS)[number] == before
        info.evaluate("node => { node.textContent = ''; }")
        plot = page.locator(".map").nth(number)
        page.evaluate(
            "async ([n, byte]) => { const m = layoutscope.maps[n]; m.cursor.byte = byte + m.disk.block * 256; }",
            [number, byte],
        )
        plot.focus()
        plot.press("Shift+ArrowUp")
        assert item.label in info.inner_text()
        plot.press("Escape")
        assert kind.seen.run("() => layoutscope.maps.map((m) => m.cursor.byte)")[number] is None


def test_keys_read_zoom_and_choose_the_cell(kind):
    """Shift and an arrow begin in the middle; Enter zooms in on the cell, Space chooses the nodes that lie in it."""
    page = kind.seen.page
    plot = page.locator(".map").first
    plot.focus()
    plot.press("Shift+ArrowRight")
    byte = kind.seen.run("() => layoutscope.maps[0].cursor.byte")
    low, size = kind.seen.run(VIEWS)[0]
    assert low < byte < low + size + kind.disks[0].image_offset
    plot.press("Enter")
    page.wait_for_function(f"() => layoutscope.maps[0].view.size < {size}")
    now, smaller = kind.seen.run(VIEWS)[0]
    assert now <= byte - kind.disks[0].image_offset <= now + smaller
    node = (
        nodes_of(kind.results[0])
        .filter((pl.col("device") == 0) & pl.col("image_offset").is_not_null())
        .row(0, named=True)
    )
    page.evaluate(
        """async (byte) => {
          const m = layoutscope.maps[0];
          await m.show(byte - 4096 * 5000, 1, true);
          m.cursor.byte = byte;
        }""",
        node["image_offset"],
    )
    plot.press(" ")
    page.wait_for_function("() => layoutscope.maps[0].selection.nodes.length > 0")
    chosen = kind.seen.run(
        "() => { const s = layoutscope.maps[0].selection; return s.nodes.map((i) => s.all.offset[i]); }"
    )
    assert node["image_offset"] in chosen


def test_keys_begin_on_the_disk_where_it_fills_no_picture(visit, tmp_path):
    """A disk of 8 MiB fills an eighth of the finest cells: keys read cells of the disk, and none behind its end."""
    write(HfsplusPlan(total_blocks=2048), tmp_path / "small.img")
    (tmp_path / "small.html").write_text(map_page([scan(tmp_path / "small.img")]), "utf-8")
    seen = visit(tmp_path / "small.html")
    plot = seen.page.locator(".map")
    plot.focus()
    for key in ("Shift+ArrowRight", *["Shift+ArrowDown"] * 6):
        plot.press(key)
        found = re.match(r"bytes ([\d,]+) to ([\d,]+)", seen.run("() => layoutscope.maps[0].info.textContent"))
        low, high = (int(number.replace(",", "")) for number in found.groups())
        assert 2**22 <= low < high <= 2**23


def test_a_click_zooms_in_and_one_can_go_back(kind):
    """Sixteenfold around the cell; Backspace and the button lead to where one was."""
    page = kind.seen.page
    first = kind.seen.run(VIEWS)
    for number, plot in enumerate(page.locator(".map").all()):
        page.mouse.click(*_center(plot))
        page.wait_for_function(f"() => layoutscope.maps[{number}].view.size < {first[number][1]}")
        size = kind.seen.run(VIEWS)[number][1]
        finest = 16384 * kind.seen.run(f"() => layoutscope.maps[{number}].pyramid.cell")
        assert size == pytest.approx(max(first[number][1] / 16, finest))
        plot.focus()
        plot.press("Backspace")
        assert kind.seen.run(VIEWS)[number] == first[number]
        page.mouse.click(*_center(plot))
        page.wait_for_function(f"() => layoutscope.maps[{number}].view.size < {first[number][1]}")
        _cards(kind).nth(number).get_by_role("button", name="back", exact=True).click()
        assert kind.seen.run(VIEWS)[number] == first[number]


def test_buttons_lead_to_disk_use_and_metadata(kind):
    """Plus, minus, the whole disk, the part in use, and the span of all metadata, as the tables have it."""
    for number, disk in enumerate(kind.disks):
        card = _cards(kind).nth(number)
        full, used = kind.seen.run(f"() => [layoutscope.maps[{number}].full, layoutscope.maps[{number}].used]")
        finest = 16384 * kind.seen.run(f"() => layoutscope.maps[{number}].pyramid.cell")
        press = lambda name, card=card: card.get_by_role("button", name=name, exact=True).click()  # noqa: E731
        press("+")
        assert kind.seen.run(VIEWS)[number][1] == pytest.approx(max(full / 4, finest))
        press("−")  # noqa: RUF001  (the button's own sign)
        assert kind.seen.run(VIEWS)[number][1] == pytest.approx(min(full, 4 * max(full / 4, finest)))
        press("part in use")
        assert kind.seen.run(VIEWS)[number] == [0, max(used, finest)]
        press("whole disk")
        assert kind.seen.run(VIEWS)[number] == [0, full]
        press("metadata")
        runs = _metadata(disk)
        low, high = int(runs[:, 0].min()), int(runs.sum(axis=1).max())
        start, size = kind.seen.run(VIEWS)[number]
        assert start <= low
        assert start + size >= high
        assert size <= max(finest, high - low + 2 * finest // 16384)
        told = card.locator(".caption").inner_text()
        assert "a cell is" in told
        shades = card.get_by_text(re.compile("^(metadata|changes) in a cell: "))
        nodes_by = card.locator("select[title='what colours nodes']")
        for by, is_there in (("fill", False), ("tree", True)):
            nodes_by.select_option(by)
            card.get_by_text("trees have their colours in the strip alone").wait_for(
                state="detached" if is_there else "attached"
            )
            assert shades.is_visible() == is_there


def test_the_strip_leads_the_map(kind):
    """Its frame is dragged, made narrower at an edge, and called by a click; the wheel zooms; it has a name."""
    page = kind.seen.page
    strip = page.locator(".strip").first
    kind.seen.run(
        "async () => { const m = layoutscope.maps[0]; await m.show(m.disk.start, m.full / 2, true); m.earlier = []; }"
    )
    whole = kind.seen.run("() => layoutscope.maps[0].full")
    _center(strip)
    box = strip.bounding_box()
    at = lambda share: (box["x"] + box["width"] * share, box["y"] + box["height"] / 2)  # noqa: E731
    size = kind.seen.run(VIEWS)[0][1]
    if size == whole:
        pytest.fail("the disk is too small to be zoomed")
    drag(page, at(0.2), at(0.3))
    low, kept = kind.seen.run(VIEWS)[0]
    assert kept == size
    assert low / whole == pytest.approx(0.1, abs=0.01)
    drag(page, at(low / whole + size / whole), at(low / whole + size / whole - 0.1))
    assert kind.seen.run(VIEWS)[0][1] / whole == pytest.approx(0.4, abs=0.02)
    page.mouse.click(*at(0.95))
    assert sum(kind.seen.run(VIEWS)[0]) / whole == pytest.approx(1, abs=0.01)
    page.mouse.wheel(0, -100)
    page.wait_for_function(f"() => layoutscope.maps[0].view.size < {0.3 * whole}")
    assert "strip of" in strip.get_attribute("aria-label")
    assert "the whole disk" in strip.get_attribute("title")


def test_orders_run_through_the_picture(kind):
    """Each shows the same cells; the square of Hilbert's curve is as large as the window lets it be."""
    page = kind.seen.page
    card = _cards(kind).first
    held = "() => layoutscope.maps[0].current.map((of) => of.reduce((a, b) => a + b, 0))"
    before = kind.seen.run(held)
    for order in ("snake", "hilbert", "linear"):
        card.get_by_label("how addresses run").select_option(order)
        page.wait_for_function(f"() => layoutscope.maps[0].drawn === '{order}'")
        kind.seen.run("() => layoutscope.maps[0].draw()")
        assert kind.seen.run(held) == before
        cells = card.locator(".cells").bounding_box()
        if order == "hilbert":
            assert cells["width"] == pytest.approx(cells["height"], abs=2)
            assert cells["width"] > 0.75 * min(card.bounding_box()["width"], 0.8 * 900)
        else:
            assert cells["width"] > 0.9 * card.bounding_box()["width"]


def test_the_legend_hides_and_shows_one_alone(kind):
    """A kind that is hidden is hidden in map, order and walk; “only” hides all others, and gives them back."""
    page = kind.seen.page
    card = _cards(kind).last
    number = len(kind.disks) - 1
    item, _ = _dearest(kind.disks[number])
    k = kind.seen.run(f"() => layoutscope.maps[{number}].disk.classes.findIndex((c) => c.key === '{item.key}')")
    sums = f"""() => {{ const m = layoutscope.maps[{number}], sum = (of) => of.reduce((a, b) => a + b, 0);
      return [sum(m.current[{k}]), sum(m.hiddenBytes)]; }}"""
    there = kind.seen.run(sums)
    assert there[0] > 0
    box = card.locator(".legend label", has_text=item.label).first.locator("input")
    box.evaluate("box => box.closest('details')?.setAttribute('open', '')")
    box.uncheck()
    assert kind.seen.run(sums) == [0, there[0]]
    hues = page.evaluate(
        """() => [...document.querySelectorAll('#map .legend .swatch')]
          .map((s) => [Boolean(s.nextSibling?.textContent.includes('hidden by the legend')),
                       getComputedStyle(s).backgroundColor])"""
    )
    assert any(is_hidden for is_hidden, _ in hues)
    assert not {hue for is_hidden, hue in hues if is_hidden} & {hue for is_hidden, hue in hues if not is_hidden}
    orders = page.locator("#order .card").nth(number).locator("h3", has_text="hidden by the legend")
    ordered = [one["tree"] for one in kind.seen.run(f"() => layoutscope.page.disks[{number}].distances.key_order")]
    assert orders.count() == ordered.count(item.key)
    if kind.is_listed:
        shown = """([n, key]) => document.querySelectorAll('#walk .card')[n].querySelector('.plot').data
          .filter(({ meta }) => meta === key).map(({ visible }) => visible)"""
        assert set(page.evaluate(shown, [number, item.key])) <= {False}
    box.check()
    only = card.get_by_role("button", name=f"show {item.label} alone; again: everything")
    only.click()
    held = f"() => layoutscope.maps[{number}].current.map((of) => of.some((n) => n > 0))"
    assert [place for place, there in enumerate(kind.seen.run(held)) if there] == [k]
    only.click()
    assert kind.seen.run(f"() => layoutscope.maps[{number}].hidden.size") == 0
    assert orders.count() == 0


def test_a_span_of_the_walk_marks_and_chooses(kind):
    """On the map above, which a small copy shows below it; of what nobody can list there is no walk."""
    page = kind.seen.page
    plots = page.locator("#walk .plot")
    if not kind.is_listed:
        assert page.locator("#walk, #costs, #directories").count() == 0
        return
    number = kind.seen.run("() => layoutscope.page.disks.findIndex((d) => d.walks.length && d.walks[0].reads)")
    _center(plots.nth(number))
    assert page.locator(".peek:visible").count() == 0
    box = plots.nth(number).bounding_box()
    drag(page, (box["x"] + 75, box["y"] + 60), (box["x"] + box["width"] - 80, box["y"] + 150))
    page.wait_for_function(f"() => layoutscope.maps[{number}].marks.length > 0")
    assert kind.seen.run(CHOSEN)[number] > 0
    page.locator(".peek:visible").first.wait_for()
    page.locator(".peek:visible").first.click()
    page.wait_for_function("() => !document.querySelectorAll('.peek:not([hidden])').length")
    assert page.locator(".map").nth(number).evaluate("plot => plot.getBoundingClientRect().bottom > 0")


def test_the_race_plays_and_stops(kind):
    """Every disk that can be listed has a head; where nothing can, there is nothing to play."""
    page = kind.seen.page
    if not kind.is_listed:
        assert page.locator("#race button").count() == 0
        return
    assert not re.search(r"\de[+-]", page.locator("#race select").inner_text())
    page.get_by_text("▶ play").click()
    page.wait_for_function("() => layoutscope.race.now > 0 && layoutscope.maps.some((m) => m.head !== null)")
    page.get_by_text("❚❚ pause").click()
    page.get_by_text("■ stop").click()
    assert kind.seen.run("() => layoutscope.maps.every((m) => m.head === null)")


def test_one_drive_is_chosen_for_all_disks(kind):
    """The other walks follow, and each is drawn over the seconds of the slowest on that drive."""
    page = kind.seen.page
    if not kind.is_listed:
        assert page.get_by_label("drive", exact=True).count() == 0
        return
    choosers = page.get_by_label("drive", exact=True)
    labels = choosers.first.locator("option").all_inner_texts()
    assert len(labels) == len(set(labels))
    last = labels[-1]
    choosers.first.select_option(label=last)
    slowest = kind.seen.run(
        """() => Math.max(...layoutscope.page.disks.flatMap((d) => d.walks)
          .filter((w) => w.drive === 'SATA SSD').map((w) => w.total_s))"""
    )
    page.wait_for_function(
        """(slowest) => [...document.querySelectorAll('#walk .plot')]
          .every((p) => p._fullLayout.xaxis.range[1] <= slowest * 1.0001)""",
        arg=slowest,
    )
    for chooser in choosers.all():
        assert chooser.evaluate("box => box.selectedOptions[0].textContent").endswith("SATA SSD")
    assert kind.seen.run("() => layoutscope.race.longest()") == pytest.approx(slowest, rel=1)
    choosers.first.select_option(label=labels[0])


def test_the_slider_hides_what_is_younger(kind):
    """Its ends are the transactions of sound nodes; what it hides is hidden, and neither free nor unknown."""
    page = kind.seen.page
    for number, disk in enumerate(kind.disks):
        nodes = pl.concat([layout.nodes for layout in disk.layouts], how="vertical_relaxed").filter(
            (pl.col("device") == disk.device) & (pl.col("condition").cast(pl.String) == "sound") & (pl.col("xid") > 0)
        )
        slider = _cards(kind).nth(number).locator("input[type=range]")
        low, high = nodes["xid"].min(), nodes["xid"].max()
        assert slider.count() == (low != high and low is not None)
        if not slider.count():
            continue
        assert [slider.get_attribute("min"), slider.get_attribute("max")] == [str(low), str(high)]
        before = kind.seen.run(_sums(number))
        slider.evaluate("s => { s.value = s.min; s.dispatchEvent(new Event('input')); }")
        page.wait_for_function(f"() => layoutscope.maps[{number}].hiddenBytes.some((n) => n > 0)")
        after = kind.seen.run(_sums(number))
        for key in ("free", "unclaimed", "data"):
            assert after["held"].get(key) == before["held"].get(key)
        assert sum(after["held"].values()) + after["hidden"] == sum(before["held"].values())


def _sums(number: int) -> str:
    return f"""() => {{ const m = layoutscope.maps[{number}], sum = (of) => of.reduce((a, b) => a + b, 0);
      return {{ held: Object.fromEntries(m.disk.classes.map(({{ key }}, k) => [key, sum(m.current[k])])),
               hidden: sum(m.hiddenBytes) }}; }}"""


def test_states_are_chosen_where_there_are_any(kind):
    """A snapshot sets the slider to its transaction; elsewhere there is no such list."""
    for number, disk in enumerate(kind.disks):
        chooser = _cards(kind).nth(number).get_by_label("a checkpoint or snapshot")
        assert chooser.count() == bool(disk.states)
        if disk.states:
            label, xid = disk.states[0]
            chooser.select_option(label=label)
            assert kind.seen.run(f"() => layoutscope.maps[{number}].maxXid") == xid
    assert any(disk.states for disk in kind.disks) == (kind.name in ("pair", "damaged"))


def test_a_directory_chooses_its_nodes(kind):
    """By seconds, entries and bytes; a click on a box chooses the nodes of its entries in all views."""
    page = kind.seen.page
    if not kind.is_listed:
        assert page.locator("#directories").count() == 0
        return
    page.evaluate("() => { document.querySelector('#directories details').open = true; }")
    page.wait_for_selector("#directories .main-svg")
    for unit in ("entries", "bytes", "seconds"):
        page.get_by_label("what the boxes measure").first.select_option(unit)
        page.wait_for_function(
            """(unit) => {
              const whole = layoutscope.page.disks[0].directories.whole[unit];
              const { values } = document.querySelector('#directories .plot').data[0];
              return Math.abs(Math.max(...values) - whole) <= 1e-3 * whole;
            }""",
            arg=unit,
        )
    kind.seen.run(
        """() => {
          const plot = document.querySelector('#directories .plot'), { ids, labels } = plot.data[0];
          const files = layoutscope.maps[0].owners.files;
          const at = ids.findIndex((id) => files.nodesOf(id).length);
          plot.emit('plotly_treemapclick', { points: [{ id: ids[at], label: labels[at] }] });
        }"""
    )
    assert kind.seen.run(CHOSEN)[0] > 0
    _all_views_agree(kind, 0)


def _all_views_agree(kind, number: int) -> None:
    """Table, map, order, walk, costs and distances show the nodes that are chosen."""
    page = kind.seen.page
    chosen = kind.seen.run(CHOSEN)[number]
    card = _cards(kind).nth(number)
    assert f"{chosen:,} node" in card.locator(".chosen b").inner_text()
    assert card.locator(".chosen tbody tr").count() == min(chosen, 12)
    shown = page.wait_for_function(
        """([number, chosen, isListed]) => {
          const s = layoutscope.maps[number].selection, { all } = s;
          const leaf = all.kinds.indexOf('leaf');
          const { distances, volumes } = layoutscope.page.disks[number];
          const expected = distances.key_order.map(({ volume, tree }) => s.nodes.filter((i) =>
            i >= volumes[volume].nodes[0] && i < volumes[volume].nodes[1] &&
            all.trees[all.tree[i]] === tree && all.kind[i] === leaf && all.rank[i] >= 0).length);
          const shown = [...(document.querySelectorAll('#order .card')[number]?.querySelectorAll('.plot') ?? [])]
            .map((p) => p.data.at(-1).x.length);
          const walk = document.querySelectorAll('#walk .card')[number]?.querySelector('.plot');
          const reads = walk ? walk.data.at(-1).x.length : null;
          const costs = s.nodes.reduce((sum, i) => sum + all.cost[i], 0);
          // Costs are of the walks of all volumes, and the first of them is drawn.
          const isOne = new Set(layoutscope.page.disks[number].walks.map((w) => w.reads_of)).size < 2;
          const told = document.querySelector('.chosen-costs')?.textContent ?? '';
          return expected.join() === shown.join() && (!isOne || reads === null || Boolean(reads) === Boolean(costs))
            && (!isListed || told.includes(`${chosen.toLocaleString('en')} chosen node`));
        }""",
        arg=[number, chosen, kind.is_listed],
    )
    assert shown


@pytest.mark.parametrize("view", ["address", "time", "order", "distance", "age"])
def test_what_is_brushed_in_any_view_is_chosen_in_all(kind, view):
    """With the pointer over each view; what a page has no nodes for has no such view."""
    page = kind.seen.page
    unfold(page)
    number = len(kind.disks) - 1
    wanted = {
        "address": ".map",
        "time": "#walk .plot",
        "order": "#order .plot",
        "distance": "#distances .plot",
        "age": "#history .plot",
    }[view]
    if view == "address":
        plot = page.locator(wanted).nth(number)
    else:
        card = page.locator(f"{wanted.split()[0]} .card")
        absent = {"time": not kind.is_listed, "order": not kind.is_listed}.get(view, False)
        plots = card.nth(number).locator(".plot") if card.count() else page.locator("#nothing")
        with_plot = [n for n in range(card.count()) if card.nth(n).locator(".plot").count()]
        if not with_plot:
            assert absent or view in ("age", "distance", "order")
            told = page.locator(f"{wanted.split()[0]} p").all_inner_texts()
            assert not card.count() or any("No " in text or "nothing" in text.lower() for text in told)
            assert kind.name == "locked" or view == "age"
            return
        number = with_plot[-1]
        if view == "time":
            number = kind.seen.run("() => layoutscope.page.disks.findLastIndex((d) => d.walks[0]?.reads)")
        plots = card.nth(number).locator(".plot")
        plot = plots.first
    _center(plot)
    box = plot.bounding_box()
    x, y, width, height = (box[name] for name in ("x", "y", "width", "height"))
    spans = {
        "address": ((x + 8, y + 8), (x + width - 8, y + height - 8)),
        "time": ((x + 72, y + 40), (x + width - 80, y + 200)),
    }
    start, end = spans.get(view, ((x + 62, y + 32), (x + width - 14, y + height - 48)))
    drag(page, start, end, shift=view == "address")
    page.wait_for_function(f"() => layoutscope.maps[{number}].selection.nodes.length > 0")
    _all_views_agree(kind, number)
    _cards(kind).nth(number).get_by_text("choose none").click()
    assert kind.seen.run(CHOSEN)[number] == 0


def test_the_order_has_a_point_for_each_leaf(kind):
    """Of the tables: each leaf with a place in key order, where it lies on the disk, in the colour of its tree."""
    page = kind.seen.page
    drawn = page.locator("#order .plot").evaluate_all(
        "plots => plots.map(({ data: [{ type, x, y, marker }] }) => [type, x, y, marker?.color])"
    )
    found = []
    for disk in kind.disks:
        nodes = pl.concat([layout.nodes for layout in disk.layouts], how="vertical_relaxed")
        leaves = nodes.filter(
            (pl.col("kind").cast(pl.String) == "leaf") & pl.col("key_rank").is_not_null(), device=disk.device
        )
        place = (pl.col("image_offset") - disk.image_offset) / 2**20
        trees = leaves.select(pl.col("tree").cast(pl.String), "key_rank", place).partition_by("tree", as_dict=True)
        found += [sorted(own.select("key_rank", "image_offset").rows()) for own in trees.values()]
    points = [sorted(zip(x, y, strict=True)) for type_, x, y, _ in drawn if type_ == "scattergl"]
    assert all(own in found for own in points)
    hues = {item["light"] for disk in kind.seen.run("() => layoutscope.page.disks") for item in disk["classes"]}
    assert {hue for *_, hue in drawn if hue} <= hues
    assert kind.name == "locked" or len(points) > 0


def test_bars_of_distances_choose_what_they_count(kind):
    """Of each bar: the nodes of the reads, or of the inodes, that the tables give; chosen ones stand there, too."""
    page = kind.seen.page
    unfold(page)
    plots = page.locator("#distances .plot")
    if not kind.is_listed:
        assert plots.count() == 0
        assert "Nothing here has a distance" in page.locator("#distances").inner_text()
        return
    found = 0
    for number in range(len(kind.disks)):
        for plot in page.locator("#distances .card").nth(number).locator(".plot").all():
            counts, names = plot.evaluate("p => [p.data[0].y, p.data[0].x]")
            assert plot.evaluate("p => p._fullLayout.xaxis._categories") == names  # so that each bar is drawn
            bar = int(np.argmax(counts))
            plot.evaluate(
                "(p, bar) => p.emit('plotly_selected', { points: [{ curveNumber: 0, pointNumber: bar }] })", bar
            )
            # Many nodes are shown in turns.
            page.wait_for_function(
                "([p, bar]) => p.data[1].y[bar] === p.data[0].y[bar]", arg=[plot.element_handle(), bar]
            )
            shown = plot.evaluate("p => p.data[1].y")
            # A chosen node holds more than what was brushed; of the bar itself all are chosen.
            assert all((one or 0) <= of for one, of in zip(shown, counts, strict=True))
            assert len(names) == len(counts)
            found += 1
            _all_views_agree(kind, number)
    assert found > 1


def test_colours_stay_when_the_theme_is_turned(kind):
    """Dark and light show the same view, filters, order and chosen nodes."""
    page = kind.seen.page
    kind.seen.run(
        """async () => {
          const m = layoutscope.maps[0];
          m.hidden.add(0); m.by = 'fill'; m.order = 'snake';
          await m.show(m.disk.start + 4096 * 100, m.full / 4, true);
          m.selection.between(m.disk.start, m.disk.start + m.full / 4);
        }"""
    )
    state = """() => { const m = layoutscope.maps[0];
      return [m.view, [...m.hidden], m.by, m.order, m.selection.nodes.length, m.selection.about]; }"""
    before = kind.seen.run(state)
    assert before[4] > 0
    for _ in range(2):
        kind.seen.run("() => { delete document.documentElement.dataset.ready; }")
        page.locator("#theme").click()
        page.wait_for_selector("html[data-ready=yes]")
        page.wait_for_function("() => layoutscope.maps[0].selection.nodes.length > 0")
        assert kind.seen.run(state) == before
        assert f"{before[4]:,} node" in _cards(kind).first.locator(".chosen b").inner_text()


def test_lists_keep_what_was_chosen_when_the_theme_is_turned(kind):
    """The drive of the walk, and what the boxes of directories measure."""
    page = kind.seen.page
    if kind.is_listed:
        # Another test may have opened it; what is folded is drawn some time after it is opened.
        page.evaluate("() => { document.querySelector('#directories details').open = true; }")
        page.wait_for_selector("#directories .card select")
    lists = """() => ["walk", "directories"].flatMap((one) =>
      [...document.querySelectorAll(`#${one} .card select`)])"""
    count = kind.seen.run(f"() => ({lists})().length")
    if not kind.is_listed:
        assert count == 0
        return
    kind.seen.run(
        f"""() => {{ for (const list of ({lists})()) {{
          list.value = list.options[list.options.length - 1].value; list.dispatchEvent(new Event("change")); }} }}"""
    )
    state = f"() => ({lists})().map(({{ value }}) => value)"
    before = kind.seen.run(state)
    assert len(before) == count > 1
    kind.seen.run("() => { delete document.documentElement.dataset.ready; }")
    page.locator("#theme").click()
    page.wait_for_selector("html[data-ready=yes]")
    page.wait_for_function(f"(before) => JSON.stringify(({state})()) === JSON.stringify(before)", arg=before)


def test_paths_numbers_and_bytes_are_found(kind):
    """A path leads to its blocks and nodes; without names the field asks for a byte alone; a byte is found on all."""
    page = kind.seen.page
    page.locator("body").press("/")
    field = (
        _cards(kind).last.locator("input[type=search]") if len(kind.disks) > 1 else page.locator("input[type=search]")
    )
    if not kind.is_listed:
        assert field.get_attribute("aria-label") == "find a byte"
    else:
        number = 0
        first = _cards(kind).nth(number)
        entries = pl.concat([layout.entries for layout in kind.disks[number].layouts], how="vertical_relaxed")
        named = entries.filter((pl.col("kind").cast(pl.String) == "file") & pl.col("inode_node_row").is_not_null())
        entry = named.row(named.height // 2, named=True)
        first.locator("input[type=search]").fill(entry["name"])
        first.locator(".found button", has_text=f"(file {entry['file_id']})").first.click()
        page.wait_for_function(f"() => layoutscope.maps[{number}].info.textContent.includes('file {entry['file_id']}')")
        assert entry["name"] in first.locator(".hover").inner_text()
        first.locator("input[type=search]").fill("")
    byte = kind.disks[0].image_offset + 8192
    first = _cards(kind).first
    first.locator("input[type=search]").fill(f"{byte:,}")
    first.locator(".found button", has_text=f"byte {byte:,}").click()
    page.wait_for_function(f"() => layoutscope.maps[0].head === {byte}")
    first.locator("input[type=search]").fill("no such thing")
    assert "nothing of that name or number" in first.locator(".found").inner_text()


def test_nodes_have_all_colours_or_say_why_not(kind):
    """By level, age, cost and fill: the scale tells its span and unit, or that no node has such a number."""
    for number, disk in enumerate(kind.disks):
        nodes = pl.concat([layout.nodes for layout in disk.layouts], how="vertical_relaxed").filter(
            pl.col("device") == disk.device
        )
        card = _cards(kind).nth(number)
        sound = nodes.filter(pl.col("condition").cast(pl.String) == "sound")
        for by in ("level", "age", "cost", "fill"):
            card.get_by_label("what colours nodes").select_option(by)
            told = card.locator(".scale").inner_text()
            dated = sound.filter(pl.col("xid") > 0)
            if by == "age" and dated.height:
                assert f"{dated['xid'].min():,}" in told
                assert f"{dated['xid'].max():,}" in told
            elif by == "cost" and not kind.is_listed:
                assert "no node has a cost here" in told
            else:
                assert "metadata of which this is not told" in told
        card.get_by_label("what colours nodes").select_option("tree")
        assert card.locator(".scale").count() == 0


def test_what_is_chosen_is_copied_and_kept(kind):
    """As CSV, in the clipboard and in a file: a row for each node."""
    page = kind.seen.page
    kind.seen.run("() => { const m = layoutscope.maps[0]; m.selection.between(m.disk.start, m.disk.start + m.full); }")
    chosen = kind.seen.run(CHOSEN)[0]
    assert chosen > 0
    card = _cards(kind).first
    with page.expect_download() as kept:
        card.get_by_text("save as CSV").click()
    assert len(Path(kept.value.path()).read_text().splitlines()) == chosen + 1
    card.get_by_role("button", name="copy", exact=True).click()
    page.wait_for_function(
        f"async () => (await navigator.clipboard.readText()).trim().split('\\n').length === {chosen + 1}"
    )


def test_a_link_and_help_are_at_hand(kind, browser):
    """The link leads to what is seen, on another page; a question mark unfolds what one can do."""
    page = kind.seen.page
    kind.seen.run(
        "async () => { const m = layoutscope.maps[0]; m.order = 'snake'; await m.show(m.disk.start, m.full / 4); }"
    )
    view = kind.seen.run(VIEWS)
    page.get_by_role("button", name="copy link").click()
    page.get_by_text("copied", exact=True).wait_for()
    link = kind.seen.run("() => navigator.clipboard.readText()")
    other = Visit(browser, kind.path, fragment=f"#{link.partition('#')[2]}")
    assert other.run(VIEWS) == view
    assert other.run("() => layoutscope.maps[0].order") == "snake"
    other.page.context.close()
    assert not page.get_by_text("What the map answers to").is_visible()
    page.locator("body").press("?")
    assert page.get_by_text("What the map answers to").is_visible()
    page.locator("body").press("?")


def test_maps_of_several_disks_move_together(kind):
    """A box is there where there are several maps, and only there."""
    page = kind.seen.page
    box = page.get_by_label("zoom and move all maps together")
    assert box.count() == (kind.name in ("pair", "fusion"))
    if box.count():
        box.check()
        kind.seen.run("async () => { const m = layoutscope.maps[0]; await m.show(m.disk.start, m.full / 4); }")
        first, other = kind.seen.run(VIEWS)
        assert first == other
        box.uncheck()


def test_each_part_is_kept_as_a_picture(kind):
    """Every part that draws anything has both buttons, and each gives a picture."""
    page = kind.seen.page
    unfold(page)
    parts = page.locator("section:has(> .pictures, > details > .pictures)")
    names = parts.evaluate_all("all => all.map((one) => one.id)")
    assert {"what", "map"} <= set(names)
    assert ("costs" in names) == kind.is_listed
    for name in names:
        with page.expect_download() as kept:
            page.locator(f"#{name} .pictures button", has_text="SVG").click()
        text = Path(kept.value.path()).read_text("utf-8")
        assert text.startswith("<svg")
        assert "trace 0" not in text


def test_every_plot_is_told_in_words(kind):
    """Below each plot a table has its data, in no more rows than one reads; the map's follow what is hidden."""
    page = kind.seen.page
    unfold(page)
    plots = page.locator(".card .plot").count()
    tables = page.locator(".card details.told")
    assert tables.count() == plots
    tables.evaluate_all("all => all.forEach((one) => { one.open = true; })")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.told')].every((one) => one.querySelector('tbody tr'))"
    )
    assert max(tables.evaluate_all("all => all.map((one) => one.querySelectorAll('tbody tr').length)")) <= 64
    for number, disk in enumerate(kind.disks):
        item, _ = _dearest(disk)
        words = _cards(kind).nth(number).locator(".told")
        rows = words.locator("tbody tr").all_inner_texts()
        assert any(item.label in row for row in rows)
        kind.seen.page.evaluate(
            """async ([n, key]) => { const m = layoutscope.maps[n];
              m.hidden.add(m.disk.classes.findIndex((c) => c.key === key)); await m.draw(); }""",
            [number, item.key],
        )
        page.wait_for_function(
            "(n) => document.querySelectorAll('#map .card')[n].querySelector('.told').innerText.includes('hidden by')",
            arg=number,
        )
        assert not any(item.label in row for row in words.locator("tbody tr").all_inner_texts())
    tables.evaluate_all("all => all.forEach((one) => { one.open = false; })")


def test_cells_are_the_tables_at_ten_zooms(kind):
    """Each cell holds what the tables give it; nothing is unknown where all was read."""
    page = kind.seen.page
    draw = np.random.default_rng(11)
    for number, disk in enumerate(kind.disks):
        shares = _shares(disk)
        unknown = sum(share.size_bytes for share in shares if share.item.group == UNKNOWN)
        if disk.coverage == 1 and kind.name != "damaged":
            assert unknown == 0
        for zoom in range(10):
            size = max(disk.size_bytes >> zoom // 2, 1)
            start = disk.image_offset + int(draw.integers(0, disk.size_bytes - size + 1))
            begin, cell, keys, held = cells_of(page, number, start, size, is_exact=True)
            edges = np.arange(16385) * cell + begin - disk.image_offset
            assert keys == [share.item.key for share in shares]
            assert np.array_equal(held, held_by(shares, np.minimum(edges, disk.size_bytes)))
        bad = [share for share in shares if share.item.key in ("damaged", "locked")]
        nodes = pl.concat([layout.nodes for layout in disk.layouts], how="vertical_relaxed")
        here = nodes.filter((pl.col("condition").cast(pl.String) != "sound") & (pl.col("device") == disk.device))
        told = sum(share.size_bytes for share in bad)
        assert told == here.unique("image_offset")["size_bytes"].sum()
        assert bool(told) == (kind.name in ("locked", "damaged"))
