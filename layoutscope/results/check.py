"""What ``check`` and ``verify`` return: every finding of an image, and where bulk decoding and the grammars differ."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec.structs import replace

from layoutscope.display import Displayed, Struct
from layoutscope.errors import EXIT_COMPLETE, EXIT_DAMAGED, UsageError, did_you_mean
from layoutscope.findings import CODES, count_causes
from layoutscope.results import Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from layoutscope.filesystems.contract import Unchecked
    from layoutscope.findings import Finding, Level
    from layoutscope.frames import pl


class CheckedVolume(Displayed, Struct, frozen=True):
    """One volume: what is wrong with it, and how much of it was looked at."""

    volume: str  # its name
    findings: tuple[Finding, ...]  # what is wrong; a consequence names its cause
    coverage: float | None  # share of its metadata that was read, 0 to 1; None where that is unknown
    num_rules: int = 0  # how many rules there are for it
    skipped: tuple[Unchecked, ...] = ()  # those of them that did not run, or saw a part alone, each with its reason

    @property
    def is_all_checked(self) -> bool:
        """Whether all metadata was read and every rule was checked on all its subjects."""
        return self.coverage == 1 and not self.skipped

    def reasons(self) -> dict[str, tuple[str, ...]]:
        """List the rules that were skipped by the reason."""
        found: dict[str, tuple[str, ...]] = {}
        for item in self.skipped:
            found[item.reason] = (*found.get(item.reason, ()), item.rule)
        return found


class CheckResult(Shown, Struct, frozen=True):
    """What a check found."""

    frames: ClassVar = ("frame",)

    image: str  # its name
    volumes: tuple[CheckedVolume, ...]  # one per volume or container
    findings: tuple[Finding, ...]  # what is wrong outside of them
    rules: tuple[str, ...] = ()  # codes that it was narrowed to; empty where it holds all
    before: str = ""  # name of the earlier image whose findings were taken away; empty where none were
    other_contents: tuple[str, ...] = ()  # what else is on the image and is not read, as layers from the image down

    @property
    def frame(self) -> pl.DataFrame:
        """Every finding, a row each."""
        return self._frame("faults")

    @property
    def is_clean(self) -> bool:
        """Whether only information was found, and every rule was checked on everything."""
        return all(finding.level == "info" for finding in self.every()) and not self.unchecked()

    def every(self) -> tuple[Finding, ...]:
        """All findings, those outside of the volumes first."""
        return (*self.findings, *(finding for volume in self.volumes for finding in volume.findings))

    def unchecked(self) -> tuple[str, ...]:
        """Volumes that were not all checked: locked, read in part, of unknown extent, or with skipped rules."""
        return tuple(item.volume for item in self.volumes if not item.is_all_checked)

    def consequences(self) -> dict[Finding, list[str]]:
        """Return the codes of what follows from each finding that is a cause, and from no other one."""
        found: dict[Finding, list[str]] = {}
        for item in self.every():
            if item.cause is not None:
                found.setdefault(item.cause, []).append(item.code)
        return found

    @property
    def num_causes(self) -> int:
        """Errors and warnings that follow from no other finding, as a scan counts them."""
        return count_causes(self.every())

    def counts(self) -> dict[Level, int]:
        """Count the findings by level: error, warning, info."""
        levels: tuple[Level, ...] = ("error", "warning", "info")
        found = [finding.level for finding in self.every()]
        return {level: found.count(level) for level in levels}

    def of_rules(self, *codes: str) -> CheckResult:
        """Keep the findings of some codes.

        Raises
        ------
        UsageError
            If there is no such code.
        """
        for code in codes:
            if code not in CODES:
                raise UsageError(f"there is no finding code {code!r}{did_you_mean(code, CODES)}")
        return replace(self._with(lambda _, finding: finding.code in codes), rules=codes)

    def since(self, before: CheckResult) -> CheckResult:
        """Keep the findings that an earlier state does not have, of the same volume, structure and field.

        Addresses do not count: copy on write moves what it changes.
        """
        known = Counter(
            [
                *(("", _finding_key(finding)) for finding in before.findings),
                *((item.volume, _finding_key(finding)) for item in before.volumes for finding in item.findings),
            ]
        )

        def is_new(volume: str, finding: Finding) -> bool:
            key = volume, _finding_key(finding)
            known[key] -= 1
            return known[key] < 0

        return replace(self._with(is_new), before=before.image)

    def _with(self, is_kept: Callable[[str, Finding], bool]) -> CheckResult:
        volumes = tuple(
            replace(item, findings=_drop_lost_causes(each for each in item.findings if is_kept(item.volume, each)))
            for item in self.volumes
        )
        return replace(self, volumes=volumes, findings=tuple(each for each in self.findings if is_kept("", each)))

    @property
    def exit_code(self) -> int:
        """0 if clean, else 3."""
        return EXIT_COMPLETE if self.is_clean else EXIT_DAMAGED


def _drop_lost_causes(findings: Iterator[Finding]) -> tuple[Finding, ...]:
    """Let what follows from findings that are left out alone stand by itself."""
    told = tuple(findings)
    kept = set(told)
    causes = [tuple(cause for cause in item.causes if cause in kept) for item in told]
    return tuple(replace(item, causes=left) for item, left in zip(told, causes, strict=True))


def _finding_key(finding: Finding) -> tuple[str, ...]:
    return finding.code, finding.level, finding.structure, finding.message, finding.expected, finding.found


class TableVerdict(Displayed, Struct, frozen=True):
    """The nodes of a volume or the records of a tree, decoded in bulk and parsed."""

    volume: str  # name of the volume
    table: str  # ``nodes``, or the tree whose records they are
    rows: int  # nodes or records that were compared
    differences: tuple[str, ...]  # what differs, by node, record and field; empty where both agree


class Verification(Shown, Struct, frozen=True):
    """All nodes of an image, decoded in bulk and parsed through the grammars."""

    image: str  # its name
    tables: tuple[TableVerdict, ...]  # nodes and trees of each volume
    num_errors: int = 0  # errors that reading found: what they hide was not compared

    @property
    def exit_code(self) -> int:
        """0 if both decoders agree and all was read without an error, else 3."""
        differ = any(table.differences for table in self.tables)
        return EXIT_DAMAGED if differ or self.num_errors else EXIT_COMPLETE


ADVICE: Final = (
    (
        r"hardware-locked$",
        (
            "No password helps with an image: unlock the disk on the Mac it belongs to, and copy or clone it there "
            "to a disk with software encryption or none."
        ),
    ),
    (r"-locked$", "Give the password or the recovery key: --password - asks for it, --password-file FILE reads it."),
    (r"^fusion-half$", "Name the image of the other device: --second IMAGE."),
    (
        r"^unread-area$|^node-unreadable$|truncated$|^gpt-backup-missing$|^extent-outside$|^partition-outside$",
        (
            "The image may be incomplete: compare its size with the disk's, let ddrescue go on reading, and name its "
            "map with --ddrescue-map so that bad areas are not taken for zeros."
        ),
    ),
    (
        r"^changed-while-read$|^container-changed$|^not-unmounted$",
        "Unmount the volume and image it again. An image of a mounted disk may be inconsistent.",
    ),
    (r"^journal-external$", "Mount and unmount the disk with the device that holds its journal, then image it."),
    (
        r"^journal-(replayed|pending)$",
        "Nothing is wrong: the disk was not unmounted. --no-journal shows the raw bytes.",
    ),
    (
        r"^stale-|^superblock-older$|^hard-link-plain$|^tree-rebuilt$",
        "There is nothing to do: this explains the numbers.",
    ),
    (
        r"^volume-unpartitioned$",
        (
            "The message has the entry that the partition map lacks. Write it to a copy of the disk with a program for "
            "such maps, or read the volume with --volume-at BYTES."
        ),
    ),
    (
        r"^start-uncertain$",
        (
            "If you know where the volume starts, --volume-at BYTES says so. Otherwise names and counts are right, "
            "but all addresses may be off by the same distance."
        ),
    ),
    (
        r"^restore-incomplete$",
        "Restore the volume again from its source. Files that are not listed were never written to it.",
    ),
    (
        r"^(feature|version)-unknown$",
        "A later system wrote the volume. Look for a later layoutscope; what is listed may be a part of what is there.",
    ),
    (
        r"^gpt-|^partition-",
        (
            "Volumes are found by their content, too; --volume-at BYTES reads one that no map names. Repair the map on "
            "a copy of the disk."
        ),
    ),
    (
        (
            r"differs?$|claimed|-reserved$|-duplicate$|-used$|-short$|-orphaned$|-unreached$|-zeroed$"
            r"|^(attribute|clump-size|flags|link|permissions|volume-field)-invalid$"
        ),
        (
            "The data was read, but two places disagree. Let the file system's own check (Disk Utility, fsck) repair "
            "a copy of the disk; the fault may be old."
        ),
    ),
    (
        r"",
        (
            "Something could not be read. --sweep looks at the whole volume for what damage has cut off; an older "
            "image of the disk may hold it. Repair nothing but a copy."
        ),
    ),
)
"""What to do, by what a code looks like; the first that fits."""


def what_to_do(code: str) -> str:
    """Describe what a user can do about findings of a code."""
    return next(text for pattern, text in ADVICE if re.search(pattern, code))
