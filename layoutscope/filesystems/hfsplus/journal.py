"""The journal: its location, whether it holds transactions, and their replay in memory.

TN1150, "Journal". Block checksums and sequence numbers follow XNU, vfs_journal.h. The journal is in the byte order of
its writer. Its buffer is circular: it starts after the journal header and wraps around at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus.volume import Overlay, read_at
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import starts_of
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.checksum import journal_checksums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.contract import VolumeRequest
    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.findings import Level
    from layoutscope.structs.arrays import I64, U8
    from layoutscope.structs.grammar import HfsplusJournal
    from layoutscope.structs.recordtypes import RecordType

    JournalHeader = HfsplusJournal.JournalHeaderBe | HfsplusJournal.JournalHeaderLe


HEADER: Final = records.JOURNAL_HEADER_BE
INFO: Final = records.JOURNAL_INFO_BLOCK
HEADER_BYTES: Final = HEADER.width
LIST: Final = records.BLOCK_LIST_HEADER_BE
LIST_BYTES: Final = LIST.width
BLOCK_INFO_BYTES: Final = records.BLOCK_INFO_BE.width


MOUNTED_WITH_JOURNAL: Final = 0x4846534A
"""The four letters HFSJ; disabling the journal writes 10.0 instead (Apple: ``hfs_flushvolumeheader``)."""


class Journal(Struct, frozen=True):
    """A journal on this volume."""

    info_offset: int  # location of the journal info block, in bytes from the start of the volume
    # journal_offset, size_bytes: location of the journal, both header and buffer
    journal_offset: int
    size_bytes: int
    header: JournalHeader | None  # its header, in either byte order; None if it is damaged or was never written
    is_little_endian: bool  # byte order

    @property
    def num_pending_bytes(self) -> int:
        """Bytes of transactions that were not yet written to their final locations."""
        if self.header is None or self.header.ofs_start == self.header.ofs_end:
            return 0
        # The ring starts after the journal's header: it wraps around to the end of the header, not to byte 0.
        length = int(self.header.ofs_end) - int(self.header.ofs_start)
        return length if length > 0 else length + int(self.header.len_journal) - int(self.header.len_header)


def is_applied(request: VolumeRequest) -> bool:
    """Return whether pending transactions in the journal should be applied, as a mount would."""
    return not request.options.get("no_journal", False)


def find_journal(volume: Volume) -> Journal | None:
    """Locate the journal of a journaled volume; return None if there is none."""
    if not volume.header.is_journaled:
        was_journaled = int(volume.header.last_mounted_version) == MOUNTED_WITH_JOURNAL
        if volume.header.journal_info_block and was_journaled:
            message = (
                "the volume is called not journaled, and was last mounted with its journal, which may hold changes"
            )
            volume.header_field("attributes").add("journal-invalid", "error", message)
        return None
    at = int(volume.header.journal_info_block) * volume.block_size_bytes
    try:
        data = read_at(volume.source, at, INFO.width, "journal info block")
        info = grammar.parse(
            grammar.HfsplusJournal.JournalInfoBlock, data, structure="journal info block", image_offset=at
        )
    except FormatError as error:
        volume.log.survive(error, code="journal-invalid")
        return None
    log, start, size = volume.log.at("journal info block", at), int(info.ofs_journal), int(info.len_journal)
    if message := _find_contradiction(volume, info):
        log.add("journal-invalid", "error", message)
    elif info.is_on_other_device:
        uuid = bytes(info.external_journal_uuid).split(b"\0")[0].decode("ascii", "replace")
        device = uuid or f"signature {' '.join(f'{int(word):08x}' for word in info.device_signature)}"
        # A volume that was not unmounted may depend on the journal for its last changes.
        level: Level = "warning" if volume.header.is_unmounted else "error"
        log.add("journal-external", level, f"the journal is on another device and was not read: {device}")
    # Apple's driver checks this flag first, and looks for another device only if it is clear.
    if not info.is_in_file_system or not _has_place(volume, at, start, size):
        return Journal(at, 0, 0, None, is_little_endian=False)
    if info.needs_initialisation:
        if not volume.header.is_unmounted:
            message = "the journal claims to hold nothing yet, but the volume was not unmounted"
            log.add("journal-invalid", "error", message)
        return Journal(at, start, size, None, is_little_endian=False)
    return Journal(at, start, size, *_read_sound_header(volume, start))


def _find_contradiction(volume: Volume, info: HfsplusJournal.JournalInfoBlock) -> str:
    """Describe how the flags contradict each other or the volume; empty if they do not."""
    if int(info.flags) & ~sum(grammar.HfsplusJournal.JournalInfoFlag):
        return f"the flags {int(info.flags):#x} hold bits that mean nothing"
    if info.is_on_other_device and info.is_in_file_system:
        return "the flags place the journal on this volume and on another device"
    if not info.is_on_other_device and not info.is_in_file_system:
        return "the flags place the journal neither on this volume nor on another device"
    if (info.is_on_other_device or info.needs_initialisation) and is_pending(volume, int(info.ofs_journal)):
        return "the flags say that the journal is elsewhere or empty, but it is here and holds transactions"
    return ""


def _has_place(volume: Volume, at: int, start: int, size: int) -> bool:
    """Return whether a journal is on the volume; if not, report the wrong field of the info block at an offset."""
    if start + HEADER_BYTES > volume.size_bytes:
        field, message, found = "ofs_journal", "the journal is outside the volume", start
    elif size < HEADER_BYTES or start + size > volume.size_bytes:
        field, message, found = "len_journal", "the journal has an impossible size", size
    else:
        return True
    expected = f"an end within {volume.size_bytes} bytes"
    log = volume.log.at("journal info block", at + INFO.offset_of(field))
    log.add("journal-invalid", "error", message, expected=expected, found=found)
    return False


def is_pending(volume: Volume, at: int) -> bool:
    """Return whether there is a sound journal header at an offset that shows pending transactions."""
    try:
        header, _, checksum = _read_header(volume, at)
    except FormatError:
        return False
    return checksum == int(header.checksum) and header.ofs_start != header.ofs_end


def _read_sound_header(volume: Volume, at: int) -> tuple[JournalHeader | None, bool]:
    """Read the journal header, and return it with whether it is little-endian; None if it is damaged."""
    try:
        header, is_little, computed = _read_header(volume, at)
    except FormatError as error:
        volume.log.survive(error, code="journal-invalid")
        return None, False
    if computed == int(header.checksum):
        return header, is_little
    # An impossible start offset is what makes the checksum wrong.
    field, expected, found = "checksum", f"{computed:08x}", f"{int(header.checksum):08x}"
    if not int(header.len_header) <= int(header.ofs_start) <= int(header.len_journal):
        field, expected, found = "ofs_start", f"from {header.len_header} to {header.len_journal}", str(header.ofs_start)
    volume.log.at("journal header", at + HEADER.offset_of(field)).add(
        "journal-invalid", "error", "wrong checksum; the journal is not applied", expected=expected, found=found
    )
    return None, is_little


def _read_header(volume: Volume, at: int) -> tuple[JournalHeader, bool, int]:
    """Read the journal header in the byte order of its magic: the header, whether it is little-endian, its checksum."""
    data = read_at(volume.source, at, HEADER_BYTES, "journal header")
    checksum = _masked_checksum(data, records.JOURNAL_HEADER_CHECKED)
    # Unlike the rest of the volume, the journal has its maker's byte order: little-endian since Intel.
    types = grammar.HfsplusJournal
    try:
        little = grammar.parse(types.JournalHeaderLe, data, structure="journal header", image_offset=at)
    except FormatError:
        return grammar.parse(types.JournalHeaderBe, data, structure="journal header", image_offset=at), False, checksum
    return little, True, checksum


def _masked_checksum(data: bytes, checked: RecordType) -> int:
    """Return the checksum of a structure's checked part, with the checksum field set to zero."""
    part = np.frombuffer(data, np.uint8)[: checked.width].copy()
    start = checked.offset_of("checksum")
    part[start : checked.offset_of("after_checksum")] = 0
    return int(journal_checksums(part.reshape(1, -1))[0])


