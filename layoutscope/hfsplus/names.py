"""Names: UTF-16 as it stands on the disk, and as people see them.

TN1150, "Unicode Subtleties". Names are decomposed and may hold any 16-bit unit: NULs, and halves of surrogate pairs.
A ``/`` on the disk stands for the ``:`` of Unix paths and is shown as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from layoutscope.hfsplus.arrays import I64, U8, ragged

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNIT_BYTES: Final = 2
ENCODING: Final = "utf-16-be"

_SLASH, _COLON = ord("/"), ord(":")
_REPLACEMENT: Final = 0xFFFD
_HIGH_FIRST, _LOW_FIRST, _LOW_LAST = 0xD800, 0xDC00, 0xDFFF


def gather(buffer: U8, starts: I64, lengths_bytes: I64) -> U8:
    """Concatenate byte ranges of a buffer."""
    return buffer[ragged(starts, lengths_bytes)]


def raw_series(name: str, data: U8, lengths_bytes: I64) -> pl.Series:
    """Cut concatenated bytes into a binary column; the values share one buffer."""
    stops = np.cumsum(lengths_bytes)
    frame = pl.DataFrame({"start": stops - lengths_bytes, "length": lengths_bytes})
    column = pl.lit(data.tobytes(), dtype=pl.Binary).bin.slice("start", "length").alias(name)
    return frame.select(column).to_series() if len(frame) else pl.Series(name, [], dtype=pl.Binary)


def text_series(name: str, original: NDArray[np.uint16], lengths: I64) -> pl.Series:
    """Decode concatenated UTF-16 names into a text column.

    Parameters
    ----------
    name : str
        Of the column.
    original : (n_units,) uint16 array
        All names, one after the other, from :func:`units_of`.
    lengths : (n,) int64 array
        Their lengths in units.

    Returns
    -------
    polars.Series of String
        ``/`` became ``:``; a surrogate without its other half became U+FFFD.
    """
    units = original.copy()
    units[units == _SLASH] = _COLON
    _replace_lone_surrogates(units, lengths)
    text = units.tobytes().decode("utf-16-le" if _IS_LITTLE else ENCODING)
    utf8 = np.frombuffer(text.encode(), np.uint8)
    return raw_series(name, utf8, _utf8_lengths(units, lengths)).cast(pl.String)


_IS_LITTLE: Final = np.array([1], np.uint16).view(np.uint8)[0] == 1


def units_of(data: U8) -> NDArray[np.uint16]:
    """Return concatenated names as 16-bit numbers in native order."""
    pairs = data.reshape(-1, UNIT_BYTES).astype(np.uint16)
    return (pairs[:, 0] << np.uint16(8)) | pairs[:, 1]


def _replace_lone_surrogates(units: NDArray[np.uint16], lengths: I64) -> None:
    places = np.flatnonzero((units >= _HIGH_FIRST) & (units <= _LOW_LAST))
    if not len(places):
        return
    owner = np.searchsorted(np.cumsum(lengths), places, side="right")
    is_high = units[places] < _LOW_FIRST
    follows = np.zeros(len(places), np.bool_)
    follows[:-1] = (np.diff(places) == 1) & (np.diff(owner) == 0) & is_high[:-1] & ~is_high[1:]
    is_paired = follows.copy()
    is_paired[1:] |= follows[:-1]
    units[places[~is_paired]] = _REPLACEMENT


def _utf8_lengths(units: NDArray[np.uint16], lengths: I64) -> I64:
    """Length of each name in UTF-8; a surrogate pair takes 4 bytes, 2 for each half."""
    is_half = (units >= _HIGH_FIRST) & (units <= _LOW_LAST)
    sizes = np.int64(1) + (units > 0x7F) + ((units > 0x7FF) & ~is_half)
    running = np.concatenate([[0], np.cumsum(sizes)])
    stops = np.cumsum(lengths)
    found: I64 = running[stops] - running[stops - lengths]
    return found


def equals(buffer: U8, starts: I64, lengths_bytes: I64, name: str) -> NDArray[np.bool_]:
    """Say which byte ranges hold exactly this name."""
    wanted = np.frombuffer(name.encode(ENCODING), np.uint8)
    found: NDArray[np.bool_] = lengths_bytes == len(wanted)
    candidates = np.flatnonzero(found)
    if len(candidates):
        data = gather(buffer, starts[candidates], lengths_bytes[candidates]).reshape(-1, len(wanted))
        found[candidates] = (data == wanted).all(axis=1)
    return found
