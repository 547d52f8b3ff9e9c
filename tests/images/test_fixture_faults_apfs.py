"""Reading APFS containers with one planted fault each."""

from __future__ import annotations

import pytest

from fixtures.apfs.scenarios import PASSWORD
from fixtures.apfs.victims import VICTIMS
from fixtures.fault import planted
from fixtures.faults_apfs import FAULTS
from layoutscope.errors import LayoutscopeError
from layoutscope.image import open_image
from tests.agreement import node_differences
from tests.apfs import read_layouts
from tests.cases import for_each

NOT_IN_THE_WAY = {"index-key-order"}
"""Contradictions that do not hinder reading and that only the structure check looks for."""


def outcome(path, scenario):
    """Read a container; return the findings, or the text of the error."""
    password = PASSWORD if scenario == "encrypted" else None
    try:
        with open_image(path) as source:
            layouts = read_layouts(source, password=password)
    except LayoutscopeError as error:
        return [(type(error).__name__, str(error))]
    found = [row for layout in layouts for row in layout.findings.drop("row").rows()]
    unclaimed = layouts[0].facts.details.get("unclaimed blocks", 0)
    return found + ([("unclaimed", unclaimed)] if unclaimed else [])


def differences(path, scenario):
    """List differences between bulk decoding and the grammars; empty if the container cannot be read."""
    password = PASSWORD if scenario == "encrypted" else None
    try:
        with open_image(path) as source:
            return node_differences(source, read_layouts(source, password=password), password=password)
    except LayoutscopeError:
        return []


@pytest.mark.full
@for_each("fault", FAULTS)
def test_fault_is_survived(fault, victims):
    """Reading always ends in findings or in one of our errors; the grammars read each node alike."""
    with planted(fault, victims) as image:
        found = outcome(image.path, fault.scenario)
        assert differences(image.path, fault.scenario) == []
    assert "<" not in str(found), "both sides of a contradiction are written as numbers, not as objects of the code"
    assert (not found) == (fault.name in NOT_IN_THE_WAY)


@pytest.mark.parametrize("name", VICTIMS)
def test_victims_are_clean_before(name, victims):
    """Without the fault there are no findings."""
    assert outcome(victims[name][0], name) == []
