"""Finding all volumes of an image, through whatever partition maps it has.

Hybrid disks carry several maps over the same partitions; what starts at the same byte counts once, under the first of
GPT, APM and MBR that names it.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec.structs import replace

from layoutscope.errors import UnreadError
from layoutscope.filesystems.recognition import SECTOR_BYTES, Content, parse_at, stored_pieces
from layoutscope.filesystems.registry import filesystem, filesystem_names, filesystems
from layoutscope.findings import Finding, from_error
from layoutscope.image.source import Window
from layoutscope.partition.appleraid import member_content
from layoutscope.partition.corestorage import count_copies, read_physical_volume
from layoutscope.partition.maps import (
    NO_VOLUME,
    Partition,
    PartitionTable,
    VolumeCandidate,
    VolumeSearch,
    is_unnamed,
    list_apm_block_sizes,
    read_apm,
    read_backup_gpt,
    read_gpt,
    read_mbr,
)
from layoutscope.structs import arrays, grammar, records
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from layoutscope.filesystems.recognition import MapRegion
    from layoutscope.image.source import Source
    from layoutscope.structs.arrays import I64
    from layoutscope.structs.recordtypes import RecordType


MIB: Final = 1024**2
THOROUGH_BYTES: Final = 64 * MIB
"""From the start, searched sector by sector."""
LAST_STEP: Final = 512 * MIB
"""Up to here each whole MiB is looked at: partitions are aligned to it."""
AFTER_EFI: Final = 409_640
"""Sector where the first volume of most Macs starts, behind an EFI system partition of 200 MiB."""
PLACE_BYTES: Final = 4096
"""Read at a single place: both a superblock and a volume header are in it."""
END_BYTES: Final = MIB
EVERYTHING: Final = "every sector of the image"


def search_unmapped(
    source: Source,
    taken: I64,  # set of stretches that hold something else: offset and length in bytes
    *,
    whole: bool,
) -> tuple[tuple[Content, ...], str]:
    """Search a disk for volumes, where no map names anything.

    The volumes by their offset in the image, and what was searched, in words.
    """
    places, words = (
        (_list_unclaimed_stretches(source.size_bytes, taken), EVERYTHING)
        if whole
        else _list_searched_stretches(source.size_bytes)
    )
    disk = Window(source, 0, source.size_bytes)
    sure: list[Content] = []
    unsure: list[Content] = []
    for start, length in places:
        for content in find_volume_starts(
            disk,
            start,
            length,
            arrays.union([taken, stretches((item.volume_offset, item.size_bytes) for item in sure)]),
        ):
            if not any(_overlap(content, other) for other in sure):
                (unsure if is_doubtful(content) else sure).append(content)
    # What nothing confirms may be left over from anything; it is read where there is nothing better.
    found = sure or unsure[:1]
    return tuple(sorted(found, key=lambda item: item.volume_offset)), words


def is_doubtful(content: Content) -> bool:
    """Whether nothing confirms where a volume starts."""
    return any(item.code == "start-uncertain" for item in content.findings)


def _list_unclaimed_stretches(size_bytes: int, taken: I64) -> list[tuple[int, int]]:
    """List the stretches that hold nothing known, from the sector in which each begins."""
    left = arrays.subtract(np.array([[0, size_bytes]]), taken)
    starts = left[:, 0] // SECTOR_BYTES * SECTOR_BYTES
    return list(zip(starts.tolist(), (left.sum(axis=1) - starts).tolist(), strict=True))


def _list_searched_stretches(size_bytes: int) -> tuple[list[tuple[int, int]], str]:
    """List the stretches that are searched unless all of the disk is, and describe them."""
    steps = {AFTER_EFI * SECTOR_BYTES, *range(THOROUGH_BYTES, LAST_STEP + MIB, MIB)}
    single = [place for place in sorted(steps) if place < size_bytes - END_BYTES]
    places = [(0, THOROUGH_BYTES), *((place, PLACE_BYTES) for place in single)]
    if size_bytes <= THOROUGH_BYTES:
        return places, EVERYTHING
    # The last sectors belong to the map, in whose units the volume ends.
    end = max(THOROUGH_BYTES, size_bytes // SECTOR_BYTES * SECTOR_BYTES - END_BYTES)
    first, last = format_bytes(THOROUGH_BYTES), format_bytes(END_BYTES)
    likely = f", {len(single):,} likely places" if single else ""
    return [*places, (end, END_BYTES)], f"the first {first}{likely} and the last {last}"


def find_volume_starts(
    disk: Window,
    start: int,  # start, length: what is searched, sector by sector, in bytes
    length: int,
    taken: I64 | None = None,  # set of stretches that hold something else: offset and length in bytes
) -> Iterator[Content]:
    """Yield what begins like a volume in a stretch of a disk, outside of what is taken."""
    taken = stretches(()) if taken is None else taken
    for offset, data in stored_pieces(disk, start, start + length):
        for item in filesystems():
            for content in item.find_in(disk, data, offset):
                inside = arrays.intersect(taken, stretches([(content.volume_offset, 1)]))
                if not len(inside):
                    yield content


def stretches(places: Iterable[tuple[int, int]]) -> I64:
    """Make a set of stretches of offsets and lengths."""
    table = np.array([*places], np.int64).reshape(-1, 2)
    return arrays.runs_of(table[:, 0], table[:, 1])


def _overlap(first: Content, second: Content) -> bool:
    return (
        first.volume_offset < second.volume_offset + second.size_bytes
        and second.volume_offset < first.volume_offset + first.size_bytes
    )


def missing_entry(
    source: Source,
    content: Content,
    scheme: str,  # the kind of map that the disk has, or a `GPT` where it has none
    *,
    has_map: bool,
) -> Finding:
    """Report a volume that no map names, with the entry that would."""
    at, size = content.volume_offset, content.size_bytes
    entry = _entry(source, content, scheme)
    message = f"{content.label} of {format_bytes(size)} begins here, where no partition does; {entry}"
    return Finding("volume-unpartitioned", "warning" if has_map else "info", "partition map", at, message)


def _entry(source: Source, content: Content, scheme: str) -> str:
    if content.regions:
        return f"it is inside an {content.layers[-1]}, to which a map entry would lead"
    at, size = content.volume_offset, content.size_bytes
    unit = source.sector_size_bytes
    if at % unit or size % unit:
        unit = SECTOR_BYTES
    if at % unit:
        return "a map could not name it, as it does not begin with a sector"
    types = filesystem(content.kind).traits.partition_types
    known = {"GPT": [name.upper() for name in types.gpt], "APM": list(types.apm), "MBR": ["AF"]}[scheme]
    first, count = at // unit, -(-size // unit)
    return (
        f"the {scheme} entry for it: type {known[0]}, first sector {first:,}, {count:,} sectors of {unit:,} bytes "
        f"(last sector {first + count - 1:,})"
    )


CORE_STORAGE: Final = "CoreStorage"
FILEVAULT: Final = "FileVault 2 on CoreStorage"
"""The layers around a logical volume."""

START_BYTES: Final = 2048
"""The sectors by which most contents are recognised."""


def recognise(source: Source, image_offset: int, size_bytes: int, *, thorough: bool = True) -> Content:
    """Recognize by its content what is at a place."""
    stretch = Window(source, image_offset, size_bytes)
    content = _readable(stretch)
    if content is None or _is_left_in_physical_volume(stretch, content):
        content = _core_storage(stretch) or _foreign(stretch)
    if content is not None and not content.findings:
        return content  # nobody needs the data around its signature
    if content is None and thorough:
        content = _readable(stretch, thorough=True) or _core_storage(stretch, is_lost=True)
    content = content or Content("unknown", "unknown", 0, stretch.size_bytes)
    return content._replace(findings=_unread_start(stretch) + content.findings)


def _unread_start(stretch: Window) -> tuple[Finding, ...]:
    """Report that the sectors by which most contents are recognised were never read."""
    try:
        stretch.read(0, min(START_BYTES, stretch.size_bytes))
    except UnreadError as error:
        return (from_error(error, code="unread-area"),)
    return ()


def _readable(stretch: Window, *, thorough: bool = False) -> Content | None:
    """Ask every file system that is read."""
    return next(filter(None, (item.probe(stretch, thorough=thorough) for item in filesystems())), None)


def _is_left_in_physical_volume(stretch: Window, content: Content) -> bool:
    """Whether what starts like a volume was there before CoreStorage, whose header and its copies are all whole.

    The first sector of a physical volume does not overwrite the header of a volume that was there before. A volume that
    its other structures confirm is read, because the physical volume may be the older one.
    """
    return not content.volume_offset and count_copies(stretch) > 1 and _confirm(stretch, 0, stretch.size_bytes) is None


def _core_storage(stretch: Window, *, is_lost: bool = False) -> Content | None:
    """Find the volume in a physical volume of CoreStorage, which is there as in a partition; or name what is there.

    What is encrypted looks like nothing; where it was unlocked, the source gives it in the clear.
    """
    found = read_physical_volume(stretch, is_lost=is_lost)
    if found is None:
        return None
    placed = [(item, item.volume_offset) for item in found.logical_volumes if item.volume_offset is not None]
    for item, offset in placed:
        inside = Window(stretch, offset, item.size_bytes)
        content = _readable(inside) or _readable(inside, thorough=True)
        if content is not None:
            around = FILEVAULT if item.is_encrypted else CORE_STORAGE
            layers = (around, f"logical volume {item.name!r:.200}", *content.layers)
            return content._replace(
                volume_offset=offset + content.volume_offset,
                layers=layers,
                name=content.name or item.name,
                findings=(*found.findings, *content.findings),
            )
    kind = "filevault" if found.is_encrypted else "corestorage"
    return Content(kind, found.label, 0, stretch.size_bytes, about=found.about, findings=found.findings)


def _foreign(stretch: Window) -> Content | None:
    for record_type, volume_offset, name in _FOREIGN:
        found = parse_at(stretch, record_type, volume_offset)
        named = None if found is None else name(found)
        if named is not None:
            return Content(named[0], named[1], 0, stretch.size_bytes)
    return None


def _ext(superblock: grammar.Foreign.ExtSuperblock) -> tuple[str, str]:
    if superblock.has_extents:
        return "ext4", "ext4"
    return ("ext3", "ext3") if superblock.has_journal else ("ext2", "ext2")


_OEM_NAMES: Final = {b"NTFS": "NTFS", b"EXFAT": "exFAT", b"-FVE-FS-": "BitLocker", b"ReFS": "ReFS"}


def _boot_sector(sector: grammar.Foreign.BootSector) -> tuple[str, str] | None:
    """Name what the boot sector says; a master boot record says nothing here."""
    # FAT has the name of what formatted it there (MSDOS5.0), and its type in a text further on, which stands later in
    # FAT32, whose parameters are more.
    name = _OEM_NAMES.get(sector.oem_name.rstrip(b" \0"))
    if name is None and sector.fat32_type.startswith(b"FAT32"):
        name = "FAT32"
    if name is None and sector.fat_type.startswith(b"FAT"):
        name = sector.fat_type.rstrip(b" \0").decode("ascii", errors="replace")
    return None if name is None else (name.lower(), name)


_FOREIGN: Final[tuple[tuple[RecordType, int, Callable[[Any], tuple[str, str] | None]], ...]] = (
    (records.LUKS_HEADER, 0, lambda _: ("luks", "LUKS")),
    (records.XFS_SUPERBLOCK, 0, lambda _: ("xfs", "XFS")),
    (records.SQUASHFS_SUPERBLOCK, 0, lambda _: ("squashfs", "squashfs")),
    (records.LVM_LABEL, records.LVM_START.label.offset, lambda _: ("lvm", "Linux LVM")),
    # ext leaves the first 1,024 bytes alone: a boot sector of what was there before may have survived.
    (records.EXT_SUPERBLOCK, records.EXT_START.superblock.offset, _ext),
    (records.BOOT_SECTOR, 0, _boot_sector),
    (records.BTRFS_SUPERBLOCK, records.BTRFS_START.superblock.offset, lambda _: ("btrfs", "btrfs")),
    (records.ISO9660_DESCRIPTOR, records.ISO9660_START.descriptor.offset, lambda _: ("iso9660", "ISO 9660")),
)
"""How file systems are recognized that are not read: structure, its place, and from it kind and label, or None."""


Depth = Literal["maps", "usual", "everywhere"]

_MBR_SECTOR_SIZES: Final = (512, 4096)
_RARE_SECTOR_SIZES: Final = (2048, 1024)
"""Units of boot records that are tried where the usual ones lead nowhere: of optical drives, and of old enclosures."""
MAX_GAPS: Final = 64
_STARTS: Final = (1, 4096, 1024**2)
"""Bytes that partitions are aligned to: behind the one before, at a whole physical sector, or at a whole MiB."""
_NEAR_BYTES: Final = 1024**2
"""Largest gap that is searched sector by sector."""
_APPLE_GAP: Final = 128 * 1024**2
"""What Disk Utility left free behind a partition (Technical Note TN2166)."""


_Probed = tuple[PartitionTable, tuple[tuple[Partition, Content], ...]]
"""A map, with the content of each of its partitions."""


def _count_recognised(found: _Probed) -> tuple[int, int]:
    """Count partitions that begin with something whole, and those that begin with whatever is known."""
    known = [content for _, content in found[1] if content.kind != "unknown"]
    return sum(not content.findings for content in known), len(known)


def _has_readable(found: _Probed) -> bool:
    return any(content.kind in filesystem_names() for _, content in found[1])


def find_volumes(source: Source, *, depth: Depth = "usual") -> VolumeSearch:
    """Find all volumes of an image."""
    maps = _maps(source)
    bare = recognise(source, 0, source.size_bytes, thorough=False)
    member = None if maps else _member_content(source, 0, source.size_bytes)
    if member is not None:
        return _bare(member, maps)
    is_bare = bare.kind in filesystem_names() and not any(map(_has_readable, maps))
    if is_bare:
        return _bare(bare, maps)
    if not any(contents for _, contents in maps) and bare.kind == "unknown":
        # Only a protective record may be left of a disk whose first sectors were overwritten.
        lost = read_backup_gpt(source)
        maps += [_probe_partitions(source, lost)] if lost is not None else []
    if not maps:
        # With a map, copies of headers near its start would be left over from before the disk was divided.
        return _search_without_map(source, recognise(source, 0, source.size_bytes), depth)
    found = _search_by_maps(source, maps)
    if any(map(_has_readable, maps)):
        return _add_volumes_in_gaps(source, found) if depth == "everywhere" else found
    known = [item for _, contents in maps for item, content in contents if content.kind != "unknown"]
    return _add_unmapped(source, found, known, depth, has_map=True)


def _search_without_map(source: Source, content: Content, depth: Depth) -> VolumeSearch:
    """Find the volumes of an image without a map: one that its ends reveal, and others beside it."""
    found = _bare(content, [])
    if not found.readable:
        known = found.candidates if content.kind != "unknown" else ()
        return _add_unmapped(source, found, known, depth, has_map=False)
    if content.volume_offset:
        found = replace(found, findings=(*found.findings, missing_entry(source, content, "GPT", has_map=False)))
    if not is_doubtful(content):
        return _add_unmapped(source, found, found.candidates, depth, has_map=False)
    better = _add_unmapped(source, _bare(Content("unknown", "unknown", 0, 0), []), (), depth, has_map=False)
    return better if better.readable else found


def _add_unmapped(
    source: Source,
    found: VolumeSearch,
    known: Sequence[Partition | VolumeCandidate],
    depth: Depth,
    *,
    has_map: bool,
) -> VolumeSearch:
    """Add the volumes that a search brings out beside what is known by its content."""
    taken = stretches((item.image_offset, item.size_bytes) for item in known)
    if depth == "maps" or arrays.total(taken) >= source.size_bytes:
        return found
    found_contents, words = search_unmapped(source, taken, whole=depth == "everywhere")
    contents = [item for item in found_contents if not (is_doubtful(item) and known)]
    candidates = [_name_by_start(content) for content in contents]
    scheme = next(iter(found.schemes), "GPT")
    findings = [
        finding
        for content in contents
        for finding in (*content.findings, missing_entry(source, content, scheme, has_map=has_map))
    ]
    # A stretch without a map in which volumes were found has no content of its own.
    left = tuple(item for item in found.candidates if has_map or not candidates or item.kind != "unknown")
    regions = [*found.regions, *(region for content in contents for region in content.regions)]
    return VolumeSearch(
        (*left, *candidates),
        found.partitions,
        tuple(sorted(regions, key=lambda region: region.image_offset)),
        (*found.findings, *findings),
        found.schemes,
        words,
    )


def _add_volumes_in_gaps(source: Source, found: VolumeSearch) -> VolumeSearch:
    """Add the volumes outside all partitions; a volume that reaches into a partition is older than it."""
    spaces = [item for item in found.partitions if may_hold_volume(item)]
    added = _add_unmapped(source, found, spaces, "everywhere", has_map=True)
    taken = stretches((item.image_offset, item.size_bytes) for item in spaces)
    stale = {
        item.image_offset
        for item in added.candidates[len(found.candidates) :]
        if len(arrays.intersect(taken, stretches([(item.image_offset, item.size_bytes)])))
    }
    return replace(
        added,
        candidates=tuple(item for item in added.candidates if item.image_offset not in stale),
        findings=tuple(item for item in added.findings if item.image_offset not in stale),
    )


def _name_by_start(content: Content) -> VolumeCandidate:
    """Name a volume that no map names by where it starts."""
    layers = (layer for layer in content.layers if not layer.startswith("byte "))
    return to_candidate(content, f"byte {content.volume_offset}", *layers)


def to_candidate(content: Content, *layers: str) -> VolumeCandidate:
    """Turn what was found into a candidate in some layers; without them in its own."""
    return VolumeCandidate(
        content.kind,
        content.label,
        content.volume_offset,
        content.size_bytes,
        (*(layers or content.layers), content.label),
        name=content.name,
        about=content.about,
    )


def _maps(source: Source) -> list[_Probed]:
    """Read every map that is there."""
    sizes = sorted(_MBR_SECTOR_SIZES, key=lambda size: size != source.sector_size_bytes)
    schemes = (
        [read_gpt(source)],
        [table for size in list_apm_block_sizes(source) for table in read_apm(source, size)],
        [read_mbr(source, size) for size in sizes],
    )
    found = [[_probe_partitions(source, table) for table in tables if table is not None] for tables in schemes]
    if found[-1] and not any(_count_recognised(item)[0] for tables in found for item in tables):
        rare = (read_mbr(source, size) for size in _RARE_SECTOR_SIZES)
        found[-1] += [_probe_partitions(source, table) for table in rare if table is not None]
    # The unit of an APM or MBR is never certain: the right one makes sense of most partitions.
    return [max(tables, key=_count_recognised) for tables in found if tables]


def _probe_partitions(source: Source, table: PartitionTable) -> _Probed:
    wanted = [partition for partition in table.partitions if may_hold_volume(partition)]
    contents = ((item, _content(source, item)) for item in wanted)
    return table, tuple((item, _drop_start_doubts(content)) for item, content in contents)


def _content(source: Source, partition: Partition) -> Content:
    """Return the content of a partition."""
    place, size = partition.image_offset, partition.size_bytes
    is_member = partition.type_name.startswith(("Apple RAID", "Apple_RAID"))
    member = _member_content(source, place, size) if is_member else None
    return member or recognise(source, place, size)


def _member_content(source: Source, image_offset: int, size_bytes: int) -> Content | None:
    """Return the content of a member of an AppleRAID set; None if the stretch is none."""
    return member_content(source, image_offset, size_bytes, partial(recognise, source))


def _drop_start_doubts(content: Content) -> Content:
    """Drop doubts about where a volume starts if that is where its map has it, and nothing contradicts that."""
    if content.volume_offset:
        return content
    left = (item for item in content.findings if item.code != "start-uncertain" or item.expected)
    return content._replace(findings=tuple(left))


def may_hold_volume(partition: Partition) -> bool:
    """Whether an entry is about space for a volume: maps list themselves, drivers and what is free, too."""
    name = partition.type_name
    return not (name in NO_VOLUME or name.startswith(("Apple_Driver", "Apple_FWDriver")) or name == "gpt_protective")


def _bare(content: Content, maps: list[_Probed]) -> VolumeSearch:
    """Return a volume that fills the image; maps beside it are remains of an earlier use."""
    stale = [
        Finding(
            "stale-partition-map",
            "info",
            table.scheme,
            table.regions[0].image_offset,
            f"a volume fills the image; the {table.scheme} in it leads nowhere and is left aside",
        )
        for table, _ in maps
        if table.partitions
    ]
    return VolumeSearch((to_candidate(content),), (), content.regions, (*content.findings, *stale), ())


def _search_by_maps(source: Source, maps: list[_Probed]) -> VolumeSearch:
    candidates: dict[int, VolumeCandidate] = {}
    partitions: dict[tuple[int, int], Partition] = {}
    regions: list[MapRegion] = []
    findings: list[Finding] = []
    leads, has_gpt = False, any(table.scheme == "GPT" for table, _ in maps)
    for found in maps:
        table, contents = found
        regions += table.regions
        told = [*table.findings, *_odd_extents(source, table)]
        told += () if has_gpt else _beyond_protected(source, table)
        for partition in table.partitions:
            if partition.type_name != "gpt_protective":
                partitions.setdefault((partition.image_offset, partition.size_bytes), partition)
        for partition, content in contents:
            candidate = _name_by_partition(replace(partition, declared="") if leads else partition, content)
            if candidates.setdefault(candidate.image_offset, candidate) is candidate:
                regions += content.regions
                told += [*content.findings, *_report_broken_promise(partition, content)]
        # A map beside one that leads to volumes may be out of step with it, as a hybrid MBR often is: nothing is lost.
        findings += [_soften_map_finding(item) if leads and item.level == "error" else item for item in told]
        leads = leads or _has_readable(found)
    schemes = tuple(dict.fromkeys(partition.scheme for partition in partitions.values()))
    regions.sort(key=lambda region: region.image_offset)
    return VolumeSearch(
        tuple(candidates.values()), tuple(partitions.values()), tuple(regions), tuple(findings), schemes
    )


def _soften_map_finding(finding: Finding) -> Finding:
    """Report what is wrong in a map that is not needed."""
    message = f"{finding.message.removesuffix(': the image is cut off')}; another map leads to the volumes"
    return replace(finding, level="warning", message=message)


def _name_by_partition(partition: Partition, content: Content) -> VolumeCandidate:
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


def _report_broken_promise(partition: Partition, content: Content) -> list[Finding]:
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

    At most one for each place where a gap or an entry begins, recognised by a few bytes there, so reading it may fail.
    """
    found: dict[int, VolumeCandidate] = {}
    for start, stop in islice(_gaps(source, search, read), MAX_GAPS):
        for candidate in islice(_search_gap(source, start, stop), 1):
            found.setdefault(candidate.image_offset, candidate)
    yield from found.values()


