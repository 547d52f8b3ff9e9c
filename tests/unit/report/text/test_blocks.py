from __future__ import annotations

import io

import pytest
from msgspec.structs import replace

from layoutscope.report.text.console import make_console, plain_table, print_parts
from layoutscope.report.text.scan import BLOCK_ROWS, block_table
from tests.layouts import layout


def shown(**details):
    """Return the printed balance of a container with given facts."""
    facts = replace(layout().facts, block_size_bytes=4096, details=details)
    file = io.StringIO()
    print_parts(block_table(facts), make_console(file, width=80))
    return file.getvalue()


def balance(**changes):
    """Return the facts of a container of 100 blocks, 30 of them used."""
    counts = {"blocks": 100, "free blocks": 70, "used blocks": 30, "claimed blocks": 30, "pending-free blocks": 2}
    return counts | {"unclaimed blocks": 0, "claimed but free blocks": 0} | changes


def test_every_count_stands_with_its_size_and_share():
    """30 blocks of 4 KiB are 120 KiB and 30 % of 100."""
    text = shown(**balance())
    line = next(line for line in text.splitlines() if line.startswith("used in the bitmaps"))
    assert line.split()[4:] == ["30", "120", "KiB", "30.0", "%"]
    assert all(name in text for name in BLOCK_ROWS.values())
    assert "every used block belongs to something" in text
    # Blocks that are used but unclaimed, or claimed but free, are counted as a discrepancy.
    assert "5 blocks do not agree" in shown(**balance(**{"unclaimed blocks": 3, "claimed but free blocks": 2}))
    # Facts without counts of blocks give no table.
    assert shown(role="data").strip() == ""


@pytest.mark.parametrize(("name", "is_whole"), [("apple-ap0256j-2017", True), ("/Users/jo/Projects/Ember", False)])
def test_a_name_that_begins_a_row_is_not_broken(name, is_whole):
    """On a narrow screen, a drive's name can still be copied; a path is wrapped to leave room for its row."""
    file = io.StringIO()
    rows = [(name, "internal SSD " * 5)]
    table = plain_table("Drives", [("Drive", False), ("Take it for", False)], rows)
    print_parts(iter([table]), make_console(file, width=40))
    assert (name in file.getvalue()) == is_whole
