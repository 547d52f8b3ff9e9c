"""The images that are asked about: written by the fixtures, or linked where they are kept."""

from __future__ import annotations

import io
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.sparse import write_sparse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fixtures.fault import Fault

QUICK_REFERENCES = ("offsite_source_2snaps.raw", "hfsplus-journaled-pop.img")
"""One image of macOS and one of a Linux driver."""
QUICK_FAULTS = 12
"""Every so many faults are in the quick set."""
QUICK_WHOLE = {
    *("apfs-rich-0.img", "apfs-snapshots-0.img", "apfs-volumes-0.img", "apfs-encrypted-0.img", "apfs-fusion-0.img"),
    *("apfs-sealed-deep-0.img", "apfs-block-16384-0.img", "hfsplus-populated.img", "hfsplus-attributes.img"),
    *("hfsplus-journal-pending-transactions.img", "hfsplus-gpt.img", "hfsplus-overflow.img", "hfsplus-odd-names.img"),
    *("hfsplus-case-sensitive.img", *QUICK_REFERENCES),
}
"""Images of the quick set on which all commands run."""
WRITTEN_AT = 1_577_836_800
"""The modification time that all images get, because results may contain it."""


@dataclass(frozen=True, slots=True)
class Case:
    """An image by its name in the folder of images, and how it is asked about."""

    name: str
    # Which commands run on it. whole: all of them; usual: those that suit every volume; fault: those that report
    # damage; refused: each verb, which refuses it; words: those that need no image; batch: those on many images.
    kind: str = "whole"
    options: tuple[str, ...] = ()  # of the command line
    partner: str = ""  # an image that it is compared with


def cases(images: Path, chosen: str) -> list[Case]:
    """Write a set of images, unless the list next to them shows that they were written before."""
    listed = images / f"{chosen}.json"
    if not listed.exists():
        images.mkdir(parents=True, exist_ok=True)
        found = [
            Case("words", "words"),
            *scenarios(images),
            *damaged(images),
            *faults(images, QUICK_FAULTS if chosen == "quick" else 1),
            *wrapped(images),
            *refused(images),
            *references(images, QUICK_REFERENCES if chosen == "quick" else None),
        ]
        if chosen == "quick":
            is_usual = [case.kind == "whole" and case.name not in QUICK_WHOLE for case in found]
            found = [
                replace(case, kind="usual") if usual else case for case, usual in zip(found, is_usual, strict=True)
            ]
        found.append(Case("batch", "batch"))
        for path in images.iterdir():
            if not path.is_symlink():
                os.utime(path, (WRITTEN_AT, WRITTEN_AT))
        listed.write_text(json.dumps([asdict(case) for case in found], indent=1))
    return [Case(**{**case, "options": tuple(case["options"])}) for case in json.loads(listed.read_text())]


def scenarios(images: Path) -> Iterator[Case]:
    """Write the fixtures' scenarios."""
    from fixtures.apfs.scenarios import PASSWORD
    from fixtures.apfs.scenarios import SCENARIOS as APFS
    from fixtures.apfs.writer import write
    from fixtures.hfsplus.scenarios import SCENARIOS as HFSPLUS
    from fixtures.hfsplus.writer import write as write_hfsplus

    for name, plan in APFS.items():
        paths = [images / f"apfs-{name}-{number}.img" for number in range(2 if plan.fusion else 1)]
        write(plan, *paths)
        second = ("--second", paths[1].name) if plan.fusion else ()
        yield Case(paths[0].name, options=(*second, "--password", PASSWORD), partner="apfs-basic-0.img")
    for name, volume in HFSPLUS.items():
        path = images / f"hfsplus-{name}.img"
        write_hfsplus(volume, path)
        yield Case(path.name, partner="hfsplus-populated.img")


