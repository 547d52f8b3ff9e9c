from __future__ import annotations

import hashlib

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.filesystems.hfsplus.keys import Keys
from layoutscope.filesystems.hfsplus.names import case_table
from tests.unit.hfsplus.written import find_misplaced


def keys(*items):
    """Make keys from parents and names."""
    text = "".join(name for _, name in items)
    units = np.frombuffer(text.encode("utf-16-be"), np.uint8).reshape(-1, 2).astype(np.uint16)
    lengths = np.array([len(name) for _, name in items])
    parents = np.array([parent for parent, _ in items])
    return Keys(parents, units[:, 0] << 8 | units[:, 1], np.cumsum(lengths) - lengths, lengths)


@pytest.mark.parametrize(
    ("first", "second", "binary_wrong", "folded_wrong"),
    [
        ("a", "b", False, False),
        ("B", "a", False, True),
        ("a", "B", True, False),
        ("abcd", "abcde", False, False),
        ("abcde", "abcd", True, True),
        ("longer name 1", "longer name 2", False, False),
        ("longer name 2", "longer name 1", True, True),
        ("same", "same", True, True),
        ("Same", "same", False, True),
        ("a\u200cb", "ac", True, False),
        ("\u0391", "\u03b2", False, False),
        ("\u0392", "\u03b1", False, True),
    ],
)
def test_second_key_is_misplaced(first, second, binary_wrong, folded_wrong):
    """Keys of one folder compare by their units, or by folded units without ignorable ones."""
    found = keys((5, first), (5, second))
    assert find_misplaced(found) == [False, binary_wrong]
    assert find_misplaced(replace(found, is_folded=True)) == [False, folded_wrong]


def test_folders_come_in_the_order_of_their_ids():
    """The parent is compared before the name."""
    found = keys((5, "b"), (6, "a"), (4, "z"))
    assert find_misplaced(found) == [False, False, True]
    # Names that start with NULs, such as that of the private directory, come after all others.
    found = keys((2, "zebra"), (2, "\0\0\0\0HFS+ Private Data"))
    assert find_misplaced(replace(found, is_folded=True)) == [False, False]


def test_folding_is_that_of_the_table():
    """Units fold as the table says, letters that decompose keep their case."""
    # Accented capitals are stored decomposed, so the table need not fold them.
    table = case_table()
    pairs = {
        "A": "a",
        "Z": "z",
        "\u00c0": "\u00c0",
        "\u00c6": "\u00e6",
        "\u00d7": "\u00d7",
        "\u10a0": "\u10d0",
        "\u2160": "\u2170",
    }
    assert {chr(code): chr(table[code]) for code in map(ord, pairs)} == pairs
    # The hash covers the 65,536 units that Apple's published driver compares (hfs-715.100.10).
    digest = hashlib.sha256(case_table().astype("<u2").tobytes()).hexdigest()
    assert digest == "8822b421f70ca541cf22d916cee5c409ce582610e1f1184622fdd6aa7a7a2253"


@pytest.mark.parametrize("letter", ["\u04d8", "\u04e8", "\u0370", "\u03f9", "\u0500", "\u10c7", "\u2132", "\u01f6"])
def test_letters_younger_than_the_table_keep_their_case(letter):
    """Common Kazakh, Tatar and Mongolian letters are newer than Unicode 2: a sound folder with them is in order."""
    found = keys((5, letter + "b"), (5, letter.lower() + "a"))
    assert case_table()[ord(letter)] == ord(letter)
    assert find_misplaced(replace(found, is_folded=True)) == [False, ord(letter) > ord(letter.lower())]
