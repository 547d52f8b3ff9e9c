from __future__ import annotations

import itertools
import json

import pytest
from construct import Int16ub

from fixtures.hfsplus import structures as s
from fixtures.hfsplus.names import sort_key
from fixtures.hfsplus.placement import pieces_of
from fixtures.hfsplus.plan import Extent

# Bare volumes by Linux and Mac OS X whose catalog has at most eight extents.
VOLUMES = [
    "driver/hfsplus-4k.img",
    "driver/hfsplus-b512-n4096.img",
    "driver/hfsx-cs.img",
    "driver/hfsplus-journaled-pop.img",
    "apple/hfsinspect_hfsj.raw",
]


def _read(image, offset, length):
    image.seek(offset)
    return image.read(length)


def _nodes(image, fork, block_size):
    """Yield the leaves of a tree in chain order."""
    extents = [Extent(e.start_block, e.block_count) for e in fork.extents if e.block_count]

    def node(number, size):
        pieces = pieces_of(extents, block_size, number * size, size)
        return b"".join(_read(image, start, length) for start, length in pieces)

    header = s.HEADER_RECORD.parse(node(0, 512)[14:])
    number = header.first_leaf_node
    while number:
        raw = node(number, header.node_size)
        yield raw
        number = s.NODE_DESCRIPTOR.parse(raw).f_link


def _records(raw):
    count = s.NODE_DESCRIPTOR.parse(raw).num_records
    ends = [Int16ub.parse(raw[len(raw) - 2 * i - 2 :]) for i in range(count + 1)]
    return [raw[start:stop] for start, stop in itertools.pairwise(ends)]


@pytest.mark.parametrize("name", VOLUMES)
def test_order_of_names_is_that_of_real_catalogs(name, reference_image):
    """Keys of every catalog that a real driver wrote ascend strictly in the writer's order."""
    with reference_image(name).open("rb") as image:
        header = s.VOLUME_HEADER.parse(_read(image, 1024, 512))
        keys = []
        for raw in _nodes(image, header.catalog_file, header.block_size):
            for record in _records(raw):
                key = s.CATALOG_KEY_HEAD.parse(record)
                name_raw = record[8 : 2 + key.key_length]
                text = name_raw.decode("utf-16-be", "surrogatepass")
                keys.append((key.parent_id, sort_key(text, case_sensitive=name == "driver/hfsx-cs.img")))
    assert len(keys) > 100
    assert all(first < second for first, second in itertools.pairwise(keys))


@pytest.mark.full
@pytest.mark.parametrize("name", VOLUMES)
def test_records_of_real_catalogs_are_rebuilt_byte_for_byte(name, reference_image):
    """Parsing and rebuilding a real folder or file record gives its bytes, so no field is missed."""
    with reference_image(name).open("rb") as image:
        header = s.VOLUME_HEADER.parse(_read(image, 1024, 512))
        rebuilt = 0
        for raw in _nodes(image, header.catalog_file, header.block_size):
            for record in _records(raw):
                payload = record[2 + Int16ub.parse(record) :]
                form = {1: s.CATALOG_FOLDER, 2: s.CATALOG_FILE}.get(Int16ub.parse(payload))
                if form:
                    assert form.build(form.parse(payload)) == payload
                    rebuilt += 1
    assert rebuilt > 50


@pytest.mark.parametrize("name", ["driver/hfsplus-4k.img", "driver/hfsx-cs.img"])
def test_headers_of_real_volumes_parse_to_the_recorded_truth(name, reference_image, truth):
    """Block counts, extents and tree headers equal those recorded by an independent walker."""
    facts = json.loads(truth(f"{name.partition('/')[2]}.gt.json"))
    with reference_image(name).open("rb") as image:
        header = s.VOLUME_HEADER.parse(_read(image, 1024, 512))
        extents = [[e.start_block, e.block_count] for e in header.catalog_file.extents if e.block_count]
        first = extents[0][0] * header.block_size
        tree = s.HEADER_RECORD.parse(_read(image, first + 14, 106))
    assert (header.block_size, header.free_blocks) == (facts["blocksize"], facts["free_blocks"])
    assert extents == facts["catalog"]["extents"][:8]
    recorded = facts["catalog"]["btree"]
    assert (tree.tree_depth, tree.root_node, tree.leaf_records) == tuple(
        recorded[k] for k in ("depth", "root", "leafrecs")
    )
    assert (tree.total_nodes, tree.free_nodes, tree.max_key_length) == tuple(
        recorded[k] for k in ("total", "free", "maxkey")
    )
