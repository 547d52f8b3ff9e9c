"""Opening a volume both of whose headers are lost, from what a sweep of the whole disk found.

TN1150, "Volume Header". Copies of the header lie in the journal of a volume that has one; the newest of them takes the
header's place. Where there is none, the B-trees are put together from their nodes, and the size of an allocation block
is told by the files, which are as long as their blocks are. All of that is inferred.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus.contents.rebuild import Beside, rebuild
from layoutscope.filesystems.hfsplus.contents.sweep import STEP_BYTES, TREES, Swept, chunks, sweep
from layoutscope.filesystems.hfsplus.records import catalog as catalog_file
from layoutscope.filesystems.hfsplus.tree.btree import TreePlace
from layoutscope.filesystems.hfsplus.volume.fork import inline_fork
from layoutscope.filesystems.hfsplus.volume.location import CONFIRMING, confirming
from layoutscope.filesystems.hfsplus.volume.volume import HEADER_BYTES, HEADER_OFFSET, Volume, read_header
from layoutscope.findings import FindingLog
from layoutscope.image import Window
from layoutscope.image.source import overlaps
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import VOLUME_HEADER

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.records.catalog import Catalog
    from layoutscope.image import Source
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.ondisk.grammar import HfsplusVolume

HEADER: Final = VOLUME_HEADER
MOST_BLOCKS: Final = 2**32 - 1
MOST_HEADERS: Final = 10_000
USUAL_BLOCK_BYTES: Final = 4096
LARGEST_BLOCK_BYTES: Final = 1 << 20
_SIGNATURES: Final = grammar.HfsplusVolume.Signature


def salvage_volume(
    source: Source,
    image_offset: int,
    decoder: Decoder,
    error: FormatError,
    space_bytes: int | None = None,
    *,
    is_start_named: bool = True,
) -> tuple[Volume, Swept]:
    """Sweep the place of a volume and open what is left of it."""
    size = source.size_bytes - image_offset
    window = Window(source, image_offset, size if space_bytes is None else min(size, space_bytes))
    bare = Volume(
        window,
        window.origin,
        _stand_in(window.size_bytes),
        None,
        decoder,
        FindingLog(base=window.origin),
        is_inferred=True,
    )
    found = sweep(bare)
    if not ((found.tree == TREES.index("catalog")) & (found.height == 1)).any():
        raise error
    header = _newest_copy(bare)
    start = None if header is None else _start(bare, header)
    if start:
        further = image_offset + start, decoder, error, window.size_bytes - start
        return salvage_volume(source, *further, is_start_named=is_start_named)
    # A copy of the header says where the trees are: if none is there, not even a map is believed.
    is_doubtful = start is None and (header is not None or not is_start_named)
    if header is not None:
        words = "the newest copy of it that was found, as the journal holds some, takes its place"
    else:
        bare, catalog = _catalog(bare, found)
        header, words = (
            _inferred_header(bare, catalog, found),
            "block size and counts follow from the files that were found",
        )
    volume = replace(bare, header=header, log=bare.log.branch())
    volume.log.at("volume header", HEADER_OFFSET).add(
        "volume-header-lost",
        "error",
        f"no header of the volume is left, nor its copy; the volume is inferred from what a sweep found: {words}",
    )
    if is_doubtful:
        message = (
            f"addresses are uncertain: where the volume starts is inferred, and neither a header nor {CONFIRMING} tell"
        )
        volume.log.at("volume", 0).add("start-uncertain", "error", message)
    return volume, found


def _start(volume: Volume, header: HfsplusVolume.VolumeHeader) -> int | None:
    """Tell at which byte of the swept space the volume starts that a copy of its header is of; None if nothing does."""
    if confirming(volume.source, [0], header)[0]:
        return 0
    left = volume.source.size_bytes - int(header.num_blocks) * int(header.len_block)
    starts = range(0, left + 1, STEP_BYTES)
    votes = confirming(volume.source, starts, header)
    return starts[int(votes.argmax())] if votes.any() else None


def _stand_in(
    size_bytes: int, block_size: int = STEP_BYTES, signature: int = int(_SIGNATURES.hfsplus), **values: int
) -> HfsplusVolume.VolumeHeader:
    """Make up a header that has no special files."""
    while size_bytes // block_size > MOST_BLOCKS:
        block_size *= 2
    version = grammar.HfsplusVolume.Version[_SIGNATURES(signature).name]
    known = {
        "signature": signature,
        "version": int(version),
        "len_block": block_size,
        "num_blocks": max(1, size_bytes // block_size),
    }
    data = HEADER.blank(known | values)
    return grammar.parse(
        grammar.HfsplusVolume.VolumeHeader, data, structure="volume header", image_offset=HEADER_OFFSET
    )


def _newest_copy(volume: Volume) -> HfsplusVolume.VolumeHeader | None:
    """Find the header with the highest write count among those that fit the place; those of images in files do not."""
    best: HfsplusVolume.VolumeHeader | None = None
    size, tried = volume.source.size_bytes, 0
    for at, length, buffer in chunks(volume):
        starts = np.arange(0, min(length, len(buffer) - HEADER_BYTES + 1), STEP_BYTES, dtype=np.int64)
        signature = volume.decoder.column(HEADER, buffer, starts, HEADER.signature)
        for start in starts[np.isin(signature, [int(item) for item in _SIGNATURES])].tolist():
            tried += 1
            if tried > MOST_HEADERS:
                return best
            header = _fitting(volume, at + start, size)
            if header is not None and (best is None or header.write_count > best.write_count):
                best = header
    return best


def _fitting(volume: Volume, at: int, size_bytes: int) -> HfsplusVolume.VolumeHeader | None:
    try:
        header = read_header(volume.source, at, "volume header")
    except FormatError:
        return None
    left = size_bytes - int(header.num_blocks) * int(header.len_block)
    is_catalog_there = int(header.catalog_file.extents[0].num_blocks) > 0
    # A volume fills its partition up to a block, and its catalog lies in it.
    return header if is_catalog_there and 0 <= left < max(LARGEST_BLOCK_BYTES, int(header.len_block)) else None


def _catalog(volume: Volume, found: Swept) -> tuple[Volume, Catalog]:
    """Put the catalog together, in the order of keys which more of its leaves follow; folded where both do."""
    results = []
    for signature in (_SIGNATURES.hfsplus, _SIGNATURES.hfsx):
        header = _stand_in(volume.source.size_bytes, volume.block_size_bytes, int(signature))
        trial = replace(volume, header=header, log=volume.log.branch())
        leaves = catalog_file.CatalogLeaves()
        number = int(grammar.HfsplusVolume.Cnid.catalog_file)
        place = TreePlace("catalog", number, inline_fork(header.catalog_file))
        tree = rebuild(trial, place, None, leaves, Beside(found))
        results.append((trial, catalog_file.collect_catalog(tree, leaves)))
    return max(results, key=lambda result: (len(result[1].name), -_num_misplaced(*result)))


def _num_misplaced(volume: Volume, catalog: Catalog) -> int:
    return int(catalog.misplaced(is_folded=not volume.is_hfsx).sum())


def _inferred_header(volume: Volume, catalog: Catalog, found: Swept) -> HfsplusVolume.VolumeHeader:
    """Make up a header of what the catalog tells."""
    entries = catalog.entries
    is_folder = entries["is_folder"].astype(bool)
    # The root folder does not count.
    num_folders = int(is_folder.sum()) - int((entries["parent_id"] == grammar.HfsplusVolume.Cnid.root_parent).sum())
    return _stand_in(
        volume.source.size_bytes,
        _block_size(catalog, found, volume.source.size_bytes),
        int(volume.header.signature),
        num_files=int((~is_folder).sum()),
        num_folders=max(0, num_folders),
        next_catalog_id=min(int(entries["file_id"].max(initial=0)) + 1, MOST_BLOCKS),
    )


def _block_size(catalog: Catalog, found: Swept, size_bytes: int) -> int:
    """Find the size of allocation blocks with which most files are as long as they say, and lie where no node is."""
    sizes = [STEP_BYTES << shift for shift in range((LARGEST_BLOCK_BYTES // STEP_BYTES).bit_length())]
    fits = [_num_fitting(catalog, found, size, size_bytes) for size in sizes]
    best = [size for size, count in zip(sizes, fits, strict=True) if count == max(fits)]
    return USUAL_BLOCK_BYTES if USUAL_BLOCK_BYTES in best else best[0]


def _num_fitting(catalog: Catalog, found: Swept, block_size: int, size_bytes: int) -> int:
    """How many data forks need as many blocks as they have, less the extents outside and those where nodes lie."""
    length, blocks = (catalog.entries[name].astype(np.int64) for name in ("data_size", "data_blocks"))
    start, count = (catalog.forks[name].astype(np.int64) * block_size for name in ("start_block", "block_count"))
    outside = start + count > size_bytes
    nodes = np.stack([found.volume_offset, found.node_size], axis=1)
    taken = overlaps(nodes, start[~outside], count[~outside])
    fitting = (length > 0) & (-(-length // block_size) == blocks)
    return int(fitting.sum()) - int(outside.sum()) - int(taken.sum())
