"""``predict`` and ``trace``: orders, hosts, drives, and reads as real drivers make them."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

import layoutscope
from layoutscope import compare, forecast, plan, predict, read_layouts, scan, trace
from layoutscope.api import reading
from layoutscope.api import scan as scanning
from layoutscope.api.workloads import choose_host
from layoutscope.cli.application import app
from layoutscope.drive import load_profile, simulate
from layoutscope.drive.uncertain import Host
from layoutscope.results.inspect import paths_of
from layoutscope.walk import ORDERS


@pytest.fixture
def predicted(run, image):
    """Return a function that predicts and parses the JSON of the one volume."""

    def call(*words: object):
        result = run("predict", image, "--json", *words)
        assert result.exit_code == 0, result.stderr
        (volume,) = json.loads(result.stdout)["volumes"]
        return volume

    return call


def test_time_is_that_of_the_trace_on_the_drive(predicted, image):
    """The prediction is the drive model's time for the reads that trace lists."""
    volume = predicted("--drive", "generic-7200", "--host", "linux")
    # A partition map gives the start of the volume.
    expected = simulate(trace(image, host="linux"), load_profile("generic-7200"), Host("linux"))
    assert volume["drives"][0]["seconds"] == pytest.approx(expected.seconds)
    assert volume["walk"]["reads"] == expected.reads


def test_a_time_lies_within_the_interval_beside_it():
    """The time is the median of the draws, not that of the unchanged profile."""
    with layoutscope.open("fixtures/images/hfsplus-scattered.img.zst") as disk:
        ((case,),) = (volume.drives for volume in disk.predict(drives="generic-7200", host="linux").volumes)
    found = case.prediction
    assert found.nominal_s != found.seconds
    ends = found.seconds_low, found.seconds, found.seconds_high
    assert ends == (found.interval.low_s, found.interval.median_s, found.interval.high_s)


def test_all_directories_together_cost_the_whole(predicted):
    """Each read is charged to one directory, so the directories add up to the time, all reads included."""
    volume = predicted("--drive", "generic-7200", "--top", "100000")
    (drive,) = volume["drives"]
    assert sum(cost["seconds"] for cost in drive["directories"]) == pytest.approx(drive["seconds"])
    assert sum(cost["reads"] for cost in drive["directories"]) == volume["walk"]["reads"]
    assert [cost["seconds"] for cost in drive["directories"]] == sorted(
        (cost["seconds"] for cost in drive["directories"]), reverse=True
    )


def test_where_nothing_is_read_nothing_is_drawn(run, image, reference_image):
    """An empty volume is listed from the mount's reads: no time and no range; a mount is charged to no directory."""
    text = run("predict", reference_image("driver/apfs-empty.img"), "--drive", "generic-7200").stdout
    assert text.rstrip().endswith(": 0 us")
    text = run("predict", image, "--order", "mount", "--drive", "generic-7200").stdout
    assert "mount: predicted times" in text
    assert "irector" not in text


def test_packing_and_what_ifs_are_shown_with_reasons(predicted, run, image):
    """Packed comes first, with its savings and once if it was asked for; an SSD is faster than a disk."""
    (drive,) = predicted("--drive", "generic-7200", "--what-if", "ssd")["drives"]
    packed, ssd = drive["what_ifs"]
    assert (packed["name"], ssd["name"]) == ("packed", "ssd")
    assert drive["packed_gain"] == pytest.approx(1 - packed["seconds"] / drive["seconds"])
    assert ssd["seconds"] < drive["seconds"]
    assert packed["because"]
    words = ("predict", image, "--drive", "generic-7200", "--what-if", "packed")
    assert run(*words).stdout.count("packed: takes") == 1


def test_packing_may_take_longer_and_is_no_bound(run, reference_image):
    """Searchfs uses node number order; in key order the same nodes take longer, and the text says so."""
    image = reference_image("aged/hfsplus-20000-c20.img")
    words = ("predict", image, "--order", "searchfs", "--drive", "generic-7200")
    (drive,) = json.loads(run(*words, "--json").stdout)["volumes"][0]["drives"]
    assert drive["packed_gain"] < 0
    text = " ".join(run(*words).stdout.split())
    assert re.search(r"packed: takes \S+ \w+ instead of \S+ \w+ \([\d,.]+ % more\)", text)


