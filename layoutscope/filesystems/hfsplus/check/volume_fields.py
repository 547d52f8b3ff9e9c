"""Rules of the volume header's fields that no other structure is counted for, and of extents that are not used.

TN1150, "Volume Header" and "Fork Data Structure". Free are the dates but that of creation, hints (next allocation), the
write count, and the Finder's words: nothing on the volume tells what they must be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus.check.space import FORKS, SPECIAL_FILES, fork_arrays
from layoutscope.filesystems.hfsplus.volume import HEADER_OFFSET, alternate_header, read_at
from layoutscope.structs import grammar
from layoutscope.structs.fieldrules import (
    NOT_ZERO,
    FieldRule,
    Structures,
    Want,
    at_most,
    bits_set,
    check_fields,
    equals,
    rules,
)
from layoutscope.structs.records import HFSPLUS_VOLUME_EXTENT_DESCRIPTOR, VOLUME_HEADER

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.check.subject import CatalogRecords, Subject
    from layoutscope.structs.arrays import I64, Mask

FAR_ENCODINGS: Final = {140: 49, 152: 48, 126: 0}
"""Bits of text encodings whose numbers are too large to be bits (TN1150, "Volume Header", encodingsBitmap).

126 is Unicode, which macOS writes for names that no other encoding has; it shares the bit of Roman.
"""

ENCODINGS: Final = frozenset({*range(39), *FAR_ENCODINGS})
"""Numbers of the Mac's text encodings (fsck_hfs: ValidMacEncoding)."""


class _VolumeFacts(Struct, frozen=True):
    """What the rest of the volume says of its header."""

    # block_size_bytes, num_blocks: the volume's geometry
    block_size_bytes: int
    num_blocks: int
    version: int  # that of its signature
    create_date: int | None  # that of the copy, where there is one
    encodings: int  # bits of the encodings that names are in
    has_attributes: bool  # whether there is an attributes file
    has_bad_blocks: bool  # whether the extents-overflow tree has extents of the bad-block file
    has_unknown_version: bool  # whether the version is reported already, as one that nobody knows

    def whole_blocks(self) -> Want:
        size = self.block_size_bytes
        return Want(lambda found: found % found.dtype.type(size) == 0, f"a multiple of {size}")

    def modest(self) -> Want:
        # Of a volume of a few blocks a quarter would be less than the block that a clump has at the least.
        most = max(self.num_blocks // 4, 1) * self.block_size_bytes
        return Want(lambda found: found <= most, f"at most {most}")

    def of_attributes(self) -> Want | None:
        return NOT_ZERO if self.has_attributes else None

    def of_signature(self) -> Want | None:
        return None if self.has_unknown_version else equals(self.version)

    def of_bad_blocks(self) -> Want | None:
        # fsck_hfs looks for extents of that file where this bit is set alone (SVerify1.c, BadBlockFileExtentCheck), and
        # would give their blocks to files.
        return bits_set(_SPARED_BLOCKS) if self.has_bad_blocks else None

    def of_volume(self) -> Want:
        return Want(lambda found: found < self.num_blocks, f"less than {self.num_blocks}")

    def of_copy(self) -> Want | None:
        return None if self.create_date is None else equals(self.create_date)


CNID = grammar.HfsplusVolume.Cnid
_SPARED_BLOCKS: Final = int(grammar.HfsplusVolume.VolumeAttribute.spared_blocks)
_HFSPLUS_VERSION, _HFSX_VERSION = 4, 5
_LARGEST_CLUMP: Final = 1 << 20
_HALF: Final = "is half empty, or stands behind an empty one"
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
        *((field, NOT_ZERO, "files would not grow") for field in _CLUMPS),
        # Of the other special files a clump of nothing is passed over.
        (VOLUME_HEADER.attributes_file.len_clump, _VolumeFacts.of_attributes, "the attributes file would not grow"),
        *((field, at_most(_LARGEST_CLUMP), "a clump is larger than drivers make them") for field in _CLUMPS),
        *((field, _VolumeFacts.modest, "a clump is more than a quarter of the volume") for field in _SPECIAL_CLUMPS),
    ),
    *rules(
        "volume-field-invalid",
        "TN1150, Volume Header, nextAllocation; fsck_hfs: E_VolumeHeaderDamaged",
        (VOLUME_HEADER.attributes, _VolumeFacts.of_bad_blocks, "there are bad blocks that the header denies"),
        (VOLUME_HEADER.version, _VolumeFacts.of_signature, "the version is not that of the signature"),
        (VOLUME_HEADER.next_allocation, _VolumeFacts.of_volume, "a block that the volume does not have"),
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
        _HFSX_VERSION if volume.is_hfsx else _HFSPLUS_VERSION,
        None if copy is None else int(copy.create_date),
        0 if subject.catalog is None else _encodings(subject.catalog),
        bool(volume.header.attributes_file.num_blocks),
        subject.overflow is not None and bool((subject.overflow.file_id == CNID.bad_block_file).any()),
        any(item.code == "version-unknown" for item in volume.log.findings),
    )
    if any(item.code == "volume-header-invalid" for item in volume.log.findings):
        return
    data = np.frombuffer(read_at(volume.source, HEADER_OFFSET, VOLUME_HEADER.width, "volume header"), np.uint8)
    structures = Structures(VOLUME_HEADER, data, np.zeros(1, np.int64))
    check_fields(
        structures, VOLUME_HEADER_RULES, facts, lambda _, plus: volume.log.at("volume header", HEADER_OFFSET + plus)
    )


