"""Tables of docs/reference/features.md, made from the tables of bits that the readers have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.filesystems.apfs.features import FEATURE_FIELDS as APFS
from layoutscope.filesystems.hfsplus.features import FEATURE_FIELDS as HFSPLUS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.traits import FeatureField

FIELDS = {"apfs": APFS, "hfsplus": HFSPLUS}


def tables(filesystem: str) -> None:
    """Print the tables of a file system, a field each."""
    print("\n".join(line for table in FIELDS[filesystem] for line in _table(table)))  # noqa: T201  (cog takes it)


def _table(table: FeatureField) -> Iterator[str]:
    yield f"### {table.title}\n\n`{table.original}`. {table.unknown}\n"
    if not table.features:
        yield "None is published.\n"
        return
    yield "| value | name | meaning for reading | finding |\n|--:|---|---|---|"
    for item in table.features:
        name = item.bit.name.replace("_", "-")
        finding = f"[`{item.code}`](findings.md), error" if item.code else ""
        yield f"| {int(item.bit):#x} | `{name}` | {item.meaning} | {finding} |"
    yield ""
