"""What each check of a container or a volume needs, and which of them could not be held against all they are about.

A tree with an error is not whole: checks that count or compare its records would find again what follows from that.
They are left out, and named with the reason; all others run.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.contract import Unchecked
from layoutscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.volume.parts import ContainerContents, VolumeParts

_MAPS: Final = ("omap", "omap-snapshots")
_EVERY: Final = ("fs", "fext", "extentref", "snapmeta", *_MAPS)
_FILES: Final = ("fs", "omap")

VOLUME_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("entries", "links", "sibling-links", "directories", "name-hashes"), _FILES),
    **dict.fromkeys(("streams", "stream-sizes", "attributes", "lost-records"), _FILES),
    **dict.fromkeys(("extents", "inodes"), (*_FILES, "fext")),
    **dict.fromkeys(
        ("volume-counts", "references", "reference-owners", "keys", "object-maps", "roots", "states"), _EVERY
    ),
    **dict.fromkeys(("snapshots", "snapshot-records"), ("snapmeta", *_MAPS)),
    "seals": ("fs",),
    # These are about objects of their own, of which reading tells.
    **dict.fromkeys(("map-heads", "superblocks", "integrity-metadata", "volume-identity", "extended-metadata"), ()),
}
"""By the name of each check of a volume the trees that must be whole for it."""

OF_SPACE: Final = frozenset(
    {
        "space-fields",
        "chunk-heads",
        "chunk-checksums",
        "sizes",
        "internal-pool",
        "pool-versions",
        "chunks",
        "free-queues",
        "bitmaps",
    }
)
OF_CLAIMS: Final = frozenset({"double-claims", "file-claims", "bitmaps"})
"""Checks of a container that compare what all volumes claim."""

HALF_ALONE: Final = Unchecked("all rules", "this is half of a set, and the other one leads to all of it")


def unread_trees(parts: VolumeParts) -> dict[str, str]:
    """Say of each tree of a volume that was not read whole why not; of "" what concerns all of them."""
    found: dict[str, str] = {}
    for item in parts.log.findings:
        if item.level == "error":
            tree = re.match(r"([\w-]+) tree", item.structure)
            name = tree[1] if tree and tree[1] in _EVERY else ""
            what = f"the {name} tree" if name else f"the {item.structure}"
            found.setdefault(name, f"{what} has errors ({item.code})")
    # Names, extents of files and all that stands beside them are encrypted together; the maps are not.
    return {"fs": "the volume is locked"} | found if parts.is_locked else found


def reasons(name: str, unread: Mapping[str, str]) -> list[str]:
    """Say why a check of a volume cannot be held against everything; nothing where it can."""
    needs = VOLUME_NEEDS[name]
    return [reason for tree, reason in unread.items() if needs and (not tree or tree in needs)]


def whole_for(subject: Subject, name: str, unread: Mapping[str, str]) -> Subject:
    """Look at the volume of a subject as whole where all is whole that a check needs."""
    return replace(subject, whole=[] if reasons(name, unread) else subject.volumes)


def unchecked_rules(names: Iterable[str], unread: Mapping[str, str]) -> list[Unchecked]:
    """List the checks of a volume that could not be held against everything."""
    return [Unchecked(name, ", ".join(why)) for name in names if (why := reasons(name, unread))]


def unchecked_of_container(
    contents: ContainerContents, subject: Subject, unread: Mapping[int, Mapping[str, str]]
) -> Iterator[Unchecked]:
    """Yield the checks of a container that were not held against everything."""
    lost = contents.num_volumes - len(contents.volumes)
    claims = [f"{format_count(lost, 'volume')} cannot be opened"] if lost else []
    whys = dict.fromkeys(why for volume in unread.values() for why in volume.values())
    claims += [f"of one of its volumes: {why}" for why in whys]
    if subject.container.superblock.is_fusion and len(subject.container.blocks.sources) < len(("main", "second")):
        claims.append("half of the set is missing")
    broken = [item for item in contents.container.log.findings if item.level == "error"]
    claims += [f"the {broken[0].structure} has errors ({broken[0].code})"] if broken else []
    space = ["the space manager cannot be read"] if contents.parts.space is None else []
    for name in sorted(OF_SPACE | OF_CLAIMS):
        why = [*(space if name in OF_SPACE else ()), *(claims if name in OF_CLAIMS else ())]
        if why:
            yield Unchecked(name, ", ".join(why))
