"""Between which times a prediction lies: quantiles of its draws, and what contributes to their spread."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Displayed
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
LAYOUT, VOLUME = "layout", "volume"
"""Of what an interval is: of this very layout on a drive like that, or of a volume like that, placed in other ways."""


@frozen
class Interval(Displayed):
    """Between which times a prediction lies.

    Attributes
    ----------
    of : str
        ``layout``: this layout, on a drive like that. ``volume``: a volume like that, of which nobody knows how its
        nodes came to lie.
    low_s, quarter_s, median_s, three_quarters_s, high_s : float
        Quantiles of the draws at 5, 25, 50, 75 and 95 %: half of them lie within the inner two, 90 % within the outer.
    shares : tuple of (str, float)
        What contributes, by group of inputs, the most first: shares of the variance of the time's logarithm, at most 1
        together. What is left belongs to no single one.
    draws : int
        How many drives were tried.
    """

    of: str
    low_s: float
    quarter_s: float
    median_s: float
    three_quarters_s: float
    high_s: float
    shares: tuple[tuple[str, float], ...]
    draws: int

    @property
    def ratio(self) -> float:
        """How many times the lower end the upper end is."""
        return self.high_s / self.low_s if self.low_s else 1.0

    def reaching(self, seconds: float) -> Interval:
        """Return it with ends that hold the time of the drive as its profile stands."""
        return replace(self, low_s=min(self.low_s, seconds), high_s=max(self.high_s, seconds))


def interval_of(
    seconds: NDArray[np.float64], columns: Mapping[str, tuple[str, NDArray[Any]]], of: str = LAYOUT
) -> Interval:
    """Make an interval of draws.

    Parameters
    ----------
    seconds : (n_draws,) float64 array
        The time of each draw.
    columns : mapping of str to (str, (n_draws,) array)
        Inputs with their groups and values.
    of : str
        `LAYOUT` or `VOLUME`.
    """
    low, quarter, median, three_quarters, high = quantiles(seconds).tolist()
    shares = contributions(seconds, columns)
    return Interval(of, low, quarter, median, three_quarters, high, shares, len(seconds))


def quantiles(seconds: F64, shares: Sequence[float] = QUANTILES) -> F64:
    """Return what lies at shares of the draws, in straight lines between them.

    Parameters
    ----------
    seconds : (n_draws,) float64 array
        The time of each draw.
    shares : sequence of float
        From 0, the least, to 1, the most.

    Returns
    -------
    (n_shares,) float64 array
    """
    ordered = sorted(seconds.tolist())
    return np.array([_quantile(ordered, share) for share in shares])


def _quantile(ordered: list[float], share: float) -> float:
    """Do as ``numpy.quantile``, which loads masked arrays first: that takes longer than all intervals of a scan."""
    before, part = divmod((len(ordered) - 1) * share, 1)
    low, high = ordered[int(before)], ordered[min(int(before) + 1, len(ordered) - 1)]
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def contributions(
    seconds: NDArray[np.float64], columns: Mapping[str, tuple[str, NDArray[Any]]]
) -> tuple[tuple[str, float], ...]:
    """Return the share of the variance of the logarithm that each group of inputs explains, the largest first.

    Least squares on the logarithms of the inputs, words as choices; what as many inputs that change nothing would have
    explained by chance is taken off. What groups explain together, because few draws let one stand for another, is
    parted among them evenly: by the mean, over all orders in which they can be taken in, of what each adds (Shapley's
    value). So no share is below 0, and all of them together are at most the whole.

    Parameters
    ----------
    seconds : (n_draws,) float64 array
        The time of each draw.
    columns : mapping of str to (str, (n_draws,) array)
        Inputs with their groups and values.

    References
    ----------
    .. [1] R. H. Lindeman, P. F. Merenda, R. Z. Gold, "Introduction to bivariate and multivariate analysis", 1980.
    """
    log = np.log(np.maximum(seconds, 1e-12))
    log = log - log.mean()
    # Of times that agree to a millionth, nothing is said: the differences are roundings.
    if float(log @ log) < len(log) * 1e-12:
        return ()
    tables: dict[str, list[F64]] = {}
    for group, values in columns.values():
        if len(np.unique(values)) > 1:
            tables.setdefault(group, []).append(_standard(values))
    names = list(tables)
    explained = {
        chosen: _explained(log, [table for name in chosen for table in tables[name]])
        for count in range(len(names) + 1)
        for chosen in combinations(names, count)
    }
    added = {name: max(_mean_gain(name, names, explained), 0.0) for name in names}
    total = sum(added.values())
    most = max(explained[tuple(names)], 0.0) if names else 0.0
    scale = min(most / total, 1.0) if total else 0.0
    return tuple(sorted(((name, share * scale) for name, share in added.items()), key=lambda item: -item[1]))


def _explained(log: F64, tables: list[F64]) -> float:
    """Return what share of the variance some inputs explain, less what chance would."""
    if not tables:
        return 0.0
    table = np.concatenate(tables, axis=1)
    slope, _, rank, _ = np.linalg.lstsq(table, log, rcond=None)
    left = float(((log - table @ slope) ** 2).sum()) / float(log @ log)
    return 1 - left * (len(log) - 1) / max(len(log) - 1 - int(rank), 1)


def _mean_gain(name: str, names: list[str], explained: Mapping[tuple[str, ...], float]) -> float:
    """Return what a group adds to those before it, as the mean over all orders."""
    others = [other for other in names if other != name]
    gain = 0.0
    for count in range(len(names)):
        for before in combinations(others, count):
            both = tuple(each for each in names if each == name or each in before)
            gain += (explained[both] - explained[before]) / comb(len(others), count) / len(names)
    return gain


def _standard(values: NDArray[Any]) -> F64:
    """Return columns with mean 0: the logarithm of a number; of words, and of yes or no, one for each of them."""
    kinds = np.unique(values)
    if values.dtype.kind in "iuf" and len(kinds) > MOST_WORDS:
        table = np.log(np.maximum(values.astype(np.float64), 1e-9))[:, None]
    else:
        table = (values[:, None] == kinds[None, 1:]).astype(np.float64)
    return np.asarray(table - table.mean(axis=0))


MOST_WORDS: Final = 6
"""Up to so many different values an input is taken for a choice."""
