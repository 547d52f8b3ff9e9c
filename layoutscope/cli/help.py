"""The help of a command, and its answers to unknown words.

Options are shown in panels, one for each question that a user has. What an option takes, its default and its choices
are shown alike everywhere. The manual and the reference are made from :func:`describe_options`, too.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from typer import BadParameter, Exit
from typer.core import TyperCommand

from layoutscope.errors import EXIT_USAGE, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


PANELS: Final = (
    "Place",
    "Workload",
    "Recordings of fs_usage, iosnoop, biosnoop",
    "Fitting a new profile",
    "Measuring a drive",
    "Limits of each process",
    "Limits of a query",
    "Output",
    "Choosing the volume",
    "Encrypted",
    "Damaged images",
    "Compressed images",
    "Other",
)
"""Every panel, in the order in which help shows them."""

WIDEST_CHOICE: Final = 24
"""Characters of a list of choices that may stand beside its option; a longer one stands below it."""

EXIT_CODES: Final = (
    ("0", "complete"),
    ("1", "failed: the image cannot be read, nothing on it can, or a password is wrong"),
    ("2", "usage: something was asked for that is not there"),
    ("3", "read, but with gaps, or something on the image is wrong"),
    ("130", "interrupted"),
)
"""What a command ends with, and what that says."""

RENAMED: Final[dict[str, dict[str, str]]] = {
    "": {
        "--map-file": "--ddrescue-map",
        "--from": "--start",
        "--starts-at": "--start-offset",
        "--list": "--paths",
        "--figure": "--datasheet",
    },
    "predict": {"--cache": "--memory"},
    "trace": {"--cache": "--memory"},
    "replay": {"--cache": "--buffer"},
    "query": {"--list": "--list"},  # it lists views there
}
"""Old spellings of options and the new ones, of every command and of single ones; heard until the next release."""

FORMS: Final[dict[str, str]] = {
    "series": "compare --over-time",
    "replay": "trace replay",
    "validate": "drives validate",
    "kit": "drives kit",
    "report": "batch report",
    "extract": "export --metadata-image",
    "checkpoints": "inspect --states",
}
"""Commands that are parts of others, as they are typed; their own names are understood until the next release."""

FOLDED: Final = ("Choosing the volume", "Encrypted", "Damaged images", "Compressed images")
"""Panels with the options that all commands share, which only ``--help-all`` shows."""


HELP: Final = frozenset({"-h", "--help", "--help-all"})


def command_of_form(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command that a form means, and the words behind it; an empty name where it is none.

    >>> command_of_form(["trace", "replay", "walk.csv"])
    ('replay', ['walk.csv'])
    >>> command_of_form(["export", "disk.img", "--metadata-image", "small.img"])
    ('extract', ['disk.img', '--output', 'small.img'])
    """
    for name, form in FORMS.items():
        verb, part = form.split()
        rest = list(words[1:])
        if words[0] != verb:
            continue
        if not part.startswith("-"):
            if rest[:1] == [part]:
                return name, rest[1:]
            continue
        end = rest.index("--") if "--" in rest else len(rest)
        for place, word in enumerate(rest[:end]):
            option, sign, value = word.partition("=")
            if option == part:
                # What follows this option is where its command writes.
                takes = name == "extract" and not {*rest[place + 1 : place + 2]} & HELP
                output = ["--output", *([value] if sign else [])] if takes else []
                return name, [*rest[:place], *output, *rest[place + 1 :]]
    return "", []


_NOT_AMONG: Final = re.compile(r"^'(?P<word>.*)' is not one of ")


@dataclass(frozen=True)
class OptionText:
    """What is said of an option or an argument."""

    panel: str  # where it stands; empty of an argument
    names: str  # as it is written
    takes: str  # what stands behind it, a unit or the choices; empty of a switch and of an argument
    text: str  # what it does
    default: str  # what holds without it, `required` where there is no doing without; empty of a switch
    choices: tuple[str, ...]  # what it may be; empty where that is no list
    is_repeatable: bool  # whether it may be given more than once
    bounds: str  # what a number may be, such as `x>=1`

    def sentence(self) -> str:
        """Return what it does, with all that belongs to it in brackets."""
        is_listed = self.choices == tuple(self.takes.split("|"))
        listed = f"one of {', '.join(self.choices)}" if self.choices and not is_listed else ""
        default = self.default if self.default in ("", "required") else f"default: {self.default}"
        facts = [listed, "repeatable" if self.is_repeatable else "", self.bounds, default]
        shown = "; ".join(filter(None, facts))
        return f"{self.text}  [{shown}]" if shown else self.text


def describe_options(command: Any, context: Any) -> list[OptionText]:
    """Describe the arguments of a command, then its options in the order of the panels."""
    found = [_describe(item, context) for item in command.get_params(context) if not item.hidden]
    return sorted(found, key=lambda item: PANELS.index(item.panel) if item.panel else -1)


