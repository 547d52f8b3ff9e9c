"""Progress of long work: phases, declared where the loops are, reported to listeners.

A loop declares its phase (:func:`phase`, :func:`each`) and counts what it has done; it knows no listener. Listeners are
set around the work (:func:`reporting`), as by ``progress=`` of every verb; without one a phase is an object that does
nothing. Phases may be nested: the innermost is what is being done.
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
"""A listener hears no more often of what was done; it hears of each beginning and end."""


class Step(NamedTuple):
    """How far the work is."""

    phase: str  # what is being done; an empty string when nothing is any more
    done: int = 0  # how much of it is done
    total: int | None = None  # how much there is to do; None where that is known only in the end
    unit: Unit = "bytes"  # what is counted

    @property
    def share(self) -> float | None:
        """How much of it is done, 0 to 1; None where that is not known."""
        return min(self.done / self.total, 1.0) if self.total else None


class Progress(Protocol):
    """Who wants to know how far the work is."""

    def __call__(self, step: Step, /) -> None:
        """Take note of a step, in the thread that works."""


class Phase:
    """A phase under way; of those that nobody listens to there is one for all."""

    __slots__ = ("_count", "_done", "_name", "_report", "_total", "_unit")

    def __init__(
        self,
        report: UnderWay | None,
        name: str,
        *,
        total: int | None = None,
        unit: Unit = "bytes",
        count: Callable[[], int] | None = None,
    ) -> None:
        self._report, self._name, self._total, self._unit, self._count = report, name, total, unit, count
        self._done = 0

    def at(self, done: int) -> None:
        """Describe how much is done by now."""
        if self._report is not None:
            self._done = done
            self._report.tell()

    def advance(self, more: int = 1) -> None:
        """Describe how much more is done than before."""
        self.at(self._done + more)

    def step(self) -> Step:
        """Describe how far the phase is."""
        return Step(self._name, self._done if self._count is None else self._count(), self._total, self._unit)


class UnderWay:
    """The phases of some work, and who listens."""

    def __init__(self, listener: Progress) -> None:
        self._listener, self._phases, self._last_report_s = listener, list[Phase](), 0.0

    def step(self) -> Step:
        """Describe what is being done, and how far that is."""
        phases = self._phases[-1:]
        return phases[0].step() if phases else Step("")

    def tell(self, *, at_once: bool = False) -> None:
        """Report to the listener, unless it heard a moment ago."""
        now = monotonic()
        if at_once or now - self._last_report_s >= REPORT_INTERVAL_S:
            self._last_report_s = now
            self._listener(self.step())

    @contextmanager
    def phase(self, begun: Phase) -> Iterator[Phase]:
        """Have a phase among those that are under way."""
        self._phases.append(begun)
        self.tell(at_once=True)
        try:
            yield begun
        finally:
            self.tell(at_once=True)
            self._phases.remove(begun)
            self.tell(at_once=True)


_REPORT: Final[ContextVar[UnderWay | None]] = ContextVar("layoutscope.progress", default=None)

NULL_PHASE: Final = Phase(None, "")


@contextmanager
def reporting(listener: Progress | None) -> Iterator[UnderWay | None]:
    """Report all phases to a listener until the context ends; None leaves the listener that there is."""
    if listener is None:
        yield _REPORT.get()
        return
    mark = _REPORT.set(UnderWay(listener))
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
    with report.phase(Phase(report, name, total=total, unit=unit, count=count)) as begun:
        yield begun


def tick() -> None:
    """Let listeners look, in a loop whose phase counts elsewhere."""
    report = _REPORT.get()
    if report is not None:
        report.tell()


def each(items: Sequence[T], name: str) -> Iterator[T]:
    """Go through items as a phase, a step each.

    >>> heard = []
    >>> with reporting(heard.append):
    ...     letters = list(each("ab", "spelling"))
    >>> letters, heard[0], heard[-1].phase
    (['a', 'b'], Step(phase='spelling', done=0, total=2, unit='steps'), '')
    """
    with phase(name, len(items), unit="steps") as under_way:
        for item in items:
            yield item
            under_way.advance()
