"""The figure: bars as wide as the tables say, a dot per read, and correct labels."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.api.map import BROWSERS, layout_map, write_picture
from layoutscope.api.scan import scan
from layoutscope.errors import UnsupportedError, UsageError
from layoutscope.report.map.figure import BINS, MAX_DOTS, bars, drives_of, figure, scale_of, static
from layoutscope.report.map.page import cause_of, first_screen, headline_of, shares_of
from layoutscope.report.map.pyramid import FREE_SPACE, UNCLAIMED
from layoutscope.report.map.scans import disks
from layoutscope.report.text.scan import screen_lines
from layoutscope.results.verdict import Remedy
from layoutscope.units import format_bytes
from layoutscope.zstd import zstd

FUSION = Path(__file__).resolve().parents[5] / "shared" / "images" / "fusion"
FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "images"
WIDTHS = re.compile(r"M[\d.]+ \d+h([\d.]+)v")


def _held(result):
    (disk,) = disks([result])
    return disk, shares_of([disk])[0]


def _h1(page: str) -> str:
    found = re.search(r"<h1>(.*?)</h1>", page)
    assert found is not None
    return found[1]


def _ink(drawn: dict, part: str) -> dict[str, float]:
    """Return the area of each role's bars as a share of the axes."""
    low, high = drawn["layout"]["yaxis"]["range"]
    bins = [trace for trace in drawn["data"] if trace["meta"]["part"] == part]
    return {trace["meta"]["role"]: float((trace["x"] * trace["width"]).sum() / (high - low)) for trace in bins}


@pytest.fixture(scope="module", params=["hfsplus", "apfs"])
def result(request):
    return scan(FIXTURES / f"{request.param}-scattered.img.zst")


@pytest.fixture(scope="module")
def pair():
    return disks([scan(FIXTURES / f"{name}-scattered.img.zst") for name in ("hfsplus", "apfs")])


def test_bars_are_those_of_the_tables(result):
    """Ink is a share of the bytes."""
    # A share of 1.7 % takes 1.7 % of the picture, in the figure and on the page without a script.
    disk, shares = _held(result)
    span = scale_of([disk], [shares])
    expected: dict[str, float] = {}
    for share in shares:
        if share.size_bytes and (role := share.item.role):
            inside = np.minimum(share.runs.sum(axis=1), span) - np.minimum(share.runs[:, 0], span)
            expected[role] = expected.get(role, 0.0) + float(inside.sum()) / span
    ink = _ink(figure([disk], [shares]), "bars")
    assert ink == pytest.approx(expected, rel=1e-6)
    svg = static([disk], [shares])
    for role, share in expected.items():
        path = re.search(f'class="fill-{role}" d="([^"]*)"', svg)
        assert path is not None
        assert sum(map(float, WIDTHS.findall(path[1]))) / (100 * BINS) == pytest.approx(share, abs=1e-4)
    # A bar contains metadata of the file list exactly where a node is.
    disk, shares = _held(result)
    (layout,) = [layout for layout in disk.layouts if layout.entries.height]
    tree = {"HFS+": "catalog", "APFS": "fs"}[layout.facts.variant]
    nodes = layout.nodes.filter(pl.col("tree").cast(pl.String) == tree)["image_offset", "size_bytes"].unique()
    edges, found = bars(shares, 0, disk.size_bytes, disk.size_bytes)
    expected = np.zeros(BINS, bool)
    for place, size in nodes.rows():
        low, high = np.searchsorted(edges, [place - disk.image_offset, place - disk.image_offset + size - 1], "right")
        expected[low - 1 : high] = True
    assert ((found["main"] > 0) == expected).all()


def test_each_read_is_a_dot_in_its_time(result):
    disk, shares = _held(result)
    walk = disk.walks[0]
    drawn = figure([disk], [shares])
    dots = [trace for trace in drawn["data"] if trace["meta"]["part"] == "dots"]
    x, y = (np.concatenate([trace[name] for trace in dots]) for name in ("x", "y"))
    order = np.argsort(x)
    assert len(walk.trace) <= MAX_DOTS
    assert np.allclose(x[order], walk.begin_s)
    assert np.allclose(y[order] * 2**20, walk.trace.image_offset - disk.image_offset)
    (path,) = [trace for trace in drawn["data"] if trace["meta"]["part"] == "path"]
    assert np.allclose(path["x"], walk.begin_s)
    svg = static([disk], [shares])
    at = {
        match
        for line in re.findall(r'class="dots line-\w+" d="([^"]*)"', svg)
        for match in re.findall(r"M(\d+) (\d+)h0", line)
    }
    assert 0.9 * len(walk.trace) < len(at) <= len(walk.trace)  # dots at one spot are drawn once


