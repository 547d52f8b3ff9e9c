"""Records of one kind in a batch of nodes: their places, their fields, and findings about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.filesystems.apfs.check.subject import MOST_CASES
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.volume.volume import Volume
    from layoutscope.findings import FindingLog
    from layoutscope.recordtypes import Field, RecordType

INVALID: Final = "record-invalid"


@frozen
class RowTraits:
    """What a volume's superblock says of its records."""

    hashed_names: bool = False  # whether directory keys carry a hash of the name, which then sorts before the name
    is_folded: bool = False  # whether case does not count in names
    is_plain: bool = False  # whether the volume is neither encrypted nor sealed
    next_number: int = 0  # that of the next object


def traits_of(state: Volume | None) -> RowTraits:
    """Say what records of a state are like; of a tree that is no volume's, nothing."""
    if state is None:
        return RowTraits()
    superblock = state.superblock
    is_plain = bool(superblock.is_unencrypted and not superblock.is_sealed)
    is_folded, number = bool(superblock.is_case_insensitive), int(superblock.next_obj_id)
    return RowTraits(bool(superblock.has_hashed_names), is_folded, is_plain, number)


@frozen
class CheckedRows:
    """Records of one kind in a batch."""

    subject: Subject  # the container under check
    batch: ReadNodes  # nodes of a tree
    row: NDArray[np.int64]  # which of the batch's records

    def starts(self, part: str) -> NDArray[np.int64]:
        """Where keys or values start in the batch."""
        found: NDArray[np.int64] = getattr(self.batch.slots, f"{part}_start")[self.row]
        return found

    def lengths(self, part: str) -> NDArray[np.int64]:
        """Bytes of keys or values, as the table of contents says."""
        found: NDArray[np.int64] = getattr(self.batch.slots, f"{part}_len")[self.row].astype(np.int64)
        return found

    def take(self, chosen: NDArray[np.bool_]) -> CheckedRows:
        """Return some of the records."""
        return CheckedRows(self.subject, self.batch, self.row[chosen])

    def at(self, part: str) -> Callable[[int, int], FindingLog]:
        """Bind the log to a byte of a key or value."""
        starts, node = self.starts(part), self.batch.slots.node[self.row]
        return lambda number, plus: self.batch.at(int(node[number]), int(starts[number]) + plus, log=self.subject.log)

    def report(
        self,
        wrong: NDArray[np.bool_],
        part: str,
        message: str,
        sides: tuple[Any, Any] | None = None,
        field: Field | None = None,
    ) -> None:
        """Write down which of the records are wrong."""
        at, plus = self.at(part), 0 if field is None else field.offset
        for number in np.flatnonzero(wrong)[:MOST_CASES].tolist():
            expected, found = ("", "") if sides is None else (sides[0][number], sides[1][number])
            log = at(number, plus)
            log = log if field is None else log.within(str(field))
            log.add(INVALID, "warning", message, expected=expected, found=found)

    def column(self, part: str, record_type: RecordType, field: Any) -> NDArray[Any]:
        """Decode a field of keys or values."""
        decoder = self.batch.tree.source.decoder
        found: NDArray[Any] = decoder.column(record_type, self.batch.buffer, self.starts(part), field)
        return found
