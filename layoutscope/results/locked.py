"""Encrypted volumes that stay locked: which they are, how each is opened, and when a password is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.errors import LockedError
from layoutscope.filesystems.registry import filesystem_of, read_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.options import ReadRequest
    from layoutscope.tables import VolumeLayout


def is_locked(layout: VolumeLayout) -> bool:
    """Whether a volume is encrypted and was not unlocked."""
    return bool(layout.facts.details.get("locked"))


def several_volumes(count: int, names: str) -> str:
    """Say that one volume must be chosen among several, and how.

    Parameters
    ----------
    count : int
        How many there are.
    names : str
        What they are called.
    """
    return f"{count} volumes can be walked ({names}); choose one with --volume, or as IMAGE:VOLUME"


def warnings_of(layout: VolumeLayout) -> list[str]:
    """List the codes of the findings that are warnings, as those of locked volumes are."""
    findings = layout.columns("findings")
    pairs = zip(findings.listed("level"), findings.listed("code"), strict=True)
    return [code for own, code in pairs if own == "warning"]


def how_to_open(layouts: Sequence[VolumeLayout]) -> str:
    """Say which volumes are locked and what opens them, in one sentence; empty where none is."""
    locked = [layout for layout in layouts if is_locked(layout)]
    if not locked:
        return ""
    names = ", ".join(repr(layout.facts.name) for layout in locked)
    which = f"the volume {names} is" if len(locked) == 1 else f"the volumes {names} are"
    findings = [warnings_of(layout) for layout in locked]
    if all(any("hardware" in code for code in codes) for codes in findings):
        return f"{which} encrypted with keys of the hardware that made them, which no password opens"
    flags = [f"--{option.name}" for option in filesystem_of(locked[0]).traits.options if option.kind == "secret"]
    if not flags:
        return f"{which} encrypted and locked"
    flag = flags[0]
    known = f"LAYOUTSCOPE_{flag.strip('-').upper()}"
    return f"{which} encrypted and locked; {flag} - asks for what opens it ({flag}-file and {known} tell it, too)"


def refuse_wrong_secret(name: str, layouts: Sequence[VolumeLayout], request: ReadRequest) -> None:
    """Refuse a password that opens nothing; one that opens some volume is none of the others' business.

    Parameters
    ----------
    name : str
        The image.
    layouts : sequence of VolumeLayout
        What was read and is wanted of it.
    request : ReadRequest
        How it was read.

    Raises
    ------
    LockedError
        If a password was given, nothing is damaged, and what is encrypted stayed locked nevertheless.
    """
    known = read_options()
    secrets = [option for option, value in request.own.items() if known[option][0].kind == "secret" and value]
    encrypted = [layout for layout in layouts if layout.facts.details.get("encryption", "none") != "none"]
    if not secrets or not encrypted or not all(map(is_locked, encrypted)):
        return
    # Where anything is damaged it may be what holds the keys: no password is wrong then, and the rest is read.
    if any(layout.num_errors for layout in layouts):
        return
    if any("volume-locked" in warnings_of(layout) for layout in encrypted):
        raise LockedError(f"{name}: the {secrets[0]} opens none of its encrypted volumes")
