"""Keys of all B-trees in one form, so that order is checked in one way.

TN1150, "Catalog File", "Extents Overflow File", "Attributes File", "Hot Files". A key becomes a number and a
string of 16-bit units that compare as the key does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.ragged import starts_of
from layoutscope.filesystems.hfsplus.tree import names
from layoutscope.filesystems.hfsplus.tree.keyorder import folded, not_after
from layoutscope.filesystems.hfsplus.tree.records import LENGTH_BYTES
from layoutscope.ondisk import bulk, grammar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8, Mask
    from layoutscope.filesystems.hfsplus.decoding import Decoder

_LIMIT = grammar.HfsplusBtree.KeyLengthLimit
_UNIT_BITS: Final = 16
_UNIT_MASK: Final = (1 << _UNIT_BITS) - 1


@dataclass(frozen=True, slots=True)
class KeyForm:
    """What a tree's keys are made of.

    Attributes
    ----------
    type_name : str
        Full name of the grammar type.
    ident : str
        The field that comes first in the order.
    tail : tuple of str
        Numbers that come after the name, or in its place.
    max_length : int or None
        Longest key without its length field; None where the tree's header decides.
    has_name : bool
        Whether the key ends with a name.
    record_types : str
        Full name of the type at the start of a leaf record; empty where records have no type.
    """

    type_name: str
    ident: str
    tail: tuple[str, ...]
    max_length: int | None
    has_name: bool
    record_types: str = ""

    @property
    def fixed_length(self) -> int:
        """Length of a key without a name, as its length field has it."""
        return bulk.size(self.type_name) - LENGTH_BYTES


FORMS: Final = {
    "catalog": KeyForm(
        "hfsplus_catalog.catalog_key", "parent_id", (), int(_LIMIT.catalog), has_name=True,
        record_types="hfsplus_catalog.catalog_record_type",
    ),
    "attributes": KeyForm(
        "hfsplus_attributes.attribute_key", "file_id", ("start_block",), int(_LIMIT.attributes), has_name=True,
        record_types="hfsplus_attributes.attribute_record_type",
    ),
    "extents-overflow": KeyForm(
        "hfsplus_extents.extent_key", "file_id", ("fork_type", "start_block"), int(_LIMIT.extents_overflow),
        has_name=False,
    ),
    "hot-files": KeyForm(
        "hfsplus_hotfiles.hot_file_key", "temperature", ("file_id", "fork_type"), None, has_name=False
    ),
}  # fmt: skip
"""Keys by tree."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of records.

    Attributes
    ----------
    ident : (n,) int64 array
        What comes first in the order.
    units : (n_units,) uint16 array
        What comes second, one key after the other.
    start, count : (n,) int64 arrays
        Where each key's units lie.
    """

    ident: I64
    units: NDArray[np.uint16]
    start: I64
    count: I64

    def not_after(self, before: I64, after: I64) -> Mask:
        """Say of pairs of rows whether the second key fails to come after the first."""
        return not_after(self.ident, self.units, self.start, self.count, before, after)


def read_keys(decoder: Decoder, form: KeyForm, buffer: U8, key: I64) -> Keys:
    """Read keys that lie in a buffer as a whole."""
    fields = (form.ident, *form.tail, *(("name_length",) if form.has_name else ()))
    found = {
        name: values.astype(np.int64) for name, values in decoder.columns(form.type_name, buffer, key, fields).items()
    }
    counts = found["name_length"] if form.has_name else np.zeros(len(key), np.int64)
    units = names.gather(buffer, key + bulk.size(form.type_name), counts)
    if form.tail:
        units, counts = _with_tail(units, counts, [found[name] for name in form.tail], has_name=form.has_name)
    return Keys(found[form.ident], units, starts_of(counts), counts)


def _with_tail(
    units: NDArray[np.uint16], counts: I64, tail: Sequence[I64], *, has_name: bool
) -> tuple[NDArray[np.uint16], I64]:
    """Put numbers behind names; names end with a unit that comes before all others."""
    words = [part for value in tail for part in (value >> _UNIT_BITS, value & _UNIT_MASK)]
    if has_name:
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


def joined(parts: Sequence[Keys]) -> Keys:
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
    return Keys(keys.ident, *folded(keys.units, keys.start, keys.count))
