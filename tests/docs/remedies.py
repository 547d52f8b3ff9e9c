"""The list of remedies in ``docs/remedies.md``, from ``layoutscope/remedies/words.toml``."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from layoutscope.remedies.case import all_words
from tests.docs.markdown import table

if TYPE_CHECKING:
    from collections.abc import Iterable

LONG = 200
"""Characters of an assumption that is written once if several remedies share it."""

LABEL = "another file system"
WHERE = {"software": "the program that reads", "volume": "the layout of the volume", "hardware": "the drives"}


def sections() -> str:
    """Return a table for each kind of remedy, a section for each remedy, and the assumptions that they share."""
    shared = _shared()
    tables, sections = list[str](), list[str]()
    for kind, where in WHERE.items():
        chosen = [(name, about) for name, about in all_words().items() if about["kind"] == kind]
        rows = [(f"[{name}](#{name})", _plain(about["title"]), about["helps"]) for name, about in chosen]
        tables.append(f"### In {where}\n\n{table('remedy | action | when it helps', rows)}")
        sections += [_section(name, about, shared) for name, about in chosen]
    notes = [f"### {title}\n\n{_sentence(text)}" for text, title in shared.items()]
    return "\n\n".join([*tables, *sections, *notes])


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
    return "\n\n".join(part for part in parts if part)


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
