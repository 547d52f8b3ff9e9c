from layoutscope.errors import FormatError
from layoutscope.findings import Finding, FindingLog, from_error


def test_addresses_count_from_the_base():
    """Byte 1024 of a volume at byte 4096 of the second image is byte 5120 there, and a field 12 bytes on is at 5132.

    A structure without a single address has none, even in a log that was bound to one. A log may have addresses of its
    own: here blocks of 512 bytes, of which those from 1000 on are on the second device.
    """
    log = FindingLog(base=4096, device=1)
    log.at("volume header", 1024).add("checksum-mismatch", "warning", "differs", expected=1, found=2)
    expected = Finding("checksum-mismatch", "warning", "volume header", 5120, "differs", "1", "2", device=1)
    assert log.findings == [expected]
    log.at("header", 1024, plus=12).add("truncated", "error", "ends early")
    log.at("header", 0).at("forks").add("truncated", "error", "end early")
    assert [(item.structure, item.image_offset) for item in log.findings[1:]] == [("header", 5132), ("forks", None)]
    log = FindingLog(locate=lambda block: (block % 1000 * 512, block // 1000))
    log.at("node", 1003, plus=8).add("checksum-mismatch", "error", "torn")
    assert (log.findings[0].image_offset, log.findings[0].device) == (1544, 1)


def test_survived_errors_count_from_the_base():
    """An error keeps its structure, both sides and its device, if it has one; without a place it has no address."""
    log = FindingLog(base=4096, device=1)
    log.survive(
        FormatError("no root", structure="tree", image_offset=8, expected="a", found="b"), code="checksum-mismatch"
    )
    assert log.findings == [Finding("checksum-mismatch", "error", "tree", 4104, "no root", "a", "b", device=1)]
    nowhere = FormatError("no copy of it is left", structure="volume superblock 7", image_offset=None)
    somewhere = FormatError("checksum differs", structure="volume superblock 7", image_offset=40)
    assert str(nowhere) == "volume superblock 7: no copy of it is left"
    assert str(somewhere) == "volume superblock 7 at byte 40: checksum differs"
    somewhere.device = 2
    log.survive(nowhere)
    log.survive(somewhere)
    assert [(item.image_offset, item.device) for item in log.findings[1:]] == [(None, 1), (4136, 2)]
    assert from_error(nowhere).image_offset is None


def test_lists_of_findings():
    """What was written after a mark can be dropped; findings of a branch reach the log only when they are merged.

    Only an error means that data is missing.
    """
    log = FindingLog(base=4096)
    log.add("truncated", "info", "before")
    forget = log.mark()
    log.at("node").add("truncated", "info", "between")
    forget()
    log.add("truncated", "warning", "after")
    branch = log.at("header", 0).branch()
    branch.add("truncated", "error", "ends early")
    assert [item.message for item in log.findings] == ["before", "after"]
    assert (log.has_errors, branch.findings[0].image_offset) == (False, 4096)
    log.extend(branch.findings)
    assert [item.message for item in log.findings] == ["before", "after", "ends early"]
    assert log.has_errors
