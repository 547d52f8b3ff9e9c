"""Captures: layouts saved as a folder of Parquet files with a manifest, to be looked at without the image.

``NAME.lscope/manifest.json`` says what the layouts are, ``NAME.lscope/N/TABLE.parquet`` holds the tables of the N-th
one. DuckDB, polars and Spark read the files as they are.

A capture may be damaged, or made by somebody who means harm: its columns are checked against the schema, its numbers
for their range, its references for what they refer to, since everything right of the tables relies on them.
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
"""What fields become in JSON, by the first words of their annotations."""


def field_types(kind: type[Struct]) -> dict[str, type | tuple[type, ...]]:
    """Return the types of a record's fields in JSON."""
    return {name: TYPES[words.partition("[")[0]] for name, words in kind.__annotations__.items()}


TREE_TYPES: Final = field_types(TreeFacts)


def check_values(what: str, values: Mapping[str, Any], types: Mapping[str, type | tuple[type, ...]]) -> None:
    """Check the members of a JSON object: those that are asked for and no others, each of its type."""
    if not isinstance(values, dict) or set(values) != set(types):
        raise ValueError(f"{what} has not the members of this version")
    for name, kind in types.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        # In Python True is an int, too.
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
    """Separate the files of a capture from others in its folder.

    The manifest and the tables of any version; everything else, which is all there is where the manifest is none of a
    capture.
    """
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or not path.is_dir() or next(path.iterdir(), None) is None
    ]
    if not _is_ours(folder / MANIFEST):
        return [], found
    own = {path for path in found if not path.is_symlink() and _OWN.fullmatch(path.relative_to(folder).as_posix())}
    return [path for path in found if path in own], [path for path in found if path not in own]


_OWN: Final = re.compile(rf"{re.escape(MANIFEST)}|[0-9]+/[a-z_]+\.parquet")


