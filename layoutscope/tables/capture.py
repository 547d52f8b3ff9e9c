"""Captures: layouts saved as a folder of Parquet files with a manifest, to be looked at without the image.

``NAME.lscope/manifest.json`` says what the layouts are, ``NAME.lscope/N/TABLE.parquet`` holds the tables of the N-th
one. DuckDB, polars and Spark read the files as they are.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from layoutscope import inputs
from layoutscope.errors import ImageError
from layoutscope.tables.layout import TreeFacts, VolumeFacts, VolumeLayout
from layoutscope.tables.schema import TABLES
from layoutscope.tables.validation import check_references, check_values, read_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

FORMAT: Final = "layoutscope.capture/2"
MANIFEST: Final = "manifest.json"
SUFFIX: Final = ".lscope"
MAX_MANIFEST_BYTES: Final = 64 * 1024**2
MAX_BLOCK_BYTES: Final = 2**32

MANIFEST_TYPES: Final = {"format": str, "made_by": str, "image": dict, "findings": list, "volumes": list}
TREE_TYPES: Final = {item.name: str if item.name == "tree" else int for item in fields(TreeFacts)}
FACT_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("filesystem", "variant", "name", "uuid", "view"), str),
    **dict.fromkeys(("image_offset", "size_bytes", "block_size_bytes", "stamp"), int),
    **dict.fromkeys(("num_files", "num_directories", "metadata_known_bytes", "metadata_read_bytes"), int),
    "num_missing_entries": int,
    "volume": (int, type(None)),
    "stack": list,
    "case_sensitive": bool,
    "features": list,
    "details": dict,
    "trees": list,
}
"""Members of the manifest's objects, and their types."""


def is_capture(path: Path) -> bool:
    """Whether a path is a folder with a manifest."""
    return path.is_dir() and (path / MANIFEST).is_file()


def own_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Tell the files of a capture from what else lies in its folder.

    Parameters
    ----------
    folder : Path
        A folder with a manifest.

    Returns
    -------
    own, strangers : list of Path
        The manifest and the tables of any version; everything else, which is all there is where the manifest is none of
        a capture.
    """
    found = [path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir() or _is_empty(path)]
    if not _is_ours(folder / MANIFEST):
        return [], found
    own = {path for path in found if not path.is_symlink() and _OWN.fullmatch(path.relative_to(folder).as_posix())}
    return [path for path in found if path in own], [path for path in found if path not in own]


def _is_empty(folder: Path) -> bool:
    return next(folder.iterdir(), None) is None


_OWN: Final = re.compile(rf"{re.escape(MANIFEST)}|[0-9]+/[a-z_]+\.parquet")


def _is_ours(manifest: Path) -> bool:
    """Whether a manifest names the format of captures, in whatever version."""
    try:
        with manifest.open("rb") as file:
            saved = json.loads(file.read(MAX_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(saved, dict) and str(saved.get("format")).startswith(FORMAT.partition("/")[0] + "/")


def write_capture(folder: Path, layouts: Sequence[VolumeLayout], about: Mapping[str, Any]) -> None:
    """Write layouts into an empty folder.

    Parameters
    ----------
    folder : Path
        An empty folder.
    layouts : sequence of VolumeLayout
        What is saved.
    about : mapping
        What else the manifest says, as JSON allows.
    """
    volumes = []
    for number, layout in enumerate(layouts):
        (folder / str(number)).mkdir()
        for table in TABLES:
            layout.table(table).write_parquet(folder / str(number) / f"{table}.parquet", compression="zstd")
        volumes.append({"facts": asdict(layout.facts), "sha256": digests(folder / str(number))})
    manifest = {"format": FORMAT, **about, "volumes": volumes}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each table's file, by table."""
    return {table: hashlib.sha256((folder / f"{table}.parquet").read_bytes()).hexdigest() for table in TABLES}


def read_capture(folder: Path) -> tuple[tuple[VolumeLayout, ...], dict[str, Any]]:
    """Read layouts back.

    Parameters
    ----------
    folder : Path
        A capture.

    Returns
    -------
    tuple of VolumeLayout, dict
        The layouts and the manifest.

    Raises
    ------
    ImageError
        If it is no capture of this version, is incomplete, or was changed.
    """
    inputs.note(folder)
    try:
        manifest = _manifest(folder)
        volumes = enumerate(manifest["volumes"])
        with _without_panics():
            return tuple(_layout(folder / str(number), volume) for number, volume in volumes), manifest
    except DAMAGE as error:
        raise ImageError(f"{folder}: is a damaged capture: {type(error).__name__} {error}".splitlines()[0]) from error


DAMAGE: Final = (
    OSError, ValueError, KeyError, TypeError, RecursionError, pl.exceptions.PolarsError, pl.exceptions.PanicException,
)  # fmt: skip
"""What reading files that are no captures can raise."""


@contextmanager
def _without_panics() -> Iterator[None]:
    """Keep the standard error clean: on some damaged files polars prints a stack of its own before it raises."""
    standard_error = 2
    try:
        kept = os.dup(standard_error)
    except OSError:
        # It was closed by whoever started this.
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
    if (folder / MANIFEST).stat().st_size > MAX_MANIFEST_BYTES:
        raise ValueError("the manifest is too long")
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"), parse_constant=_refuse)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ImageError(f"{folder}: is no capture of the version {FORMAT}")
    check_values("manifest", manifest, MANIFEST_TYPES)
    return manifest


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _layout(folder: Path, volume: Mapping[str, Any]) -> VolumeLayout:
    if digests(folder) != volume["sha256"]:
        raise ValueError("a table differs from its SHA-256")
    tables = {table: read_table(folder / f"{table}.parquet", table) for table in TABLES}
    check_references(tables)
    return VolumeLayout(facts=_facts(volume["facts"]), **tables)


def _facts(saved: Mapping[str, Any]) -> VolumeFacts:
    check_values("facts", saved, FACT_TYPES)
    if not 512 <= saved["block_size_bytes"] <= MAX_BLOCK_BYTES:
        raise ValueError("the facts are those of no volume")
    for tree in saved["trees"]:
        check_values("tree", tree, TREE_TYPES)
    if not all(isinstance(word, str) for name in ("stack", "features") for word in saved[name]):
        raise ValueError("layers and features have names")
    if not all(isinstance(value, str | int) or _is_finite(value) for value in saved["details"].values()):
        raise ValueError("details are words and numbers")
    lists = {name: tuple(saved[name]) for name in ("stack", "features")}
    return VolumeFacts(**({**saved} | lists | {"trees": tuple(TreeFacts(**tree) for tree in saved["trees"])}))
