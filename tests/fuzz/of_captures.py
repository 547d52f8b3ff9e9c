"""Captures: the manifest as text, and each table as bytes with a corrected digest."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

from fixtures.hfsplus.writer import render
from tests.fuzz.base import Base, base_of
from tests.fuzz.of_hfsplus import PLANS


@cache
def capture() -> Path:
    """Save a small scan."""
    from layoutscope import scan
    from layoutscope.api.save import save

    folder = Path(tempfile.mkdtemp(prefix="fuzz-capture-"))
    image = folder / "disk.img"
    image.write_bytes(render(PLANS["everything"])[0].to_bytearray())
    save(scan(image, drives=()), folder / "sound.lscope")
    return folder / "sound.lscope"


def bases() -> tuple[Base, ...]:
    """Return the files of a capture."""
    manifest = capture() / "manifest.json"
    tables = sorted((capture() / "0").glob("*.parquet"))
    return (
        base_of("manifest.json", manifest.read_bytes(), is_text=True),
        *(_table(path) for path in tables),
    )


def _table(path: Path) -> Base:
    data = path.read_bytes()
    ranges = tuple((at, min(64, len(data) - at)) for at in range(0, len(data), 64))
    return base_of(f"0/{path.name}", data, ranges=ranges)


def run(path: Path, base: Base) -> int:
    """Scan a capture with one file changed."""
    from layoutscope import scan

    folder = path.parent / "case.lscope"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(capture(), folder)
    shutil.copyfile(path, folder / base.name)
    if base.name.startswith("0/"):
        manifest = json.loads((folder / "manifest.json").read_text())
        table = Path(base.name).stem
        manifest["volumes"][0]["sha256"][table] = hashlib.sha256(path.read_bytes()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return scan(folder, drives=()).exit_code