def _encodings(catalog: CatalogRecords) -> int:
    found = np.unique(np.concatenate([catalog.files["text_encoding"], catalog.folders["text_encoding"]])).tolist()
    # A number that is no encoding's has no bit; it is told where it stands.
    return sum(1 << bit for bit in {FAR_ENCODINGS.get(number, number) for number in found if number in ENCODINGS})


def check_unused_extents(subject: Subject) -> None:
    """Extents that are not used are zero and stand behind all others (fsck_hfs: E_ExtEnt)."""
    for cnid, name in SPECIAL_FILES.items():
        fork = getattr(subject.volume.header, name)
        starts = np.array([[int(extent.start_block) for extent in fork.extents]])
        counts = np.array([[int(extent.num_blocks) for extent in fork.extents]])
        for _, slot, field in _odd_extents(starts, counts):
            plus = slot * HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width
            at = HEADER_OFFSET + VOLUME_HEADER.offset_of(f"{name}.extents.{field}") + plus
            message = f"extent {slot} of the file of CNID {cnid} {_HALF}"
            subject.volume.log.at("volume header", at).add("extents-invalid", "error", message)
    catalog, overflow = subject.catalog, subject.overflow
    for name in FORKS.values() if catalog is not None else ():
        assert catalog is not None  # noqa: S101  (for the type checker)
        starts, counts = fork_arrays(catalog, name)
        is_lacking = catalog.files[f"{name}.num_blocks"].astype(np.int64) > counts.sum(axis=1)
        odd = _odd_extents(starts, counts, is_lacking)
        for case in subject.cases("extents-invalid", np.arange(len(odd)), "catalog files"):
            row, slot, field = odd[case]
            owner = f"file {catalog.files['file_id'][row]}"
            log = catalog.field(catalog.files["row"][row], f"{name}.extents.{field}#{slot}")
            log.add("extents-invalid", "error", f"extent {slot} of {owner} {_HALF}")
    if overflow is not None:
        # Of those before a used one the check of overflow records tells.
        odd = _odd_extents(overflow.starts, overflow.counts)
        odd = [(row, slot, field) for row, slot, field in odd if not overflow.counts[row, slot:].any()]
        for case in subject.cases("extents-invalid", np.arange(len(odd)), "extents-overflow records"):
            row, slot, field = odd[case]
            log, message = overflow.field(row, f"data.extents.{field}#{slot}"), "has a start but no blocks"
            log.add("extents-invalid", "error", f"extent {slot} {message}", expected=0)


def _odd_extents(starts: I64, counts: I64, is_lacking: Mask | None = None) -> list[tuple[int, int, str]]:
    """Row, slot and field of the first extent of each row with a start but no blocks, or behind an empty one.

    Where the fork counts more blocks than its extents hold, it is the blocks that an extent with a start lacks.
    """
    half = (starts != 0) & (counts == 0)
    behind = np.zeros(counts.shape, np.bool_)
    behind[:, 1:] = (counts[:, 1:] > 0) & (counts[:, :-1] == 0)
    odd = half | behind
    rows = np.flatnonzero(odd.any(axis=1))
    slots = odd.argmax(axis=1)[rows]
    has_start = half[rows, slots] if is_lacking is None else half[rows, slots] & ~is_lacking[rows]
    fields = np.where(has_start, "start_block", "num_blocks")
    return list(zip(rows.tolist(), slots.tolist(), fields.tolist(), strict=True))