def _is_ours(manifest: Path) -> bool:
    """Whether a manifest names the format of captures, in whatever version."""
    try:
        with inputs.open_file(manifest) as file:
            saved = json.loads(file.read(MAX_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(saved, dict) and str(saved.get("format")).startswith(FORMAT.partition("/")[0] + "/")


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
        volumes.append({"facts": to_builtins(layout.facts), "sha256": digests(folder / str(number))})
    manifest = {"format": FORMAT, **about, "volumes": volumes}
    # Last of all: without a manifest a folder is not a capture, nor is the result of an interrupted save.
    ownfiles.write_new(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each table's file, by table."""
    return {table: _digest(folder / f"{table}.parquet") for table in TABLES}


def _digest(path: Path) -> str:
    # Anyone who made the capture says with links which other files of this machine are read.
    if path.is_symlink() or path.parent.is_symlink():
        raise ValueError(f"{path.name} is a link, and may lead out of the capture")
    import hashlib

    with inputs.open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_capture(folder: Path) -> tuple[tuple[VolumeLayout, ...], dict[str, Any]]:
    """Read layouts back."""
    inputs.note(folder)
    try:
        manifest = _manifest(folder)
        volumes = enumerate(manifest["volumes"])
        with _suppress_panics():
            layouts = [_layout(folder / str(number), volume) for number, volume in volumes]
            return tuple(attach_containers(layouts)), manifest
    except _damage() as error:
        raise ImageError(f"{folder}: is a damaged capture: {type(error).__name__} {error}".splitlines()[0]) from error


def _damage() -> tuple[type[BaseException], ...]:
    """List what reading files that are not captures can raise."""
    plain = (OSError, ValueError, KeyError, TypeError, RecursionError)
    # A panic of polars' core in Rust derives from BaseException: nothing but its own name catches it.
    return (*plain, pl.exceptions.PolarsError, pl.exceptions.PanicException)


@contextmanager
def _suppress_panics() -> Iterator[None]:
    """Keep the standard error clean: on some damaged files polars prints a stack of its own before it raises."""
    standard_error = 2
    try:
        kept = os.dup(standard_error)
    except OSError:
        # It was closed by anyone who started this.
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  (no path in a folder)
            os.dup2(nowhere.fileno(), standard_error)
        yield
    finally:
        os.dup2(kept, standard_error)
        os.close(kept)


def _manifest(folder: Path) -> dict[str, Any]:
    if (folder / MANIFEST).is_symlink():
        raise ValueError("the manifest is a link, and may lead out of the capture")
    with inputs.open_file(folder / MANIFEST) as file:
        text = file.read(MAX_MANIFEST_BYTES + 1)
    if len(text) > MAX_MANIFEST_BYTES:
        raise ValueError("the manifest is too long")
    # Python's reader takes NaN and Infinity, which JSON does not have.
    manifest = json.loads(text.decode("utf-8"), parse_constant=_refuse)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ImageError(f"{folder}: is not a capture of the version {FORMAT}")
    check_values("manifest", manifest, MANIFEST_TYPES)
    return manifest


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def _layout(folder: Path, volume: Mapping[str, Any]) -> VolumeLayout:
    if digests(folder) != volume["sha256"]:
        raise ValueError("a table differs from its SHA-256")
    tables = {table: read_table(folder / f"{table}.parquet", table) for table in TABLES}
    check_references(tables)
    return VolumeLayout(facts=_facts(volume["facts"]), **tables)


def _facts(saved: Mapping[str, Any]) -> VolumeFacts:
    check_values("facts", saved, field_types(VolumeFacts))
    if not 512 <= saved["block_size_bytes"] <= MAX_BLOCK_BYTES:
        raise ValueError("the facts are those of no volume")
    if not saved["size_bytes"] or saved["image_offset"] + saved["size_bytes"] > MAX_ADDRESS:
        raise ValueError("the volume is empty or ends beyond every disk")
    for tree in saved["trees"]:
        check_values("tree", tree, TREE_TYPES)
        if tree["node_size_bytes"] > MAX_NODE_BYTES:
            raise ValueError(f"the nodes of a tree have more than {MAX_NODE_BYTES:,} bytes")
    if not all(isinstance(word, str) for name in ("stack", "features") for word in saved[name]):
        raise ValueError("layers and features have names")
    details = saved["details"].values()
    if not all(
        isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)) for value in details
    ):
        raise ValueError("details are words and numbers")
    lists = {name: tuple(saved[name]) for name in ("stack", "features")}
    return VolumeFacts(**({**saved} | lists | {"trees": tuple(TreeFacts(**tree) for tree in saved["trees"])}))


MAX_ROWS_A_BYTE: Final = 64
"""No table of a real volume packs more rows into a byte of its file; one that does is made to fill the memory."""

MAX_UNPACKED_A_BYTE: Final = 256
"""Tables of real volumes take up to 10 times their file's length in memory, those of regular ones some dozen times."""

FREE_BYTES: Final = 64 * 1024**2
"""A table may always take so much memory, however short its file."""

MAX_WORD_BYTES: Final = 64 * 1024
"""No name, attribute or message is longer; Parquet keeps a word once, however many rows repeat it."""

MAX_ADDRESS: Final = 2**62

MAX_DEVICES: Final = 2

MAX_NODE_BYTES: Final = 64 * 1024
"""No node is larger than a block may be in any format that is read."""

NULLABLE: Final = OPTIONAL | {
    "volume", "level", "num_records", "used_bytes", "free_bytes", "key_rank", "first_key_id", "last_key_id",
    "name", "name_raw", "create_time", "modify_time", "size_bytes", "link_count", "entry_rank",
    "expected", "found", "owner",
}  # fmt: skip
"""Columns that may be null, besides references."""

WORDS: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("nodes", "kind"): frozenset({"leaf", "index", "header", "map", "free", "locked", "unreadable"}),
    ("nodes", "state"): frozenset({"live", "snapshot", "stale", "inferred"}),
    ("nodes", "valid"): frozenset({"checksum", "child-hash", "structure", "no"}),
    ("nodes", "condition"): frozenset(CONDITIONS),
    ("findings", "level"): frozenset({"info", "warning", "error"}),
}
"""Columns that hold certain words alone."""


