"""``docs/forecast.md``: forecasts of fresh volumes beside the same volumes aged by real drivers.

``python -m tests.docs.forecast_tables FOLDER...`` measures every series of images that the folders have, named
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
RESULTS: Final = Path(__file__).parents[1] / "validation" / "results" / "forecast.json"
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


def errors_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return by which share each number was off on the volumes on which causes of misses were looked for."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if (row["folder"], row["files"]) == FITTED and (row["value"] or not row["real"]):
            name = SECONDS if row["metric"] == SECONDS else f"{row['metric']} {row['subject']}"
            off = abs(row["real"] - row["value"]) / abs(row["value"]) if row["value"] else 0.0
            mine = found.setdefault(row["filesystem"], {})
            mine[name] = max(mine.get(name, 0.0), round(off, 4))
    return found


def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text())
    errors = json.loads(ERRORS.read_text())
    for row in rows:
        name = SECONDS if row["metric"] == SECONDS else f"{row['metric']} {row['subject']}"
        share = errors.get(row["filesystem"], {}).get(name, 0.0)
        row["wide"] = (row["low"] - share * abs(row["low"]), row["high"] + share * abs(row["high"]))
        row["in_draws"] = row["low"] <= row["real"] <= row["high"]
        row["inside"] = row["wide"][0] <= row["real"] <= row["wide"][1]
        row["off"] = row["value"] / row["real"] - 1 if row["real"] else None
        row["held"] = (row["folder"], row["files"]) != FITTED
        row["about"] = f"{row['folder']} {row['files']:,}"
    return rows


def in_short() -> str:
    """Describe how many held-out volumes are in their range, and how far off the worst is."""
    parts = []
    for filesystem, name in (("hfsplus", "HFS+"), ("apfs", "APFS")):
        rows = [r for r in _rows() if (r["filesystem"], r["metric"], r["held"]) == (filesystem, SECONDS, True)]
        worst = max(abs(row["off"]) for row in rows)
        inside = sum(row["inside"] for row in rows)
        parts.append(f"{worst:.0%} on {name}, where {inside} of {len(rows)} were in their ranges".replace("%", " %"))
    return f"Forecast seconds of volumes held out were off by at most {', and '.join(parts)}."


def seconds() -> str:
    """Make the table of predicted times, what is missed first."""
    rows = [row for row in _rows() if row["metric"] == SECONDS]
    rows.sort(key=lambda row: (row["inside"], -abs(row["off"] or 0)))
    lines = [
        "| volume | cycle | real, s | forecast, s | low | high | off | inside |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        shown = " | ".join(f"{value:.4g}" for value in (row["real"], row["value"], *row["wide"]))
        about = f"{row['filesystem']} {row['about']}"
        lines.append(f"| {about} | {row['cycle']} | {shown} | {row['off']:+.1%} | {'yes' if row['inside'] else 'no'} |")
    return "\n".join(lines)


def numbers(filesystem: str) -> str:
    """Make the table of errors of the numbers of layouts, the worst first; a star is outside of the range."""
    rows = [row for row in _rows() if row["filesystem"] == filesystem and row["metric"] != SECONDS]
    columns = sorted({(row["folder"], row["files"], row["cycle"]) for row in rows}, key=lambda c: (c[0], c[1], c[2]))
    head = " | ".join(f"{folder} {files:,} c{cycle:02d}" for folder, files, cycle in columns)
    by_name: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
    for row in rows:
        name = f"{row['title']} ({row['subject']})"
        by_name.setdefault(name, {})[row["folder"], row["files"], row["cycle"]] = row

    def worst(cells: dict[tuple[Any, ...], dict[str, Any]]) -> float:
        return max(abs(row["off"]) if row["off"] is not None else float(not row["inside"]) for row in cells.values())

    lines = [f"| number | {head} |", "|---" * (len(columns) + 1) + "|"]
    for name, cells in sorted(by_name.items(), key=lambda item: -worst(item[1])):
        lines.append(f"| {name} | " + " | ".join(_cell(cells.get(column)) for column in columns) + " |")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    off = f"{row['off']:+.0%}" if row["off"] is not None else f"{row['value']:.3g} for 0" if row["value"] else "0"
    return off + ("" if row["inside"] else " \\*")


def coverage() -> str:
    """Make the table of hits, for volumes that were held out and those that were not."""
    lines = ["| file system | volumes | numbers | in the draws | with the model's error |", "|---|---|---|---|---|"]
    for filesystem in ("apfs", "hfsplus"):
        for held in (True, False):
            rows = [row for row in _rows() if (row["filesystem"], row["held"]) == (filesystem, held)]
            words = "held out" if held else "looked at"
            inside = sum(row["inside"] for row in rows)
            lines.append(
                f"| {filesystem} | {words} | {len(rows)} | {sum(row['in_draws'] for row in rows)} | {inside} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Measure the series of the folders, and write the errors of the model."""
    rows = measure(sys.argv[1:])
    ERRORS.write_text(json.dumps(errors_of(rows), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
