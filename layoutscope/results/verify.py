"""What ``verify`` returns: where the two decoders differ."""

from __future__ import annotations

from dataclasses import dataclass

from layoutscope.errors import EXIT_COMPLETE, EXIT_DAMAGED
from layoutscope.results.shown import Shown


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """One table, read with both decoders.

    Attributes
    ----------
    volume, table : str
        Which.
    rows : int
        Rows that the bulk decoder gives.
    differences : tuple of str
        What differs, by column and row; empty where both agree.
    """

    volume: str
    table: str
    rows: int
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verification(Shown):
    """All tables of an image, read with both decoders."""

    image: str
    tables: tuple[TableVerdict, ...]

    @property
    def exit_code(self) -> int:
        """0 if both decoders agree, else 3."""
        return EXIT_DAMAGED if any(table.differences for table in self.tables) else EXIT_COMPLETE
