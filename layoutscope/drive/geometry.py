"""Where bytes are on a drive: the member of a set, and the track of a disk.

Sets are stripes, concatenations and Fusion sets. The geometry of a disk comes from a map of all sectors, from zones, or
from the two rates of a data sheet.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from layoutscope import inputs
from layoutscope.display import Struct
from layoutscope.drive import hdd
from layoutscope.drive.hdd import SECTOR_BYTES
from layoutscope.drive.profile import MAX_CYLINDERS, MAX_HEADS, check_cylinders, unpack
from layoutscope.drive.seeks import seek_curve
from layoutscope.errors import ImageError, UsageError
from layoutscope.structs.arrays import I64, heads, lengths_of, ordinals, owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile

MAX_PACKED_BYTES: Final = 1 << 28
"""Size limit of a stored map; the map of a 147 GB disk takes half a megabyte."""

COLUMNS: Final = 6
SECTORS, CYLINDERS, HEADS, _, TRACK_SECTORS, ANGLES = range(COLUMNS)
CELL_BYTES: Final = 4


def read_mapped_runs(profile: DriveProfile) -> NDArray[np.int64]:
    """Return the runs of a disk whose profile has a map."""
    name = profile.text("map_file", "")
    try:
        runs = _runs(_read_packed_file(profile.folder, name))
    except (OSError, ImageError, ValueError) as error:
        raise UsageError(f"drive profile {profile.name}: {name} is not a map of sectors: {error}") from error
    end = int(runs[-1, hdd.LBN]) * SECTOR_BYTES
    if end < profile.capacity_bytes:
        raise UsageError(f"drive profile {profile.name}: {name} ends at byte {end:,}, the drive later")
    return runs


def _read_packed_file(folder: Path, name: str) -> bytes:
    """Read a file that a profile names. The file must be next to the profile, which may be untrusted."""
    if name != Path(name).name:
        raise ValueError("it is not in the profile's folder")
    inputs.note(folder / name)
    with inputs.open_file(folder / name) as file:
        data = file.read(MAX_PACKED_BYTES + 1)
    if len(data) > MAX_PACKED_BYTES:
        raise ValueError(f"it is longer than {MAX_PACKED_BYTES:,} bytes")
    return data


@lru_cache(maxsize=2)
def _runs(packed: bytes) -> NDArray[np.int64]:
    """Parse a map; the last ones are cached because they are large."""
    raw = unpack(packed)
    if not raw or len(raw) % (COLUMNS * CELL_BYTES):
        raise ValueError(f"{len(raw)} bytes do not make {COLUMNS} columns")
    columns = np.frombuffer(raw, np.dtype(np.uint32).newbyteorder("<")).reshape(COLUMNS, -1)
    cylinder, head, angle = (np.cumsum(columns[k], dtype=np.uint32) for k in (CYLINDERS, HEADS, ANGLES))
    if not columns[SECTORS].all() or (columns[SECTORS] > columns[TRACK_SECTORS]).any():
        raise ValueError("a run has no sector, or more than its track")
    if cylinder.max() >= MAX_CYLINDERS or head.max() >= MAX_HEADS:
        raise ValueError(f"it has cylinder {cylinder.max():,} and head {head.max():,}")
    runs = np.zeros((columns.shape[1] + 1, 8), np.int64)
    runs[1:, hdd.LBN] = np.cumsum(columns[SECTORS], dtype=np.int64)
    runs[:-1, hdd.CYLINDER] = cylinder
    runs[:-1, hdd.HEAD] = head
    runs[:-1, hdd.SECTOR] = hdd.TURN // columns[TRACK_SECTORS].astype(np.int64)
    runs[:-1, hdd.ANGLE] = angle
    runs[:-1, hdd.TRACK_SECTORS] = columns[TRACK_SECTORS]
    # Several runs may be on one track.
    starts = heads(cylinder, head)
    bounds = np.append(runs[starts, hdd.LBN], runs[-1, hdd.LBN])
    track = np.repeat(np.arange(len(starts)), lengths_of(starts, len(cylinder)))
    runs[:-1, hdd.TRACK_BEGIN] = bounds[track]
    runs[:-1, hdd.TRACK_END] = bounds[track + 1]
    return runs


DATASHEET_ZONES: Final = 24
DATASHEET_HEADS: Final = 4.0
DATASHEET_BAND: Final = 64.0
"""Heads and band of cylinders of a drive with only a data sheet; they hardly matter (assumed)."""
ZONE_SKEWS: Final = 3
SKEW_MARGIN_TURNS: Final = 0.02
"""Margin that makers add to the skew, so that a slow track change does not lose a revolution (assumed)."""
BACK_SHARE: Final = 2
"""A look-ahead that fills its segment keeps half of it for the sectors before the last read's end (assumed)."""


