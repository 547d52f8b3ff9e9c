"""Reader of APFS (Apple File System Reference) into tables, and the finding codes that only it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.findings import declare

if TYPE_CHECKING:
    from collections.abc import Mapping

CODES: Final[Mapping[str, str]] = declare(
    {
        "tree-unreadable": "The root of an APFS tree cannot be used; nothing of the tree is known.",
        "node-missing": "An APFS node cannot be found or is outside the image; its records are missing.",
        "record-invalid": "An APFS record is of an unknown type or contradicts its own lengths; it was left out.",
        "checkpoint-invalid": "An APFS checkpoint or superblock copy cannot be used; another one was taken.",
        "superblock-older": "The APFS superblock in block 0 is older than the checkpoint, as after a crash.",
        "volume-unreadable": "An APFS volume cannot be opened; the container's other volumes were read.",
        "volume-locked": "An APFS volume is encrypted and was not unlocked; what needs no key is shown.",
        "spaceman-invalid": "The APFS space manager contradicts itself; free space may be incomplete.",
        "inode-missing": "An APFS directory entry names an inode that does not exist.",
        "count-differs": "A number in an APFS superblock or tree differs from what was counted.",
        "fusion-half": "Half of an APFS Fusion set is missing; its data is not read.",
        "seal-broken": "The seal of an APFS volume is broken.",
        "node-header-differs": "The head of an APFS node contradicts its tree; its records were read.",
        "record-differs": "APFS records that describe the same object do not agree.",
        "extent-invalid": "Extents of APFS files are empty, odd, leave gaps or are outside.",
        "reference-differs": "APFS extent references differ from the extents that refer to them.",
        "snapshot-differs": "The places that describe the snapshots of an APFS volume do not agree.",
        "superblock-differs": "A field of an APFS superblock contradicts what was read.",
        "reaper-differs": "A field of the APFS reaper contradicts its checkpoint, or an idle reaper is not empty.",
        "object-map-differs": "An entry of an APFS object map contradicts the object it leads to.",
        "name-hash-differs": "The hash in an APFS directory record is not that of its name.",
        "container-changed": "An APFS container was written while it was read: what was read is of no single state.",
        "volume-hardware-locked": "The keys of an APFS volume are bound to the hardware that made them.",
    },
    absent=("fusion-half",),
)

# Cased letters newer than Unicode 9, whose tables APFS and Linux's driver use: Georgian capitals, Latin letters of
# Unicode 11 and later, Vithkuqi, Garay, Medefaidrin.
_LATER: Final = "([\u1c89-\u1cbf\u2c2f\ua7b8-\ua7f5\U00010570-\U00010595\U00010d50-\U00010d65\U00016e40-\U00016e5f]+)"


def compared_form(name: str, *, folded: bool) -> str:
    """Return the form of a name for comparison and hashing: decomposed, and folded if case does not count.

    Unicode 11 introduced Georgian capitals: on a volume they are different letters from the small ones.

    >>> [compared_form(name, folded=True) for name in ("\u04d8\u0421", "\u1c90")]
    ['әс', 'Ა']
    """
    import re
    import unicodedata

    text = unicodedata.normalize("NFD", name)
    if not folded:
        return text
    parts = re.split(_LATER, text)
    parts[::2] = [part.casefold() for part in parts[::2]]
    return unicodedata.normalize("NFD", "".join(parts))
