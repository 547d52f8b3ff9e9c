"""Results as JSON documents, each with the name and the version of its form.

A result is an object with its fields in order, and so is what it holds; pairs of a name and a value are an object with
these names. :data:`SHAPES` lists the members of those types whose documents differ from their fields.
``tests/docs/schemas.py`` derives the schemas from the same types and shapes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from msgspec import UNSET, UnsetType

from layoutscope.display import Struct
from layoutscope.drive.profile import Figure
from layoutscope.drive.uncertain import Interval
from layoutscope.findings import CODES, Finding
from layoutscope.metrics import Metric, TreeSummary
from layoutscope.results.check import CheckedVolume, CheckResult, Verification
from layoutscope.results.compare import (
    Changes,
    Comparison,
    Cost,
    MetricRow,
    Series,
    TimeRow,
    all_reads,
    costs_of_ends,
    explained_row,
    growth_by_cause,
    growth_by_reads,
    ratio,
    ratios,
)
from layoutscope.results.explanation import story as sentences
from layoutscope.results.fleet import FleetResult, QueryResult, ReportResult, ViewList
from layoutscope.results.forecast import ForecastResult
from layoutscope.results.inspect import Inspection, StructureLines
from layoutscope.results.plan import EmittedOrder, Pace, PlannedRemedy, PlanResult, VolumePlan
from layoutscope.results.predict import (
    Alternative,
    DriveCase,
    DriveFacts,
    OrderCase,
    OrdersCase,
    PredictResult,
    VolumeCase,
)
from layoutscope.results.recorded import KitResult, KitWalk, MeasuredTimes, PlacedDevice, Recording, ReplayResult
from layoutscope.results.scan import Prediction, ScanResult, VolumeScan, WalkFacts
from layoutscope.results.verdict import Cause, Placement, Remedy
from layoutscope.tables import TreeFacts, VolumeFacts
from layoutscope.tables.schema import Column
from layoutscope.units import NOTHING
from layoutscope.walk.score import Score

if TYPE_CHECKING:
    from layoutscope.results import Shown

Source = str | Callable[[Any, Any], Any]
"""Where a value comes from: a path of attributes, or a function of the object and its owner."""

Shape = Mapping[str, "Source | tuple[Source, Shape | tuple[str, ...]]"]
"""Members of an object, in order, each with its source, and with the shape of its value where that is another one.

