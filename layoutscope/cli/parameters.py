"""Commands and their options as typer takes them.

The options are made from those of the library, with the few that only a command line has.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

import typer
from typer.models import ArgumentInfo, ParameterInfo

from layoutscope import inputs
from layoutscope.cli.running import (
    STANDARD_OUTPUT,
    Damage,
    errors_as_exit_codes,
    keep_freed_memory,
    list_outputs,
    show_progress,
    warn,
)
from layoutscope.errors import EXIT_COMPLETE, EXIT_DAMAGED, ImageError, UsageError, reason_of
from layoutscope.options import (
    DAMAGED,
    ENCRYPTED,
    OUTPUT,
    VOLUME,
    CommandOptions,
    Option,
    ReadOptions,
    SharedReadOptions,
    flags_of,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.traits import ReadOption

Group = TypeVar("Group")

Changes = Mapping[str, Option | None]
"""What a command offers in another way than the library, or not; by name, or by the kind of a file system's option."""

SEVERAL: Final[Changes] = {"ddrescue_map": None, "image": None}
"""Options that are a matter of one image, not of several."""

COMMANDS_WORDS: Final[Changes] = {
    "cache_dir": options_of(SharedReadOptions)["cache_dir"]._replace(absence="as 'layoutscope cache' shows")
}
"""The library keeps nothing unless it is asked to."""

FLEET: Final[Changes] = {**SEVERAL, "evidence": None}

CONTAINER: Final[Changes] = dict.fromkeys(("sweep", "number", "text", "switch"))
"""Options that change nothing where no state is chosen, and no tree is rebuilt."""

Image = Annotated[
    Path,
    typer.Argument(
        metavar="IMAGE", help="Raw image (split or compressed too), disk image, device or capture; or IMAGE:VOLUME."
    ),
]
ImageItself = Annotated[
    Path,
    typer.Argument(
        metavar="IMAGE",
        help="Raw image (split or compressed too), disk image or device, but no capture; or IMAGE:VOLUME.",
    ),
]
AsJson = Annotated[bool, Option("Print JSON.", panel=OUTPUT, flag="--json")]
PLOT: Final = Option("Write a page of plots.", panel=OUTPUT, metavar="FILE.html", absence="not drawn")
Plot = Annotated[Path | None, PLOT]
TO_FILE: Final = Option("Output file.", panel=OUTPUT, flag="-o --output", absence=STANDARD_OUTPUT)
Output = Annotated[Path | None, TO_FILE]

OWN_KINDS: Final[dict[str, tuple[Any, str, str, str]]] = {
    "number": (int | None, "N", VOLUME, "the newest"),
    "text": (str | None, "NAME", VOLUME, "none"),
    "secret": (str | None, "TEXT", ENCRYPTED, "stays locked"),
    "image": (Path | None, "IMAGE", VOLUME, "there is one device"),
    "switch": (bool, "", DAMAGED, ""),
}
"""The type of a file system's own option, what stands for its value, its panel, and what holds without it."""


def parameters_of(group: type, changes: Changes) -> list[inspect.Parameter]:
    """Make the options of a group parameters as typer takes them; reading options come last."""
    reading = options_of(ReadOptions) if "partition" in options_of(group) else {}
    parts: list[tuple[type, Changes]] = [(group, {**dict.fromkeys(reading), **changes})]
    parts += [(part, {**COMMANDS_WORDS, **changes}) for part in (SharedReadOptions, CommandOptions) if reading]
    found = [
        parameter(name, part.__annotations__[name], shown, shown.default)
        for part, own_changes in parts
        for name, option in options_of(part).items()
        if (shown := own_changes.get(name, option)) is not None and shown.flag != ""
    ]
    own = [item for item in _read_options().values() if reading and item[0].kind not in changes]
    return [*found, *(item for option, labels in own for item in _own_parameters(option, " or ".join(labels)))]


def _read_options() -> dict[str, tuple[ReadOption, tuple[str, ...]]]:
    from layoutscope.filesystems.registry import read_options

    return read_options()


