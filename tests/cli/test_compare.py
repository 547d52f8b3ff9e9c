"""``compare``, ``series``, ``verify``, ``checkpoints`` and ``map --difference``: two images or states."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

import layoutscope
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope import compare, scan
from tests.cli.conftest import IMAGES


def test_a_volume_equals_itself(run, image):
    """All ratios of a comparison with itself are 1, and no node moved."""
    document = json.loads(run("compare", image, image, "--json", "--drive", "generic-7200").stdout)
    assert all(row["ratio"] in (1, None) for row in document["metrics"] + document["times"])
    (change,) = document["changes"]
    assert (change["moved"], change["appeared"], change["went"]) == (0, 0, 0) if change else True


def test_two_file_systems_stand_side_by_side(run, image, apfs_image):
    """The values are those of the scans and of the library; trees that are listed share a row though named apart."""
    document = json.loads(run("compare", image, apfs_image, "--json", "--drive", "generic-7200").stdout)
    rows = {(row["name"], row["subject"]): row["values"] for row in document["metrics"]}
    for side, path, tree in ((0, image, "catalog"), (1, apfs_image, "fs")):
        volume = next(item for item in scan(path, drives=()).parts if item.walk is not None)
        expected = {metric.name: metric.value for metric in volume.metrics if metric.subject == tree}
        assert rows["key-order-inversions", "enumerated tree"][side] == expected["key-order-inversions"]
    assert document["changes"] == [None]
    assert "generic-7200" in document["verdict"]
    assert compare([image, apfs_image], drives=["generic-7200"]).verdict == document["verdict"]
    text = " ".join(run("compare", image, apfs_image).stdout.split())
    assert all(part in text for part in ("A: scattered.img", "B: apfs.img", "of the difference is"))
    assert run("compare", image).exit_code == 2


@pytest.mark.full
@pytest.mark.parametrize("which", ["image", "apfs_image"])
def test_verify_finds_no_difference_on_the_committed_images(run, request, which):
    """It parses every node, and the records of each tree."""
    result = run("verify", request.getfixturevalue(which), "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["exit_code"]) == (0, 0)
    assert {table["table"] for table in document["tables"]} & {"catalog", "fs"}
    assert sum(table["rows"] for table in document["tables"]) > 1000


def test_a_count_that_differs_is_told():
    """A node whose row has another number of records is named with both numbers, and the exit code is 3."""
    from layoutscope.api.check import compare_nodes
    from layoutscope.results.check import Verification
    from tests.layouts import layout, leaves

    some = layout(nodes=leaves(1, 2, num_records=[5, 6]))
    view = SimpleNamespace(read=lambda *_: b"", compare_node=lambda *_: (6, []))
    nodes, *trees = compare_nodes(some, view)
    (first,) = nodes.differences
    assert first.endswith(": 5 records in the table, 6 in the node")
    assert [tree.differences for tree in trees] == [()]
    assert Verification("x", (nodes, *trees)).exit_code == 3


def test_checkpoints_of_apfs(run, apfs_image, image):
    """The newest is complete, and reading it by its xid gives the result of a plain scan. HFS+ keeps one state."""
    states = json.loads(run("checkpoints", apfs_image, "--json").stdout)["states"]
    newest = states[0]
    assert (newest["kind"], newest["is_complete"]) == ("checkpoint", True)
    assert newest["num_sound_nodes"] == newest["num_nodes"] > 0
    text = run("checkpoints", apfs_image).stdout  # includes the newest, so they are not all called older
    assert text.splitlines()[0] == "States (--xid or --snapshot reads one)"
    plain = json.loads(run("scan", apfs_image, "--json", "--drive", "sata-ssd").stdout)
    older = json.loads(run("scan", apfs_image, "--json", "--drive", "sata-ssd", "--xid", newest["xid"]).stdout)
    assert [volume["trees"] for volume in older["volumes"]] == [volume["trees"] for volume in plain["volumes"]]
    result = run("checkpoints", image)
    assert (result.exit_code, "HFS+ keeps no older states" in result.stderr) == (2, True)


@pytest.mark.parametrize(("of", "code"), [("none", 0), ("newest", 3), ("snapshot", 3), ("older", 0)])
def test_states_that_are_to_be_whole_and_are_not_are_damage(run, tmp_path, of, code):
    """A lost leaf of the newest checkpoint or a snapshot gives exit code 3; losses of an older one are not damage."""
    path = tmp_path / "a.img"
    write(SCENARIOS["edited" if of == "older" else "snapshots"], path)
    nodes = layoutscope.read_layouts(path)[-1].nodes.filter(tree="fs", kind="leaf")
    places = {state: set(nodes.filter(state=state)["image_offset"]) for state in ("live", "snapshot")}
    older = next(state.xid for state in reversed(layoutscope.checkpoints(path)) if state.kind == "checkpoint")
    former = layoutscope.read_layouts(path, xid=older)[-1].nodes.filter(tree="fs", kind="leaf", state="live")
    lost = {"none": set(), "newest": places["live"], "snapshot": places["snapshot"]}
    lost["older"] = set(former["image_offset"]) - set(nodes["image_offset"])
    with path.open("r+b") as disk:
        for place in sorted(lost[of])[:1]:
            disk.seek(place)
            disk.write(bytes(4096))
    assert bool(lost[of]) == (of != "none")
    assert run("checkpoints", path).exit_code == code


def test_a_series_follows_layouts_in_order(run, image, apfs_image, tmp_path):
    """One row per layout in the given order; the values are those of the scans; the chart is one page."""
    target = tmp_path / "curve.html"
    words = ("series", apfs_image, image, "--drive", "sata-ssd")
    document = json.loads(run(*words, "--json", "--plot", target).stdout)
    assert [name.split(",")[0] for name in document["names"]] == ["apfs.img", "scattered.img"]
    for number, path in enumerate((apfs_image, image)):
        volume = next(item for item in scan(path, drives=["sata-ssd"]).parts if item.walk is not None)
        assert document["times"][0]["seconds"][number] == pytest.approx(volume.predictions[0].seconds)
    stamps = [int(place) for place in json.loads(run(*words, "--json", "--by", "xid").stdout)["places"]]
    assert stamps == sorted(stamps)
    page = target.read_text("utf-8")
    assert 'id="drive">SATA SSD<' in page
    assert "<h1>Listing every file takes" in page
    assert "apfs.img" in run(*words).stdout
    assert "Last change (UTC)" in run(*words, "--by", "time").stdout
    assert run("series", image, "--by", "colour").exit_code == 2


def test_a_comparison_is_drawn_as_the_figure_of_both_sides(run, image, apfs_image, tmp_path):
    """The page has the sentence and a row per side on one time axis, and is not overwritten."""
    target = tmp_path / "both.html"
    assert run("compare", image, apfs_image, "--drive", "generic-7200", "--plot", target).exit_code == 0
    page = target.read_text("utf-8")
    assert re.search(r"<h1>Listing every file takes APFS [^<]* as long as HFS\+", page)
    assert page.count('class="swalk"') == 2
    assert page.count('class="foot') + page.count("srow foot") == 1
    assert "Layout score of files" in page
    assert "exists" in run("compare", image, apfs_image, "--plot", target).stderr


def test_nodes_that_did_not_stay_are_listed(run, image, apfs_image, tmp_path):
    """The list is empty for a volume and itself and unavailable for two volumes; the ending must be a known one."""
    target = tmp_path / "nodes.csv"
    assert run("compare", apfs_image, apfs_image, "--nodes", target).exit_code == 0
    assert target.read_text("utf-8").splitlines() == [
        "earlier,later,tree,node_id,level,change,earlier_offset,later_offset"
    ]
    assert run("compare", apfs_image, apfs_image, "--nodes", target).exit_code != 0
    assert run("compare", apfs_image, apfs_image, "--nodes", target, "--force").exit_code == 0
    result = run("compare", image, apfs_image, "--nodes", tmp_path / "other.csv")
    assert "states of one volume" in result.stderr
    assert not (tmp_path / "other.csv").exists()
    assert ".parquet" in run("compare", apfs_image, apfs_image, "--nodes", tmp_path / "nodes.txt").stderr


def test_captures_of_one_disk_are_told_apart(run, image, tmp_path):
    """Each side is named by the given file, with the image and the state in it."""
    for month in ("may", "june"):
        assert run("scan", image, "--save", tmp_path / f"{month}.lscope").exit_code == 0
    captures = (tmp_path / "may.lscope", tmp_path / "june.lscope")
    for words in (("compare", *captures), ("compare", "--over-time", *captures)):
        first, second, *_ = run(*words).stdout.splitlines()
        assert re.fullmatch(rf"A: may.lscope \({image.name}\), HFS\+, state of \d{{4}}-\d\d-\d\d [\d:]+ UTC", first)
        assert second.startswith(f"B: june.lscope ({image.name}), HFS+")
    assert run("compare", image, image).stdout.startswith(f"A: {image.name}, HFS+\n")


# ``map EARLIER LATER --difference``: valid and invalid arguments.


APFS, HFSPLUS = (IMAGES / f"{name}-scattered.img.zst" for name in ("apfs", "hfsplus"))


def test_a_checkpoint_kept_as_a_capture_is_set_against_the_newest(run, tmp_path):
    """Two captures, and a capture and an image, give the same number of moved nodes; two copies of an image none."""
    for name, words in {"before": ("--xid", "2"), "after": ()}.items():
        assert run("scan", APFS, *words, "--save", tmp_path / f"{name}.lscope").exit_code == 0
    pages = []
    for earlier, later in (("before.lscope", "after.lscope"), ("before.lscope", APFS), ("after.lscope", APFS)):
        target = tmp_path / f"{len(pages)}.html"
        assert run("map", tmp_path / earlier, tmp_path / later, "--difference", "-o", target).exit_code == 0
        pages.append(target.read_text("utf-8"))
    moved = [page.partition("nodes of metadata moved, ")[2][:60].partition(" where")[0] for page in pages]
    assert moved[0] == moved[1] != moved[2] == ""
    assert "Nothing moved, came or went between the earlier state and the later state" in pages[2]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((APFS, HFSPLUS), "are not two states of one volume"),
        ((HFSPLUS, HFSPLUS), "are not two states of one volume"),  # it has no identifier
        ((APFS,), "a difference takes two states: 1 were given"),
        ((APFS, APFS, APFS), "a difference takes two states: 3 were given"),
        ((APFS, APFS, "--png", "a.png"), "a difference is drawn only on the page"),
    ],
)
def test_anything_else_is_refused_and_writes_nothing(run, tmp_path, words, told):
    """One line reports it, with the exit code of a usage error."""
    result = run("map", *words, "--difference", "-o", tmp_path / "a.html")
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())
    assert not (tmp_path / "a.html").exists()
