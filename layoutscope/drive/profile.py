"""Drive profiles: the known figures of a drive, each with its source.

A profile is a TOML file: ``name``, ``kind`` (``hdd``, ``ssd``, ``stripe``, ``concat``, ``fusion``), optionally
``take_for`` (which drives it represents, in words) and ``models`` (the model numbers that such drives report),
``[sources]`` (short names for long references) and ``[figures]``, one number per line:
``rpm = { value = 7200, kind = "datasheet", source = "the maker's manual, p. 3" }``. Figures that were extracted from a
drive for a simulator are read as they are: a TOML table with ``arm``, ``command``, ``buffer`` and ``layout``. Profiles
are also made from a data sheet, from fio's JSON, and from the figures of ioping and dd.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import field
from msgspec.structs import replace

from layoutscope import inputs
from layoutscope.display import Displayed, Struct
from layoutscope.errors import ImageError, UsageError, did_you_mean, reason_of
from layoutscope.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


MAX_CYLINDERS: Final = 10**7
MAX_HEADS: Final = 256

_FIGURES: Final[Mapping[str, tuple[str, tuple[Any, ...]]]] = {
    "capacity_bytes": ("bytes that a computer can address", (512, 1e16)),
    "rpm": ("revolutions a minute", (60, 1e6)),
    "heads": ("recording surfaces", (1, MAX_HEADS)),
    "cylinders": ("positions of the arm", (1, MAX_CYLINDERS)),
    "map_file": ("map of all sectors, beside the profile", ()),
    "zones": ("first sector, first cylinder and sectors a track of each zone", ()),
    "band_cylinders": (
        "cylinders that one head serves before the next takes over; 0: all heads in each cylinder",
        (0, MAX_CYLINDERS),
    ),
    "track_skew_turns": ("share of a turn between the end of a track and the start of the next", (0, 1)),
    "cylinder_skew_turns": ("the same if the next track is in the next cylinder, if it differs", (0, 1)),
    "outer_mb_s": ("sustained sequential rate at the outer edge, 10^6 bytes a second", (1e-3, 1e5)),
    "inner_mb_s": ("sustained sequential rate at the inner edge", (1e-3, 1e5)),
    "seek_distance_cylinders": ("distances of the seek table", ()),
    "seek_ms": ("times of the seek table", ()),
    "track_to_track_ms": ("seek by one cylinder", (0, 1e4)),
    "average_seek_ms": ("seek, mean over all pairs of cylinders", (0, 1e4)),
    "full_stroke_ms": ("seek over all cylinders", (0, 1e4)),
    "head_switch_ms": ("change of head in a cylinder", (0, 1e4)),
    "read_miss_ms": ("overhead of a read from the medium, before the arm moves", (0, 1e4)),
    "read_hit_ms": ("service time of a read that the buffer holds", (0, 1e4)),
    "interface_mb_s": ("rate from the buffer to the computer; 0: costs nothing", (0, 1e6)),
    "buffer_bytes": ("buffer in all", (0, 1e12)),
    "segments": ("buffer segments", (1, 65536)),
    "segment_sectors": ("sectors a segment holds", (0, 1e9)),
    "look_ahead": (
        "how far the drive reads on: to the end of the `track`, until the `segment` is full, or `none`",
        ("track", "segment", "none"),
    ),
    "join": (
        "reads that may wait for the look-ahead: `never`, at the `next-sector`, in the whole `window` ahead",
        ("never", "next-sector", "window"),
    ),
    "on_arrival": (
        "what passes under the head before a wanted sector: the sectors of its `track` are kept, or `none`",
        ("none", "track"),
    ),
    "start_anywhere": ("1: of the sectors wanted from a track the drive begins with whichever comes first", (0, 1)),
    "queue_window": ("commands among which the drive chooses the nearest", (1, 65536)),
    "latency_bytes": ("read sizes of the latency table", ()),
    "latency_us": ("latencies of single random reads of these sizes", ()),
    "sequential_us": ("the same of reads that begin where the one before ended, if they differ", ()),
    "bandwidth_mb_s": ("rate at large reads", (1e-3, 1e7)),
    "parallel_reads": ("reads that proceed at once", (1, 65536)),
    "chunk_bytes": ("stripe unit", (512, 1e12)),
}
"""Every figure that a profile may have: its meaning, and its least and greatest number or its allowed words."""

FIGURES: Final[Mapping[str, str]] = {name: meaning for name, (meaning, _) in _FIGURES.items()}
"""Every figure that a profile may have, and its meaning."""

TABLES: Final[Mapping[str, tuple[str, int]]] = {
    # The last two seeks are extrapolated; one latency holds up to its size.
    "seek_ms": ("seek_distance_cylinders", 2),
    "latency_us": ("latency_bytes", 1),
    "sequential_us": ("latency_bytes", 1),
}
"""Lists of results, each with the list of the measured places, and the fewest results in it."""

OPTIONAL: Final = ("sequential_us",)
"""Lists of results that may be absent although the list of the measured places is present."""

_MEMBERS: Final = {
    "sources": dict,
    "figures": dict,
    "members": list,
    "name": str,
    "note": str,
    "take_for": str,
    "models": list,
    "spread": dict,
}
"""Keys that a profile may have besides its kind, and their types."""


def check_figures(profile: str, values: Mapping[str, Any]) -> None:
    """Check all figures of a profile."""
    for name, value in values.items():
        _, allowed = _FIGURES.get(name, ("", ()))
        if allowed and isinstance(allowed[0], str):
            if value not in allowed:
                raise UsageError(f"drive profile {profile}: {name} is {value!r}, not one of {', '.join(allowed)}")
        elif allowed and not _is_within(value, *allowed):
            low, high = allowed
            raise UsageError(f"drive profile {profile}: {name} is {value!r}, not a number from {low:g} to {high:g}")
        # 0 means that the transfer takes no time; a rate close to 0 would take forever.
        if name == "interface_mb_s" and 0 < value < _FIGURES["outer_mb_s"][1][0]:
            raise UsageError(f"drive profile {profile}: {name} is {value!r}, neither 0 nor a rate")
    for result, (of, fewest) in TABLES.items():
        if result not in values and (of not in values or result in OPTIONAL):
            continue
        places, results = values.get(of), values.get(result)
        if not _are_numbers(places, 1e12) or not _are_numbers(results, 1e9) or len(places) != len(results):  # type: ignore[arg-type]
            raise UsageError(f"drive profile {profile}: {of} and {result} are not lists of the same length")
        if len(places) < fewest or any(after <= before for before, after in pairwise(places)):  # type: ignore[arg-type]
            raise UsageError(f"drive profile {profile}: {of} has fewer numbers than {fewest}, or they do not ascend")
    if "zones" not in values:
        return
    rows = values["zones"]
    if not isinstance(rows, list) or not rows or not all(_are_numbers(row, 1e13) for row in rows):
        raise UsageError(f"drive profile {profile}: zones is not a list of rows of numbers")
    if len({len(row) for row in rows}) != 1 or len(rows[0]) < 3 or any(row[2] < 1 for row in rows):
        raise UsageError(f"drive profile {profile}: zones has rows of other lengths, or tracks without a sector")
    for column in (0, 1):
        values_of = [row[column] for row in rows]
        if values_of[0] != 0 or any(after <= before for before, after in pairwise(values_of)):
            raise UsageError(f"drive profile {profile}: zones do not begin at 0, or do not ascend")


def _is_within(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _are_numbers(value: object, largest: float) -> bool:
    return isinstance(value, list) and all(_is_within(item, 0, largest) for item in value)


def check_cylinders(profile: str, cylinders: float) -> int:
    """Return a number of cylinders that follows from other figures, if it is possible."""
    if not math.isfinite(cylinders) or not 0 < cylinders <= MAX_CYLINDERS:
        raise UsageError(f"drive profile {profile}: its figures give {cylinders:g} cylinders")
    return int(cylinders)


def unpack(data: bytes) -> bytes:
    """Decompress a small file that accompanies drive profiles."""
    from layoutscope.zstd import zstd

    decoder, found, rest = zstd.ZstdDecompressor(), bytearray(), data
    try:
        # The library allocates the whole requested size before any output exists.
        while not decoder.eof and len(found) <= MAX_UNPACKED_BYTES:
            if decoder.needs_input and not rest:
                raise ValueError("the compressed data end early")
            found += decoder.decompress(rest, _PIECE_BYTES)
            rest = b""
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from error
    if len(found) > MAX_UNPACKED_BYTES:
        raise ImageError(f"a compressed file holds more than {MAX_UNPACKED_BYTES:,} bytes")
    return bytes(found)


_PIECE_BYTES: Final = 1 << 20
MAX_UNPACKED_BYTES: Final = 1 << 30
"""Size of a trace of 60 million reads; a map of all tracks of a large disk is a tenth of it."""


MAX_FIGURES: Final = 256
LARGEST: Final = 25.0
"""Limit of a variance of logarithms: each figure is known to a factor of e^5."""
_NAME: Final = re.compile(r"([a-z_]+)(?:\[(\d{1,4})\])?")


class Spread(Struct, frozen=True):
    """Figures that were measured together, and the covariance of their errors."""

    figures: tuple[str, ...]  # names of figures, with an index for lists: `rpm`, `seek_ms[3]`
    covariance: tuple[tuple[float, ...], ...]  # of the natural logarithms of the figures


def split_name(figure: str) -> tuple[str, int | None]:
    """Return name and index of a figure: ``rpm`` has no index, that of ``seek_ms[3]`` is 3."""
    found = _NAME.fullmatch(figure)
    if found is None:
        raise UsageError(f"{figure!r} is not a figure of a drive profile")
    return found[1], None if found[2] is None else int(found[2])


def read_spread(profile: str, table: object, values: Mapping[str, Any]) -> Spread:
    """Read the table ``spread`` of a profile."""
    known = table if isinstance(table, dict) else {}
    names, rows = known.get("figures"), known.get("covariance")
    if not isinstance(names, list) or not 0 < len(names) <= MAX_FIGURES or not _are_covariances(rows, len(names)):
        raise UsageError(f"drive profile {profile}: spread is not a list of figures with the covariance of each pair")
    if len(names) != len(set(map(str, names))):
        raise UsageError(f"drive profile {profile}: spread names a figure twice")
    for figure in names:
        name, index = split_name(str(figure))
        value = values.get(name)
        if index is not None and isinstance(value, list):
            value = value[index] if index < len(value) else None
        elif index is not None:
            value = None
        if not isinstance(value, int | float):
            raise UsageError(f"drive profile {profile}: spread names {figure}, which is not a number of the profile")
    return Spread(tuple(names), tuple(tuple(map(float, row)) for row in rows))  # type: ignore[union-attr]


def _are_covariances(rows: object, count: int) -> bool:
    """Return whether rows are a symmetric matrix of the given size with possible values."""
    if not isinstance(rows, list) or len(rows) != count:
        return False
    if not all(isinstance(row, list) and len(row) == count for row in rows):
        return False
    if not all(isinstance(item, int | float) and abs(item) <= LARGEST for row in rows for item in row):
        return False
    matrix = np.array(rows, np.float64)
    return bool(np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-12) and (np.diag(matrix) >= 0).all())


KINDS: Final = ("measured", "datasheet", "fitted", "assumed")

MAX_SETS: Final = 8
"""Maximum nesting depth of sets."""


class Figure(Displayed, Struct, frozen=True):
    """One number of a profile."""

    value: Any  # in the unit that the figure's name ends with
    kind: str  # ``measured``, ``datasheet``, ``fitted`` or ``assumed``
    source: str  # where it comes from


class DriveProfile(Displayed, Struct, frozen=True):
    """The known figures of a drive."""

    name: str  # by which it is loaded
    title: str  # maker, model, size
    kind: str  # ``hdd``, ``ssd``; ``stripe``, ``concat`` and ``fusion`` have members
    figures: Mapping[str, Figure]  # see `FIGURES`
    folder: Path  # folder of the files that it names
    members: tuple[DriveProfile, ...] = field(default=())  # drives of a set, in order
    note: str = ""  # what a user must know before using it
    take_for: str = ""  # which drives it represents, in words; empty if only itself
    # model numbers that such drives report, without the makers' suffixes for sizes and firmware
    models: tuple[str, ...] = ()
    spread: Spread | None = None  # errors of figures that were measured together; None if unknown

    def __contains__(self, figure: str) -> bool:
        return figure in self.figures

    def number(self, figure: str, default: float | None = None) -> float:
        """Return one number, or the default; raise `UsageError` if the number is unknown and has no default."""
        if figure in self.figures:
            return float(self.figures[figure].value)
        if default is None:
            raise UsageError(f"drive profile {self.name} lacks {figure} ({FIGURES[figure]})")
        return default

    def text(self, figure: str, default: str) -> str:
        """Return one figure that is a word."""
        return str(self.figures[figure].value) if figure in self.figures else default

    def numbers(self, figure: str) -> list[Any]:
        """Return one figure that is a list; raise `UsageError` if it is unknown."""
        if figure not in self.figures:
            raise UsageError(f"drive profile {self.name} lacks {figure} ({FIGURES[figure]})")
        return list(self.figures[figure].value)

    @property
    def geometry(self) -> str:
        """How much of the geometry is known: ``map``, ``zones``, ``datasheet``; ``none`` without a rotating disk."""
        if self.kind != "hdd":
            rotating = [member for member in self.members if member.geometry != "none"]
            return rotating[0].geometry if rotating else "none"
        return "map" if "map_file" in self else "zones" if "zones" in self else "datasheet"

    @property
    def turn_ms(self) -> float:
        """Time of a revolution."""
        return 60_000 / self.number("rpm")

    @property
    def capacity_bytes(self) -> int:
        """Bytes that the host can address."""
        if self.members and "capacity_bytes" not in self:
            return sum(member.capacity_bytes for member in self.members)
        return int(self.number("capacity_bytes"))

    def with_figures(self, kind: str = "assumed", source: str = "set by the caller", /, **values: Any) -> DriveProfile:
        """Return the profile with some figures replaced, by default as assumptions; None removes a figure."""
        figures = {name: figure for name, figure in self.figures.items() if name not in values}
        figures |= {name: Figure(value, kind, source) for name, value in values.items() if value is not None}
        return replace(self, figures=figures)

    def drawn(self, normal: NDArray[np.float64]) -> DriveProfile:
        """Return a draw of this drive by its `spread`, from one standard normal number for each of its figures."""
        if self.spread is None:
            return self
        eigenvalues, vectors = np.linalg.eigh(np.array(self.spread.covariance, np.float64))
        # A covariance that was rounded for its file may have tiny negative eigenvalues.
        root = np.asarray(vectors * np.sqrt(np.maximum(eigenvalues, 0)))
        factors = np.exp(root @ np.asarray(normal, np.float64))
        changed: dict[str, Any] = {}
        for figure, factor in zip(self.spread.figures, factors.tolist(), strict=True):
            name, index = split_name(figure)
            value = changed.get(name, self.figures[name].value)
            if index is None:
                low, high = _FIGURES[name][1] or (0, np.inf)
                changed[name] = min(max(value * factor, low), high)
            else:
                changed[name] = [item * factor if k == index else item for k, item in enumerate(value)]
        return replace(self.with_figures(**changed), spread=None)

    def with_cache(self, cache: str) -> DriveProfile:
        """Return the profile with another buffer.

        Parameters
        ----------
        cache : str
            ``own``: unchanged; ``off``: no buffer and no look-ahead; ``join``: a read that begins with the sector that
            the look-ahead reads next waits for it; ``no-join``: a read waits only if its first sector is already in
            the buffer.
        """
        changes = {
            "own": {},
            "off": {"look_ahead": "none"},
            "join": {"join": "next-sector"},
            "no-join": {"join": "never"},
        }
        if cache not in changes:
            raise UsageError(f"unknown cache setting {cache!r}. Choose from: {', '.join(changes)}")
        members = tuple(member.with_cache(cache) for member in self.members)
        # Buffer settings from the caller are fixed; assumed settings would be drawn.
        said = {name: Figure(value, "measured", "set by the caller") for name, value in changes[cache].items()}
        figures = {**self.figures, **said} if self.kind == "hdd" else self.figures
        return replace(self, figures=figures, members=members)


def profile_folder() -> Path:
    """Return the folder of the profiles that come with the package."""
    return Path(__file__).with_name("profiles")


def list_profiles() -> list[str]:
    """Return the names of the profiles that come with the package, sorted."""
    return sorted(
        entry.name.removesuffix(".toml") for entry in profile_folder().iterdir() if entry.name.endswith(".toml")
    )


def fusion_set(main: DriveProfile, second: DriveProfile, name: str = "") -> DriveProfile:
    """Make a set of two drives, each of which stores one image of a Fusion set; rotating ones must be of one kind."""
    title = main.title if main is second else f"{main.title} and {second.title}"
    note = main.note if main is second else " ".join(filter(None, (main.note, second.note)))
    name = name or f"{_SET_WORDS[0]}={main.name},{_SET_WORDS[1]}={second.name}"
    return DriveProfile(name, title, "fusion", {}, main.folder, (main, second), note)


_SET_WORDS: Final = ("main", "second")


def load_profile(name: str | Path) -> DriveProfile:
    """Load a profile by name, by the model number of a drive that it represents, or from a TOML file.

    Parameters
    ----------
    name : str or path
        One of :func:`list_profiles`, a model number as a drive reports it, or a file that ends in ``.toml``; or
        ``main=NAME,second=NAME``, the two drives of a Fusion set.

    Raises
    ------
    UsageError
        If there is no such profile, or it is malformed; the message names the figure.

    Examples
    --------
    >>> import layoutscope
    >>> layoutscope.load_profile("generic-7200").number("rpm")
    7200.0
    """
    parts = dict(part.partition("=")[::2] for part in str(name).split(","))
    if all(parts.values()) and parts.keys() & set(_SET_WORDS):
        if parts.keys() != set(_SET_WORDS):
            raise UsageError(f"{name}: a Fusion set has two drives. Write main=PROFILE,second=PROFILE.")
        main, second = (load_profile(parts[word]) for word in _SET_WORDS)
        return fusion_set(main, second)
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise UsageError(f"no drive profile at {path}")
        return parse_profile(read_profile(path), name=path.stem, folder=path.parent)
    known = list_profiles()
    if str(name) in known:
        return _load_shipped(str(name))
    asked = _normalise(str(name))
    by_model = {_normalise(model): profile for profile in map(_load_shipped, known) for model in profile.models}
    found = [profile for model, profile in by_model.items() if asked.startswith(model)]
    if found:
        return found[0]
    like = did_you_mean(str(name), known)
    take = "or FILE.toml; 'layoutscope drives' says what to take each for"
    raise UsageError(f"unknown drive profile {str(name)!r}{like}. Choose from: {', '.join(known)}, {take}")


def _load_shipped(name: str) -> DriveProfile:
    folder = profile_folder()
    return parse_profile((folder / f"{name}.toml").read_text("utf-8"), name=name, folder=folder)


def _normalise(model: str) -> str:
    """Normalise a model number: systems write it with different case, blanks and hyphens."""
    return re.sub(r"[\s_-]", "", model).casefold()


def read_profile(path: Path) -> str:
    """Read a profile's text."""
    try:
        return inputs.read_text(path, max_bytes=inputs.MAX_PARSED_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read as a drive profile: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: cannot be read as a drive profile") from error


def parse_profile(text: str, *, name: str, folder: Path, sets: tuple[str, ...] = ()) -> DriveProfile:
    """Read a profile from its TOML text; `sets` are those that contain it, outermost first."""
    if name in sets or len(sets) > MAX_SETS:
        raise UsageError(f"drive profile {name} is a member of itself, or of too many sets: {', '.join(sets)}")
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"drive profile {name}: {error}") from error
    for key, expected in _MEMBERS.items():
        if not isinstance(table.get(key, expected()), expected):
            raise UsageError(f"drive profile {name}: {key} is not a {expected.__name__}")
    for key in ("members", "models"):
        if not all(isinstance(member, str) for member in table.get(key, [])):
            raise UsageError(f"drive profile {name}: {key} are named by text")
    words: dict[str, Any] = {"take_for": table.get("take_for", ""), "models": tuple(table.get("models", ()))}
    if all(isinstance(table.get(part), dict) for part in EXTRACTED):
        return replace(_make_extracted_profile(table, name, folder), **words)
    sources = table.get("sources", {})
    figures = {key: _figure(name, key, entry, sources) for key, entry in table.get("figures", {}).items()}
    values = {key: figure.value for key, figure in figures.items()}
    check_figures(name, values)
    kind = table.get("kind", "hdd")
    if kind not in ("hdd", "ssd", "stripe", "concat", "fusion"):
        raise UsageError(f"drive profile {name}: unknown kind {kind!r}")
    if "spread" in table:
        words["spread"] = read_spread(name, table["spread"], values)
    members = []
    for member in table.get("members", []):
        path = folder / member
        if member.endswith(".toml") and path.is_file():
            within = (*sets, name)
            members.append(
                parse_profile(read_profile(path), name=member.removesuffix(".toml"), folder=folder, sets=within)
            )
        else:
            members.append(load_profile(member))
    title, note = table.get("name", name), table.get("note", "")
    return DriveProfile(name, title, kind, figures, folder, tuple(members), note, **words)


