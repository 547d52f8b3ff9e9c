"""What is kept of an examination, so that others can follow it: who looked at what, how, and that nothing changed."""

from __future__ import annotations

from typing import Final

from layoutscope.display import Displayed, Struct

FORMAT: Final = "layoutscope.evidence/1"


class HashedFile(Displayed, Struct, frozen=True):
    """One file or device of what was examined."""

    path: str  # where it lies
    size_bytes: int  # its length
    modified: str  # when its content last changed, as its file system says, UTC; empty where that is unknown
    sha256_before: str  # SHA-256 of all its bytes before the work, in hexadecimal digits
    sha256_after: str = ""  # SHA-256 after it; empty where the file was not read
    unread_bytes: int = 0  # bytes that the system did not give, which are hashed as zeros

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
    """An examination."""

    tool: str  # the program
    version: str  # its version
    system: str  # on which operating system, machine and interpreter
    command: tuple[str, ...]  # the words that were given; secrets are withheld
    folder: str  # where it was run
    started: str  # when the work began, UTC
    ended: str  # when it ended, UTC
    exit_code: int  # how it ended (docs/using.md)
    error: str  # the error with which it ended, empty without one
    images: tuple[tuple[str, tuple[HashedFile, ...]], ...]  # what was named, and the files of which it consists
    written: tuple[WrittenFile, ...]  # results

    @property
    def changed(self) -> tuple[HashedFile, ...]:
        """The files whose hashes differ, or that could not be read again."""
        return tuple(file for _, files in self.images for file in files if not file.is_unchanged)
