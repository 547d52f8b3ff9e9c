"""How wide a prediction is, why, and what would make it narrower, in words.

Input: one drive's case of a prediction. Nothing is said that its interval does not carry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.drive.interval import VOLUME
from layoutscope.drive.uncertain import DRIVE, HOST, MODEL, OFFSET, START
from layoutscope.units import NOTHING, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.drive.interval import Interval
    from layoutscope.results.predict import DriveCase

NARROW: Final = 1.02
"""Ends whose ratio is less than this lie too close together to ask what parts them."""
NAMED_SHARE: Final = 0.3
"""What contributes less than this share of the width is not named."""

MOST_SHARE: Final = 0.99
"""What contributes more than this is said to make the whole width."""

PLACEMENT: Final = "placement"
"""Group of what is not known of how the nodes of a volume came to lie."""

WORDS: Final = {
    DRIVE: "which drive it is",
    MODEL: "what the model is off on such drives",
    OFFSET: "where on the drive the volume lies",
    HOST: "how fast the computer is",
    START: "the angle at which the disk stands at the start",
    PLACEMENT: "how the nodes came to lie",
}
"""Groups of inputs as a sentence tells them."""

PLACES: Final = {PLACEMENT: "how the nodes lie", OFFSET: "where on the drive"}
"""What of a width is placement."""

HALVES: Final = ("outer", "inner")
"""Of a drive."""


def width(case: DriveCase) -> tuple[str, ...]:
    """Tell between which times a prediction lies, what parts them most, and what would narrow them.

    Of a volume like that, where it was asked for, likewise, with what part is placement.
    """
    told = [found for found in (case.prediction.interval, case.volume) if found is not None]
    return (*(sentence for found in told for sentence in _sentences(case, found)), *_places(case))


def _places(case: DriveCase) -> Iterator[str]:
    """Say what part of a time is how the nodes lie, and what the place on the drive makes of it."""
    if case.volume is not None:
        shares = dict(case.volume.shares)
        parts = [
            f"{words}, {share_words(shares.get(group, 0.0))}"
            for group, words in PLACES.items()
            if group == PLACEMENT or case.prediction.rotates
        ]
        yield f"placement, of the width of a volume like that: {'; '.join(parts)}"
    if len(case.halves_s) == len(HALVES):
        outer, inner = case.halves_s
        part = f"{inner / outer - 1:+.0%}" if outer else NOTHING
        yield (
            f"on the outer half of the drive this layout takes {format_seconds(outer)}, "
            f"on the inner half {format_seconds(inner)} ({part})"
        )


def share_words(share: float) -> str:
    """Tell a share of a width; all of it from where nothing else is worth a word."""
    return "all" if share > MOST_SHARE else f"{100 * share:.0f} %"


def _sentences(case: DriveCase, found: Interval) -> Iterator[str]:
    yield ends(found)
    group, share = found.shares[0] if found.shares else ("", 0.0)
    if found.ratio < NARROW or share < NAMED_SHARE:
        return
    helps = advice(group, case)
    yield f"{share_words(share)} of the width: {WORDS[group]}{'; ' + helps if helps else ''}"


def ends(found: Interval) -> str:
    """Say between which times half of the draws and nine in ten of them lie, and of what."""
    half = f"{format_seconds(found.quarter_s)} to {format_seconds(found.three_quarters_s)}"
    most = f"{format_seconds(found.low_s)} to {format_seconds(found.high_s)}"
    of = "a volume like that" if found.of == VOLUME else "this layout on a drive like that"
    return f"{of}: half of {found.draws} draws take {half}, 90 % of them {most}"


def advice(group: str, case: DriveCase) -> str:
    """Say what would narrow a prediction whose width comes from a group of inputs; nothing where nothing would."""
    if group == DRIVE and not case.is_measured:
        measure = "measure it ('layoutscope drives --help' says how)"
        return measure if case.drive_was_named else f"name yours with --drive, or {measure}"
    return {
        OFFSET: "say it with --start-offset",
        HOST: "say what an entry and a node cost on yours with --host-property",
    }.get(group, "")


def bound(case: DriveCase) -> str:
    """Say what the best of the layouts that were tried would take; nothing where only one was."""
    if case.best is None or case.tried < MIN_TRIED:
        return ""
    time = format_seconds(case.best.seconds)
    if time == format_seconds(case.prediction.seconds):
        return f"none of {case.tried} layouts of its nodes that were tried takes less"
    return f"the best of {case.tried} layouts of its nodes that were tried takes {time}: {case.best.because}"


MIN_TRIED: Final = 2
"""Of one layout there is no best."""
