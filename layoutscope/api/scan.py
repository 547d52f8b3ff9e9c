"""``scan``: everything about the volumes of an image, from raw bytes to a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.api.images import findings_of
from layoutscope.api.keywords import profiles_of, takes
from layoutscope.api.predict import DEFAULT_DRIVES, predict_enumeration
from layoutscope.api.reading import opened, request_of
from layoutscope.api.workloads import USUAL_HOST, serve_walk
from layoutscope.drive import service
from layoutscope.drive.simulation import draw_seconds
from layoutscope.drive.uncertain import GEOMETRIES, Host, median_draw, uncertain
from layoutscope.errors import FormatError
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics import measure, tree_summaries
from layoutscope.metrics.space import space_use
from layoutscope.options import ScanOptions, Workload, fill, options_of
from layoutscope.progress import phase
from layoutscope.results.explanation import judge
from layoutscope.results.scan import ScanResult, VolumeScan, knows_offset
from layoutscope.results.verdict import WORTH_S
from layoutscope.walk.host import host_profile

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile
    from layoutscope.findings import Finding
    from layoutscope.options import EnumerationOptions
    from layoutscope.remedies.case import Case
    from layoutscope.results.explanation import ReadsOfNodes
    from layoutscope.results.scan import Prediction
    from layoutscope.results.verdict import Remedy, Yardstick
    from layoutscope.tables import VolumeLayout


@takes(ScanOptions)
def scan(path: str | os.PathLike[str], **options: Unpack[ScanOptions]) -> ScanResult:
    """Scan an image.

    Parameters
    ----------
    path : path
        A raw image, split or compressed, or a device.
    **options
        See :class:`~layoutscope.options.ScanOptions`: drives, host, and how the image is read.

    Returns
    -------
    ScanResult

    Raises
    ------
    TypeError
        If there is no such keyword.
    LayoutscopeError
        If the image cannot be opened, or nothing on it can be read; with ``strict``, at the first damage.

    Examples
    --------
    >>> import layoutscope
    >>> result = layoutscope.scan("fixtures/images/hfsplus-scattered.img.zst", drives="generic-7200")
    >>> result.volume.layout.facts.name, result.coverage
    ('Scattered', 1.0)
    >>> result.metrics.filter(metric="clump-count")["value"].to_list()
    [17.0]
    """
    asked = fill(ScanOptions, options)
    drives, host = asked["drives"], asked["host"]
    profiles = profiles_of(drives, DEFAULT_DRIVES)
    with opened(path, request_of(options, path)) as image:
        findings = findings_of(image.layouts)
        if asked["strict"]:
            check_strict((*image.findings, *(item for found in findings for item in found)))
        volumes = tuple(
            _scan_volume(layout, profiles, host, sharing(layout, image.layouts), found, may_skip=drives is None)
            for layout, found in zip(image.layouts, findings, strict=True)
        )
        about = image.about
        if asked["identify"] and image.images is not None:
            from layoutscope.api.images import metadata_sha256

            about = replace(about, metadata_sha256=metadata_sha256(image.images, image.layouts))
        return ScanResult(about, volumes, image.findings)


def scan_alike(paths: Sequence[str | os.PathLike[str]], options: EnumerationOptions) -> list[ScanResult]:
    """Scan images that are compared: as one host, macOS where their writers differ and none is asked for.

    Two hosts would be a difference that is not on the disks.
    """
    results = [scan(path, **options) for path in paths]
    hosts = {volume.walk.host for result in results for volume in result.volumes if volume.walk is not None}
    if len(hosts) < 2 or options.get("host") is not None:
        return results
    as_one: EnumerationOptions = {**options, "host": USUAL_HOST}
    return [scan(path, **as_one) for path in paths]


def check_strict(findings: tuple[Finding, ...]) -> None:
    """Turn the first damage into an error."""
    for finding in findings:
        if finding.level != "info":
            raise FormatError(
                finding.message,
                structure=f"{finding.code}: {finding.structure}",
                image_offset=finding.image_offset,
                expected=finding.expected,
                found=finding.found,
            )


def sharing(layout: VolumeLayout, layouts: Sequence[VolumeLayout]) -> tuple[VolumeLayout, ...]:
    """List the layouts that share the space of a layout: itself, a container's volumes; none for such a volume."""
    if not filesystem_of(layout).traits.has_containers:
        return (layout,)
    if layout.facts.volume is not None:
        return ()
    inside = (other for other in layouts if other.facts.volume is not None and _same_place(layout, other))
    return (layout, *inside)


