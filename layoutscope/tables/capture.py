"""Captures: layouts saved as a folder of Parquet files with a manifest, for use without the image.

``NAME.lscope/manifest.json`` describes the layouts, and ``NAME.lscope/N/TABLE.parquet`` holds the tables of the N-th
one. DuckDB, polars and Spark read the files as they are.

A capture may be damaged or malicious. Its columns are checked against the schema, its numbers against their ranges, and
its references against their targets, because all later stages rely on the tables.
"""

from __future__ import annotations

import json
import math
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import to_builtins

from layoutscope import inputs, ownfiles
from layoutscope.errors import ImageError
from layoutscope.frames import pl
from layoutscope.tables import VolumeFacts, VolumeLayout
from layoutscope.tables.frames import parquet
from layoutscope.tables.layout import TreeFacts, attach_containers
from layoutscope.tables.parquet import read_claims
from layoutscope.tables.schema import CONDITIONS, NUMBERS, OPTIONAL, REFERENCE, TABLES
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from layoutscope.display import Struct


MANIFEST_TYPES: Final = {"format": str, "made_by": str, "image": dict, "findings": list, "volumes": list}
TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "str": str,
    "Level": str,
    "int": int,
    "bool": bool,
    "int | None": (int, type(None)),
    "bool | None": (bool, type(None)),
    "tuple": list,
    "Mapping": dict,
}
"""Types of fields in JSON, by the first words of their annotations."""


def field_types(kind: type[Struct]) -> dict[str, type | tuple[type, ...]]:
    """Return the types of a record's fields in JSON."""
    return {name: TYPES[words.partition("[")[0]] for name, words in kind.__annotations__.items()}


TREE_TYPES: Final = field_types(TreeFacts)


def check_values(what: str, values: Mapping[str, Any], types: Mapping[str, type | tuple[type, ...]]) -> None:
    """Check that a JSON object has the given members and no others, each of its type."""
    if not isinstance(values, dict) or set(values) != set(types):
        raise ValueError(f"{what} has not the members of this version")
    for name, kind in types.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        # In Python, True is an int as well.
        if not isinstance(values[name], kinds) or (isinstance(values[name], bool) and bool not in kinds):
            raise ValueError(f"{what}.{name} is of the wrong type")
        if isinstance(values[name], int) and not 0 <= values[name] < 2**64:
            raise ValueError(f"{what}.{name} is negative or too large")


FORMAT: Final = "layoutscope.capture/3"
MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 64 * 1024**2
MAX_BLOCK_BYTES: Final = 2**32


def is_capture(path: Path) -> bool:
    """Whether a path is a folder with a manifest."""
    return path.is_dir() and (path / MANIFEST).is_file()


