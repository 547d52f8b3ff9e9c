"""Every generated dtype against the generated parser: same values at the same places."""

from __future__ import annotations

import importlib
import io
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from kaitaistruct import KaitaiStream, KaitaiStructError

from layoutscope._generated import dtypes
from layoutscope.ondisk import bulk

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


def fill_valid(name: str, row: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> None:
    """Put allowed values where the grammar asks for them, so that parsing goes on."""
    for field in type_spec(name).get("seq", []):
        key = field.get("id")
        if dtype.fields is None or key not in dtype.fields:
            continue
        form, start = dtype.fields[key]
        value = allowed(field, name, rng)
        if value is not None:
            row[start : start + form.itemsize] = np.frombuffer(encode(value, form), np.uint8)
        kind = field.get("type")
        base, shape = form.subdtype or (form, ())
        if isinstance(kind, str) and base.fields is not None:
            for number in range(int(np.prod(shape)) if shape else 1):
                begin = start + number * base.itemsize
                fill_valid(qualified(kind, name), row[begin : begin + base.itemsize], base, rng)


def qualified(kind: str, name: str) -> str:
    kind = kind.split("(", maxsplit=1)[0]
    if "::" in kind:
        return kind.replace("::", ".")
    return kind if kind in {path.stem for path in KSY.glob("*.ksy")} else f"{name.split('.', maxsplit=1)[0]}.{kind}"


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


def flatten(parsed, dtype: np.dtype, base: int, rows: list, prefix: str = "") -> None:
    """Collect (path, start, end, value) of each fixed field that the parser has read."""
    for key, (form, _) in dtype.fields.items():
        spot = parsed._debug.get(key)
        if spot is None or "end" not in spot:
            continue
        item, shape = form.subdtype or (form, ())
        values = getattr(parsed, key) if shape else [getattr(parsed, key)]
        for number, value in enumerate(values):
            place = spot["arr"][number] if shape else spot
            path = f"{prefix}{key}" + (f"[{number}]" if shape else "")
            if item.fields is not None:
                own = value._io is not parsed._io
                flatten(value, item, base + place["start"] if own else base, rows, f"{path}.")
            else:
                rows.append((path, base + place["start"], base + place["end"], value))


def positions(dtype: np.dtype, base: int = 0, prefix: str = "") -> dict[str, tuple[int, np.dtype]]:
    found = {}
    for key, (form, start) in dtype.fields.items():
        item, shape = form.subdtype or (form, ())
        for number in range(shape[0] if shape else 1):
            path = f"{prefix}{key}" + (f"[{number}]" if shape else "")
            at = base + start + number * item.itemsize
            if item.fields is not None:
                found |= positions(item, at, f"{path}.")
            else:
                found[path] = (at, item)
    return found


@pytest.mark.parametrize("name", sorted(dtypes.DTYPES))
def test_dtype_reads_what_the_parser_reads(name):
    """Random bytes give the same values, starts and ends by dtype and by parser, for each fixed field."""
    dtype = dtypes.DTYPES[name]
    rng = np.random.default_rng(len(name))
    spots = positions(dtype)
    compared = set()
    for _ in range(ROWS):
        row = rng.integers(0, 256, dtype.itemsize + 4096, dtype=np.uint8)
        fill_valid(name, row, dtype, rng)
        data = row.tobytes()
        params = [1 for _ in type_spec(name).get("params", [])]
        parsed = parser(name)(*params, KaitaiStream(io.BytesIO(data)))
        try:
            parsed._read()
        except KaitaiStructError:
            pass  # a variable part past the fixed prefix may be nonsense
        found: list = []
        flatten(parsed, dtype, 0, found)
        for path, start, end, value in found:
            at, form = spots[path]
            assert (start, end) == (at, at + form.itemsize), path
            stored = data[start:end] if form.kind == "V" else np.frombuffer(data, form, 1, start)[0]
            assert stored == value, path
            compared.add(path)
    assert compared == {path for path in spots if not path.endswith("_rest")}


@pytest.mark.parametrize("name", sorted(dtypes.COLUMNS))
def test_column_equals_the_parsers_instance(name):
    """Each value instance gives the same over arrays as in the parser."""
    dtype = dtypes.DTYPES[name]
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 256, (ROWS, dtype.itemsize + 4096), dtype=np.uint8)
    for row in rows:
        fill_valid(name, row, dtype, rng)
    records = bulk.records(name, rows.reshape(-1), np.arange(ROWS) * rows.shape[1])
    params = [1 for _ in type_spec(name).get("params", [])]
    for instance in dtypes.COLUMNS[name]:
        column = records[instance]
        for number, row in enumerate(rows):
            parsed = parser(name)(*params, KaitaiStream(io.BytesIO(row.tobytes())))
            try:
                parsed._read()
            except KaitaiStructError:
                pass  # as above
            assert int(column[number]) == int(getattr(parsed, instance)), instance