def test_where_places_make_no_difference_that_is_said(run, apfs_image):
    """On flash another order of the nodes takes as long, and no layout is called the best; on a disk one is."""
    words = ("predict", apfs_image, "--top", "0", "--drive")
    flash, disk = (" ".join(run(*words, drive).stdout.split()) for drive in ("sata-ssd", "generic-7200"))
    assert "packed: takes as long: the same nodes, contiguous" in flash
    assert re.search(r"none of \d layouts of its nodes that were tried takes less", flash)
    assert "as long" not in disk
    assert "the best of" in disk


def test_packed_nodes_of_a_few_reads_may_take_longer(run, reference_image):
    """If each node is read just in time, packed nodes miss their revolution on most drives."""
    image = reference_image("apple/plaso_spotlight10.13.raw")
    text = " ".join(run("predict", image, "--drive", "generic-7200", "--top", "0", "--host", "linux").stdout.split())
    found = re.search(r"takes ([\d.]+) ms instead of ([\d.]+) ms \(([\d.]+) % more\)", text)
    longer, now, percent = (float(number) for number in found.groups())
    assert percent == pytest.approx(100 * (longer / now - 1), abs=1)
    assert percent > 5


def test_what_was_not_recorded_is_said(run, image):
    """Reads of Linux were recorded, those of macOS are from published sources: with one order and with all."""
    words = ("predict", image, "--drive", "sata-ssd", "--top", "0")
    said = "as on macos (by published sources, not by recordings)"
    for more in ((), ("--order", "all")):
        assert said in " ".join(run(*words, "--host", "macos", *more).stdout.split())
        assert "by published sources" not in run(*words, "--host", "linux", *more).stdout


def test_directories_without_names_are_told_apart(run, image):
    """Without names, each of the most expensive directories is identified by its number."""
    words = ("predict", image, "--drive", "sata-ssd", "--top", "5")
    named, bare = run(*words).stdout, run(*words, "--no-names").stdout
    numbers = re.findall(r"^/\S*<(\d+)> ", bare, re.MULTILINE)
    assert len(set(numbers)) == len(numbers) >= 4
    assert "/<" not in named


@pytest.mark.parametrize("order", ["paths", "backup-events"])
def test_a_list_of_another_place_is_refused(run, image, tmp_path, order):
    """Paths below a mount point do not exist on the volume; a list with some valid paths is used unchanged."""
    words = ("predict", image, "--order", order, "--drive", "sata-ssd", "--paths", tmp_path / "list")
    (tmp_path / "list").write_text("/Volumes/Scattered/Users\n/Volumes/Scattered/Users/jo\n")
    result = run(*words)
    assert result.exit_code == 2
    assert "of 2 paths none is on the volume" in result.stderr
    for there in ("/Users\n/nowhere\n", "/\n"):
        (tmp_path / "list").write_text(there)
        assert run(*words).exit_code == 0


def test_half_of_a_set_says_what_is_missing(run, reference_image):
    """The second image of a Fusion set holds no volume by itself; the error names the missing main image."""
    result = run("predict", reference_image("fusion/tier2.img"))
    assert result.exit_code == 2
    assert "no volume that can be walked: this is the second device of a Fusion set" in result.stderr


def test_the_time_comes_before_what_explains_it(run, image):
    """The drive's figures and the share of sequential reads follow the times. A drive without an arm moves none."""
    words = ("predict", image, "--host", "linux", "--top", "0", "--drive")
    disk, flash = (run(*words, drive).stdout for drive in ("generic-7200", "sata-ssd"))
    parts = ("as on linux", "predicted times", "start where the previous one ended", "of processor time", "its tracks")
    places = [disk.index(each) for each in parts]
    assert places == sorted(places)
    assert "of processor time" in flash
    assert not re.search("move the arm|strokes", flash)


def test_a_what_if_that_changes_nothing_says_why(predicted, run, image, apfs_image):
    """Unlimited memory, no snapshots, no arm, and a volume at the drive's outer edge; each is applicable elsewhere."""
    words = ("predict", image, "--drive", "generic-7200", "--top", "0")
    options = ("--what-if", "no-snapshots", "--what-if", "ssd")
    (drive,) = predicted("--drive", "sata-ssd", *options)["drives"]
    assert {item["name"]: item["why_not"] for item in drive["what_ifs"] if not item["is_applicable"]} == {
        "no-snapshots": "no node is held by snapshots only",
        "ssd": "the drive is one already",
    }
    doubled = run(*words, "--what-if", "double-cache").stdout
    assert "double-cache: not applicable: the memory for metadata is unlimited" in doubled
    moved = ("--what-if", "outer-zone")
    limited = run(*words, *moved, "--what-if", "double-cache", *options, "--memory", "64KiB", "--start-offset", "1GiB")
    for name in ("double-cache", "outer-zone", "ssd"):
        assert f"{name}: takes" in limited.stdout
    # Its container begins where the image does.
    edge = run("predict", apfs_image, "--drive", "generic-7200", "--top", "0", *moved).stdout
    assert "outer-zone: not applicable: the volume starts there already" in edge


