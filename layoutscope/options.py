"""The options of every verb: each option once, with its type, unit, default and help; cheap to import.

A group of options is a ``TypedDict`` of ``Annotated`` types. Type checkers read it as the keywords of a verb
(``Unpack``). From the :class:`Option` of each come the checks, the signature and the help of the library
(:mod:`layoutscope.api.keywords`), the parameters of the commands (:mod:`layoutscope.cli.parameters`) and the reference.
Inside, a request is the same dictionary with every default filled in (:func:`fill`).
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypedDict, TypeVar, cast, get_args

from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from layoutscope.progress import Progress

Path = str | os.PathLike[str]
Drives = Path | Sequence[Path]
"""One profile or several, each a name or a TOML file."""

PLACE, WORKLOAD, OUTPUT = "Place", "Workload", "Output"
RECORDED, FIT, MEASURE = "Recordings of fs_usage, iosnoop, biosnoop", "Fitting a new profile", "Measuring a drive"
PROCESS_LIMITS, QUERY_LIMITS = "Limits of each process", "Limits of a query"
VOLUME, ENCRYPTED = "Choosing the volume", "Encrypted"
DAMAGED, COMPRESSED = "Damaged images", "Compressed images"
"""The panels of the help, one for each question that a user has."""

PANELS: Final = (
    *(PLACE, WORKLOAD, RECORDED, FIT, MEASURE, PROCESS_LIMITS, QUERY_LIMITS),
    *(OUTPUT, VOLUME, ENCRYPTED, DAMAGED, COMPRESSED, "Other"),
)
"""Every panel, in the order in which help shows them."""

FOLDED: Final = (VOLUME, ENCRYPTED, DAMAGED, COMPRESSED)
"""Panels with the options that all commands share, which only ``--help-all`` shows."""

Unit = Literal["", "bytes", "microseconds", "milliseconds", "MB/s", "sectors", "count", "number"]
"""What a number counts; a ``number`` is one by which something is called, and has no unit."""

Form = Literal["", "text", "files", "bytes", "place", "seconds", "lines", "offsets", "pairs", "numbers"]
"""Ways to write an option on the command line that its type does not say."""

ORDERS: Final = (
    *("fts", "readdir-stat", "du", "backup", "backup-events", "delete", "mount", "fsck", "find", "ls", "ls-folder"),
    *("archive", "git-status", "search", "bulk", "names", "catalog", "searchfs", "paths", "copy", "read"),
)
PLANNED_ORDERS: Final = ("fts", "readdir-stat", "du", "backup", "ls", "git-status", "copy", "archive")
EXPORTED_TABLES: Final = (
    *("nodes", "node_fragments", "node_views", "regions", "extents", "entries", "free", "findings"),
    *("metrics", "times", "directories", "reads", "all"),
)
EXPORT_FORMATS: Final = ("csv", "parquet", "jsonl", "bodyfile", "dfxml", "speedscope", "perfetto", "folded")
LIST_FORMATS: Final = ("text", "csv", "jsonl", "parquet")
TRACE_FORMATS: Final = ("csv", "fio", "blkparse", "pairs", "fs_usage", "iosnoop", "biosnoop")


class Option(NamedTuple):
    """The facts about an option besides its type, for the library and the command line."""

    help: str  # what it does; of a switch that is on, what its absence does
    default: Any = None  # what holds without it
    unit: Unit = ""
    panel: str = WORKLOAD
    metavar: str = ""  # what stands for its value, where its type and unit do not say it
    # how it is spelt on the command line: `--` and its name without it; empty if it is not offered there
    flag: str | None = None
    absence: str = ""  # what holds without it in words, where the default does not say it
    choices: tuple[str, ...] = ()  # what it may be
    least: int | None = None  # of a number
    most: int | None = None
    form: Form = ""  # how it is written on the command line, where its type does not say it
    kind: str = ""  # its type as numpydoc writes types, where the annotation does not say it
    more: str = ""  # what the reference of the library adds


Kind = TypeVar("Kind")


def options_of(kind: type) -> dict[str, Option]:
    """Return the options of a group by name, in order: those of reading follow its own."""
    found = {name: hint.__metadata__[0] for name, hint in kind.__annotations__.items()}
    reading = ReadOptions.__annotations__
    return dict(sorted(found.items(), key=lambda item: item[0] in reading))


def own_options(kind: type) -> dict[str, Option]:
    """Return the options of a group without those of reading an image."""
    found: dict[str, Option] = leave_out(options_of(kind), ReadOptions.__annotations__)
    return found


def fill(kind: type[Kind], given: Mapping[str, Any]) -> Kind:
    """Take the options of a group, as given or as they are without; others are left aside."""
    return cast("Kind", {name: given.get(name, option.default) for name, option in options_of(kind).items()})


def flags_of(name: str, option: Option) -> list[str]:
    """Return how an option is spelt on the command line; a switch that is on has the flag that turns it off."""
    return (option.flag or f"--{'no-' * (option.default is True)}{name.replace('_', '-')}").split()


def check_numbers(kind: type, given: Mapping[str, Any]) -> None:
    """Refuse numbers outside the bounds of their options, which would be misread or fail far from here."""
    for name, hint in kind.__annotations__.items():
        option, value = hint.__metadata__[0], given.get(name)
        if option.least is None or value is None:
            continue
        is_float = float in (hint.__origin__, *get_args(hint.__origin__))
        numbers, called = (Real, "a number") if is_float else (Integral, "a whole number")
        if not (isinstance(value, numbers) and option.least <= value <= (option.most or math.inf)):
            bounds = f"{option.least:,} or more" if option.most is None else f"{option.least:,} to {option.most:,}"
            message = f"{name} must be {called}, {bounds}: it is {value!r}"
            raise UsageError(message, options={name: flags_of(name, option)[-1]})


def leave_out(given: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Take the options that are given, but those of some names."""
    left_out = set(names)
    return {name: value for name, value in given.items() if name not in left_out}


