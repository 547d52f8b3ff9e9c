"""Encrypted volumes that stay locked: which they are, how each is opened, and when a password is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.errors import LockedError, UsageError
from layoutscope.filesystems.registry import filesystem_of, read_options
from layoutscope.units import format_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.options import ReadOptions
    from layoutscope.tables import VolumeLayout


def is_locked(layout: VolumeLayout) -> bool:
    """Whether a volume is encrypted and was not unlocked."""
    return bool(layout.facts.details.get("locked"))


def several_volumes(layouts: Sequence[VolumeLayout], name: str = "") -> UsageError:
    """Say that one volume must be chosen among several of an image, and how."""
    names = format_list([repr(layout.facts.name) for layout in layouts]) or "none"
    told = f"{len(layouts)} volumes can be walked ({names}); choose one with volume=NAME, or as IMAGE:VOLUME"
    return UsageError(f"{name}: {told}" if name else told, options={"volume=NAME": "--volume"})


def warnings_of(layout: VolumeLayout) -> list[str]:
    """List the codes of the findings that are warnings, as those of locked volumes are."""
    findings = layout.columns("findings")
    pairs = zip(findings.listed("level"), findings.listed("code"), strict=True)
    return [code for own, code in pairs if own == "warning"]


def how_to_open(layouts: Sequence[VolumeLayout]) -> str:
    """Describe which volumes are locked and which option opens them, in one sentence; empty where none is."""
    which, secret = _describe_locked(layouts)
    return f"{which}; {_options(secret)}" if secret else which


def locked_error(layouts: Sequence[VolumeLayout], name: str = "") -> LockedError | None:
    """Make the error that says the same of an image, with the keyword that opens them; None where none is locked."""
    which, secret = _describe_locked(layouts)
    if not which:
        return None
    told = "; ".join(filter(None, (f"{name}: {which}" if name else which, secret and f"{secret}=TEXT opens it")))
    return LockedError(told, options={f"{secret}=TEXT opens it": _options(secret)} if secret else None)


def _options(secret: str) -> str:
    known = f"LAYOUTSCOPE_{secret.upper()}"
    return f"--{secret} - asks for what opens it (or use --{secret}-file or {known})"


def _describe_locked(layouts: Sequence[VolumeLayout]) -> tuple[str, str]:
    """Describe which volumes are locked, and what the secret that opens them is called; both empty where none is."""
    locked = [layout for layout in layouts if is_locked(layout)]
    if not locked:
        return "", ""
    names = format_list([repr(layout.facts.name) for layout in locked])
    which = f"the volume {names} is" if len(locked) == 1 else f"the volumes {names} are"
    findings = [warnings_of(layout) for layout in locked]
    if all(any("hardware" in code for code in codes) for codes in findings):
        return f"{which} encrypted with keys of the hardware that made them, which no password opens", ""
    secrets = [option.name for option in filesystem_of(locked[0]).traits.options if option.kind == "secret"]
    return f"{which} encrypted and locked", next(iter(secrets), "")


def refuse_wrong_secret(name: str, layouts: Sequence[VolumeLayout], request: ReadOptions) -> None:
    """Refuse a password if nothing is damaged, and what is encrypted of an image stayed locked nevertheless.

    One that opens some volume is none of the others' business.
    """
    secrets = [name for name, (option, _) in read_options().items() if option.kind == "secret" and request.get(name)]
    encrypted = [layout for layout in layouts if layout.facts.details.get("encryption", "none") != "none"]
    if not secrets or not encrypted or not all(map(is_locked, encrypted)):
        return
    # Where anything is damaged it may be what holds the keys: no password is wrong then, and the rest is read.
    if any(layout.num_errors for layout in layouts):
        return
    if any("volume-locked" in warnings_of(layout) for layout in encrypted):
        raise LockedError(f"{name}: the {secrets[0]} opens none of its encrypted volumes")
