"""Keywords of the verbs: what each is called and means, and that no other passes.

A verb names its rare keywords by classes (:class:`~layoutscope.options.ReadOptions` and others), which type checkers
read and nobody else does. Here they are held to them at run time, and become part of what ``help()``,
``inspect.signature`` and Tab show. The text behind a keyword's type, ``int, bytes, default 0``, is its unit and what
holds without it.
"""

from __future__ import annotations

import inspect
import os
import re
from ast import literal_eval
from functools import wraps
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from msgspec import Struct

from layoutscope.errors import did_you_mean

RENAMED: Final = {
    "cache": "buffer",
    "cache_bytes": "memory_bytes",
    "figures": "datasheet",
    "map_file": "ddrescue_map",
}
"""Keywords that earlier versions had; options of the command line are spelt as the new ones."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from layoutscope.drive import DriveProfile
    from layoutscope.options import Drives

P = ParamSpec("P")
R = TypeVar("R")

UNITS: Final = ("bytes", "microseconds", "milliseconds", "MB/s", "sectors", "count", "number")
"""What numbers in keywords may be of; a ``number`` is one by which something is called, and has no unit."""

_ENTRY: Final = re.compile(r"^\*{0,2}(\w+(?:, \w+)*) : (.+)\n((?:    .*\n?|\n)*)", re.MULTILINE)
_DEFAULT: Final = re.compile(
    r"^(?P<kind>.*?)(?:, (?P<unit>[\w/]+))??(?:, (?:default (?P<default>.+)|(?P<none>optional)))?$"
)


class Keyword(Struct, frozen=True):
    """One keyword."""

    name: str  # what callers write
    kind: str  # its type, as numpydoc writes types
    unit: str  # one of `UNITS`; empty where it is no number
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


def keywords_of(kinds: Iterable[type]) -> dict[str, Keyword]:
    """Return the keywords that classes of them declare, by name, in order."""
    return {item.name: item for kind in kinds for item in documented(kind.__doc__ or "", "Attributes")}


def takes(
    *kinds: type,
    # name of the verb, where its function must have another one: `map` would hide the built-in function
    called: str = "",
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Hold a verb to its keywords, and show them where people look."""
    known = keywords_of(kinds)

    def of(verb: Callable[P, R]) -> Callable[P, R]:
        own = [item for item in inspect.signature(verb).parameters.values() if item.kind is not item.VAR_KEYWORD]
        names = [item.name for item in own if item.kind is not item.VAR_POSITIONAL]

        @wraps(verb)
        def held(*args: P.args, **given: P.kwargs) -> R:
            unknown = [name for name in given if name not in known and name not in names]
            if unknown:
                refuse_unknown(called or verb.__name__, unknown, (*names, *known))
            return verb(*args, **given)

        spread = [
            inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=item.kind)
            for item in known.values()
            if item.name not in names
        ]
        held.__signature__ = inspect.signature(verb).replace(parameters=[*own, *spread])  # type: ignore[attr-defined]
        held.__doc__ = _spelled_out(inspect.getdoc(verb) or "", known)
        return held

    return of


def refuse_unknown(
    verb: str,
    unknown: Sequence[str],  # keywords that are none of the verb's
    known: Iterable[str],
) -> None:
    """Refuse keywords that neither a verb nor the file system of another package has."""
    from layoutscope.filesystems.registry import read_options

    names = [*known]
    for name in unknown:
        if "partition" not in names or name not in read_options():
            now = RENAMED.get(name)
            hint = f" (it is called {now!r} now)" if now in names else did_you_mean(name, names)
            raise TypeError(f"{verb}() has no keyword {name!r}{hint}; its help lists them")


def _spelled_out(doc: str, known: Mapping[str, Keyword]) -> str:
    """Put the keywords where a docstring says that there are more of them."""
    found = re.search(r"\n\*\*\w+\n", doc)
    if found is None:
        return doc
    before, rest = doc[: found.start()], doc[found.end() :]
    after = re.split(r"\n(?=\n)", rest, maxsplit=1)
    lines = [line for item in known.values() for line in _entry(item)]
    return "\n".join([before, *lines, *after[1:]])


def _entry(item: Keyword) -> list[str]:
    """Write a keyword as numpydoc does."""
    ending = "optional" if item.default is None else f"default {item.default!r}"
    return [f"{item.name} : {', '.join(filter(None, (item.kind, item.unit, ending)))}", f"    {item.text}"]


def several(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    """Return one path, or several, as a list; a text is one path, not a sequence of letters."""
    return [given] if isinstance(given, str | os.PathLike) else [*given]


def profiles_of(drives: Drives | None, usual: Sequence[str] = ()) -> list[DriveProfile]:
    """Load drive profiles by one name or several, those that are usual where none is given."""
    # Verbs that take keywords and no drive need not load what makes drives.
    from layoutscope.drive import load_profile

    return [load_profile(os.fspath(name)) for name in several(usual if drives is None else drives)]
