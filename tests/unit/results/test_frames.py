"""Results as frames: every column is documented, sums equal totals, and pandas accepts them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import layoutscope
from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile, service
from layoutscope.errors import UsageError
from layoutscope.findings import Finding
from layoutscope.results.check import CheckedVolume, CheckResult
from layoutscope.results.compare import Comparison, MetricRow
from layoutscope.results.frames import costs_of
from layoutscope.results.scan import Prediction
from layoutscope.tables.frames import FRAMES, build_frame
from tests.layouts import NODE, data, entries, layout, leaves

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "images"
DRIVES = ["generic-7200", "sata-ssd"]


@pytest.fixture(scope="module", params=["hfsplus-scattered.img.zst", "apfs-scattered.img.zst"])
def session(request):
    with layoutscope.open(FOLDER / request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def predicted(session):
    return session.predict(drives=DRIVES)


def faulty():
    """Return a check with findings, which the committed images do not give."""
    finding = Finding("valence-differs", "error", "catalog node 3", 4096, "a folder counts other entries", "2", "3")
    return CheckResult("disk.img", (CheckedVolume("hfsplus", (finding,), 1.0),), ())


@pytest.fixture(scope="module")
def frames(session, predicted):
    """Make every frame that the library has for an image."""
    scanned = session.scan(drives=DRIVES)
    costs = session.volume.costs("generic-7200")
    return {
        "metrics": scanned.metrics,
        "times": scanned.times,
        "directories": predicted.directories,
        "reads": predicted.reads,
        "remedies": layoutscope.plan(session.path, drive=DRIVES[0]).remedies,
        "comparison": layoutscope.compare(session, session, drives=DRIVES).frame,
        "faults": faulty().frame,
        "node_costs": costs.nodes,
        "file_costs": costs.files,
        "directory_costs": costs.directories,
    }


def test_frames_have_documented_columns(frames):
    """Other columns are refused."""
    # Names, order and types equal those of the reference's source list, which is complete.
    assert set(frames) == set(FRAMES)
    for name, frame in frames.items():
        assert frame.schema == {column.name: column.dtype for column in FRAMES[name]}, name
        assert frame.height > 0, name
    # A frame with undocumented columns cannot be returned.
    with pytest.raises(ValueError, match="other columns: \\['colour'\\]"):
        build_frame(
            "directory_costs", {column: [1] for column in ("directory_id", "path", "reads", "seconds", "colour")}
        )


@pytest.mark.parametrize("name", FRAMES)
def test_every_column_says_what_it_means_and_in_which_unit(name):
    """Each has a meaning, and each measured number a unit; identifiers, levels, ratios and booleans have none."""
    plain = {"directory_id", "file_id", "node_id", "level", "device", "issuer", "ratio", "share", "helps"}
    for column in FRAMES[name]:
        assert column.doc, column.name
        is_text = column.kind in ("String", "Categorical")
        assert is_text or bool(column.unit) is (column.name not in plain), column.name


def test_directories_and_reads_sum_up_to_the_predicted_time(predicted):
    """On each drive, the costs of directories, and those of reads plus the host's time, add up to the whole time."""
    for time in predicted.times.iter_rows(named=True):
        for frame, seconds in ((predicted.directories, ["seconds"]), (predicted.reads, ["host_s", "service_s"])):
            own = frame.filter(drive=time["drive"])
            assert own.select(pl.sum_horizontal(seconds)).sum().item() == pytest.approx(time["seconds"], rel=1e-9)
        assert predicted.directories.filter(drive=time["drive"])["reads"].sum() == time["reads"]
        assert predicted.reads.filter(drive=time["drive"]).height == time["reads"]


@pytest.mark.parametrize("order", ["fts", "names", "copy"])
def test_nodes_files_and_directories_each_sum_up_to_the_predicted_time(session, order):
    """For every workload, no time is left out or counted twice."""
    costs = session.volume.costs("generic-7200", order=order)
    assert costs.seconds == pytest.approx(session.predict(order=order, drives="generic-7200").times["seconds"][0])
    for frame in (costs.nodes, costs.files, costs.directories):
        assert frame["seconds"].sum() == pytest.approx(costs.seconds, rel=1e-9)
        assert (frame["seconds"] >= 0).all()