DrivesOption = Annotated[
    Drives | None,
    Option(
        "Drive by profile, model number or FILE.toml, or main=NAME,second=NAME of a Fusion set; 'layoutscope drives' "
        "shows which to choose.",
        kind="str or sequence of str",
        more="One or several; none with an empty sequence.",
        flag="--drive",
        absence="generic-5400-2.5, generic-7200, sata-ssd",
    ),
]
HostOption = Annotated[
    str | None,
    Option(
        "Operating system to model.",
        choices=("linux", "macos"),
        absence="the one that wrote the volume last, macos where that is unknown",
    ),
]
StartOffset = Annotated[
    int, Option("Start of the image, or of the traced disk, on the drive.", 0, "bytes", flag="--start-offset")
]
Force = Annotated[bool, Option("Overwrite existing outputs, if layoutscope wrote them.", default=False, panel=OUTPUT)]
HashNames = Annotated[bool, Option("Save hashes in place of names.", default=False, panel=OUTPUT)]


class SharedReadOptions(TypedDict, total=False):
    """How an image is opened and which of its volumes are read, whatever its file system."""

    partition: Annotated[
        int | None, Option("Read only the volumes of this partition.", unit="number", panel=VOLUME, absence="all")
    ]
    volume: Annotated[
        str | int | None, Option("Read only the volume with this name or number (from 1).", panel=VOLUME, absence="all")
    ]
    volume_at: Annotated[
        int | None,
        Option(
            "Read the volume that starts at this byte, even if no partition map lists it.",
            unit="bytes",
            panel=VOLUME,
            absence="anywhere",
        ),
    ]
    sweep: Annotated[
        bool,
        Option(
            "Search the whole volume for nodes and rebuild broken trees.",
            default=False,
            panel=DAMAGED,
            more="If no partition map names a volume, the whole image is searched for one.",
        ),
    ]
    names: Annotated[bool, Option("Leave out file names.", default=True, panel=OUTPUT)]
    ddrescue_map: Annotated[
        Path | None,
        Option(
            "Treat areas that this ddrescue map marks as bad as unread, not as zeros.",
            panel=DAMAGED,
            absence="no bad areas",
        ),
    ]
    cache_dir: Annotated[
        Path | None, Option("Keep decompressed images in this folder.", panel=COMPRESSED, metavar="DIR")
    ]
    progress: Annotated[
        "Progress | None",
        Option(
            "Called with each step of long work, in the working thread: :class:`layoutscope.progress.Step` "
            "with its phase, the amounts done and in total, and their unit. Without it nothing is shown.",
            kind="callable",
            flag="",
        ),
    ]
    on_damage: Annotated[
        Callable[[str, float | None, int], None] | None,
        Option(
            "Called with the name of an image that was read only in part, the share of the known metadata that was "
            "read (None if unknown), and the number of errors.",
            flag="",
        ),
    ]
    on_locked: Annotated[
        Callable[[str], None] | None,
        Option(
            "Called with a sentence that names an image, its volumes that stayed locked, and what opens them.", flag=""
        ),
    ]


