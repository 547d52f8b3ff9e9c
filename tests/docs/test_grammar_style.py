"""The rules of ksy/STYLE.md that a program can check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

GRAMMARS = sorted((Path(__file__).resolve().parents[2] / "ksy").glob("*.ksy"))


@pytest.fixture(params=GRAMMARS, ids=lambda path: path.stem)
def grammar(request):
    return request.param


def types(spec: dict) -> dict:
    own = {spec["meta"]["id"]: spec} if spec.get("seq") else {}
    return own | spec.get("types", {})


def test_every_type_has_its_source(grammar):
    """Each type names the document and section that describe it."""
    spec = yaml.safe_load(grammar.read_text())
    assert [name for name, body in types(spec).items() if "doc-ref" not in body] == []


def test_every_type_is_explained(grammar):
    """Each type says what it is for."""
    spec = yaml.safe_load(grammar.read_text())
    assert [name for name, body in types(spec).items() if "doc" not in body] == []


def test_no_pointer_is_followed(grammar):
    """No grammar leaves its own buffer."""
    assert not re.search(r"_root\._io|(?<!\w)_parent\b", grammar.read_text())


def test_numbers_are_plain(grammar):
    """No binary, octal or underscored number, which YAML parsers read differently."""
    scalars = re.findall(r"^[ -]*(?:[\w-]+: )?(\w+)(?=:|$)", grammar.read_text(), re.MULTILINE)
    odd = re.compile(r"0b[01]+|0[0-7]+|0x[0-9a-fA-F]*_[0-9a-fA-F_]*|[0-9]+_[0-9]+")
    assert [text for text in scalars if odd.fullmatch(text)] == []