def list_capture_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Separate the files of a capture, of any version, from others in its folder; all are others without a manifest."""
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or not path.is_dir() or next(path.iterdir(), None) is None
    ]
    try:
        with inputs.open_file(folder / MANIFEST) as file:
            saved = json.loads(file.read(MAX_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return [], paths
    if not isinstance(saved, dict) or not str(saved.get("format")).startswith(FORMAT.partition("/")[0] + "/"):
        return [], paths
    own = {
        path for path in paths if not path.is_symlink() and _CAPTURE_FILE.fullmatch(path.relative_to(folder).as_posix())
    }
    return [path for path in paths if path in own], [path for path in paths if path not in own]


_CAPTURE_FILE: Final = re.compile(rf"{re.escape(MANIFEST)}|[0-9]+/[a-z_]+\.parquet")


def write_capture(
    folder: Path,  # an empty folder
    layouts: Sequence[VolumeLayout],
    about: Mapping[str, Any],
) -> None:
    """Write layouts into an empty folder."""
    volumes = []
    for number, layout in enumerate(layouts):
        (folder / str(number)).mkdir()
        for table in TABLES:
            ownfiles.write_new(folder / str(number) / f"{table}.parquet", parquet(layout.table(table)))
        volumes.append({"facts": to_builtins(layout.facts), "sha256": hash_tables(folder / str(number))})
    manifest = {"format": FORMAT, **about, "volumes": volumes}
    # The manifest comes last, so the result of an interrupted save is not a capture.
    ownfiles.write_new(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def hash_tables(folder: Path) -> dict[str, str]:
    """Compute the SHA-256 of the file of each table, by table."""
    import hashlib

    found = {}
    for table in TABLES:
        path = folder / f"{table}.parquet"
        # Through links, the maker of a capture could have other files of this machine read.
        if path.is_symlink() or folder.is_symlink():
            raise ValueError(f"{path.name} is a link, and may lead out of the capture")
        with inputs.open_file(path) as file:
            found[table] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def read_capture(folder: Path) -> tuple[tuple[VolumeLayout, ...], dict[str, Any]]:
    """Read the layouts and the manifest of a capture."""
    inputs.note(folder)
    try:
        manifest, layouts = _read_manifest(folder), []
        with _suppress_panics():
            for number, volume in enumerate(manifest["volumes"]):
                place = folder / str(number)
                if hash_tables(place) != volume["sha256"]:
                    raise ValueError("a table differs from its SHA-256")
                tables = {table: read_table(place / f"{table}.parquet", table) for table in TABLES}
                check_references(tables)
                layouts.append(VolumeLayout(facts=_parse_facts(volume["facts"]), **tables))
            return tuple(attach_containers(layouts)), manifest
    except (
        *(OSError, ValueError, KeyError, TypeError, RecursionError),
        # A panic of polars' Rust core derives from BaseException, so it must be caught by name.
        *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
    ) as error:
        raise ImageError(f"{folder}: is a damaged capture: {type(error).__name__} {error}".splitlines()[0]) from error


@contextmanager
def _suppress_panics() -> Iterator[None]:
    """Suppress standard error: on some damaged files, polars prints a stack trace before it raises."""
    standard_error = 2
    try:
        saved_descriptor = os.dup(standard_error)
    except OSError:
        # The parent process closed it.
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  (no path in a folder)
            os.dup2(nowhere.fileno(), standard_error)
        yield
    finally:
        os.dup2(saved_descriptor, standard_error)
        os.close(saved_descriptor)


def _read_manifest(folder: Path) -> dict[str, Any]:
    if (folder / MANIFEST).is_symlink():
        raise ValueError("the manifest is a link, and may lead out of the capture")
    with inputs.open_file(folder / MANIFEST) as file:
        text = file.read(MAX_MANIFEST_BYTES + 1)
    if len(text) > MAX_MANIFEST_BYTES:
        raise ValueError("the manifest is too long")
    # Python's reader accepts NaN and Infinity, which JSON does not have.
    manifest = json.loads(text.decode("utf-8"), parse_constant=_refuse)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ImageError(f"{folder}: is not a capture of the version {FORMAT}")
    check_values("manifest", manifest, MANIFEST_TYPES)
    return manifest


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a number")


NEWER_FACTS: Final = frozenset(VolumeFacts.__struct_fields__[-len(VolumeFacts.__struct_defaults__) :])
"""Facts with a default, which captures of earlier versions may lack."""


def _parse_facts(saved: Mapping[str, Any]) -> VolumeFacts:
    types = field_types(VolumeFacts)
    check_values("facts", saved, {name: types[name] for name in types if name in saved or name not in NEWER_FACTS})
    if not 512 <= saved["block_size_bytes"] <= MAX_BLOCK_BYTES:
        raise ValueError("the facts are those of no volume")
    if not saved["size_bytes"] or saved["image_offset"] + saved["size_bytes"] > MAX_ADDRESS:
        raise ValueError("the volume is empty or ends beyond every disk")
    for tree in saved.get("trees", ()):
        check_values("tree", tree, TREE_TYPES)
        if tree["node_size_bytes"] > MAX_NODE_BYTES:
            raise ValueError(f"the nodes of a tree have more than {MAX_NODE_BYTES:,} bytes")
    lists = {name: tuple(saved[name]) for name in ("stack", "features") if name in saved}
    if not all(isinstance(word, str) for name in lists for word in lists[name]):
        raise ValueError("layers and features have names")
    details = saved.get("details", {}).values()
    if not all(
        isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)) for value in details
    ):
        raise ValueError("details are words and numbers")
    trees = tuple(TreeFacts(**tree) for tree in saved.get("trees", ()))
    return VolumeFacts(**({**saved} | lists | {"trees": trees}))


MAX_ROWS_A_BYTE: Final = 64
"""Rows per byte of a file: no table of a real volume exceeds this; one that does is made to fill the memory."""

MAX_UNPACKED_A_BYTE: Final = 256
"""Memory per byte of a file: tables of real volumes need up to 10 bytes, those of very regular ones some dozen."""

FREE_BYTES: Final = 64 * 1024**2
"""Memory that a table may always take, even if its file is short."""

MAX_WORD_BYTES: Final = 64 * 1024
"""Length of the longest name, attribute or message; Parquet stores a repeated word only once."""

MAX_ADDRESS: Final = 2**62

MAX_DEVICES: Final = 2

MAX_NODE_BYTES: Final = 64 * 1024
"""Largest node size of the supported formats."""

NULLABLE: Final = OPTIONAL | {
    "volume", "level", "num_records", "used_bytes", "free_bytes", "key_rank", "first_key_id", "last_key_id",
    "name", "name_raw", "create_time", "modify_time", "size_bytes", "link_count", "entry_rank",
    "expected", "found", "owner",
}  # fmt: skip
"""Columns that may be null, in addition to references."""

WORDS: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("nodes", "kind"): frozenset({"leaf", "index", "header", "map", "free", "locked", "unreadable"}),
    ("nodes", "state"): frozenset({"live", "snapshot", "stale", "inferred"}),
    ("nodes", "valid"): frozenset({"checksum", "child-hash", "structure", "no"}),
    ("nodes", "condition"): frozenset(CONDITIONS),
    ("findings", "level"): frozenset({"info", "warning", "error"}),
}
"""Columns with a fixed set of words."""


def read_table(path: Path, name: str) -> pl.DataFrame:
    """Read a table, and run the checks that need no other table."""
    _check_claims(path, name)
    # Our own descriptor does not change the time of access; polars would open a path itself.
    with inputs.open_file(path) as file:
        frame = pl.read_parquet(file)
    # The number of a volume had 8 bits in older captures.
    if frame.schema.get("volume") == pl.UInt8:
        frame = frame.with_columns(pl.col("volume").cast(pl.UInt32))
    if name == "nodes" and "condition" not in frame.columns:
        # Nodes of an older capture have no condition; there, a damaged node has nothing verified.
        is_locked, is_unverified = pl.col("kind").cast(pl.String) == "locked", pl.col("valid").cast(pl.String) == "no"
        damaged = pl.when(is_unverified).then(pl.lit("damaged")).otherwise(pl.lit("sound"))
        condition = pl.when(is_locked).then(pl.lit("locked")).otherwise(damaged)
        frame = frame.with_columns(condition=condition.cast(pl.Categorical))
    newer = [column for column in TABLES[name] if column.name in OPTIONAL and column.name not in frame.columns]
    frame = frame.with_columns(pl.lit(None, column.dtype).alias(column.name) for column in newer)
    if dict(frame.schema) != {column.name: column.dtype for column in TABLES[name]}:
        raise ValueError(f"the columns of {name} are not those of this version")
    _check_lengths(name, frame)
    if "row" in frame.columns and not (frame["row"] == pl.int_range(frame.height, dtype=pl.UInt32, eager=True)).all():
        raise ValueError(f"the rows of {name} are not numbered from 0")
    for column in TABLES[name]:
        may_be_null = column.name in NULLABLE or column.unit == REFERENCE or name in ("findings", "extents")
        may_be_null &= (name, column.name) not in {("node_fragments", "node_row"), ("node_views", "node_row")}
        if not may_be_null and frame[column.name].null_count():
            raise ValueError(f"{name}.{column.name} has nulls")
    _check_ranges(name, frame)
    for (table, word_column), words in WORDS.items():
        words_used = set(frame[word_column].unique().cast(pl.String)) if table == name else set()
        if not words_used <= words:
            raise ValueError(f"{name}.{word_column} has the unknown word {min(map(str, words_used - words))!r:.40}")
    return frame


def _check_claims(path: Path, name: str) -> None:
    """Refuse a table that would fill the memory, before it is unpacked."""
    try:
        rows, unpacked_bytes = read_claims(path)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error
    stored = path.stat().st_size
    # Parquet stores a repeated value only once, so a few bytes can become any number of rows.
    if rows > stored * MAX_ROWS_A_BYTE:
        raise ValueError(f"{name} claims {rows:,} rows in {stored:,} bytes")
    width = sum(np.dtype(NUMBERS.get(column.kind, np.int64)).itemsize for column in TABLES[name])
    memory = max(unpacked_bytes, rows * width)
    if memory > max(FREE_BYTES, stored * MAX_UNPACKED_A_BYTE):
        raise ValueError(f"{name} would take {format_bytes(memory)}, from {stored:,} bytes")


def _check_lengths(name: str, frame: pl.DataFrame) -> None:
    for column in frame.iter_columns():
        words = column.unique().cast(pl.String) if column.dtype == pl.Categorical else column
        lengths = words.bin.size() if words.dtype == pl.Binary else None
        lengths = words.str.len_bytes() if words.dtype == pl.String else lengths
        if lengths is not None and (lengths > MAX_WORD_BYTES).any():
            raise ValueError(f"{name}.{column.name} has a text of more than {MAX_WORD_BYTES:,} bytes")


def _check_ranges(name: str, frame: pl.DataFrame) -> None:
    length = "length_bytes" if "length_bytes" in frame.columns else "size_bytes"
    if "device" in frame.columns and (frame["device"] >= MAX_DEVICES).any():
        raise ValueError(f"{name}.device is none of the {MAX_DEVICES} that a set has")
    for column in ("image_offset", "length_bytes", "logical_offset"):
        if column in frame.columns and not frame[column].drop_nulls().is_between(0, MAX_ADDRESS).all():
            raise ValueError(f"{name}.{column} is negative or beyond every disk")
    if "image_offset" in frame.columns and length in frame.columns:
        if frame[length].null_count() or not frame[length].is_between(0, MAX_ADDRESS).all():
            raise ValueError(f"{name}.{length} is negative or beyond every disk")
        if name == "nodes" and (frame[length] > MAX_NODE_BYTES).any():
            raise ValueError(f"a node has more than {MAX_NODE_BYTES:,} bytes")
        # The sum of two numbers up to 2**62 fits into signed 64 bits.
        if not (frame["image_offset"] + frame[length]).drop_nulls().is_between(0, MAX_ADDRESS).all():
            raise ValueError(f"{name} has pieces that end beyond every disk")


def check_references(tables: Mapping[str, pl.DataFrame]) -> None:
    """Check that each reference points to a node, and that each parent is above its child."""
    nodes = tables["nodes"]
    for name, columns in TABLES.items():
        for column in columns:
            if column.unit == REFERENCE and (tables[name][column.name] >= nodes.height).any():
                raise ValueError(f"{name}.{column.name} refers to nodes that are not there")
    parent = nodes["parent_row"].drop_nulls()
    child_level = nodes.filter(pl.col("parent_row").is_not_null())["level"]
    if not (nodes["level"].gather(parent) > child_level).all():
        raise ValueError("a node's parent is not above it")
