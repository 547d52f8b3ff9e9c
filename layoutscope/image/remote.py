"""Images on servers and in object stores: ``https://``, and what fsspec opens, as ``s3://``, ``sftp://`` and others.

They are read by ranges, in blocks that are kept in a cache of bounded size; blocks that are wanted together and lie
side by side are one request. What came over the network is counted, so that a scan says how little of a disk it took.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import OrderedDict
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, Final, TypeVar

from layoutscope.errors import ImageError, UnsupportedError
from layoutscope.image.source import FillingSource, ReadCounter
from layoutscope.image.web import WAITS_S, WHOLE, WebFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

BLOCK_BYTES: Final = 16 * 1024
"""What is asked for at least: some nodes. Of scattered ones, larger blocks bring what nobody wants."""

CACHE_BYTES: Final = 64 * 1024**2
"""So much is kept of what was read last."""

LARGE_BYTES: Final = 8 * 1024**2
"""A read of so many bytes goes past the cache, which has other things to keep."""

_ADDRESS: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/{1,2}(?P<rest>[^/].*)", re.DOTALL)

_CHANGING: Final = {"etag", "lastmodified", "mtime", "versionid", "md5", "contentmd5", "digest"}
"""What servers call that which changes with a file."""

Result = TypeVar("Result")


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether something names a place on a server, and nothing on this machine."""
    return _ADDRESS.fullmatch(os.fspath(path)) is not None and not Path(path).exists()


def whole_address(path: str | os.PathLike[str]) -> str:
    """Give back to an address what it lost where it was taken for a path, the second slash."""
    return _ADDRESS.sub(r"\g<scheme>://\g<rest>", os.fspath(path))


