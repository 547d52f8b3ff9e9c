"""``check``: everything that an image's structures contradict, read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.api.owners import volume_name
from layoutscope.api.reading import layout_findings, opened
from layoutscope.report.check import CheckedVolume, CheckResult

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from layoutscope.api.options import ReadOptions
    from layoutscope.api.reading import Opened
    from layoutscope.findings import Finding
    from layoutscope.tables import VolumeLayout


def check(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> CheckResult:
    """Check the structures of an image.

    Parameters
    ----------
    path : path
        The image.
    **options
        See :class:`~layoutscope.api.options.ReadOptions`.

    Returns
    -------
    CheckResult
        Every finding of partition maps and volumes.

    Raises
    ------
    LayoutscopeError
        If the image cannot be opened, or nothing on it can be read.
    """
    with opened(path, **options) as image:
        volumes = tuple(
            CheckedVolume(volume_name(layout), _findings(image, layout, options), layout.facts.coverage)
            for layout in image.layouts
        )
        return CheckResult(image.about.name, volumes, image.findings)


def _findings(image: Opened, layout: VolumeLayout, options: ReadOptions) -> tuple[Finding, ...]:
    """Check a volume record by record; of a capture there is only what its scan found."""
    if image.source is None or layout.facts.filesystem != "hfsplus":
        return layout_findings(layout)
    from layoutscope.hfsplus.check import check_volume

    found = check_volume(
        image.source,
        image_offset=layout.facts.image_offset,
        decoder=options.get("decoder", "bulk"),
        replay_journal=not options.get("no_journal", False),
    )
    return tuple(found)
