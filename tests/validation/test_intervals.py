"""The saved ranges come from the frozen priors, and the statements about them follow from their rows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from layoutscope.drive import load_profile, service
from layoutscope.drive.uncertain import model_error, num_draws
from tests.validation import costs, intervals, reference
from tests.validation.disksim import ATLAS, CHEETAHS, Witness
from tests.validation.placements import VOLUMES, draws, volume
from tests.validation.witnesses import GEOMETRIES

SAVED = reference.load("intervals")
ROWS = intervals.rows()


def test_the_priors_are_those_that_were_frozen():
    """After a change of the file everything must be predicted again."""
    assert SAVED["priors"] == intervals.fingerprint()
    assert SAVED["draws"] == num_draws()
    assert SAVED["volumes"] == VOLUMES


def test_every_measurement_is_data():
    """Each row names its source, the known and unknown inputs, and is predicted or says why it is no test."""
    for row in ROWS:
        assert row["url"].startswith("http") or row["source"], row["name"]
        assert row["known"], row["name"]
        assert row["unknown"], row["name"]
        assert sum(key in row for key in ("predict", "in_sample", "not_predicted")) == 1, row["name"]
        assert row["low"] <= row["high"]
    assert len({row["name"] for row in ROWS}) == len(ROWS)
    assert [row["work"] for row in SAVED["rows"]] == [row["work"] for row in ROWS]


def test_what_set_a_prior_is_no_test():
    """The priors name existing measurements, and none of these is predicted by the priors.

    Experiments with an in-sample row have no row that counts.
    """
    lines = [*intervals.priors()["drive"].values(), *intervals.priors()["host"]["macos"].values()]
    set_by = {name for line in lines for name in line.get("set_by", ())}
    by_priors = {row["experiment"] for row in SAVED["rows"] if "is_hit" in row and "counts" not in row}
    assert set_by
    assert set_by <= {row["experiment"] for row in ROWS}
    assert not set_by & by_priors
    told = {row["experiment"] for row in SAVED["rows"] if "in_sample" in row}
    assert told
    assert not told & {row["experiment"] for row in SAVED["rows"] if "is_hit" in row}


def test_hits_and_widths_follow_from_the_rows():
    """Costs, ranges and sums, fitted and counted again from the saved workload counts, equal the saved ones."""
    again = intervals.leave_out(SAVED["rows"])
    for row, saved in zip(again, (row for row in SAVED["rows"] if "counts" in row), strict=True):
        for name in ("p5", "p50", "p95", "costs"):
            assert row[name] == pytest.approx(saved[name], rel=0.01), (row["name"], name)
    for name, found in intervals.by_kind(SAVED["rows"]).items():
        assert found == pytest.approx(SAVED["coverage"][name], rel=0.01)
    for row in SAVED["rows"]:
        if "is_hit" in row:
            assert row["is_hit"] == (row["p5"] <= row["high"] and row["p95"] >= row["low"])
            assert row["width"] == pytest.approx(row["p95"] / row["p5"], rel=2e-3)


def test_of_the_article_aged_hfsplus_alone_is_outside():
    """HFS+ is predicted at 30 s or more; the APFS times at each age and both ratios are inside."""
    rows = [row for row in SAVED["rows"] if row["experiment"] == "aging-2019"]
    (aged,) = (row for row in rows if not row["is_hit"])
    assert (aged["filesystem"], aged["low"], aged["high"]) == ("HFS+", 20, 27)
    assert aged["p5"] > 30
    assert sorted(row["filesystem"] for row in rows if row["is_hit"]) == 3 * ["APFS"] + 2 * ["APFS / HFS+"]


def test_the_aim_is_missed_either_way():
    """With the widths of the priors too few are inside; with the spread of the others the ranges are too wide."""
    narrow, wide = (SAVED["coverage"][name] for name in ("flash", "flash_by_spread"))
    assert narrow["width"] <= intervals.AIM_WIDTH < wide["width"]
    assert narrow["hits"] / narrow["experiments"] < wide["hits"] / wide["experiments"] < intervals.AIM_SHARE


def test_why_the_aim_is_missed():
    """Experiments differ too much, and leave inputs unpublished."""
    flash = {(row["experiment"], row["name"]): row for row in ROWS if "walk" in row.get("predict", {})}
    unknown = {}
    for (experiment, _), row in flash.items():
        unknown[experiment] = f"{unknown.get(experiment, '')} {row['unknown']}"
    lacking = [
        {name for name, words in unknown.items() if re.search(kind, words)}
        for kind in ("machine|model", "cache|cold", "folders")
    ]
    assert [len(names) for names in lacking] == [10, 10, 8]
    assert unknown.keys() - set.union(*lacking) == {"duplicacy"}
    either_way = np.exp(costs.NINE_IN_TEN_NORMAL * SAVED["costs"]["spread"])
    assert (round(either_way, 1), round(either_way**2, 1)) == (2.2, 4.8)


def made_up(name, counts, threads=1, machine=1.0, cost=(6.0, 20.0, 200.0, 2.0)):
    """Return a row whose time follows from given costs."""
    taken = float(costs.seconds(np.array(counts), machine, np.array(cost), threads > 1))
    return {"experiment": name, "name": name, "counts": [counts], "threads": threads, "machine": machine, "low": taken,
            "high": taken, "unit": "s"}  # fmt: skip


def test_costs_of_made_up_times_are_found():
    """Five experiments with different mixes: the fit recovers their costs, pulled slightly to the prior values."""
    rows = [
        made_up("bulk", [10**6, 0, 0, 0]), made_up("stat", [0, 10**6, 0, 0]), made_up("read", [0, 0, 10**5, 0]),
        made_up("threads", [10**6, 0, 0, 0], threads=8), made_up("old", [0, 10**6, 0, 10**4], machine=2.0),
    ]  # fmt: skip
    found, spread = costs.fit(rows)
    assert found == pytest.approx([6, 20, 200, 2], rel=0.02)
    assert spread < 0.02


def test_no_experiment_judges_itself():
    """An experiment made ten times slower is predicted as before, and the others are not."""
    rows = [made_up(name, [10**6 * (name == "a"), 10**6, 10**5, 0]) for name in "abc"]
    slow = [{**rows[0], "low": 10 * rows[0]["low"], "high": 10 * rows[0]["high"]}, *rows[1:]]
    before, after = (intervals.leave_out(each) for each in (rows, slow))
    assert after[0]["p50"] == before[0]["p50"]
    assert after[1]["p50"] != pytest.approx(before[1]["p50"], rel=0.1)


@pytest.mark.parametrize("order", ["bulk", "git-status"])
def test_the_sum_of_costs_is_what_a_walk_is_predicted_to_take(order):
    """Counts of entries, lookups and reads times macOS's costs give the time on an Apple SSD within a tenth.

    A lookup of a new name also costs its vnode and two searches, and a read the host's work on a node.
    """
    asked = {"walk": "apfs", "order": order, "entries": 0}
    layout, files = intervals._plan("apfs", 1, 0, aged=False)
    asked["entries"] = len(intervals.populate(files)) - 1
    known = intervals.property_values(intervals.MACOS_HOST)
    cost = {name: known[f"apfs.{name}_us"] for name in ("list", "bulk_entry", "stat", "vnode", "search", "node")}
    drive = load_profile("apple-ap0256j-2017")
    read_us = drive.numbers("latency_us")[0] + cost["node"]
    each = [cost["list"] + cost["bulk_entry"], cost["stat"] + cost["vnode"] + 2 * cost["search"], read_us, 1.0]
    summed = costs.seconds(np.array(intervals.counted(asked)[1]), 1.0, np.array(each), is_parallel=False)
    taken = service(intervals.trace(layout, order=order, host="macos"), drive).seconds
    assert float(summed) == pytest.approx(taken, rel=0.1)


def test_the_costs_in_use_are_those_that_are_fitted():
    """Entry, lookup and read costs agree within a quarter; the gain of threads is within its drawn range."""
    known, fitted = intervals.property_values(intervals.MACOS_HOST), SAVED["costs"]
    read_us = load_profile("apple-ap0256j-2017").numbers("latency_us")[0] + known["apfs.node_us"]
    assert known["apfs.list_us"] + known["apfs.bulk_entry_us"] == pytest.approx(fitted["bulk_us"], rel=0.25)
    assert known["apfs.stat_us"] == pytest.approx(fitted["stat_us"], rel=0.25)
    assert read_us == pytest.approx(fitted["read_us"], rel=0.25)
    low, high = (each / known["apfs.contention"] for each in intervals.priors()["host"]["macos"]["processors"]["range"])
    assert low < fitted["gain"] < high


def test_an_experiment_is_inside_only_with_all_of_its_rows():
    """If one of two rows is outside, the experiment is no hit, though the row counts."""
    row = {"experiment": "a", "is_hit": True, "width": 2.0, "off": 1.5}
    found = intervals.coverage([row, {**row, "is_hit": False}, {**row, "experiment": "b"}, {"experiment": "c"}])
    assert (found["experiments"], found["hits"], found["rows"], found["row_hits"]) == (2, 1, 3, 2)


def test_binomial_intervals():
    """Textbook values: for none of ten at most 25.9 %, for ten at least 74.1 %, for five 22.2 to 77.8 %."""
    assert intervals.binomial(0, 10) == pytest.approx((0, 0.2589), abs=1e-3)
    assert intervals.binomial(10, 10) == pytest.approx((0.7411, 1), abs=1e-3)
    assert intervals.binomial(5, 10) == pytest.approx((0.2224, 0.7776), abs=1e-3)


def test_drawn_volumes_are_made_of_the_draws():
    """Order, fill, allocator and transactions are those of the draw; HFS+ shares order and allocator."""
    drawn = draws()
    for number in range(VOLUMES):
        files, apfs = volume("apfs", number, intervals.FileSet())
        same, hfs = volume("hfsplus", number, intervals.FileSet())
        assert files.order == same.order == drawn["creation"][number]
        assert apfs.policy.leaf_keep == pytest.approx(drawn["fill"][number])
        assert hfs.policy.balances
        assert apfs.policy.files_per_transaction == round(float(drawn["transaction_files"][number]))
        assert apfs.policy.next_fit == hfs.policy.next_fit == (drawn["allocator"][number] == "next-fit")


def test_each_half_of_the_case_is_predicted():
    """The inner half is slower wherever the rate matters, and the share of placement is the quotient."""
    for row in SAVED["halves"]:
        assert row["inner_over_outer"] == pytest.approx(row["inner_s"] / row["outer_s"], rel=0.1)


def test_a_drive_known_by_its_data_sheet_alone(shared):
    """All workloads on the third drive, buffer off, are within the ranges from its data sheet and the other drives."""
    found = intervals.walks_left_out(Witness(shared), "atlas10k5", "datasheet", "off")
    assert len(found) == 8
    assert all(row["is_hit"] for row in found)
    assert np.median([row["p95"] / row["p5"] for row in found]) < 1.5
    saved = [
        row
        for row in SAVED["drives"]
        if (row["drive"], row["known"], row["buffer"]) == ("atlas10k5", "datasheet", "off")
    ]
    assert [row["is_hit"] for row in saved] == [row["is_hit"] for row in found]


def test_errors_of_the_model_are_those_of_the_walks(shared):
    """The priors give each drive's root mean square error, rounded up in the fourth digit; the page, the largest error.

    By a data sheet alone times with the buffer off count. On the drives used to test profiles no error is above 15 %.
    """
    witness, model = Witness(shared), intervals.priors()["model"]
    saved = iter(reference.load("witnesses")["knowledge"])
    for geometry in GEOMETRIES:
        for drives in (CHEETAHS, (ATLAS,)):
            errors = {key: np.abs(each) for key, each in witness.walk_errors(geometry, drives).items()}
            for drive in drives:
                settings = [key for key in errors if key[0] == drive and (geometry != "datasheet" or key[1] == "off")]
                worst = max(float(np.sqrt(np.mean(errors[key] ** 2))) for key in settings)
                assert model[geometry][drive] == pytest.approx(worst, abs=1e-4)
            row, every = next(saved), np.concatenate([*errors.values()])
            assert (tuple(row["drives"]), row["runs"]) == (drives, len(every))
            assert row["largest"] == pytest.approx(every.max(), rel=2e-3)
            assert drives == (ATLAS,) or every.max() < 0.15
    assert model_error("zones") < model_error("datasheet")


def test_the_case_of_the_article_may_be_set_up_either_way():
    """Some of its draws are mirrors, so the mirror is within its ranges."""
    unknown = intervals.uncertain(load_profile(reference.ENCLOSURE), intervals.MACOS)
    assert 0 < unknown.choice["mirror"].sum() < num_draws()


def test_the_page_names_what_is_outside():
    """The text mentions exactly the experiments that have a row outside."""
    text = (Path(__file__).parents[2] / "docs" / "intervals.md").read_text()
    told = text[text.index("## Misses") :]
    outside = [row for row in SAVED["rows"] if not row.get("is_hit", True)]
    assert {name for name in intervals.names(SAVED["rows"]) if f"`{name}`" in told} == set(intervals.names(outside))
