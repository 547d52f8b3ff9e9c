"""Remedies done by real drivers while the tests run; skips where there is no lab."""

from __future__ import annotations

import pytest

from tests.validation.remedies import Aged, Lab, proven

READ_ALIKE = ("names-only", "stat-by-inode", "stat-all-by-inode", "remembered-walk", "block-copy", "files-by-place")


@pytest.mark.slow
@pytest.mark.parametrize("filesystem", ["apfs", "hfsplus"])
def test_remedies_do_what_the_plan_says(lab, tmp_path, filesystem):
    """Aged volumes of 2,000 files: what is read then is what was said, block for block; a copy saves as much."""
    aged = Aged(Lab(lab, tmp_path), filesystem, 2_000)
    for name in READ_ALIKE:
        (row,) = proven(aged, name)
        assert (row["blocks"], row["extra"], row["pairs"]) == (1.0, 0.0, 1.0), name
        assert row["reads"] == row["predicted_reads"], name
    (row,) = proven(aged, "copied-in-walk-order")
    on_disk = next(found for found in row["times"] if found["drive"] == "generic-5400-2.5")
    assert on_disk["low_s"] <= on_disk["saved_s"] <= on_disk["high_s"]
