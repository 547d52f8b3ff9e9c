"""``validate``: compare a prediction with measurements from a Mac, packed by the script of ``docs/drives.md``."""

from __future__ import annotations

import plistlib
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.parsers.expat import ExpatError

from msgspec.structs import replace

from layoutscope.api.drives import fit_log_text
from layoutscope.api.keywords import profiles_of, takes
from layoutscope.api.reading import make_request, only_volume, open_volumes
from layoutscope.api.trace import disk_of, real_reads, serve_recording
from layoutscope.api.workloads import check_workload
from layoutscope.drive.recordings import read_fs_usage
from layoutscope.errors import ImageError, LayoutscopeError, UsageError
from layoutscope.image.opening import list_files_in_archive, text_of
from layoutscope.options import ReplayOptions, ValidateOptions, fill
from layoutscope.results.recorded import KitMachine, KitResult, KitWalk, leaf_policy
from layoutscope.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from typing import Unpack

    from layoutscope.drive import DriveProfile
    from layoutscope.tables import VolumeLayout


FOLDER: Final = "kit"
"""The one folder of the archive."""

VERSION: Final = "1"
"""Limit of the archive's contents."""

CALIBRATION: Final = "calibration.csv"
CAPTURE: Final = "metadata.lscope"
IMAGE: Final = "metadata.img.zst"

ORDERS: Final[Mapping[str, dict[str, Any]]] = {
    # BSD's find asks fts for no attributes but the link count, which is in the inode; ls -l needs all. It goes down by
    # sorted names, which a capture without names does not have: its pairs are those of a walk in the listing's order.
    "find": {"order": "fts", "stat": False},
    "ls": {"order": "fts"},
    "bulk": {"order": "bulk"},
}
"""Walks of the script, and the orders that they are."""

AGAIN: Final = "-2"
"""Suffix of the name of a walk that was done a second time."""

USUAL_DISK, USUAL_FLASH = "generic-5400-2.5", "sata-ssd"
"""What is predicted for where no profile is of the drive's model."""

CACHES: Final = ("hw.memsize", "kern.maxvnodes", "kern.maxnbuf")


@takes(ValidateOptions)
def validate(kit: str | os.PathLike[str], **options: Unpack[ValidateOptions]) -> KitResult:
    """Compare predictions with measurements from a Mac.

    Parameters
    ----------
    kit : path
        The archive that the kit's script made, or its unpacked folder.

    Raises
    ------
    ImageError
        If it is not such an archive, or a malicious one.
    UsageError
        If there is no such drive.
    LayoutscopeError
        If the capture cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> from pathlib import Path
    >>> Path("kit").mkdir(exist_ok=True)
    >>> told = Path("kit/kit.txt").write_text("kit = 1")
    >>> layoutscope.validate("kit").walks[0].why_not
    'it was not recorded'
    """
    path = Path(kit)
    files = list_files_in_archive(path, FOLDER)
    facts = _pairs(files.get("kit.txt", b""), "=")
    if facts.get("kit") != VERSION:
        told = f"of version {facts['kit']!r}" if "kit" in facts else "without a version (kit.txt)"
        raise ImageError(f"{path}: is a kit {told}; version {VERSION} can be read")
    machine = _machine(files, facts)
    profile, why = _profile(options.get("drive"), machine, files.get(CALIBRATION, b""))
    walks: tuple[KitWalk, ...]
    with _volume(path, files, options.get("against")) as layout:
        again = (f"{name}{AGAIN}" for name in ORDERS if f"walk-{name}{AGAIN}.time.txt" in files)
        walks = tuple(_walk(path, name, files, layout, profile, machine) for name in (*ORDERS, *again))
        policy = None if layout is None else leaf_policy(layout)
        filesystem = "" if layout is None else layout.facts.variant
    steps = [line.split("\t") for line in text_of(files.get("steps.tsv", b"")).splitlines()[1:]]
    missing = tuple((row[0], row[3]) for row in steps if len(row) == 4 and row[1] != "0")
    return KitResult(str(path), machine, f"{profile.name}, {why}", walks, policy, filesystem, missing)


@contextmanager
def _volume(
    path: Path, files: Mapping[str, bytes], against: str | os.PathLike[str] | None
) -> Iterator[VolumeLayout | None]:
    """Read the volume of a kit; None where it holds none."""
    with ExitStack() as stack:
        source = against
        if source is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for name in (CAPTURE, IMAGE):
                mine = {place: data for place, data in files.items() if place == name or place.startswith(f"{name}/")}
                for place, data in mine.items():
                    (folder / place).parent.mkdir(parents=True, exist_ok=True)
                    (folder / place).write_bytes(data)
                if mine:
                    source = folder / name
                    break
        if source is None:
            yield None
            return
        try:
            image = stack.enter_context(open_volumes(source, make_request({}, source)))
        except LayoutscopeError as error:
            # The place where it was unpacked does not matter.
            raise type(error)(str(error).replace(str(source), f"{path}: {Path(source).name}")) from error
        yield only_volume(image.layouts)


