"""Answers as text that is the same in each run: files that were written, and objects of the library."""

from __future__ import annotations

import hashlib
import json
import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEPT_CHARACTERS = 1 << 21
"""Of longer outputs, so much is kept, and the hash of all."""
SHOWN_ITEMS = 64
"""Longer arrays are shown as their hash."""
LONG = 2000
"""A part of a result that is longer than this is shown once in it."""
TEXTS = {".csv", ".jsonl", ".json", ".txt", ".log", ".list", ".sh", ".svg", ".toml", ".xml"}
OF_A_RUN = {"source", "seconds", "peak_memory_bytes", "modify_time_ns", "identity", "made_by"}
"""Columns of a batch's sources that are of the run, not of the image."""


def kept(text: str) -> str:
    """Cut a long output, and say what all of it was."""
    if len(text) <= KEPT_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{text[:KEPT_CHARACTERS]}\n({len(text)} characters, sha256 {digest})\n"


def normalised(version: str, places: dict[str, str]) -> Callable[[str], str]:
    """Make the function that takes out what belongs to a run: version, places by path, times, identifiers."""
    words = {version: "<version>", **dict(sorted(places.items(), key=lambda item: -len(item[0])))}
    patterns = (
        (re.compile(r"(layoutscope: \d+ of \d+: .*) \([\d.,]+ \w+\)$", re.MULTILINE), r"\1 (<time>)"),
        (re.compile(r"-[0-9a-f]{16}(?=\.lscope|\.html)"), "-<source>"),
        (re.compile(r"\b(sources?\W{1,6})[0-9a-f]{16}\b"), r"\1<source>"),
        (re.compile(r"(\"(?:source|identity|peak_memory_bytes|modify_time_ns)\": )[^,\n]+"), r"\1<of the run>"),
        (re.compile(r"(: \d+ sources? in )[\d.,]+ \w+"), r"\1<time>"),
        (re.compile(r"(\"seconds\": )[\d.e-]+(?=,\s+\"(?:kept|has_capture|sources?)\")"), r"\1<time>"),
        (re.compile(r"(FleetResult\(.*seconds=)[\d.e-]+"), r"\1<time>"),
        (re.compile(r"^(Command|Started|Ended)(: +).*$", re.MULTILINE), r"\1\2<of the run>"),
        (re.compile(r"(a report of the examination, )[\d.]+ \w+"), r"\1<size>"),
        # Pictures have new identifiers each time that they are drawn.
        (re.compile(r"\b(topdefs-|defs-|clip|trace|legend)[0-9a-f]{6}"), r"\1<id>"),
        (re.compile(r"0x[0-9a-f]{9,16}(?=>)"), "<address>"),
    )

    def clean(text: str) -> str:
        for found, word in words.items():
            text = text.replace(found, word)
        for pattern, word in patterns:
            text = pattern.sub(word, text)
        return text

    return clean


def unsalted(text: str) -> str:
    """Remove hashes of names, and of tables with such hashes, from a text: every run has another salt."""
    hashed = re.sub(r'"name":"[0-9a-f]{20}","name_raw":"[0-9a-f]{40}"', '"name":"<hash>"', text)
    hashed = re.sub(r"\b(?=\d{0,19}[a-f])[0-9a-f]{20}\b", "<hash>", hashed)
    hashed = re.sub(r"(: \d+ entries, )[\d.]+ \w+", r"\1<size>", hashed)
    return re.sub(r'("(?:entries|extents|node_views)": )"[0-9a-f]{64}"', r"\1<digest>", hashed)


def written(folder: Path, known: set[Path]) -> Iterator[str]:
    """Show the files in a folder that were not known before, each with its name."""
    for path in sorted(folder.rglob("*")):
        if path in known or not path.is_file() or path.suffix == ".lock" or {"rows", "work"} & {*path.parts[-2:-1]}:
            continue
        known.add(path)
        yield f"== {path.relative_to(folder.parent)}\n{file_text(path)}\n"


def file_text(path: Path) -> str:
    """Show what a file says: text, rows of a table, data and words of a page, else its length and hash."""
    if path.suffix in TEXTS:
        return path.read_bytes().decode("utf-8", "backslashreplace")
    if path.suffix == ".parquet":
        return rows_text(path)
    if path.suffix == ".html":
        return page_text(path.read_text())
    with path.open("rb") as file:
        return f"{path.stat().st_size} bytes, sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"


