"""The entry points for the Web IDE parse whole images: a second path from block to record."""

from __future__ import annotations

import importlib
import io
import json
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import yaml
from kaitaistruct import KaitaiStream, KaitaiStruct

from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write
from fixtures.canvas import Canvas
from fixtures.hfsplus.scenarios import SCENARIOS as HFSPLUS
from fixtures.hfsplus.writer import render
from fixtures.partitions import HFS_PLUS_TYPE, gpt
from layoutscope.image import MemorySource, open_image
from tests.apfs import read_layouts
from tests.hfsplus import read_layout

KSY = Path(__file__).resolve().parents[2] / "ksy"
ENTRIES = ("apfs_block", "apfs_image", "gpt_disk", "hfsplus_image")
DUMPS = Path(__file__).parent / "ide"
MIB = 1 << 20
CATALOG_TYPES = {"folder", "file", "folder_thread", "file_thread"}


@pytest.fixture(scope="module")
def parsers(tmp_path_factory):
    """Return the compiled entry points by name."""
    if shutil.which("node") is None or not (KSY / "node_modules").exists():
        pytest.skip("the grammar compiler is not installed (npm ci in ksy/)")
    specs = {path.stem: yaml.safe_load(path.read_text()) for path in [*KSY.glob("*.ksy"), *KSY.glob("ide/*.ksy")]}
    run = subprocess.run(
        ["node", "bridge.cjs"], cwd=KSY, input=json.dumps(specs), capture_output=True, text=True, check=True
    )
    folder = tmp_path_factory.mktemp("ide") / "ide_parsers"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name, text in json.loads(run.stdout).items():
        for spec in specs:
            text = text.replace(f"import {spec}\n", f"from . import {spec}\n")  # noqa: PLW2901
        (folder / name).write_text(text)
    sys.path.insert(0, str(folder.parent))
    yield {name: getattr(importlib.import_module(f"ide_parsers.{name}"), camel(name)) for name in ENTRIES}
    sys.path.remove(str(folder.parent))


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def parse(cls, data: bytes):
    parsed = cls(KaitaiStream(io.BytesIO(data)))
    parsed._read()
    return parsed


def visit(parsed: KaitaiStruct, path: str = ""):
    """Yield every field and instance recursively; anything that cannot be parsed fails here."""
    names = [*getattr(parsed, "SEQ_FIELDS", []), *(n for n, m in vars(type(parsed)).items() if isinstance(m, property))]
    for name in names:
        value = getattr(parsed, name, None)
        items = value if isinstance(value, list) else [value]
        for number, item in enumerate(items):
            place = f"{path}{name}" + (f"[{number}]" if isinstance(value, list) else "")
            yield place, item
            if isinstance(item, KaitaiStruct):
                yield from visit(item, f"{place}.")


def shown(value: object) -> str:
    if isinstance(value, KaitaiStruct):
        return type(value).__name__
    if isinstance(value, bytes):
        return value[:16].hex() + (f"... {len(value)} bytes" if len(value) > 16 else "")
    return f"{int(value)} {value.name}" if hasattr(value, "name") else str(value)


def dump(parsed) -> str:
    return "".join(f"{path} = {shown(value)}\n" for path, value in visit(parsed) if value is not None)


def test_gpt_disk(parsers):
    """Both headers have 128 entries of 128 bytes; the first one is the partition."""
    disk = gpt(Canvas(MIB), start_bytes=MIB)
    parsed = parse(parsers["gpt_disk"], bytes(disk.to_bytearray()))
    assert len(list(visit(parsed))) > 128 * 2
    assert (parsed.primary.num_entries, parsed.primary.len_entry, len(parsed.backup_entries)) == (128, 128, 128)
    assert uuid.UUID(bytes_le=parsed.entries[0].type_guid) == HFS_PLUS_TYPE
    assert (parsed.entries[0].starting_lba, parsed.entries[0].ending_lba) == (2048, 4095)


