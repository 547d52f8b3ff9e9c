"""The folder of a batch: captures, a document per source, the tables over all sources, and a lock.

``batch.json`` identifies the folder. ``rows/ID.json`` appears when a source is done, after its capture; a resumed batch
relies on it. ``work/`` holds unfinished work. Each file appears under its name only when it is complete.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from contextlib import ExitStack, contextmanager
from time import sleep
from typing import IO, TYPE_CHECKING, Any, Final

from layoutscope import inputs, ownfiles
from layoutscope.api.outputs import check_output, open_output, refuse_place
from layoutscope.api.save import check_capture
from layoutscope.errors import OutputError, UsageError, reason_of
from layoutscope.tables.capture import is_capture
from layoutscope.tables.frames import FLEET_TABLES
from layoutscope.units import format_count
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from layoutscope.frames import pl


FLEET_FORMAT: Final = "layoutscope.batch/1"
"""Version of the tables and of the rows below them."""


def plain_text(text: str) -> str:
    """Escape bytes that are not UTF-8 in a path, or in a sentence that quotes one, so that tables take it."""
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Half a pair of surrogates, which names on a disk may have.
        raw = text.encode("utf-8", "backslashreplace")
    return raw.decode("utf-8", "backslashreplace")


FLEET_MANIFEST: Final = "batch.json"
LOCK: Final = "batch.lock"
FOLDERS: Final = ("captures", "rows", "work")
_WORK_NAME: Final = re.compile(r"[0-9a-f]+\.[0-9a-f]{16}")
"""Name of the folder of a source in ``work``; its second half is random."""

LOCK_TRIES: Final = 20
LOCK_WAIT_S: Final = 0.1
NAME_LENGTH: Final = 64
NO_SPACE_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT)
MIN_FREE_BYTES: Final = 64 * 1024**2
"""With less free space after a source failed for lack of space, the next source would fail as well."""

FULL: Final = "its disk has no room left: what was read is kept, and resume=True takes it up where there is room again"
RESUME: Final = {"resume=True": "--resume"}
SOURCES_PER_PIECE: Final = 500
"""Number of sources whose rows are held in memory as objects before they become columns."""


class FleetFolder:
    """The folder of a batch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._manifest: ownfiles.Snapshot | None = None

    def begin(self, *, resume: bool) -> None:
        """Create the folder, or resume the batch in it."""
        refuse_place(self.path / FLEET_MANIFEST, of_batch=True)
        ownfiles.refuse_special(self.path)
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path}: is not a folder")
        if not self.path.absolute().parent.is_dir():
            raise UsageError(f"{self.path}: the folder in which it would be does not exist")
        self.path.mkdir(exist_ok=True)
        names = set(os.listdir(self.path)) - {LOCK}  # noqa: PTH208  (names may be no UTF-8)
        if names and not self.is_ours():
            raise UsageError(f"{self.path}: holds something else than a batch. Name a folder that is empty or new.")
        if names and not resume:
            reason = "holds a batch; resume=True takes it up, another folder begins a new one"
            raise UsageError(f"{self.path}: {reason}", options=RESUME)
        for name in FOLDERS:
            self._refuse_no_folder(self.path / name)
        for name in (FLEET_MANIFEST, *(f"{table}.parquet" for table in FLEET_TABLES)):
            try:
                check_output(self.path / name, force=True, of_batch=True)
            except UsageError as error:
                new = "Begin a new batch in another folder."
                raise UsageError(str(error).replace(ownfiles.REMEDY, new)) from error

    def _refuse_no_folder(self, folder: Path) -> None:
        """Refuse anything but a real folder: the target of a link is not ours."""
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            kind = "a link" if folder.is_symlink() else "no folder"
            raise UsageError(f"{folder}: is {kind}; a batch writes into a folder of its own. Remove it.")

    def is_ours(self) -> bool:
        """Whether the folder holds a batch; raises for one of another version."""
        try:
            saved = _read_json(self.path / FLEET_MANIFEST)
        except (OSError, ValueError):
            return False
        if not isinstance(saved, dict) or not str(saved.get("format")).startswith(FLEET_FORMAT.partition("/")[0]):
            return False
        if saved["format"] != FLEET_FORMAT:
            raise UsageError(f"{self.path}: holds a batch of another version, {saved['format']}. Begin a new one.")
        return True

    def note(self) -> None:
        """Register the tables, rows and captures as inputs, so nothing is printed or written into them."""
        for name in (FLEET_MANIFEST, LOCK, *(f"{table}.parquet" for table in FLEET_TABLES), *FOLDERS):
            inputs.note(self.path / name)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder against other batches; the system releases the lock when the process ends."""
        try:
            import fcntl
        except ImportError:
            yield
            return
        with self._open_lock() as file:
            for remaining_tries in reversed(range(LOCK_TRIES)):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    # After a batch is killed, a process that was just starting may hold the lock for a moment.
                    if not remaining_tries:
                        raise UsageError(f"{self.path}: another batch is writing here") from error
                    sleep(LOCK_WAIT_S)
            yield

    def _open_lock(self) -> IO[str]:
        path = self.path / LOCK
        ownfiles.refuse_special(path)
        # Without O_NONBLOCK, opening a pipe waits for its reader.
        flags = sum(getattr(os, each, 0) for each in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
        no_file = f"{path}: is not a regular file. Remove it."
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | flags, 0o666)
        except OSError as error:
            # A pipe without a reader or a socket, and a folder.
            if error.errno in (errno.ENXIO, errno.EISDIR):
                raise UsageError(no_file) from error
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UsageError(no_file)
        return os.fdopen(descriptor, "a", encoding="utf-8")

    def prepare(self, about: Mapping[str, Any]) -> None:
        """Create the folders and the manifest, and remove unfinished work of an earlier batch."""
        for name in FOLDERS:
            self._refuse_no_folder(self.path / name)
        self.clear_work()
        # The manifest comes first: a folder without it is not ours.
        self.write_manifest(about)
        try:
            for name in FOLDERS:
                (self.path / name).mkdir(exist_ok=True)
        except OSError as error:
            raise self._make_write_error("the batch", error) from error

    def write_manifest(self, about: Mapping[str, Any]) -> None:
        """Write the manifest: the format, the columns with their units, and other facts."""
        tables = {
            name: [{"name": item.name, "type": item.kind, "unit": item.unit, "about": item.doc} for item in columns]
            for name, columns in FLEET_TABLES.items()
        }
        document = {"format": FLEET_FORMAT, "made_by": f"layoutscope {__version__}", **about, "tables": tables}
        target = self.path / FLEET_MANIFEST
        # The batch recognises its own manifest even if the file system cannot store marks.
        found = ownfiles.take_snapshot(target)
        if found != self._manifest:
            found = check_output(target, force=True, of_batch=True)
        try:
            _write_atomically(target, found, json.dumps(document, indent=1).encode())
            self._manifest = ownfiles.take_snapshot(target)
        except OSError as error:
            raise self._make_write_error("the batch", error) from error

    def new_work(self, identifier: str) -> Path:
        """Create an empty folder for the process of a source."""
        # Its name is new: a worker that seems lost may still be writing.
        return ownfiles.make_folder(self.path.absolute() / "work" / ownfiles.new_name(f"{identifier}."))

    def commit(self, document: dict[str, Any], capture: Path) -> None:
        """Move a capture into the folder, and then write its row."""
        if not capture.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "another batch has taken its place")
        # The last part of the path, in characters that every file system accepts.
        name = os.path.basename(document["path"].rstrip("/")) or "disk"  # noqa: PTH119  (names may be no UTF-8)
        name = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:NAME_LENGTH] or "disk"
        goal = self.path / "captures" / f"{name}-{document['source']}.lscope"
        row = self.row_path(document["source"])
        old, old_row = check_capture(goal, force=True, of_batch=True), ownfiles.take_snapshot(row)
        ownfiles.refuse_strangers(row, old_row)
        if old_row:
            ownfiles.remove(row, old_row)
        document["capture"] = None
        if is_capture(capture):
            ownfiles.place(capture, goal, old)
            document["capture"] = goal.relative_to(self.path).as_posix()
        elif old:
            ownfiles.remove(goal, old, aside=capture.parent / "old")
        _write_atomically(row, {}, json.dumps(document).encode())

    def clear_work(self) -> None:
        """Remove what an earlier batch left unfinished."""
        work = self.path / "work"
        for folder in work.iterdir() if work.is_dir() and not work.is_symlink() else ():
            if _WORK_NAME.fullmatch(folder.name):
                ownfiles.remove_folder(folder)

    def row_path(self, identifier: str) -> Path:
        """Return the path of the row of a source."""
        return self.path / "rows" / f"{identifier}.json"

    def read_row(self, identifier: str) -> dict[str, Any] | None:
        """Read the row of a source; None if there is no complete one."""
        try:
            row = _read_json(self.row_path(identifier))
        except (OSError, ValueError):
            return None
        if not _is_row(row, identifier):
            return None
        lost = row.get("capture") and not is_capture(self.path / str(row["capture"]))
        return None if lost else row

    def write_tables(self, identifiers: Iterable[str], unwritten: Mapping[str, dict[str, Any]]) -> None:
        """Write the tables over all sources."""
        from layoutscope.frames import pl
        from layoutscope.tables.frames import parquet

        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in FLEET_TABLES}
        pieces: dict[str, list[pl.DataFrame]] = {name: [] for name in FLEET_TABLES}
        for number, identifier in enumerate(identifiers, 1):
            ended, document = unwritten.get(identifier), self.read_row(identifier)
            if ended is not None and ended["status"] == "failed" and not _is_same_outcome(document, ended):
                # The stored row could not be replaced: it describes the source as it was.
                document = ended
            if document is None or not _is_same_outcome(document, ended or document):
                raise OutputError(f"{self.path}: a row that was written is gone; another program works in this folder")
            rows["batch"].append({**document["key"], **document, "path_raw": os.fsencode(document["path"])})
            for name in ("volumes", "metrics", "predictions", "findings"):
                rows[name] += [{"source": identifier, **row} for row in document.get(name, ())]
            if not number % SOURCES_PER_PIECE:
                _convert_to_frames(rows, pieces)
        _convert_to_frames(rows, pieces)
        # Tables are moved into place once all are written, so tables of two batches are never mixed.
        try:
            with ExitStack() as stack:
                for name in reversed(pieces):  # the stack closes them in the opposite order
                    frame = pl.concat(pieces[name], rechunk=True)
                    holds = format_count(frame.height, "row")
                    goal = self.path / f"{name}.parquet"
                    file = stack.enter_context(open_output(goal, force=True, holds=holds, of_batch=True))
                    _write_through(file, parquet(frame))
        except OutputError as error:
            if isinstance(error.__cause__, OSError):
                raise self._make_write_error("its tables", error.__cause__) from error
            raise

    def _make_write_error(self, what: str, error: OSError) -> OutputError:
        if error.errno in NO_SPACE_ERRORS:
            return OutputError(f"{self.path}: {FULL}", options=RESUME)
        return OutputError(f"{self.path}: {what} cannot be written: {reason_of(error)}")

    def check_room(self, document: Mapping[str, Any]) -> None:
        """Raise if the disk has no room for any further source; one that is too large does not end the batch."""
        message = str(document["message"]).lower()
        if document["status"] != "failed" or not any(os.strerror(code).lower() in message for code in NO_SPACE_ERRORS):
            return
        space = os.statvfs(self.path)
        # Systems do not report the free space within a quota.
        if space.f_bavail * space.f_frsize < MIN_FREE_BYTES or os.strerror(errno.EDQUOT).lower() in message:
            raise OutputError(f"{self.path}: {FULL}", options=RESUME)


def _convert_to_frames(rows: dict[str, list[dict[str, Any]]], pieces: dict[str, list[pl.DataFrame]]) -> None:
    """Turn rows into columns, which take a fraction of their memory."""
    from layoutscope.frames import pl

    for name, records in rows.items():
        schema = pl.Schema({column.name: column.dtype for column in FLEET_TABLES[name]})
        columns = {column: [row.get(column) for row in records] for column in schema}
        escaped = {
            column: [plain_text(value) if isinstance(value, str) else value for value in values]
            for column, values in columns.items()
        }
        pieces[name].append(pl.DataFrame(escaped, schema=schema))
        records.clear()


def _read_json(path: Path) -> Any:
    """Read a document of the batch; `open_file` refuses a pipe, which would never end."""
    with inputs.open_file(path) as file:
        return json.loads(file.read())


def _is_same_outcome(row: Mapping[str, Any] | None, ended: Mapping[str, Any]) -> bool:
    return row is not None and all(row[name] == ended[name] for name in ("status", "message", "key"))


def _is_row(document: object, identifier: str) -> bool:
    """Whether a stored row is valid: other programs may have written to the folder."""
    if (
        not isinstance(document, dict)
        or document.get("source") != identifier
        or not isinstance(document.get("key"), dict)
    ):
        return False
    is_ended = all(isinstance(document.get(name), str) for name in ("path", "status", "message"))
    lists = (document.get(name, []) for name in FLEET_TABLES if name != "batch")
    return is_ended and all(isinstance(each, list) and all(isinstance(row, dict) for row in each) for each in lists)


def _write_atomically(target: Path, state: ownfiles.Snapshot, data: bytes) -> None:
    """Write a file that appears only when it is complete and on the disk."""
    try:
        with ownfiles.new_file(target, state, prefix=".") as file:
            _write_through(file, data)
    except OutputError as error:
        # Creating the file may fail for the same reasons as writing it.
        if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileExistsError):
            raise error.__cause__ from error
        raise


def _write_through(file: IO[bytes], data: bytes | memoryview) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def require_polars() -> None:
    """Raise if polars, which writes the tables, is missing."""
    from layoutscope.frames import pl

    _ = pl.DataFrame