def _own_parameters(own: ReadOption, label: str) -> Iterator[inspect.Parameter]:
    """Make a file system's own option a parameter.

    A secret may be read from a file, too: words on a command line are seen by everybody on the machine.
    """
    kind, metavar, panel, absence = OWN_KINDS[own.kind]
    # The same passwords also open CoreStorage and encrypted disk images around a volume.
    label = f"{label}, FileVault 2, encrypted disk images" if own.kind == "secret" else label
    text = own.help or options_of(ReadOptions)[own.name].help
    text = f"{text[0].lower()}{text[1:]}"
    if own.kind == "secret":
        text = f"{text.removesuffix('.')}, or - for a prompt; without it LAYOUTSCOPE_{own.name.upper()} is used."
    shown = Option(f"{label}: {text}", own.default, panel=panel, metavar=metavar, absence=absence)
    yield parameter(own.name, kind, shown, own.default)
    if own.kind == "secret":
        about = shown._replace(help=f"{label}: a file with the {own.name.replace('_', ' ')}.", metavar="FILE")
        yield parameter(f"{own.name}_file", Path | None, about, None)


def parameter(name: str, hint: Any, option: Option, default: Any) -> inspect.Parameter:
    """Make an option a parameter as typer takes it."""
    kind, metavar, _ = _written(hint, option)
    if kind is bool:
        default = False
    elif default in (None, "", (), {}) or kind == list[str]:
        default = None if default is not inspect.Parameter.empty else default
    elif option.form == "seconds":
        default = default / 1000
    elif kind is str and default is not inspect.Parameter.empty:
        default = str(default)
    is_number = kind in (int, float)
    declared: Any = typer.Option(
        *flags_of(name, option),
        metavar=option.metavar or metavar,
        rich_help_panel=option.panel or None,
        show_default=option.absence or default is not None,
        help=option.help,
        autocompletion=COMPLETIONS.get(name),
        min=option.least if is_number else None,
        max=option.most if is_number else None,
    )
    typed: Any = kind if default is not None else kind | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[typed, declared]
    )


def long_flag(item: inspect.Parameter) -> str:
    """Return how an option is spelt, by its long name."""
    (declared,) = item.annotation.__metadata__
    # Typer keeps the first spelling where other styles have the default.
    return next(str(flag) for flag in (declared.default, *declared.param_decls) if flag.startswith("--"))


def read_value(hint: Any, option: Option, value: Any) -> Any:
    """Turn typed words into values of the library; None for no words."""
    if value is None or value == []:
        return None
    _, _, read = _written(hint, option)
    if option.default is True:
        return not value
    return value if read is None else read(value)


