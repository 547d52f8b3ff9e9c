"""Real programs against predictions on lab volumes: ``python -m tests.validation.programs FOLDER``.

The volumes are those of ``tests/images/test_traces.py``; FOLDER stores them and their traces. Removals are
scored against the stored traces.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from layoutscope.access.trace import AccessTrace
from layoutscope.walk import trace
from layoutscope.walk.orders import Work
from layoutscope.walk.score import bytes_by_owner, score
from tests.conftest import cache_dir
from tests.images.test_traces import (
    AGES,
    COMMANDS,
    FOLDERS,
    HOST,
    ORDERS,
    SIZES,
    TRACES,
    image_of,
    layout_of,
    requests_in,
)

LAB = Path(__file__).resolve().parents[3] / "shared/lab/lab"
RESULT = Path(__file__).with_name("results") / "programs.json"


def lab(folder: Path, *arguments: str) -> None:
    """Run the lab."""
    subprocess.run([LAB, *arguments], check=True, capture_output=True, env=dict(os.environ), cwd=folder)


def made(folder: Path) -> dict[str, Path]:
    """Make every volume that does not exist yet."""
    volumes = {name: (name.split("-")[0], options) for name, options in AGES.items()}
    folders = ("--files", "2000", "--cycles", "1", "--seed", "5")
    volumes |= {f"{kind}-folders": (kind, (*folders, *size)) for kind, size in SIZES.items()}
    images = {}
    for name, (kind, options) in volumes.items():
        image = images[name] = folder / f"{name}.img"
        if not image.exists():
            lab(folder, "make", kind, "-o", str(image), *options)
            if name.endswith("folders"):
                fill = folder / "fill.py"
                fill.write_text(FOLDERS)
                lab(folder, "run", str(image), "--", str(fill))
    return images


def row(volume: str, program: str, real: np.ndarray[Any, Any], made_by: AccessTrace, layout: Any) -> dict[str, Any]:
    """Score one trace."""
    here = np.stack([made_by.image_offset, made_by.length_bytes], axis=1)
    found = score(AccessTrace.from_reads(real[:, 0], real[:, 1]), made_by, layout)
    left = np.setdiff1d(real[:, 0], here[:, 0])
    whose = layout if layout.container is None else layout.container
    return {
        "volume": volume,
        "entries": len(layout.entries),
        "program": program,
        "requests": len(real),
        "same_requests": int(np.isin(real[:, 0], here[:, 0]).sum()),
        "block_share": found.block_share,
        "extra_share": found.extra_share,
        "pair_share": found.pair_share,
        "missed": bytes_by_owner(left, whose) if len(left) else {},
    }


def programs(folder: Path) -> list[dict[str, Any]]:
    """Score du, rsync and the preceding mounts."""
    rows = []
    for name, image in made(folder).items():
        layout = layout_of(image)
        for program, command in COMMANDS.items():
            prefix = folder / f"{name}-{program}"
            if not Path(f"{prefix}.trace.zst").exists():
                lab(folder, "trace", str(image), "-o", str(prefix), "exec", *command.split())
            real = requests_in(Path(f"{prefix}.trace.zst"))
            rows.append(row(name, program, real, trace(layout, order=ORDERS[program], host=HOST), layout))
        real = requests_in(Path(f"{prefix}.mount.trace.zst"))
        rows.append(row(name, "mount", real, trace(layout, order="mount", host=HOST), layout))
        print(name, [item["pair_share"] for item in rows[-3:]], flush=True)  # noqa: T201
    return rows


def removals() -> list[dict[str, Any]]:
    """Score ``rm -rf`` against the stored traces."""
    rows = []
    for path in sorted(TRACES.glob("*-delete-*.trace.zst")):
        name, _, directory = path.name.removesuffix(".trace.zst").rpartition("-delete-")
        # The tests of removals have unpacked them.
        layout = layout_of(cache_dir() / image_of(name))
        inside = layout.entries.filter((layout.entries["parent_id"] == 2) & (layout.entries["name"] == directory))
        start = 2 if directory == "all" else inside["file_id"][0]
        made_by = trace(layout, order="delete", host=HOST, work=Work(start_directory_id=start))
        rows.append(row(name, f"rm -rf {directory}", requests_in(path), made_by, layout))
    return rows


def main() -> None:
    """Make, trace, score and save."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps([*programs(folder), *removals()], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