def _search_gap(source: Source, start: int, stop: int) -> Iterator[VolumeCandidate]:
    """Yield what begins like a volume where partitions usually begin, then what is one near the start of a gap."""
    aligned = {-(-start // unit) * unit for unit in _STARTS}
    for place in sorted(each for each in {*aligned, *(each + _APPLE_GAP for each in aligned)} if each < stop):
        found = recognise(source, place, stop - place, thorough=False)
        if found.kind in filesystem_names() and not found.findings:
            yield to_candidate(found._replace(volume_offset=place + found.volume_offset, name=""))
    for found in find_volume_starts(Window(source, 0, stop), start, min(_NEAR_BYTES, stop - start)):
        if not found.findings:
            yield replace(_name_by_start(found), size_bytes=stop - found.volume_offset)


def confirm_volume_size(disk: Source, found: VolumeCandidate) -> int | None:
    """Return the size of a volume in bytes, by its own structures; None if they do not confirm that it begins there."""
    confirmed = _confirm(Window(disk, 0, disk.size_bytes), found.image_offset, found.size_bytes)
    return None if confirmed is None else confirmed.size_bytes


def _confirm(disk: Window, start: int, size_bytes: int) -> Content | None:
    """Return the volume that starts at a byte of a disk, if its own structures confirm it."""
    known = find_volume_starts(disk, start, min(PLACE_BYTES, size_bytes))
    return next((item for item in known if item.volume_offset == start and not item.findings), None)


def _gaps(source: Source, search: VolumeSearch, read: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each stretch that neither a known partition, nor a map, nor a volume takes up.

    If nothing at the start of an entry looks like a volume, the space from there on is searched as well.
    """
    # A type that was overwritten hides what the partition holds: of an extended one, or a protective one over the whole
    # disk, the first volume alone is found in its place.
    held = {item.stack[:2]: item for item in search.candidates if item.partition is not None}
    loose = [item for item in search.readable if item.partition is None]
    taken: list[tuple[int, int]] = []
    borders: set[int] = set()
    for item in (each for each in search.partitions if each.type_name not in NO_VOLUME):
        found = held.get((item.scheme, f"partition {item.number}"))
        if found is not None and found.is_readable and item.declared not in filesystem_names():
            loose.append(found)
        elif found is None or not (found.is_promised or (found.kind == "unknown" and is_unnamed(item.type_name))):
            taken.append((item.image_offset, item.size_bytes))
        borders |= {item.image_offset, item.image_offset + item.size_bytes}
    # For a volume without a partition, its own size counts once it was read, and before that the space it may have.
    starts = {start for start, _ in read}
    taken += [(item.image_offset, item.size_bytes) for item in loose if item.image_offset not in starts]
    taken += [*read, *((region.image_offset, region.length_bytes) for region in search.regions)]
    if not search.schemes and not read:
        return
    within = ((start, min(length, source.size_bytes)) for start, length in taken)
    for low, length in arrays.subtract(np.array([[0, source.size_bytes]]), stretches(within)).tolist():
        stop = low + length
        yield from ((start, stop) for start in sorted({low, *(each for each in borders if low < each < stop)}))


def _odd_extents(source: Source, table: PartitionTable) -> list[Finding]:
    """Report partitions that end past the image, or overlap the one before."""
    findings = []
    others = "gpt_protective", "Apple_partition_map", "ISO9660_data"
    space = [item for item in table.partitions if item.type_name not in others]
    space.sort(key=lambda item: (item.image_offset, item.number))
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


def _beyond_protected(source: Source, table: PartitionTable) -> list[Finding]:
    """Report a disk of which more was protected than the image holds; its GPT may have named volumes there."""
    for item in (each for each in table.partitions if each.type_name == "gpt_protective"):
        end = item.image_offset + item.size_bytes
        # All bits set stands for a disk with more sectors than the field counts; some programs write that for any disk.
        if end > source.size_bytes and item.size_bytes < 0xFFFFFFFF * SECTOR_BYTES:
            message = f"ends at {end:,}, the image ends at byte {source.size_bytes:,}: the image is cut off"
            return [_odd("partition-truncated", item, message)]
    return []


def _odd(code: str, item: Partition, message: str, level: Literal["warning", "error"] = "warning") -> Finding:
    return Finding(code, level, f"{item.scheme} partition", item.image_offset, f"partition {item.number} {message}")
