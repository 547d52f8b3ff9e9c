"""What questions over 1,000 captures take, and a page over them: ``python -m tests.bench.fleet_queries [SOURCES]``.

The captures are those of two volumes of 4,200 entries each, again and again under other names, with their rows in the
tables over all; so many different disks would take hours to make, and a question cannot tell. Each question is asked in
a process of its own, as a person would: starting is part of it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import polars as pl

import layoutscope

ROOT = Path(__file__).resolve().parents[2]
ASKED = {
    "sources by status": "SELECT status, count(*) FROM sources GROUP BY status",
    "slowest by 1,000 entries": "SELECT source, 1000 * p.seconds / num_files AS pace FROM predictions AS p "
    "JOIN volumes USING (source, volume) WHERE num_files > 0 ORDER BY pace DESC LIMIT 10",
    "metrics against times": "SELECT metric, corr(value, p.seconds) FROM metrics JOIN predictions AS p "
    "USING (source, volume) GROUP BY metric",
    "nodes of all captures": "SELECT tree, level, count(*), sum(size_bytes) FROM nodes GROUP BY ALL",
    "largest entries of all": "SELECT source, name, size_bytes FROM entries ORDER BY size_bytes DESC LIMIT 10",
}


COUNTED = "SELECT (SELECT count(*) FROM nodes), (SELECT count(*) FROM entries)"


def make_fleet(folder: Path, number: int) -> Path:
    """Make a batch of so many sources out of two."""
    fleet = folder / "fleet"
    layoutscope.batch(str(ROOT / "fixtures/images/*.zst"), fleet, drives=["generic-7200", "sata-ssd"])
    captures = dict(pl.read_parquet(fleet / "batch.parquet").select("source", "capture").rows())
    for copy in range(number // 2 - 1):
        for source, capture in captures.items():
            goal = fleet / capture.replace(source, named(source, copy))
            for file in (fleet / capture).rglob("*"):
                target = goal / file.relative_to(fleet / capture)
                target.parent.mkdir(parents=True, exist_ok=True)
                if file.is_file():
                    os.link(file, target)
    for table in ("batch", "volumes", "metrics", "predictions", "findings"):
        frame = pl.read_parquet(fleet / f"{table}.parquet")
        copies = [frame, *(renamed(frame, list(captures), copy) for copy in range(number // 2 - 1))]
        pl.concat(copies).write_parquet(fleet / f"{table}.parquet", compression="zstd")
    return fleet


def named(source: str, copy: int) -> str:
    """Name a copy of a source."""
    return f"{copy:04x}{source[4:]}"


def renamed(frame: pl.DataFrame, sources: list[str], copy: int) -> pl.DataFrame:
    """Give rows the name of a copy, and another place and time."""
    names = {source: named(source, copy) for source in sources}
    changed = frame.with_columns(source=pl.col("source").replace(names))
    if "capture" in frame.columns:
        path = pl.col("path") + f".{copy}"
        changed = changed.with_columns(path=path, capture=pl.col("capture").str.replace_many(names))
    if "seconds" in frame.columns and "order" in frame.columns:
        changed = changed.with_columns(pl.col("seconds") * (1 + copy % 97 / 50))
    return changed


def run(*words: object) -> tuple[float, float]:
    """Run the program; returns the seconds that it takes, and those of the processors."""
    began, before = perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "layoutscope", *map(str, words)], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return perf_counter() - began, sum(after[:2]) - sum(before[:2])


def main() -> None:
    """Print the figures."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        fleet = make_fleet(Path(folder), number)
        rows = layoutscope.query(
            fleet, "SELECT (SELECT count(*) FROM nodes), (SELECT count(*) FROM entries)"
        ).frame.row(0)
        print(f"{number:,} captures, {rows[0]:,} nodes, {rows[1]:,} entries")  # noqa: T201
        for what, sql in ASKED.items():
            seconds, worked = min(run("query", fleet, sql) for _ in range(5))
            print(f"{what}: {seconds:.2f} s, {worked:.2f} s of processors")  # noqa: T201
        page = Path(folder) / "fleet.html"
        seconds, worked = run("report", fleet, "-o", page)
        print(f"report: {seconds:.1f} s, {worked:.1f} s of processors, {page.stat().st_size / 1e6:.2f} MB")  # noqa: T201
        if len(sys.argv) > 2:
            Path(sys.argv[2]).write_bytes(page.read_bytes())


if __name__ == "__main__":
    main()
