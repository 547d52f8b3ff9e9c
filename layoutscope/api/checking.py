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
            CheckedVolume(volume_name(layout), layout_findings(layout), layout.facts.coverage)
            for layout in image.layouts
        )
        return CheckResult(image.about.name, volumes, image.findings)
