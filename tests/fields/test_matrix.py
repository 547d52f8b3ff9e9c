"""The matrix covers every field, and faults recorded as found by the peers are found without running them."""

from __future__ import annotations

import random
import re
import shutil
import tomllib
from functools import cache

import pytest

from fixtures.apfs.checksum import with_checksum
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope import check
from layoutscope.errors import LayoutscopeError
from layoutscope.image import MemorySource
from tests.cases import for_each
from tests.fields.matrix import HERE, NOTHING, PEERS, Row, fields, reason, recorded, rows_of, tables
from tests.fields.matrix import told as told_of
from tests.hfsplus import check_volume

FAULTS = [fault for fault in recorded("hfsplus") if fault["image"].startswith("fx-")]
BY_PEER = [fault for fault in FAULTS if fault["peer"] == "1"]


@pytest.mark.parametrize("name", PEERS)
def test_no_field_is_forgotten(name):
    """Each field has a fault that is found, or a reason."""
    rows = rows_of(name)
    lacking = [each for each in fields(name) if not (each in rows and rows[each].found) and not reason(name, each)]
    assert lacking == []


def test_a_row_without_a_fault_says_so():
    """No row of the page is empty, and none says that nothing is known."""
    rows = [line for line in tables().splitlines() if line.startswith("| `")]
    assert all(line.split(" | ")[-1].strip(" |") for line in rows)
    assert [line for line in rows if NOTHING in line] == []


@pytest.mark.parametrize(
    ("row", "why", "says"),
    [
        (Row(), "has a rule (a); not drawn in this recording", "has a rule (a); not drawn in this recording"),
        (Row(planted=2), "has a rule (a); not drawn here", "has a rule (a); none of the faults drawn breaks it"),
        (Row(planted=2, found=1), "has a rule (a); not drawn here", "found; has a rule (a)"),
        (Row(planted=2, found=1), "free: a counter", "found, by another rule; free: a counter"),
        (Row(planted=2), "free: a counter", "free: a counter"),
        (Row(planted=1, found=1), "", "found"),
        (Row(), "", NOTHING),
    ],
)
def test_what_was_drawn_is_not_said_to_be_not_drawn(row, why, says):
    """A reason for a row without faults does not apply to a row that has some."""
    assert told_of(row, why) == says


def test_no_row_with_faults_says_that_none_were_drawn():
    """The same holds on the page."""
    rows = [line for line in tables().splitlines() if line.startswith("| `")]
    assert [line for line in rows if "not drawn" in line and line.split(" | ")[1] != "0"] == []


def test_no_reason_is_of_a_field_that_does_not_exist():
    """Every pattern of a reason matches a field."""
    known = tomllib.loads((HERE / "free.toml").read_text(encoding="utf-8"))
    for name, patterns in known.items():
        assert [each for each in patterns if not any(re.fullmatch(each, field) for field in fields(name))] == []


@pytest.mark.parametrize(("name", "least"), [("hfsplus", 0.95), ("apfs", 0.98)])
def test_most_of_what_the_peer_finds_is_found(name, least):
    """At least 95 % of what fsck_hfs found and 98 % of what apfsck found, and 90 % on each image."""
    faults = [(fault["image"], is_found(fault)) for fault in recorded(name) if fault["peer"] in ("1", "found")]
    assert len(faults) > 300
    assert sum(here for _, here in faults) >= least * len(faults)
    for image in {image for image, _ in faults}:
        own = [here for each, here in faults if each == image]
        assert sum(own) >= 0.9 * len(own), image


def is_found(fault):
    """Whether this check found a fault."""
    return bool(fault.get("codes")) or fault.get("ours") == "found"


def test_faults_of_apfs_are_of_every_kind_of_object():
    """Each has the bytes before and after, and two verdicts, on 18 images or more."""
    faults = recorded("apfs")
    assert len({fault["image"] for fault in faults}) >= 18
    assert {"spaceman", "nx_reaper", "checkpoint_map", "omap", "fs", "nx_superblock"} <= {
        fault["object"] for fault in faults
    }
    assert {fault["peer"] for fault in faults} <= {"found", "silent", "unsupported", "failure"}
    assert all(fault["old"] != fault["new"] and len(fault["old"]) == len(fault["new"]) <= 16 for fault in faults)


@cache
def written(scenario):
    return bytes(render(SCENARIOS[scenario])[0].to_bytearray())


def told(data):
    """Return codes of warnings and errors, or of the error if the volume cannot be opened."""
    try:
        return {item.code for item in check_volume(MemorySource(bytes(data))) if item.level != "info"}
    except LayoutscopeError:
        return {"refused"}


@pytest.mark.full
@for_each("fault", BY_PEER[::4])
def test_a_fault_that_the_peer_found_is_found(fault):
    """The recorded bytes are at the recorded place; changing them gives the recorded findings."""
    data, at = bytearray(written(fault["image"].removeprefix("fx-"))), int(fault["at"])
    old, new = bytes.fromhex(fault["old"]), bytes.fromhex(fault["new"])
    assert data[at : at + len(old)] == old
    assert told(data) == set()
    data[at : at + len(new)] = new
    assert bool(told(data)) is bool(fault["codes"])


BLOCK_BYTES = 4096


@pytest.mark.full
@pytest.mark.parametrize("name", ["victim", "snapshots", "sealed"])
def test_a_sample_of_apfs_has_the_recorded_verdicts(name, victims, tmp_path):
    """Planting some of the recorded changes again, with right checksums, gives the verdicts of the table."""
    path = shutil.copy(victims[name][0], tmp_path / "disk.img")
    faults = [fault for fault in recorded("apfs") if fault["image"] == f"victim-{name}"]
    assert not has_damage(path)
    differing = []
    with path.open("r+b", buffering=0) as file:
        for fault in random.Random(19).sample(faults, 6):  # noqa: S311
            start, at = int(fault["start"]), int(fault["at"])
            old, new = (bytes.fromhex(fault[side]) for side in ("old", "new"))
            file.seek(start)
            stored = file.read(BLOCK_BYTES)
            assert stored[at : at + len(old)] == old, "the image is another: record it again"
            # An exchange puts the old bytes after the new ones.
            put = new + old if fault["change"] == "exchange" else new
            changed = stored[:at] + put + stored[at + len(put) :]
            file.seek(start)
            file.write(with_checksum(changed) if at >= 8 and stored == with_checksum(stored) else changed)
            if has_damage(path) != is_found(fault):
                differing.append(fault)
            file.seek(start)
            file.write(stored)
    assert differing == []


def has_damage(path):
    """Whether a check finds more than information, or refuses the image."""
    try:
        return any(item.level != "info" for item in check(path).every())
    except LayoutscopeError:
        return True
