"""Findings: errors and notable facts of an image, with their addresses.

Readers add findings to a :class:`FindingLog` and continue with the rest; ``--strict`` turns findings into errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from msgspec import field
from msgspec.structs import astuple, replace

from layoutscope.display import Displayed, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from layoutscope.errors import FormatError

Level = Literal["info", "warning", "error"]

MAX_CASES: Final = 100
"""Number of cases of one kind that a check lists with their addresses; the others are counted."""

RANK: Final[dict[Level, int]] = {"info": 0, "warning": 1, "error": 2}
"""Severity of the levels."""

CODES: Final[dict[str, str]] = {
    "structure-invalid": "A structure contradicts its format and was left out.",
    "truncated": "A structure ends past the end of the image.",
    "checksum-mismatch": "A stored checksum differs from the computed one.",
    "unread-area": "An area of the image could not be read (bad sectors); nothing is claimed about it.",
    "image-incomplete": "A file or a part of one is missing that the container of the disk names; it counts as unread.",
    "container-invalid": "The file around the disk contradicts itself, or another file beside it does.",
    "gpt-primary-damaged": "The primary GPT is damaged; the backup is used where it is whole.",
    "gpt-backup-damaged": "The backup GPT is damaged or absent; the primary is whole.",
    "gpt-backup-missing": "The backup GPT is past the end of the image, which may be cut off.",
    "gpt-copies-differ": "Both copies of the GPT are whole, but name different partitions.",
    "partition-chain": "A partition map breaks off, or its records lead in a loop.",
    "partition-limit": "A partition map claims more entries than are looked at.",
    "partition-outside": "A partition is not within the image.",
    "partition-truncated": "A partition ends past the end of the image.",
    "partition-overlap": "Two partitions of a map overlap.",
    "partition-content": "A partition does not hold what its type promises, or not all of its volume.",
    "volumes-overlap": "Two volumes overlap; of many that do, not all are read or swept.",
    "volume-unpartitioned": "A volume was found outside all partitions, for example where a map entry was deleted.",
    "stale-partition-map": "A volume fills the image; an older partition map in it is left aside.",
    "volume-header-lost": "The volume header is absent or overwritten; its copy or a map describes the volume.",
    "start-uncertain": "Where a volume starts was inferred, and nothing there confirms it: addresses are uncertain.",
    "restore-incomplete": "The volume says that a restore of it was interrupted: files may be missing.",
    "feature-unknown": "The volume or container uses a feature that layoutscope does not know: files may be missing.",
    "version-unknown": "The volume or container has a version that layoutscope does not know: files may be missing.",
    "block-claimed-free": "Blocks that metadata or files use are free in the bitmaps.",
    "block-claimed-twice": "Blocks are claimed by two owners that do not share.",
    "node-invalid": "A block is not the B-tree node that it should be at its place in the tree.",
    "keys-unordered": "Keys of a B-tree do not ascend.",
    "subtree-missing": "Part of a B-tree cannot be read; the message says which keys, directories or objects it held.",
    "tree-rebuilt": "A broken B-tree was put together again from nodes that a map still names, or that a search found.",
    "stale-nodes": "Nodes were found outside the trees, such as old copies.",
    "changed-while-read": "The volume was written to while it was read.",
    "block-unclaimed": "Blocks are in use in the bitmap or allocation file, but belong to nothing.",
}
"""The finding codes with their meanings; docs/reference/findings.md is generated from this.

