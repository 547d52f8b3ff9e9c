from __future__ import annotations

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.tree import names
from layoutscope.ondisk.leaves import Texts


def series(*texts):
    """Names through gather into a column; the first at byte 2 of the buffer."""
    raw = [text.encode("utf-16-be", "surrogatepass") for text in texts]
    buffer = np.frombuffer(b"??" + b"".join(raw), np.uint8)
    counts = np.array([len(item) // 2 for item in raw], np.int64)
    starts = 2 + 2 * (np.cumsum(counts) - counts)
    units = names.gather(buffer, starts, counts)
    return names.text_series("name", units, counts).to_list()


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("plain", "plain"),
        ("", ""),
        ("a/b", "a:b"),
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
    """Slashes become colons, lone halves of pairs are replaced, everything else stays; neighbours stay apart."""
    assert series("before", stored, "\u00e4fter") == ["before", shown, "\u00e4fter"]


def test_halves_of_different_names_make_no_pair():
    """A name that ends with a high surrogate and one that starts with a low one are two broken names."""
    assert series("a\ud83d", "\ude00b") == ["a\ufffd", "\ufffdb"]


def test_names_of_leaves_become_columns_in_both_forms():
    """What was decoded as UTF-8 gets its colons, what is stored stays as it is; the names in between are empty."""
    lengths = np.array([3, 0, 2], np.uint32)
    shown = names.shown_series("name", Texts(np.frombuffer(bytearray(b"a/b\xc3\xa9"), np.uint8), lengths))
    assert shown.to_list() == ["a:b", "", "\u00e9"]
    stored = names.stored_series("name_raw", Texts(np.frombuffer(b"\0a\0/", np.uint8), np.array([2, 0, 2], np.uint32)))
    assert stored.to_list() == [b"\0a", b"", b"\0/"]


def test_equals_compares_whole_names():
    """Only the range with exactly these characters is equal."""
    buffer = np.frombuffer("abcabx".encode("utf-16-be"), np.uint8)
    found = names.equals(buffer, np.array([0, 6, 0]), np.array([2, 2, 3]), "ab")
    assert found.tolist() == [True, True, False]
