"""Results as JSON documents, each with the name and the version of its schema.

A result becomes an object with its fields in order, and so do nested structs. Pairs of a name and a value become an
object with these names. :data:`SHAPES` lists the members of types whose documents differ from their fields.
``tests/docs/schemas.py`` derives the schemas from the same types and shapes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from msgspec import UNSET, UnsetType

from layoutscope.display import Struct
from layoutscope.drive.uncertain import Interval
from layoutscope.findings import CODES, Finding
from layoutscope.metrics import Metric, TreeSummary
from layoutscope.results import check, compare, fleet, inspect, plan, predict, recorded, scan, verdict
from layoutscope.results.explanation import story
from layoutscope.tables import TreeFacts, VolumeFacts
from layoutscope.tables.schema import Column
from layoutscope.units import NOTHING
from layoutscope.walk.score import Score

if TYPE_CHECKING:
    from layoutscope.results import Shown


class Member(NamedTuple):
    """A computed member of an object: its type, its description, and its function of the object and its owner."""

    kind: Any
    about: str
    read: Callable[[Any, Any], Any]


Source = str | Member
"""The source of a value: a path of attributes, or a computed member."""

Shape = Mapping[str, "Source | tuple[Source, Shape | tuple[str, ...]]"]
"""Members of an object in order, each with its source, and the shape of its value if it differs from that of its type.

A shape that is a tuple names the items of tuples. The members of the value named ``*`` become members of the object.
"""

SCHEMAS: Final[Mapping[Any, str]] = {
    scan.ScanResult: "layoutscope.scan/1",
    check.CheckResult: "layoutscope.check/1",
    check.Verification: "layoutscope.verify/1",
    inspect.Inspection: "layoutscope.inspect/1",
    predict.PredictResult: "layoutscope.predict/1",
    plan.PlanResult: "layoutscope.plan/1",
    recorded.ReplayResult: "layoutscope.replay/1",
    recorded.KitResult: "layoutscope.validate/1",
    compare.Comparison: "layoutscope.compare/1",
    compare.Series: "layoutscope.series/1",
    plan.ForecastResult: "layoutscope.forecast/1",
    fleet.FleetResult: "layoutscope.batch/1",
    fleet.QueryResult: "layoutscope.query/1",
    fleet.ViewList: "layoutscope.views/1",
    fleet.ReportResult: "layoutscope.report/1",
}
"""Name and version of each kind of document."""

IDS: Final = frozenset({"directory_id", "root_node_id", "stamp", "time_ns", "xid"})
"""Members with 64-bit numbers, which are written as strings, because many readers keep only 53 bits of a number."""

Percentile = Literal["p50", "p90", "p99"]

EXACT_LIMIT: Final = 2**53
"""Many JSON readers lose the precision of larger numbers."""


def result_document(result: Shown) -> dict[str, Any]:
    """Build the document of a result."""
    return build_object(result)


def result_json(result: Shown) -> str:
    """Write the document of a result as JSON text, in ASCII, so names cannot affect a terminal."""
    return json.dumps(build_object(result), indent=2, allow_nan=False)


def list_json(schema: str, name: str, items: Any) -> str:
    """Write a document with one list of results as JSON text."""
    return json.dumps({"schema": schema, name: build_value(items, None)}, indent=2)


def build_object(item: Any, owner: Any = None, shape: Shape | None = None) -> dict[str, Any]:
    """Build the JSON object of a struct; `owner` is the object that contains it."""
    head = {"schema": SCHEMAS[type(item)]} if type(item) in SCHEMAS else {}
    document = dict(head)
    for name, source in (shape or shape_of(type(item))).items():
        value = build_member(item, owner, source)
        if name == "*":
            document |= value
        elif value is not UNSET:
            document[name] = str(value) if name in IDS else value
    return document | head


def shape_of(kind: Any) -> Shape:
    """Return the members of a type: the listed ones, or all of its fields."""
    return SHAPES.get(kind) or name_fields(kind)


def build_member(item: Any, owner: Any, source: Any) -> Any:
    """Build the value of one member of an object."""
    path, shape = (source, None) if isinstance(source, Source) else source
    if isinstance(path, Member):
        return build_value(path.read(item, owner), item, shape)
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
    """Build the JSON form of a value and its contents."""
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


def name_fields(kind: Any, *left_out: str) -> dict[str, str]:
    """Return the shape with the fields of a type."""
    return name_members(*(name for name in kind.__struct_fields__ if name not in left_out))


def _list_rows(result: fleet.QueryResult, _: None) -> list[dict[str, Any]]:
    schema = result.frame.schema.items()
    return [
        {name: _convert_cell(value, str(kind)) for (name, kind), value in zip(schema, row, strict=True)}
        for row in result.frame.iter_rows()
    ]


def _convert_cell(value: Any, kind: str) -> Any:
    """Convert a value of a table for JSON: 64-bit identifiers and decimals to text, bytes to hexadecimal."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return str(value) if kind == "UInt64" or abs(value) > EXACT_LIMIT else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        is_whole = value == value.to_integral_value() and abs(value) <= EXACT_LIMIT
        return int(value) if is_whole else str(value)
    return value.hex() if isinstance(value, bytes) else value.isoformat()


