"""Writes ``docs/schemas``: a JSON Schema of what each verb prints with ``--json``.

``python -m tests.docs.schemas``. The shape is that of documents of two images, whole and with parts left out; what may
be null is what is null in one of them, or is said to be in the fields of a scan. A test holds documents of other images
to them.
"""

from __future__ import annotations

import json
import plistlib
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import layoutscope
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope.fleet.query import views
from layoutscope.report.json import result_document
from layoutscope.report.json.inspect import states_json
from layoutscope.report.json.predict import drives_json
from layoutscope.report.json.scan import FIELDS
from layoutscope.report.text.cache import cache_text
from tests.recordings import fs_usage_lines, line

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"
HFSPLUS = "fixtures/images/hfsplus-scattered.img.zst"
APFS = "fixtures/images/apfs-scattered.img.zst"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAPS = ("space", "details", "parts", "causes_s", "figures", "facts", "by_cause", "by_reads", "missed", "extra")
MAPS += ("pairs_by_cause", "foreign", "others", "cache_sizes", "views")
"""Objects whose keys are words of the data: uses, causes, figures."""

ANY = ("value",)
"""Members of any type: figures of drives are numbers, lists and texts, values of fields likewise."""


NULLABLE = ("value", "coverage", "verdict", "placement", "walk", "packed_gain", "seconds_per_1000", "image_offset")
"""Members that are null where there is nothing that they could be, in whatever document."""


