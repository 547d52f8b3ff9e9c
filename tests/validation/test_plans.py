"""Plans of aged volumes: no overlaps, no losses, and the same seed gives the same plan."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from fixtures.fileset import FileSet, populate, replaced
from layoutscope.aging.hfsplus import THREAD, catalog_bytes, split_rule, thread_bytes
from layoutscope.aging.trees import NAME, TEMPORARY_LETTERS, key_of
from layoutscope.drive import load_profile, service
from layoutscope.tables.columns import NULL_ROW
from layoutscope.walk import trace
from tests.unit.native.reference.growth import Nodes
from tests.validation.plans import (
    BLOCK,
    LINUX_APFS,
    LINUX_APFS_INTERLEAVED,
    LINUX_HFSPLUS,
    MACOS_APFS,
    MACOS_HFSPLUS,
    aging,
)

PLACEMENTS = [LINUX_HFSPLUS, MACOS_HFSPLUS, LINUX_APFS, LINUX_APFS_INTERLEAVED, MACOS_APFS]
SMALL = FileSet(files=2000)
FIRST_ID = 16
"""Numbers below are those of the volume's own files (TN1150; Apple File System Reference)."""


def plan_of(placement, file_set=SMALL, cycles=3):
    return next(aging(file_set, placement, (cycles,)))


def tree_nodes(layout):
    """Return the columns of the live nodes of all trees, by name, as signed numbers or strings."""
    nodes = layout.columns("nodes")
    rows = np.flatnonzero(nodes["level"].is_known & nodes["state"].equals("live"))
    found = {"tree": np.array(nodes["tree"].words)[nodes["tree"].data[rows]]}
    for name in ("row", "level", "parent_row", "locator_row", "image_offset", "size_bytes", "used_bytes", "key_rank",
                 "num_records", "first_key_id"):  # fmt: skip
        found[name] = nodes[name].signed()[rows]
    return found


@pytest.fixture(params=PLACEMENTS, ids=lambda placement: placement.name)
def placement(request):
    """Run a test with every placement."""
    return request.param


def test_nothing_lies_twice(placement):
    """Nodes, extents of live files and free space are disjoint, and within the volume."""
    layout = plan_of(placement)
    nodes, extents, free = tree_nodes(layout), layout.columns("extents"), layout.columns("free")
    own = extents["file_id"].signed() >= FIRST_ID
    start = [nodes["image_offset"], extents["image_offset"].signed()[own], free["image_offset"].signed()]
    size = [nodes["size_bytes"], extents["length_bytes"].signed()[own], free["length_bytes"].signed()]
    start, size = np.concatenate(start), np.concatenate(size)
    order = np.argsort(start)
    assert np.all(start[order][1:] >= (start + size)[order][:-1])
    assert start.min() >= 0
    assert (start + size).max() <= layout.facts.size_bytes