EXTRACTED: Final = ("arm", "command", "buffer", "layout")
"""Tables that describe a drive in parameter extraction: the figures published with results of the DiskSim simulator."""


def _make_extracted_profile(table: Mapping[str, Any], name: str, folder: Path) -> DriveProfile:
    """Make a profile of the figures published with a simulator's results, all of them measured.

    A read that begins with the sector that the look-ahead reads next may wait for it, regardless of the table: a drive
    that refused this would lose a revolution at each read of a stream.
    """
    arm, command, buffer = table["arm"], table["command"], table["buffer"]
    try:
        values = {
            "capacity_bytes": table["capacity_bytes"],
            "rpm": 60_000 / table["revolution_ms"] if "revolution_ms" in table else table["rpm"],
            "heads": table["heads"],
            "cylinders": table["cylinders"],
            "map_file": table["layout"]["map_file"],
            "seek_distance_cylinders": arm["seek_distance_cyl"],
            "seek_ms": arm["seek_read_ms"],
            "head_switch_ms": arm["head_switch_ms"],
            "read_miss_ms": command["read_miss_ms"],
            "read_hit_ms": command["read_hit_ms"],
            "segments": buffer["segments"],
            "segment_sectors": buffer["segment_sectors"],
            "look_ahead": "track",
            "join": "next-sector",
            "start_anywhere": int(buffer.get("start_anywhere_in_request", False)),
        }
    except KeyError as error:
        raise UsageError(f"drive profile {name} lacks {error}") from error
    except (TypeError, ValueError, ArithmeticError) as error:
        raise UsageError(f"drive profile {name}: {error}") from error
    check_figures(name, values)
    figures = {key: Figure(value, "measured", "extracted from the drive") for key, value in values.items()}
    return DriveProfile(name, table.get("name", name), "hdd", figures, folder)


