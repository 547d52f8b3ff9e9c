"""The help of a command, and its answers to unknown words.

Options are shown in panels, one for each question that a user has. What an option takes, its default and its choices
are shown alike everywhere. The manual and the reference are made from :func:`describe_options`, too.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

from typer import BadParameter, Exit
from typer.core import TyperCommand

from layoutscope.errors import EXIT_USAGE, did_you_mean
from layoutscope.options import FOLDED, PANELS

if TYPE_CHECKING:
    from collections.abc import Sequence


WIDEST_CHOICE: Final = 24
"""Characters of a list of choices that fits next to its option; a longer list follows below it."""

EXIT_CODES: Final = (
    ("0", "complete"),
    ("1", "failed: the image or all of its volumes cannot be read, or a password is wrong"),
    ("2", "usage error: an option, argument or object does not exist"),
    ("3", "read with gaps, or the image has errors"),
    ("130", "interrupted"),
)
"""Exit codes of the commands, and their meaning."""

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
    "fit": "drives fit",
    "measure": "drives measure",
    "validate": "drives validate",
    "kit": "drives kit",
    "report": "batch report",
    "extract": "export --metadata-image",
    "checkpoints": "inspect --states",
}
"""Commands that are parts of others, as they are typed; their own names are understood until the next release."""

LATE: Final = ("fit", "measure")
"""Parts that were words of their command, so options may be before them until the next release."""

RARE: Final = frozenset(
    (
        *("--ascii", "--evidence", "--file", "--force", "--format", "--hash-names", "--help", "--host-property"),
        *("--memory", "--ncdu", "--no-names", "--no-stat", "--null", "--offsets", "--passes", "--placement", "--quiet"),
        *("--random-range", "--record-size", "--records", "--seed", "--start-offset", "--threads", "--trace-at"),
        *("--trace-device", "--trace-process", "--trace-unit", "--warm"),
    )
)
"""Options that few need, which only ``--help-all`` shows."""

RARE_OF: Final[dict[str, str]] = {
    "predict": "--paths --start",
    "trace": "--paths --file --start --disk --read-size",
    "replay": "--paths --file --start --order --buffer --what-if",
    "export": "--paths --file --start --what-if --volume --top",
    "plan": "--emit-script --lasts",
    "map": "--all-paths",
    "batch": "--written --order --host --scheduler --dashboard",
    "forecast": "--seed --churn-seed",
}
"""More of them, by the command in which few need them."""

COMMON: Final = frozenset({"export --format", "query --memory", "batch --memory", "replay --format", "check --format"})
"""Options of a command that are common there, although they are rare elsewhere."""

HELP: Final = frozenset({"-h", "--help", "--help-all"})


def command_of_form(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command that a form means, and the words after it; an empty name if they are not a form.

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
            if name in LATE and part in rest:
                sys.stderr.write(f"layoutscope: write {form} first, then the options; the next release wants it so\n")
                rest.remove(part)
                return name, rest
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
    """The help of an option or an argument."""

    panel: str  # its position; empty for an argument
    names: str  # its spelling
    takes: str  # what follows it, a unit or the choices; empty for a switch and of an argument
    text: str  # what it does
    default: str  # what holds without it, `required` if it must be given; empty for a switch
    choices: tuple[str, ...]  # possible values; empty if they are not a list
    is_repeatable: bool  # whether it may be given more than once
    bounds: str  # what a number may be, such as `x>=1`

    def brief(self) -> str:
        """Return what it does and what holds without it, for the short help."""
        return f"{self.text}  [{self.default}]" if 0 < len(self.default) <= WIDEST_CHOICE else self.text

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
    found = []
    for item in command.get_params(context):
        if item.hidden:
            continue
        is_option, is_switch = item.param_type_name == "option", bool(getattr(item, "is_flag", False))
        choices = tuple(str(getattr(value, "value", value)) for value in getattr(item.type, "choices", ()))
        takes = ""
        if is_option and not is_switch:
            listed = "|".join(choices)
            takes = str(item.metavar or item.make_metavar(ctx=context))
            if choices and not item.metavar:
                takes = listed if len(listed) <= WIDEST_CHOICE else "NAME"
        value = getattr(item.default, "value", item.default)
        default = "" if is_switch or value in (None, "", (), []) else str(value)
        if item.required or isinstance(item.show_default, str):
            default = "required" if item.required else item.show_default
        lowest = getattr(item.type, "min", None)
        found.append(
            OptionText(
                panel=(item.rich_help_panel or "Other") if is_option else "",
                names=", ".join(sorted((*item.opts, *item.secondary_opts), key=len)) if is_option else item.metavar,
                takes=takes,
                text=item.help or "",
                default=default,
                choices=choices,
                is_repeatable=bool(getattr(item, "multiple", False)),
                bounds="" if lowest is None else f"{lowest} or more",
            )
        )
    return sorted(found, key=lambda item: PANELS.index(item.panel) if item.panel else -1)


SHOWS_ALL: Final = "layoutscope.help-all"
"""Where a context notes that the help is asked for with all options."""


class Verb(TyperCommand):
    """A command whose help has panels and examples, and that knows words of its neighbourhood.

    Its epilog holds the examples: commands, each followed by a line with its purpose.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name the arguments as they are typed."""
        arguments = [item for item in self.get_params(ctx) if item.param_type_name == "argument"]
        return ["[OPTIONS]", *(str(item.metavar) for item in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then a panel below the other."""
        shows_all = bool(ctx.meta.get(SHOWS_ALL))
        rows, panels, left = dict[str, list[tuple[str, str]]](), list[str](), list[str]()
        rare = {*RARE, *RARE_OF.get(str(self.name), "").split()}
        for item in describe_options(self, ctx):
            panel, flags = item.panel or "Arguments", item.names.split(", ")
            is_rare = not rare.isdisjoint(flags) and not any(f"{self.name} {flag}" in COMMON for flag in flags)
            if not shows_all and panel in FOLDED:
                panels = [*panels, panel] if panel not in panels else panels
            elif not shows_all and is_rare:
                left.append(item.names.rpartition(" ")[2])
            else:
                about = item.sentence() if shows_all else item.brief()
                rows.setdefault(panel, []).append((f"{item.names} {item.takes}".rstrip(), about))
        for panel, listed in rows.items():
            with formatter.section(panel):
                formatter.write_dl(listed)
        if panels or left:
            with formatter.section("More options (--help-all)"):
                for names in filter(None, (panels, left)):
                    text = fill(
                        ", ".join(names), 78, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
                    )
                    formatter.write(f"{text}\n")

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
                wanted = f"unknown {option.opts[0].strip('-')} {word['word']!r}{like}"
                sys.stderr.write(f"layoutscope: {wanted}. Choose from: {', '.join(known)}\n")
                raise Exit(EXIT_USAGE) from error
            raise
        except Exception as error:
            possible = getattr(error, "possibilities", None)
            if possible:
                error.message = f"No such option: {error.option_name}{did_you_mean(error.option_name, possible)}"  # type: ignore[attr-defined]
                error.possibilities = None  # type: ignore[attr-defined]
            raise


