"""What ``inspect``, ``checkpoints`` and ``extract`` return: structures and owners, states, what was kept."""

from __future__ import annotations

from layoutscope.display import Displayed, Struct
from layoutscope.results import Shown


class FieldLine(Displayed, Struct, frozen=True):
    """One field.

    Attributes
    ----------
    path : str
        Names from the structure down.
    image_offset : int or None
        Where it starts, in bytes from the start of the image; None for a computed value.
    length_bytes : int
        Its width, 0 for a computed value.
    value : str
        As text; names unescaped.
    """

    path: str
    image_offset: int | None
    length_bytes: int
    value: str


class StructureLines(Displayed, Struct, frozen=True):
    """One structure with its fields; `error` says why some are missing."""

    title: str
    image_offset: int
    fields: tuple[FieldLine, ...]
    error: str = ""


class Owner(Displayed, Struct, frozen=True):
    """Who owns a range of bytes.

    Attributes
    ----------
    volume : str
        Layer stack and name of the volume.
    what : str
        ``node``, ``region``, ``file data``, ``free space``, or the kind of an entry, such as ``directory``.
    image_offset : int or None
        Where the range starts; None of an entry that has no extents, such as a directory.
    length_bytes : int
        Its length, of an entry that of all its extents.
    facts : tuple of (str, str)
        Tree, node, level, file, fork, path and so on, as far as they apply.
    """

    volume: str
    what: str
    image_offset: int | None
    length_bytes: int
    facts: tuple[tuple[str, str], ...]


class Inspection(Shown, Struct, frozen=True):
    """Everything about one place, node or file."""

    image: str
    subject: str
    owners: tuple[Owner, ...]
    structures: tuple[StructureLines, ...]


class StateLine(Displayed, Struct, frozen=True):
    """One state of a container that can be read; fields as in the reader's list of states."""

    container: str
    kind: str
    label: str
    xid: int
    volume: str
    time_ns: int
    is_complete: bool
    num_nodes: int
    num_sound_nodes: int

    @property
    def is_whole(self) -> bool:
        """Whether it can be read, and all of its nodes hold what they should."""
        return self.is_complete and self.num_sound_nodes == self.num_nodes


class Extract(Displayed, Struct, frozen=True):
    """What was written.

    Attributes
    ----------
    size_bytes : int
        Length of the image.
    metadata_bytes : int
        How much of it was kept.
    written_bytes : int
        Length of the file, or what a sparse one stores.
    """

    size_bytes: int
    metadata_bytes: int
    written_bytes: int
