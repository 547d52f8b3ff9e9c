"""Keys of all B-trees in one form, and their order, so that it is checked in one way.

TN1150, "Catalog File", "Extents Overflow File", "Attributes File", "Hot Files". A key becomes a number and a
string of 16-bit units that compare as the key does. "Case-Insensitive String Comparison Algorithm" and "HFSX": names
compare by their units; on HFS+ volumes, and on HFSX volumes that say so, after folding letters to lower case and
leaving out ignorable characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.ragged import starts_of
from layoutscope.filesystems.hfsplus.tree import names
from layoutscope.filesystems.hfsplus.tree.folding import case_table, folded_names
from layoutscope.filesystems.hfsplus.tree.nodes import LENGTH_BYTES
from layoutscope.frozen import frozen
from layoutscope.native import Kernel
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import (
    ATTRIBUTE_KEY,
    ATTRIBUTE_RECORD_TYPE,
    CATALOG_KEY,
    CATALOG_RECORD_TYPE,
    EXTENT_KEY,
    HOT_FILE_KEY,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8, Mask
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.recordtypes import RecordColumn, RecordType


_LIMIT = grammar.HfsplusBtree.KeyLengthLimit
_UNIT_BITS: Final = 16
_UNIT_MASK: Final = (1 << _UNIT_BITS) - 1
_WORD_UNITS: Final = 4
_MASKS: Final = np.array([0, *(~0 << shift & (1 << 64) - 1 for shift in (48, 32, 16, 0))], np.uint64)
"""Of a word, the part that so many units fill."""


MISPLACED_NAMES: Final = Kernel("misplaced_names", "lblibliiB")


@frozen
class KeyForm:
    """What a tree's keys are made of."""

    key_type: RecordType  # what precedes the name
    ident: RecordColumn  # the field that comes first in the order
    tail: tuple[RecordColumn, ...]  # numbers that come after the name, or in its place
    max_length: int | None  # longest key without its length field; None where the tree's header decides
    has_name: bool  # whether the key ends with a name
    record_types: RecordType | None = None  # what a leaf record's data start with; None where records have no type

    @property
    def fixed_length(self) -> int:
        """Length of a key without a name, as its length field has it."""
        return self.key_type.width - LENGTH_BYTES


FORMS: Final = {
    "catalog": KeyForm(
        CATALOG_KEY,
        CATALOG_KEY.parent_id,
        (),
        int(_LIMIT.catalog),
        has_name=True,
        record_types=CATALOG_RECORD_TYPE,
    ),
    "attributes": KeyForm(
        ATTRIBUTE_KEY,
        ATTRIBUTE_KEY.file_id,
        (ATTRIBUTE_KEY.start_block,),
        int(_LIMIT.attributes),
        has_name=True,
        record_types=ATTRIBUTE_RECORD_TYPE,
    ),
    "extents-overflow": KeyForm(
        EXTENT_KEY,
        EXTENT_KEY.file_id,
        (EXTENT_KEY.fork_type, EXTENT_KEY.start_block),
        int(_LIMIT.extents_overflow),
        has_name=False,
    ),
    "hot-files": KeyForm(
        HOT_FILE_KEY, HOT_FILE_KEY.temperature, (HOT_FILE_KEY.file_id, HOT_FILE_KEY.fork_type), None, has_name=False
    ),
}
"""Keys by tree."""


