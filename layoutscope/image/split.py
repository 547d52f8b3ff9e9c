"""Raw images in parts: ``disk.001``, ``disk.002`` …, or ``disk.aa``, ``disk.ab`` and so on."""

from __future__ import annotations

import itertools
import string
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from layoutscope import inputs
from layoutscope.arrays.intervals import runs_of, subtract, total
from layoutscope.errors import ImageError
from layoutscope.findings import Finding
from layoutscope.image.raw import RawFile
from layoutscope.image.sets import LETTERED, NUMBERED
from layoutscope.image.source import FillingSource, ReadCounter
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray


def find_parts(path: Path) -> list[Path]:
    """Find all parts of the split image whose first part this is.

    In order, those that are there; empty if the file is no part of a split image.
    """
    match = NUMBERED.fullmatch(path.name) or LETTERED.fullmatch(path.name)
    if match is None:
        return []
    siblings = _siblings(path, match["stem"], match["suffix"])
    if len(siblings) < 2:
        return []
    # Where more is missing than is there, names that are alike are nobody's parts.
    expected = list(itertools.islice(_suffixes(match["suffix"]), 2 * len(siblings)))
    if not expected or match["suffix"] != expected[0]:
        return _refuse_later_part(path, match, siblings)
    if set(siblings) - set(expected):
        missing = next(suffix for suffix in expected if suffix not in siblings)
        raise ImageError(f"{path}: part {match['stem']}{missing} of the split image is missing, and many more are")
    parts = [siblings[suffix] for suffix in expected if suffix in siblings]
    for part in parts:
        if not part.is_file():
            raise ImageError(f"{part}: has the name of a part of {path}, and is no file")
    return parts


def _siblings(path: Path, stem: str, suffix: str) -> dict[str, Path]:
    """List the files beside it whose names differ only in the suffix, by suffix."""
    found = {suffix: path}
    # A folder that may not be listed shows no other parts; the image in it may be read all the same.
    with suppress(PermissionError):
        names = inputs.list_folder(path.parent)
        found |= _of_set(path.parent, names, stem, suffix)
    return found


def _of_set(folder: Path, names: list[str], stem: str, suffix: str) -> dict[str, Path]:
    """Choose the files whose names differ from a part only in the suffix, by suffix."""
    kind = str.isdigit if suffix.isdigit() else str.isalpha
    found = {}
    for candidate in map(folder.joinpath, names):
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
    """Several files, one after the other, as one image; what is missing of them counts as never read."""

    def __init__(self, paths: list[Path]) -> None:
        self.counter = ReadCounter()
        self.name = str(paths[0])
        self._parts: list[RawFile] = []
        try:
            for path in paths:
                self._parts.append(RawFile(path))
                self._parts[-1].counter = self.counter
            self._place(paths)
        except ImageError:
            self.close()
            raise

    def _place(self, paths: list[Path]) -> None:
        """Say where each part begins: imagers cut at a fixed size, so that its number tells."""
        full = self._parts[0].size_bytes
        first = paths[0].name.rpartition(".")[2]
        place = {suffix: number for number, suffix in enumerate(itertools.islice(_suffixes(first), 2 * len(paths)))}
        numbers = [place[path.name.rpartition(".")[2]] for path in paths]
        sizes = np.array([part.size_bytes for part in self._parts], np.int64)
        for part in self._parts:
            if part.size_bytes > full:
                raise ImageError(f"{part.name}: this part has {part.size_bytes:,} bytes, the first has {full:,}")
        self._starts = np.array(numbers, np.int64) * full
        self._ends = self._starts + sizes
        self.size_bytes = int(self._ends[-1])
        self._unread = subtract(np.array([[0, self.size_bytes]]), runs_of(self._starts, sizes))
        stem = paths[0].name.removesuffix(first)
        problems = [f"part {stem}{suffix} is missing" for suffix, number in place.items()
                    if number < numbers[-1] and number not in numbers]  # fmt: skip
        # Any but the last one that is smaller is a copy that broke off.
        problems += [
            f"part {path.name} ends at byte {part.size_bytes:,} of {full:,}"
            for path, part in zip(paths[:-1], self._parts[:-1], strict=True)
            if part.size_bytes < full
        ]
        if problems:
            more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
            message = f"{problems[0]}{more}; {format_bytes(total(self._unread))} of the disk count as not read"
            self.own_findings = (Finding("image-incomplete", "error", "split image", None, message),)

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        done = 0
        number = int(np.searchsorted(self._ends, image_offset, side="right"))
        while done < len(target):
            at = image_offset + done
            gap = min(len(target) - done, max(0, int(self._starts[number]) - at))
            target[done : done + gap] = bytes(gap)
            done += gap
            if done == len(target):
                break
            part, start = self._parts[number], at + gap - int(self._starts[number])
            length = min(len(target) - done, part.size_bytes - start)
            part.read_into(start, target[done : done + length])
            done += length
            number += 1
        return done

    def unread_ranges(self) -> NDArray[np.int64]:
        """Areas that no part holds, shape (n, 2): offset and length in bytes."""
        return self._unread

    @property
    def holes(self) -> NDArray[np.int64]:
        """Areas that the parts do not store, shape (n, 2): offset and length in bytes."""
        return np.concatenate(
            [part.holes + np.array([start, 0]) for part, start in zip(self._parts, self._starts, strict=True)]
        )

    def close(self) -> None:
        """Close all parts."""
        for part in self._parts:
            part.close()
