"""Results as text for a terminal or a pipe: one module a family of verbs, readable from 80 columns on.

Each is imported when a result of its kind is first printed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from layoutscope.results.check import CheckResult, Verification
from layoutscope.results.compare import Comparison, Series
from layoutscope.results.inspect import Inspection
from layoutscope.results.predict import PredictResult, ReplayResult
from layoutscope.results.scan import ScanResult

if TYPE_CHECKING:
    from rich.console import Console

    from layoutscope.results.shown import Shown

PRINTERS: Final[dict[type[Shown], tuple[str, str]]] = {
    ScanResult: ("scan", "print_scan"),
    PredictResult: ("predict", "print_prediction"),
    Comparison: ("compare", "print_comparison"),
    Series: ("compare", "print_series"),
    CheckResult: ("check", "print_check"),
    ReplayResult: ("predict", "print_replay"),
    Inspection: ("inspect", "print_inspection"),
    Verification: ("check", "print_verification"),
}
"""By the kind of a result: the module beside this one, and its function."""


def print_result(result: Shown, console: Console) -> None:
    """Print a result as its command does."""
    module, function = PRINTERS[type(result)]
    getattr(import_module(f"layoutscope.report.text.{module}"), function)(result, console)
