"""Names by which files belong to one image: parts, segments, extents, and folders that are an image as a whole.

Readers find the files of a set by these names; a new file that had one would become a part of somebody's image.
"""

from __future__ import annotations

import os
import re
import string
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from layoutscope import ownfiles
from layoutscope.errors import UsageError

NUMBERED: Final = re.compile(r"(?P<stem>.+\.)(?P<suffix>\d{2,6})")
"""Parts that imagers number: disk.001, disk.002."""

LETTERED: Final = re.compile(r"(?P<stem>.+\.)(?P<suffix>[a-z]{2,4})")
"""Parts that split(1) names: disk.aa, disk.ab."""

EWF_SEGMENT: Final = re.compile(r"\.([ELS]x?)01$", re.IGNORECASE)
"""The first segment of an Expert Witness image: disk.E01, disk.Ex01, disk.s01."""

_EWF_NUMBER: Final = re.compile(r".+\d\d")

FOLDERS: Final = {
    ".sparsebundle": "an Apple sparse bundle",
    ".backupbundle": "an Apple sparse bundle",
    ".hdd": "a Parallels disk",
    ".lscope": "a capture",
}
"""Folders that are one thing as a whole, by the ends of their names."""


class Scheme(NamedTuple):
    """How the files of one image are named."""

    name: str  # of the set
    # a name in it, in lower case. All have the group `stem` in common, and the length of the group `suffix`.
    file: re.Pattern[str]
    # what one of the names must be, where files that are no set have such names, too
    proof: re.Pattern[str] = re.compile(".*", re.DOTALL)


SCHEMES: Final = (
    Scheme("a split image", NUMBERED),
    Scheme("a split image", LETTERED, re.compile(r".+\.a{2,4}")),
    # As split(1) names parts without a prefix of its user: xaa, xaab, x00.
    *(
        Scheme("a split image", re.compile(rf"(?P<stem>[^.]*)(?P<suffix>[a-z]{{{n}}})"), re.compile(rf".*a{{{n}}}"))
        for n in (2, 3, 4)
    ),
    Scheme("a split image", re.compile(r"(?P<stem>.*?)(?P<suffix>(?<!\d)\d{2,6})"), re.compile(r".*?(?<!\d)0{2,6}")),
    # Letters follow E99; what follows S99 is left out, which no imager was seen to write: .svg is a picture.
    Scheme("an Expert Witness image", re.compile(r"(?P<stem>.+\.[els]x?)(\d\d|(?!vg)[a-z]{2})"), _EWF_NUMBER),
    Scheme("an AD1 image", re.compile(r"(?P<stem>.+\.ad)\d{1,4}")),
    Scheme("a VMware disk", re.compile(r"(?P<stem>.+?)(-\d{6})?(-[sf]\d{3}|-flat|-delta|-ctk|-rdmp?)?\.vmdk")),
    Scheme("an image of a CD", re.compile(r"(?P<stem>.+?)( ?\(track \d+\))?\.(cue|bin)"), re.compile(r".+\.cue")),
    Scheme("a segmented disk image", re.compile(r"(?P<stem>.+?)(\.\d{3})?\.dmg(part)?")),
    Scheme("a zip archive in parts", re.compile(r"(?P<stem>.+)\.(z\d{2,3}|zip)")),
)
"""All that are known."""


def refuse_part(path: Path) -> None:
    """Refuse a place where a new file would become a part of an image that is there."""
    places = {Path(os.path.abspath(path)), Path(os.path.realpath(path))}  # noqa: PTH100  (links not followed)
    for folder in {parent for place in places for parent in place.parents}:
        if kind := whole_folder(folder):
            raise UsageError(f"{path}: is inside of {folder}, which is {kind}. Name a file elsewhere.")
    for scheme in SCHEMES:
        if neighbour := _neighbour(scheme, path.absolute()):
            raise UsageError(f"{path}: has the name of a part of {scheme.name}, beside {neighbour}. Name another file.")


def whole_folder(folder: Path) -> str:
    """Say what a folder is as a whole: a bundle, a capture; empty if it is a folder of files."""
    if folder.suffix.lower() in FOLDERS:
        return FOLDERS[folder.suffix.lower()]
    if (folder / "manifest.json").is_file() and (folder / "0" / "nodes.parquet").is_file():
        return FOLDERS[".lscope"]
    if os.path.isfile(folder / "DiskDescriptor.xml"):  # noqa: PTH113  (no error)
        return FOLDERS[".hdd"]
    facts = [name for name in ("Info.plist", "token") if os.path.isfile(folder / name)]  # noqa: PTH113  (no error)
    bands = folder if folder.name == "bands" else folder / "bands"
    is_bundle = len(facts) == 2 or (bands.is_dir() and (bool(facts) or _has_bands(bands)))
    return FOLDERS[".sparsebundle"] if is_bundle else ""


def band_number(name: str) -> int | None:
    """Tell which band a file is by its name; copies on other systems may have it in capitals."""
    if not name or len(name) > 14 or not set(name) <= set(string.hexdigits):
        return None
    number = int(name, 16)
    return number if name.lower() == f"{number:x}" else None


def _has_bands(folder: Path) -> bool:
    # Of a folder that this user may not list, nothing is known, and it is not the output's own.
    with suppress(PermissionError), os.scandir(folder) as found:
        return any(band_number(each.name) is not None and each.is_file() for each in found)
    return False


def _neighbour(scheme: Scheme, path: Path) -> str:
    """Return the name of a file beside a new one with which it would make a set; empty where there is none."""
    key = _key(scheme, path.name)
    if key is None or not path.parent.is_dir():
        return ""
    try:
        found = list(os.scandir(path.parent))
    except OSError as error:
        raise UsageError(f"{path}: its folder cannot be listed: {(error.strerror or str(error)).lower()}") from error
    # What this tool wrote is nobody's image, or one that it can make again.
    names = sorted(
        each.name
        for each in found
        if each.name != path.name
        and each.name.lower().startswith(key[0])
        and _key(scheme, each.name) == key
        and not path.with_name(each.name).is_dir()  # of a link that leads to itself, `each` would raise
        and not ownfiles.is_own(path.with_name(each.name))
    )
    is_set = any(scheme.proof.fullmatch(name.lower()) for name in (*names, path.name))
    return names[0] if names and is_set else ""


def _key(scheme: Scheme, name: str) -> tuple[str, int] | None:
    """Return what the names of one set have in common; None for a name in none."""
    match = scheme.file.fullmatch(name.lower())
    return None if match is None else (match["stem"], len(match.groupdict().get("suffix", "")))
