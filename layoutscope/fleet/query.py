"""``query``: questions in SQL over a batch, a capture or an image, answered from the tables."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from layoutscope.api.keywords import takes
from layoutscope.api.outputs import file_form, output, written_unheard
from layoutscope.errors import ImageError, LayoutscopeError, UsageError
from layoutscope.fleet.store import FLEET_MANIFEST, FleetFolder
from layoutscope.fleet.views import VIEWS, FleetViews, Limits, duckdb
from layoutscope.inputs import split_volume
from layoutscope.options import QueryLimits, QueryOptions, ReadOptions, fill, leave_out
from layoutscope.report.json import result_json
from layoutscope.report.tables import FORMATS, write_table
from layoutscope.report.text.fleet import markdown
from layoutscope.results.fleet import QueryResult, ViewFacts, ViewList
from layoutscope.tables.capture import is_capture

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO, Unpack

ANSWER_FORMATS: Final = ("csv", "json", "md", "parquet")


def views() -> ViewList:
    """List what a query can ask for: views with their columns, and these with units."""
    return ViewList(tuple(ViewFacts(name, columns) for name, columns in VIEWS.items()))


@takes(QueryOptions)
def query(path: str | os.PathLike[str], sql: str, **options: Unpack[QueryOptions]) -> QueryResult:
    """Ask a question in SQL, which only reads.

    Parameters
    ----------
    path : path
        The folder of a batch, an image or a capture. Of an image or a capture, a batch of one is made for the time of
        the question.
    sql : str
        ``SELECT`` over the views of :func:`views`, in DuckDB's dialect.
    **options
        What the answer may cost, and how an image is read: :class:`~layoutscope.options.QueryOptions`.

    Returns
    -------
    QueryResult

    Raises
    ------
    TypeError
        If there is no such keyword.
    UsageError
        If it is no query, or one that would do more than read the views.
    ImageError
        If nothing can be read.
    UnsupportedError
        If DuckDB is not installed.
    LayoutscopeError
        If the query cannot be answered, or not within its limits.

    Examples
    --------
    >>> import layoutscope
    >>> image = "fixtures/images/hfsplus-scattered.img.zst"
    >>> found = layoutscope.query(image, "SELECT count(*) AS nodes FROM nodes WHERE tree = 'catalog' AND level = 0")
    >>> found.frame["nodes"].to_list()
    [210]
    """
    own = fill(QueryLimits, options)
    reading = leave_out(options, own)
    limits = Limits(own["memory_bytes"], own["timeout_ms"] / 1000)  # refuses them before the work
    folder = Path(path)
    if (folder / FLEET_MANIFEST).is_file():
        _refuse_reading(folder, reading)
        if not FleetFolder(folder).is_ours():
            raise UsageError(f"{folder}: is no batch; its {FLEET_MANIFEST} is none of layoutscope's")
        FleetFolder(folder).note()
        return _answer_query(folder, sql, limits)
    duckdb()
    name, volume = split_volume(os.fspath(path))
    if name.startswith("@") or (Path(name).is_dir() and not is_capture(Path(name))):
        raise UsageError(f"{name}: is no image; 'layoutscope batch {name} -o FLEET' reads what is in it, for queries")
    more: dict[str, Any] = {} if volume is None else {"volume": volume}
    with tempfile.TemporaryDirectory(prefix="layoutscope-") as work:
        # What reads images takes longer to load than a question to a batch takes.
        from layoutscope.fleet.batch import batch

        with written_unheard():
            found = batch([name], Path(work) / "one", **{**reading, **more})
        if len(found.sources) != 1:
            raise UsageError(f"{name}: is not one image")
        if not found.sources[0].has_capture:
            raise ImageError(found.sources[0].message)
        return _answer_query(Path(work) / "one", sql, limits)


def _refuse_reading(folder: Path, options: Mapping[str, Any]) -> None:
    """Refuse what a batch that is written cannot heed any more."""
    usual: Mapping[str, Any] = fill(ReadOptions, {})
    asked = [name for name, value in options.items() if value is not None and value != usual.get(name)]
    if not asked:
        return
    from layoutscope.fleet.batch import HEARD

    late = [name for name in asked if name not in (*HEARD, "cache_dir")]
    if late:
        raise UsageError(f"{folder}: is a batch, whose images were read; {late[0].replace('_', '-')} is told to batch")


def _answer_query(folder: Path, sql: str, limits: Limits) -> QueryResult:
    """Answer a question; where a capture cannot be read, from the others."""
    with FleetViews(folder, sql, limits) as known:
        known.check(sql)
        try:
            frame = known.frame(sql)
        except LayoutscopeError:
            if not known.without_damaged(sql):
                raise
            frame = known.frame(sql)
        return QueryResult(frame, tuple(known.left_out))


def write_answer(
    result: QueryResult,
    target: str | os.PathLike[str] | IO[bytes],
    *,
    # one of `ANSWER_FORMATS`; as the target's name ends without it, and CSV where that tells nothing
    file_format: str | None = None,
    force: bool = False,
) -> None:
    """Write what a query gave."""
    form = file_form(target, file_format, ANSWER_FORMATS, "csv")
    with output(target, force=force, holds=f"{len(result.frame):,} rows") as file:
        _write(result, file, form)


def _write(result: QueryResult, file: IO[bytes], form: str) -> None:
    if form in FORMATS:
        write_table(result.answer(), file, form)
    else:
        text = markdown(result) if form == "md" else result_json(result) + "\n"
        file.write(text.encode())