def test_a_volume_like_that(run, image):
    """Its range is separate from that of the layout, and wider by placement; halves are those of the drive."""
    asked = ("predict", image, "--drive", "generic-7200", "--json", "--host", "linux")
    (plain,), (found,), (later,) = (
        json.loads(run(*asked, *more).stdout)["volumes"][0]["drives"]
        for more in ((), ("--placement", "unknown"), ("--start-offset", "2TB"))
    )
    assert (plain["volume_interval"], plain["halves_s"]) == (None, [])
    assert found["interval"] == plain["interval"]
    volume = found["volume_interval"]
    assert (volume["of"], volume["draws"]) == ("volume", 64)
    assert volume["shares"]["placement"] > 0
    assert sum(volume["shares"].values()) <= 1
    outer, inner = found["halves_s"]
    assert outer < inner == pytest.approx(later["nominal_s"], rel=0.02)


def test_a_part_costs_no_more_than_the_whole_and_a_warm_start_no_reads(predicted, image):
    """A directory has fewer reads than the root. A second pass finds all metadata in memory and takes host time."""
    (layout,) = read_layouts(image)
    deep = layout.entries.filter((pl.col("parent_id") > 16) & (pl.col("kind") == "directory") & (pl.col("flags") == 0))
    (path, *_) = paths_of(layout, int(deep["file_id"][-1]))
    whole = predicted("--drive", "sata-ssd")["walk"]["reads"]
    part = predicted("--drive", "sata-ssd", "--start", path)["walk"]["reads"]
    assert 0 < part < whole
    volume = predicted("--drive", "sata-ssd", "--warm")
    assert volume["walk"]["reads"] == 0
    assert volume["drives"][0]["nominal_s"] == pytest.approx(volume["host_wall_s"])
    assert volume["drives"][0]["causes_s"]["host"] == pytest.approx(volume["drives"][0]["seconds"])
    assert volume["host_wall_s"] > 0


def test_names_that_the_host_keeps_are_cheaper(predicted, image, tmp_path):
    """macOS, warm: a path component costs 15 us; without room for its name, 7 us and two searches of 4 us more."""
    (layout,) = read_layouts(image)
    deep = layout.entries.filter((pl.col("parent_id") > 16) & (pl.col("kind") == "directory") & (pl.col("flags") == 0))
    (path, *_) = paths_of(layout, int(deep["file_id"][-1]))
    (tmp_path / "list").write_text(path)
    words = ("--drive", "sata-ssd", "--order", "paths", "--paths", tmp_path / "list", "--host", "macos", "--warm")
    kept, forgotten = (
        predicted(*words, "--host-property", f"name_cache_entries={room}")["host_cpu_s"] for room in ("unlimited", "0")
    )
    components = len(path.strip("/").split("/"))
    assert kept == pytest.approx(components * 15e-6)
    assert forgotten == pytest.approx(components * 30e-6)


def test_threads_share_the_host_work(predicted):
    """On HFS+ without contention two threads need the same CPU time in half of the wall time."""
    one = predicted("--drive", "sata-ssd")
    two = predicted("--drive", "sata-ssd", "--threads", "2")
    assert two["host_wall_s"] == pytest.approx(two["host_cpu_s"] / 2)
    assert two["host_cpu_s"] >= one["host_cpu_s"] * 0.999


def test_ncdu_file_has_every_directory(run, image, tmp_path):
    """The file has ncdu's format; its sizes in ms add up to the predicted time, apart from rounding."""
    target = tmp_path / "costs.json"
    result = run("predict", image, "--drive", "generic-5400-2.5", "--ncdu", target, "--json")
    seconds = json.loads(result.stdout)["volumes"][0]["drives"][0]["seconds"]
    major, _, head, root = json.loads(target.read_text())
    assert (major, head["progname"]) == (1, "layoutscope")
    sizes = []
    stack = [root]
    while stack:
        info, *inside = stack.pop()
        sizes.append(info["dsize"])
        stack += inside
    assert sum(sizes) / 1000 == pytest.approx(seconds, abs=len(sizes) * 0.0005 + 0.05 * seconds)
    assert len(sizes) > 100


