"""Captures: layouts saved as a folder of Parquet files with a manifest, to be looked at without the image.

``NAME.lscope/manifest.json`` says what the layouts are, ``NAME.lscope/N/TABLE.parquet`` holds the tables of the N-th
one. DuckDB, polars and Spark read the files as they are.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from layoutscope.errors import ImageError
from layoutscope.tables.layout import TreeFacts, VolumeFacts, VolumeLayout
from layoutscope.tables.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FORMAT: Final = "layoutscope.capture/1"
MANIFEST: Final = "manifest.json"
SUFFIX: Final = ".lscope"


def is_capture(path: Path) -> bool:
    """Whether a path is a folder with a manifest."""
    return path.is_dir() and (path / MANIFEST).is_file()


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
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ImageError(f"{folder}: is no capture of the version {FORMAT}")
        volumes = enumerate(manifest["volumes"])
        return tuple(_layout(folder / str(number), volume) for number, volume in volumes), manifest
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError) as error:
        raise ImageError(f"{folder}: is a damaged capture: {type(error).__name__} {error}".splitlines()[0]) from error


def _layout(folder: Path, volume: Mapping[str, Any]) -> VolumeLayout:
    if digests(folder) != volume["sha256"]:
        raise ValueError("a table differs from its SHA-256")
    tables = {table: _checked(table, pl.read_parquet(folder / f"{table}.parquet")) for table in TABLES}
    return VolumeLayout(facts=_facts(volume["facts"]), **tables)


def _checked(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    expected = {column.name: column.dtype for column in TABLES[table]}
    if dict(frame.schema) != expected:
        raise ValueError(f"the columns of {table} are not those of this version")
    return frame


def _facts(saved: Mapping[str, Any]) -> VolumeFacts:
    values = {field.name: saved[field.name] for field in fields(VolumeFacts)}
    lists = {name: tuple(values[name]) for name in ("stack", "features")}
    return VolumeFacts(**(values | lists | {"trees": tuple(TreeFacts(**tree) for tree in values["trees"])}))
