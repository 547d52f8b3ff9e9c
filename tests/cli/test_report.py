"""The page over a batch: its statements about volumes, and that names cannot act on its reader."""

import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import polars as pl
import pytest

import layoutscope
from layoutscope.errors import UsageError
from layoutscope.report.fleetpage import BINS, FleetPage, VolumeCard, draw_strip, fleet_page
from layoutscope.units import format_seconds, format_share
from tests.cli.conftest import IMAGES

SCORE = {"walk request-layout-score": ("Requests in sequence", "share")}
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e\"'"


def card(name, *, seconds=1.0, reads=100, entries=1000, score=0.5, predicted=True, **more):
    given = {"source": name, "path": f"disks/{name}.img", "status": "complete", "volume": f"HFS+ {name}", "name": name}
    given |= {
        "kind": "HFS+",
        "size_bytes": 2**30,
        "entries": entries,
        "seconds": (seconds if isinstance(seconds, dict) else {"disk": seconds}) if predicted else {},
        "reads": reads,
    }
    given |= {
        "metrics": {"walk request-layout-score": score},
        "age_days": 10.0,
        "metadata": (0.1,) * BINS,
        "data": (0.9,) * BINS,
    }
    return VolumeCard(**(given | more))


def fleet_of(*cards, **more):
    given = {"title": "fleet", "made": "made by hand", "counts": {"complete": len(cards)}, "order": "fts"}
    given |= {"drives": ("disk",), "metrics": SCORE, "volumes": cards, "failures": ()}
    return FleetPage(**(given | more))


@pytest.mark.parametrize(
    ("cards", "said", "unsaid"),
    [
        ((), "Nothing could be read.", "slowest"),
        ((card("a"),), "a of a.img: 1.00 s for 1,000 entries", "slowest"),
        ((card("a"), card("b", seconds=9.0)), "The slowest of 2 volumes is b", "median"),
        ((card("a"), card("b"), card("c", seconds=1.1)), "The slowest of 3", "median"),
        (
            (card("a"), card("b"), card("c", seconds=4.0)),
            "of 3 volumes is c of c.img: 4.00 s for 1,000",
            "damaged",
        ),
        ((card("a", entries=50, seconds=9.0),), "There is no volume to compare.", "slowest"),
        ((card("a", predicted=False), card("b", predicted=False)), "There is no volume to compare.", "slowest"),
    ],
)
def test_the_first_sentence_compares_only_what_can_be_compared(cards, said, unsaid):
    """States are counted; neither a median of two, nor a rank of one, nor a volume of a few files is compared."""
    found = fleet_of(*cards, counts={"complete": len(cards), "damaged": 0, "failed": 2}).headline()
    assert said in found
    assert unsaid not in found
    assert not cards or found.startswith(f"{len(cards) + 2} sources: {len(cards)} complete, 2 failed. ")
    assert "4.00" not in said or found.endswith(" on a disk, 4.0 times the median.")


def test_drives_are_called_as_on_every_other_page():
    """The usual drives in words, in the first sentences, the table and the charts; one from a file by its own name."""
    cards = [card(name, seconds={"generic-7200": 1.0, "mine": 2.0}) for name in "abc"]
    page = fleet_page(fleet_of(*cards, drives=("generic-7200", "mine")))
    # Two sentences, a column head, two charts, and the sentence of one of them.
    assert page.count("3.5-inch disk (7200 rpm)") == 6
    assert "generic" not in page
    assert "1,000 entries on mine</h3>" in page


def test_time_is_split_into_reads_next_to_the_state_of_a_volume():
    """500 reads in 5 s for 1,000 entries are 10 ms each; damaged volumes are called so before all numbers."""
    page = fleet_page(fleet_of(card("many", status="damaged", seconds=5.0, reads=500), card("none", reads=None)))
    rows = re.findall(r'<tr id="v(\d)">(.*?)</tr>', page)
    cells = {place: re.findall(r'<td class="n"[^>]*>(.*?)</td>', row)[2:6] for place, row in rows}
    assert cells == {"0": ["5.00 s", "500", "10 ms", "5.00 s"], "1": ["1.00 s", "", "", "1.00 s"]}
    heads = re.findall(r'<th scope="col"[^>]*>(?:<button type="button">)?([^<]*)', page)
    assert heads[:4] == ["Volume", "State", "Kind", "Layout"]
    assert re.search(r'<tr id="v0"><td class="name".*?</td><td class="status status-damaged">damaged', page)


def test_names_from_disks_cannot_act():
    """Markup, control characters and direction overrides are shown; only the page's own style and script may run."""
    bad = card(HOSTILE, kind=HOSTILE, status=HOSTILE, map_page=f"maps/{HOSTILE}.html")
    page = fleet_page(
        fleet_of(bad, card("b"), card("c"), title=HOSTILE, failures=((HOSTILE,) * 3,), left_out=(HOSTILE,))
    )
    assert "<img src=x" not in page
    assert page.count("</script>") == 1
    assert not set(page) & set("\x1b\u202e")
    policy = re.search(r'Security-Policy" content="([^"]*)"', page)[1]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r"(?:src|href)=\"(?!data:image/png|#v\d|maps/)", page)


