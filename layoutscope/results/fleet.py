"""What ``batch`` returns: how many sources ended how, and where the tables are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.display import Displayed
from layoutscope.errors import EXIT_COMPLETE, EXIT_DAMAGED, EXIT_FAILED
from layoutscope.frozen import frozen
from layoutscope.results import Shown

if TYPE_CHECKING:
    from layoutscope.frames import pl

STATUSES: Final = ("complete", "damaged", "locked", "refused", "failed")
"""How a source may end: all of it was read; with damage; something is locked; it is no image that is read here; or it
could not be read, such as for want of rights, memory or time."""


@frozen
class SourceEnd(Displayed):
    """How one source ended.

    Attributes
    ----------
    source, path : str
        Its identifier, and where it was found.
    status : str
        One of :data:`STATUSES`.
    message : str
        Why it is not complete.
    seconds : float
        What reading it took.
    has_capture : bool
        Whether something of it was read.
    """

    source: str
    path: str
    status: str
    message: str = ""
    seconds: float = 0.0
    has_capture: bool = False


@frozen
class FleetResult(Shown):
    """A batch.

    Attributes
    ----------
    folder : str
        Where captures and tables are.
    sources : tuple of SourceEnd
        Every source, in the order in which they were found.
    kept : int
        Sources that were not read again.
    seconds : float
        What all of it took.
    """

    folder: str
    sources: tuple[SourceEnd, ...]
    kept: int
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
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

        return pl.read_parquet(Path(self.folder) / f"{name}.parquet")
