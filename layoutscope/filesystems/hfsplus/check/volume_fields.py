"""Rules of the volume header's fields, and of catalog records' fields, that no other structure is counted for.

TN1150, "Volume Header" and "Catalog File". Free are the dates but that of creation, hints (next allocation), the write
count, and the Finder's words: nothing on the volume tells what they must be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.hfsplus import DIRECTORY_LINKS_DIRECTORY, FILE_LINKS_DIRECTORY
from layoutscope.filesystems.hfsplus.check.forks import FORKS, fork_arrays
from layoutscope.filesystems.hfsplus.check.headers import SPECIAL_FILES
from layoutscope.filesystems.hfsplus.check.links import home_of
from layoutscope.filesystems.hfsplus.records.links import bear_a_links_type
from layoutscope.filesystems.hfsplus.volume.volume import HEADER_OFFSET, alternate_header, read_at
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.fieldrules import FieldRule, Structures, Want, bits_set, check_fields, equals, rules
from layoutscope.ondisk.records import HFSPLUS_VOLUME_EXTENT_DESCRIPTOR, VOLUME_HEADER

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Mask
    from layoutscope.filesystems.hfsplus.check.catalog import CatalogRecords
    from layoutscope.filesystems.hfsplus.check.subject import Subject

FLAG = grammar.HfsplusCatalog.CatalogFlag
_WORD_BITS: Final = 64
_FAR_ENCODINGS: Final = {140: 49, 152: 48}
"""Bits of text encodings whose numbers are too large to be bits (TN1150, "Volume Header", encodingsBitmap)."""
_MODE = grammar.HfsplusCatalog.ModeType
_DEVICES: Final = (int(_MODE.character_device), int(_MODE.block_device))


@frozen
class _VolumeFacts:
    """What the rest of the volume says of its header.

    Attributes
    ----------
    block_size_bytes, num_blocks : int
        The volume's geometry.
    create_date : int or None
        That of the copy, where there is one.
    encodings : int
        Bits of the encodings that names are in.
    """

    block_size_bytes: int
    num_blocks: int
    create_date: int | None
    encodings: int

    def whole_blocks(self) -> Want:
        size = self.block_size_bytes
        return Want(lambda found: found % found.dtype.type(size) == 0, f"a multiple of {size}")

    def modest(self) -> Want:
        # Of a volume of a few blocks a quarter would be less than the block that a clump has at the least.
        most = max(self.num_blocks // 4, 1) * self.block_size_bytes
        return Want(lambda found: found <= most, f"at most {most}")

    def of_copy(self) -> Want | None:
        return None if self.create_date is None else equals(self.create_date)


_CLUMPS: Final = (VOLUME_HEADER.len_rsrc_clump, VOLUME_HEADER.len_data_clump)
_SPECIAL_CLUMPS: Final = (
    VOLUME_HEADER.allocation_file.len_clump,
    VOLUME_HEADER.extents_file.len_clump,
    VOLUME_HEADER.catalog_file.len_clump,
    VOLUME_HEADER.attributes_file.len_clump,
)

VOLUME_HEADER_RULES: Final[tuple[FieldRule[_VolumeFacts], ...]] = (
    *rules(
        "alternate-header-differs",
        "TN1150, Volume Header; fsck_hfs: the copy serves where the dates differ",
        (VOLUME_HEADER.create_date, _VolumeFacts.of_copy, "the date by which the volume is told is not its copy's"),
    ),
    *rules(
        "clump-size-invalid",
        "TN1150, Volume Header; fsck_hfs: E_InvalidClumpSize",
        *((field, _VolumeFacts.whole_blocks, "a clump is no whole number of blocks") for field in _CLUMPS),
        *((field, _VolumeFacts.whole_blocks, "a clump is no whole number of blocks") for field in _SPECIAL_CLUMPS),
        *((field, _VolumeFacts.modest, "a clump is more than a quarter of the volume") for field in _SPECIAL_CLUMPS),
    ),
    *rules(
        "encodings-differ",
        "TN1150, Volume Header, encodingsBitmap; fsck_hfs: E_VolumeHeaderDamaged",
        (
            VOLUME_HEADER.encodings_bitmap,
            lambda facts: bits_set(facts.encodings),
            "a name is in an encoding without bit",
        ),
    ),
)
"""Rules of the volume header."""


def check_volume_fields(subject: Subject) -> None:
    """Fields of the volume header agree with its copy, its blocks and the names."""
    volume = subject.volume
    copy = alternate_header(volume)
    facts = _VolumeFacts(
        volume.block_size_bytes,
        int(volume.header.num_blocks),
        None if copy is None else int(copy.create_date),
        0 if subject.catalog is None else _encodings(subject.catalog),
    )
    if any(item.code == "volume-header-invalid" for item in volume.log.findings):
        return
    data = np.frombuffer(read_at(volume.source, HEADER_OFFSET, VOLUME_HEADER.width, "volume header"), np.uint8)
    structures = Structures(VOLUME_HEADER, data, np.zeros(1, np.int64), volume.decoder)
    check_fields(
        structures, VOLUME_HEADER_RULES, facts, lambda _, plus: volume.log.at("volume header", HEADER_OFFSET + plus)
    )


def _encodings(catalog: CatalogRecords) -> int:
    found = np.unique(np.concatenate([catalog.files["text_encoding"], catalog.folders["text_encoding"]])).tolist()
    bits = {_FAR_ENCODINGS.get(number, number) for number in found}
    return sum(1 << bit for bit in bits if bit < _WORD_BITS)


def check_flags(subject: Subject) -> None:
    """Flags of files and folders are those of their kind."""
    catalog = subject.catalog
    if catalog is None:
        return
    folders, files = catalog.folders, catalog.files
    # Folders always have a thread, so that the flag of files that have one means nothing for them (TN1150, "Catalog
    # Folder Records"; fsck_hfs: E_CatalogFlagsNotZero).
    odd = folders["flags"] & (int(FLAG.locked) | int(FLAG.thread)) != 0
    for place in subject.cases("flags-invalid", np.flatnonzero(odd), "catalog folders"):
        catalog.field(int(folders["row"][place]), "flags").add(
            "flags-invalid",
            "error",
            "a folder has flags of files",
            expected="neither locked nor with a thread",
            found=f"{int(folders['flags'][place]):#06x}",
        )
    stray = files["has_link_chain"] & ~_may_have_links(catalog)
    for place in subject.cases("flags-invalid", np.flatnonzero(stray), "catalog files"):
        catalog.field(int(files["row"][place]), "flags").add(
            "flags-invalid",
            "error",
            "a file that is no hard link is in a chain of links",
            found=f"{int(files['flags'][place]):#06x}",
        )


def check_plain_files(subject: Subject) -> None:
    """Files outside of the private folder count one link (fsck_hfs: E_FileLinkCountError)."""
    catalog = subject.catalog
    if catalog is None:
        return
    files = catalog.files
    # The field is the number of a device, of an inode, or a count of links, as the record's kind has it.
    is_device = np.isin(files["permissions.file_type"], _DEVICES)
    wrong = (files["permissions.special"] > 1) & ~is_device & ~_may_have_links(catalog)
    for place in subject.cases("link-count-differs", np.flatnonzero(wrong), "catalog files"):
        catalog.field(int(files["row"][place]), "permissions.special").add(
            "link-count-differs",
            "error",
            "a file with one name counts several links",
            expected="at most 1",
            found=int(files["permissions.special"][place]),
        )


def _may_have_links(catalog: CatalogRecords) -> Mask:
    """Say which files bear the type of links, of whatever date, or lie in a private folder.

    One of another date is a plain file to a driver, and its number was not made by one: fsck_hfs looks at the type.
    """
    homes = [home_of(catalog, name) for name in (FILE_LINKS_DIRECTORY, DIRECTORY_LINKS_DIRECTORY)]
    files = catalog.files
    of_files, of_folders = bear_a_links_type(
        files["user_info.file_type"], files["user_info.file_creator"], files["has_link_chain"]
    )
    found: Mask = of_files | of_folders | np.isin(catalog.parent_id[files["row"]], homes)
    return found


def check_unused_extents(subject: Subject) -> None:
    """Extents that are not used are zero and stand behind all others (fsck_hfs: E_ExtEnt)."""
    for cnid, name in SPECIAL_FILES.items():
        fork = getattr(subject.volume.header, name)
        starts = np.array([[int(extent.start_block) for extent in fork.extents]])
        counts = np.array([[int(extent.num_blocks) for extent in fork.extents]])
        for _, slot, field in _odd_extents(starts, counts):
            plus = slot * HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width
            at = HEADER_OFFSET + VOLUME_HEADER.offset_of(f"{name}.extents.{field}") + plus
            message = f"extent {slot} of the file of CNID {cnid} is half empty, or stands behind an empty one"
            subject.volume.log.at("volume header", at).add("extents-invalid", "error", message)
    catalog, overflow = subject.catalog, subject.overflow
    for name in FORKS.values() if catalog is not None else ():
        assert catalog is not None  # noqa: S101  (for the type checker)
        odd = _odd_extents(*fork_arrays(catalog, name))
        for case in subject.cases("extents-invalid", np.arange(len(odd)), "catalog files"):
            row, slot, field = odd[case]
            message = (
                f"extent {slot} of file {catalog.files['file_id'][row]} is half empty, or stands behind an empty one"
            )
            log = catalog.field(int(catalog.files["row"][row]), f"{name}.extents.{field}#{slot}")
            log.add("extents-invalid", "error", message)
    if overflow is not None:
        # Of those before a used one the check of overflow records tells.
        odd = _odd_extents(overflow.starts, overflow.counts)
        odd = [(row, slot, field) for row, slot, field in odd if not overflow.counts[row, slot:].any()]
        for case in subject.cases("extents-invalid", np.arange(len(odd)), "extents-overflow records"):
            row, slot, field = odd[case]
            overflow.field(row, f"data.extents.{field}#{slot}").add(
                "extents-invalid", "error", f"extent {slot} has a start but no blocks", expected=0
            )


def _odd_extents(starts: I64, counts: I64) -> list[tuple[int, int, str]]:
    """Row, slot and field of the first extent of each row with a start but no blocks, or behind an empty one."""
    half = (starts != 0) & (counts == 0)
    behind = np.zeros(counts.shape, np.bool_)
    behind[:, 1:] = (counts[:, 1:] > 0) & (counts[:, :-1] == 0)
    odd = half | behind
    rows = np.flatnonzero(odd.any(axis=1))
    slots = odd.argmax(axis=1)[rows]
    fields = np.where(half[rows, slots], "start_block", "num_blocks")
    return list(zip(rows.tolist(), slots.tolist(), fields.tolist(), strict=True))