def test_reads_that_are_left_out_are_said_to_be(result, monkeypatch):
    """If only every n-th read is drawn, the page does not claim a dot for each."""
    disk, shares = _held(result)
    assert "Each dot is a read. " in first_screen([disk], [shares])
    monkeypatch.setattr("layoutscope.report.map.figure.MAX_DOTS", 50)
    assert "not all reads are drawn" in first_screen([disk], [shares])
    dots = [trace for trace in figure([disk], [shares])["data"] if trace["meta"]["part"] == "dots"]
    assert 25 < sum(len(trace["x"]) for trace in dots) <= 50


def test_axes_and_sentences_of_two_disks(pair):
    """Axes match, and each drive has its sentence."""
    # All position axes match, and all time axes; the labels at the ends are the walks' times.
    layout = figure(pair, shares_of(pair))["layout"]
    assert layout["yaxis2"]["matches"] == "y"
    assert layout["xaxis4"]["matches"] == "x2"
    assert layout["yaxis"]["range"] == layout["yaxis2"]["range"]
    ends = [note for note in layout["annotations"] if note["name"] == "end"]
    assert [note["x"] for note in ends] == pytest.approx([disk.walks[0].seconds for disk in pair])
    assert [note["text"].partition(",")[0] for note in ends] == ["<b>HFS+: 667 ms</b>", "<b>APFS: 4.55 s</b>"]
    # Sentence and causes belong to the drive selected in the list.
    sentences = {drive: headline_of(pair, drive) for drive in drives_of(pair)}
    assert len(set(sentences.values())) == len(sentences) == 3
    assert headline_of(pair) == sentences[drives_of(pair)[0]]
    causes = {drive: cause_of(pair, drive) for drive in sentences}
    assert "waiting for the platter to turn" in causes["generic-5400-2.5"]
    assert "platter" not in causes["sata-ssd"]


@pytest.mark.parametrize(
    ("seconds", "unit", "ticks"),
    [(90.0, "seconds", None), (900.0, "minutes", ["0", "5", "10"]), (9000.0, "hours", ["0", "0.5", "1", "1.5", "2"])],
)
def test_long_times_are_shown_in_minutes_or_hours(pair, monkeypatch, seconds, unit, ticks):
    """The axis of a long walk has the unit of its label, in the figure and on the page without scripts."""
    monkeypatch.setattr("layoutscope.report.map.figure.end_of", lambda *_: seconds)
    layout = figure(pair, shares_of(pair))["layout"]
    titles = [axis["title"]["text"] for name, axis in layout.items() if name.startswith("xaxis") and "title" in axis]
    assert f"{unit} since the start of the listing" in titles
    assert layout["xaxis2"].get("ticktext") == ticks
    assert ">min<" in static(pair, shares_of(pair)) or unit != "minutes"


def test_damage_is_said_where_it_is(result):
    """A sound disk has no such word, a damaged one begins with it."""
    # Both fixtures were read in full, so no word or color says otherwise.
    disk, shares = _held(result)
    page = first_screen([disk], [shares])
    assert all(word not in page for word in ("unknown", "damaged", "locked", 'class="warn"'))
    # The first sentence is about the damage, not about the time for the rest.
    volume = next(volume for volume in result.parts if volume.layout.entries.height)
    first = volume.layout.nodes.height - 1
    condition = pl.when(pl.col("row") == first).then(pl.lit("damaged")).otherwise(pl.lit("sound"))
    layout = volume.layout.changed(nodes=volume.layout.nodes.with_columns(condition=condition.cast(pl.Categorical)))
    facts = replace(layout.facts, num_missing_entries=31)
    changed = replace(volume, layout=layout.changed(facts=facts))
    others = [changed if item is volume else item for item in result.parts]
    disk, shares = _held(replace(result, parts=tuple(others)))
    page = first_screen([disk], [shares])
    assert re.match(r"At least 31 entries of .* are missing", _h1(page))
    assert "damaged metadata: " in page


def test_a_locked_volume_is_locked_and_not_damaged(reference_image):
    """Undecipherable data is neither verified nor broken; the page says first that it is locked."""
    result = scan(reference_image("apple/dissect_encrypted.raw"))
    disk, shares = _held(result)
    page = first_screen([disk], [shares])
    assert "damaged" not in page
    assert 'class="fill-unknown"' in page
    assert "is locked" in _h1(page)


