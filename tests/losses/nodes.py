"""Damaged nodes: N of them give N causes at N addresses in a check and a scan, N rows, and N places on the map.

N B-tree nodes of a sound image are zeroed, filled with noise, changed by one bit, robbed of a sector, or overwritten
with a copy of another node. The causes that a check and a scan name, the rows of damaged nodes, and the damaged places
of the map's data are each compared with the planted damage.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from layoutscope import check, scan
from layoutscope.findings import first_cause
from layoutscope.report.map.page import disk_data, disk_shares
from layoutscope.report.map.pyramid import from_layouts
from layoutscope.report.map.scans import disks
from tests.losses.damage import Damage, damaged
from tests.losses.victim import Spot
from tests.pages import unpacked

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from layoutscope.findings import Finding
    from layoutscope.results.scan import ScanResult
    from tests.losses.images import Sound
    from tests.losses.victim import Victim

HFSPLUS_TREES = frozenset({"catalog", "extents-overflow", "attributes", "hot-files"})
SECTOR_BYTES = 512
NODE_HEAD_BYTES = 56
"""Bytes before the records of a node: 56 in APFS (btree_node_phys_t), 14 in HFS+."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a tree with the addresses of its parent and of the map node that leads to it."""

    spot: Spot
    tree: str
    above: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """Planted damage and the findings about it: the nodes that the check misses, and what it reports elsewhere.

    `misassigned` are findings about one node that name another one as their cause, and `strayed` are causes of the scan
    outside the damaged nodes, including the one that it quotes.
    """

    image: str
    kind: str
    nodes: tuple[Node, ...]
    missed: tuple[Spot, ...]
    false: tuple[Finding, ...]
    num_check: int
    num_scan: int
    misassigned: tuple[Finding, ...]
    strayed: tuple[Finding, ...]
    rows: Differences
    places: Differences

    @property
    def is_right(self) -> bool:
        """Whether the check, the scan, the rows and the map each match the damaged nodes in number and place."""
        elsewhere = self.missed or self.false or self.misassigned or self.strayed or self.rows or self.places
        return not elsewhere and self.num_check == self.num_scan


Said = tuple[str, int | None]
"""The code of a finding and its address."""

Differences = Counter[int]
"""Addresses that are reported more often than planted or, below zero, less often."""


def rows_of_damage(found: ScanResult) -> Counter[int]:
    """Count the rows of damaged nodes by their addresses on the named image."""
    rows: Counter[int] = Counter()
    for volume in found.parts:
        nodes = volume.layout.nodes.filter(device=0)
        rows.update(at for at, word in nodes.select("image_offset", "condition").iter_rows() if word != "sound")
    return rows


def places_of_damage(found: ScanResult) -> Counter[int]:
    """Count the damaged places of the map's data by their addresses on the named image."""
    places: Counter[int] = Counter()
    for disk in disks([found]):
        if disk.device == 0:
            segments = from_layouts(disk.layouts, disk.device)
            nodes = disk_data(disk, segments, disk_shares(disk, segments), names=False)["nodes"]
            words = [nodes["conditions"][code] for code in unpacked(nodes["condition"])]
            pairs = zip(unpacked(nodes["offset"]), words, strict=True)
            places.update(at for at, word in pairs if word in ("damaged", "unread"))
    return places


def _differences(found: Counter[int], before: Counter[int], nodes: Sequence[Node]) -> Differences:
    found = found.copy()
    found.subtract(before)
    found.subtract(node.spot.at for node in nodes)
    return Counter({at: count for at, count in found.items() if count})


NOWHERE = -1
"""The place of the parent of a root."""


def nodes_of(victim: Victim) -> list[Node]:
    """List the live nodes of an image, one per address."""
    found: dict[int, Node] = {}
    for volume in scan(victim.path, drives=(), **victim.options).parts:
        table = volume.layout.nodes
        columns = ("row", "tree", "kind", "image_offset", "size_bytes", "parent_row", "locator_row", "state", "device")
        rows = list(table.select(*columns).iter_rows())
        places = {row[0]: row[3] for row in rows}
        # Gaps between the pieces of a node belong to other objects.
        split = {row for (row,) in volume.layout.node_fragments.select("node_row").iter_rows()}
        for own, tree, kind, at, length, parent, locator, state, device in rows:
            is_own = state == "live" and device == 0 and own not in split
            if is_own and kind in ("leaf", "index", "map", "header"):
                above = (places.get(parent, NOWHERE), *([places[locator]] if locator in places else []))
                found.setdefault(at, Node(Spot(f"{tree} {kind}", at, length), tree, above))
    return [found[at] for at in sorted(found)]


