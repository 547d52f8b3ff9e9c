"""What makes one enumeration take longer than another, in one sentence that arithmetic can check.

The difference is taken apart twice: by cause (seek, rotation …), and by reads. Reads of a kind whose number is n and
that take c seconds each differ by (mean c) x (difference of n) and by (mean n) x (difference of c): by more of them,
or by slower ones (Kitagawa, JASA 50, 1955). On drives with an arm, reads in sequence are told apart from the others.
What stands behind more reads elsewhere is the factor that grew most: entries, nodes for each entry, or the share of
nodes that do not start where the last one ended.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final

from layoutscope.results.compare import Reads
from layoutscope.units import format_bytes, format_ratio, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.results.compare import Cost, TimeRow

SAME: Final = 0.005
"""Times that differ by less than this share of the longer one are called the same."""

WHOLE: Final = 0.05
"""A part that exceeds the difference by up to this share of it is the whole difference."""

CAUSE_WORDS: Final = {
    "seek": "moving the arm",
    "rotation": "waiting for the platter to turn (rotation)",
    "transfer": "transfer",
    "overhead": "overhead (commands, and waiting for the look-ahead)",
    "host": "time of the computer",
}
"""Causes as a sentence tells them."""


KIND_WORDS: Final = {
    "reads": "reads",
    "reads-in-sequence": "reads in sequence",
    "reads-elsewhere": "reads that do not start where the last one ended",
}
"""Kinds of reads, likewise."""


def growth_by_cause(fast: Cost, slow: Cost) -> dict[str, float]:
    """Seconds of the difference by cause; they sum up to it."""
    before, after = dict(fast.causes_s), dict(slow.causes_s)
    return {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}


def growth_by_reads(fast: Cost, slow: Cost) -> dict[str, float]:
    """Seconds of the difference by more reads, slower reads, and the host; they sum up to it.

    Twice as many reads that take twice as long: 30 s more, 15 of them for the number, 15 for the length.

    >>> from layoutscope.results.compare import Cost, Reads
    >>> def side(count, seconds):
    ...     return Cost(seconds, seconds, seconds, (), True, 9, 9, 0.0, Reads(0, 0.0), Reads(count, seconds))
    >>> sides = side(10, 10.0), side(20, 40.0)
    >>> {name: seconds for name, seconds in growth_by_reads(*sides).items() if seconds}
    {'more-reads-elsewhere': 15.0, 'slower-reads-elsewhere': 15.0}
    """
    found: dict[str, float] = {}
    for kind, before, after in _kinds(fast, slow):
        earlier, later = _each(before, after), _each(after, before)
        found[f"more-{kind}"] = (after.count - before.count) * (earlier + later) / 2
        found[f"slower-{kind}"] = (later - earlier) * (after.count + before.count) / 2
    return {**found, "host": growth_by_cause(fast, slow).get("host", 0.0)}


def _kinds(fast: Cost, slow: Cost) -> list[tuple[str, Reads, Reads]]:
    return [
        ("reads-in-sequence", fast.in_sequence, slow.in_sequence),
        ("reads-elsewhere", fast.elsewhere, slow.elsewhere),
    ]


def _each(reads: Reads, other: Reads) -> float:
    """Return the seconds of one read; where a side has none of a kind, those of the other side."""
    chosen = reads if reads.count else other
    return chosen.seconds / chosen.count if chosen.count else 0.0


def explain(drive: str, costs: tuple[Cost, Cost], letters: tuple[str, str]) -> str:
    """Say in one sentence what explains most of the difference of two sides."""
    (fast, swift), (slow, late) = sorted(zip(costs, letters, strict=True), key=lambda side: side[0].seconds)
    more = slow.seconds - fast.seconds
    times = f"{format_seconds(slow.seconds)} against {format_seconds(fast.seconds)}"
    if more <= SAME * slow.seconds:
        return f"On {drive}, {letters[0]} and {letters[1]} take equally long: {times}."
    factor = f"{format_ratio(slow.seconds / fast.seconds)} times as long as" if fast.seconds else "longer than"
    longer = f"{late} takes {factor} {swift}"
    doubt = ", though not on every drive like that" if is_open(fast, slow) else ""
    return f"On {drive}, {longer} ({times}{doubt}): {_cause(fast, slow, more)}; {_reads(fast, slow, more)}."


def is_open(fast: Cost, slow: Cost) -> bool:
    """Tell whether the slower side is not the slower one in more than one of twenty draws.

    Both sides are on the same drive, whatever that is: where one is slower on each that is drawn, it does not matter
    that their intervals overlap.
    """
    turned = [one >= other for one, other in zip(fast.draws_s, slow.draws_s, strict=False)]
    return sum(turned) > len(turned) * OPEN_SHARE


OPEN_SHARE: Final = 0.05


def _cause(fast: Cost, slow: Cost, more: float) -> str:
    name, seconds = max(growth_by_cause(fast, slow).items(), key=lambda item: item[1])
    words = CAUSE_WORDS.get(name, name) if slow.rotates else name
    return f"{_part(seconds, more)} {words}"


def _part(seconds: float, more: float) -> str:
    """Tell the share of a difference, or what others take back of a part that is larger than the whole."""
    if seconds <= more * (1 + WHOLE):
        return f"{format_share(min(seconds / more, 1.0))} of the difference is"
    return f"{format_seconds(seconds)} more, of which other causes take back {format_seconds(seconds - more)}, is"


def _reads(fast: Cost, slow: Cost, more: float) -> str:
    terms = growth_by_reads(fast, slow)
    if not slow.rotates and not fast.rotates:
        terms = _together(terms)
    name, seconds = max(terms.items(), key=lambda item: item[1])
    share = _part(seconds, more).removesuffix(" is").replace("the difference", "it")
    return f"{share} comes from {_reason(name, fast, slow)}"


def _together(terms: dict[str, float]) -> dict[str, float]:
    """Add up both kinds of reads: without an arm it makes no difference where a read starts."""
    kinds = ("reads-in-sequence", "reads-elsewhere")
    return {
        **{f"{word}-reads": sum(terms[f"{word}-{kind}"] for kind in kinds) for word in ("more", "slower")},
        "host": terms["host"],
    }


def _reason(name: str, fast: Cost, slow: Cost) -> str:
    if name == "host":
        return f"the computer{_entries(fast, slow)}"
    word, _, kind = name.partition("-")
    before, after = _chosen(fast, kind), _chosen(slow, kind)
    text = KIND_WORDS[kind]
    if word == "slower":
        return f"slower {text}: {_ms(after)} against {_ms(before)} each{_distance(before, after)}"
    return f"more {text}: {after.count:,} against {before.count:,}{_behind(fast, slow, kind)}"


def _chosen(cost: Cost, kind: str) -> Reads:
    if kind == "reads-in-sequence":
        return cost.in_sequence
    return cost.elsewhere if kind == "reads-elsewhere" else all_reads(cost)


def all_reads(cost: Cost) -> Reads:
    """Add up the reads of a walk."""
    kinds = (cost.in_sequence, cost.elsewhere)
    return Reads(sum(kind.count for kind in kinds), sum(kind.seconds for kind in kinds))


def _ms(reads: Reads) -> str:
    return format_seconds(reads.seconds / reads.count) if reads.count else "none"


def _distance(before: Reads, after: Reads) -> str:
    """Name the distance where it grew as the cost did."""
    if after.distance_bytes <= before.distance_bytes:
        return ""
    far, near = format_bytes(after.distance_bytes), format_bytes(before.distance_bytes)
    return f", over a median distance of {far} against {near}"


def _behind(fast: Cost, slow: Cost, kind: str) -> str:
    """Name the factor of the number of reads that grew most."""
    before, after = _factors(fast, kind), _factors(slow, kind)
    growth = {name: _log_ratio(before[name], after[name]) for name in before}
    name = max(growth, key=lambda item: growth[item])
    if growth[name] <= 0:
        return ""
    if name == "entries":
        return _entries(fast, slow)
    if name == "per-entry":
        what = "nodes" if kind == "reads-elsewhere" else "requests"
        per = [f"{1000 * _factors(cost, kind)['per-entry']:,.0f}" for cost in (slow, fast)]
        return f", as {per[0]} {what} per 1,000 entries are read against {per[1]}"
    shares = [format_share(cost.sequence_share) for cost in (slow, fast)]
    return f", as {shares[0]} of its nodes are read in sequence against {shares[1]}"


def _factors(cost: Cost, kind: str) -> dict[str, float]:
    """Return the factors whose product is the number of reads of a kind; of reads elsewhere nearly so."""
    entries = max(cost.entries, 1)
    if kind == "reads-elsewhere":
        return {"entries": entries, "per-entry": cost.nodes / entries, "share": 1 - cost.sequence_share}
    return {"entries": entries, "per-entry": _chosen(cost, kind).count / entries}


def _log_ratio(before: float, after: float) -> float:
    return log(after / before) if before > 0 and after > 0 else 0.0


def _entries(fast: Cost, slow: Cost) -> str:
    return "" if fast.entries == slow.entries else f", for {slow.entries:,} entries against {fast.entries:,}"


def explained_row(times: Sequence[TimeRow]) -> TimeRow | None:
    """Return the first drive on which both the first and the last side have a prediction."""
    return next((row for row in times if None not in (row.costs[0], row.costs[-1])), None)


def costs_of_ends(row: TimeRow) -> tuple[Cost, Cost]:
    """Return the costs of the first and the last side, which there must be."""
    first, last = row.costs[0], row.costs[-1]
    if first is None or last is None:
        raise ValueError(f"{row.drive}: no prediction of both ends")
    return first, last
