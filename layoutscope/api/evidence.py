"""Reports of examinations: every file of every image is hashed before the work and after it.

A report is written even if the work fails, and names the files that changed.
"""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, Final

from layoutscope import inputs
from layoutscope.api.outputs import check_output, file_form, on_write, open_output
from layoutscope.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    ImageError,
    LayoutscopeError,
    UnreadError,
    UsageError,
)
from layoutscope.image.opening import files_of, open_plain
from layoutscope.image.source import read_by_sector
from layoutscope.progress import phase
from layoutscope.report.forensic import evidence_json, evidence_text
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.image.source import Source

FORMAT: Final = "layoutscope.evidence/1"
FORMS: Final = {"json": evidence_json, "txt": evidence_text}
CHUNK_BYTES: Final = 8 * 1024**2
WITHHELD: Final = "(withheld)"


class ChangedError(LayoutscopeError):
    """A file that was examined is not what it was before."""


class Examination:
    """The facts that are known during the work; the caller adds how it ended."""

    def __init__(self) -> None:
        self.exit_code = 0
        self.error = ""
        self.written: list[tuple[Path, int]] = []


@contextmanager
def report_examination(
    images: Sequence[str | os.PathLike[str]], targets: Sequence[Path], command: Sequence[str]
) -> Iterator[Examination]:
    """Hash images, let the work be done, hash them again, and write reports."""
    forms = [file_form(target, None, tuple(FORMS), "txt") for target in targets]
    for target in targets:
        check_output(target, force=None, reads=images)
    started = _time(time())
    before = {
        os.fspath(named): list(map(_hash_file, files_of(Path(inputs.split_volume(named)[0])))) for named in images
    }
    work = Examination()
    try:
        with on_write(lambda path, size, _: work.written.append((path, size))):
            yield work
    except LayoutscopeError as error:
        work.exit_code, work.error = EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED, error.typed
        raise
    except BaseException as error:
        work.exit_code = EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else EXIT_FAILED
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            work.exit_code = error.code  # a signal other than that of Ctrl-C
        work.error = str(error) or type(error).__name__
        raise
    finally:
        after = {named: list(map(_hash_file_again, files)) for named, files in before.items()}
        changed = [file["path"] for files in after.values() for file in files if not file["unchanged"]]
        report = {
            "format": FORMAT,
            "tool": "layoutscope",
            "version": __version__,
            "system": f"{platform.platform()}, {platform.python_implementation()} {platform.python_version()}",
            "command": without_secrets(command),
            "folder": os.getcwd(),  # noqa: PTH109  (a text)
            "started": started,
            "ended": _time(time()),
            "exit_code": work.exit_code,
            "error": work.error,
            "images": [{"named": named, "files": files} for named, files in after.items()],
            "written": [_hash_output(path, size) for path, size in work.written],
            "unchanged": not changed,
        }
        for target, form in zip(targets, forms, strict=True):
            with open_output(target, force=None, holds="a report of the examination") as file:
                file.write(FORMS[form](report).encode("utf-8", "surrogateescape"))
    if changed:
        raise ChangedError(f"{changed[0]}: is not what it was before the work; the report says more")


def without_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """Take the values of options for secrets out of a command's words, whatever way they were written.

    >>> without_secrets(["scan", "a.img", "--password", "swordfish", "--password-file", "b"])
    ('scan', 'a.img', '--password', '(withheld)', '--password-file', 'b')
    """
    from layoutscope.filesystems.registry import read_options

    flags = [f"--{name.replace('_', '-')}" for name, (each, _) in read_options().items() if each.kind == "secret"]
    kept: list[str] = []
    for word in command:
        flag, sign, _ = word.partition("=")
        is_secret = bool(kept) and kept[-1] in flags
        kept.append(WITHHELD if is_secret else f"{flag}={WITHHELD}" if sign and flag in flags else word)
    return tuple(kept)


def _hash_file(path: Path) -> dict[str, Any]:
    """Describe a file before the work; sectors that the system does not give are hashed as zeros, and counted."""
    with open_plain(path) as source:
        digest, unread = _digest(source)
        return {
            "path": os.fspath(path),
            "size_bytes": source.size_bytes,
            "modified": _time(path.stat().st_mtime),
            "sha256_before": digest,
            "sha256_after": "",
            "unread_bytes": unread,
        }


def _hash_file_again(file: dict[str, Any]) -> dict[str, Any]:
    """Add the hash after the work, which is empty if the file cannot be read, and whether it is the same."""
    digest = ""
    with suppress(ImageError), open_plain(Path(file["path"])) as source:
        digest, _ = _digest(source)
    return {**file, "sha256_after": digest, "unchanged": bool(digest) and digest == file["sha256_before"]}


def _digest(source: Source) -> tuple[str, int]:
    """Hash all bytes of a file; sectors that the system does not give are zeros, and counted."""
    digest, unread = hashlib.sha256(), 0
    with phase(f"hashing {source.name}", source.size_bytes) as hashed:
        for at in range(0, source.size_bytes, CHUNK_BYTES):
            data = bytearray(min(CHUNK_BYTES, source.size_bytes - at))
            try:
                source.read_into(at, memoryview(data))
            except UnreadError:
                unread += read_by_sector(source, at, memoryview(data))
            digest.update(data)
            hashed.at(at + len(data))
    return digest.hexdigest(), unread


def _hash_output(path: Path, size: int) -> dict[str, Any]:
    files = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
    return {"path": os.fspath(path), "size_bytes": size, "sha256": digest.hexdigest()}


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return ""
