"""Every command that a page shows could be typed: its verb and its options are there."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.docs.imports import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITTEN = [page for page in PAGES if page.name not in ("commands.md", "changelog.md")]
BLOCK = re.compile(r"^ *```(?:sh|console|text)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:sudo )?layoutscope [^`]+)`")


def commands(text: str) -> list[str]:
    """Return the command lines of the program in a page, comments and prompts taken off."""
    lines = [line for block in BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    typed = [line.strip().removeprefix("$ ").partition("  #")[0] for line in lines]
    shown = [each for each in typed if re.match(r"(?:\w+=\S+ )?(?:sudo )?layoutscope [a-z-]", each)]
    return shown + [" ".join(each.split()) for each in INLINE.findall(text)]


def unknown(line: str) -> list[str]:
    """Return what of a command line the program does not know: the verb, or options of it."""
    import typer.main

    from layoutscope.cli import app
    from layoutscope.cli.help import command_of_form

    words = shlex.split(line.split(" | ", maxsplit=1)[0].replace("…", ""), posix=True)
    words = words[words.index("layoutscope") + 1 :]
    program = typer.main.get_command(app)
    if words[0].startswith("-"):
        return [word for word in words if word not in {"--version", "--help"}]
    if words[0].isupper():
        return []
    part, rest = command_of_form(words)
    if part:
        words = [part, *rest]
    verb = program.commands.get(words[0])
    if verb is None:
        return [words[0]]
    known = {name for each in verb.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
    return [word for word in words[1:] if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_commands_of_a_page_are_there(page):
    """No page shows a verb or an option that the program does not have."""
    found = {line: unknown(line) for line in commands(page.read_text(encoding="utf-8"))}
    assert {line: words for line, words in found.items() if words} == {}


def test_many_commands_are_looked_at():
    """Those of the guides are among them, in blocks and in sentences."""
    seen = [line for page in WRITTEN for line in commands(page.read_text(encoding="utf-8"))]
    assert len(seen) > 80
    assert any(line.startswith("sudo ") for line in seen)


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("layoutscope scann disk.img", ["scann"]),
        ("sudo layoutscope scan /dev/rdisk4 --drvie x --json", ["--drvie"]),
        ("LAYOUTSCOPE_PASSWORD=a layoutscope scan x --password-file=y", []),
        ("layoutscope map disk.img -o a.html | head --bytes 3", []),
        ("layoutscope map disk.img -q a.html", ["-q"]),
    ],
)
def test_what_is_not_there_is_found(line, missing):
    """A misspelt verb, a misspelt option, and an option of another program after a pipe, which is none of ours."""
    assert unknown(line) == missing
