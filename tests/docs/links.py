"""Writes ``tests/docs/links.tsv``: every address outside that pages and grammars name, once, with what it is cited for.

``python -m tests.docs.links``; ``test_links.py`` keeps it up to date and finds malformed and repeated addresses.
``nox -s links`` follows the addresses; it needs a network.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.docs.imports import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

TABLE = ROOT / "tests" / "docs" / "links.tsv"
ADDRESS = re.compile(r"https?://[^][\s\"'<>|`{}\\()…]+(?:\([^()\s]*\)[^][\s\"'<>|`{}\\()…]*)*")
LINKED = re.compile(r"\[([^][{}]+)\]\(" + f"({ADDRESS.pattern})" + r"\)")
REFERRED = re.compile(rf"doc-ref: '({ADDRESS.pattern}) ?([^'\n]*)'")
LISTED = re.compile(rf"^ *- '({ADDRESS.pattern}) ?([^'\n]*)'", re.MULTILINE)

NO_PAGES = {
    "http://www.forensicswiki.org/wiki/Category:Digital_Forensics_XML": "the name of DFXML's namespace",
    "https://host/disk.img": "an example of an address that a verb takes",
    "http://www.w3.org/2000/svg": "the name of SVG's namespace",
}
"""What looks like an address and is none to be followed, with the reason."""


def sources() -> list[Path]:
    """Return the files whose addresses a reader may follow."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml")]
    for pattern in (
        "ksy/**/*.ksy",
        "ksy/*.md",
        "docs/**/*.md",
        "docs/*.ipynb",
        ".github/*.md",
        "layoutscope/drive/**/*.toml",
    ):
        found += [path for path in sorted(ROOT.glob(pattern)) if "node_modules" not in path.parts]
    return found


def cited(text: str) -> Iterator[tuple[str, str]]:
    """Return each address in a text with the words of its link; empty where it stands by itself."""
    told: dict[str, str] = {}
    for words, address in LINKED.findall(text):
        told.setdefault(address, words)
    for address, words in REFERRED.findall(text) + LISTED.findall(text):
        told.setdefault(address, words)
    for address in (found.rstrip(".,;:*") for found in ADDRESS.findall(text)):
        yield address, " ".join(told.get(address, "").replace("\t", " ").split())


def table(texts: Iterable[tuple[str, str]]) -> str:
    """Write the table: address, the file that names it first, how many do, and what it is cited for.

    Parameters
    ----------
    texts : iterable of (str, str)
        Names of files and what is in them.
    """
    found: dict[str, tuple[list[str], str]] = {}
    for name, text in texts:
        for address, words in cited(text):
            if address in NO_PAGES:
                continue
            names, said = found.setdefault(address, ([], words))
            if name not in names:
                names.append(name)
            found[address] = (names, said or words)
    rows = (f"{address}\t{names[0]}\t{len(names)}\t{said}\n" for address, (names, said) in sorted(found.items()))
    return "address\tfirst\tfiles\tcited for\n" + "".join(rows)


def faults(addresses: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with each address, or that another one is the same place."""
    seen: dict[str, str] = {}
    for address in addresses:
        parts = urlsplit(address)
        host = parts.hostname or ""
        if parts.scheme != "https":
            yield f"{address}: not https"
        if "." not in host or host.endswith((".local", ".invalid")) or host.replace(".", "").isdigit():
            yield f"{address}: no host that others know"
        if "//" in parts.path or parts.username or "utm_" in parts.query:
            yield f"{address}: malformed"
        fragment = f"#{parts.fragment}" if parts.fragment else ""
        same = f"{host.removeprefix('www.')}{parts.path.rstrip('/')}?{parts.query}{fragment}".lower()
        if same in seen and seen[same] != address:
            yield f"{address}: the same place as {seen[same]}"
        seen.setdefault(same, address)


def current() -> str:
    """Return the table as it should be."""
    return table((path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in sources())


if __name__ == "__main__":
    TABLE.write_text(current(), encoding="utf-8")
