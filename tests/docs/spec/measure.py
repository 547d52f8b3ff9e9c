"""Measurements on images: where fields hold something, and what is reported if one of them is changed.

``measured.toml`` keeps it, as it takes minutes and images that are not in the repository.
"""

from __future__ import annotations

import json
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.api.check import _check_volumes  # what check says, beside the tables of the same reading
from layoutscope.api.reading import make_request, open_volumes
from layoutscope.errors import LayoutscopeError
from layoutscope.structs.checksum import fletcher64
from tests.conftest import cache_dir
from tests.docs.spec.grammars import place
from tests.docs.spec.sightings import look_at, watched
from tests.equality.cases import scenarios

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.docs.spec.sightings import Sightings

MEASURED = Path(__file__).with_name("measured.toml")
KINDS = ("fixture", "driver", "macOS")
TABLES = ("nodes", "regions", "extents", "entries", "free")
LARGEST = 300 << 20
"""Larger fixtures are looked at and not changed."""
PLACES = 4
"""Places of an image at which a field is changed, until something is reported."""
REFUSED = "not opened"


@dataclass(frozen=True)
class Measured:
    """What is known from images, by the address of a field.

    Attributes
    ----------
    seen : dict of str to list of str
        Kinds of images on which it holds something.
    shown : frozenset of str
        Types that ``inspect`` shows.
    guards : dict of str to list of str
        Findings that a changed value causes on a sound image; `REFUSED` where it is not read any more.
    tables : dict of str to list of str
        Tables that a changed value changes.
    """

    seen: dict[str, list[str]]
    shown: frozenset[str]
    guards: dict[str, list[str]]
    tables: dict[str, list[str]]


@cache
def measured() -> Measured:
    """Read what was measured."""
    data = tomllib.loads(MEASURED.read_text(encoding="utf-8"))
    return Measured(data["seen"], frozenset(data["shown"]), data["guards"], data["tables"])


