"""What can be asked of every verb: each option once, with its type, unit, default and help; cheap to import.

A group of options is a ``TypedDict`` of ``Annotated`` types. Type checkers read it as the keywords of a verb
(``Unpack``). From the :class:`Option` of each come the checks, the signature and the help of the library
(:mod:`layoutscope.api.keywords`), the options of the command line (:mod:`layoutscope.cli.options`) and the reference.
Inside, a request is the same dictionary with every default filled in (:func:`fill`).
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypedDict, TypeVar, cast

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

Unit = Literal["", "bytes", "microseconds", "milliseconds", "MB/s", "sectors", "count", "number"]
"""What a number counts; a ``number`` is one by which something is called, and has no unit."""

Form = Literal["", "text", "files", "bytes", "place", "seconds", "lines", "offsets", "pairs", "numbers"]
"""Ways to write an option on the command line that its type does not say."""

ORDERS: Final = (
    "fts",
    "readdir-stat",
    "du",
    "backup",
    "backup-events",
    "delete",
    "mount",
    "fsck",
    "find",
    "ls",
    "ls-folder",
    "archive",
    "git-status",
    "search",
    "bulk",
    "names",
    "catalog",
    "searchfs",
    "paths",
    "copy",
    "read",
)
PLANNED_ORDERS: Final = ("fts", "readdir-stat", "du", "backup", "ls", "git-status", "copy", "archive")
EXPORTED_TABLES: Final = (
    "nodes",
    "node_fragments",
    "node_views",
    "regions",
    "extents",
    "entries",
    "free",
    "findings",
    "metrics",
    "times",
    "directories",
    "reads",
    "all",
)
EXPORT_FORMATS: Final = ("csv", "parquet", "jsonl", "bodyfile", "dfxml", "speedscope", "perfetto", "folded")
LIST_FORMATS: Final = ("text", "csv", "jsonl", "parquet")
TRACE_FORMATS: Final = ("csv", "fio", "blkparse", "pairs", "fs_usage", "iosnoop", "biosnoop")


class Option(NamedTuple):
    """What is to be known of an option besides its type, for the library and for the command line."""

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


def leave_out(given: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Take the options that are given, but those of some names."""
    left_out = set(names)
    return {name: value for name, value in given.items() if name not in left_out}


DrivesOption = Annotated[
    Drives | None,
    Option(
        "Drive by profile, model number or FILE.toml, or main=NAME,second=NAME of a Fusion set; 'layoutscope drives' "
        "says which to take.",
        kind="str or sequence of str",
        more="One or several; none with an empty sequence.",
        flag="--drive",
        absence="generic-5400-2.5, generic-7200, sata-ssd",
    ),
]
HostOption = Annotated[
    str | None,
    Option(
        "Operating system whose drivers and libraries do it.",
        choices=("linux", "macos"),
        absence="the one that wrote the volume last, macos where that is unknown",
    ),
]
StartOffset = Annotated[
    int, Option("Where the image, or the traced disk, is located on the drive.", 0, "bytes", flag="--start-offset")
]
Force = Annotated[bool, Option("Replace outputs that layoutscope wrote; nothing else.", default=False, panel=OUTPUT)]
HashNames = Annotated[bool, Option("Save hashes in place of names.", default=False, panel=OUTPUT)]


class SharedReadOptions(TypedDict, total=False):
    """How an image is opened and which of its volumes are read, whatever its file system."""

    partition: Annotated[
        int | None, Option("Only the volumes of this partition.", unit="number", panel=VOLUME, absence="all")
    ]
    volume: Annotated[
        str | int | None, Option("Only the volume of this name or number (from 1).", panel=VOLUME, absence="all")
    ]
    volume_at: Annotated[
        int | None,
        Option(
            "Read what starts at this byte, named by a partition map or not.",
            unit="bytes",
            panel=VOLUME,
            absence="anywhere",
        ),
    ]
    sweep: Annotated[
        bool,
        Option(
            "Find nodes by scanning the whole volume, rebuild broken trees.",
            default=False,
            panel=DAMAGED,
            more="If no partition map names a volume, the whole image is searched for one.",
        ),
    ]
    names: Annotated[bool, Option("Leave names out.", default=True, panel=OUTPUT)]
    ddrescue_map: Annotated[
        Path | None,
        Option(
            "ddrescue's map of the image: bad areas are unread, not zero.", panel=DAMAGED, absence="all of it was read"
        ),
    ]
    cache_dir: Annotated[
        Path | None,
        Option(
            "Keep decompressed images in this folder.",
            panel=COMPRESSED,
            metavar="DIR",
        ),
    ]
    progress: Annotated[
        "Progress | None",
        Option(
            "Called with each step of what takes long, in the thread that works: :class:`layoutscope.progress.Step` "
            "with its phase, what is done of how much, and the unit of both. Nothing is shown without it.",
            kind="callable",
            flag="",
        ),
    ]
    on_damage: Annotated[
        Callable[[str, float | None, int], None] | None,
        Option(
            "Called with the name of an image that was not read whole, the share of the known metadata that was (None "
            "if that is unknown), and how many findings are errors.",
            flag="",
        ),
    ]
    on_locked: Annotated[
        Callable[[str], None] | None,
        Option(
            "Called with a sentence that names an image, its volumes that stayed locked, and what opens them.", flag=""
        ),
    ]


