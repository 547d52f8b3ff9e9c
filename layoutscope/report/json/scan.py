"""A scan as JSON: stable, documented field by field, 64-bit ids as strings."""

from __future__ import annotations

import math
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from layoutscope.filesystems.registry import filesystem_names, variants
from layoutscope.results.scan import ScanResult

if TYPE_CHECKING:
    from layoutscope.findings import Finding
    from layoutscope.metrics import Metric
    from layoutscope.results.scan import Prediction, VolumeScan, WalkFacts
    from layoutscope.results.verdict import Verdict
    from layoutscope.tables import VolumeFacts

SCHEMA: Final = "layoutscope.scan/1"

FIELDS: Final[dict[str, str]] = {
    "schema": "name and version of this document",
    "exit_code": "0 complete, 3 read with damage, gaps or a locked tree",
    "coverage": "share of the known metadata that could be read; null where that is unknown",
    "num_causes": "errors and warnings that follow from no other finding, as check counts them",
    "num_findings": "findings in all, with notes and with what follows from others",
    "image.name": "image as it was opened",
    "image.size_bytes": "its length",
    "image.sector_size_bytes": "its sectors",
    "image.partition_maps": "partition maps found",
    "image.other_contents": "layer stacks of what is not read",
    "image.reads": "requests that reached the file",
    "image.read_bytes": "bytes read",
    "image.hole_bytes": "bytes that lie in holes of the file",
    "partitions[].scheme": "partition map that it is an entry of: GPT, APM or MBR",
    "partitions[].number": "number, as the system counts: disk2s3 is 3",
    "partitions[].type_name": "declared type in words",
    "partitions[].name": "its own name; empty with --no-names",
    "partitions[].image_offset": "start, bytes from the start of the image",
    "partitions[].size_bytes": "size as the map has it",
    "partitions[].content": "what was found in it; empty if nothing was recognised",
    "partitions[].content_size_bytes": "size of the volume or container in it, or null if it was not read",
    "partitions[].roles": "roles of the volumes in it that have one",
    "partitions[].is_encrypted": "whether a volume in it is encrypted; null if none was read",
    "volumes[].filesystem": " or ".join(reversed(filesystem_names())),
    "volumes[].variant": f"{', '.join(variants())} …",
    "volumes[].volume": "number on the image from 1, as in the tables and as --volume takes it; null for a container",
    "volumes[].name": "name; empty with --no-names",
    "volumes[].uuid": "identifier",
    "volumes[].stack": "layers, outermost first",
    "volumes[].view": "live, xid N or snapshot NAME",
    "volumes[].image_offset": "start, bytes from the start of the image",
    "volumes[].size_bytes": "size of the volume or its container",
    "volumes[].block_size_bytes": "its block",
    "volumes[].case_sensitive": "how names compare",
    "volumes[].stamp": "write count or xid, as a string",
    "volumes[].num_files": "files, as the superblock counts them",
    "volumes[].num_directories": "directories, likewise",
    "volumes[].features": "flags by name",
    "volumes[].details": "further facts of the file system",
    "volumes[].coverage": "share of its known metadata that could be read; null where that is unknown",
    "volumes[].num_missing_entries": "entries that are lost at the least, by the volume's own counts",
    "volumes[].metadata_known_bytes": "metadata that is known to exist",
    "volumes[].metadata_read_bytes": "the part of it that was read",
    "volumes[].trees[].tree": "name of a B-tree",
    "volumes[].trees[].nodes_by_level": "nodes at level 0 (leaves), 1 …",
    "volumes[].trees[].other_nodes": "header and map nodes",
    "volumes[].trees[].free_nodes": "nodes held without use",
    "volumes[].trees[].snapshot_nodes": "those that snapshots alone hold; metrics of the tree leave them out",
    "volumes[].trees[].size_bytes": "bytes of the nodes in use",
    "volumes[].trees[].pieces": "contiguous runs that they form",
    "volumes[].trees[].clumped_share": "share in the largest clump, gaps up to 1 MiB",
    "volumes[].trees[].records": "records in the leaves",
    "volumes[].trees[].declared": "the tree as its header declares it, or null",
    "volumes[].space": "bytes by use, each byte once",
    "volumes[].metrics[].name": "identifier, see the table of metrics",
    "volumes[].metrics[].subject": "what it was measured on",
    "volumes[].metrics[].value": "number in the unit, or null",
    "volumes[].metrics[].unit": "unit; a share is 0 to 1",
    "volumes[].metrics[].denominator": "what it is a share, mean or count of",
    "volumes[].metrics[].definition": "definition in words",
    "volumes[].metrics[].citation": "source of the definition",
    "volumes[].metrics[].parts": "percentiles or bins by label",
    "volumes[].metrics[].note": "why there is no value, or what limits it",
    "volumes[].walk": "the enumeration, or null",
    "volumes[].walk.order": "which order",
    "volumes[].walk.host": "which host profile",
    "volumes[].walk.reads": "reads that reach the drive",
    "volumes[].walk.read_bytes": "their bytes",
    "volumes[].walk.metrics": "as volumes[].metrics",
    "volumes[].predictions[].drive": "drive profile",
    "volumes[].predictions[].title": "its title",
    "volumes[].predictions[].rotates": "whether it has an arm",
    "volumes[].predictions[].seconds": "predicted time",
    "volumes[].predictions[].seconds_low": "lower end of its quick interval; that of predict may be another",
    "volumes[].predictions[].seconds_high": "upper end",
    "volumes[].predictions[].causes_s": "seconds by cause",
    "volumes[].predictions[].seeks": "reads that move the arm",
    "volumes[].predictions[].head_travel_bytes": "distance between reads",
    "volumes[].predictions[].head_travel_strokes": "way of the arm in full strokes",
    "volumes[].predictions[].note": "what limits the prediction",
    "volumes[].verdict": "what follows from the predictions, on the first drive; null without any",
    "volumes[].verdict.drive": "that drive",
    "volumes[].verdict.seconds": "time of the enumeration on it",
    "volumes[].verdict.seconds_per_1000": "the same for 1,000 entries",
    "volumes[].verdict.packed_seconds": "the same if its nodes lay side by side in key order",
    "volumes[].verdict.yardsticks[].filesystem": "another file system with the same files, as far as that is modelled",
    "volumes[].verdict.yardsticks[].seconds": "what listing them takes there",
    "volumes[].verdict.yardsticks[].seconds_low": "lower end of its interval",
    "volumes[].verdict.yardsticks[].seconds_high": "upper end",
    "volumes[].verdict.placement.span_bytes": "span of the middle 98 % of the bytes of its nodes",
    "volumes[].verdict.placement.volume_share": "that span as a share of the volume",
    "volumes[].verdict.placement.density": "share of the span that these nodes fill",
    "volumes[].verdict.placement.saved_by_nearness": "share of the time that they would save side by side",
    "volumes[].verdict.placement.is_close": "whether they are said to lie close together",
    "volumes[].verdict.placement.is_all_over": "whether they are said to lie all over the volume",
    "volumes[].causes[].name": "what it takes long for: stat, order, distance, maps, fill, requests",
    "volumes[].causes[].seconds": "what it would take without that",
    "volumes[].causes[].share": "share of the time that this saves; causes overlap",
    "volumes[].causes[].is_named": "whether it is said in words",
    "volumes[].remedies[].name": "what could be done, as plan names it",
    "volumes[].remedies[].seconds": "what it would take then",
    "volumes[].remedies[].share": "share of the time that this saves; below 0 where it takes longer",
    "volumes[].remedies[].helps": "whether it is named as help: it saves enough, and on nearly every drive like that",
    "volumes[].remedies[].title": "what somebody does, in a few words",
    "volumes[].remedies[].is_bought": "whether it needs another drive",
    "volumes[].remedies[].is_sure": "whether it saves time on nearly every drive like that",
    "volumes[].story": "the verdict in sentences",
    "volumes[].findings": "as findings, of this volume",
    "findings[].code": "identifier, see the table of codes",
    "findings[].level": "info, warning or error",
    "findings[].structure": "structure in the field's words",
    "findings[].device": "image of a set",
    "findings[].image_offset": "address, or null",
    "findings[].expected": "what the format asks for",
    "findings[].found": "what is there",
    "findings[].message": "one sentence",
    "findings[].cause": "the finding that it follows from, without its sides; null where there is none, or several",
    "findings[].num_causes": "how many findings it may follow from; 0 in a cause",
}
"""Every field of the document and its meaning; docs/json.md is made from this."""