A shape that is a tuple names the items of tuples. What is found under the name ``*`` is made part of the object itself.
"""

SCHEMAS: Final[Mapping[Any, str]] = {
    ScanResult: "layoutscope.scan/1",
    CheckResult: "layoutscope.check/1",
    Verification: "layoutscope.verify/1",
    Inspection: "layoutscope.inspect/1",
    PredictResult: "layoutscope.predict/1",
    PlanResult: "layoutscope.plan/1",
    ReplayResult: "layoutscope.replay/1",
    KitResult: "layoutscope.validate/1",
    Comparison: "layoutscope.compare/1",
    Series: "layoutscope.series/1",
    ForecastResult: "layoutscope.forecast/1",
    FleetResult: "layoutscope.batch/1",
    QueryResult: "layoutscope.query/1",
    ViewList: "layoutscope.views/1",
    ReportResult: "layoutscope.report/1",
}
"""Name and version of each kind of document."""

IDS: Final = frozenset({"directory_id", "root_node_id", "stamp", "time_ns", "xid"})
"""Members with numbers of 64 bits, which are strings: many readers keep 53 bits of a number."""

Percentile = Literal["p50", "p90", "p99"]

EXACT: Final = 2**53
"""Many readers of JSON keep no more of a number."""


def result_document(result: Shown) -> dict[str, Any]:
    """Build the document of a result."""
    return build_object(result)


def result_json(result: Shown) -> str:
    """Write the document of a result as JSON text; ASCII, so that no name can act on a terminal."""
    return json.dumps(build_object(result), indent=2, allow_nan=False)


def list_json(schema: str, name: str, items: Any) -> str:
    """Write results of one kind, which a document holds under a name, as JSON text."""
    return json.dumps({"schema": schema, name: build_value(items, None)}, indent=2)


def build_object(item: Any, owner: Any = None, shape: Shape | None = None) -> dict[str, Any]:
    """Build the JSON object of a struct; `owner` is what holds it."""
    head = {"schema": SCHEMAS[type(item)]} if type(item) in SCHEMAS else {}
    made = dict(head)
    for name, source in (shape or shape_of(type(item))).items():
        value = build_member(item, owner, source)
        if name == "*":
            made |= value
        elif value is not UNSET:
            made[name] = str(value) if name in IDS else value
    return made | head


def shape_of(kind: Any) -> Shape:
    """Return the members of a type: those that are listed, or all of its fields."""
    return SHAPES.get(kind) or name_members(*kind.__struct_fields__)


def build_member(item: Any, owner: Any, source: Any) -> Any:
    """Build the value of one member of an object."""
    path, shape = source if isinstance(source, tuple) else (source, None)
    if callable(path):
        return build_value(path(item, owner), item, shape)
    value = item
    for step in path.split("."):
        item, value = value, value[int(step)] if step.isdigit() else getattr(value, step)
        if callable(value):
            value = value()
    if shape is None and is_named(str(type(item).__annotations__.get(step))):
        return {name: build_value(each, item) for name, each in value}
    return build_value(value, item, shape)


def is_named(annotation: str) -> bool:
    """Whether a field holds pairs of a name and a value, by its annotation."""
    return annotation.startswith("tuple[tuple[str, ") and annotation.endswith("], ...]")


def build_value(value: Any, owner: Any, shape: Any = None) -> Any:
    """Build what JSON has of a value, and of all that it holds."""
    if isinstance(value, Struct) or type(value) in SHAPES:
        return build_object(value, owner, shape)
    if isinstance(value, Mapping):
        return {name: build_value(each, owner, shape) for name, each in value.items()}
    if isinstance(value, tuple | list):
        if isinstance(shape, tuple):
            return [dict(zip(shape, each, strict=True)) for each in value]
        return [build_value(each, owner, shape) for each in value]
    return value.value if isinstance(value, Enum) else value


def name_members(*members: str) -> dict[str, str]:
    """Return the shape whose members are attributes of the same names."""
    return dict(zip(members, members, strict=True))


def name_fields(kind: Any) -> dict[str, str]:
    """Return the shape with all fields of a type."""
    return name_members(*kind.__struct_fields__)


def _num_findings(result: ScanResult | CheckResult, _: None) -> int:
    """Findings in all, with notes and with what follows from others."""
    return len(result.every())


def _num_causes(finding: Finding, _: Any) -> int:
    """How many findings it may follow from; 0 in a cause."""
    return len(finding.causes)


def _meaning(finding: Finding, _: Any) -> str:
    """What its code means."""
    return CODES[finding.code]


def _space(volume: VolumeScan, _: ScanResult) -> dict[str, int]:
    """Bytes by use, each byte once."""
    return {row.use: row.size_bytes for row in volume.space}


def _causes(volume: VolumeScan, _: ScanResult) -> tuple[Cause, ...]:
    """What the listing takes long for, the largest first."""
    return () if volume.verdict is None else volume.verdict.causes


def _remedies(volume: VolumeScan, _: ScanResult) -> tuple[Remedy, ...]:
    """What could be done, what saves most first."""
    return () if volume.verdict is None else volume.verdict.remedies


def _story(volume: VolumeScan, _: ScanResult) -> tuple[str, ...]:
    """The verdict in sentences."""
    return sentences(volume)


def _declared(tree: Any, volume: VolumeScan) -> TreeFacts | None:
    """The tree as its header declares it."""
    return {item.tree: item for item in volume.layout.facts.trees}.get(tree.tree)


def _is_named(cause: Cause, volume: VolumeScan) -> bool:
    """Whether it is said in words."""
    return volume.verdict is not None and cause in volume.verdict.named_causes


def _helps(remedy: Remedy, volume: VolumeScan) -> bool:
    """Whether it is named as help: it saves enough, and on nearly every drive like that."""
    return volume.verdict is not None and remedy in volume.verdict.helpful


def _value(metric: Metric, _: Any) -> float | None:
    """Number in the unit; null where there is none."""
    return metric.value if metric.value is None or math.isfinite(metric.value) else None


def _applies(item: PlannedRemedy, _: VolumePlan) -> bool:
    """Whether it applies to this volume, this work and this drive."""
    return not item.why_not


def _reason(item: PlannedRemedy | OrderCase, _: Any) -> str | None:
    """Why it does not apply; null where it does."""
    return item.why_not or None


def _if_applicable(name: str) -> Callable[[PlannedRemedy, VolumePlan], float | None]:
    """Make a member that is null where a remedy does not apply."""

    def read(item: PlannedRemedy, _: VolumePlan) -> float | None:
        value: float | None = getattr(item, name)
        return None if item.why_not else value

    return read


def _lasts_cycles(item: PlannedRemedy, plan: VolumePlan) -> float | None:
    """After how many cycles the work takes again what it takes now; null where that is not known."""
    return None if plan.pace is None else plan.pace.lasts(item)


def _seconds_per_1000(time: Prediction, order: OrderCase) -> float | None:
    """Time for 1,000 entries; null where the order goes through no number of them."""
    return order.seconds_per_1000(time)


def _what_ifs(case: DriveCase, _: VolumeCase) -> tuple[Alternative, ...]:
    """The same work with one thing changed; with the nodes side by side in key order first, where that was tried."""
    return case.what_ifs if case.packed is None else (case.packed, *case.what_ifs)


def _ratio(row: MetricRow, _: Comparison) -> float | None:
    """The last value over the first; null where that makes no sense."""
    return ratio(row.values)


def _ratios(row: MetricRow, _: Comparison) -> list[float | None]:
    """Every value but the first over the first."""
    return ratios(row.values)


def _ratio_of_times(row: TimeRow, _: Comparison) -> float | None:
    """The last time over the first; null where that makes no sense."""
    found = row.ratios[-1]
    return None if found is None else found.median


def _ratios_of_times(row: TimeRow, _: Comparison) -> list[float | None]:
    """Every time but the first over the first."""
    return [None if found is None else found.median for found in row.ratios]


def _ratio_ranges(row: TimeRow, _: Comparison) -> list[tuple[float, float] | None]:
    """Between which of these nine in ten drives like that lie, the same drive on both sides."""
    return [None if found is None else (found.low, found.high) for found in row.ratios]


def _intervals_s(row: TimeRow, _: Comparison) -> list[list[float] | None]:
    """Both ends of the interval of each time."""
    return [None if cost is None else [cost.seconds_low, cost.seconds_high] for cost in row.costs]


def _causes_s(row: TimeRow, _: Comparison) -> list[dict[str, float]]:
    """Seconds of each side by cause."""
    return [{} if cost is None else dict(cost.causes_s) for cost in row.costs]


def _explained(row: TimeRow, _: Comparison) -> TimeRow | UnsetType:
    """What the difference of both ends is made of; absent where there is no time of both."""
    return UNSET if explained_row([row]) is None else row


def _by_cause(row: TimeRow, _: TimeRow) -> dict[str, float]:
    """Seconds of the difference by cause."""
    return growth_by_cause(*costs_of_ends(row))


def _by_reads(row: TimeRow, _: TimeRow) -> dict[str, float]:
    """Seconds of the difference by more reads, slower reads, and the host."""
    return growth_by_reads(*costs_of_ends(row))


def _reads(cost: Cost, _: TimeRow) -> int:
    """Reads in all."""
    return all_reads(cost).count


def _columns(result: QueryResult, _: None) -> tuple[tuple[str, str], ...]:
    """Names and types of the columns."""
    return tuple((name, str(kind)) for name, kind in result.frame.schema.items())


def _rows(result: QueryResult, _: None) -> list[dict[str, Any]]:
    """The rows, with the values by column."""
    schema = result.frame.schema.items()
    return [
        {name: _cell(value, str(kind)) for (name, kind), value in zip(schema, row, strict=True)}
        for row in result.frame.iter_rows()
    ]


def _cell(value: Any, kind: str) -> Any:
    """Return what JSON has of a value: 64-bit identifiers and decimals as text, bytes as hexadecimal."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return str(value) if kind == "UInt64" or abs(value) > EXACT else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        is_whole = value == value.to_integral_value() and abs(value) <= EXACT
        return int(value) if is_whole else str(value)
    return value.hex() if isinstance(value, bytes) else value.isoformat()


