from __future__ import annotations

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.tree import names
from layoutscope.ondisk.leaves import Texts
from layoutscope.tables import Later, TextColumn


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("plain", "plain"),
        ("", ""),
        ("\0\0\0\0HFS+ Private Data", "\0\0\0\0HFS+ Private Data"),
        ("e\u0301t\u00e9", "e\u0301t\u00e9"),
        ("\u65e5\u672c", "\u65e5\u672c"),
        ("x\U0001f600y", "x\U0001f600y"),
        ("\ud800", "\ufffd"),
        ("a\udc00b", "a\ufffdb"),
        ("\udc00\ud800", "\ufffd\ufffd"),
    ],
)
def test_name_is_shown(stored, shown):
    """Halves of pairs that have no other half are replaced, everything else stays."""
    raw = np.frombuffer(stored.encode("utf-16-be", "surrogatepass"), np.uint8)
    assert names.shown(names.gather(raw, np.array([0]), np.array([len(raw) // 2]))) == shown


def test_names_of_leaves_get_their_colons():
    """What was decoded as UTF-8 is shown with a colon for each slash."""
    texts = Texts(np.frombuffer(bytearray(b"a/b\xc3\xa9"), np.uint8), np.array([3, 2], np.uint32))
    assert names.as_shown(texts).tobytes() == b"a:b\xc3\xa9"


def test_equals_compares_whole_names():
    """Only the range with exactly these characters is equal."""
    buffer = np.frombuffer("abcabx".encode("utf-16-be"), np.uint8)
    found = names.equals(buffer, np.array([0, 6, 0]), np.array([2, 2, 3]), "ab")
    assert found.tolist() == [True, True, False]


def _columns(stored, order):
    shown = [name.replace("/", ":").encode("utf-8", "replace") for name in stored]
    raw = [name.encode("utf-16-be", "surrogatepass") for name in stored]
    return (
        TextColumn(np.frombuffer(b"".join(texts), np.uint8), np.array(list(map(len, texts)), np.uint32), order)
        for texts in (shown, raw)
    )


@pytest.mark.parametrize("order", [None, np.array([2, 0, 1], np.uint32)])
@pytest.mark.parametrize(
    "stored", [["a/b", "", "\0c"], ["\u65e5", "pl/ain", "\u00e9x"], ["\u00e9", "\u00e8", "\U0001f600"], ["", "", ""]]
)
def test_stored_names_are_told_by_those_shown(stored, order):
    """Bytes as stored come back, in any order; what is kept of names in ASCII are those that are shown."""
    shown, raw = _columns(stored, order)
    kept = names.told_by(shown, raw)
    assert isinstance(kept, Later)
    assert len(kept) == len(stored)
    assert kept.make().raw() == raw.raw()


def test_a_colon_on_the_disk_is_not_taken_for_a_slash():
    """Both are shown as a colon: where one is on the disk, nothing is left out."""
    shown, raw = _columns(["a:b", "c/d", "e"], None)
    assert names.told_by(shown, raw) is raw