def replay_journal(volume: Volume, journal: Journal) -> Overlay | None:
    """Apply the journal's transactions in memory; return None if there are none.

    A transaction whose checksums do not match ends the replay, as it does at a mount.
    """
    if not journal.num_pending_bytes or journal.header is None:
        return None
    try:
        blocks, data, num_lists = _read_pending_blocks(volume, journal, journal.header)
    except FormatError as error:
        volume.log.survive(error, code="journal-invalid")
        return None
    if not len(blocks):
        return None
    message = f"{num_lists:,} block lists with {len(blocks):,} blocks were applied in memory"
    volume.log.at("journal", journal.journal_offset).add("journal-replayed", "info", message)
    places, sizes, starts = blocks.T
    return Overlay(volume.source, places, sizes, starts, data)


def report_pending(volume: Volume, journal: Journal) -> None:
    """Report pending transactions that were not applied, if there are any."""
    if journal.num_pending_bytes:
        volume.log.at("journal", journal.journal_offset).add(
            "journal-pending", "info", f"{journal.num_pending_bytes:,} bytes of transactions are not applied"
        )


def _read_pending_blocks(volume: Volume, journal: Journal, header: JournalHeader) -> tuple[I64, U8, int]:
    """Return the blocks of all lists, which are few compared with the metadata, the ring and the number of lists."""
    # The header is not rewritten with every transaction. Transactions after its end count as long as their sequence
    # numbers continue.
    data = unroll_ring(volume, journal, header)
    parts = [np.empty((0, 3), np.int64)]
    start, last = 0, 0
    while start < len(data):
        is_beyond = start >= journal.num_pending_bytes
        found = _read_list(header, data, start, is_little_endian=journal.is_little_endian)
        if isinstance(found, str):
            if not is_beyond:
                _report_invalid(volume, journal.journal_offset, header, found, start)
            break
        blocks, used_bytes, sequence = found
        if is_beyond and not (last and sequence in (last, last + 1)):
            break
        parts.append(blocks)
        start, last = start + used_bytes, sequence
    return np.concatenate(parts), data, len(parts) - 1


