"""Calls of kernels as fuzzer inputs: the corpus holds arguments from the kernels' tests."""

from __future__ import annotations

import ctypes
import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from layoutscope.structs.native import Columns, Kernel, prepare_columns
from tests.fuzz.kernels.targets import SEEDS

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = 3000
FEW = 4
"""Inputs per kernel, chosen for different lengths."""


def encoded(takes: str, given: tuple[Any, ...]) -> bytes:
    """Encode arguments as ``input.h`` reads them."""
    return b"".join(map(_written, takes, given))


def _written(code: str, value: Any) -> bytes:
    if code == "n":
        return (int(value) % 2**64).to_bytes(8, "little")
    if code in "cC":
        ready = value if isinstance(value, Columns) else prepare_columns(value, code)
        texts = [ctypes.string_at(each.data, each.length) for each in ready.data[: ready.length]]
        return len(texts).to_bytes(2, "little") + b"".join(len(text).to_bytes(2, "little") + text for text in texts)
    return value.size.to_bytes(2, "little") + value.tobytes()


def _largest(value: Any) -> int:
    """Return the bytes of an array, or of the largest of several; numbers do not count."""
    if isinstance(value, Columns):
        return max((each.length for each in value.data[: value.length]), default=0)
    if isinstance(value, list | tuple):
        return max(map(_largest, value), default=0)
    return value.nbytes if isinstance(value, np.ndarray) else 0


def record() -> dict[str, int]:
    """Run the tests of the kernels and store some small accepted calls; return their number per kernel."""
    found: dict[str, dict[int, bytes]] = {}
    call: Callable[..., int | None] = Kernel.attempt

    def noted(self: Kernel, *given: Any) -> int | None:
        data = encoded(self.takes, given) if max(map(_largest, given)) < SMALL else b""
        result = call(self, *given)
        if result is not None and 0 < len(data) < SMALL:
            found.setdefault(self.name, {}).setdefault(len(data), data)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "attempt", noted)
        pytest.main(["-q", "tests/unit/native"])
    for name, calls in found.items():
        folder = SEEDS / name
        folder.mkdir(parents=True, exist_ok=True)
        sizes = sorted(calls)
        for size in {sizes[k * (len(sizes) - 1) // (FEW - 1)] for k in range(FEW)}:
            (folder / hashlib.sha256(calls[size]).hexdigest()[:12]).write_bytes(calls[size])
    return {name: len(list((SEEDS / name).iterdir())) for name in found}
