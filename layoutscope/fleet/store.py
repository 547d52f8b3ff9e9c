"""The folder of a batch: captures, a row's document for each source, the tables over all of them, a lock.

``batch.json`` says what the folder is; ``rows/ID.json`` appears when a source is done, after its capture, and is what a
resumed batch goes by; ``work/`` holds what is under way. Everything appears under its name when it is complete.
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
from layoutscope.api.outputs import check_output, output, refuse_place
from layoutscope.api.save import check_capture
from layoutscope.errors import OutputError, UsageError, reason_of
from layoutscope.tables.capture import is_capture
from layoutscope.tables.frames import FRAMES
from layoutscope.tables.schema import Column
from layoutscope.units import format_count
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from layoutscope.frames import pl


FLEET_FORMAT: Final = "layoutscope.batch/1"
"""Version of the tables and of the rows below them."""

_SOURCE: Final = Column("source", "String", "", "which source: its row in batch")

FLEET_TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "batch": (
        Column("source", "String", "", "identifier of the source: the same for the same place"),
        Column("path", "String", "", "where it was found; bytes that are not UTF-8 are escaped"),
        Column("path_raw", "Binary", "", "the same, as the system has it"),
        Column("status", "String", "", "complete, damaged, locked, refused or failed"),
        Column("exit_code", "Int64", "", "what scan ends with"),
        Column("message", "String", "", "why it is not complete, in one line; else empty"),
        Column("capture", "String", "", "its capture, from the folder of the batch; null without one"),
        Column("identity", "String", "", "SHA-256 of names, sizes, times and ends of its files; null if unreadable"),
        Column("size_bytes", "Int64", "bytes", "length of its files"),
        Column("modify_time_ns", "Int64", "ns", "when the newest of its files was changed, since 1970, UTC"),
        Column("image_bytes", "Int64", "bytes", "length of the disk in it"),
        Column("read_bytes", "Int64", "bytes", "what was read of it"),
        Column("coverage", "Float64", "", "share of the known metadata that was read, 0 to 1; null where unknown"),
        Column("metadata_sha256", "String", "", "SHA-256 of the metadata in address order"),
        Column("made_by", "String", "", "program and version that read it"),
        Column("seconds", "Float64", "s", "what reading it took"),
        Column("peak_memory_bytes", "Int64", "bytes", "the most memory that its process had; null where unknown"),
    ),
    "volumes": (
        _SOURCE,
        Column("volume", "String", "", "which volume: its layers and its name, its number where that is shared"),
        Column("number", "UInt32", "", "its number on the image, from 1; null for a container's own"),
        Column("filesystem", "String", "", "what it is"),
        Column("variant", "String", "", "which kind of that"),
        Column("name", "String", "", "its name"),
        Column("uuid", "String", "", "its identifier"),
        Column("view", "String", "", "which of its states was read"),
        Column("image_offset", "Int64", "bytes", "start, from the start of the image"),
        Column("size_bytes", "Int64", "bytes", "length"),
        Column("block_size_bytes", "Int64", "bytes", "its allocation blocks"),
        Column("num_files", "Int64", "count", "files, as it says itself"),
        Column("num_directories", "Int64", "count", "directories, as it says itself"),
        Column("metadata_known_bytes", "Int64", "bytes", "metadata that there are"),
        Column("metadata_read_bytes", "Int64", "bytes", "metadata that were read"),
        Column("case_sensitive", "Boolean", "", "whether its names are"),
        Column("features", "String", "", "what else it is or has"),
    ),
    "metrics": (_SOURCE, *FRAMES["metrics"]),
    "predictions": (_SOURCE, *FRAMES["times"]),
    "findings": (_SOURCE, *FRAMES["faults"][:-1]),
}
"""Columns of each file ``TABLE.parquet`` in the folder of a batch, in order."""


def plain_text(text: str) -> str:
    """Escape bytes that are not UTF-8 in a path, or in a sentence that quotes one, so that tables take it."""
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Half a pair of surrogates, as names on a disk may have.
        raw = text.encode("utf-8", "backslashreplace")
    return raw.decode("utf-8", "backslashreplace")


FLEET_MANIFEST: Final = "batch.json"
LOCK: Final = "batch.lock"
FOLDERS: Final = ("captures", "rows", "work")
WORK: Final = "batch.work"
"""The list of what is made in ``work``: a line with a folder's name, and one with the number of its inode as well."""

