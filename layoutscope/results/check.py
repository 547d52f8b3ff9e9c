"""Results of ``check`` and ``verify``: all findings of an image, and differences between bulk decoding and grammars."""

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
    from collections.abc import Callable

    from layoutscope.filesystems.contract import Unchecked
    from layoutscope.findings import Finding, Level
    from layoutscope.frames import pl


class CheckedVolume(Displayed, Struct, frozen=True):
    """One volume: its findings, and the part of it that was checked."""

    volume: str  # name of the volume
    findings: tuple[Finding, ...]  # its findings; a consequence names its cause
    coverage: float | None  # share of its metadata that was read, 0 to 1; None if unknown
    num_rules: int = 0  # number of rules that apply to it
    skipped: tuple[Unchecked, ...] = ()  # rules that did not run, or ran only in part, each with the reason

    @property
    def is_all_checked(self) -> bool:
        """Whether all metadata was read and all rules were checked in full."""
        return self.coverage == 1 and not self.skipped

    def reasons(self) -> dict[str, tuple[str, ...]]:
        """List the skipped rules by reason."""
        rules_by_reason: dict[str, tuple[str, ...]] = {}
        for item in self.skipped:
            rules_by_reason[item.reason] = (*rules_by_reason.get(item.reason, ()), item.rule)
        return rules_by_reason


class CheckResult(Shown, Struct, frozen=True):
    """The findings of a check."""

    frames: ClassVar = ("frame",)

    image: str  # name of the image
    volumes: tuple[CheckedVolume, ...]  # one per volume or container
    findings: tuple[Finding, ...]  # findings outside the volumes
    rules: tuple[str, ...] = ()  # codes that the findings are restricted to; empty for all
    before: str = ""  # name of the earlier image whose findings were subtracted; empty without one
    other_contents: tuple[str, ...] = ()  # unsupported contents of the image, as layers from the image down

    @property
    def frame(self) -> pl.DataFrame:
        """All findings, one per row."""
        return self._frame("faults")

    @property
    def is_clean(self) -> bool:
        """Whether there are no errors and warnings, and all rules were checked in full."""
        return all(finding.level == "info" for finding in self.every()) and not self.unchecked()

    def every(self) -> tuple[Finding, ...]:
        """Return all findings, those outside the volumes first."""
        return tuple(finding for _, finding in self.located())

    def located(self) -> list[tuple[str, Finding]]:
        """Return all findings with the names of their volumes; those outside the volumes come first, without one."""
        outside = [("", finding) for finding in self.findings]
        return [*outside, *((item.volume, finding) for item in self.volumes for finding in item.findings)]

    def unchecked(self) -> tuple[str, ...]:
        """List the volumes that were not checked in full: locked, read in part, or with skipped rules."""
        return tuple(item.volume for item in self.volumes if not item.is_all_checked)

    def consequences(self) -> dict[Finding, list[str]]:
        """Return the codes of the consequences of each finding that is their only cause."""
        codes_by_cause: dict[Finding, list[str]] = {}
        for item in self.every():
            if item.cause is not None:
                codes_by_cause.setdefault(item.cause, []).append(item.code)
        return codes_by_cause

    @property
    def num_causes(self) -> int:
        """Number of errors and warnings that are not consequences of another finding, as a scan counts them."""
        return count_causes(self.every())

    def counts(self) -> dict[Level, int]:
        """Count the findings by level: error, warning, info."""
        levels: tuple[Level, ...] = ("error", "warning", "info")
        levels_found = [finding.level for finding in self.every()]
        return {level: levels_found.count(level) for level in levels}

    def of_rules(self, *codes: str) -> CheckResult:
        """Keep only the findings with some codes.

        Raises
        ------
        UsageError
            If there is no such code.
        """
        for code in codes:
            if code not in CODES:
                raise UsageError(f"there is no finding code {code!r}{did_you_mean(code, CODES)}")
        return replace(self._filter(lambda _, finding: finding.code in codes), rules=codes)

    def since(self, before: CheckResult) -> CheckResult:
        """Keep only the findings that an earlier state does not have, by volume, structure and field.

        Addresses are ignored, because copy on write moves whatever it changes.
        """
        known = Counter((volume, _finding_key(finding)) for volume, finding in before.located())

        def is_new(volume: str, finding: Finding) -> bool:
            key = volume, _finding_key(finding)
            known[key] -= 1
            return known[key] < 0

        return replace(self._filter(is_new), before=before.image)

    def _filter(self, is_selected: Callable[[str, Finding], bool]) -> CheckResult:
        volumes = []
        for item in self.volumes:
            selected = [each for each in item.findings if is_selected(item.volume, each)]
            known = set(selected)
            # A finding keeps only the causes that were selected with it.
            causes = [tuple(cause for cause in each.causes if cause in known) for each in selected]
            findings = tuple(replace(each, causes=own) for each, own in zip(selected, causes, strict=True))
            volumes.append(replace(item, findings=findings))
        outside = tuple(each for each in self.findings if is_selected("", each))
        return replace(self, volumes=tuple(volumes), findings=outside)

    @property
    def exit_code(self) -> int:
        """0 if clean, else 3."""
        return EXIT_COMPLETE if self.is_clean else EXIT_DAMAGED


