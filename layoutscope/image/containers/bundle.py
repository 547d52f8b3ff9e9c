"""Apple sparse bundles: folders in which each file holds one band of the disk.

``Info.plist`` tells the sizes of disk and bands, ``Info.bckup`` is its copy; the band N is the file ``bands/N``, in
hexadecimal. A band that is absent, or the part of one that is not there, reads as zeros.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope import inputs
from layoutscope.arrays.intervals import runs_of, subtract
from layoutscope.errors import ImageError
from layoutscope.findings import FindingLog
from layoutscope.image import signatures
from layoutscope.image.containers.encrypted import DecryptedSource, unlocked
from layoutscope.image.ddrescue import RescuedSource
from layoutscope.image.raw import RawFile
from layoutscope.image.sets import band_number
from layoutscope.image.source import FillingSource, MemorySource, ReadCounter, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from layoutscope.findings import Level

MAX_PLIST_BYTES: Final = 1024**2
MAX_DISK_BYTES: Final = 2**60
# A process of macOS may have 256 files open unless somebody raised that.
KEPT_BANDS: Final = 64

LISTS: Final = "Info.plist", "Info.bckup"
QUOTED_NAMES: Final = 6
CODE: Final = "container-invalid"
WHAT: Final = "sparse bundle"


def is_bundle(path: Path) -> bool:
    """Whether a path is a sparse bundle, whatever its name."""
    bands = path / "bands"
    if not bands.is_dir():
        return False
    known = any((path / name).is_file() for name in (*LISTS, "token"))
    return known or any(band_number(item.name) is not None for item in bands.iterdir())


def open_bundle(path: Path, password: str | None = None) -> Source:
    """Open the disk in a sparse bundle; what contradicts itself counts as never read."""
    bundle = SparseBundle(path, password)
    return RescuedSource(bundle, bundle.lost) if len(bundle.lost) else bundle


class SparseBundle(FillingSource):
    """The disk in a sparse bundle."""

    def __init__(self, path: Path, password: str | None) -> None:
        inputs.note(path)
        log = FindingLog().at(WHAT)
        self.name = str(path)
        self.size_bytes, self._band_bytes = _sizes(path, log)
        self.counter = ReadCounter()
        self._bands = path / "bands"
        self._open: OrderedDict[int, Source] = OrderedDict()
        self._lock = _lock(path, self.size_bytes, password)
        self._stored = self._numbered(log)
        self.lost = self._refused_bands(log)
        self.own_findings = tuple(log.findings)

    def _numbered(self, log: FindingLog) -> dict[int, list[str]]:
        """List the names of each band."""
        found: dict[int, list[str]] = {}
        others: list[str] = []
        for name in sorted(inputs.list_folder(self._bands)):
            number = band_number(name)
            found.setdefault(number, []).append(name) if number is not None else others.append(name)
        if others:
            # What file managers leave in every folder holds no part of a disk.
            level: Level = "info" if all(name.startswith(".") for name in others) else "warning"
            log.add(CODE, level, f"bands/ holds what is not a band: {_quoted(others)}")
        return found

    def _refused_bands(self, log: FindingLog) -> NDArray[np.int64]:
        """Compare the bands with their size; the ranges of those of which nothing can be said."""
        lengths = {number: max(_length(self._bands / name) for name in names) for number, names in self._stored.items()}
        longest, last = max(lengths.values(), default=0), max(lengths, default=0)
        size = self._band_bytes
        while size < longest:
            size *= 2
        # A longer size than the list's is believed if the bands cover the disk with it and no more.
        if size > self._band_bytes and last == -(-self.size_bytes // size) - 1:
            log.add(
                CODE, "warning", "the bands are longer than the property list says; they are read by their own length",
                expected=f"a band size of {size:,}", found=f"{self._band_bytes:,}",
            )  # fmt: skip
            self._band_bytes = size
        wrong = {
            "bands are longer than a band": [number for number in lengths if lengths[number] > self._band_bytes],
            "bands have two files": [number for number, names in self._stored.items() if len(names) > 1],
        }
        for what, numbers in wrong.items():
            if numbers:
                names = [name for number in numbers for name in self._stored[number]]
                log.add(CODE, "error", f"{what}, and are not read: {_quoted(names)}")
        beyond = [names[0] for number, names in self._stored.items() if number * self._band_bytes >= self.size_bytes]
        if beyond:
            log.add(CODE, "warning", f"bands lie behind the end of the disk: {_quoted(beyond)}")
        return self._ranges({number for numbers in wrong.values() for number in numbers})

    def _ranges(self, bands: Iterable[int]) -> NDArray[np.int64]:
        """Ranges of the disk that bands cover, shape (n, 2): offset and length in bytes."""
        inside = sorted(number for number in bands if number * self._band_bytes < self.size_bytes)
        starts = np.array(inside, np.int64) * self._band_bytes
        return runs_of(starts, np.minimum(self._band_bytes, self.size_bytes - starts))

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        done = 0
        while done < len(target):
            number, start = divmod(image_offset + done, self._band_bytes)
            length = min(len(target) - done, self._band_bytes - start)
            self._read_band(number, start, target[done : done + length])
            done += length
        return done

    def _read_band(self, number: int, start: int, target: memoryview) -> None:
        band = self._band(number)
        stored = 0 if band is None else max(0, min(len(target), band.size_bytes - start))
        if band is not None and stored:
            band.read_into(start, target[:stored])
        target[stored:] = bytes(len(target) - stored)
        self.counter.hole_bytes += len(target) - stored

    def _band(self, number: int) -> Source | None:
        """Open a band; the last ones stay open."""
        if number not in self._stored:
            return None
        if number not in self._open:
            if len(self._open) >= KEPT_BANDS:
                self._open.popitem(last=False)[1].close()
            band = RawFile(self._bands / self._stored[number][0])
            band.counter = self.counter
            self._open[number] = band if self._lock is None else self._lock(band)
        self._open.move_to_end(number)
        return self._open[number]

    @property
    def holes(self) -> NDArray[np.int64]:
        """Bands that are absent, shape (n, 2): offset and length in bytes."""
        return subtract(np.array([[0, self.size_bytes]]), self._ranges(self._stored))

    def close(self) -> None:
        """Close the bands that are open."""
        for band in self._open.values():
            band.close()
        self._open.clear()


def _lock(path: Path, size_bytes: int, password: str | None) -> Callable[[Source], Source] | None:
    """Return what opens the bands of a bundle whose token tells that they are encrypted; None of another one."""
    try:
        with inputs.open_file(path / "token") as file:
            token = file.read(MAX_PLIST_BYTES)
    except OSError:
        return None
    header = signatures.header_of(token)
    if header is None:
        return None
    if password is None:
        what = f"{path}: is an encrypted sparse bundle"
        raise signatures.encrypted_refusal(what, header.key_bits, size_bytes)
    keys, chunk = unlocked(MemorySource(token, str(path)), header, password), header.len_block
    # Chunks count from the start of their band.
    return lambda band: DecryptedSource(band, 0, chunk, band.size_bytes // chunk * chunk, keys)


def _length(path: Path) -> int:
    """Length of a band; of one that cannot be reached, opening it says why."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _quoted(names: list[str]) -> str:
    more = f" and {len(names) - QUOTED_NAMES:,} more" if len(names) > QUOTED_NAMES else ""
    return ", ".join(map(repr, names[:QUOTED_NAMES])) + more


