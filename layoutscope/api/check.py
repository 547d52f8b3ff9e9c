"""``check``: everything that an image's structures contradict, read-only."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from layoutscope.analysis.owners import volume_name
from layoutscope.api.naming import without_names
from layoutscope.api.reading import layout_findings, opened, request_of, with_options
from layoutscope.filesystems.contract import VolumeRequest
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.results.check import CheckedVolume, CheckResult
from layoutscope.tables import findings_table

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from layoutscope.api.reading import Opened
    from layoutscope.findings import Finding
    from layoutscope.options import ReadOptions, ReadRequest
    from layoutscope.tables import VolumeLayout


def check(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> CheckResult:
    """Check the structures of an image.

    Parameters
    ----------
    path : path
        The image.
    **options
        See :class:`~layoutscope.options.ReadOptions`.

    Returns
    -------
    CheckResult
        Every finding of partition maps and volumes.

    Raises
    ------
    LayoutscopeError
        If the image cannot be opened, or nothing on it can be read.
    """
    # Findings quote names, so that these are needed even where they are left out.
    asked = request_of(options)
    hidden, request = not asked.names, replace(asked, names=True)
    with opened(path, request) as image:
        found = _findings(image, request)
        layouts = [without_names(layout) if hidden else layout for layout in image.layouts]
        told = [_without_names(each, image.layouts) if hidden else each for each in found]
        volumes = tuple(
            CheckedVolume(volume_name(layout), each, layout.coverage)
            for layout, each in zip(layouts, told, strict=True)
        )
        outside = _without_names(image.findings, image.layouts) if hidden else image.findings
        return CheckResult(image.about.name, volumes, outside)


def _without_names(findings: tuple[Finding, ...], layouts: tuple[VolumeLayout, ...]) -> tuple[Finding, ...]:
    """Leave out the names of all volumes and snapshots that findings quote."""
    for layout in layouts:
        findings = layout_findings(without_names(replace(layout, findings=findings_table(findings))))
    return findings


def _findings(image: Opened, request: ReadRequest) -> list[tuple[Finding, ...]]:
    """Check volumes record by record, those of one container together; of a capture there is what its scan found."""
    if image.images is None:
        return [layout_findings(layout) for layout in image.layouts]
    found = []
    for where, together in groupby(image.layouts, lambda layout: layout.facts.image_offset):
        layouts = list(together)
        chosen = filesystem_of(layouts[0])
        place = VolumeRequest(image.images.main, where, image.spaces.get(where))
        found += chosen.check(with_options(place, image.images, chosen, request), layouts)
    return found
