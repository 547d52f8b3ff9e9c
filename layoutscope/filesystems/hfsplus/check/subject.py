"""What a check looks at: everything that was read of a volume, and surveys of its trees, made when first needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.hfsplus.check.attributes import AttributeRecords, read_attributes
from layoutscope.filesystems.hfsplus.check.catalog import CatalogRecords, read_catalog
from layoutscope.filesystems.hfsplus.check.hotfilerecords import HotFileRecords, read_hot_file_records
from layoutscope.filesystems.hfsplus.check.overflow import OverflowRecords, read_overflow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.arrays.columns import I64
    from layoutscope.filesystems.hfsplus.check.located import Survey
    from layoutscope.filesystems.hfsplus.contents import Contents
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

MOST_CASES: Final = 100
"""So many cases of one kind are listed, each with its address; the others are counted."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A volume under check.

    Attributes
    ----------
    volume : Volume
        The volume, which collects findings.
    contents : Contents
        What a scan reads of it.
    surveys : dict of str to Survey
        Every tree by its name.
    catalog, attributes, overflow, hot_files
        The records of these trees; None where the tree is absent or lost.
    """

    volume: Volume
    contents: Contents
    surveys: dict[str, Survey]
    catalog: CatalogRecords | None
    attributes: AttributeRecords | None
    overflow: OverflowRecords | None
    hot_files: HotFileRecords | None = None

    def cases(self, code: str, rows: I64, noun: str) -> Iterator[int]:
        """Yield the first cases of a kind, and report how many more there are.

        Parameters
        ----------
        code : str
            Of the finding about the others.
        rows : (n,) int64 array
            All cases.
        noun : str
            What the others are named by in that finding.

        Yields
        ------
        int
            Up to ``MOST_CASES`` of the rows.
        """
        yield from rows[:MOST_CASES].tolist()
        if len(rows) > MOST_CASES:
            message = f"{len(rows) - MOST_CASES:,} further cases of the same kind"
            self.volume.log.at(noun).add(code, "warning", message)


def survey_volume(volume: Volume, contents: Contents) -> Subject:
    """Read all trees of a volume record by record."""
    trees = contents.trees
    catalog = read_catalog(volume, trees["catalog"]) if "catalog" in trees else None
    attributes = read_attributes(volume, trees["attributes"]) if "attributes" in trees else None
    overflow = read_overflow(volume, trees["extents-overflow"]) if "extents-overflow" in trees else None
    hot_files = read_hot_file_records(volume, trees["hot-files"]) if "hot-files" in trees else None
    read = (catalog, attributes, overflow, hot_files)
    surveys = {part.survey.name: part.survey for part in read if part is not None}
    return Subject(volume, contents, surveys, catalog, attributes, overflow, hot_files)
