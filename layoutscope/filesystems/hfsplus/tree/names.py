"""Names: UTF-16 as it stands on the disk, and as people see them.

TN1150, "Unicode Subtleties". Names are decomposed and may hold any 16-bit unit: NULs, and halves of surrogate pairs.
A ``/`` on the disk stands for the ``:`` of Unix paths and is shown as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from layoutscope.arrays.ragged import ranges
from layoutscope.tables import series

if TYPE_CHECKING:
    import polars as pl

    from layoutscope.arrays.columns import I64, U8
    from layoutscope.ondisk.leaves import Texts

Units: TypeAlias = NDArray[np.uint16]
_Number = TypeVar("_Number", np.uint16, np.uint64)

UNIT_BYTES: Final = 2
ENCODING: Final = "utf-16-be"

_SLASH, _COLON = ord("/"), ord(":")
_REPLACEMENT: Final = 0xFFFD
_ASCII_LAST, _TWO_BYTES_LAST = 0x7F, 0x7FF
_IS_LITTLE: Final = bool(np.array([1], np.uint16).view(np.uint8)[0])
_HIGH_FIRST, _LOW_FIRST, _LOW_LAST = 0xD800, 0xDC00, 0xDFFF


def gather(buffer: U8, starts: I64, counts: I64) -> Units:
    """Concatenate names of a buffer.

    Parameters
    ----------
    buffer : (n_bytes,) uint8 array
        An even number of bytes.
    starts : (n,) int64 array
        Where each name starts, in bytes; even, as keys are.
    counts : (n,) int64 array
        Lengths in 16-bit units.

    Returns
    -------
    (sum of counts,) uint16 array
        In native byte order.
    """
    return in_disk_order(buffer.view(np.uint16)[ranges(starts // UNIT_BYTES, counts)])


def shown(units: Units) -> str:
    """Decode one name; halves of surrogate pairs without the other half are replaced."""
    return units.tobytes().decode("utf-16-le" if _IS_LITTLE else ENCODING, "replace")


def in_disk_order(numbers: NDArray[_Number]) -> NDArray[_Number]:
    """Turn big-endian numbers into native ones, and back."""
    return numbers.byteswap() if _IS_LITTLE else numbers


class StoredNames(NamedTuple):
    """Names as they stand on the disk.

    Attributes
    ----------
    data : (n_bytes,) uint8 array
        Big-endian UTF-16.
    start, length : (n,) int64 arrays
        Where each name lies among these, in bytes.
    """

    data: U8
    start: I64
    length: I64


def shown_series(name: str, texts: Texts) -> pl.Series:
    """Make a text column of names in UTF-8, in which ``/`` becomes ``:``."""
    texts.data[texts.data == _SLASH] = _COLON
    return series.cut(name, texts.data, texts.length.astype(np.int64), "text")


def stored_series(name: str, texts: Texts) -> pl.Series:
    """Make a binary column of names as they are stored."""
    return series.cut(name, texts.data, texts.length.astype(np.int64), "binary")


def text_series(name: str, units: Units, counts: I64) -> pl.Series:
    """Decode concatenated UTF-16 names into a text column.

    Parameters
    ----------
    name : str
        Of the column.
    units : (n_units,) uint16 array
        All names, one after the other, in native byte order.
    counts : (n,) int64 array
        Their lengths in units.

    Returns
    -------
    polars.Series of String
        ``/`` became ``:``; a surrogate without its other half became U+FFFD.
    """
    utf8, lengths = _utf8(units, counts)
    utf8[utf8 == _SLASH] = _COLON
    return series.cut(name, utf8, lengths, "text")


def _utf8(units: Units, counts: I64) -> tuple[U8, I64]:
    """Encode names as UTF-8: their bytes, and the length of each."""
    wide = np.flatnonzero(units > _ASCII_LAST)
    if not len(wide):
        return units.astype(np.uint8), counts
    stops = np.cumsum(counts)
    whole = units.copy()
    _replace_lone_surrogates(whole, wide, stops)
    text = whole.tobytes().decode("utf-16-le" if _IS_LITTLE else ENCODING).encode()
    further = _further_bytes(whole[wide], np.searchsorted(stops, wide, side="right"), len(counts))
    return np.frombuffer(bytearray(text), np.uint8), counts + further


def _replace_lone_surrogates(units: Units, wide: I64, stops: I64) -> None:
    """Replace halves of pairs whose other half is missing, or belongs to another name."""
    places = wide[(units[wide] >= _HIGH_FIRST) & (units[wide] <= _LOW_LAST)]
    if not len(places):
        return
    owner = np.searchsorted(stops, places, side="right")
    is_high = units[places] < _LOW_FIRST
    follows = np.zeros(len(places), np.bool_)
    follows[:-1] = (np.diff(places) == 1) & (np.diff(owner) == 0) & is_high[:-1] & ~is_high[1:]
    is_paired = follows.copy()
    is_paired[1:] |= follows[:-1]
    units[places[~is_paired]] = _REPLACEMENT


def _further_bytes(units: Units, owner: I64, num_names: int) -> I64:
    """Bytes that names take in UTF-8 beyond one a unit: 1 for each half of a pair, which takes 4 in all."""
    is_half = (units >= _HIGH_FIRST) & (units <= _LOW_LAST)
    further = np.int64(1) + ((units > _TWO_BYTES_LAST) & ~is_half)
    return np.bincount(owner, weights=further, minlength=num_names).astype(np.int64)


def equals(buffer: U8, starts: I64, counts: I64, name: str) -> NDArray[np.bool_]:
    """Say which names of a buffer are this one.

    Parameters
    ----------
    buffer : (n_bytes,) uint8 array
        An even number of bytes.
    starts : (n,) int64 array
        Where each name starts, in bytes; even, as keys are.
    counts : (n,) int64 array
        Lengths in 16-bit units.
    name : str
        Compared unit by unit, with its case; it has no character beyond the first 65,536.

    Returns
    -------
    (n,) bool array
    """
    wanted = np.array([ord(character) for character in name], np.uint16)
    found: NDArray[np.bool_] = counts == len(wanted)
    candidates = np.flatnonzero(found)
    if len(candidates):
        units = gather(buffer, starts[candidates], counts[candidates]).reshape(-1, len(wanted))
        found[candidates] = (units == wanted).all(axis=1)
    return found
