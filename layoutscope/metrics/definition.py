"""What a metric is: a number that carries its definition, unit, denominator and source.

Each module of this package defines its metrics beside the functions that compute them; :data:`DEFINITIONS` collects
them, and docs/reference/metrics.md is made from it.
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
"""Every metric by its name."""


class Definition(Displayed, Struct, frozen=True):
    """How a metric is defined; once made, it is known by its name."""

    name: str  # stable identifier; no other definition has it
    title: str  # what a report calls it
    unit: str  # ``share`` is a number from 0 to 1
    denominator: str  # what the number is a share, mean or count of
    text: str  # the definition in one or two sentences, with the values to expect
    citation: str  # where the definition comes from
    needs: Needs = "tables"  # what it is computed from

    def __post_init__(self) -> None:
        if self.name in DEFINITIONS:
            raise ValueError(f"metric {self.name!r} is defined twice")
        DEFINITIONS[self.name] = self


class Metric(Displayed, Struct, frozen=True):
    """One measured number."""

    definition: Definition  # what was measured
    value: float | None  # the number in the definition's unit; None where the denominator is empty
    subject: str = "metadata"  # what it was measured on: a tree, ``metadata``, ``files`` or ``free space``
    parts: tuple[tuple[str, float], ...] = ()  # percentiles, or the bins of a histogram, with their labels
    note: str = ""  # why there is no value, or what limits it

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
        """What the value is a share, mean or count of."""
        return self.definition.denominator

    @property
    def text(self) -> str:
        """The definition in words."""
        return self.definition.text

    @property
    def citation(self) -> str:
        """Where the definition comes from."""
        return self.definition.citation


PERCENTILES: Final = (10, 50, 90, 99)
"""Percentiles that distances are reported with."""


def median_and_percentiles(values: NDArray[np.integer[Any]]) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Median of some numbers, of which there is at least one, and their percentiles with labels."""
    # Those that percentiles and the median need stand where sorting would bring them.
    ordered = np.partition(values, distinct(_ranks(len(values))[1]))
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    return float(middle.mean()), _percentiles(ordered)


def median(values: NDArray[np.integer[Any]]) -> float:
    """Median of some numbers, of which there is at least one."""
    return median_and_percentiles(values)[0]


def _ranks(count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Ranks of the percentiles among so many values, and the places on which their values depend, with the median's."""
    rank = (count - 1) * (np.array(PERCENTILES) / 100)
    below = np.floor(rank).astype(np.int64)
    return rank, np.concatenate([below, np.minimum(below + 1, count - 1), [(count - 1) // 2, count // 2]])


def _percentiles(ordered: NDArray[np.integer[Any]]) -> tuple[tuple[str, float], ...]:
    # As ``np.percentile``.
    rank, places = _ranks(len(ordered))
    below = places[: len(rank)]
    low, high, share = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)], rank - below
    found = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
    return tuple((f"p{p}", float(value)) for p, value in zip(PERCENTILES, found, strict=True))
