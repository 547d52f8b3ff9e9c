"""Writes ``docs/reference/library.md`` from signatures, docstrings and documented columns.

``python -m tests.docs.library`` writes it; ``test_library.py`` keeps it up to date and complete.
"""

from __future__ import annotations

import inspect
import re
from ast import literal_eval
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import layoutscope
from layoutscope.api.keywords import describe_option, option_type
from layoutscope.api.session import Session
from layoutscope.options import Enumeration, ReadOptions, Unit, Workload, options_of
from layoutscope.results.scan import ScanResult
from layoutscope.tables import VolumeLayout
from layoutscope.tables.frames import FRAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "library.md"
REQUIRED = "required"
UNITS: Final = get_args(Unit)
"""What numbers in keywords may be of; a ``number`` is one by which something is called, and has no unit."""

_ENTRY: Final = re.compile(r"^\*{0,2}(\w+(?:, \w+)*) : (.+)\n((?:    .*\n?|\n)*)", re.MULTILINE)
_DEFAULT: Final = re.compile(
    r"^(?P<kind>.*?)(?:, (?P<unit>[\w/]+))??(?:, (?:default (?P<default>.+)|(?P<none>optional)))?$"
)

GROUPS = {"Enumeration": Enumeration, "Workload": Workload, "Reading": ReadOptions}
"""Keywords that many verbs share, by the heading under which the page has them once."""

HEAD = """\
# The library

`import layoutscope`. This page is written by `python -m tests.docs.library` from the code; `help(layoutscope.scan)`
shows the same text. Start with the notebook [Analyse a disk in Python](../questions.ipynb). Words are defined in the
[glossary](../glossary.md), tables in [tables](tables.md).

- Begin with [`open`](#layoutscopeopen): the image is read once for `scan`, `predict`, `trace` and others. `print(scan)`
  shows the report, and a notebook shows it with tables. Tables such as `prediction.times` are frames: extra `frames`.
- [`scan.map("map.html")`](#scanresultmap) writes the map, [`scan.figure()`](#scanresultfigure) draws it in a
  notebook, and [`scan.save("NAME.lscope")`](#scanresultsave) saves a capture. `verdict.causes` and
  `verdict.remedies` of a volume have a `title` in plain words.
- A keyword that a verb does not have is a `TypeError`, which names what was meant.
- Every verb that reads an image takes its path, a capture, or a session.
- `scan.volumes` has the volumes by place, `scan.containers` the APFS containers around them, and `scan.parts` both.
  `scan.volume` is the one volume that can be listed. `session.volumes` finds volumes by name, or by number from 1.
- `layout_map`, `write_map` and `save` of the package are understood for one release, with a `DeprecationWarning`.
- Every error that is raised on purpose is a `layoutscope.errors.LayoutscopeError`.
"""


class Keyword(NamedTuple):
    """One keyword."""

    name: str  # what callers write
    kind: str  # its type, as numpydoc writes types
    unit: str  # one of `UNITS`; empty where it is not a number
    default: object  # what holds without it; `empty` where that is not said
    text: str  # what it means


def documented(doc: str, section: str) -> tuple[Keyword, ...]:
    r"""Read the keywords in one section of a numpydoc docstring.

    >>> documented("Work.\n\nAttributes\n----------\nseed : int, number, default 1\n    Draws.\n", "Attributes")
    (Keyword(name='seed', kind='int', unit='number', default=1, text='Draws.'),)
    """
    _, _, rest = inspect.cleandoc(doc).partition(f"{section}\n{'-' * len(section)}\n")
    body = re.split(r"\n\n\w[\w ]*\n-{3,}\n", rest)[0] + "\n"
    return tuple(_keyword(name, line, text) for names, line, text in _ENTRY.findall(body) for name in names.split(", "))


def _keyword(name: str, line: str, text: str) -> Keyword:
    found = _DEFAULT.match(line)
    parts = found.groupdict() if found else {}
    default = None if parts.get("none") else inspect.Parameter.empty
    if parts.get("default"):
        default = literal_eval(parts["default"])
    kind, unit = parts.get("kind") or line, parts.get("unit") or ""
    if unit not in UNITS:
        kind, unit = ", ".join(filter(None, (kind, unit))), ""
    return Keyword(name, kind, unit, default, " ".join(text.split()))


def verbs() -> dict[str, Callable[..., Any]]:
    """Return the functions of the library by name."""
    return {name: getattr(layoutscope, name) for name in sorted(layoutscope.__all__) if name != "__version__"}


