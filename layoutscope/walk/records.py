"""Random records of a file, reproducible on any machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MASK = 2**64 - 1


def random_records(size_bytes: int, count: int, record_bytes: int, seed: int) -> NDArray[np.int64]:
    """Draw offsets of whole records with splitmix64.

    Parameters
    ----------
    size_bytes : int
        Length of the file; its incomplete last record is never drawn.
    count, record_bytes : int
        How many records, and their length.
    seed : int
        State at the start.

    Returns
    -------
    (count,) int64 array
        Offsets in bytes, multiples of `record_bytes`.

    Raises
    ------
    ValueError
        If the file is shorter than a record.

    References
    ----------
    .. [1] Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.

    Examples
    --------
    >>> random_records(2**40, 2, 4096, seed=1).tolist() == random_records(2**40, 2, 4096, seed=1).tolist()
    True
    """
    places = size_bytes // record_bytes
    if places < 1:
        raise ValueError(f"a file of {size_bytes} bytes has no record of {record_bytes}")
    state, drawn = seed & _MASK, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        drawn.append(_mixed(state) % places * record_bytes)
    return np.array(drawn, np.int64)


def _mixed(state: int) -> int:
    mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _MASK
    return mixed ^ (mixed >> 31)
