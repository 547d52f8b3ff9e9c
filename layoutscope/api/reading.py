"""From a path to layouts: opening an image or a capture, finding its volumes, reading each by its own file system.

The result is an :class:`Opened` with the layouts of all volumes; :class:`OpenImage` is what users hold open.
:func:`read_layouts` and :func:`open_volumes` are the ways in.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import field
from msgspec.structs import replace

from layoutscope import inputs
from layoutscope.api.keywords import takes
from layoutscope.api.save import without_names
from layoutscope.display import Struct
from layoutscope.errors import FormatError, ImageError, LayoutscopeError, UsageError
from layoutscope.filesystems.contract import VolumeRequest
from layoutscope.filesystems.registry import filesystem, filesystem_names, filesystem_of, filesystems, read_options
from layoutscope.findings import Finding, first_cause, from_error
from layoutscope.image.failing import around_failures
from layoutscope.image.opening import explain_refusal, open_images
from layoutscope.options import ReadOptions, fill, options_of
from layoutscope.partition import VolumeCandidate, choose, find_volumes, select_name
from layoutscope.partition.filevault import unlock_volumes
from layoutscope.partition.search import (
    CORE_STORAGE,
    FILEVAULT,
    Depth,
    confirm_volume_size,
    find_volumes_in_gaps,
    may_hold_volume,
)
from layoutscope.progress import phase, reporting
from layoutscope.results.locked import (
    how_to_open,
    is_locked,
    make_locked_error,
    make_several_volumes_error,
    refuse_wrong_secret,
)
from layoutscope.results.scan import CUT_OFF, ImageFacts, PartitionFacts
from layoutscope.tables import VolumeLayout, coverage_of
from layoutscope.tables.capture import check_values, field_types, is_capture, read_capture
from layoutscope.tables.layout import layout_findings
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Unpack

    from layoutscope.filesystems.contract import FileSystem, Piece, Row, View
    from layoutscope.image import Source
    from layoutscope.partition import Partition, VolumeSearch
    from layoutscope.tables.frames import WalkCosts

    ViewOf = Callable[[VolumeLayout], View]


class Opened(Struct, frozen=True):
    """An open image or capture and what was read of it."""

    about: ImageFacts  # the image and what reading it took
    layouts: tuple[VolumeLayout, ...]  # the volumes that were asked for
    findings: tuple[Finding, ...]  # what is wrong outside of them, candidates that could not be read among it
    # the image, or both of a set in the order of their devices, open as long as the context; None of a capture
    images: tuple[Source, ...] | None = None
    # bytes that each volume or container has at most, by where it starts in the image
    spaces: Mapping[int, int] = field(default_factory=dict)
    capture: str = ""  # path of the capture; empty for an image

    def bytes(self) -> tuple[Source, ...]:
        """Return what holds the bytes."""
        if self.images is None:
            raise UsageError(f"{self.capture}: is a capture; this needs the image itself")
        return self.images


def nothing_to_walk(layouts: Sequence[VolumeLayout], name: str = "") -> LayoutscopeError:
    """Explain why no volume can be walked: it is locked, an error was found, or the image has none."""
    locked = make_locked_error(layouts, name)
    if locked is not None:
        return locked
    before = f"{name}: " if name else ""
    errors = [item for found in findings_of(layouts) for item in found if item.level == "error"]
    why = f": {first_cause(errors).message}" if errors else ""
    return UsageError(f"{before}no volume that can be walked{why}")


def walkable(layouts: Sequence[VolumeLayout], name: str = "") -> list[VolumeLayout]:
    """Return the volumes that can be walked, at least one."""
    walked = [layout for layout in layouts if len(layout.columns("entries"))]
    if not walked:
        raise nothing_to_walk(layouts, name)
    return walked


def findings_of(layouts: Sequence[VolumeLayout]) -> list[tuple[Finding, ...]]:
    """Return the findings of each layout with their causes, which may be in the container that a volume is in."""
    found: list[tuple[Finding, ...]] = []
    for _, same in groupby(layouts, lambda layout: (layout.facts.filesystem, layout.facts.image_offset)):
        parts = [(layout, layout_findings(layout)) for layout in same]
        names = [str(layout.facts.volume or "") for layout, own in parts for _ in own]
        every = tuple(item for _, own in parts for item in own)
        if len(every) > 1:  # one alone has no cause, and the rules of a check take time to load
            every = filesystem_of(parts[0][0]).explained(every, names)
        following = iter(every)
        found += [tuple(islice(following, len(own))) for _, own in parts]
    return found


def only_volume(layouts: Sequence[VolumeLayout]) -> VolumeLayout:
    """Return the one volume that can be walked."""
    walked = walkable(layouts)
    if len(walked) > 1:
        raise make_several_volumes_error(walked)
    return walked[0]


class Volumes:
    """The volumes of an image, in order; one of them by its name, or by its number from 1, as ``volume=`` takes them.

    The container itself is not a volume and not among them.
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

    def __init__(self, path: str | os.PathLike[str], request: ReadOptions, opened: Opened) -> None:
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


