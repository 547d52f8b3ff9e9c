"""Causes and remedies are model runs; a cause is named if it accounts for a tenth of the time."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope import plan, predict, scan
from layoutscope.access.trace import AccessTrace
from layoutscope.remedies.changes import CHANGES, WHAT_IFS
from layoutscope.results.explanation import (
    describe_placement,
    locate_reads,
    measure_placement,
    merge_partial_leaves,
    merge_reads_of_nodes,
)
from layoutscope.results.verdict import Cause, Placement, Remedy, Verdict, Why
from tests.layouts import NODE, layout, leaves

FAR = 20_000
"""Blocks: 80 MiB, more than a drive reads ahead."""


def walk_of(made, *blocks, length=NODE):
    """Return reads of these blocks of a layout, in this order."""
    return locate_reads(made, AccessTrace.from_reads(np.array(blocks) * NODE, np.full(len(blocks), length)))


def blocks_of(reads):
    return (reads.image_offset // NODE).tolist()


def far(*places):
    return layout(nodes=leaves(*places), size_bytes=100 * FAR * NODE)


def test_full_leaves_take_their_neighbours():
    """Half-full leaves are merged in pairs, which are read once; full ones keep their number."""
    half = far(1, 2, 3, 4)
    assert blocks_of(merge_partial_leaves(walk_of(half, 1, 2, 3, 4))) == [1, 3]
    full = layout(nodes=leaves(1, 2, 3, 4, used_bytes=4000, free_bytes=0))
    assert blocks_of(merge_partial_leaves(walk_of(full, 1, 2, 3, 4))) == [1, 2, 3, 4]
    # A snapshot's leaf is between the keys of no leaf of this view, so two half-full leaves are merged.
    both = leaves(1, 8, 2, 9, key_rank=[0, 0, 1, 1], state=["live", "snapshot", "live", "snapshot"])
    assert blocks_of(merge_partial_leaves(walk_of(layout(nodes=both), 1, 2))) == [1]
    # Two consecutive pages of a node are one read of its length; two nodes stay two reads.
    made = layout(nodes=leaves(0, 2, size_bytes=2 * NODE))
    joined = merge_reads_of_nodes(walk_of(made, 0, 1, 2, 3))
    assert (blocks_of(joined), joined.length_bytes.tolist()) == ([0, 2], [2 * NODE, 2 * NODE])
    whole = walk_of(made, 0, 2, length=2 * NODE)
    assert merge_reads_of_nodes(whole) is whole.trace


@pytest.mark.full
@pytest.mark.parametrize("image", ["apfs-scattered", "hfsplus-scattered"])
@pytest.mark.parametrize("host", ["linux", "macos"])
def test_a_change_takes_as_long_in_all_verbs(image, host):
    """The time is the same as a cause of a scan, a what-if of a prediction and a remedy of a plan."""
    path, drive = f"fixtures/images/{image}.img.zst", "generic-5400-2.5"
    verdict = scan(path, drives=drive, host=host).volume.verdict
    case = predict(path, drives=drive, host=host, what_ifs=[*WHAT_IFS]).volumes[0].drives[0]
    asked = {item.name: item.seconds for item in (case.packed, *case.what_ifs)}
    rows = {row.words.name: row.seconds for row in plan(path, drive=drive, host=host).volumes[0].remedies}
    told = {cause.name.change: cause.seconds for cause in verdict.causes}
    # Causes of a short walk, which no screen names, use the drive's profile figures.
    is_close = {"rel": 1e-9 if verdict.is_noticeable else 0.35}
    same = pytest.approx(rows["rewritten-in-key-order"], rel=1e-9)
    assert (verdict.packed_seconds, asked["packed"]) == (same, same)
    assert told["clumped-like-hfs"] == pytest.approx(asked["clumped-like-hfs"], **is_close)
    assert rows["solid-state"] == pytest.approx(asked["ssd"], rel=1e-9)
    assert rows["snapshots-removed"] == pytest.approx(asked["no-snapshots"], rel=1e-9)
    for name in ("names-only", "larger-requests"):
        assert told[name] == pytest.approx(rows[name], **is_close), name


@pytest.fixture
def verdict():
    """A minute on a disk, with causes on both sides of a tenth."""
    causes = (Cause(Why.ORDER, 6.0, 0.9), Cause(Why.STAT, 54.0, 0.1), Cause(Why.FILL, 54.1, 0.0983))
    remedies = (Remedy("solid-state", 1.0, 0.98, is_bought=True), Remedy("names-only", 57.0, 0.05))
    remedies += (Remedy("list-from-disk", 57.1, 0.0483), Remedy("tree-in-key-order", 66.0, -0.1))
    return Verdict("generic-7200", 60.0, 54.1, 3.0, causes, remedies, None)


def test_what_carries_less_than_a_tenth_is_not_named(verdict):
    """A cause is named from a tenth of the time on, a remedy helps from a twentieth on; a slower one never does."""
    assert [item.name for item in verdict.named_causes] == ["order", "stat"]
    assert [item.name for item in verdict.helpful] == ["solid-state", "names-only"]
    assert [item.name for item in verdict.useless] == ["list-from-disk", "tree-in-key-order"]
    # Nodes that fill half of their span are not described as separated by other data.
    causes = (Cause(Why.DISTANCE, 30.0, 0.5), *verdict.causes)
    for density, is_named in ((0.4999, True), (0.5, False)):
        made = replace(verdict, causes=causes, placement=Placement(2**20, 0.1, density, 0.5))
        assert (made.named_causes[0].name == Why.DISTANCE) == is_named


def test_remedies_that_are_named(verdict):
    """Remedies that help, those that need no drive first."""
    # A purchase may be first in the list but is not the best remedy; if nothing else helps, there is none.
    assert verdict.best.name == "names-only"
    assert replace(verdict, remedies=verdict.remedies[:1] + verdict.remedies[2:]).best is None
    assert replace(verdict, seconds=0.99).best is None
    # Of the three that save most; a fourth is listed after them, and what needs a program is marked.
    named = ("names-only", "tree-in-key-order", "solid-state", "list-from-disk")
    remedies = tuple(Remedy(name, 9.0, 0.9, name, is_bought=name == "solid-state") for name in named)
    made = replace(verdict, remedies=remedies)
    ordered = ["solid-state", "in software: names-only", "in software: tree-in-key-order", "list-from-disk"]
    assert [item.advice for item in made.helpful] == ordered
    assert [item.name for item in made.choose_helpful(2)] == ["names-only", "tree-in-key-order"]
    assert [item.name for item in made.choose_helpful(3)] == [item.name for item in made.helpful[:3]]
    assert made.best.name == "names-only"
    # It is listed separately and is not the best, however much it saves on the given drive.
    unsure = replace(verdict.remedies[1], is_sure=False)
    made = replace(verdict, remedies=(verdict.remedies[0], unsure, *verdict.remedies[2:]))
    assert [item.name for item in made.helpful] == ["solid-state"]
    assert [item.name for item in made.unsure] == ["names-only"]
    assert made.best is None
    assert verdict.unsure == ()
    assert replace(made, seconds=0.99).unsure == ()
    # A time below a second has neither an explanation nor remedies.
    quick = replace(verdict, seconds=0.99)
    assert (quick.named_causes, quick.helpful, quick.useless) == ((), (), ())
    assert replace(verdict, seconds=1.0).named_causes


@pytest.mark.parametrize(
    ("share", "density", "saved", "words"),
    [
        (0.004, 0.5, 0.0999, "close together"),
        (0.99, 0.5, 0.0999, "close together"),
        (0.004, 0.4999, 0.0999, "loosely packed, at little cost"),
        (0.99, 0.4999, 0.0999, "loosely packed, at little cost"),
        (0.004, 0.9, 0.5, "close together"),
        (0.99, 0.5, 0.1, "close together"),
        (0.004, 0.4999, 0.1, "scattered"),
        (0.4999, 0.25, 0.5, "scattered"),
        (0.5, 0.25, 0.5, "spread over the volume"),
    ],
)
def test_words_of_places_follow_the_rule(share, density, saved, words):
    """Nodes are close together if they fill half of their span, whatever the disk's turns; spread is half a volume."""
    assert describe_placement(Placement(2**20, share, density, saved)).startswith(
        f"{words}: 90 % of it within 1.0 MiB ("
    )


