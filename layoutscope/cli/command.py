"""A command as typer takes it: groups of options spread, what was typed read, listeners and evidence added."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import typer
from typer.models import ArgumentInfo, ParameterInfo

from layoutscope.cli.options import long_flag, parameter, parameters_of, read_value
from layoutscope.cli.running import (
    STANDARD_OUTPUT,
    Damage,
    exit_code,
    heard_of_outputs,
    keep_freed_memory,
    warn,
    watched,
)
from layoutscope.errors import EXIT_COMPLETE, EXIT_DAMAGED, UsageError
from layoutscope.options import Option, options_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.cli.options import Changes

DASH: Final = Path("-")

OPTIONS: Final = "options"
"""The argument by which a command takes a group of the library's options, in the words of the library."""

QUIET: Final = "quiet"
"""The argument by which a command learns that no progress is to be shown."""


class Command:
    """A command as typer takes it.

    Typer has no groups of options: the options of the library that a command takes as one argument are spread behind
    its own; ``Annotated[Group, Changes]`` says which of them a command offers in another way.
    """

    def __init__(
        self,
        function: Callable[..., int | None],  # the command; returns its exit code, or None to leave it to `Damage`
    ) -> None:
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self._function = function
        own = dict(inspect.signature(function, eval_str=True).parameters)
        self._takes_quiet = own.pop(QUIET, None) is not None
        group, changes = _group_of(own.pop(OPTIONS).annotation) if OPTIONS in own else (None, {})
        plain = [_own_parameter(item) for item in own.values()]
        spread = [] if group is None else parameters_of(group, changes)
        self._own, self._spread = [*own], [item.name for item in spread]
        known = {} if group is None else {name: group.__annotations__[name] for name in options_of(group)}
        # What the library takes in another form than it is typed, by the annotation that says so.
        self._hints = known | {name: item.annotation for name, item in own.items() if _option_of(item.annotation)}
        parameters = [*plain, *spread]
        for item in parameters:
            for mark in getattr(item.annotation, "__metadata__", ()):
                if isinstance(mark, ParameterInfo):
                    mark.readable = False  # whoever opens a file says why it cannot, with one exit code
        self._arguments = [item.name for item in parameters if _is_argument(item)]
        self.__signature__ = inspect.Signature(parameters)
        self.__annotations__ = {item.name: item.annotation for item in parameters}

    def __call__(self, **given: Any) -> None:
        """Run the command and leave with its exit code."""
        raise typer.Exit(exit_code(self._run, given))

    def _run(self, given: dict[str, Any]) -> int:
        given = {name: self._streamed(name, value) for name, value in given.items()}
        self._refuse_one_file_twice(given)
        given = {name: self._read(name, value) for name, value in given.items()}
        options = {name: value for name in self._spread if (value := given.pop(name)) is not None}
        damage, locked, is_quiet = Damage(), list[str](), bool(options.pop("quiet", False))
        evidence = options.pop("evidence", None)
        is_reading = "no_cache" in options
        if is_reading:
            options |= {"on_damage": damage.note, "on_locked": locked.append}
        if self._spread:
            given[OPTIONS] = options
        if self._takes_quiet:
            given[QUIET] = is_quiet
        keep_freed_memory()
        said: list[str] = []
        with watched(quiet=is_quiet or not is_reading), heard_of_outputs(said):
            code = self._function(**given) if not evidence else self._examine(given, evidence, damage)
        for line in dict.fromkeys(locked):
            warn(line)
        for line in said if not is_quiet else ():
            warn(line)
        return damage.exit_code() if code is None else code

    def _read(self, name: str, value: Any) -> Any:
        """Turn what was typed into what the library takes."""
        hint = self._hints.get(name)
        return value if hint is None else read_value(hint, _option_of(hint), value)

    def _streamed(self, name: str, value: Any) -> Any:
        """Take ``-`` for standard output where a result can go there, which is what None stands for; else refuse it."""
        item = self.__signature__.parameters[name]
        if _is_argument(item) or DASH not in (value if isinstance(value, list) else [value]):
            return value
        (mark,) = item.annotation.__metadata__
        if mark.show_default == STANDARD_OUTPUT:
            return None
        flag = long_flag(item)
        raise UsageError(f"{flag} -: name a file; '-' is standard output, which takes no result of {flag} here")

    def _refuse_one_file_twice(self, given: dict[str, Any]) -> None:
        """Refuse a file that two options name: one result would take the place of the other, or fail after the work."""
        named: dict[str, str] = {}
        for name, value in given.items():
            paths = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, Path)]
            for path in [] if name in self._arguments else paths:
                place, flag = os.path.realpath(path), long_flag(self.__signature__.parameters[name])
                if place in named and place != os.devnull:
                    raise UsageError(f"{path}: is named by {named[place]} and by {flag}; each takes a file of its own")
                named[place] = flag

    def _examine(self, given: dict[str, Any], evidence: list[Path], damage: Damage) -> int | None:
        """Run the command between two hashes of what it examines."""
        from layoutscope.api.evidence import examined

        options = given[OPTIONS]
        named = [given.get(name) for name in self._arguments]
        named += [options.get("second"), options.get("ddrescue_map")]
        images = [path for item in named for path in (item if isinstance(item, list) else [item])]
        with examined([path for path in images if isinstance(path, Path)], evidence, sys.argv[1:]) as work:
            code = self._function(**given)
            work.exit_code = (EXIT_DAMAGED if damage.lines else EXIT_COMPLETE) if code is None else code
        return code


def _own_parameter(item: inspect.Parameter) -> inspect.Parameter:
    """Make a command's own option a parameter as typer takes it; arguments are so already."""
    option = _option_of(item.annotation)
    return item if option is None else parameter(item.name, item.annotation, option, item.default)


def _option_of(annotation: Any) -> Any:
    return next((mark for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Option)), None)


def _group_of(annotation: Any) -> tuple[Any, Changes]:
    """Return a group, and what of it is offered in another way."""
    return get_args(annotation)[:2] if hasattr(annotation, "__metadata__") else (annotation, {})


def _is_argument(item: inspect.Parameter) -> bool:
    """Whether a parameter is no option, as images are."""
    return any(isinstance(mark, ArgumentInfo) for mark in getattr(item.annotation, "__metadata__", ()))
