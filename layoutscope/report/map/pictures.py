"""Pictures as counts: points of any number on a grid of fixed size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.report.map import encode

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS: Final = 240
ROWS: Final = 120


def density(x: NDArray[Any], y: NDArray[Any]) -> dict[str, Any]:
    """Count points on a grid.

    Returns
    -------
    dict
        ``x`` and ``y`` (lowest and highest value), ``columns``, ``rows``, and ``counts`` row by row from the lowest y.
    """
    x_range, y_range = _range(x), _range(y)
    counts = np.histogram2d(y, x, bins=(ROWS, COLUMNS), range=(y_range, x_range))[0]
    return {
        "x": x_range,
        "y": y_range,
        "columns": COLUMNS,
        "rows": ROWS,
        "counts": encode.array(counts.ravel().astype(np.int64)),
    }


def _range(values: NDArray[Any]) -> tuple[float, float]:
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    return low, high if high > low else low + 1.0
