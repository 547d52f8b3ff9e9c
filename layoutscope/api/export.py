"""``export``: what leaves an image for other programs: tables, lists of files, walks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from layoutscope.api.documents import document_form, export_document
from layoutscope.api.images import OpenImage
from layoutscope.api.keywords import takes
from layoutscope.api.outputs import check_output, file_form, output, refuse_place
from layoutscope.api.predict import predict
from layoutscope.api.reading import opened, request_of
from layoutscope.api.scan import scan
from layoutscope.api.workloads import checked, work_of
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.options import ExportOptions, fill, leave_out
from layoutscope.progress import phase, reporting
from layoutscope.report.tables import FORMATS, joined_table, write_table
from layoutscope.tables import TABLES
from layoutscope.tables.columns import Rows

if TYPE_CHECKING:
    from typing import Unpack

    from layoutscope.options import DocumentOptions
    from layoutscope.results.predict import PredictResult
    from layoutscope.results.scan import ScanResult


ALL: Final = "all"
"""In place of a table's name: every one of them, a file each."""

RESULTS: Final = ("metrics", "times", "directories", "reads")
"""Tables of results: of a scan the metrics, of a prediction its times, and what each directory and read takes."""

EXPORTED: Final = (*TABLES, *RESULTS)
"""Every table; the columns of results are those of :data:`layoutscope.tables.frames.FRAMES`."""


@takes(ExportOptions)
def export(
    path: str | os.PathLike[str],
    table: str | None,
    target: str | os.PathLike[str] | IO[bytes],
    **options: Unpack[ExportOptions],
) -> None:
    """Write a table of all chosen volumes, every table, or a document for another program.

    Parameters
    ----------
    path : path
        The image.
    table : str or None
        One of the names in :data:`EXPORTED`, or ``all`` for a file each, those of walks only where there is something
        to walk; None for a document.
    target : path or binary file
        Where to; of all tables a folder, which is made.
    **options
        The format; of documents of a walk, what is done; and how the image is read: see
        :class:`~layoutscope.options.ExportOptions`.

    Raises
    ------
    TypeError
        If there is no such keyword.
    UsageError
        If there is no such table or format, the target ends as another format does, or it exists; if what is to be
        done is said beside a table of no walk.
    LayoutscopeError
        If the image cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> layoutscope.export("fixtures/images/hfsplus-scattered.img.zst", "nodes", "nodes.csv")
    >>> from pathlib import Path
    >>> Path("nodes.csv").read_text()[:22]
    'row,device,volume,tree'
    """
    given = fill(ExportOptions, options)
    file_format, force = given["file_format"], given["force"]
    others: DocumentOptions = leave_out(options, ["file_format", "force"])
    document = document_form(target, file_format)
    if document is not None:
        if table is not None:
            raise UsageError(f"{document} is a whole document; it is written without a table")
        export_document(path, target, file_format=document, force=force, **others)
        return
    if table is None:
        raise UsageError(f"which table? there are {', '.join(EXPORTED)}, and {ALL}")
    if table not in (ALL, *EXPORTED):
        hint = did_you_mean(table, (ALL, *EXPORTED))
        raise UsageError(f"no table {table!r}{hint}; there are {', '.join(EXPORTED)}, and {ALL}")
    goals = _goals(path, table, target, file_format, force=force)
    drives, work = given["drives"], work_of(options)
    if table in TABLES and (drives is not None or checked(work) != checked({})):
        raise UsageError(f"the table {table} is of no walk, whatever its order, host or drive; leave these out")
    request = request_of(options, path)
    with opened(path, request) as image, reporting(request["progress"]):
        known = _Known(OpenImage(path, request, image), work, drives)
        if table == ALL:
            Path(str(target)).mkdir(exist_ok=True)
        for name, (goal, form) in goals.items():
            if table != ALL or name in TABLES or known.can_be_walked:
                _write_rows(known.rows(name), name, goal, form, force=force)


Goal = tuple["str | os.PathLike[str] | IO[bytes]", str]


def _goals(
    path: str | os.PathLike[str],
    table: str,
    target: str | os.PathLike[str] | IO[bytes],
    file_format: str | None,
    *,
    force: bool,
) -> dict[str, Goal]:
    """Say where each table goes and in which format, and refuse what could not be written there."""
    if table != ALL:
        if isinstance(target, str | os.PathLike):
            check_output(Path(target), force=force, reads=[path])
        return {table: (target, file_form(target, file_format, FORMATS, "csv"))}
    if not isinstance(target, str | os.PathLike):
        raise UsageError("all tables are several files: name the folder that they are written to")
    form, folder = file_form("", file_format, FORMATS, "csv"), Path(target)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is no folder")
    refuse_place(folder, [path])
    files = {name: folder / f"{name}.{form}" for name in EXPORTED}
    if folder.is_dir():
        for file in files.values():
            check_output(file, force=force, reads=[path])
    return {name: (file, form) for name, file in files.items()}


@dataclass
class _Known:
    """What tables are made of: an image, and results that are worked out when the first table needs them."""

    image: OpenImage
    work: dict[str, Any]
    drives: Any

    @property
    def can_be_walked(self) -> bool:
        return any(len(layout.columns("entries")) for layout in self.image.opened.layouts)

    def rows(self, name: str) -> Rows:
        if name in TABLES:
            return Rows.of(joined_table(self.image.opened.layouts, name))
        return (self._scanned if name == "metrics" else self._predicted).rows(name)

    @cached_property
    def _scanned(self) -> ScanResult:
        return scan(self.image, drives=(), host=self.work.get("host", "linux"))

    @cached_property
    def _predicted(self) -> PredictResult:
        return predict(self.image, drives=self.drives, **self.work)


def _write_rows(rows: Rows, name: str, target: str | os.PathLike[str] | IO[bytes], form: str, *, force: bool) -> None:
    with phase(f"writing the table {name}"), output(target, force=force, holds=f"{len(rows):,} rows") as file:
        write_table(rows, file, form)
