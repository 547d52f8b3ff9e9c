from __future__ import annotations

import numpy as np

from layoutscope.filesystems.apfs.fsrecords import to_text
from layoutscope.tables import TextColumn


def names_of(*raw: bytes) -> TextColumn:
    """Join names as decoded leaves do: contiguous, without their zero bytes."""
    return TextColumn(np.frombuffer(b"".join(raw), np.uint8), np.array([len(name) for name in raw], np.uint32))


def test_names_are_text_and_bytes():
    """Valid names are returned unchanged, in order."""
    raw = names_of(b"a", "Straße".encode(), "🍎".encode())
    text = to_text(raw)
    assert text.to_list() == ["a", "Straße", "🍎"]
    assert raw.raw() == [b"a", "Straße".encode(), "🍎".encode()]


def test_a_damaged_name_is_replaced_and_kept_raw():
    """Bytes that are not UTF-8 appear as replacement characters; other bytes are unchanged."""
    raw = names_of(b"good", b"b\xffd")
    text = to_text(raw)
    assert text.to_list() == ["good", "b\ufffdd"]
    assert raw.raw() == [b"good", b"b\xffd"]


def test_a_character_that_two_names_share_is_damage_in_both():
    """Joined, the halves of an "ß" are valid, but each name is decoded separately."""
    first, second = "ß".encode()[:1], "ß".encode()[1:]
    assert to_text(names_of(first, second)).to_list() == ["\ufffd", "\ufffd"]


def test_names_are_compared_whole():
    """A name is equal only if its length is equal."""
    assert names_of(b"ab", b"abc", b"ab").equal_to(b"ab").tolist() == [True, False, True]


def test_no_names_are_no_rows():
    """No input gives no rows."""
    assert len(to_text(names_of())) == 0
