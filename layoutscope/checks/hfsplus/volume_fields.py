"""Rules of the fields of the volume header that need no count of other structures, and of unused extents.

TN1150, "Volume Header" and "Fork Data Structure". Not checked are dates except that of creation, hints (next
allocation), the write count, and the data of the Finder, because nothing on the volume determines them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.checks.fieldrules import NOT_ZERO, Want, at_most, bits_set, check_fields, equals, rules
from layoutscope.checks.hfsplus.volume import FORKS, SPECIAL_FILES, get_extents
from layoutscope.filesystems.hfsplus.volume import HEADER_OFFSET, alternate_header, read_at
from layoutscope.structs import grammar, records

if TYPE_CHECKING:
    from layoutscope.checks.fieldrules import FieldRule
    from layoutscope.checks.hfsplus.records import CatalogRecords, Subject
    from layoutscope.structs.arrays import I64, U32, Mask

FAR_ENCODINGS: Final = {140: 49, 152: 48, 126: 0}
"""Bits of text encodings whose numbers are too large to be bits (TN1150, "Volume Header", encodingsBitmap).

126 is Unicode, which macOS uses for names that fit no other encoding; it shares the bit of Roman.
"""

ENCODINGS: Final = frozenset({*range(39), *FAR_ENCODINGS})
"""Numbers of the Mac's text encodings (fsck_hfs: ValidMacEncoding)."""

CNID = grammar.HfsplusVolume.Cnid
HEADER: Final = records.VOLUME_HEADER
_SPARED_BLOCKS: Final = int(grammar.HfsplusVolume.VolumeAttribute.spared_blocks)
_HFSPLUS_VERSION, _HFSX_VERSION = 4, 5
_LARGEST_CLUMP: Final = 1 << 20
_HALF: Final = "is half empty, or follows an empty one"
_CLUMPS: Final = (HEADER.len_rsrc_clump, HEADER.len_data_clump)
_SPECIAL_CLUMPS: Final = (
    HEADER.allocation_file.len_clump,
    HEADER.extents_file.len_clump,
    HEADER.catalog_file.len_clump,
    HEADER.attributes_file.len_clump,
)


