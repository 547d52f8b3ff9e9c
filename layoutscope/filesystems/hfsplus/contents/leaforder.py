"""Which leaves make up a broken B-tree, and their order, where nothing leads to them any more.

TN1150, "B-Trees". Leaves hold all that a tree does, in the order of their keys, and link to their neighbours. Old
copies of leaves lie about; no two leaves of a tree have overlapping keys, and none is missing between two that link to
each other.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.arrays.lookup import find
from layoutscope.arrays.ragged import heads, lengths_of
from layoutscope.filesystems.hfsplus.tree.btree import BATCH_BYTES, TreeFile, pieces_of
from layoutscope.filesystems.hfsplus.tree.keys import FORMS, KeyForm, Keys, joined_keys, read_keys, without_case
from layoutscope.filesystems.hfsplus.tree.names import UNIT_BYTES
from layoutscope.filesystems.hfsplus.tree.nodes import (
    LENGTH_BYTES,
    NodeRows,
    RecordBatch,
    decode_nodes,
    locate_records,
)
from layoutscope.filesystems.hfsplus.volume.fork import read_parts
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Mask
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

_COMPARE = grammar.HfsplusBtree.KeyCompareType

Key = tuple[int, bytes]
Ages = Callable[["I64"], "I64"]

NEIGHBOURS: Final = 2
"""How many leaves behind each are asked for its number: between it and the next one, there may be a copy of either."""

END: Final = -2
"""In place of a link to node 0: that is the header node, and no neighbour of any leaf."""


class LeafLinks(NamedTuple):
    """What each node of a tree links to, forward and backward; both ends of a chain to ``END``."""

    forward: I64
    backward: I64


def links_of(nodes: NodeRows) -> LeafLinks:
    """Return the links of all nodes of a tree."""
    return LeafLinks(*(np.where(link == 0, END, link) for link in (nodes.f_link, nodes.b_link)))


class LeafKeys(NamedTuple):
    """Leaves by their numbers, with their first and last keys in a form that compares as keys do."""

    numbers: I64
    first: list[Key]
    last: list[Key]


def order_leaves(
    nodes: NodeRows,
    links: LeafLinks,
    keys: LeafKeys,
    reached: Mask,
    written: Ages,  # tells of some nodes which write of a journal they are from; -1 of what none is known of
) -> I64:
    """Choose leaves whose keys do not overlap, in key order.

    Of leaves with the same keys those that the index leads to come first, then those of the longest chain: an old copy
    links to leaves that do not link back to it; then those that the journal wrote last, then those with more records.
    """
    numbers, first, last = keys
    chain = _chain_lengths(links, numbers)
    age = np.zeros(len(numbers), np.int64)
    contested = _contested(first, last)
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


def _contested(first: list[Key], last: list[Key]) -> I64:
    """Places of leaves that have keys with another one in common."""
    order = sorted(range(len(first)), key=first.__getitem__)
    found, end = set[int](), -1
    for place in order:
        if end >= 0 and first[place] <= last[end]:
            found |= {place, end}
        if end < 0 or last[place] > last[end]:
            end = place
    return np.array(sorted(found), np.int64)


def _chain_lengths(links: LeafLinks, numbers: I64) -> I64:
    """How many leaves stand in the chain of each, which are those that link to one another both ways."""
    place = np.full(len(links.forward), -1, np.int64)
    place[numbers] = np.arange(len(numbers))
    following = links.forward[numbers]
    inside = (following >= 0) & (following < len(place))
    following = np.where(inside, place[np.where(inside, following, 0)], -1)
    following[(following >= 0) & (links.backward[numbers[following]] != numbers)] = -1
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


def _is_between_neighbours(links: LeafLinks, order: I64, is_anchor: Mask) -> Mask:
    """Say which leaves stand between two that are neighbours by their links, or before the first or behind the last.

    Nothing is missing there: what has such keys was deleted, or moved to another leaf.
    """
    anchors = order[is_anchor]
    if not len(anchors):
        return np.zeros(len(order), np.bool_)
    # Either link of two neighbours is enough, as the other may be damaged.
    is_closed = np.concatenate(
        [
            links.backward[anchors[:1]] == END,
            (links.forward[anchors[:-1]] == anchors[1:]) | (links.backward[anchors[1:]] == anchors[:-1]),
            links.forward[anchors[-1:]] == END,
        ]
    )
    found: Mask = ~is_anchor & is_closed[np.cumsum(is_anchor)]
    return found


def renumbered_links(volume: Volume, file: TreeFile, links: LeafLinks, keys: LeafKeys) -> LeafLinks:
    """Turn links into the numbers that nodes were given here, where the extents of the file are lost.

    Nodes that follow one another on the volume have numbers that do, so that one number is enough for a run of them.
    Leaves tell it of one another: the number of a leaf is what the one before it by key links forward to, and the one
    behind it back. Each run takes what most of its leaves are told; of two runs with the same numbers, as a copy of a
    leaf elsewhere has them, the longer one has the tree.

    -1 where no node has the number.
    """
    numbers = np.arange(file.num_nodes)
    pieces = pieces_of(volume, file.fork, file.node_size_bytes, numbers)
    at = np.full(file.num_nodes, -1, np.int64)
    at[pieces.part] = pieces.volume_offset
    run = np.cumsum(np.diff(at, prepend=at[0]) != file.node_size_bytes)
    by_key = keys.numbers[sorted(range(len(keys.numbers)), key=keys.first.__getitem__)]
    votes: list[I64] = []
    for step in range(1, NEIGHBOURS + 1):
        before, behind = by_key[:-step], by_key[step:]
        for link, told in ((links.forward[before], behind), (links.backward[behind], before)):
            votes.append(np.stack([run[told], link - told], axis=1)[link > 0])
    pairs, counts = np.unique(np.concatenate(votes), axis=0, return_counts=True)
    pairs = pairs[np.argsort(counts, kind="stable")]
    base = np.full(int(run[-1]) + 1, np.iinfo(np.int64).min // 2)
    base[pairs[:, 0]] = pairs[:, 1]
    length = np.bincount(run)
    claims = np.argsort(-length[run], kind="stable")
    claims = claims[np.isin(claims, keys.numbers)]
    original = (numbers + base[run])[claims]

    def renumbered(link: I64) -> I64:
        place = find(original, link)
        return np.where(link == END, END, np.where(place >= 0, np.append(claims, -1)[place], -1))

    return LeafLinks(renumbered(links.forward), renumbered(links.backward))


def leaf_keys(volume: Volume, file: TreeFile, numbers: I64) -> LeafKeys:
    """Find first and last keys of leaves."""
    form, size = FORMS[file.tree], file.node_size_bytes
    step = max(1, BATCH_BYTES // size)
    owners: list[I64] = [np.empty(0, np.int64)]
    firsts: list[Keys] = []
    lasts: list[Keys] = []
    for start in range(0, len(numbers), step):
        chosen = numbers[start : start + step]
        buffer = read_parts(volume, pieces_of(volume, file.fork, size, chosen))
        records = locate_records(volume.decoder, decode_nodes(volume.decoder, buffer, size, chosen), None)
        whole = _has_whole_key(volume, form, records)
        node, key = records.node[whole], records.key[whole]
        head = heads(node)
        ends = head + lengths_of(head, len(node)) - 1
        owners.append(chosen[node[head]])
        firsts.append(read_keys(volume.decoder, form, buffer, key[head]))
        lasts.append(read_keys(volume.decoder, form, buffer, key[ends]))
    fold = form.has_name and not form.tail and not _tells_cases(volume, file)
    return LeafKeys(
        np.concatenate(owners), _comparable(joined_keys(firsts), fold=fold), _comparable(joined_keys(lasts), fold=fold)
    )


def _has_whole_key(volume: Volume, form: KeyForm, records: RecordBatch) -> Mask:
    """Say which records have a key with all of its name."""
    length = records.data - records.key - LENGTH_BYTES
    whole: Mask = length >= form.fixed_length
    if form.has_name:
        rows = np.flatnonzero(whole)
        key, units = records.key[rows], form.key_type.column("num_name_units")
        names = volume.decoder.column(form.key_type, records.nodes.buffer, key, units)
        whole[rows] = form.fixed_length + UNIT_BYTES * names.astype(np.int64) <= length[rows]
    return whole


def _tells_cases(volume: Volume, file: TreeFile) -> bool:
    return volume.is_hfsx and int(file.header.key_compare_type) == int(_COMPARE.binary)


def _comparable(keys: Keys, *, fold: bool) -> list[Key]:
    """Turn keys into pairs that Python compares as the tree does."""
    if fold:
        keys = without_case(keys)
    # Bytes compare as the units do only with the most significant one first.
    data = keys.units.byteswap().tobytes() if _IS_LITTLE else keys.units.tobytes()
    starts, stops = 2 * keys.start, 2 * (keys.start + keys.count)
    return [
        (ident, data[start:stop])
        for ident, start, stop in zip(keys.ident.tolist(), starts.tolist(), stops.tolist(), strict=True)
    ]


_IS_LITTLE: Final = bool(np.array([1], np.uint16).view(np.uint8)[0])
