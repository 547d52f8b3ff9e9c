"""Finding all volumes of an image, through whatever partition maps it has.

Hybrid disks carry several maps over the same partitions; what starts at the same byte counts once, under the first of
GPT, APM and MBR that names it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from layoutscope.arrays import intervals
from layoutscope.filesystems.recognition import Content
from layoutscope.filesystems.registry import filesystem, filesystem_names
from layoutscope.findings import Finding
from layoutscope.frozen import frozen
from layoutscope.image.source import Window
from layoutscope.ondisk.decoder import BULK
from layoutscope.partition import apm, gpt, mbr
from layoutscope.partition.appleraid import member_content
from layoutscope.partition.probe import recognise
from layoutscope.partition.tables import Partition, PartitionTable, VolumeCandidate, VolumeSearch
from layoutscope.partition.unmapped import found_in, is_doubtful, missing_entry, search_unmapped, stretches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.filesystems.recognition import MapRegion
    from layoutscope.image.source import Source
    from layoutscope.ondisk.decoder import Decoder

Depth = Literal["maps", "usual", "everywhere"]

_MBR_SECTOR_SIZES: Final = (512, 4096)
_RARE_SECTOR_SIZES: Final = (2048, 1024)
"""Units of boot records that are tried where the usual ones lead nowhere: of optical drives, and of old enclosures."""
MOST_GAPS: Final = 64
_STARTS: Final = (1, 4096, 1024**2)
"""Bytes that partitions are aligned to: behind the one before, at a whole physical sector, or at a whole MiB."""
_NEAR_BYTES: Final = 1024**2
"""Of a gap, searched sector by sector."""
_APPLE_GAP: Final = 128 * 1024**2
"""What Disk Utility left free behind a partition (Technical Note TN2166)."""


@frozen
class _Probed:
    """A map, with the content of each of its partitions."""

    table: PartitionTable
    contents: tuple[tuple[Partition, Content], ...]

    @property
    def num_recognised(self) -> tuple[int, int]:
        """How many partitions begin with something whole, and how many with whatever is known."""
        known = [content for _, content in self.contents if content.kind != "unknown"]
        return sum(not content.findings for content in known), len(known)

    @property
    def has_readable(self) -> bool:
        return any(content.kind in filesystem_names() for _, content in self.contents)


def find_volumes(source: Source, decoder: Decoder = BULK, *, depth: Depth = "usual") -> VolumeSearch:
    """Find all volumes of an image."""
    maps = _maps(source, decoder)
    bare = recognise(source, 0, source.size_bytes, decoder, thorough=False)
    member = None if maps else _member_content(source, 0, source.size_bytes, decoder)
    if member is not None:
        return _bare(member, maps)
    is_bare = bare.kind in filesystem_names() and not any(found.has_readable for found in maps)
    if is_bare:
        return _bare(bare, maps)
    if not any(found.contents for found in maps) and bare.kind == "unknown":
        # Only a protective record may be left of a disk whose first sectors were overwritten.
        lost = gpt.read_backup_gpt(source, decoder)
        maps += [_probed(source, lost, decoder)] if lost is not None else []
    if not maps:
        # With a map, copies of headers near its start would be left over from before the disk was divided.
        return _without_map(source, recognise(source, 0, source.size_bytes, decoder), depth)
    found = _mapped(source, maps)
    if any(item.has_readable for item in maps):
        return _with_gaps(source, found) if depth == "everywhere" else found
    known = [item for each in maps for item, content in each.contents if content.kind != "unknown"]
    return _with_unmapped(source, found, known, depth, has_map=True)


def _without_map(source: Source, content: Content, depth: Depth) -> VolumeSearch:
    """Find the volumes of an image without a map: one that its ends tell of, and what is beside it."""
    found = _bare(content, [])
    if not found.readable:
        known = found.candidates if content.kind != "unknown" else ()
        return _with_unmapped(source, found, known, depth, has_map=False)
    if content.volume_offset:
        found = replace(found, findings=(*found.findings, missing_entry(source, content, "GPT", has_map=False)))
    if not is_doubtful(content):
        return _with_unmapped(source, found, found.candidates, depth, has_map=False)
    better = _with_unmapped(source, _bare(Content("unknown", "unknown", 0, 0), []), (), depth, has_map=False)
    return better if better.readable else found


def _with_unmapped(
    source: Source,
    found: VolumeSearch,
    known: Sequence[Partition | VolumeCandidate],
    depth: Depth,
    *,
    has_map: bool,
) -> VolumeSearch:
    """Add the volumes that a search brings out beside what is known by its content."""
    taken = stretches((item.image_offset, item.size_bytes) for item in known)
    if depth == "maps" or intervals.total(taken) >= source.size_bytes:
        return found
    searched = search_unmapped(source, taken, whole=depth == "everywhere")
    contents = [item for item in searched.contents if not (is_doubtful(item) and known)]
    candidates = [_named_by_start(content) for content in contents]
    scheme = next(iter(found.schemes), "GPT")
    findings = [
        finding
        for content in contents
        for finding in (*content.findings, missing_entry(source, content, scheme, has_map=has_map))
    ]
    # A stretch without a map in which volumes were found is no content of its own.
    left = tuple(item for item in found.candidates if has_map or not candidates or item.kind != "unknown")
    regions = [*found.regions, *(region for content in contents for region in content.regions)]
    return VolumeSearch(
        (*left, *candidates),
        found.partitions,
        tuple(sorted(regions, key=lambda region: region.image_offset)),
        (*found.findings, *findings),
        found.schemes,
        searched.words,
    )


def _with_gaps(source: Source, found: VolumeSearch) -> VolumeSearch:
    """Add the volumes that lie in all that no partition takes up; what reaches into one was there before it."""
    spaces = [item for item in found.partitions if may_hold_volume(item)]
    added = _with_unmapped(source, found, spaces, "everywhere", has_map=True)
    taken = stretches((item.image_offset, item.size_bytes) for item in spaces)
    stale = {
        item.image_offset
        for item in added.candidates[len(found.candidates) :]
        if len(intervals.intersect(taken, stretches([(item.image_offset, item.size_bytes)])))
    }
    return replace(
        added,
        candidates=tuple(item for item in added.candidates if item.image_offset not in stale),
        findings=tuple(item for item in added.findings if item.image_offset not in stale),
    )


def _named_by_start(content: Content) -> VolumeCandidate:
    """Name a volume that no map names by where it starts."""
    stack = (f"byte {content.volume_offset}", *(layer for layer in content.layers if not layer.startswith("byte ")))
    return VolumeCandidate(
        content.kind,
        content.label,
        content.volume_offset,
        content.size_bytes,
        (*stack, content.label),
        name=content.name,
        about=content.about,
    )


def _maps(source: Source, decoder: Decoder) -> list[_Probed]:
    """Read every map that is there."""
    sizes = sorted(_MBR_SECTOR_SIZES, key=lambda size: size != source.sector_size_bytes)
    schemes = (
        [gpt.read_gpt(source, decoder)],
        [table for size in apm.block_sizes(source) for table in apm.read_apm(source, size)],
        [mbr.read_mbr(source, size) for size in sizes],
    )
    found = [[_probed(source, table, decoder) for table in tables if table is not None] for tables in schemes]
    if found[-1] and not any(item.num_recognised[0] for tables in found for item in tables):
        rare = (mbr.read_mbr(source, size) for size in _RARE_SECTOR_SIZES)
        found[-1] += [_probed(source, table, decoder) for table in rare if table is not None]
    # Nothing tells the unit of an APM or MBR for certain: the right one makes sense of most partitions.
    return [max(tables, key=lambda item: item.num_recognised) for tables in found if tables]


def _probed(source: Source, table: PartitionTable, decoder: Decoder) -> _Probed:
    wanted = [partition for partition in table.partitions if may_hold_volume(partition)]
    contents = ((item, _content(source, item, decoder)) for item in wanted)
    return _Probed(table, tuple((item, _at_named_start(content)) for item, content in contents))


def _content(source: Source, partition: Partition, decoder: Decoder) -> Content:
    """Tell what lies in a partition."""
    place, size = partition.image_offset, partition.size_bytes
    is_member = partition.type_name.startswith(("Apple RAID", "Apple_RAID"))
    member = _member_content(source, place, size, decoder) if is_member else None
    return member or recognise(source, place, size, decoder)


def _member_content(source: Source, image_offset: int, size_bytes: int, decoder: Decoder) -> Content | None:
    """Tell what lies in a member of an AppleRAID set; None if the stretch is none."""
    return member_content(source, image_offset, size_bytes, lambda at, size: recognise(source, at, size, decoder))


def _at_named_start(content: Content) -> Content:
    """Drop doubts about where a volume starts if that is where its map has it, and nothing contradicts that."""
    if content.volume_offset:
        return content
    left = (item for item in content.findings if item.code != "start-uncertain" or item.expected)
    return content._replace(findings=tuple(left))


def may_hold_volume(partition: Partition) -> bool:
    """Whether an entry is about space for a volume: maps list themselves, drivers and what is free, too."""
    name = partition.type_name
    return not (
        name in apm.NO_VOLUME or name.startswith(("Apple_Driver", "Apple_FWDriver")) or name == "gpt_protective"
    )


def _bare(content: Content, maps: list[_Probed]) -> VolumeSearch:
    """Return a volume that fills the image; maps beside it are remains of an earlier use."""
    candidate = VolumeCandidate(
        content.kind,
        content.label,
        content.volume_offset,
        content.size_bytes,
        (*content.layers, content.label),
        name=content.name,
        about=content.about,
    )
    stale = [
        Finding(
            "stale-partition-map",
            "info",
            found.table.scheme,
            found.table.regions[0].image_offset,
            f"a volume fills the image; the {found.table.scheme} in it leads nowhere and is left aside",
        )
        for found in maps
        if found.table.partitions
    ]
    return VolumeSearch((candidate,), (), content.regions, (*content.findings, *stale), ())


def _mapped(source: Source, maps: list[_Probed]) -> VolumeSearch:
    candidates: dict[int, VolumeCandidate] = {}
    partitions: dict[tuple[int, int], Partition] = {}
    regions: list[MapRegion] = []
    findings: list[Finding] = []
    leads = False
    for found in maps:
        regions += found.table.regions
        told = [*found.table.findings, *_odd_extents(source, found.table)]
        for partition in found.table.partitions:
            if partition.type_name != "gpt_protective":
                partitions.setdefault((partition.image_offset, partition.size_bytes), partition)
        for partition, content in found.contents:
            candidate = _in_partition(replace(partition, declared="") if leads else partition, content)
            if candidates.setdefault(candidate.image_offset, candidate) is candidate:
                regions += content.regions
                told += [*content.findings, *_broken_promise(partition, content)]
        # A map beside one that leads to volumes may be out of step with it, as a hybrid MBR often is: nothing is lost.
        findings += [_beside(item) if leads and item.level == "error" else item for item in told]
        leads = leads or found.has_readable
    schemes = tuple(dict.fromkeys(partition.scheme for partition in partitions.values()))
    regions.sort(key=lambda region: region.image_offset)
    return VolumeSearch(
        tuple(candidates.values()), tuple(partitions.values()), tuple(regions), tuple(findings), schemes
    )


def _beside(finding: Finding) -> Finding:
    """Tell of what is wrong in a map that is not needed."""
    message = f"{finding.message.removesuffix(': the image is cut off')}; another map leads to the volumes"
    return replace(finding, level="warning", message=message)


def _in_partition(partition: Partition, content: Content) -> VolumeCandidate:
    """Name the volume of a partition; one that its type promises is tried even if nothing is recognised."""
    kind, label = content.kind, content.label
    if kind == "unknown" and partition.declared:
        kind = partition.declared
        label = filesystem(kind).traits.label if kind in filesystem_names() else "CoreStorage"
    return VolumeCandidate(
        kind,
        label,
        partition.image_offset + content.volume_offset,
        content.size_bytes,
        (partition.scheme, f"partition {partition.number}", *content.layers, label),
        partition.number,
        partition.name or content.name,
        partition.type_name,
        content.about,
        is_promised=kind != content.kind,
    )


def _broken_promise(partition: Partition, content: Content) -> list[Finding]:
    """Report a partition that holds nothing like what its type promises, or something else."""
    if not partition.declared or _keeps(partition, content):
        return []
    is_empty = content.kind == "unknown"
    does = "does not start like it" if is_empty else f"holds {content.label}"
    message = f"is of type {partition.type_name}, but {does}"
    return [_odd("partition-content", partition, message, "error" if is_empty else "warning")]


def _keeps(partition: Partition, content: Content) -> bool:
    if partition.scheme == "MBR" and content.kind in filesystem_names():
        return True  # one type, AF, stands for both file systems of Apple
    if partition.declared not in filesystem_names():
        return content.kind in (partition.declared, "filevault")
    return content.kind in (partition.declared, *filesystem(partition.declared).traits.relatives)


def volumes_in_gaps(
    source: Source,
    search: VolumeSearch,
    # volumes that were read: offset and length in bytes. Behind a bare one is a gap, too.
    read: Sequence[tuple[int, int]] = (),
) -> Iterator[VolumeCandidate]:
    """Yield what begins like a volume where a partition may have begun that no map names any more.

    At most one for each gap, told by a few bytes at its start, so that reading it may fail.
    """
    for start, stop in islice(_gaps(source, search, read), MOST_GAPS):
        yield from islice(_in_gap(source, start, stop), 1)


def _in_gap(source: Source, start: int, stop: int) -> Iterator[VolumeCandidate]:
    """Yield what begins like a volume where partitions usually begin, then what is one near the start of a gap."""
    aligned = {-(-start // unit) * unit for unit in _STARTS}
    for place in sorted(each for each in {*aligned, *(each + _APPLE_GAP for each in aligned)} if each < stop):
        found = recognise(source, place, stop - place, BULK, thorough=False)
        if found.kind in filesystem_names() and not found.findings:
            stack, at = (*found.layers, found.label), place + found.volume_offset
            yield VolumeCandidate(found.kind, found.label, at, found.size_bytes, stack)
    for found in found_in(Window(source, 0, stop), start, min(_NEAR_BYTES, stop - start)):
        if not found.findings:
            yield replace(_named_by_start(found), size_bytes=stop - found.volume_offset)


def _gaps(source: Source, search: VolumeSearch, read: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each stretch that neither a partition, nor a map, nor a volume takes up."""
    taken = [(item.image_offset, item.size_bytes) for item in search.partitions if item.type_name not in apm.NO_VOLUME]
    # Of a volume without a partition, its own size counts once it was read, and else the space that it may have.
    starts = {start for start, _ in read}
    bare = [item for item in search.readable if item.partition is None and item.image_offset not in starts]
    taken += [(item.image_offset, item.size_bytes) for item in bare]
    taken += [*read, *((region.image_offset, region.length_bytes) for region in search.regions)]
    end = 0
    for start, length in sorted([*taken, (source.size_bytes, 0)]) if search.schemes or read else ():
        if start > end:
            yield end, min(start, source.size_bytes)
        end = max(end, start + length)


def _odd_extents(source: Source, table: PartitionTable) -> list[Finding]:
    """Report partitions that end past the image, or overlap the one before."""
    findings = []
    space = sorted(filter(_is_space, table.partitions), key=lambda item: (item.image_offset, item.number))
    end, owner = 0, 0
    for item in space:
        if item.image_offset < end:
            findings.append(_odd("partition-overlap", item, f"overlaps partition {owner}, which ends at {end:,}"))
        if item.image_offset + item.size_bytes > end:
            end, owner = item.image_offset + item.size_bytes, item.number
        if end > source.size_bytes and owner == item.number:
            message = f"ends at {end:,}, the image at {source.size_bytes:,}: the image is cut off"
            findings.append(_odd("partition-truncated", item, message, "error"))
    return findings


def _is_space(partition: Partition) -> bool:
    return partition.type_name not in ("gpt_protective", "Apple_partition_map", "ISO9660_data")


def _odd(code: str, item: Partition, message: str, level: Literal["warning", "error"] = "warning") -> Finding:
    return Finding(code, level, f"{item.scheme} partition", item.image_offset, f"partition {item.number} {message}")
