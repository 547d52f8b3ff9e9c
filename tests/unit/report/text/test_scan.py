from __future__ import annotations

import io
import re

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope import scan
from layoutscope.access.trace import AccessTrace
from layoutscope.findings import Finding
from layoutscope.metrics import measure, measure_trace, tree_summaries
from layoutscope.metrics.scatter import space_use
from layoutscope.report.text.console import make_console
from layoutscope.report.text.scan import print_scan, volumes_first
from layoutscope.results.explanation import story
from layoutscope.results.scan import ImageFacts, Prediction, ScanResult, VolumeScan, WalkFacts
from layoutscope.tables import findings_table
from tests.layouts import NODE, data, entries, layout, leaves

EVIL = "a\x1b[2Jb\u202egpj.exe\nc\ud800[red]x[/red]"


def prediction(**changes):
    causes = (("seek", 1.0), ("rotation", 6.0), ("transfer", 0.5), ("overhead", 1.5), ("host", 1.0))
    plain = Prediction("generic-7200", "A disk", True, 10.0, 9.0, 11.0, causes, 5, 1000, 0.5, np.zeros(2))
    return replace(plain, **changes)


def volume(made, *, findings=(), predictions=(), walk=None):
    return VolumeScan(made, tree_summaries(made), space_use((made,)), measure(made), walk, predictions, findings)


def result(*volumes, findings=()):
    return ScanResult(ImageFacts("disk.img", 256 * NODE, 512, reads=3, read_bytes=5 * NODE), volumes, findings)


def printed(scan, *, width=80, explain=False):
    file = io.StringIO()
    print_scan(scan, make_console(file, width=width), details=True, explain=explain)
    return file.getvalue()


def full():
    made = layout(
        nodes=leaves(10, 11, 12, 40),
        extents=data((20, 100, 2), (20, 110, 1)),
        entries=entries((1, 2, "root", "directory", 0), (2, 20, "a", "file", 1)),
        free={"device": 0, "volume": 0, "image_offset": [200 * NODE], "length_bytes": [40 * NODE]},
    )
    trace = AccessTrace.from_reads(np.array([10, 11, 12, 40]) * NODE, np.full(4, NODE))
    walk = WalkFacts("fts", "linux", "asked", 4, 4 * NODE, measure_trace(trace, made), trace)
    flash = prediction(drive="sata-ssd", rotates=False, causes_s=(("seek", 0.0), ("rotation", 0.0), ("transfer", 10.0)))
    findings = (Finding("truncated", "error", "node", 4096, "ends past the image", "8192", "4096"),)
    return result(volume(made, findings=findings, predictions=(prediction(), flash), walk=walk))


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("explain", [False, True])
def test_lines_fit_the_width(width, explain):
    """No line is cut off or wider than the terminal, at 80 columns and more."""
    text = printed(full(), width=width, explain=explain)
    assert max(map(len, text.splitlines())) <= width
    assert "\u2026" not in text


def test_everything_of_a_scan_is_there():
    """Stack, tree, metric, prediction, finding with its address and both sides, coverage are present."""
    text = printed(full(), width=120)
    for part in ("bare > HFS+", "catalog", "Inversions", "generic-7200", "truncated: node", "4,096", "expected 8192"):
        assert part in text
    assert "Coverage: 100 % of 20.0 KiB" in text
    # The row of an SSD shows dashes instead of numbers for seek and rotation.
    (row,) = [line for line in printed(full(), width=120).splitlines() if line.startswith("sata-ssd")]
    assert re.search(r"\s-\s+-\s+100%", row)


def test_names_from_the_image_cannot_act():
    """Control and bidirectional characters, line ends and lone surrogates are escaped; markup stays text."""
    made = layout(nodes=leaves(1, 2), name=EVIL, stack=("bare", EVIL))
    findings = (Finding("truncated", "error", EVIL, None, EVIL),)
    text = printed(result(volume(made, findings=findings), findings=findings), width=200)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", text)
    assert "\\u001b[2J" in text
    assert "[red]x[/red]" in text