def _figure(profile: str, key: str, entry: object, sources: Mapping[str, str]) -> Figure:
    if key not in FIGURES:
        raise UsageError(f"drive profile {profile}: unknown figure {key}")
    if not isinstance(entry, dict) or not {"value", "kind", "source"} <= entry.keys():
        raise UsageError(f"drive profile {profile}: {key} needs value, kind and source")
    if entry["kind"] not in KINDS:
        raise UsageError(f"drive profile {profile}: {key} is {entry['kind']!r}, not one of {', '.join(KINDS)}")
    if not isinstance(entry["source"], str):
        raise UsageError(f"drive profile {profile}: the source of {key} is not a text")
    return Figure(entry["value"], entry["kind"], str(sources.get(entry["source"], entry["source"])))


OVERHEAD_MS: Final = 0.15
"""Command overhead if nothing is known; measured drives have 0.07 to 0.28 ms."""


LEAST_COVERED: Final = 0.05
"""Least share of a drive for which random reads represent all of it: errors grow by the root of its inverse."""
INNER_PART: Final = 0.7
"""From this share of the drive on, a sequential rate counts as that of the inner edge."""


def from_datasheet(name: str, *, title: str = "", source: str = "datasheet", **figures: float) -> DriveProfile:
    """Make the profile of a disk from its data sheet, with assumed values for figures that data sheets lack."""
    needed = ("capacity_bytes", "rpm", "track_to_track_ms", "average_seek_ms", "outer_mb_s", "inner_mb_s")
    missing = [figure for figure in needed if figure not in figures]
    if missing:
        raise UsageError(f"a datasheet profile needs {', '.join(missing)}")
    assumed: dict[str, Any] = {
        "read_miss_ms": OVERHEAD_MS,
        "read_hit_ms": OVERHEAD_MS,
        "buffer_bytes": 8 << 20,
        "look_ahead": "segment",
        "on_arrival": "none",
        "join": "window",
    }
    known = {key: Figure(value, "assumed", "no datasheet says this") for key, value in assumed.items()}
    known |= {key: Figure(value, "datasheet", source) for key, value in figures.items()}
    return DriveProfile(name, title or name, "hdd", known, Path())


