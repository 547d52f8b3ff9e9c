"""Damaged nodes: N of them are N causes at N addresses, in a check and in a scan.

Of sound images N nodes of B-trees are zeroed, filled with noise, changed in a bit, robbed of a sector, or overwritten
with a copy of another node. What a check and a scan name as causes is compared with what was planted.

``python -m tests.losses.nodes --count 200 --seed 1`` runs it over all images and prints each case that fails.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from layoutscope import check, scan
from layoutscope.errors import UsageError
from tests.losses.campaign import damaged
from tests.losses.damage import Damage
from tests.losses.images import images
from tests.losses.victim import Spot, victim_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from layoutscope.findings import Finding
    from tests.losses.images import Sound
    from tests.losses.victim import Victim

NUMBERS = (1, 3, 8, 40)
KINDS = ("zeroed", "noise", "bit", "sector", "copy")
SECTOR_BYTES = 512
NODE_HEAD_BYTES = 56
"""What stands in front of the records of a node: 56 bytes in APFS (btree_node_phys_t), 14 in HFS+."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a tree, and what leads to it: its parent and the leaf of a map, each by their addresses."""

    spot: Spot
    tree: str
    above: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """What was damaged and what was said of it.

    Attributes
    ----------
    image : str
        The sound image.
    kind : str
        One of `KINDS`.
    nodes : tuple of Node
        Those that were damaged.
    missed : tuple of Spot
        Nodes that are no cause of the check.
    false : tuple of Finding
        Causes of the check that are in no damaged node.
    num_check, num_scan : int
        Causes of each.
    misassigned : tuple of Finding
        Findings about one node that name another one as their cause.
    """

    image: str
    kind: str
    nodes: tuple[Node, ...]
    missed: tuple[Spot, ...]
    false: tuple[Finding, ...]
    num_check: int
    num_scan: int
    misassigned: tuple[Finding, ...] = field(default=())

    @property
    def is_right(self) -> bool:
        """Whether causes and damaged nodes are the same, in number and place."""
        return not (self.missed or self.false or self.misassigned) and self.num_check == self.num_scan


def nodes_of(victim: Victim) -> list[Node]:
    """List the live nodes of an image, each address once."""
    found: dict[int, Node] = {}
    for volume in scan(victim.path, drives=(), **victim.options).volumes:
        table = volume.layout.nodes
        columns = ("row", "tree", "kind", "image_offset", "size_bytes", "parent_row", "locator_row", "state", "device")
        rows = list(table.select(*columns).iter_rows())
        places = {row[0]: row[3] for row in rows}
        for _, tree, kind, at, length, parent, locator, state, device in rows:
            if kind in ("leaf", "index", "map", "header") and state == "live" and device == 0:
                above = tuple(places[row] for row in (parent, locator) if row is not None and row in places)
                found.setdefault(at, Node(Spot(f"{tree} {kind}", at, length), tree, above))
    return [found[at] for at in sorted(found)]


def plant(victim: Victim, nodes: Sequence[Node], kind: str, rng: random.Random) -> tuple[Damage, ...]:
    """Damage nodes, each of which says so itself afterwards."""
    return tuple(Damage(node.spot, kind, False, node.spot.at, _damaged(victim, node, kind, rng)) for node in nodes)


def _damaged(victim: Victim, node: Node, kind: str, rng: random.Random) -> bytes:
    old = victim.read(node.spot.at, node.spot.length)
    if kind == "zeroed":
        return bytes(len(old))
    if kind == "noise":
        return rng.randbytes(len(old))
    if kind == "copy":
        return victim.read(_other(victim, node, rng), len(old))
    data = bytearray(old)
    if kind == "sector":
        at = rng.choice([at for at in range(0, len(old), SECTOR_BYTES) if any(old[at : at + SECTOR_BYTES])])
        data[at : at + SECTOR_BYTES] = bytes(SECTOR_BYTES)
    else:
        at = rng.choice([at for at in range(NODE_HEAD_BYTES, len(old)) if old[at]])
        data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


def _other(victim: Victim, node: Node, rng: random.Random) -> int:
    if not (
        alike := [spot.at for spot in victim.spots if spot.structure == node.spot.structure and spot.at != node.spot.at]
    ):
        return 0
    return rng.choice(alike)


def visible(nodes: Sequence[Node], chosen: Sequence[Node], *, by_map: bool) -> list[Node]:
    """Leave out nodes that nothing leads to any more, since what leads to them is damaged as well.

    Virtual nodes of APFS are found through their object map even where their parent is lost.
    """
    if any(node.tree == "container-omap" for node in chosen):
        # It leads to the volumes, and these to everything else but the space manager.
        chosen = [node for node in chosen if node.tree in ("container-omap", "spaceman")]
    # A header node leads to all of its tree, and a map node to the next one.
    heads = [node for node in chosen if node.spot.structure.endswith(" header")]
    maps = [node for node in chosen if node.spot.structure.endswith(" map")]
    lost = {node.tree for node in heads}
    chosen = [node for node in chosen if node in heads or (node.tree not in lost and node not in maps[1:])]
    if lost & {"catalog", "extents-overflow"}:
        chosen = [node for node in chosen if node.tree in ("catalog", "extents-overflow")]
    hit, by_place = {node.spot.at for node in chosen}, {node.spot.at: node for node in nodes}

    def is_reached(node: Node) -> bool:
        above = node.above[1:] if by_map and len(node.above) > 1 else node.above
        return all(at not in hit and (at not in by_place or is_reached(by_place[at])) for at in above)

    return [node for node in chosen if is_reached(node)]


