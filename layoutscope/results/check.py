"""What ``check`` returns: every finding of an image, volume by volume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from layoutscope.errors import EXIT_COMPLETE, EXIT_DAMAGED
from layoutscope.results.shown import Shown

if TYPE_CHECKING:
    from layoutscope.findings import Finding


@dataclass(frozen=True, slots=True)
class CheckedVolume:
    """One volume: what is wrong with it, and how much of its metadata was looked at."""

    volume: str
    findings: tuple[Finding, ...]
    coverage: float


@dataclass(frozen=True, slots=True)
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
        return all(finding.level == "info" for finding in every) and all(item.coverage >= 1 for item in self.volumes)

    @property
    def exit_code(self) -> int:
        """0 if clean, else 3."""
        return EXIT_COMPLETE if self.is_clean else EXIT_DAMAGED
