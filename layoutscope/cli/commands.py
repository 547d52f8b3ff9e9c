"""The commands: each takes the words of a user, calls its verb, and prints or writes the result.

Options that the library has as well are declared in :mod:`layoutscope.options`.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, Literal

import typer

import layoutscope
from layoutscope import options as groups
from layoutscope.cli.parameters import (
    CONTAINER,
    FLEET,
    PLOT,
    SEVERAL,
    TO_FILE,
    AsJson,
    Image,
    ImageItself,
    Output,
    Plot,
    complete_options,
)
from layoutscope.cli.running import check_outputs, show, warn
from layoutscope.errors import EXIT_DAMAGED, UsageError
from layoutscope.options import COMPRESSED, EXPORTED_TABLES, ORDERS, OUTPUT, Force, HashNames, Option, fill, options_of

if TYPE_CHECKING:
    from layoutscope.results.fleet import SourceEnd

Images = Annotated[
    list[Path], typer.Argument(metavar="IMAGE...", help="Two or more images or captures, or IMAGE:VOLUME.")
]
Page = Annotated[
    Path | None,
    Option("Write an interactive map.", panel=OUTPUT, flag="--map", metavar="FILE.html", absence="not drawn"),
]
Capture = Annotated[
    Path | None,
    Option(
        "Save a capture, which every verb accepts.",
        panel=OUTPUT,
        flag="--save",
        metavar="NAME.lscope",
        absence="not saved",
    ),
]


def scan(
    image: Image,
    *,
    as_json: AsJson = False,
    details: Annotated[bool, Option("Show all measurements.", panel=OUTPUT)] = False,
    explain: Annotated[bool, Option("With --details: add the definition of every metric.", panel=OUTPUT)] = False,
    is_ascii: Annotated[bool, Option("Use only ASCII characters.", panel=OUTPUT, flag="--ascii")] = False,
    map_to: Page = None,
    save_to: Capture = None,
    hash_names: HashNames = False,
    force: Force = False,
    options: groups.ScanOptions,
) -> int:
    """Measure how scattered the metadata of an image is, and how long a listing takes."""
    if map_to is not None:
        from layoutscope.api.outputs import file_form

        file_form(map_to, "html", ("html",), "html")
        check_outputs([image], map_to, force=force)
    if save_to is not None:
        from layoutscope.api.save import check_capture, save

        check_capture(save_to, force=force, reads=(image,))
        options["identify"] = True
    if not as_json:
        options.pop("on_locked")  # the screen begins with it
    result = layoutscope.scan(image, **complete_options(options))
    if save_to is not None:
        save(result, save_to, hash_names=hash_names, force=force)
    if map_to is not None:
        from layoutscope.api.map import write_map

        write_map(result, map_to, names=options["names"], force=force)
    if as_json:
        show(result, as_json=True)
        return result.exit_code
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.scan import print_scan

    print_scan(result, make_console(sys.stdout), details=details, explain=explain, is_ascii=is_ascii)
    return result.exit_code


def map_images(
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGE...", help="One or more images or captures, or IMAGE:VOLUME, shown on one scale."),
    ],
    *,
    output: Annotated[Path | None, TO_FILE._replace(help="Output page; - for standard output.", metavar="FILE.html")],
    options: groups.MapOptions,
) -> int:
    """Write an interactive map of one or more images: one HTML page that needs no network."""
    results = layoutscope.map(images, sys.stdout.buffer if output is None else output, **complete_options(options))
    return max(result.exit_code for result in results)


def compare(
    images: Images,
    *,
    nodes: Annotated[
        Path | None,
        Option(
            "Write a list of nodes that moved, appeared or disappeared: .csv, .parquet or .jsonl.",
            panel=OUTPUT,
            absence="not written",
        ),
    ] = None,
    plot: Plot = None,
    force: Force = False,
    as_json: AsJson = False,
    options: Annotated[groups.EnumerationOptions, SEVERAL],
) -> None:
    """Compare file systems, ages or disks: metrics, predictions, and the causes of the difference."""
    from layoutscope.api.compare import write_changed_nodes, write_plot

    check_outputs(images, nodes, plot, force=force)
    found = layoutscope.compare(images, **complete_options(options))
    if nodes is not None:
        write_changed_nodes(found, nodes, force=force)
    if plot is not None:
        write_plot(found, plot, force=force)
    show(found, as_json=as_json)


def series(
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGE...", help="Images or captures of one volume, or IMAGE:VOLUME.")
    ],
    *,
    plot: Plot = None,
    force: Force = False,
    as_json: AsJson = False,
    options: Annotated[groups.SeriesOptions, SEVERAL],
) -> None:
    """Show how metrics and predicted times of a volume change over several images or captures."""
    from layoutscope.api.compare import write_plot

    check_outputs(images, plot, force=force)
    found = layoutscope.series(images, **complete_options(options))
    if plot is not None:
        write_plot(found, plot, force=force)
    show(found, as_json=as_json)


def inspect(image: ImageItself, *, as_json: AsJson = False, options: groups.InspectOptions) -> None:
    """Show the fields of the structure at a place, and its owner: tree, node, file, path."""
    show(layoutscope.inspect(image, **complete_options(options)), as_json=as_json)


def checkpoints(
    image: ImageItself, *, as_json: AsJson = False, options: Annotated[groups.ReadOptions, CONTAINER]
) -> int | None:
    """List older states (checkpoints and snapshots), and how much of each still exists."""
    from layoutscope.report.text.check import print_states
    from layoutscope.report.text.console import make_console

    found = layoutscope.checkpoints(image, **complete_options(options))
    if as_json:
        from layoutscope.report.json import list_json

        sys.stdout.write(list_json("layoutscope.checkpoints/1", "states", found) + "\n")
    else:
        print_states(found, make_console(sys.stdout))
    # What older checkpoints have lost was given free; the newest and snapshots are to be whole.
    kept = {state.container: state for state in reversed(found) if state.kind == "checkpoint"}
    whole = all(state.is_whole for state in (*kept.values(), *(each for each in found if each.kind == "snapshot")))
    return None if whole else EXIT_DAMAGED


def export(
    image: Image,
    *,
    output: Output = None,
    table: Annotated[
        str | None,
        Option(
            "Table to export, or all for one file per table; 'layoutscope explain TABLE' lists its columns.",
            panel=OUTPUT,
            absence="none, for a document",
            choices=EXPORTED_TABLES,
        ),
    ] = None,
    options: groups.ExportOptions,
) -> None:
    """Export tables of the layout, or file lists and walks in formats of other programs."""
    layoutscope.export(image, table, _choose_target(output, options.get("file_format")), **complete_options(options))


def list_files(image: Image, *, output: Output = None, options: groups.ListOptions) -> None:
    """List every file of a volume with its path, straight from the metadata: faster than any listing on a slow disk."""
    layoutscope.list(image, _choose_target(output, options.get("file_format")), **complete_options(options))


def _choose_target(output: Path | None, file_format: str | None) -> Path | IO[bytes]:
    """Return where a table goes; a terminal takes no binary one."""
    if output is None and file_format == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet is binary, and this is a terminal. Write it to a file: -o FILE.parquet.")
    return sys.stdout.buffer if output is None else output


def extract(
    image: ImageItself,
    *,
    output: Annotated[
        Path,
        Option("Output file, compressed if its name ends in .zst, otherwise sparse.", panel=OUTPUT, flag="-o --output"),
    ],
    options: Annotated[groups.ExtractOptions, {"names": None}],
) -> None:
    """Write a raw image with only the metadata, including file names; it scans the same."""
    layoutscope.extract(image, output, **complete_options(options))
    warn("it holds the names of files and volumes; a capture can leave them out (scan --save --no-names)")


Later = Annotated[
    Path | None,
    typer.Argument(
        metavar="[LATER]",
        show_default="none",
        help="Show only findings that are new in this later image of the same volumes.",
    ),
]


def check(
    image: Image,
    later: Later = None,
    *,
    file_format: Annotated[
        Literal["text", "json", "csv", "sarif"] | None,
        Option("Output format: text, JSON, a CSV table, or SARIF.", panel=OUTPUT, flag="--format", absence="text"),
    ] = None,
    rules: Annotated[
        list[str] | None,
        Option(
            "Show only findings with this code (repeatable); the verdict covers only these.",
            panel=OUTPUT,
            flag="--rule",
            metavar="CODE",
            absence="all",
        ),
    ] = None,
    explain: Annotated[bool, Option("Also explain each code, and what to do.", panel=OUTPUT)] = False,
    as_json: AsJson = False,
    options: groups.ReadOptions,
) -> int:
    """Check the structures of an image (read-only), and list each fault once, with code and address."""
    if as_json and file_format not in (None, "json"):
        raise UsageError(f"--json and --format {file_format} contradict each other")
    chosen = "json" if as_json else file_format or "text"
    if explain and chosen != "text":
        raise UsageError(f"--explain needs text output: {chosen} was chosen")
    reading = complete_options(options)
    found = layoutscope.check(image, **reading)
    if later is not None:
        found = layoutscope.check(later, **reading).since(found)
    if rules:
        found = found.of_rules(*rules)
    if chosen in ("text", "json"):
        show(found, as_json=chosen == "json")
    elif chosen == "sarif":
        from layoutscope.report.sarif import sarif_json

        sys.stdout.write(sarif_json(found) + "\n")
    else:
        from layoutscope.report.tables import write_csv

        write_csv(found.rows("faults"), sys.stdout.buffer)
    if explain:
        from layoutscope.report.text.check import print_meanings
        from layoutscope.report.text.console import make_console

        print_meanings(found, make_console(sys.stdout))
    return found.exit_code


def verify(image: ImageItself, *, as_json: AsJson = False, options: groups.ReadOptions) -> int:
    """Parse every node with the grammars, and list differences from bulk decoding."""
    found = layoutscope.verify(image, **complete_options(options))
    show(found, as_json=as_json)
    return found.exit_code


WORK: Final = options_of(groups.Workload)

ANY_ORDER: Final = {"order": WORK["order"]._replace(choices=(*ORDERS, "all"))}
"""All orders can be predicted at once."""

RECORDED_WORK: Final = {
    # Its recorder may show which host it was; a recorded trace has been through its own memory.
    "host": WORK["host"]._replace(default=None, absence="the one whose tool recorded, else as of predict"),
    "memory_bytes": None,
}


def predict(image: Image, *, as_json: AsJson = False, options: Annotated[groups.PredictOptions, ANY_ORDER]) -> None:
    """Predict how long a workload takes on drives, and show the causes and alternatives."""
    show(layoutscope.predict(image, **complete_options(options)), as_json=as_json)


def trace(
    image: Image,
    *,
    output: Output = None,
    force: Force = False,
    file_format: Annotated[
        Literal["csv", "fio", "blkparse"] | None,
        Option("Output format.", panel=OUTPUT, flag="--format", absence="from the file name, else csv"),
    ] = None,
    disk: Annotated[str, Option("The disk to replay on, for a fio iolog.", panel=OUTPUT, metavar="PATH")] = "/dev/sdX",
    options: groups.TraceOptions,
) -> None:
    """Write the reads of a workload in order, as a table, fio iolog or blkparse text."""
    from layoutscope.api.outputs import file_form
    from layoutscope.api.trace import FORMATS

    target = sys.stdout.buffer if output is None else output
    file_form(target, file_format, FORMATS, "csv")
    check_outputs([image], output, force=force)
    reads = layoutscope.trace(image, **complete_options(options))
    layoutscope.write_trace(reads, target, file_format=file_format, disk=disk, force=force)


def replay(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE", help="CSV, fio iolog, blkparse, fs_usage, iosnoop or biosnoop text; or u64 pairs."
        ),
    ],
    *,
    as_json: AsJson = False,
    options: Annotated[groups.ReplayOptions, RECORDED_WORK],
) -> None:
    """Compute the time of a recorded trace on drives, and score a prediction with it."""
    show(layoutscope.replay(trace, **complete_options(options)), as_json=as_json)


def validate(
    kit: Annotated[
        Path, typer.Argument(metavar="KIT", help="Output of the kit's script on a Mac: the archive, or its folder.")
    ],
    *,
    as_json: AsJson = False,
    options: groups.ValidateOptions,
) -> None:
    """Compare predictions with measurements from a Mac."""
    show(layoutscope.validate(kit, **options), as_json=as_json)


def plan(
    image: Image,
    *,
    file_format: Annotated[
        Literal["text", "json", "csv"], Option("Output format.", panel=OUTPUT, flag="--format")
    ] = "text",
    as_json: AsJson = False,
    options: groups.PlanOptions,
) -> None:
    """Rank remedies by time saved, with cost and instructions."""
    result = layoutscope.plan(image, **complete_options(options))
    for missing in () if result.emitted is None else result.emitted.missing:
        warn(missing.sentence)
    if file_format == "csv":
        from layoutscope.report.tables import write_table

        write_table(result.rows("remedies"), sys.stdout.buffer, "csv")
        return
    show(result, as_json=as_json or file_format == "json")


def forecast(
    images: Annotated[
        list[Path],
        typer.Argument(
            metavar="IMAGE...", help="Image or capture, or IMAGE:VOLUME; several of one volume, oldest first."
        ),
    ],
    *,
    plot: Plot = None,
    force: Force = False,
    as_json: AsJson = False,
    options: Annotated[groups.ForecastOptions, SEVERAL],
) -> None:
    """Forecast the layout and listing time of a volume after more cycles of use."""
    check_outputs(images, plot, force=force)
    found = layoutscope.forecast(images, **complete_options(options))
    if plot is not None:
        layoutscope.write_forecast_plot(found, plot, force=force)
    show(found, as_json=as_json)


Profile = Annotated[Path | None, TO_FILE._replace(metavar="FILE.toml")]
DrivePlot = Annotated[Path | None, PLOT._replace(help="Plot seek curves and latencies.")]


def drives(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", show_default="all profiles", help="Profiles, model numbers or TOML files."),
    ] = None,
    *,
    as_json: AsJson = False,
    plot: DrivePlot = None,
    force: Force = False,
) -> None:
    """List, show or compare drive profiles."""
    from layoutscope.api.drives import write_drive_plot

    found = layoutscope.drives(names or ())
    if plot is not None:
        write_drive_plot(found, plot, force=force)
    if as_json:
        from layoutscope.report.json import list_json

        sys.stdout.write(list_json("layoutscope.drives/1", "drives", found) + "\n")
    else:
        from layoutscope.report.text.console import make_console
        from layoutscope.report.text.predict import print_drives

        print_drives(found, make_console(sys.stdout))


def fit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new profile.")],
    *,
    output: Profile = None,
    force: Force = False,
    options: groups.FitOptions,
) -> None:
    """Fit a drive profile to a data sheet, to fio, or to a random latency and a rate."""
    _write(layoutscope.fit(name, **options), output, force=force)


def measure(
    device: Annotated[
        str, typer.Argument(metavar="DEVICE", help="Device, such as /dev/sdb or /dev/rdisk4. It is only read.")
    ],
    *,
    log: Annotated[
        Path | None,
        Option(
            "Output file for all reads and their times.",
            panel=OUTPUT,
            metavar="FILE.csv",
            absence="next to the profile",
        ),
    ] = None,
    plot: DrivePlot = None,
    output: Profile = None,
    force: Force = False,
    options: groups.MeasureOptions,
) -> None:
    """Measure a drive in about a minute, and write its profile."""
    from layoutscope.api.drives import list_mounted_parts, write_text
    from layoutscope.api.drives import measure as run
    from layoutscope.drive.profile import profile_text

    check_outputs([device], output, force=force)
    if output is not None:
        log = log or output.with_suffix(".reads.csv")
    check_outputs([device], log, plot, force=force)
    if Path(device).is_file():
        warn(f"{device} is a file: the figures include the file system above the drive")
    for part in list_mounted_parts(device):
        sys.stderr.write(f"layoutscope: {part} is mounted; reads by other programs disturb the measurement\n")
    found = run(
        device,
        name=output.stem if output else "measured",
        logged_to=None if log is None else lambda reads: write_text(reads.text(), log, force=force),
        **fill(groups.MeasureOptions, options),
    )
    _write(profile_text(found.profile), output, force=force)
    if plot is not None:
        from layoutscope.report.plots import calibration_page

        write_text(calibration_page(found), plot, force=force)
    sys.stderr.write(f"{found.profile.note}\n")


def _write(text: str, output: Path | None, *, force: bool) -> None:
    """Write a text to a file or to standard output."""
    if output is None:
        sys.stdout.write(text)
        return
    from layoutscope.api.drives import write_text

    write_text(text, output, force=force)


def kit(
    *,
    output: Annotated[Path | None, TO_FILE._replace(metavar="FILE.sh")] = None,
    warm: Annotated[
        bool,
        Option(
            "Write the short script: it times a listing on the computer in ten seconds, without sudo.", panel=OUTPUT
        ),
    ] = False,
    force: Force = False,
) -> None:
    """Write a shell script that measures drive and listings on a Mac (docs/drives.md)."""
    _write(layoutscope.kit(warm=warm), output, force=force)


def batch(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help="Images, captures, folders, patterns in quotes, or @FILE: a list with one path per line.",
        ),
    ],
    *,
    output: Annotated[
        Path,
        Option("Folder for captures and tables; created if missing.", panel=OUTPUT, flag="-o --output", metavar="DIR"),
    ],
    as_json: AsJson = False,
    quiet: bool,
    options: Annotated[groups.BatchOptions, FLEET],
) -> int:
    """Read many images into one folder of captures and tables, with limits per image."""
    # Every source has its row.
    del options["on_damage"], options["on_locked"]
    result = layoutscope.batch(
        sources, output, on_source=None if quiet or sys.stderr.isatty() else print_end, **complete_options(options)
    )
    show(result, as_json=as_json)
    return result.exit_code


def print_end(end: SourceEnd, done: int, total: int) -> None:
    """Print in a line how a source ended."""
    why = end.message.removeprefix(f"{end.path}: ")
    warn(f"{done:,} of {total:,}: {end.status} {end.path}{': ' if why else ''}{why} ({end.seconds:.1f} s)")


def query(
    place: Annotated[Path, typer.Argument(metavar="DIR|IMAGE", help="Folder of a batch, image or capture.")],
    sql: Annotated[
        str | None, typer.Argument(metavar="[SELECT]", help="SQL query, in quotes.", show_default="none, with --list")
    ] = None,
    *,
    list_views: Annotated[
        bool, Option("List the views with columns and units, and run no query.", panel=OUTPUT, flag="--list")
    ] = False,
    file_format: Annotated[
        str | None,
        Option("Format: csv, json, md or parquet.", panel=OUTPUT, flag="--format", metavar="FORM", absence="a table"),
    ] = None,
    output: Annotated[Path | None, TO_FILE._replace(help="File for the result.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    options: Annotated[groups.QueryOptions, FLEET],
) -> int:
    """Query a batch or an image with SQL."""
    from layoutscope.api.outputs import file_form
    from layoutscope.fleet.query import ANSWER_FORMATS, views, write_answer

    file_format = file_format or ("json" if as_json else None)
    if list_views:
        show(views(), as_json=file_format == "json")
        return 0
    if sql is None:
        raise UsageError("missing SQL query: quote it, such as 'SELECT * FROM volumes'; --list shows the views")
    if output is not None:
        file_form(output, file_format, ANSWER_FORMATS, "csv")
        check_outputs([place], output, force=force)
    result = layoutscope.query(place, sql, **complete_options(options))
    for line in result.left_out:
        warn(f"left out: {line}")
    if output is not None:
        write_answer(result, output, file_format=file_format, force=force)
    elif file_format is not None:
        write_answer(result, sys.stdout.buffer, file_format=file_format)
    else:
        show(result, as_json=False)
    return result.exit_code


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a batch.")],
    *,
    output: Annotated[Path, Option("Output page.", panel=OUTPUT, flag="-o --output", metavar="FILE.html")],
    maps: Annotated[bool, Option("Also write a map of each image into FILE-maps.", panel=OUTPUT)] = False,
    no_names: Annotated[bool, Option("Leave out names and paths.", panel=OUTPUT)] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Write one HTML page about a batch: all volumes, distributions, and the slowest with the reasons."""
    result = layoutscope.write_report(folder, output, maps=maps, names=not no_names, force=force)
    for line in result.left_out:
        warn(f"left out: {line}")
    show(result, as_json=as_json)
    return result.exit_code


