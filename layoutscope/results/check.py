"""What ``check`` and ``verify`` return: every finding of an image, and where the two decoders differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.display import Displayed
from layoutscope.errors import EXIT_COMPLETE, EXIT_DAMAGED
from layoutscope.frozen import frozen
from layoutscope.results import Shown

if TYPE_CHECKING:
    from layoutscope.findings import Finding


@frozen
class CheckedVolume(Displayed):
    """One volume: what is wrong with it, and how much of its metadata was looked at."""

    volume: str
    findings: tuple[Finding, ...]
    coverage: float | None


@frozen
class CheckResult(Shown):
    """What a check found.

    Attributes
    ----------
    image : str
        Its name.
    volumes : tuple of CheckedVolume
        One a volume or container.
    findings : tuple of Finding
        What is wrong outside of them.
    """

    image: str
    volumes: tuple[CheckedVolume, ...]
    findings: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing but information was found, and everything was looked at."""
        every = [*self.findings, *(finding for volume in self.volumes for finding in volume.findings)]
        return all(finding.level == "info" for finding in every) and all(item.coverage == 1 for item in self.volumes)

    @property
    def exit_code(self) -> int:
        """0 if clean, else 3."""
        return EXIT_COMPLETE if self.is_clean else EXIT_DAMAGED


@frozen
class TableVerdict(Displayed):
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


@frozen
class Verification(Shown):
    """All tables of an image, read with both decoders."""

    image: str
    tables: tuple[TableVerdict, ...]

    @property
    def exit_code(self) -> int:
        """0 if both decoders agree, else 3."""
        return EXIT_DAMAGED if any(table.differences for table in self.tables) else EXIT_COMPLETE