LISTENER_OPTIONS: Final = ("progress", "on_damage", "on_locked")
"""Options that are callbacks: another process cannot call them."""


class ReadOptions(SharedReadOptions, total=False):
    """How an image is opened and which of its volumes are read; every verb takes these.

    The own options of the file systems of this package are here for type checkers and for their texts. Each file
    system lists the ones that it has (`ReadOption`); those of other packages are keywords like these.
    """

    second: Annotated[Path | None, Option("The other image of a Fusion set.")]
    xid: Annotated[int | None, Option("Read the state of this transaction.", unit="number")]
    snapshot: Annotated[str | None, Option("Read the snapshot of this name.")]
    password: Annotated[str | None, Option("Password or recovery key.")]
    no_journal: Annotated[bool, Option("Do not replay the journal.", default=False)]


class CommandOptions(TypedDict, total=False):
    """Further options of commands that read images, which only the command line has."""

    no_cache: Annotated[bool, Option("Do not cache decompressed images.", default=False, panel=COMPRESSED)]
    evidence: Annotated[
        Sequence[Path] | None,
        Option(
            "Hash all image files before and after, and write the report to a .txt or .json file.",
            panel=OUTPUT,
            absence="not hashed",
            form="files",
        ),
    ]
    quiet: Annotated[bool, Option("Do not show progress.", default=False, panel="")]


class EnumerationOptions(ReadOptions, total=False):
    """On which drives and by whose drivers volumes are enumerated, and how their images are read."""

    drives: DrivesOption
    host: HostOption


class ScanOptions(EnumerationOptions, total=False):
    """What a scan is asked."""

    strict: Annotated[bool, Option("Treat damage as an error.", default=False, panel=DAMAGED)]
    identify: Annotated[bool, Option("Hash the metadata, as for a capture.", default=False, flag="")]


class PageOptions(TypedDict, total=False):
    """What the page of a map shows and carries."""

    difference: Annotated[
        bool,
        Option(
            "Two states of one volume, the earlier first: show what moved, appeared and went.",
            default=False,
            panel=OUTPUT,
        ),
    ]
    all_paths: Annotated[
        bool,
        Option(
            "Include the path and place of every file; about 10 MB for a million files.", default=False, panel=OUTPUT
        ),
    ]


class MapOptions(PageOptions, EnumerationOptions, total=False):
    """What a map shows, where it goes, and how its images are read."""

    picture: Annotated[
        Path | None,
        Option("Also write the figure of the page as PNG or SVG.", panel=OUTPUT, flag="--png", absence="not drawn"),
    ]
    force: Force


class SeriesOptions(EnumerationOptions, total=False):
    """What a series is ordered by, and how its images are read."""

    by: Annotated[
        str,
        Option(
            "Sort the images: as given, by transaction or by last change.",
            "order",
            panel=OUTPUT,
            choices=("order", "xid", "time"),
        ),
    ]