def _walk(
    path: Path,
    name: str,
    files: Mapping[str, bytes],
    layout: VolumeLayout | None,
    profile: DriveProfile,
    machine: KitMachine,
) -> KitWalk:
    """Compare the prediction with one walk, or say why that is impossible."""
    times = _pairs(files.get(f"walk-{name}.time.txt", b""), None)
    work = check_workload(ORDERS[name.removesuffix(AGAIN)] | {"host": "macos"})
    real, user, system = (_number(times.get(key)) for key in ("real", "user", "sys"))
    entries = _number(text_of(files.get(f"walk-{name}.count.txt", b"")).strip())
    walk = KitWalk(
        name,
        work["order"] if work["stat"] else f"{work['order']} --no-stat",
        real_s=real,
        cpu_s=None if user is None or system is None else user + system,
        entries=None if entries is None else int(entries),
    )
    recorded = files.get(f"walk-{name}.fs_usage.txt")
    if recorded is None:
        return replace(walk, why_not="it was not recorded")
    if layout is None:
        return replace(walk, why_not="the kit has no capture of the volume; --against takes one")
    told = read_fs_usage(recorded + b"\n" + files.get(f"walk-{name}.fs_usage.err.txt", b""))
    if not len(told):
        cut = f"; line {told.lines.first_unparsed} is cut or damaged" if told.lines.first_unparsed else ""
        return replace(walk, why_not=f"its recording holds no reads{cut}")
    where, asked = f"{path}: walk-{name}", fill(ReplayOptions, {})
    try:
        found = real_reads(where, told, asked, layout)
    except UsageError as error:
        return replace(walk, why_not=str(error))
    replay = serve_recording(where, found, [profile], asked, layout, work, draws=True)
    # Facts that differ between recording and kit: another device, another unit.
    known = {disk_of(name) for name in (machine.device, machine.container) if name}
    placed = () if replay.recording is None else replay.recording.placed
    notes = [
        f"its reads are on {each.place.device}, the kit is of {machine.device}"
        for each in placed
        if known and disk_of(each.place.device) not in known
    ]
    units = {each.place.unit_bytes for each in placed}
    if machine.unit_bytes is not None and units - {machine.unit_bytes}:
        blocks = ", ".join(f"{unit:,}" for unit in sorted(units))
        notes.append(f"its blocks have {blocks} bytes, diskutil says {machine.unit_bytes:,}")
    return replace(walk, replay=replay, notes=tuple(notes))


def _profile(
    drive: str | os.PathLike[str] | None,
    machine: KitMachine,
    calibration: bytes,  # the kit's timed reads; empty where it has none
) -> tuple[DriveProfile, str]:
    """Return the drive that is predicted for, and why that one: what the kit itself measured comes before its model."""
    if drive is not None:
        return profiles_of(drive)[0], "as asked for"
    unused = ""
    if calibration:
        try:
            found = fit_log_text(text_of(calibration), CALIBRATION, "kit")
        except UsageError as error:
            unused = f" (not by its calibration: {error})"
        else:
            return found.profile, f"by its own calibration: {found.profile.note}"
    if machine.drive:
        try:
            return profiles_of(machine.drive)[0], f"by its model {machine.drive}{unused}"
        except UsageError:
            pass
    usual = USUAL_FLASH if machine.solid_state else USUAL_DISK
    return profiles_of(usual)[0], f"since no profile is of its model; --drive names one{unused}"


def _machine(files: Mapping[str, bytes], facts: Mapping[str, str]) -> KitMachine:
    """Gather the facts of a kit about its Mac; missing ones stay empty."""
    system, sysctl = (_pairs(files.get(name, b""), ":") for name in ("sw_vers.txt", "sysctl.txt"))
    volume, physical = (_plist(files.get(name, b"")) for name in ("volume.plist", "physical.plist"))
    unit, flash = volume.get("DeviceBlockSize"), physical.get("SolidState")
    media = physical.get("MediaName")
    return KitMachine(
        system=" ".join(filter(None, (system.get("ProductName"), system.get("ProductVersion")))),
        model=sysctl.get("hw.model", ""),
        drive=media if isinstance(media, str) else "",
        solid_state=flash if isinstance(flash, bool) else None,
        device=facts.get("device", ""),
        container=facts.get("container", ""),
        physical=facts.get("physical", ""),
        disks=facts.get("disks", ""),
        filled=facts.get("filled", ""),
        unit_bytes=unit if isinstance(unit, int) else None,
        cache_sizes={name: sysctl[name] for name in CACHES if name in sysctl},
    )


def _plist(data: bytes) -> dict[str, Any]:
    """Read a property list; anything else is empty."""
    try:
        found = plistlib.loads(data, fmt=plistlib.FMT_XML)
    except (ValueError, ExpatError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        # The parser checks little of what it builds from: a damaged list fails in any of these ways.
        return {}
    return found if isinstance(found, dict) else {}


def _pairs(data: bytes, sign: str | None) -> dict[str, str]:
    """Read lines with a name, a separator and a value."""
    parts = (line.split(sign, 1) for line in text_of(data).splitlines())
    return {pair[0].strip(): pair[1].strip() for pair in parts if len(pair) == 2}


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if 0 <= found < MAX_SECONDS else None


MAX_SECONDS: Final = 1e12
"""Facts of a walk and its entries: nothing else was measured."""


def kit(*, warm: bool = False) -> str:
    """Return the shell script that measures what a Mac does on a disk; docs/drives.md describes its archive.

    Parameters
    ----------
    warm : bool, default False
        Whether it is the short script, which needs no administrator and measures what a listing costs the computer.

    Raises
    ------
    TypeError
        If a keyword is unknown.

    Examples
    --------
    >>> import layoutscope
    >>> layoutscope.kit().splitlines()[0]
    '#!/bin/sh'
    """
    return (
        Path(__file__).with_name("warm.sh" if warm else "kit.sh").read_text("utf-8").replace("@VERSION@", __version__)
    )
