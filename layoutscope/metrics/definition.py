"""What a metric is: a number that carries its definition, unit, denominator and source.

Each module of this package defines its metrics beside the functions that compute them; :data:`DEFINITIONS` collects
them, and docs/metrics.md is made from it.
"""

from __future__ import annotations

from typing import Final, Literal

from layoutscope.display import Displayed
from layoutscope.frozen import frozen

Needs = Literal["tables", "trace"]

DEFINITIONS: Final[dict[str, Definition]] = {}
"""Every metric by its name."""


@frozen
class Definition(Displayed):
    """How a metric is defined; once made, it is known by its name.

    Attributes
    ----------
    name : str
        Stable identifier; no other definition has it.
    title : str
        What a report calls it.
    unit : str
        ``share`` is a number from 0 to 1.
    denominator : str
        What the number is a share, mean or count of.
    text : str
        The definition in one or two sentences, with the values to expect.
    citation : str
        Where the definition comes from.
    needs : {'tables', 'trace'}
        What it is computed from.
    """

    name: str
    title: str
    unit: str
    denominator: str
    text: str
    citation: str
    needs: Needs = "tables"

    def __post_init__(self) -> None:
        if self.name in DEFINITIONS:
            raise ValueError(f"metric {self.name!r} is defined twice")
        DEFINITIONS[self.name] = self


@frozen
class Metric(Displayed):
    """One measured number.

    Attributes
    ----------
    definition : Definition
        What was measured.
    value : float or None
        The number in the definition's unit; None where the denominator is empty.
    subject : str
        What it was measured on: a tree, ``metadata``, ``files`` or ``free space``.
    parts : tuple of (str, float)
        Percentiles, or the bins of a histogram, with their labels.
    note : str
        Why there is no value, or what limits it.
    """

    definition: Definition
    value: float | None
    subject: str = "metadata"
    parts: tuple[tuple[str, float], ...] = ()
    note: str = ""

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
