"""Writes ``docs/remedies``: a page a remedy, and the list of them, from ``layoutscope/remedies/words.toml``.

``python -m tests.docs.remedies``; a test keeps them fresh.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from layoutscope.remedies.case import all_words

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "remedies"
LABEL = "another file system"


def pages() -> dict[str, str]:
    """Return the text of every page by its name."""
    made = {f"{name}.md": page(name, about) for name, about in all_words().items()}
    return made | {"README.md": index()}


def page(name: str, about: dict[str, Any]) -> str:
    """Write the page of one remedy."""
    ways = "\n".join(f"- {system}: `{command}`" for system, command in about["ways"])
    parts = [
        f"# {about['title'][0].upper()}{_plain(about['title'])[1:]}",
        f"`{name}`, a remedy in {WHERE[about['kind']]}. [All remedies](README.md)",
        f"## What it does on the disk\n\n{about['does']}",
        f"## When it helps\n\n{about['helps']}",
        f"## When it does not\n\n{about['unless']}",
        f"## How\n\n{ways}",
        f"Risk: {about['risk']}. Side effects: {_plain(about['side_effects'])}.",
        *_sources(about.get("links", ())),
        f"## What the prediction assumes\n\n{_sentence(about['assumes'])} Source: {about['source']}.",
        f"## Proof\n\n{about['proof']}",
    ]
    return "\n\n".join(parts) + "\n"


WHERE = {"software": "the program that reads", "volume": "how the volume lies", "hardware": "the drives"}


def _sources(links: Iterable[tuple[str, str]]) -> list[str]:
    told = ", ".join(f"[{words}]({address})" for words, address in links)
    return [f"Sources: {told}."] if told else []


def _plain(text: str) -> str:
    return text.replace("{label}", LABEL)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def index() -> str:
    """Write the list."""
    lines = [
        "# Remedies",
        "",
        "`layoutscope plan IMAGE` tries all of them on a volume and ranks them by what they save.",
        "Eleven were done by real drivers: [what came of it](../remedies-proven.md).",
    ]
    for kind, where in WHERE.items():
        lines += ["", f"## In {where}", "", "| remedy | what is done | when it helps |", "|---|---|---|"]
        chosen = ((name, about) for name, about in all_words().items() if about["kind"] == kind)
        lines += [f"| [{name}]({name}.md) | {_plain(about['title'])} | {about['helps']} |" for name, about in chosen]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the pages, and remove those of remedies that are gone."""
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for old in FOLDER.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
