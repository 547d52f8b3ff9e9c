"""Every error that this package raises on purpose.

Damage that can be read around is no error but a :class:`layoutscope.findings.Finding`.
"""

from __future__ import annotations


class LayoutscopeError(Exception):
    """Base of every error this package raises on purpose."""


class ImageError(LayoutscopeError):
    """The image cannot be opened or read: missing, denied, a directory, empty, incomplete."""


class UsageError(LayoutscopeError):
    """The caller asked for something that is not there: a partition, a volume, a node."""


class UnsupportedError(LayoutscopeError):
    """Valid, but outside the scope of this package.

    Parameters
    ----------
    message : str
        What was found.
    code : str
        Stable identifier, listed in the README.
    advice : str, optional
        What the user can do about it.
    """

    def __init__(self, message: str, *, code: str, advice: str = "") -> None:
        super().__init__(f"{message}; {advice}" if advice else message)
        self.code = code
        self.advice = advice


class FormatError(LayoutscopeError):
    """The image contradicts its format.

    Parameters
    ----------
    message : str
        What is wrong.
    structure : str
        The structure in the field's words, such as ``volume header``.
    image_offset : int
        Where it lies, in bytes from the start of the image.
    expected, found : str, optional
        What the format asks for, and what is there.

    Attributes
    ----------
    device : int
        Which image of a set the address is on; 0 unless a reader of sets says otherwise.
    """

    device: int = 0

    def __init__(self, message: str, *, structure: str, image_offset: int, expected: str = "", found: str = "") -> None:
        detail = f" (expected {expected}, found {found})" if expected else ""
        super().__init__(f"{structure} at byte {image_offset:,}: {message}{detail}")
        self.reason = message
        self.structure = structure
        self.image_offset = image_offset
        self.expected = expected
        self.found = found


class TruncatedError(FormatError, EOFError):
    """A structure ends past the end of the image."""


class UnreadError(FormatError):
    """The sectors were never read into the image (bad areas of a ddrescue map)."""


class ChecksumError(FormatError):
    """Stored and computed checksums differ."""
