"""Tiny hand-made layouts, for tests of the code that works on layout tables."""

from __future__ import annotations

from typing import Any

from layoutscope.tables import TreeFacts, VolumeFacts, VolumeLayout, build_table

NODE = 4096


def facts(**changes: Any) -> VolumeFacts:
    """Return the facts of a 1 MiB volume with 4 KiB blocks at the start of its image."""
    plain: dict[str, Any] = {
        "filesystem": "hfsplus",
        "variant": "HFS+",
        "volume": 0,
        "name": "tiny",
        "uuid": "00000000-0000-0000-0000-000000000001",
        "stack": ("bare", "HFS+"),
        "image_offset": 0,
        "size_bytes": 256 * NODE,
        "block_size_bytes": NODE,
        "case_sensitive": False,
        "stamp": 7,
        "num_files": 2,
        "num_directories": 1,
        "trees": (TreeFacts("catalog", NODE, 2, 5, 0, 20, 1),),
        "metadata_known_bytes": 5 * NODE,
        "metadata_read_bytes": 5 * NODE,
    }
    return VolumeFacts(**(plain | changes))


def layout(
    *,
    nodes: dict[str, Any] | None = None,
    fragments: dict[str, Any] | None = None,
    regions: dict[str, Any] | None = None,
    extents: dict[str, Any] | None = None,
    entries: dict[str, Any] | None = None,
    free: dict[str, Any] | None = None,
    findings: dict[str, Any] | None = None,
    **changes: Any,
) -> VolumeLayout:
    """Return a layout of the given tables; the others are empty."""
    return VolumeLayout(
        facts=facts(**changes),
        nodes=build_table("nodes", nodes or {}),
        node_fragments=build_table("node_fragments", fragments or {}),
        regions=build_table("regions", regions or {}),
        extents=build_table("extents", extents or {}),
        entries=build_table("entries", entries or {}),
        free=build_table("free", free or {}),
        findings=build_table("findings", findings or {}),
    )


def leaves(*blocks: int, tree: str = "catalog", **changes: Any) -> dict[str, Any]:
    """Return half-full leaves in key order at these 4 KiB blocks."""
    n = len(blocks)
    plain: dict[str, Any] = {
        "device": 0,
        "volume": 0,
        "tree": tree,
        "node_id": list(range(1, n + 1)),
        "image_offset": [block * NODE for block in blocks],
        "size_bytes": NODE,
        "level": 0,
        "kind": "leaf",
        "num_records": 4,
        "used_bytes": 2000,
        "free_bytes": 2000,
        "parent_row": None,
        "key_rank": list(range(n)),
        "first_key_id": list(range(n)),
        "last_key_id": list(range(n)),
        "state": "live",
        "valid": "structure",
    }
    return plain | changes


def data(*runs: tuple[int, int, int], fork: str = "data") -> dict[str, Any]:
    """Return extents ``(file_id, first block, blocks)`` in fork order; a negative block is a hole."""
    logical, place = [], {}
    for file_id, _, length in runs:
        logical.append(place.get(file_id, 0) * NODE)
        place[file_id] = place.get(file_id, 0) + length
    return {
        "device": 0,
        "volume": 0,
        "file_id": [run[0] for run in runs],
        "fork": fork,
        "logical_offset": logical,
        "image_offset": [run[1] * NODE if run[1] >= 0 else None for run in runs],
        "length_bytes": [run[2] * NODE for run in runs],
        "node_row": 0,
        "flags": 0,
    }


def entries(*rows: tuple[int, int, str, str, int], **changes: Any) -> dict[str, Any]:
    """Return entries ``(parent_id, file_id, name, kind, inode_node_row)``."""
    plain: dict[str, Any] = {
        "volume": 0,
        "parent_id": [row[0] for row in rows],
        "file_id": [row[1] for row in rows],
        "name": [row[2] for row in rows],
        "name_raw": [row[2].encode("utf-16-be", "surrogatepass") for row in rows],
        "kind": [row[3] for row in rows],
        "size_bytes": 0,
        "link_count": 1,
        "create_time": None,
        "modify_time": None,
        "flags": 0,
        "entry_rank": list(range(len(rows))),
        "entry_node_row": [row[4] for row in rows],
        "inode_node_row": [row[4] for row in rows],
    }
    return plain | changes


def listing(made):
    """Return every entry of a volume with its size."""
    return set(made.entries.select("parent_id", "file_id", "name", "kind", "size_bytes").rows())


def file_id(made, *names):
    """Return the number of a file by its path."""
    number = 2
    for name in names:
        found = made.entries.filter((made.entries["parent_id"] == number) & (made.entries["name"] == name))
        number = found["file_id"].item()
    return number


FIND_LETTERS = dict(
    zip(("file", "directory", "symlink", "fifo", "socket", "char-device", "block-device"), "fdlpscb", strict=True)
)
"""Letters that find's ``-printf %y`` prints, by kind."""
