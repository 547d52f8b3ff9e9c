"""Rules of single fields: each condition on values that meet it and on values that do not, with the findings."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from layoutscope.checks import fieldrules
from layoutscope.checks.fieldrules import NOT_ZERO, ZERO, check_fields, rules
from layoutscope.findings import FindingLog
from layoutscope.structs.records import HEADER_NODE, NODE_DESCRIPTOR


@pytest.mark.parametrize(
    ("want", "met", "broken"),
    [
        (ZERO, [0], [1, 255]),
        (NOT_ZERO, [1, 255], [0]),
        (fieldrules.equals(3), [3], [0, 2, 4]),
        (fieldrules.one_of(1, 5), [1, 5], [0, 2]),
        (fieldrules.only_bits(0x6), [0, 2, 4, 6], [1, 7, 8]),
        (fieldrules.bits_set(0x6), [6, 7, 255], [0, 2, 4]),
        (fieldrules.at_most(9), [0, 9], [10]),
        (fieldrules.at_least(9), [9, 10], [8]),
    ],
)
def test_condition_says_which_values_meet_it(want, met, broken):
    """One-byte numbers on either side of the condition are tested."""
    assert want.is_met(np.array(met, np.uint8)).all()
    assert not want.is_met(np.array(broken, np.uint8)).any()


def test_finding_has_address_field_and_both_sides():
    """The second of two descriptors has a height of 7 at its byte 9; the first is valid."""
    buffer = np.zeros(28, np.uint8)
    buffer[14 + 9] = 7
    log = FindingLog()
    declared = rules("node-invalid", (NODE_DESCRIPTOR.height, ZERO, "has a height"), level="error")
    at = lambda row, byte: log.at(f"node {row}", byte)  # noqa: E731
    check_fields(NODE_DESCRIPTOR, buffer, np.array([0, 14]), declared, at)
    (found,) = log.findings
    assert (found.structure, found.image_offset, found.message) == ("node 1", 23, "height: has a height")
    assert (found.expected, found.found, found.level) == ("0", "7", "error")
    # The third reserved word of a header record is at byte 14 + 42 + 2 * 4 of the node.
    at = HEADER_NODE.offset_of("header.reserved3") + 8
    buffer = np.zeros(HEADER_NODE.width, np.uint8)
    buffer[at] = 1
    log = FindingLog()
    declared = rules("node-invalid", (HEADER_NODE.header.reserved3, ZERO, "reserved"))
    check_fields(HEADER_NODE, buffer, np.zeros(1, np.int64), declared, lambda _, byte: log.at("node", byte))
    assert [(item.image_offset, item.message) for item in log.findings] == [(at, "header.reserved3[2]: reserved")]
    # An array of expected values has a row per structure, and every item of the structure must equal it.
    want = fieldrules.equals(np.array([1, 2]))
    assert want.is_met(np.array([[1, 1], [2, 3]])).tolist() == [[True, True], [True, False]]


def test_a_scan_loads_no_rules_of_fields():
    """A field without a known expected value gives no finding either."""
    # A field without a known expected value gives no finding.
    log = FindingLog()
    declared, buffer = rules("node-invalid", (NODE_DESCRIPTOR.height, None, "differs")), np.ones(14, np.uint8)
    check_fields(NODE_DESCRIPTOR, buffer, np.zeros(1, np.int64), declared, lambda _, byte: log.at("node", byte))
    assert log.findings == []
    # Only a check needs the rules of fields, so a scan does not load them.
    program = (
        "import sys, layoutscope\n"
        "layoutscope.read_layouts('fixtures/images/hfsplus-scattered.img.zst')\n"
        "layoutscope.read_layouts('fixtures/images/apfs-scattered.img.zst')\n"
        "assert 'layoutscope.checks.fieldrules' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