_WORK_LINE: Final = re.compile(r"(?P<name>[0-9a-f]+\.[a-z0-9_]{8,16})(?: (?P<inode>\d+))?")
LOCK_TRIES: Final = 20
LOCK_WAIT_S: Final = 0.1
LONGEST_NAME: Final = 64
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
LEAST_ROOM_BYTES: Final = 64 * 1024**2
"""Where less is left when a source failed for want of room, the next one would fail, too."""

FULL: Final = "its disk has no room left: what was read is kept, and resume=True takes it up where there is room again"
RESUME: Final = {"resume=True": "--resume"}
ROWS_TOGETHER: Final = 500
"""The rows of so many sources are in memory as they were written, before they become columns."""


class FleetFolder:
    """The folder of a batch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._manifest: ownfiles.Seen | None = None

    def begin(self, *, resume: bool) -> None:
        """Make the folder, or take up the batch that is in it."""
        refuse_place(self.path / FLEET_MANIFEST, of_batch=True)
        ownfiles.refuse_special(self.path)
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path}: is not a folder")
        if not self.path.absolute().parent.is_dir():
            raise UsageError(f"{self.path}: the folder in which it would be does not exist")
        self.path.mkdir(exist_ok=True)
        held = set(os.listdir(self.path)) - {LOCK}  # noqa: PTH208  (names may be no UTF-8)
        if held and not self.is_ours():
            raise UsageError(f"{self.path}: holds something else than a batch. Name a folder that is empty or new.")
        if held and not resume:
            told = "holds a batch; resume=True takes it up, another folder begins a new one"
            raise UsageError(f"{self.path}: {told}", options=RESUME)
        for name in FOLDERS:
            self._refuse_no_folder(self.path / name)
        for name in (FLEET_MANIFEST, *(f"{table}.parquet" for table in FLEET_TABLES)):
            try:
                check_output(self.path / name, force=True, of_batch=True)
            except UsageError as error:
                new = "Begin a new batch in another folder."
                raise UsageError(str(error).replace(ownfiles.REMEDY, new)) from error

    def _refuse_no_folder(self, folder: Path) -> None:
        """Refuse anything but a real folder: the target of a link belongs to somebody else."""
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            kind = "a link" if folder.is_symlink() else "no folder"
            raise UsageError(f"{folder}: is {kind}; a batch writes into a folder of its own. Remove it.")

    def is_ours(self) -> bool:
        """Whether a batch is in the folder; one of another version is refused."""
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
        """Note the tables, rows and captures as inputs, into which nothing is printed or written."""
        for name in (FLEET_MANIFEST, LOCK, WORK, *(f"{table}.parquet" for table in FLEET_TABLES), *FOLDERS):
            inputs.note(self.path / name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other batches off this folder; a process that ends in whatever way lets go of it."""
        try:
            import fcntl
        except ImportError:
            yield
            return
        with self._appended(LOCK) as file:
            for tries_left in reversed(range(LOCK_TRIES)):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    # After a batch was killed, a process that was just starting may hold the lock for a moment.
                    if not tries_left:
                        raise UsageError(f"{self.path}: another batch is writing here") from error
                    sleep(LOCK_WAIT_S)
            yield

    def _appended(self, name: str) -> IO[str]:
        """Open a file of the batch to append to it."""
        path = self.path / name
        ownfiles.refuse_special(path)
        # Opening a pipe waits for its reader otherwise.
        flags = sum(getattr(os, each, 0) for each in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
        no_file = f"{path}: is not a regular file. Remove it."
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | flags, 0o666)
        except OSError as error:
            # A pipe that nobody reads, a socket, a folder.
            if error.errno in (errno.ENXIO, errno.EISDIR):
                raise UsageError(no_file) from error
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UsageError(no_file)
        return os.fdopen(descriptor, "a", encoding="utf-8")

    def prepare(self, about: Mapping[str, Any]) -> None:
        """Make the folders, and say what is done here; what was under way when another batch was ended goes."""
        for name in FOLDERS:
            self._refuse_no_folder(self.path / name)
        self.clear_work()
        # First of all: a folder without it belongs to somebody else.
        self.tell(about)
        try:
            for name in FOLDERS:
                (self.path / name).mkdir(exist_ok=True)
        except OSError as error:
            raise self._unwritten("the batch", error) from error

    def tell(self, about: Mapping[str, Any]) -> None:
        """Write what the batch is: its form, its columns with their units, and what else is known."""
        tables = {
            name: [{"name": item.name, "type": item.kind, "unit": item.unit, "about": item.doc} for item in columns]
            for name, columns in FLEET_TABLES.items()
        }
        document = {"format": FLEET_FORMAT, "made_by": f"layoutscope {__version__}", **about, "tables": tables}
        target = self.path / FLEET_MANIFEST
        # What this batch wrote itself is known also where the file system keeps no marks.
        seen = ownfiles.look(target)
        if seen != self._manifest:
            seen = check_output(target, force=True, of_batch=True)
        try:
            _write_whole(target, seen, json.dumps(document, indent=1).encode())
            self._manifest = ownfiles.look(target)
        except OSError as error:
            raise self._unwritten("the batch", error) from error

    def new_work(self, identifier: str) -> Path:
        """Make an empty folder for what a source's process writes."""
        # A file of its own: a worker that seems lost may still be writing.
        work = self.path.absolute() / "work" / ownfiles.new_name(f"{identifier}.")
        with self._appended(WORK) as file:
            # In the list first: what a kill leaves is known by it.
            file.write(f"{work.name}\n")
            file.flush()
            ownfiles.make_folder(work)
            try:
                file.write(f"{work.name} {work.stat().st_ino}\n")
                file.flush()
            except OSError:
                ownfiles.remove_folder(work)
                raise
        return work

    def commit(self, document: dict[str, Any], capture: Path) -> None:
        """Put a capture and then its row in their places."""
        if not capture.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "another batch has taken its place")
        goal = self.path / "captures" / f"{_plain_name(document['path'])}-{document['source']}.lscope"
        row = self.row_file(document["source"])
        old, old_row = check_capture(goal, force=True, of_batch=True), ownfiles.look(row)
        ownfiles.refuse_strangers(row, old_row)
        if old_row:
            ownfiles.remove(row, old_row)
        document["capture"] = None
        if is_capture(capture):
            ownfiles.place(capture, goal, old)
            document["capture"] = goal.relative_to(self.path).as_posix()
        elif old:
            ownfiles.remove(goal, old, aside=capture.parent / "old")
        _write_whole(row, {}, json.dumps(document).encode())

    def clear_work(self) -> None:
        """Remove what was under way somewhere when that was lost: what is in the list, and nothing else."""
        path = self.path / WORK
        seen = ownfiles.look(path)
        if not seen:
            return
        ownfiles.refuse_special(path)
        lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else [""]
        found = [_WORK_LINE.fullmatch(line) for line in lines]
        for line in found:
            if line is not None and not (self.path / "work").is_symlink():
                inode = None if line["inode"] is None else int(line["inode"])
                ownfiles.remove_abandoned(self.path / "work" / line["name"], inode)
        # A list of something else is not ours.
        if None in found:
            raise UsageError(f"{path}: is not the list of what a batch has under way. Remove it.")
        ownfiles.remove(path, seen)

    def row_file(self, identifier: str) -> Path:
        """Return where the row of a source stands."""
        return self.path / "rows" / f"{identifier}.json"

    def row(self, identifier: str) -> dict[str, Any] | None:
        """Return the row of a source; None where there is none that is whole."""
        try:
            found = _read_json(self.row_file(identifier))
        except (OSError, ValueError):
            return None
        if not _is_row(found, identifier):
            return None
        lost = found.get("capture") and not is_capture(self.path / str(found["capture"]))
        return None if lost else found

    def write_tables(self, identifiers: Iterable[str], unwritten: Mapping[str, dict[str, Any]]) -> None:
        """Write the tables over all sources."""
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in FLEET_TABLES}
        pieces: dict[str, list[pl.DataFrame]] = {name: [] for name in FLEET_TABLES}
        for number, identifier in enumerate(identifiers, 1):
            ended, document = unwritten.get(identifier), self.row(identifier)
            if ended is not None and ended["status"] == "failed" and not _is_same(document, ended):
                # What could not be replaced is about the source as it was.
                document = ended
            if document is None or not _is_same(document, ended or document):
                raise OutputError(f"{self.path}: a row that was written is gone; another program works in this folder")
            rows["batch"].append(_flat(document))
            for name in ("volumes", "metrics", "predictions", "findings"):
                rows[name] += [{"source": identifier, **row} for row in document.get(name, ())]
            if not number % ROWS_TOGETHER:
                _convert_to_frames(rows, pieces)
        _convert_to_frames(rows, pieces)
        self._put_tables(pieces)

    def _put_tables(self, pieces: dict[str, list[pl.DataFrame]]) -> None:
        """Put all tables in their places when all of them are written: some of two batches belong to none."""
        from layoutscope.frames import pl
        from layoutscope.tables.frames import parquet

        try:
            with ExitStack() as stack:
                for name in reversed(pieces):  # they appear in the order in which they are left, the last one first
                    frame = pl.concat(pieces[name], rechunk=True)
                    holds = format_count(frame.height, "row")
                    goal = self.path / f"{name}.parquet"
                    file = stack.enter_context(output(goal, force=True, holds=holds, of_batch=True))
                    _write_through(file, parquet(frame))
        except OutputError as error:
            if isinstance(error.__cause__, OSError):
                raise self._unwritten("its tables", error.__cause__) from error
            raise

    def _unwritten(self, what: str, error: OSError) -> OutputError:
        if error.errno in NO_ROOM:
            return OutputError(f"{self.path}: {FULL}", options=RESUME)
        return OutputError(f"{self.path}: {what} cannot be written: {reason_of(error)}")

    def check_room(self, document: Mapping[str, Any]) -> None:
        """End a batch whose disk has no room for any further source; one too large for it ends nothing."""
        message = str(document["message"]).lower()
        if document["status"] != "failed" or not any(os.strerror(code).lower() in message for code in NO_ROOM):
            return
        left = os.statvfs(self.path)
        # Systems do not report what a quota leaves.
        if left.f_bavail * left.f_frsize < LEAST_ROOM_BYTES or os.strerror(errno.EDQUOT).lower() in message:
            raise OutputError(f"{self.path}: {FULL}", options=RESUME)