def test_destroyed_nodes_are_marked(tmp_path):
    """Each byte of overwritten leaves is damage; bars that contain some have a mark, and a sound disk has none."""
    image = FIXTURES / "hfsplus-scattered.img.zst"
    raw = bytearray(zstd.decompress(image.read_bytes()))
    sound = scan(image, drives=())
    nodes = sound.parts[0].layout.nodes
    leaves = nodes.filter((nodes["tree"] == "catalog") & (nodes["kind"] == "leaf"))[3:40:9]
    for place, size in leaves["image_offset", "size_bytes"].rows():
        raw[place : place + size] = b"\xa5" * size
    (tmp_path / "damaged.img").write_bytes(raw)
    disk, shares = _held(scan(tmp_path / "damaged.img", drives=()))
    held = {share.item.key: share.runs for share in shares}
    assert sorted(held["damaged"][:, 0] + disk.image_offset) == sorted(leaves["image_offset"])
    assert held["damaged"][:, 1].sum() == leaves["size_bytes"].sum()
    drawn = figure([disk], [shares])
    (marks,) = [trace for trace in drawn["data"] if trace["meta"]["part"] == "marks"]
    middles = (drawn["layout"]["yaxis"]["range"][1] / BINS) * (np.arange(BINS) + 0.5)
    bins = {int(np.abs(middles - (place - disk.image_offset) / 2**20).argmin()) for place in leaves["image_offset"]}
    assert len(marks["x"]) == len(bins)
    assert not [trace for trace in figure(*([one] for one in _held(sound)))["data"] if trace["meta"]["part"] == "marks"]
    first = re.search(r"the first at byte ([\d,]+): it is in use, but neither a leaf nor an index", disk.warnings[0])
    assert int(first[1].replace(",", "")) in set(leaves["image_offset"])