def damaged(images: Path) -> Iterator[Case]:
    """Write images of which several nodes are zeros, and such as end early."""
    apfs, hfsplus = (images / name for name in ("apfs-aged-0.img", "hfsplus-half-full-nodes.img"))
    for path, is_node in (
        (apfs, lambda block: block[24:28] in (b"\x03\0\0\0", b"\x03\0\0\x40")),
        (hfsplus, lambda block: block[8:10] == b"\xff\x01"),
    ):
        data = bytearray(path.read_bytes())
        nodes = [at for at in range(0, len(data), 4096) if is_node(data[at : at + 4096])]
        for at in nodes[:: -(-len(nodes) // 8)]:
            data[at : at + 4096] = bytes(4096)
        yield _stored(images / f"zeroed-{path.name}", data, "fault")
    for name in ("apfs-basic-0.img", "hfsplus-populated.img", "hfsplus-gpt.img"):
        data = bytearray((images / name).read_bytes())
        for part in (10, 80):
            yield _stored(images / f"cut-{part}-{name}", data[: len(data) * part // 100], "fault")


def faults(images: Path, step: int) -> Iterator[Case]:
    """Write every so many of the planted faults."""
    from fixtures.apfs.scenarios import PASSWORD
    from fixtures.apfs.victims import VICTIMS
    from fixtures.apfs.writer import write
    from fixtures.fault import planted
    from fixtures.faults_apfs import FAULTS as APFS
    from fixtures.faults_hfsplus import FAULTS as HFSPLUS
    from fixtures.hfsplus.scenarios import SCENARIOS
    from fixtures.hfsplus.writer import render

    victims = {name: (images / f"victim-{name}.img", plan) for name, plan in VICTIMS.items()}
    written = {name: (path, write(plan, path)) for name, (path, plan) in victims.items()}
    apfs: tuple[Fault, ...] = tuple(APFS)
    for fault in apfs[::step]:
        target = images / f"fault-apfs-{fault.name}.img"
        with planted(fault, written) as image, Path(image.path).open("rb") as plain:
            write_sparse(target, plain)
        yield Case(target.name, "fault", ("--password", PASSWORD))
    for fault in tuple(HFSPLUS)[::step]:
        canvas, expected = render(SCENARIOS[fault.scenario])
        changed = canvas.to_bytearray()
        fault.apply(changed, expected)
        yield _stored(images / f"fault-hfsplus-{fault.name}.img", changed, "fault")


def wrapped(images: Path) -> Iterator[Case]:
    """Write a volume in the files that disks come in, and at odd places."""
    from fixtures import wrappers
    from fixtures.hfsplus.scenarios import SCENARIOS
    from fixtures.hfsplus.writer import render

    disk = bytes(render(SCENARIOS["populated"])[0].to_bytearray())
    whole = wrappers.expert_witness(disk)
    for name, data in (
        ("wrapped-behind-a-sector.img", bytes(512) + disk),
        ("wrapped-behind-40-sectors.img", bytes(40 * 512) + disk),
        ("wrapped.sparseimage", wrappers.sparse_image(disk)),
        ("wrapped.hdd", wrappers.parallels(disk)),
        ("wrapped.vdi", wrappers.vdi(disk)),
        ("wrapped-macbinary.img", wrappers.mac_binary(disk)),
        ("wrapped-applesingle.img", wrappers.apple_single(disk)),
        ("wrapped-diskcopy.img", wrappers.disk_copy(disk)),
        ("wrapped-im4p.dmg", wrappers.im4p(disk)),
        ("wrapped-disc.bin", wrappers.disc(disk)),
        ("wrapped-whole.E01", whole[0]),
    ):
        yield _stored(images / name, data, "fault")
    locked = images / "wrapped-encrypted.dmg"
    locked.write_bytes(wrappers.encrypted(disk, "open sesame"))
    yield Case(locked.name, "fault", ("--password", "open sesame"))
    yield _stored(images / "wrapped-locked.dmg", locked.read_bytes(), "refused")


def refused(images: Path) -> Iterator[Case]:
    """Write files with nothing in them that is read."""
    zeros, text = bytes(1 << 20), b"This is no disk.\n" * 4096
    ntfs = b"\xeb\x52\x90NTFS    ".ljust(510, b"\0") + b"\x55\xaa"
    for name, data in (
        ("refused-empty.img", b""),
        ("refused-byte.img", b"x"),
        ("refused-zeros.img", zeros),
        ("refused-text.img", text),
        ("refused-ntfs.img", ntfs + zeros),
        ("refused-zip.aff4", b"PK\x03\x04".ljust(30, b"\0") + zeros),
        ("refused-gzip.img.gz", b"\x1f\x8b\x08\0" + text),
        ("refused-zstd.img.zst", b"\x28\xb5\x2f\xfd" + text),
        ("refused-lfs.img", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        ("refused-koly.dmg", zeros + b"koly\0\0\0\4\0\0\2\0".ljust(512, b"\0")),
        ("refused-qcow.qcow2", b"QFI\xfb\0\0\0\3" + zeros),
        ("refused-nxsb.img", bytes(32) + b"NXSB" + zeros),
        ("refused-header.img", bytes(1024) + b"H+\0\4" + zeros),
        ("refused-secret.img", (images / "apfs-encrypted-0.img").read_bytes()[: 1 << 16]),
    ):
        yield _stored(images / name, data, "refused")
    (images / "refused-folder").mkdir(exist_ok=True)
    yield Case("refused-folder", "refused")
    yield Case("refused-absent.img", "refused")
    yield Case("apfs-encrypted-0.img", "refused", ("--password", "wrong"))
    yield Case("apfs-fusion-0.img", "refused")


def references(images: Path, names: tuple[str, ...] | None) -> Iterator[Case]:
    """Link the reference images that are there, or some of them."""
    from tests.conftest import ROOT, cache_dir

    passwords = {"dissect_encrypted.raw": "password"}
    stored = sorted((ROOT / "fixtures" / "images").glob("*.zst"))
    for path in (*stored, *sorted(cache_dir().glob("*/*"))):
        if path.suffix not in (".raw", ".img", ".iso", ".zst"):
            continue
        if names is not None and path not in stored and path.name not in names:
            continue
        link = images / path.name
        if not link.is_symlink():
            link.symlink_to(path)
        if path.name == "tier2.img":
            continue
        password = ("--password", passwords[path.name]) if path.name in passwords else ()
        second = ("--second", "tier2.img") if path.name == "main.img" else ()
        partner = path.name.replace("-c20", "-c00")
        yield Case(path.name, "usual" if "0000-" in path.name else "whole", (*password, *second), partner)


def _stored(path: Path, data: bytes | bytearray, kind: str) -> Case:
    write_sparse(path, io.BytesIO(data))
    return Case(path.name, kind)


def folder_of(case: Case) -> str:
    """Name the folder of what is said of an image; one is asked about twice, with a wrong password."""
    return case.name if case.kind != "refused" or case.name.startswith("refused-") else f"refused-{case.name}"


def chosen_of(found: Iterable[Case], only: str) -> list[Case]:
    """Choose by a part of the folder's name."""
    return [case for case in found if only in folder_of(case)]