def _describe(item: Any, context: Any) -> OptionText:
    is_option, is_switch = item.param_type_name == "option", bool(getattr(item, "is_flag", False))
    choices = tuple(str(getattr(value, "value", value)) for value in getattr(item.type, "choices", ()))
    return OptionText(
        panel=(item.rich_help_panel or "Other") if is_option else "",
        names=", ".join(sorted((*item.opts, *item.secondary_opts), key=len)) if is_option else item.metavar,
        takes=_taken(item, choices, context) if is_option and not is_switch else "",
        text=item.help or "",
        default=_default(item, is_switch=is_switch),
        choices=choices,
        is_repeatable=bool(getattr(item, "multiple", False)),
        bounds=_bounds(item),
    )


def _taken(item: Any, choices: tuple[str, ...], context: Any) -> str:
    listed = "|".join(choices)
    if item.metavar or not choices:
        return str(item.metavar or item.make_metavar(ctx=context))
    return listed if len(listed) <= WIDEST_CHOICE else "NAME"


def _default(item: Any, *, is_switch: bool) -> str:
    if item.required:
        return "required"
    if isinstance(item.show_default, str):
        return item.show_default
    value = getattr(item.default, "value", item.default)
    return "" if is_switch or value in (None, "", (), []) else str(value)


def _bounds(item: Any) -> str:
    lowest = getattr(item.type, "min", None)
    return "" if lowest is None else f"{lowest} or more"


SHOWS_ALL: Final = "layoutscope.help-all"
"""Where a context notes that the help is asked for with all options."""


