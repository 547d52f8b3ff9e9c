"""Independent checks: recorded reads of real drivers, times of a published simulator, and the claim by both.

Collected as plain rows for ``results/witnesses.json``, from which docs/evidence.md is made.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.drive import load_profile, service
from layoutscope.remedies.changes import clump_nodes, pack_nodes
from layoutscope.walk import trace
from tests.validation.disksim import ATLAS, CHEETAHS, CLOSE, THINK_US, Witness

if TYPE_CHECKING:
    from tests.validation.disksim import Row
    from tests.validation.traces import Traces

SETTINGS: Final = {"off": "off", "join": "on"}
"""DiskSim's settings that are shown, and the matching buffer setting."""

GEOMETRIES: Final = {
    "map": "every sector",
    "zones": "zones, skews, seek table, overheads",
    "datasheet": "rotation, three seek times, two rates, buffer size",
}
FILES: Final = ("200000-c00", "200000-c20")
WHAT_IFS: Final = {"clumped-like-hfs": clump_nodes, "packed": pack_nodes}
CLAIM_DRIVE: Final = "cheetah15k5"


def trace_rows(images: Traces) -> list[dict[str, Any]]:
    """Compare every recorded trace with its prediction."""
    return [
        {
            "image": row.image,
            "kind": row.kind,
            "requests": row.requests,
            "same_requests": row.same_requests,
            "block_share": row.score.block_share,
            "extra_share": row.score.extra_share,
            "pair_share": row.score.pair_share,
        }
        for row in images.rows()
    ]


def disksim_rows(witness: Witness) -> list[dict[str, Any]]:
    """Compare every workload on both Cheetahs, buffer off and on."""
    return [
        _plain(row, buffer)
        for drive in CHEETAHS
        for setting, buffer in SETTINGS.items()
        for row in witness.rows(drive, setting)
    ]


KEYS: Final = ("service_s", "total_s", "seek_ms", "latency_ms", "xfer_ms", "whole_hit", "part_hit", "miss")


def _plain(row: Row, buffer: str) -> dict[str, Any]:
    return {
        "drive": row.drive,
        "buffer": buffer,
        "workload": row.workload,
        "ratio": row.ratio,
        "disksim": {key: row.theirs[key] for key in KEYS},
        "ours": {key: row.ours[key] for key in KEYS},
    }


def agreement_rows(every: list[Row]) -> list[dict[str, Any]]:
    """Count the runs per drive and setting whose times agree, and name the one that differs most."""
    rows = []
    for (drive, setting), group in groupby(every, key=lambda row: (row.drive, row.setting)):
        own = list(group)
        worst = max(own, key=lambda row: abs(row.ratio - 1))
        rows.append(
            {
                "drive": drive,
                "setting": setting,
                "runs": len(own),
                "close": sum(abs(row.ratio - 1) <= CLOSE for row in own),
                "largest": abs(worst.ratio - 1),
                "workload": worst.workload,
                "think_us": int(worst.theirs["think_us"]),
            }
        )
    return rows


def knowledge_rows(witness: Witness) -> list[dict[str, Any]]:
    """Measure the cost of less detailed drive data over all workloads: on both Cheetahs, and on the Atlas."""
    rows = []
    for geometry, words in GEOMETRIES.items():
        for drives in (CHEETAHS, (ATLAS,)):
            errors = np.abs(np.concatenate([*witness.walk_errors(geometry, drives).values()]))
            rows.append(
                {
                    "known": words,
                    "drives": list(drives),
                    "runs": len(errors),
                    "largest": float(errors.max()),
                    "rms": float(np.sqrt((errors**2).mean())),
                }
            )
    return rows


def claim_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compute APFS over HFS+ for the same files, think times included, by DiskSim and by our model."""
    by_place = {(row["drive"], row["buffer"], row["workload"]): row for row in rows}
    claims = []
    for drive in CHEETAHS:
        for buffer in SETTINGS.values():
            for files in FILES:
                apfs, hfs = (by_place[drive, buffer, f"{system}-{files}-stat"] for system in ("apfs", "hfsplus"))
                claims.append(
                    {
                        "drive": drive,
                        "buffer": buffer,
                        "files": files,
                        "disksim": apfs["disksim"]["total_s"] / hfs["disksim"]["total_s"],
                        "ours": apfs["ours"]["total_s"] / hfs["ours"]["total_s"],
                        "hfsplus_s": hfs["disksim"]["total_s"],
                        "apfs_s": apfs["disksim"]["total_s"],
                    }
                )
    return claims


def why_rows(images: Traces) -> list[dict[str, Any]]:
    """Serve the same APFS nodes at their locations and in other layouts, next to HFS+."""
    profile, rows = load_profile(CLAIM_DRIVE), []
    for files in FILES:
        layouts = {system: images.layout(f"{system}-{files}") for system in ("hfsplus", "apfs")}
        cases = {"hfsplus": layouts["hfsplus"], "apfs": layouts["apfs"]}
        cases |= {name: lay_out(layouts["apfs"]) for name, lay_out in WHAT_IFS.items()}
        for name, layout in cases.items():
            reads = trace(layout, order="fts", host="linux")
            reads = replace(reads, think_us=np.full(len(reads), float(THINK_US)), after_us=0.0)
            result = service(reads, profile)
            rows.append({"files": files, "case": name, "seconds": result.seconds, "reads": result.reads})
    return rows


def collect(images: Traces, witness: Witness) -> dict[str, Any]:
    """Collect all independent checks."""
    rows = disksim_rows(witness)
    return {
        "traces": trace_rows(images),
        "disksim": rows,
        "agreement": agreement_rows(witness.every_row()),
        "knowledge": knowledge_rows(witness),
        "claim": claim_rows(rows),
        "why": why_rows(images),
    }
