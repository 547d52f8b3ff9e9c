"""Where decompressed images are kept, and how much of them.

An image is known by what no other file has: device, inode, size, and both times, of which the later one (of the inode)
cannot be set back. Another image of the same name, or the same file written anew, is never taken for it. An image
stands under its name only when it is whole and on the disk. Beside it lies a seal: a digest of its contents, and the
state of the file in which they were so; a file that was touched since is read again before it is used. What was used
longest ago goes when there is not enough room.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from layoutscope.errors import UsageError
from layoutscope.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER_VARIABLE: Final = "LAYOUTSCOPE_CACHE"
LIMIT_VARIABLE: Final = "LAYOUTSCOPE_CACHE_LIMIT"
LIMIT_BYTES: Final = 10 * 1024**3
"""So much is kept unless the environment says otherwise."""

PARTIAL: Final = ".partial-"
ABANDONED_AFTER_S: Final = 24 * 3600
"""What an interrupted command began to write is removed when it is so old: no decompression takes that long."""

_OWN: Final = re.compile(r"^(?P<name>.*)-[0-9a-f]{32}\.raw$", re.DOTALL)
_STAT_BLOCK_BYTES: Final = 512


SEAL: Final = ".seal"
_MOST_SEAL_BYTES: Final = 256


class KeptImage(NamedTuple):
    """An image that is kept.

    Attributes
    ----------
    name : str
        Of the compressed file.
    path : Path
        Where it is kept.
    size_bytes, stored_bytes : int
        Its length, and what it takes on the disk: holes take nothing.
    used : float
        When it was used last, in seconds since 1970.
    """

    name: str
    path: Path
    size_bytes: int
    stored_bytes: int
    used: float


def default_folder() -> Path | None:
    """Return where images are kept by default: in the user's folder of caches, or where the environment says.

    None where the environment says that none are kept, with an empty name, or the user has no home.
    """
    told = os.environ.get(FOLDER_VARIABLE)
    if told is not None:
        return Path(told) if told else None
    from platformdirs import user_cache_path

    try:
        return user_cache_path("layoutscope", appauthor=False) / "images"
    except RuntimeError:
        return None


def limit_bytes() -> int:
    """Return how much may be kept.

    Raises
    ------
    UsageError
        If the environment says something that is no size.
    """
    told = os.environ.get(LIMIT_VARIABLE)
    try:
        return LIMIT_BYTES if not told else parse_size(told)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{LIMIT_VARIABLE}={told!r} is no size; write 4GiB") from error


def kept_name(name: str, status: os.stat_result) -> str:
    """Name an image after its file and what identifies that.

    Parameters
    ----------
    name : str
        Of the compressed file.
    status : os.stat_result
        Of the same.
    """
    import hashlib

    facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    digest = hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()
    return f"{name[:100]}-{digest}.raw"


def kept_images(folder: Path) -> list[KeptImage]:
    """List the images that are kept in a folder, those first that were used last; other files are not ours."""
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _OWN.match(path.name)
        with suppress(OSError):
            if match is not None and path.is_file() and not path.is_symlink():
                found.append(_kept(match["name"], path))
    return sorted(found, key=lambda item: item.used, reverse=True)


def _kept(name: str, path: Path) -> KeptImage:
    status = path.stat()
    return KeptImage(name, path, status.st_size, disk_bytes(status), status.st_mtime)


def disk_bytes(status: os.stat_result) -> int:
    """Return what a file takes on the disk; where the system does not say that, its length."""
    blocks: int = getattr(status, "st_blocks", -(-status.st_size // _STAT_BLOCK_BYTES))
    return blocks * _STAT_BLOCK_BYTES


def touch(path: Path, digest: str) -> None:
    """Note that an image was used, and that its contents are as sealed; whether files may be changed does not matter.

    Parameters
    ----------
    path : Path
        Where it is kept.
    digest : str
        Of its contents, which were just written, or found to be so.
    """
    with suppress(OSError):
        os.utime(path)
        text = f"{digest} {_state_of(path)}\n"
        part = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name[-40:]}{SEAL}")
        part.write_text(text)
        part.replace(_seal_of(path))


def sealed_digest(path: Path) -> tuple[str, bool]:
    """Return the digest that an image was sealed with, and whether its file is as it was then; empty without a seal."""
    try:
        with _seal_of(path).open("rb") as file:
            digest, _, state = file.read(_MOST_SEAL_BYTES).decode("ascii").strip().partition(" ")
        return digest, state == _state_of(path)
    except (OSError, ValueError):
        return "", False


def _seal_of(path: Path) -> Path:
    return path.with_suffix(SEAL)


def _state_of(path: Path) -> str:
    """Tell one state of a file from every other: whoever writes to it changes the time of its inode."""
    status = path.stat()
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def make_room(folder: Path, new_bytes: int) -> bool:
    """Remove what was used longest ago, and what was abandoned, until something new fits.

    Parameters
    ----------
    folder : Path
        The cache.
    new_bytes : int
        What is to be kept besides.

    Returns
    -------
    bool
        Whether it fits; if it is larger than all that may be kept, nothing is removed for it.
    """
    limit = limit_bytes()
    for path in folder.glob(f"{PARTIAL}*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_AFTER_S:
                path.unlink()
    if new_bytes > limit:
        return False
    rest = kept_images(folder)
    while rest and sum(item.stored_bytes for item in rest) + new_bytes > limit:
        # Who has it open goes on reading it: a name is removed, not the file.
        remove([rest.pop()])
    return True


def remove(images: Iterable[KeptImage]) -> int:
    """Remove images that are kept; returns the bytes that this gave back."""
    freed = 0
    for item in images:
        with suppress(OSError):
            item.path.unlink()
            freed += item.stored_bytes
            _seal_of(item.path).unlink()
    return freed
