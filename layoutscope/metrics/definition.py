"""Metrics and their definitions: a metric is a number with its unit, denominator and source.

The words of each definition are in ``definitions.toml``, from which docs/reference/metrics.md is generated too.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from layoutscope.display import Displayed, Struct
from layoutscope.structs.arrays import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray


Needs = Literal["tables", "trace"]


class Definition(Displayed, Struct, frozen=True):
    """The definition of a metric."""

    name: str  # unique, stable identifier
    title: str  # name in reports
    unit: str  # ``share`` is a number from 0 to 1
    denominator: str  # the quantity of which the number is a share, mean or count
    text: str  # the definition in one or two sentences, with typical values
    citation: str = "this project"  # the source of the definition
    needs: Needs = "tables"  # the input of its computation


_WORDS: Final = tomllib.loads(Path(__file__).with_name("definitions.toml").read_text("utf-8"))

DEFINITIONS: Final = {name: Definition(name, **fields) for name, fields in _WORDS.items()}
"""All definitions by name."""


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
    count = len(values)
    rank = (count - 1) * (np.array(PERCENTILES) / 100)
    below = np.floor(rank).astype(np.int64)
    above = np.minimum(below + 1, count - 1)
    first, last = (count - 1) // 2, count // 2
    # A partial sort suffices: only the elements that these statistics use need their sorted places.
    ordered = np.partition(values, distinct(np.concatenate([below, above, [first, last]])))
    # This interpolates like ``np.percentile``.
    low, high, share = ordered[below], ordered[above], rank - below
    found = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
    parts = tuple((f"p{p}", float(value)) for p, value in zip(PERCENTILES, found, strict=True))
    return float(ordered[first : last + 1].mean()), parts