def test_files_have_their_blocks(placement):
    """The extents of a file are in sequence and add up to its size in blocks."""
    layout = plan_of(placement)
    extents, entries = layout.columns("extents"), layout.columns("entries")
    own = extents["file_id"].signed() >= FIRST_ID
    ids, logical, length = (extents[name].signed()[own] for name in ("file_id", "logical_offset", "length_bytes"))
    order = np.lexsort((logical, ids))
    same = ids[order][1:] == ids[order][:-1]
    assert np.array_equal(logical[order][1:][same], (logical + length)[order][:-1][same])
    known, owner = np.unique(ids, return_inverse=True)
    blocks = dict(zip(known.tolist(), np.bincount(owner, length).tolist(), strict=True))
    files = entries["kind"].equals("file")
    expected = -(-entries["size_bytes"].signed()[files] // BLOCK) * BLOCK
    assert [blocks[number] for number in entries["file_id"].signed()[files].tolist()] == expected.tolist()


def test_entries_lead_to_leaves_that_hold_their_keys(placement):
    """Each entry's name is in a leaf that starts at its directory or before, its inode in one for its own number."""
    layout = plan_of(placement)
    nodes, entries = tree_nodes(layout), layout.columns("entries")
    first = dict(zip(nodes["row"].tolist(), nodes["first_key_id"].tolist(), strict=True))
    leaves = set(nodes["row"][(nodes["level"] == 0) & np.isin(nodes["tree"], ["catalog", "fs"])].tolist())
    record = "thread_node_row" if layout.facts.filesystem == "hfsplus" else "inode_node_row"
    for row, number in (("entry_node_row", "parent_id"), (record, "file_id")):
        led = entries[row].signed().tolist()
        assert set(led) <= leaves
        assert all(first[leaf] <= ident for leaf, ident in zip(led, entries[number].signed().tolist(), strict=True))


def test_records_are_conserved(placement):
    """HFS+ has two records per object; APFS four per file and two per directory, two more after renames by Linux."""
    cycles, population = 3, populate(SMALL)
    layout = plan_of(placement, cycles=cycles)
    nodes = tree_nodes(layout)
    leaves = (nodes["level"] == 0) & np.isin(nodes["tree"], ["catalog", "fs"])
    held = int(nodes["num_records"][leaves].sum())
    objects, files = len(population), len(population.files)
    if layout.facts.filesystem == "hfsplus":
        assert held == 2 * objects
        return
    renamed = len(np.unique(np.concatenate([replaced(population, cycle) for cycle in range(1, cycles + 1)])))
    assert held == 2 * objects + 2 * files + (2 * renamed if placement.policy.leaves_siblings else 0)


def test_every_node_has_its_parent_and_its_map(placement):
    """Each tree has one root; every other node has a parent one level up whose range begins before it."""
    nodes = tree_nodes(plan_of(placement, FileSet(files=5000)))
    at = np.full(int(nodes["row"].max()) + 1, -1)
    at[nodes["row"]] = np.arange(len(nodes["row"]))
    parent = nodes["parent_row"]
    is_child = (parent >= 0) & (parent != NULL_ROW)
    assert sorted(nodes["tree"][~is_child]) == sorted(set(nodes["tree"]))
    above = at[parent[is_child]]
    assert np.all(nodes["level"][above] == nodes["level"][is_child] + 1)
    assert np.all(nodes["tree"][above] == nodes["tree"][is_child])
    assert np.all(nodes["first_key_id"][above] <= nodes["first_key_id"][is_child])
    mapped = nodes["tree"] == "fs"
    if mapped.any():
        leads = at[nodes["locator_row"][mapped]]
        assert set(nodes["tree"][leads]) == {"omap"}
        assert set(nodes["level"][leads]) == {0}


def test_nodes_fit_into_their_room(placement):
    """No node holds more than its size, and half of the leaves of a fresh volume are at least 0.4 full."""
    nodes = tree_nodes(plan_of(placement, cycles=0))
    assert np.all(nodes["used_bytes"] < nodes["size_bytes"])
    leaves = (nodes["level"] == 0) & np.isin(nodes["tree"], ["catalog", "fs"])
    assert np.median(nodes["used_bytes"][leaves]) >= 0.4 * placement.node_bytes


def test_the_same_seed_gives_the_same_plan(placement):
    """Two runs agree in every address; another seed does not."""
    first, again, other = (plan_of(placement, replace(SMALL, seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(tree_nodes(first)["image_offset"], tree_nodes(again)["image_offset"])
    addresses = [layout.columns("extents")["image_offset"].signed() for layout in (first, again, other)]
    assert np.array_equal(addresses[0], addresses[1])
    assert not np.array_equal(addresses[0], addresses[2])


def test_apfs_scatters_with_age_and_hfs_stays_in_its_catalog():
    """Leaves of an aged APFS tree are less and less contiguous, all over the data; those of HFS+ fill their file."""
    adjacent, span = {}, {}
    for placement in (MACOS_HFSPLUS, MACOS_APFS):
        for cycles in (0, 10):
            nodes = tree_nodes(plan_of(placement, FileSet(files=20_000), cycles))
            leaves = np.flatnonzero((nodes["level"] == 0) & np.isin(nodes["tree"], ["catalog", "fs"]))
            leaves = leaves[np.argsort(nodes["key_rank"][leaves])]
            offset, size = nodes["image_offset"][leaves], nodes["size_bytes"][leaves[0]]
            adjacent[placement.name, cycles] = (np.diff(offset) == size).mean()
            span[placement.name, cycles] = np.ptp(offset) / (len(leaves) * size)
    assert span["macos-hfsplus", 10] < 1.1
    assert span["macos-apfs", 10] > 20
    assert adjacent["macos-apfs", 0] > 0.9
    assert adjacent["macos-apfs", 10] < 0.6


@pytest.mark.parametrize("order", ["alphabetical", "hash", "numbered"])
def test_a_catalog_of_macos_splits_as_its_driver_does(order):
    """The number of leaves follows the driver's rule, fresh and after each cycle."""
    file_set = FileSet(files=5000, order=order)
    plans = aging(file_set, MACOS_HFSPLUS, range(6))
    planned = [int((tree_nodes(layout)["level"] == 0).sum()) for layout in plans]
    assert planned == count_leaves_record_by_record(file_set, 5)


def test_names_that_pass_split_the_leaves_of_a_catalog():
    """After ten cycles leaves grow by 25 % and time by 1.3 times; without temporary names by 11 % and 1.1 times."""
    drive = load_profile("wd-mybook-duo-disk").with_figures(on_arrival="track")
    for has_names, leaves, times in ((True, 1.25, 1.3), (False, 1.105, 1.07)):
        states = list(aging(FileSet(files=50_000, order="hash"), MACOS_HFSPLUS, (0, 10), has_temporary_names=has_names))
        fresh, aged = (int((tree_nodes(layout)["level"] == 0).sum()) for layout in states)
        assert aged / fresh == pytest.approx(leaves, abs=0.02)
        before, after = (service(trace(layout, order="fts", host="macos"), drive).seconds for layout in states)
        assert after / before == pytest.approx(times, abs=0.04)


def count_leaves_record_by_record(file_set, cycles):
    """Create and replace files one by one: thread and name, and a temporary name where a file is replaced."""
    population = populate(file_set)
    letters, ident = population.name_length, np.where(population.turn > 0, 2 + population.turn, 1)
    folder = ident[population.parent]
    thread, record = thread_bytes(letters), catalog_bytes(letters, population.is_directory)
    longer = catalog_bytes(letters + TEMPORARY_LETTERS, is_directory=False)
    steps, state, last = [], {}, int(ident.max())
    root = np.array(len("root"))
    steps += [(key_of(1, THREAD), thread_bytes(root)), (key_of(0, NAME), catalog_bytes(root, is_directory=True))]

    def write(item, number):
        steps.append((key_of(number, THREAD), thread[item]))
        state[item] = number

    name = key_of(folder, NAME, population.name_rank)
    for item in np.argsort(population.turn)[1:].tolist():
        write(item, ident[item])
        steps.append((name[item], record[item]))
    ends = [len(steps)]
    for cycle in range(1, cycles + 1):
        for item in replaced(population, cycle).tolist():
            old, last = state[item], last + 1
            write(item, last)
            passing = key_of(folder[item], NAME) - 1
            steps += [(passing, longer[item]), (name[item], 0), (key_of(old, THREAD), 0)]
            # Rename of a file: its record is inserted at its new place before the old one is deleted.
            steps += [(name[item], record[item]), (passing, 0)]
        ends.append(len(steps))
    keys = np.array([key for key, _ in steps])
    distinct, place = np.unique(keys, return_inverse=True)
    nodes, counts = Nodes(len(distinct), split_rule("macos")), []
    for turn, (number, (_, size)) in enumerate(zip(place.tolist(), steps, strict=True), 1):
        if size:
            nodes.write(number, int(size), 0, turn, turn)
        else:
            nodes.delete(number)
        if turn in ends:
            counts.append(len(nodes.order))
    return counts


def test_every_reason_is_for_a_parameter(placement):
    """Reasons name fields of the placement; every parameter except name, sizes and policy has one."""
    named = {name for name, _ in placement.reasons}
    stated = {field.name for field in fields(placement) if getattr(placement, field.name) != field.default}
    assert named <= {field.name for field in fields(placement)}
    sizes = {"volume_bytes", "node_bytes", "catalog_bytes"}
    assert stated - named <= {"name", "filesystem", "policy", "reasons", *sizes}