class ReadOptions(SharedReadOptions, total=False):
    """How an image is opened and which of its volumes are read; every verb takes these.

    The own options of the file systems of this package are here for type checkers and for their texts. Each file
    system lists the ones that it has (`ReadOption`); those of other packages are keywords like these.
    """

    second: Annotated[Path | None, Option("The other image of a Fusion set.")]
    xid: Annotated[int | None, Option("Read the state of this transaction.", unit="number")]
    snapshot: Annotated[str | None, Option("Read the snapshot of this name.")]
    password: Annotated[str | None, Option("Password or recovery key.")]
    no_journal: Annotated[bool, Option("Read the bytes as they are stored, journal not replayed.", default=False)]


class CommandOptions(TypedDict, total=False):
    """What commands that read images offer besides: the command line's own business."""

    no_cache: Annotated[bool, Option("Keep no decompressed image.", default=False, panel=COMPRESSED)]
    evidence: Annotated[
        Sequence[Path] | None,
        Option(
            "Hash every file of the images before and after, and report it: .txt or .json.",
            panel=OUTPUT,
            absence="not hashed",
            form="files",
        ),
    ]
    quiet: Annotated[bool, Option("Show no progress on the terminal.", default=False, panel="")]


class Enumeration(TypedDict, total=False):
    """On which drives and by whose drivers volumes are enumerated."""

    drives: DrivesOption
    host: HostOption


class EnumerationOptions(Enumeration, ReadOptions, total=False):
    """How volumes are enumerated, and how their images are read."""


class ScanOptions(EnumerationOptions, total=False):
    """What a scan is asked."""

    strict: Annotated[bool, Option("Treat damage as an error.", default=False, panel=DAMAGED)]
    identify: Annotated[bool, Option("Hash the metadata, as for a capture.", default=False, flag="")]


class PageOptions(TypedDict, total=False):
    """What the page of a map shows and carries."""

    difference: Annotated[
        bool,
        Option(
            "Of two states of one volume, the earlier first: what moved, appeared and went.",
            default=False,
            panel=OUTPUT,
        ),
    ]
    all_paths: Annotated[
        bool,
        Option(
            "Carry every path and where its file is located, however many there are; some 10 MB for a million files.",
            default=False,
            panel=OUTPUT,
        ),
    ]


class MapOptions(PageOptions, EnumerationOptions, total=False):
    """What a map shows, where it goes, and how its images are read."""

    picture: Annotated[
        Path | None, Option("Write an overview too, as PNG or SVG.", panel=OUTPUT, flag="--png", absence="not drawn")
    ]
    force: Force


class SeriesOptions(EnumerationOptions, total=False):
    """What a series is ordered by, and how its images are read."""

    by: Annotated[
        str,
        Option(
            "What they are ordered by: as given, transaction or last change.",
            "order",
            panel=OUTPUT,
            choices=("order", "xid", "time"),
        ),
    ]


