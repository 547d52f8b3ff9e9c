from __future__ import annotations

import numpy as np
import pytest

from layoutscope.metrics import DEFINITIONS, measure, tree_summaries
from layoutscope.metrics.definition import PERCENTILES, median_and_percentiles
from layoutscope.metrics.files import file_metrics, free_metrics, health_metrics, power_of_two_histogram
from layoutscope.metrics.scatter import distance_metrics, zone_bytes, zone_metric
from layoutscope.units import GIB, MIB
from tests.layouts import NODE, data, entries, layout, leaves


def by_name(metrics):
    return {metric.name: metric for metric in metrics}


def test_fragments_are_counted_over_blocks_and_files():
    # Two contiguous extents are not fragmented: score 1, one fragment.
    measured = by_name(file_metrics(layout(extents=data((20, 10, 2), (20, 12, 3)))))
    assert measured["file-layout-score"].value == 1
    assert measured["fragments-per-file"].value == 1
    # Files of 4 blocks in 2 pieces and of 3 in 1 have 1 break in 3 + 2 steps; a file of one block does not count.
    measured = by_name(file_metrics(layout(extents=data((20, 10, 2), (20, 50, 2), (21, 80, 3), (22, 99, 1)))))
    assert measured["file-layout-score"].value == pytest.approx(1 - 1 / 5)
    assert measured["fragments-per-file"].value == pytest.approx(4 / 3)
    assert measured["fragments-per-file"].parts == (("1", 2), ("2", 1))
    # A hole takes no block: if the blocks on both sides touch, they are one piece. Two files that touch are two.
    measured = by_name(file_metrics(layout(extents=data((20, 10, 2), (20, -1, 5), (20, 12, 2), (21, 14, 2)))))
    assert measured["fragments-per-file"].value == 1
    assert measured["fragments-per-file"].parts == (("1", 2),)


def test_free_space_is_binned_by_powers_of_two():
    """Runs of 1, 2 and 3 blocks are in the bins 4 KiB and 8 KiB; the largest is half of the space."""
    free = {
        "device": 0,
        "volume": 0,
        "image_offset": [0, 10 * NODE, 20 * NODE],
        "length_bytes": [NODE, 2 * NODE, 3 * NODE],
    }
    measured = by_name(free_metrics(layout(free=free)))
    assert measured["free-extents"].value == 3
    assert measured["free-extents"].parts == (("4.00 KiB", NODE), ("8.00 KiB", 5 * NODE))
    assert measured["free-largest-share"].value == 0.5
    # 2^k is the first size of its bin and 2^k - 1 the last of the bin below; 0 has its own bin.
    import numpy as np

    assert power_of_two_histogram(np.array([0, 1023, 1024, 2047])) == (("0", 1), ("512 B", 1), ("1.00 KiB", 2))


def test_fill_is_used_over_room_and_by_level():
    """Leaves with 2,000 of 4,000 bytes are half full; the index node with 1,000 of 4,000 a quarter."""
    nodes = leaves(
        1,
        2,
        3,
        level=[0, 0, 1],
        kind=["leaf", "leaf", "index"],
        used_bytes=[2000, 2000, 1000],
        free_bytes=[2000, 2000, 3000],
    )
    measured = by_name(health_metrics(layout(nodes=nodes), "catalog"))
    assert measured["leaf-fill"].value == 0.5
    assert measured["leaf-fill"].parts == (("level 0", 0.5), ("level 1", 0.25))
    assert measured["tree-height"].value == 2


def test_density_counts_nodes_per_thousand_entries():
    """Two leaves for two entries are 1,000 per thousand; a third one, half as full, belongs to a snapshot."""
    rows = entries((1, 2, "root", "directory", 0), (2, 20, "a", "file", 1))
    more = {"state": ["live", "live", "snapshot"], "used_bytes": [2000, 2000, 1000], "free_bytes": [2000, 2000, 3000]}
    found = by_name(health_metrics(layout(nodes=leaves(1, 2, 3, **more), entries=rows), "catalog"))
    assert found["nodes-per-1000-entries"].value == 1000
    assert found["leaf-fill"].value == 0.5
    assert "age-xid" not in found


@pytest.mark.parametrize(
    ("xid", "stamp", "age"),
    [([7, 5, 1], 7, 2), ([2**64 - 1], 7, 0), ([5], 2**64 - 1, 2**64 - 6), ([9], 2**63, 2**63)],
)
def test_age_is_counted_from_the_newest_transaction(xid, stamp, age):
    """Damaged transactions have 64 bits: a node from the future has age 0, and no number wraps or ends the scan."""
    nodes = leaves(*range(1, len(xid) + 1), tree="fs", xid=np.array(xid, np.uint64))
    measured = by_name(health_metrics(layout(nodes=nodes, filesystem="apfs", stamp=stamp), "fs"))
    assert measured["age-xid"].value == pytest.approx(age)


