"""Keys in one common form, and their order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.filesystems.hfsplus import names
from layoutscope.filesystems.hfsplus.keys import Keys, _append_tails, misplaced, read_keys
from layoutscope.filesystems.hfsplus.nodes import FORMS
from layoutscope.structs.leaves import Texts
from tests.unit.hfsplus.written import find_misplaced


def numbers(*values):
    return np.array(values, np.int64)


def test_longest_keys_are_read_and_ignored_characters_dropped():
    # TN1150: 255 units in the catalog, 127 in attributes; two bytes per unit plus the fields before the name.
    assert FORMS["catalog"].max_length == FORMS["catalog"].fixed_length + 2 * 255 == 516
    assert FORMS["attributes"].max_length == FORMS["attributes"].fixed_length + 2 * 127 == 266
    assert FORMS["extents-overflow"].max_length == FORMS["extents-overflow"].fixed_length == 10
    # A joiner, U+200D, is ignored: the names are equal without it, and the next name follows it.
    keys = keys_of((1, "A\u200db"), (1, "aB"), (1, "\u200d"), (1, "C"))
    units, starts, counts = names.fold_names(keys.units, keys.start, keys.count)
    assert (starts.tolist(), counts.tolist()) == ([0, 2, 4, 4], [2, 2, 0, 1])
    assert units.tolist() == [ord(letter) for letter in "ababc"]
    assert find_misplaced(replace(keys, is_folded=True)) == [False, True, True, False]


WORDS = [
    "",
    "\0",
    "abcd\0",
    "abcd\0\0\0\0e",
    "a",
    "ab",
    "abc",
    "abcd",
    "abcde",
    "abcdefgh",
    "abcdefgi",
    "abcz",
    "b",
    "abcdefghi",
]


def keys_of(*pairs: tuple[int, str]) -> Keys:
    """Make keys from numbers and names, with units in native order."""
    counts = numbers(*(len(word) for _, word in pairs))
    units = np.frombuffer("".join(word for _, word in pairs).encode("utf-16-be"), np.uint16).astype(np.uint16)
    return Keys(
        numbers(*(number for number, _ in pairs)), names.swap_to_disk_order(units), np.cumsum(counts) - counts, counts
    )


def test_keys_compare_by_number_then_unit_by_unit():
    """The order is that of Python's (number, text) pairs, for names of every length around four units."""
    pairs = [(number, word) for number in (1, 2) for word in WORDS]
    keys = keys_of(*pairs)
    rows = list(itertools.product(range(len(pairs)), repeat=2))
    before, after = (numbers(*column) for column in zip(*rows, strict=True))
    expected = [pairs[second] <= pairs[first] for first, second in rows]
    assert keys.not_after(before, after).tolist() == expected
    # A key does not come after itself, and a prefix comes before longer keys.
    units = np.frombuffer("abcdeabcdef".encode("utf-16-le"), np.uint16)
    starts, counts, same = numbers(0, 5), numbers(5, 6), np.zeros(2, np.int64)
    keys = Keys(same, units, starts, counts)
    assert keys.not_after(numbers(0, 1), numbers(0, 0)).tolist() == [True, True]
    assert keys.not_after(numbers(0), numbers(1)).tolist() == [False]
    # Attribute 'a' with block 9 comes before 'a' with block 10 and before 'ab' with block 0.
    units = np.frombuffer("aaab".encode("utf-16-le"), np.uint16)
    joined, counts = _append_tails(units, numbers(1, 1, 2), [numbers(9, 10, 0)], has_name=True)
    starts = np.cumsum(counts) - counts
    same = np.zeros(3, np.int64)
    keys = Keys(same, joined, starts, counts)
    assert not keys.not_after(numbers(0, 1), numbers(1, 2)).any()
    assert keys.not_after(numbers(1, 2), numbers(0, 1)).all()


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], []),
        ([(1, "a")], [False]),
        ([(1, "a"), (1, "b"), (1, "a"), (1, "a"), (0, "z")], [False, False, True, True, True]),
        ([(1, "b"), (2, "a")], [False, False]),
    ],
)
def test_keys_are_misplaced_that_do_not_come_after_the_one_before(pairs, expected):
    assert find_misplaced(keys_of(*pairs)) == expected


@pytest.mark.parametrize(("is_folded", "expected"), [(True, [False, True, False]), (False, [False, False, False])])
def test_case_counts_where_names_are_not_folded(is_folded, expected):
    """B, a, c: by number, capitals come first; by letter, a comes before B."""
    text = Texts(np.frombuffer(bytearray(b"Bac"), np.uint8), np.array([1, 1, 1], np.uint32))
    others = Texts(np.empty(0, np.uint8), np.empty(0, np.uint32))
    kept = names.show_names(text, others, None)
    assert misplaced(numbers(1, 1, 1), *kept, is_folded=is_folded).tolist() == expected
    keys = keys_of((1, "B"), (1, "a"), (1, "c"))
    assert find_misplaced(replace(keys, is_folded=is_folded)) == expected


@pytest.mark.parametrize(
    ("tree", "raw", "ident", "units"),
    [
        # Length, number of the parent, units of the name, the name: catalog.
        ("catalog", "000A 00000012 0002 0061 0062", 0x12, [0x61, 0x62]),
        # Length, padding, file, first block, units, name: attributes. Units are incremented, and zero ends the name.
        ("attributes", "000E 0000 00000012 00030004 0001 0061", 0x12, [0x62, 0, 3, 4]),
        # Length, fork, padding, file, first block: extents.
        ("extents-overflow", "000A FF 00 00000012 00030004", 0x12, [0, 0xFF, 3, 4]),
    ],
)
def test_keys_are_read_from_their_bytes(tree, raw, ident, units):
    """The same key occurs twice; the second one begins where the first ends, padded to an even offset."""
    data = bytes.fromhex(raw)
    buffer = np.frombuffer(data + data, np.uint8)
    keys = read_keys(FORMS[tree], buffer, numbers(0, len(data)))
    assert keys.ident.tolist() == [ident, ident]
    assert keys.count.tolist() == [len(units)] * 2
    assert keys.start.tolist() == [0, len(units)]
    assert keys.units.tolist() == [*units, *units]
