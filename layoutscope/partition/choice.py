"""Choice among the volumes of an image. Its errors name volumes that cannot be read, even of unknown systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import ImageError, UnsupportedError, UsageError, did_you_mean
from layoutscope.filesystems.registry import filesystems, labels, variants
from layoutscope.image.source import Window
from layoutscope.partition.search import EVERYTHING, PLACE_BYTES, is_doubtful, recognise, to_candidate
from layoutscope.units import format_bytes, format_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.image.source import Source
    from layoutscope.partition.maps import VolumeCandidate, VolumeSearch

GAP: Final = "and what follows could not be read, where one may begin"
_CUT: Final = ("partition-truncated", "partition-outside")
_REFUSED: Final = {
    "filevault": (
        "file-vault",
        (
            "open it with its password or recovery key (--password - asks for it), or unlock it with diskutil "
            "coreStorage unlockVolume on a Mac, or with libfvde's fvdemount, then read the logical volume's own device"
        ),
    ),
    "appleraid": (
        "apple-raid",
        "attach all members of the set to a Mac, and image the set's own device (diskutil appleRAID list names it)",
    ),
    "corestorage": (
        "core-storage",
        "attach it to a Mac of macOS 10.15 or older, then read the logical volume's own device",
    ),
}
"""Code and advice for layers around volumes that are not read."""


def choose(
    source: Source,
    search: VolumeSearch,
    *,
    partition: int | None = None,
    # where a volume starts, in bytes from the start of the image, whether a map names it or not
    volume_at: int | None = None,
) -> tuple[VolumeCandidate, ...]:
    """Return the requested volumes, by default all readable ones."""
    if volume_at is not None:
        return (_open_at(source, search, volume_at),)
    candidates = search.candidates
    if partition is not None:
        candidates = tuple(candidate for candidate in candidates if candidate.partition == partition)
        if not candidates:
            numbers = [str(candidate.partition) for candidate in search.candidates if candidate.partition is not None]
            known = f"there are partitions {', '.join(numbers)}" if numbers else "the image has no partition map"
            raise UsageError(f"{source.name}: no volume in partition {partition}; {known}")
    readable = tuple(candidate for candidate in candidates if candidate.is_readable)
    if not readable:
        raise refusal(source.name, candidates, search)
    return readable


def _open_at(source: Source, search: VolumeSearch, volume_at: int) -> VolumeCandidate:
    known = [candidate for candidate in search.readable if candidate.image_offset == volume_at]
    if known:
        return known[0]
    if not 0 <= volume_at < source.size_bytes:
        raise UsageError(f"{source.name}: byte {volume_at:,} is outside the image of {source.size_bytes:,} bytes")
    content = recognise(source, volume_at, source.size_bytes - volume_at)
    start = volume_at + content.volume_offset
    opened = to_candidate(content._replace(volume_offset=start), f"byte {volume_at}", *content.layers)
    if content.kind == "unknown":
        raise UsageError(f"{source.name}: no volume starts at byte {volume_at:,}")
    if not opened.is_readable:
        raise refusal(source.name, (opened,), search)
    # The header may belong to a volume that is confirmed to start elsewhere.
    data = np.frombuffer(source.read(start, min(PLACE_BYTES, source.size_bytes - start)), np.uint8)
    disk = Window(source, 0, source.size_bytes)
    owners = [owner for item in filesystems() if item.name == content.kind for owner in item.find_in(disk, data, start)]
    owner = next((owner for owner in owners if not is_doubtful(owner)), None)
    if owner is not None and not any(owner.volume_offset == start for owner in owners):
        raise UsageError(
            f"{source.name}: no volume starts at byte {volume_at:,}: the header at byte {start:,} is a copy, its "
            f"{owner.label} starts at byte {owner.volume_offset:,}"
        )
    return opened


def refusal(name: str, candidates: Sequence[VolumeCandidate], search: VolumeSearch) -> ImageError | UnsupportedError:
    """Explain in one line why an image cannot be read."""
    recognised = [candidate for candidate in candidates if candidate.kind != "unknown"]
    if not recognised:
        # The image may end before the partitions of its map.
        cut = (item for item in search.findings if item.code in _CUT)
        reason = next((f"{item.structure} at byte {item.image_offset:,}: {item.message}: " for item in cut), "")
        stacks = [" > ".join(candidate.stack) for candidate in candidates if candidate.partition is not None]
        listed = f" ({format_list(stacks, '; ')})" if stacks else ""
        areas = (item for item in search.findings if item.code == "unread-area")
        unread = next((f"; byte {item.image_offset:,} {GAP}" for item in areas), "")
        message = f"{reason}{name}: no {' or '.join(labels())} volume found{listed}{unread}{_describe_options(search)}"
        return ImageError(message)
    kinds = {candidate.kind for candidate in recognised}
    contents = [
        f"{' > '.join(item.stack)} ({format_bytes(item.size_bytes)}){f': {item.about}' if item.about else ''}"
        for item in recognised
    ]
    message = f"{name}: holds {format_list(contents, '; ')}, which is not read"
    refused = _REFUSED | {kind: entry for item in filesystems() for kind, entry in item.traits.relatives.items()}
    *others, last = variants()
    default = "foreign-file-system", f"only {', '.join(others)} and {last} are"
    code, advice = next((entry for kind, entry in refused.items() if kind in kinds), default)
    return UnsupportedError(message, code=code, advice=advice)


def _describe_options(search: VolumeSearch) -> str:
    """Describe the searched areas, and the options that find more."""
    ways = "--volume-at BYTES reads a volume that begins at a byte"
    if search.searched == EVERYTHING:
        return f"; {EVERYTHING} was searched. {ways}, and --sweep looks for what is left of one that lost its headers"
    before = f"; {search.searched} were searched. " if search.searched else ". "
    return f"{before}{ways}, and --sweep searches {EVERYTHING}"


def select_name(names: Sequence[str], requested: str) -> int:
    """Find a volume by name or by number."""
    for matches in (
        [index for index, name in enumerate(names) if name == requested],
        [index for index, name in enumerate(names) if name.casefold() == requested.casefold()],
        [int(requested) - 1] if requested.isdecimal() and 0 < int(requested) <= len(names) else [],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UsageError(f"{len(matches)} volumes are named {requested!r}. Choose by number, 1 to {len(names)}")
    listed = format_list([f"{number} {name!r}" for number, name in enumerate(names, 1)])
    raise UsageError(f"no volume {requested!r}{did_you_mean(requested, names)}. Choose from: {listed or 'none'}")
