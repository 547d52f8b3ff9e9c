"""Raw images in parts: ``disk.001``, ``disk.002`` …, or ``disk.aa``, ``disk.ab`` and so on."""

from __future__ import annotations

import itertools
import string
from typing import TYPE_CHECKING

import numpy as np

from layoutscope import inputs
from layoutscope.errors import ImageError
from layoutscope.image.raw import RawFile
from layoutscope.image.sets import LETTERED, NUMBERED
from layoutscope.image.source import FillingSource, ReadCounter

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray


def find_parts(path: Path) -> list[Path]:
    """Find all parts of the split image whose first part this is.

    Parameters
    ----------
    path : Path
        Any file.

    Returns
    -------
    list of Path
        In order; empty if the file is no part of a split image.

    Raises
    ------
    ImageError
        If a part in between is missing or no file, or the path is not the first part.
    """
    match = NUMBERED.fullmatch(path.name) or LETTERED.fullmatch(path.name)
    if match is None:
        return []
    siblings = _siblings(path, match["stem"], match["suffix"])
    if len(siblings) < 2:
        return []
    expected = list(itertools.islice(_suffixes(match["suffix"]), len(siblings) + 1))
    if not expected or match["suffix"] != expected[0]:
        return _refuse_later_part(path, match, siblings)
    for suffix in expected[: len(siblings)]:
        if suffix not in siblings:
            raise ImageError(f"{path}: part {match['stem']}{suffix} of the split image is missing")
    parts = [siblings[suffix] for suffix in expected[: len(siblings)]]
    for part in parts:
        if not part.is_file():
            raise ImageError(f"{part}: has the name of a part of {path}, and is no file")
    return parts


def _siblings(path: Path, stem: str, suffix: str) -> dict[str, Path]:
    """List the files beside it whose names differ only in the suffix, by suffix."""
    kind = str.isdigit if suffix.isdigit() else str.isalpha
    found = {}
    for candidate in map(path.parent.joinpath, inputs.list_folder(path.parent)):
        rest = candidate.name.removeprefix(stem)
        is_part = candidate.name.startswith(stem) and len(rest) == len(suffix)
        if is_part and rest.isascii() and kind(rest) and rest == rest.lower() and not candidate.is_dir():
            found[rest] = candidate
    return found


def _suffixes(first: str) -> Iterator[str]:
    """Count from a first suffix: 000 or 001, or aa."""
    if first.isdigit():
        # Imagers count from 001 (dd's descendants, FTK) or from 000; split(1) from aa.
        start = int(first) if int(first) in (0, 1) else 1
        return (f"{number:0{len(first)}d}" for number in range(start, 10 ** len(first)))
    return ("".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=len(first)))


def _refuse_later_part(path: Path, match: re.Match[str], siblings: dict[str, Path]) -> list[Path]:
    firsts = [name for name in ("0" * len(match["suffix"]), f"{1:0{len(match['suffix'])}d}") if name in siblings]
    if match["suffix"].isalpha():
        firsts = [name for name in ("a" * len(match["suffix"]),) if name in siblings]
    if firsts:
        raise ImageError(f"{path}: is a later part of a split image; open {match['stem']}{firsts[0]}")
    if match["suffix"].isdigit():
        raise ImageError(
            f"{path}: the first part of the split image, {match['stem']}{1:0{len(match['suffix'])}d}, is missing"
        )
    return []  # two words that happen to share a stem, such as notes.txt and notes.img


class SplitFile(FillingSource):
    """Several files, one after the other, as one image.

    Parameters
    ----------
    paths : list of Path
        The parts in order.

    Raises
    ------
    ImageError
        If a part cannot be opened, or one that is not the last differs in size from the first: a copy that broke off.
    """

    def __init__(self, paths: list[Path]) -> None:
        self.counter = ReadCounter()
        self.name = str(paths[0])
        self._parts: list[RawFile] = []
        try:
            self._open(paths)
        except ImageError:
            self.close()
            raise
        self._ends = np.cumsum([part.size_bytes for part in self._parts])
        self.size_bytes = int(self._ends[-1])

    def _open(self, paths: list[Path]) -> None:
        for path in paths:
            part = RawFile(path)
            part.counter = self.counter
            self._parts.append(part)
        # Imagers cut at a fixed size, so that only the last part may be smaller: any other one is a copy that broke
        # off.
        full = self._parts[0].size_bytes
        for part in self._parts:
            is_last = part is self._parts[-1]
            if part.size_bytes > full if is_last else part.size_bytes != full:
                raise ImageError(f"{part.name}: this part has {part.size_bytes:,} bytes, the first has {full:,}")

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        done = 0
        number = int(np.searchsorted(self._ends, image_offset, side="right"))
        while done < len(target):
            part = self._parts[number]
            start = image_offset + done - (int(self._ends[number]) - part.size_bytes)
            length = min(len(target) - done, part.size_bytes - start)
            part.read_into(start, target[done : done + length])
            done += length
            number += 1
        return done

    @property
    def holes(self) -> NDArray[np.int64]:
        """Areas that the parts do not store, shape (n, 2): offset and length in bytes."""
        starts = self._ends - [part.size_bytes for part in self._parts]
        return np.concatenate(
            [part.holes + np.array([start, 0]) for part, start in zip(self._parts, starts, strict=True)]
        )

    def close(self) -> None:
        """Close all parts."""
        for part in self._parts:
            part.close()
