"""Fenced buffers and hostile numbers for the tests of kernels."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

TIMES = int(os.environ.get("LAYOUTSCOPE_FUZZ", "1"))
"""Factor for the number of examples; above one, the examples are new each time."""
EXAMPLES = settings(max_examples=80 * TIMES)

FENCE = 64
"""Elements before and after each buffer."""
MARK = 0x5A

EVIL = st.one_of(
    st.sampled_from([0, 1, -1, 2, 63, 64, 2**31 - 1, -(2**31), 2**32, -(2**32), 2**62, 2**63 - 1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-200, 200),
)


class Fenced:
    """Copies of arrays, each inside a larger one."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.originals = [np.ascontiguousarray(array) for array in arrays]
        self._wide = []
        self.copies = []
        for array in self.originals:
            wide = np.full(array.size + 2 * FENCE, MARK, array.dtype)
            inner = wide[FENCE : FENCE + array.size]
            inner[:] = array.ravel()
            self._wide.append(wide)
            self.copies.append(inner.reshape(array.shape))

    def hold(self) -> bool:
        """Return whether nothing was written outside the buffers."""
        return all((wide[:FENCE] == MARK).all() and (wide[-FENCE:] == MARK).all() for wide in self._wide)

    def unchanged(self, *numbers: int) -> bool:
        """Return whether these buffers are unchanged."""
        return all(np.array_equal(self.originals[number], self.copies[number]) for number in numbers)


def spoil(draw: st.DrawFn, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return the arrays as they are, with some elements replaced, or with one cut short."""
    arrays = [array.copy() for array in arrays]
    for _ in range(draw(st.integers(0, 6))):
        number = draw(st.integers(0, len(arrays) - 1))
        flat = arrays[number].reshape(-1)
        if flat.size and draw(st.integers(0, 9)):
            bits = 8 * flat.itemsize
            flat[draw(st.integers(0, flat.size - 1))] = (
                np.array(draw(EVIL) % 2**bits).astype(f"u{flat.itemsize}").view(flat.dtype)
            )
        else:
            arrays[number] = flat[: draw(st.integers(0, flat.size))]
    return arrays


def is_same(arrays: list[np.ndarray], others: list[np.ndarray]) -> bool:
    """Return whether nothing was spoilt."""
    return all(np.array_equal(one.ravel(), other.ravel()) for one, other in zip(arrays, others, strict=True))