def plant(victim: Victim, nodes: Sequence[Node], kind: str, rng: random.Random) -> tuple[Damage, ...]:
    """Damage nodes in a way that each node itself reveals."""
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
    """Leave out nodes that can no longer be reached because the node that leads to them is damaged as well.

    Virtual nodes of APFS are found through their object map even where their parent is lost, and nodes of HFS+ through
    the node map.
    """
    if any(node.tree == "container-omap" for node in chosen):
        # This node leads to the volumes, and they lead to everything else but the space manager.
        chosen = [node for node in chosen if node.tree in ("container-omap", "spaceman")]
    # A header node leads to its whole tree, and a map node to the next one.
    heads = [node for node in chosen if node.spot.structure.endswith(" header")]
    maps = [node for node in chosen if node.spot.structure.endswith(" map")]
    lost = {node.tree for node in heads}
    chosen = [node for node in chosen if node in heads or (node.tree not in lost and node not in maps[1:])]
    if lost & {"catalog", "extents-overflow"}:
        chosen = [node for node in chosen if node.tree in ("catalog", "extents-overflow")]
    hit, by_place = {node.spot.at for node in chosen}, {node.spot.at: node for node in nodes}

    def is_reached(node: Node) -> bool:
        above = node.above[1:] if node.tree in HFSPLUS_TREES or (by_map and len(node.above) > 1) else node.above
        return all(at not in hit and (at not in by_place or is_reached(by_place[at])) for at in above)

    return [node for node in chosen if is_reached(node)]


@lru_cache(maxsize=128)
def _before(path: Path, options: tuple[tuple[str, Any], ...]) -> tuple[set[Said], Counter[int], Counter[int]]:
    """Return the findings, rows and places of damaged nodes that a sound image already has."""
    found = scan(path, drives=(), **dict(options))
    findings = {(item.code, item.image_offset) for item in check(path, **dict(options)).every()}
    return findings, rows_of_damage(found), places_of_damage(found)


def judge(victim: Victim, nodes: Sequence[Node], kind: str, rng: random.Random) -> Planted:
    """Damage nodes of an image, and compare the findings with the damage."""
    with damaged(victim, plant(victim, nodes, kind, rng)):
        checked = check(victim.path, **victim.options)
        scanned = scan(victim.path, drives=(), **victim.options)
        places = places_of_damage(scanned)
    sound, *before = _before(victim.path, tuple(victim.options.items()))
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
    told = [item for item in scanned.every() if item.is_cause and (item.code, item.image_offset) not in sound]
    parts = [[item for item in part.findings if item.level != "info"] for part in (scanned, *scanned.parts)]
    quoted = [item for part in parts if part and ((item := first_cause(part)).code, item.image_offset) not in sound]
    return Planted(
        victim.name,
        kind,
        tuple(nodes),
        missed,
        false,
        len(causes),
        len(told),
        wrong,
        tuple(item for item in (*told, *quoted) if of(item) is None),
        _differences(rows_of_damage(scanned), before[0], nodes),
        _differences(places, before[1], nodes),
    )


def cases(
    victim: Victim, rng: random.Random, number: int, *, of: Callable[[Node], bool] = lambda _: True
) -> list[Node]:
    """Draw nodes of as many kinds as possible; none is hidden by another drawn one above it."""
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
    # Nodes of sealed volumes have no checksum of their own; their parent stores it.
    return visible(every, chosen, by_map=victim.is_apfs and "sealed" not in victim.name)


def reads_others(sound: Sound) -> bool:
    """Whether bytes of another file or place are read instead: the first image of a set, or a journal."""
    return sound.name.endswith("-second") or "journal" in sound.name