def test_inode_to_data_is_the_gap_between_edges():
    """Leaf at block 1, data at block 11: a gap of nine blocks; data right before the leaf has no gap.

    Two names of one file are one distance.
    """
    rows = entries((2, 20, "a", "file", 0), (2, 20, "same", "file", 0), (2, 21, "b", "file", 1))
    made = layout(nodes=leaves(1, 31), entries=rows, extents=data((20, 11, 2), (21, 29, 2)))
    measured = by_name(distance_metrics(made))
    assert measured["metadata-to-data"].value == 9 * NODE / 2


def test_parent_to_child_and_object_map_follow_references():
    """The child at block 5 is 3 blocks after its parent at 1; the object map at block 9 is also 3 away."""
    nodes = leaves(
        1,
        5,
        9,
        tree=["fs", "fs", "omap"],
        level=[1, 0, 0],
        kind=["index", "leaf", "leaf"],
        parent_row=[None, 0, None],
        locator_row=[None, 2, None],
    )
    measured = by_name(distance_metrics(layout(nodes=nodes, filesystem="apfs")))
    assert measured["parent-to-child"].value == 3 * NODE
    assert measured["omap-to-target"].value == 3 * NODE


def test_metadata_zone_follows_the_kernel():
    """16 GiB of 4 KiB blocks: 512 KiB bitmap, 8 MiB journal, 11 clumps of 4 MiB, 80 MiB hot files: 256 MiB."""
    regions = {
        "device": 0,
        "volume": 0,
        "type": ["allocation-file", "journal"],
        "owner": "",
        "image_offset": [NODE, MIB],
        "length_bytes": [512 * 1024, 8 * MIB],
    }
    made = layout(
        nodes=leaves(4000, 4001), regions=regions, size_bytes=16 * GIB, details={"catalog clump bytes": 4 * MIB}
    )
    # 4096 + 512 KiB + 4096 + 8 MiB + 44 MiB + 80 MiB = 132.5 MiB, rounded up to 128 MiB
    assert zone_bytes(made) == (256 * MIB, "")
    assert zone_metric(made).value == 1


@pytest.mark.parametrize(("size_bytes", "reason"), [(GIB, "10 GiB"), (20 * GIB, "journal")])
def test_small_or_unjournaled_volumes_have_no_zone(size_bytes, reason):
    """The kernel has no zone there, and the metric says so."""
    metric = zone_metric(layout(nodes=leaves(1), size_bytes=size_bytes))
    assert metric.value is None
    assert reason in metric.note


def test_tree_summary_counts_levels_pieces_and_clumps():
    """Two contiguous leaves and a far index node: 2 + 1 nodes, two pieces, two thirds clumped; one free node."""
    nodes = leaves(
        1, 2, 1000, 1001, level=[0, 0, 1, None], kind=["leaf", "leaf", "index", "free"], key_rank=[0, 1, 0, None]
    )
    (summary,) = tree_summaries(layout(nodes=nodes))
    assert summary.nodes_by_level == (2, 1)
    assert (summary.free_nodes, summary.other_nodes) == (1, 0)
    assert (summary.pieces, summary.size_bytes, summary.records) == (2, 3 * NODE, 8)
    assert summary.clumped_share == pytest.approx(2 / 3)


def test_every_metric_is_defined():
    """Without data there is no value, but each metric has its definition."""
    # Every metric comes without a value or with zero, without an error.
    for metric in measure(layout()):
        assert metric.value in (None, 0)
    # A metric is printed with its definition, so none may lack one.
    assert len(DEFINITIONS) > 20
    for definition in DEFINITIONS.values():
        assert all((definition.unit, definition.denominator, definition.text, definition.citation))
        assert definition.text.endswith(".")


@pytest.mark.parametrize("count", [1, 2, 3, 10, 99, 100, 101, 1000, 4097])
def test_medians_and_percentiles_are_those_of_numpy(count):
    """They agree to the last bit, with linear interpolation."""
    values = np.random.default_rng(count).integers(0, 2**50, count)
    middle, parts = median_and_percentiles(values)
    assert middle == np.median(values)
    assert [value for _, value in parts] == np.percentile(values, PERCENTILES).tolist()
