"""What is known of a file system without a volume of it: names, words, colours, types of partitions. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Scheme = Literal["gpt", "apm", "mbr"]

OptionKind = Literal["number", "text", "switch", "secret", "image"]
"""Of a secret the command line takes a file, too; an image is opened as the other device of a set."""

# Without slots, for which a class is built twice: helps and usage errors need all of these.

OTHER_COLOURS = ("#56B4E9", "#8CD0F7")
"""Of trees that say none, on light and on dark."""


@dataclass(frozen=True)
class TreeTraits:
    """One of a file system's trees, or what stands for one.

    Attributes
    ----------
    name : str
        As in the tables.
    label : str
        As the legend of the map calls it.
    role : {'main', 'map', 'other'}
        ``main`` is what an enumeration walks: names and inodes. ``map`` tells where nodes of others lie.
    is_walked : bool
        Whether enumerations read it: the main tree, what maps it, what is looked up beside it.
    light, dark : str
        Colours of the map on light and dark; Okabe and Ito's (2008) are those that all people can tell apart.
    words : str
        How a sentence about it begins.
    holds_several : bool
        Whether several trees go by this name, so that their nodes have no common key order.
    """

    name: str
    label: str
    role: Literal["main", "map", "other"] = "other"
    is_walked: bool = False
    light: str = OTHER_COLOURS[0]
    dark: str = OTHER_COLOURS[1]
    words: str = ""
    holds_several: bool = False


@dataclass(frozen=True)
class PartitionTypes:
    """Types under which maps of partitions announce a file system.

    Attributes
    ----------
    gpt : mapping of str to str
        GUID in lower case to its name.
    apm, mbr : tuple of str
        Names as the map, or the grammar of its types, has them.
    """

    gpt: Mapping[str, str] = field(default_factory=dict)
    apm: tuple[str, ...] = ()
    mbr: tuple[str, ...] = ()

    def named(self, scheme: Scheme, type_name: str) -> bool:
        """Whether a type of a scheme announces this file system."""
        return type_name in getattr(self, scheme)


@dataclass(frozen=True)
class ReadOption:
    """An option of reading that is a file system's own: the command line offers it, and every verb takes it.

    Attributes
    ----------
    name : str
        Keyword of the library; with hyphens, the option of the command line.
    kind : {'number', 'text', 'switch', 'secret', 'image'}
        What is given.
    help : str
        What it does, as it goes on behind the file system's label.
    default : int, str, bool or None
        What holds where it is not given.
    is_state : bool
        Whether it asks for a state other than the newest, which a volume of another file system cannot have.
    """

    name: str
    kind: OptionKind
    help: str
    default: int | str | bool | None = None
    is_state: bool = False


@dataclass(frozen=True, slots=True)
class DriverVersion:
    """A version of a driver that reads otherwise than the one that a host is taken to have.

    Attributes
    ----------
    host : str
        Whose driver it is.
    name : str
        Driver and version.
    properties : mapping of str to value
        Properties of the host that differ.
    """

    host: str
    name: str
    properties: Mapping[str, object]


@dataclass(frozen=True)
class Traits:
    """What is known of a file system without a volume of it.

    Attributes
    ----------
    labels : tuple of str
        What people call it and its variants, the usual one first.
    trees : tuple of TreeTraits
        Its trees.
    stamp_word : str
        What counts its states: ``xid``, ``write count``.
    options : tuple of ReadOption
        Options of reading that it has besides those of every file system.
    relatives : mapping of str to (str, str)
        Relatives that its probe names and nobody reads, by the kind that it calls them: the code of the refusal, from
        :func:`layoutscope.errors.declare_refusals`, and what users can do about it.
    finding_codes : mapping of str to str
        Codes of findings that it alone makes, from :func:`layoutscope.findings.declare`.
    partition_types : PartitionTypes
        Types under which maps announce it.
    has_containers : bool
        Whether several volumes share the space of one container, which has a layout of its own.
    keeps_states : bool
        Whether older states can be read beside the newest.
    maps_every_node : bool
        Whether every node is found through its map; otherwise only what lies beyond the first extents of a file is.
    may_end_within_block : bool
        Whether a sound volume may end within its last block.
    has_metadata_zone : bool
        Whether its metadata is kept in a zone at the front of the volume.
    driver_versions : tuple of DriverVersion
        Versions of its drivers that read otherwise than the usual ones.
    """

    labels: tuple[str, ...]
    trees: tuple[TreeTraits, ...] = ()
    stamp_word: str = "write count"
    options: tuple[ReadOption, ...] = ()
    relatives: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    finding_codes: Mapping[str, str] = field(default_factory=dict)
    partition_types: PartitionTypes = field(default_factory=PartitionTypes)
    has_containers: bool = False
    keeps_states: bool = False
    maps_every_node: bool = False
    may_end_within_block: bool = False
    has_metadata_zone: bool = False
    driver_versions: tuple[DriverVersion, ...] = ()

    @property
    def label(self) -> str:
        """What people call it."""
        return self.labels[0]

    @property
    def takes_second(self) -> bool:
        """Whether a volume may lie on two devices, the other one given by an option."""
        return any(option.kind == "image" for option in self.options)

    def tree(self, name: str) -> TreeTraits:
        """Return what is known of a tree by its name; of one that is not among its trees, what can be said of any."""
        return next((tree for tree in self.trees if tree.name == name), TreeTraits(name, f"{name} B-tree"))

    @property
    def main_tree(self) -> str:
        """Name of the tree that an enumeration walks, empty if there is none."""
        return next((tree.name for tree in self.trees if tree.role == "main"), "")

    @property
    def walked_trees(self) -> tuple[str, ...]:
        """Names of the trees that enumerations read."""
        return tuple(tree.name for tree in self.trees if tree.is_walked)
