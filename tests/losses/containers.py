"""Maps and containers changed at a field, an entry or an end: results must be true or marked as doubtful.

``python -m tests.losses.containers --count 5000 --seed 1`` changes the disks of `tests.losses.disks`, opens each, and
compares entries with those of the sound disk, and each address with the data stored there. The verdicts:

- ``right``: all entries are there, and each address is right;
- ``refused``: one line says why;
- ``told``: something is missing or wrong, and the exit code is 3 or a finding warns;
- ``another disk``: the changed fields validly describe another disk, which was read: another program reads the same
  bytes, or nothing in the format contradicts them (`ANOTHER`);
- ``silent``: entries are missing or data cannot be read, without any report;
- ``wrong address``: an address is wrong, and no finding says that the start of that volume is uncertain;
- ``failed``: any other exception or a warning, more than 20 s or 1.5 GiB, or words of a library in a refusal.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads do not survive the fork of each case

import argparse
import json
import pickle
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from layoutscope.api.reading import make_request, open_volumes
from layoutscope.errors import LayoutscopeError, UnreadError
from layoutscope.options import ReadOptions
from layoutscope.results.scan import ScanResult, VolumeScan
from layoutscope.tables.layout import layout_findings
from tests.fuzz.runner import signature, strict_warnings, work_folder
from tests.losses.disks import MARK_BYTES, SECTOR, Base, bases, known_of, mark, places, rows_of, write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from layoutscope.api.reading import Opened
    from tests.losses.disks import Files, Known, Number, Part

MAX_SECONDS: Final = 20
MAX_BYTES: Final = 3 << 29
DAMAGED: Final = 3
CHANGES: Final = (1, 1, 1, 2, 3)
INTERNAL: Final = re.compile(
    r"Traceback|Errno|object is|NoneType|list index|struct\.|numpy|libv|libe|libq|pyv|pyq|Error -\d|CRC check|Corrupt|"
    r"Invalid data|decompress error|Not a gzipped|not well-formed|line \d+, column|\(b'"
)
"""Words from libraries and Python that mean nothing to the user."""

VERDICTS: Final = ("right", "refused", "told", "another disk", "silent", "wrong address", "failed")
FAULTS: Final = frozenset({"silent", "wrong address", "failed"})


class Judged(NamedTuple):
    """A mutant: its base, number, changes, verdict, and the reason for the verdict."""

    base: str
    number: int
    done: tuple[str, ...]
    verdict: str
    detail: str
    seconds: float = 0
    peak_bytes: int = 0


# Changes


def changed(base: Base, rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    """Change the files of a base in one to three places; most get correct checksums again."""
    files = {name: bytearray(data) for name, data in base.files.items()}
    done = [_change(base, files, rng) for _ in range(rng.choice(CHANGES))]
    if rng.random() < 0.75:
        base.mend(files)
        done.append("mended")
    return base.pack(files), tuple(done)


def _change(base: Base, files: Files, rng: random.Random) -> str:
    chosen = rng.choice(base.parts)
    if chosen.file not in files:
        return "nothing"
    kind = rng.random()
    if chosen.numbers and kind < 0.62:
        return _number(base, files, rng.choice(chosen.numbers), rng)
    if kind < 0.82:
        return _entry(base, files, chosen, rng)
    return _end(files, chosen, rng)


def _get(files: Files, number: Number) -> int:
    return int.from_bytes(files[number.file][number.at : number.at + number.width], number.order)  # type: ignore[arg-type]


def _number(base: Base, files: Files, number: Number, rng: random.Random) -> str:
    """Set a field to another value that is likely to matter."""
    if number.order == "text":
        return _text(files, number, rng)
    old, most = _get(files, number), (1 << 8 * number.width) - 1
    others = [
        _get(files, each) for each in rng.choice(base.parts).numbers if each.order != "text" and each.file in files
    ]
    size = len(files[number.file])
    values = [
        0, 1, most, most >> 1, most - 1, old + 1, old - 1, old + 8, old - 8, 2 * old, old // 2, old ^ (most // 2 + 1),
        old ^ 1 << rng.randrange(8 * number.width), size, size // SECTOR, size // SECTOR + 1, size // SECTOR - 1,
        rng.randrange(most + 1), rng.randrange(256), *(others or [2])[:6],
    ]  # fmt: skip
    new = rng.choice(values) & most
    files[number.file][number.at : number.at + number.width] = new.to_bytes(number.width, number.order)  # type: ignore[arg-type]
    return f"{number.name} at {number.at} of {number.file}: {old:#x} to {new:#x}"


def _text(files: Files, number: Number, rng: random.Random) -> str:
    """Change a number or a line of a text; the length of a file's piece is kept."""
    text = bytes(files[number.file][number.at : number.at + number.width])
    found = list(re.finditer(rb"\d+", text))
    if not found or rng.random() < 0.25:
        lines = text.splitlines(keepends=True)
        if not lines:
            return "nothing"
        where = rng.randrange(len(lines))
        new = rng.choice((b"", lines[where] * 2, b"\0\n", rng.choice(lines)))
        done, text = f"line {where} to {new[:40]!r}", b"".join([*lines[:where], new, *lines[where + 1 :]])
    else:
        place = rng.choice(found)
        old = int(place[0])
        new = str(
            rng.choice(
                (0, 1, old + 1, old - 1, 2 * old, old // 2, old + 512, 2**31, 2**63, 2**64, int(rng.choice(found)[0]))
            )
        ).encode()
        done = f"number at {place.start()}: {old} to {new.decode()}"
        text = text[: place.start()] + new + text[place.end() :]
    is_whole = number.at == 0 and number.width == len(files[number.file])
    files[number.file][number.at : number.at + number.width] = (
        text if is_whole else text.ljust(number.width, b"\0")[: number.width]
    )
    return f"{done} of {number.file}"


def _entry(base: Base, files: Files, chosen: Part, rng: random.Random) -> str:
    """Clear a structure, fill it with noise, swap it with one of its kind, or overwrite it with a copy of that one."""
    alike = [
        each for each in base.parts if each.kind == chosen.kind and each.length == chosen.length and each.file in files
    ]
    other = rng.choice(alike)
    data, more = files[chosen.file], files[other.file]
    mine, its = (bytes(files[each.file][each.at : each.at + each.length]) for each in (chosen, other))
    # A structure without fields is a piece of the disk itself.
    ways = ("cleared", "noise", "ones") if chosen.numbers else ()
    way = rng.choice((*ways, "exchanged", "exchanged", "copied", "copied"))
    new = {"cleared": bytes(len(mine)), "noise": rng.randbytes(len(mine)), "ones": b"\xff" * len(mine)}.get(way, its)
    data[chosen.at : chosen.at + len(mine)] = new
    if way == "exchanged":
        more[other.at : other.at + len(its)] = mine
    return f"{chosen.kind} at {chosen.at} of {chosen.file} {way}" + (
        f" with {other.at} of {other.file}" if new is its else ""
    )


def _end(files: Files, chosen: Part, rng: random.Random) -> str:
    """Truncate a file at the border of a structure, extend it, shift the bytes after a border, or lose or swap it."""
    data = files[chosen.file]
    border = max(
        0,
        rng.choice(
            (chosen.at, chosen.at + chosen.length, rng.randrange(len(data) + 1), len(data) - 512, len(data) - 1)
        ),
    )
    way = rng.choice(("cut", "cut", "longer", "shifted", "lost", "emptied", "renamed"))
    if way in ("lost", "emptied", "renamed") and len(files) == 1:
        way = rng.choice(("cut", "longer", "shifted", "front"))
    if way == "cut":
        del data[border:]
    elif way == "longer":
        data += rng.choice((bytes(512), bytes(4096), b"\xee" * 700, rng.randbytes(2048)))
    elif way == "shifted":
        steps = rng.choice((512, 1024, 4096, 7 * 512))
        if rng.random() < 0.5:
            data[border:border] = bytes(steps)
        else:
            del data[border : border + steps]
    elif way == "front":
        data[:0] = bytes(rng.choice((128, 512, 4096, 20480)))
    elif way == "lost":
        del files[chosen.file]
    elif way == "emptied":
        data.clear()
    else:
        other = rng.choice(sorted(files))
        files[chosen.file], files[other] = files[other], data
        return f"{chosen.file} exchanged with {other}"
    return f"{chosen.file} {way} at {border}"


# Verdicts


def verdict(base: Base, known: Known, folder: Path, *, sweep: bool, torn: bool = False) -> tuple[str, str]:
    """Read a changed disk and judge the result; `torn` means a gap or excess bytes within a volume."""
    try:
        with (
            strict_warnings(),
            open_volumes(folder / base.path, make_request(ReadOptions(sweep=sweep, **base.options))) as image,
        ):
            return _verdict_of(base, known, folder, image, torn=torn)
    except LayoutscopeError as error:
        told = str(error)
        if not told or "\n" in told or INTERNAL.search(told.replace(str(folder), "")):
            return "failed", f"says {told!r}"
        return "refused", f"{type(error).__name__}: {told.replace(str(folder), '')}"
    except Exception as error:  # noqa: BLE001  (whatever else escapes is what is looked for)
        return "failed", f"{signature(error)}: {error}"[:300]


def _verdict_of(base: Base, known: Known, folder: Path, image: Opened, *, torn: bool) -> tuple[str, str]:
    found = rows_of(image)
    lost, more = known.rows - found, found - known.rows
    wrong, unread = _addresses(known, image)
    other = _other_bytes(base, image)
    # Everything has been read by now, so containers have reported all their findings.
    findings = [*image.findings, *(item for item in image.images[0].findings if item not in image.findings)]
    volumes = tuple(VolumeScan(layout, (), (), (), None, (), layout_findings(layout)) for layout in image.layouts)
    code = ScanResult(image.about, volumes, tuple(findings)).exit_code
    said = [*findings, *(item for volume in volumes for item in volume.findings)]
    codes = {item.code for item in said if item.level != "info"} | {item.code for item in said if item.code in TOLD}
    counts = f"{lost.total()} lost, {more.total()} more, {wrong.total()} wrong, {unread} unread"
    about = f"exit {code}, {counts}, {other} {sorted(codes)}"
    is_told = code == DAMAGED or bool(codes)
    # The data at an address may themselves have been changed.
    is_same_disk = not (torn and is_told) if base.is_map else not other
    doubted = {item.image_offset for item in said if item.code == "start-uncertain"}
    if is_same_disk and set(wrong) - doubted:
        return "wrong address", about
    if not lost and not wrong and not unread and not other:
        return "right", about
    if is_told:
        return "told", about
    if other and (not lost or not base.is_map):
        return _another(base, folder, image, about)
    return ("silent", about) if lost or unread else ("right", about)


TOLD: Final = frozenset({"volume-unpartitioned", "start-uncertain"})
"""Findings of level information that still report that something is wrong."""


def _addresses(known: Known, image: Opened) -> tuple[Counter[int], int]:
    """Count sectors of files whose address holds other data, by the start of their volume, and unreadable sectors."""
    source = image.images[0]
    wrong: Counter[int] = Counter()
    unread = 0
    for layout in image.layouts:
        # A volume that lost its name counts as one of them.
        names = {layout.facts.name}.intersection(known.volumes) or known.volumes
        for file, fork, logical, at, length in places(layout):
            for step in {0, (length - 1) // SECTOR * SECTOR}:
                try:
                    data = source.read(at + step, MARK_BYTES)
                except UnreadError:
                    unread += 1
                except LayoutscopeError:
                    unread += 1
                else:
                    sector = (logical + step) // SECTOR
                    if data not in {mark(name, file, fork, sector) for name in names}:
                        wrong[layout.facts.image_offset] += 1
    return wrong, unread


def _other_bytes(base: Base, image: Opened) -> str:
    """Report where a container returns a byte that differs from the sound one without marking it as never read."""
    if base.is_map:
        return ""
    source, size = image.images[0], len(base.disk)
    unread = [(low, low + length) for low, length in source.unread_ranges().tolist()]
    if source.size_bytes < size and any(base.disk[source.size_bytes :]):
        return f"ends at {source.size_bytes}"
    for at in range(0, min(size, source.size_bytes), SECTOR):
        length = min(SECTOR, size - at, source.size_bytes - at)
        if any(low < at + length and at < high for low, high in unread):
            continue
        try:
            data = source.read(at, length)
        except LayoutscopeError:
            continue
        if data != base.disk[at : at + length]:
            return f"other bytes at {at}"
    return ""


_PAYLOAD: Final = "what was changed is what the disk holds, which has no checksum here"
_FREE: Final = "an entry without a number is free, and nothing else says what it held"
ANOTHER: Final[dict[str, str]] = {
    "sparse-image": _FREE, "asif": _FREE, "nested": _FREE, "vdi": _FREE, "vmdk-stream": _FREE,
    "dmg": "the checksums of whole disk images are not compared (docs/images.md)",
    **dict.fromkeys(("bundle", "split", "vhd-fixed", "vmdk-flat", "disc", "cue", "mac-binary"), _PAYLOAD),
    **dict.fromkeys(("apple-single", "disk-copy", "im4p", "encrypted", "parallels-folder"), _PAYLOAD),
}  # fmt: skip
"""Why a format cannot detect that a change was not intended, by the start of a base's name; no entry is lost."""


def _another(base: Base, folder: Path, image: Opened, about: str) -> tuple[str, str]:
    """Judge a container that returns another disk without a finding; a second program may see the same disk."""
    if base.peer and shutil.which("qemu-img"):
        raw = folder.parent / "raw"
        command = ["qemu-img", "convert", "-f", base.peer, "-O", "raw", folder / base.path, raw]
        run = subprocess.run(command, capture_output=True, check=False, timeout=MAX_SECONDS)
        if not run.returncode:
            source = image.images[0]
            its = raw.read_bytes()
            size = min(len(its), source.size_bytes)
            is_same = its[:size] == source.read(0, size)
            return ("another disk", f"as qemu-img: {about}") if is_same else ("silent", f"not as qemu-img: {about}")
        about = f"qemu-img refuses ({' '.join(run.stderr.decode(errors='replace').split())[-120:]}): {about}"
    reason = next((why for name, why in ANOTHER.items() if base.name.startswith(name) and " 0 lost" in about), "")
    return ("another disk", f"{reason}: {about}") if reason else ("silent", about)


# The campaign


class Campaign:
    """Numbered mutants of some bases, drawn from a seed, each written into a folder."""

    def __init__(self, bases: list[Base], folder: Path, seed: int) -> None:
        self.bases, self.folder, self.seed = bases, folder / "case", seed
        self.known = {base.name: known_of(base, self.folder) for base in self.bases}

    def mutant(self, number: int) -> tuple[Base, Files, tuple[str, ...], bool]:
        """Make a mutant from its number: its base, its files, the changes, and whether it is swept."""
        rng = random.Random(f"{self.seed} {number}")  # noqa: S311
        base = self.bases[number % len(self.bases)]
        files, done = changed(base, rng)
        return base, files, done, rng.random() < 0.3

    def judge(self, number: int) -> Judged:
        """Make a mutant and judge it in its own process."""
        base, files, done, sweep = self.mutant(number)
        write(files, self.folder)
        if sweep:
            done = (*done, "swept")
        start = time.monotonic()
        known = self.known[base.name]
        shifts = [int(each.rpartition(" ")[2]) for each in done if " shifted at " in each]
        torn = any(low < at < high for at in shifts for low, high in known.spaces)
        found = _in_child(lambda: verdict(base, known, self.folder, sweep=sweep, torn=torn))
        answer, peak, seconds = found[0], found[1], time.monotonic() - start
        judged = answer if answer is not None else ("failed", f"no answer within {MAX_SECONDS} s, or it crashed")
        if peak > MAX_BYTES:
            judged = "failed", f"took {peak:,} bytes: {judged}"
        return Judged(base.name, number, done, *judged, seconds, peak)


def _in_child(work: object) -> tuple[tuple[str, str] | None, int]:
    """Run work in a child process; return its answer if it arrives in time, and the memory used."""
    before = _resident_bytes()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads, which the child does not need
        child = os.fork()
    if not child:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(work(), pipe)  # type: ignore[operator]
        os._exit(0)
    os.close(writer)
    data = b""
    with os.fdopen(reader, "rb") as pipe:
        end = time.monotonic() + MAX_SECONDS
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0, end - time.monotonic()))
            piece = os.read(pipe.fileno(), 65536) if ready else b""
            if not piece:
                break
            data += piece
    if not ready:
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    took = max(1, usage.ru_maxrss * 1024 - before)
    return (pickle.loads(data) if ready and not status and data else None), took  # noqa: S301


