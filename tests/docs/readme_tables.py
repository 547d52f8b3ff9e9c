"""Tables of README and reference, made from the code (``cog -r README.md docs/*.md`` writes them, CI checks them)."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a Markdown table."""
    print(f"| {' | '.join(head)} |")  # noqa: T201
    print(f"|{'---|' * len(head)}")  # noqa: T201
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in row]
        print(f"| {' | '.join(cells)} |")  # noqa: T201


def placed(code: str, place: str = "") -> str:
    """Write a code so that it can be led to by itself, or by another name."""
    return f'<a id="{place or code}"></a>`{code}`'


def metrics() -> None:
    """Print the definitions of all metrics."""
    from layoutscope.metrics import DEFINITIONS

    rows = [(placed(d.name), d.title, d.unit, d.denominator, d.text, d.citation) for d in DEFINITIONS.values()]
    table(("metric", "title", "unit", "of what", "definition", "source"), rows)


def findings() -> None:
    """Print every finding code."""
    from layoutscope.filesystems.registry import finding_codes

    table(("code", "meaning"), [(placed(code), text) for code, text in sorted(finding_codes().items())])


def refusals() -> None:
    """Print the code of everything that is refused."""
    from layoutscope.filesystems.registry import refusals

    table(("code", "what is refused"), [(placed(code), text) for code, text in sorted(refusals().items())])


def schema() -> None:
    """Print the columns of every table."""
    from layoutscope.tables import TABLES

    for name, columns in TABLES.items():
        print(f"## `{name}`\n")  # noqa: T201
        table(("column", "unit", "meaning"), [(placed(c.name, f"{name}.{c.name}"), c.unit, c.doc) for c in columns])
        print()  # noqa: T201


def orders() -> None:
    """Print every order with what it does and what it needs."""
    from layoutscope.walk.orders import ORDERS

    again = {True: "no", False: "yes"}
    needs = {name: f"`--{name}`" for name in ("paths", "file")}
    rows = [
        (placed(each.name), each.does, needs.get(each.needs, ""), again[each.is_done_once]) for each in ORDERS.values()
    ]
    table(("order", "what it gets", "needs", "again"), rows)


def hosts() -> None:
    """Print the properties of the hosts, their values and where these come from."""
    from layoutscope.walk.host import LINUX, MACOS, property_values, sources

    where = sources()
    both = zip(property_values(LINUX).items(), property_values(MACOS).values(), strict=True)
    rows = [(placed(name), _shown(linux), _shown(macos), *where[name]) for (name, linux), macos in both]
    above = [("", ""), *(row[-2:] for row in rows)]
    again = [
        tuple("as above" if one == old else one for one, old in zip(row[-2:], last, strict=True))
        for row, last in zip(rows, above, strict=False)
    ]
    rows = [(*row[:-2], *told) for row, told in zip(rows, again, strict=True)]
    hosts = ('<a id="linux"></a>linux', '<a id="macos"></a>macos')
    table(("property", *hosts, "source on linux", "source on macos"), rows)


def _shown(value: object) -> str:
    """Show a property as ``--host-property`` takes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(name.strip("\0\r") for name in value)
    return "unlimited" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def drives() -> None:
    """Print the drive profiles."""
    from layoutscope.drive import list_profiles, load_profile

    rows = []
    for name in list_profiles():
        profile = load_profile(name)
        rows.append((placed(name), profile.take_for, profile.title))
    table(("profile", "take it for", "drive"), rows)


def verbs() -> None:
    """Print the functions of the library that do what the commands do."""
    import layoutscope

    rows = []
    for name in sorted({*layoutscope.__all__} - {"__version__"}):
        summary = (getattr(layoutscope, name).__doc__ or "").split("\n\n")[0].replace("\n", " ")
        rows.append((f"`layoutscope.{name}`", " ".join(summary.split())))
    table(("function", "what it does"), rows)


def json_fields() -> None:
    """Print the fields of the JSON of a scan."""
    from tests.docs.schemas import described_members, schemas

    members = dict(described_members(schemas()["scan"]))
    # Findings of a volume and metrics of a walk have the members of all others.
    again = ("volumes[].findings[].", "volumes[].walk.metrics[].", "findings[].cause.")
    table(("field", "meaning"), [(f"`{name}`", text) for name, text in members.items() if not name.startswith(again)])


def speed() -> None:
    """Print what ``tests/bench/scan_speed.py`` measured: least times of several rounds, and ratios to the peers."""
    import json

    path = Path(__file__).resolve().parents[1] / "bench" / "results.json"
    if not path.exists():
        print("Not measured yet: `python tests/bench/scan_speed.py IMAGE... -o tests/bench/results.json`.")  # noqa: T201
        return
    rows = [row for image in json.loads(path.read_text("utf-8"))["images"] for row in _speed_rows(image)]
    head = ("image", "program", "wall", "user", "system", "peak", "CPU of `fls -r`", "CPU of the floor")
    table(head, rows)


def reads() -> None:
    """Print what ``tests/bench/own_reads.py`` measured: requests, bytes and seconds of each verb beside two sweeps."""
    import json

    path = Path(__file__).resolve().parents[1] / "bench" / "reads.json"
    images = json.loads(path.read_text("utf-8"))["images"]
    head = ("image", "verb", "requests", "MiB", "seconds", "of two sweeps")
    rows = [
        (
            image,
            verb,
            f"{row['reads']:,}",
            f"{row['bytes'] / 2**20:,.0f}",
            f"{row['seconds']:.3g}",
            f"{row['seconds'] / found['two sweeps']['seconds']:.2f}",
        )
        for image, found in images.items()
        for verb, row in found.items()
    ]
    table(head, rows)


def _speed_rows(image: dict) -> list[tuple[str, ...]]:
    """One row a program; ratios are of processor seconds, user and system together."""
    seconds = image["seconds"]
    used = {name: times["user"] + times["system"] for name, times in seconds.items()}
    peer, floor = used.get("fls -r"), used.get("floor")
    return [
        (
            f"{image['image']}, {image['entries']:,} entries",
            name,
            *(f"{times[key]:.2f} s" for key in ("wall", "user", "system")),
            f"{times['peak_mib']:,.0f} MiB" if "peak_mib" in times else "",
            f"{used[name] / peer:.3f}" if peer else "",
            f"{used[name] / floor:.1f}" if floor else "",
        )
        for name, times in seconds.items()
    ]


def output(words: str, first: int = 0, last: int | None = None) -> None:
    """Print what a command prints at 80 columns, or some of its lines."""
    _screen(f"layoutscope {words}", [sys.executable, "-m", "layoutscope", *words.split()], slice(first, last))


def shell(words: str) -> None:
    """Print what a program prints of the files that commands before it wrote."""
    _screen(words, words.split(), slice(None))


def _screen(title: str, program: list[str], lines: slice) -> None:
    environment = {**os.environ, "COLUMNS": "80", "TERM": "dumb", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, env=environment, cwd=_desk(), capture_output=True, text=True, check=False)
    # 3 is an answer, too: read, and something was wrong.
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr)
    shown = [line.rstrip() for line in done.stdout.rstrip().splitlines()][lines]
    print("```text", f"$ {title}", *shown, "```", sep="\n")  # noqa: T201


@cache
def _desk() -> str:
    """Make the folder in which commands run, beside the committed images; what one writes is there for the next."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    Path(folder, "fixtures").symlink_to(ROOT / "fixtures")
    return folder
