"""Rebuilding a broken B-tree from its leaves.

TN1150, "B-Trees". The content of a tree is in its leaves, and their keys determine their order. Index nodes and links
only help to find them. Leaves are taken from the tree's own file if that is known, else from wherever a sweep found
them. If the header is lost, the node size is that of the nodes in the file, and the root is the highest node that leads
to the most leaves. Among leaves with overlapping keys, only one can belong to the tree: leaves that the tree still
reaches come first, then those that their neighbours link to.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus import catalog as catalog_file
from layoutscope.filesystems.hfsplus.btree import TreeFile, decode_tree, pieces_of, read_batches
from layoutscope.filesystems.hfsplus.forks import Fork, inline_fork, locate, read_parts
from layoutscope.filesystems.hfsplus.keys import Keys, read_keys
from layoutscope.filesystems.hfsplus.names import UNIT_BYTES, fold_names, swap_to_disk_order
from layoutscope.filesystems.hfsplus.nodes import (
    FORMS,
    INDEX,
    LEAF,
    LENGTH_BYTES,
    MAP,
    UNKNOWN_KIND,
    NodeRows,
    RecordBatch,
    RecordForm,
    locate_records,
)
from layoutscope.filesystems.hfsplus.sweep import (
    CHUNK_BYTES,
    STEP_BYTES,
    TREES,
    Swept,
    chunks,
    nodes_in,
    read_write_ages,
    sweep,
)
from layoutscope.filesystems.hfsplus.tree import Tree, find_reach, make_tree
from layoutscope.filesystems.hfsplus.volume import (
    CONFIRMING,
    HEADER_BYTES,
    HEADER_OFFSET,
    Volume,
    confirming,
    most_confirmed,
    read_header,
)
from layoutscope.findings import FindingLog
from layoutscope.image import Window
from layoutscope.image.source import overlaps
from layoutscope.structs import grammar
from layoutscope.structs.arrays import GrowingTable, distinct, find, heads, lengths_of, runs_of
from layoutscope.structs.bulk import decode_column
from layoutscope.structs.records import HEADER_RECORD, VOLUME_HEADER

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.btree import LeafDecoder
    from layoutscope.filesystems.hfsplus.catalog import Catalog
    from layoutscope.filesystems.hfsplus.journal import Journal
    from layoutscope.image import Source
    from layoutscope.structs.arrays import I64, Mask
    from layoutscope.structs.grammar import HfsplusVolume


_COMPARE = grammar.HfsplusBtree.KeyCompareType

Key = tuple[int, bytes]
Ages = Callable[["I64"], "I64"]

NEIGHBOURS: Final = 2
"""Number of following leaves whose links are used, since a copy of either neighbour may be between two leaves."""

END: Final = -2
"""Replaces a link to node 0, which is the header node and not a neighbour of any leaf."""


Links = tuple["I64", "I64"]
"""Forward and backward links of each node of a tree; both ends of a chain link to ``END``."""


def order_leaves(
    nodes: NodeRows,
    links: Links,
    numbers: I64,
    # first, last: first and last key of each leaf, in a form that sorts as keys do
    first: list[Key],
    last: list[Key],
    reached: Mask,
    written: Ages,  # returns the journal write that each node comes from; -1 if unknown
) -> I64:
    """Choose leaves whose keys do not overlap, in key order.

    Among leaves with the same keys, the order of preference is: leaves that the index leads to; leaves in the longest
    chain, since an old copy links to leaves that do not link back to it; leaves that the journal wrote last; leaves
    with more records.
    """
    chain = _chain_lengths(links, numbers)
    age = np.zeros(len(numbers), np.int64)
    contested = _find_contested(first, last)
    age[contested] = written(numbers[contested])
    rank = np.lexsort((-nodes.num_records[numbers], -age, -chain, ~reached[numbers]))
    starts: list[Key] = []
    kept: list[int] = []
    for place in rank.tolist():
        at = bisect.bisect_left(starts, first[place])
        after_one = at == 0 or last[kept[at - 1]] < first[place]
        before_one = at == len(starts) or last[place] < starts[at]
        if first[place] <= last[place] and after_one and before_one:
            starts.insert(at, first[place])
            kept.insert(at, place)
    order = np.array(kept, np.int64)
    chosen = numbers[order]
    return chosen[~_is_between_neighbours(links, chosen, reached[chosen] | (chain[order] > 1))]


def _find_contested(first: list[Key], last: list[Key]) -> I64:
    """Return the positions of leaves whose keys overlap those of another leaf."""
    order = sorted(range(len(first)), key=first.__getitem__)
    found, end = set[int](), -1
    for place in order:
        if end >= 0 and first[place] <= last[end]:
            found |= {place, end}
        if end < 0 or last[place] > last[end]:
            end = place
    return np.array(sorted(found), np.int64)


def _chain_lengths(links: Links, numbers: I64) -> I64:
    """Return the number of leaves in each leaf's chain, which consists of leaves that link to each other both ways."""
    forward, backward = links
    place = np.full(len(forward), -1, np.int64)
    place[numbers] = np.arange(len(numbers))
    following = forward[numbers]
    inside = (following >= 0) & (following < len(place))
    following = np.where(inside, place[np.where(inside, following, 0)], -1)
    following[(following >= 0) & (backward[numbers[following]] != numbers)] = -1
    is_head = np.ones(len(numbers), np.bool_)
    is_head[following[following >= 0]] = False
    lengths, after = np.zeros(len(numbers), np.int64), following.tolist()
    for head in np.flatnonzero(is_head).tolist():
        chain, at = [], head
        while at >= 0:
            chain.append(at)
            at = after[at]
        lengths[chain] = len(chain)
    return lengths