@pytest.mark.parametrize("name", ["rich", "directory-stats", "snapshots", "large-nodes", "case-sensitive"])
def test_apfs_nodes(parsers, name, tmp_path):
    """In every node found by the reader the grammar finds the same records and first key object."""
    path = tmp_path / "image"
    write(APFS[name], path)
    image, source = path.read_bytes(), open_image(path)
    compared = 0
    for layout in read_layouts(source):
        for row in layout.nodes.filter(layout.nodes["state"].cast(str) == "live").iter_rows(named=True):
            data = image[row["image_offset"] : row["image_offset"] + row["size_bytes"]]
            parsed = parse(parsers["apfs_block"], data)
            node = parsed.body
            assert (len(node.entries), node.head.level) == (row["num_records"], row["level"])
            keys = [entry.key for entry in node.entries]
            assert len(list(visit(parsed))) > len(keys)
            if row["tree"] == "fs" and keys:
                assert (keys[0].obj_id, keys[-1].obj_id) == (row["first_key_id"], row["last_key_id"])
            compared += 1
    assert compared > 4


def test_apfs_image(parsers, tmp_path):
    """The checkpoint ring is parsed block by block, and all blocks are contiguous."""
    path = tmp_path / "image"
    write(APFS["low-addresses"], path)
    parsed = parse(parsers["apfs_image"], path.read_bytes())
    ring = [block.header.type.name for block in parsed.checkpoint_descriptors if block.header.xid]
    assert set(ring) == {"nx_superblock", "checkpoint_map"}
    assert parsed.object_map.header.type.name == "omap"
    assert len(parsed.blocks) == path.stat().st_size // 4096


@pytest.mark.parametrize("name", list(HFSPLUS)[:12])
def test_hfsplus_image(parsers, name):
    """In every node found by the reader the grammar finds the same records, with complete keys and data."""
    canvas, expected = render(HFSPLUS[name])
    image = bytes(canvas.to_bytearray())[expected.volume_offset :]
    layout = read_layout(MemorySource(image))
    parsed = parse(parsers["hfsplus_image"], image)
    trees = {"catalog": "catalog_file", "extents-overflow": "extents_file", "attributes": "attributes_file"}
    compared = 0
    for row in layout.nodes.iter_rows(named=True):
        tree = getattr(parsed, trees.get(row["tree"], ""), None) if row["tree"] in trees else None
        if tree is None or row["level"] is None or row["node_id"] >= len(tree.nodes):
            continue
        node = tree.nodes[row["node_id"]]
        assert (len(node.records), node.descriptor.height) == (row["num_records"], row["level"] + 1)
        assert len(list(visit(node))) > len(node.records)
        if row["tree"] == "catalog" and row["level"] == 0:
            assert {record.data.record_type.name for record in node.records} <= CATALOG_TYPES
        compared += 1
    assert compared > 0


def parts(parsers, tmp_path) -> dict[str, KaitaiStruct]:
    """Cut small parts out of whole images, one per entry point."""
    path = tmp_path / "image"
    write(APFS["empty"], path)
    canvas, expected = render(HFSPLUS["empty"])
    disk = parse(parsers["gpt_disk"], bytes(gpt(Canvas(MIB), start_bytes=MIB).to_bytearray()))
    hfsplus = parse(parsers["hfsplus_image"], bytes(canvas.to_bytearray())[expected.volume_offset :])
    root = hfsplus.catalog_file.header_node.header.root_node
    container = parse(parsers["apfs_image"], path.read_bytes())
    return {
        "apfs_image": container.superblock,
        "apfs_block": container.object_map.body,
        "gpt_disk": disk.primary,
        "hfsplus_image": hfsplus.catalog_file.nodes[root],
    }


def test_dumps(parsers, tmp_path):
    """The output of the entry points for a small image equals the one committed next to this test."""
    found = {name: dump(part) for name, part in parts(parsers, tmp_path).items()}
    assert found == {path.stem: path.read_text() for path in DUMPS.glob("*.txt")}
