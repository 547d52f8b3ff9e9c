"""Grammars follow the rules of ksy/STYLE.md that a program can check, and the committed parsers are made from them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from itertools import pairwise

import pytest
import yaml

from tests.cases import for_each
from tests.docs.imports import ROOT

KSY = ROOT / "ksy"
GRAMMARS = sorted(KSY.glob("*.ksy"))
ENTRIES = sorted(KSY.glob("ide/*.ksy"))
"""Entry points for the Web IDE, which follow pointers."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as quick, where libyaml is there


SPECS = {path: yaml.load(path.read_text(encoding="utf-8"), LOADER) for path in (*GRAMMARS, *ENTRIES)}  # noqa: S506
each_grammar = for_each("text", SPECS)
each_compiled = for_each("grammar", GRAMMARS)


def types(spec: dict) -> dict:
    own = {spec["meta"]["id"]: spec} if spec.get("seq") else {}
    return own | spec.get("types", {})


@each_grammar
def test_every_type_is_explained_with_its_source(text):
    """Each type says what it is for, and names the document and section that describe it."""
    every = types(SPECS[text]).items()
    assert [(name, key) for name, body in every for key in ("doc", "doc-ref") if key not in body] == []


@each_compiled
def test_no_pointer_is_followed(grammar):
    """No grammar leaves its own buffer."""
    assert not re.search(r"_root\._io|(?<!\w)_parent\b", grammar.read_text())


MAGICS = re.compile(r"(^|_)(magic|signature)$")
NOT_HELD = {
    ("decmpfs_header", "compression_magic"): "an attribute without it is no header, which is no damage",
    ("hot_files_info", "magic"): "a file of this name without it is no hot-file tree, which is no damage",
    ("master_directory_block", "embedded_signature"): "anything but HFS+ means that no volume is embedded",
    ("journal_info_block", "device_signature"): "it is another device's own",
    ("boot_record", "disk_signature"): "it is a number that makes disks unique",
}
"""Signatures that may be anything, by type and field, with the reason."""

CONSTANTS = {
    "inode_field": "the kind of an extended field means one thing in inodes and another one in directory records",
    "drec_field": "likewise",
    "tier2_marker": "the mark of byte addresses; fields hold block addresses",
    "checksum_mark": "stands in place of a checksum in blocks that were wiped; the field is a number",
    "key_secret": "hashed with the salt; no field holds it",
    "free_queue": "places in the array of queues",
    "key_length_limit": "a limit of the format",
    "node_size_limit": "a limit of the format",
    "block_size_limit": "a limit of the format",
    "mode_bit": "bits of a mode beside its type, which is what the field is bound to",
    "cnid": "numbers of files, which fields of other grammars hold; an enum of another file cannot be bound",
}
"""Enums whose values no field of the grammar holds, with the reason."""


OTHER_NUMBERS = re.compile(r"(^|_)(count|counter|len|length|size|size_bytes|length_bytes|offset)$")
NOT_MEASURED = {
    "gen_count": "it tells generations apart",
    "write_count": "it tells states apart",
    "write_gen_counter": "it tells generations apart",
    "write_generation_counter": "it tells generations apart",
    "has_folder_count": "it says that there is such a field",
    "has_uncompressed_size": "it says that there is such a field",
    "recovery_length": "nothing tells its unit",
}
"""Fields that are named after a number and are none of things or bytes, with the reason."""


def literals(spec: dict) -> list[tuple[str, str, str]]:
    """Instances that mask a field by a number: the name in the documents, the field and the number."""
    found = []
    for body in types(spec).values():
        for instance in body.get("instances", {}).values():
            for field, mask in re.findall(r"(\w+) & (0x[0-9a-f]+|\d+)", str(instance.get("value", ""))):
                found.append((instance.get("-orig-id", ""), field, mask))
    return found


@each_compiled
def test_every_magic_is_held(grammar):
    """A field that says what a structure is must say it, or parsing fails; exceptions have a reason."""
    spec = SPECS[grammar]
    loose = [
        (name, field["id"])
        for name, body in types(spec).items()
        for field in body.get("seq", [])
        if MAGICS.search(field.get("id", "")) and not {"contents", "valid"} & set(field)
    ]
    assert [case for case in loose if case not in NOT_HELD] == []


@each_compiled
def test_every_enum_is_bound(grammar):
    """Each enum names the values of a field or an instance, or the bits that instances test."""
    text = grammar.read_text()
    used = set(re.findall(r"enum: (\w+)$", text, re.MULTILINE)) | set(re.findall(r"(\w+)::\w+", text))
    everywhere = "".join(path.read_text() for path in GRAMMARS)
    used |= set(re.findall(rf"{grammar.stem}::(\w+)::", everywhere))
    assert [name for name in SPECS[grammar].get("enums", {}) if name not in used | set(CONSTANTS)] == []


