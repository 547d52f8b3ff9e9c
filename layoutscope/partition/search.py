"""Finding all volumes of an image through its partition maps.

Hybrid disks have several maps of the same partitions. Partitions that start at the same byte count once, under the
first of GPT, APM and MBR that lists them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec.structs import replace

from layoutscope.errors import UnreadError
from layoutscope.filesystems.content import SECTOR_BYTES, Content, parse_at, stored_pieces
from layoutscope.filesystems.registry import filesystem, filesystem_names, filesystems
from layoutscope.findings import Finding, from_error
from layoutscope.image.source import Window
from layoutscope.partition.appleraid import identify_member
from layoutscope.partition.corestorage import count_copies, read_physical_volume
from layoutscope.partition.maps import (
    NO_VOLUME,
    UNNAMED,
    Partition,
    PartitionTable,
    VolumeCandidate,
    VolumeSearch,
    list_apm_block_sizes,
    read_apm,
    read_backup_gpt,
    read_gpt,
    read_mbr,
)
from layoutscope.structs import arrays, grammar, records
from layoutscope.units import MIB, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from layoutscope.filesystems.content import MapRegion
    from layoutscope.findings import Level
    from layoutscope.image.source import Source
    from layoutscope.structs.arrays import I64
    from layoutscope.structs.recordtypes import RecordType


DENSE_SEARCH_BYTES: Final = 64 * MIB
"""Length from the start that is searched sector by sector."""
LAST_STEP: Final = 512 * MIB
"""Up to here, each whole MiB is checked, because partitions are aligned to it."""
AFTER_EFI: Final = 409_640
"""Sector where the first volume of most Macs starts, after an EFI system partition of 200 MiB."""
PLACE_BYTES: Final = 4096
"""Length read at a single place, enough for a superblock and for a volume header."""
END_BYTES: Final = MIB
EVERYTHING: Final = "every sector of the image"


def is_doubtful(content: Content) -> bool:
    """Whether the start of a volume is unconfirmed."""
    return any(item.code == "start-uncertain" for item in content.findings)


def find_volume_starts(
    disk: Window,
    start: int,  # start, length: the stretch that is searched sector by sector, in bytes
    length: int,
    occupied: I64 | None = None,  # set of occupied stretches: offset and length in bytes
) -> Iterator[Content]:
    """Yield possible starts of volumes in a stretch of a disk, outside the occupied stretches."""
    occupied = make_stretches(()) if occupied is None else occupied
    for offset, data in stored_pieces(disk, start, start + length):
        for item in filesystems():
            for content in item.find_in(disk, data, offset):
                if not _reaches_into(occupied, content.volume_offset, 1):
                    yield content


def make_stretches(places: Iterable[tuple[int, int]]) -> I64:
    """Make a set of stretches from offsets and lengths."""
    table = np.array([*places], np.int64).reshape(-1, 2)
    return arrays.runs_of(table[:, 0], table[:, 1])


def _reaches_into(stretches: I64, start: int, length: int) -> bool:
    return len(arrays.intersect(stretches, make_stretches([(start, length)]))) > 0


def report_missing_entry(
    source: Source,
    content: Content,
    scheme: str,  # the kind of the disk's map, `GPT` without a map
    *,
    has_map: bool,
) -> Finding:
    """Report a volume that no map lists, with the entry that it needs."""
    at, size = content.volume_offset, content.size_bytes
    unit = source.sector_size_bytes
    if at % unit or size % unit:
        unit = SECTOR_BYTES
    if content.regions:
        entry = f"it is inside an {content.layers[-1]}, to which a map entry would lead"
    elif at % unit:
        entry = "a map could not name it, as it does not begin with a sector"
    else:
        traits = filesystem(content.kind).traits
        known = {"GPT": [name.upper() for name in traits.gpt_types], "APM": traits.apm_types, "MBR": ["AF"]}[scheme]
        first, count = at // unit, -(-size // unit)
        entry = (
            f"the {scheme} entry for it: type {known[0]}, first sector {first:,}, {count:,} sectors of {unit:,} bytes "
            f"(last sector {first + count - 1:,})"
        )
    message = f"{content.label} of {format_bytes(size)} begins here, where no partition does; {entry}"
    return Finding("volume-unpartitioned", "warning" if has_map else "info", "partition map", at, message)


CORE_STORAGE: Final = "CoreStorage"
FILEVAULT: Final = "FileVault 2 on CoreStorage"
"""The layers around a logical volume."""

START_BYTES: Final = 2048
"""Length of the sectors that identify most contents."""


def recognise(source: Source, image_offset: int, size_bytes: int, *, thorough: bool = True) -> Content:
    """Identify the content of a stretch."""
    stretch = Window(source, image_offset, size_bytes)
    content = _probe_file_systems(stretch)
    # The first sector of a physical volume of CoreStorage, whose header and copies are all intact, does not overwrite
    # the header of an earlier volume. A volume that its other structures confirm is read, because the physical volume
    # may be the older one.
    is_older = (
        content is not None
        and not content.volume_offset
        and count_copies(stretch) > 1
        and _confirm_volume(stretch, 0, stretch.size_bytes) is None
    )
    if content is None or is_older:
        content = _probe_core_storage(stretch) or _identify_unsupported(stretch)
    if content is not None and not content.findings:
        return content  # the data around its signature is not needed
    if content is None and thorough:
        content = _probe_file_systems(stretch, thorough=True) or _probe_core_storage(stretch, is_lost=True)
    content = content or Content("unknown", "unknown", 0, stretch.size_bytes)
    try:
        stretch.read(0, min(START_BYTES, stretch.size_bytes))
    except UnreadError as error:
        content = content._replace(findings=(from_error(error, code="unread-area"), *content.findings))
    return content


def _probe_file_systems(stretch: Window, *, thorough: bool = False) -> Content | None:
    """Probe the stretch for each supported file system."""
    return next(filter(None, (item.probe(stretch, thorough=thorough) for item in filesystems())), None)


def _probe_core_storage(stretch: Window, *, is_lost: bool = False) -> Content | None:
    """Find the volume in a CoreStorage physical volume, or name the physical volume.

    An encrypted volume is not recognised unless it is unlocked, which makes the source return plain text.
    """
    physical = read_physical_volume(stretch, is_lost=is_lost)
    if physical is None:
        return None
    placed = [(item, item.volume_offset) for item in physical.logical_volumes if item.volume_offset is not None]
    for item, offset in placed:
        inside = Window(stretch, offset, item.size_bytes)
        content = _probe_file_systems(inside) or _probe_file_systems(inside, thorough=True)
        if content is not None:
            around = FILEVAULT if item.is_encrypted else CORE_STORAGE
            layers = (around, f"logical volume {item.name!r:.200}", *content.layers)
            return content._replace(
                volume_offset=offset + content.volume_offset,
                layers=layers,
                findings=(*physical.findings, *content.findings),
            )
    kind = "filevault" if physical.is_encrypted else "corestorage"
    return Content(kind, physical.label, 0, stretch.size_bytes, about=physical.about, findings=physical.findings)


def _identify_unsupported(stretch: Window) -> Content | None:
    for record_type, volume_offset, name in _UNSUPPORTED:
        structure = parse_at(stretch, record_type, volume_offset)
        kind_and_label = None if structure is None else name(structure)
        if kind_and_label is not None:
            return Content(*kind_and_label, 0, stretch.size_bytes)
    return None


def _name_ext(superblock: grammar.Foreign.ExtSuperblock) -> tuple[str, str]:
    if superblock.has_extents:
        return "ext4", "ext4"
    return ("ext3", "ext3") if superblock.has_journal else ("ext2", "ext2")


_OEM_NAMES: Final = {b"NTFS": "NTFS", b"EXFAT": "exFAT", b"-FVE-FS-": "BitLocker", b"ReFS": "ReFS"}


def _name_boot_sector(sector: grammar.Foreign.BootSector) -> tuple[str, str] | None:
    """Return the file system that a boot sector names; a master boot record names none."""
    # FAT has the name of the formatting program there (MSDOS5.0), and its type in a later text. The text is even later
    # in FAT32, which has more parameters.
    name = _OEM_NAMES.get(sector.oem_name.rstrip(b" \0"))
    if name is None and sector.fat32_type.startswith(b"FAT32"):
        name = "FAT32"
    if name is None and sector.fat_type.startswith(b"FAT"):
        name = sector.fat_type.rstrip(b" \0").decode("ascii", errors="replace")
    return None if name is None else (name.lower(), name)


_UNSUPPORTED: Final[tuple[tuple[RecordType, int, Callable[[Any], tuple[str, str] | None]], ...]] = (
    (records.LUKS_HEADER, 0, lambda _: ("luks", "LUKS")),
    (records.XFS_SUPERBLOCK, 0, lambda _: ("xfs", "XFS")),
    (records.SQUASHFS_SUPERBLOCK, 0, lambda _: ("squashfs", "squashfs")),
    (records.LVM_LABEL, records.LVM_START.label.offset, lambda _: ("lvm", "Linux LVM")),
    # ext does not write the first 1,024 bytes: the boot sector of an earlier file system may remain there.
    (records.EXT_SUPERBLOCK, records.EXT_START.superblock.offset, _name_ext),
    (records.BOOT_SECTOR, 0, _name_boot_sector),
    (records.BTRFS_SUPERBLOCK, records.BTRFS_START.superblock.offset, lambda _: ("btrfs", "btrfs")),
    (records.ISO9660_DESCRIPTOR, records.ISO9660_START.descriptor.offset, lambda _: ("iso9660", "ISO 9660")),
)
"""Identification of unsupported file systems: structure, its offset, and a function to kind and label, or None."""


Depth = Literal["maps", "usual", "everywhere"]

_MBR_SECTOR_SIZES: Final = (512, 4096)
_RARE_SECTOR_SIZES: Final = (2048, 1024)
"""Units of boot records to try if the usual ones find nothing: those of optical drives and of old enclosures."""
MAX_GAPS: Final = 64
_STARTS: Final = (1, 4096, 1024**2)
"""Alignments of partitions: right after the previous one, to a physical sector, or to a MiB."""
_NEAR_BYTES: Final = MIB
"""Largest gap that is searched sector by sector."""
_APPLE_GAP: Final = 128 * MIB
"""Space that Disk Utility leaves free after a partition (Technical Note TN2166)."""


_Probed = tuple[PartitionTable, tuple[tuple[Partition, Content], ...]]
"""A map, with the content of each of its partitions."""


def _count_recognised(probed: _Probed) -> tuple[int, int]:
    """Count the partitions with an intact known content, and those with any known content."""
    recognised = [content for _, content in probed[1] if content.kind != "unknown"]
    return sum(not content.findings for content in recognised), len(recognised)


def _has_readable(probed: _Probed) -> bool:
    return any(content.kind in filesystem_names() for _, content in probed[1])


def find_volumes(source: Source, *, depth: Depth = "usual") -> VolumeSearch:
    """Find all volumes of an image."""
    maps = _read_maps(source)
    bare = recognise(source, 0, source.size_bytes, thorough=False)
    member = None if maps else identify_member(source, 0, source.size_bytes, recognise)
    if member is not None:
        return _make_bare_search(member, maps)
    if bare.kind in filesystem_names() and not any(map(_has_readable, maps)):
        return _make_bare_search(bare, maps)
    if not any(contents for _, contents in maps) and bare.kind == "unknown":
        # A disk whose first sectors were overwritten may have only a protective record left.
        backup = read_backup_gpt(source)
        maps += [_probe_partitions(source, backup)] if backup is not None else []
    if not maps:
        # On a disk with a map, copies of headers near the start would be older than the map.
        return _search_without_map(source, depth)
    search = _search_by_maps(source, maps)
    if any(map(_has_readable, maps)):
        if depth != "everywhere":
            return search
        spaces = [item for item in search.partitions if may_hold_volume(item)]
        return _add_unmapped(source, search, spaces, depth, has_map=True, keeps_older=False)
    known = [item for _, contents in maps for item, content in contents if content.kind != "unknown"]
    return _add_unmapped(source, search, known, depth, has_map=True)


def _search_without_map(source: Source, depth: Depth) -> VolumeSearch:
    """Find the volumes of an image without a map: one at its start or end, and unmapped ones next to it."""
    content = recognise(source, 0, source.size_bytes)
    search = _make_bare_search(content, [])
    if not search.readable:
        known = search.candidates if content.kind != "unknown" else ()
        return _add_unmapped(source, search, known, depth, has_map=False)
    if content.volume_offset:
        missing = report_missing_entry(source, content, "GPT", has_map=False)
        search = replace(search, findings=(*search.findings, missing))
    if not is_doubtful(content):
        return _add_unmapped(source, search, search.candidates, depth, has_map=False)
    nothing = _make_bare_search(Content("unknown", "unknown", 0, 0), [])
    better = _add_unmapped(source, nothing, (), depth, has_map=False)
    return better if better.readable else search


def _add_unmapped(
    source: Source,
    search: VolumeSearch,
    known: Sequence[Partition | VolumeCandidate],
    depth: Depth,
    *,
    has_map: bool,
    keeps_older: bool = True,  # whether to add a volume that reaches into a known content, which makes it the older one
) -> VolumeSearch:
    """Add the volumes that a search finds outside the known contents."""
    occupied = make_stretches((item.image_offset, item.size_bytes) for item in known)
    if depth == "maps" or arrays.total(occupied) >= source.size_bytes:
        return search
    stretches, searched = _list_searched_stretches(source.size_bytes, occupied if depth == "everywhere" else None)
    unmapped = _search_stretches(source, stretches, occupied)
    contents = [
        item
        for item in unmapped
        if not (is_doubtful(item) and known)
        and (keeps_older or not _reaches_into(occupied, item.volume_offset, item.size_bytes))
    ]
    candidates = [_name_by_start(content) for content in contents]
    scheme = next(iter(search.schemes), "GPT")
    findings = [
        finding
        for content in contents
        for finding in (*content.findings, report_missing_entry(source, content, scheme, has_map=has_map))
    ]
    # If volumes are found on a disk without a map, the disk itself is not an unknown candidate.
    others = tuple(item for item in search.candidates if has_map or not candidates or item.kind != "unknown")
    regions = [*search.regions, *(region for content in contents for region in content.regions)]
    return replace(
        search,
        candidates=(*others, *candidates),
        regions=tuple(sorted(regions, key=lambda region: region.image_offset)),
        findings=(*search.findings, *findings),
        searched=searched,
    )


def _list_searched_stretches(
    size_bytes: int,
    occupied: I64 | None,  # all space outside these stretches is searched; None for the likely places
) -> tuple[list[tuple[int, int]], str]:
    """List the offset and length of each stretch that is searched, and describe them."""
    if occupied is not None:
        free = arrays.subtract(np.array([[0, size_bytes]]), occupied)
        starts = free[:, 0] // SECTOR_BYTES * SECTOR_BYTES
        return list(zip(starts.tolist(), (free.sum(axis=1) - starts).tolist(), strict=True)), EVERYTHING
    steps = sorted({AFTER_EFI * SECTOR_BYTES, *range(DENSE_SEARCH_BYTES, LAST_STEP + MIB, MIB)})
    single = [place for place in steps if place < size_bytes - END_BYTES]
    stretches = [(0, DENSE_SEARCH_BYTES), *((place, PLACE_BYTES) for place in single)]
    if size_bytes <= DENSE_SEARCH_BYTES:
        return stretches, EVERYTHING
    # The end counts in whole sectors, the units of the map in which the volume ends.
    end = max(DENSE_SEARCH_BYTES, size_bytes // SECTOR_BYTES * SECTOR_BYTES - END_BYTES)
    first, last = format_bytes(DENSE_SEARCH_BYTES), format_bytes(END_BYTES)
    likely = f", {len(single):,} likely places" if single else ""
    return [*stretches, (end, END_BYTES)], f"the first {first}{likely} and the last {last}"


def _search_stretches(source: Source, stretches: list[tuple[int, int]], occupied: I64) -> list[Content]:
    """Search stretches for volumes that begin outside the occupied ones, and return those by offset."""
    disk = Window(source, 0, source.size_bytes)
    confirmed: list[Content] = []
    unconfirmed: list[Content] = []
    taken = make_stretches(())  # the space of the confirmed volumes
    for start, length in stretches:
        for content in find_volume_starts(disk, start, length, occupied):
            place, size = content.volume_offset, content.size_bytes
            if _reaches_into(taken, place, max(1, size)):
                continue
            if is_doubtful(content):
                unconfirmed.append(content)
            else:
                confirmed.append(content)
                taken = arrays.union([taken, make_stretches([(place, size)])])
    # An unconfirmed volume may be a remnant; it is read only if there is nothing better.
    return sorted(confirmed or unconfirmed[:1], key=lambda item: item.volume_offset)


def _name_by_start(content: Content) -> VolumeCandidate:
    """Name an unmapped volume by its start."""
    layers = (layer for layer in content.layers if not layer.startswith("byte "))
    return to_candidate(content, f"byte {content.volume_offset}", *layers)


def to_candidate(content: Content, *layers: str) -> VolumeCandidate:
    """Make a candidate from a content, in the given layers or else in its own."""
    return VolumeCandidate(
        content.kind,
        content.label,
        content.volume_offset,
        content.size_bytes,
        (*(layers or content.layers), content.label),
        about=content.about,
    )


def _read_maps(source: Source) -> list[_Probed]:
    """Read all maps, and probe their partitions."""
    sizes = sorted(_MBR_SECTOR_SIZES, key=lambda size: size != source.sector_size_bytes)
    schemes = (
        [read_gpt(source)],
        [table for size in list_apm_block_sizes(source) for table in read_apm(source, size)],
        [read_mbr(source, size) for size in sizes],
    )
    probed_by_scheme = [
        [_probe_partitions(source, table) for table in tables if table is not None] for tables in schemes
    ]
    if probed_by_scheme[-1] and not any(_count_recognised(item)[0] for tables in probed_by_scheme for item in tables):
        rare = (read_mbr(source, size) for size in _RARE_SECTOR_SIZES)
        probed_by_scheme[-1] += [_probe_partitions(source, table) for table in rare if table is not None]
    # The unit of an APM or MBR is uncertain: the right one identifies the most partitions.
    return [max(tables, key=_count_recognised) for tables in probed_by_scheme if tables]


def _probe_partitions(source: Source, table: PartitionTable) -> _Probed:
    contents = []
    for partition in filter(may_hold_volume, table.partitions):
        place, size = partition.image_offset, partition.size_bytes
        is_member = partition.type_name.startswith(("Apple RAID", "Apple_RAID"))
        member = identify_member(source, place, size, recognise) if is_member else None
        content = member or recognise(source, place, size)
        # A doubt about the start of a volume is dropped if the map agrees with it, and nothing contradicts it.
        if not content.volume_offset:
            remaining = (item for item in content.findings if item.code != "start-uncertain" or item.expected)
            content = content._replace(findings=tuple(remaining))
        contents.append((partition, content))
    return table, tuple(contents)


def may_hold_volume(partition: Partition) -> bool:
    """Whether an entry may hold a volume: maps also list themselves, drivers and free space."""
    name = partition.type_name
    return not (name in NO_VOLUME or name.startswith(("Apple_Driver", "Apple_FWDriver")) or name == "gpt_protective")


def _make_bare_search(content: Content, maps: list[_Probed]) -> VolumeSearch:
    """Return a volume that fills the image; maps in it are remnants of an earlier use."""
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
    has_volumes, has_gpt = False, any(table.scheme == "GPT" for table, _ in maps)
    for probed in maps:
        table, contents = probed
        regions += table.regions
        reports = [*table.findings, *_check_extents(source, table)]
        reports += () if has_gpt else _check_protective_entry(source, table)
        for partition in table.partitions:
            if partition.type_name != "gpt_protective":
                partitions.setdefault((partition.image_offset, partition.size_bytes), partition)
        for partition, content in contents:
            # Once another map leads to volumes, a promise alone does not count as a volume.
            candidate = _name_by_partition(partition, content, declared="" if has_volumes else partition.declared)
            if candidates.setdefault(candidate.image_offset, candidate) is candidate:
                regions += content.regions
                reports += [*content.findings, *_report_broken_promise(partition, content)]
        # A second map may be outdated, as hybrid MBRs often are; nothing is lost if the first leads to volumes.
        for item in reports:
            if has_volumes and item.level == "error":
                message = item.message.removesuffix(": the image is cut off")
                item = replace(item, level="warning", message=f"{message}; another map leads to the volumes")  # noqa: PLW2901
            findings.append(item)
        has_volumes = has_volumes or _has_readable(probed)
    schemes = tuple(dict.fromkeys(partition.scheme for partition in partitions.values()))
    regions.sort(key=lambda region: region.image_offset)
    return VolumeSearch(
        tuple(candidates.values()), tuple(partitions.values()), tuple(regions), tuple(findings), schemes
    )


def _name_by_partition(partition: Partition, content: Content, *, declared: str) -> VolumeCandidate:
    """Name the volume of a partition; an unrecognised content counts as the kind of volume that is declared."""
    is_promised = content.kind == "unknown" and bool(declared)
    if is_promised:
        label = filesystem(declared).traits.label if declared in filesystem_names() else CORE_STORAGE
        content = content._replace(kind=declared, label=label)
    content = content._replace(volume_offset=partition.image_offset + content.volume_offset)
    layers = partition.scheme, f"partition {partition.number}", *content.layers
    return replace(to_candidate(content, *layers), partition=partition.number, is_promised=is_promised)


def _report_broken_promise(partition: Partition, content: Content) -> list[Finding]:
    """Report a partition whose content differs from what its type promises."""
    names, declared = filesystem_names(), partition.declared
    # One type of an MBR, AF, is for both file systems of Apple.
    if not declared or (partition.scheme == "MBR" and content.kind in names):
        return []
    also = filesystem(declared).traits.relatives if declared in names else ("filevault",)
    if content.kind in (declared, *also):
        return []
    is_empty = content.kind == "unknown"
    does = "does not start like it" if is_empty else f"holds {content.label}"
    message = f"is of type {partition.type_name}, but {does}"
    return [_make_partition_finding("partition-content", partition, message, "error" if is_empty else "warning")]


def find_volumes_in_gaps(
    source: Source,
    search: VolumeSearch,
    # volumes that were read: offset and length in bytes. The space after a bare one is a gap as well.
    read: Sequence[tuple[int, int]] = (),
) -> Iterator[VolumeCandidate]:
    """Yield possible volumes at places where a partition may have begun that no map lists any more.

    There is at most one per start of a gap or entry. A few bytes identify it, so reading it may fail.
    """
    candidates: dict[int, VolumeCandidate] = {}
    for start, stop in islice(_list_gaps(source, search, read), MAX_GAPS):
        for candidate in islice(_search_gap(source, start, stop), 1):
            candidates.setdefault(candidate.image_offset, candidate)
    yield from candidates.values()


def _search_gap(source: Source, start: int, stop: int) -> Iterator[VolumeCandidate]:
    """Yield possible volumes at the usual starts of partitions, then confirmed ones near the start of a gap."""
    aligned = {-(-start // unit) * unit for unit in _STARTS}
    for place in sorted(each for each in {*aligned, *(each + _APPLE_GAP for each in aligned)} if each < stop):
        content = recognise(source, place, stop - place, thorough=False)
        if content.kind in filesystem_names() and not content.findings:
            yield to_candidate(content._replace(volume_offset=place + content.volume_offset))
    for content in find_volume_starts(Window(source, 0, stop), start, min(_NEAR_BYTES, stop - start)):
        if not content.findings:
            yield replace(_name_by_start(content), size_bytes=stop - content.volume_offset)


def confirm_volume_size(disk: Source, candidate: VolumeCandidate) -> int | None:
    """Return the size of a volume in bytes, by its own structures; None if they do not confirm its start."""
    confirmed = _confirm_volume(Window(disk, 0, disk.size_bytes), candidate.image_offset, candidate.size_bytes)
    return None if confirmed is None else confirmed.size_bytes


def _confirm_volume(disk: Window, start: int, size_bytes: int) -> Content | None:
    """Return the volume that starts at an offset of a disk if its own structures confirm it."""
    known = find_volume_starts(disk, start, min(PLACE_BYTES, size_bytes))
    return next((item for item in known if item.volume_offset == start and not item.findings), None)


def _list_gaps(source: Source, search: VolumeSearch, read: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each stretch outside all known partitions, maps and volumes.

    If nothing at the start of an entry looks like a volume, the space from there on is searched as well.
    """
    # An overwritten type hides the content of a partition: only the first volume of an extended partition, or of a
    # protective one over the whole disk, is found at its start.
    candidates_by_partition = {item.stack[:2]: item for item in search.candidates if item.partition is not None}
    loose = [item for item in search.readable if item.partition is None]
    occupied: list[tuple[int, int]] = []
    borders: set[int] = set()
    for item in (each for each in search.partitions if each.type_name not in NO_VOLUME):
        candidate = candidates_by_partition.get((item.scheme, f"partition {item.number}"))
        if candidate is not None and candidate.is_readable and item.declared not in filesystem_names():
            loose.append(candidate)
        elif candidate is None or not (
            candidate.is_promised or (candidate.kind == "unknown" and item.type_name.startswith(UNNAMED))
        ):
            occupied.append((item.image_offset, item.size_bytes))
        borders |= {item.image_offset, item.image_offset + item.size_bytes}
    # The size of a volume without a partition is its own once it is read, and before that the space it may take.
    starts = {start for start, _ in read}
    occupied += [(item.image_offset, item.size_bytes) for item in loose if item.image_offset not in starts]
    occupied += [*read, *((region.image_offset, region.length_bytes) for region in search.regions)]
    if not search.schemes and not read:
        return
    within = ((start, min(length, source.size_bytes)) for start, length in occupied)
    for low, length in arrays.subtract(np.array([[0, source.size_bytes]]), make_stretches(within)).tolist():
        stop = low + length
        yield from ((start, stop) for start in sorted({low, *(each for each in borders if low < each < stop)}))


