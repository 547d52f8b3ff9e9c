"""Results of ``batch``, ``query`` and ``report``: the status of each source, the tables, and the rows of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from layoutscope.display import Displayed, Struct
from layoutscope.errors import EXIT_COMPLETE, EXIT_DAMAGED, EXIT_FAILED
from layoutscope.results import Shown
from layoutscope.tables.columns import Rows
from layoutscope.tables.schema import Column

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from layoutscope.frames import pl

Status = Literal["complete", "damaged", "locked", "refused", "failed"]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
"""Statuses of a source: read completely, with damage, locked, not a supported image, or not readable, such as for lack
of permission, memory or time."""


class SourceEnd(Displayed, Struct, frozen=True):
    """The outcome of one source."""

    source: str  # identifier of the source
    path: str  # path at which it was found
    status: str  # one of :data:`STATUSES`
    message: str = ""  # why it is not complete
    seconds: float = 0.0  # time that reading it took
    has_capture: bool = False  # whether any of it was read


class FleetResult(Shown, Struct, frozen=True):
    """The result of a batch."""

    folder: str  # folder of the captures and tables
    sources: tuple[SourceEnd, ...]  # all sources, in the order in which they were found
    kept: int  # number of unchanged sources that were not read again
    seconds: float  # total time

    @property
    def counts(self) -> dict[Status, int]:
        """Number of sources by status."""
        return {status: sum(item.status == status for item in self.sources) for status in STATUSES}

    @property
    def exit_code(self) -> int:
        """0 if all sources are complete, 3 if some are not, 1 if nothing could be read."""
        if all(item.status == "complete" for item in self.sources):
            return EXIT_COMPLETE
        return EXIT_DAMAGED if any(item.has_capture for item in self.sources) else EXIT_FAILED

    def table(self, name: str) -> pl.DataFrame:
        """Read one of the tables.

        Parameters
        ----------
        name : str
            ``batch``, ``volumes``, ``metrics``, ``predictions`` or ``findings``.
        """
        from pathlib import Path

        from layoutscope.frames import pl

        return pl.read_parquet(Path(self.folder) / f"{name}.parquet", glob=False)


class QueryResult(Shown, Struct, frozen=True):
    """The answer of a query."""

    # the rows; integers of more than 64 bits, such as sums, are decimals, and nested values are text
    frame: pl.DataFrame
    left_out: tuple[str, ...] = ()  # one line per table of a capture that could not be read

    @property
    def exit_code(self) -> int:
        """0, or 3 if a table was left out."""
        return EXIT_DAMAGED if self.left_out else EXIT_COMPLETE

    def answer(self) -> Rows:
        """Return the rows with their columns, as they are written to files."""
        frame = self.frame
        columns = [Column(name, _kind(str(dtype)), "", "") for name, dtype in frame.schema.items()]

        def part(chosen: slice) -> dict[str, list[Any]]:
            return frame[chosen].to_dict(as_series=False)

        return Rows(columns, frame.height, part, lambda: frame)


def _kind(name: str) -> str:
    """Translate the name of a polars type to that of a table column; most names are equal."""
    if name.startswith("Datetime"):
        return "time"
    return "Float64" if name == "Float32" else name


class ViewList(Shown, Struct, frozen=True):
    """The views that a query can read."""

    views: Mapping[str, tuple[Column, ...]]  # columns of each view, by its name


class ReportResult(Shown, Struct, frozen=True):
    """The page over a batch."""

    page: str  # path of the page
    headline: str  # its first sentence
    volumes: int  # number of volumes on it
    left_out: tuple[str, ...] = ()  # one line per part of the batch that could not be read

    @property
    def exit_code(self) -> int:
        """0, or 3 if something was left out."""
        return EXIT_DAMAGED if self.left_out else EXIT_COMPLETE
