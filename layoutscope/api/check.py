"""``check``: everything that an image's structures contradict, read-only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from layoutscope.analysis.owners import volume_name
from layoutscope.api.naming import without_names
from layoutscope.api.reading import layout_findings, opened, second_half
from layoutscope.options import ReadRequest
from layoutscope.results.check import CheckedVolume, CheckResult
from layoutscope.tables import findings_table

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from layoutscope.api.reading import Opened
    from layoutscope.filesystems.apfs.check import Checked
    from layoutscope.findings import Finding
    from layoutscope.image import Source
    from layoutscope.options import ReadOptions
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
    asked = ReadRequest(**options)
    hidden, request = not asked.names, replace(asked, names=True)
    with opened(path, request) as image:
        containers: dict[int, Checked] = {}
        found = [_findings(image, layout, request, containers) for layout in image.layouts]
        layouts = [without_names(layout) if hidden else layout for layout in image.layouts]
        told = [_without_names(each, image.layouts) if hidden else each for each in found]
        volumes = tuple(
            CheckedVolume(volume_name(layout), each, layout.facts.coverage)
            for layout, each in zip(layouts, told, strict=True)
        )
        outside = _without_names(image.findings, image.layouts) if hidden else image.findings
        return CheckResult(image.about.name, volumes, outside)


def _without_names(findings: tuple[Finding, ...], layouts: tuple[VolumeLayout, ...]) -> tuple[Finding, ...]:
    """Leave out the names of all volumes and snapshots that findings quote."""
    for layout in layouts:
        findings = layout_findings(without_names(replace(layout, findings=findings_table(findings))))
    return findings


def _findings(
    image: Opened, layout: VolumeLayout, request: ReadRequest, containers: dict[int, Checked]
) -> tuple[Finding, ...]:
    """Check a volume record by record; of a capture there is only what its scan found."""
    if image.source is None:
        return layout_findings(layout)
    if layout.facts.filesystem == "apfs":
        return _apfs_findings(image.source, layout, request, containers)
    from layoutscope.filesystems.hfsplus.check import check_volume

    found = check_volume(
        image.source,
        image_offset=layout.facts.image_offset,
        decoder=request.decoder,
        replay_journal=not request.no_journal,
        sweep=request.sweep,
        space_bytes=image.spaces.get(layout.facts.image_offset),
    )
    return tuple(found)


def _apfs_findings(
    source: Source, layout: VolumeLayout, request: ReadRequest, containers: dict[int, Checked]
) -> tuple[Finding, ...]:
    """Check a container when the first of its layouts comes; give each layout what concerns it."""
    from layoutscope.filesystems.apfs.check import check_container
    from layoutscope.filesystems.apfs.reader import Options

    where = layout.facts.image_offset
    if where not in containers:
        chosen = Options(
            decoder=request.decoder,
            second=second_half(source),
            xid=request.xid,
            snapshot=request.snapshot,
            password=request.password,
            sweep=request.sweep,
        )
        containers[where] = check_container(source, image_offset=where, options=chosen)
    found = containers[where]
    own = found.outside if layout.facts.volume is None else found.volumes.get(layout.facts.uuid, [])
    return (*own, *(item for item in layout_findings(layout) if item.code == "stale-nodes"))
