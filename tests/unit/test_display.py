"""Display of the library's objects in consoles and notebooks: short lines, sortable tables, escaped names."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from msgspec import Struct
from msgspec.structs import astuple

import layoutscope
from layoutscope.display import Displayed, brief, shorten
from layoutscope.findings import Finding
from layoutscope.report.notebook import MAX_ROWS, draw_density_strip, table, to_html
from layoutscope.results.inspect import FieldLine, Inspection, Owner, StructureLines
from layoutscope.tables import VolumeLayout
from tests.layouts import layout, leaves

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "images"
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e'\"&"
VOID = {"rect", "meta", "br"}


class Parsed(HTMLParser):
    """Opened and closed tags, attributes with external targets, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.open, self.links, self.text = [], [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):  # noqa: D102
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):  # noqa: D102
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):  # noqa: D102
        self.text += data


@pytest.fixture(scope="module", params=["hfsplus-scattered.img.zst", "apfs-scattered.img.zst"])
def session(request):
    """Open an image."""
    with layoutscope.open(FOLDER / request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def scanned(session):
    """Scan the image."""
    return session.scan(drives=["generic-7200", "sata-ssd"])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Call every verb on an image."""
    with layoutscope.open(FOLDER / "apfs-scattered.img.zst") as session:
        scanned = session.scan(drives=["generic-7200", "sata-ssd"])
        trace = tmp_path_factory.mktemp("trace") / "reads.csv"
        layoutscope.write_trace(session.trace(), trace)
        yield [
            session, scanned, scanned.volume.walk.trace, session.predict(drives="generic-7200", what_ifs=["ssd"]),
            session.predict(order="all", drives="sata-ssd"), session.inspect(cnid=2), session.check(),
            layoutscope.compare(session, session, drives="generic-7200"),
            layoutscope.series([session, session], drives="sata-ssd"),
            layoutscope.replay(trace, drives="generic-7200", against=session), layoutscope.verify(session),
            *layoutscope.drives(["generic-7200", "sata-ssd"]), session.volume.costs("generic-7200"),
            layoutscope.service(session.trace(), layoutscope.load_profile("generic-7200")), session.volumes,
        ]  # fmt: skip


def objects(found, seen=None):
    """Yield every object of the library in the results, once per kind and place."""
    seen = set() if seen is None else seen
    for item in found:
        # Members of enumerations are strings.
        if id(item) in seen or isinstance(item, str) or not type(item).__module__.startswith("layoutscope."):
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, VolumeLayout):
            yield from objects([item.facts, *item.facts.trees], seen)
        elif isinstance(item, Struct):
            for value in astuple(item):
                inside = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
                yield from objects(list(inside)[:50], seen)


@pytest.mark.full
def test_every_object_is_a_short_line_and_a_page(results):
    """Each object has a short repr, and HTML with closed tags."""
    # No repr is longer than 300 characters or has several lines, and each begins with its kind.
    kinds = set()
    for item in objects(results):
        text = repr(item)
        assert len(text) < 300, text
        assert "\n" not in text
        assert re.match(r"[A-Z]\w+\(", text), text
        kinds.add(type(item).__name__)
    assert {"ScanResult", "VolumeScan", "VolumeLayout", "Metric", "AccessTrace", "DriveProfile", "Session"} <= kinds
    assert len(kinds) > 30
    # Each is HTML with closed tags and its own size that does not access the network.
    for item in objects(results):
        page = item._repr_html_()
        assert page, type(item)
        parsed = Parsed(page)
        assert parsed.open == [], type(item)
        assert parsed.links == []
        assert len(page) < 1_000_000, type(item)


def test_a_result_is_its_text_with_tables_below(scanned):
    """A scan shows its verdict, and its metrics as a sortable table."""
    page = to_html(scanned)
    assert "listing all files" in Parsed(page).text
    assert page.count("<table") == 2
    assert 'onclick="(h=&gt;' in page
    assert f"metrics: {scanned.metrics.height:,} rows" in page


def test_names_from_an_image_are_text(session):
    """Tags, control characters and reversed text in names are displayed without effect, in lists, facts and frames."""
    hostile = layout(name=HOSTILE)
    finding = Finding("truncated", "error", HOSTILE, 0, HOSTILE, HOSTILE, HOSTILE)
    line = StructureLines(HOSTILE, 0, (FieldLine(HOSTILE, 0, 1, HOSTILE),), HOSTILE)
    owner = Owner(HOSTILE, "file", 0, 1, ((HOSTILE, HOSTILE),))
    frame = session.predict(drives="generic-7200").directories.head(1).with_columns(path=pl.lit(HOSTILE))
    pages = [to_html(item) for item in (hostile, hostile.facts, finding, line, owner)]
    pages += [Inspection(HOSTILE, HOSTILE, (owner,), (line,))._repr_html_(), table(frame.columns, frame.iter_rows())]
    for page in pages:
        parsed = Parsed(page)
        assert "script" not in parsed.tags
        assert "alert(1)" in parsed.text
        assert not {"\x1b", "\u202e"} & set(page)
    for item in (hostile, hostile.facts, finding, line, owner):
        assert not {"\x1b", "\u202e", "\n"} & set(repr(item))


def test_tables_say_how_long_they_are_and_sort_as_numbers():
    """Long tables show their first rows; cells have the number itself."""
    # A frame of millions of rows shows the first ones.
    rows = [(number,) for number in range(MAX_ROWS)]
    assert f"{MAX_ROWS:,} of 1,234,567 rows" in table(("n",), rows, 1_234_567)
    assert " rows<" not in table(("n",), rows, MAX_ROWS)
    # Cells have the number itself next to its formatted text.
    assert table(("n",), [(1234567,), (None,)]).count('<td class="n" data-v="1234567">1,234,567</td>') == 1


def test_the_strip_shows_where_nodes_lie():
    """With 256 blocks in 128 pieces, nodes in blocks 2, 3 and 255 make piece 1 dark and the last one light."""
    drawn = draw_density_strip(layout(nodes=leaves(2, 3, 255)))
    assert re.findall(r'<rect x="(\d+)" [^>]*fill-opacity="([\d.]+)"', drawn) == [("1", "1.00"), ("127", "0.57")]
    assert "<rect" not in draw_density_strip(layout())


def test_a_line_has_what_is_short_and_counts_the_rest():
    """Long texts are cut, long lists are counted, and objects are named."""
    assert shorten("x" * 99) == repr("x" * 99)[:60] + "…'"
    assert shorten((1, 2)) == "(1, 2)"
    assert shorten(tuple(range(9))) == "9 of int"
    assert shorten(layout().facts) == "VolumeFacts('tiny')"
    assert len(brief(layout().facts)) < 300
    # The repr of a layout counts rows without converting tables to frames.
    made = layout(nodes=leaves(2, 3))
    assert repr(made) == "VolumeLayout(HFS+ 'tiny', 'live', 2 nodes, 0 entries, 0 extents, 0 findings)"
    assert "frame" not in vars(made.columns("nodes"))
    # A notebook shows the repr if the library was loaded only in part.
    draw = Displayed._html
    try:
        Displayed._html = None
        assert layout()._repr_html_() is None
    finally:
        Displayed._html = draw


def test_figures_are_drawn_without_a_network(scanned):
    """The map's page is in its own iframe, with its scripts and a policy that blocks other sources."""
    drawn = scanned.figure()
    page = drawn._repr_html_()
    assert repr(drawn) == "LayoutMap(1 disk)"
    (frame,) = re.findall(r'srcdoc="([^"]*)"', page)
    inside = unescape(frame)
    assert 'id="plotly"' in inside
    assert "default-src 'none'" in inside
    assert not re.search(r"<script[^>]+src=", inside)