def read_copies(volume: Volume, journal: Journal) -> tuple[I64, U8]:
    """Find the blocks in all sound block lists of a journal, whether pending or not, oldest first.

    Return their places on the volume, their sizes and the starts of their contents in the unrolled ring, shape
    (n_blocks, 3), and the ring.
    """
    none, journal_header = np.empty((0, 3), np.int64), journal.header
    if journal_header is None:
        return none, np.empty(0, np.uint8)
    try:
        data = unroll_ring(volume, journal, journal_header)
    except FormatError:
        return none, np.empty(0, np.uint8)
    # Lists may start at sectors of the ring, judging by their counts.
    header = records.BLOCK_LIST_HEADER_LE if journal.is_little_endian else records.BLOCK_LIST_HEADER_BE
    list_size = int(journal_header.len_block_list)
    starts = np.arange(0, max(len(data) - list_size, 0), int(journal_header.len_header), dtype=np.int64)
    fields = (header.num_blocks, header.len_used)
    columns = decode_columns(header, data, starts, fields)
    count, used = (columns[name].astype(np.int64) for name in fields)
    lists: list[tuple[bool, int, I64]] = []
    pending, end = journal.num_pending_bytes, 0
    for start in starts[(count >= 1) & (used >= list_size) & (used <= len(data))].tolist():
        if start < end:
            # Data inside a transaction is a block of some file, even if it looks like a list.
            continue
        found = _read_list(journal_header, data, start, is_little_endian=journal.is_little_endian)
        if not isinstance(found, str):
            # The ring starts with the pending transactions; those after them are older.
            lists.append((start < pending, start, found[0]))
            end = start + found[1]
    lists.sort(key=lambda item: item[:2])
    return np.concatenate([none, *(blocks for *_, blocks in lists)]), data


