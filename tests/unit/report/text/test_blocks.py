from __future__ import annotations

import io
from dataclasses import replace

from layoutscope.report.text.console import make_console, print_parts
from layoutscope.report.text.scan import BLOCK_ROWS, block_table
from tests.layouts import layout


def shown(**details):
    """Print the balance of a container with some facts."""
    facts = replace(layout().facts, block_size_bytes=4096, details=details)
    file = io.StringIO()
    print_parts(block_table(facts), make_console(file, width=80))
    return file.getvalue()


def balance(**changes):
    """A container of 100 blocks, of which 30 are used."""
    counts = {"blocks": 100, "free blocks": 70, "used blocks": 30, "claimed blocks": 30, "pending-free blocks": 2}
    return counts | {"unclaimed blocks": 0, "claimed but free blocks": 0} | changes


def test_every_count_stands_with_its_size_and_share():
    """30 blocks of 4 KiB are 120 KiB and 30 % of 100."""
    text = shown(**balance())
    line = next(line for line in text.splitlines() if line.startswith("used in the bitmaps"))
    assert line.split()[4:] == ["30", "120", "KiB", "30.0", "%"]
    assert all(name in text for name in BLOCK_ROWS.values())
    assert "every used block belongs to something" in text


def test_what_does_not_agree_is_counted():
    """Blocks that are used and unclaimed, and those that are claimed and free, are no sound balance."""
    assert "5 blocks do not agree" in shown(**balance(**{"unclaimed blocks": 3, "claimed but free blocks": 2}))


def test_a_volume_has_no_balance():
    """Facts without counts of blocks give no table."""
    assert shown(role="data").strip() == ""
