"""Findings: what is wrong or remarkable on an image, with its address.

Readers collect findings in a plain list and go on with what remains; ``--strict`` turns them into errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from layoutscope.errors import FormatError

Level = Literal["info", "warning", "error"]

CODES: Final[dict[str, str]] = {
    "structure-invalid": "A structure contradicts its format and was left out.",
    "truncated": "A structure ends past the end of the image.",
    "checksum-mismatch": "A stored checksum differs from the computed one.",
    "unread-area": "An area of the image was never read (bad sectors); nothing is claimed about it.",
    "gpt-primary-damaged": "The primary GPT is damaged; the backup is used where it is whole.",
    "gpt-backup-damaged": "The backup GPT is damaged or absent; the primary is whole.",
    "gpt-backup-missing": "The backup GPT lies past the end of the image, which may be cut off.",
    "gpt-copies-differ": "Both copies of the GPT are whole, but name different partitions.",
    "partition-chain": "A partition map breaks off, or its records lead in a loop.",
    "partition-limit": "A partition map claims more entries than are looked at.",
    "partition-outside": "A partition does not lie in the image.",
    "partition-truncated": "A partition ends past the end of the image.",
    "partition-overlap": "Two partitions of a map overlap.",
    "partition-content": "A partition does not hold what its type promises.",
    "stale-partition-map": "A volume fills the image; an older partition map in it is left aside.",
    "volume-header-lost": "The volume header is absent or overwritten; its copy or a map tells of the volume.",
}
"""Every finding code and what it means; the README's table is made from this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation about the image.

    Parameters
    ----------
    code : str
        Key of :data:`CODES`.
    level : {'info', 'warning', 'error'}
        ``info`` is no damage; ``warning`` leaves every result intact; ``error`` means that something is missing.
    structure : str
        The structure in the field's words.
    image_offset : int or None
        Bytes from the start of the image.
    message : str
        One sentence.
    expected, found : str
        Both sides of the contradiction, where there are two.
    device : int
        Which image of a set, 0 otherwise.
    """

    code: str
    level: Level
    structure: str
    image_offset: int | None
    message: str
    expected: str = ""
    found: str = ""
    device: int = 0

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"unknown finding code {self.code!r}: add it to layoutscope.findings.CODES")


def from_error(error: FormatError, *, code: str = "structure-invalid", level: Level = "error") -> Finding:
    """Turn an error that was survived into a finding at the same address."""
    return Finding(code, level, error.structure, error.image_offset, error.reason, error.expected, error.found)
