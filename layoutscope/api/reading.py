"""From a path to layouts: opening an image, finding its volumes, reading each by its own file system."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from layoutscope import inputs
from layoutscope.api.images import Opened, OpenImage
from layoutscope.api.keywords import takes
from layoutscope.api.naming import without_names
from layoutscope.errors import FormatError, ImageError, LayoutscopeError, UsageError
from layoutscope.filesystems.contract import VolumeRequest
from layoutscope.filesystems.registry import filesystem, filesystem_names, filesystem_of, filesystems, read_options
from layoutscope.findings import Finding, from_error
from layoutscope.image.opening import ImageSet, open_images
from layoutscope.ondisk.decoder import decoder_named
from layoutscope.options import ReadOptions, ReadRequest
from layoutscope.partition import VolumeCandidate, choose, find_volumes, select_name
from layoutscope.progress import phase, reporting
from layoutscope.results.locked import how_to_open, is_locked, refuse_wrong_secret
from layoutscope.results.scan import CUT_OFF, ImageFacts
from layoutscope.tables import coverage_of
from layoutscope.tables.capture import check_values, is_capture, read_capture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Unpack

    from layoutscope.filesystems.contract import FileSystem
    from layoutscope.image import Source
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.partition import VolumeSearch
    from layoutscope.tables.layout import VolumeLayout


IMAGE_ONLY: Final = ("partition", "volume_at", "ddrescue_map")
"""Options that choose among what only an image holds, besides those that single file systems have."""


@takes(ReadOptions)
def read_layouts(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> tuple[VolumeLayout, ...]:
    """Read the tables of the volumes on an image.

    Parameters
    ----------
    path : path
        The image.
    **options
        See :class:`ReadOptions`.

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
    with opened(path, request_of(options, path)) as image:
        return image.layouts


def request_of(options: ReadOptions, path: str | os.PathLike[str] | None = None) -> ReadRequest:
    """Sort options into those of every file system and those of single ones.

    Parameters
    ----------
    options : ReadOptions
        As the caller gave them.
    path : path, optional
        The image. How one that is open is read was said when it was opened.

    Raises
    ------
    TypeError
        If no file system has such an option, or the image is open already.
    """
    if isinstance(path, OpenImage):
        for name in options:
            raise TypeError(f"{path}: is open already; {name!r} is said when an image is opened")
        return path.request
    given, known = dict[str, Any](options), read_options()
    own = {name: given.pop(name) for name in known if name in given}
    second = next((value for name, value in own.items() if known[name][0].kind == "image"), None)
    return ReadRequest(**given, second=second, own=own)


def _own_options(request: ReadRequest) -> list[str]:
    """Name the options of single file systems that ask for something else than they do by default."""
    known = read_options()
    return [name for name, value in request.own.items() if value != known[name][0].default]


@contextmanager
def opened(path: str | os.PathLike[str], request: ReadRequest) -> Iterator[Opened]:
    """Open an image or a capture, read its volumes, and keep it open for further reads; an open one stays as it is.

    ``IMAGE:VOLUME`` is read as an image of which that volume alone was asked for.
    """
    if isinstance(path, OpenImage) and path.request == request:
        with reporting(request.progress):
            yield path.opened
        return
    path, request = one_volume(path, request)
    if is_capture(Path(path)):
        yield _known_to_all(with_chosen(load_capture(Path(path), request), request), request)
        return
    with open_images(path, request) as images:
        yield _known_to_all(with_chosen(read_images(images, request), request), request)


def _known_to_all(image: Opened, request: ReadRequest) -> Opened:
    """Say what is damaged and what is locked to whoever asked for that, and refuse a wrong password."""
    refuse_wrong_secret(image.about.name, image.layouts, request)
    locked = how_to_open(image.layouts)
    if locked and request.on_locked is not None:
        request.on_locked(f"{image.about.name}: {locked}")
    return told(image, request)


def one_volume(path: str | os.PathLike[str], request: ReadRequest) -> tuple[str, ReadRequest]:
    """Take the volume that an image's name ends in behind a colon for the one that is asked for.

    Raises
    ------
    UsageError
        If another one is asked for besides.
    """
    image, volume = inputs.split_volume(path)
    if volume is None:
        return image, request
    if request.volume not in (None, volume):
        raise UsageError(f"{os.fspath(path)}: names the volume {volume!r}, and {request.volume!r} is asked for besides")
    return image, replace(request, volume=volume)


def told(image: Opened, request: ReadRequest) -> Opened:
    """Say of an image what could not be read of it, to whoever asked for that."""
    tell = request.on_damage
    if tell is None:
        return image
    outside = sum(item.level == "error" for item in image.findings)
    coverage = coverage_of(image.layouts, outside)
    is_cut = any(item.code == CUT_OFF for item in image.findings)
    is_cut |= any(CUT_OFF.encode() in layout.columns("findings").texts("code").raw() for layout in image.layouts)
    if coverage != 1 or is_cut:
        tell(image.about.name, coverage, outside + sum(layout.num_errors for layout in image.layouts))
    return image


