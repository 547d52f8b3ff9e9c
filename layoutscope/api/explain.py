"""``explain``: definitions of words and metrics, and what findings mean and what to do about them.

Nothing is written here: words are those of ``docs/glossary.md``, which installers put beside the package; the rest
comes from the modules that define each thing.
"""

from __future__ import annotations

import re
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from layoutscope.drive import list_profiles
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.filesystems.registry import filesystem_names, finding_codes, refusals
from layoutscope.metrics import DEFINITIONS
from layoutscope.remedies.case import OTHER, all_words, words_of
from layoutscope.remedies.changes import WHAT_IFS
from layoutscope.results.check import what_to_do
from layoutscope.tables import TABLES
from layoutscope.tables.frames import FLEET_TABLES, FRAMES
from layoutscope.walk.orders import ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator


GLOSSARY: Final = "glossary.md"

_Entry: TypeAlias = tuple[str, str, str]
"""A word as looked up, its kind (word, metric, finding …), and its explanation, one paragraph a line."""


def explain(word: str = "") -> str:
    """Describe what a word, a metric, a finding's code, an order, a remedy, a drive, a table or a what-if means.

    Parameters
    ----------
    word : str, default ''
        The term, in upper or lower case; without it all terms are listed.

    Returns
    -------
    str
        A paragraph for each thing of that name.

    Raises
    ------
    UsageError
        If the term is unknown; the message suggests a similar one.

    Examples
    --------
    >>> import layoutscope
    >>> print(layoutscope.explain("clump"))
    clump (word)
      A maximal run of metadata with gaps no larger than a given size.
      Not called here: cluster.
    """
    entries = [*_words(), *_defined(), *_columns()]
    if not word:
        words = dict[str, list[str]]()
        for name, kind, _ in entries:
            words.setdefault(kind, []).append(name)
        return "\n\n".join(f"{kind}:\n  {', '.join(names)}" for kind, names in words.items())
    found = [entry for entry in entries if entry[0].casefold() == word.casefold()]
    # Metrics are shown by their titles, with which their text begins.
    titled = f"{word.casefold()}."
    found = found or [entry for entry in entries if entry[2].casefold().startswith(titled)]
    found = found or [entry for entry in entries if _normalise(entry[0]) == _normalise(word)]
    found = found or [entry for entry in entries if word.casefold() in _not_called(entry)]
    found = found or [entry for entry in entries if f" {_normalise(word)} " in f" {_normalise(entry[0])} "]
    if not found:
        like = did_you_mean(word, [entry[0] for entry in entries])
        raise UsageError(f"unknown term {word!r}{like}; 'layoutscope explain' lists all terms")
    return "\n\n".join(_shown(entry) for entry in found)


def _normalise(word: str) -> str:
    """Return a word as it is looked up: hyphens and underscores are blanks, and plurals are singular."""
    return re.sub("[-_]", " ", word.casefold()).removesuffix("s")


def _not_called(entry: _Entry) -> list[str]:
    """Return the words that others use for it; brackets after a word explain its meaning here."""
    other = entry[2].casefold().partition(_OTHER_WORDS)[2].removesuffix(".")
    return re.sub(r"\(.*?\)", "", other).replace(" ,", ",").strip().split(", ")


def _shown(entry: _Entry) -> str:
    word, kind, text = entry
    return "\n".join([f"{word} ({kind})", *(f"  {line}" for line in text.splitlines() if line)])


def glossary_text() -> str:
    """Read the glossary: beside the package where it was installed, in ``docs`` of a checkout."""
    beside = resources.files("layoutscope") / GLOSSARY
    if beside.is_file():
        return beside.read_text("utf-8")
    return (Path(__file__).resolve().parents[2] / "docs" / GLOSSARY).read_text("utf-8")


def _words() -> Iterator[_Entry]:
    """Read the rows of the glossary's table; several words may share one."""
    for line in glossary_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        if len(cells) != 3 or cells[0] == "word":
            continue
        words, idea, other = cells
        idea = re.sub(r"\[[^]]*\]\(([^)]+)\)", r"docs/\1", idea)
        text = f"{idea[0].upper()}{idea[1:]}."
        for word in words.replace("`", "").split(", "):
            shared = "" if "," not in words else f"\nTogether with: {words.replace('`', '')}."
            yield (word, "word", text + shared + (f"\nNot called here: {other}." if other else ""))


_OTHER_WORDS: Final = "not called here: "


def _defined() -> Iterator[_Entry]:
    """Yield what the modules of this package define, kind by kind."""
    for item in DEFINITIONS.values():
        about = f"{item.title}. {item.text}\nUnit: {item.unit}, of {item.denominator}.\nSource: {item.citation}"
        yield (item.name, "metric", about)
    for code, text in finding_codes().items():
        yield (code, "finding", f"{text}\nWhat to do: {what_to_do(code)}")
    for code, text in refusals().items():
        yield (code, "refusal", f"{text}\nWhat to do is in the message of the refusal.")
    for order in ORDERS.values():
        needs = f"\nNeeds --{order.needs}." if order.needs else ""
        once = "\nIt is done once, with nothing cached." if order.is_done_once else ""
        yield (order.name, "order", f"A program gets {order.does}.{needs}{once}")
    yield ("ORDER", "option", f"What a program does on a volume, one of {', '.join(ORDERS)}.")
    for name, page in all_words().items():
        names = [f"on-{other}" for other in filesystem_names()] if name == OTHER else [name]
        for words in map(words_of, names):
            title = f"{words.title[0].upper()}{words.title[1:]}"
            helps = f"It helps: {page['helps']} It does not: {page['unless']}"
            how = f"Risk: {words.risk}.\nHow to do it: layoutscope plan IMAGE."
            yield (words.name, "remedy", f"{title}.\n{helps}\n{how}")
    for name in list_profiles():
        yield (name, "drive", f"A drive profile; layoutscope drives {name} shows its figures and their sources.")
    for name, because in WHAT_IFS.items():
        yield (name, "what-if", f"The same workload, but {because}.")
    yield ("what-if", "option", f"A workload with one thing changed, one of {', '.join(WHAT_IFS)}.")
    for name, columns in TABLES.items():
        rows = (f"{item.name}{f' ({item.unit})' if item.unit else ''}: {item.doc}" for item in columns)
        yield (name, "table", "Its columns are:\n" + "\n".join(rows))
    yield ("TABLE", "option", f"What is exported, one of {', '.join(TABLES)}.")


def _columns() -> Iterator[_Entry]:
    """Yield the columns of all tables, each name once with the tables that have it."""
    found = dict[str, dict[str, list[str]]]()
    for name, columns in chain(TABLES.items(), FRAMES.items(), FLEET_TABLES.items()):
        for item in columns:
            text = f"{item.doc}{f' ({item.unit})' if item.unit else ''}"
            found.setdefault(item.name, {}).setdefault(text, []).append(name)
    for column, texts in found.items():
        lines = (f"In {', '.join(dict.fromkeys(names))}: {text}." for text, names in texts.items())
        yield (column, "column", "\n".join(lines))
