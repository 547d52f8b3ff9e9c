"""Volumes that overlap on an image: each is reported, and all together are read within a bound.

A map may name a thousand volumes over the same bytes. Read one by one, these bytes would be read and swept as often.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from layoutscope.findings import Finding
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.partition import VolumeCandidate
    from layoutscope.tables.layout import VolumeLayout

FREE_BYTES: Final = 16 * 1024**2
"""Volumes that overlap others may always have so much metadata together."""


class SharedSpace:
    """What of an image was read for which volumes.

    Volumes that overlap others are read until they have as much metadata together as the others, and at least
    :data:`FREE_BYTES`. They are swept until as many bytes as the image has were swept for their file system.
    """

    def __init__(self, size_bytes: int) -> None:
        self.findings: list[Finding] = []
        self._size_bytes = size_bytes
        self._stretches: list[tuple[int, int]] = []
        self._swept: Counter[str] = Counter()
        self._alone_bytes = self._overlapping_bytes = 0

    def may_read(self, candidate: VolumeCandidate) -> bool:
        """Whether a volume is read: if it overlaps others, only as long as the bound is not reached."""
        stop = candidate.image_offset + candidate.size_bytes
        other = self._other(candidate.image_offset, stop)
        bound = max(self._alone_bytes, FREE_BYTES)
        if other is None or self._overlapping_bytes < bound:
            return True
        reason = f"it was not read, since others that overlap had {format_bytes(bound)} of metadata before it"
        self._report(candidate, other, reason, is_read=False)
        return False

    def may_sweep(self, candidate: VolumeCandidate) -> bool:
        """Whether a volume is swept, if that was asked for."""
        start, size = candidate.image_offset, candidate.size_bytes
        return self._other(start, start + size) is None or self._swept[candidate.kind] + size <= self._size_bytes

    def add(
        self,
        candidate: VolumeCandidate,
        layouts: Sequence[VolumeLayout],  # what was read; none where that failed
        read_bytes: int,
        *,
        is_swept: bool,
        is_left_out: bool,
    ) -> None:
        """Take account of a volume that was read, or tried."""
        start, stop = candidate.image_offset, candidate.image_offset + candidate.size_bytes
        if is_swept:
            self._swept[candidate.kind] += max(candidate.size_bytes, read_bytes)
        else:
            # What is swept has a bound of its own, and is no measure of what there is.
            metadata = sum(layout.facts.metadata_read_bytes for layout in layouts)
            if self._other(start, stop) is None:
                self._alone_bytes += metadata
            else:
                self._overlapping_bytes += max(metadata, read_bytes)
        ends = [
            layout.facts.image_offset + layout.facts.size_bytes
            for layout in layouts
            if "fusion" not in layout.facts.features
        ]
        stop = max(ends, default=stop)
        other = self._other(start, stop)
        if other is not None and (layouts or is_left_out):
            what = "it was not swept, since as many bytes as the image has were swept before it" if is_left_out else ""
            self._report(candidate, other, what, is_read=True)
        self._stretches.append((start, stop))

    def _other(self, start: int, stop: int) -> tuple[int, int] | None:
        """Find a volume that was read or tried before and overlaps this one."""
        # What starts at the same byte is the same volume, tried as one of several kinds.
        return next((each for each in self._stretches if each[0] < stop and start < each[1] and each[0] != start), None)

    def _report(self, candidate: VolumeCandidate, other: tuple[int, int], what: str, *, is_read: bool) -> None:
        message = f"overlaps the volume at byte {other[0]:,}, which ends at {other[1]:,}"
        self.findings.append(
            Finding(
                "volumes-overlap",
                "warning" if is_read else "error",
                f"{candidate.label} volume",
                candidate.image_offset,
                f"{message}; {what}" if what else message,
            )
        )
