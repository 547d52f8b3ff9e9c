"""The reference of the command line and the manual page; ``python -m tests.docs.manual`` writes ``docs/layoutscope.1``.

Both are made from the descriptions of the commands (:func:`layoutscope.cli.help.describe_options`). The manual page is
committed, so a wheel can bring it along without running what it describes; a test keeps it fresh.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import typer

from layoutscope.cli import app
from layoutscope.cli.application import COMMANDS, GROUPS, PARTS
from layoutscope.cli.help import EXAMPLES, EXIT_CODES, FORMS, LATE, RENAMED, describe_options
from layoutscope.errors import REFUSALS
from tests.docs.imports import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.cli.help import OptionText

MANUAL: Final = ROOT / "docs" / "layoutscope.1"

VARIABLES: Final = (
    ("LAYOUTSCOPE_PASSWORD", "password or recovery key of encrypted volumes, where no option gives one"),
    ("LAYOUTSCOPE_CACHE", "folder in which decompressed images are kept; nothing is kept where it is empty"),
    ("LAYOUTSCOPE_CACHE_LIMIT", "how much is kept there, such as 4GiB; 10 GiB without it"),
    ("NO_COLOR", "no colours"),
)


SECTIONS: Final = {**GROUPS, "Parts of these, and tools": PARTS}
"""All commands by the sections of both pages."""


def options_of(name: str) -> list[OptionText]:
    """Describe the options and arguments of a command."""
    command: Any = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    return describe_options(command, command.make_context(name, [], resilient_parsing=True))


def purpose(name: str) -> str:
    """Return what a command does, in one line."""
    return " ".join((COMMANDS[name].__doc__ or "").split())


@cache
def reference() -> str:
    """Describe all commands for their page."""
    return "\n".join(_reference()).strip("\n")


def _reference() -> Iterator[str]:
    for title, commands in SECTIONS.items():
        yield f"\n## {title}"
        for name in commands:
            yield from _section(name)
    yield "\n## Old spellings"
    yield "\nHeard until the next release, with a line on standard error.\n"
    yield "| old | new | where |\n|---|---|---|"
    for command, names in RENAMED.items():
        yield from (f"| `{old}` | `{new}` | {command or 'everywhere'} |" for old, new in names.items())
    yield "\n## Exit codes and environment"
    yield "\n| | |\n|---|---|"
    yield from (f'| <a id="exit-code-{word}"></a>`{word}` | exit code {word}: {text} |' for word, text in EXIT_CODES)
    yield from (f'| <a id="{word.lower()}"></a>`{word}` | {text} |' for word, text in VARIABLES)


def _section(name: str) -> Iterator[str]:
    yield f"\n### {name}"
    if name in FORMS:
        old = "" if name in LATE else f"; `layoutscope {name}` works until the next release"
        yield f"\nTyped as `layoutscope {FORMS[name]}`{old}."
    yield f"\n{purpose(name)}\n"
    yield "```sh"
    for words, what_for in EXAMPLES[name]:
        yield f"# {what_for}\n{words}"
    yield "```\n"
    yield "| | takes | without it | what it does |\n|---|---|---|---|"
    for item in options_of(name):
        takes = item.takes.replace("|", "\\|") or ("switch" if item.panel else "argument")
        listed = f" One of {', '.join(item.choices)}." if item.choices else ""
        more = " Repeatable." if item.is_repeatable else ""
        bounds = f" {item.bounds[0].upper()}{item.bounds[1:]}." if item.bounds else ""
        names = item.names.replace("|", "\\|")
        default = item.default or "off"
        yield f"| `{names}` | {takes} | {default} | {item.text}{listed}{more}{bounds} |"


def manual() -> str:
    """Make the manual page."""
    return "\n".join(_manual()) + "\n"


def _manual() -> Iterator[str]:
    yield '.TH LAYOUTSCOPE 1 "" "layoutscope" "User Commands"'
    yield ".SH NAME\nlayoutscope \\- inspect the on-disk layout of volumes, and predict what listing them costs"
    yield ".SH SYNOPSIS\n.B layoutscope\n.I VERB IMAGE\n[\\fIOPTIONS\\fR]\n.br\n.B layoutscope\n.I IMAGE"
    yield ".SH DESCRIPTION"
    yield "Reads raw images of disks, never writes to them, and shows where metadata is stored, how scattered it is,"
    yield "and how long drives take to list it. An image without a verb is scanned."
    yield "\\fIIMAGE\\fR may be \\fIIMAGE:VOLUME\\fR,"
    yield "with the name or the number of a volume."
    for title, commands in SECTIONS.items():
        yield f".SH {title.upper()}"
        for name in commands:
            yield from _manual_section(name)
    for title, rows in (("EXIT STATUS", EXIT_CODES), ("ENVIRONMENT", VARIABLES)):
        yield f".SH {title}"
        yield from (f".TP\n.B {_roff(word)}\n{_roff(text)}" for word, text in rows)
    yield ".SH REFUSALS"
    yield from (f".TP\n.B {_roff(code)}\n{_roff(text)}" for code, text in sorted(REFUSALS.items()))


def _manual_section(name: str) -> Iterator[str]:
    yield f".SS {_roff(FORMS.get(name, name))}\n{_roff(purpose(name))}"
    for item in options_of(name):
        shown = f"\\fB{_roff(item.names)}\\fR" + (f" \\fI{_roff(item.takes)}\\fR" if item.takes else "")
        yield f".TP\n{shown}\n{_roff(item.sentence())}"
    yield ".PP\nExamples:"
    yield from (f".TP\n.B {_roff(words)}\n{_roff(text)}" for words, text in EXAMPLES[name])


def _roff(text: str) -> str:
    """Write a text so that roff shows it as it is."""
    shown = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{shown}" if shown.startswith((".", "\\(aq")) else shown


if __name__ == "__main__":
    MANUAL.write_text(manual(), encoding="utf-8")
