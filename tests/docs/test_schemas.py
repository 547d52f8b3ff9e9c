"""Documents of every verb follow the published schemas, and a validator that is not ours agrees."""

from __future__ import annotations

import json
import plistlib
import tempfile
from pathlib import Path

import numpy as np
import pytest
import typer.main

import layoutscope
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope.cli import app
from layoutscope.fleet.query import views
from layoutscope.report.json import list_json, result_document
from layoutscope.report.text.fleet import cache_text
from tests.docs import schemas
from tests.recordings import fs_usage_lines, line

HFSPLUS = "fixtures/images/hfsplus-scattered.img.zst"
APFS = "fixtures/images/apfs-scattered.img.zst"


@pytest.fixture(scope="module")
def published():
    """Return the schemas by their verbs."""
    return {name.removesuffix(".json"): json.loads(text) for name, text in schemas.files().items()}


def validate(document, published):
    """Hold a document to the schema of its kind, by our rules, and by jsonschema where it is installed."""
    document = as_read(document)
    schema = published[document["schema"].split(".")[1].split("/")[0]]
    assert schemas.faults(document, schema) == []
    try:
        import jsonschema
    except ImportError:
        return
    jsonschema.Draft202012Validator(schema).validate(document)


def as_read(document):
    """Return a document as parsed from its text."""
    return json.loads(json.dumps(document))


def documents():
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


def _of_traces(folder):
    for image, order in ((HFSPLUS, "fts"), (APFS, "names")):
        reads = folder / f"{order}.csv"
        layoutscope.write_trace(layoutscope.trace(image, order=order), reads)
        yield result_document(layoutscope.replay(reads, drives="generic-7200"))
        yield result_document(layoutscope.replay(reads, drives=["generic-7200", "sata-ssd"], against=APFS))
    yield from _of_recordings(folder / "walk.txt")


def _of_recordings(target):
    """Yield the documents of a recording that is met, and of one that no unit puts on nodes."""
    reads = layoutscope.trace(APFS, host="macos")
    took = np.full(len(reads), 5000.0)
    others = [line(40_000e6, 8, 4096, 100, device="disk9"), line(40_000e6, 8, 4096, 100, process="mds")]
    target.write_text("\n".join([*fs_usage_lines(reads, took), *others]))
    yield from _of_kits(target)
    for unit in (512, 777):
        yield result_document(layoutscope.replay(target, drives="generic-7200", against=APFS, trace_unit=unit))


def _of_kits(recorded):
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


def _of_forecasts():
    """Yield the documents of a forecast without drives, and of one from several images."""
    for image in (HFSPLUS, APFS):
        yield result_document(layoutscope.forecast(image, cycles=1, seeds=1, drives=()))
    yield result_document(layoutscope.forecast([APFS, APFS, APFS], share=0.1, cycles=0, seeds=1, drives="sata-ssd"))
    yield result_document(layoutscope.forecast([HFSPLUS, HFSPLUS], share=0.1, cycles=0, seeds=1, drives="sata-ssd"))


def _of_images(empty):
    yield result_document(layoutscope.scan(empty))
    yield result_document(layoutscope.predict(empty))
    yield result_document(layoutscope.predict(empty, order="all"))
    yield result_document(layoutscope.predict(APFS, order="delete", drives="generic-7200"))
    yield result_document(layoutscope.plan(empty))
    yield result_document(layoutscope.plan(APFS, emit_order=empty.with_name("order"), force=True))


def _of_many():
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
    yield json.loads(list_json("layoutscope.checkpoints/1", "states", layoutscope.checkpoints(APFS)))
    yield json.loads(list_json("layoutscope.drives/1", "drives", layoutscope.drives(())))
    kept = ("disk.img.zst", Path("kept"), 1 << 30, 1 << 20, 1.8e9)
    yield json.loads(cache_text(Path("cache"), 1 << 30, [kept], freed=None, as_json=True))
    yield json.loads(cache_text(None, 1 << 30, [], freed=0, as_json=True))


@pytest.mark.full
def test_documents_of_every_verb_follow_the_schemas(published):
    """Each kind of document at least once: volumes with and without files, traces, recordings and kits."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    kinds = set()
    for document in documents():
        validate(document, published)
        kinds.add(document["schema"])
    assert kinds == {schema["title"] for schema in published.values()}


def test_every_verb_that_prints_json_has_a_schema(published):
    """Whichever has the option, one that is added tomorrow included."""
    commands = typer.main.get_command(app).commands
    as_json = {name for name, each in commands.items() if any("--json" in option.opts for option in each.params)}
    assert {"scan", "cache"} <= as_json <= set(published)


def test_a_schema_refuses_what_is_none_of_its_documents(published):
    """A missing member, another type, another document: each is found, so that the tests below can fail."""
    document = as_read(result_document(layoutscope.check(HFSPLUS)))
    for changed in (
        {name: value for name, value in document.items() if name != "is_clean"},
        document | {"exit_code": "0"},
        document | {"schema": "layoutscope.check/2"},
        document | {"volumes": {}},
    ):
        assert schemas.faults(changed, published["check"])
        jsonschema = pytest.importorskip("jsonschema")
        assert list(jsonschema.Draft202012Validator(published["check"]).iter_errors(changed))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "aged/apfs-20000-c20.img",
            "apple/dissect_encrypted.raw",
            "apple/plaso_spotlight10.13.raw",
            "driver/apfs-empty.img",
        ),
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


def test_documents_of_a_damaged_image_and_other_traces_follow_the_schemas(published, tmp_path):
    """Findings without an address, unknown coverage; another order, served otherwise, and with its own walk."""
    write(SCENARIOS["populated"], tmp_path / "a.img")
    data = bytearray((tmp_path / "a.img").read_bytes())
    data[1024:1536] = bytes(512)
    (tmp_path / "a.img").write_bytes(data)
    validate(result_document(layoutscope.scan(tmp_path / "a.img")), published)
    validate(result_document(layoutscope.check(tmp_path / "a.img")), published)
    reads = tmp_path / "reads.csv"
    layoutscope.write_trace(layoutscope.trace(HFSPLUS, order="catalog"), reads)
    validate(result_document(layoutscope.replay(reads, buffer="off", queue_depth=4)), published)
    validate(result_document(layoutscope.replay(reads, against=HFSPLUS, order="catalog")), published)