def images(kind: str, folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the images of a kind, with the options that they need.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    folder : path
        Where fixtures are written, or are already.
    """
    if kind == "fixture":
        for case in scenarios(folder):
            words = dict(zip(case.options[::2], case.options[1::2], strict=True))
            second = {"second": folder / words["--second"]} if "--second" in words else {}
            yield folder / case.name, {**second, **({"password": words["--password"]} if "--password" in words else {})}
    else:
        for path in sorted((cache_dir() / {"driver": "driver", "macOS": "apple"}[kind]).iterdir()):
            if path.suffix in (".img", ".iso", ".raw"):
                yield path, {"password": "password"}


def measure(folder: Path) -> None:
    """Look at all images, change each field on the smallest fixture that has it, and write down what was found."""
    seen: dict[str, list[str]] = {}
    shown: set[str] = set()
    fixtures: list[tuple[Path, dict[str, Any], Sightings]] = []
    for kind in KINDS:
        for path, options in images(kind, folder):
            with watched() as sightings:
                look_at(sightings, path, **options)
            shown |= sightings.shown
            for address, holds in sightings.values.items():
                if holds and kind not in seen.setdefault(address, []):
                    seen[address].append(kind)
            if kind == "fixture" and path.stat().st_size < LARGEST:
                fixtures.append((path, options, sightings))
    _write(seen, shown, {}, {})
    guards: dict[str, set[str]] = {}
    tables: dict[str, set[str]] = {}
    for path, options, sightings, wanted in _chosen(fixtures):
        change(path, options, sightings, wanted, guards, tables)
    _write(seen, shown, guards, tables)


def _chosen(
    fixtures: list[tuple[Path, dict[str, Any], Sightings]],
) -> Iterator[tuple[Path, dict[str, Any], Sightings, set[str]]]:
    """Yield images with the fields that are changed on each: where they hold something, if they do anywhere."""
    done: set[str] = set()
    smallest = sorted(fixtures, key=lambda each: each[0].stat().st_blocks)
    for must_hold in (True, False):
        for path, options, sightings in smallest:
            holding = {each for each, places in sightings.places.items() if not must_hold or any(p[-1] for p in places)}
            wanted = {each for each in holding - done if not place(each).member and place(each).size}
            done |= wanted
            if wanted:
                yield path, options, sightings, wanted


def change(
    path: Path,
    options: dict[str, Any],
    sightings: Sightings,
    wanted: set[str],
    guards: dict[str, set[str]],
    tables: dict[str, set[str]],
) -> None:
    """Change fields of an image one by one, correct the checksum, and record what is reported.

    Parameters
    ----------
    path : path
        The image.
    options : dict
        How it is read.
    sightings : Sightings
        Where its fields are.
    wanted : set of str
        Addresses of the fields.
    guards, tables : dict of str to set of str
        What is found is added to these.
    """
    before = outcome(path, options)
    with path.open("r+b", buffering=0) as file:
        for address in sorted(wanted):
            for start, size, at, length, _ in _spread(sightings.places[address]):
                file.seek(start)
                stored = file.read(size)
                for changed in _changes(stored, at, min(length, 8)):
                    file.seek(start)
                    file.write(changed)
                    after = outcome(path, options)
                    guards.setdefault(address, set()).update(after[0] - before[0])
                    if after[1]:
                        differ = {name for name, digest in after[1].items() if digest != before[1][name]}
                        tables.setdefault(address, set()).update(differ)
                file.seek(start)
                file.write(stored)
                if guards[address]:
                    break


def _spread(places: list[tuple[int, int, int, int, bool]]) -> list[tuple[int, int, int, int, bool]]:
    """Choose places where a field holds something: the first may be a copy that nothing depends on."""
    holding = [each for each in places if each[-1]] or places
    count = min(PLACES, len(holding))
    return [holding[round(k * (len(holding) - 1) / max(count - 1, 1))] for k in range(count)]


def _changes(stored: bytes, at: int, length: int) -> Iterator[bytes]:
    """Yield an object with a field that has another lowest bit, and one that has the greatest value there is."""
    is_apfs = len(stored) >= 32 and int(fletcher64(np.frombuffer(stored, np.uint8)[None, :])[0]) == int.from_bytes(
        stored[:8], "little"
    )
    last = at if is_apfs else at + length - 1
    for value in ((stored[:last] + bytes([stored[last] ^ 1]) + stored[last + 1 :])[at : at + length], b"\xff" * length):
        data = np.frombuffer(stored[:at] + value + stored[at + length :], np.uint8)
        if is_apfs and at >= 8:
            yield int(fletcher64(data[None, :])[0]).to_bytes(8, "little") + data[8:].tobytes()
        else:
            yield data.tobytes()


def outcome(path: Path, options: dict[str, Any]) -> tuple[set[str], dict[str, int]]:
    """Return the codes of what is found on an image, and a number for the content of each kind of table."""
    request = make_request(options)
    try:
        with open_volumes(path, request) as image:
            layouts = image.layouts
            codes = {
                finding.code
                for each in (*(part.findings for part in _check_volumes(image, request, {})), image.findings)
                for finding in each
            }
    except LayoutscopeError:
        return {REFUSED}, {}
    digests = {name: sum(hash(repr(layout.table(name).rows())) for layout in layouts) for name in TABLES}
    facts = sum(hash(repr(layout.facts)) for layout in layouts)
    return codes, {**digests, "facts": facts}


def _write(
    seen: dict[str, list[str]], shown: set[str], guards: dict[str, set[str]], tables: dict[str, set[str]]
) -> None:
    parts = [
        "# Written by python -m tests.docs.spec --measure; see measure.py.",
        f"shown = {json.dumps(sorted(shown))}",
    ]
    for name, table in (("seen", seen), ("guards", guards), ("tables", tables)):
        rows = [
            f"{json.dumps(key)} = {json.dumps(list(values) if name == 'seen' else sorted(values))}"
            for key, values in sorted(table.items())
            if values
        ]
        parts += ["", f"[{name}]", *rows]
    MEASURED.write_text("\n".join(parts) + "\n", encoding="utf-8")


def main(folder: Path | None) -> None:
    """Measure, with the fixtures in a folder that is kept, or in one for this once."""
    with tempfile.TemporaryDirectory() as once:
        measure(folder or Path(once))