def explain(
    word: Annotated[
        str,
        typer.Argument(
            metavar="[WORD]",
            show_default="all of them are listed",
            help="A word, a metric, the code of a finding, an order, a remedy, a drive, a table or a what-if.",
        ),
    ] = "",
) -> None:
    """Explain a term, a metric, or a finding and what to do about it."""
    text = layoutscope.explain(word)
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(textwrap.fill(line, width, subsequent_indent="  ") for line in text.split("\n"))
    sys.stdout.write(f"{text}\n")


def cache(
    what: Annotated[
        Literal["show", "clear"], typer.Argument(metavar="[show|clear]", help="Show the cache, or clear it.")
    ] = "show",
    *,
    cache_dir: Annotated[
        Path | None,
        Option("Folder of the cache.", panel=COMPRESSED, metavar="DIR", absence="LAYOUTSCOPE_CACHE, else the user's"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or clear the cache of decompressed images."""
    from layoutscope.image import cache as kept
    from layoutscope.report.text.fleet import cache_text

    place = cache_dir or kept.default_folder()
    images = [] if place is None else kept.list_cached_images(place)
    freed = kept.remove(images) if what == "clear" else None
    sys.stdout.write(cache_text(place, kept.limit_bytes(), images, freed=freed, as_json=as_json) + "\n")
