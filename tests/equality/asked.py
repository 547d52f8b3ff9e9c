"""What is asked of an image: command lines, and calls of the library."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.equality.cases import Case

ORDERS = (
    "fts", "bulk", "names", "catalog", "searchfs", "copy", "readdir-stat", "du", "backup", "find", "ls", "archive",
    "git-status", "delete", "mount", "fsck",
)  # fmt: skip
TABLES = ("nodes", "node_fragments", "regions", "extents", "entries", "free", "findings", "node_views")
COMPUTED = ("metrics", "times", "directories", "reads")
DOCUMENTS = ("bodyfile", "dfxml", "speedscope", "perfetto", "folded")
VIEWS = ("volumes", "metrics", "predictions", "findings", "nodes", "extents", "entries", "regions", "free")
VERBS = (
    "scan", "map", "inspect", "check", "explain", "predict", "plan", "compare", "series", "forecast", "batch", "trace",
    "replay", "validate", "drives", "fit", "measure", "kit", "query", "report", "export", "extract", "checkpoints",
    "verify", "cache", "list",
)  # fmt: skip
WORDS = ("clump", "omap", "exit code", "node-invalid", "fts", "metadata-zone-free", "generic-7200", "packed", "nodes")


def commands(case: Case) -> Iterator[tuple[str, tuple[str, ...]]]:
    """List the command lines: the name of the output, and the words; ``OUT`` stands for a path of that name."""
    yield from {
        "whole": _of_whole,
        "fault": _of_damaged,
        "refused": _of_refused,
        "usual": _of_usual,
        "words": lambda _: _of_nothing(),
        "batch": lambda _: _of_many(),
    }[case.kind](case)


def _of_damaged(case: Case) -> Iterator[tuple[str, tuple[str, ...]]]:
    image = (case.name, *case.options)
    yield "check", ("check", *image, "--json")
    yield "check-text", ("check", *image)
    yield "scan", ("scan", *image, "--json")
    yield "scan-text", ("scan", *image)
    yield "scan-sweep", ("scan", *image, "--json", "--sweep")
    yield "check-sweep", ("check", *image, "--json", "--sweep")
    yield "plan", ("plan", *image, "--all", "--format", "json")
    yield "map", ("map", *image, "-o", "OUT.html")
    for table in TABLES:
        yield f"table-{table}", ("export", *image, "--table", table, "--format", "jsonl")


def _of_usual(case: Case) -> Iterator[tuple[str, tuple[str, ...]]]:
    image = (case.name, *case.options)
    yield from _of_damaged(case)
    yield "checkpoints", ("checkpoints", *image, "--json")
    yield "predict", ("predict", *image, "--json")
    yield "compare", ("compare", case.name, case.partner, "--json")
    yield "trace-fts", ("trace", *image)
    for table in COMPUTED:
        yield f"table-{table}", ("export", *image, "--table", table, "--format", "jsonl")
    for form in DOCUMENTS:
        yield f"export-{form}", ("export", *image, "--format", form)


def _of_whole(case: Case) -> Iterator[tuple[str, tuple[str, ...]]]:
    image = (case.name, *case.options)
    # Several images cannot have a second device. A password that opens one of them is valid with the others.
    second = case.options.index("--second") if "--second" in case.options else len(case.options)
    pair = (case.name, case.partner, *case.options[:second], *case.options[second + 2 :])
    yield from _of_usual(case)
    yield "verify", ("verify", *image, "--json")
    yield "verify-text", ("verify", *image)
    yield "list", ("list", *image)
    yield "list-csv", ("list", *image, "--format", "csv")
    yield "checkpoints-text", ("checkpoints", *image)
    yield "scan-details", ("scan", *image, "--details", "--explain", "--ascii")
    yield "scan-no-names", ("scan", *image, "--json", "--no-names")
    yield "scan-evidence", ("scan", *image, "--evidence", "OUT.txt")
    yield "scan-journal", ("scan", *image, "--no-journal", "--json")
    yield "scan-volume", ("scan", *image, "--volume", "1", "--json")
    yield "scan-partition", ("scan", *image, "--partition", "2", "--json")
    yield "scan-xid", ("scan", *image, "--xid", "3", "--json")
    yield "scan-snapshot", ("scan", *image, "--snapshot", "first", "--json")
    yield "capture", ("scan", *image, "--save", "OUT.lscope")
    yield "capture-scan", ("scan", "w/capture.lscope", "--json")
    yield "capture-hashed", ("scan", *image, "--save", "OUT.lscope", "--hash-names")
    for host in ("linux", "macos"):
        for order in ORDERS:
            yield f"trace-{host}-{order}", ("trace", *image, "--host", host, "--order", order)
    yield "trace-threads", ("trace", *image, "--threads", "3", "--passes", "2", "--warm")
    for ending, form in (("csv", "csv"), ("log", "fio"), ("txt", "blkparse")):
        yield f"trace-{form}", ("trace", *image, "-o", f"OUT.{ending}", "--format", form)
        yield f"replay-{form}", ("replay", f"w/trace-{form}.{ending}", "--json")
    yield "replay-against", ("replay", "w/trace-csv.csv", "--against", *image, "--json")
    yield "replay-text", ("replay", "w/trace-csv.csv", "--against", *image)
    yield "predict-text", ("predict", *image, "--placement", "unknown")
    yield "predict-macos", ("predict", *image, "--json", "--host", "macos", "--ncdu", "OUT.json")
    yield "predict-orders", ("predict", *image, "--json", "--order", "all")
    yield "predict-what-if", ("predict", *image, "--json", "--what-if", "packed", "--what-if", "ssd")
    yield "plan-text", ("plan", *image, "--all")
    yield "plan-csv", ("plan", *image, "--all", "--format", "csv", "--order", "copy", "--host", "macos")
    yield "plan-lists", ("plan", *image, "--emit-order", "OUT.list", "--emit-script", "OUT.sh")
    yield "plan-lasts", ("plan", *image, "--lasts", "1", "--format", "json")
    yield "compare-text", ("compare", *pair, "--nodes", "OUT.csv", "--plot", "OUT.html")
    yield "series", ("series", *pair, "--json")
    yield "series-text", ("series", *pair, "--plot", "OUT.html")
    yield "forecast", ("forecast", *image, "--cycles", "2", "--seeds", "2", "--json")
    yield "forecast-text", ("forecast", *image, "--cycles", "1", "--seeds", "1", "--plot", "OUT.html")
    yield "map-pair", ("map", *pair, "-o", "OUT.html", "--png", "OUT.svg", "--all-paths")
    yield "map-difference", ("map", *pair, "-o", "OUT.html", "--difference")
    yield "map-no-names", ("map", *image, "-o", "OUT.html", "--no-names")
    yield "export-all", ("export", *image, "--table", "all", "-o", "OUT")
    for table in (*TABLES, *COMPUTED):
        yield f"parquet-{table}", ("export", *image, "--table", table, "-o", "OUT.parquet")
    yield "export-no-names", ("export", *image, "--table", "entries", "--no-names")
    yield "query-list", ("query", *image, "--list")
    for view in VIEWS:
        asked = f"SELECT * FROM {view} ORDER BY ALL"  # noqa: S608
        yield f"query-{view}", ("query", case.name, asked, *case.options, "--format", "json")
    yield (
        "query-table",
        ("query", case.name, "SELECT tree, count(*) AS n FROM nodes GROUP BY 1 ORDER BY 1", *case.options),
    )
    yield "extract", ("extract", *image, "-o", "OUT.img")
    for at in ("0", "1024", "4096", "40960", "65536"):
        yield f"inspect-{at}", ("inspect", *image, "--at", at, "--json")
    yield "inspect-text", ("inspect", *image, "--at", "40960")
    yield "inspect-lba", ("inspect", *image, "--lba", "8", "--json")
    yield "inspect-root", ("inspect", *image, "--path", "/", "--json")
    yield "inspect-cnid", ("inspect", *image, "--cnid", "18", "--json")
    yield "inspect-node", ("inspect", *image, "--node", "catalog:1", "--json")
    yield "inspect-absent", ("inspect", *image, "--path", "/no such file")


def _of_refused(case: Case) -> Iterator[tuple[str, tuple[str, ...]]]:
    image = (case.name, *case.options)
    for verb in ("scan", "check", "plan", "predict", "checkpoints", "verify", "trace", "forecast", "query", "replay"):
        yield verb, (verb, *image)
    for verb in ("scan", "check", "verify"):
        yield f"{verb}-json", (verb, *image, "--json")
    yield "compare", ("compare", "hfsplus-populated.img", *image)
    yield "series", ("series", "hfsplus-populated.img", *image)
    yield "map", ("map", *image, "-o", "OUT.html")
    yield "extract", ("extract", *image, "-o", "OUT.img")
    yield "export", ("export", *image, "--table", "nodes", "-o", "OUT.csv")
    yield "export-bodyfile", ("export", *image, "--format", "bodyfile")
    yield "inspect", ("inspect", *image, "--at", "0")
    yield "query-select", ("query", case.name, "SELECT 1", *case.options)
    yield "scan-sweep", ("scan", *image, "--sweep")
    yield "scan-at", ("scan", *image, "--volume-at", "4096")
    yield "report", ("report", case.name, "-o", "OUT.html")
    yield "validate", ("validate", case.name)


def _of_nothing() -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "help", ("--help",)
    yield "version", ("--version",)
    for verb in VERBS:
        yield f"help-{verb}", (verb, "--help")
        yield f"bare-{verb}", (verb,) if verb != "kit" else ("kit", "--json")
        yield f"unknown-{verb}", (verb, "hfsplus-populated.img", "--no-such-option")
    yield "drives-all", ("drives", "--json")
    yield "drives-one", ("drives", "generic-7200")
    yield "drives-two", ("drives", "generic-7200", "sata-ssd", "--json")
    yield "drives-plot", ("drives", "generic-7200", "--plot", "OUT.html")
    yield "drives-fit", ("drives", "fit", "mine", "--random-ms", "12", "--rate-mb-s", "150", "-o", "OUT.toml")
    yield "drives-absent", ("drives", "no-such-drive")
    yield "kit-script", ("kit", "-o", "OUT.sh")
    for word in (*WORDS, "no such word"):
        yield f"explain-{word.replace(' ', '-')}", ("explain", word)
    image = "hfsplus-populated.img"
    wrong: dict[str, tuple[str, ...]] = {
        "verb": ("scam", image),
        "table": ("export", image, "--table", "nodess"),
        "format": ("export", image, "--table", "nodes", "--format", "xml"),
        "document-format": ("export", image, "--table", "nodes", "--format", "dfxml"),
        "order": ("trace", image, "--order", "ftz"),
        "host": ("predict", image, "--host", "windows"),
        "drive": ("predict", image, "--drive", "no-such-drive"),
        "number": ("predict", image, "--top", "many"),
        "negative": ("forecast", image, "--cycles", "-1"),
        "size": ("predict", image, "--memory", "4 parsecs"),
        "volume": ("scan", image, "--volume", "7"),
        "volume-name": ("scan", image, "--volume", "No Such Volume"),
        "image-volume": ("scan", f"{image}:9"),
        "partition": ("scan", image, "--partition", "9"),
        "snapshot": ("scan", "apfs-snapshots-0.img", "--snapshot", "third"),
        "xid": ("scan", "apfs-snapshots-0.img", "--xid", "99999"),
        "second": ("scan", image, "--second", "apfs-basic-0.img"),
        "place": ("inspect", image),
        "places": ("inspect", image, "--at", "0", "--lba", "1"),
        "outside": ("inspect", image, "--at", "99999999999"),
        "node": ("inspect", image, "--node", "catalog"),
        "no-tree": ("inspect", image, "--node", "none:1"),
        "sql": ("query", image, "SELEC 1"),
        "sql-column": ("query", image, "SELECT nothing FROM nodes"),
        "sql-write": ("query", image, "CREATE TABLE t (a int)"),
        "one-image": ("compare", image),
        "password-file": ("scan", "apfs-encrypted-0.img", "--password-file", "absent.txt"),
        "no-password": ("scan", "apfs-encrypted-0.img"),
        "output-is-image": ("export", image, "--table", "nodes", "-o", image, "--force"),
        "output-folder": ("export", image, "--table", "nodes", "-o", "no/such/folder.csv"),
        "output-device": ("export", image, "--table", "nodes", "-o", "/dev/null"),
        "resume": ("batch", image, "-o", "OUT", "--resume"),
        "paths": ("trace", image, "--order", "paths"),
        "read": ("trace", image, "--order", "read", "--file", "/no such file"),
        "cache": ("cache", "clear", "--cache-dir", "refused-folder"),
    }
    for name, words in wrong.items():
        yield f"wrong-{name}", words


def _of_many() -> Iterator[tuple[str, tuple[str, ...]]]:
    names = ("hfsplus-populated", "hfsplus-gpt", "hfsplus-journal-pending", "apfs-basic-0", "apfs-volumes-0")
    more = ("apfs-encrypted-0", "zeroed-apfs-aged-0", "zeroed-hfsplus-half-full-nodes", "refused-text", "refused-empty")
    sources = tuple(f"{name}.img" for name in (*names, *more))
    limits = ("-j", "1", "--memory", "2GiB", "--timeout", "600")
    yield "batch", ("batch", *sources, "-o", "OUT", *limits, "--order", "fts", "--order", "copy")
    yield "batch-resume", ("batch", *sources, "-o", "w/batch", "--resume", *limits, "--order", "fts", "--order", "copy")
    yield "batch-again", ("batch", *sources, "-o", "w/batch", *limits)
    yield "batch-json", ("batch", *sources[:3], "absent.img", "-o", "OUT", *limits, "--json", "--hash-names")
    yield "query-list", ("query", "w/batch", "--list")
    columns = "path, status, exit_code, message, size_bytes, image_bytes, read_bytes, coverage, metadata_sha256"
    yield "query-sources", ("query", "w/batch", f"SELECT {columns} FROM sources ORDER BY path", "--format", "json")  # noqa: S608
    for view in VIEWS:
        asked = f"SELECT * EXCLUDE source FROM {view} ORDER BY ALL"  # noqa: S608
        yield f"query-{view}", ("query", "w/batch", asked, "--format", "csv")
    asked = "SELECT path, count(*) AS n FROM sources JOIN nodes USING (source) GROUP BY 1 ORDER BY 1"
    yield "query-parquet", ("query", "w/batch", asked, "-o", "OUT.parquet", "--format", "parquet")
    yield "query-md", ("query", "w/batch", asked, "--format", "md")
    yield "report", ("report", "w/batch", "-o", "OUT.html", "--json")
    yield "report-maps", ("report", "w/batch", "-o", "OUT.html", "--maps", "--no-names")


def calls(case: Case) -> Iterator[tuple[str, Callable[[], Any]]]:
    """List what the library is asked: the name of the output, and the call."""
    import layoutscope as library

    image, words = case.name, dict(zip(case.options[::2], case.options[1::2], strict=True))
    how = {name.removeprefix("--"): word for name, word in words.items()}
    alone = {name: word for name, word in how.items() if name != "second"}
    if case.kind == "words":
        yield "surface", lambda: {name: surface(getattr(library, name)) for name in library.__all__}
        yield "explain", library.explain
        yield "drives", library.drives
        yield "load_profile", lambda: library.load_profile("generic-7200")
        yield "fit", lambda: library.fit("mine", random_ms=12.0, rate_mb_s=150.0)
        yield "kit", library.kit
        yield "unknown-keyword", lambda: library.scan("hfsplus-populated.img", names="no", voluem=1)
        yield "unknown-name", lambda: library.scam  # type: ignore[attr-defined]
        return
    if case.kind == "batch":
        sources = ["hfsplus-populated.img", "apfs-basic-0.img", "refused-text.img"]
        yield "batch", lambda: library.batch(sources, "w/library", workers=1, memory_bytes=2 << 30)
        yield "write_report", lambda: library.write_report("w/library", "w/library.html")
        return
    for name in ("scan", "check", "checkpoints"):
        yield name, lambda name=name: getattr(library, name)(image, **how)
    if case.kind == "usual":
        return
    if case.kind != "whole":
        yield "plan", lambda: library.plan(image, **how)
        yield "read_layouts", lambda: library.read_layouts(image, **how)
        yield "validate", lambda: library.validate(image)
        return
    more: dict[str, Callable[[], Any]] = {
        "verify": lambda: library.verify(image, **how),
        "list": lambda: library.list(image, **how).part(slice(None)),
        "predict": lambda: library.predict(image, what_ifs=("packed", "ssd"), **how),
        "plan": lambda: library.plan(image, shows_all=True, **how),
        "trace": lambda: library.trace(image, order="du", host="macos", **how),
        "service": lambda: library.service(library.trace(image, **how), "generic-7200"),
        "simulate": lambda: library.simulate(library.trace(image, **how), "generic-7200"),
        "inspect": lambda: library.inspect(image, at=40960, **how),
        "read_layouts": lambda: library.read_layouts(image, **how),
        "layout_map": lambda: library.scan(image, **how).figure(),
        "query": lambda: library.query(image, "SELECT * FROM volumes", **how),
        "export": lambda: library.export(image, "nodes", "w/library-nodes.jsonl", **how),
        "extract": lambda: library.extract(image, "w/library-extract.img", **how),
        "save": lambda: library.scan(image, **how).save("w/library.lscope"),
        "write_map": lambda: library.scan(image, **how).map("w/library-map.html"),
        "write_trace": lambda: library.write_trace(library.trace(image, **how), "w/library-trace.csv"),
        "replay": lambda: library.replay("w/library-trace.csv", drives="generic-7200"),
        "compare": lambda: library.compare(image, case.partner, **alone),
        "series": lambda: library.series([image, case.partner], **alone),
        "forecast": lambda: library.forecast(image, cycles=1, seeds=1, drives="generic-7200", **how),
        "write_forecast_plot": lambda: library.write_forecast_plot(
            library.forecast(image, cycles=1, seeds=1, drives="generic-7200", **how), "w/library-forecast.html"
        ),
        "map": lambda: library.map([image], "w/library-page.html", picture="w/library-page.svg", **how),
        "session": lambda: _session(library.open(image, **how)),
    }
    yield from more.items()


def _session(session: Any) -> dict[str, Any]:
    with session:
        return {
            "volume": session.volume,
            "scan": session.scan(),
            "check": session.check(),
            "predict": session.predict(),
        }


def surface(thing: Any) -> Any:
    """Tell how something public is called: its parameters with their kinds and defaults."""
    if not callable(thing):
        return type(thing).__name__
    parameters = inspect.signature(thing).parameters.values()
    return [f"{parameter.kind.name.lower()} {parameter.name} = {parameter.default!r}" for parameter in parameters]