def make_volume_header_rules(subject: Subject) -> tuple[FieldRule, ...]:
    """Declare the rules of the volume header (TN1150, Volume Header; fsck_hfs).

    Which errors of fsck_hfs: E_InvalidClumpSize of clumps, else E_VolumeHeaderDamaged.
    """
    volume, overflow, header = subject.volume, subject.overflow, subject.volume.header
    size, num_blocks, copy = volume.block_size_bytes, int(header.num_blocks), alternate_header(volume)
    has_bad_blocks = overflow is not None and bool((overflow["key.file_id"] == CNID.bad_block_file).any())
    encodings = 0 if subject.catalog is None else _collect_encodings(subject.catalog)
    whole_blocks = Want(lambda found: found % found.dtype.type(size) == 0, f"a multiple of {size}")
    version = None
    if not any(item.code == "version-unknown" for item in volume.log.findings):
        version = equals(_HFSX_VERSION if volume.is_hfsx else _HFSPLUS_VERSION)
    return (
        # fsck_hfs uses the copy if the dates differ.
        *rules(
            "alternate-header-differs",
            (
                HEADER.create_date,
                None if copy is None else equals(int(copy.create_date)),
                "the date that identifies the volume differs from its copy's",
            ),
            level="error",
        ),
        *rules(
            "clump-size-invalid",
            *(
                (field, whole_blocks, "a clump is not a whole number of blocks")
                for field in (*_CLUMPS, *_SPECIAL_CLUMPS)
            ),
            *((field, NOT_ZERO, "files would not grow") for field in _CLUMPS),
            # For the other special files, a clump of zero is ignored.
            (
                HEADER.attributes_file.len_clump,
                NOT_ZERO if header.attributes_file.num_blocks else None,
                "the attributes file would not grow",
            ),
            *((field, at_most(_LARGEST_CLUMP), "a clump is larger than drivers make them") for field in _CLUMPS),
            # On a volume of few blocks, a quarter is less than one block, the smallest clump.
            *(
                (field, at_most(max(num_blocks // 4, 1) * size), "a clump is more than a quarter of the volume")
                for field in _SPECIAL_CLUMPS
            ),
            level="error",
        ),
        *rules(
            "volume-field-invalid",
            # fsck_hfs looks for extents of that file only if this bit is set (SVerify1.c, BadBlockFileExtentCheck), and
            # would otherwise give their blocks to files.
            (
                HEADER.attributes,
                bits_set(_SPARED_BLOCKS) if has_bad_blocks else None,
                "there are bad blocks that the header denies",
            ),
            (HEADER.version, version, "the version is not that of the signature"),
            (
                HEADER.next_allocation,
                Want(lambda found: found < num_blocks, f"less than {num_blocks}"),
                "a block that the volume does not have",
            ),
            level="error",
        ),
        *rules(
            "encodings-differ",
            (HEADER.encodings_bitmap, bits_set(encodings), "a name is in an encoding without bit"),
            level="error",
        ),
    )


def check_volume_fields(subject: Subject) -> None:
    """Check the fields of the volume header against its copy, its blocks and the names."""
    volume = subject.volume
    declared = make_volume_header_rules(subject)
    if any(item.code == "volume-header-invalid" for item in volume.log.findings):
        return
    data = np.frombuffer(read_at(volume.source, HEADER_OFFSET, HEADER.width, "volume header"), np.uint8)
    at = lambda _, plus: volume.log.at("volume header", HEADER_OFFSET + plus)  # noqa: E731
    check_fields(HEADER, data, np.zeros(1, np.int64), declared, at)


def _collect_encodings(catalog: CatalogRecords) -> int:
    encodings = np.unique(np.concatenate([catalog.files["text_encoding"], catalog.folders["text_encoding"]])).tolist()
    # A number without an encoding has no bit, and is reported at its place.
    return sum(1 << bit for bit in {FAR_ENCODINGS.get(number, number) for number in encodings if number in ENCODINGS})


def check_unused_extents(subject: Subject) -> None:
    """Check that unused extents are zero and follow all others (fsck_hfs: E_ExtEnt)."""
    for cnid, name in SPECIAL_FILES.items():
        fork = getattr(subject.volume.header, name)
        starts = np.array([[int(extent.start_block) for extent in fork.extents]])
        counts = np.array([[int(extent.num_blocks) for extent in fork.extents]])
        for _, slot, field in _find_odd_extents(starts, counts):
            plus = slot * records.HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width
            at = HEADER_OFFSET + HEADER.offset_of(f"{name}.extents.{field}") + plus
            message = f"extent {slot} of the file of CNID {cnid} {_HALF}"
            subject.volume.log.at("volume header", at).add("extents-invalid", "error", message)
    catalog, overflow = subject.catalog, subject.overflow
    for name in FORKS.values() if catalog is not None else ():
        assert catalog is not None  # noqa: S101  (for the type checker)
        starts, counts = get_extents(catalog, name)
        is_lacking = catalog.files[f"{name}.num_blocks"] > counts.sum(axis=1, dtype=np.int64)
        odd = _find_odd_extents(starts, counts, is_lacking)
        for case in subject.cases("extents-invalid", np.arange(len(odd)), "catalog files"):
            row, slot, field = odd[case]
            owner = f"file {catalog.files['file_id'][row]}"
            log = catalog.field(catalog.files["row"][row], f"{name}.extents.{field}#{slot}")
            log.add("extents-invalid", "error", f"extent {slot} of {owner} {_HALF}")
    if overflow is not None:
        # The check of overflow records reports unused extents before a used one.
        starts, counts = (overflow[f"data.extents.{name}"] for name in ("start_block", "num_blocks"))
        odd = [
            (row, slot, field) for row, slot, field in _find_odd_extents(starts, counts) if not counts[row, slot:].any()
        ]
        for case in subject.cases("extents-invalid", np.arange(len(odd)), "extents-overflow records"):
            row, slot, field = odd[case]
            log, message = overflow.field(row, f"data.extents.{field}#{slot}"), "has a start but no blocks"
            log.add("extents-invalid", "error", f"extent {slot} {message}", expected=0)


def _find_odd_extents(
    starts: I64 | U32, counts: I64 | U32, is_lacking: Mask | None = None
) -> list[tuple[int, int, str]]:
    """Find the first extent of each row with a start but no blocks, or after an empty one: row, slot and field.

    If the fork counts more blocks than its extents hold, an extent with a start lacks its blocks.
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
