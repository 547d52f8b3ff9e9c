"""The errors that this package raises on purpose, and their exit codes.

Damage that can be read around is not an error but a :class:`layoutscope.findings.Finding`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EXIT_COMPLETE: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_DAMAGED: Final = 3
"""The image was read, but with gaps or errors."""

EXIT_INTERRUPTED: Final = 130
"""The status that shells use after SIGINT: 128 plus the signal's number."""


class LayoutscopeError(Exception):
    """Base of all errors that this package raises on purpose.

    Parameters
    ----------
    message : str
        The problem, and the keyword of the library that solves it.
    options : mapping of str to str, optional
        Replacements for words of the message on the command line.

    Attributes
    ----------
    typed : str
        The message for users of the command line.
    """

    def __init__(self, message: str = "", *, options: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.typed = message
        for keyword, option in (options or {}).items():
            # The name of the image comes first, and may contain the same words.
            before, keyword_found, after = self.typed.rpartition(keyword)
            self.typed = f"{before}{option if keyword_found else ''}{after}"


class ImageError(LayoutscopeError):
    """The image cannot be opened or read: missing, denied, a directory, empty, incomplete."""


class UsageError(LayoutscopeError):
    """The requested partition, volume, node or other object does not exist, or a request is wrong."""


class OutputError(LayoutscopeError):
    """A result cannot be written to its target."""


class LockedError(LayoutscopeError):
    """The requested data is encrypted, and no key for it was given."""


REFUSALS: Final[dict[str, str]] = {
    "apple-raid": "The partition is a member of an AppleRAID set, whose volume is spread over all of its members.",
    "core-storage": "The partition belongs to CoreStorage (Fusion drives, volumes of 10.7 to 10.12).",
    "file-vault": "The partition is encrypted by FileVault 2 on CoreStorage (10.7 to 10.12).",
    "encrypted-image": "The file is an encrypted disk image or sparse bundle, as FileVault 1 makes of homes.",
    "foreign-file-system": "The image holds other file systems only; they are named.",
    "container": "The file is a container or an archive that is not read; it is named.",
    "nested-containers": "The file holds disk images within disk images, too deep for any that somebody made.",
    "sparse-bundle": "The path is a part of a sparse bundle.",
    "lfs-pointer": "The file is a pointer of git LFS; the image itself was never fetched.",
    "dmg-segments": "The disk image is one of several segments.",
    "lzfse": "The disk image is compressed with LZFSE, for which a package is missing.",
    "fleet-missing": "Reading with a cluster needs a package that is missing.",
    "remote-missing": "Reading from servers needs a package that is missing.",
    "frames-missing": "Tables as frames and as Parquet, and so captures, need a package that is missing.",
    "duckdb-missing": "Queries, and pages over a batch, need a package that is missing.",
    "crypto-missing": "Unlocking an encrypted volume needs a package that is missing.",
    "picture-export": "Pictures of maps need a package that is missing.",
}
"""Codes of intentional refusals; docs/reference/findings.md is generated from this.

:func:`declare_refusals` adds the codes of a file system when its package is imported.
"""


def declare_refusals(refusals: Mapping[str, str]) -> Mapping[str, str]:
    """Add the refusal codes of one file system; return them."""
    for code, meaning in refusals.items():
        if REFUSALS.setdefault(code, meaning) != meaning:
            raise ValueError(f"the code {code!r} of refusals has another meaning already")
    return refusals


def reason_of(error: Exception) -> str:
    """Return the system's reason for an error, for the end of a sentence."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the most similar known word, as a part of a sentence; empty if none is similar."""
    from difflib import get_close_matches

    by_fold = {each.casefold(): each for each in known}
    nearest = get_close_matches(word.casefold(), by_fold, n=1)
    return f" (did you mean {by_fold[nearest[0]]!r}?)" if nearest else ""


def install_command(extra: str) -> str:
    """Return the command that installs an optional feature, from the source of the present installation."""
    from importlib.metadata import PackageNotFoundError, distribution
    from json import loads
    from shlex import quote
    from urllib.parse import unquote, urlsplit

    try:
        # PEP 610: the source of a package that is not from an index, such as a checkout.
        source = loads(distribution("layoutscope").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        source = {}
    url = urlsplit(source.get("url", ""))
    if url.scheme != "file":
        return f"pip install 'layoutscope[{extra}]'"
    flag = "-e " if source.get("dir_info", {}).get("editable") else ""
    return f"pip install {flag}{quote(f'{unquote(url.path)}[{extra}]')}"


class UnsupportedError(LayoutscopeError):
    """Valid, but outside the scope of this package.

    Parameters
    ----------
    message : str
        What was found.
    code : str
        Stable identifier, a key of :data:`REFUSALS`.
    advice : str, optional
        What the user can do.
    """

    def __init__(self, message: str, *, code: str, advice: str = "") -> None:
        if code not in REFUSALS:
            raise ValueError(f"unknown code {code!r}: add it to layoutscope.errors.REFUSALS")
        super().__init__(f"{message}; {advice}" if advice else message)
        self.code = code
        self.advice = advice


class FormatError(LayoutscopeError):
    """The image contradicts its format.

    Parameters
    ----------
    message : str
        The problem.
    structure : str
        The structure in the terms of the field, such as ``volume header``.
    image_offset : int or None
        Its position, in bytes from the start of the image; None if unknown.
    expected, found : str, optional
        The value that the format requires, and the actual value.
    because : str, optional
        The reason, which the message shows first.

    Attributes
    ----------
    device : int
        The image of a set on which the address is; 0 unless a reader of sets changes it.
    """

    device: int = 0

    def __init__(
        self,
        message: str,
        *,
        structure: str,
        image_offset: int | None,
        expected: str = "",
        found: str = "",
        because: str = "",
    ) -> None:
        before = f"{because}: " if because else ""
        detail = f" (expected {expected}, found {found})" if expected else ""
        where = "" if image_offset is None else f" at byte {image_offset:,}"
        super().__init__(f"{before}{structure}{where}: {message}{detail}")
        self.reason = f"{before}{message}"
        self.structure = structure
        self.image_offset = image_offset
        self.expected = expected
        self.found = found


class TruncatedError(FormatError, EOFError):
    """A structure ends after the end of the image."""


class UnreadError(FormatError):
    """The sectors were never read into the image (bad areas of a ddrescue map), or the disk fails to read them."""


class ShrunkError(UnreadError, TruncatedError):
    """The image became shorter while it was read."""


class ChecksumError(FormatError):
    """Stored and computed checksums differ."""