def _if_applicable(name: str) -> Member:
    """Make a member that is null if a remedy does not apply."""
    return Member(float | None, "", lambda item, _: None if item.why_not else getattr(item, name))


NUM_FINDINGS: Final = Member(
    int, "findings in all, with notes and with what follows from others", lambda result, _: len(result.every())
)
WHY_NOT_APPLICABLE: Final = Member(
    str | None, "why it does not apply; null where it does", lambda item, _: item.why_not or None
)
FINDING_SHAPE: Final[Shape] = {
    **name_members("code", "level", "structure", "device", "image_offset", "expected", "found", "message"),
    "cause": ("cause", name_members("code", "structure", "field", "image_offset", "device", "message")),
    "num_causes": Member(
        int, "how many findings it may follow from; 0 in a cause", lambda finding, _: len(finding.causes)
    ),
}
CHECKED_FINDING_SHAPE: Final[Shape] = {
    **FINDING_SHAPE,
    "field": "field",
    "meaning": Member(str, "what its code means", lambda finding, _: CODES[finding.code]),
}
PREDICTION_SHAPE: Final[Shape] = name_members(
    *("drive", "title", "rotates", "seconds", "seconds_low", "seconds_high"),
    *("nominal_s", "largest_unknown", "largest_unknown_share"),
    *("causes_s", "seeks", "head_travel_bytes", "head_travel_strokes", "note"),
)
SERVED_SHAPE: Final[Shape] = {**PREDICTION_SHAPE, "*": "summary"}

