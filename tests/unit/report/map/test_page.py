"""The page as text: deterministic, and without active content from the image."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from layoutscope.api.map import map_page
from layoutscope.api.scan import scan
from layoutscope.report.map import MapDisk, MapWalk, pyramid
from layoutscope.report.map.figure import names_of
from layoutscope.report.map.page import comparison
from layoutscope.report.map.scans import disks
from tests.pages import bytes_of, unpacked

IMAGE = Path(__file__).resolve().parents[4] / "fixtures" / "images" / "hfsplus-scattered.img.zst"


@pytest.fixture(scope="module")
def result():
    return scan(IMAGE)


def test_a_page_is_deterministic_and_inert(result):
    """Two scans of one image give the same page, byte for byte."""
    assert map_page([result]) == map_page([scan(IMAGE)])
    # Its policy forbids every origin, and no element names one.
    page = map_page([result])
    assert "default-src 'none'" in page
    assert re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", page) == []
    # Without names, the page has neither the volume's name nor a file's.
    page = map_page([result], names=False)
    name = result.parts[0].layout.facts.name
    assert name not in page.split('id="plotly"')[0]


def test_disks_are_called_what_tells_them_apart(result, tmp_path):
    """Disks are named by file system if the two differ in it, else by title."""
    shutil.copy(IMAGE, tmp_path / "other.img.zst")
    others = (tmp_path / "other.img.zst", IMAGE.with_name("apfs-scattered.img.zst"))
    names = [names_of(disks([result, scan(other)])) for other in others]
    assert [name.partition(":")[0] for name in names[0]] == [IMAGE.name, "other.img.zst"]
    assert names[1] == ["HFS+", "APFS"]
    assert names_of(disks([result])) == [""]


def test_snapshots_are_named_with_their_newest_transaction():
    """The committed APFS image has one snapshot; the slider has it, with its name only if names are allowed."""
    scanned = scan(IMAGE.with_name("apfs-scattered.img.zst"))
    layout = next(volume.layout for volume in scanned.parts if volume.layout.entries.height)
    held = layout.node_views.filter(pl.col("view").cast(pl.String) != "live")
    newest = layout.nodes.filter(pl.col("row").is_in(held["node_row"].implode()))["xid"].max()
    ((label, xid),) = disks([scanned])[0].states
    assert (label.startswith("snapshot "), xid) == (True, newest)
    assert disks([scanned], names=False)[0].states == [("snapshot 1", newest)]


def test_snapshots_and_digits_of_a_page():
    """Any bytes of any length survive; no digit can end a string, a script or an element."""
    assert len(set(pyramid.ALPHABET)) == 85
    assert not set(pyramid.ALPHABET) & set("\"'`<>&\\ \n")
    data = np.random.default_rng(3).integers(0, 256, 1003, np.uint8).tobytes()
    assert all(bytes_of(pyramid.characters(data[:size])) == data[:size] for size in (0, 1, 2, 3, 4, 5, 1003))
    assert bytes_of(pyramid.characters(b"\xff" * 8)) == b"\xff" * 8
    # The page's unpacker in TypeScript has its own copy of the digits.
    from layoutscope.report.map.page import asset

    assert json.dumps(pyramid.ALPHABET) in asset("boot.js")
    assert json.dumps(pyramid.ALPHABET) in asset("page.js")
    # Angle brackets and ampersands are escaped within the data.
    assert set("<>&") & set(pyramid.script_json({"name": "</script><!--&"})) == set()


@pytest.mark.parametrize("values", [[0, 255], [0, 65535], [-5, 70000], [0, 2**40], []])
@pytest.mark.parametrize("delta", [False, True])
def test_arrays_survive_packing(values, delta):
    """Unpacking as the page does restores the numbers."""
    packed = pyramid.array(np.array(values, np.int64), delta=delta)
    assert unpacked(packed) == values


def _disk(entries: int, seconds: float, drive: str = "generic-7200") -> MapDisk:
    trace = np.empty(0)
    draws = tuple(seconds * share for share in (0.5, 1.0, 2.0))
    walk = MapWalk("fts", drive, trace, trace, {"seek": seconds}, entries=entries, draws_s=draws)
    return MapDisk(f"{entries} <entries>", "", [], 0, 1, 1, [walk])


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (
            (1000, 480.0),
            (1000, 40.0),
            "Listing every file takes 1000 <entries> 12 times (12 to 12) as long as 1000 <entries>: 8 min",
        ),
        (
            (1000, 480.0),
            (2000, 40.0),
            "Listing 1,000 files and folders takes 1000 <entries> 24 times (24 to 24) as long as 2000 <entries>:",
        ),
        ((1000, 40.0), (1000, 41.0), None),
        ((1000, 480.0), (0, 40.0), None),
        ((1000, 480.0), (1000, 40.0, "sata-ssd"), None),
    ],
)
def test_two_disks_are_compared_only_where_they_can_be(one, other, told):
    """The same walk on the same drive, per 1,000 entries if their numbers differ; near values count as equal."""
    sentence = comparison([_disk(*other), _disk(*one)])
    assert told in sentence if told else sentence == ""


def test_pages_of_curves_need_no_package_that_may_be_missing(tmp_path):
    """Comparisons and series need only packages of every installation: neither frames nor Plotly's own package."""
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('plotly', 'polars', 'duckdb', 'kaleido')))\n"
        "import layoutscope; from layoutscope.api.compare import write_plot\n"
        "images = sys.argv[1:3]\n"
        "for number, made in enumerate((layoutscope.compare, layoutscope.series)):\n"
        "    write_plot(made(images, drives='sata-ssd'), f'{sys.argv[3]}/{number}.html')\n"
    )
    images = [IMAGE.with_name(f"{name}-scattered.img.zst") for name in ("hfsplus", "apfs")]
    done = subprocess.run(
        [sys.executable, "-c", script, *images, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all('class="swalk"' in (tmp_path / f"{number}.html").read_text("utf-8") for number in range(2))


def test_a_page_over_a_batch_says_what_it_lacks():
    script = (
        "import sys; sys.modules['duckdb'] = None\n"
        "from layoutscope.errors import UnsupportedError; from layoutscope.fleet.query import duckdb\n"
        "try: duckdb()\n"
        "except UnsupportedError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "the package duckdb is missing: it reads the tables of a batch" in done.stdout
    assert "queries" not in done.stdout