class RemoteSource(FillingSource):
    """A file on a server."""

    def __init__(self, address: str) -> None:
        self.name = whole_address(address)
        self.counter = ReadCounter()
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._file: WebFile | _StoredFile
        if _is_web(self.name):
            self._file = WebFile(self.name, BLOCK_BYTES)
            self._blocks[0] = self._file.start
            self.counter.reads += 1
            self.counter.bytes += len(self._file.start)
        else:
            self._file = _StoredFile(self.name)
        self.size_bytes = self._file.size_bytes

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        if len(target) >= LARGE_BYTES:
            for at in range(0, len(target), LARGE_BYTES):
                piece = target[at : at + LARGE_BYTES]
                piece[:] = self._request([(image_offset + at, image_offset + at + len(piece))])[0]
        elif len(target):
            self._fill(image_offset, target, self._held(self._blocks_of(image_offset, len(target))))
        return len(target)

    def _fetch_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        # As many at a time as the cache holds: what is wanted together is asked for together.
        first = 0
        while first < len(places):
            wanted: set[int] = set()
            last = first
            while last < len(places) and len(wanted) * BLOCK_BYTES < CACHE_BYTES // 2:
                if lengths_bytes[last] < LARGE_BYTES:
                    wanted.update(self._blocks_of(int(image_offsets[last]), int(lengths_bytes[last])))
                last += 1
            self._held(wanted)
            for k in range(first, last):
                self.read_into(int(image_offsets[k]), target[int(places[k]) : int(places[k] + lengths_bytes[k])])
            first = last

    def _blocks_of(self, image_offset: int, length_bytes: int) -> range:
        last = min(image_offset + length_bytes, self.size_bytes)
        return range(image_offset // BLOCK_BYTES, -(-last // BLOCK_BYTES))

    def _held(self, wanted: Iterable[int]) -> dict[int, bytes]:
        """Return blocks by number, and read those that are not in the cache."""
        numbers = sorted(wanted)
        missing = [number for number in numbers if number not in self._blocks]
        runs: list[list[int]] = []
        for number in missing:
            if runs and runs[-1][1] == number and (number - runs[-1][0]) * BLOCK_BYTES < LARGE_BYTES:
                runs[-1][1] += 1
            else:
                runs.append([number, number + 1])
        ranges = [(first * BLOCK_BYTES, min(last * BLOCK_BYTES, self.size_bytes)) for first, last in runs]
        for (first, last), data in zip(runs, self._request(ranges), strict=True):
            for number in range(first, last):
                at = (number - first) * BLOCK_BYTES
                self._blocks[number] = data[at : at + BLOCK_BYTES]
        found = {}
        for number in numbers:
            found[number] = self._blocks[number]
            self._blocks.move_to_end(number)
        while len(self._blocks) * BLOCK_BYTES > CACHE_BYTES:
            self._blocks.popitem(last=False)
        return found

    @staticmethod
    def _fill(image_offset: int, target: memoryview, blocks: dict[int, bytes]) -> None:
        end = image_offset + len(target)
        for number, data in blocks.items():
            start, stop = max(image_offset, number * BLOCK_BYTES), min(end, (number + 1) * BLOCK_BYTES)
            piece = data[start - number * BLOCK_BYTES : stop - number * BLOCK_BYTES]
            target[start - image_offset : stop - image_offset] = piece

    def _request(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Ask the server for ranges, all at once where it allows that."""
        if not ranges:
            return []
        found = self._file.read_ranges(ranges)
        for (first, last), data in zip(ranges, found, strict=True):
            self.counter.reads += 1
            self.counter.bytes += len(data)
            if len(data) != last - first:
                raise ImageError(
                    f"{self.name}: its server gave {len(data):,} bytes where {last - first:,} were asked for"
                )
        return found

    def close(self) -> None:
        """Forget what was read, and close what is open."""
        self._blocks.clear()
        self._file.close()


class _StoredFile:
    """A file as fsspec opens it."""

    def __init__(self, address: str) -> None:
        self.name = address
        self._files, self._path = _opened(address)
        self.size_bytes = int(_facts(address)["size"])

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Read ranges, all at once where the kind of server allows that."""
        starts, stops = [first for first, _ in ranges], [last for _, last in ranges]
        paths = [self._path] * len(ranges)
        found: list[bytes] = _again(
            self.name, lambda: self._files.cat_ranges(paths, starts, stops, on_error="raise", max_gap=None)
        )
        return found

    def close(self) -> None:
        """Do nothing: fsspec keeps connections for other files."""


def address_identity(address: str) -> dict[str, Any]:
    """Say what is known of a file on a server without reading it.

    `size_bytes`, and `identity`: SHA-256 of its address, its size, and what the server says that changes with it. Empty
    where it cannot be reached.
    """
    try:
        facts = _facts(address)
    except (ImageError, UnsupportedError):
        return {}
    told = {name.lower(): str(facts[name]) for name in facts if name.lower().replace("-", "") in _CHANGING}
    text = repr((whole_address(address), facts["size"], sorted(told.items())))
    return {"size_bytes": int(facts["size"]), "identity": hashlib.sha256(text.encode()).hexdigest()}


def _facts(address: str) -> dict[str, Any]:
    """Ask a server about a file, by what fsspec calls its facts."""
    if _is_web(whole_address(address)):
        file = WebFile(whole_address(address), 1)
        file.close()
        return {"size": file.size_bytes, **file.facts}
    files, path = _opened(whole_address(address))
    # What was asked before may be kept for long, and this asks whether it still holds.
    files.invalidate_cache()
    facts: dict[str, Any] = _again(whole_address(address), lambda: files.info(path))
    if facts.get("type") == "directory":
        raise ImageError(f"{whole_address(address)}: is a directory, not an image")
    if facts.get("size") is None or not facts.get("partial", True):
        raise ImageError(f"{whole_address(address)}: {WHOLE}")
    return facts


def _is_web(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def _opened(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise UnsupportedError(
            f"{address}: reading from servers needs the package fsspec",
            code="remote-missing",
            advice="pip install 'layoutscope[remote]'",
        ) from error
    try:
        files, path = url_to_fs(address)
    except ImportError as error:
        raise UnsupportedError(f"{address}: {error}", code="remote-missing") from error
    except ValueError as error:
        raise ImageError(f"{address}: {str(error).lower()}") from error
    return files, path


def _again(name: str, ask: Callable[[], Result]) -> Result:
    """Ask a server, and again where that failed for a cause that may pass."""
    for wait in (*WAITS_S, None):
        try:
            return ask()
        except FileNotFoundError as error:
            raise ImageError(f"{name}: no such file") from error
        except PermissionError as error:
            raise ImageError(f"{name}: permission denied; log in as the kind of server asks for it") from error
        except Exception as error:  # noqa: BLE001  (each kind of server has errors of its own)
            if wait is None:
                cause = error if isinstance(error, OSError) else OSError(str(error))
                reason = str(error) or type(error).__name__
                raise ImageError(f"{name}: cannot be reached: {reason.splitlines()[0]}") from cause
            sleep(wait)
    raise AssertionError  # the last attempt returned or raised