class Workload(TypedDict, total=False):
    """What is done on a volume; every verb that walks takes these."""

    order: Annotated[
        str, Option("What a program does; 'layoutscope explain ORDER' describes each.", "fts", choices=ORDERS)
    ]
    host: HostOption
    host_properties: Annotated[
        Mapping[str, object],
        Option(
            "Where the operating system differs, such as read_ahead_bytes=256KiB.",
            {},
            flag="--host-property",
            more="Names are those of :class:`layoutscope.walk.HostProfile`; properties of a file system's driver have "
            "its name in front, its costs as ``name.node_us``.",
            metavar="NAME=VALUE",
            absence="as the operating system",
            form="pairs",
        ),
    ]
    start: Annotated[str | None, Option("Directory to start at.", metavar="PATH", absence="the root")]
    stat: Annotated[bool, Option("fts with FTS_NOSTAT: only directories are stat'ed.", default=True)]
    paths: Annotated[
        Sequence[str] | None,
        Option("paths, backup-events: a list of paths, one per line.", absence="none", form="lines"),
    ]
    file: Annotated[str | None, Option("read: the file.", metavar="PATH", absence="none")]
    records: Annotated[
        int | None, Option("read: number of random records.", unit="count", absence="the whole file", least=1)
    ]
    record_bytes: Annotated[int, Option("read: length of a record.", 4096, "bytes", flag="--record-size", least=1)]
    seed: Annotated[int, Option("read: draws the records.", 1, "number")]
    offsets: Annotated[
        Sequence[int] | None,
        Option(
            "read: offsets of records in bytes, the last number of each line.",
            unit="bytes",
            absence="random ones",
            form="offsets",
        ),
    ]
    memory_bytes: Annotated[
        int | None,
        Option(
            "Memory that holds what was read.",
            unit="bytes",
            flag="--memory",
            metavar="SIZE",
            absence="unlimited",
            least=0,
        ),
    ]
    threads: Annotated[
        int,
        Option(
            "Threads that share the computer's time between reads; the drive gets one read at a time.",
            1,
            "count",
            more="Several at a time are the remedy ``more-in-flight`` of :func:`layoutscope.plan`.",
            least=1,
        ),
    ]
    warm: Annotated[
        bool,
        Option(
            "With what a first pass read in memory.",
            default=False,
            more="The name cache is filled too, if the names fit.",
        ),
    ]
    passes: Annotated[int, Option("How often it is done.", 1, "count", least=1)]


class TraceOptions(Workload, ReadOptions, total=False):
    """What is done on a volume, and how its image is read."""


class Predict(Workload, total=False):
    """What is done on a volume, and what a prediction is asked about it."""

    start_offset_bytes: StartOffset
    what_ifs: Annotated[
        str | Sequence[str],
        Option(
            "Also with one thing changed, such as outer-zone, no-snapshots, double-cache or ssd; "
            "'layoutscope explain what-if' has all.",
            (),
            flag="--what-if",
            absence="packed",
        ),
    ]
    top: Annotated[
        int, Option("How many directories are listed, the most expensive first.", 10, "count", panel=OUTPUT, least=0)
    ]
    placement: Annotated[
        Literal["known", "unknown"],
        Option("unknown: also for a volume like that, of other age and place (and order, if it shows none).", "known"),
    ]


class PredictOptions(Predict, ReadOptions, total=False):
    """What a prediction is asked, on which drives, and how its image is read."""

    drives: DrivesOption
    ncdu: Annotated[
        Path | None,
        Option(
            "Write the costs of all directories for ncdu -f; its sizes are milliseconds.",
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
            "Drive by profile, model number or FILE.toml; 'layoutscope drives' says which to take.",
            "generic-5400-2.5",
            form="text",
        ),
    ]
    order: Annotated[
        str,
        Option(
            "What is to take less: a listing, or copy and archive, which read contents.", "fts", choices=PLANNED_ORDERS
        ),
    ]
    host: HostOption
    start_offset_bytes: StartOffset
    shows_all: Annotated[
        bool,
        Option(
            "Also list what would not help or does not apply.",
            default=False,
            panel=OUTPUT,
            flag="--all",
            more="Tables and JSON always do.",
        ),
    ]
    emit_order: Annotated[
        Path | None,
        Option(
            "Write a list of all files, in the order in which they are best read.", panel=OUTPUT, absence="not written"
        ),
    ]
    emit_script: Annotated[
        Path | None,
        Option(
            "Write a script that goes through that list with tar, cp or rsync.", panel=OUTPUT, absence="not written"
        ),
    ]
    is_null_separated: Annotated[
        bool, Option("End names in the list with a zero byte.", default=False, panel=OUTPUT, flag="--null -0")
    ]
    memory_bytes: Annotated[
        int | None,
        Option(
            "What may be held of the list to sort it.",
            unit="bytes",
            flag="--memory",
            metavar="SIZE",
            absence="unlimited",
        ),
    ]
    lasts: Annotated[
        int | None,
        Option(
            "Also forecast over so many cycles, to show how long remedies last; takes longer than the plan.",
            unit="count",
            metavar="CYCLES",
            absence="not forecast",
        ),
    ]
    force: Force


