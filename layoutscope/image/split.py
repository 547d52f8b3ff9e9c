"""Raw images in parts: ``disk.001``, ``disk.002`` …, or ``disk.aa``, ``disk.ab`` and so on."""

from __future__ import annotations

import itertools
import os
import re
import string
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope import inputs, ownfiles
from layoutscope.errors import ImageError, UsageError, reason_of
from layoutscope.findings import Finding
from layoutscope.image.raw import RawFile
from layoutscope.image.source import JoinedSource
from layoutscope.structs.arrays import runs_of, subtract, total
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator


NUMBERED: Final = re.compile(r"(?P<stem>.+\.)(?P<suffix>\d{2,6})")
"""Parts with the numbers of imaging tools: disk.001, disk.002."""

LETTERED: Final = re.compile(r"(?P<stem>.+\.)(?P<suffix>[a-z]{2,4})")
"""Parts with the names of split(1): disk.aa, disk.ab."""

_EWF_NUMBER: Final = re.compile(r".+\d\d")

FOLDERS: Final = {
    ".sparsebundle": "an Apple sparse bundle",
    ".backupbundle": "an Apple sparse bundle",
    ".hdd": "a Parallels disk",
    ".lscope": "a capture",
}
"""Folders that are a unit, by their suffixes."""


_NO_PROOF: Final = re.compile(".*", re.DOTALL)
SCHEMES: Final = (
    ("a split image", NUMBERED, _NO_PROOF),
    ("a split image", LETTERED, re.compile(r".+\.a{2,4}")),
    # split(1) names parts like this if the user gives no prefix: xaa, xaab, x00.
    *(
        ("a split image", re.compile(rf"(?P<stem>[^.]*)(?P<suffix>[a-z]{{{n}}})"), re.compile(rf".*a{{{n}}}"))
        for n in (2, 3, 4)
    ),
    ("a split image", re.compile(r"(?P<stem>.*?)(?P<suffix>(?<!\d)\d{2,6})"), re.compile(r".*?(?<!\d)0{2,6}")),
    # Letters follow E99. Names after S99 are left out, because no known imager writes them: .svg is a picture.
    ("an Expert Witness image", re.compile(r"(?P<stem>.+\.[els]x?)(\d\d|(?!vg)[a-z]{2})"), _EWF_NUMBER),
    ("an AD1 image", re.compile(r"(?P<stem>.+\.ad)\d{1,4}"), _NO_PROOF),
    ("a VMware disk", re.compile(r"(?P<stem>.+?)(-\d{6})?(-[sf]\d{3}|-flat|-delta|-ctk|-rdmp?)?\.vmdk"), _NO_PROOF),
    ("an image of a CD", re.compile(r"(?P<stem>.+?)( ?\(track \d+\))?\.(cue|bin)"), re.compile(r".+\.cue")),
    ("a segmented disk image", re.compile(r"(?P<stem>.+?)(\.\d{3})?\.dmg(part)?"), _NO_PROOF),
    ("a zip archive in parts", re.compile(r"(?P<stem>.+)\.(z\d{2,3}|zip)"), _NO_PROOF),
)
"""Naming schemes for the files of one image.

Each has a name for the set, the pattern of a name in it, in lower case, and a pattern that one of the names must match,
if files that are not a set have such names, too. All names share the group `stem` and the length of the group `suffix`.
"""


def refuse_part(path: Path) -> None:
    """Refuse a path where a new file would become part of an existing image."""
    places = {Path(os.path.abspath(path)), Path(os.path.realpath(path))}  # noqa: PTH100  (links not followed)
    for folder in {parent for place in places for parent in place.parents}:
        if kind := whole_folder(folder):
            raise UsageError(f"{path}: is inside of {folder}, which is {kind}. Name a file elsewhere.")
    place = path.absolute()
    for what, pattern, proof in SCHEMES:
        key = _key(pattern, place.name)
        if key is None or not place.parent.is_dir():
            continue
        try:
            found = list(os.scandir(place.parent))
        except OSError as error:
            raise UsageError(f"{place}: its folder cannot be listed: {reason_of(error)}") from error
        # Files that this tool wrote are not a user's image, or it can make them again.
        names = sorted(
            each.name
            for each in found
            if each.name != place.name
            and each.name.lower().startswith(key[0])
            and _key(pattern, each.name) == key
            and not place.with_name(each.name).is_dir()  # for a link that leads to itself, `each` would raise
            and not ownfiles.is_own(place.with_name(each.name))
        )
        if names and any(proof.fullmatch(name.lower()) for name in (*names, place.name)):
            raise UsageError(f"{path}: has the name of a part of {what}, beside {names[0]}. Name another file.")


def whole_folder(folder: Path) -> str:
    """Describe a folder that is a unit, such as a bundle or a capture; empty if it is a folder of files."""
    if folder.suffix.lower() in FOLDERS:
        return FOLDERS[folder.suffix.lower()]
    if (folder / "manifest.json").is_file() and (folder / "0" / "nodes.parquet").is_file():
        return FOLDERS[".lscope"]
    if os.path.isfile(folder / "DiskDescriptor.xml"):  # noqa: PTH113  (no error)
        return FOLDERS[".hdd"]
    facts = [name for name in ("Info.plist", "token") if os.path.isfile(folder / name)]  # noqa: PTH113  (no error)
    bands = folder if folder.name == "bands" else folder / "bands"
    is_bundle = len(facts) == 2 or (bool(facts) and bands.is_dir())
    # If this user may not list a folder, its content is unknown, and it does not belong to the output.
    if not is_bundle and bands.is_dir():
        with suppress(PermissionError), os.scandir(bands) as found:
            is_bundle = any(band_number(each.name) is not None and each.is_file() for each in found)
    return FOLDERS[".sparsebundle"] if is_bundle else ""