def test_causes_of_slow_listings(verdict):
    """Slow means that one cause accounts for half."""
    # Without the first cause, six of sixty seconds are left; a time under a second is never slow.
    assert verdict.is_slow
    assert not replace(verdict, seconds=0.99).is_slow
    assert replace(verdict, causes=(Cause(Why.ORDER, 30.0, 0.5),)).is_slow
    assert not replace(verdict, causes=(Cause(Why.ORDER, 30.1, 0.499),)).is_slow
    # Each has a long and a short form, and a model run; no cause is shown by its JSON key.
    assert {why.change for why in Why} <= set(CHANGES)
    assert not any(why.value in (why.short, why.words) for why in Why)


def test_span_and_density_are_arithmetic():
    """Nodes at 0, 1 and 9 of ten blocks: three tenths of a span of ten."""
    made = layout(nodes=leaves(0, 1, 9), size_bytes=100 * NODE)
    found = measure_placement(walk_of(made, 0, 9, 1), 0.0)
    assert (found.span_bytes, found.volume_share, found.density) == (10 * NODE, 0.1, 0.3)
    assert measure_placement(walk_of(made, 9), 0.0) is None
    # Nine tenths of 202 nodes are 182 of the 201 contiguous ones, wherever the last one is.
    made = layout(nodes=leaves(*range(201), 5000), size_bytes=10_000 * NODE)
    found = measure_placement(walk_of(made, 0, 5000, *range(1, 201)), 0.0)
    assert (found.span_bytes, found.density) == (182 * NODE, 1.0)
    begins_late = layout(nodes=leaves(0, *range(5000, 5201)), size_bytes=10_000 * NODE)
    assert measure_placement(walk_of(begins_late, *range(5000, 5201), 0), 0.0).span_bytes == 182 * NODE
