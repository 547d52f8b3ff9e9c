"""What the reader makes of APFS containers with one planted fault each."""

from __future__ import annotations

import mmap
from contextlib import contextmanager

import pytest

from fixtures.apfs.scenarios import PASSWORD
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from fixtures.faults_apfs import FAULTS
from layoutscope.apfs.reader import Options, read_layouts
from layoutscope.errors import LayoutscopeError
from layoutscope.image import open_image

# Contradictions that do not keep anything from being read; finding them is the structure check's work.
NOT_IN_THE_WAY = {
    *("nx-next-xid", "nx-next-oid", "nx-block-zero", "map-type", "map-not-last", "omap-size", "omap-encrypted"),
    *("chunk-checksum", "queue-count", "leaf-type", "omap-leaf-storage", "leaf-flags", "leaf-free-space"),
    *("leaf-key-order", "index-key-order", "extentref-key-order", "index-key", "tree-key-count", "tree-node-count"),
    *("tree-longest-key", "omap-tree-key-count", "volume-xid", "num-files", "num-directories", "num-symlinks"),
    *("num-others", "num-snapshots", "alloc-count", "volume-next-id", "volume-index", "volume-case", "volume-role"),
    *("xattr-flags", "inode-mode", "entry-type", "entry-hash", "inode-parent", "inode-private-id", "sibling-map"),
    *("sibling-parent", "directory-children", "file-links", "stream-references", "extent-outside", "extent-odd"),
    *("extent-empty", "extent-gap", "extent-double", "extent-metadata", "reference-count", "reference-owner"),
    *("reference-kind", "snapshot-name", "snapshot-count", "snapshot-newest", "snapshot-omap"),
}


class Patched:
    """A memory map that can be put back as it was."""

    def __init__(self, memory):
        self.memory = memory
        self.before = []

    def __getitem__(self, key):
        return self.memory[key]

    def __setitem__(self, key, value):
        part = key if isinstance(key, slice) else slice(key, key + 1)
        self.before.append((part.start, bytes(self.memory[part])))
        self.memory[part] = bytes(value) if isinstance(key, slice) else bytes([value])


@pytest.fixture(scope="module")
def victims(tmp_path_factory):
    """Write each victim once; return their images and layouts."""
    folder = tmp_path_factory.mktemp("victims")
    return {name: (folder / name, write(plan, folder / name)) for name, plan in VICTIMS.items()}


@contextmanager
def planted(victims, fault):
    """Plant a fault, and take it out again."""
    path, expected = victims[fault.scenario]
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as memory:
        patched = Patched(memory)
        try:
            fault.apply(patched, expected)
            memory.flush()
            yield path
        finally:
            for start, data in reversed(patched.before):
                memory[start : start + len(data)] = data
            memory.flush()


def outcome(path, scenario, decoder):
    """Read a container; give the findings, or the error in its own words."""
    password = PASSWORD if scenario == "encrypted" else None
    try:
        with open_image(path) as source:
            layouts = read_layouts(source, options=Options(decoder=decoder, password=password))
    except LayoutscopeError as error:
        return [(type(error).__name__, str(error))]
    found = [row for layout in layouts for row in layout.findings.drop("row").rows()]
    unclaimed = layouts[0].facts.details.get("unclaimed blocks", 0)
    return found + ([("unclaimed", unclaimed)] if unclaimed else [])


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_fault_is_survived_alike_by_both_decoders(fault, victims):
    """Whatever is wrong, reading ends in findings or in one of our errors, the same with both decoders."""
    with planted(victims, fault) as path:
        bulk, grammar = (outcome(path, fault.scenario, decoder) for decoder in ("bulk", "grammar"))
    assert bulk == grammar
    assert bulk or fault.name in NOT_IN_THE_WAY


@pytest.mark.parametrize("name", VICTIMS)
def test_victims_are_clean_before(name, victims, decoder):
    """Without the fault there is nothing to find."""
    assert outcome(victims[name][0], name, decoder) == []
