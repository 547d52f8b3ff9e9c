"""Calls of kernels as inputs of the fuzzer: the corpus is what the tests of the kernels hand over."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from layoutscope.native import Kernel
from tests.fuzz.kernels.targets import SEEDS

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = 3000
FEW = 4
"""Inputs a kernel, each as unlike in length as calls come."""


def encoded(takes: str, given: tuple[Any, ...]) -> bytes:
    """Write arguments as ``input.h`` reads them."""
    return b"".join(map(_written, takes, given))


def _written(code: str, value: Any) -> bytes:
    if code == "n":
        return (int(value) % 2**64).to_bytes(8, "little")
    if code == "C":
        return len(value).to_bytes(2, "little") + b"".join(_written("b", each.view(np.uint8)) for each in value)
    return value.size.to_bytes(2, "little") + value.tobytes()


def record() -> dict[str, int]:
    """Run the tests of the kernels and keep some small calls that were accepted; how many, by kernel."""
    found: dict[str, dict[int, bytes]] = {}
    call: Callable[..., int | None] = Kernel.__call__

    def noted(self: Kernel, *given: Any) -> int | None:
        arrays = [each for value in given for each in (value if isinstance(value, list) else [value])]
        largest = max((each.nbytes for each in arrays if isinstance(each, np.ndarray)), default=0)
        data = encoded(self.takes, given) if largest < SMALL else b""
        result = call(self, *given)
        if result is not None and 0 < len(data) < SMALL:
            found.setdefault(self.name, {}).setdefault(len(data), data)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "__call__", noted)
        pytest.main(["-q", "tests/unit/native"])
    for name, calls in found.items():
        folder = SEEDS / name
        folder.mkdir(parents=True, exist_ok=True)
        sizes = sorted(calls)
        for size in {sizes[k * (len(sizes) - 1) // (FEW - 1)] for k in range(FEW)}:
            (folder / hashlib.sha256(calls[size]).hexdigest()[:12]).write_bytes(calls[size])
    return {name: len(list((SEEDS / name).iterdir())) for name in found}
