r"""Paths of a volume: the one place where names become paths.

A volume may hold names that no path can hold: a format may store any UTF-8 but NUL, and a damaged or forged catalog
holds a ``/``, ``..`` or nothing. Such a name is spelled with escapes (``a\u002fb``), and its path says that it has a
flaw, so lists for other programs leave it out. A ``/`` on a disk whose format has ``:`` there in Unix paths was
exchanged by the reader.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.arrays.lookup import match

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Mask
    from layoutscope.tables import VolumeLayout

MAX_PATH_BYTES: Final = 4094
"""Longest path that is spelled in full; a list puts a dot before it, Linux a zero behind (PATH_MAX, 4,096)."""

END_BYTES: Final = 1000
"""What is kept of the end of a longer path."""

MAX_KNOWN_BYTES: Final = 8 << 20
"""Paths of directories that are kept for the next entries."""

NAME, LENGTH, LOST = "name", "length", "lost"
"""Flaws of a path: a name that cannot be part of one, too many bytes, no way from the root."""

_ESCAPED: Final = re.compile(r"[/\0]|\\(?=u00(?:2[ef]|00|5c))")


def path_component(name: str) -> str:
    r"""Spell a name so that it is one component of a path, and no other name is spelled the same.

    >>> path_component("a/b"), path_component(".."), path_component("a..b")
    ('a\\u002fb', '\\u002e\\u002e', 'a..b')
    """
    if name in (".", ".."):
        return name.replace(".", r"\u002e")
    # A backslash before what looks like one of these escapes is escaped itself.
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", name)


def can_be_component(name: str) -> bool:
    """Whether a path can hold a name."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


class SpelledPath(NamedTuple):
    """A path for people, and what is wrong with it."""

    # from the root of the volume. `<17>/a` lies in a directory that cannot be reached from the root; `…/<17>/a` is the
    # end of a path that is too long, from directory 17 on.
    text: str
    flaw: str  # `NAME`, `LENGTH` or `LOST`; empty for a path that other programs can take

    def to_bytes(self) -> bytes:
        """Return the path as the volume has it, which is only meant of one without a flaw."""
        return self.text.replace(r"\u005c", "\\").encode("utf-8", "surrogatepass")


