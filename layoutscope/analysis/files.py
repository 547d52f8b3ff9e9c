"""Every entry of a volume with its path, and with what its inode says: what lists of files for other programs need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.access.entries import ROOT_ID
from layoutscope.analysis.owners import MOST_LEVELS
from layoutscope.filesystems.contract import NO_TIME
from layoutscope.frames import pl

if TYPE_CHECKING:
    from layoutscope.filesystems.contract import InodeStats
    from layoutscope.tables import VolumeLayout

STATS: Final = {"mode": pl.UInt16, "user_id": pl.UInt32, "group_id": pl.UInt32}
TIMES: Final = ("access_time", "change_time")
"""Columns that inodes add to those of the table of entries."""

PERMISSIONS: Final = 0o7777
"""The bits of a mode that are no type (POSIX, sys/stat.h)."""


def directory_paths(layout: VolumeLayout) -> dict[int, str]:
    """Spell the path of each directory, that of the root as an empty text.

    A directory that cannot be reached from the root begins with its number, as ``<17>``.
    """
    folders = layout.entries.filter((pl.col("kind") == "directory") & (pl.col("file_id") != ROOT_ID))
    above = {
        int(number): (int(parent), name or f"<{number}>")
        for number, parent, name in folders.select("file_id", "parent_id", "name").iter_rows()
    }
    known = {ROOT_ID: ""}
    for number in above:
        chain: list[int] = []
        place = number
        while place not in known and place in above and len(chain) < MOST_LEVELS:
            chain.append(place)
            place = above[place][0]
        # Directories of a circle hang on none of them.
        if place not in known:
            known[place] = f"<{place}>"
        for each in reversed(chain):
            known.setdefault(each, f"{known[above[each][0]]}/{above[each][1]}")
    return known


def with_paths(layout: VolumeLayout) -> pl.DataFrame:
    """Return the entries with a column ``path``, from the root of the volume on; the root itself is ``/``."""
    known = directory_paths(layout)
    parents = pl.DataFrame(
        {"parent_id": list(known), "above": list(known.values())}, {"parent_id": pl.UInt64, "above": pl.String}
    )
    own = pl.col("name").fill_null(pl.format("<{}>", pl.col("file_id")))
    above = pl.coalesce("above", pl.format("<{}>", pl.col("parent_id")))
    path = pl.when(pl.col("file_id") == ROOT_ID).then(pl.lit("/")).otherwise(pl.format("{}/{}", above, own))
    joined = layout.entries.join(parents, on="parent_id", how="left", maintain_order="left")
    return joined.with_columns(path=path).drop("above")


def with_stats(files: pl.DataFrame, stats: InodeStats | None) -> pl.DataFrame:
    """Put beside entries what their inodes say; null where it is not known.

    Parameters
    ----------
    files : DataFrame
        Rows of the table of entries.
    stats : InodeStats or None
        From their volume; None where it was not read.
    """
    if stats is None:
        empty = {name: pl.lit(None, dtype) for name, dtype in STATS.items()}
        return files.with_columns(**empty, **{name: pl.lit(None, pl.Datetime("us", "UTC")) for name in TIMES})
    found = pl.DataFrame(
        {
            "file_id": stats.file_id,
            **{name: getattr(stats, name) for name in STATS},
            **dict(zip(TIMES, (stats.access_us, stats.change_us), strict=True)),
        }
    ).unique("file_id", keep="first")
    has_mode = pl.col("mode") != 0
    found = found.with_columns(
        *(pl.when(has_mode).then(name).alias(name) for name in STATS),
        *(
            pl.when(pl.col(name) != NO_TIME).then(name).cast(pl.Datetime("us")).dt.replace_time_zone("UTC").alias(name)
            for name in TIMES
        ),
    )
    return files.join(found, on="file_id", how="left", maintain_order="left")