def test_an_image_that_is_cut_off_says_so_first(tmp_path):
    """An error of the image itself is the cause of errors in its volumes."""
    image = FIXTURES / "hfsplus-scattered.img.zst"
    raw = zstd.decompress(image.read_bytes())
    (tmp_path / "cut.img").write_bytes(raw[: len(raw) * 6 // 10])
    disk, shares = _held(scan(tmp_path / "cut.img"))
    page = first_screen([disk], [shares])
    assert re.match(r"The image is damaged: one error at byte [\d,]+: .*cut off", _h1(page))
    assert "“Scattered” is damaged: " in page


def test_axes_end_and_names_are_escaped(result):
    """The axis ends with the used space, and names are text."""
    # The axis ends with the used space, or with the disk.
    disk, shares = _held(result)
    larger = replace(disk, size_bytes=16 * disk.size_bytes)
    ends = [figure([one], [shares])["layout"]["yaxis"]["range"][1] for one in (disk, larger)]
    assert ends[0] == disk.size_bytes / 2**20
    assert disk.size_bytes / 2**21 < ends[1] <= ends[0]
    # A name is plain text in the sentence, above the row and in Plotly labels.
    disk, shares = _held(result)
    bad = "<b>&\"'"
    disk = replace(disk, title=bad, kind=bad, warnings=(bad,), story=(bad,))
    page = first_screen([disk] * 2, [shares] * 2)
    assert bad not in page
    assert "&lt;b&gt;&amp;" in page
    notes = figure([disk] * 2, [shares] * 2)["layout"]["annotations"]
    assert not any('<b>&"' in note["text"] for note in notes)


def test_devices_of_a_set_have_a_row_each():
    """Each device of a Fusion set has its own size and addresses; all of it is known, and no byte is on both."""
    images = [Path(FUSION) / name for name in ("main.img.zst", "tier2.img.zst")]
    if not all(image.exists() for image in images):
        pytest.skip("the images of the set are not beside the checkout")
    result = scan(images[0], second=images[1])
    main, second = disks([result])
    details = result.parts[0].layout.facts.details
    assert [main.size_bytes, second.size_bytes] == [details[f"bytes of device {number}"] for number in (0, 1)]
    shares = shares_of([main, second])
    for disk, own in zip((main, second), shares, strict=True):
        held = {share.item.key: share.size_bytes for share in own}
        assert sum(held.values()) == disk.size_bytes
        assert held["unclaimed"] == 0
    page = first_screen([main, second], shares)
    assert page.count('class="srow"') == 2
    assert _h1(page)


def test_a_device_has_the_reads_that_go_to_it(tmp_path):
    """Each device of a set shows its own reads in the time of the whole walk."""
    write(SCENARIOS["fusion"], tmp_path / "main.img", tmp_path / "second.img")
    both = disks([scan(tmp_path / "main.img", second=tmp_path / "second.img")])
    drive = drives_of(both)[0]
    dots = [0, 0]
    for trace in figure(both, shares_of(both))["data"]:
        if trace["meta"]["part"] == "dots":
            dots[trace["meta"]["disk"]] += len(trace["x"])
    walks = [walk for walk in both[0].walks if walk.drive == drive]
    assert dots == sum(np.bincount(walk.trace.device, minlength=2) for walk in walks).tolist()


def test_volumes_of_a_disk_are_walked_one_after_the_other(tmp_path):
    """The label has the time of all volumes, and the second one's dots begin where the first one's end."""
    write(SCENARIOS["volumes"], tmp_path / "volumes.img")
    (disk,) = disks([scan(tmp_path / "volumes.img")])
    drive = drives_of([disk])[0]
    walks = [walk for walk in disk.walks if walk.drive == drive]
    assert len(walks) == 2
    drawn = figure([disk], shares_of([disk]))
    x = np.sort(np.concatenate([trace["x"] for trace in drawn["data"] if trace["meta"]["part"] == "dots"]))
    expected = np.concatenate([walks[0].begin_s, walks[0].seconds + walks[1].begin_s])
    assert np.allclose(x, np.sort(expected))


def test_the_map_names_the_remedy_that_the_report_lists_first(result):
    """A change of a program that saves more than a drive comes after it on both."""
    remedies = (
        Remedy("names-only", 10.0, 0.9, "list names only"),
        Remedy("solid-state", 20.0, 0.8, "SSD", is_bought=True),
    )
    volume = next(item for item in result.parts if item.walk is not None)
    drive = volume.predictions[0].drive
    verdict = replace(volume.verdict, drive=drive, seconds=100.0, remedies=remedies)
    parts = tuple(replace(item, verdict=verdict) if item is volume else item for item in result.parts)
    made = replace(result, parts=parts)
    assert cause_of(disks([made]), drive).endswith(" What helps: SSD, 20.0 s.")
    lines = [line.plain for line in screen_lines(made)]
    place = next(number for number, line in enumerate(lines) if line.startswith("What helps"))
    assert [line.split() for line in lines[place + 1 : place + 3]] == [
        ["20", "s", "SSD"],
        ["10", "s", "in", "software:", "list", "names", "only"],
    ]


def test_what_counts_as_used_and_is_described_by_nothing_is_said(result):
    """Only a volume that contradicts itself has it; a sound one has neither the sentence nor the color."""
    disk, shares = _held(result)
    told = "count as used, and nothing that was read says by what"
    screen = first_screen([disk], [shares])
    assert disk.coverage == 1
    assert told not in screen
    assert "fill-unknown" not in screen
    leaked = [replace(share, item=UNCLAIMED) if share.item.key == FREE_SPACE.key else share for share in shares]
    size = next(share.size_bytes for share in shares if share.item.key == FREE_SPACE.key)
    screen = first_screen([disk], [leaked])
    assert f"{format_bytes(size)} {told}" in screen
    assert "fill-unknown" in screen
    assert told not in first_screen([replace(disk, coverage=0.5)], [leaked])


def test_a_notebook_gets_the_figure_of_the_page(pair):
    """The library's figure is that of the page, under its sentence; each color has one legend entry."""
    results = [scan(FIXTURES / f"{name}-scattered.img.zst") for name in ("hfsplus", "apfs")]
    drawn = layout_map(results)
    plain = figure(pair, shares_of(pair))
    assert len(drawn.data) == len(plain["data"])
    for one, other in zip(drawn.data, plain["data"], strict=True):
        assert np.array_equal(one.x, other["x"])
        assert np.array_equal(one.y, other["y"])
    title = drawn.layout.title.text.replace("<br>", " ")
    assert headline_of(pair)[:60] in title
    assert title.count("file list") == 1


def test_picture_needs_a_known_ending(result, tmp_path):
    """A picture is PNG or SVG."""
    with pytest.raises(UsageError):
        write_picture(result, tmp_path / "map.gif")


def test_missing_browser_is_one_clear_line(result, tmp_path, monkeypatch):
    """Without a browser the message says what to install, and nothing is written."""
    monkeypatch.setitem(write_picture.__globals__, "BROWSERS", ("no-such-browser",))
    with pytest.raises(UnsupportedError, match="install Chromium"):
        write_picture(result, tmp_path / "map.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.images
@pytest.mark.filterwarnings("ignore")  # kaleido's own
def test_picture_is_written(result, tmp_path):
    """An SVG of the figure is drawn by Chromium."""
    pytest.importorskip("kaleido", reason="the extra 'png' is not installed")
    if not any(shutil.which(name) for name in BROWSERS):
        pytest.skip("Chromium is not installed")
    write_picture(result, tmp_path / "map.svg")
    assert (tmp_path / "map.svg").read_bytes().startswith(b"<svg")