def test_paths_and_worst_directories(predicted, session):
    """Directories and paths are those of the text and of the entries."""
    # The frame begins with the list that ``predict`` prints, with the same paths.
    listed = [(item.path, item.reads) for item in predicted.volumes[0].drives[0].directories]
    first = predicted.directories.filter(drive=DRIVES[0]).head(len(listed))
    assert list(first.select("path", "reads").iter_rows()) == listed
    # Each charged file is present under the last name of its path.
    files = session.volume.costs("sata-ssd").files.drop_nulls("file_id")
    names = session.volume.entries.select("file_id", "name").unique("file_id")
    both = files.join(names, on="file_id", how="left").filter(pl.col("path") != "/")
    assert both.height > 1000
    assert both["path"].str.ends_with("/").sum() == 0
    assert (both["path"].str.split("/").list.last() == both["name"]).sum() >= both.height - 16  # hard links


def test_who_pays_for_a_read_is_arithmetic():
    """A read of two nodes is divided by their bytes, a node among those with records in it; data is its file's.

    Nodes 0 and 1 lie in one read of 3 nodes' length, of which the last holds nobody's bytes; node 0 has records of two
    entries, node 1 of one. The second read brings the data of file 17.
    """
    rows = {**entries((2, 16, "a", "file", 0), (2, 17, "b", "file", 0)), "entry_node_row": [0, 1]}
    made = layout(nodes=leaves(1, 2), entries=rows, extents={**data((17, 9, 1), (4, 1, 2)), "node_row": None})
    reads = AccessTrace.from_reads(np.array([NODE, 9 * NODE]), np.array([3 * NODE, NODE]))
    profile = load_profile("generic-7200")
    prediction = Prediction.of(service(reads, profile), profile)
    both, alone = prediction.service_s.tolist()
    costs = costs_of(made, reads, prediction, "fts")
    nodes = {row: (seconds, files) for row, seconds, files in costs.nodes.select("row", "seconds", "files").iter_rows()}
    assert nodes == {
        0: (pytest.approx(both / 2), 2),
        1: (pytest.approx(both / 2), 1),
        None: (pytest.approx(alone), None),
    }
    files = dict(costs.files.select("path", "seconds").iter_rows())
    assert files == {"/a": pytest.approx(both / 4), "/b": pytest.approx(both * 3 / 4 + alone)}
    assert costs.directories.row(0) == (0, "(no directory)", 2, pytest.approx(both + alone))


def test_differences_are_to_the_first_side_and_orders_are_rows(session):
    # B minus A, B over A; no ratio if A is zero; no difference if a side is missing.
    common = MetricRow("m", "M", "bytes", "files", (4.0, 6.0, None))
    rows = (common, MetricRow("z", "Z", "share", "files", (0.0, 1.0, 2.0)))
    found = Comparison(("x", "y", "z"), rows, (), (None, None), "", (1.0, 1.0, 1.0), ("linux",) * 3).frame
    told = list(found.select("side", "name", "metric", "value", "difference", "ratio").iter_rows())
    assert told[0] == ("A", "x", "m", 4.0, 0.0, 1.0)
    assert told[1] == ("B", "y", "m", 6.0, 2.0, 1.5)
    assert told[2] == ("C", "z", "m", None, None, None)
    assert told[4][3:] == (1.0, 1.0, None)
    # With ``order="all"``, there is a row for each applicable order and each drive.
    result = session.predict(order="all", drives=DRIVES)
    applicable = [case.order for case in result.orders[0].orders if not case.why_not]
    assert result.times["order"].unique().sort().to_list() == sorted(applicable)
    assert result.times.height == 2 * len(applicable)
    # The error for a container, or a volume without entries, says so.
    with pytest.raises(UsageError, match="can be walked"):
        layout().costs("generic-7200")
    with pytest.raises(TypeError, match="a workload has no 'ordr'"):
        layout().costs("generic-7200", ordr="names")


def test_pandas_takes_every_frame(frames, session):
    """Both frames of results and tables of a layout keep rows and columns in ``to_pandas``."""
    pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="polars hands frames to pandas through pyarrow, which is not installed")
    for name, frame in {**frames, "nodes": session.volume.nodes, "entries": session.volume.entries}.items():
        converted = frame.to_pandas()
        assert list(converted.columns) == frame.columns, name
        assert len(converted) == frame.height, name
