"""Metrics and their definitions: a metric is a number with its unit, denominator and source.

Each module of this package defines its metrics next to the functions that compute them. :data:`DEFINITIONS` collects
them, and docs/reference/metrics.md is generated from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from layoutscope.display import Displayed, Struct
from layoutscope.structs.arrays import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray


Needs = Literal["tables", "trace"]

DEFINITIONS: Final[dict[str, Definition]] = {}
"""All definitions by name."""


class Definition(Displayed, Struct, frozen=True):
    """The definition of a metric; creating it adds it to :data:`DEFINITIONS`."""

    name: str  # unique, stable identifier
    title: str  # name in reports
    unit: str  # ``share`` is a number from 0 to 1
    denominator: str  # the quantity of which the number is a share, mean or count
    text: str  # the definition in one or two sentences, with typical values
    citation: str  # the source of the definition
    needs: Needs = "tables"  # the input of its computation

    def __post_init__(self) -> None:
        if self.name in DEFINITIONS:
            raise ValueError(f"metric {self.name!r} is defined twice")
        DEFINITIONS[self.name] = self


class Metric(Displayed, Struct, frozen=True):
    """One measured number."""

    definition: Definition  # the definition of the metric
    value: float | None  # the number in the unit of the definition; None if the denominator is empty
    subject: str = "metadata"  # the measured object: a tree, ``metadata``, ``files`` or ``free space``
    parts: tuple[tuple[str, float], ...] = ()  # percentiles, or the bins of a histogram, with their labels
    note: str = ""  # why there is no value, or a limitation of it

    @property
    def name(self) -> str:
        """Identifier of the definition."""
        return self.definition.name

    @property
    def unit(self) -> str:
        """Unit of the value."""
        return self.definition.unit

    @property
    def denominator(self) -> str:
        """The quantity of which the value is a share, mean or count."""
        return self.definition.denominator

    @property
    def text(self) -> str:
        """The definition in words."""
        return self.definition.text

    @property
    def citation(self) -> str:
        """The source of the definition."""
        return self.definition.citation


PERCENTILES: Final = (10, 50, 90, 99)
"""Percentiles in reports of distances."""


def median_and_percentiles(values: NDArray[np.integer[Any]]) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Compute the median and the labelled percentiles of at least one number."""
    # A partial sort suffices: only the elements that these statistics use need their sorted places.
    ordered = np.partition(values, distinct(_ranks(len(values))[1]))
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    return float(middle.mean()), _percentiles(ordered)


def median(values: NDArray[np.integer[Any]]) -> float:
    """Compute the median of at least one number."""
    return median_and_percentiles(values)[0]


def _ranks(count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the ranks of the percentiles among `count` values, and the places that they and the median use."""
    rank = (count - 1) * (np.array(PERCENTILES) / 100)
    below = np.floor(rank).astype(np.int64)
    return rank, np.concatenate([below, np.minimum(below + 1, count - 1), [(count - 1) // 2, count // 2]])


def _percentiles(ordered: NDArray[np.integer[Any]]) -> tuple[tuple[str, float], ...]:
    # This interpolates like ``np.percentile``.
    rank, places = _ranks(len(ordered))
    below = places[: len(rank)]
    low, high, share = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)], rank - below
    values = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
    return tuple((f"p{p}", float(value)) for p, value in zip(PERCENTILES, values, strict=True))
