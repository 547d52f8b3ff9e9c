"""Write history of volumes: hand-made streams and orders, and plans with known history."""

from __future__ import annotations

from dataclasses import replace

import msgspec.structs
import numpy as np
import pytest

from fixtures.fileset import FileSet
from layoutscope.api import forecast
from layoutscope.api.forecast import shown_policy, volumes_alike
from layoutscope.metrics.history import (
    AS_LISTED,
    BY_NAME,
    FOLDERS_FIRST,
    count_streams,
    creation_metrics,
    excess_sigmas,
    infer_creation_order,
    rising_share,
    writing_metrics,
)
from tests.validation.plans import MACOS_APFS, MACOS_HFSPLUS, aging

FILES = 6000
APPLE = {"modified by": "apfs_kext (945.260.7) (xid 9)"}


def states(placement, ages, order="hash", files=FILES, **policy):
    """Age a plan with a driver that allocates as given."""
    told = replace(placement, policy=replace(placement.policy, **policy))
    return list(aging(FileSet(files=files, order=order), told, ages))


def by_apple(layout):
    """Mark a volume as written by Apple's driver."""
    return layout.changed(facts=msgspec.structs.replace(layout.facts, details=APPLE))


def values(metrics):
    return {metric.name: metric.value for metric in metrics}


@pytest.mark.parametrize(
    ("xid", "streams"),
    [
        ([1, 1, 2, 3, 3], 1),  # one copy, in key order
        ([1, 9, 2, 9, 3, 9], 2),  # every second leaf changed later
        ([1, 9, 5, 2, 6, 9, 3, 6, 9], 3),
        ([4, 3, 2, 1], 4),
        ([], 0),
    ],
)
def test_streams_are_the_fewest_sequences_in_key_order(xid, streams):
    """A leaf continues a stream whose last leaf is not newer."""
    assert count_streams(np.array(xid, np.int64)) == streams


def test_only_streams_beyond_chance_count():
    """Streams are more than chance."""
    # Of 200 leaves, one is ignored but three are not.
    assert count_streams(np.array([500, *range(199)])) == 1
    assert count_streams(np.array([500, 500, 500, *range(197)])) == 2
    # For random numbers, the excess is at most a few standard deviations: the variance is n / 12.
    rng = np.random.default_rng(1)
    found = [excess_sigmas(999, int((np.diff(rng.permutation(1000)) > 0).sum())) for _ in range(300)]
    assert np.std(found) == pytest.approx(1, abs=0.1)
    assert rising_share(0, 0) is None


@pytest.mark.parametrize("order", ["hash", "alphabetical", "numbered"])
@pytest.mark.parametrize("placement", [MACOS_HFSPLUS, MACOS_APFS], ids=["hfsplus", "apfs"])
def test_the_order_of_creation_is_shown_by_numbers_after_twenty_cycles_too(placement, order):
    """HFS+ lists by name: if files were created in hash order, its numbers show no order."""
    known = {"hash": AS_LISTED, "alphabetical": BY_NAME, "numbered": FOLDERS_FIRST}[order]
    expected = "" if placement is MACOS_HFSPLUS and order == "hash" else known
    for layout in states(placement, (0, 20), order):
        assert infer_creation_order(layout) == expected


def test_a_fresh_volume_has_its_files_one_after_the_other():
    """In the order of creation, every file has the next number; in another order, about half have a higher one."""
    (fresh,) = states(MACOS_APFS, (0,))
    found = values(creation_metrics(fresh))
    assert found["next-number"] == found["created-as-listed"] == 1
    assert found["created-by-name"] == pytest.approx(0.5, abs=0.02)
    (fresh,) = states(MACOS_APFS, (0,), "alphabetical")
    found = values(creation_metrics(fresh))
    assert found["created-by-name"] == 1
    assert found["created-as-listed"] == pytest.approx(0.5, abs=0.02)


def test_each_cycle_adds_a_stream():
    """A cycle adds at most one: leaves that change again leave their stream."""
    counts = [values(writing_metrics(layout))["write-streams"] for layout in states(MACOS_APFS, (0, 4, 8))]
    assert counts[0] <= 3
    assert counts[0] < counts[1] < counts[2] <= counts[0] + 9


@pytest.mark.parametrize("length", [50, 150, 300])
def test_transactions_are_as_long_as_their_driver_makes_them(length):
    """Measured on the newest files, before and after files are replaced; a cycle replaces 1,000."""
    for layout in states(MACOS_APFS, (0, 3), files=20_000, files_per_transaction=length):
        assert values(writing_metrics(layout))["files-per-transaction"] == pytest.approx(length, rel=0.15)


def test_freed_blocks_that_are_used_again_are_behind_no_more():
    """Blocks after the last ones: every transaction. The first free ones: about half of them after ten cycles."""
    (behind,), (first,) = (states(MACOS_APFS, (10,), files_per_transaction=50, next_fit=fit) for fit in (True, False))
    assert values(writing_metrics(behind))["written-behind"] == 1
    assert values(writing_metrics(first))["written-behind"] < 0.8


def test_leaves_that_were_written_last_are_emptier():
    """Leaves that were split are emptier; quarters go from the oldest to the newest."""
    (layout,) = states(MACOS_APFS, (10,))
    (fill,) = (metric for metric in writing_metrics(layout) if metric.name == "leaf-fill-newest")
    assert [name.partition(" ")[0] for name, _ in fill.parts] == ["oldest", "second", "third", "newest"]
    assert fill.value == fill.parts[-1][1]


def test_nodes_without_transactions_have_no_streams():
    """HFS+ nodes have no transactions."""
    (layout,) = states(MACOS_HFSPLUS, (1,))
    assert list(writing_metrics(layout)) == []


def test_a_forecast_takes_transactions_and_blocks_from_the_volume():
    """If the system wrote the volume, its values are used; otherwise the assumptions stay."""
    usual = MACOS_APFS.policy
    (layout,) = states(MACOS_APFS, (10,), files_per_transaction=50, next_fit=False)
    assert shown_policy(layout, "macos", usual) is usual
    found = shown_policy(by_apple(layout), "macos", usual)
    assert found.files_per_transaction == pytest.approx(50, rel=0.15)
    assert not found.next_fit
    assert found.assumes["files_per_transaction"].startswith("A transaction writes about")
    assert found.assumes["next_fit"] == "Freed blocks are used again, as they were on this volume."
    assert found.drawn(1).files_per_transaction < 1.3 * found.files_per_transaction
    (layout,) = states(MACOS_APFS, (0,))
    assert shown_policy(by_apple(layout), "macos", usual).next_fit


def test_a_volume_like_that_has_its_order_of_creation(monkeypatch):
    """If its numbers show no order, several orders are drawn."""
    (layout,) = states(MACOS_APFS, (0,))
    assert {order for order, _, _ in volumes_alike(layout, "macos")} == {AS_LISTED}
    monkeypatch.setattr(forecast, "infer_creation_order", lambda _: "")
    assert {order for order, _, _ in volumes_alike(layout, "macos")} >= {AS_LISTED, BY_NAME}
