"""Images that are open: what was read of one, and one that stays open, which verbs take in place of its path."""

from __future__ import annotations

import os
from dataclasses import field
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from layoutscope.errors import UsageError
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.findings import first_cause
from layoutscope.frozen import frozen
from layoutscope.partition import select_name
from layoutscope.results.locked import locked_error, several_volumes
from layoutscope.tables import VolumeLayout
from layoutscope.tables.layout import layout_findings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from layoutscope.errors import LayoutscopeError
    from layoutscope.findings import Finding
    from layoutscope.image.opening import ImageSet
    from layoutscope.options import ReadRequest
    from layoutscope.partition import VolumeSearch
    from layoutscope.results.scan import ImageFacts
    from layoutscope.tables.frames import WalkCosts


@frozen
class Opened:
    """An open image or capture and what was read of it."""

    about: ImageFacts  # the image and what reading it took
    layouts: tuple[VolumeLayout, ...]  # the volumes that were asked for
    findings: tuple[Finding, ...]  # what is wrong outside of them, candidates that could not be read among it
    # the image, or both of a set in the order of their devices, open as long as the context; None of a capture
    images: ImageSet | None = None
    # bytes that each volume or container has at most, by where it starts in the image
    spaces: Mapping[int, int] = field(default_factory=dict)
    # what lies where on the image, whether it was asked for or not; None of a capture
    search: VolumeSearch | None = None
    capture: str = ""  # where the capture lies; empty of an image

    def bytes(self) -> ImageSet:
        """Return what holds the bytes."""
        if self.images is None:
            raise UsageError(f"{self.capture}: is a capture; this needs the image itself")
        return self.images


def nothing_to_walk(layouts: Sequence[VolumeLayout], name: str = "") -> LayoutscopeError:
    """Say why there is no volume that can be walked: it is locked, or the first error tells, or there is none."""
    locked = locked_error(layouts, name)
    if locked is not None:
        return locked
    before = f"{name}: " if name else ""
    errors = [item for found in findings_of(layouts) for item in found if item.level == "error"]
    why = f": {first_cause(errors).message}" if errors else ""
    return UsageError(f"{before}no volume that can be walked{why}")


def findings_of(layouts: Sequence[VolumeLayout]) -> list[tuple[Finding, ...]]:
    """Return the findings of each layout with their causes, which may be in the container that a volume is in."""
    found: list[tuple[Finding, ...]] = []
    for _, same in groupby(layouts, lambda layout: (layout.facts.filesystem, layout.facts.image_offset)):
        parts = [(layout, layout_findings(layout)) for layout in same]
        names = [str(layout.facts.volume or "") for layout, own in parts for _ in own]
        every = iter(filesystem_of(parts[0][0]).explained([item for _, own in parts for item in own], names))
        found += [tuple(islice(every, len(own))) for _, own in parts]
    return found


def only_volume(layouts: Sequence[VolumeLayout]) -> VolumeLayout:
    """Return the one volume that can be walked."""
    walked = [layout for layout in layouts if len(layout.columns("entries"))]
    if not walked:
        raise nothing_to_walk(layouts)
    if len(walked) > 1:
        raise several_volumes(walked)
    return walked[0]


class Volumes:
    """The volumes of an image, in order; one of them by its name, or by its number from 1, as ``volume=`` takes them.

    What is read of a container itself is no volume and not among them.
    """

    def __init__(self, layouts: Sequence[VolumeLayout]) -> None:
        self._layouts = [layout for layout in layouts if layout.facts.volume is not None]

    def __len__(self) -> int:
        return len(self._layouts)

    def __iter__(self) -> Iterator[VolumeLayout]:
        return iter(self._layouts)

    def __getitem__(self, wanted: str | int) -> VolumeLayout:
        """Return a volume."""
        return self._layouts[select_name(self.names, str(wanted))]

    @property
    def names(self) -> list[str]:
        """The names of the volumes, in order; two may have the same."""
        return [layout.facts.name for layout in self._layouts]

    def __repr__(self) -> str:
        listed = ", ".join(f"{number}: {name!r:.40}" for number, name in enumerate(self.names[:5], 1))
        return f"Volumes({listed}{', …' if len(self) > 5 else ''})"

    def _repr_html_(self) -> str:
        """Show the volumes as a table in a notebook."""
        from layoutscope.report.notebook import STYLE, table

        facts = [layout.facts for layout in self]
        rows = [(n, each.name, each.variant, each.size_bytes, each.view) for n, each in enumerate(facts, 1)]
        return STYLE + table(("number", "name", "variant", "size in bytes", "view"), rows)


class OpenImage:
    """An image that was read once and is open: every verb takes it in place of a path."""

    def __init__(self, path: str | os.PathLike[str], request: ReadRequest, opened: Opened) -> None:
        self.path = os.fspath(path)
        self.request = request
        self._opened: Opened | None = opened

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    @property
    def opened(self) -> Opened:
        """What was read."""
        if self._opened is None:
            raise UsageError(f"{self.path}: was closed")
        return self._opened

    @property
    def layouts(self) -> tuple[VolumeLayout, ...]:
        """The tables of all that was read: volumes, and containers before their volumes."""
        return self.opened.layouts

    @property
    def volumes(self) -> Volumes:
        """The volumes, by name or by number from 1."""
        return Volumes(self.layouts)

    @property
    def volume(self) -> VolumeLayout:
        """The one volume that can be walked."""
        return only_volume(self.layouts)


def walked_costs(layout: VolumeLayout, drive: Any, work: dict[str, Any]) -> WalkCosts:
    """Charge what a walk costs to nodes, files and directories."""
    from layoutscope.api.workloads import checked, walk_costs

    # Slips of the pen are told before what the volume lacks.
    request = checked(work)
    return walk_costs(only_volume([layout]), drive, request)


# Tables know nothing of walks and drives, which work on them; whoever gets a layout from a verb can ask it for costs.
VolumeLayout.cost_with(walked_costs)
