"""Read the data of a map page the way its scripts do."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import numpy as np

ALPHABET = "".join(digit for digit in map(chr, range(ord("!"), ord("}"))) if digit not in "\"&'<>\\`")
"""Digits that mean nothing in HTML, JSON and scripts; repeated here because pages of other versions are read, too."""
KINDS = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "i4": np.int32, "f8": np.float64}


def bytes_of(text: str) -> bytes:
    """Decode base-85 digits."""
    values = [ALPHABET.index(digit) for digit in text]
    words = [sum(value * 85 ** (4 - k) for k, value in enumerate(values[i : i + 5])) for i in range(1, len(values), 5)]
    return b"".join(word.to_bytes(4, "big") for word in words)[: 4 * len(words) - values[0]]


def inflated(text: str) -> bytes:
    """Decompress data of a page."""
    return zlib.decompress(bytes_of(text))


def unpacked(packed: dict[str, Any]) -> list[Any]:
    """Decode the numbers of a packed array."""
    kind = np.dtype(KINDS[packed["type"]])
    planes = np.frombuffer(inflated(packed["data"]), np.uint8)
    numbers = np.ascontiguousarray(planes.reshape(kind.itemsize, -1).T).view(kind).ravel()
    return (np.cumsum(numbers) if packed["delta"] else numbers).tolist()


def ids(packed: dict[str, Any]) -> list[int]:
    """Decode 64-bit identifiers."""
    return [(high << 32) + low for low, high in zip(unpacked(packed["low"]), unpacked(packed["high"]), strict=True)]


def chart_titles(page: str) -> list[str]:
    """Return the chart titles of a page of curves."""
    payload = re.search(r'id="payload">(.*?)</script>', page)[1]
    return [chart["title"] for chart in json.loads(inflated(json.loads(payload)["packed"]))["charts"]]