def _written(hint: Any, option: Option) -> tuple[Any, str | None, Callable[[Any], Any] | None]:
    """Describe how an option is written: its type on the command line, its placeholder, and its parser."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if option.form or option.unit == "bytes":
        return FORMS[option.form or "bytes"]
    if option.choices:
        return Literal[option.choices], None, None
    is_union = get_origin(hint) in (Union, UnionType)
    parts = [part for part in get_args(hint) if part is not NoneType] if is_union else [hint]
    origins = [get_origin(part) for part in parts]
    if Sequence in origins:
        return list[str], "NAME", None
    if os.PathLike in origins:
        return Path, "FILE", None
    (first, *_) = parts
    return first, {int: "N", str: "NAME", Path: "FILE"}.get(first), None


def complete_what_if(incomplete: str) -> list[str]:
    """List the what-ifs that begin so; help does not load what knows them."""
    from layoutscope.remedies.changes import WHAT_IFS

    return [name for name in WHAT_IFS if name.startswith(incomplete)]


COMPLETIONS: Final = {"what_ifs": complete_what_if}


def complete_options(options: Group) -> Group:
    """Add what only a terminal and this machine know: secrets, which are asked for only now, and the usual cache."""
    given = dict[str, Any](options)  # type: ignore[call-overload]  # a group is a dictionary
    for name in [name for name, (own, _) in _read_options().items() if own.kind == "secret"]:
        given[name] = secret_of(name, given.get(name), given.pop(f"{name}_file", None))
    given["cache_dir"] = None if given.pop("no_cache") else given.get("cache_dir") or usual_cache()
    return cast("Group", given)


def secret_of(name: str, typed: str | None, file: Path | None) -> str | None:
    """Return a secret: from its file, as typed, from a prompt without an echo, or from the environment."""
    if file is not None:
        return read_secret(file)
    if typed == "-":
        from getpass import getpass

        if not sys.stdin.isatty():
            raise UsageError(f"--{name} - asks at a terminal, and there is none. Write --{name}-file FILE.")
        return getpass(f"{name.capitalize()}: ")
    if typed is None:
        return os.environ.get(f"LAYOUTSCOPE_{name.upper()}") or None
    warn(f"warning: a {name} on the command line is visible to other users. Use --{name} -.")
    return typed


def read_secret(path: Path) -> str:
    """Read a password from a file, without the line end that editors add."""
    try:
        return inputs.read_text(path, max_bytes=inputs.MAX_SECRET_BYTES).rstrip("\r\n")
    except OSError as error:
        raise ImageError(f"{path}: cannot be read as a password file: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise ImageError(f"{path}: cannot be read as a password file") from error


def usual_cache() -> Path | None:
    """Return the folder in which decompressed images are kept by default; None where it cannot be made."""
    from layoutscope.image.cache import TAG, default_folder
    from layoutscope.image.split import refuse_part

    folder = default_folder()
    if folder is None:
        return None
    try:
        refuse_part(folder / TAG)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except UsageError:
        return folder  # in a bundle: the error is reported when an image is to be kept
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def byte_count(text: str | None) -> int | None:
    """Read a size or an address such as ``4096``, ``0x1000`` or ``64KiB``."""
    from layoutscope.units import parse_size

    if text is None:
        return None
    try:
        number = parse_size(text)
    except (ValueError, OverflowError):
        number = -1
    if number < 0:
        raise UsageError(f"{text!r} is not a number of bytes. Write 4096, 0x1000 or 64KiB.")
    return number


def split_properties(given: list[str]) -> dict[str, str]:
    """Split properties at their equals sign."""
    pairs = [item.partition("=") for item in given]
    for name, sign, _ in pairs:
        if not sign:
            raise UsageError(f"{name!r} is not of the form NAME=VALUE")
    return {name.strip(): value for name, _, value in pairs}


def read_lines(path: Path) -> list[str]:
    """Read a list of paths, one per line."""
    try:
        return [line for line in inputs.read_text(path, errors="surrogateescape").split("\n") if line]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read as a list of paths") from error


def read_offsets(path: Path) -> list[int]:
    """Read offsets of records in bytes: the last number of each line; a count may precede it."""
    lines = [line.strip() for line in read_lines(path)]
    found = [re.search(r"(?:^|[\s,;])(\d{1,18})$", line) for line in lines]
    for number, match in enumerate(found, 1):
        if match is None:
            raise UsageError(f"{path}: line {number} does not end with an offset")
    return [int(match[1]) for match in found if match]


def numbers(figures: list[str]) -> dict[str, float]:
    """Read figures such as ``rpm=7200``."""
    found = {}
    for figure in figures:
        name, _, value = figure.partition("=")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise UsageError(f"{figure!r} is not a figure. Write NAME=NUMBER, such as rpm=7200.") from error
    return found


def read_place(text: str) -> int:
    """Read an address that may be before the start, with a minus."""
    count = byte_count(text.removeprefix("-")) or 0
    return -count if text.startswith("-") else count


FORMS: Final[dict[str, tuple[Any, str | None, Callable[[Any], Any] | None]]] = {
    "text": (str, "NAME", None),
    "files": (list[Path], "FILE", None),
    "bytes": (str, "BYTES", byte_count),
    "place": (str, "BYTES", read_place),
    "seconds": (float, "SECONDS", lambda seconds: seconds * 1000),
    "lines": (Path, "FILE", read_lines),
    "offsets": (Path, "FILE", read_offsets),
    "pairs": (list[str], "NAME=VALUE", split_properties),
    "numbers": (list[str], "NAME=NUMBER", numbers),
}
"""The type, what stands for a value, and what reads it, of options that are not written as their types are."""

DASH: Final = Path("-")

OPTIONS: Final = "options"
"""The argument by which a command takes a group of the library's options, in the words of the library."""

QUIET: Final = "quiet"
"""The argument by which a command learns that no progress is to be shown."""


