"""``scan``: everything about the volumes of an image, from raw bytes to a prediction."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from layoutscope.api.keywords import profiles_of, takes
from layoutscope.api.predict import PACKED, walk_facts
from layoutscope.api.reading import findings_of, make_request, open_volumes
from layoutscope.api.workloads import (
    USUAL_HOST,
    check_workload,
    choose_host,
    fits,
    host_of,
    prediction,
    unknowns_of,
    walk_on,
)
from layoutscope.drive.simulation import Unknowns
from layoutscope.errors import FormatError
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics import measure, tree_summaries
from layoutscope.metrics.scatter import space_use
from layoutscope.options import ScanOptions, fill
from layoutscope.progress import phase, reporting
from layoutscope.remedies.case import Case
from layoutscope.remedies.planning import Trial
from layoutscope.results.explanation import count_listed, locate_reads, measure_placement
from layoutscope.results.scan import ScanResult, VolumeScan
from layoutscope.results.verdict import Cause, Verdict, Why
from layoutscope.walk.orders import model_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from layoutscope.api.reading import Opened
    from layoutscope.drive import DriveProfile
    from layoutscope.findings import Finding
    from layoutscope.options import EnumerationOptions
    from layoutscope.results.scan import HostFrom, Prediction
    from layoutscope.tables import VolumeLayout

Choice: TypeAlias = "Callable[[VolumeLayout], tuple[str, HostFrom]]"
"""What chooses the host of a volume, and says why."""


@takes(ScanOptions)
def scan(path: str | os.PathLike[str], **options: Unpack[ScanOptions]) -> ScanResult:
    """Scan an image.

    Parameters
    ----------
    path : path
        A raw image, split or compressed, or a device.

    Returns
    -------
    ScanResult

    Raises
    ------
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
    profiles = profiles_of(asked["drives"])
    with open_volumes(path, make_request(options, path)) as image:
        choose = partial(choose_host, asked=asked["host"])
        return _model(_read(image, asked), profiles, choose, may_skip=asked["drives"] is None)


def scan_alike(paths: Sequence[str | os.PathLike[str]], options: EnumerationOptions) -> list[ScanResult]:
    """Scan images that are compared: as one host, macOS where their writers differ and none is asked for.

    Two hosts would be a difference that is not on the disks.
    """
    asked = fill(ScanOptions, options)
    profiles, choose = profiles_of(asked["drives"]), partial(choose_host, asked=asked["host"])
    images = []
    for path in paths:
        with open_volumes(path, make_request(options, path)) as image:
            images.append(_read(image, asked))
    layouts = [volume.layout for image in images for volume in image.parts]
    writers = {choose(layout)[0] for layout in layouts if len(layout.columns("entries"))}
    if len(writers) > 1:
        choose = partial(choose_host, asked=USUAL_HOST, why="compared")
    with reporting(asked["progress"]):
        return [_model(image, profiles, choose, may_skip=asked["drives"] is None) for image in images]


def _read(image: Opened, asked: ScanOptions) -> ScanResult:
    """Take what was read of an image, and model nothing yet."""
    findings = findings_of(image.layouts)
    if asked["strict"]:
        check_strict((*image.findings, *(item for found in findings for item in found)))
    about = image.about
    if asked["identify"] and image.images is not None:
        from layoutscope.api.extract import metadata_sha256

        about = replace(about, metadata_sha256=metadata_sha256(image.images, image.layouts))
    pairs = zip(image.layouts, findings, strict=True)
    volumes = tuple(VolumeScan(layout, (), (), (), None, (), found) for layout, found in pairs)
    return ScanResult(about, volumes, image.findings)


def _model(image: ScanResult, profiles: Sequence[DriveProfile], choose: Choice, *, may_skip: bool) -> ScanResult:
    """Enumerate and measure the volumes of an image that was read."""
    layouts = [volume.layout for volume in image.parts]
    modelled = (
        _model_volume(volume, profiles, choose, sharing(volume.layout, layouts), may_skip=may_skip)
        for volume in image.parts
    )
    return replace(image, parts=tuple(modelled))


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
    where = layout.facts.filesystem, layout.facts.image_offset
    inside = (other for other in layouts if (other.facts.filesystem, other.facts.image_offset) == where)
    return (layout, *(other for other in inside if other.facts.volume is not None))


def _model_volume(
    volume: VolumeScan,
    profiles: Sequence[DriveProfile],
    choose: Choice,
    shared: tuple[VolumeLayout, ...],
    *,
    may_skip: bool,  # whether drives that the volume does not fit on are left out
) -> VolumeScan:
    """Enumerate and measure one volume; its space is measured together with that of the layouts that share it."""
    layout = volume.layout
    volume = _enumerate(volume, profiles, choose(layout), may_skip=may_skip)
    with phase("measuring"):
        space = space_use(shared) if shared else ()
        return replace(volume, trees=tree_summaries(layout), space=space, metrics=measure(layout))


def _enumerate(
    volume: VolumeScan, profiles: Sequence[DriveProfile], chosen: tuple[str, HostFrom], *, may_skip: bool
) -> VolumeScan:
    """Walk a volume with entries, serve the walk on each drive, and judge it on the first."""
    layout, work = volume.layout, check_workload({"host": chosen[0]})
    # An unknown host is refused even if the volume has no entries, since it is locked or damaged.
    host, unknowns = host_of(work, layout), unknowns_of(work, layout)
    if not len(layout.columns("entries")):
        return volume
    model = model_of(layout, host)
    reads = walk_on(model, work).reads
    fitting = [profile for profile in profiles if not may_skip or fits(profile, reads)]
    # Drives that were drawn take memory, and nobody asks for those of the others again.
    predictions = tuple(
        prediction(layout, reads, profile, Unknowns(unknowns.host) if number else unknowns)
        for number, profile in enumerate(fitting)
    )
    walk, verdict = walk_facts(layout, reads, work["order"], chosen), None
    with phase("asking what it is spent for"):
        if fitting:
            case = Case(layout, fitting[0], walk.order, host).with_reads(locate_reads(layout, reads), model)
            verdict = judge(Trial(case, predictions[0], unknowns), predictions[0])
    return replace(volume, walk=walk, predictions=predictions, verdict=verdict)


def judge(trial: Trial, first: Prediction) -> Verdict:
    """Judge a walk: its causes, remedies and placement."""
    reads, seconds = trial.case.by_node, first.seconds
    per_1000 = 1000 * seconds / max(count_listed(reads.layout), 1)
    plain = Verdict(first.drive, seconds, seconds, per_1000, (), (), None)
    if not len(reads.trace):
        return plain

    def saved(after_s: float) -> float:
        return 1 - after_s / seconds if seconds else 0.0

    after_s = {why: trial.seconds(why.change) for why in Why}
    causes = [Cause(why, each_s, saved(each_s)) for why, each_s in after_s.items()]
    return replace(
        plain,
        packed_seconds=trial.seconds(PACKED),
        causes=tuple(sorted(causes, key=lambda cause: -cause.share)),
        remedies=trial.quick_remedies(),
        placement=measure_placement(reads, saved(after_s[Why.DISTANCE])) if first.rotates else None,
        yardsticks=trial.yardsticks() if plain.is_noticeable else (),
    )
