"""One plan beside the six runs that give its table otherwise, and beside a scan; times are printed (run with -s)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from layoutscope import plan, predict, scan

DISK = "generic-5400-2.5"
RUNS = {
    "names-only": {"stat": False},
    "tree-in-key-order": {"order": "catalog"},
    "rewritten-in-key-order": {"what_ifs": ["packed"]},
    "solid-state": {"drives": "sata-ssd"},
    "other-disk": {"drives": "generic-7200"},
}
"""Runs of `predict`, by the remedy that they tell of; the sixth is the time as it is."""

PROGRAM = """
import sys, layoutscope, resource
getattr(layoutscope, sys.argv[1])(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
"""


def seconds_of(path, **asked) -> float:
    """Predict one of the runs."""
    (drive,) = predict(path, **{"drives": DISK, **asked}).volumes[0].drives
    return drive.packed.seconds if asked.get("what_ifs") else drive.prediction.seconds


def processor_s(verb: str, path) -> float:
    """Least of three runs of a verb, each in a process of its own."""
    program = [sys.executable, "-c", PROGRAM, verb, str(path)]
    return min(float(subprocess.run(program, capture_output=True, check=True).stdout) for _ in range(3))


@pytest.mark.slow
@pytest.mark.parametrize("image", ["apfs-20000-c20", "hfsplus-20000-c20", "apfs-200000-c20", "hfsplus-200000-c20"])
def test_one_plan_is_six_runs(reference_image, image):
    """Each row is what its own run says, within 5 % where a part of a long walk is served; the image is read once."""
    path = reference_image(f"aged/{image}.img")
    found = plan(path)
    rows = {row.words.name: row.seconds for row in found.volumes[0].remedies}
    runs = {name: seconds_of(path, **asked) for name, asked in RUNS.items()}
    assert found.volumes[0].seconds == seconds_of(path)
    assert {name: rows[name] for name in runs} == pytest.approx(runs, rel=0.05)
    assert found.image.read_bytes == scan(path).image.read_bytes
    told = {verb: processor_s(verb, path) for verb in ("scan", "plan")}
    times = f"{told['plan'] / told['scan']:.2f} times"
    print(f"{image}: plan {told['plan']:.2f} s of the processor, scan {told['scan']:.2f}: {times}")  # noqa: T201
