"""``predict --order all``: every order of a volume in one table."""

from __future__ import annotations

import json

import polars as pl
import pytest

from layoutscope import predict, read_layouts
from layoutscope.api import reading
from layoutscope.results.inspect import paths_of
from layoutscope.walk import ORDERS


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


def test_the_quickest_comes_first_and_what_does_not_apply_last(over_orders):
    """Orders are sorted by their time on the first drive."""
    table = list(over_orders("--drive", "generic-7200").values())
    times = [item["drives"][0]["seconds"] for item in table if item["not_applicable"] is None]
    assert times == sorted(times)
    assert [item["order"] for item in table[len(times) :]] == ["backup-events", "paths", "read"]


def test_orders_that_do_not_apply_say_why(over_orders, run, image, tmp_path):
    """Without a list there are no paths, without a file nothing to read; with them, both have times."""
    table = over_orders()
    assert "--paths" in table["paths"]["not_applicable"]
    assert "--file" in table["read"]["not_applicable"]
    text = run("predict", image, "--order", "all").stdout
    assert "paths: not applicable: the order paths needs its paths (--paths)" in text
    (tmp_path / "list").write_text("/Users\n")
    given = over_orders("--paths", tmp_path / "list")["paths"]
    assert given["not_applicable"] is None
    assert given["entries"] == 1
    assert given["drives"][0]["seconds_per_1000"] == pytest.approx(1000 * given["drives"][0]["seconds"])


def test_what_is_done_once_is_not_applicable_to_a_second_pass(over_orders):
    """With a warm cache, searchfs and copy are not workloads of this model; listing is."""
    table = over_orders("--warm")
    assert "done once" in table["searchfs"]["not_applicable"]
    assert "done once" in table["delete"]["not_applicable"]
    assert table["fts"]["not_applicable"] is None


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


def test_the_image_is_read_once(monkeypatch, image):
    """All orders together open the image once and read it as often as a single order."""
    opened, times = reading.open_volumes, []
    monkeypatch.setattr("layoutscope.api.predict.open_volumes", lambda *words: times.append(1) or opened(*words))
    together = predict(image, workload={"order": "all"})
    assert len(times) == 1
    assert together.image.reads == predict(image).image.reads
    assert together.orders[0].orders


def test_questions_to_one_order_are_refused(run, image, tmp_path):
    """What-ifs and costs of directories would be ambiguous."""
    for words in (("--what-if", "ssd"), ("--ncdu", tmp_path / "costs")):
        result = run("predict", image, "--order", "all", *words)
        assert result.exit_code == 2
        assert "one order" in result.stderr


def test_only_predict_takes_all(run, image):
    """A trace has one order."""
    result = run("trace", image, "--order", "all")
    assert result.exit_code == 2
    assert "unknown order 'all'" in result.stderr


def test_the_table_is_no_wider_than_a_terminal(run, image, monkeypatch):
    """At 80 columns no cell wraps, so each order is on one line."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("predict", image, "--order", "all").stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("readdir-stat ") for line in lines)
