"""Causes and consequences: findings are linked to the findings that may have caused them.

A file system declares rows of causes and consequences, and the object that each finding is about.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.findings import RANK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from layoutscope.findings import Finding


class About(NamedTuple):
    """The object that a finding is about, by identity."""

    tree: str = ""  # its tree, or the kind of object; empty for a finding without an object
    number: int | None = None  # number of the node or object in the tree
    # other objects involved, such as the target of a pointer, each as a tree and a number
    names: tuple[tuple[str, int], ...] = ()


class Follows(Struct, frozen=True):
    """A row of findings that may follow from other findings, by code."""

    causes: AbstractSet[str]  # codes of the cause
    consequences: AbstractSet[str]  # codes of the consequences
    where: str = ""  # pattern of the structures that a cause may be about; empty for all
    what: str = ""  # pattern of the structures that a consequence may be about; empty for all
    is_of_one_tree: bool = False  # whether cause and consequence are about the same tree
    is_of_named: bool = False  # whether the consequence is about the object that the cause names


def from_one(cause: str, consequences: AbstractSet[str], *, of_tree: bool = False) -> Follows:
    """Make a row with a single cause, which does not follow from itself."""
    return Follows({cause}, consequences - {cause}, is_of_one_tree=of_tree)


class Causes(Struct, frozen=True):
    """The relations between findings of a file system."""

    rows: tuple[Follows, ...]  # from the deepest cause to the shallowest
    # codes of errors which show that the bytes of one node are damaged, the gravest first: each such node is one cause
    damage: tuple[str, ...]
    doubtful: tuple[str, ...]  # codes that show the same, but may also follow from damage of another node
    # codes of errors in a field that leads to an object, which cause the errors found in that object
    fields: tuple[str, ...]
    about: Callable[[Finding], About]  # returns the object that a finding is about


def deduplicate(findings: Iterable[Finding]) -> list[Finding]:
    """Drop repeated findings on a byte, and less severe ones where reading and a check report the same error."""
    every = list(dict.fromkeys(findings))
    worst: dict[tuple[str, int, int | None], int] = {}
    for item in every:
        place = item.code, item.device, item.image_offset
        worst[place] = max(worst.get(place, 0), RANK[item.level])
    return [
        item
        for item in every
        if item.image_offset is None or RANK[item.level] == worst[item.code, item.device, item.image_offset]
    ]


def name_causes(findings: Sequence[Finding], causes: Causes, volumes: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Set the causes of each finding that may follow from others, given its volume, "" for the container."""
    # If no volumes are given, all findings belong to one.
    found = _Links(findings, causes, volumes or [""] * len(findings))
    found.join_nodes()
    for row in causes.rows:
        found.apply(row)
    # Many findings have the same causes, for example everything that a lost tree left unknown: follow them once.
    named = {links: tuple(findings[root] for root in found.roots(links)) for links in set(found.links.values())}
    named[()] = ()
    return tuple(replace(item, causes=named[found.links.get(number, ())]) for number, item in enumerate(findings))


Key = tuple[str, str, int]
"""A volume, one of its trees, and a node in the tree."""