class Zones(Struct, frozen=True):
    """Zones of tracks of equal size, from the outer edge."""

    # first_lbn, first_cylinder, sectors: where a zone begins, and the number of sectors in each of its tracks
    first_lbn: NDArray[np.int64]
    first_cylinder: NDArray[np.int64]
    sectors: NDArray[np.int64]
    num_sectors: int  # sectors of the disk
    # heads, band_cylinders: see the figures of the same name
    heads: int
    band_cylinders: int
    # head_skew, cylinder_skew: revolutions between the end of a track and the start of the next one, on another head
    # and on the next cylinder
    head_skew: NDArray[np.float64]
    cylinder_skew: NDArray[np.float64]


def build_surface(profile: DriveProfile, first_lbn: int, last_lbn: int) -> hdd.Surface:
    """Lay out the part of a disk between two sectors.

    A map is used whole. With zones, only the necessary part is laid out, which saves memory for large disks.
    """
    # All times are in ticks, so an angle is a time: the platter's position is the clock with a mask.
    ticks_per_ms = hdd.TURN / profile.turn_ms
    if profile.geometry == "map":
        runs = read_mapped_runs(profile)
        cylinders = int(runs[:-1, hdd.CYLINDER].max()) + 1
    else:
        zones = _zones_of(profile)
        cylinders = check_cylinders(profile.name, num_cylinders(zones))
        runs = _zone_runs(zones, max(first_lbn, 0), min(last_lbn + _margin(profile, zones), zones.num_sectors))
    # The index of runs by sector has about two entries per run.
    first, last = int(runs[0, hdd.LBN]), int(runs[-1, hdd.LBN])
    shift = max(int((last - first) / (2 * max(len(runs) - 1, 1))).bit_length() - 1, 0)
    marks = first + (np.arange(((last - first) >> shift) + 1, dtype=np.int64) << shift)
    guess = np.searchsorted(runs[:, hdd.LBN], marks, side="right") - 1
    seek_ms = seek_curve(profile, cylinders, int(np.ptp(runs[:-1, hdd.CYLINDER])) + 1)
    rate, segment = profile.number("interface_mb_s", 0.0), segment_sectors(profile)
    ticks = {
        name: round(profile.number(f"{name}_ms", 0.0) * ticks_per_ms)
        for name in ("head_switch", "read_miss", "read_hit")
    }
    return hdd.Surface(
        runs=runs,
        guess=np.minimum(guess, len(runs) - 2).astype(np.int64),
        guess_shift=shift,
        seek=np.rint(seek_ms * ticks_per_ms).astype(np.int64),
        bus_sector=round(SECTOR_BYTES / rate / 1000 * ticks_per_ms) if rate else 0,
        start_anywhere=int(profile.number("start_anywhere", 0)),
        segment_sectors=segment,
        behind_sectors=-1 if profile.text("look_ahead", "segment") == "track" else segment // BACK_SHARE,
        join=("never", "next-sector", "window").index(profile.text("join", "window")),
        on_arrival=("none", "track").index(profile.text("on_arrival", "none")),
        **ticks,
    )


LaidOut: TypeAlias = "tuple[int, int, hdd.Surface]"
"""A part of a disk that has been laid out: its first and last sector, and the runs around them."""


SHARED_RUNS: Final = 1 << 16
"""Limit of the runs that are cached for other parts of a disk, 64 bytes each."""