def charge_walk(layout: VolumeLayout, drive: Any, work: dict[str, Any]) -> WalkCosts:
    """Charge what a walk costs to nodes, files and directories."""
    from layoutscope.api.keywords import profiles_of
    from layoutscope.api.workloads import check_workload, prediction, unknowns_of, walk
    from layoutscope.results.frames import costs_of

    # Typing errors are reported before anything that the volume lacks.
    request = check_workload(work)
    only_volume([layout])
    (profile,) = profiles_of(drive)
    reads = walk(layout, request).reads
    found = prediction(layout, reads, profile, unknowns_of(request, layout))
    return costs_of(layout, reads, found, request["order"])


# Tables do not know walks and drives, which use them. So a layout from a verb learns here how to compute costs.
VolumeLayout.set_cost_function(charge_walk)


IMAGE_ONLY: Final = ("partition", "volume_at", "ddrescue_map")
"""Options that choose among what only an image holds, besides those that single file systems have."""


def load_capture(path: Path, request: ReadOptions) -> Opened:
    """Open a capture."""
    layouts, manifest = read_capture(path)
    # Passwords may be given for many images at once; a capture without locked volumes ignores them.
    own, is_open = own_options(request), not any(map(is_locked, layouts))
    own = [name for name in own if not (is_open and read_options()[name][0].kind == "secret")]
    given: Mapping[str, Any] = request
    asked = [name for name in IMAGE_ONLY if given[name] is not None] + own
    if asked:
        raise UsageError(f"{path}: is a capture; {asked[0].replace('_', '-')} needs the image itself")
    unknown = [layout.facts.filesystem for layout in layouts if layout.facts.filesystem not in filesystem_names()]
    if unknown:
        raise ImageError(f"{path}: is a capture of the file system {unknown[0]!r:.40}, which is not known here")
    try:
        about = _parse_facts(manifest["image"])
        findings = tuple(map(_parse_finding, manifest["findings"]))
        return Opened(replace(about, name=about.name or str(path)), layouts, findings, capture=str(path))
    except ValueError as error:
        raise ImageError(f"{path}: is a damaged capture: {error}") from error


def _parse_facts(saved: dict[str, Any]) -> ImageFacts:
    # Captures of earlier versions have no list of partitions.
    saved = {"partitions": [], **saved}
    check_values("image", saved, field_types(ImageFacts))
    words = {name: tuple(map(str, saved[name])) for name in ("partition_maps", "other_contents")}
    partitions = []
    for partition in saved["partitions"]:
        check_values("partition", partition, field_types(PartitionFacts))
        partitions.append(PartitionFacts(**{**partition, "roles": tuple(map(str, partition["roles"]))}))
    return ImageFacts(**{**saved, **words, "partitions": tuple(partitions)})


def _parse_finding(saved: dict[str, Any]) -> Finding:
    # Causes are found by a check, which a capture is not enough for.
    kinds = {name: kind for name, kind in field_types(Finding).items() if name != "causes"} | {"cause": type(None)}
    check_values("finding", saved, kinds)
    if saved["level"] not in ("info", "warning", "error"):
        raise ValueError("a finding has an unknown level")
    return Finding(**{name: value for name, value in saved.items() if name != "cause"})


