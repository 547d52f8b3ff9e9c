"""``export``: what leaves an image for other programs: tables, lists of files, walks."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.entries import Paths, volume_folders
from layoutscope.api import outputs
from layoutscope.api.keywords import DEFAULT_DRIVES, check_choice, profiles_of, takes
from layoutscope.api.outputs import check_output, file_form, open_output, refuse_place
from layoutscope.api.predict import predict
from layoutscope.api.reading import OpenImage, make_request, open_volumes, parts_of_node, views_of, walkable
from layoutscope.api.scan import scan
from layoutscope.api.workloads import check_workload, serve_walk, unknowns_of, walk, work_of
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.filesystems.contract import InodeStats
from layoutscope.options import ExportOptions, fill
from layoutscope.progress import phase, reporting
from layoutscope.report.forensic import bodyfile, dfxml
from layoutscope.report.profiles import PROFILES, Profile
from layoutscope.report.tables import FORMATS, join_tables, write_table
from layoutscope.results.frames import list_file_rows
from layoutscope.results.scan import volume_names
from layoutscope.tables import TABLES
from layoutscope.tables.columns import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Unpack

    from layoutscope.api.reading import Opened
    from layoutscope.filesystems.contract import View
    from layoutscope.options import Drives, ReadOptions, Workload
    from layoutscope.tables import VolumeLayout


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
    table : str or None
        One of the names in :data:`EXPORTED`, or ``all`` for a file each, those of walks only where there is something
        to walk; None for a document.
    target : path or binary file
        Where to; of all tables a folder, which is made.

    Raises
    ------
    UsageError
        If there is no such table or format, the target ends as another format does, or it exists; if options of a walk
        are given with a table that needs no walk.

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
    document = document_form(target, file_format)
    if document is not None:
        if table is not None:
            raise UsageError(f"{document} is a whole document: leave the table out")
        _export_document(path, document, target, options)
        return
    if table is None and file_format is not None:
        check_choice("format", file_format, (*FORMATS, *DOCUMENT_FORMATS))
    if table is None:
        raise UsageError(f"no table was named. Choose from: {', '.join(EXPORTED)}, and {ALL}")
    if table not in (ALL, *EXPORTED):
        hint = did_you_mean(table, (ALL, *EXPORTED))
        raise UsageError(f"unknown table {table!r}{hint}. Choose from: {', '.join(EXPORTED)}, and {ALL}")
    goals = _goals(path, table, target, file_format, force=force)
    work = work_of(options)
    if table in TABLES and (given["drives"] is not None or check_workload(work) != check_workload({})):
        raise UsageError(f"the table {table} does not depend on order, host or drive. Leave these out.")
    request = make_request(options, path)
    with open_volumes(path, request) as image, reporting(request["progress"]):
        source = OpenImage(path, request, image)
        # Results are worked out when the first table needs them.
        scanned = cache(lambda: scan(source, drives=(), host=work.get("host")))
        predicted = cache(lambda: predict(source, drives=given["drives"], **work))

        def rows(name: str) -> Rows:
            if name in TABLES:
                return Rows.of(join_tables(image.layouts, name))
            return (scanned if name == "metrics" else predicted)().rows(name)

        can_be_walked = any(len(layout.columns("entries")) for layout in image.layouts)
        if table == ALL:
            Path(str(target)).mkdir(exist_ok=True)
        for name, (goal, form) in goals.items():
            if table != ALL or name in TABLES or can_be_walked:
                found = rows(name)
                holds = f"{len(found):,} rows"
                with phase(f"writing the table {name}"), open_output(goal, force=force, holds=holds) as file:
                    write_table(found, file, form)


def _export_document(
    path: str | os.PathLike[str], document: str, target: str | os.PathLike[str] | IO[bytes], options: ExportOptions
) -> None:
    """Write the files of all chosen volumes, or walks of them, as other programs expect them."""
    given, work, request = fill(ExportOptions, options), check_workload(work_of(options)), make_request(options, path)
    with open_volumes(path, request) as image, reporting(request["progress"]):
        if document in LISTS:
            texts = _lists(image, request, document)
        else:
            texts = PROFILES[document](_walks(image, work, given["drives"]))
        with phase(f"writing {document}"), open_output(target, force=given["force"]) as file:
            for text in texts:
                file.write(text.encode())


Goal = tuple["str | os.PathLike[str] | IO[bytes]", str]


def _goals(
    path: str | os.PathLike[str],
    table: str,
    target: str | os.PathLike[str] | IO[bytes],
    file_format: str | None,
    *,
    force: bool,
) -> dict[str, Goal]:
    """Describe where each table goes and in which format, and refuse what could not be written there."""
    if table != ALL:
        if isinstance(target, str | os.PathLike):
            check_output(Path(target), force=force, reads=[path])
        return {table: (target, file_form(target, file_format, FORMATS, "csv"))}
    if not isinstance(target, str | os.PathLike):
        raise UsageError("all tables are several files. Name a folder for them.")
    form, folder = file_form("", file_format, FORMATS, "csv"), Path(target)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is not a folder")
    refuse_place(folder, [path])
    files = {name: folder / f"{name}.{form}" for name in EXPORTED}
    if folder.is_dir():
        for file in files.values():
            check_output(file, force=force, reads=[path])
    return {name: (file, form) for name, file in files.items()}


BATCH_NODES: Final = 4096
"""Leaves that are decoded at once."""


def read_inode_stats(layout: VolumeLayout, view: View) -> InodeStats | None:
    """Read owners, modes and times from the inodes of a volume.

    One row an inode record that was found in a leaf with inodes; None where there are none.
    """
    nodes = layout.columns("nodes")
    has_inodes = np.isin(nodes["row"].data, layout.columns("entries")["inode_node_row"].present())
    chosen = nodes.take(has_inodes & ~nodes["kind"].equals("locked"))
    chosen = chosen.take(np.lexsort((chosen["image_offset"].signed(), chosen["device"].filled(0))))
    sizes = chosen["size_bytes"].data
    batches = []
    for size in dict.fromkeys(sizes.tolist()):
        places = np.flatnonzero(sizes == size)
        for first in range(0, len(places), BATCH_NODES):
            part = chosen.take(places[first : first + BATCH_NODES])
            read = (b"".join(view.read(row, piece) for piece in parts_of_node(layout, row)) for row in part.rows())
            # Leaves that end early are left out.
            whole = b"".join(data for data in read if len(data) == size)
            batches.append(view.inode_stats(np.frombuffer(whole, np.uint8).reshape(-1, size)))
    found = [batch for batch in batches if batch is not None]
    return InodeStats(*map(np.concatenate, zip(*found, strict=True))) if found else None


LISTS: Final = ("bodyfile", "dfxml")
"""Formats with the files of an image."""

DOCUMENT_FORMATS: Final = (*LISTS, *PROFILES)
"""Formats of whole documents: lists of files, and profiles of a listing."""

ENDINGS: Final = {
    ".body": "bodyfile",
    ".bodyfile": "bodyfile",
    ".dfxml": "dfxml",
    ".speedscope.json": "speedscope",
    ".perfetto.json": "perfetto",
    ".folded": "folded",
}
"""Formats by the ending of a file name. The other formats accept any ending that is not one of these."""

_ALSO: Final = {"speedscope": "json", "perfetto": "json"}
"""Endings that say no more than how these are written."""


def document_form(target: object, asked: str | None) -> str | None:
    """Return the document to write: the given one, or that of the target's ending; None for a table."""
    name = str(target).lower() if isinstance(target, str | os.PathLike) else ""
    ending = next((form for end, form in ENDINGS.items() if name.endswith(end)), None)
    if asked is None or (asked not in DOCUMENT_FORMATS and ending is None):
        return ending
    other = ending or outputs.ENDINGS.get(name.rpartition(".")[2] if "." in name else "")
    if other in (None, asked, _ALSO.get(asked)):
        return asked
    raise UsageError(f"{target}: ends as {other} does, but {asked} was asked for")


