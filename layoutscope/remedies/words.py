"""What is to be known of remedies, in words: ``words.toml`` read."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from layoutscope.results.plan import RemedyWords

FILE: Final = Path(__file__).with_name("words.toml")

ON_PAGES: Final = ("does", "helps", "unless", "links", "proof")
"""What a remedy's page alone has: what it does, when it helps, when not, public sources, what it was held against."""

OTHER: Final = "on-other"
"""Entry of the remedy that there is one of for each file system."""


@lru_cache(maxsize=1)
def all_words() -> dict[str, dict[str, Any]]:
    """Return the file as it stands."""
    return tomllib.loads(FILE.read_text("utf-8"))


def said(name: str) -> RemedyWords:
    """Return the words of a remedy."""
    about = {key: value for key, value in all_words()[name].items() if key not in ON_PAGES}
    about["ways"] = tuple((system, command) for system, command in about["ways"])
    return RemedyWords(name, **about)


def said_of_other(name: str, label: str) -> RemedyWords:
    """Return the words of the copy to another file system."""
    plain = said(OTHER)
    title, effects = (text.replace("{label}", label) for text in (plain.title, plain.side_effects))
    return replace(plain, name=f"on-{name}", title=title, side_effects=effects)
