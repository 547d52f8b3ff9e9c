"""What ``batch`` and ``query`` return: how many sources ended how, where the tables are; rows that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from layoutscope.display import Displayed, Struct
from layoutscope.errors import EXIT_COMPLETE, EXIT_DAMAGED, EXIT_FAILED
from layoutscope.results import Shown
from layoutscope.tables.columns import Rows
from layoutscope.tables.schema import Column

if TYPE_CHECKING:
    from typing import Any

    from layoutscope.frames import pl

Status = Literal["complete", "damaged", "locked", "refused", "failed"]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
"""How a source may end: all of it was read; with damage; something is locked; it is not an image that is read here; or
it could not be read, such as for want of rights, memory or time."""


class SourceEnd(Displayed, Struct, frozen=True):
    """How one source ended."""

    source: str  # its identifier
    path: str  # where it was found
    status: str  # one of :data:`STATUSES`
    message: str = ""  # why it is not complete
    seconds: float = 0.0  # what reading it took
    has_capture: bool = False  # whether something of it was read


class FleetResult(Shown, Struct, frozen=True):
    """A batch."""

    folder: str  # where captures and tables are
    sources: tuple[SourceEnd, ...]  # every source, in the order in which they were found
    kept: int  # sources that were not read again
    seconds: float  # what all of it took

    @property
    def counts(self) -> dict[Status, int]:
        """How many sources ended how."""
        return {status: sum(item.status == status for item in self.sources) for status in STATUSES}

    @property
    def exit_code(self) -> int:
        """0 if all are complete, 3 if some are not, 1 if nothing could be read."""
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
    """The rows that a query gives."""

    # the rows, with the columns that were asked for. Numbers of more than 64 bits, such as sums, are decimals;
    # what is nested is text.
    frame: pl.DataFrame
    # a line for each table of a capture that could not be read, and is not among what was asked
    left_out: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0, or 3 if something was left out."""
        return EXIT_DAMAGED if self.left_out else EXIT_COMPLETE

    def answer(self) -> Rows:
        """Return the rows under their columns, as they are written to files."""
        frame = self.frame
        columns = [Column(name, _kind(str(dtype)), "", "") for name, dtype in frame.schema.items()]

        def part(chosen: slice) -> dict[str, list[Any]]:
            return frame[chosen].to_dict(as_series=False)

        return Rows(columns, frame.height, part, lambda: frame)


def _kind(name: str) -> str:
    """Return a column's type as those of tables are called; the same for all integers and for what has no such name."""
    if name.startswith("Datetime"):
        return "time"
    return "Float64" if name == "Float32" else name


class ViewList(Shown, Struct, frozen=True):
    """The views that a query knows."""

    views: tuple[ViewFacts, ...]  # each with its columns


class ViewFacts(Displayed, Struct, frozen=True):
    """A view: its name, and its columns with types, units and meanings."""

    name: str
    columns: tuple[Column, ...]


class ReportResult(Shown, Struct, frozen=True):
    """A page over a batch."""

    page: str  # where it is
    headline: str  # what it says first
    volumes: int  # how many are on it
    left_out: tuple[str, ...] = ()  # a line for what could not be read of the batch

    @property
    def exit_code(self) -> int:
        """0, or 3 if something was left out."""
        return EXIT_DAMAGED if self.left_out else EXIT_COMPLETE