class Workload(TypedDict, total=False):
    """What is done on a volume; every verb that walks takes these."""

    order: Annotated[
        str, Option("Workload to model; 'layoutscope explain ORDER' describes each.", "fts", choices=ORDERS)
    ]
    host: HostOption
    host_properties: Annotated[
        Mapping[str, object],
        Option(
            "Change a property of the operating system, such as read_ahead_bytes=256KiB.",
            {},
            flag="--host-property",
            more="Names are those of :class:`layoutscope.walk.HostProfile`; properties of a file system's driver have "
            "its name in front, its costs as ``name.node_us``.",
            metavar="NAME=VALUE",
            absence="as the operating system",
            form="pairs",
        ),
    ]
    start: Annotated[str | None, Option("Start at this directory.", metavar="PATH", absence="the root")]
    stat: Annotated[bool, Option("Use fts with FTS_NOSTAT, which stats only directories.", default=True)]
    paths: Annotated[
        Sequence[str] | None,
        Option("For paths and backup-events: a file with one path per line.", absence="none", form="lines"),
    ]
    file: Annotated[str | None, Option("For read: the file.", metavar="PATH", absence="none")]
    records: Annotated[
        int | None, Option("For read: number of random records.", unit="count", absence="the whole file", least=1)
    ]
    record_bytes: Annotated[int, Option("For read: length of a record.", 4096, "bytes", flag="--record-size", least=1)]
    seed: Annotated[int, Option("For read: seed of the random records.", 1, "number")]
    offsets: Annotated[
        Sequence[int] | None,
        Option(
            "For read: a file with byte offsets of records, the last number of each line.",
            unit="bytes",
            absence="random ones",
            form="offsets",
        ),
    ]
    memory_bytes: Annotated[
        int | None,
        Option("Memory for the cache.", unit="bytes", flag="--memory", metavar="SIZE", absence="unlimited", least=0),
    ]
    threads: Annotated[
        int,
        Option(
            "Number of threads that share the computer's time between reads; the drive still gets one read at a time.",
            1,
            "count",
            more="Several at a time are the remedy ``more-in-flight`` of :func:`layoutscope.plan`.",
            least=1,
        ),
    ]
    warm: Annotated[
        bool,
        Option(
            "Start with the data of a first pass in memory.",
            default=False,
            more="The name cache is filled too, if the names fit.",
        ),
    ]
    passes: Annotated[int, Option("Number of passes.", 1, "count", least=1)]


class TraceOptions(Workload, ReadOptions, total=False):
    """What is done on a volume, and how its image is read."""


class Predict(Workload, total=False):
    """What is done on a volume, and what a prediction is asked about it."""

    start_offset_bytes: StartOffset
    what_ifs: Annotated[
        str | Sequence[str],
        Option(
            "Also predict with one change, such as outer-zone, no-snapshots, double-cache or ssd; 'layoutscope "
            "explain what-if' lists all.",
            (),
            flag="--what-if",
            absence="packed",
        ),
    ]
    top: Annotated[
        int, Option("Number of directories to list, the most expensive first.", 10, "count", panel=OUTPUT, least=0)
    ]
    placement: Annotated[
        Literal["known", "unknown"],
        Option("unknown: also for a similar volume of another age and place (and order, if it shows none).", "known"),
    ]


class PredictOptions(Predict, ReadOptions, total=False):
    """What a prediction is asked, on which drives, and how its image is read."""

    drives: DrivesOption
    ncdu: Annotated[
        Path | None,
        Option(
            "Write the costs of all directories for ncdu -f, with milliseconds as sizes.",
            more="They are those of the first volume on the first drive.",
            panel=OUTPUT,
            absence="not written",
        ),
    ]
    force: Force