def rename_options(command: str, words: list[str]) -> list[str]:
    """Replace old spellings by new ones, and report it on standard error."""
    known = {**RENAMED[""], **RENAMED.get(command, {})}
    new = {old: name for old, name in known.items() if old != name}
    end = words.index("--") if "--" in words else len(words)
    renamed_words = list[str]()
    for word in words[:end]:
        option, sign, value = word.partition("=")
        now = new.get(option, option)
        if now != option:
            sys.stderr.write(f"layoutscope: {option} is called {now} now; the next release knows only that\n")
        renamed_words.append(f"{now}{sign}{value}")
    return [*renamed_words, *words[end:]]


Examples = tuple[tuple[str, str], ...]

OVERVIEW: Final[Examples] = (
    ("layoutscope scan disk.img", "Show how long listing all files takes, why, and what would help."),
    ("layoutscope predict --help", "Show the options of a verb, with examples."),
    ("layoutscope explain clump", "Explain a term, a metric or the code of a finding."),
)

EXAMPLES: Final[dict[str, Examples]] = {
    "scan": (
        ("layoutscope scan disk.img", "Show how long listing all files takes, why, and what would help."),
        ("layoutscope scan disk.img:Data --details", "Show all measurements of the volume Data."),
    ),
    "map": (
        ("layoutscope map disk.img -o map.html", "Write a page to open in a browser."),
        ("layoutscope map fresh.img aged.img -o ages.html --no-names", "Show two images on one scale, without names."),
    ),
    "list": (
        ("layoutscope list disk.img", "List every file, one path per line."),
        ("layoutscope list disk.img --folder /Users -o users.csv", "List a folder, with sizes and times."),
    ),
    "inspect": (
        ("layoutscope inspect disk.img --path /Users/me/notes.txt", "Show where a file is stored, record by record."),
        ("layoutscope inspect disk.img --at 0x1400000", "Show what is stored at a place, and its owner."),
    ),
    "check": (
        ("layoutscope check disk.img", "List every contradiction, with its code and place."),
        ("layoutscope check monday.img friday.img", "Show what became wrong between two images."),
    ),
    "explain": (
        ("layoutscope explain clump", "Explain a term."),
        ("layoutscope explain node-invalid", "Explain a finding, and what to do."),
    ),
    "cache": (
        ("layoutscope cache", "Show the folder of decompressed images and its content."),
        ("layoutscope cache clear", "Remove all of them."),
    ),
    "predict": (
        (
            "layoutscope predict disk.img --order names --drive sata-ssd",
            "Predict a listing of names only, on a solid-state drive.",
        ),
        ("layoutscope predict disk.img --what-if outer-zone --top 20", "Compare with the start of the drive."),
    ),
    "plan": (
        ("layoutscope plan disk.img", "List remedies with instructions and cost."),
        (
            "layoutscope plan disk.img --host macos --drive generic-7200 --all",
            "Model a Mac, and also list what would not help.",
        ),
    ),
    "compare": (
        ("layoutscope compare fresh.img aged.img", "Show what changed, and what that costs."),
        ("layoutscope compare disk.img:1 disk.img:Data", "Compare two volumes of one disk."),
    ),
    "series": (
        ("layoutscope compare --over-time may.lscope june.lscope july.lscope", "Show how a volume ages."),
        ("layoutscope compare --over-time week*.img --by time --plot aging.html", "Plot the images by last change."),
    ),
    "batch": (
        ("layoutscope batch archive/ -o fleet", "Read every image below a folder into captures and tables."),
        ("layoutscope batch @disks.txt -o fleet --resume -j 8", "Read the images of a list that are still missing."),
    ),
    "query": (
        ("layoutscope query fleet --list", "List views, columns and units."),
        ("layoutscope query fleet 'SELECT path, status FROM sources' -o all.csv", "Write the result to a file."),
    ),
    "report": (
        ("layoutscope batch report fleet -o fleet.html", "Write a page about all images of a batch."),
        ("layoutscope batch report fleet -o fleet.html --maps", "Also write a map of each image."),
    ),
    "trace": (
        ("layoutscope trace disk.img -o walk.csv", "Write the reads of a listing, one per line."),
        ("layoutscope trace disk.img --order names -o walk.fio --disk /dev/sdb", "Write a trace for fio."),
    ),
    "replay": (
        ("layoutscope trace replay walk.csv --drive generic-7200", "Compute the time of recorded reads on a drive."),
        ("layoutscope trace replay fs_usage.txt --against disk.img", "Score the prediction with recorded reads."),
    ),
    "forecast": (
        ("layoutscope forecast disk.img --cycles 20", "Forecast the volume after twenty cycles of replaced files."),
        (
            "layoutscope forecast may.lscope june.lscope --plot next.html",
            "Plot a forecast at the pace of the last month.",
        ),
    ),
    "validate": (
        ("layoutscope drives validate layoutscope-kit.tar.gz", "Compare measurements of a Mac with predictions."),
        ("layoutscope drives validate layoutscope-kit.tar.gz --json", "Print JSON."),
    ),
    "drives": (
        ("layoutscope drives", "List the profiles, and which to choose."),
        ("layoutscope drives generic-7200 sata-ssd", "Compare two profiles."),
    ),
    "fit": (
        (
            "layoutscope drives fit mine --random-ms 12.5 --rate-mb-s 140 -o mine.toml",
            "Make a profile from two measured figures.",
        ),
        ("layoutscope drives fit mine --fio report.json -o mine.toml", "Make a profile from a report of fio."),
    ),
    "measure": (
        ("sudo layoutscope drives measure /dev/sdb -o mine.toml", "Measure a drive in about a minute."),
        ("sudo layoutscope drives measure /dev/sdb --quick -o mine.toml", "Measure only its class, in five seconds."),
    ),
    "kit": (
        (
            "layoutscope drives kit -o kit.sh",
            "Run this on any computer, then on the Mac: sudo sh kit.sh /Volumes/NAME.",
        ),
        ("layoutscope drives kit | less", "Read the script first."),
    ),
    "export": (
        ("layoutscope export disk.img --table entries -o entries.parquet", "Export files and folders as Parquet."),
        ("layoutscope export disk.img -o files.body", "Export files with their times, for mactime."),
    ),
    "extract": (
        (
            "layoutscope export disk.img --metadata-image small.img.zst",
            "Write what others need to examine a slow disk.",
        ),
        (
            "layoutscope export disk.img.zst --metadata-image metadata.img",
            "Write a sparse file that other programs read.",
        ),
    ),
    "checkpoints": (
        ("layoutscope inspect disk.img --states", "List older states."),
        ("layoutscope inspect disk.img --states --json", "Print JSON."),
    ),
    "verify": (
        ("layoutscope verify disk.img", "Check that bulk decoding and the grammars agree."),
        ("layoutscope verify disk.img --json", "Print JSON."),
    ),
}
"""By the name of the command."""
