"""Times on drives as text: predictions with their causes, replays of traces, and the drives themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.report import escape_text
from layoutscope.report.text.console import (
    coverage_words,
    heads,
    image_line,
    item_table,
    make_printer,
    plain_table,
)
from layoutscope.results.explanation import describe_unknown
from layoutscope.results.predict import bound, width
from layoutscope.units import NOTHING, format_bytes, format_count, format_seconds, format_share
from layoutscope.walk.orders import ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from layoutscope.results import predict, recorded
    from layoutscope.results.scan import Prediction
    from layoutscope.walk.score import Score


MINUTES_FROM, HOURS_FROM = 120, 7200
"""Seconds from which intervals are shown in minutes."""

UNRECORDED: Final = {"macos": " (by published sources, not by recordings)"}
"""Hosts without recorded reads, and the sentence that says so."""

TOLD_STROKES: Final = 0.001
"""Smaller differences in arm travel are not shown."""

DOUBTED: Final = 0.5
"""Share of the blocks of a trace; where less is predicted, another image or order is likelier than a bad model."""


def prediction_table(
    predictions: Sequence[Prediction], title: str = "Predicted listing time, with the share of each cause"
) -> RenderableType:
    """Show predicted times with the shares of their causes; no seeks for drives without an arm."""
    causes = [(name.capitalize(), True) for name, _ in predictions[0].causes_s]
    columns = [*heads("Drive", ">Time", ">90 % range"), *causes]
    rows = [(item.drive, format_seconds(item.seconds), _interval(item), *_causes(item)) for item in predictions]
    return plain_table(title, columns, rows, gap=1)


def _interval(item: Prediction) -> str:
    if item.seconds_high >= HOURS_FROM:
        return f"{item.seconds_low / 3600:.1f}-{item.seconds_high / 3600:.1f} h"
    if item.seconds_high >= MINUTES_FROM:
        return f"{item.seconds_low / 60:.1f}-{item.seconds_high / 60:.1f} min"
    low, high = format_seconds(item.seconds_low), format_seconds(item.seconds_high)
    unit = high.rpartition(" ")[2]
    return NOTHING if low == high else f"{low.removesuffix(f' {unit}')}-{high}"


def _causes(item: Prediction) -> Iterator[str]:
    for name, seconds in item.causes_s:
        has_none = name in ("seek", "rotation") and not item.rotates
        yield NOTHING if has_none or not item.seconds else f"{seconds / item.seconds:.0%}"


def prediction_notes(predictions: Sequence[Prediction]) -> Iterator[Text]:
    """Yield what limits the predictions."""
    for item in predictions:
        if item.note:
            yield Text(f"{item.drive}: {item.note}", style="dim")


@make_printer
def print_prediction(result: predict.PredictResult) -> Iterator[RenderableType]:
    """Print times, causes, what-ifs and the most expensive directories."""
    yield image_line(result.image)
    for volume in result.volumes:
        yield Text()
        yield from _volume(volume)
    for case in result.orders:
        yield Text()
        yield from _orders(case)


def _orders(case: predict.OrdersCase) -> Iterator[RenderableType]:
    yield from _about(case)
    done = [order for order in case.orders if not order.why_not]
    times = done[0].times if done else ()
    columns = [*heads("Order", ">Reads"), *((item.drive, True) for item in times)]
    rows = [(order.order, f"{order.reads:,}", *(_format_time(order, item) for item in order.times)) for order in done]
    first = f", fastest on {times[0].drive} first" if times else ""
    as_on = f"{case.host}{UNRECORDED.get(case.host, '')}"
    yield plain_table(f"Orders as on {as_on}{first}; in brackets: per 1,000 entries", columns, rows, gap=1)
    for order in case.orders:
        words = f"not applicable: {order.why_not}" if order.why_not else ORDERS[order.order].does
        yield Text(f"{order.order}: {words}", style="dim")


def _format_time(order: predict.OrderCase, item: Prediction) -> str:
    each = order.seconds_per_1000(item)
    return format_seconds(item.seconds) + (f" ({format_seconds(each)})" if each is not None else "")


def _about(volume: predict.VolumeCase | predict.OrdersCase) -> Iterator[Text]:
    yield Text(escape_text(volume.volume), style="bold cyan")
    if lost := coverage_words(volume.coverage, volume.num_errors):
        yield Text(f"{lost}The times do not include what is missing.", style="bold red")
    if paths := volume.missing_paths:
        told = f"{format_count(len(paths), 'path')} of the list {'is' if len(paths) == 1 else 'are'} not on the volume"
        yield Text(f"{told}. The existing part of each path is looked up:", style="bold red")
        yield from (Text(f"  {escape_text(path)}") for path in paths[:MAX_MISSING])
        if len(paths) > MAX_MISSING:
            yield Text(f"  and {len(paths) - MAX_MISSING:,} more")


MAX_MISSING: Final = 5
"""Number of paths listed that are not on the volume."""


def _volume(volume: predict.VolumeCase) -> Iterator[RenderableType]:
    yield from _about(volume)
    walk = volume.walk
    as_on = f"{walk.host}{UNRECORDED.get(walk.host, '')}"
    yield Text(f"{walk.order} as on {as_on}: {format_count(walk.reads, 'read')}, {format_bytes(walk.read_bytes)}")
    if (least := volume.least_written) is not None:
        written = f"{least.pieces:,} nodes and pages, {format_bytes(least.written_bytes)}"
        yield Text(f"Writes are not included in the times: at least {written}")
    predictions = [case.prediction for case in volume.drives]
    if predictions:
        yield prediction_table(predictions, f"{walk.order}: predicted times, and the share of each cause")
    # Which part of a walk a disk serves at once: of its reads, and of the nodes that they read.
    shares = {metric.name: metric.value for metric in walk.metrics}
    reads, nodes = (shares.get(name) for name in ("request-layout-score", "enumeration-layout-score"))
    if reads is not None:
        scored = "" if nodes is None else f"; {format_share(nodes)} of the nodes do (enumeration layout score)"
        yield Text(f"{format_share(reads)} of the reads start where the previous one ended{scored}")
    # Processor and wall time of the host are shown separately: on flash this is most of the time.
    time = volume.host_time
    yield Text(f"Computer: {format_seconds(time.cpu_s)} of processor time, {format_seconds(time.wall_s)} elapsed")
    yield from prediction_notes(predictions)
    for case in volume.drives:
        yield Text()
        yield from _case(case)


def _case(case: predict.DriveCase) -> Iterator[RenderableType]:
    item = case.prediction
    yield Text(f"On {item.drive} ({item.title}): {format_seconds(item.seconds)}", style="bold")
    if not item.seconds:
        return
    if item.rotates and item.seeks:
        moved = f"{format_count(item.seeks, 'read')} move{'s' * (item.seeks == 1)}"
        way = item.head_travel_strokes
        strokes = f"{way:,.1f}" if way >= 1 else f"{way:.2g}" if way >= TOLD_STROKES else f"under {TOLD_STROKES}"
        # The first way of the arm, from where it stood, has no bytes between two reads.
        between = f"{format_bytes(item.head_travel_bytes)}, " if item.head_travel_bytes else ""
        yield Text(f"  {moved} the arm; head travel {between}{strokes} full strokes")
    for sentence in (*width(case), describe_unknown(item)):
        if sentence:
            yield Text(f"  {sentence}")
    for change in filter(None, (case.packed, *case.what_ifs)):
        yield Text(f"  {change.name}: {_instead(change, item)}")
    if bound(case):
        yield Text(f"  {bound(case)}")
    if case.directories:
        total = item.seconds
        yield item_table(
            f"Most expensive directories on {item.drive}",
            case.directories,
            ("Directory", lambda cost: escape_text(cost.path)),
            (">Reads", lambda cost: f"{cost.reads:,}"),
            (">Time", lambda cost: format_seconds(cost.seconds)),
            (">Share", lambda cost: format_share(cost.seconds / total)),
        )


def _instead(change: predict.Alternative, item: Prediction) -> str:
    """Describe what a change would make of a time, longer ones as such, or why it makes nothing of it."""
    if not change.is_applicable:
        return f"not applicable: {change.why_not}"
    before, after = format_seconds(item.seconds), format_seconds(change.seconds)
    if before == after:
        return f"takes as long: {change.because}"
    saved = 1 - change.seconds / item.seconds
    share = f"{format_share(abs(saved))} {'less' if saved >= 0 else 'more'}"
    return f"takes {after} instead of {before} ({share}): {change.because}"


@make_printer
def print_replay(result: recorded.ReplayResult) -> Iterator[RenderableType]:
    """Print the times of a trace, and how a prediction meets it."""
    made = f"{format_count(result.reads, 'read')}, {format_bytes(result.read_bytes)}"
    yield Text(f"{escape_text(result.trace)}: {made}", style="bold")
    if result.recording is not None:
        yield from recording_lines(result.recording)
    if result.times:
        yield prediction_table(result.times, "Time of the trace per drive, with the share of each cause")
    for measured in result.measured:
        total = f"{format_seconds(measured.measured_s)} measured, {format_seconds(measured.predicted_s)} predicted"
        ratio = "" if measured.ratio is None else f": {measured.ratio:.3f} times"
        yield item_table(
            f"Times of the recorded reads and of {measured.drive}; {total}{ratio}",
            measured.outcomes,
            ("Reads", lambda item: item.outcome),
            (">Number", lambda item: f"{item.reads:,}"),
            (">Measured", lambda item: format_seconds(item.measured_ms[0] / 1000)),
            (">p90", lambda item: format_seconds(item.measured_ms[1] / 1000)),
            (">Predicted", lambda item: format_seconds(item.predicted_ms[0] / 1000)),
            (">p90", lambda item: format_seconds(item.predicted_ms[1] / 1000)),
            gap=1,
        )
    if result.agreement is None:
        return
    if result.driver:
        yield Text(
            f"Predicted as {escape_text(result.driver)} reads, which the trace meets better than the usual driver"
        )
    has_its_image = result.recording is not None and not result.recording.problem
    if result.agreement.block_share < DOUBTED and not has_its_image:
        yield Text(
            "Few reads match. Check that the image, its state and the workload are those of the recording.",
            style="bold red",
        )
    yield from _agreement(result.agreement)
    if (host := result.host) is not None:
        each = host.each_us()
        measured_time, model_time = format_seconds(host.measured_us / 1e6), format_seconds(host.model_us / 1e6)
        words = f"Host between reads: {measured_time} measured, {model_time} by the model"
        if each is not None:
            words += f"; {each[0]:.1f} and {each[1]:.1f} us for each of {host.entries:,} entries"
        yield Text(words)
    pairs = zip(result.times, result.expected, strict=True)
    times = [(real.drive, _drive_seconds(real), _drive_seconds(made)) for real, made in pairs]
    yield item_table(
        "Service time of both on the same drives, without the host",
        [each for each in times if each[1]],
        ("Drive", lambda each: each[0]),
        (">Recorded", lambda each: format_seconds(each[1])),
        (">Predicted", lambda each: format_seconds(each[2])),
        (">Predicted / recorded", lambda each: f"{each[2] / each[1]:.3f}"),
    )


def _agreement(found: Score) -> Iterator[RenderableType]:
    predicted = f"{format_share(found.block_share)} of {found.real_blocks:,} recorded blocks were predicted"
    in_vain = found.predicted_blocks - found.shared_blocks
    vain = f"{in_vain:,} more predicted" if in_vain else "no others predicted"
    yield Text(f"{predicted}, {vain} (blocks of {found.block_bytes:,} bytes)")
    yield Text(
        f"{format_share(found.pair_share)} of {found.real_pairs:,} recorded steps from block to block were predicted"
    )
    for title, blocks in (("not predicted", found.missed), ("predicted, but not read", found.extra)):
        if blocks:
            yield Text(f"  {title}: " + ", ".join(f"{count:,} {name}" for name, count in blocks.items()))
    if found.pair_share < 1:
        steps = (f"{name} {met:,} of {steps:,}" for name, (steps, met) in found.pairs_by_cause.items())
        yield Text("  steps by what they lead to: " + ", ".join(steps))


def _drive_seconds(item: Prediction) -> float:
    """Return the seconds of the drive alone; a trace may not include those of its host."""
    return sum(seconds for name, seconds in item.causes_s if name != "host")


@make_printer
def print_drives(drives: Sequence[predict.DriveFacts]) -> Iterator[RenderableType]:
    """Print a list of several drives; of one all numbers with their sources."""
    if len(drives) == 1:
        yield from _one(drives[0])
        return
    yield item_table(
        "Drive profiles",
        drives,
        ("Drive", lambda item: item.profile.name),
        (">Random 4K", lambda item: format_seconds(item.random_ms[0] / 1000)),
        (">p99", lambda item: format_seconds(item.random_ms[2] / 1000)),
        (">MB/s", lambda item: f"{item.sequential_mb_s:,.0f}"),
        ("Use it for", lambda item: escape_text(item.profile.take_for or item.profile.title)),
    )


def _one(item: predict.DriveFacts) -> Iterator[RenderableType]:
    profile = item.profile
    yield Text(f"{profile.name}: {escape_text(profile.title)}", style="bold")
    yield Text(f"{profile.kind}, {format_bytes(profile.capacity_bytes)}, geometry: {profile.geometry}")
    if profile.take_for:
        yield Text(f"Use it for: {escape_text(profile.take_for)}")
    if profile.models:
        yield Text(f"Models: {escape_text(', '.join(profile.models))}")
    if profile.note:
        yield Text(escape_text(profile.note))
    median, p90, p99 = (format_seconds(value / 1000) for value in item.random_ms)
    yield Text(f"random reads of 4 KiB, one at a time: median {median}, p90 {p90}, p99 {p99}")
    yield Text(f"sequential reads at its start: {item.sequential_mb_s:,.0f} MB/s")
    yield item_table(
        "Figures",
        profile.figures.items(),
        ("Figure", lambda item: item[0]),
        ("Value", lambda item: _short(item[1].value)),
        ("Kind", lambda item: item[1].kind),
        ("Source", lambda item: escape_text(item[1].source)),
    )
    for member in profile.members:
        yield Text(f"member: {member.name}")


def _short(value: object) -> str:
    text = escape_text(f"{value:,}" if isinstance(value, int) else str(value))
    return text if len(text) <= 32 else f"{text[:29]}..."


NAMED: Final = 6
"""Devices and processes that are named; the rest is counted."""


def recording_lines(found: recorded.Recording) -> Iterator[Text]:
    """Yield what became of a recording, what is wrong with it first."""
    if found.problem:
        yield Text(f"{found.problem[0].upper()}{found.problem[1:]}", style="bold red")
    whose = f" by {escape_text(', '.join(found.processes))}" if any(found.processes) else ""
    counts = (
        (found.foreign_reads, "of other disks"),
        (sum(count for _, count in found.others), "of other programs"),
        (found.twice, "reported twice by CoreStorage"),
        (found.background, "of CoreStorage itself"),
        (found.lines.writes, "writes"),
        (found.lines.failed, "failed"),
        (found.lines.unparsed, "cut or damaged"),
        (found.lines.other, "other lines"),
    )
    counted = [f"{found.used:,} reads used{whose}", *(f"{count:,} {words}" for count, words in counts if count)]
    yield Text(f"{found.form}: {'; '.join(counted)}")
    if found.lines.first_unparsed:
        several = "the first is" if found.lines.unparsed > 1 else "it is"
        yield Text(f"  cut or damaged: {found.lines.unparsed:,} lines; {several} line {found.lines.first_unparsed:,}")
    if found.lines.lost:
        yield Text(
            f"  the recorder reports {found.lines.lost:,} times that it lost events: reads are missing", style="red"
        )
    for item in found.placed:
        yield Text(f"  {_placed(item, is_tried=found.is_tried)}")
    if found.foreign:
        yield Text(f"  other disks, left out: {_named(found.foreign)}")
    if found.others:
        yield Text(f"  other programs, left out: {_named(found.others)}")
    if not found.is_timed:
        yield Text("  the recording has no request and completion times, so times are not compared")
    elif found.overlapping:
        yield Text(f"  {found.overlapping:,} reads overlap another one")


def _placed(item: recorded.PlacedDevice, *, is_tried: bool) -> str:
    """Describe where a device's blocks are, and how that is known."""
    there = item.place
    name = escape_text(there.device) or "the disk"
    second = " of the second image" if there.image_device else ""
    text = (
        f"{name}: {item.reads:,} reads, blocks of {there.unit_bytes:,} bytes from byte {there.image_offset:,}{second}"
    )
    if not is_tried:
        return f"{text}; assumed, because there is no image to check it against"
    where = "on what the volume holds" if item.is_alike else "on nodes"
    return f"{text}; {item.on_nodes:,} of {item.tried:,} are {where}"