def methods() -> dict[str, Callable[..., Any]]:
    """Return what sessions and layouts do, by the name under which the page has it."""
    own = {name: method for name, method in vars(Session).items() if not name.startswith("_")}
    of_scans = {f"ScanResult.{name}": getattr(ScanResult, name) for name in ("map", "figure", "save")}
    return (
        {f"Session.{name}": method for name, method in own.items()}
        | of_scans
        | {"VolumeLayout.costs": VolumeLayout.costs}
    )


def keywords(function: Callable[..., Any]) -> list[tuple[Keyword | None, str, str]]:
    """Return what a function takes: the keyword as documented, its name, and what holds without it."""
    texts = {item.name: item for item in documented(function.__doc__ or "", "Parameters")}
    shown = [item for item in inspect.signature(function).parameters.values() if item.name != "self"]
    return [(texts.get(item.name), item.name, _default(item)) for item in shown if item.kind is not item.VAR_KEYWORD]


def _default(item: inspect.Parameter) -> str:
    return REQUIRED if item.default is item.empty else repr(item.default)


def _options_as_keywords(group: type) -> Iterator[Keyword]:
    for name, option in options_of(group).items():
        kind = option_type(option, group.__annotations__[name])
        yield Keyword(name, kind, option.unit, option.default, describe_option(option))


def _keyword_table(items: Iterable[Keyword]) -> Iterator[str]:
    rows = (
        (f"`{item.name}`", _plain(item.kind), item.unit, f"`{item.default!r}`", _plain(item.text)) for item in items
    )
    yield from _table(("keyword", "type", "unit", "default", "meaning"), rows)


def _plain(text: str) -> str:
    """Turn references into names as code."""
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text).replace("``", "`")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = [*head]
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def section(doc: str, title: str) -> str:
    """Return the text of one section of a docstring, empty where it has none."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n-{{3,}}\n|\Z)", doc, re.DOTALL | re.MULTILINE)
    return found[1].strip("\n") if found else ""


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    doc = inspect.cleandoc(function.__doc__ or "")
    yield f"### `{name}`\n"
    yield _plain(" ".join(doc.split("\n\n")[0].split())) + "\n"
    taken = {item.name for item, _, _ in keywords(function) if item is not None}
    groups = [title for title, kind in GROUPS.items() if set(kind.__annotations__) <= taken]
    shared = {name for title in groups for name in GROUPS[title].__annotations__}
    rows = [
        (
            f"`{known}`",
            _plain(item.kind),
            item.unit,
            f"`{default}`" if default != REQUIRED else default,
            _plain(item.text),
        )
        for item, known, default in keywords(function)
        if item is not None and known not in shared
    ]
    if rows:
        yield from _table(("keyword", "type", "unit", "default", "meaning"), rows)
        yield ""
    if groups:
        links = [f"[{title.lower()}](#{title.lower().replace(' ', '-')})" for title in groups]
        yield f"Takes the keywords of {' and '.join(links)}, too.\n"
    for title in ("Returns", "Raises"):
        lines = section(doc, title)
        if lines:
            entries = [
                f"`{head}`: {_plain(' '.join(text.split()))}" if text else f"`{head}`"
                for head, text in re.findall(r"^(\S.*)\n((?:    .*\n?)*)", lines + "\n", re.MULTILINE)
            ]
            yield f"{title} {'; '.join(entries)}\n".replace("``", "`")
    example = section(doc, "Examples")
    if example:
        yield f"```python\n{example}\n\n```\n"


def page() -> str:
    """Return the whole page."""
    lines = [HEAD, "## Verbs\n"]
    for name, function in verbs().items():
        lines += _function(f"layoutscope.{name}", function)
    for title, kind in GROUPS.items():
        lines += [f"## {title}\n", *_keyword_table(_options_as_keywords(kind)), ""]
    lines += ["## Sessions, scans and layouts\n"]
    for name, function in methods().items():
        lines += _function(name, function)
    lines += ["## Frames\n", "Each is a polars frame; `.to_pandas()` turns it into one of pandas.\n"]
    where = {
        "metrics": "`result.metrics`",
        "times": "`result.times`, `prediction.times`",
        "comparison": "`comparison.frame`",
        "faults": "`checked.frame`",
    }
    where |= {name: f"`prediction.{name}`" for name in ("directories", "reads")}
    where["remedies"] = "`plan.remedies`"
    where |= {f"{name}_costs": f"`layout.costs(drive).{field}`" for name, field in _COSTS.items()}
    for name, columns in FRAMES.items():
        lines += [f"### {where[name]}\n"]
        rows = [(f"`{column.name}`", column.kind, column.unit, column.doc) for column in columns]
        lines += [*_table(("column", "type", "unit", "meaning"), rows), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


_COSTS = {"node": "nodes", "file": "files", "directory": "directories"}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