def from_fio(report: Mapping[str, Any], base: DriveProfile, *, name: str = "fitted") -> DriveProfile:
    """Fit a profile to the report of ``fio --output-format=json``.

    Uses the jobs whose options describe their reads: random reads at queue depth 1, whose median fits the average seek
    of a disk or the latency of flash; and sequential reads, whose rate fits the outer rate or the bandwidth.
    """
    fitted = replace(base, name=name, title=f"{base.title}, fitted with fio")
    options = dict(report.get("global options", {}))
    num_fitted = 0
    for job in report.get("jobs", []):
        what = options | job.get("job options", {})
        read = job.get("read", {})
        # fio's own default is a depth of 1. With deeper queues, the drive chooses the nearest of several reads, so
        # their latency says nothing about a single seek.
        if what.get("rw") == "randread" and int(what.get("iodepth", 1)) == 1:
            # These options bound the part of the drive that a job reads from; without them, it is all of it.
            covered = [_part(what[key], fitted.capacity_bytes) for key in ("size", "filesize") if what.get(key)]
            length = parse_size(str(what.get("bs", "4k")))
            # Completion latency excludes the host's cost of submission, which is not a property of the drive.
            latency = read.get("clat_ns") or read.get("lat_ns") or {}
            median_ns = latency.get("percentile", {}).get("50.000000", latency.get("mean"))
            if not median_ns:
                raise UsageError("the fio report has no read latency")
            fitted = fit_latency(
                fitted, float(median_ns) / 1e6, length, range_bytes=min(covered, default=None), source="fio JSON"
            )
            count, deviation = float(latency.get("N", 0)), float(latency.get("stddev", 0)) / 1e6
            if fitted.kind == "hdd" and count >= 2 and deviation > 0:
                # The error of the average seek is the standard error of the mean of the reads.
                error = min(deviation / count**0.5 / fitted.number("average_seek_ms"), 1.0)
                fitted = replace(fitted, spread=Spread(("average_seek_ms",), ((error**2,),)))
            num_fitted += 1
        elif what.get("rw") == "read" and read.get("bw_bytes"):
            at = _part(what.get("offset", "0"), fitted.capacity_bytes) / fitted.capacity_bytes
            fitted = fit_rate(fitted, float(read["bw_bytes"]) / 1e6, at=at, source="fio JSON")
            num_fitted += 1
    if not num_fitted:
        raise UsageError("the fio report has neither random reads at queue depth 1 nor sequential reads")
    return fitted


