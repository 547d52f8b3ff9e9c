"""How far what is served of a long walk is off from the whole of it, change by change; printed (run with -s)."""

from __future__ import annotations

import pytest

from layoutscope import read_layouts
from layoutscope.drive import load_profile, service
from layoutscope.drive.simulation import SAMPLE_READS
from layoutscope.results.explanation import CAUSES, seconds_of, walked
from layoutscope.walk import trace

WORST = 0.02
"""Of the walk as it is; what docs/verdict.md says."""


def errors_of(volume, order: str, drive) -> list[float]:
    """Return by how much each change of a long walk is off, as a share of the walk as it is."""
    reads = walked(volume, trace(volume, order=order))
    if len(reads.trace) <= SAMPLE_READS:
        return []
    whole = service(reads.trace, drive, phases=1).seconds
    scale = whole / seconds_of(reads.trace, drive)
    changed = [change(reads) for change in CAUSES.values()]
    return [
        abs(scale * seconds_of(each, drive) - service(each, drive, phases=1).seconds) / whole
        for each in changed
        if len(each) > SAMPLE_READS
    ]


@pytest.mark.slow
@pytest.mark.parametrize("image", ["apfs-200000-c00", "apfs-200000-c20", "hfsplus-200000-c20"])
def test_a_sample_stands_for_its_walk(reference_image, image):
    """Each changed walk that is served in part takes what the whole of it takes, within two per cent of the walk."""
    *_, volume = read_layouts(reference_image(f"aged/{image}.img"))
    found = [
        error
        for order in ("fts", "backup", "copy", "archive")
        for drive in ("generic-7200", "cheetah9lp")
        for error in errors_of(volume, order, load_profile(drive))
    ]
    mean = sum(found) / max(len(found), 1)
    print(f"{image}: {len(found)} changes, {mean:.2%} off on average, {max(found, default=0):.2%} at most")  # noqa: T201
    assert found
    assert max(found) < WORST