def read_images(images: ImageSet, request: ReadRequest) -> Opened:
    """Find the volumes of open images and read them.

    Raises
    ------
    LayoutscopeError
        If nothing on it can be read.
    """
    source = images.main
    search = find_volumes(source, decoder_named(request.decoder))
    wanted, lost = _wanted(source, search, request)
    try:
        with phase(f"reading {source.name}", count=lambda: source.counter.bytes):
            layouts, damage = _read_all(images, wanted, request)
    except FormatError as error:
        raise lost or error from error
    _check_states(source, layouts, request)
    about, findings = image_facts(source, search), (*search.findings, *damage)
    spaces = {candidate.image_offset: candidate.size_bytes for candidate in wanted}
    if _is_second_first(images, wanted, request):
        images, spaces = ImageSet(*images.devices[::-1]), {}
    return Opened(about, tuple(layouts), findings, images, spaces, search)


def _is_second_first(images: ImageSet, wanted: tuple[VolumeCandidate, ...], request: ReadRequest) -> bool:
    """Whether the image that was named is the one whose device tables call the second."""
    if images.second is None:
        return False
    sets = [(found, filesystem(found.kind)) for found in wanted]
    return any(
        chosen.is_second(with_options(VolumeRequest(images.main, found.image_offset), images, chosen, request))
        for found, chosen in sets
        if chosen.traits.takes_second
    )


def _check_states(source: Source, layouts: list[VolumeLayout], request: ReadRequest) -> None:
    """Refuse to show the newest state of volumes where another one was asked for that none of them can have."""
    known = read_options()
    asked = next((name for name in _own_options(request) if known[name][0].is_state), None)
    if asked is None:
        return
    able = known[asked][1]
    if not any(filesystem_of(layout).traits.label in able for layout in layouts):
        raise UsageError(f"{source.name}: holds no {' or '.join(able)} volume, whose {asked} was asked for")


def _wanted(
    source: Source, search: VolumeSearch, request: ReadRequest
) -> tuple[tuple[VolumeCandidate, ...], LayoutscopeError | None]:
    """Choose among the volumes.

    With a sweep, what is not recognised may still be one of any kind; the error that it is otherwise is given too.
    """
    partition, volume_at = request.partition, request.volume_at
    try:
        return choose(
            source, search, partition=partition, volume_at=volume_at, decoder=decoder_named(request.decoder)
        ), None
    except (ImageError, UsageError) as error:
        places = [found for found in search.candidates if partition in (None, found.partition)]
        if volume_at is not None:
            places = [_at(source, volume_at)] if 0 <= volume_at < source.size_bytes else []
        if not request.sweep or not places:
            raise
        tried = tuple(
            replace(found, kind=item.name, label=item.traits.label, stack=(*found.stack[:-1], item.traits.label))
            for found in places
            for item in filesystems()
        )
        return tried, error


def _at(source: Source, volume_at: int) -> VolumeCandidate:
    return VolumeCandidate(
        "unknown", "unknown", volume_at, source.size_bytes - volume_at, (f"byte {volume_at}", "unknown")
    )


def with_chosen(image: Opened, request: ReadRequest) -> Opened:
    """Keep the volume that was asked for, and leave names out where they are not wanted."""
    layouts = _selected(image.layouts, request.volume)
    if not request.names:
        layouts = tuple(without_names(layout) for layout in layouts)
    return replace(image, layouts=layouts)


def load_capture(path: Path, request: ReadRequest) -> Opened:
    """Open a capture.

    Raises
    ------
    UsageError
        If something is asked for that only an image has.
    ImageError
        If it is damaged or of another version.
    """
    layouts, manifest = read_capture(path)
    # What opens volumes may be told for many images at once; of a capture where all is open it has nothing to open.
    own, is_open = _own_options(request), not any(map(is_locked, layouts))
    own = [name for name in own if not (is_open and read_options()[name][0].kind == "secret")]
    asked = [name for name in IMAGE_ONLY if getattr(request, name) is not None] + own
    if asked:
        raise UsageError(f"{path}: is a capture; {asked[0].replace('_', '-')} needs the image itself")
    unknown = [layout.facts.filesystem for layout in layouts if layout.facts.filesystem not in filesystem_names()]
    if unknown:
        raise ImageError(f"{path}: is a capture of the file system {unknown[0]!r:.40}, which is not known here")
    try:
        about = _saved_facts(manifest["image"])
        findings = tuple(map(_saved_finding, manifest["findings"]))
        return Opened(replace(about, name=about.name or str(path)), layouts, findings, capture=str(path))
    except ValueError as error:
        raise ImageError(f"{path}: is a damaged capture: {error}") from error