def _finding_key(finding: Finding) -> tuple[str, ...]:
    return finding.code, finding.level, finding.structure, finding.message, finding.expected, finding.found


class TableVerdict(Displayed, Struct, frozen=True):
    """Comparison of both decoders on the nodes of a volume or the records of a tree."""

    volume: str  # name of the volume
    table: str  # ``nodes``, or the tree of the records
    rows: int  # number of nodes or records compared
    differences: tuple[str, ...]  # differences by node, record and field; empty if both agree


class Verification(Shown, Struct, frozen=True):
    """Comparison of both decoders on all nodes of an image."""

    image: str  # name of the image
    tables: tuple[TableVerdict, ...]  # nodes and trees of each volume
    num_errors: int = 0  # errors while reading, which hide data from the comparison

    @property
    def exit_code(self) -> int:
        """0 if both decoders agree and there were no errors while reading, else 3."""
        differ = any(table.differences for table in self.tables)
        return EXIT_DAMAGED if differ or self.num_errors else EXIT_COMPLETE


ADVICE: Final = {
    r"hardware-locked$": (
        "No password helps with an image: unlock the disk on the Mac it belongs to, and copy or clone it there to a "
        "disk with software encryption or none."
    ),
    r"-locked$": "Give the password or the recovery key: --password - asks for it, --password-file FILE reads it.",
    r"^fusion-half$": "Name the image of the other device: --second IMAGE.",
    r"^unread-area$|^node-unreadable$|truncated$|^gpt-backup-missing$|^extent-outside$|^partition-outside$": (
        "The image may be incomplete: compare its size with the disk's, let ddrescue go on reading, and name its map "
        "with --ddrescue-map so that bad areas are not taken for zeros."
    ),
    r"^changed-while-read$|^container-changed$|^not-unmounted$": (
        "Unmount the volume and image it again. An image of a mounted disk may be inconsistent."
    ),
    r"^journal-external$": "Mount and unmount the disk with the device that holds its journal, then image it.",
    r"^journal-(replayed|pending)$": "Nothing is wrong: the disk was not unmounted. --no-journal shows the raw bytes.",
    r"^stale-|^superblock-older$|^hard-link-plain$|^tree-rebuilt$": (
        "There is nothing to do: this explains the numbers."
    ),
    r"^volume-unpartitioned$": (
        "The message has the entry that the partition map lacks. Write it to a copy of the disk with a program for "
        "such maps, or read the volume with --volume-at BYTES."
    ),
    r"^start-uncertain$": (
        "If you know where the volume starts, --volume-at BYTES says so. Otherwise names and counts are right, but all "
        "addresses may be off by the same distance."
    ),
    r"^restore-incomplete$": (
        "Restore the volume again from its source. Files that are not listed were never written to it."
    ),
    r"^(feature|version)-unknown$": (
        "A later system wrote the volume. Look for a later layoutscope; what is listed may be a part of what is there."
    ),
    r"^gpt-|^partition-": (
        "Volumes are found by their content, too; --volume-at BYTES reads one that no map names. Repair the map on a "
        "copy of the disk."
    ),
    (
        r"differs?$|claimed|-reserved$|-duplicate$|-used$|-short$|-orphaned$|-unreached$|-zeroed$"
        r"|^(attribute|clump-size|flags|link|permissions|volume-field)-invalid$"
    ): (
        "The data was read, but two places disagree. Let the file system's own check (Disk Utility, fsck) repair a "
        "copy of the disk; the fault may be old."
    ),
    r"": (
        "Something could not be read. --sweep looks at the whole volume for what damage has cut off; an older image of "
        "the disk may hold it. Repair nothing but a copy."
    ),
}
"""Advice by a pattern for codes; the first match applies."""


def what_to_do(code: str) -> str:
    """Return the advice for findings of a code."""
    return next(text for pattern, text in ADVICE.items() if re.search(pattern, code))