class ForecastOptions(ReadOptions, total=False):
    """What happens to a volume, how often it is simulated, and how its images are read."""

    cycles: Annotated[int, Option("How many cycles are followed.", 20, "count", least=0, most=10_000)]
    workload: Annotated[
        str, Option("What a cycle does: replace, replace-directories, add, delete or mixed.", "replace")
    ]
    share: Annotated[
        float | None,
        Option(
            "Share of the files of a cycle.",
            unit="number",
            metavar="SHARE",
            absence="0.05, or what several images tell",
        ),
    ]
    seeds: Annotated[int, Option("How often what happens is simulated.", 4, "count", least=1)]
    keep_snapshots: Annotated[
        int, Option("How many cycles back snapshots hold what was replaced.", 0, "count", least=0)
    ]
    drives: DrivesOption
    host: HostOption


class InspectOptions(ReadOptions, total=False):
    """What an inspection looks at, one place, and how its image is read."""

    node: Annotated[
        str | None, Option("A node, such as catalog:3 or fs:1028.", panel=PLACE, metavar="TREE:NUMBER", absence="none")
    ]
    at: Annotated[
        int | None, Option("Whatever is located at this byte of the image.", unit="bytes", panel=PLACE, absence="none")
    ]
    lba: Annotated[
        int | None, Option("Whatever is located in this sector.", unit="sectors", panel=PLACE, absence="none")
    ]
    cnid: Annotated[
        int | None, Option("The file of this CNID or inode number.", unit="number", panel=PLACE, absence="none")
    ]
    file_path: Annotated[
        str | None, Option("The file at this path.", panel=PLACE, flag="--path", metavar="PATH", absence="none")
    ]


class Replay(TypedDict, total=False):
    """How a trace is served, and what a recording by blocks does not say itself."""

    form: Annotated[
        str, Option("Format of the trace.", "", flag="--format", absence="as the content tells", choices=TRACE_FORMATS)
    ]
    start_offset_bytes: StartOffset
    buffer: Annotated[
        str,
        Option(
            "The drive's buffer: its own, off, or (no-join: not) waiting for look-ahead.",
            "own",
            more="See :meth:`layoutscope.drive.DriveProfile.with_cache`.",
            choices=("own", "off", "join", "no-join"),
        ),
    ]
    think_us: Annotated[
        float | None,
        Option("Microseconds between reads.", unit="microseconds", metavar="US", absence="the trace's", least=0),
    ]
    queue_depth: Annotated[int, Option("Reads that are outstanding.", 1, "count", least=1)]
    trace_unit: Annotated[
        int | None,
        Option("What a block number counts: 512 or 4096.", unit="bytes", panel=RECORDED, absence="found by trial"),
    ]
    trace_at: Annotated[
        int | None,
        Option(
            "Where block 0 is located on the image; with a minus, how far before it.",
            unit="bytes",
            panel=RECORDED,
            absence="found by trial",
            form="place",
        ),
    ]
    trace_devices: Annotated[
        Sequence[str] | None,
        Option(
            "Only reads of this device, as disk3s5.",
            panel=RECORDED,
            flag="--trace-device",
            absence="those on the image",
        ),
    ]
    trace_processes: Annotated[
        Sequence[str] | None,
        Option(
            "Only reads of this program, as find.",
            panel=RECORDED,
            flag="--trace-process",
            absence="the one that reads most nodes",
        ),
    ]


