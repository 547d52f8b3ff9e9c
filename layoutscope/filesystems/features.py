"""Bits by which a volume or container says what it uses, and what each means to whoever reads it.

Each file system has one table of them, in its ``features`` module; docs/features.md is made from both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from enum import IntEnum

    from layoutscope.findings import FindingLog, Level


class Feature(NamedTuple):
    """One bit.

    Attributes
    ----------
    bit : IntEnum
        Its member in the grammar.
    meaning : str
        What it means for reading, in one sentence.
    code : str
        Code of the finding that it is, if files may be missing where it is set; empty otherwise.
    message : str
        What that finding says.
    """

    bit: IntEnum
    meaning: str
    code: str = ""
    message: str = ""


class FeatureField(NamedTuple):
    """A field of such bits.

    Attributes
    ----------
    original : str
        Its name in Apple's documentation.
    title : str
        What it is.
    unknown : str
        What is made of a bit that is not in the table, in one sentence.
    features : tuple of Feature
        Its known bits.
    """

    original: str
    title: str
    unknown: str
    features: tuple[Feature, ...] = ()

    @property
    def mask(self) -> int:
        """All known bits."""
        return sum(int(item.bit) for item in self.features)


def report_features(table: FeatureField, value: int, log: FindingLog) -> None:
    """Report the bits of a field of incompatible features after which files may be missing.

    Parameters
    ----------
    table : FeatureField
        The field; who does not know one of its bits is not to read the volume.
    value : int
        What it holds.
    log : FindingLog
        Bound to the field.
    """
    level: Level = "error"
    for item in table.features:
        if item.code and value & int(item.bit):
            log.add(item.code, level, item.message)
    unknown = value & ~table.mask
    bits = [f"{1 << place:#x}" for place in range(unknown.bit_length()) if unknown >> place & 1]
    if bits:
        words = f"feature {bits[0]}" if len(bits) == 1 else f"features {', '.join(bits[:-1])} and {bits[-1]}"
        message = f"uses {words}, which layoutscope does not know: files may be missing"
        log.add("feature-unknown", level, message)
