"""Keys of B-trees: as they are read, and compared with each other.

TN1150, "Keyed Records" and "Unicode Subtleties". A key has a number that is compared first, then units: those of a
name, or of the numbers that follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus import names
from layoutscope.filesystems.hfsplus.names import UNIT_BYTES, case_table
from layoutscope.structs.arrays import starts_of
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.names import Places
    from layoutscope.filesystems.hfsplus.nodes import RecordForm
    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.leaves import Texts
    from layoutscope.tables import TextColumn


_UNIT_BITS: Final = 16
_UNIT_MASK: Final = (1 << _UNIT_BITS) - 1
_PAIRS_AT_ONCE: Final = 1 << 16


MISPLACED_NAMES: Final = Kernel("misplaced_names", "lblibliiB")


class Keys(Struct, frozen=True):
    """Keys of records."""

    ident: I64  # the number that is compared first
    units: NDArray[np.uint16]  # the units that are compared second, key by key
    # start, count: range of each key's units
    start: I64
    count: I64
    is_folded: bool = False  # whether the units are those of names that are compared without regard to case

    def not_after(self, before: I64, after: I64) -> Mask:
        """Return, for each pair of rows, whether the second key fails to follow the first."""
        stored, none = names.swap_to_disk_order(self.units).view(np.uint8), np.empty(0, np.uint8)
        wrong = np.empty(len(before), np.bool_)
        for first in range(0, len(before), _PAIRS_AT_ONCE):
            part = slice(first, first + _PAIRS_AT_ONCE)
            # Every row is compared with the previous one, so every second result belongs to a pair.
            rows = np.column_stack([before[part], after[part]]).ravel()
            # No name is in display form: all are as stored.
            start, length = UNIT_BYTES * self.start[rows], (UNIT_BYTES * self.count[rows]).astype(np.int32)
            places = (none, np.zeros_like(start), np.zeros_like(length), stored, start, length)
            wrong[part] = _compare(self.ident[rows], places, is_folded=self.is_folded)[1::2]
        return wrong


def misplaced(ident: I64, display_names: TextColumn, others: Texts, *, is_folded: bool) -> Mask:
    """Mark the keys that do not follow the previous key; names are given as :func:`names.show_names` returns them."""
    return _compare(ident, names.place_names(display_names, others), is_folded=is_folded)


def _compare(ident: I64, places: Places, *, is_folded: bool) -> Mask:
    """Mark the keys that do not follow the previous key, by the places of their names."""
    wrong = np.empty(len(ident), np.bool_)
    table = case_table().astype(np.int32) if is_folded else np.empty(0, np.int32)
    MISPLACED_NAMES(ident, *places, table, wrong.view(np.uint8))
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