def _views(result: ViewList, _: None) -> dict[str, tuple[Column, ...]]:
    """Columns of each view, by its name."""
    return {view.name: view.columns for view in result.views}


def _random_4k_ms(drive: DriveFacts, _: None) -> dict[Percentile, float]:
    """Percentiles of random reads of 4 KiB, one at a time."""
    return dict(zip(get_args(Percentile), drive.random_ms, strict=True))


def _members(drive: DriveFacts, _: None) -> list[str]:
    """Names of the drives of a set."""
    return [member.name for member in drive.profile.members]


def _note(drive: DriveFacts, _: None) -> str:
    """What a user must know before trusting it."""
    return drive.profile.note or NOTHING


def _take_for(drive: DriveFacts, _: None) -> str:
    """Which drives it stands for, in words."""
    return drive.profile.take_for or NOTHING


FOUND: Final[Shape] = {
    **name_members("code", "level", "structure", "device", "image_offset", "expected", "found", "message"),
    "cause": ("cause", name_members("code", "structure", "field", "image_offset", "device", "message")),
    "num_causes": _num_causes,
}
CHECKED: Final[Shape] = {**FOUND, "field": "field", "meaning": _meaning}
PREDICTED: Final[Shape] = name_members(
    *("drive", "title", "rotates", "seconds", "seconds_low", "seconds_high"),
    *("nominal_s", "largest_unknown", "largest_unknown_share"),
    *("causes_s", "seeks", "head_travel_bytes", "head_travel_strokes", "note"),
)
SERVED: Final[Shape] = {**PREDICTED, "*": "summary"}

