"""Tables of the pages that are made from the code."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import layoutscope
from layoutscope.drive import list_profiles, load_profile
from layoutscope.filesystems import registry
from layoutscope.filesystems.apfs.features import FEATURE_FIELDS as APFS
from layoutscope.filesystems.hfsplus.features import FEATURE_FIELDS as HFSPLUS
from layoutscope.image.signatures import AFF4, SIGNATURES
from layoutscope.metrics import DEFINITIONS
from layoutscope.tables import TABLES
from layoutscope.tables.frames import FRAMES
from layoutscope.walk.host import LINUX, MACOS, property_values, sources
from layoutscope.walk.orders import ORDERS
from tests.docs.imports import ROOT
from tests.docs.markdown import table

if TYPE_CHECKING:
    from layoutscope.image.signatures import Signature


def placed(code: str, place: str = "") -> str:
    """Write a code so that it can be led to by itself, or by another name."""
    return f'<a id="{place or code}"></a>`{code}`'


def metrics() -> str:
    """Return the definitions of all metrics."""
    rows = [(placed(d.name), d.title, d.unit, d.denominator, d.text, d.citation) for d in DEFINITIONS.values()]
    return table("metric | title | unit | of what | definition | source", rows)


def findings() -> str:
    """Return every finding code."""
    return table("code | meaning", [(placed(code), text) for code, text in sorted(registry.finding_codes().items())])


def refusals() -> str:
    """Return the code of everything that is refused."""
    return table("code | what is refused", [(placed(code), text) for code, text in sorted(registry.refusals().items())])


def columns() -> str:
    """Return the columns of every table."""
    return "\n\n".join(
        f"## `{name}`\n\n"
        + table("column | unit | meaning", [(placed(c.name, f"{name}.{c.name}"), c.unit, c.doc) for c in columns])
        for name, columns in TABLES.items()
    )


def orders() -> str:
    """Return every order with what it does and what it needs."""
    needs = {"paths": "`--paths`", "file": "`--file`"}
    rows = [
        (placed(each.name), each.does, needs.get(each.needs, ""), "no" if each.is_done_once else "yes")
        for each in ORDERS.values()
    ]
    return table("order | what it gets | needs | again", rows)


def hosts() -> str:
    """Return the properties of the hosts, their values and where these come from."""
    rows, above, known = [], ("", ""), sources()
    for (name, linux), macos in zip(property_values(LINUX).items(), property_values(MACOS).values(), strict=True):
        words = ["as above" if one == old else one for one, old in zip(known[name], above, strict=True)]
        rows.append((placed(name), _shown(linux), _shown(macos), *words))
        above = known[name]
    systems = '<a id="linux"></a>linux | <a id="macos"></a>macos'
    return table(f"property | {systems} | source on linux | source on macos", rows)


def _shown(value: object) -> str:
    """Show a property as ``--host-property`` takes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(name.strip("\0\r") for name in value)
    return "unlimited" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def drives() -> str:
    """Return the drive profiles."""
    profiles = {name: load_profile(name) for name in list_profiles()}
    rows = [(placed(name), profile.take_for, profile.title) for name, profile in profiles.items()]
    return table("profile | take it for | drive", rows)


def json_fields() -> str:
    """Return the fields of the JSON of a scan."""
    from tests.docs.schemas import described_members, schemas

    members = dict(described_members(schemas()["scan"]))
    # Findings of a volume and metrics of a walk have the members of all others.
    again = ("volumes[].findings[].", "volumes[].walk.metrics[].", "findings[].cause.")
    rows = [(f"`{name}`", text) for name, text in members.items() if not name.startswith(again)]
    return table("field | meaning", rows)


COSTS = {"node": "nodes", "file": "files", "directory": "directories"}


def frames() -> str:
    """Return the columns of the frames of results."""
    costs = {f"{name}_costs": f"`layout.costs(drive).{field}`" for name, field in COSTS.items()}
    where = costs | {
        "metrics": "`result.metrics`",
        "times": "`result.times`, `prediction.times`",
        "directories": "`prediction.directories`",
        "reads": "`prediction.reads`",
        "comparison": "`comparison.frame`",
        "faults": "`checked.frame`",
        "remedies": "`plan.remedies`",
    }
    parts = []
    for name, columns in FRAMES.items():
        rows = [(f"`{column.name}`", column.kind, column.unit, column.doc) for column in columns]
        parts.append(f"### {where[name]}\n\n{table('column | type | unit | meaning', rows)}")
    return "\n\n".join(parts)


def features(filesystem: str) -> str:
    """Return the bits of a file system, a table for each field."""
    parts = []
    for field in {"apfs": APFS, "hfsplus": HFSPLUS}[filesystem]:
        rows = [
            (
                f"{int(item.bit):#x}", f"`{item.bit.name.replace('_', '-')}`", item.meaning,
                f"[`{item.code}`](findings.md), error" if item.code else "",
            )
            for item in field.features
        ]  # fmt: skip
        shown = table("value | name | meaning for reading | finding", rows) if rows else "None is published."
        parts.append(f"### {field.title}\n\n`{field.original}`. {field.unknown}\n\n{shown}")
    return "\n\n".join(parts)


