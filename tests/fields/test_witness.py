"""Recorded verdicts of apfsck: the faults that it found are found, and our recorded verdicts still hold."""

from __future__ import annotations

import random
import shutil

import pytest

from tests.fields.faults import WORD, Field, found_on, mended
from tests.fields.witness import recorded

BLOCK_BYTES = 4096
SAMPLE = 6
SEED = 19
LEAST = 0.98
LEAST_OF_AN_IMAGE = 0.9


def shares():
    """Return, per image, the number of faults that apfsck found and how many of them are found here."""
    found = {}
    for image, rows in recorded().items():
        peer = [row for row in rows if row["peer"] == "found"]
        found[image] = sum(row["ours"] == "found" for row in peer), len(peer)
    return found


def test_most_of_what_apfsck_finds_is_found():
    """At least 98 % in total and 90 % on each image."""
    found = shares()
    seen, all_of_them = (sum(pair[k] for pair in found.values()) for k in range(2))
    assert len(found) >= 18
    assert seen / all_of_them >= LEAST
    assert {image for image, (some, many) in found.items() if some / many < LEAST_OF_AN_IMAGE} == set()


def test_fields_are_recorded_with_their_verdicts():
    """Every kind of object is present, and each row has the field, its bytes before and after, and two verdicts."""
    rows = [row for several in recorded().values() for row in several]
    assert {"spaceman", "nx_reaper", "checkpoint_map", "omap", "fs", "nx_superblock"} <= {row["object"] for row in rows}
    assert {row["peer"] for row in rows} <= {"found", "silent", "unsupported", "failure"}
    assert all(row["old"] != row["new"] and len(row["old"]) == len(row["new"]) <= 2 * WORD for row in rows)


@pytest.mark.full
@pytest.mark.parametrize("name", ["victim", "snapshots", "sealed"])
def test_verdicts_of_a_sample_are_the_recorded_ones(name, victims, tmp_path):
    """Planting a sample of the recorded changes again gives the verdicts in the table."""
    path = shutil.copy(victims[name][0], tmp_path / "disk.img")
    rows = random.Random(SEED).sample(recorded()[f"victim-{name}"], SAMPLE)  # noqa: S311
    before, differing = found_on(path), []
    assert before == set()
    with path.open("r+b", buffering=0) as file:
        for row in rows:
            start, at = int(row["start"]), int(row["at"])
            old, new = (bytes.fromhex(row[side]) for side in ("old", "new"))
            file.seek(start)
            stored = file.read(BLOCK_BYTES)
            assert stored[at : at + len(old)] == old, "the image is another: record it anew"
            end = at + len(old)
            behind = old + stored[end + len(old) :] if row["change"] == "exchange" else stored[end:]
            changed = stored[:at] + new + behind
            file.seek(start)
            file.write(mended(stored, changed, Field(row["field"], start, BLOCK_BYTES, at, len(old))))
            if bool(found_on(path)) != (row["ours"] == "found"):
                differing.append(row)
            file.seek(start)
            file.write(stored)
    assert differing == []