def documents() -> Iterator[Any]:
    """Yield documents of every verb, of volumes with files and without."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.img"
        write(SCENARIOS["empty"], empty)
        yield from _of_images(empty)
        yield from _of_traces(Path(folder))
        yield result_document(layoutscope.batch([HFSPLUS, Path(folder) / "gone"], Path(folder) / "fleet"))
        yield result_document(layoutscope.write_report(Path(folder) / "fleet", Path(folder) / "fleet.html"))
    yield result_document(layoutscope.query(HFSPLUS, "SELECT tree, size_bytes FROM nodes LIMIT 1"))
    yield result_document(views())
    yield from _of_forecasts()
    yield from _of_many()


def _of_traces(folder: Path) -> Iterator[Any]:
    for image, order in ((HFSPLUS, "fts"), (APFS, "names")):
        reads = folder / f"{order}.csv"
        layoutscope.write_trace(layoutscope.trace(image, order=order), reads)
        yield result_document(layoutscope.replay(reads, drives="generic-7200"))
        yield result_document(layoutscope.replay(reads, drives=["generic-7200", "sata-ssd"], against=APFS))
    yield from _of_recordings(folder / "walk.txt")


def _of_recordings(target: Path) -> Iterator[Any]:
    """Yield the documents of a recording that is met, and of one that no unit puts on nodes."""
    reads = layoutscope.trace(APFS, host="macos")
    took = np.full(len(reads), 5000.0)
    others = [line(40_000e6, 8, 4096, 100, device="disk9"), line(40_000e6, 8, 4096, 100, process="mds")]
    target.write_text("\n".join([*fs_usage_lines(reads, took), *others]))
    yield from _of_kits(target)
    for unit in (512, 777):
        yield result_document(layoutscope.replay(target, drives="generic-7200", against=APFS, trace_unit=unit))


def _of_kits(recorded: Path) -> Iterator[Any]:
    """Yield the documents of a kit of one walk, and of one that says nothing of its Mac and has no capture."""
    kit = recorded.parent / "kit"
    kit.mkdir()
    (kit / "kit.txt").write_text("kit = 1\ndevice = disk9s1\n")
    yield result_document(layoutscope.validate(kit))
    (kit / "walk-find.fs_usage.txt").write_bytes(recorded.read_bytes())
    (kit / "walk-find.time.txt").write_text("real 3.27\nuser 0.1\nsys 0.2\n")
    (kit / "walk-find.count.txt").write_text("4198\n")
    (kit / "sysctl.txt").write_text("hw.memsize: 8589934592\n")
    (kit / "steps.tsv").write_text("step\tstatus\tseconds\tnote\nwalk-ls\t1\t0\tno ls\n")
    (kit / "physical.plist").write_bytes(plistlib.dumps({"SolidState": False}))
    (kit / "volume.plist").write_bytes(plistlib.dumps({"DeviceBlockSize": 4096}))
    yield result_document(layoutscope.validate(kit, against=APFS))


def _of_forecasts() -> Iterator[Any]:
    """Yield the documents of a forecast without drives, and of one that several images tell."""
    for image in (HFSPLUS, APFS):
        yield result_document(layoutscope.forecast(image, cycles=1, seeds=1, drives=()))
    yield result_document(layoutscope.forecast([APFS, APFS, APFS], share=0.1, cycles=0, seeds=1, drives="sata-ssd"))
    yield result_document(layoutscope.forecast([HFSPLUS, HFSPLUS], share=0.1, cycles=0, seeds=1, drives="sata-ssd"))


def _of_images(empty: Path) -> Iterator[Any]:
    yield result_document(layoutscope.scan(empty))
    yield result_document(layoutscope.predict(empty))
    yield result_document(layoutscope.predict(empty, order="all"))
    yield result_document(layoutscope.predict(APFS, order="delete", drives="generic-7200"))
    yield result_document(layoutscope.plan(empty))
    yield result_document(layoutscope.plan(APFS, emit_order=empty.with_name("order"), force=True))


def _of_many() -> Iterator[Any]:
    for image in (HFSPLUS, APFS):
        yield result_document(layoutscope.scan(image))
        yield result_document(layoutscope.check(image))
        yield result_document(layoutscope.predict(image, what_ifs=("ssd", "no-snapshots")))
        yield result_document(layoutscope.predict(image, order="all"))
        yield result_document(layoutscope.plan(image))
        yield result_document(layoutscope.plan(image, order="copy", host="macos"))
        yield result_document(layoutscope.inspect(image, file_path="/"))
        yield result_document(layoutscope.inspect(image, at=0))
    yield result_document(layoutscope.scan(APFS, drives=()))
    yield result_document(layoutscope.verify(HFSPLUS))
    yield result_document(layoutscope.compare([HFSPLUS, APFS]))
    yield result_document(layoutscope.compare([APFS, APFS]))
    yield result_document(layoutscope.series([APFS, APFS]))
    yield json.loads(states_json(layoutscope.checkpoints(APFS)))
    yield json.loads(drives_json(layoutscope.drives(())))
    kept = ("disk.img.zst", Path("kept"), 1 << 30, 1 << 20, 1.8e9)
    yield json.loads(cache_text(Path("cache"), 1 << 30, [kept], freed=None, as_json=True))
    yield json.loads(cache_text(None, 1 << 30, [], freed=0, as_json=True))


def as_read(document: Any) -> Any:
    """Return a document as whoever reads its text has it."""
    return json.loads(json.dumps(document))


def merged(shapes: list[dict[str, Any]]) -> dict[str, Any]:
    """Make one shape of several: what is in each of them is required, and each may have any type that one has."""
    shapes = [shape for shape in shapes if shape]
    types = sorted({kind for shape in shapes for kind in shape["type"]})
    if "number" in types and "integer" in types:
        types.remove("integer")
    found: dict[str, Any] = {"type": types}
    objects = [shape for shape in shapes if "object" in shape["type"]]
    maps = [shape["additionalProperties"] for shape in objects if "additionalProperties" in shape]
    if maps:
        found["additionalProperties"] = merged(maps)
    elif objects:
        names = dict.fromkeys(name for shape in objects for name in shape["properties"])
        found["properties"] = {
            name: merged([shape["properties"][name] for shape in objects if name in shape["properties"]])
            for name in names
        }
        found["required"] = [name for name in names if all(name in shape["required"] for shape in objects)]
    items = [shape["items"] for shape in shapes if shape.get("items")]
    if items:
        found["items"] = merged(items)
    return found if types else {}


def _nullable(name: str, shape: dict[str, Any]) -> dict[str, Any]:
    return shape | {"type": sorted({*shape["type"], "null"})} if name in NULLABLE and shape else shape


def shape_of(value: Any, name: str = "") -> dict[str, Any]:
    """Describe one value."""
    if isinstance(value, dict):
        members = {key: shape_of(each, key) for key, each in value.items()}
        if name in MAPS:
            return {"type": ["object"], "additionalProperties": merged(list(members.values()))}
        return {
            "type": ["object"],
            "properties": {
                key: {} if key in ANY and name != "metrics" else _nullable(key, item) for key, item in members.items()
            },
            "required": list(members),
        }
    if isinstance(value, list):
        return {"type": ["array"], "items": merged([shape_of(each, name) for each in value])}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return {"type": [kinds[type(value)]]}


def schemas() -> dict[str, dict[str, Any]]:
    """Make the schema of each kind of document, by the verb."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for document in map(as_read, documents()):
        kinds.setdefault(document["schema"], []).append(shape_of(document))
    found = {}
    for name, shapes in sorted(kinds.items()):
        shape = merged(shapes)
        shape["properties"]["schema"] = {"const": name}
        found[re.split(r"[./]", name)[1]] = {"$schema": DIALECT, "title": name, **shape}
    for path, text in FIELDS.items():
        _describe(found["scan"], path, text)
    return found


def _describe(schema: dict[str, Any], path: str, text: str) -> None:
    """Put the meaning of a field of a scan beside its type, and that it may be null where that says so."""
    for part in path.split("."):
        schema = schema.get("items", schema) if "properties" not in schema else schema
        schema = schema.get("properties", {}).get(part.removesuffix("[]"), {})
    if schema and "const" not in schema:
        schema["description"] = text
        if "null" in text and "null" not in schema["type"]:
            schema["type"] = sorted([*schema["type"], "null"])


def written(schema: dict[str, Any]) -> str:
    """Write a schema as the text of a file."""
    return json.dumps(schema, indent=1) + "\n"


if __name__ == "__main__":
    for verb, made in schemas().items():
        (FOLDER / f"{verb}.json").write_text(written(made))
