"""A file system as small as one can be that is found, read, checked, walked, mapped and drawn.

Blocks have 4096 bytes. Block 0: magic, number of blocks, number of table
blocks, block of the map. The map: number of each table block. Table blocks: 64 records each, one a file: its directory,
length in bytes, first block (0: it is a directory itself), name. File n has the number 16 + n, the root is 2.
"""

from __future__ import annotations

import struct

import numpy as np

from layoutscope.access.driver import Costs, Driver, DriverProperties
from layoutscope.errors import FormatError
from layoutscope.filesystems.content import Content
from layoutscope.filesystems.contract import Checked, PlainView
from layoutscope.filesystems.traits import ReadOption, Traits, TreeTraits
from layoutscope.findings import Finding, declare
from layoutscope.tables import NULL_ROW, VolumeFacts, VolumeLayout, build_table, findings_table

BLOCK, MAGIC = 4096, b"TOYFILES"
HEADER, RECORD = struct.Struct("<8sIII"), struct.Struct("<IIQ48s")


def mounted(_facts, nodes, _entries):
    """Read the map at the mount, and search nothing."""
    return np.empty(0, np.int32), np.flatnonzero(nodes.tree == nodes.tree_code("map")).astype(np.int32)


class Toy:
    """What :class:`layoutscope.filesystems.contract.FileSystem` asks for."""

    name = "toyfs"
    traits = Traits(
        labels=("ToyFS",),
        trees=(
            TreeTraits("table", "file table", "main", is_walked=True, words="The file table"),
            TreeTraits("map", "table map", "map", is_walked=True),
        ),
        stamp_word="mount count",
        options=(ReadOption("first_file", "number", "only files from this number on.", default=16),),
        finding_codes=declare({"toy-file-outside": "A file ends after the last block of its volume (ToyFS)."}),
        mbr_types=("type 0x7f",),
        maps_every_node=True,
    )
    hosts = dict.fromkeys(
        ("linux", "macos"),
        DriverProperties(Costs(list_us=1.0, bulk_entry_us=7.0, stat_us=7.0, search_us=0.0, node_us=10.0)),
    )
    host_sources = {"toyfs": ("made up", "made up")}  # noqa: RUF012  (a mapping that nobody changes)

    def probe(self, stretch, *, thorough=False):  # noqa: ARG002  (there is no copy of its header)
        """Tell a volume by its first bytes."""
        is_toy = stretch.size_bytes >= BLOCK and stretch.read(0, len(MAGIC)) == MAGIC
        return Content(self.name, "ToyFS", 0, stretch.size_bytes) if is_toy else None

    def find_in(self, stretch, data, offset):  # noqa: ARG002  (its magic is too weak to be looked for everywhere)
        """Find nothing where no map leads."""
        return []

    def read(self, request):
        """Read the header, the map, each block of the table, and make the tables of them."""
        source, at = request.source, request.image_offset
        magic, num_blocks, num_tables, map_block = HEADER.unpack(source.read(at, HEADER.size))
        if magic != MAGIC:
            raise FormatError("no file system", structure="header", image_offset=at, expected="TOYFILES", found="")
        places = at + BLOCK * np.frombuffer(source.read(at + BLOCK * map_block, 4 * num_tables), "<u4").astype(np.int64)
        table = b"".join(source.read(place, BLOCK) for place in places.tolist())
        skipped = request.options.get("first_file", 16) - 16
        files = [(number, *record) for number, record in enumerate(RECORD.iter_unpack(table)) if record[0]][skipped:]
        number, parent, size, first, name = (np.array(column) for column in zip(*files, strict=True))
        is_file, volume, leaf = first > 0, request.first_volume, (1 + number // 64).astype(np.uint32)
        names = [text.decode() for text in name.tolist()]
        facts = VolumeFacts(
            self.name, "ToyFS", volume, "toy", "", request.stack, at, num_blocks * BLOCK, BLOCK, True, 1,
            int(is_file.sum()), int((~is_file).sum()), metadata_known_bytes=len(table), metadata_read_bytes=len(table),
        )  # fmt: skip
        row = np.arange(1 + num_tables, dtype=np.uint32)
        nodes = {
            "device": 0, "volume": volume, "tree": ((row > 0).astype(np.int64), ("map", "table")), "node_id": row,
            "image_offset": np.concatenate([[at + BLOCK * map_block], places]), "size_bytes": BLOCK, "level": 0,
            "kind": "leaf", "num_records": 64, "used_bytes": BLOCK, "free_bytes": 0, "parent_row": None,
            "key_rank": np.maximum(row, 1) - 1, "first_key_id": 0, "last_key_id": 0, "state": "live",
            "locator_row": np.where(row > 0, 0, NULL_ROW).astype(np.uint32), "valid": "structure",
        }  # fmt: skip
        entries = {
            "volume": volume, "parent_id": parent, "file_id": 16 + number, "name": names, "name_raw": name.tolist(),
            "kind": (is_file.astype(np.int64), ("directory", "file")), "size_bytes": size, "link_count": 1,
            "create_time": None, "modify_time": None, "flags": 0, "entry_rank": number, "entry_node_row": leaf,
            "inode_node_row": leaf,
        }  # fmt: skip
        extents = {
            "device": 0, "volume": volume, "file_id": 16 + number[is_file], "fork": "data", "logical_offset": 0,
            "image_offset": at + BLOCK * first[is_file].astype(np.int64), "node_row": leaf[is_file], "flags": 0,
            "length_bytes": -(-size[is_file] // BLOCK) * BLOCK,
        }  # fmt: skip
        made = {"nodes": nodes, "entries": entries, "extents": extents}
        tables = {
            key: build_table(key, made.get(key, {})) for key in ("nodes", "entries", "extents", "regions", "free")
        }
        fragments, findings = build_table("node_fragments", {}), findings_table([])
        return [VolumeLayout(facts=facts, node_fragments=fragments, findings=findings, **tables)]

    def check(self, request, layouts):
        """Say which files end behind the last block."""
        end = layouts[0].facts.image_offset + layouts[0].facts.size_bytes
        extents = layouts[0].extents
        lost = extents.filter(extents["image_offset"] + extents["length_bytes"] > end)["file_id"].to_list()
        said = "the file ends behind the volume"
        found = [Finding("toy-file-outside", "error", f"file {file}", request.image_offset, said) for file in lost]
        return [Checked(tuple(found), num_rules=1)]

    def explained(self, findings, volumes=()):  # noqa: ARG002  (nothing is assigned to volumes)
        """Return them as they are: nothing brings anything else along."""
        return tuple(findings)

    def view(self, request, layout):  # noqa: ARG002  (bytes are not decrypted)
        """Show the bytes in their order on disk."""
        return PlainView(request.source)

    def is_second(self, request):  # noqa: ARG002  (none of any)
        """Know of one image alone."""
        return False

    def states(self, request):  # noqa: ARG002  (none of any)
        """Keep no older states."""
        return []

    def remade(self, layout):  # noqa: ARG002  (nobody formats a disk with it)
        """Return nothing."""
        return

    def copied(self, layout, host):  # noqa: ARG002  (nobody copies to it)
        """Return nothing."""
        return ()

    def written_by(self, layout):  # noqa: ARG002  (the interface has it)
        """Linux: no other system knows it."""
        return "linux"

    def driver(self, host):
        """Do nothing odd; the map is read at the mount."""
        return Driver(costs=host.properties_of(self.name, self.hosts).costs, mounted=mounted)


TOY = Toy()
