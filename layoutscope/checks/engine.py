"""The engine of checks: named checks with the parts that they need, and tables whose rows break a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from layoutscope.filesystems.contract import Unchecked
from layoutscope.findings import MAX_CASES

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

    from numpy.typing import NDArray

    from layoutscope.findings import FindingLog, Level


class Check(NamedTuple):
    """A check of a registry."""

    run: Callable[..., None]
    needs: tuple[str, ...] = ()  # parts that must be read completely for a full check
    requires: tuple[str, ...] = ()  # parts without which it does not run
    takes: tuple[str, ...] = ()  # tables that it takes in addition to the subject, without which it does not run
    each: str = ""  # mapping of the subject; the check runs once per value, which it takes as an argument

    def explain_lack(self, unread: Mapping[str, str], parts: tuple[str, ...] | None = None) -> list[str]:
        """List why parts, by default all those of the check, were not read completely; "" stands for every part."""
        named = (*self.requires, *self.needs) if parts is None else parts
        return [why for part, why in unread.items() if named and (not part or part in named)]


def run_checks(
    checks: Mapping[str, Check], unread: Mapping[str, str], without: Container[str], subject: object, *parts: object
) -> None:
    """Run the checks on a subject and parts of it, except those in `without` and those that need an `unread` part."""
    for name, check in checks.items():
        tables = [getattr(subject, each) for each in check.takes]
        is_missing = any(table is None for table in tables) or check.explain_lack(unread, check.requires)
        if name not in without and not is_missing:
            items = [[item] for item in getattr(subject, check.each).values()] if check.each else [[*parts, *tables]]
            for each in items:
                check.run(subject, *each)


def list_unchecked(checks: Mapping[str, Check], unread: Mapping[str, str]) -> list[Unchecked]:
    """List the checks that did not run in full, with the reasons."""
    reasons = {name: check.explain_lack(unread) for name, check in checks.items()}
    return [Unchecked(name, ", ".join(whys)) for name, whys in reasons.items() if whys]


class Table(NamedTuple):
    """Rows of one kind under check: the location of their fields, and the code of findings about them."""

    at: Callable[[int, str], FindingLog]  # binds the log to a field of a row
    code: str
    level: Level = "error"
    most: int = MAX_CASES  # number of rows listed per rule
    # receives the number of further rows; if None, the last message includes it
    rest: FindingLog | None = None

    def report(
        self,
        wrong: NDArray[Any] | bool,  # a mask over the rows, or their numbers; for a single row, whether it is wrong
        # message, field, expected, found: one for all rows, an array of them, or a function of the row
        message: object,
        field: object = "",
        *,
        expected: object = "",
        found: object = "",
        code: str = "",
        level: Level | None = None,
    ) -> None:
        """Report the rows that break a rule: the first ones each at its field, then the number of further rows."""
        wrong = np.asarray(wrong)
        rows = np.flatnonzero(wrong) if wrong.dtype == np.bool_ else wrong
        last = int(rows[self.most - 1]) if self.rest is None and len(rows) > self.most else -1
        for row in self.cases(rows, code):
            text, path, one, other = (_value_for(each, row) for each in (message, field, expected, found))
            if row == last:
                text = f"{text}; {len(rows) - self.most} more cases"
            self.at(row, path).add(code or self.code, level or self.level, text, expected=one, found=other)

    def cases(self, rows: NDArray[np.int64], code: str = "") -> Iterator[int]:
        """Yield the first of the wrong rows, and report the number of further rows."""
        yield from rows[: self.most].tolist()
        if len(rows) > self.most and self.rest is not None:
            message = f"{len(rows) - self.most:,} further cases of the same kind"
            self.rest.add(code or self.code, "warning", message)


def _value_for(values: Any, row: int) -> Any:
    return values(row) if callable(values) else values[row] if isinstance(values, np.ndarray) else values