def rows_text(path: Path) -> str:
    """Show a table: columns with their types, then a row a line."""
    import polars as pl

    frame = pl.read_parquet(path)
    if "peak_memory_bytes" in frame.columns:
        frame = frame.drop(*OF_A_RUN)
    elif "source" in frame.columns:
        frame = frame.drop("source")
    columns = ", ".join(f"{name} {kind}" for name, kind in frame.schema.items())
    return f"{columns}\n{ndjson(frame)}"


def ndjson(frame: Any) -> str:
    """Write a row a line; bytes as hexadecimal digits."""
    import polars as pl

    return str(frame.with_columns(pl.col(pl.Binary).bin.encode("hex")).write_ndjson())


def page_text(page: str) -> str:
    """Show the data that a page carries and the words on it, without its scripts and its styles."""
    from tests.pages import unpacked

    def opened(value: Any) -> Any:
        if isinstance(value, dict):
            if {"type", "n", "delta", "data"} == value.keys():
                numbers = unpacked(value)
                return {"type": value["type"], **digest(json.dumps(numbers), numbers)}
            return {name: opened(each) for name, each in value.items()}
        return [opened(each) for each in value] if isinstance(value, list) else value

    found = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    data = (json.dumps(opened(json.loads(each)), indent=1, sort_keys=True) for each in found)
    words = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return "\n".join((*data, re.sub(r"(?=<(?!/))", "\n", words)))


def digest(text: str, items: Any) -> dict[str, Any]:
    """Show a few numbers as they are and many by their hash."""
    if len(items) <= SHOWN_ITEMS:
        return {"values": items}
    return {"n": len(items), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def object_text(thing: Any, clean: Callable[[str], str]) -> str:
    """Show an object of the library as JSON: all that is public of it; ``clean`` goes over what is shown as a hash."""
    shown: dict[str, None] = {}

    def show(value: Any, above: tuple[int, ...]) -> Any:
        if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, (Enum, np.generic))):
            return value
        if id(value) in above:
            return "<around it>"
        inside = (*above, id(value))
        plain = simple(value)
        if plain is not None:
            return plain
        if isinstance(value, dict) or (hasattr(value, "keys") and hasattr(value, "__getitem__")):
            return {str(key): show(value[key], inside) for key in value.keys()}  # noqa: SIM118  (any mapping)
        if isinstance(value, (tuple, list)):
            return [show(each, inside) for each in value]
        if isinstance(value, (set, frozenset)):
            return sorted((show(each, inside) for each in value), key=repr)
        if not type(value).__module__.startswith("layoutscope"):
            return repr(value)
        made = {"is": type(value).__name__, **{name: show(each, inside) for name, each in attributes(value)}}
        text = json.dumps(made, sort_keys=True)
        if len(text) > LONG:
            if text in shown:
                return {"is": type(value).__name__, "as above": hashlib.sha256(clean(text).encode()).hexdigest()}
            shown[text] = None
        return made

    short = f"{thing!r}\n" if type(thing).__module__.startswith("layoutscope") else ""
    return f"{short}{json.dumps(show(thing, ()), indent=1)}\n"


def simple(value: Any) -> Any:
    """Show what is one value, or many of one kind; None for all else."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, np.generic):
        return value.item() if not isinstance(value, np.void) else repr(value)
    if isinstance(value, np.ndarray):
        listed = value.tolist()
        return {"array": str(value.dtype), "shape": list(value.shape), **digest(repr(listed), repr_items(listed))}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "write_ndjson"):  # a frame of polars, column by column: one more leaves the others as they were
        columns = {name: [str(kind), column_digest(value, name)] for name, kind in value.schema.items()}
        return {"rows": value.height, "columns": columns}
    return None


def column_digest(frame: Any, name: str) -> Any:
    """Show a short column as it is and a long one by its hash."""
    rows = ndjson(frame.select(name))
    if frame.height <= SHOWN_ITEMS:
        return [*(json.loads(row)[name] for row in rows.splitlines())]
    return hashlib.sha256(rows.encode()).hexdigest()


def repr_items(listed: Any) -> list[str]:
    """List the items of an array as text, which JSON has for any kind."""
    return [repr(item) for item in listed] if isinstance(listed, list) else [repr(listed)]


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """List what is public of an object and no method: fields, properties, whatever made the class."""
    names = {*dir(type(value)), *getattr(value, "__dict__", {})}
    for name in sorted(name for name in names if not name.startswith("_")):
        try:
            found = getattr(value, name)
        except Exception as error:  # noqa: BLE001  (a property that refuses says so)
            found = f"raises {type(error).__name__}: {error}"
        if not callable(found):
            yield name, found