class Verb(TyperCommand):
    """A command whose help has panels and examples, and that knows words of its neighbourhood.

    Its epilog holds the examples: commands, each with a line behind it that says what it is for.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name the arguments as they are typed."""
        arguments = [item for item in self.get_params(ctx) if item.param_type_name == "argument"]
        return ["[OPTIONS]", *(str(item.metavar) for item in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then a panel below the other."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for item in describe_options(self, ctx):
            rows.setdefault(item.panel or "Arguments", []).append(
                (f"{item.names} {item.takes}".rstrip(), item.sentence())
            )
        folded = () if ctx.meta.get(SHOWS_ALL) else FOLDED
        for panel, listed in rows.items():
            if panel not in folded:
                with formatter.section(panel):
                    formatter.write_dl(listed)
        if left := [panel for panel in rows if panel in folded]:
            with formatter.section("More options (--help-all)"):
                formatter.write_text(", ".join(left))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  (click calls it so)
        """Write the examples as they are typed, unwrapped."""
        parts = [form for form in FORMS.values() if form.split()[0] == self.name]
        if parts:
            with formatter.section("Parts, each with a help of its own"):
                formatter.write_text(", ".join(parts))
        if self.epilog:
            with formatter.section("Examples"):
                for number, line in enumerate(self.epilog.splitlines()):
                    formatter.write(f"  {'' if number % 2 == 0 else '    '}{line}\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Hear old spellings, and suggest what was meant by unknown ones."""
        heard = list(args) if ctx.resilient_parsing else rename_options(str(self.name), args)
        if "--help-all" in heard:
            ctx.meta[SHOWS_ALL], heard = True, ["--help"]
        try:
            return list(super().parse_args(ctx, heard))
        except BadParameter as error:
            word, option = _NOT_AMONG.match(error.message), getattr(error, "param", None)
            if word is not None and option is not None:
                known = [str(getattr(each, "value", each)) for each in option.type.choices]
                like = did_you_mean(word["word"], known)
                wanted = f"no {option.opts[0].strip('-')} {word['word']!r}{like}"
                sys.stderr.write(f"layoutscope: {wanted}; there are {', '.join(known)}\n")
                raise Exit(EXIT_USAGE) from error
            raise
        except Exception as error:
            possible = getattr(error, "possibilities", None)
            if possible:
                error.message = f"No such option: {error.option_name}{did_you_mean(error.option_name, possible)}"  # type: ignore[attr-defined]
                error.possibilities = None  # type: ignore[attr-defined]
            raise


def rename_options(command: str, words: list[str]) -> list[str]:
    """Put new spellings in the place of old ones, and say so on standard error."""
    known = {**RENAMED[""], **RENAMED.get(command, {})}
    new = {old: name for old, name in known.items() if old != name}
    end = words.index("--") if "--" in words else len(words)
    return [*(_rename_option(word, new) for word in words[:end]), *words[end:]]


def _rename_option(word: str, new: Mapping[str, str]) -> str:
    option, sign, value = word.partition("=")
    if option not in new:
        return word
    sys.stderr.write(f"layoutscope: {option} is called {new[option]} now; the next release knows only that\n")
    return f"{new[option]}{sign}{value}"


Examples = tuple[tuple[str, str], ...]

OVERVIEW: Final[Examples] = (
    ("layoutscope scan disk.img", "How long listing every file takes, why, and what would help."),
    ("layoutscope predict --help", "The options of a verb, with examples."),
    ("layoutscope explain clump", "What a word, a metric or the code of a finding means."),
)

EXAMPLES: Final[dict[str, Examples]] = {
    "scan": (
        ("layoutscope scan disk.img", "One screen: how long listing every file takes, why, and what would help."),
        ("layoutscope scan disk.img:Data --details", "Everything that was measured of the volume Data."),
    ),
    "map": (
        ("layoutscope map disk.img -o map.html", "A page to open in a browser."),
        ("layoutscope map fresh.img aged.img -o ages.html --no-names", "Two images on one scale, without names."),
    ),
    "list": (
        ("layoutscope list disk.img", "Every file, one path a line."),
        ("layoutscope list disk.img --folder /Users -o users.csv", "A folder, with sizes and times."),
    ),
    "inspect": (
        ("layoutscope inspect disk.img --path /Users/me/notes.txt", "Where a file is kept, record by record."),
        ("layoutscope inspect disk.img --at 0x1400000", "What lies at a place, and whose it is."),
    ),
    "check": (
        ("layoutscope check disk.img", "Every contradiction, with its code and its place."),
        ("layoutscope check monday.img friday.img", "What became wrong from one image to the other."),
    ),
    "explain": (
        ("layoutscope explain clump", "What a word means."),
        ("layoutscope explain node-invalid", "What a finding says, and what to do."),
    ),
    "cache": (
        ("layoutscope cache", "Where decompressed images are kept, and which."),
        ("layoutscope cache clear", "Remove them."),
    ),
    "predict": (
        ("layoutscope predict disk.img --order names --drive sata-ssd", "Names alone, on a solid-state drive."),
        ("layoutscope predict disk.img --what-if outer-zone --top 20", "The start of the drive, and what costs most."),
    ),
    "plan": (
        ("layoutscope plan disk.img", "What would help, how to do it, what it takes."),
        ("layoutscope plan disk.img --host macos --drive generic-7200 --all", "As on a Mac; what would not help, too."),
    ),
    "compare": (
        ("layoutscope compare fresh.img aged.img", "What changed, and what that costs."),
        ("layoutscope compare disk.img:1 disk.img:Data", "Two volumes of one disk."),
    ),
    "series": (
        ("layoutscope compare --over-time may.lscope june.lscope july.lscope", "How a volume ages."),
        (
            "layoutscope compare --over-time week*.img --by time --plot aging.html",
            "By their last change, as curves.",
        ),
    ),
    "batch": (
        ("layoutscope batch archive/ -o fleet", "Every image below a folder: captures, and tables over all."),
        ("layoutscope batch @disks.txt -o fleet --resume -j 8", "What a list names and is not there yet."),
    ),
    "query": (
        ("layoutscope query fleet --list", "What can be asked for: views, columns, units."),
        ("layoutscope query fleet 'SELECT path, status FROM sources' -o all.csv", "An answer as a file."),
    ),
    "report": (
        ("layoutscope batch report fleet -o fleet.html", "A page over all that a batch has read."),
        ("layoutscope batch report fleet -o fleet.html --maps", "And a map of each image, a click away."),
    ),
    "trace": (
        ("layoutscope trace disk.img -o walk.csv", "The reads of a listing, one a line."),
        ("layoutscope trace disk.img --order names -o walk.fio --disk /dev/sdb", "To be replayed by fio."),
    ),
    "replay": (
        ("layoutscope trace replay walk.csv --drive generic-7200", "What a drive makes of recorded reads."),
        ("layoutscope trace replay fs_usage.txt --against disk.img", "How well the prediction meets them."),
    ),
    "forecast": (
        ("layoutscope forecast disk.img --cycles 20", "What twenty cycles of replaced files make of a volume."),
        ("layoutscope forecast may.lscope june.lscope --plot next.html", "At the pace of the last month, as curves."),
    ),
    "validate": (
        ("layoutscope drives validate layoutscope-kit.tar.gz", "What a Mac measured, beside what is predicted for it."),
        ("layoutscope drives validate layoutscope-kit.tar.gz --json", "The same for programs."),
    ),
    "drives": (
        ("layoutscope drives", "Which profiles there are, and which to take."),
        ("layoutscope drives fit mine --random-ms 12.5 --rate-mb-s 140 -o mine.toml", "A profile of your own drive."),
    ),
    "kit": (
        ("layoutscope drives kit -o kit.sh", "On any computer; then on the Mac: sudo sh kit.sh /Volumes/NAME."),
        ("layoutscope drives kit | less", "To read what it will do."),
    ),
    "export": (
        ("layoutscope export disk.img --table entries -o entries.parquet", "Files and folders as Parquet."),
        ("layoutscope export disk.img -o files.body", "Files with their times, for mactime."),
    ),
    "extract": (
        ("layoutscope export disk.img --metadata-image small.img.zst", "What others need to look into a slow disk."),
        ("layoutscope export disk.img.zst --metadata-image metadata.img", "A sparse file that other programs read."),
    ),
    "checkpoints": (
        ("layoutscope inspect disk.img --states", "Which older states there are."),
        ("layoutscope inspect disk.img --states --json", "The same for programs."),
    ),
    "verify": (
        ("layoutscope verify disk.img", "Whether bulk decoding and the grammars agree."),
        ("layoutscope verify disk.img --json", "The same for programs."),
    ),
}
"""By the name of the command."""