def _resident_bytes() -> int:
    """Return the memory that a copy of this process starts with."""
    known = Path("/proc/self/statm")
    return int(known.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if known.exists() else 0


def run(seed: int, numbers: Iterable[int], *, only: str = "", told: bool = False) -> list[Judged]:
    """Judge the mutants with these numbers."""
    with work_folder() as name:
        campaign = Campaign([base for base in bases() if only in base.name], Path(name), seed)
        judged = []
        for number in numbers:
            item = campaign.judge(number)
            judged.append(item)
            if told or item.verdict in FAULTS:
                print(json.dumps(item._asdict()), flush=True)  # noqa: T201
        return judged


def table(judged: list[Judged]) -> str:
    """Return a Markdown table of verdict counts for each kind of base."""
    lines = [
        f"| disk | mutants | {' | '.join(VERDICTS)} | slowest s | peak MiB |",
        f"|---|{'---|' * (len(VERDICTS) + 3)}",
    ]
    names = list(dict.fromkeys(item.base.removesuffix("-apfs") for item in judged))
    for name in [*names, "**all**"]:
        some = [item for item in judged if name in ("**all**", item.base.removesuffix("-apfs"))]
        counts = Counter(item.verdict for item in some)
        cells = [name, f"{len(some):,}", *(f"{counts[each]:,}" for each in VERDICTS)]
        cells += [f"{max(item.seconds for item in some):.2f}", f"{max(item.peak_bytes for item in some) >> 20}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Run the mutants that the arguments select; return 1 if one was judged as a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.losses.containers", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many mutants")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--only", default="", help="disks with this in their names")
    parser.add_argument("--told", action="store_true", help="print each mutant, and not only the faults")
    given = parser.parse_args()
    numbers = [range(given.first + job, given.first + given.count, given.jobs) for job in range(given.jobs)]
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        parts = pool.map(partial(run, given.seed, only=given.only, told=given.told), numbers)
        judged = [item for part in parts for item in part]
    print(table(judged))  # noqa: T201
    return 1 if any(item.verdict in FAULTS for item in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