def read_table(path: Path, name: str) -> pl.DataFrame:
    """Read a table and check what can be checked in it alone."""
    _check_claims(path, name)
    # By our own descriptor, which leaves the time of access alone; polars would open a path itself.
    with inputs.open_file(path) as file:
        frame = _widen_volume_number(pl.read_parquet(file))
    if name == "nodes" and "condition" not in frame.columns:
        frame = _add_condition(frame)
    if dict(frame.schema) != {column.name: column.dtype for column in TABLES[name]}:
        raise ValueError(f"the columns of {name} are not those of this version")
    _check_lengths(name, frame)
    _check_rows(name, frame)
    _check_nulls(name, frame)
    _check_ranges(name, frame)
    _check_words(name, frame)
    return frame


def _widen_volume_number(frame: pl.DataFrame) -> pl.DataFrame:
    """Give the number of the volume its present type: it had 8 bits, which 255 volumes fill."""
    if frame.schema.get("volume") == pl.UInt8:
        return frame.with_columns(pl.col("volume").cast(pl.UInt32))
    return frame


def _add_condition(nodes: pl.DataFrame) -> pl.DataFrame:
    """Add the condition of nodes to a capture from before there was one: of a damaged node, nothing was verified."""
    is_locked, is_unverified = pl.col("kind").cast(pl.String) == "locked", pl.col("valid").cast(pl.String) == "no"
    damaged = pl.when(is_unverified).then(pl.lit("damaged")).otherwise(pl.lit("sound"))
    found = pl.when(is_locked).then(pl.lit("locked")).otherwise(damaged)
    return nodes.with_columns(condition=found.cast(pl.Categorical))


def _check_claims(path: Path, name: str) -> None:
    """Refuse a table that would fill the memory, before anything of it is unpacked."""
    try:
        rows, unpacked_bytes = read_claims(path)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error
    stored = path.stat().st_size
    # Parquet keeps a value that is repeated once, so that a few bytes can become any number of rows.
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


def _check_rows(name: str, frame: pl.DataFrame) -> None:
    if "row" in frame.columns and not (frame["row"] == pl.int_range(frame.height, dtype=pl.UInt32, eager=True)).all():
        raise ValueError(f"the rows of {name} are not numbered from 0")


def _check_nulls(name: str, frame: pl.DataFrame) -> None:
    for column in TABLES[name]:
        may_be_null = column.name in NULLABLE or column.unit == REFERENCE or name in ("findings", "extents")
        may_be_null &= (name, column.name) not in {("node_fragments", "node_row"), ("node_views", "node_row")}
        if not may_be_null and frame[column.name].null_count():
            raise ValueError(f"{name}.{column.name} has nulls")


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
        # Two numbers of up to 2**62 have a sum that 64 bits with a sign hold.
        if not (frame["image_offset"] + frame[length]).drop_nulls().is_between(0, MAX_ADDRESS).all():
            raise ValueError(f"{name} has pieces that end beyond every disk")


def _check_words(name: str, frame: pl.DataFrame) -> None:
    for (table, column), words in WORDS.items():
        found = set(frame[column].unique().cast(pl.String)) if table == name else set()
        if not found <= words:
            raise ValueError(f"{name}.{column} has the unknown word {min(map(str, found - words))!r:.40}")


def check_references(tables: Mapping[str, pl.DataFrame]) -> None:
    """Check that every reference leads to a node, and every parent is above its child."""
    nodes = tables["nodes"]
    for name, columns in TABLES.items():
        for column in columns:
            if column.unit == REFERENCE and (tables[name][column.name] >= nodes.height).any():
                raise ValueError(f"{name}.{column.name} refers to nodes that are not there")
    parent = nodes["parent_row"].drop_nulls()
    child_level = nodes.filter(pl.col("parent_row").is_not_null())["level"]
    if not (nodes["level"].gather(parent) > child_level).all():
        raise ValueError("a node's parent is not above it")
