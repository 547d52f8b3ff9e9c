"""Makes the pages and tables that are built and not committed; ``docs/conf.py`` calls it when Sphinx builds the pages.

A committed page has a line such as ``*Built with `nox -s docs`: `tests.docs.tables.findings`*`` in place of a table.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from tests.docs.imports import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DOCS = ROOT / "docs"
BUILT = re.compile(r"^\*Built with `nox -s docs`: `([\w.]+)\.(\w+)`(?:, (\w+))?\*$", re.MULTILINE)


def fill(text: str) -> str:
    """Return a page with its tables."""
    return BUILT.sub(lambda found: _made(found[1], found[2], found[3]), text)


def _made(module: str, name: str, argument: str | None) -> str:
    return str(getattr(import_module(module), name)(*([argument] if argument else [])))


@cache
def read(page: Path) -> str:
    """Return a committed page with its tables."""
    return fill(page.read_text(encoding="utf-8"))


@cache
def built() -> dict[str, str]:
    """Return the pages and files that are not committed at all, by their places in ``docs``."""
    from tests.docs import grammar_pages, schemas

    grammars = {f"reference/grammars/{name}": text for name, text in grammar_pages.pages().items()}
    return grammars | {f"reference/schemas/{name}": text for name, text in schemas.files().items()}


def write() -> None:
    """Write what is not committed; a file that is as it was keeps its time, so Sphinx does not read it again."""
    for name, text in built().items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