def _sizes(path: Path, log: FindingLog) -> tuple[int, int]:
    """Size of the disk and of its bands, in bytes."""
    reasons = []
    for name in LISTS:
        try:
            sizes = _sizes_in(path / name)
        except ImageError as error:
            reasons.append(str(error))
            continue
        if reasons:
            log.add(CODE, "warning", f"its {reasons[0]}; {name} is used in its place")
        return sizes
    raise ImageError(f"{path}: its {reasons[0]}")


def _sizes_in(path: Path) -> tuple[int, int]:
    """Size of the disk and of its bands, in bytes, by one of the property lists."""
    import plistlib
    from xml.parsers.expat import ExpatError

    try:
        with inputs.open_file(path) as file:
            facts: Any = plistlib.loads(file.read(MAX_PLIST_BYTES))
        size, band = facts["size"], facts["band-size"]
    except FileNotFoundError as error:
        raise ImageError(f"{path.name} is missing") from error
    except (OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, ExpatError,
            plistlib.InvalidFileException) as error:  # fmt: skip
        raise ImageError(f"{path.name} is not that of a sparse bundle") from error
    if not isinstance(size, int) or not isinstance(band, int) or not (0 < band <= size + band <= MAX_DISK_BYTES):
        raise ImageError(f"{path.name} tells impossible sizes")
    return size, band