def _same_place(layout: VolumeLayout, other: VolumeLayout) -> bool:
    return layout.facts.filesystem == other.facts.filesystem and layout.facts.image_offset == other.facts.image_offset


class _Trials:
    """What a verdict asks of the model, on the first drive."""

    def __init__(self, layout: VolumeLayout, first: Prediction, profile: DriveProfile, host: str) -> None:
        self._layout, self._first, self._profile = layout, first, profile
        self._host = host_profile(host)
        self._case: Case | None = None
        self._unknown = uncertain(profile, Host.of(self._host), knows_offset=knows_offset(layout))

    def seconds(self, reads: AccessTrace) -> float:
        """Say what changed reads take, by the ratio to the unchanged ones on the same drives one by one."""
        first = self._first
        if first.seconds < WORTH_S:
            # No cause is named where the time is short, so the profile as it stands will do.
            nominal_s = service(reads, self._profile).seconds
            return nominal_s * first.seconds / first.nominal_s if first.nominal_s else nominal_s
        # One simulation for each geometry: there are many causes.
        some = np.arange(GEOMETRIES)
        then = draw_seconds(reads, self._profile, self._unknown, numbers=some).seconds
        ratio = then / np.array(first.draws_s)[some]
        return first.seconds * float(ratio[median_draw(ratio)])

    def predicted(self, reads: AccessTrace) -> float:
        """Predict what reads take."""
        return serve_walk(self._layout, reads, self._profile, Host.of(self._host)).seconds

    def remedies(self, reads: ReadsOfNodes) -> tuple[Remedy, ...]:
        """Try the quick remedies of a plan."""
        from layoutscope.remedies.planning import quick_remedies

        return quick_remedies(self._case_of(reads), self._first)

    def yardsticks(self, reads: ReadsOfNodes) -> tuple[Yardstick, ...]:
        """Take the copies to other file systems from a plan; of large volumes they would take long."""
        from layoutscope.remedies.planning import copies_elsewhere

        if len(self._layout.columns("entries")) > MOST_COPIED:
            return ()
        return tuple(copies_elsewhere(self._case_of(reads)))

    def _case_of(self, reads: ReadsOfNodes) -> Case:
        """Make the case once: what it works out of the volume serves remedies and copies."""
        from layoutscope.remedies.case import Case

        if self._case is None:
            order = options_of(Workload)["order"].default
            self._case = Case(self._layout, self._profile, order, self._host).with_reads(reads)
        return self._case


MOST_COPIED: Final = 500_000
"""Entries of the largest volume of which a scan says what it would take on another file system."""


def _scan_volume(
    layout: VolumeLayout,
    profiles: Sequence[DriveProfile],
    host: str | None,
    shared: tuple[VolumeLayout, ...],
    findings: tuple[Finding, ...],
    *,
    may_skip: bool,  # whether drives that the volume does not fit on are left out
) -> VolumeScan:
    """Enumerate and measure one layout; its space is measured together with that of the layouts that share it."""
    walk, predictions = predict_enumeration(layout, profiles, host=host, may_skip=may_skip)
    with phase("asking what it is spent for"):
        verdict = None
        if walk is not None and predictions:
            profile = next(item for item in profiles if item.name == predictions[0].drive)
            verdict = judge(layout, walk, predictions, _Trials(layout, predictions[0], profile, walk.host))
    with phase("measuring"):
        return VolumeScan(
            layout=layout,
            trees=tree_summaries(layout),
            space=space_use(shared) if shared else (),
            metrics=measure(layout),
            walk=walk,
            predictions=predictions,
            verdict=verdict,
            findings=findings,
        )