def _told(part: str) -> tuple[str, ...]:
    """List the fields of a part of the document that have no parts themselves."""
    return tuple(name.removeprefix(part) for name in FIELDS if re.fullmatch(re.escape(part) + r"\w+", name))


IMAGE: Final = _told("image.")
VOLUME: Final = _told("volumes[].")
PREDICTION: Final = _told("volumes[].predictions[].")
FINDING: Final = _told("findings[].")


def scan_document(result: ScanResult) -> dict[str, Any]:
    """Build the document of a scan, with the fields of :data:`FIELDS`."""
    return {
        "schema": SCHEMA,
        "exit_code": result.exit_code,
        "coverage": result.coverage,
        "num_causes": result.num_causes,
        "num_findings": len(result.every()),
        "image": {name: value for name, value in asdict(result.image).items() if name in IMAGE},
        "partitions": [asdict(item) for item in result.image.partitions],
        "volumes": [_volume(volume) for volume in result.volumes],
        "findings": [finding_document(finding) for finding in result.findings],
    }


def _volume(volume: VolumeScan) -> dict[str, Any]:
    from layoutscope.analysis.explanation import story

    facts = volume.layout.facts
    return {
        **_facts(facts),
        "coverage": volume.layout.coverage,
        "trees": _trees(volume),
        "space": {row.use: row.size_bytes for row in volume.space},
        "metrics": [_metric(metric) for metric in volume.metrics],
        "walk": None if volume.walk is None else walk_document(volume.walk),
        "predictions": [prediction_document(item) for item in volume.predictions],
        **_verdict(volume.verdict),
        "story": list(story(volume)),
        "findings": [finding_document(finding) for finding in volume.findings],
    }


