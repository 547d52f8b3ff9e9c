"""The committed parsers are those of the committed grammars."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "layoutscope" / "_generated"
MANIFEST = json.loads((GENERATED / "MANIFEST.json").read_text())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_manifest_names_every_grammar():
    """The manifest's hashes are those of the grammars as they stand."""
    assert MANIFEST["grammars"] == {path.name: sha256(path) for path in (ROOT / "ksy").glob("*.ksy")}


def test_manifest_names_every_output():
    """The manifest's hashes are those of the generated files, and no other file is among them."""
    present = {
        path.name: sha256(path) for path in GENERATED.iterdir() if path.is_file() and path.name != "MANIFEST.json"
    }
    assert MANIFEST["outputs"] == present


def test_rebuild_gives_the_same_bytes():
    """Compiling again gives the committed files, byte for byte."""
    if shutil.which("node") is None or not (ROOT / "ksy" / "node_modules").exists():
        pytest.skip("the grammar compiler is not installed (npm ci in ksy/)")
    subprocess.run([sys.executable, ROOT / "ksy" / "build.py", "--check"], check=True)