@pytest.mark.parametrize("file_format", ["csv", "fio", "blkparse"])
def test_a_trace_comes_back_through_replay(run, image, tmp_path, file_format):
    """Replay reads the output of trace as the same reads, and finds that all of them were predicted."""
    target = tmp_path / f"trace.{file_format}"
    assert run("trace", image, "--format", file_format, "-o", target).exit_code == 0
    result = run("replay", target, "--against", image, "--drive", "generic-7200", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    agreement = document["agreement"]
    assert (agreement["block_share"], agreement["pair_share"], agreement["extra_share"]) == (1, 1, 0)
    assert document["reads"] == len(trace(image))


def test_a_shuffled_trace_has_the_blocks_but_not_the_order(run, image, tmp_path):
    """The score of pairs drops to zero if the order is lost, the score of blocks stays."""
    reads = trace(image, host="linux")
    order = np.random.default_rng(1).permutation(len(reads))
    pairs = np.stack([reads.image_offset[order], reads.length_bytes[order]], axis=1)
    target = tmp_path / "shuffled.trace"
    target.write_bytes(pairs.astype(np.dtype(np.uint64).newbyteorder("<")).tobytes())
    document = json.loads(
        run("replay", target, "--against", image, "--drive", "sata-ssd", "--json", "--host", "linux").stdout
    )
    assert document["agreement"]["block_share"] == 1
    assert document["agreement"]["pair_share"] < 0.05
    assert "recorded steps" in run("replay", target, "--against", image, "--drive", "sata-ssd").stdout


@pytest.mark.parametrize("pace", [[], ["--think-us", "250"]])
def test_the_same_reads_take_the_same_time(run, image, tmp_path, pace):
    """Pairs have no times, so prediction and trace are served at one pace and only the reads can differ."""
    reads = trace(image)
    pairs = np.stack([reads.image_offset, reads.length_bytes], axis=1)
    target = tmp_path / "same.trace"
    target.write_bytes(pairs.astype(np.dtype(np.uint64).newbyteorder("<")).tobytes())
    result = run("replay", target, "--against", image, "--drive", "generic-7200", "--json", *pace)
    document = json.loads(result.stdout)
    assert document["expected"][0]["service_s"] == pytest.approx(document["times"][0]["service_s"], rel=1e-9)
    assert document["times"][0]["service_s"] > 0.1


def test_paths_that_are_not_on_the_volume_are_told(run, image, tmp_path):
    """Their number and the first ones; the others are looked up as usual, in any spelling."""
    there = ["Users/jo", "./Users", "Users//jo/", "/"]
    gone = [f"Users/none {number}\x1b" for number in range(7)]
    for name, paths in (("whole", there), ("part", [*there, *gone])):
        (tmp_path / name).write_text("\n".join(paths) + "\n")
    words = ("--order", "paths", "--drive", "sata-ssd", "--paths")
    text = run("predict", image, *words, tmp_path / "part").stdout
    assert "\n7 paths of the list are not on the volume. The existing part of each path is looked up:\n" in text
    assert "\n  Users/none 0\\u001b\n" in text
    assert "none 4" in text
    assert "none 5" not in text
    assert "\n  and 2 more\n" in text
    assert "not on the volume" not in run("predict", image, *words, tmp_path / "whole").stdout
    for order in ("paths", "backup-events"):
        found = layoutscope.predict(image, order=order, paths=[*there, *gone], drives="sata-ssd")
        assert found.volumes[0].missing_paths == tuple(gone)
        assert layoutscope.predict(image, order=order, paths=there, drives="sata-ssd").volumes[0].missing_paths == ()


def test_paths_that_are_missing_stand_in_json_and_over_all_orders(run, image, tmp_path):
    """A missing path counts once; the table of all orders lists it, too."""
    (tmp_path / "list").write_text("Users/jo\nUsers/jo/none\n")
    words = ("--drive", "sata-ssd", "--paths", tmp_path / "list")
    for order, key in (("paths", "volumes"), ("all", "orders")):
        (case,) = json.loads(run("predict", image, "--order", order, *words, "--json").stdout)[key]
        assert case["missing_paths"] == ["Users/jo/none"]
    said = "\n1 path of the list is not on the volume. The existing part of each path is looked up:\n  Users/jo/none\n"
    assert said in run("predict", image, "--order", "all", *words).stdout


# ``predict --order all``: every order of a volume in one table.


@pytest.fixture
def over_orders(run, image):
    """Return a function that predicts all orders and parses the document of the one volume."""

    def call(*words: object):
        result = run("predict", image, "--order", "all", "--json", *words)
        assert result.exit_code == 0, result.stderr
        document = json.loads(result.stdout)
        assert document["volumes"] == []
        (volume,) = document["orders"]
        return {item["order"]: item for item in volume["orders"]}

    return call


def test_each_order_is_predicted_as_alone(over_orders, run, image):
    """The table equals predict for each order; for few reads the quick ranges are the same."""
    table = over_orders()
    assert set(table) == set(ORDERS)
    for name in [name for name, order in ORDERS.items() if not order.needs]:
        alone = json.loads(run("predict", image, "--order", name, "--json").stdout)["volumes"][0]
        assert [table[name][key] for key in ("reads", "read_bytes")] == [
            alone["walk"][key] for key in ("reads", "read_bytes")
        ]
        for mine, other in zip(table[name]["drives"], alone["drives"], strict=True):
            del mine["seconds_per_1000"]
            ends = {key: mine.pop(key) for key in ("seconds_low", "seconds_high")}
            assert mine == {key: other[key] for key in mine}
            assert ends == pytest.approx({key: other[key] for key in ends}, rel=1e-9)


@pytest.mark.parametrize("host", ["linux", "macos"])
def test_a_scan_has_the_interval_of_predict_on_an_aged_catalog(run, reference_image, host):
    """Also for sequential reads, if they are few enough to be all served: each drive's ends equal those of predict."""
    asked = (reference_image("aged/hfsplus-20000-c20.img"), "--json", "--host", host)
    quick = json.loads(run("scan", *asked).stdout)["volumes"][0]["predictions"]
    whole = json.loads(run("predict", *asked).stdout)["volumes"][0]["drives"]
    assert len(quick) == len(whole) == 3
    for one, other in zip(quick, whole, strict=True):
        assert one["seconds_high"] / one["seconds_low"] > 1.5
        for key in ("seconds_low", "seconds_high"):
            assert one[key] == pytest.approx(other[key], rel=1e-9)


def test_the_quickest_comes_first_and_what_does_not_apply_says_why_last(over_orders, run, image, tmp_path):
    """Without a list no paths, without a file nothing to read, when warm no copies: with them they have times."""
    table = over_orders("--drive", "generic-7200")
    times = [item["drives"][0]["seconds"] for item in table.values() if item["not_applicable"] is None]
    assert times == sorted(times)
    assert [*table][len(times) :] == ["backup-events", "paths", "read"]
    assert "--paths" in table["paths"]["not_applicable"]
    assert "--file" in table["read"]["not_applicable"]
    text = run("predict", image, "--order", "all").stdout
    assert "paths: not applicable: the order paths needs its paths (--paths)" in text
    (tmp_path / "list").write_text("/Users\n")
    warm = over_orders("--paths", tmp_path / "list", "--warm")
    given = over_orders("--paths", tmp_path / "list")["paths"]
    assert (given["not_applicable"], given["entries"], warm["fts"]["not_applicable"]) == (None, 1, None)
    assert given["drives"][0]["seconds_per_1000"] == pytest.approx(1000 * given["drives"][0]["seconds"])
    assert all("done once" in warm[name]["not_applicable"] for name in ("searchfs", "delete"))


def test_time_for_1000_entries_is_said_of_whole_volumes_alone(over_orders, image):
    """A part of a volume has another number of entries, so it has no such time; the whole uses those of its table."""
    (layout,) = read_layouts(image)
    folder = layout.entries.filter((pl.col("kind") == "directory") & (pl.col("flags") == 0))["file_id"][-1]
    (path,) = paths_of(layout, folder)
    whole, part = over_orders()["fts"], over_orders("--start", path)["fts"]
    drive = whole["drives"][0]
    assert drive["seconds_per_1000"] == pytest.approx(1000 * drive["seconds"] / whole["entries"])
    for told in (part, over_orders()["mount"]):
        assert told["entries"] is None
        assert told["drives"][0]["seconds_per_1000"] is None


def test_the_table_is_no_wider_than_a_terminal(run, image, monkeypatch):
    """At 80 columns no cell wraps, so each order is on one line."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("predict", image, "--order", "all").stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("readdir-stat ") for line in lines)


# Without ``--host``, a volume's host is the system that wrote it last.


WRITERS = {
    "aged/apfs-20000-c00.img": ("linux", "written-by"),
    "driver/apfs-ci.img": ("linux", "written-by"),
    "aged/hfsplus-20000-c00.img": ("linux", "written-by"),
    "apple/sparkle_apfs_lzma_aux.raw": ("macos", "written-by"),
    "apple/dissect_jhfs_converted.raw": ("macos", "written-by"),
    "apple/slate_20121008.raw": ("macos", "written-by"),
    "apple/hfsinspect_hfsj.raw": ("macos", "written-by"),
    "driver/hybrid-hfsplus.iso": ("macos", "unknown"),
}
APFS, HFSPLUS = "fixtures/images/apfs-scattered.img.zst", "fixtures/images/hfsplus-scattered.img.zst"


@pytest.mark.parametrize("name", WRITERS)
def test_the_system_that_wrote_a_volume_reads_it(reference_image, name):
    """The strings in its header decide; `--host` overrides them."""
    walk = scan(reference_image(name), drives=()).parts[-1].walk
    assert (walk.host, walk.host_from) == WRITERS[name]
    asked = scan(reference_image(name), drives=(), host="linux").parts[-1].walk
    assert (asked.host, asked.host_from) == ("linux", "asked")


TEXTS = {
    "apfs": {
        ("newfs_apfs (945.260.7)", ""): "macos",
        ("newfs_apfs (945.260.7)", "linux-apfs by eafer (0.3.20) (xid 9), apfs_kext (945) (xid 4)"): "linux",
        ("mkapfs by eafer (v0.2.1)", "apfs_kext (1677.81.1) (xid 25)"): "macos",
        ("mkapfs by eafer ()", ""): "linux",
        ("layoutscope fixtures (1)", ""): "",
    },
    "hfsplus": {("", "H+Lx"): "linux", ("", "10.0"): "macos", ("", "HFSJ"): "macos", ("", "liso"): ""},
}


@pytest.mark.parametrize(("filesystem", "image"), [("apfs", APFS), ("hfsplus", HFSPLUS)])
def test_the_last_program_that_changed_a_volume_counts(filesystem, image):
    """The program that made the volume does not count if another one wrote later."""
    layout = next(item for item in read_layouts(image) if len(item.columns("entries")))
    for (made, changed), host in TEXTS[filesystem].items():
        details = {"formatted by": made, "modified by": changed, "last mounted by": changed}
        told = layout.changed(facts=replace(layout.facts, details=details))
        assert choose_host(told, None) == ((host, "written-by") if host else ("macos", "unknown")), (made, changed)
        assert choose_host(told, "linux") == ("linux", "asked")


def test_a_comparison_has_one_host(reference_image):
    """The common host where both agree, macOS otherwise; or the requested one."""
    linux = [reference_image(f"driver/{name}-frag.img") for name in ("apfs", "hfsplus")]
    assert choices(linux) == [("linux", "written-by")] * 2
    assert choices([linux[0], APFS]) == [("macos", "compared")] * 2
    assert choices([linux[0], APFS], host="linux") == [("linux", "asked")] * 2
    assert choices([APFS, HFSPLUS]) == [("macos", "unknown"), ("macos", "written-by")]


def choices(images, **options):
    """Return the host of each side of a comparison, with the reason."""
    walks = [result.volume.walk for result in scanning.scan_alike(images, {"drives": (), **options})]
    assert compare(*images, drives=(), **options).hosts == tuple(walk.host for walk in walks)
    return [(walk.host, walk.host_from) for walk in walks]


def test_every_verb_takes_the_same_host_and_names_it(reference_image, run):
    """Predictions, plans and traces of a volume that Linux wrote, and of one with an unknown writer."""
    for image, host in ((reference_image("driver/hfsplus-frag.img"), "linux"), (APFS, "macos")):
        one, other = (trace(image, host=name) for name in (None, host))
        assert one.image_offset.tolist() == other.image_offset.tolist()
        assert predict(image, drives="sata-ssd").volumes[0].walk.host == host
        assert plan(image, drive="sata-ssd").volumes[0].host == host
    assert "modelled as macOS " in run("scan", APFS).stdout
    assert "modelled as Linux " in run("scan", APFS, "--host", "linux").stdout
    (walk,) = (item["walk"] for item in json.loads(run("scan", APFS, "--json").stdout)["volumes"] if item["walk"])
    assert (walk["host"], walk["host_from"]) == ("macos", "unknown")


@pytest.mark.parametrize(("host", "is_told"), [("macos", True), ("linux", False), (None, False)])
def test_a_forecast_for_another_system_says_so(reference_image, host, is_told):
    """Linux wrote the volume; macOS would change it at another pace."""
    found = forecast(reference_image("aged/hfsplus-20000-c00.img"), cycles=1, seeds=1, drives=(), host=host)
    told = "Linux wrote this volume, and from here on macOS does"
    assert any(note.startswith(told) for note in found.notes) == is_told


def test_images_are_read_once(monkeypatch, image, reference_image):
    """All orders together read an image as often as one; the host is chosen between reading and modeling."""
    opened, read = reading.open_volumes, []
    for place in ("predict", "scan"):
        note = lambda path, *more: read.append(path) or opened(path, *more)  # noqa: E731
        monkeypatch.setattr(f"layoutscope.api.{place}.open_volumes", note)
    together = predict(image, workload={"order": "all"})
    assert read == [image]
    assert together.image.reads == predict(image).image.reads
    assert together.orders[0].orders
    read.clear()
    images = [reference_image("aged/apfs-20000-c00.img"), reference_image("apple/plaso_spotlight10.13.raw")]
    assert set(compare(images, drives=()).hosts) == {"macos"}
    assert read == images


# ``layoutscope trace`` writes the same reads as real drivers, for each traced order.


READ = ["--order", "read", "--file", "/large/2.bin"]
CASES = {
    "apfs-20000-c20-stat": [],
    "hfsplus-20000-c20-stat": ["--order", "fts"],
    "apfs-20000-c20-names": ["--order", "names"],
    "hfsplus-20000-c20-names": ["--order", "names"],
    "apfs-20000-c20-paths": ["--order", "paths", "--paths"],
    "hfsplus-20000-c20-paths": ["--order", "paths", "--paths"],
    "apfs-frag-copy": ["--order", "copy"],
    "hfsplus-frag-copy": ["--order", "copy"],
    "apfs-frag-read-seq": READ,
    "hfsplus-frag-read-seq": READ,
    "apfs-frag-read-random": [*READ, "--records", "2000", "--record-size", "16384", "--seed", "1"],
    "hfsplus-frag-read-random": [*READ, "--record-size", "16384", "--offsets"],
}


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_reads_are_those_of_the_driver(name, reference_image, truth, tmp_path):
    """Offsets and lengths of the CSV equal the block trace, in order."""
    folder, stem = ("driver", "-".join(name.split("-")[:2])) if "frag" in name else ("aged", name.rsplit("-", 1)[0])
    arguments = [*CASES[name]]
    if arguments[-1:] in (["--paths"], ["--offsets"]):
        kind = {"--paths": "list", "--offsets": "offsets.tsv"}[arguments[-1]]
        (tmp_path / "given").write_bytes(truth(f"{name}.{kind}.zst"))
        arguments.append(str(tmp_path / "given"))
    image = reference_image(f"{folder}/{stem}.img")
    result = CliRunner().invoke(app, ["trace", str(image), *arguments])
    assert result.exit_code == 0, result.output
    reads = pl.read_csv(io.BytesIO(result.stdout_bytes)).select("image_offset", "length_bytes").to_numpy()
    real = np.frombuffer(truth(f"{name}.trace.zst"), "<u8").reshape(-1, 2)
    assert reads.tolist() == real.tolist()


def test_offsets_and_records_that_cannot_be_are_refused(run, reference_image, tmp_path):
    """A word in a list of offsets, by its line; records larger than the file."""
    (tmp_path / "offsets").write_text("0 4096\n1 none\n")
    words = ("trace", reference_image("driver/hfsplus-frag.img"), *READ)
    for options, said in (
        (("--offsets", tmp_path / "offsets"), "line 2"),
        (("--records", "1", "--record-size", "1GiB"), "less than a record"),
    ):
        result = run(*words, *options)
        assert (result.exit_code, said in result.stderr) == (2, True)