def _verdict(found: Verdict | None) -> dict[str, Any]:
    """Tell the conclusions, the number beside each word."""
    if found is None:
        return {"verdict": None, "causes": [], "remedies": []}
    lies = found.placement
    placed = None if lies is None else {**asdict(lies), "is_close": lies.is_close, "is_all_over": lies.is_all_over}
    return {
        "verdict": {
            **{name: getattr(found, name) for name in ("drive", "seconds", "seconds_per_1000", "packed_seconds")},
            "placement": placed,
            "yardsticks": [asdict(item) for item in found.yardsticks],
        },
        "causes": [{**asdict(cause), "is_named": cause in found.named_causes} for cause in found.causes],
        "remedies": [{**asdict(remedy), "helps": remedy in found.helpful} for remedy in found.remedies],
    }


def _facts(facts: VolumeFacts) -> dict[str, Any]:
    told = {name: getattr(facts, name) for name in VOLUME if hasattr(facts, name)}
    return told | {"stamp": str(facts.stamp), "details": dict(facts.details)}


def _trees(volume: VolumeScan) -> list[dict[str, Any]]:
    declared = {tree.tree: asdict(tree) for tree in volume.layout.facts.trees}
    for tree in declared.values():
        del tree["tree"]
        tree["root_node_id"] = str(tree["root_node_id"])
    return [{**asdict(tree), "declared": declared.get(tree.tree)} for tree in volume.trees]


def _metric(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "subject": metric.subject,
        "value": metric.value if metric.value is None or math.isfinite(metric.value) else None,
        "unit": metric.unit,
        "denominator": metric.denominator,
        "definition": metric.text,
        "citation": metric.citation,
        "parts": dict(metric.parts),
        "note": metric.note,
    }


def walk_document(walk: WalkFacts) -> dict[str, Any]:
    """Build the part of a document that tells of a walk."""
    return {
        "order": walk.order,
        "host": walk.host,
        "reads": walk.reads,
        "read_bytes": walk.read_bytes,
        "metrics": [_metric(metric) for metric in walk.metrics],
    }


def prediction_document(item: Prediction) -> dict[str, Any]:
    """Build the part of a document that tells of one drive."""
    return {name: getattr(item, name) for name in PREDICTION} | {"causes_s": dict(item.causes_s)}


def finding_document(item: Finding) -> dict[str, Any]:
    """Build the part of a document that tells of one finding."""
    cause = None if item.cause is None else _reference(item.cause)
    return {name: getattr(item, name) for name in FINDING[:-2]} | {"cause": cause, "num_causes": len(item.causes)}


def _reference(item: Finding) -> dict[str, Any]:
    """Name a finding by what tells it from others of its volume."""
    place = {"structure": item.structure, "field": item.field, "image_offset": item.image_offset}
    return {"code": item.code, **place, "device": item.device, "message": item.message}


DOCUMENTS: Final = {ScanResult: scan_document}
"""Makers of the documents of these results, by their kind."""
