"""Forecasts of fresh volumes, compared with the same volumes aged by real drivers, for ``docs/forecast.md``.

``python -m tests.validation.forecasts FOLDER...`` measures every series of images that the folders have, named
``FILESYSTEM-FILES-cCYCLE.img``, and writes the results from which the page is made; without folders it writes only what
the model was off by, for the package. A folder named ``NAME=FOLDER`` is called NAME.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import layoutscope

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVE: Final = "generic-7200"
CYCLES: Final = 20
SEEDS: Final = 2
RESULTS: Final = Path(__file__).parent / "results" / "forecast.json"
ERRORS: Final = Path(layoutscope.__file__).parent / "aging" / "errors.json"
SECONDS: Final = "seconds"
FITTED: Final = ("stored", 200_000)
"""Where causes of misses were looked for: folder and files. All other images are held out."""


def series(folder: Path) -> Iterator[tuple[str, int, dict[int, Path]]]:
    """Yield file system, number of files and images by cycle of each series of a folder."""
    found: dict[tuple[str, int], dict[int, Path]] = {}
    for path in sorted(folder.glob("*.img")):
        match = re.fullmatch(r"(apfs|hfsplus)-(\d+)-c(\d+)\.img", path.name)
        if match:
            found.setdefault((match[1], int(match[2])), {})[int(match[3])] = path
    for (filesystem, files), images in sorted(found.items()):
        if 0 in images and len(images) > 1:
            yield filesystem, files, images


def measured(name: str, filesystem: str, files: int, images: dict[int, Path]) -> Iterator[dict[str, Any]]:
    """Yield a row for each number of each aged image: what it is, and what was forecast from the fresh one."""
    found = layoutscope.forecast(images[0], cycles=CYCLES, seeds=SEEDS, drives=DRIVE)
    for point in found.points:
        if point.cycle == 0 or point.cycle not in images:
            continue
        scanned = layoutscope.scan(images[point.cycle], drives=DRIVE).volume
        base = {"folder": name, "filesystem": filesystem, "files": files, "cycle": point.cycle}
        values = {(metric.definition.name, metric.subject): metric.value for metric in scanned.metrics}
        seconds, real = point.times[0].seconds, scanned.predictions[0].seconds
        rows = [(SECONDS, DRIVE, f"Seconds on {DRIVE}", seconds, real)]
        rows += [(m.name, m.subject, m.title, m.found, values.get((m.name, m.subject))) for m in point.metrics]
        for metric, subject, title, range_, value in rows:
            if range_ is not None and value is not None:
                draws = {"value": range_.value, "low": range_.low, "high": range_.high}
                yield {**base, "metric": metric, "subject": subject, "title": title, "real": value, **draws}


def measure(folders: list[str]) -> list[dict[str, Any]]:
    """Measure every series of the folders, and keep the results of others."""
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for word in folders:
        name, _, folder = word.rpartition("=")
        for filesystem, files, images in series(Path(folder)):
            about = (name or Path(folder).name, filesystem, files)
            rows = [row for row in rows if (row["folder"], row["filesystem"], row["files"]) != about]
            rows += measured(*about, images)
            RESULTS.write_text(json.dumps(rows, indent=0) + "\n")
            print(*about, file=sys.stderr)  # noqa: T201
    return rows


def error_name(row: dict[str, Any]) -> str:
    """Return the name of a number in the errors of the model."""
    return SECONDS if row["metric"] == SECONDS else f"{row['metric']} {row['subject']}"


def errors_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return by which share each number was off on the volumes on which causes of misses were looked for."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if (row["folder"], row["files"]) == FITTED and (row["value"] or not row["real"]):
            off = abs(row["real"] - row["value"]) / abs(row["value"]) if row["value"] else 0.0
            mine = found.setdefault(row["filesystem"], {})
            mine[error_name(row)] = max(mine.get(error_name(row), 0.0), round(off, 4))
    return found


def main() -> None:
    """Measure the series of the folders, and write the errors of the model."""
    rows = measure(sys.argv[1:])
    ERRORS.write_text(json.dumps(errors_of(rows), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
