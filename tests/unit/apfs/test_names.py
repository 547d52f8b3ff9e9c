from __future__ import annotations

import numpy as np

from layoutscope.filesystems.apfs.store.names import GrowingNames, Names, gather_names


def names_of(*raw: bytes) -> Names:
    """Gather names that lie one after the other."""
    length = np.array([len(name) for name in raw], np.int64)
    return gather_names(np.frombuffer(b"".join(raw), np.uint8), np.cumsum(length) - length, length)


def test_names_are_text_and_bytes_without_their_zero():
    """Valid names come as they are, in order, without the zero byte."""
    text, raw = names_of(b"a\0", "Straße\0".encode(), "🍎\0".encode()).columns()
    assert text.to_list() == ["a", "Straße", "🍎"]
    assert raw.to_list() == [b"a", "Straße".encode(), "🍎".encode()]


def test_a_damaged_name_is_replaced_and_kept_raw():
    """Bytes that are no UTF-8 show as replacement characters; the others are untouched."""
    text, raw = names_of(b"good\0", b"b\xffd\0").columns()
    assert text.to_list() == ["good", "b\ufffdd"]
    assert raw.to_list() == [b"good", b"b\xffd"]


def test_names_with_a_zero_inside_or_without_end_are_cut_there():
    """A zero byte ends a name wherever it stands; a missing one loses nothing."""
    assert names_of(b"ab\0cd\0", b"\0", b"xyz").columns()[1].to_list() == [b"ab", b"", b"xyz"]


def test_a_character_that_two_names_share_is_damage_in_both():
    """Put together, the halves of an "ß" are valid, but each name is shown for itself."""
    first, second = "ß".encode()[:1], "ß".encode()[1:]
    assert names_of(first + b"\0", second + b"\0").text().to_list() == ["\ufffd", "\ufffd"]


def test_names_are_gathered_from_any_place_and_joined_in_order():
    """Two names out of the middle of a buffer, then a third from elsewhere."""
    buffer = np.frombuffer(b"..one\0..two\0", np.uint8)
    first = gather_names(buffer, np.array([8, 2]), np.array([4, 4]))
    names = GrowingNames()
    for part in (first, names_of(b"three\0")):
        names.add(part)
    assert names.values.text().to_list() == ["two", "one", "three"]


def test_names_are_compared_whole():
    """A name is equal only with its zero byte in the same place."""
    assert names_of(b"ab\0", b"abc\0", b"ab\0").equal_to(b"ab").tolist() == [True, False, True]


def test_no_names_are_no_rows():
    """Nothing gathered, nothing shown."""
    assert len(names_of().columns()[0]) == 0
