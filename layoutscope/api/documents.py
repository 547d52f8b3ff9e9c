"""What leaves an image for other programs: lists of files for timelines and carving, walks for profilers."""

from __future__ import annotations

import os
from collections import Counter
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.entries import Paths, path_component
from layoutscope.analysis.frames import listed_files, volume_names
from layoutscope.api import outputs
from layoutscope.api.images import nothing_to_walk
from layoutscope.api.keywords import profiles_of, takes
from layoutscope.api.outputs import output
from layoutscope.api.predict import DEFAULT_DRIVES
from layoutscope.api.reading import opened, request_of, with_options
from layoutscope.api.workloads import checked, walk, work_of
from layoutscope.drive import service
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.filesystems.contract import InodeStats, VolumeRequest
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.options import DocumentOptions
from layoutscope.progress import phase, reporting
from layoutscope.report.forensic import bodyfile, dfxml
from layoutscope.report.profiles import PROFILES, Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Unpack

    from numpy.typing import NDArray

    from layoutscope.api.images import Opened
    from layoutscope.filesystems.contract import Piece, Row, View
    from layoutscope.options import Drives, ReadOptions, Workload
    from layoutscope.tables import VolumeLayout

    ViewOf = Callable[[VolumeLayout], View]

BATCH_NODES: Final = 4096
"""Leaves that are decoded at once."""


def views_of(image: Opened, request: ReadOptions) -> ViewOf:
    """Return what gives the bytes of a volume; each volume is unlocked once."""
    known: dict[tuple[int, int | None], View] = {}

    def view(layout: VolumeLayout) -> View:
        key = (layout.facts.image_offset, layout.facts.volume)
        if key not in known:
            chosen, where = filesystem_of(layout), layout.facts.image_offset
            place = VolumeRequest(image.bytes().main, where, image.spaces.get(where))
            known[key] = chosen.view(with_options(place, image.bytes(), chosen, request), layout)
        return known[key]

    return view


def parts_of_node(layout: VolumeLayout, row: Row) -> list[Piece]:
    """List where the parts of a node lie, in the node's order."""
    fragments = layout.columns("node_fragments")
    parts = fragments.take(fragments["node_row"].data == row["row"])
    found = [(part["image_offset"], part["length_bytes"]) for part in parts.rows()]
    return found or [(row["image_offset"], row["size_bytes"])]


def read_inode_stats(layout: VolumeLayout, view: View) -> InodeStats | None:
    """Read what the inodes of a volume say of owners, modes and times.

    One row an inode record that was found in a leaf with inodes; None where there are none.
    """
    batches = [found for nodes in _leaves(layout, view) if (found := view.inode_stats(nodes)) is not None]
    return InodeStats(*map(np.concatenate, zip(*batches, strict=True))) if batches else None


def _leaves(layout: VolumeLayout, view: View) -> Iterator[NDArray[np.uint8]]:
    """Yield the leaves that hold inodes, so many of one size at once; those that end early are left out."""
    nodes = layout.columns("nodes")
    has_inodes = np.isin(nodes["row"].data, layout.columns("entries")["inode_node_row"].present())
    chosen = nodes.take(has_inodes & ~nodes["kind"].equals("locked"))
    chosen = chosen.take(np.lexsort((chosen["image_offset"].signed(), chosen["device"].filled(0))))
    sizes = chosen["size_bytes"].data
    for size in dict.fromkeys(sizes.tolist()):
        places = np.flatnonzero(sizes == size)
        for first in range(0, len(places), BATCH_NODES):
            part = chosen.take(places[first : first + BATCH_NODES])
            read = (b"".join(view.read(row, piece) for piece in parts_of_node(layout, row)) for row in part.rows())
            whole = b"".join(data for data in read if len(data) == size)
            yield np.frombuffer(whole, np.uint8).reshape(-1, size)


LISTS: Final = ("bodyfile", "dfxml")
"""Formats with the files of an image."""

FORMATS: Final = (*LISTS, *PROFILES)
"""Formats of whole documents; those that are no lists of files are of a walk."""


ENDINGS: Final = {
    ".body": "bodyfile",
    ".bodyfile": "bodyfile",
    ".dfxml": "dfxml",
    ".speedscope.json": "speedscope",
    ".perfetto.json": "perfetto",
    ".folded": "folded",
}
"""Which document a file is, by how its name ends; others may end in anything that is no other format."""

_ALSO: Final = {"speedscope": "json", "perfetto": "json"}
"""Endings that say no more than how these are written."""


def document_form(target: object, asked: str | None) -> str | None:
    """Tell which document is to be written: the one that was asked for, or as the target ends; None for a table."""
    name = str(target).lower() if isinstance(target, str | os.PathLike) else ""
    ending = next((form for end, form in ENDINGS.items() if name.endswith(end)), None)
    if asked is None or (asked not in FORMATS and ending is None):
        return ending
    other = ending or outputs.ENDINGS.get(name.rpartition(".")[2] if "." in name else "")
    if other in (None, asked, _ALSO.get(asked)):
        return asked
    raise UsageError(f"{target}: ends as {other} does, but {asked} was asked for")


@takes(DocumentOptions)
def export_document(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str] | IO[bytes],
    *,
    file_format: str,
    force: bool = False,
    **options: Unpack[DocumentOptions],
) -> None:
    """Write the files of all chosen volumes, or walks of them, as other programs expect them."""
    if file_format not in FORMATS:
        raise UsageError(
            f"no format {file_format!r}{did_you_mean(file_format, FORMATS)}; there are {', '.join(FORMATS)}"
        )
    work, request = checked(work_of(options)), request_of(options, path)
    with opened(path, request) as image, reporting(request["progress"]):
        if file_format in LISTS:
            texts = _lists(image, request, file_format)
        else:
            texts = PROFILES[file_format](_walks(image, work, options.get("drives")))
        with phase(f"writing {file_format}"), output(target, force=force) as file:
            for text in texts:
                file.write(text.encode())


def _lists(image: Opened, request: ReadOptions, file_format: str) -> Iterator[str]:
    """Yield a document with files; of a capture, which holds no inodes, without owners, modes and some times."""
    view = None if image.images is None else views_of(image, request)
    held = [layout for layout in image.layouts if layout.facts.volume is not None]

    def files(layout: VolumeLayout) -> Iterator[dict[str, Any]]:
        return listed_files(layout, None if view is None else read_inode_stats(layout, view(layout)))

    if file_format == "dfxml":
        yield from dfxml(image.about.name, ((layout, files(layout)) for layout in held))
        return
    times = Counter(map(_prefix, held))
    for layout in held:
        own = _prefix(layout)
        apart = f"{own} (volume {layout.facts.volume})" if times[own] > 1 else own
        yield from bodyfile(files(layout), apart if len(held) > 1 else "")


def _prefix(layout: VolumeLayout) -> str:
    facts = layout.facts
    return f"/{path_component(facts.name) or f'volume {facts.volume or 1}'}"


def _walks(image: Opened, work: Workload, drives: Drives | None) -> list[Profile]:
    """Walk all volumes, and serve each walk on each drive."""
    walked = [layout for layout in image.layouts if len(layout.columns("entries"))]
    if not walked:
        raise nothing_to_walk(image.layouts, image.about.name)
    found = []
    for name, layout in zip(volume_names(image.layouts, walked), walked, strict=True):
        reads, paths = walk(layout, work).reads, Paths(layout)
        for profile in profiles_of(drives, DEFAULT_DRIVES[:1]):
            title = f"{name}, {work['order']} on {profile.name}"
            found.append(Profile.of(title, reads, service(reads, profile), paths))
    return found