class PlanOptions(ReadOptions, total=False):
    """The work that is to take less, what is written for it, and how its image is read."""

    drive: Annotated[
        Path,
        Option(
            "Drive by profile, model number or FILE.toml; 'layoutscope drives' shows which to choose.",
            "generic-5400-2.5",
            form="text",
        ),
    ]
    order: Annotated[
        str,
        Option(
            "Workload to speed up: a listing, or copy and archive, which read contents.", "fts", choices=PLANNED_ORDERS
        ),
    ]
    host: HostOption
    start_offset_bytes: StartOffset
    shows_all: Annotated[
        bool,
        Option(
            "Also list remedies that would not help or do not apply.",
            default=False,
            panel=OUTPUT,
            flag="--all",
            more="Tables and JSON always do.",
        ),
    ]
    emit_order: Annotated[
        Path | None,
        Option("Write a list of all files, in the best order to read them.", panel=OUTPUT, absence="not written"),
    ]
    emit_script: Annotated[
        Path | None,
        Option(
            "Write a script that copies the files of that list with tar, cp or rsync.",
            panel=OUTPUT,
            absence="not written",
        ),
    ]
    is_null_separated: Annotated[
        bool, Option("End names in the list with a zero byte.", default=False, panel=OUTPUT, flag="--null -0")
    ]
    memory_bytes: Annotated[
        int | None,
        Option("Memory for sorting the list.", unit="bytes", flag="--memory", metavar="SIZE", absence="unlimited"),
    ]
    lasts: Annotated[
        int | None,
        Option(
            "Also forecast this many cycles, to show how long remedies last; slower than the plan.",
            unit="count",
            metavar="CYCLES",
            absence="not forecast",
            least=1,
        ),
    ]
    force: Force


class ForecastOptions(ReadOptions, total=False):
    """What happens to a volume, how often it is simulated, and how its images are read."""

    cycles: Annotated[int, Option("Number of cycles to simulate.", 20, "count", least=0, most=10_000)]
    workload: Annotated[
        str, Option("Changes per cycle: replace, replace-directories, add, delete or mixed.", "replace")
    ]
    share: Annotated[
        float | None,
        Option(
            "Share of the files that change per cycle.",
            unit="number",
            metavar="SHARE",
            absence="0.05, or measured from several images",
        ),
    ]
    seeds: Annotated[int, Option("Number of simulations.", 4, "count", least=1, most=64)]
    keep_snapshots: Annotated[int, Option("Number of cycles that snapshots keep replaced files.", 0, "count", least=0)]
    drives: DrivesOption
    host: HostOption


class InspectOptions(ReadOptions, total=False):
    """What an inspection looks at, one place, and how its image is read."""

    node: Annotated[
        str | None,
        Option("Show this node, such as catalog:3 or fs:1028.", panel=PLACE, metavar="TREE:NUMBER", absence="none"),
    ]
    at: Annotated[
        int | None, Option("Show the structure at this byte of the image.", unit="bytes", panel=PLACE, absence="none")
    ]
    lba: Annotated[
        int | None, Option("Show the structure in this sector.", unit="sectors", panel=PLACE, absence="none")
    ]
    cnid: Annotated[
        int | None, Option("Show the file with this CNID or inode number.", unit="number", panel=PLACE, absence="none")
    ]
    file_path: Annotated[
        str | None, Option("Show the file at this path.", panel=PLACE, flag="--path", metavar="PATH", absence="none")
    ]


class Replay(TypedDict, total=False):
    """How a trace is served, and what a recording by blocks does not contain."""

    form: Annotated[
        str, Option("Format of the trace.", "", flag="--format", absence="from the content", choices=TRACE_FORMATS)
    ]
    start_offset_bytes: StartOffset
    buffer: Annotated[
        str,
        Option(
            "Buffer of the drive: its own, off, or with (join) or without (no-join) waiting for look-ahead.",
            "own",
            more="See :meth:`layoutscope.drive.DriveProfile.with_cache`.",
            choices=("own", "off", "join", "no-join"),
        ),
    ]
    think_us: Annotated[
        float | None,
        Option("Microseconds between reads.", unit="microseconds", metavar="US", absence="the trace's", least=0),
    ]
    queue_depth: Annotated[int, Option("Number of outstanding reads.", 1, "count", least=1)]
    trace_unit: Annotated[
        int | None,
        Option("Bytes per block number: 512 or 4096.", unit="bytes", panel=RECORDED, absence="found by trial"),
    ]
    trace_at: Annotated[
        int | None,
        Option(
            "Place of block 0 on the image; negative if block 0 is before the image.",
            unit="bytes",
            panel=RECORDED,
            absence="found by trial",
            form="place",
        ),
    ]
    trace_devices: Annotated[
        Sequence[str] | None,
        Option(
            "Use only reads of this device, such as disk3s5.",
            panel=RECORDED,
            flag="--trace-device",
            absence="those on the image",
        ),
    ]
    trace_processes: Annotated[
        Sequence[str] | None,
        Option(
            "Use only reads of this program, such as find.",
            panel=RECORDED,
            flag="--trace-process",
            absence="the one that reads most nodes",
        ),
    ]


