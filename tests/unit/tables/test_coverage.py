"""Coverage is 1 only if nothing contradicts it."""

from __future__ import annotations

import pytest

from layoutscope.findings import Finding
from layoutscope.tables import coverage_of, findings_table
from tests.layouts import entries, layout

ERROR = Finding("structure-invalid", "error", "catalog", 0, "its root is damaged")
FOUR_ENTRIES = entries(*((2, number, f"file {number}", "file", 0) for number in range(16, 20)))
WARNING = Finding("structure-invalid", "warning", "volume", 0, "it counts fewer")


def volume(known, read, *, missing=0, findings=()):
    """Make a volume with four entries, a given amount of metadata, and findings."""
    made = layout(
        entries=FOUR_ENTRIES, metadata_known_bytes=known, metadata_read_bytes=read, num_missing_entries=missing
    )
    return made.changed(findings=findings_table(list(findings)))


@pytest.mark.parametrize(
    ("found", "coverage"),
    [
        (volume(100, 100), 1),
        (volume(100, 75), 0.75),
        (volume(100, 100, missing=4), 0.5),
        (volume(100, 25, missing=4), 0.25),
        (volume(100, 100, findings=[WARNING]), 1),
        (volume(100, 100, findings=[ERROR]), None),
        (volume(100, 75, findings=[ERROR]), 0.75),
        (volume(0, 0), 1),
        (volume(0, 0, findings=[ERROR]), None),
    ],
)
def test_the_witness_that_says_least_counts(found, coverage):
    """Bytes, entries and errors: the lowest of them decides whether everything was read."""
    assert found.coverage == coverage
    assert coverage_of([found]) == coverage


def test_coverage_of_an_image():
    """Volumes sum up, unless an error is outside of them."""
    # The size of a volume that could not be opened is unknown.
    assert coverage_of([volume(100, 100)], 1) is None
    assert coverage_of([], 1) is None
    # Volumes are weighted by size.
    assert coverage_of([volume(100, 100), volume(300, 200)]) == pytest.approx(0.75)
