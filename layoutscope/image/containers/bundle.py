"""Apple sparse bundles: folders in which each file holds one band of the disk.

``Info.plist`` tells the sizes of disk and bands; the band N is the file ``bands/N``, in hexadecimal. A band that is
absent, or the part of one that is not there, reads as zeros.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope import inputs
from layoutscope.arrays.intervals import runs_of, subtract
from layoutscope.errors import ImageError
from layoutscope.image import signatures
from layoutscope.image.raw import RawFile
from layoutscope.image.sets import is_band
from layoutscope.image.source import FillingSource, ReadCounter

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MAX_PLIST_BYTES: Final = 1024**2
MAX_DISK_BYTES: Final = 2**60
# A process of macOS may have 256 files open unless somebody raised that.
KEPT_BANDS: Final = 64


def is_bundle(path: Path) -> bool:
    """Whether a path is a sparse bundle, whatever its name."""
    return (path / "bands").is_dir() and (path / "Info.plist").is_file()


class SparseBundle(FillingSource):
    """The disk in a sparse bundle.

    Parameters
    ----------
    path : Path
        The folder.

    Raises
    ------
    ImageError
        If its property list cannot be used.
    UnsupportedError
        If it is encrypted.
    """

    def __init__(self, path: Path) -> None:
        inputs.note(path)
        sizes = _sizes(path)
        self.name = str(path)
        self.size_bytes, self._band_bytes = sizes
        self.counter = ReadCounter()
        self._bands = path / "bands"
        self._stored = frozenset(inputs.list_folder(self._bands))
        self._open: OrderedDict[int, RawFile] = OrderedDict()
        _refuse_encrypted(path, self.size_bytes)

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

    def _band(self, number: int) -> RawFile | None:
        """Open a band; the last ones stay open."""
        if f"{number:x}" not in self._stored:
            return None
        if number not in self._open:
            if len(self._open) >= KEPT_BANDS:
                self._open.popitem(last=False)[1].close()
            self._open[number] = RawFile(self._bands / f"{number:x}")
            self._open[number].counter = self.counter
        self._open.move_to_end(number)
        return self._open[number]

    @property
    def holes(self) -> NDArray[np.int64]:
        """Bands that are absent, shape (n, 2): offset and length in bytes."""
        numbers = np.array([int(name, 16) for name in self._stored if is_band(name)], np.int64)
        stored = runs_of(numbers * self._band_bytes, np.full(len(numbers), self._band_bytes))
        return subtract(np.array([[0, self.size_bytes]]), stored)

    def close(self) -> None:
        """Close the bands that are open."""
        for band in self._open.values():
            band.close()
        self._open.clear()


def _refuse_encrypted(path: Path, size_bytes: int) -> None:
    """Refuse a bundle whose token tells that its bands are encrypted."""
    try:
        with inputs.open_file(path / "token") as file:
            header = signatures.header_of(file.read(MAX_PLIST_BYTES))
    except OSError:
        return
    if header is not None:
        raise signatures.encrypted_refusal(f"{path}: is an encrypted sparse bundle", header, size_bytes)


def _sizes(path: Path) -> tuple[int, int]:
    """Size of the disk and of its bands, in bytes."""
    import plistlib
    from xml.parsers.expat import ExpatError

    try:
        with inputs.open_file(path / "Info.plist") as file:
            facts: Any = plistlib.loads(file.read(MAX_PLIST_BYTES))
        size, band = facts["size"], facts["band-size"]
    except (OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, ExpatError,
            plistlib.InvalidFileException) as error:  # fmt: skip
        raise ImageError(f"{path}: its Info.plist is not that of a sparse bundle") from error
    if not isinstance(size, int) or not isinstance(band, int) or not (0 < band <= size + band <= MAX_DISK_BYTES):
        raise ImageError(f"{path}: its Info.plist tells impossible sizes")
    return size, band
