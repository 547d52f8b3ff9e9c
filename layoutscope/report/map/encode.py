"""Arrays and texts for the page: compressed, as characters, the same for the same input."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def array(values: NDArray[Any], *, delta: bool = False) -> dict[str, Any]:
    """Pack an array: narrowed, optionally as differences, deflated."""
    wide = np.asarray(values)
    if wide.dtype.kind == "f":
        return _packed(wide.astype(np.float32), "f4", delta=False)
    numbers = wide.astype(np.int64)
    if delta and len(numbers):
        numbers = np.diff(numbers, prepend=0)
    return _narrow(numbers, delta=delta)


def _narrow(numbers: NDArray[np.int64], *, delta: bool) -> dict[str, Any]:
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    for name, kind in (("u1", np.uint8), ("u2", np.uint16), ("u4", np.uint32), ("i4", np.int32)):
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return _packed(numbers.astype(kind), name, delta=delta)
    # Addresses stay exact in doubles up to 2**53, which no disk reaches.
    return _packed(numbers.astype(np.float64), "f8", delta=delta)


def _packed(values: NDArray[Any], name: str, *, delta: bool) -> dict[str, Any]:
    # Bytes of one significance together: they compress better.
    planes = values.view(np.uint8).reshape(len(values), values.itemsize).T
    return {
        "type": name,
        "n": len(values),
        "delta": delta,
        "data": packed_bytes(np.ascontiguousarray(planes).tobytes()),
    }


ALPHABET: Final = "".join(map(chr, range(ord("!"), ord("}")))).translate(dict.fromkeys(map(ord, "\"&'<>\\`")))
"""Digits that mean nothing in HTML, in JSON and in the strings of scripts."""

_DIGITS: Final = np.frombuffer(ALPHABET.encode(), np.uint8)
_POWERS: Final = 85 ** np.arange(4, -1, -1, dtype=np.uint64)


def characters(data: bytes) -> str:
    """Write bytes as digits of base 85, four as five, where base 64 would take five and a third.

    The first digit says how many zeros the last four were filled up with. The twin is in ``web/src/unpack.ts``.
    """
    filled = -len(data) % 4
    words = np.frombuffer(data + bytes(filled), np.dtype(np.uint32).newbyteorder(">")).astype(np.uint64)
    digits = (words[:, None] // _POWERS % np.uint64(len(ALPHABET))).astype(np.uint8)
    return _DIGITS[np.append(np.uint8(filled), digits)].tobytes().decode("ascii")


def packed_bytes(data: bytes) -> str:
    """Compress bytes for the page."""
    return characters(zlib.compress(data, 6))


def packed_text(value: str) -> str:
    """Compress a text for the page."""
    return packed_bytes(value.encode("utf-8", "replace"))


def packed_json(value: Any) -> str:
    """Compress what is many small things."""
    return packed_text(json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False))


def script_json(value: dict[str, Any]) -> str:
    """JSON that cannot end its script element, whatever names it holds."""
    raw = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True, allow_nan=False)
    return raw.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
