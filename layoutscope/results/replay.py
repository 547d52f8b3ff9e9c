"""What ``replay`` returns: a real trace on drives, beside the prediction for the image it was taken from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from layoutscope.results.shown import Shown

if TYPE_CHECKING:
    from layoutscope.results.scan import Prediction
    from layoutscope.walk.score import Score


@dataclass(frozen=True, slots=True)
class ReplayResult(Shown):
    """A real trace on drives, beside the prediction for the image it was taken from.

    Attributes
    ----------
    trace : str
        Its file.
    reads, read_bytes : int
        What it reads.
    times : tuple of Prediction
        Service time of the trace on each drive.
    expected : tuple of Prediction
        The prediction for the image, on the same drives; empty without an image.
    agreement : Score or None
        How well the predicted reads meet the real ones.
    """

    trace: str
    reads: int
    read_bytes: int
    times: tuple[Prediction, ...]
    expected: tuple[Prediction, ...] = ()
    agreement: Score | None = None
