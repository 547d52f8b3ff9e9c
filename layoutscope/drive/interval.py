"""Between which times a prediction lies: quantiles of its draws, and what contributes to their spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Displayed
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

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
        What contributes, by group of inputs, the most first: shares of the variance of the time's logarithm. What is
        left of 1 belongs to no single one.
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
    low, quarter, median, three_quarters, high = np.quantile(seconds, QUANTILES).tolist()
    shares = contributions(seconds, columns)
    return Interval(of, low, quarter, median, three_quarters, high, shares, len(seconds))


def contributions(
    seconds: NDArray[np.float64], columns: Mapping[str, tuple[str, NDArray[Any]]]
) -> tuple[tuple[str, float], ...]:
    """Return the share of the variance of the logarithm that each group of inputs explains, the largest first.

    Least squares on the logarithms of the inputs, words by their mean; of each share is taken off what an input that
    changes nothing would have explained by chance.
    """
    log = np.log(np.maximum(seconds, 1e-12))
    log = log - log.mean()
    varied = {name: (group, values) for name, (group, values) in columns.items() if len(np.unique(values)) > 1}
    total = float(log @ log)
    # Of times that agree to a millionth, nothing is said: the differences are roundings.
    if not varied or total < len(log) * 1e-12:
        return ()
    table = np.stack([_standard(values, log) for _, values in varied.values()], axis=1)
    slope, *_ = np.linalg.lstsq(table, log, rcond=None)
    left = float(((log - table @ slope) ** 2).sum())
    chance = left / max(len(log) - table.shape[1] - 1, 1)
    found: dict[str, float] = {}
    for (group, _), column, each in zip(varied.values(), table.T, slope, strict=True):
        explained = max(float(each * (column @ log)) - chance, 0.0) / total
        found[group] = found.get(group, 0.0) + explained
    return tuple(sorted(found.items(), key=lambda item: -item[1]))


def _standard(values: NDArray[Any], log: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a column of numbers with mean 0: logarithms, or for words and yes or no the mean time of each."""
    if values.dtype.kind in "biufc" and values.dtype.kind != "b" and len(np.unique(values)) > MOST_WORDS:
        column = np.log(np.maximum(values.astype(np.float64), 1e-9))
    else:
        _, place = np.unique(values, return_inverse=True)
        column = (np.bincount(place, log) / np.bincount(place))[place]
    return np.asarray(column - column.mean())


MOST_WORDS: Final = 6
"""Up to so many different values an input is taken for a choice."""