def _named(counts: Sequence[tuple[str, int]]) -> str:
    """Name the first of some counts, and the number of the others."""
    named = [f"{escape_text(name) or 'without a name'} {count:,}" for name, count in counts[:NAMED]]
    more = counts[NAMED:]
    return ", ".join([*named, *([f"{len(more):,} more {sum(count for _, count in more):,}"] if more else [])])


WALK_COLUMNS: Final = heads(
    *("Walk", "As", ">Clock", ">Predicted", "Inside", ">On nodes", ">Blocks", ">Extra", ">Pairs", ">Drive"),
    *(">Host us", ">Model us"),
)
"""Columns of the walks: time on the clock, the predicted interval, whether the first is in it; shares of metadata
reads on nodes, of blocks and steps predicted; measured over predicted time of the drive; the host's for an entry."""


@make_printer
def print_kit(result: recorded.KitResult) -> Iterator[RenderableType]:
    """Print a kit's scores."""
    yield Text(f"{escape_text(result.name)}: {_machine(result.machine, result.filesystem)}", style="bold")
    for what, said in (("Disks", result.machine.disks), ("Filled", result.machine.filled)):
        if said:
            yield Text(f"{what}: {escape_text(said)}")
    if result.machine.cache_sizes:
        yield Text(", ".join(f"{name} {escape_text(value)}" for name, value in result.machine.cache_sizes.items()))
    yield Text(f"Predicted for {escape_text(result.profile)}")
    if result.scored:
        rows = [_row(walk) for walk in result.scored]
        yield plain_table("Listings and their predictions", WALK_COLUMNS, rows, gap=1)
    for walk in result.walks:
        if walk.why_not:
            yield Text(f"{walk.name}: not scored, {escape_text(walk.why_not)}", style="bold red")
        if walk.replay is not None and walk.replay.recording is not None:
            yield Text(f"{walk.name}:")
            yield from (Text(f"  {line.plain}", style=line.style) for line in recording_lines(walk.replay.recording))
        for note in walk.notes:
            yield Text(f"  {escape_text(note)}", style="bold red")
    for step, note in result.missing:
        yield Text(f"left out or failed: {escape_text(step)} {escape_text(note)}".rstrip(), style="dim")
    if (policy := result.policy) is not None:
        yield Text()
        adjacent, written, tenths = leaf_cells(policy)
        yield Text(f"{policy.leaves:,} leaves: the next one in key order is next on disk for {adjacent}")
        if policy.transactions:
            yield Text(f"written by {written}")
            yield Text(f"transactions by tenths of the leaves: {tenths}")
    if result.scored:
        yield Text()
        yield Text("As table rows, to share:")
        yield from (Text(f"| {' | '.join(row)} |") for row in table_rows(result))