SHAPES: Final[Mapping[Any, Shape]] = {
    ScanResult: {
        **name_members("exit_code", "coverage", "num_causes"),
        "num_findings": _num_findings,
        "image": (
            "image",
            name_members(
                *("name", "size_bytes", "sector_size_bytes", "partition_maps", "other_contents"),
                *("reads", "read_bytes", "hole_bytes"),
            ),
        ),
        "partitions": "image.partitions",
        **name_members("volumes", "findings"),
    },
    VolumeScan: {
        "*": "layout.facts",
        "coverage": "layout.coverage",
        "trees": "trees",
        "space": _space,
        **name_members("metrics", "walk", "predictions"),
        "verdict": (
            "verdict",
            name_members("drive", "seconds", "seconds_per_1000", "packed_seconds", "placement", "yardsticks"),
        ),
        "causes": _causes,
        "remedies": _remedies,
        "story": _story,
        "findings": "findings",
    },
    VolumeFacts: name_members(
        *("filesystem", "variant", "volume", "name", "uuid", "stack", "view", "image_offset", "size_bytes"),
        *("block_size_bytes", "case_sensitive", "stamp", "num_files", "num_directories", "features", "details"),
        *("num_missing_entries", "metadata_known_bytes", "metadata_read_bytes"),
    ),
    TreeSummary: {**name_fields(TreeSummary), "declared": _declared},
    TreeFacts: name_members(
        "node_size_bytes", "height", "num_nodes", "num_free_nodes", "num_leaf_records", "root_node_id"
    ),
    Metric: {
        **name_members("name", "subject"),
        "value": _value,
        **name_members("unit", "denominator"),
        "definition": "text",
        **name_members("citation", "parts", "note"),
    },
    WalkFacts: name_members("order", "host", "host_from", "reads", "read_bytes", "metrics"),
    Prediction: PREDICTED,
    Placement: {**name_fields(Placement), **name_members("is_close", "is_all_over")},
    Cause: {**name_fields(Cause), "is_named": _is_named},
    Remedy: {**name_fields(Remedy), "helps": _helps},
    Finding: FOUND,
    CheckResult: {
        **name_members("image", "is_clean", "exit_code", "rules", "before", "counts", "num_causes"),
        "num_findings": _num_findings,
        **name_members("unchecked", "other_contents", "volumes"),
        "findings": ("findings", CHECKED),
    },
    CheckedVolume: {**name_members("volume", "coverage", "num_rules", "skipped"), "findings": ("findings", CHECKED)},
    Verification: {**name_members("image", "exit_code"), "errors": "num_errors", "tables": "tables"},
    StructureLines: name_members("title", "image_offset", "error", "fields"),
    PredictResult: {"image": "image.name", **name_members("volumes", "orders")},
    VolumeCase: {
        **name_members("volume", "coverage"),
        "errors": "num_errors",
        **name_members("missing_paths", "walk"),
        "host_cpu_s": "host_time.cpu_s",
        "host_wall_s": "host_time.wall_s",
        **name_members("least_written", "drives"),
    },
    DriveCase: {
        "*": "prediction",
        "interval": "prediction.interval",
        "volume_interval": "volume",
        "halves_s": "halves_s",
        "packed_gain": "gain",
        "best_layout": ("best", name_members("name", "seconds")),
        "layouts_tried": "tried",
        "what_ifs": _what_ifs,
        "directories": "directories",
    },
    Alternative: {**name_fields(Alternative), "is_applicable": "is_applicable"},
    Interval: {
        **name_members("of", "draws"),
        "p5_s": "low_s",
        "p25_s": "quarter_s",
        "p50_s": "median_s",
        "p75_s": "three_quarters_s",
        "p95_s": "high_s",
        "shares": "shares",
    },
    OrdersCase: {
        **name_members("volume", "coverage"),
        "errors": "num_errors",
        **name_members("missing_paths", "host", "orders"),
    },
    OrderCase: {
        "order": "order",
        "not_applicable": _reason,
        **name_members("reads", "read_bytes", "entries"),
        "drives": ("times", {**PREDICTED, "seconds_per_1000": _seconds_per_1000}),
    },
    ReplayResult: {
        **name_members("trace", "reads", "read_bytes"),
        "times": ("times", SERVED),
        "expected": ("expected", SERVED),
        **name_members("agreement", "recording", "measured", "host", "driver"),
    },
    Score: name_members(
        *("block_bytes", "real_blocks", "predicted_blocks", "block_share", "extra_share"),
        *("pair_share", "missed", "extra", "pairs_by_cause"),
    ),
    Recording: name_members(
        *("form", "used", "foreign_reads", "twice", "background", "overlapping", "is_timed", "tried", "on_nodes"),
        *("lines", "placed", "foreign", "others", "processes", "problem"),
    ),
    PlacedDevice: {"*": "place", **name_members("reads", "tried", "on_nodes")},
    MeasuredTimes: {**name_fields(MeasuredTimes), "ratio": "ratio"},
    DriveFacts: {
        "name": "profile.name",
        "title": "profile.title",
        "kind": "profile.kind",
        "geometry": "profile.geometry",
        "capacity_bytes": "profile.capacity_bytes",
        "random_4k_ms": _random_4k_ms,
        "sequential_mb_s": "sequential_mb_s",
        "figures": "profile.figures",
        "members": _members,
        "note": _note,
        "take_for": _take_for,
        "models": "profile.models",
    },
    Figure: name_members("value", "kind", "source"),
    KitResult: {
        "kit": "name",
        **name_members("machine", "filesystem", "profile", "walks", "policy"),
        "missing": ("missing", ("step", "note")),
    },
    KitWalk: name_members("name", "order", "why_not", "real_s", "cpu_s", "entries", "is_hit", "notes", "replay"),
    PlanResult: {"image": "image.name", **name_members("volumes", "untold", "emitted")},
    EmittedOrder: {**name_members("path", "files", "missing", "windows"), "seconds": ("seconds", ("order", "seconds"))},
    VolumePlan: {
        **name_members("volume", "coverage"),
        "errors": "num_errors",
        **name_members("order", "host", "drive", "reads", "seconds", "interval", "pace", "remedies", "pair", "unknown"),
    },
    Pace: {**name_fields(Pace), "per_cycle_s": "per_cycle_s"},
    PlannedRemedy: {
        "name": "words.name",
        "title": "words.title",
        "kind": "words.kind",
        "applies": _applies,
        "why_not": _reason,
        **name_members("helps", "is_sure"),
        "seconds": _if_applicable("seconds"),
        "interval": "interval",
        "saved_s": _if_applicable("saved_s"),
        "saved": "saved",
        "share": _if_applicable("share"),
        "effort_s": _if_applicable("effort_s"),
        "pays_after": "pays_after",
        "lasts_cycles": _lasts_cycles,
        "ways": ("words.ways", ("system", "command")),
        **{name: f"words.{name}" for name in ("risk", "side_effects", "assumes", "source", "page")},
    },
    Comparison: {
        "names": "names",
        "coverage": "coverages",
        **name_members("verdict", "hosts", "times", "metrics", "changes"),
    },
    Series: {"*": "found", **name_members("by", "places", "volumes")},
    TimeRow: {
        **name_members("drive", "seconds"),
        "intervals_s": _intervals_s,
        "causes_s": _causes_s,
        "reads": (
            "costs",
            {
                **name_members("entries", "nodes"),
                "nodes_in_sequence_share": "sequence_share",
                "reads": _reads,
                "in_sequence": "in_sequence.count",
                "in_sequence_s": "in_sequence.seconds",
                "elsewhere": "elsewhere.count",
                "elsewhere_s": "elsewhere.seconds",
                "elsewhere_distance_bytes": "elsewhere.distance_bytes",
            },
        ),
        "ratio": _ratio_of_times,
        "ratios": _ratios_of_times,
        "ratio_ranges": _ratio_ranges,
        "difference_s": (_explained, {"by_cause": _by_cause, "by_reads": _by_reads}),
    },
    MetricRow: {**name_members("name", "subject", "unit", "values"), "ratio": _ratio, "ratios": _ratios},
    Changes: {**{name: f"rows.0.{name}" for name in ("stayed", "moved", "appeared", "went")}, "rows": "rows"},
    FleetResult: name_members("folder", "seconds", "kept", "counts", "sources"),
    QueryResult: {"columns": (_columns, ("name", "type")), "rows": _rows, "left_out": "left_out"},
    ViewList: {"views": _views},
    Column: {"name": "name", "type": "kind", "unit": "unit", "about": "doc"},
}
"""Members of the objects whose documents differ from the fields of their types."""
