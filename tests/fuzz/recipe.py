"""Recipes of mutated files: the changed bytes of a base, so each case can be reproduced."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """Bytes that replace others.

    Parameters
    ----------
    at : int
        Where they start, in bytes from the start of the file.
    removed : int
        Number of bytes removed; in images the same number is inserted, so later bytes do not move.
    data : bytes
        The inserted bytes.
    """

    at: int
    removed: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Recipe:
    """A mutated file.

    Parameters
    ----------
    target, base : str
        The fuzz target, and the file that is mutated.
    changes : tuple of Change
        Applied in order.
    length_bytes : int or None
        Length to which the file is truncated or padded with zeros.
    why : str
        The failure, in one line.
    """

    target: str
    base: str
    changes: tuple[Change, ...]
    length_bytes: int | None = None
    why: str = ""

    def to_json(self) -> str:
        """Write as JSON text."""
        document: dict[str, Any] = {"target": self.target, "base": self.base, "why": self.why}
        document["changes"] = [[item.at, item.removed, item.data.hex()] for item in self.changes]
        if self.length_bytes is not None:
            document["length_bytes"] = self.length_bytes
        return json.dumps(document, indent=1) + "\n"

    @property
    def name(self) -> str:
        """Name of its file in the corpus."""
        return f"{hashlib.sha256(self.to_json().encode()).hexdigest()[:12]}.json"


def from_json(text: str) -> Recipe:
    """Read what :meth:`Recipe.to_json` wrote."""
    document = json.loads(text)
    changes = tuple(Change(at, removed, bytes.fromhex(data)) for at, removed, data in document["changes"])
    return Recipe(document["target"], document["base"], changes, document.get("length_bytes"), document["why"])