def _part(text: object, capacity_bytes: int) -> int:
    """Parse a fio size, which may be a share of the drive."""
    word = str(text)
    if not word.endswith("%"):
        return parse_size(word)
    try:
        return int(float(word[:-1]) / 100 * capacity_bytes)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{word!r} is not a share of a drive") from error


def fit_latency(
    profile: DriveProfile,
    random_ms: float,
    length_bytes: int = 4096,
    *,
    range_bytes: int | None = None,
    source: str,
) -> DriveProfile:
    """Fit a profile to the latency of single random reads, as ioping and fio measure it.

    Disk: mean seek = latency - half a revolution - overhead, which assumes the other figures of the profile. If the
    reads covered only part of the drive, the seek is scaled: seek time above the track-to-track time rises with the
    square root of the distance. Flash: the latency of that read size.
    """
    if profile.kind == "ssd":
        return profile.with_figures("fitted", source, latency_bytes=[length_bytes], latency_us=[random_ms * 1000])
    overhead = profile.number("read_miss_ms", OVERHEAD_MS)
    # When the arm has settled, a sector at a random place is half a revolution away on average.
    seek = random_ms - profile.turn_ms / 2 - overhead
    shortest = profile.number("track_to_track_ms", 0.0)
    if seek <= shortest:
        raise UsageError(f"a random read of {random_ms:g} ms leaves no time for a seek at this rotation speed")
    covered = min((range_bytes or profile.capacity_bytes) / profile.capacity_bytes, 1.0)
    if covered < LEAST_COVERED:
        raise UsageError(
            f"the random reads covered {covered:.2%} of the drive, which says nothing of its seeks; "
            f"read from at least {LEAST_COVERED:.0%} of it, such as with size=100% on the device itself"
        )
    seek = shortest + (seek - shortest) / covered**0.5
    # A full stroke that belongs to another average would bend the curve; without it, it follows from the other two.
    return profile.with_figures("fitted", source, average_seek_ms=seek, full_stroke_ms=None)