def _machine(machine: recorded.KitMachine, filesystem: str) -> str:
    """Describe the measurement, as far as the kit reports it."""
    kind = {True: ", flash", False: ", rotating", None: ""}[machine.solid_state]
    drive = f" ({machine.drive}{kind})" if machine.drive or kind else ""
    whose = " on ".join(filter(None, (machine.system, machine.model))) or "an unnamed Mac"
    if not machine.device:
        return escape_text(f"{whose}; an unnamed volume")
    return escape_text(f"{whose}; {filesystem or 'volume'} {machine.device}, {machine.physical}{drive}")


def _row(walk: recorded.KitWalk) -> tuple[str, ...]:
    """Return a walk's scores; what was not measured is a dash."""
    found = walk.replay
    if found is None or found.agreement is None or found.recording is None:
        return (walk.name, walk.order, *(NOTHING for _ in WALK_COLUMNS[2:]))
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


def leaf_cells(policy: recorded.LeafPolicy | None) -> tuple[str, str, str]:
    """Describe the leaves: share next to each other, transactions and leaves of each, transactions by tenths."""
    if policy is None:
        return NOTHING, NOTHING, NOTHING
    adjacent = NOTHING if policy.adjacent_share is None else format_share(policy.adjacent_share)
    if not policy.transactions:
        return adjacent, NOTHING, NOTHING
    middle, high, most = policy.leaves_per_transaction
    written = f"{policy.transactions:,} transactions: {middle:g} leaves each (90 % {high:g}, most {most:g})"
    return adjacent, written, ", ".join(f"{xid:,}" for xid in policy.xid_deciles)


def table_rows(result: recorded.KitResult) -> Iterator[tuple[str, ...]]:
    """Yield one row per walk, with its machine and the figures of the leaves."""
    machine, leaves = result.machine, leaf_cells(result.policy)
    memory = machine.cache_sizes.get("hw.memsize", "")
    size = format_bytes(int(memory)) if memory.isdecimal() else NOTHING
    for walk in result.scored:
        about = (machine.system or NOTHING, machine.drive or NOTHING, size, result.filesystem)
        entries = NOTHING if walk.entries is None else f"{walk.entries:,}"
        yield tuple(escape_text(cell).replace("|", "/") for cell in (*about, entries, *_row(walk), *leaves))