def find_surface(
    profile: DriveProfile,
    first_lbn: int,
    last_lbn: int,
    known: list[LaidOut] | None = None,  # parts laid out before; a new part is added with a margin around it
) -> tuple[hdd.Surface, int]:
    """Return the surface between two sectors, and the run at which arms start: the outermost between them."""
    parts = known or ()
    surface = next((part for first, last, part in parts if first <= first_lbn and last_lbn <= last), None)
    if surface is None:
        around = 0 if known is None else (last_lbn - first_lbn) // 8
        first, last = max(first_lbn - around, 0), last_lbn + around
        surface = build_surface(profile, first, last)
        if known is not None and sum(len(part.runs) for *_, part in known) + len(surface.runs) <= SHARED_RUNS:
            known.append((first, last, surface))
    runs = surface.runs[:-1]
    if profile.geometry == "map":
        return surface, int(np.argmin(runs[:, hdd.CYLINDER]))
    start = max(int(np.searchsorted(runs[:, hdd.LBN], first_lbn, side="right")) - 1, 0)
    stop = int(np.searchsorted(runs[:, hdd.LBN], last_lbn + _margin(profile, _zones_of(profile))))
    return surface, start + int(np.argmin(runs[start:stop, hdd.CYLINDER]))


def segment_sectors(profile: DriveProfile) -> int:
    """Return the size of a buffer segment: 0 without look-ahead, an outer track if it is unknown."""
    if profile.text("look_ahead", "segment") == "none":
        return 0
    whole = int(profile.number("buffer_bytes", 0.0)) // SECTOR_BYTES
    if "segment_sectors" in profile or "segments" in profile:
        return int(profile.number("segment_sectors", whole / max(profile.number("segments", 1), 1)))
    return min(outer_track_sectors(profile), whole)


def num_segments(profile: DriveProfile, segment: int) -> int:
    """Return the number of buffer segments of a given size in sectors."""
    fitting = profile.number("buffer_bytes", 0.0) / SECTOR_BYTES / max(segment, 1)
    return max(int(profile.number("segments", fitting)), 1)


def outer_track_sectors(profile: DriveProfile) -> int:
    """Return the number of sectors in an outer track."""
    zones = read_listed_zones(profile) if "zones" in profile else datasheet_zones(profile)
    return int(zones.sectors[0])


def _zones_of(profile: DriveProfile) -> Zones:
    return read_listed_zones(profile) if profile.geometry == "zones" else datasheet_zones(profile)


def _margin(profile: DriveProfile, zones: Zones) -> int:
    """Return how far the look-ahead extends beyond the last read: a full segment and the rest of a track."""
    return 2 * int(zones.sectors.max()) + segment_sectors(profile)


def read_listed_zones(profile: DriveProfile) -> Zones:
    """Read the zones from a profile that lists them; skews are in sectors per zone, or in revolutions for all zones."""
    table = np.array(profile.numbers("zones"), np.float64)
    if table.shape[1] > ZONE_SKEWS:
        skews = table[:, ZONE_SKEWS : ZONE_SKEWS + 2] / table[:, 2:3]
    else:
        skew = profile.number("track_skew_turns")
        skews = np.tile((skew, profile.number("cylinder_skew_turns", skew)), (len(table), 1))
    return Zones(
        first_lbn=table[:, 0].astype(np.int64),
        first_cylinder=table[:, 1].astype(np.int64),
        sectors=np.rint(table[:, 2]).astype(np.int64),
        num_sectors=profile.capacity_bytes // SECTOR_BYTES,
        heads=int(profile.number("heads")),
        band_cylinders=int(profile.number("band_cylinders", 0)),
        head_skew=skews[:, 0],
        cylinder_skew=skews[:, 1],
    )


def datasheet_zones(profile: DriveProfile) -> Zones:
    """Guess the zones from the sequential rates at the edges.

    The rates are sustained rates: one track per revolution plus the skew of a track change. They fall linearly with the
    cylinder. The skew hides the track change.
    """
    return _datasheet_zones(
        profile.turn_ms,
        max(profile.number("track_to_track_ms"), profile.number("head_switch_ms", 0.0)),
        (profile.number("outer_mb_s"), profile.number("inner_mb_s")),
        profile.capacity_bytes // SECTOR_BYTES,
        (int(profile.number("heads", DATASHEET_HEADS)), int(profile.number("band_cylinders", DATASHEET_BAND))),
    )