class ReplayOptions(Replay, Workload, ReadOptions, total=False):
    """How a trace is served, what was done on the image, and how that is read."""

    drives: DrivesOption
    against: Annotated[
        Path | None, Option("Image that was read; its prediction is scored.", metavar="IMAGE", absence="nothing")
    ]


class ValidateOptions(TypedDict, total=False):
    """What a kit is compared with."""

    drive: Annotated[
        Path | None,
        Option(
            "Drive by profile, model number or FILE.toml.",
            absence="as the kit measured it, else by its model",
            form="text",
        ),
    ]
    against: Annotated[Path | None, Option("Image or capture of the volume.", metavar="IMAGE", absence="the kit's")]


class ExportOptions(Workload, ReadOptions, total=False):
    """How an export is written, what is done in a document of a walk, and how its image is read."""

    drives: DrivesOption
    file_format: Annotated[
        str | None,
        Option(
            "A table as csv, parquet, jsonl; files as bodyfile, dfxml; a walk as speedscope, perfetto, folded.",
            panel=OUTPUT,
            flag="--format",
            absence="from the file name, else csv",
            choices=EXPORT_FORMATS,
        ),
    ]
    force: Force


class ListOptions(ReadOptions, total=False):
    """Which files are listed, how the list is written, and how its image is read."""

    folder: Annotated[
        str | None, Option("List only this folder and its content.", panel=OUTPUT, metavar="PATH", absence="all")
    ]
    file_format: Annotated[
        str | None,
        Option(
            "Write paths as text, or all columns as csv, jsonl or parquet.",
            panel=OUTPUT,
            flag="--format",
            absence="from the file name, else text",
            choices=LIST_FORMATS,
        ),
    ]
    zero: Annotated[
        bool, Option("End each path with a zero byte, for xargs -0.", default=False, panel=OUTPUT, flag="--zero -0")
    ]
    force: Force


class ExtractOptions(ReadOptions, total=False):
    """Where the parts of an extract go, and how its image is read."""

    second_target: Annotated[
        Path | None,
        Option(
            "Output file for the second image of a Fusion set (--second).",
            panel=OUTPUT,
            flag="--second-output",
            absence="there is one image",
        ),
    ]
    force: Force


class FleetOptions(TypedDict, total=False):
    """How a batch works."""

    resume: Annotated[
        bool,
        Option("Continue the batch in the folder: skip complete and unchanged sources.", default=False, panel=OUTPUT),
    ]
    hash_names: HashNames
    orders: Annotated[Sequence[str], Option("Workloads to predict.", ("fts",), flag="--order", absence="fts")]
    workers: Annotated[
        int | None,
        Option(
            "Number of sources to read at once.",
            unit="count",
            panel=PROCESS_LIMITS,
            flag="-j --jobs",
            absence="one per core, if memory allows",
            least=1,
        ),
    ]
    memory_bytes: Annotated[
        int | None,
        Option(
            "Memory per process, such as 4GiB.",
            unit="bytes",
            more="It is 2 GiB at least.",
            panel=PROCESS_LIMITS,
            flag="--memory",
            metavar="SIZE",
            absence="an equal share of the machine's memory",
        ),
    ]
    timeout_ms: Annotated[
        float,
        Option(
            "Time limit per source.",
            3_600_000.0,
            "milliseconds",
            panel=PROCESS_LIMITS,
            flag="--timeout",
            metavar="SECONDS",
            least=0,
            form="seconds",
        ),
    ]
    written_bytes: Annotated[
        int | None,
        Option(
            "Size limit of each written file.",
            unit="bytes",
            panel=PROCESS_LIMITS,
            flag="--written",
            metavar="SIZE",
            absence="the free space",
        ),
    ]
    scheduler: Annotated[
        str | None,
        Option(
            "Read on the workers of this Dask scheduler, such as tcp://host:8786, or start a local one (local). "
            "Workers need the same paths to sources and folder.",
            panel=PROCESS_LIMITS,
            metavar="ADDRESS",
            absence="processes here",
        ),
    ]
    dashboard: Annotated[
        bool,
        Option(
            "Start a local Dask cluster with its dashboard, and print the address.", default=False, panel=PROCESS_LIMITS
        ),
    ]