class _Links:
    """Links from consequences to causes, by their indexes among the findings."""

    def __init__(self, findings: Sequence[Finding], causes: Causes, volumes: Sequence[str]) -> None:
        self.findings, self.causes, self.volumes = findings, causes, volumes
        self.about = [causes.about(item) for item in findings]
        self.codes: dict[str, list[int]] = {}
        for number, item in enumerate(findings):
            if item.level != "info":
                self.codes.setdefault(item.code, []).append(number)
        self.links: dict[int, tuple[int, ...]] = {}
        self.heads: set[int] = set()

    def roots(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """Follow links to the root causes, and return each root finding once."""
        found, seen = dict[int, None](), set[int]()
        waiting = [*numbers][::-1]
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            if number in self.links:
                waiting += self.links[number][::-1]
            else:
                found[number] = None
        return tuple(found)

    def own(self, number: int) -> Key | None:
        tree, node, _ = self.about[number]
        return None if node is None else (self.volumes[number], tree, node)

    def named(self, number: int) -> list[Key]:
        return [(self.volumes[number], *name) for name in self.about[number].names]

    def _record(self, number: int) -> tuple[str, str, str]:
        """Name the record or object of a finding, as precisely as possible."""
        item = self.findings[number]
        # Two findings of a node share a cause only if the node itself is damaged, or if both are about one record.
        record = item.field.partition("/")[0] if item.field.startswith("record ") else ""
        own = "" if record or self.about[number].number is None else str(number)
        return self.volumes[number], item.structure, record or own

    def join_nodes(self) -> None:
        """Make each damaged node one cause of all other findings in it, and of findings about pointers to it."""
        heads = dict[Key, int]()
        places = dict[tuple[int, int], int]()
        for number in self._all((*self.causes.damage, *self.causes.doubtful)):
            item, own = self.findings[number], self.own(number)
            if item.level == "error" and item.image_offset is not None and own is not None:
                # Several states and trees may share a block.
                heads.setdefault(own, places.setdefault((item.device, item.image_offset), number))
        self.heads.update(number for number in heads.values() if self.findings[number].code in self.causes.damage)
        # A field that leads to the wrong object is reported as an error: the object found is not a node of this tree.
        for number in self._all(self.causes.fields):
            for key in self.named(number) if self.findings[number].level == "error" else ():
                if key in heads:
                    self.link(heads[key], (number,))
        for number in self._all(self.codes):
            for named in (self.own(number), *self.named(number)):
                if named is not None and named in heads:
                    self.link(number, (heads[named],))

    def apply(self, row: Follows) -> None:
        """Link the consequences of a row to its causes, unless another cause already explains them."""
        causes = [n for n in self._all(sorted(row.causes)) if re.match(row.where, self.findings[n].structure)]
        if not causes:
            return
        causes.sort()
        same = dict[object, int]()
        groups = dict[tuple[str, str], list[int]]()
        for number in causes:
            for key in self.named(number) if row.is_of_named else (self._record(number),):
                same.setdefault(key, number)
            groups.setdefault((self.volumes[number], self._tree(number, row)), []).append(number)
        # A node whose own bytes are damaged is not a consequence of other damage.
        kept = {*causes} | (self.heads if row.causes & {*self.causes.damage} else set())
        # This row does not link any of its causes, so their root causes stay the same in this loop.
        known = dict[tuple[str, str, bool, str], tuple[int, ...]]()
        for number in self._all(sorted(row.consequences)):
            if number in self.links or number in kept or not re.match(row.what, self.findings[number].structure):
                continue
            keys = (self.own(number), *self.named(number)) if row.is_of_named else (self._record(number),)
            near = next((same[key] for key in keys if key in same), None)
            if near is not None:
                self.link(number, (near,))
            if not row.is_of_named:
                # Bytes that are damaged themselves follow only from causes that are not consequences of others.
                is_head, item = number in self.heads, self.findings[number]
                group = self.volumes[number], self._tree(number, row), is_head, item.level
                if group not in known:
                    volume, tree, *_ = group
                    # Causes are in the same volume or its container, and in the same tree if the row requires that.
                    near_groups = (
                        each for (other, of), each in groups.items() if of == tree and other in ("", volume or other)
                    )
                    found = (n for each in near_groups for n in each if not (is_head and n in self.links))
                    known[group] = self._gravest(found, item)
                self._set(number, known[group])

    def _tree(self, number: int, row: Follows) -> str:
        return self.about[number].tree if row.is_of_one_tree else ""

    def _all(self, codes: Iterable[str]) -> list[int]:
        return [number for code in codes for number in self.codes.get(code, ())]

    def link(self, number: int, causes: tuple[int, ...]) -> None:
        """Link a finding to its gravest causes; a cause must be at least as severe as the finding."""
        self._set(number, self._gravest(causes, self.findings[number]))

    def _gravest(self, causes: Iterable[int], item: Finding) -> tuple[int, ...]:
        """Return the gravest root causes, or none if all of them are less severe than the finding."""
        ranks = {root: RANK[self.findings[root].level] for root in self.roots(causes)}
        worst = max(ranks.values(), default=-1)
        return tuple(root for root, rank in ranks.items() if rank == worst) if worst >= RANK[item.level] else ()

    def _set(self, number: int, roots: tuple[int, ...]) -> None:
        others = tuple(root for root in roots if root != number) if number in roots else roots
        if others:
            self.links.setdefault(number, others)
