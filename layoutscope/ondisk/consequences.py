"""Which findings of a check follow from which: each fault is listed once, at its cause.

A broken node brings along missing records, and these counts that no longer agree. What follows from what is data of a
file system: rows from the deepest cause to the shallowest, of which the first that fits counts. Nothing is left out;
a finding that may follow from another one names it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from layoutscope.findings import Finding


@frozen
class Follows:
    """What may follow from findings of some codes.

    Attributes
    ----------
    causes : frozenset of str
        Codes of the cause.
    consequences : frozenset of str
        Codes of what may follow.
    where : str
        Pattern of the structures that a cause may be about; empty for all.
    is_of_one_tree : bool
        Whether cause and consequence are about the same tree.
    """

    causes: frozenset[str]
    consequences: frozenset[str]
    where: str = ""
    is_of_one_tree: bool = False


def from_one(cause: str, consequences: frozenset[str], *, of_tree: bool = False) -> Follows:
    """Make a row of one cause, which does not follow from itself.

    Parameters
    ----------
    cause : str
        Its code.
    consequences, of_tree
        As for :class:`Follows`.
    """
    return Follows(frozenset({cause}), consequences - {cause}, is_of_one_tree=of_tree)


_RANK: Final = {"info": 0, "warning": 1, "error": 2}


def told_once(findings: Iterable[Finding]) -> list[Finding]:
    """Leave out what is said of a byte again, or at a lower level, as reading does of what a check tells of."""
    every = list(dict.fromkeys(findings))
    worst: dict[tuple[str, int, int | None], int] = {}
    for item in every:
        place = item.code, item.device, item.image_offset
        worst[place] = max(worst.get(place, 0), _RANK[item.level])
    return [
        item
        for item in every
        if item.image_offset is None or _RANK[item.level] == worst[item.code, item.device, item.image_offset]
    ]


def with_causes(
    findings: Sequence[Finding], rows: Iterable[Follows], tree_name: re.Pattern[str]
) -> tuple[Finding, ...]:
    """Name the cause of each finding that may follow from another one.

    Parameters
    ----------
    findings : sequence of Finding
        Of one volume; notes are neither causes nor consequences.
    rows : iterable of Follows
        From the deepest cause to the shallowest.
    tree_name : pattern
        How the structure that a finding is about begins where it names a tree, whose name is the first group.

    Returns
    -------
    tuple of Finding
        In the same order. A cause has no cause itself.
    """
    told: dict[str, list[int]] = {}
    for number, item in enumerate(findings):
        if item.level != "info":
            told.setdefault(item.code, []).append(number)
    found: dict[int, int] = {}
    for row in rows:
        causes = sorted(n for n in _of(row.causes, told) if re.match(row.where, findings[n].structure))
        left = sorted({n for n in _of(row.consequences, told) if n not in found} - {*causes}) if causes else []
        by_tree: dict[str, int] = {}
        for number in reversed(causes):
            by_tree[_tree_of(findings[number], tree_name) if row.is_of_one_tree else ""] = number
        by_structure = {findings[number].structure: number for number in reversed(causes)} if left else {}
        for number in left:
            item = findings[number]
            near = by_structure.get(item.structure)
            cause = by_tree.get(_tree_of(item, tree_name) if row.is_of_one_tree else "") if near is None else near
            if cause is not None and _first(found, cause) != number:
                found[number] = cause
    return tuple(
        replace(item, cause=findings[_first(found, number)]) if number in found else item
        for number, item in enumerate(findings)
    )


def _tree_of(item: Finding, tree_name: re.Pattern[str]) -> str:
    """Name the tree that a finding is about; empty where it is about none."""
    found = tree_name.match(item.structure)
    return found[1] if found else ""


def _of(codes: Iterable[str], told: dict[str, list[int]]) -> Iterator[int]:
    return (number for code in codes for number in told.get(code, ()))


def _first(found: dict[int, int], number: int) -> int:
    while number in found:
        number = found[number]
    return number