def _check_extents(source: Source, table: PartitionTable) -> list[Finding]:
    """Report partitions that end after the image, or overlap the previous one."""
    findings = []
    others = "gpt_protective", "Apple_partition_map", "ISO9660_data"
    space = [item for item in table.partitions if item.type_name not in others]
    space.sort(key=lambda item: (item.image_offset, item.number))
    end, owner = 0, 0
    for item in space:
        if item.image_offset < end:
            findings.append(
                _make_partition_finding("partition-overlap", item, f"overlaps partition {owner}, which ends at {end:,}")
            )
        if item.image_offset + item.size_bytes > end:
            end, owner = item.image_offset + item.size_bytes, item.number
        if end > source.size_bytes and owner == item.number:
            message = f"ends at {end:,}, the image at {source.size_bytes:,}: the image is cut off"
            findings.append(_make_partition_finding("partition-truncated", item, message, "error"))
    return findings


def _check_protective_entry(source: Source, table: PartitionTable) -> list[Finding]:
    """Report a protective entry that exceeds the image; its GPT may have listed volumes there."""
    for item in (each for each in table.partitions if each.type_name == "gpt_protective"):
        end = item.image_offset + item.size_bytes
        # All bits set means a disk with more sectors than the field can hold; some programs write that for any disk.
        if end > source.size_bytes and item.size_bytes < 0xFFFFFFFF * SECTOR_BYTES:
            message = f"ends at {end:,}, the image ends at byte {source.size_bytes:,}: the image is cut off"
            return [_make_partition_finding("partition-truncated", item, message)]
    return []


def _make_partition_finding(code: str, item: Partition, message: str, level: Level = "warning") -> Finding:
    return Finding(code, level, f"{item.scheme} partition", item.image_offset, f"partition {item.number} {message}")
