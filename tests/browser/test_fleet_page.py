"""The fleet page in a browser: no network, sorting, search, and hostile names as text."""

from __future__ import annotations

import pytest

from layoutscope.report.fleetpage import BINS, FleetPage, VolumeCard, fleet_page
from tests.browser.conftest import assert_fits

HOSTILE = "</script><img src=x onerror=alert(1)>"
SCORE = {"walk request-layout-score": ("Requests in sequence", "share")}
FIRST = "() => [...document.querySelectorAll('#volumes tbody tr:not([hidden])')].map((row) => row.id)"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Write a page of thirty volumes of two kinds, one without a prediction and with a hostile name."""
    cards = [
        VolumeCard(
            source=f"{number:016x}",
            path=f"disks/{number}.img",
            status="damaged" if number % 7 == 0 else "complete",
            volume=f"volume {number}",
            name=HOSTILE if number == 29 else f"Disk {number}",
            kind="APFS" if number % 2 else "HFS+",
            size_bytes=(number + 1) * 2**30,
            entries=1000,
            seconds={} if number == 29 else {"disk": 1.0 + (number * 7) % 29},
            reads=100 + number,
            metrics={"walk request-layout-score": number / 30},
            age_days=number * 30.0,
            metadata=tuple((number + part) % 9 / 9 for part in range(BINS)),
            data=tuple(float(part < number * 4) for part in range(BINS)),
        )
        for number in range(30)
    ]
    failures = tuple((f"disks/{HOSTILE}{number}", "refused", "is a text file") for number in range(3))
    fleet = FleetPage(HOSTILE, "made", {"complete": 30, "refused": 3}, "fts", ("disk",), SCORE, tuple(cards), failures)
    path = tmp_path_factory.mktemp("fleet") / "fleet.html"
    path.write_text(fleet_page(fleet), "utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [(1280, 720), (390, 844)])
def test_page_needs_no_network_and_fits(visit, page, size, dark):
    """The page makes no request and logs no error, draws all pictures, and only tables are wider than the window."""
    seen = visit(page, size=size, dark=dark)
    assert seen.run("() => [...document.images].every((image) => image.naturalWidth > 0)")
    assert seen.page.locator("#volumes tbody tr").count() == 30
    assert seen.page.locator("#charts svg[aria-label]").count() == 3
    assert_fits(seen, size[0])


def test_rows_are_sorted_by_keyboard_and_unknown_stands_last(visit, page):
    """Enter on a heading sorts, and again reverses; a volume without a time is last in both orders."""
    seen = visit(page)
    assert seen.run(FIRST)[-1] == "v29"
    time = seen.page.locator("#volumes th button", has_text="1,000 entries")
    assert time.locator("..").get_attribute("aria-sort") == "descending"
    slowest = seen.run(FIRST)[0]
    time.press("Enter")
    order = seen.run(FIRST)
    assert (order[-2], order[-1]) == (slowest, "v29")
    assert time.locator("..").get_attribute("aria-sort") == "ascending"
    seen.page.locator("#volumes th button", has_text="Size").press("Enter")
    assert seen.run(FIRST) == [f"v{number}" for number in reversed(range(30))]
    seen.page.locator("#volumes th button", has_text="Volume").press("Enter")
    named = [name for name in seen.run(FIRST) if name != "v29"]
    assert named == [f"v{number}" for number in range(29)]


def test_search_narrows_the_table(visit, page):
    """All words must be in a row; the remaining rows are counted."""
    seen = visit(page)
    seen.page.fill("#search", "apfs damaged")
    assert set(seen.run(FIRST)) == {"v7", "v21"}
    assert seen.page.locator("#shown").inner_text() == "2 of 30 shown"
    seen.page.fill("#search", "no such disk")
    assert seen.run(FIRST) == []
    seen.page.fill("#search", "")
    assert len(seen.run(FIRST)) == 30


def test_hostile_names_are_text(visit, page):
    """A name with markup is shown as text, in the title, in rows and among failures."""
    seen = visit(page)
    seen.page.fill("#search", "onerror")
    assert seen.run(FIRST) == ["v29"]
    assert HOSTILE in seen.page.locator("#v29 td.name").inner_text()
    assert HOSTILE in seen.page.title()
    assert seen.page.locator("#failures td", has_text=HOSTILE).count() == 3
    assert seen.page.locator("img[src=x]").count() == 0
    assert seen.complaints == []


def test_everything_can_be_read_without_scripts(browser, page):
    """The sentence, all rows and failures are there; controls that need a script are not."""
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(page.as_uri())
    assert "33 sources: 30 complete, 3 refused." in plain.locator(".headline").inner_text()
    assert plain.locator("#volumes tbody tr:visible").count() == 30
    assert not plain.locator("#search").is_visible()
    context.close()
