"""Keys of B-trees: as they are read, compared with each other, and folded where a volume ignores case.

TN1150, "Keyed Records" and "Unicode Subtleties". A key has a number that is compared first, then units: those of a
name, or of the numbers that follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus import names
from layoutscope.filesystems.hfsplus.names import case_table, fold_names
from layoutscope.structs.arrays import starts_of
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.nodes import RecordForm
    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.leaves import Texts
    from layoutscope.tables import TextColumn


_UNIT_BITS: Final = 16
_UNIT_MASK: Final = (1 << _UNIT_BITS) - 1
_WORD_UNITS: Final = 4
_PAIRS_AT_ONCE: Final = 1 << 16
_MASKS: Final = np.array([0, *(~0 << shift & (1 << 64) - 1 for shift in (48, 32, 16, 0))], np.uint64)
"""Masks that keep the given number of units of a word."""


MISPLACED_NAMES: Final = Kernel("misplaced_names", "lblibliiB")


class Keys(Struct, frozen=True):
    """Keys of records."""

    ident: I64  # the number that is compared first
    units: NDArray[np.uint16]  # the units that are compared second, key by key
    # start, count: range of each key's units
    start: I64
    count: I64

    def not_after(self, before: I64, after: I64) -> Mask:
        """Return, for each pair of rows, whether the second key fails to follow the first."""
        padded = np.append(self.units, np.zeros(_WORD_UNITS, np.uint16))
        wrong = np.empty(len(before), np.bool_)
        for start in range(0, len(before), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            wrong[part] = self._not_after(padded, before[part], after[part])
        return wrong

    def _not_after(self, padded: NDArray[np.uint16], before: I64, after: I64) -> Mask:
        # A name precedes longer names that start with it, so if all words are equal, the lengths decide.
        wrong: Mask = self.count[before] >= self.count[after]

        def decide(rows: I64, first: NDArray[Any], second: NDArray[Any]) -> I64:
            """Set the result of the rows that differ; return the others."""
            wrong[rows[first > second]] = True
            wrong[rows[first < second]] = False
            left: I64 = rows[first == second]
            return left

        rows = decide(np.arange(len(before)), self.ident[before], self.ident[after])
        for depth in range(0, int(self.count[after].max(initial=0)), _WORD_UNITS):
            words = (_words(padded, self.start[at], self.count[at], depth) for at in (before[rows], after[rows]))
            rows = decide(rows, *words)
        return wrong


def misplaced(ident: I64, display_names: TextColumn, others: Texts, *, is_folded: bool) -> Mask:
    """Mark the keys that do not follow the previous key; names are given as :func:`names.show_names` returns them."""
    wrong = np.empty(len(ident), np.bool_)
    table = case_table().astype(np.int32) if is_folded else np.empty(0, np.int32)
    MISPLACED_NAMES(ident, *names.place_names(display_names, others), table, wrong.view(np.uint8))
    return wrong


def read_keys(
    form: RecordForm,
    buffer: U8,
    key: I64,  # start of each key, at its length field, in bytes from the start of the buffer; even
) -> Keys:
    """Read keys that are completely in a buffer."""
    length = (form.key_type.column("num_name_units"),) if form.has_name else ()
    columns = decode_columns(form.key_type, buffer, key, (form.ident, *form.tail, *length))
    found = {name: values.astype(np.int64) for name, values in columns.items()}
    counts = found["num_name_units"] if form.has_name else np.zeros(len(key), np.int64)
    units = names.gather(buffer, key + form.key_type.width, counts)
    if form.tail:
        units, counts = _append_tails(units, counts, [found[name] for name in form.tail], has_name=form.has_name)
    return Keys(found[form.ident], units, starts_of(counts), counts)


def _append_tails(
    units: NDArray[np.uint16], counts: I64, tail: Sequence[I64], *, has_name: bool
) -> tuple[NDArray[np.uint16], I64]:
    """Append numbers to names; a unit that sorts before all others terminates each name."""
    # The fork and first block follow the number: an attribute or fork with many extents has one record per eight.
    words = [part for value in tail for part in (value >> _UNIT_BITS, value & _UNIT_MASK)]
    if has_name:
        # A name precedes all longer names that start with it, so its terminator must be less than any unit: all units
        # are raised by one. U+FFFF, which would exceed 16 bits, is not a character.
        units = np.minimum(units, np.uint16(_UNIT_MASK - 1)) + np.uint16(1)
        words.insert(0, np.zeros(len(counts), np.int64))
    longer = counts + len(words)
    ends = np.cumsum(longer)
    joined = np.empty(int(longer.sum()), np.uint16)
    is_name = np.ones(len(joined), np.bool_)
    for place, word in enumerate(words):
        at = ends - len(words) + place
        joined[at] = word
        is_name[at] = False
    joined[is_name] = units
    return joined, longer


def join_keys(parts: Sequence[Keys]) -> Keys:
    """Join keys of several batches."""
    none = np.empty(0, np.int64)
    counts = np.concatenate([none, *(part.count for part in parts)])
    return Keys(
        np.concatenate([none, *(part.ident for part in parts)]),
        np.concatenate([np.empty(0, np.uint16), *(part.units for part in parts)]),
        starts_of(counts),
        counts,
    )


def fold_case(keys: Keys) -> Keys:
    """Fold the names of keys, as on volumes that ignore case."""
    return Keys(keys.ident, *fold_names(keys.units, keys.start, keys.count))


def _words(padded: NDArray[np.uint16], starts: I64, lengths: I64, depth: int) -> NDArray[np.uint64]:
    """Return four units of each name from a depth on, as a number with the same sort order."""
    at = np.minimum(starts + depth, len(padded) - _WORD_UNITS)
    words = np.zeros(len(at), np.uint64)
    for place in range(_WORD_UNITS):
        words = words << np.uint64(_UNIT_BITS) | padded[at + place]
    return words & _MASKS[np.clip(lengths - depth, 0, _WORD_UNITS)]