@frozen
class Keys:
    """Keys of records."""

    ident: I64  # what comes first in the order
    units: NDArray[np.uint16]  # what comes second, one key after the other
    # start, count: where each key's units lie
    start: I64
    count: I64

    def not_after(self, before: I64, after: I64) -> Mask:
        """Say of pairs of rows whether the second key fails to come after the first."""
        wrong: Mask = self.ident[after] < self.ident[before]
        padded = np.concatenate([names.in_disk_order(self.units), np.zeros(_WORD_UNITS, np.uint16)])
        active = np.flatnonzero(self.ident[after] == self.ident[before])
        depth = 0
        while len(active):
            one, other = before[active], after[active]
            first, second = (_words(padded, self.start[rows], self.count[rows], depth) for rows in (one, other))
            wrong[active[first > second]] = True
            same = first == second
            depth += _WORD_UNITS
            ended = same & ((self.count[other] <= depth) | (self.count[one] <= depth))
            wrong[active[ended]] |= self.count[one[ended]] >= self.count[other[ended]]
            active = active[same & ~ended]
        return wrong

    def misplaced(self) -> Mask:
        """Say which keys do not come after the key before them."""
        rows = np.arange(1, len(self.ident), dtype=np.int64)
        return np.append(np.zeros(min(1, len(self.ident)), np.bool_), self.not_after(rows - 1, rows))


def misplaced(ident: I64, kept: names.KeptNames, *, is_folded: bool) -> Mask:
    """Say which keys do not come after the key before them."""
    wrong = np.empty(len(ident), np.bool_)
    table = case_table().astype(np.int32) if is_folded else np.empty(0, np.int32)
    if MISPLACED_NAMES(ident, *kept.placed(), table, wrong.view(np.uint8)) is not None:
        return wrong
    stored = names.stored(kept.stored(), kept.shown.rows)
    units = names.in_disk_order(stored.data.view(np.uint16))
    keys = Keys(ident, units, stored.start // names.UNIT_BYTES, stored.length // names.UNIT_BYTES)
    return (without_case(keys) if is_folded else keys).misplaced()


def read_keys(
    decoder: Decoder,
    form: KeyForm,
    buffer: U8,
    key: I64,  # where each key starts, at its length field; even, in bytes from the start of the buffer
) -> Keys:
    """Read keys that lie in a buffer as a whole."""
    length = (form.key_type.column("num_name_units"),) if form.has_name else ()
    columns = decoder.columns(form.key_type, buffer, key, (form.ident, *form.tail, *length))
    found = {name: values.astype(np.int64) for name, values in columns.items()}
    counts = found["num_name_units"] if form.has_name else np.zeros(len(key), np.int64)
    units = names.gather(buffer, key + form.key_type.width, counts)
    if form.tail:
        units, counts = _with_tail(units, counts, [found[name] for name in form.tail], has_name=form.has_name)
    return Keys(found[form.ident], units, starts_of(counts), counts)


def _with_tail(
    units: NDArray[np.uint16], counts: I64, tail: Sequence[I64], *, has_name: bool
) -> tuple[NDArray[np.uint16], I64]:
    """Put numbers behind names; names end with a unit that comes before all others."""
    # Fork and first block come behind the number: an attribute or fork in many extents has a record for every eight.
    words = [part for value in tail for part in (value >> _UNIT_BITS, value & _UNIT_MASK)]
    if has_name:
        # A name comes before all that begin with it, so what ends it must be less than any unit: all move up by one.
        # U+FFFF, which would leave 16 bits, is no character.
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


def joined_keys(parts: Sequence[Keys]) -> Keys:
    """Join keys of several batches."""
    none = np.empty(0, np.int64)
    counts = np.concatenate([none, *(part.count for part in parts)])
    return Keys(
        np.concatenate([none, *(part.ident for part in parts)]),
        np.concatenate([np.empty(0, np.uint16), *(part.units for part in parts)]),
        starts_of(counts),
        counts,
    )


def without_case(keys: Keys) -> Keys:
    """Fold the names of keys, as volumes do that do not tell cases apart."""
    return Keys(keys.ident, *folded_names(keys.units, keys.start, keys.count))


def _words(padded: NDArray[np.uint16], starts: I64, lengths: I64, depth: int) -> NDArray[np.uint64]:
    """Take four units of each name, from a depth on, as a number that compares as they do."""
    every = np.ndarray((len(padded) - _WORD_UNITS + 1,), np.uint64, padded, strides=(padded.itemsize,))
    words = names.in_disk_order(every[np.minimum(starts + depth, len(every) - 1)])
    return words & _MASKS[np.clip(lengths - depth, 0, _WORD_UNITS)]