class Paths:
    """Spells paths of a volume one by one; each costs as many steps as it has components, and has a bounded length."""

    def __init__(self, layout: VolumeLayout) -> None:
        entries = layout.columns("entries")
        folders = entries.take(entries["kind"].equals("directory") & (entries["file_id"].data != ROOT_ID))
        # Of a directory that several entries name, as damage and links to directories have it, the first one counts.
        ids, first = np.unique(folders["file_id"].data, return_index=True)
        folders = folders.take(first)
        numbers, names = ids.tolist(), folders.texts("name").to_list()
        self._place = dict(zip(numbers, range(len(ids)), strict=True))
        self._names = [_component(name, number) for name, number in zip(names, numbers, strict=True)]
        parents = folders["parent_id"].data
        place, is_there = match(ids, parents)
        above = np.where(is_there, place, -1).astype(np.int64)
        ring = _ring(above)
        above[ring] = -1
        self._parent_ids, self._numbers = parents.tolist(), numbers
        self._above = above.tolist()
        self._is_ring = ring.tolist()
        is_odd = np.array([not can_be_component(name or "") for name in names], np.bool_)
        is_lost = ring | (~is_there & (parents != ROOT_ID))
        own = np.array([1 + _num_bytes(name) for name in self._names], np.int64)
        tops = np.array([_num_bytes(text) for text in map(self._top, range(len(ids)))], np.int64)
        lengths, (flawed, lost) = _summed(above, np.where(ring, 0, own) + tops, is_odd & ~ring, is_lost)
        self._lengths = lengths.tolist()
        self._flaws = np.select([lost, lengths > MAX_PATH_BYTES, flawed], [LOST, LENGTH, NAME], "").tolist()
        self._known: dict[int, str] = {}
        self._known_bytes = 0

    def folder(self, number: int) -> SpelledPath:
        """Spell the path of a directory; that of the root is ``/``."""
        if number == ROOT_ID:
            return SpelledPath("/", "")
        place = self._place.get(number)
        if place is None:
            return SpelledPath(f"<{number}>", LOST)
        flaw = self._flaws[place]
        return SpelledPath(self._end("", place) if self._is_long(place) else self._whole(place), flaw)

    def entry(self, file_id: int, parent_id: int, name: str | None) -> SpelledPath:
        """Spell the path of a name in a directory; that of the root, whatever it is called, is ``/``."""
        if file_id == ROOT_ID:
            return SpelledPath("/", "")
        own = _component(name, file_id)
        flaw = "" if name and can_be_component(name) else NAME
        if parent_id == ROOT_ID:
            return SpelledPath(f"/{own}", flaw)
        place = self._place.get(parent_id)
        if place is None:
            return SpelledPath(f"<{parent_id}>/{own}", LOST)
        flaw = self._flaws[place] or flaw
        if self._lengths[place] + 1 + _num_bytes(own) > MAX_PATH_BYTES:
            return SpelledPath(self._end(f"/{own}", place), flaw if flaw == LOST else LENGTH)
        return SpelledPath(f"{self._whole(place)}/{own}", flaw)

    def _is_long(self, place: int) -> bool:
        return bool(self._lengths[place] > MAX_PATH_BYTES)

    def _top(self, place: int) -> str:
        """What stands before the path of a directory that lies in no other: nothing in the root, else a number."""
        if self._above[place] >= 0:
            return ""
        if self._is_ring[place]:
            return f"<{self._numbers[place]}>"
        parent = self._parent_ids[place]
        return "" if parent == ROOT_ID else f"<{parent}>"

    def _whole(self, place: int) -> str:
        """Spell a path from its top on, from the nearest directory that is known."""
        names: list[str] = []
        at = place
        while at >= 0 and at not in self._known:
            if not self._is_ring[at]:
                names.append(self._names[at])
            last, at = at, self._above[at]
        text = self._known[at] if at >= 0 else self._top(last)
        if names:
            text = "/".join([text, *reversed(names)])
        if place not in self._known:
            self._known_bytes += len(text)
            if self._known_bytes > MAX_KNOWN_BYTES:
                self._known.clear()
                self._known_bytes = len(text)
            self._known[place] = text
        return text

    def _end(self, text: str, place: int) -> str:
        """Spell the end of a path whose last part is `text`, from a directory on that its number stands for."""
        parts, size = [text], _num_bytes(text)
        while (size := size + 1 + _num_bytes(self._names[place])) <= END_BYTES and self._above[place] >= 0:
            parts.append(f"/{self._names[place]}")
            place = self._above[place]
        return f"…/<{self._numbers[place]}>{''.join(reversed(parts))}"


def _component(name: str | None, number: int) -> str:
    return path_component(name) if name else f"<{number}>"


def _num_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _ring(above: I64) -> Mask:
    """Tell which directories lie in themselves, as damage has it."""
    steps = np.append(above, -1)  # -1 stands for the last place, too: what has no parent stays there
    for _ in range(len(above).bit_length()):
        steps = steps[steps]
    # As many steps up as there are directories end on a ring, and come to each directory of it.
    found = np.zeros(len(above), np.bool_)
    found[steps[steps >= 0]] = True
    return found


def _summed(above: I64, sizes: I64, *marks: Mask) -> tuple[I64, list[Mask]]:
    """Add up sizes on the way from each directory to its top, and tell where any on that way is marked."""
    steps, total = np.append(above, -1), np.append(sizes, 0)
    told = [np.append(mark, False) for mark in marks]
    while (steps[:-1] >= 0).any():
        total = total + total[steps]
        told = [mark | mark[steps] for mark in told]
        steps = steps[steps]
    return total[:-1], [mark[:-1] for mark in told]
