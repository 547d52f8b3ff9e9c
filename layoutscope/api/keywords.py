"""Keywords of the verbs: what each has, and that no other passes.

A verb names its group of options (:mod:`layoutscope.options`), whose types type checkers read. Here given keywords are
compared with it at run time, and its options become part of what ``help()``, ``inspect.signature`` and Tab show.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Sequence
from functools import wraps
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from layoutscope.errors import UsageError, did_you_mean
from layoutscope.options import check_numbers, options_of, own_options

RENAMED: Final = {"cache": "buffer", "cache_bytes": "memory_bytes", "figures": "datasheet", "map_file": "ddrescue_map"}
"""Keywords that earlier versions had; options of the command line are spelt as the new ones."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from layoutscope.drive import DriveProfile
    from layoutscope.options import Drives, Option

DEFAULT_DRIVES: Final = ("generic-5400-2.5", "generic-7200", "sata-ssd")
"""Drives that are predicted for by default."""

MAX_LISTED: Final = 4
"""Choices that are part of a type; more are in the text."""

P = ParamSpec("P")
R = TypeVar("R")


def takes(
    group: type,
    # name of the verb, where its function must have another one: `map` would hide the built-in function
    name: str = "",
    *,
    is_open: bool = False,  # whether the image was read before, and has no more options of reading
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse keywords that a verb does not have, and show those that it has where people look."""

    def decorate(verb: Callable[P, R]) -> Callable[P, R]:
        signature, options = inspect.signature(verb), own_options(group) if is_open else options_of(group)
        own = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
        known = dict.fromkeys([*(item.name for item in own if item.kind is not item.VAR_POSITIONAL), *options])

        @wraps(verb)
        def checked(*args: P.args, **given: P.kwargs) -> R:
            if not known.keys() >= given.keys():
                refuse_unknown(name or verb.__name__, [each for each in given if each not in known], known)
            check_numbers(group, given)
            return verb(*args, **given)

        kinds = {each: option_type(option, group.__annotations__[each]) for each, option in options.items()}
        spread = [
            inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=kinds[each])
            for each, option in options.items()
        ]
        checked.__signature__ = signature.replace(parameters=[*own, *spread])  # type: ignore[attr-defined]
        checked.__doc__ = _complete(inspect.getdoc(verb) or "", signature.parameters, options, kinds)
        return checked

    return decorate


USUAL: Final = {
    "path": "path : path\n    The image.",
    "workload": "workload : Workload, optional\n"
    "    The keywords from ``order`` to ``passes`` together, for those who keep them in a dictionary.",
}
"""Parameters that many verbs have, as numpydoc describes them; a verb describes its own, and those that differ."""

SECTIONS: Final = ("Parameters", "Returns", "Raises", "Examples")


def _complete(doc: str, parameters: Iterable[str], options: Mapping[str, Option], kinds: Mapping[str, str]) -> str:
    """Add what verbs share to the docstring of one: usual parameters, its options, and errors."""
    summary, *parts = re.split(r"\n\n(?=\w+\n-{3,}\n)", doc)
    sections = {part.partition("\n")[0]: part.split("\n", 2)[2] for part in parts}
    own, raised = sections.get("Parameters", ""), sections.get("Raises", "")
    usual = {name: USUAL[name] for name in parameters if name in USUAL and f"{name} : " not in own}
    entries = [_entry(name, option, kinds[name]) for name, option in options.items()]
    sections["Parameters"] = "\n".join(filter(None, (usual.get("path"), own, usual.get("workload"), *entries)))
    if "partition" in options and "LayoutscopeError" not in raised:
        raised = f"{raised}\nLayoutscopeError\n    If the image cannot be read.".lstrip()
    if raised:
        sections["Raises"] = f"{raised}\nTypeError\n    If a keyword is unknown."
    present = (f"{title}\n{'-' * len(title)}\n{sections[title]}" for title in SECTIONS if title in sections)
    return "\n\n".join((summary, *present))


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


def check_choice(what: str, given: str, known: Iterable[str]) -> None:
    """Refuse a word that is none of those that are known."""
    names = [*known]
    if given not in names:
        raise UsageError(f"unknown {what} {given!r}{did_you_mean(given, names)}. Choose from: {', '.join(names)}")


def _entry(name: str, option: Option, kind: str) -> str:
    """Write an option as numpydoc does, with what it does and what holds without it."""
    ending = "optional" if option.default is None else f"default {option.default!r}"
    # The text of a switch that is on describes what happens without it.
    does = f"False: {option.help[0].lower()}{option.help[1:]}" if option.default is True else option.help
    absence = f"Without it: {option.absence}." if option.absence and option.default is None else ""
    text = " ".join(filter(None, (does, option.more, absence)))
    return f"{name} : {', '.join(filter(None, (kind, option.unit, ending)))}\n    {text}"


def option_type(option: Option, hint: Any) -> str:
    """Write the type of an option as numpydoc does; few choices are listed."""
    few = option.choices if len(option.choices) <= MAX_LISTED else ()
    return option.kind or (f"{{{', '.join(map(repr, few))}}}" if few else describe_type(hint))


def describe_type(hint: Any) -> str:
    """Write a type as numpydoc does; None is left out.

    >>> describe_type(str | os.PathLike[str] | Sequence[int] | None)
    'path or sequence of int'
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return describe_type(parts[0])
    if origin is Literal:
        return f"{{{', '.join(map(repr, parts))}}}"
    if origin in (Union, UnionType):
        is_path = any(get_origin(part) is os.PathLike for part in parts)
        shown = [describe_type(part) for part in parts if part is not NoneType and not (is_path and part is str)]
        return " or ".join(shown)
    if origin is os.PathLike:
        return "path"
    if origin is not None and issubclass(origin, Sequence):
        return f"sequence of {describe_type(parts[0])}"
    if parts and len(parts) == 2 and origin.__name__ == "Mapping":
        return f"mapping of str to {describe_type(parts[1])}"
    return "callable" if origin is not None else hint.__name__.replace("object", "value")


def several(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    """Return one path, or several, as a list; a text is one path, not a sequence of letters."""
    return [given] if isinstance(given, str | os.PathLike) else [*given]


def profiles_of(drives: Drives | None, usual: Sequence[str] = DEFAULT_DRIVES) -> list[DriveProfile]:
    """Load drive profiles by one name or several, those that are usual where none is given."""
    # Verbs that take keywords and no drive need not load what makes drives.
    from layoutscope.drive import load_profile

    return [load_profile(os.fspath(name)) for name in several(usual if drives is None else drives)]
