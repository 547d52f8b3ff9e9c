"""A Mac's kit as text: each walk beside its prediction, what the leaves tell, rows for the table of measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.report import escape_text
from layoutscope.report.text.console import plain_table, print_parts
from layoutscope.report.text.recorded import recording_lines
from layoutscope.results.kit import KitResult
from layoutscope.units import NOTHING, format_bytes, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from layoutscope.results.kit import KitMachine, KitWalk, LeafPolicy

COLUMNS: Final = (
    ("Walk", False),
    ("As", False),
    ("Clock", True),
    ("Predicted", True),
    ("Inside", False),
    ("On nodes", True),
    ("Blocks", True),
    ("Extra", True),
    ("Pairs", True),
    ("Drive", True),
    ("Host us", True),
    ("Model us", True),
)
"""Columns of the walks: time on the clock, the predicted interval, whether the first lies in it; shares of metadata
reads on nodes, of blocks and steps predicted; measured over predicted time of the drive; the host's for an entry."""


def print_kit(result: KitResult, console: Console) -> None:
    """Print a kit's scores."""
    print_parts(_kit(result), console)


def _kit(result: KitResult) -> Iterator[RenderableType]:
    yield Text(f"{escape_text(result.name)}: {_machine(result.machine, result.filesystem)}", style="bold")
    if result.machine.cache_sizes:
        yield Text(", ".join(f"{name} {escape_text(value)}" for name, value in result.machine.cache_sizes.items()))
    yield Text(f"Predicted for {escape_text(result.profile)}")
    if result.scored:
        yield plain_table("Walks beside their prediction", list(COLUMNS), [_row(walk) for walk in result.scored], gap=1)
    for walk in result.walks:
        yield from _about(walk)
    for step, note in result.missing:
        yield Text(f"left out or failed: {escape_text(step)} {escape_text(note)}".rstrip(), style="dim")
    if result.policy is not None:
        yield from _policy(result.policy)
    if result.scored:
        yield Text()
        yield Text("As rows of a table, to hand on:")
        yield from (Text(f"| {' | '.join(row)} |") for row in table_rows(result))


def _machine(machine: KitMachine, filesystem: str) -> str:
    """Say what was measured, as far as the kit tells."""
    kind = {True: ", flash", False: ", rotating", None: ""}[machine.solid_state]
    drive = f" ({machine.drive}{kind})" if machine.drive or kind else ""
    whose = " on ".join(filter(None, (machine.system, machine.model))) or "a Mac that it does not name"
    if not machine.device:
        return escape_text(f"{whose}; a volume that it does not name")
    return escape_text(f"{whose}; {filesystem or 'volume'} {machine.device}, {machine.physical}{drive}")


def _row(walk: KitWalk) -> tuple[str, ...]:
    """Return a walk's scores; what was not measured is a dash."""
    found = walk.replay
    if found is None or found.agreement is None or found.recording is None:
        return (walk.name, walk.order, *(NOTHING for _ in COLUMNS[2:]))
    expected, score = found.expected[0], found.agreement
    ratio = found.measured[0].ratio if found.measured else None
    each = found.host.each_us() if found.host is not None else None
    return (
        walk.name,
        walk.order,
        NOTHING if walk.real_s is None else format_seconds(walk.real_s),
        f"{format_seconds(expected.seconds_low)} to {format_seconds(expected.seconds_high)}",
        {True: "yes", False: "no", None: NOTHING}[walk.is_hit],
        format_share(found.recording.share),
        format_share(score.block_share),
        format_share(score.extra_share),
        format_share(score.pair_share),
        NOTHING if ratio is None else f"{ratio:.2f}",
        *((f"{us:.1f}" for us in each) if each is not None else (NOTHING, NOTHING)),
    )


def _about(walk: KitWalk) -> Iterator[Text]:
    if walk.why_not:
        yield Text(f"{walk.name}: not scored, {escape_text(walk.why_not)}", style="bold red")
    if walk.replay is not None and walk.replay.recording is not None:
        yield Text(f"{walk.name}:")
        yield from (Text(f"  {line.plain}", style=line.style) for line in recording_lines(walk.replay.recording))
    for note in walk.notes:
        yield Text(f"  {escape_text(note)}", style="bold red")


def _policy(policy: LeafPolicy) -> Iterator[Text]:
    yield Text()
    adjacent, written, tenths = leaf_cells(policy)
    yield Text(f"{policy.leaves:,} leaves: the next one in key order is next on disk for {adjacent}")
    if policy.transactions:
        yield Text(f"written by {written}")
        yield Text(f"transactions by tenths of the leaves: {tenths}")


def leaf_cells(policy: LeafPolicy | None) -> tuple[str, str, str]:
    """Tell what the leaves tell: share next to each other, transactions and leaves of each, transactions by tenths."""
    if policy is None:
        return NOTHING, NOTHING, NOTHING
    adjacent = NOTHING if policy.adjacent_share is None else format_share(policy.adjacent_share)
    if not policy.transactions:
        return adjacent, NOTHING, NOTHING
    middle, high, most = policy.leaves_per_transaction
    written = f"{policy.transactions:,} transactions: {middle:g} leaves each (90 % {high:g}, most {most:g})"
    return adjacent, written, ", ".join(f"{xid:,}" for xid in policy.xid_deciles)


def table_rows(result: KitResult) -> Iterator[tuple[str, ...]]:
    """Yield a row a walk, with what it was measured on and what the leaves tell."""
    machine, leaves = result.machine, leaf_cells(result.policy)
    memory = machine.cache_sizes.get("hw.memsize", "")
    size = format_bytes(int(memory)) if memory.isdecimal() else NOTHING
    for walk in result.scored:
        about = (machine.system or NOTHING, machine.drive or NOTHING, size, result.filesystem)
        entries = NOTHING if walk.entries is None else f"{walk.entries:,}"
        yield tuple(escape_text(cell).replace("|", "/") for cell in (*about, entries, *_row(walk), *leaves))


PRINTERS: Final = {KitResult: print_kit}
"""Printers of these results, by their kind."""