def fit_rate(profile: DriveProfile, rate_mb_s: float, *, at: float = 0.0, source: str) -> DriveProfile:
    """Fit a profile to a sequential rate, as dd measures it, in 10^6 bytes a second.

    The inner rate keeps its ratio to the outer rate, and rates in between are assumed to fall linearly. A rate measured
    in the inner part counts as the inner rate.
    """
    if profile.kind == "ssd":
        return profile.with_figures("fitted", source, bandwidth_mb_s=rate_mb_s)
    if at >= INNER_PART:
        return profile.with_figures("fitted", source, inner_mb_s=min(rate_mb_s, profile.number("outer_mb_s")))
    ratio = profile.number("inner_mb_s") / profile.number("outer_mb_s")
    outer = rate_mb_s / (1 - (1 - ratio) * at)
    return profile.with_figures("fitted", source, outer_mb_s=outer, inner_mb_s=ratio * outer)


def profile_text(profile: DriveProfile) -> str:
    """Return a profile as the TOML text that `load_profile` reads."""
    lines = [f"name = {_toml(profile.title)}", f"kind = {_toml(profile.kind)}"]
    if profile.take_for:
        lines.append(f"take_for = {_toml(profile.take_for)}")
    if profile.models:
        lines.append(f"models = {_toml(list(profile.models))}")
    if profile.members:
        lines.append(f"members = {_toml([member.name for member in profile.members])}")
    if profile.note:
        lines.append(f"note = {_toml(profile.note)}")
    lines += ["", "[figures]"]
    lines += [
        f"{key} = {{ value = {_toml(figure.value)}, kind = {_toml(figure.kind)}, source = {_toml(figure.source)} }}"
        for key, figure in profile.figures.items()
    ]
    if profile.spread is not None:
        rows = (f"  {_toml([float(f'{item:.3g}') for item in row])}," for row in profile.spread.covariance)
        lines += ["", "[spread]", f"figures = {_toml(list(profile.spread.figures))}", "covariance = [", *rows, "]"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Return a string, a number or a list of these as TOML; their JSON is also valid TOML."""
    return json.dumps(value, ensure_ascii=False)