class BatchOptions(FleetOptions, EnumerationOptions, total=False):
    """How a batch works, how its volumes are enumerated, and how its images are read."""


class QueryLimits(TypedDict, total=False):
    """What an answer may cost; reading an image for it is not counted."""

    memory_bytes: Annotated[
        int | None,
        Option(
            "Memory limit of the query, such as 4GiB.",
            unit="bytes",
            more="It is 1 GiB at least.",
            panel=QUERY_LIMITS,
            flag="--memory",
            metavar="SIZE",
            absence="a quarter of the machine's",
        ),
    ]
    timeout_ms: Annotated[
        float,
        Option(
            "Time limit of the query.",
            300_000.0,
            "milliseconds",
            panel=QUERY_LIMITS,
            flag="--timeout",
            metavar="SECONDS",
            least=0,
            form="seconds",
        ),
    ]


class QueryOptions(QueryLimits, ReadOptions, total=False):
    """What an answer may cost, and how its image is read."""


class FitOptions(TypedDict, total=False):
    """What a drive is fitted to, any of these."""

    datasheet: Annotated[
        Mapping[str, float] | None,
        Option(
            "Figure from the data sheet, such as rpm=7200.",
            panel=FIT,
            more="Names are those of :data:`layoutscope.drive.FIGURES`; the base is left aside then.",
            metavar="NAME=NUMBER",
            absence="none",
            form="numbers",
        ),
    ]
    fio: Annotated[Path | None, Option("Output of fio --output-format=json.", panel=FIT, absence="none")]
    reads: Annotated[
        Path | None,
        Option(
            "Log of timed reads from 'measure' or from the kit.",
            more="The base is left aside then.",
            panel=FIT,
            metavar="FILE.csv",
            absence="none",
        ),
    ]
    random_ms: Annotated[
        float | None,
        Option(
            "Median time of a random 4 KiB read, such as from ioping.",
            unit="milliseconds",
            panel=FIT,
            metavar="MS",
            absence="the base's",
        ),
    ]
    random_range_bytes: Annotated[
        int | None,
        Option(
            "Size of the area that those random reads covered.",
            unit="bytes",
            panel=FIT,
            flag="--random-range",
            absence="the whole drive",
        ),
    ]
    rate_mb_s: Annotated[
        float | None,
        Option("Sequential rate, such as from dd.", unit="MB/s", panel=FIT, metavar="MB/S", absence="the base's"),
    ]
    base: Annotated[str, Option("Profile for all other figures.", "generic-7200", panel=FIT)]
    source: Annotated[str, Option("Where the numbers come from.", "measured by the user", flag="")]


class MeasureOptions(TypedDict, total=False):
    """Whose listing is timed besides the measurement of a drive."""

    image: Annotated[
        Path | None,
        Option(
            "Also time the reads of this image's listing, for comparison only.",
            panel=MEASURE,
            metavar="IMAGE",
            absence="none",
            form="text",
        ),
    ]
    start_offset_bytes: StartOffset
    quick: Annotated[
        bool,
        Option(
            "Take about five seconds, for class, rotation, on-arrival read-ahead and overhead only.",
            default=False,
            panel=MEASURE,
        ),
    ]
