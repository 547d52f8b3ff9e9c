"""Encrypted volumes that stay locked: listing them, opening them, and detecting a wrong password."""

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


def make_several_volumes_error(layouts: Sequence[VolumeLayout], name: str = "") -> UsageError:
    """Make the error that one of several volumes of an image must be chosen."""
    names = format_list([repr(layout.facts.name) for layout in layouts]) or "none"
    message = f"{len(layouts)} volumes can be walked ({names}); choose one with volume=NAME, or as IMAGE:VOLUME"
    return UsageError(f"{name}: {message}" if name else message, options={"volume=NAME": "--volume"})


def warnings_of(layout: VolumeLayout) -> list[str]:
    """List the codes of the warnings among the findings, which include those of locked volumes."""
    findings = layout.columns("findings")
    pairs = zip(findings.listed("level"), findings.listed("code"), strict=True)
    return [code for own, code in pairs if own == "warning"]


def how_to_open(layouts: Sequence[VolumeLayout]) -> str:
    """Describe the locked volumes and the option that opens them in one sentence; empty if there are none."""
    which, secret = _describe_locked(layouts)
    return f"{which}; {_describe_options(secret)}" if secret else which


def make_locked_error(layouts: Sequence[VolumeLayout], name: str = "") -> LockedError | None:
    """Make the error for an image with locked volumes, with the keyword that opens them; None if there are none."""
    description, secret = _describe_locked(layouts)
    if not description:
        return None
    message = "; ".join(
        filter(None, (f"{name}: {description}" if name else description, secret and f"{secret}=TEXT opens it"))
    )
    return LockedError(message, options={f"{secret}=TEXT opens it": _describe_options(secret)} if secret else None)


def _describe_options(secret: str) -> str:
    known = f"LAYOUTSCOPE_{secret.upper()}"
    return f"--{secret} - asks for what opens it (or use --{secret}-file or {known})"


def _describe_locked(layouts: Sequence[VolumeLayout]) -> tuple[str, str]:
    """Describe the locked volumes, and return the name of the secret that opens them; both empty if there are none."""
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
    """Refuse a password that opens no encrypted volume of an undamaged image.

    A password that opens one volume does not need to open the others.
    """
    secrets = [name for name, (option, _) in read_options().items() if option.kind == "secret" and request.get(name)]
    encrypted = [layout for layout in layouts if layout.facts.details.get("encryption", "none") != "none"]
    if not secrets or not encrypted or not all(map(is_locked, encrypted)):
        return
    # With damage, which may affect the keys, the password may be right, so the rest is read.
    if any(layout.num_errors for layout in layouts):
        return
    if any("volume-locked" in warnings_of(layout) for layout in encrypted):
        raise LockedError(f"{name}: the {secrets[0]} opens none of its encrypted volumes")