def judge(victim: Victim, nodes: Sequence[Node], kind: str, rng: random.Random) -> Planted:
    """Damage nodes of an image, and compare what is said with that."""
    with damaged(victim, plant(victim, nodes, kind, rng)):
        checked = check(victim.path, **victim.options)
        scanned = scan(victim.path, drives=(), **victim.options)
    sound = {(item.code, item.image_offset) for item in check(victim.path, **victim.options).every()}
    causes = [item for item in checked.every() if item.is_cause and (item.code, item.image_offset) not in sound]

    def of(item: Finding) -> Node | None:
        at = item.image_offset
        return next((n for n in nodes if at is not None and n.spot.at <= at < n.spot.at + n.spot.length), None)

    named = {node.spot for item in causes if item.level == "error" and (node := of(item)) is not None}
    missed = tuple(node.spot for node in nodes if node.spot not in named)
    false = tuple(item for item in causes if of(item) is None)
    wrong = tuple(
        item
        for item in checked.every()
        if (own := of(item)) is not None and item.cause is not None and of(item.cause) not in (None, own)
    )
    numbers = len(causes), scanned.num_causes
    return Planted(victim.name, kind, tuple(nodes), missed, false, *numbers, wrong)


def cases(
    victim: Victim, rng: random.Random, number: int, *, of: Callable[[Node], bool] = lambda _: True
) -> list[Node]:
    """Draw nodes, as many kinds of them as there are, none below another one that hides it."""
    every = nodes_of(victim)
    groups: dict[str, list[Node]] = {}
    for node in every:
        if of(node):
            groups.setdefault(node.spot.structure, []).append(node)
    if number > 1:
        # Without it no volume is found.
        groups.pop("container-omap leaf", None)
    names, chosen = sorted(groups), list[Node]()
    while names and len(chosen) < number:
        name = rng.choice(names)
        chosen.append(groups[name].pop(rng.randrange(len(groups[name]))))
        if not groups[name]:
            names.remove(name)
    # Nodes of sealed volumes have no checksum of their own, but one in their parent.
    return visible(every, chosen, by_map=victim.is_apfs and "sealed" not in victim.name)


def reads_others(sound: Sound) -> bool:
    """Whether other bytes are read than those that are damaged: of the first image of a set, or of a journal."""
    return sound.name.endswith("-second") or "journal" in sound.name


def run(seed: int, numbers: range, only: str = "", kinds: Sequence[str] = KINDS) -> Iterator[Planted]:
    """Judge cases of all images."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name, "work")
        work.mkdir()
        victims = [
            victim_of(sound, work) for sound in images(Path(name)) if only in sound.name and not reads_others(sound)
        ]
        for number in numbers:
            rng = random.Random(f"{seed} {number}")  # noqa: S311
            victim = victims[number % len(victims)]
            chosen = cases(victim, rng, rng.choice(NUMBERS))
            kind = rng.choice(kinds)
            # Of a snapshot that is asked for by its name nothing is read where the name is lost.
            with suppress(UsageError) if victim.options else nullcontext():
                if chosen:
                    yield judge(victim, chosen, kind, rng)


def main() -> int:
    """Run the cases that the arguments ask for; 1 if one was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.losses.nodes", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--only", default="", help="images with this in their names")
    given = parser.parse_args()
    totals: Counter[tuple[str, bool]] = Counter()
    for number, item in enumerate(
        run(given.seed, range(given.first, given.first + given.count), given.only, given.kinds), given.first
    ):
        totals[item.kind, item.is_right] += 1
        if not item.is_right:
            kinds = Counter(node.spot.structure for node in item.nodes)
            print(f"{number} {item.image} {item.kind} {dict(kinds)}: check {item.num_check}, scan {item.num_scan}")  # noqa: T201
            for spot in item.missed:
                print("   missed", spot.structure, spot.at)  # noqa: T201
            for told in item.false[:12]:
                print("   false", told.level, told.code, told.image_offset, told.structure, told.field, told.message)  # noqa: T201
            for told in item.misassigned[:5]:
                print("   misassigned", told.code, told.structure)  # noqa: T201
    for kind in KINDS:
        print(f"{kind}: {totals[kind, True]} right, {totals[kind, False]} wrong")  # noqa: T201
    return 1 if any(not is_right for _, is_right in totals) else 0


if __name__ == "__main__":
    sys.exit(main())