def _is_between_neighbours(links: Links, order: I64, is_anchor: Mask) -> Mask:
    """Mark the leaves that are between two linked neighbours, before the first leaf or after the last.

    Nothing is missing there: records with such keys were deleted or moved to another leaf.
    """
    anchors, (forward, backward) = order[is_anchor], links
    if not len(anchors):
        return np.zeros(len(order), np.bool_)
    # One link between two neighbours is enough, since the other may be damaged.
    is_closed = np.concatenate(
        [
            backward[anchors[:1]] == END,
            (forward[anchors[:-1]] == anchors[1:]) | (backward[anchors[1:]] == anchors[:-1]),
            forward[anchors[-1:]] == END,
        ]
    )
    found: Mask = ~is_anchor & is_closed[np.cumsum(is_anchor)]
    return found


def renumber_links(volume: Volume, file: TreeFile, links: Links, leaves: I64, first: list[Key]) -> Links:
    """Convert links into the numbers assigned to nodes here, if the extents of the file are lost.

    Nodes that are contiguous on the volume have consecutive numbers, so one number per run is enough. The leaves record
    these numbers for each other: a leaf's number is in the forward link of the previous leaf by key, and in the
    backward link of the next. Each run takes the number that most of its leaves have. If two runs have the same
    numbers, because one is a copy elsewhere, the longer run belongs to the tree.

    A link is -1 if no node has its number.
    """
    forward, backward = links
    numbers = np.arange(file.num_nodes)
    pieces = pieces_of(volume, file.fork, file.node_size_bytes, numbers)
    at = np.full(file.num_nodes, -1, np.int64)
    at[pieces.part] = pieces.volume_offset
    run = np.cumsum(np.diff(at, prepend=at[0]) != file.node_size_bytes)
    by_key = leaves[sorted(range(len(leaves)), key=first.__getitem__)]
    votes: list[I64] = []
    for step in range(1, NEIGHBOURS + 1):
        before, behind = by_key[:-step], by_key[step:]
        for link, target in ((forward[before], behind), (backward[behind], before)):
            votes.append(np.stack([run[target], link - target], axis=1)[link > 0])
    pairs, counts = np.unique(np.concatenate(votes), axis=0, return_counts=True)
    pairs = pairs[np.argsort(counts, kind="stable")]
    base = np.full(int(run[-1]) + 1, np.iinfo(np.int64).min // 2)
    base[pairs[:, 0]] = pairs[:, 1]
    length = np.bincount(run)
    claims = np.argsort(-length[run], kind="stable")
    claims = claims[np.isin(claims, leaves)]
    original = (numbers + base[run])[claims]

    def renumbered(link: I64) -> I64:
        place = find(original, link)
        return np.where(link == END, END, np.where(place >= 0, np.append(claims, -1)[place], -1))

    return renumbered(forward), renumbered(backward)


def leaf_keys(volume: Volume, file: TreeFile, numbers: I64) -> tuple[I64, list[Key], list[Key]]:
    """Read the first and last keys of leaves; return the numbers of leaves that have keys, and these."""
    form = FORMS[file.tree]
    is_binary = volume.is_hfsx and file.header.key_compare_type == _COMPARE.binary
    is_folded = form.has_name and not form.tail and not is_binary
    owners: list[I64] = [np.empty(0, np.int64)]
    firsts: list[Key] = []
    lasts: list[Key] = []
    for nodes in read_batches(volume, file, numbers):
        records = locate_records(nodes, None)
        whole = _has_whole_key(form, records)
        node, key = records.node[whole], records.key[whole]
        head = heads(node)
        ends = head + lengths_of(head, len(node)) - 1
        owners.append(nodes.number[node[head]])
        firsts += _comparable(read_keys(form, nodes.buffer, key[head]), is_folded=is_folded)
        lasts += _comparable(read_keys(form, nodes.buffer, key[ends]), is_folded=is_folded)
    return np.concatenate(owners), firsts, lasts


def _has_whole_key(form: RecordForm, records: RecordBatch) -> Mask:
    """Mark the records with a key that contains its whole name."""
    length = records.data - records.key - LENGTH_BYTES
    whole: Mask = length >= form.fixed_length
    if form.has_name:
        rows = np.flatnonzero(whole)
        key, units = records.key[rows], form.key_type.column("num_name_units")
        names = decode_column(form.key_type, records.nodes.buffer, key, units)
        whole[rows] = form.fixed_length + UNIT_BYTES * names.astype(np.int64) <= length[rows]
    return whole


def _comparable(keys: Keys, *, is_folded: bool) -> list[Key]:
    """Convert keys into pairs that Python compares as the tree does."""
    units, starts, counts = keys.units, keys.start, keys.count
    if is_folded:
        units, starts, counts = fold_names(units, starts, counts)
    # Bytes sort like the units only in big-endian order.
    data = swap_to_disk_order(units).tobytes()
    places = zip(keys.ident.tolist(), (UNIT_BYTES * starts).tolist(), (UNIT_BYTES * counts).tolist(), strict=True)
    return [(ident, data[start : start + length]) for ident, start, length in places]


MAX_ROOTS: Final = 16
"""Number of nodes that are tried as a root whose number is lost; damaged links can produce dozens of candidates."""


def rebuild(
    volume: Volume,
    name: str,
    fork: Fork,  # the extents of the tree's file as far as known
    tree: Tree | None,
    decode: LeafDecoder,
    found: Swept | None,  # nodes on the volume; if None, only the tree's own file is searched
    # determines the later of two leaves with the same keys, if neither the index nor their neighbours do
    journal: Journal | None = None,
) -> Tree | None:
    """Rebuild a tree from its leaves; return None if there are none, or if nothing would change."""
    if tree is not None and not _has_credible_header(volume, tree):
        tree = None
    file = tree.file if tree is not None else _infer_file(volume, name, fork, found)
    if file is None:
        return None
    nodes, records = _decode_all_nodes(volume, file, decode)
    links = (np.where(nodes.f_link == 0, END, nodes.f_link), np.where(nodes.b_link == 0, END, nodes.b_link))
    written = partial(read_write_ages, volume, journal, file)
    if tree is not None:
        reach = tree.reach
        nodes.parent[:], nodes.key_rank[:] = tree.nodes.parent, tree.nodes.key_rank
    else:
        # A root is not sought among nodes from a sweep: the inferred header names none, so nothing is reached.
        file = _find_root(file, nodes, written) if file.fork is fork else file
        reach = find_reach(file, nodes)
    reached = np.zeros(file.num_nodes, np.bool_)
    reached[reach.leaves] = True
    is_leaf = (nodes.kind == LEAF) & (nodes.height == 1) & (nodes.num_records > 0) & (nodes.first_key_id >= 0)
    numbers, first, last = leaf_keys(volume, file, np.flatnonzero(is_leaf & (reached | ~nodes.damaged)))
    if tree is None and file.fork is not fork:
        links = renumber_links(volume, file, links, numbers, first)
    order = order_leaves(nodes, links, numbers, first, last, reached, written)
    dropped = np.setdiff1d(reach.leaves[is_leaf[reach.leaves]], order)
    if tree is not None and reached[order].all() and not len(dropped):
        return None
    _report(volume, file, order, reached, len(numbers) - len(order))
    # Index nodes keep their ranks, and all nodes keep their parents. Pointers to dropped leaves count as misleading, as
    # when a node was overwritten by a copy of another node.
    nodes.key_rank[reach.leaves] = -1
    nodes.key_rank[order] = np.arange(len(order))
    parents = nodes.parent[dropped]
    reach = replace(reach, leaves=order, misled=distinct(np.concatenate([reach.misled, parents[parents >= 0]])))
    if file.is_inferred:
        file = _infer_counts(file, nodes, order, has_header=file.fork is fork)
        file.used[reach.lost] = True
    else:
        nodes.is_inferred[order[~reached[order]]] = True
        file.used[order] = True
    return make_tree(file, nodes, reach, decode, records)


def _has_credible_header(volume: Volume, tree: Tree) -> bool:
    """Return whether the header's node size fits the nodes of a tree, and its map marks leaves as used."""
    table = tree.nodes
    is_leaf = (table.kind == LEAF) & (table.height == 1) & (table.num_records > 0) & ~table.damaged
    usual = _usual_size(_find_leaves_in_fork(volume, tree.file.tree, tree.file.fork))
    return bool(is_leaf.any()) and usual in (0, tree.file.node_size_bytes)


def _decode_all_nodes(volume: Volume, file: TreeFile, decode: LeafDecoder) -> tuple[NodeRows, GrowingTable]:
    """Decode every node that may be in use, even if nothing leads to it; return nodes and leaf records."""
    nodes, records, used = NodeRows.blank(file.num_nodes), GrowingTable(), file.used.copy()
    # The map does not show whether nodes after its end are in use.
    used[file.num_mapped :] = True
    decode_tree(volume, file, np.flatnonzero(used & file.readable), decode, nodes, records)
    links = np.concatenate([link[nodes.kind == LEAF] for link in (nodes.f_link, nodes.b_link)])
    links = links[(links > 0) & (links < file.num_nodes)]
    if (nodes.kind[links] == UNKNOWN_KIND).any():
        # Leaves link to nodes that the map marks as free: it is damaged too, and none of its bits can be trusted.
        decode_tree(volume, file, np.flatnonzero(~used & file.readable), decode, nodes, records)
    return nodes, records


def _find_root(file: TreeFile, nodes: NodeRows, written: Ages) -> TreeFile:
    """Find the root of a tree whose header is lost: of the highest nodes, the one that leads to the most leaves.

    A root has no neighbours, so its links are 0. The former root of a tree that has shrunk may still exist; of two
    equivalent roots, the one that the journal wrote later is chosen.
    """
    may_be_root = (nodes.f_link == 0) & (nodes.b_link == 0) & (nodes.num_records > 0) & (nodes.height > 0)
    may_be_root &= (nodes.height == 1) == (nodes.kind == LEAF)
    numbers = np.flatnonzero(may_be_root & ((nodes.kind == LEAF) | (nodes.kind == INDEX)))
    highest = numbers[np.argsort(-nodes.height[numbers], kind="stable")][:MAX_ROOTS]

    def rooted(number: int) -> TreeFile:
        return _set_header_fields(file, root_node=number)

    leads_to = np.array([len(find_reach(rooted(number), nodes).leaves) for number in highest.tolist()])
    alike = highest[leads_to == leads_to.max(initial=0)]
    return rooted(int(alike[np.argmax(written(alike))]) if len(alike) else 0)


def _infer_counts(file: TreeFile, nodes: NodeRows, order: I64, *, has_header: bool) -> TreeFile:
    """Set the counts of an inferred header to those found, and its map to the nodes that the tree uses.

    Everything in a tree with an inferred header is inferred. Node 0 is the lost header, unless the file consists of
    nodes that a sweep found.
    """
    nodes.is_inferred[:] = True
    nodes.damaged[0] |= has_header
    used = (nodes.key_rank >= 0) | (nodes.kind == MAP)
    used[0] = True
    root = int(file.header.root_node)
    file = _set_header_fields(
        file,
        leaf_records=int(nodes.num_records[order].sum()),
        tree_depth=int(nodes.height[root]) if root else 0,
        num_free_nodes=int((~used).sum()),
        first_leaf_node=int(order[0]) if len(order) else 0,
        last_leaf_node=int(order[-1]) if len(order) else 0,
    )
    return replace(file, used=used)


def _set_header_fields(file: TreeFile, **fields: int) -> TreeFile:
    """Set fields of an inferred header record."""
    header = copy(file.header)
    for name, value in fields.items():
        setattr(header, name, value)
    return replace(file, header=header)


def _infer_file(volume: Volume, name: str, fork: Fork, found: Swept | None) -> TreeFile | None:
    """Infer the file of a tree whose header is lost: from its own extents, else from the nodes that were found."""
    on_volume = bool((fork.start_blocks + fork.block_counts <= int(volume.header.num_blocks)).all())
    is_intact = on_volume and 0 < fork.logical_size_bytes <= fork.num_blocks * volume.block_size_bytes
    if is_intact or found is None:
        size = _usual_size(_find_leaves_in_fork(volume, name, fork))
    else:
        mine = found.take((found.tree == TREES.index(name)) & (found.height == 1))
        size = _usual_size(mine)
        fork = _fork_over(volume, mine.take(mine.node_size == size)) if size else fork
    # A damaged header may claim any number of blocks. The volume limits the number of nodes.
    num_nodes = min(fork.num_blocks * volume.block_size_bytes, volume.size_bytes) // size if size else 0
    if not num_nodes:
        return None
    pieces = pieces_of(volume, fork, size, np.arange(num_nodes, dtype=np.int64))
    readable = np.zeros(num_nodes, np.bool_)
    readable[pieces.part] = True
    readable[pieces.part[~volume.is_readable(pieces.volume_offset, pieces.length_bytes)]] = False
    # HFSX names compare either way, depending on the lost header. Case-sensitive is the usual reason to choose HFSX.
    compare = _COMPARE.binary if volume.is_hfsx else _COMPARE.case_folding
    known = {"len_node": size, "num_nodes": num_nodes, "len_key_max": FORMS[name].max_length or 0}
    attributes = {
        "key_compare_type": int(compare),
        "attributes": int(grammar.HfsplusBtree.BtreeAttribute.variable_index_keys),
    }
    data = HEADER_RECORD.blank(known | attributes)
    header = grammar.parse(grammar.HfsplusBtree.HeaderRecord, data, structure="header record", image_offset=0)
    used, none = np.ones(num_nodes, np.bool_), np.empty(0, np.int64)
    return TreeFile(name, fork, header, b"", num_nodes, used, none, (), readable, is_inferred=True)


def _find_leaves_in_fork(volume: Volume, name: str, fork: Fork) -> Swept:
    """Find leaves in the first bytes of a fork, in which nodes that straddle two extents are whole."""
    length = min(fork.num_blocks * volume.block_size_bytes, CHUNK_BYTES)
    pieces = locate(volume, fork, np.zeros(1, np.int64), np.array([length], np.int64))
    readable = volume.is_readable(pieces.volume_offset, pieces.length_bytes)
    if not readable.all():
        end = int(np.argmin(readable))
        pieces = pieces.take(slice(end))
    data = read_parts(volume, pieces)
    found = nodes_in(data, len(data))
    return found.take((found.tree == TREES.index(name)) & (found.height == 1))


def _usual_size(nodes: Swept) -> int:
    """Return the most frequent node size, 0 if there are no nodes."""
    sizes, counts = np.unique(nodes.node_size, return_counts=True)
    return int(sizes[np.argmax(counts)]) if len(sizes) else 0


def _fork_over(volume: Volume, nodes: Swept) -> Fork:
    """Make a fork from the blocks of nodes, in address order."""
    block = volume.block_size_bytes
    first = nodes.volume_offset // block
    last = (nodes.volume_offset + nodes.node_size - 1) // block
    per_node = int((last - first).max()) + 1
    blocks = np.unique((first[:, None] + np.arange(per_node))[np.arange(per_node) <= (last - first)[:, None]])
    runs = runs_of(blocks, np.ones_like(blocks))
    return Fork(len(blocks) * block, runs[:, 0], runs[:, 1], np.full(len(runs), -1, np.int64))


def _report(volume: Volume, file: TreeFile, order: I64, reached: Mask, num_left: int) -> None:
    added = order[~reached[order]]
    words = (
        f"{len(added):,} of {len(order):,} leaves were found without the index; their order is inferred from their keys"
    )
    if num_left:
        words += f"; {num_left:,} with keys of others were left out"
    if file.is_inferred:
        words += "; size of nodes, root and map are inferred too, as the header is lost"
    at = pieces_of(volume, file.fork, file.node_size_bytes, added[:1]).volume_offset.tolist()
    volume.log.at(f"{file.tree} B-tree", at[0] if at else None).add("tree-rebuilt", "warning", words)


def report_stale(volume: Volume, trees: dict[str, Tree], found: Swept) -> dict[str, int]:
    """Count the nodes that belong to no tree: old copies, copies in the journal, and nodes of volumes within files."""
    live: list[I64] = []
    for tree in trees.values():
        numbers = np.flatnonzero(tree.nodes.key_rank >= 0)
        live.append(pieces_of(volume, tree.file.fork, tree.file.node_size_bytes, numbers).volume_offset)
    stale = found.take(~np.isin(found.volume_offset, np.concatenate([np.empty(0, np.int64), *live])))
    counts = {name: int((stale.tree == place).sum()) for place, name in enumerate(TREES)}
    if len(stale.tree):
        listed = ", ".join(f"{count:,} of the {name} tree" for name, count in counts.items() if count)
        volume.log.at("volume", int(stale.volume_offset[0])).add(
            "stale-nodes",
            "info",
            f"{len(stale.tree):,} nodes were found outside the trees, such as old copies: {listed}",
        )
    return counts


MAX_BLOCKS: Final = 2**32 - 1
MAX_HEADERS: Final = 10_000
USUAL_BLOCK_BYTES: Final = 4096
LARGEST_BLOCK_BYTES: Final = 1 << 20
_SIGNATURES: Final = grammar.HfsplusVolume.Signature


def salvage_volume(
    source: Source,
    image_offset: int,
    error: FormatError,
    space_bytes: int | None = None,
    *,
    is_start_named: bool = True,
) -> tuple[Volume, Swept]:
    """Sweep the space of a volume and open what remains of the volume."""
    size = source.size_bytes - image_offset
    window = Window(source, image_offset, size if space_bytes is None else min(size, space_bytes))
    bare = Volume(
        window,
        window.origin,
        _stand_in(window.size_bytes),
        None,
        FindingLog(base=window.origin),
        is_inferred=True,
    )
    found = sweep(bare)
    if not ((found.tree == TREES.index("catalog")) & (found.height == 1)).any():
        raise error
    header = _newest_copy(bare)
    start = None if header is None else _start(bare, header)
    if start:
        further = image_offset + start, error, window.size_bytes - start
        return salvage_volume(source, *further, is_start_named=is_start_named)
    # A copy of the header gives the locations of the trees. If none is there, even the partition map is not trusted.
    is_doubtful = start is None and (header is not None or not is_start_named)
    if header is not None:
        words = "the newest copy of it that was found, as the journal holds some, takes its place"
    else:
        bare, catalog = _rebuild_catalog(bare, found)
        entries, is_folder = catalog.entries, catalog.entries["is_folder"]
        # The root folder is not counted.
        num_roots = int((entries["parent_id"] == grammar.HfsplusVolume.Cnid.root_parent).sum())
        header = _stand_in(
            bare.source.size_bytes,
            _block_size(catalog, found, bare.source.size_bytes),
            int(bare.header.signature),
            num_files=int((~is_folder).sum()),
            num_folders=max(0, int(is_folder.sum()) - num_roots),
            next_catalog_id=min(int(entries["file_id"].max(initial=0)) + 1, MAX_BLOCKS),
        )
        words = "block size and counts follow from the files that were found"
    volume = replace(bare, header=header, log=bare.log.branch())
    volume.log.at("volume header", HEADER_OFFSET).add(
        "volume-header-lost",
        "error",
        f"no header of the volume is left, nor its copy; the volume is inferred from what a sweep found: {words}",
    )
    if is_doubtful:
        message = (
            f"addresses are uncertain: where the volume starts is inferred, and neither a header nor {CONFIRMING} "
            f"confirm it"
        )
        volume.log.at("volume", 0).add("start-uncertain", "error", message)
    return volume, found


def _start(volume: Volume, header: HfsplusVolume.VolumeHeader) -> int | None:
    """Return the byte of the swept space at which the volume of a header copy starts; None if unknown."""
    if confirming(volume.source, [0], header)[0]:
        return 0
    left = volume.source.size_bytes - int(header.num_blocks) * int(header.len_block)
    return most_confirmed(volume.source, range(0, left + 1, STEP_BYTES), header)


def _stand_in(
    size_bytes: int, block_size: int = STEP_BYTES, signature: int = int(_SIGNATURES.hfsplus), **values: int
) -> HfsplusVolume.VolumeHeader:
    """Make a stand-in header without special files."""
    while size_bytes // block_size > MAX_BLOCKS:
        block_size *= 2
    version = grammar.HfsplusVolume.Version[_SIGNATURES(signature).name]
    known = {
        "signature": signature,
        "version": int(version),
        "len_block": block_size,
        "num_blocks": max(1, size_bytes // block_size),
    }
    data = VOLUME_HEADER.blank(known | values)
    return grammar.parse(
        grammar.HfsplusVolume.VolumeHeader, data, structure="volume header", image_offset=HEADER_OFFSET
    )


def _newest_copy(volume: Volume) -> HfsplusVolume.VolumeHeader | None:
    """Find the header with the highest write count among those that fit here; those of images within files do not."""
    best: HfsplusVolume.VolumeHeader | None = None
    size, tried = volume.source.size_bytes, 0
    for at, length, buffer in chunks(volume):
        starts = np.arange(0, min(length, len(buffer) - HEADER_BYTES + 1), STEP_BYTES, dtype=np.int64)
        signature = decode_column(VOLUME_HEADER, buffer, starts, VOLUME_HEADER.signature)
        for start in starts[np.isin(signature, [int(item) for item in _SIGNATURES])].tolist():
            tried += 1
            if tried > MAX_HEADERS:
                return best
            try:
                header = read_header(volume.source, at + start, "volume header")
            except FormatError:
                continue
            # A volume fills its partition up to a block, and its catalog is within it.
            left = size - int(header.num_blocks) * int(header.len_block)
            fits = 0 <= left < max(LARGEST_BLOCK_BYTES, int(header.len_block))
            is_newer = best is None or header.write_count > best.write_count
            if fits and header.catalog_file.extents[0].num_blocks and is_newer:
                best = header
    return best


def _rebuild_catalog(volume: Volume, found: Swept) -> tuple[Volume, Catalog]:
    """Rebuild the catalog in the key order that more of its leaves follow; case-folded if both orders fit equally."""
    results = []
    for signature in (_SIGNATURES.hfsplus, _SIGNATURES.hfsx):
        header = _stand_in(volume.source.size_bytes, volume.block_size_bytes, int(signature))
        trial = replace(volume, header=header, log=volume.log.branch())
        tables, decode = catalog_file.start_catalog()
        tree = rebuild(trial, "catalog", inline_fork(header.catalog_file), None, decode, found)
        results.append((trial, catalog_file.collect_catalog(tree, tables)))
    return max(
        results,
        key=lambda result: (len(result[1].name), -int(result[1].misplaced(is_folded=not result[0].is_hfsx).sum())),
    )


def _block_size(catalog: Catalog, found: Swept, size_bytes: int) -> int:
    """Find the block size for which most files have the right number of blocks and the fewest extents overlap nodes."""
    sizes = [STEP_BYTES << shift for shift in range((LARGEST_BLOCK_BYTES // STEP_BYTES).bit_length())]
    fits = [_num_fitting(catalog, found, size, size_bytes) for size in sizes]
    best = [size for size, count in zip(sizes, fits, strict=True) if count == max(fits)]
    return USUAL_BLOCK_BYTES if USUAL_BLOCK_BYTES in best else best[0]


def _num_fitting(catalog: Catalog, found: Swept, block_size: int, size_bytes: int) -> int:
    """Count data forks whose block counts fit their sizes, minus extents that are outside or overlap nodes."""
    length, blocks = (catalog.entries[name].astype(np.int64) for name in ("data_size", "data_blocks"))
    start, count = (catalog.forks[name].astype(np.int64) * block_size for name in ("start_block", "block_count"))
    outside = start + count > size_bytes
    nodes = np.stack([found.volume_offset, found.node_size], axis=1)
    taken = overlaps(nodes, start[~outside], count[~outside])
    fitting = (length > 0) & (-(-length // block_size) == blocks)
    return int(fitting.sum()) - int(outside.sum()) - int(taken.sum())