SHAPES: Final[Mapping[Any, Shape]] = {
    scan.ScanResult: {
        **name_members("exit_code", "coverage", "num_causes"),
        "num_findings": NUM_FINDINGS,
        "image": (
            "image",
            name_members(
                *("name", "size_bytes", "sector_size_bytes", "partition_maps", "other_contents"),
                *("reads", "read_bytes", "hole_bytes"),
            ),
        ),
        "partitions": "image.partitions",
        "volumes": "parts",
        "findings": "findings",
    },
    scan.VolumeScan: {
        "*": "layout.facts",
        "coverage": "layout.coverage",
        "trees": "trees",
        "space": Member(
            dict[str, int],
            "bytes by use, each byte once",
            lambda volume, _: {row.use: row.size_bytes for row in volume.space},
        ),
        **name_members("metrics", "walk", "predictions"),
        "verdict": (
            "verdict",
            name_members("drive", "seconds", "seconds_per_1000", "packed_seconds", "placement", "yardsticks"),
        ),
        "causes": Member(
            tuple[verdict.Cause, ...],
            "what the listing takes long for, the largest first",
            lambda volume, _: () if volume.verdict is None else volume.verdict.causes,
        ),
        "remedies": Member(
            tuple[verdict.Remedy, ...],
            "what could be done, what saves most first",
            lambda volume, _: () if volume.verdict is None else volume.verdict.remedies,
        ),
        "story": Member(tuple[str, ...], "the verdict in sentences", lambda volume, _: story(volume)),
        "findings": "findings",
    },
    VolumeFacts: name_members(
        *("filesystem", "variant", "volume", "name", "uuid", "stack", "view", "image_offset", "size_bytes"),
        *("block_size_bytes", "case_sensitive", "stamp", "num_files", "num_directories", "features", "details"),
        *("num_missing_entries", "metadata_known_bytes", "metadata_read_bytes"),
    ),
    TreeSummary: {
        **name_fields(TreeSummary),
        "declared": Member(
            TreeFacts | None,
            "the tree as its header declares it",
            lambda tree, volume: {item.tree: item for item in volume.layout.facts.trees}.get(tree.tree),
        ),
    },
    TreeFacts: name_fields(TreeFacts, "tree"),
    Metric: {
        **name_members("name", "subject"),
        "value": Member(
            float | None,
            "number in the unit; null where there is none",
            lambda metric, _: metric.value if metric.value is None or math.isfinite(metric.value) else None,
        ),
        **name_members("unit", "denominator"),
        "definition": "text",
        **name_members("citation", "parts", "note"),
    },
    scan.WalkFacts: name_fields(scan.WalkFacts, "trace"),
    scan.Prediction: PREDICTION_SHAPE,
    verdict.Placement: {**name_fields(verdict.Placement), **name_members("is_close", "is_all_over")},
    verdict.Cause: {
        **name_fields(verdict.Cause),
        "is_named": Member(
            bool,
            "whether the sentences mention it",
            lambda cause, volume: volume.verdict is not None and cause in volume.verdict.named_causes,
        ),
    },
    verdict.Remedy: {
        **name_fields(verdict.Remedy),
        "helps": Member(
            bool,
            "whether it is named as help: it saves enough, and on nearly every drive like that",
            lambda remedy, volume: volume.verdict is not None and remedy in volume.verdict.helpful,
        ),
    },
    Finding: FINDING_SHAPE,
    check.CheckResult: {
        **name_members("image", "is_clean", "exit_code", "rules", "before", "counts", "num_causes"),
        "num_findings": NUM_FINDINGS,
        **name_members("unchecked", "other_contents", "volumes"),
        "findings": ("findings", CHECKED_FINDING_SHAPE),
    },
    check.CheckedVolume: {
        **name_members("volume", "coverage", "num_rules", "skipped"),
        "findings": ("findings", CHECKED_FINDING_SHAPE),
    },
    check.Verification: {**name_members("image", "exit_code"), "errors": "num_errors", "tables": "tables"},
    inspect.StructureLines: name_members("title", "image_offset", "error", "fields"),
    predict.PredictResult: {"image": "image.name", **name_members("volumes", "orders")},
    predict.VolumeCase: {
        **name_members("volume", "coverage"),
        "errors": "num_errors",
        **name_members("missing_paths", "walk"),
        "host_cpu_s": "host_time.cpu_s",
        "host_wall_s": "host_time.wall_s",
        **name_members("least_written", "drives"),
    },
    predict.DriveCase: {
        "*": "prediction",
        "interval": "prediction.interval",
        "volume_interval": "volume",
        "halves_s": "halves_s",
        "packed_gain": "gain",
        "best_layout": ("best", name_members("name", "seconds")),
        "layouts_tried": "tried",
        "what_ifs": Member(
            tuple[predict.Alternative, ...],
            "the same work with one thing changed; first with the nodes contiguous in key order, if that was simulated",
            lambda case, _: case.what_ifs if case.packed is None else (case.packed, *case.what_ifs),
        ),
        "directories": "directories",
    },
    predict.Alternative: {**name_fields(predict.Alternative), "is_applicable": "is_applicable"},
    Interval: {
        **name_members("of", "draws"),
        "p5_s": "low_s",
        "p25_s": "quarter_s",
        "p50_s": "median_s",
        "p75_s": "three_quarters_s",
        "p95_s": "high_s",
        "shares": "shares",
    },
    predict.OrdersCase: {
        **name_members("volume", "coverage"),
        "errors": "num_errors",
        **name_members("missing_paths", "host", "orders"),
    },
    predict.OrderCase: {
        "order": "order",
        "not_applicable": WHY_NOT_APPLICABLE,
        **name_members("reads", "read_bytes", "entries"),
        "drives": (
            "times",
            {
                **PREDICTION_SHAPE,
                "seconds_per_1000": Member(
                    float | None,
                    "time for 1,000 entries; null where the order goes through no number of them",
                    lambda time, order: order.seconds_per_1000(time),
                ),
            },
        ),
    },
    recorded.ReplayResult: {
        **name_members("trace", "reads", "read_bytes"),
        "times": ("times", SERVED_SHAPE),
        "expected": ("expected", SERVED_SHAPE),
        **name_members("agreement", "recording", "measured", "host", "driver"),
    },
    Score: name_members(
        *("block_bytes", "real_blocks", "predicted_blocks", "block_share", "extra_share"),
        *("pair_share", "missed", "extra", "pairs_by_cause"),
    ),
    recorded.Recording: name_members(
        *("form", "used", "foreign_reads", "twice", "background", "overlapping", "is_timed", "tried", "on_nodes"),
        *("lines", "placed", "foreign", "others", "processes", "problem"),
    ),
    recorded.PlacedDevice: {"*": "place", **name_members("reads", "tried", "on_nodes")},
    recorded.MeasuredTimes: {**name_fields(recorded.MeasuredTimes), "ratio": "ratio"},
    predict.DriveFacts: {
        "name": "profile.name",
        "title": "profile.title",
        "kind": "profile.kind",
        "geometry": "profile.geometry",
        "capacity_bytes": "profile.capacity_bytes",
        "random_4k_ms": Member(
            dict[Percentile, float],
            "percentiles of random reads of 4 KiB, one at a time",
            lambda drive, _: dict(zip(get_args(Percentile), drive.random_ms, strict=True)),
        ),
        "sequential_mb_s": "sequential_mb_s",
        "figures": "profile.figures",
        "members": Member(
            list[str],
            "names of the drives of a set",
            lambda drive, _: [member.name for member in drive.profile.members],
        ),
        "note": Member(str, "what a user must know before trusting it", lambda drive, _: drive.profile.note or NOTHING),
        "take_for": Member(
            str, "which drives it stands for, in words", lambda drive, _: drive.profile.take_for or NOTHING
        ),
        "models": "profile.models",
    },
    recorded.KitResult: {
        "kit": "name",
        **name_members("machine", "filesystem", "profile", "walks", "policy"),
        "missing": ("missing", ("step", "note")),
    },
    recorded.KitWalk: name_members(
        "name", "order", "why_not", "real_s", "cpu_s", "entries", "is_hit", "notes", "replay"
    ),
    plan.PlanResult: {"image": "image.name", **name_members("volumes", "untold", "emitted")},
    plan.EmittedOrder: {
        **name_members("path", "files", "missing", "windows"),
        "seconds": ("seconds", ("order", "seconds")),
    },
    plan.VolumePlan: {
        **name_members("volume", "coverage"),
        "errors": "num_errors",
        **name_members("order", "host", "drive", "reads", "seconds", "interval", "pace", "remedies", "pair", "unknown"),
    },
    plan.Pace: {**name_fields(plan.Pace), "per_cycle_s": "per_cycle_s"},
    plan.PlannedRemedy: {
        "name": "words.name",
        "title": "words.title",
        "kind": "words.kind",
        "applies": Member(
            bool, "whether it applies to this volume, this work and this drive", lambda item, _: not item.why_not
        ),
        "why_not": WHY_NOT_APPLICABLE,
        **name_members("helps", "is_sure"),
        "seconds": _if_applicable("seconds"),
        "interval": "interval",
        "saved_s": _if_applicable("saved_s"),
        "saved": "saved",
        "share": _if_applicable("share"),
        "effort_s": _if_applicable("effort_s"),
        "pays_after": "pays_after",
        "lasts_cycles": Member(
            float | None,
            "after how many cycles the work takes again what it takes now; null where that is not known",
            lambda item, volume: None if volume.pace is None else volume.pace.lasts(item),
        ),
        "ways": ("words.ways", ("system", "command")),
        **{name: f"words.{name}" for name in ("risk", "side_effects", "assumes", "source", "page")},
    },
    compare.Comparison: {
        "names": "names",
        "coverage": "coverages",
        **name_members("verdict", "hosts", "times", "metrics", "changes"),
    },
    compare.Series: {"*": "found", **name_members("by", "places", "volumes")},
    compare.TimeRow: {
        **name_members("drive", "seconds"),
        "intervals_s": Member(
            list[list[float] | None],
            "both ends of the interval of each time",
            lambda row, _: [None if cost is None else [cost.seconds_low, cost.seconds_high] for cost in row.costs],
        ),
        "causes_s": Member(
            list[dict[str, float]],
            "seconds of each side by cause",
            lambda row, _: [{} if cost is None else dict(cost.causes_s) for cost in row.costs],
        ),
        "reads": (
            "costs",
            {
                **name_members("entries", "nodes"),
                "nodes_in_sequence_share": "sequence_share",
                "reads": Member(int, "reads in all", lambda cost, _: compare.sum_all_reads(cost).count),
                "in_sequence": "in_sequence.count",
                "in_sequence_s": "in_sequence.seconds",
                "elsewhere": "elsewhere.count",
                "elsewhere_s": "elsewhere.seconds",
                "elsewhere_distance_bytes": "elsewhere.distance_bytes",
            },
        ),
        "ratio": Member(
            float | None,
            "the last time over the first; null where that makes no sense",
            lambda row, _: None if row.ratios[-1] is None else row.ratios[-1].median,
        ),
        "ratios": Member(
            list[float | None],
            "every time but the first over the first",
            lambda row, _: [None if found is None else found.median for found in row.ratios],
        ),
        "ratio_ranges": Member(
            list[tuple[float, float] | None],
            "the 90 % range of this difference, with the same simulated drive on both sides",
            lambda row, _: [None if found is None else (found.low, found.high) for found in row.ratios],
        ),
        "difference_s": (
            Member(
                compare.TimeRow | UnsetType,
                "what the difference of both ends is made of; absent where there is no time of both",
                lambda row, _: UNSET if compare.find_explained_row([row]) is None else row,
            ),
            {
                "by_cause": Member(
                    dict[str, float],
                    "seconds of the difference by cause",
                    lambda row, _: compare.growth_by_cause(*compare.get_end_costs(row)),
                ),
                "by_reads": Member(
                    dict[str, float],
                    "seconds of the difference by more reads, slower reads, and the host",
                    lambda row, _: compare.growth_by_reads(*compare.get_end_costs(row)),
                ),
            },
        ),
    },
    compare.MetricRow: {
        **name_members("name", "subject", "unit", "values"),
        "ratio": Member(
            float | None,
            "the last value over the first; null where that makes no sense",
            lambda row, _: compare.ratio(row.values),
        ),
        "ratios": Member(
            list[float | None], "every value but the first over the first", lambda row, _: compare.ratios(row.values)
        ),
    },
    compare.Changes: {**{name: f"rows.0.{name}" for name in ("stayed", "moved", "appeared", "went")}, "rows": "rows"},
    fleet.FleetResult: name_members("folder", "seconds", "kept", "counts", "sources"),
    fleet.QueryResult: {
        "columns": (
            Member(
                tuple[tuple[str, str], ...],
                "names and types of the columns",
                lambda result, _: tuple((name, str(kind)) for name, kind in result.frame.schema.items()),
            ),
            ("name", "type"),
        ),
        "rows": Member(list[dict[str, Any]], "the rows, with the values by column", _list_rows),
        "left_out": "left_out",
    },
    Column: {"name": "name", "type": "kind", "unit": "unit", "about": "doc"},
}
"""Members of the types whose documents differ from their fields."""