def test_findings_and_gaps_are_said():
    """Findings are sorted, and incomplete reading is said."""
    # Errors come before information; beyond twenty, findings are counted and not all shown.
    many = [Finding("truncated", "info", "node", number, "small") for number in range(30)]
    worst = Finding("checksum-mismatch", "error", "node", 99, "large")
    text = printed(result(volume(layout(nodes=leaves(1)), findings=(*many, worst))))
    assert "Findings (1 error, 30 notes, 20 shown)" in text
    assert text.index("checksum-mismatch") < text.index("truncated")
    # If half of the metadata was read, the report and the exit code say so.
    scan = result(volume(layout(nodes=leaves(1), metadata_known_bytes=4096, metadata_read_bytes=2048)))
    assert "Coverage: 50.0 % of 4.00 KiB" in printed(scan)
    assert (scan.coverage, scan.exit_code) == (0.5, 3)


@pytest.mark.parametrize(("level", "code"), [("info", 0), ("warning", 0), ("error", 3)])
def test_exit_code_follows_the_worst_finding(level, code):
    """Information and warnings leave the result complete; an error does not, at any position."""
    finding = Finding("structure-invalid", level, "node", 0, "x")
    assert result(volume(layout(nodes=leaves(1)), findings=(finding,))).exit_code == code
    assert result(volume(layout(nodes=leaves(1))), findings=(finding,)).exit_code == code


def test_an_image_that_ends_early_is_not_complete():
    """Even if all metadata is present, the exit code shows the gap."""
    finding = Finding("truncated", "warning", "image", 0, "x")
    assert result(volume(layout(nodes=leaves(1)), findings=(finding,))).exit_code == 3


def test_reads_and_times_come_first():
    """Reads and prediction come before trees, metrics and the volume's own facts."""
    text = printed(full())
    heads = (
        "Enumeration (",
        "Predicted",
        "Findings",
        "Metadata by tree",
        "Metrics",
        "describes itself",
        "Coverage",
    )
    found = [text.index(head) for head in heads]
    assert found == sorted(found)


def test_a_container_comes_behind_its_volumes():
    """A container describes what several volumes share, so it follows its volumes; HFS+ ends the group."""
    kinds = [(None, "apfs"), (0, "apfs"), (1, "apfs"), (None, "apfs"), (2, "apfs"), (3, "hfsplus")]
    made = [volume(layout(nodes=leaves(1), volume=number, filesystem=kind)) for number, kind in kinds]
    order = [next(place for place, one in enumerate(made) if one is item) for item in volumes_first(made)]
    assert order == [1, 2, 0, 4, 3, 5]


def test_stories_of_files():
    """Files are counted, as far as the volume is whole."""
    # If metadata is missing or the container is damaged, the time is only that of the data that was read.
    walked = scan("fixtures/images/apfs-scattered.img.zst", drives="sata-ssd")
    own, item = walked.parts
    assert story(item)[0].startswith("OK: listing all files takes about")
    short = item.layout.changed(facts=replace(item.layout.facts, metadata_read_bytes=4096))
    lost = Finding("checksum-mismatch", "error", "space manager", 4096, "checksum differs")
    broken = item.layout.inside(own.layout.changed(findings=findings_table([lost])))
    for made in (short, broken):
        assert story(replace(item, layout=made))[0].startswith("Listing what was read takes about")
    # One file, one directory and one read have singular nouns.
    reads = AccessTrace.from_reads(np.array([0]), np.array([NODE]))
    walk = WalkFacts("fts", "linux", "asked", 1, NODE, (), reads)
    text = printed(result(volume(layout(num_files=1, num_directories=1), walk=walk)))
    assert "1 file, 1 directory\n" in text
    assert ": 1 read, 4.00 KiB" in text
    # One of three leaves is a snapshot's: the table has all and says so; without it, there is no note.
    kept = layout(nodes=leaves(1, 2, 3, state=["live", "live", "snapshot"]))
    assert tree_summaries(kept)[0].snapshot_nodes == 1
    assert "Snapshots alone hold 1 node of these" in printed(result(volume(kept)))
    assert "Snapshots" not in printed(result(volume(layout(nodes=leaves(1, 2, 3)))))
    # If nothing could be read, nothing is claimed.
    assert story(volume(layout())) == ()
