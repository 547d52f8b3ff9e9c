"""Files that mutation starts from, the places where changes matter, and recipes of mutated files."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Change:
    """Bytes that replace others; in images as many are inserted as removed, so later bytes do not move."""

    at: int
    removed: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Recipe:
    """A mutated file: changes in order, the length that it is cut or padded to, and the failure in one line."""

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


@dataclass(frozen=True, slots=True)
class Base:
    """A sound file, by its pages that are not all zeros.

    `spots` are fields that steer a reader, `ranges` are structures, each with start and length. In a text bytes may be
    inserted and removed. `orders` are byte orders of numbers, the usual one repeated. Given changes, `repair` returns
    those that make checksums match again.
    """

    name: str
    size_bytes: int
    pages: dict[int, bytes]
    spots: tuple[tuple[int, int], ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    is_text: bool = False
    orders: tuple[Literal["big", "little"], ...] = ("big", "big", "big", "little")
    repair: Callable[[Base, tuple[Change, ...]], list[Change]] | None = None

    def read(self, at: int, length: int) -> bytes:
        """Read bytes; zeros where no page is stored."""
        first, last = at // PAGE_BYTES, (at + max(length, 1) - 1) // PAGE_BYTES
        empty = bytes(PAGE_BYTES)
        data = b"".join(self.pages.get(page, empty) for page in range(first, last + 1))
        return data[at - first * PAGE_BYTES :][:length]

    def whole(self) -> bytes:
        """Return all of a small file."""
        return self.read(0, self.size_bytes)


def base_of(name: str, data: bytes, **parts: object) -> Base:
    """Return a base with the given file content."""
    empty = bytes(PAGE_BYTES)
    pages = {}
    for at in range(0, len(data), PAGE_BYTES):
        page = data[at : at + PAGE_BYTES]
        if page != empty[: len(page)]:
            pages[at // PAGE_BYTES] = page.ljust(PAGE_BYTES, b"\0")
    return Base(name, len(data), pages, **parts)  # type: ignore[arg-type]


def changed_pages(base: Base, changes: tuple[Change, ...]) -> dict[int, bytearray]:
    """Return the pages that changes touch, with the changes applied."""
    pages: dict[int, bytearray] = {}
    for change in changes:
        for place, byte in enumerate(change.data, change.at):
            page = place // PAGE_BYTES
            if page not in pages:
                pages[page] = bytearray(base.read(page * PAGE_BYTES, PAGE_BYTES))
            pages[page][place % PAGE_BYTES] = byte
    return pages


class WorkFile:
    """One file on disk that becomes each case in turn; only changed bytes are written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._base: Base | None = None

    def become(self, base: Base, recipe: Recipe) -> None:
        """Apply a case."""
        if base.is_text:
            data = base.whole()
            for change in recipe.changes:
                data = data[: change.at] + change.data + data[change.at + change.removed :]
            self.path.write_bytes(data if recipe.length_bytes is None else data[: recipe.length_bytes])
            self._base = None
            return
        if self._base is not base:
            self._write(base)
        with self.path.open("r+b") as file:
            for change in recipe.changes:
                os.pwrite(file.fileno(), change.data, change.at)
            file.truncate(base.size_bytes if recipe.length_bytes is None else recipe.length_bytes)

    def restore(self, base: Base, recipe: Recipe) -> None:
        """Undo a case."""
        if base.is_text:
            return
        if recipe.length_bytes is not None:
            self._base = None
            return
        with self.path.open("r+b") as file:
            for change in recipe.changes:
                os.pwrite(file.fileno(), base.read(change.at, len(change.data)), change.at)
            file.truncate(base.size_bytes)

    def _write(self, base: Base) -> None:
        with self.path.open("wb") as file:
            for page, data in base.pages.items():
                os.pwrite(file.fileno(), data, page * PAGE_BYTES)
            file.truncate(base.size_bytes)
        self._base = base
