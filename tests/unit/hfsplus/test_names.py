from __future__ import annotations

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus import names
from layoutscope.structs.leaves import Texts
from layoutscope.tables import TextColumn


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
    """Unpaired surrogates are replaced, everything else stays."""
    raw = np.frombuffer(stored.encode("utf-16-be", "surrogatepass"), np.uint8)
    assert names.shown(names.gather(raw, np.array([0]), np.array([len(raw) // 2]))) == shown


def test_names_are_shown_with_colons_and_compared_whole():
    """Names that are not ambiguous keep no stored form."""
    # Decoded UTF-8 names are shown with a colon for each slash.
    texts = Texts(np.frombuffer(bytearray(b"a/b\xc3\xa9"), np.uint8), np.array([3, 2], np.uint32))
    no_others = Texts(np.empty(0, np.uint8), np.empty(0, np.uint32))
    assert names.show_names(texts, no_others, None)[0].to_list() == ["a:b", "\xe9"]
    # Only the range with exactly these characters is equal.
    buffer = np.frombuffer("abcabx".encode("utf-16-be"), np.uint8)
    found = names.names_equal(buffer, np.array([0, 6, 0]), np.array([2, 2, 3]), "ab")
    assert found.tolist() == [True, True, False]
    # No stored form is kept for them, not even empty lengths.
    text, others, _ = _decoded(["a/b", "c", ""])
    assert [len(each) for each in names.show_names(text, others, None)[1]] == [0, 0]
    # Start and length of the third and the first name.
    _, start, length, *_ = names.place_names(TextColumn(*_texts([b"ab", b"c", b"def"]), np.array([2, 0])), _texts([]))
    assert (start.tolist(), length.tolist()) == ([3, 0], [3, 2])
    _, start, *_ = names.place_names(TextColumn(*_texts([b"ab", b"c"]), np.array([1])), _texts([]))
    assert start.tolist() == [2]


def _texts(raw):
    return Texts(np.frombuffer(bytearray(b"".join(raw)), np.uint8), np.array(list(map(len, raw)), np.uint32))


def _decoded(stored):
    raw = [name.encode("utf-16-be", "surrogatepass") for name in stored]
    others = [b"" if name.isascii() else units for name, units in zip(stored, raw, strict=True)]
    return _texts([name.encode("utf-8", "replace") for name in stored]), _texts(others), raw


NAMES = [
    ["a/b", "", "\0c"],
    ["\u65e5", "pl/ain", "\u00e9x"],
    ["\u00e9", "\u00e8", "\U0001f600"],
    ["", "", ""],
    ["a:b", "c/d", "\ud800:"],
    ["a:b", "", "e"],
]


@pytest.mark.parametrize("order", [None, np.array([2, 0, 1], np.uint32)])
@pytest.mark.parametrize("stored", NAMES)
def test_stored_names_are_told_by_those_shown(stored, order):
    """Stored bytes are found in any order, even if they contain a colon, which is also how a slash is shown."""
    text, others, raw = _decoded(stored)
    column, kept = names.show_names(text, others, order)
    rows = range(3) if order is None else order.tolist()
    assert names.store_names(column, kept).raw() == [raw[row] for row in rows]
    assert column.raw() == [stored[row].replace("/", ":").encode("utf-8", "replace") for row in rows]


@pytest.mark.parametrize("stored", NAMES)
def test_sums_are_those_of_the_units(stored):
    """The number and sum of all stored units are the same in whichever form names are held."""
    text, others, raw = _decoded(stored)
    units = np.frombuffer(b"".join(raw), np.uint16)
    assert names.sum_of_units(text, others) == (len(units), int(units.sum(dtype=np.uint64)))


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_names_that_differ_are_told(monkeypatch, at_once):
    """Length or any byte makes names differ, however many are compared at a time."""
    monkeypatch.setattr(names, "COMPARED_AT_ONCE", at_once)
    first = TextColumn(*_texts([b"ab", b"abc", b"", b"xyz", b"q", b"ab"]))
    second = TextColumn(*_texts([b"aB", b"ab", b"", b"xyw", b"Q", b"ab"]))
    assert names.differ(first, second).tolist() == [True, True, False, True, True, False]


@pytest.mark.parametrize("stored", NAMES)
@pytest.mark.parametrize("order", [None, np.array([2, 0, 1], np.uint32)])
def test_places_of_names_are_those_of_their_rows(stored, order):
    """They are the start and length of each shown name, and of stored names that differ from it."""
    text, others, _ = _decoded(stored)
    kept = names.show_names(text, others, order)
    data, start, length, other_data, other_start, other_length = names.place_names(*kept)
    rows = list(range(3) if order is None else order)
    shown = [stored[row].replace("/", ":").encode("utf-8", "replace") for row in rows]
    assert [data[at : at + size].tobytes() for at, size in zip(start, length, strict=True)] == shown
    raw = [other_data[at : at + size].tobytes() for at, size in zip(other_start, other_length, strict=True)]
    for row, found in zip(rows, raw, strict=False):
        assert found in (b"", stored[row].encode("utf-16-be", "surrogatepass"))
    assert bool(raw) == (not all(map(str.isascii, stored)) or any(":" in name for name in stored))


def test_ascii_is_folded():
    """Capitals become small, NUL sorts last; a unit outside ASCII changes nothing."""
    units = np.arange(128, dtype=np.uint16)
    expected = [0xFFFF, *(ord(chr(number).lower()) for number in range(1, 128))]
    every = np.array([0]), np.array([128])
    assert names.fold_names(units, *every)[0].tolist() == expected
    longer = np.append(units, np.uint16(0x80))
    assert names.fold_names(longer, np.array([0]), np.array([129]))[0].tolist() == [*expected, 0x80]


@pytest.mark.parametrize(
    ("name", "plain", "folded"),
    [
        ("Ab", "Ab", "ab"),
        ("\u00c9", "E\u0301", "e\u0301"),
        ("x\u2126\u00c9", "x\u2126E\u0301", "x\u2126e\u0301"),  # the ohm sign is not folded
        ("a\u200db", "a\u200db", "ab"),  # a joiner is ignored if case is
        ("\0", "\0", "\uffff"),
    ],
)
def test_names_are_compared_decomposed(name, plain, folded):
    assert names.to_compared_form(name, is_folded=False) == plain
    assert names.to_compared_form(name, is_folded=True) == folded