@lru_cache(maxsize=64)
def _datasheet_zones(
    turn: float, switch: float, rates_mb_s: tuple[float, float], num_sectors: int, bands: tuple[int, int]
) -> Zones:
    # The result is cached because layouts ask for the zones and for the buffer, which is as large as an outer track.
    # Without skew, the next sector on the next track would pass while the head changes over, and a sequential read
    # would lose a revolution per track. So makers shift each track by the time of a change, and a little more.
    skew = min(switch / turn + SKEW_MARGIN_TURNS, 1.0)
    rates = np.linspace(*rates_mb_s, 2 * DATASHEET_ZONES + 1)[1::2]
    sectors = np.maximum(np.rint(rates * 1000 * turn * (1 + skew) / SECTOR_BYTES), 1).astype(np.int64)
    heads, band = bands
    cylinders = -(-num_sectors // int(sectors.sum() * heads))
    steps = np.arange(DATASHEET_ZONES, dtype=np.int64)
    first_lbn = np.append(0, np.cumsum(sectors * heads * cylinders)[:-1])
    skews = np.full(DATASHEET_ZONES, skew)
    # Current drives fill a band of cylinders on one surface before the next head takes over: a seek by one track is
    # shorter than a head switch, after which the new head must find its own track.
    return Zones(first_lbn, steps * cylinders, sectors, num_sectors, heads, band, skews, skews)


def num_cylinders(zones: Zones) -> int:
    """Return the number of cylinders in the zones."""
    tracks = -(-(zones.num_sectors - zones.first_lbn[-1]) // zones.sectors[-1])
    band = max(zones.band_cylinders, 1)
    return int(zones.first_cylinder[-1] + -(-tracks // zones.heads) + band)


def _zone_runs(zones: Zones, first_lbn: int, last_lbn: int) -> NDArray[np.int64]:
    """Lay out the tracks that contain the sectors `first_lbn` to `last_lbn`."""
    ends = np.append(zones.first_lbn[1:], zones.num_sectors)
    parts = []
    for zone in np.flatnonzero((zones.first_lbn < last_lbn) & (ends > first_lbn)).tolist():
        begin, end, sectors = int(zones.first_lbn[zone]), int(ends[zone]), int(zones.sectors[zone])
        track = np.arange(max(first_lbn - begin, 0) // sectors, -(-(min(last_lbn, end) - begin) // sectors))
        cylinder, head = place_tracks(track, zones.heads, zones.band_cylinders)
        inward = track // zones.heads if zones.band_cylinders == 0 else track - track // zones.band_cylinders
        head_skew, cylinder_skew = (
            round(float(skew[zone]) * hdd.TURN) for skew in (zones.head_skew, zones.cylinder_skew)
        )
        runs = np.empty((len(track), 8), np.int64)
        runs[:, hdd.LBN] = runs[:, hdd.TRACK_BEGIN] = begin + track * sectors
        runs[:, hdd.CYLINDER] = zones.first_cylinder[zone] + cylinder
        runs[:, hdd.HEAD] = head
        # Whole ticks: the rest of a revolution, fewer ticks than there are sectors, follows the last sector. It is too
        # short to measure.
        runs[:, hdd.SECTOR] = hdd.TURN // sectors
        # Each track change adds its own skew, depending on whether it goes to another head or to another cylinder.
        runs[:, hdd.ANGLE] = ((track - inward) * head_skew + inward * cylinder_skew) & hdd.MASK
        runs[:, hdd.TRACK_END] = np.minimum(begin + (track + 1) * sectors, end)
        runs[:, hdd.TRACK_SECTORS] = sectors
        parts.append(runs)
    table = np.concatenate([*parts, np.zeros((1, 8), np.int64)])
    table[-1, hdd.LBN] = table[-2, hdd.TRACK_END]
    return table


def place_tracks(track: I64, heads: int, band_cylinders: int) -> tuple[I64, I64]:
    """Return the cylinder and head of tracks, which are numbered from the start of their zone in the order of sectors.

    Without bands, all heads of a cylinder follow each other. In serpentine bands, one head serves a band of cylinders
    and the next head serves it in reverse; the next band begins with the last head.
    """
    if band_cylinders == 0:
        return track // heads, track % heads
    band, within = np.divmod(track, band_cylinders * heads)
    sweep, step = np.divmod(within, band_cylinders)
    cylinder = band * band_cylinders + np.where(sweep % 2 == 0, step, band_cylinders - 1 - step)
    return cylinder, np.where(band % 2 == 0, sweep, heads - 1 - sweep)


def total_cylinders(profile: DriveProfile) -> int:
    """Return the number of cylinders of a drive, or of each rotating member of a set; 0 for flash."""
    if profile.members:
        return max(total_cylinders(member) for member in profile.members)
    if profile.geometry == "none":
        return 0
    return int(profile.number("cylinders")) if "cylinders" in profile else num_cylinders(_zones_of(profile))


Pieces: TypeAlias = "tuple[I64, I64, I64, I64]"
"""Pieces of reads, in the order of the reads: the read, the drive (an index into the single drives of the profile), and
offset and length in bytes on that drive."""


def single_drives(profile: DriveProfile) -> list[DriveProfile]:
    """Return the single drives of a profile, in order."""
    if not profile.members:
        return [profile]
    return [leaf for member in profile.members for leaf in single_drives(member)]


def split(profile: DriveProfile, offset: I64, length_bytes: I64, device: NDArray[np.uint8]) -> Pieces:
    """Split reads between drives; the device of a read matters on a Fusion set only."""
    row = np.arange(len(offset), dtype=np.int64)
    member = np.zeros(len(offset), np.int64)
    if profile.kind == "fusion":
        member = device.astype(np.int64)
    else:
        end = int((offset + length_bytes).max(initial=0))
        if end > profile.capacity_bytes:
            raise UsageError(f"a read ends at byte {end:,}, drive {profile.name} at {profile.capacity_bytes:,}")
    if profile.kind == "stripe":
        chunk_bytes = int(profile.number("chunk_bytes"))
        row, member, offset, length_bytes = stripe(offset, length_bytes, chunk_bytes, len(profile.members))
    elif profile.kind == "concat":
        bounds = np.cumsum([0, *(drive.capacity_bytes for drive in profile.members)])
        row, member, offset, length_bytes = concatenation(offset, length_bytes, bounds)
    elif profile.kind != "fusion":
        return row, member, offset, length_bytes
    pieces, first = [], 0
    for number, drive in enumerate(profile.members):
        mine = member == number
        inner, on_drive, *places = split(drive, offset[mine], length_bytes[mine], device[row[mine]])
        pieces.append((row[mine][inner], on_drive + first, *places))
        first += len(single_drives(drive))
    read, on_drive, offset, length_bytes = (np.concatenate(each) for each in zip(*pieces, strict=True))
    order = np.argsort(read, kind="stable")
    return read[order], on_drive[order], offset[order], length_bytes[order]


def stripe(offset: I64, length_bytes: I64, chunk_bytes: int, width: int) -> Pieces:
    """Cut at the borders of chunks; chunk i is on drive i modulo width."""
    end = offset + length_bytes
    first = offset // chunk_bytes
    counts = np.maximum(-(-end // chunk_bytes) - first, 1)
    row = owners(counts)
    chunk = first[row] + ordinals(counts)
    begin = np.maximum(offset[row], chunk * chunk_bytes)
    length = np.minimum(end[row], (chunk + 1) * chunk_bytes) - begin
    # A read is complete when its slowest piece is; the drives work in parallel.
    return row, chunk % width, (chunk // width) * chunk_bytes + begin - chunk * chunk_bytes, length


def concatenation(offset: I64, length_bytes: I64, bounds: I64) -> Pieces:
    """Cut at the ends of drives; `bounds` are the sums of their sizes, from 0."""
    end = offset + length_bytes
    first = np.searchsorted(bounds, offset, side="right") - 1
    last = np.searchsorted(bounds, end, side="left") - 1
    counts = np.maximum(last - first, 0) + 1
    row = owners(counts)
    member = first[row] + ordinals(counts)
    begin = np.maximum(offset[row], bounds[member])
    return row, member, begin - bounds[member], np.minimum(end[row], bounds[member + 1]) - begin
