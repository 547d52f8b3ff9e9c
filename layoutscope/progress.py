"""Progress of long work: loops declare phases, which are reported to listeners.

A loop declares its phase (:func:`phase`, :func:`each`) and counts its work, independently of listeners. A caller sets
the listener around the work (:func:`reporting`), as ``progress=`` of all verbs does. Without one, a phase does nothing.
Phases may be nested; the innermost one is reported.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    T = TypeVar("T")

Unit = Literal["bytes", "steps"]

REPORT_INTERVAL_S: Final = 0.1
"""Shortest interval between reports; the begin and the end of a phase are always reported."""


class Step(NamedTuple):
    """The state of the work."""

    phase: str  # name of the phase; empty after the last one
    done: int = 0  # work done so far
    total: int | None = None  # total work; None if it is known only at the end
    unit: Unit = "bytes"  # unit of both numbers

    @property
    def share(self) -> float | None:
        """Share of the work that is done, 0 to 1; None if unknown."""
        return min(self.done / self.total, 1.0) if self.total else None


class Progress(Protocol):
    """A listener for progress."""

    def __call__(self, step: Step, /) -> None:
        """Receive a step, in the working thread."""


class Phase:
    """A running phase; without a listener, all phases share one object."""

    __slots__ = ("_count", "_done", "_name", "_report", "_total", "_unit")

    def __init__(
        self,
        report: ProgressReport | None,
        name: str,
        *,
        total: int | None = None,
        unit: Unit = "bytes",
        count: Callable[[], int] | None = None,
    ) -> None:
        self._report, self._name, self._total, self._unit, self._count = report, name, total, unit, count
        self._done = 0

    def at(self, done: int) -> None:
        """Set the work done so far."""
        if self._report is not None:
            self._done = done
            self._report.notify()

    def advance(self, more: int = 1) -> None:
        """Add to the work done so far."""
        self.at(self._done + more)

    def step(self) -> Step:
        """Return the state of the phase."""
        return Step(self._name, self._done if self._count is None else self._count(), self._total, self._unit)


class ProgressReport:
    """The running phases of some work, and their listener."""

    def __init__(self, listener: Progress) -> None:
        self._listener, self._phases, self._last_report_s = listener, list[Phase](), 0.0

    def step(self) -> Step:
        """Return the state of the innermost phase."""
        phases = self._phases[-1:]
        return phases[0].step() if phases else Step("")

    def notify(self, *, at_once: bool = False) -> None:
        """Report to the listener, unless the last report was a moment ago."""
        now = monotonic()
        if at_once or now - self._last_report_s >= REPORT_INTERVAL_S:
            self._last_report_s = now
            self._listener(self.step())

    @contextmanager
    def phase(self, running: Phase) -> Iterator[Phase]:
        """Add a phase to the running ones."""
        self._phases.append(running)
        self.notify(at_once=True)
        try:
            yield running
        finally:
            self.notify(at_once=True)
            self._phases.remove(running)
            self.notify(at_once=True)


_REPORT: Final[ContextVar[ProgressReport | None]] = ContextVar("layoutscope.progress", default=None)

NULL_PHASE: Final = Phase(None, "")


@contextmanager
def reporting(listener: Progress | None) -> Iterator[ProgressReport | None]:
    """Report all phases to a listener until the context ends; None keeps the present listener."""
    if listener is None:
        yield _REPORT.get()
        return
    mark = _REPORT.set(ProgressReport(listener))
    try:
        yield _REPORT.get()
    finally:
        _REPORT.reset(mark)


@contextmanager
def phase(
    name: str, total: int | None = None, *, unit: Unit = "bytes", count: Callable[[], int] | None = None
) -> Iterator[Phase]:
    """Declare a phase."""
    report = _REPORT.get()
    if report is None:
        yield NULL_PHASE
        return
    with report.phase(Phase(report, name, total=total, unit=unit, count=count)) as running:
        yield running


def tick() -> None:
    """Report progress from a loop whose phase counts elsewhere."""
    report = _REPORT.get()
    if report is not None:
        report.notify()


def each(items: Sequence[T], name: str) -> Iterator[T]:
    """Iterate over items as a phase with one step per item.

    >>> heard = []
    >>> with reporting(heard.append):
    ...     letters = list(each("ab", "spelling"))
    >>> letters, heard[0], heard[-1].phase
    (['a', 'b'], Step(phase='spelling', done=0, total=2, unit='steps'), '')
    """
    with phase(name, len(items), unit="steps") as running:
        for item in items:
            yield item
            running.advance()
