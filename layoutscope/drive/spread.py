"""How well the figures of a drive are known: variances and covariances of what was measured together.

A profile that `drives measure` wrote has them in a table ``[spread]``: ``figures`` names numbers (``rpm``) and elements
of lists (``seek_ms[3]``), ``covariance`` is that of their natural logarithms, so that times stay positive and an error
is a share. An interval draws drives from it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.drive.limits import RANGES
from layoutscope.errors import UsageError
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


MOST_FIGURES: Final = 256
LARGEST: Final = 25.0
"""Of a variance of logarithms; no figure is known to less than a factor of e^5."""
_NAME: Final = re.compile(r"([a-z_]+)(?:\[(\d{1,4})\])?")


@frozen
class Spread:
    """What was measured together, and how its errors go together."""

    figures: tuple[str, ...]  # names of figures, those in lists with their index: `rpm`, `seek_ms[3]`
    covariance: tuple[tuple[float, ...], ...]  # of the natural logarithms of the figures

    def drawn(self, values: Mapping[str, Any], normal: NDArray[np.float64]) -> dict[str, Any]:
        """Return the figures as they may be as well."""
        factors = np.exp(self.root() @ np.asarray(normal, np.float64))
        changed: dict[str, Any] = {}
        for figure, factor in zip(self.figures, factors.tolist(), strict=True):
            name, index = split_name(figure)
            value = changed.get(name, values[name])
            if index is None:
                low, high = RANGES.get(name, (0, np.inf))
                changed[name] = min(max(value * factor, low), high)
            else:
                changed[name] = [item * factor if k == index else item for k, item in enumerate(value)]
        return changed

    def root(self) -> NDArray[np.float64]:
        """Return a matrix whose product with its own transpose is the covariance."""
        values, vectors = np.linalg.eigh(np.array(self.covariance, np.float64))
        # Rounded in its file, a covariance may have tiny negative eigenvalues.
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))


def split_name(figure: str) -> tuple[str, int | None]:
    """Return name and index of a figure: of ``rpm`` there is none, of ``seek_ms[3]`` it is 3."""
    found = _NAME.fullmatch(figure)
    if found is None:
        raise UsageError(f"{figure!r} is no figure of a drive profile")
    return found[1], None if found[2] is None else int(found[2])


def read_spread(profile: str, table: object, values: Mapping[str, Any]) -> Spread:
    """Read the table ``spread`` of a profile."""
    known = table if isinstance(table, dict) else {}
    names, rows = known.get("figures"), known.get("covariance")
    if not isinstance(names, list) or not 0 < len(names) <= MOST_FIGURES or not _are_covariances(rows, len(names)):
        raise UsageError(f"drive profile {profile}: spread is no list of figures with the covariance of each pair")
    if len(names) != len(set(map(str, names))):
        raise UsageError(f"drive profile {profile}: spread names a figure twice")
    for figure in names:
        name, index = split_name(str(figure))
        value = values.get(name)
        if index is not None and isinstance(value, list):
            value = value[index] if index < len(value) else None
        elif index is not None:
            value = None
        if not isinstance(value, int | float):
            raise UsageError(f"drive profile {profile}: spread speaks of {figure}, which is no number of the profile")
    return Spread(tuple(names), tuple(tuple(map(float, row)) for row in rows))  # type: ignore[union-attr]


def _are_covariances(rows: object, count: int) -> bool:
    """Tell whether rows are a symmetric matrix of that size with possible values."""
    if not isinstance(rows, list) or len(rows) != count:
        return False
    if not all(isinstance(row, list) and len(row) == count for row in rows):
        return False
    if not all(isinstance(item, int | float) and abs(item) <= LARGEST for row in rows for item in row):
        return False
    matrix = np.array(rows, np.float64)
    return bool(np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-12) and (np.diag(matrix) >= 0).all())
