from layoutscope.errors import FormatError
from layoutscope.findings import Finding, FindingLog, from_error


def test_address_counts_from_the_base():
    """Byte 1024 of a volume at byte 4096 of the second image is byte 5120 there."""
    log = FindingLog(base=4096, device=1)
    log.at("volume header", 1024).add("checksum-mismatch", "warning", "differs", expected=1, found=2)
    expected = Finding("checksum-mismatch", "warning", "volume header", 5120, "differs", "1", "2", device=1)
    assert log.findings == [expected]


def test_field_lies_behind_its_structure():
    """The field at byte 12 of a structure at byte 100 is at byte 112."""
    log = FindingLog()
    log.at("header", 100, plus=12).add("truncated", "error", "ends early")
    assert log.findings[0].image_offset == 112


def test_structure_without_a_place():
    """A structure without a single address has none, even in a log that was bound to one."""
    log = FindingLog(base=4096).at("header", 0)
    log.at("forks").add("truncated", "error", "end early")
    assert (log.findings[0].structure, log.findings[0].image_offset) == ("forks", None)


def test_own_addresses():
    """Blocks of 512 bytes; those from 1000 on are on the second device."""
    log = FindingLog(locate=lambda block: (block % 1000 * 512, block // 1000))
    log.at("node", 1003, plus=8).add("checksum-mismatch", "error", "torn")
    assert (log.findings[0].image_offset, log.findings[0].device) == (1544, 1)


def test_survived_error_counts_from_the_base():
    """An error keeps its structure and both sides; its address is relative to the part."""
    log = FindingLog(base=4096, device=1)
    error = FormatError("no root", structure="tree", image_offset=8, expected="a", found="b")
    log.survive(error, code="checksum-mismatch")
    assert log.findings == [Finding("checksum-mismatch", "error", "tree", 4104, "no root", "a", "b", device=1)]


def test_survived_error_knows_its_device():
    error = FormatError("no root", structure="tree", image_offset=8)
    error.device = 2
    log = FindingLog()
    log.survive(error)
    assert log.findings[0].device == 2


def test_what_was_written_after_a_mark_can_be_dropped():
    """Earlier entries stay, and so do entries added afterwards."""
    log = FindingLog()
    log.add("truncated", "info", "before")
    forget = log.mark()
    log.at("node").add("truncated", "info", "between")
    forget()
    log.add("truncated", "info", "after")
    assert [item.message for item in log.findings] == ["before", "after"]


def test_branch_has_its_own_list():
    """Findings of a branch reach the log only when they are merged."""
    log = FindingLog(base=4096).at("header", 0)
    branch = log.branch()
    branch.add("truncated", "error", "ends early")
    assert (log.findings, branch.findings[0].image_offset) == ([], 4096)
    log.extend(branch.findings)
    assert log.findings == branch.findings


def test_errors_are_told_from_warnings():
    """Only an error means that data is missing."""
    log = FindingLog()
    log.add("truncated", "warning", "ends early")
    assert not log.has_errors
    log.at("tree").add("truncated", "error", "ends early")
    assert log.has_errors


def test_a_loss_without_a_place_has_no_address():
    """Neither the error nor its finding has an address; others count from the log's base."""
    nowhere = FormatError("no copy of it is left", structure="volume superblock 7", image_offset=None)
    somewhere = FormatError("checksum differs", structure="volume superblock 7", image_offset=40)
    assert str(nowhere) == "volume superblock 7: no copy of it is left"
    assert str(somewhere) == "volume superblock 7 at byte 40: checksum differs"
    log = FindingLog(base=1000)
    log.survive(nowhere)
    log.survive(somewhere)
    assert [item.image_offset for item in log.findings] == [None, 1040]
    assert from_error(nowhere).image_offset is None