def unroll_ring(volume: Volume, journal: Journal, header: JournalHeader) -> U8:
    """Return the whole circular buffer, unrolled from the oldest pending transaction on."""
    start, end, size, first = (
        int(value) for value in (header.ofs_start, header.ofs_end, header.len_journal, header.len_header)
    )
    structure = "journal header"
    if not (0 < first <= start < size <= journal.size_bytes and first <= end <= size):
        raise FormatError("impossible places of transactions", structure=structure, image_offset=journal.journal_offset)
    buffer = np.frombuffer(read_at(volume.source, journal.journal_offset + first, size - first, structure), np.uint8)
    return np.roll(buffer, first - start)


def _read_list(
    journal_header: JournalHeader, data: U8, start: int, *, is_little_endian: bool
) -> tuple[I64, int, int] | str:
    """Read one block list, or return a description of what is wrong with it.

    Return place on the volume, size and start of content of each block, the length of the list with its contents, and
    the number of the transaction, which is 0 in old journals.
    """
    header = records.BLOCK_LIST_HEADER_LE if is_little_endian else records.BLOCK_LIST_HEADER_BE
    info = records.BLOCK_INFO_LE if is_little_endian else records.BLOCK_INFO_BE
    list_size, sector = int(journal_header.len_block_list), int(journal_header.len_header)
    if list_size < LIST_BYTES + BLOCK_INFO_BYTES or start + list_size > len(data):
        return "ends early"
    fields = (header.num_blocks, header.len_used, header.checksum, header.has_block_checksums)
    head = decode_columns(header, data, np.array([start]), fields)
    count, used = int(head["num_blocks"][0]), int(head["len_used"][0])
    room = (list_size - LIST_BYTES) // BLOCK_INFO_BYTES
    if not 1 <= count <= room or not list_size <= used <= len(data) - start:
        return "impossible counts"
    checked = data[start : start + records.BLOCK_LIST_CHECKED.width].tobytes()
    if _masked_checksum(checked, records.BLOCK_LIST_CHECKED) != int(head["checksum"][0]):
        return "wrong checksum"
    places = start + LIST_BYTES + BLOCK_INFO_BYTES * np.arange(count, dtype=np.int64)
    infos = decode_columns(info, data, places, (info.bnum, info.bsize, info.cksum))
    sizes = infos["bsize"][1:].astype(np.int64)
    starts = start + list_size + starts_of(sizes)
    if int(sizes.sum()) + list_size > used:
        return "blocks exceed their list"
    if head["has_block_checksums"][0] and not _contents_match(data, sizes, starts, infos["cksum"][1:]):
        return "wrong checksum of a block"
    # The first entry has no block: its checksum field holds the number of the transaction.
    blocks = np.stack([infos["bnum"][1:].astype(np.int64) * sector, sizes, starts], axis=1)
    # A block that was freed later stays in its list with the number -1.
    return blocks[blocks[:, 0] >= 0], used, int(infos["cksum"][0])


def _report_invalid(volume: Volume, at: int, header: JournalHeader, problem: str, start: int) -> None:
    """Report a block list of a journal at an offset; the buffer was unrolled, so its offset must be wrapped again."""
    first, size = int(header.len_header), int(header.len_journal)
    at += first + (int(header.ofs_start) - first + start) % (size - first)
    field = {"wrong checksum": "checksum", "impossible counts": "num_blocks"}.get(problem)
    volume.log.at("journal block list", at + (LIST.offset_of(field) if field else 0)).add(
        "journal-invalid", "error", f"{problem}; the transactions from there on are not applied"
    )


def _contents_match(data: U8, sizes: I64, starts: I64, expected: NDArray[np.uint32]) -> bool:
    """Compare the checksums of blocks, all of one size at once."""
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        if (journal_checksums(data[starts[rows][:, None] + np.arange(size)]) != expected[rows]).any():
            return False
    return True
