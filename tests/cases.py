"""Run one test over many values and list every failure."""

from __future__ import annotations

import inspect
import traceback
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


def for_each(names: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with each value as one case, in place of ``pytest.mark.parametrize``, which makes a case per value.

    The case fails after the last value and lists the message and line of each failure. Each value gets its own
    ``tmp_path``, and ``monkeypatch`` changes are undone after it.
    """
    parameters = [name.strip() for name in names.split(",")]
    rows = [value if len(parameters) > 1 else (value,) for value in values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @wraps(test)
        def run(**fixtures: Any) -> None:
            assert rows, "there is nothing to check"
            failures = []
            for number, row in enumerate(rows):
                values = dict(zip(parameters, row, strict=True))
                try:
                    _run_once(test, values, fixtures, number)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
                    line = next(_lines_of(error, test), "?")
                    failures.append(f"{_describe(row)}: line {line}: {type(error).__name__}: {error}")
            assert not failures, f"{len(failures)} of {len(rows)}:\n" + "\n".join(failures)

        wanted = [parameter for name, parameter in signature.parameters.items() if name not in parameters]
        run.__signature__ = signature.replace(parameters=wanted)  # type: ignore[attr-defined]
        return run

    return decorate


def _run_once(test: Callable[..., None], values: Mapping[str, Any], fixtures: Mapping[str, Any], number: int) -> None:
    """Run a test with one set of values, with its own folder and monkeypatch changes."""
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / f"{number}"
        own["tmp_path"].mkdir()
    with pytest.MonkeyPatch.context() as changes:
        if "monkeypatch" in own:
            own["monkeypatch"] = changes
        test(**own, **values)


def _lines_of(error: BaseException, test: Callable[..., None]) -> Iterator[int]:
    """Yield the lines of a test that appear in an error's traceback."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code is test.__code__:
            yield line


def _describe(row: tuple[Any, ...]) -> str:
    """Return a short label for the values."""
    return "-".join(str(getattr(value, "name", value))[:60] for value in row)
