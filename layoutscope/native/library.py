"""The library of kernels: found, loaded, called.

A kernel is a C function on flat buffers. It is the twin of a function in Python, which says what is right: the kernel
gives the same result bit for bit, or refuses. It refuses what it cannot prove harmless, an index that leads out of a
buffer or a sum that overflows; then, and where there is no library, the function in Python runs.
"""

from __future__ import annotations

import ctypes
import os
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SOURCES: Final = Path(__file__).resolve().parent / "source"
LIBRARY: Final = SOURCES.with_name("kernels.dll" if sys.platform == "win32" else "kernels.so")

PURE: Final = "LAYOUTSCOPE_PURE"
"""Environment: not empty and not 0, and everything runs in Python."""
OTHER_LIBRARY: Final = "LAYOUTSCOPE_KERNELS"
"""Environment: a library to load in place of the package's, such as one that watches its own accesses."""

REFUSED: Final = -1

OTHER_SOURCES: Final = "the library was built from other sources"

_LACKED: Final = set[str]()


class Buffer(ctypes.Structure):
    """A buffer and the number of its elements: ``Words``, ``Numbers`` or ``Bytes`` in C."""

    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_int64))


class Columns(ctypes.Structure):
    """Several arrays of any type, and their number; each has the number of its bytes: ``Columns`` in C."""

    _fields_ = (("data", ctypes.POINTER(Buffer)), ("length", ctypes.c_int64))


class Kernel:
    """One function of the library."""

    def __init__(self, name: str, takes: str) -> None:
        self.name = name
        self.takes = takes

    def __call__(self, *given: NDArray[Any] | Sequence[NDArray[Any]] | Columns | int) -> int | None:
        """Run the kernel.

        What the kernel returns; None if it refused or there is no library.
        """
        function = _function(self.name, self.takes)
        if function is None:
            return None
        result: int = function(*map(_argument, self.takes, given))
        return None if result == REFUSED else result


KINDS: Final = {"l": "int64", "i": "int32", "b": "uint8"}
_TYPES: Final = {"n": ctypes.c_int64, "C": Columns, "c": Columns}


def _argument(code: str, value: Any) -> Buffer | Columns | int:
    """Hand over a number, or buffers of which the kernel can rely on what they are."""
    if isinstance(value, int):
        return value
    if code in "cC":
        return value if isinstance(value, Columns) else made_ready(value, code)
    if value.dtype != KINDS[code.lower()]:
        raise TypeError(f"a kernel takes contiguous {KINDS[code.lower()]}, not {value.dtype}")
    return _buffer(code, value)


def made_ready(arrays: Sequence[NDArray[Any]], code: str = "C") -> Columns:
    """Make ready to hand over several arrays, more than once; they must stay where they are for so long."""
    return Columns((Buffer * len(arrays))(*(_buffer(code, each) for each in arrays)), len(arrays))


def _buffer(code: str, value: NDArray[Any]) -> Buffer:
    if not value.flags.c_contiguous:
        raise TypeError(f"a kernel takes contiguous {value.dtype}")
    if code.isupper() and not value.flags.writeable:
        raise TypeError("a kernel writes into this buffer")
    return Buffer(value.__array_interface__["data"][0], value.nbytes if code in "cC" else value.size)


@cache
def _function(name: str, takes: str) -> Any:
    library = _library()
    if isinstance(library, str):
        return None
    try:
        function = library[name]
    except AttributeError:
        _LACKED.add(name)
        return None
    function.argtypes = [_TYPES.get(code, Buffer) for code in takes]
    function.restype = ctypes.c_int64
    return function


def digest() -> str:
    """Return what tells these C sources from all others; the library carries that of its own."""
    # Against a library that an update left behind, not against forgers: four bytes are enough.
    sources = b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]")))
    return f"{zlib.crc32(sources):08x}"


@cache
def _library() -> ctypes.CDLL | str:
    """Return the library, or why everything runs in Python."""
    if os.environ.get(PURE, "0") not in ("", "0"):
        return f"{PURE} is set"
    path = Path(os.environ.get(OTHER_LIBRARY) or LIBRARY)
    if not path.exists():
        return "no library was built"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return f"the library cannot be loaded: {error}"
    try:
        library.sources.restype = ctypes.c_char_p
    except AttributeError:
        return OTHER_SOURCES
    return library if library.sources() == digest().encode() else OTHER_SOURCES


def outdated() -> str:
    """Say that a library was asked for kernels that it lacks, or has as others, and what builds it; else nothing."""
    if not _library.cache_info().currsize:
        return ""
    is_other = _library() == OTHER_SOURCES
    if not is_other and not _LACKED:
        return ""
    other = os.environ.get(OTHER_LIBRARY)
    command = "python -m layoutscope.native.build" + (f" -o {other}" if other else "")
    lacks = "are older than their C sources" if is_other else f"lack {min(_LACKED)}"
    return f"the compiled kernels {lacks}: plain Python, which is slower, ran in their place; build them with {command}"


def core() -> str:
    """Tell which core runs, and why it is not the native one."""
    library = _library()
    return f"plain Python ({library})" if isinstance(library, str) else f"native ({digest()})"