:func:`declare` adds the codes of a file system when its package is imported.
"""


UNBOUNDED: Final = frozenset({"restore-incomplete", "feature-unknown", "version-unknown"})
"""Codes of errors after which the share of a volume that was read is unknown."""

ABSENT: Final = {"unread-area", "image-incomplete"}
"""Codes of errors for missing input data, which are not damage by themselves."""


def declare(codes: Mapping[str, str], *, absent: Iterable[str] = ()) -> Mapping[str, str]:
    """Add the codes of one file system, `absent` being those for missing input data; return the codes."""
    for code, meaning in codes.items():
        if CODES.setdefault(code, meaning) != meaning:
            raise ValueError(f"the finding code {code!r} has another meaning already")
    ABSENT.update(absent)
    return codes


class Finding(Displayed, Struct, frozen=True):
    """One observation about the image. Comparison of findings ignores causes."""

    code: str  # identifier, a key of `CODES`
    # severity: `info` is not damage, a `warning` leaves results complete, an `error` means that something is missing
    level: Level
    structure: str  # the structure in the terms of the field
    image_offset: int | None  # bytes from the start of the image
    message: str  # one sentence
    expected: str = ""  # the value that the format requires, if there are two sides
    found: str = ""  # the actual value
    device: int = 0  # number of the image in a set, 0 otherwise
    # path of the field in the structure, as in the grammars, such as `record 3/permissions.file_mode`; empty if a
    # finding concerns more than a field
    field: str = ""
    # findings that may have caused this one; several if it cannot be assigned to one of them
    causes: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"unknown finding code {self.code!r}: add it to layoutscope.findings.CODES, or declare it")

    def __eq__(self, other: object) -> bool:
        return astuple(self)[:-1] == astuple(other)[:-1] if isinstance(other, Finding) else NotImplemented

    def __hash__(self) -> int:
        return hash(astuple(self)[:-1])

    @property
    def cause(self) -> Finding | None:
        """The cause of this finding; None if there is none, or several possible ones."""
        return self.causes[0] if len(self.causes) == 1 else None

    @property
    def is_cause(self) -> bool:
        """Whether this is an error or a warning that does not follow from another finding."""
        return self.level != "info" and not self.causes

    @property
    def origin(self) -> Finding:
        """The finding to quote for this one: its first cause, if any."""
        return self.causes[0] if self.causes else self

    @property
    def sides(self) -> str:
        """The known sides of the contradiction, in parentheses."""
        known = [f"{name} {side}" for name, side in (("expected", self.expected), ("found", self.found)) if side]
        return f" ({', '.join(known)})" if known else ""


def count_causes(findings: Iterable[Finding]) -> int:
    """Count the errors and warnings that do not follow from another finding."""
    return sum(item.is_cause for item in findings)


def first_cause(findings: Sequence[Finding]) -> Finding:
    """Choose the finding to quote: the first cause with an address among the most severe findings."""
    worst = max(RANK[item.level] for item in findings)
    causes = [item.origin for item in findings if RANK[item.level] == worst]
    return next((item for item in causes if item.image_offset is not None), causes[0])


def from_error(error: FormatError, *, code: str = "structure-invalid") -> Finding:
    """Convert an error, whose address counts from the start of the image, to a finding of level ``error``."""
    sides = error.expected, error.found
    return Finding(code, "error", error.structure, error.image_offset, error.reason, *sides, device=error.device)


class FindingLog(Struct, frozen=True):
    """The findings of the readers of one part of an image.

    A log knows the start of its part, and converts addresses to those of the image. :meth:`at` binds it to a structure;
    all logs derived from one share the same list.
    """

    findings: list[Finding] = field(default_factory=list)  # in the order in which they were found
    base: int = 0  # origin of addresses, including those in errors, in bytes from the start of the image
    device: int = 0  # number of the image in a set
    # Converts an address to image offset and device, if a sum does not: for a block of a set of devices.
    locate: Callable[[int], tuple[int, int]] | None = None
    structure: str = ""  # the structure that the log is bound to
    image_offset: int | None = None  # its address; None if it has no single place
    field_path: str = ""  # path of the field in the structure

    def within(self, path: str) -> FindingLog:
        """Bind the log to a field of its structure, by path."""
        return replace(self, field_path=path)

    def at(self, structure: str, address: int | None = None, *, plus: int = 0) -> FindingLog:
        """Bind the log to a structure at an address of the format, or `plus` bytes after it."""
        if address is None:
            return replace(self, structure=structure, image_offset=None, field_path="")
        start, device = self.locate(address) if self.locate else (self.base + address, self.device)
        return replace(self, structure=structure, image_offset=start + plus, device=device, field_path="")

    def at_byte(self, structure: str, image_offset: int | None, device: int = 0) -> FindingLog:
        """Bind the log to a structure by its offset in the image."""
        return replace(self, structure=structure, image_offset=image_offset, device=device, field_path="")

    def at_error(self, error: FormatError) -> FindingLog:
        """Bind the log to the structure and address of an error."""
        where = None if error.image_offset is None else self.base + error.image_offset
        return self.at_byte(error.structure, where, error.device or self.device)

    def add(self, code: str, level: Level, message: str, *, expected: object = "", found: object = "") -> None:
        """Add a finding on the structure that the log is bound to, with both sides of a contradiction."""
        sides = str(expected), str(found)
        where = self.structure, self.image_offset
        self.findings.append(Finding(code, level, *where, message, *sides, device=self.device, field=self.field_path))

    def survive(self, error: FormatError, *, code: str = "structure-invalid", level: Level = "error") -> None:
        """Add a finding for an error after which reading continues; its address counts from the base of this log."""
        self.at_error(error).add(code, level, error.reason, expected=error.expected, found=error.found)

    def mark(self) -> Callable[[], None]:
        """Return a function that drops all findings added after this call."""
        count = len(self.findings)
        return lambda: self.findings.__delitem__(slice(count, None))

    def branch(self) -> FindingLog:
        """Return the same log with a separate list, whose findings may be dropped or added later."""
        return replace(self, findings=[])

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings of another log."""
        self.findings.extend(findings)

    @property
    def has_errors(self) -> bool:
        """Whether something is missing, so contradictions may be consequences of it.

        Errors that a volume declares about itself do not count, because they do not affect comparisons.
        """
        return any(item.level == "error" and item.code not in UNBOUNDED for item in self.findings)