def _saved_facts(saved: dict[str, Any]) -> ImageFacts:
    kinds: dict[str, type | tuple[type, ...]] = {
        **{item.name: int for item in fields(ImageFacts)},
        **dict.fromkeys(("name", "metadata_sha256"), str),
        **dict.fromkeys(("partition_maps", "other_contents"), list),
    }
    check_values("image", saved, kinds)
    words = {name: tuple(map(str, saved[name])) for name in ("partition_maps", "other_contents")}
    return ImageFacts(**{**saved, **words})


def _saved_finding(saved: dict[str, Any]) -> Finding:
    kinds: dict[str, type | tuple[type, ...]] = {item.name: str for item in fields(Finding)}
    kinds |= {"image_offset": (int, type(None)), "device": int}
    check_values("finding", saved, kinds)
    if saved["level"] not in ("info", "warning", "error"):
        raise ValueError("a finding has an unknown level")
    return Finding(**saved)


def _read_all(
    images: ImageSet, wanted: tuple[VolumeCandidate, ...], request: ReadRequest
) -> tuple[list[VolumeLayout], list[Finding]]:
    """Read every candidate; one that fails is a finding as long as another one can be read."""
    layouts: list[VolumeLayout] = []
    failures: dict[int, FormatError] = {}
    read: set[int] = set()
    for candidate in (item for item in wanted if item.image_offset not in read):
        try:
            layouts += _read_one(images, candidate, _num_volumes(layouts) + 1, request)
            read.add(candidate.image_offset)
        except FormatError as error:
            failures.setdefault(candidate.image_offset, error)
    left = [error for where, error in failures.items() if where not in read]
    if left and not layouts:
        raise left[0]
    cut = {finding.image_offset: finding for layout in layouts for finding in _cut_off(images.main, layout)}
    return layouts, [*cut.values(), *(from_error(error) for error in left)]


def _cut_off(source: Source, layout: VolumeLayout) -> list[Finding]:
    """Say that an image ends before its volume does; a Fusion container spans two images."""
    facts = layout.facts
    end = facts.image_offset + facts.size_bytes
    missing = end - source.size_bytes
    tolerated = facts.block_size_bytes - 1 if filesystem_of(layout).traits.may_end_within_block else 0
    if missing <= tolerated or "fusion" in facts.features:
        return []
    expected, found = f"{end:,} bytes", f"{source.size_bytes:,}"
    message = "the image ends before the volume does: it is incomplete"
    return [Finding("truncated", "warning", "image", facts.image_offset, message, expected, found)]


def _read_one(images: ImageSet, candidate: VolumeCandidate, number: int, request: ReadRequest) -> list[VolumeLayout]:
    chosen = filesystem(candidate.kind)
    place = VolumeRequest(images.main, candidate.image_offset, candidate.size_bytes, candidate.stack, number)
    return chosen.read(with_options(place, images, chosen, request))


def with_options(place: VolumeRequest, images: ImageSet, chosen: FileSystem, request: ReadRequest) -> VolumeRequest:
    """Say of a place how it is to be read.

    Parameters
    ----------
    place : VolumeRequest
        What is read.
    images : ImageSet
        Of which.
    chosen : FileSystem
        Its file system, which gets the options that it understands.
    request : ReadRequest
        How images are read.
    """
    decoder = decoder_named(request.decoder)
    return replace(
        place,
        decoder=request.decoder,
        sweep=request.sweep,
        second=second_part(images, chosen, decoder) if chosen.traits.takes_second else None,
        options={option.name: request.own.get(option.name, option.default) for option in chosen.traits.options},
    )


def second_part(images: ImageSet, chosen: FileSystem, decoder: Decoder) -> tuple[Source, int] | None:
    """Find the part of a container on the other image of a set.

    Parameters
    ----------
    images : ImageSet
        Both.
    chosen : FileSystem
        Whose container it is.
    decoder : Decoder
        As for :func:`layoutscope.partition.find_volumes`.
    """
    if images.second is None:
        return None
    found = find_volumes(images.second, decoder)
    parts = [candidate for candidate in found.readable if candidate.kind == chosen.name]
    return images.second, parts[0].image_offset if parts else 0


def _num_volumes(layouts: list[VolumeLayout]) -> int:
    """Count volumes; a container's own layout is none."""
    return sum(layout.facts.volume is not None for layout in layouts)


def _selected(layouts: tuple[VolumeLayout, ...], wanted: str | None) -> tuple[VolumeLayout, ...]:
    if wanted is None:
        return layouts
    volumes = [layout for layout in layouts if layout.facts.volume is not None]
    return (volumes[select_name([layout.facts.name for layout in volumes], wanted)],)


def image_facts(source: Source, search: VolumeSearch) -> ImageFacts:
    """Sum up an image and what was read of it."""
    return ImageFacts(
        name=source.name,
        size_bytes=source.size_bytes,
        sector_size_bytes=source.sector_size_bytes,
        partition_maps=search.schemes,
        other_contents=tuple(" > ".join(item.stack) for item in search.candidates if not item.is_readable),
        reads=source.counter.reads,
        read_bytes=source.counter.bytes,
        hole_bytes=source.counter.hole_bytes,
    )
