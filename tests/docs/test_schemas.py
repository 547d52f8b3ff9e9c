"""The published schemas are those of the documents, of other images too, and a validator that is not ours agrees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer.main

import layoutscope
from layoutscope.cli import app
from layoutscope.report.json import result_document
from tests.docs import schemas

KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


@pytest.fixture(scope="module")
def published():
    """The schemas of ``docs/schemas`` by their verbs."""
    return {path.stem: json.loads(path.read_text()) for path in schemas.FOLDER.glob("*.json")}


def faults(value, schema, place="$"):
    """List where a value contradicts a schema, as far as our schemas go."""
    if "const" in schema:
        return [] if value == schema["const"] else [f"{place}: {value!r}"]
    kinds = schema.get("type")
    if kinds and not any(
        isinstance(value, KINDS[kind]) and (not isinstance(value, bool) or kind == "boolean") for kind in kinds
    ):
        return [f"{place}: {value!r} is none of {kinds}"]
    found = []
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{place}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, each in value.items():
            found += faults(each, known.get(name, schema.get("additionalProperties", {})), f"{place}.{name}")
    if isinstance(value, list):
        for number, each in enumerate(value):
            found += faults(each, schema.get("items", {}), f"{place}[{number}]")
    return found


def validate(document, published):
    """Hold a document to the schema of its kind, by our rules, and by jsonschema where it is installed."""
    document = schemas.as_read(document)
    schema = published[document["schema"].split(".")[1].split("/")[0]]
    assert faults(document, schema) == []
    try:
        import jsonschema
    except ImportError:
        return
    jsonschema.Draft202012Validator(schema).validate(document)


def test_schemas_are_fresh():
    """What is published is what the documents are: ``python -m tests.docs.schemas`` writes it anew."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    assert {verb: schemas.written(schema) for verb, schema in schemas.schemas().items()} == {
        path.stem: path.read_text() for path in schemas.FOLDER.glob("*.json")
    }


def test_every_verb_that_prints_json_has_a_schema(published):
    """Whichever has the option, one that is added tomorrow included."""
    commands = typer.main.get_command(app).commands
    as_json = {name for name, each in commands.items() if any("--json" in option.opts for option in each.params)}
    assert {"scan", "cache"} <= as_json <= set(published)


def test_a_schema_refuses_what_is_none_of_its_documents(published):
    """A missing member, another type, another document: each is found, so that the tests below can fail."""
    document = schemas.as_read(result_document(layoutscope.check(schemas.HFSPLUS)))
    for changed in (
        {name: value for name, value in document.items() if name != "is_clean"},
        document | {"exit_code": "0"},
        document | {"schema": "layoutscope.check/2"},
        document | {"volumes": {}},
    ):
        assert faults(changed, published["check"])
        jsonschema = pytest.importorskip("jsonschema")
        assert list(jsonschema.Draft202012Validator(published["check"]).iter_errors(changed))


@pytest.mark.parametrize(
    "name",
    [
        *("apple/dissect_encrypted.raw", "apple/plaso_spotlight10.13.raw", "driver/apfs-empty.img"),
        *("driver/gpt-both.img", "driver/apfs-snap.img", "driver/hfsplus-empty-plain.img", "apple/hfsinspect_MBR.raw"),
    ],
)
def test_documents_of_other_images_follow_the_schemas(reference_image, published, name):
    """Locked, empty, with snapshots and several volumes, from macOS: images that no schema was made from."""
    path = reference_image(name)
    validate(result_document(layoutscope.scan(path)), published)
    validate(result_document(layoutscope.check(path)), published)
    if "encrypted" not in name:
        validate(result_document(layoutscope.predict(path, drives="sata-ssd")), published)
        validate(result_document(layoutscope.predict(path, drives="sata-ssd", order="all")), published)


def test_documents_of_other_traces_follow_the_schemas(published, tmp_path):
    """Of another order, served otherwise, and held against the walk that it is of."""
    reads = tmp_path / "reads.csv"
    layoutscope.write_trace(layoutscope.trace(schemas.HFSPLUS, order="catalog"), reads)
    validate(result_document(layoutscope.replay(reads, buffer="off", queue_depth=4)), published)
    validate(result_document(layoutscope.replay(reads, against=schemas.HFSPLUS, order="catalog")), published)


def test_documents_of_a_damaged_image_follow_the_schemas(published, tmp_path):
    """With findings that have no address, coverage that is unknown, and walks of what is left."""
    from fixtures.hfsplus.scenarios import SCENARIOS
    from fixtures.hfsplus.writer import write

    write(SCENARIOS["populated"], tmp_path / "a.img")
    data = bytearray((tmp_path / "a.img").read_bytes())
    data[1024:1536] = bytes(512)
    Path(tmp_path / "a.img").write_bytes(data)
    validate(result_document(layoutscope.scan(tmp_path / "a.img")), published)
    validate(result_document(layoutscope.check(tmp_path / "a.img")), published)
