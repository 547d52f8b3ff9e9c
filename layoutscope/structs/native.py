"""The library of kernels: finding, loading and calling it.

A kernel is a C function on flat buffers. It refuses input that it cannot prove harmless, such as an index outside a
buffer or a sum that overflows. It refuses no valid input. Reference implementations in Python (``tests/unit/native``)
define the results.
"""

from __future__ import annotations

import ctypes
import os
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from layoutscope.errors import LayoutscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SOURCES: Final = Path(__file__).resolve().parent / "source"
LIBRARY: Final = SOURCES.with_name("kernels.dll" if sys.platform == "win32" else "kernels.so")

OTHER_LIBRARY: Final = "LAYOUTSCOPE_KERNELS"
"""Environment variable: a library to load instead of the package's, such as one that checks its memory accesses."""

REFUSED: Final = -1

BUILD: Final = "python -m layoutscope.structs.build"


class CoreError(LayoutscopeError):
    """The library of kernels is missing or cannot be used."""


class RefusedError(LayoutscopeError):
    """A kernel refused numbers that no valid volume has."""


class Buffer(ctypes.Structure):
    """A buffer and the number of its elements: ``Words``, ``Numbers`` or ``Bytes`` in C."""

    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_int64))


class Columns(ctypes.Structure):
    """Arrays of any type and their number, each with its size in bytes: ``Columns`` in C."""

    _fields_ = (("data", ctypes.POINTER(Buffer)), ("length", ctypes.c_int64))


class Kernel:
    """One function of the library."""

    def __init__(self, name: str, takes: str) -> None:
        self.name = name
        self.takes = takes

    def __call__(self, *given: NDArray[Any] | Sequence[NDArray[Any]] | Columns | int) -> int:
        """Run the kernel and return its result; raise an error if it refuses its input."""
        result = self.attempt(*given)
        if result is None:
            raise RefusedError(f"kernel {self.name}: numbers are outside of what a volume can hold")
        return result

    def attempt(self, *given: NDArray[Any] | Sequence[NDArray[Any]] | Columns | int) -> int | None:
        """Run the kernel and return its result; None if it refuses its input."""
        result: int = _function(self.name, self.takes)(*map(_argument, self.takes, given))
        return None if result == REFUSED else result


KINDS: Final = {"l": "int64", "i": "int32", "b": "uint8"}
_TYPES: Final = {"n": ctypes.c_int64, "C": Columns, "c": Columns}


def _argument(code: str, value: Any) -> Buffer | Columns | int:
    """Convert an argument to a number, or to buffers whose types the kernel can rely on."""
    if isinstance(value, int):
        return value
    if code in "cC":
        return value if isinstance(value, Columns) else prepare_columns(value, code)
    if value.dtype != KINDS[code.lower()]:
        raise TypeError(f"a kernel takes contiguous {KINDS[code.lower()]}, not {value.dtype}")
    return _buffer(code, value)


def prepare_columns(arrays: Sequence[NDArray[Any]], code: str = "C") -> Columns:
    """Prepare several arrays for repeated calls; they must stay at their addresses meanwhile."""
    return Columns((Buffer * len(arrays))(*(_buffer(code, each) for each in arrays)), len(arrays))


def _buffer(code: str, value: NDArray[Any]) -> Buffer:
    if not value.flags.c_contiguous:
        raise TypeError(f"a kernel takes contiguous {value.dtype}")
    if code.isupper() and not value.flags.writeable:
        raise TypeError("a kernel writes into this buffer")
    return Buffer(value.__array_interface__["data"][0], value.nbytes if code in "cC" else value.size)


@cache
def _function(name: str, takes: str) -> Any:
    function = load_library()[name]
    function.argtypes = [_TYPES.get(code, Buffer) for code in takes]
    function.restype = ctypes.c_int64
    return function


def digest() -> str:
    """Return the digest of these C sources; the library stores that of its own sources."""
    # This detects a library left over from an update, not a forgery: four bytes are enough.
    sources = b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]")))
    return f"{zlib.crc32(sources):08x}"


@cache
def load_library() -> ctypes.CDLL:
    """Load the library of kernels, and make sure that it was built from these sources."""
    other = os.environ.get(OTHER_LIBRARY)
    path, command = Path(other or LIBRARY), BUILD + (f" -o {other}" if other else "")
    if not path.exists():
        raise CoreError(f"the C core is missing: {path} was not built. Build it with {command}")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        if "failed to map segment" in str(error) or "Cannot allocate memory" in str(error):
            raise MemoryError(str(error)) from error  # as the system's loader reports it
        raise CoreError(f"the C core cannot be loaded: {error}. Build it again with {command}") from error
    try:
        library.sources.restype = ctypes.c_char_p
        sources = str(library.sources().decode())
    except AttributeError:
        sources = ""
    if sources != digest():
        raise CoreError(f"the C core is older than its C sources: {path}. Build it again with {command}")
    return library


def core() -> str:
    """Describe the core in use, or why there is none."""
    try:
        load_library()
    except CoreError as error:
        return str(error)
    return f"native ({digest()})"
