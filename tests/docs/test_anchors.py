"""Each code has a place of its own in the reference, named as the code: what explains one can lead there, for good."""

from __future__ import annotations

import re

import pytest

from layoutscope.drive import list_profiles
from layoutscope.filesystems.registry import finding_codes, refusals
from layoutscope.metrics import DEFINITIONS
from layoutscope.tables import TABLES
from layoutscope.walk.host import LINUX, property_values
from layoutscope.walk.orders import ORDERS
from tests.docs.imports import ROOT
from tests.docs.manual import EXIT_CODES, VARIABLES
from tests.toyfs.toyfs import TOY

DOCS = ROOT / "docs"
PLACES = {
    "reference/findings": lambda: [*finding_codes().keys() - TOY.traits.finding_codes.keys(), *refusals()],
    "reference/metrics": lambda: list(DEFINITIONS),
    "reference/tables": lambda: [f"{name}.{column.name}" for name, columns in TABLES.items() for column in columns],
    "workloads": lambda: list(ORDERS),
    "drives": lambda: list(list_profiles()),
    "reference/hosts": lambda: ["linux", "macos", *property_values(LINUX)],
    "reference/commands": lambda: (
        [f"exit-code-{code}" for code, _ in EXIT_CODES] + [name.lower() for name, _ in VARIABLES]
    ),
}
"""By page, what each row can be led to by."""


def anchors(page: str) -> list[str]:
    """Return the places that a page names."""
    return re.findall(r'<a id="([^"]+)"></a>', (DOCS / f"{page}.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PLACES)
def test_every_code_has_its_place(page):
    """Each code has one, and there is none of what is no longer there."""
    assert sorted(anchors(page)) == sorted(PLACES[page]())


@pytest.mark.parametrize("page", PLACES)
def test_places_are_the_codes_in_small_letters(page):
    """So that an address can be made from a code alone; no place is named twice, nor as a heading is."""
    found = anchors(page)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", each) for each in found)
    assert len(set(found)) == len(found)
    headings = re.findall(r"^#+ (.+)$", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert not set(found) & {re.sub(r"[^a-z0-9]+", "-", each.lower()).strip("-") for each in headings}