class Command:
    """A command as typer takes it.

    Typer has no groups of options: the options of the library that a command takes as one argument are spread after
    its own; ``Annotated[Group, Changes]`` names those that a command offers in another way.
    """

    def __init__(
        self,
        function: Callable[..., int | None],  # the command; returns its exit code, or None to leave it to `Damage`
    ) -> None:
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self._function = function
        own = dict(inspect.signature(function, eval_str=True).parameters)
        self._takes_quiet = own.pop(QUIET, None) is not None
        group, changes = None, dict[str, Option | None]()
        if OPTIONS in own:
            annotation = own.pop(OPTIONS).annotation
            group, changes = get_args(annotation)[:2] if hasattr(annotation, "__metadata__") else (annotation, changes)
        marked = [(item, _option_of(item.annotation)) for item in own.values()]
        plain = [
            item if mark is None else parameter(item.name, item.annotation, mark, item.default) for item, mark in marked
        ]
        spread = [] if group is None else parameters_of(group, changes)
        self._spread = [item.name for item in spread]
        known = {} if group is None else {name: group.__annotations__[name] for name in options_of(group)}
        # What the library takes in another form than it is typed, by the annotation that says so.
        self._hints = known | {item.name: item.annotation for item, mark in marked if mark is not None}
        parameters = [*plain, *spread]
        for item in parameters:
            for mark in getattr(item.annotation, "__metadata__", ()):
                if isinstance(mark, ParameterInfo):
                    mark.readable = False  # the code that opens a file reports the reason, with one exit code
        self._arguments = [item.name for item in parameters if _is_argument(item)]
        self.__signature__ = inspect.Signature(parameters)
        self.__annotations__ = {item.name: item.annotation for item in parameters}

    def __call__(self, **given: Any) -> None:
        """Run the command and leave with its exit code."""
        with errors_as_exit_codes():
            given = {name: self._streamed(name, value) for name, value in given.items()}
            self._refuse_one_file_twice(given)
            given = {
                name: read_value(self._hints[name], _option_of(self._hints[name]), value)
                if name in self._hints
                else value
                for name, value in given.items()
            }
            options = {name: value for name in self._spread if (value := given.pop(name)) is not None}
            damage, locked, written, is_quiet = Damage(), list[str](), list[str](), bool(options.pop("quiet", False))
            evidence = options.pop("evidence", None)
            is_reading = "no_cache" in options
            if is_reading:
                options |= {"on_damage": damage.note, "on_locked": locked.append}
            if self._spread:
                given[OPTIONS] = options
            if self._takes_quiet:
                given[QUIET] = is_quiet
            keep_freed_memory()
            with ExitStack() as around:
                around.enter_context(show_progress(quiet=is_quiet or not is_reading))
                around.enter_context(list_outputs(written))
                examination = None
                if evidence:
                    # What the command examines is hashed before it and after it.
                    from layoutscope.api.evidence import report_examination

                    named = [given.get(name) for name in self._arguments]
                    named += [options.get("second"), options.get("ddrescue_map")]
                    images = [path for item in named for path in (item if isinstance(item, list) else [item])]
                    paths = [path for path in images if isinstance(path, Path)]
                    examination = around.enter_context(report_examination(paths, evidence, sys.argv[1:]))
                code = self._function(**given)
                if examination is not None:
                    is_damaged = code is None and damage.lines
                    examination.exit_code = EXIT_DAMAGED if is_damaged else code or EXIT_COMPLETE
            for line in dict.fromkeys(locked):
                warn(line)
            for line in written if not is_quiet else ():
                warn(line)
            code = damage.exit_code() if code is None else code
        raise typer.Exit(code)

    def _streamed(self, name: str, value: Any) -> Any:
        """Return None for ``-`` if the result can go to standard output, or else refuse it."""
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
                    raise UsageError(f"{path}: is named by {named[place]} and by {flag}. Name two files.")
                named[place] = flag


def _option_of(annotation: Any) -> Any:
    return next((mark for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Option)), None)


def _is_argument(item: inspect.Parameter) -> bool:
    """Whether a parameter is an argument, such as an image."""
    return any(isinstance(mark, ArgumentInfo) for mark in getattr(item.annotation, "__metadata__", ()))