def test_a_strip_is_a_picture_of_where_things_lie():
    """The strip of a volume shows metadata at their places, and nothing for an unread volume."""
    assert draw_strip(card("a", metadata=(), data=())) == ""
    half = draw_strip(card("a", metadata=(0.5,) * (BINS // 2) + (0.0,) * (BINS // 2)))
    assert 'alt="metadata in 50.0 % of its parts"' in half
    assert half != draw_strip(card("a"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A batch of two images, one of them twice, and a file that is none."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    folder = tmp_path_factory.mktemp("report")
    (folder / "disks").mkdir()
    for name in ("hfsplus", "apfs"):
        shutil.copy(IMAGES / f"{name}-scattered.img.zst", folder / "disks")
    (folder / "disks" / "note.txt").write_text("no disk")
    layoutscope.batch(folder / "disks", folder / "fleet", drives=["generic-7200", "sata-ssd"])
    return folder / "fleet"


def test_the_page_has_the_figures_of_the_tables(fleet, tmp_path):
    """Entries, times and ages equal those of volumes, predictions and entries; strips follow the nodes."""
    found = layoutscope.write_report(fleet, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text("utf-8")
    assert found.exit_code == 0
    assert found.headline in unescape(text)
    rows = re.findall(r'<tr id="v\d+">(.*?)</tr>', text)
    assert len(rows) == found.volumes == 2
    times = pl.read_parquet(fleet / "predictions.parquet").filter(drive="generic-7200")["seconds"]
    for row in rows:
        numbers = [float(value) for value in re.findall(r'data-v="([^"]+)"', row)]
        entries, pace, _, _, seconds = numbers[1:6]
        assert pace == pytest.approx(seconds * 1000 / entries)
        assert seconds in [pytest.approx(value, rel=1e-8) for value in times]
    assert "is a text file" in text
    # Both have a row in the figure, with one dot per distinct address in the trace.
    assert text.count('class="swalk"') == 2
    assert "No reads are stored" not in text
    for seconds in times:
        assert f"{format_seconds(seconds)}, " in text
    for path in (IMAGES / "hfsplus-scattered.img.zst", IMAGES / "apfs-scattered.img.zst"):
        layout = layoutscope.read_layouts(path)[-1]
        start, size = layout.facts.image_offset, layout.facts.size_bytes
        nodes = layout.nodes.filter(pl.col("state") != "stale")
        bins = set(((nodes["image_offset"] - start) * BINS // size).to_list())
        regions = layout.regions.filter(
            ~pl.col("type").is_in(["data", "file-data", "snapshot-data", "referenced-data"])
        )
        ends = regions["image_offset"] + regions["length_bytes"] - 1
        for low, high in zip(regions["image_offset"], ends, strict=True):
            bins |= set(range((low - start) * BINS // size, (high - start) * BINS // size + 1))
        here = len({each for each in bins if 0 <= each < BINS})
        assert f"metadata in {format_share(here / BINS)} of its parts" in text


def test_the_page_says_whose_driver_its_times_are_of(tmp_path):
    """Batches with a Mac's and with Linux's listings are distinguished."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    for host in ("macos", "linux"):
        layoutscope.batch(IMAGES / "hfsplus-scattered.img.zst", tmp_path / host, drives="sata-ssd", host=host)
        layoutscope.write_report(tmp_path / host, tmp_path / f"{host}.html")
        assert (
            f"predicted times are of the order fts as on {host} on SATA SSD" in (tmp_path / f"{host}.html").read_text()
        )


def test_names_are_left_out_where_that_is_asked(fleet, tmp_path):
    """The page has neither paths nor names of volumes."""
    layoutscope.write_report(fleet, tmp_path / "a.html", names=False)
    text = (tmp_path / "a.html").read_text("utf-8")
    assert "scattered" not in text.lower()
    assert str(fleet) not in text
    assert "note.txt" not in text


def test_maps_lie_beside_the_page(fleet, tmp_path):
    """--maps writes one per capture, and its volume's name links to it."""
    layoutscope.write_report(fleet, tmp_path / "a.html", maps=True)
    addresses = re.findall(r'href="(a-maps/[^"]+)"', (tmp_path / "a.html").read_text("utf-8"))
    assert len(addresses) == len(set(addresses)) == 2
    assert all('id="plotly"' in (tmp_path / address).read_text("utf-8") for address in addresses)
    with pytest.raises(UsageError, match="exists"):
        layoutscope.write_report(fleet, tmp_path / "a.html")


def test_maps_are_written_into_no_file_and_through_no_link(fleet, tmp_path):
    """In place of their folder: the error names it, and nothing is written."""
    (tmp_path / "letters").mkdir()
    (tmp_path / "a-maps").write_text("mine")
    (tmp_path / "b-maps").symlink_to("letters")
    for name, said in (("a", "a-maps: is not a folder, and maps are written into it"), ("b", "b-maps: is a link")):
        with pytest.raises(UsageError, match=said):
            layoutscope.write_report(fleet, tmp_path / f"{name}.html", maps=True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a-maps", "b-maps", "letters"]


def test_a_damaged_capture_takes_its_strip_alone(fleet, tmp_path):
    """The volume keeps its row, the exit code is 3, and a line says what is missing."""
    harmed = Path(shutil.copytree(fleet, tmp_path / "fleet"))
    (next(harmed.glob("captures/hfs*")) / "0" / "nodes.parquet").write_bytes(b"PAR1 nothing PAR1")
    command = [sys.executable, "-m", "layoutscope", "report", str(harmed), "-o", str(tmp_path / "a.html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "left out: captures/hfs" in done.stderr
    text = (tmp_path / "a.html").read_text("utf-8")
    assert text.count('<tr id="v') == 2
    assert "nodes.parquet" in text
    assert text.count('class="swalk"') == 1
    assert "No reads are stored of 1 of the 6 slowest volumes" in text


def test_what_is_no_batch_is_refused(tmp_path):
    """A folder of images, or a missing one, gives one line."""
    for place in (tmp_path, tmp_path / "nowhere", Path(__file__)):
        with pytest.raises(UsageError, match="is not a batch"):
            layoutscope.write_report(place, tmp_path / "a.html")
    with pytest.raises(UsageError, match="ends in"):
        layoutscope.write_report(tmp_path, tmp_path / "a.csv")