class ReplayOptions(Replay, Workload, ReadOptions, total=False):
    """How a trace is served, what was done on the image, and how that is read."""

    drives: DrivesOption
    against: Annotated[
        Path | None,
        Option("The image that was read: scores the prediction for it.", metavar="IMAGE", absence="nothing"),
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


class DocumentOptions(Workload, ReadOptions, total=False):
    """What is done in a document of a walk, on which drives, and how its image is read."""

    drives: DrivesOption


class ExportOptions(DocumentOptions, total=False):
    """How an export is written, what is done in a document of a walk, and how its image is read."""

    file_format: Annotated[
        str | None,
        Option(
            "A table as csv, parquet, jsonl; files as bodyfile, dfxml; a walk as speedscope, perfetto, folded.",
            panel=OUTPUT,
            flag="--format",
            absence="as the file ends, else csv",
            choices=EXPORT_FORMATS,
        ),
    ]
    force: Force


class ListOptions(ReadOptions, total=False):
    """Which files are listed, how the list is written, and how its image is read."""

    folder: Annotated[
        str | None, Option("Only this folder and what it holds.", panel=OUTPUT, metavar="PATH", absence="all")
    ]
    file_format: Annotated[
        str | None,
        Option(
            "Paths as text, or all columns as csv, jsonl, parquet.",
            panel=OUTPUT,
            flag="--format",
            absence="as the file ends, else text",
            choices=LIST_FORMATS,
        ),
    ]
    zero: Annotated[
        bool,
        Option("End each path with a zero byte, as xargs -0 takes it.", default=False, panel=OUTPUT, flag="--zero -0"),
    ]
    force: Force


class ExtractOptions(ReadOptions, total=False):
    """Where the parts of an extract go, and how its image is read."""

    second_target: Annotated[
        Path | None,
        Option(
            "Of a Fusion set: where the other image is written to, that of --second.",
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
        Option(
            "Continue the batch in the folder: what is complete and unchanged is not read again.",
            default=False,
            panel=OUTPUT,
        ),
    ]
    hash_names: HashNames
    orders: Annotated[
        Sequence[str],
        Option("Orders that times are predicted for.", ("fts",), flag="--order", absence="fts"),
    ]
    workers: Annotated[
        int | None,
        Option(
            "Sources at a time.",
            unit="count",
            panel=PROCESS_LIMITS,
            flag="-j --jobs",
            absence="one a core, as memory allows",
            least=1,
        ),
    ]
    memory_bytes: Annotated[
        int | None,
        Option(
            "Memory of each, such as 4GiB.",
            unit="bytes",
            more="It is 2 GiB at least.",
            panel=PROCESS_LIMITS,
            flag="--memory",
            metavar="SIZE",
            absence="its part of the machine's",
        ),
    ]
    timeout_ms: Annotated[
        float,
        Option(
            "Time for each source.",
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
            "The longest file that each may write.",
            unit="bytes",
            panel=PROCESS_LIMITS,
            flag="--written",
            metavar="SIZE",
            absence="as there is room",
        ),
    ]
    scheduler: Annotated[
        str | None,
        Option(
            "Have the workers of a Dask scheduler read, such as tcp://host:8786; local makes one here. They need the "
            "sources and the folder under the same names.",
            panel=PROCESS_LIMITS,
            metavar="ADDRESS",
            absence="processes here",
        ),
    ]
    dashboard: Annotated[
        bool,
        Option(
            "Make a Dask cluster here, with its own page, and print its address.", default=False, panel=PROCESS_LIMITS
        ),
    ]


class BatchOptions(FleetOptions, EnumerationOptions, total=False):
    """How a batch works, how its volumes are enumerated, and how its images are read."""


class QueryLimits(TypedDict, total=False):
    """What an answer may cost; reading an image for it is not counted."""

    memory_bytes: Annotated[
        int | None,
        Option(
            "Memory that the answer may take, such as 4GiB.",
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
            "Time that the answer may take.",
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
            "A number of a datasheet, such as rpm=7200.",
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
            "Log of timed reads, of 'measure' or of the kit.",
            more="The base is left aside then.",
            panel=FIT,
            metavar="FILE.csv",
            absence="none",
        ),
    ]
    random_ms: Annotated[
        float | None,
        Option(
            "Median random 4 KiB read, as of ioping.",
            unit="milliseconds",
            panel=FIT,
            metavar="MS",
            absence="the base's",
        ),
    ]
    random_range_bytes: Annotated[
        int | None,
        Option(
            "What part those random reads covered.",
            unit="bytes",
            panel=FIT,
            flag="--random-range",
            absence="the whole drive",
        ),
    ]
    rate_mb_s: Annotated[
        float | None, Option("Sequential rate, as of dd.", unit="MB/s", panel=FIT, metavar="MB/S", absence="the base's")
    ]
    base: Annotated[str, Option("Profile that gives the rest.", "generic-7200", panel=FIT)]
    source: Annotated[str, Option("Where the numbers come from.", "measured by the user", flag="")]


class MeasureOptions(TypedDict, total=False):
    """Whose listing is timed besides the measurement of a drive."""

    image: Annotated[
        Path | None,
        Option(
            "measure: also time reads of its listing, and fit nothing to them.",
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
            "measure: about five seconds, for its class, rotation, on-arrival read-ahead and overhead.",
            default=False,
            panel=MEASURE,
        ),
    ]


class DriveOptions(FitOptions, MeasureOptions, total=False):
    """What makes a new profile: numbers that it is fitted to, or reads of a drive."""