def _lists(image: Opened, request: ReadOptions, file_format: str) -> Iterator[str]:
    """Yield a document with files; of a capture, which holds no inodes, without owners, modes and some times."""
    view = None if image.images is None else views_of(image, request)
    held = [layout for layout in image.layouts if layout.facts.volume is not None]

    def files(layout: VolumeLayout) -> Iterator[dict[str, Any]]:
        return list_file_rows(layout, None if view is None else read_inode_stats(layout, view(layout)))

    if file_format == "dfxml":
        yield from dfxml(image.about.name, ((layout, files(layout)) for layout in held))
        return
    for layout, folder in zip(held, volume_folders(held), strict=True):
        yield from bodyfile(files(layout), folder)


def _walks(image: Opened, work: Workload, drives: Drives | None) -> list[Profile]:
    """Walk all volumes, and serve each walk on each drive."""
    walked = walkable(image.layouts, image.about.name)
    found = []
    for name, layout in zip(volume_names(image.layouts, walked), walked, strict=True):
        reads, paths = walk(layout, work).reads, Paths(layout)
        for profile in profiles_of(drives, DEFAULT_DRIVES[:1]):
            title = f"{name}, {work['order']} on {profile.name}"
            served = serve_walk(layout, reads, profile, unknowns_of(work, layout))
            found.append(Profile.of(title, reads, served, paths))
    return found
