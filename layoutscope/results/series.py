"""What ``series`` returns: layouts in order, volume by volume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from layoutscope.results.shown import Shown

if TYPE_CHECKING:
    from layoutscope.results.compare import Comparison


@dataclass(frozen=True, slots=True)
class Series(Shown):
    """Layouts in order, volume by volume.

    Attributes
    ----------
    by : str
        What they are ordered by: ``order``, ``xid`` or ``time``.
    places : tuple of str
        Place of each in that order, as text.
    volumes : tuple of str
        The volume of each: its curve, by a name that tells it from the others.
    found : Comparison
        Metrics and times, one side a layout.
    """

    by: str
    places: tuple[str, ...]
    volumes: tuple[str, ...]
    found: Comparison

    @property
    def curves(self) -> dict[str, list[int]]:
        """Numbers of the layouts of each volume, in order."""
        return {
            name: [n for n, other in enumerate(self.volumes) if other == name] for name in dict.fromkeys(self.volumes)
        }