def band_number(name: str) -> int | None:
    """Return the number of the band that a file is by its name; copies on other systems may have capitals."""
    if not name or len(name) > 14 or not set(name) <= set(string.hexdigits):
        return None
    number = int(name, 16)
    return number if name.lower() == f"{number:x}" else None


def _key(pattern: re.Pattern[str], name: str) -> tuple[str, int] | None:
    """Return what the names of one set have in common; None for a name in no set."""
    match = pattern.fullmatch(name.lower())
    return None if match is None else (match["stem"], len(match.groupdict().get("suffix", "")))


def find_parts(path: Path) -> list[Path]:
    """List the existing parts of the split image whose first part this is; empty if it is not part of one."""
    match = NUMBERED.fullmatch(path.name) or LETTERED.fullmatch(path.name)
    if match is None:
        return []
    siblings = _siblings(path, match["stem"], match["suffix"])
    if len(siblings) < 2:
        return []
    # If more parts are missing than exist, similar names are not parts.
    expected = list(itertools.islice(_suffixes(match["suffix"]), 2 * len(siblings)))
    if not expected or match["suffix"] != expected[0]:
        stem, width, is_number = match["stem"], len(match["suffix"]), match["suffix"].isdigit()
        second = f"{1:0{width}d}"
        firsts = ("0" * width, second) if is_number else ("a" * width,)
        if first := next((suffix for suffix in firsts if suffix in siblings), ""):
            raise ImageError(f"{path}: is a later part of a split image. Open {stem}{first}")
        if is_number:
            raise ImageError(f"{path}: the first part of the split image, {stem}{second}, is missing")
        return []  # two words that happen to share a stem, such as notes.txt and notes.img
    if set(siblings) - set(expected):
        missing = next(suffix for suffix in expected if suffix not in siblings)
        raise ImageError(f"{path}: part {match['stem']}{missing} of the split image is missing, and many more are")
    parts = [siblings[suffix] for suffix in expected if suffix in siblings]
    for part in parts:
        if not part.is_file():
            raise ImageError(f"{part}: has the name of a part of {path}, and is not a file")
    return parts


def find_beginning(path: Path) -> Path:
    """Return the first file of the split image that a file belongs to by its name, or else the file."""
    match = NUMBERED.fullmatch(path.name) or LETTERED.fullmatch(path.name)
    siblings = {} if match is None else _siblings(path, match["stem"], match["suffix"])
    return siblings[min(siblings)] if siblings else path


def _siblings(path: Path, stem: str, suffix: str) -> dict[str, Path]:
    """List the neighbouring files whose names differ only in the suffix, by suffix."""
    found = {suffix: path}
    # A folder that may not be listed shows no other parts, but the image in it may still be readable.
    names: list[str] = []
    with suppress(PermissionError):
        names = inputs.list_folder(path.parent)
    kind = str.isdigit if suffix.isdigit() else str.isalpha
    for candidate in map(path.parent.joinpath, names):
        rest = candidate.name.removeprefix(stem)
        is_part = candidate.name.startswith(stem) and len(rest) == len(suffix)
        if is_part and rest.isascii() and kind(rest) and rest == rest.lower() and not candidate.is_dir():
            found[rest] = candidate
    return found


def _suffixes(first: str) -> Iterator[str]:
    """Count from a first suffix: 000 or 001, or aa."""
    if first.isdigit():
        # Imagers count from 001 (dd's descendants, FTK) or from 000; split(1) from aa.
        start = int(first) if int(first) in (0, 1) else 1
        return (f"{number:0{len(first)}d}" for number in range(start, 10 ** len(first)))
    return ("".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=len(first)))


class SplitFile(JoinedSource):
    """Several consecutive files as one image; missing parts count as never read."""

    def __init__(self, paths: list[Path]) -> None:
        with ExitStack() as stack:
            self._place(paths, [stack.enter_context(RawFile(path)) for path in paths])
            stack.pop_all()

    def _place(self, paths: list[Path], parts: list[RawFile]) -> None:
        """Set where each part begins: imagers cut at a fixed size, so a part's number gives its offset."""
        full = parts[0].size_bytes
        first = paths[0].name.rpartition(".")[2]
        place = {suffix: number for number, suffix in enumerate(itertools.islice(_suffixes(first), 2 * len(paths)))}
        numbers = [place[path.name.rpartition(".")[2]] for path in paths]
        for part in parts:
            part.counter = parts[0].counter
            if part.size_bytes > full:
                raise ImageError(f"{part.name}: this part has {part.size_bytes:,} bytes, the first has {full:,}")
        super().__init__(parts, np.array(numbers, np.int64) * full)
        self._unread = subtract(np.array([[0, self.size_bytes]]), runs_of(self._starts, self._ends - self._starts))
        stem = paths[0].name.removesuffix(first)
        problems = [f"part {stem}{suffix} is missing" for suffix, number in place.items()
                    if number < numbers[-1] and number not in numbers]  # fmt: skip
        # A part other than the last that is smaller is an interrupted copy.
        problems += [
            f"part {path.name} ends at byte {part.size_bytes:,} of {full:,}"
            for path, part in zip(paths[:-1], parts[:-1], strict=True)
            if part.size_bytes < full
        ]
        if problems:
            more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
            message = f"{problems[0]}{more}; {format_bytes(total(self._unread))} of the disk count as not read"
            self.own_findings = (Finding("image-incomplete", "error", "split image", None, message),)
