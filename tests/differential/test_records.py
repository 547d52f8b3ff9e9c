"""Every generated record type against the generated parser: same values at the same places."""

from __future__ import annotations

import importlib
import io
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from kaitaistruct import KaitaiStream, KaitaiStructError

from layoutscope.structs import bulk
from layoutscope.structs.records import RECORD_TYPES
from layoutscope.structs.recordtypes import Field, RecordType
from tests.cases import for_each

KSY = Path(__file__).resolve().parents[2] / "ksy"
ROWS = 40


@cache
def grammar(grammar_id: str) -> dict:
    return yaml.safe_load((KSY / f"{grammar_id}.ksy").read_text())


def type_spec(name: str) -> dict:
    grammar_id, _, type_id = name.partition(".")
    return grammar(grammar_id)["types"][type_id] if type_id else grammar(grammar_id)


def parser(name: str):
    grammar_id, _, type_id = name.partition(".")
    camel = lambda text: "".join(part.capitalize() for part in text.split("_"))  # noqa: E731
    top = getattr(importlib.import_module(f"layoutscope._generated.{grammar_id}"), camel(grammar_id))
    return getattr(top, camel(type_id)) if type_id else top


def fill_valid(record: RecordType, row: np.ndarray, rng: np.random.Generator, base: int = 0) -> None:
    """Set fields to values that the grammar allows, so parsing continues."""
    for field in type_spec(record.type_name).get("seq", []):
        member = getattr(record, field.get("id", "-"), None)
        if member is None:
            continue
        value = allowed(field, record.type_name, rng)
        if value is not None:
            data = np.frombuffer(encode(value, member.scalar), np.uint8)
            row[base + member.offset : base + member.offset + len(data)] = data
        if isinstance(member, RecordType):
            kind = RECORD_TYPES[member.type_name]
            room = member.fields()[0].strides[-1] if field.get("repeat") else 0
            for number in range(member.fields()[0].counts[-1] if room else 1):
                fill_valid(kind, row, rng, base + member.offset + number * room)


def allowed(field: dict, name: str, rng: np.random.Generator):
    if "contents" in field:
        contents = field["contents"]
        return contents.encode() if isinstance(contents, str) else bytes(contents)
    valid = field.get("valid")
    if valid is None:
        return None
    if not isinstance(valid, dict):
        return literal(valid, name)
    if "eq" in valid:
        return literal(valid["eq"], name)
    if "any-of" in valid:
        return literal(rng.choice(np.array(valid["any-of"], object)), name)
    if valid.get("in-enum"):
        owner, _, enum = field["enum"].rpartition("::")
        return int(rng.choice(list(grammar(owner or name.split(".", maxsplit=1)[0])["enums"][enum])))
    if "min" in valid or "max" in valid:
        low = literal(valid.get("min", 0), name)
        return int(rng.integers(low, literal(valid.get("max", low + 100), name), endpoint=True))
    return None


def literal(value, name: str):
    if isinstance(value, list):
        return bytes(value)
    if isinstance(value, str):
        if "::" in value:
            enum, label = value.split("::")[-2:]
            values = grammar(name.split(".", maxsplit=1)[0])["enums"][enum]
            return next(k for k, v in values.items() if (v["id"] if isinstance(v, dict) else v) == label)
        return value.strip("\"'").encode() if value[:1] in "\"'" else int(value, 0)
    return value


def encode(value, form: np.dtype) -> bytes:
    return value if isinstance(value, bytes) else np.array(value, form).tobytes()


def flatten(parsed, record: RecordType, base: int, rows: list, prefix: str = "") -> None:
    """Collect (path, start, end, value) of each fixed field that the parser has read."""
    for field in type_spec(record.type_name).get("seq", []):
        key = field.get("id")
        member = getattr(record, key, None) if key else None
        spot = parsed._debug.get(key)
        if not isinstance(member, Field | RecordType) or spot is None or "end" not in spot:
            continue
        repeated = "arr" in spot
        values = getattr(parsed, key) if repeated else [getattr(parsed, key)]
        for number, value in enumerate(values):
            place = spot["arr"][number] if repeated else spot
            path = f"{prefix}{key}" + (f"[{number}]" if repeated else "")
            if isinstance(member, RecordType):
                own = value._io is not parsed._io
                flatten(value, member, base + place["start"] if own else base, rows, f"{path}.")
            else:
                rows.append((path, base + place["start"], base + place["end"], value))


def positions(record: RecordType) -> dict[str, tuple[int, np.dtype]]:
    """Return the place of each item of each field, from offset, counts and strides; ``a.b[2]`` is the third item."""
    found = {}
    for field in record.fields():
        for index in np.ndindex(field.counts):
            at = field.offset + sum(number * stride for number, stride in zip(index, field.strides, strict=True))
            found[numbered(record, field, index)] = (at, field.scalar)
    return found


def numbered(record: RecordType, field: str, index: tuple[int, ...]) -> str:
    """Append the item's indices to the repeated names."""
    left, parts, spec = list(index), [], type_spec(record.type_name)
    for name in field.split("."):
        entry = next(item for item in spec["seq"] if item.get("id") == name)
        parts.append(f"{name}[{left.pop(0)}]" if "repeat" in entry else name)
        record = getattr(record, name)
        spec = type_spec(record.type_name) if isinstance(record, RecordType) else {}
    return ".".join(parts)


@for_each("name", sorted(RECORD_TYPES))
def test_fields_are_what_the_parser_reads(name):
    """For random bytes, record type and parser give the same values, starts and ends of each fixed field."""
    record = RECORD_TYPES[name]
    rng = np.random.default_rng(len(name))
    spots = positions(record)
    compared = set()
    for _ in range(ROWS):
        row = rng.integers(0, 256, record.width + 4096, dtype=np.uint8)
        fill_valid(record, row, rng)
        data = row.tobytes()
        params = [1 for _ in type_spec(name).get("params", [])]
        parsed = parser(name)(*params, KaitaiStream(io.BytesIO(data)))
        try:
            parsed._read()
        except KaitaiStructError:
            pass  # a variable part after the fixed prefix may be invalid
        found: list = []
        flatten(parsed, record, 0, found)
        for path, start, end, value in found:
            at, form = spots[path]
            assert (start, end) == (at, at + form.itemsize), path
            stored = data[start:end] if form.kind == "V" else np.frombuffer(data, form, 1, start)[0]
            assert stored == value, path
            compared.add(path)
    assert compared == set(spots)


@for_each("name", sorted(name for name, record in RECORD_TYPES.items() if record.instances()))
def test_instances_are_what_the_parser_computes(name):
    """Each value instance is the same computed over arrays and by the parser."""
    record = RECORD_TYPES[name]
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 256, (ROWS, record.width + 4096), dtype=np.uint8)
    for row in rows:
        fill_valid(record, row, rng)
    starts = np.arange(ROWS) * rows.shape[1]
    params = [1 for _ in type_spec(name).get("params", [])]
    for instance in record.instances():
        column = bulk.decode_column(record, rows.reshape(-1), starts, instance)
        for number, row in enumerate(rows):
            parsed = parser(name)(*params, KaitaiStream(io.BytesIO(row.tobytes())))
            try:
                parsed._read()
            except KaitaiStructError:
                pass  # as above
            assert int(column[number]) == int(getattr(parsed, instance)), instance
