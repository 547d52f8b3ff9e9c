"""What is kept of an examination, so that others can follow it: who looked at what, how, and that nothing changed."""

from __future__ import annotations

from typing import Final

from layoutscope.display import Displayed, Struct

FORMAT: Final = "layoutscope.evidence/1"


class HashedFile(Displayed, Struct, frozen=True):
    """One file or device of what was examined.

    Attributes
    ----------
    path : str
        Where it lies.
    size_bytes : int
        Its length.
    modified : str
        When its content last changed, as its file system says, UTC; empty where that is unknown.
    sha256_before, sha256_after : str
        SHA-256 of all its bytes, in hexadecimal digits, before the work and after it; empty where it was not read.
    unread_bytes : int
        Bytes that the system did not give, which are hashed as zeros.
    """

    path: str
    size_bytes: int
    modified: str
    sha256_before: str
    sha256_after: str = ""
    unread_bytes: int = 0

    @property
    def is_unchanged(self) -> bool:
        """Whether both hashes are there, and are the same."""
        return bool(self.sha256_before) and self.sha256_before == self.sha256_after


class WrittenFile(Displayed, Struct, frozen=True):
    """One result that was written meanwhile: where, how long it is, and its SHA-256."""

    path: str
    size_bytes: int
    sha256: str


class EvidenceReport(Displayed, Struct, frozen=True):
    """An examination.

    Attributes
    ----------
    tool, version : str
        What was run.
    system : str
        On which operating system, machine and interpreter.
    command : tuple of str
        The words that were given; secrets are withheld.
    folder : str
        Where it was run.
    started, ended : str
        When, UTC.
    exit_code : int
        How it ended (docs/using.md).
    error : str
        The error with which it ended, empty without one.
    images : tuple of (str, tuple of HashedFile)
        What was named, and the files of which it consists.
    written : tuple of WrittenFile
        Results.
    """

    tool: str
    version: str
    system: str
    command: tuple[str, ...]
    folder: str
    started: str
    ended: str
    exit_code: int
    error: str
    images: tuple[tuple[str, tuple[HashedFile, ...]], ...]
    written: tuple[WrittenFile, ...]

    @property
    def changed(self) -> tuple[HashedFile, ...]:
        """The files whose hashes differ, or that could not be read again."""
        return tuple(file for _, files in self.images for file in files if not file.is_unchanged)