def own_options(request: ReadOptions) -> list[str]:
    """Name the options of single file systems that ask for something else than they do by default."""
    given: Mapping[str, Any] = request
    return [name for name, (option, _) in read_options().items() if given.get(name, option.default) != option.default]


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
            # A sweep has a limit of its own, and does not measure how much there is.
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


@takes(ReadOptions)
def read_layouts(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> tuple[VolumeLayout, ...]:
    """Read the tables of the volumes on an image.

    Raises
    ------
    LayoutscopeError
        If the image cannot be opened, or nothing on it can be read.

    Examples
    --------
    >>> import layoutscope
    >>> (layout,) = layoutscope.read_layouts("fixtures/images/hfsplus-scattered.img.zst")
    >>> layout.nodes.filter(tree="catalog", level=0).height
    210
    """
    with open_volumes(path, make_request(options, path)) as image:
        return image.layouts


def make_request(options: Mapping[str, Any], path: str | os.PathLike[str] | None = None) -> ReadOptions:
    """Take the options of reading, those of other packages' file systems among them; other options are left aside."""
    own, known = read_options(), options_of(ReadOptions)
    given = {name: value for name, value in options.items() if name in own or name in known}
    if isinstance(path, OpenImage):
        for name in given:
            raise TypeError(f"{path}: is open already; give {name!r} when you open the image")
        return path.request
    if isinstance(given.get("volume"), int):
        given["volume"] = str(given["volume"])
    given["second"] = next((given[name] for name in own if name in given and own[name][0].kind == "image"), None)
    return cast("ReadOptions", {**fill(ReadOptions, {}), **given})


@contextmanager
def open_volumes(
    path: str | os.PathLike[str], request: ReadOptions, kept: dict[int, Any] | None = None
) -> Iterator[Opened]:
    """Open an image or a capture, read its volumes, and keep it open for further reads; an open one stays as it is.

    With `kept`, which gets what a check takes up, no block is asked of the disk again.
    ``IMAGE:VOLUME`` requests only this volume of an image.
    """
    if isinstance(path, OpenImage) and path.request == request:
        with reporting(request["progress"]):
            yield path.opened
        return
    path, request = split_request(path, request)
    if is_capture(Path(path)):
        yield _notify_listeners(keep_chosen(load_capture(Path(path), request), request), request)
        return
    with open_images(path, request, keeps_all=kept is not None) as images:
        yield _notify_listeners(keep_chosen(read_images(images, request, kept), request), request)


def _notify_listeners(image: Opened, request: ReadOptions) -> Opened:
    """Call the damage and lock listeners; raise on a wrong password."""
    refuse_wrong_secret(image.about.name, image.layouts, request)
    locked = how_to_open(image.layouts)
    if locked and request["on_locked"] is not None:
        request["on_locked"](f"{image.about.name}: {locked}")
    return report_damage(image, request)


def split_request(path: str | os.PathLike[str], request: ReadOptions) -> tuple[str, ReadOptions]:
    """Treat `IMAGE:VOLUME` as a request for that volume."""
    image, volume = inputs.split_volume(path)
    if volume is None:
        return image, request
    if request["volume"] not in (None, volume):
        raise UsageError(f"{os.fspath(path)}: names the volume {volume!r}, and {request['volume']!r} is requested too")
    return image, {**request, "volume": volume}


def report_damage(image: Opened, request: ReadOptions) -> Opened:
    """Call the damage listener if a part of an image could not be read."""
    tell = request["on_damage"]
    if tell is None:
        return image
    outside = sum(item.level == "error" for item in image.findings)
    coverage = coverage_of(image.layouts, outside)
    is_cut = any(item.code == CUT_OFF for item in image.findings)
    is_cut |= any(CUT_OFF.encode() in layout.columns("findings").texts("code").raw() for layout in image.layouts)
    if coverage != 1 or is_cut:
        tell(image.about.name, coverage, outside + sum(layout.num_errors for layout in image.layouts))
    return image


def read_images(images: tuple[Source, ...], request: ReadOptions, kept: dict[int, Any] | None = None) -> Opened:
    """Find the volumes of open images and read them."""
    return around_failures(images, lambda: _read_once(images, request, kept))


def _read_once(images: tuple[Source, ...], request: ReadOptions, kept: dict[int, Any] | None) -> Opened:
    """Read the volumes, with all that is known to fail; what a reading kept that knew less is let go."""
    if kept is not None:
        kept.clear()
    images, search = _find_volumes(images, request)
    source = images[0]
    try:
        wanted, lost = _choose_volumes(source, search, request)
        if request["volume_at"] is not None:  # the inferred start is left out if the caller named another one
            starts = [(item.image_offset, item.image_offset + START_BYTES) for item in wanted]
            about_wanted = tuple(
                item
                for item in search.findings
                if item.code not in _OF_A_START
                or any(start <= (item.image_offset or 0) < stop for start, stop in starts)
            )
            search = replace(search, findings=about_wanted)
        try:
            with phase(f"reading {source.name}", count=lambda: source.counter.bytes):
                layouts, damage = _read_all(images, wanted, request, kept)
        except FormatError as error:
            raise lost or error from error
    except (ImageError, FormatError) as error:
        raise explain_refusal(error, source.name, container_findings(images)) from error
    known = read_options()
    state = next((name for name in own_options(request) if known[name][0].is_state), None)
    if state is not None and not any(filesystem_of(layout).traits.label in known[state][1] for layout in layouts):
        able = " or ".join(known[state][1])
        raise UsageError(f"{source.name}: holds no {able} volume, whose {state} was asked for")
    # Before the reads are counted, of which these are some.
    damage += _report_unpartitioned(source, search, layouts)
    about = ImageFacts(
        name=source.name,
        size_bytes=source.size_bytes,
        sector_size_bytes=source.sector_size_bytes,
        partition_maps=search.schemes,
        other_contents=tuple(" > ".join(item.stack) for item in search.candidates if not item.is_readable),
        reads=source.counter.reads,
        read_bytes=source.counter.bytes,
        hole_bytes=source.counter.hole_bytes,
        partitions=tuple(_partition_facts(search, layouts)),
    )
    spaces = {candidate.image_offset: candidate.size_bytes for candidate in wanted}
    sets = [(found, filesystem(found.kind)) for found in wanted] if len(images) > 1 else []
    # Whether the image that was named is the one whose device tables call the second.
    if any(
        chosen.is_second(make_volume_request(VolumeRequest(source, found.image_offset), images, chosen, request))
        for found, chosen in sets
        if chosen.traits.takes_second
    ):
        images, spaces = images[::-1], {}
        # What was read counts from the start of the other image.
        (kept if kept is not None else {}).clear()
    findings = (*container_findings(images), *search.findings, *damage)
    return Opened(about, tuple(layouts), findings, images, spaces)


def _find_volumes(images: tuple[Source, ...], request: ReadOptions) -> tuple[tuple[Source, ...], VolumeSearch]:
    """Find the volumes; where a password opens what FileVault 2 encrypts, on images that have it in the clear."""
    depth: Depth = "everywhere" if request["sweep"] else "usual"
    search = find_volumes(images[0], depth=depth)
    password = request["password"]
    if not isinstance(password, str):
        return images, search
    plain = unlock_volumes(images[0], search.candidates, password, partition=request["partition"])
    if plain is None:
        return images, search
    return (plain, *images[1:]), find_volumes(plain, depth=depth)


def _report_unpartitioned(disk: Source, search: VolumeSearch, layouts: Sequence[VolumeLayout]) -> Iterator[Finding]:
    """Report volumes that no partition holds any more, if structures confirm them; they are not read for this."""
    read = [(layout.facts.image_offset, layout.facts.size_bytes) for layout in layouts]
    for found in find_volumes_in_gaps(disk, search, read):
        size = confirm_volume_size(disk, found)
        # A volume larger than its gap predates the current partition map, unless the image ends within it.
        is_last = found.image_offset + found.size_bytes == disk.size_bytes
        if size is not None and (size <= found.size_bytes or is_last):
            option = f"--volume-at {found.image_offset} reads it"
            message = f"{found.label} of {format_bytes(size)} begins here, where no partition does; {option}"
            yield Finding("volume-unpartitioned", "info", "partition map", found.image_offset, message)


START_BYTES: Final = 4096
"""Where findings about the start of a volume are: its block 0 or its header."""
_OF_A_START: Final = ("volume-header-lost", "start-uncertain", "volume-unpartitioned")


def container_findings(images: tuple[Source, ...]) -> tuple[Finding, ...]:
    """List what is wrong with the files that hold the disks of a set."""
    return tuple(replace(item, device=device) for device, source in enumerate(images) for item in source.findings)


def _choose_volumes(
    source: Source, search: VolumeSearch, request: ReadOptions
) -> tuple[tuple[VolumeCandidate, ...], LayoutscopeError | None]:
    """Choose among the volumes.

    With a sweep, what is not recognised may still be one of any kind; the error that it is otherwise is given too.
    """
    partition, volume_at = request["partition"], request["volume_at"]
    try:
        return choose(source, search, partition=partition, volume_at=volume_at), None
    except (ImageError, UsageError) as error:
        places = [found for found in search.candidates if partition in (None, found.partition)]
        if volume_at is not None:
            left, stack = source.size_bytes - volume_at, (f"byte {volume_at}", "unknown")
            places = (
                [VolumeCandidate("unknown", "unknown", volume_at, left, stack)] if volume_at >= 0 and left > 0 else []
            )
        if not request["sweep"] or not places:
            raise
        tried = tuple(
            replace(found, kind=item.name, label=item.traits.label, stack=(*found.stack[:-1], item.traits.label))
            for found in places
            for item in filesystems()
        )
        return tried, error


def keep_chosen(image: Opened, request: ReadOptions) -> Opened:
    """Keep the requested volume, and leave names out on request."""
    layouts = image.layouts
    if request["volume"] is not None:
        volumes = [layout for layout in layouts if layout.facts.volume is not None]
        layouts = (volumes[select_name([layout.facts.name for layout in volumes], str(request["volume"]))],)
    if not request["names"]:
        layouts = tuple(without_names(layout) for layout in layouts)
        unnamed = tuple(replace(item, name="") for item in image.about.partitions)
        image = replace(image, about=replace(image.about, partitions=unnamed))
    return replace(image, layouts=layouts)


def _read_all(
    images: tuple[Source, ...], wanted: tuple[VolumeCandidate, ...], request: ReadOptions, kept: dict[int, Any] | None
) -> tuple[list[VolumeLayout], list[Finding]]:
    """Read every candidate; one that fails is a finding as long as another one can be read."""
    layouts: list[VolumeLayout] = []
    failures: dict[int, FormatError] = {}
    cut: dict[int | None, Finding] = {}
    read: set[int] = set()
    space = SharedSpace(images[0].size_bytes)
    for candidate in (item for item in wanted if item.image_offset not in read):
        if not space.may_read(candidate):
            continue
        asked: ReadOptions = request if space.may_sweep(candidate) else {**request, "sweep": False}
        before = images[0].counter.bytes
        found: list[VolumeLayout] = []
        try:
            # A map whose type promises a volume where nothing begins like one may name the wrong start.
            is_named_by_map = candidate.partition is not None and not candidate.is_promised
            named = is_named_by_map or request["volume_at"] is not None
            where = images[0], candidate.image_offset, candidate.size_bytes, candidate.stack
            place = VolumeRequest(*where, is_start_named=named, kept=kept)
            place = replace(place, first_volume=sum(layout.facts.volume is not None for layout in layouts) + 1)
            chosen = filesystem(candidate.kind)
            found = chosen.read(make_volume_request(place, images, chosen, asked))
            read.add(candidate.image_offset)
            layouts += found
            cut |= {item.image_offset: item for layout in found for item in _cut_off(images[0], layout, candidate)}
        except FormatError as error:
            failures.setdefault(candidate.image_offset, error)
        read_bytes = images[0].counter.bytes - before
        is_left_out = request["sweep"] and not asked["sweep"]
        space.add(candidate, found, read_bytes, is_swept=asked["sweep"], is_left_out=is_left_out)
    left = [error for where, error in failures.items() if where not in read]
    if left and not layouts:
        raise left[0]
    return layouts, [*cut.values(), *space.findings, *(from_error(error) for error in left)]


def _cut_off(source: Source, layout: VolumeLayout, candidate: VolumeCandidate) -> list[Finding]:
    """Say that an image or a partition ends before its volume does; a Fusion container spans two images."""
    facts, traits = layout.facts, filesystem_of(layout).traits
    if "fusion" in facts.features or (traits.has_containers and facts.volume is not None):
        return []
    end, last = facts.image_offset + facts.size_bytes, facts.block_size_bytes - 1
    tolerated = 0
    if traits.may_end_within_block:
        free = layout.columns("free")
        start, length, final = free["image_offset"].data, free["length_bytes"].data, end - last - 1
        tolerated = last if ((start <= final) & (final < start + length)).any() else 0
    if end - source.size_bytes > tolerated:
        message = "the image ends before the volume does: it is incomplete"
        sides = f"{end:,} bytes", f"{source.size_bytes:,}"
        return [Finding("truncated", "warning", "image", facts.image_offset, message, *sides)]
    stop = candidate.image_offset + candidate.size_bytes
    if candidate.partition is not None and end - stop > tolerated:
        message = f"partition {candidate.partition} ends before its volume does"
        sides = f"an end at {end:,}", f"{stop:,}"
        return [Finding("partition-content", "warning", "partition", facts.image_offset, message, *sides)]
    return []


def make_volume_request(
    place: VolumeRequest, images: tuple[Source, ...], chosen: FileSystem, request: ReadOptions
) -> VolumeRequest:
    """Return how a place is to be read."""
    given: Mapping[str, Any] = request
    second = None
    if chosen.traits.takes_second and len(images) > 1:
        parts = [candidate for candidate in find_volumes(images[1]).readable if candidate.kind == chosen.name]
        second = images[1], parts[0].image_offset if parts else 0
    return replace(
        place,
        sweep=request["sweep"],
        second=second,
        options={option.name: given.get(option.name, option.default) for option in chosen.traits.options},
    )


def _partition_facts(search: VolumeSearch, layouts: Sequence[VolumeLayout]) -> Iterator[PartitionFacts]:
    """Describe what is in each partition, as far as it was read."""
    for item in sorted(filter(may_hold_volume, search.partitions), key=lambda item: item.image_offset):
        inside = [found for found in search.candidates if _is_in(item, found.image_offset) and not found.is_promised]
        read = [layout.facts for layout in layouts if _is_in(item, layout.facts.image_offset)]
        details = [facts.details for facts in read if facts.volume is not None]
        roles = [str(each["role"]) for each in details if each.get("role", "none") != "none"]
        is_encrypted = any(each.get("encryption", "none") != "none" for each in details) if details else None
        if any(FILEVAULT in found.stack or found.kind == "filevault" for found in inside):
            is_encrypted = True
        content = ""
        if (found := next((each for each in inside if each.kind != "unknown"), None)) is not None:
            content = f"{found.label}: {found.about}" if found.about else found.label
            if CORE_STORAGE in found.stack or FILEVAULT in found.stack:
                content = " > ".join(found.stack[2:])  # with the layers around it
        yield PartitionFacts(
            item.scheme,
            item.number,
            item.type_name,
            item.name,
            item.image_offset,
            item.size_bytes,
            content,
            next((facts.size_bytes for facts in read), None),
            tuple(roles),
            is_encrypted,
        )


def _is_in(partition: Partition, image_offset: int) -> bool:
    return partition.image_offset <= image_offset < partition.image_offset + partition.size_bytes


def views_of(image: Opened, request: ReadOptions) -> ViewOf:
    """Return what gives the bytes of a volume; each volume is unlocked once."""
    known: dict[tuple[int, int | None], View] = {}

    def view(layout: VolumeLayout) -> View:
        key = (layout.facts.image_offset, layout.facts.volume)
        if key not in known:
            chosen, where = filesystem_of(layout), layout.facts.image_offset
            place = VolumeRequest(image.bytes()[0], where, image.spaces.get(where))
            known[key] = chosen.view(make_volume_request(place, image.bytes(), chosen, request), layout)
        return known[key]

    return view


def parts_of_node(layout: VolumeLayout, row: Row) -> list[Piece]:
    """List the places of a node's parts, in the node's order."""
    fragments = layout.columns("node_fragments")
    parts = fragments.take(fragments["node_row"].data == row["row"])
    found = [(part["image_offset"], part["length_bytes"]) for part in parts.rows()]
    return found or [(row["image_offset"], row["size_bytes"])]
