"""N damaged nodes are reported as N causes at N addresses, and no node's findings are attributed to another node."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from layoutscope import check, scan
from layoutscope.report.json import result_document
from layoutscope.zstd import zstd
from tests.losses.damage import Damage, damaged
from tests.losses.images import Sound
from tests.losses.nodes import cases, judge, nodes_of, plant, reads_others, rows_of_damage
from tests.losses.victim import rows_of, victim_of

IMAGES = Path(__file__).parents[2] / "fixtures" / "images"
APFS_LEAVES = (31_551_488, 195_112_960, 82_423_808)
"""Three leaves of the file-system tree of `apfs-scattered`."""
ROOT_PARENT = 1
"""The parent ID of the root directory, and of the hidden directory next to it, in both file systems."""


def of_fixture(name, folder):
    path = folder / f"{name}.img"
    with (IMAGES / f"{name}.img.zst").open("rb") as packed, path.open("wb") as file:
        shutil.copyfileobj(zstd.open(packed), file)
    (folder / "work").mkdir()
    return victim_of(Sound(name, path, {}), folder / "work")


@pytest.fixture(scope="module")
def scattered(tmp_path_factory):
    """The two images that every clone has."""
    names = ("apfs-scattered", "hfsplus-scattered")
    return {name: of_fixture(name, tmp_path_factory.mktemp(name)) for name in names}


@pytest.fixture(scope="module")
def written(sounds, victim):
    """Images that our writers make: snapshots, seals, encryption, every tree."""
    return {name: victim(name) for name, sound in sounds.items() if not reads_others(sound)}


def told(planted):
    return (
        [spot.structure for spot in planted.missed],
        *(list(found) for found in (planted.false, planted.misassigned, planted.strayed)),
        *(dict(found) for found in (planted.rows, planted.places)),
    )


NOTHING = ([], [], [], [], {}, {})


@pytest.mark.parametrize("kind", ["zeroed", "noise", "sector", "bit"])
def test_three_leaves_are_three_errors_at_their_addresses(scattered, kind):
    """The object map that leads to them is sound and is not a cause; there are no warnings where there are errors."""
    victim = scattered["apfs-scattered"]
    nodes = [node for node in nodes_of(victim) if node.spot.at in APFS_LEAVES]
    with damaged(victim, plant(victim, nodes, kind, random.Random(7))):  # noqa: S311
        found, seen = check(victim.path), scan(victim.path, drives=())
    causes = [item for item in found.every() if item.is_cause]
    assert {(item.level, item.image_offset) for item in causes} == {("error", at) for at in APFS_LEAVES}
    assert (found.num_causes, seen.num_causes) == (3, 3)
    assert (result_document(found)["num_causes"], result_document(seen)["num_causes"]) == (3, 3)
    for item in found.every():
        if item.structure.startswith("fs tree, node ") and item.causes:
            assert [cause.structure for cause in item.causes] == [item.structure]


@pytest.mark.parametrize(("number", "kind"), [(1, "zeroed"), (3, "noise"), (8, "zeroed"), (40, "noise")])
@pytest.mark.parametrize("name", ["apfs-scattered", "hfsplus-scattered"])
def test_as_many_causes_as_damaged_nodes(scattered, name, number, kind):
    """Leaves and index nodes of all trees. An HFS+ header node hides its tree, so another test damages it."""
    victim, rng = scattered[name], random.Random(number)  # noqa: S311
    nodes = cases(victim, rng, number, of=lambda node: not node.spot.structure.endswith(" header"))
    planted = judge(victim, nodes, kind, rng)
    assert told(planted) == NOTHING
    assert (planted.num_check, planted.num_scan) == (len(nodes), len(nodes))


@pytest.mark.full
def test_every_kind_of_node_of_written_images(written):
    """Several nodes of each image at once, of any tree: object maps, snapshots, seals, free queues."""
    wrong = []
    for number, (name, victim) in enumerate(sorted(written.items())):
        rng, kind = random.Random(number), ("zeroed", "noise")[number % 2]  # noqa: S311
        nodes = cases(victim, rng, 2, of=lambda node: node.tree == "fs") if "view" in name else cases(victim, rng, 8)
        planted = judge(victim, nodes, kind, rng)
        if not planted.is_right:
            wrong.append((name, kind, told(planted), planted.num_check, planted.num_scan))
    assert wrong == []


def test_a_node_below_a_lost_one_is_a_cause_too(scattered):
    """Only the object map, or the map of used nodes, still leads to the leaf."""
    for name, tree in (("apfs-scattered", "fs"), ("hfsplus-scattered", "catalog")):
        victim = scattered[name]
        every = {node.spot.at: node for node in nodes_of(victim)}
        leaf = next(node for node in every.values() if node.spot.structure == f"{tree} leaf" and node.above[0] in every)
        planted = judge(victim, [leaf, every[leaf.above[0]]], "zeroed", random.Random(1))  # noqa: S311
        assert told(planted) == NOTHING
        assert (planted.num_check, planted.num_scan) == (2, 2)


TOGETHER = {
    # Pointers of the attributes lead past the end of a file that the overflow tree no longer continues.
    "written-hfsplus-attributes": ("extents-overflow leaf", "catalog index"),
    # Nor are other map nodes after a lost one leaves.
    "written-hfsplus-map-nodes": ("catalog map", "catalog index"),
    # The hot files are found by their name.
    "written-hfsplus-hot": ("hot-files header", "attributes header"),
}


@pytest.mark.parametrize("kind", ["zeroed", "noise"])
@pytest.mark.parametrize("name", TOGETHER)
def test_nodes_whose_damage_meets(written, name, kind):
    """Damage to one of them neither hides findings about the others nor adds any."""
    victim = written[name]
    nodes = nodes_of(victim)
    chosen = [next(node for node in nodes if node.spot.structure == structure) for structure in TOGETHER[name]]
    planted = judge(victim, chosen, kind, random.Random(2))  # noqa: S311
    assert told(planted) == NOTHING
    assert (planted.num_check, planted.num_scan) == (len(chosen), len(chosen))


@pytest.mark.parametrize("kind", ["zeroed", "noise"])
def test_a_leaf_below_an_index_node_that_the_map_lost(scattered, kind):
    """A sweep repairs the object map from sound nodes; the leaf was in the map before the damage."""
    victim = scattered["apfs-scattered"]
    every = {node.spot.at: node for node in nodes_of(victim)}
    leaf, index = next(
        (node, every[node.above[0]])
        for node in every.values()
        if node.spot.structure == "fs leaf" and len(node.above) > 1
        if every[node.above[0]].above[-1] != node.above[1]
    )
    free_queue = next(node for node in every.values() if node.spot.structure == "spaceman leaf")
    chosen = [leaf, every[index.above[-1]], free_queue]
    assert chosen[1].spot.structure == "omap leaf"
    planted = judge(victim, chosen, kind, random.Random(3))  # noqa: S311
    assert told(planted) == NOTHING
    assert (planted.num_check, planted.num_scan) == (3, 3)


def test_nodes_that_are_left_over_are_neither_causes_nor_rows(scattered):
    """An empty HFS+ node that the map marks as used is not damage, even where leaves are damaged."""
    victim = scattered["hfsplus-scattered"]
    nodes = nodes_of(victim)
    header = next(node for node in nodes if node.spot.structure == "catalog header")
    # The map is the third record of the header node, after its descriptor, header record and 128 bytes (TN1150).
    at, size = header.spot.at + 14 + 106 + 128, header.spot.length - 256
    used = int.from_bytes(victim.read(at, size))
    last = size - 1 - next(place for place in range(size) if used >> 8 * place & 0xFF)
    byte = victim.read(at + last, 1)[0]
    leaves = [node for node in nodes if node.spot.structure == "catalog leaf"][1:40:13]
    left = Damage(header.spot, "left over", False, at + last, bytes([byte | byte >> 1]))
    with damaged(victim, (left, *plant(victim, leaves, "zeroed", random.Random(1)))):  # noqa: S311
        found, seen = check(victim.path), scan(victim.path, drives=())
    wanted = {node.spot.at for node in leaves}
    for result in (found, seen):
        errors = [item.image_offset for item in result.every() if item.is_cause and item.level == "error"]
        assert len(errors) == len(leaves)
        assert all(any(0 <= at - place < leaves[0].spot.length for place in wanted) for at in errors)
    assert rows_of_damage(seen) == dict.fromkeys(wanted, 1)


def test_the_first_error_that_is_quoted_is_a_cause(scattered):
    """HFS+: the lost leaf, not the links and pointers that lead to it."""
    from io import StringIO

    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.scan import print_scan

    victim = scattered["hfsplus-scattered"]
    leaf = next(node for node in nodes_of(victim) if node.spot.structure == "catalog leaf" and node.spot.at > 10**7)
    with damaged(victim, (Damage(leaf.spot, "zeroed", False, leaf.spot.at, bytes(leaf.spot.length)),)):
        target = StringIO()
        print_scan(scan(victim.path, drives=()), make_console(target, width=80))
    assert re.search(rf"catalog node \d+ at byte {leaf.spot.at:,}: ", " ".join(target.getvalue().split()))


@pytest.mark.parametrize("number", [1, 3, 8])
@pytest.mark.parametrize("name", ["apfs-scattered", "hfsplus-scattered", "written-apfs-many", "written-hfsplus-deep"])
def test_entries_that_are_missing_are_names_that_are_lost(scattered, written, name, number):
    """Never more than the sound image's list shows as lost; at least one if any user-visible name was lost."""
    victim = {**scattered, **written}[name]
    rng = random.Random(number)  # noqa: S311
    leaves = [node for node in nodes_of(victim) if node.spot.structure in ("fs leaf", "catalog leaf")]
    for _ in range(3):
        with damaged(victim, plant(victim, rng.sample(leaves, min(number, len(leaves))), "zeroed", rng)):
            found = scan(victim.path, drives=())
        lost = [parent for parent, *_ in (victim.rows - rows_of(found)).elements()]
        missing = sum(volume.layout.facts.num_missing_entries for volume in found.parts)
        assert missing <= len(lost)
        assert missing or not any(parent != ROOT_PARENT for parent in lost)


def test_a_cut_image_does_not_say_that_nothing_need_be_read(scattered, tmp_path):
    """The first half holds the volume superblock but nothing that lists a file."""
    from io import StringIO

    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.scan import print_scan
    from layoutscope.results.explanation import story

    whole = scattered["apfs-scattered"].path
    half = tmp_path / "half.img"
    with whole.open("rb") as file:
        half.write_bytes(file.read(whole.stat().st_size // 2))
    found = scan(half)
    target = StringIO()
    print_scan(found, make_console(target, width=80))
    text = target.getvalue()
    assert "takes no read at all" not in text
    assert "No listing time: the metadata that lists the files was not read." in text
    assert not any("reads nothing more" in sentence for volume in found.parts for sentence in story(volume))
