from __future__ import annotations

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.tree import names
from layoutscope.ondisk.leaves import Texts


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