@each_compiled
def test_no_mask_is_written_twice(grammar):
    """A bit that an enum names is tested by its name, and a mask that is needed again is named."""
    spec = SPECS[grammar]
    named = {
        body["-orig-id"]: name
        for name, values in spec.get("enums", {}).items()
        for body in values.values()
        if "-orig-id" in body
    }
    found = literals(spec)
    assert [case for case in found if case[0] in named] == []
    assert [case for case in found if case[0] and [other[0] for other in found].count(case[0]) > 1] == []


@each_grammar
def test_numbers_are_named_alike(text):
    """Counts are ``num_``, lengths in bytes ``len_`` and places in bytes ``ofs_``, whatever the documents call them."""
    names = set[str]()
    for body in types(SPECS[text]).values():
        names |= {field.get("id", "") for field in body.get("seq", [])} | {*body.get("instances", {})}
    assert {name for name in names if OTHER_NUMBERS.search(name)} <= set(NOT_MEASURED)


ORDERS = {
    "meta": "id title application file-extension xref tags license ks-version imports encoding endian bit-endian",
    "structure": "meta doc doc-ref to-string params seq instances types enums",
    "field": "id -orig-id io pos value size size-eos type enum terminator include consume eos-error pad-right encoding "
    "process valid contents repeat repeat-expr repeat-until if doc doc-ref",
}
"""The orders of keys of https://doc.kaitai.io/ksy_style_guide.html, which has none for what tools add (``-webide``)."""


def misplaced(keys, what: str) -> list[str]:
    """Name the keys that the order does not have, or else those that stand before what they should follow."""
    order = ORDERS[what].split()
    unknown = [key for key in keys if key not in order and not key.startswith("-")]
    places = [order.index(key) for key in keys if key in order]
    return unknown or [order[one] for one, other in pairwise(places) if one > other]


@each_grammar
def test_keys_stand_as_the_guide_wants_them(text):
    """Keys of the file, its meta, its structures, fields and instances; tags and cross-references are sorted."""
    spec = SPECS[text]
    meta = spec["meta"]
    assert (meta["id"], meta["license"], meta["ks-version"]) == (text.stem, "CC0-1.0", "0.11")
    assert meta["title"]
    assert meta["tags"] == sorted(meta["tags"]) != []
    assert list(meta.get("xref", {})) == sorted(meta.get("xref", {}))
    assert misplaced(meta, "meta") == []
    wrong = {name: misplaced(body, "structure") for name, body in [("", spec), *types(spec).items()]}
    for name, body in types(spec).items():
        wrong |= {f"{name}.{each['id']}": misplaced(each, "field") for each in body.get("seq", [])}
        wrong |= {f"{name}.{key}": misplaced(each, "field") for key, each in body.get("instances", {}).items()}
    assert {name: keys for name, keys in wrong.items() if keys} == {}


@each_grammar
def test_files_are_written_as_the_guide_wants_them(text):
    """Spaces alone, a last line that ends, one document; no number in a form that YAML parsers read differently."""
    content = text.read_bytes().decode("utf-8")
    assert not re.search(r"\t|\r| +$|^---|^%", content, re.MULTILINE)
    assert re.search(r"[^\n]\n\Z", content)
    scalars = re.findall(r"^[ -]*(?:[\w-]+: )?(\w+)(?=:|$)", content, re.MULTILINE)
    odd = re.compile(r"0b[01]+|0[0-7]+|0x[0-9a-fA-F]*_[0-9a-fA-F_]*|[0-9]+_[0-9]+")
    assert [each for each in scalars if odd.fullmatch(each)] == []


def test_a_key_at_the_wrong_place_is_found():
    """After a key that should follow it, or one that the guide does not know."""
    assert misplaced(["id", "type", "size"], "field") == ["type"]
    assert misplaced(["id", "comment"], "field") == ["comment"]
    assert misplaced(["id", "-orig-id", "type", "doc"], "field") == []


# Parsers

GENERATED = ROOT / "layoutscope" / "_generated"
MANIFEST = json.loads((GENERATED / "MANIFEST.json").read_text())


def test_manifest_names_every_grammar_and_every_output():
    """The manifest lists exactly the grammars and the generated files, with their current hashes."""
    hashes = lambda paths: {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}  # noqa: E731
    outputs = (path for path in GENERATED.iterdir() if path.is_file() and path.name != "MANIFEST.json")
    assert (MANIFEST["grammars"], MANIFEST["outputs"]) == (hashes(GRAMMARS), hashes(outputs))


def test_rebuild_gives_the_same_bytes():
    """Compiling again gives the committed files, byte for byte."""
    if shutil.which("node") is None or not (ROOT / "ksy" / "node_modules").exists():
        pytest.skip("the grammar compiler is not installed (npm ci in ksy/)")
    subprocess.run([sys.executable, ROOT / "ksy" / "build.py", "--check"], check=True)
