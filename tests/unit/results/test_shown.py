from __future__ import annotations

import io
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest
import rich.console
import rich.jupyter
from rich.console import Console

import layoutscope
import layoutscope.results
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope.fleet.query import views
from layoutscope.report.json import result_document
from layoutscope.report.text import print_result, printer
from layoutscope.results import Shown

pytestmark = pytest.mark.images

IMAGE = Path(__file__).resolve().parents[3] / "fixtures" / "images" / "hfsplus-scattered.img.zst"
DRIVES = ["sata-ssd"]

RESULTS = {
    "ScanResult": lambda: layoutscope.scan(IMAGE, drives=DRIVES),
    "PredictResult": lambda: layoutscope.predict(IMAGE, drives=DRIVES),
    "Comparison": lambda: layoutscope.compare([IMAGE, IMAGE], drives=DRIVES),
    "Series": lambda: layoutscope.series([IMAGE, IMAGE], drives=DRIVES),
    "CheckResult": lambda: layoutscope.check(IMAGE),
    "Inspection": lambda: layoutscope.inspect(IMAGE, at=1024),
    "PlanResult": lambda: layoutscope.plan(IMAGE, drive="sata-ssd"),
    "ForecastResult": lambda: layoutscope.forecast(IMAGE, cycles=2, drives=DRIVES, seeds=1),
    "QueryResult": lambda: layoutscope.query(IMAGE, "SELECT volume, count(*) AS nodes FROM nodes GROUP BY volume"),
    "ViewList": views,
    "Verification": lambda: layoutscope.verify("small.img"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_show_what_the_command_line_prints(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(SCENARIOS["hard-links"], tmp_path / "small.img")
    if name == "QueryResult":
        pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    result = RESULTS[name]()
    assert type(result).__name__ == name
    texts = []
    for show in (Console.print, lambda console, found: print_result(found, console)):
        console = Console(file=io.StringIO(), width=100, highlight=False)
        show(console, result)
        texts.append(console.file.getvalue().split())
    assert texts[0] == texts[1]
    assert result_document(result)["schema"].startswith("layoutscope.")
    page = result.text_html()
    assert page.startswith("<pre")
    assert page in result._repr_html_()
    assert texts[0][0] in page


def test_a_notebook_shows_a_result_once(monkeypatch):
    """If asked for its page, a result prints nothing itself, although a console in a notebook would."""
    shown = []
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    monkeypatch.setattr(rich.jupyter, "display", lambda *_: shown.append("at once"))
    result = layoutscope.scan(IMAGE, drives=DRIVES)
    assert "Volume" in result.text_html()
    assert shown == []
    Console(file=io.StringIO()).print("a console that nobody tamed")
    assert shown == ["at once"]


def test_every_kind_of_result_can_be_printed():
    for module in pkgutil.iter_modules(layoutscope.results.__path__, "layoutscope.results."):
        import_module(module.name)
    kinds = set(Shown.__subclasses__())
    # Results that need a trace, a Mac's kit or a folder have tests of their own.
    assert {kind.__name__ for kind in kinds} == {*RESULTS, "ReplayResult", "KitResult", "FleetResult", "ReportResult"}
    assert all(callable(printer(kind)) for kind in kinds)
    # HTML markup is escaped.
    from msgspec.structs import replace

    result = layoutscope.scan(IMAGE, drives=())
    page = replace(result, image=replace(result.image, name="<script>"))._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