def parts_of_time() -> str:
    """Return what the time of a listing goes into, for both committed images on one drive."""
    causes, rows = ("seek", "rotation", "transfer", "overhead", "host"), []
    for title, name in (("HFS+", "hfsplus"), ("APFS", "apfs")):
        path = ROOT / "fixtures" / "images" / f"{name}-scattered.img.zst"
        volume = next(each for each in layoutscope.predict(path, drives="generic-5400-2.5").volumes if each.drives)
        seconds = dict(volume.drives[0].prediction.causes_s)
        rows.append((title, *(f"{seconds[cause]:.3f} s" for cause in causes), f"{sum(seconds.values()):.2f} s"))
    return table(" | seek | rotation | transfer | commands | computer | together", rows)


# What a file may be


SPARSE_IMAGE = next(each for each in SIGNATURES if each.reader == "sparse-image")

FORMS = (
    ("raw image, device", "read", "a partition map or a volume", ""),
    ("raw image in parts", "read", "names with .001, .002 … or .aa, .ab …", ""),
    ("zstd, gzip, xz or bzip2 file", "read", "its first bytes; what it holds is looked at again", ""),
    ("Apple disk image (UDIF, .dmg)", "read", "its trailer: at the end, in the last 64 KiB, or at the start", ""),
    ("Apple disk image in segments (.dmgpart)", "named", "its trailer", SPARSE_IMAGE.advice),
    ("sparse bundle", "read", "a folder with bands/, Info.plist or Info.bckup", ""),
    ("encrypted Apple disk image", "read", "`encrcdsa` at byte 0; needs its password and the extra `crypto`", ""),
    (
        "encrypted Apple disk image before Mac OS X 10.5",
        "read",
        "`cdsaencr` at byte 504 of the last 512; needs its password and the extra `crypto`",
        "",
    ),
    ("encrypted sparse bundle", "read", "its file token; needs its password and the extra `crypto`", ""),
    ("Parallels disk (folder .hdd)", "read", "DiskDescriptor.xml; with snapshots or encrypted it is named", ""),
    ("fixed Virtual PC disk (vhd)", "read", "the disk in it: it is a raw image with a footer", ""),
    ("MacBinary file", "read", "its header and the checksum of that", ""),
    ("Disk Copy 4.2 image", "read", "its header and the length of the file", ""),
    ("IM4P file", "read", "a sequence in DER; a payload that is compressed or encrypted is named", ""),
    ("list of CD tracks (.cue)", "read", "the words FILE and TRACK; the file is in the same folder", ""),
    ("AFF4 image", "named", "container.description or information.turtle in a zip archive", AFF4.advice),
    ("GPT, Apple partition map, MBR", "read", "its entries", ""),
    ("member of an AppleRAID mirror", "read", "the header of a member, at its end or its start", ""),
    (
        "member of an AppleRAID stripe or concatenation",
        "named",
        "the header of a member; of the first member of a concatenation, what is there is read",
        "image the set's own device on a Mac that has all of its members",
    ),
    (
        "CoreStorage, FileVault 2",
        "read",
        (
            "the header of its physical volume; needs the extra `crypto`, and FileVault 2 its password; a logical "
            "volume in several pieces or on several disks is named"
        ),
        "",
    ),
    (
        "ext2 to ext4, XFS, btrfs, squashfs, NTFS, ReFS, exFAT, FAT, BitLocker, LUKS, Linux LVM, ISO 9660",
        "named",
        "its superblock or boot sector",
        "",
    ),
)
"""Other images, maps and volumes that are recognized, with what for and what to do where they are not read."""

CLASSIC = ("classic HFS", "named", "its master directory block", "read it with hfsutils")
STATES = ("read", "named", "refused")


def containers() -> str:
    """Return what a file may be, whether it is read, and what to do if not; one row for signatures of one name."""
    rows = [*FORMS, CLASSIC]
    known = {name for name, *_ in FORMS}
    for name, same in groupby((each for each in SIGNATURES if each.name not in known), lambda each: each.name):
        each = list(same)
        state = "read" if each[0].reader else "refused" if each[0].code == "encrypted-image" else "named"
        advice = "" if state == "read" else each[0].advice
        rows.append((name, state, " or ".join(map(_recognition, each)), advice))
    rows.sort(key=lambda row: STATES.index(row[1]))
    # The search of the pages would lead "image" here.
    return table("what | state | recognised by | advice", [(row[0].replace(" image", ""), *row[1:]) for row in rows])


def _recognition(signature: Signature) -> str:
    text = signature.magic.rstrip(b"\0")
    shown = f"`{text.decode()}`" if text.isascii() and text.decode().isprintable() else f"`{signature.magic.hex(' ')}`"
    if signature.head_offset is None:
        return f"{shown} at byte {signature.trailer_offset} of the last 512"
    return f"{shown} at byte {signature.head_offset}"
