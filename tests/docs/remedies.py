"""Writes the second half of ``docs/remedies.md`` from ``layoutscope/remedies/words.toml``.

``python -m tests.docs.remedies``; a test keeps it fresh.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from layoutscope.remedies.case import all_words
from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = ROOT / "docs" / "remedies.md"
LONG = 200
"""Characters of an assumption that is written once if several remedies share it."""

LABEL = "another file system"
WHERE = {"software": "the program that reads", "volume": "the layout of the volume", "hardware": "the drives"}

MARK = "<!-- Everything below is written by python -m tests.docs.remedies. -->\n"
HEAD = """
## All remedies

`layoutscope plan IMAGE` tries each of them on a volume and ranks them by the time they save. Remedies in the program
that reads write nothing to the disk. A remedy without *Risk* or *Side effects* has none.
"""


def page() -> str:
    """Write the page; the first half is kept."""
    shared = _shared()
    lines, sections = [PAGE.read_text("utf-8").partition(MARK)[0] + MARK + HEAD], list[str]()
    for kind, where in WHERE.items():
        chosen = [(name, about) for name, about in all_words().items() if about["kind"] == kind]
        rows = [f"| [{name}](#{name}) | {_plain(about['title'])} | {about['helps']} |" for name, about in chosen]
        table = "\n".join(["| remedy | action | when it helps |", "|---|---|---|", *rows])
        lines.append(f"### In {where}\n\n{table}\n")
        sections += [_section(name, about, shared) for name, about in chosen]
    notes = [f"### {title}\n\n{_sentence(text)}\n" for text, title in shared.items()]
    return "\n".join([*lines, *sections, *notes])


def _shared() -> dict[str, str]:
    """Name the long assumptions that several remedies share, so that the page has each of them once."""
    found = Counter(about["assumes"] for about in all_words().values())
    texts = [text for text, count in found.items() if count > 1 and len(text) > LONG]
    return {text: "Assumptions about copies" + (f" ({number})" if number else "") for number, text in enumerate(texts)}


def _section(name: str, about: dict[str, Any], shared: dict[str, str]) -> str:
    title = shared.get(about["assumes"])
    anchor = (title or "").lower().replace(" ", "-")
    assumed = _sentence(about["assumes"]) if title is None else f"[{title}](#{anchor})."
    ways = "\n".join(f"- {system}: `{command}`" for system, command in about["ways"])
    parts = [
        f"### {name}",
        f"{_sentence(_plain(about['title']))} {about['does'].removeprefix('Nothing. ')}",
        f"**When it does not help.** {about['unless']}",
        f"**How.**\n\n{ways}",
        _drawbacks(about),
        f"**Assumed.** {assumed} Source: {about['source']}.{_links(about.get('links', ()))}",
        f"**Evidence.** {_linked(about['proof'])}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _drawbacks(about: dict[str, Any]) -> str:
    """Write risk and side effects; nothing if a remedy has neither."""
    risk, effects = about["risk"].removeprefix("none: nothing is written").removeprefix("; "), about["side_effects"]
    shown = [("Risk", "" if risk == "none" else risk), ("Side effects", "" if effects == "none" else _plain(effects))]
    return " ".join(f"**{head}.** {_sentence(text)}" for head, text in shown if text)


def _links(links: Iterable[tuple[str, str]]) -> str:
    listed = ", ".join(f"[{words}]({address})" for words, address in links)
    return f" See {listed}." if listed else ""


def _linked(text: str) -> str:
    """Link the page of tests with real drivers in place of their description."""
    link = "[Tested with real drivers](reference/remedies-proven.md)"
    text = re.sub(r"Tested with real drivers[^:]*: docs/reference/remedies-proven\.md lists (.*)", rf"{link}: \1", text)
    return re.sub(r"Tested with real drivers[^:]*: (.*) \(docs/reference/remedies-proven\.md\)", rf"{link}: \1", text)


def _plain(text: str) -> str:
    return text.replace("{label}", LABEL)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