def _convert_to_frames(rows: dict[str, list[dict[str, Any]]], pieces: dict[str, list[pl.DataFrame]]) -> None:
    """Turn rows into columns, which take a small part of their memory."""
    from layoutscope.frames import pl

    for name, found in rows.items():
        schema = pl.Schema({column.name: column.dtype for column in FLEET_TABLES[name]})
        pieces[name].append(
            pl.DataFrame({column: [_plain_value(row.get(column)) for row in found] for column in schema}, schema=schema)
        )
        found.clear()


def _plain_value(value: Any) -> Any:
    return plain_text(value) if isinstance(value, str) else value


def _read_json(path: Path) -> Any:
    """Read a document of the batch; a pipe in its place would never end."""
    with inputs.open_file(path) as file:
        return json.loads(file.read())


def _is_same(row: Mapping[str, Any] | None, ended: Mapping[str, Any]) -> bool:
    return row is not None and all(row[name] == ended[name] for name in ("status", "message", "key"))


def _is_row(found: object, identifier: str) -> bool:
    """Whether a stored row is valid: other programs may have written there."""
    if not isinstance(found, dict) or found.get("source") != identifier or not isinstance(found.get("key"), dict):
        return False
    is_ended = all(isinstance(found.get(name), str) for name in ("path", "status", "message"))
    lists = (found.get(name, []) for name in FLEET_TABLES if name != "batch")
    return is_ended and all(isinstance(each, list) and all(isinstance(row, dict) for row in each) for each in lists)


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    """Turn a document into a row of the table of sources."""
    return {**document["key"], **document, "path_raw": os.fsencode(document["path"])}


def _plain_name(path: str) -> str:
    """Return the part of a path by which a person knows it, in letters that every file system takes."""
    name = os.path.basename(path.rstrip("/")) or "disk"  # noqa: PTH119  (names may be no UTF-8)
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:LONGEST_NAME] or "disk"


def _write_whole(target: Path, seen: ownfiles.Seen, data: bytes) -> None:
    """Write a file that appears when it is complete, and is on the disk by then."""
    try:
        with ownfiles.new_file(target, seen, prefix=".") as file:
            _write_through(file, data)
    except OutputError as error:
        # The folder may take no file for the same reasons as the file no bytes.
        if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileExistsError):
            raise error.__cause__ from error
        raise


def _write_through(file: IO[bytes], data: bytes | memoryview) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def need_polars() -> None:
    """Refuse to begin where what writes tables is missing."""
    from layoutscope.frames import pl

    _ = pl.DataFrame
