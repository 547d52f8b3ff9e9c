"""What a file system declares before its code is imported: names, terms, partition types, and its modules."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


Scheme = Literal["gpt", "apm", "mbr"]

OptionKind = Literal["number", "text", "switch", "secret", "image"]
"""The command line also accepts a secret from a file. An image is opened as the other device of a set."""

# No slots: they create each class twice, which costs time, and help texts and usage errors need all of these classes.


@dataclass(frozen=True)
class TreeTraits:
    """One of a file system's trees, or a structure in place of a tree."""

    name: str  # name in the tables
    label: str  # label in the legend of the map
    # `main` has names and inodes, which listings read. `map` holds the addresses of other trees' nodes.
    role: Literal["main", "map", "other"] = "other"
    is_walked: bool = False  # whether listings read it: the main tree, its map, and trees for look-ups beside it
    words: str = ""  # beginning of a sentence about it
    holds_several: bool = False  # whether several trees share this name, so their nodes have no common key order


@dataclass(frozen=True)
class ReadOption:
    """A file system's own option for reading: the command line offers it, and every verb accepts it."""

    name: str  # keyword of the library; with hyphens, the option of the command line
    kind: OptionKind  # kind of its value
    help: str = ""  # description; empty if `layoutscope.options.ReadOptions` has it
    default: int | str | bool | None = None  # value if the option is not given
    # whether it requests a state other than the newest, which volumes of other file systems cannot have
    is_state: bool = False


@dataclass(frozen=True)
class Traits:
    """Facts about a file system that need no volume."""

    labels: tuple[str, ...]  # names of the file system and its variants for users, the usual one first
    trees: tuple[TreeTraits, ...] = ()
    stamp_word: str = "write count"  # term for the number of a state: `xid`, `write count`
    options: tuple[ReadOption, ...] = ()  # options for reading, besides those of every file system
    # related file systems that its probe recognises but that cannot be read, by their kind: the code of the refusal,
    # from `declare_refusals`, and a remedy for users
    relatives: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # codes of findings that only this file system has, from `declare`
    finding_codes: Mapping[str, str] = field(default_factory=dict)
    # gpt_types, apm_types, mbr_types: types by which partition maps identify it; those of GPT are lower-case GUIDs with
    # their names, the others are names in the map, or in the grammar of its types
    gpt_types: Mapping[str, str] = field(default_factory=dict)
    apm_types: tuple[str, ...] = ()
    mbr_types: tuple[str, ...] = ()
    # whether several volumes share the space of one container, which has its own layout
    has_containers: bool = False
    keeps_states: bool = False  # whether older states can be read besides the newest
    # whether every node is located through a map; otherwise this applies only to nodes beyond a file's first extents
    maps_every_node: bool = False
    may_end_within_block: bool = False  # whether a sound volume may end within its last block
    has_metadata_zone: bool = False  # whether its metadata is in a zone at the front of the volume
    # driver versions that read differently from the one assumed for a host: host, driver and version, and
    # properties that differ from the host's
    driver_versions: tuple[tuple[str, str, Mapping[str, object]], ...] = ()

    @property
    def label(self) -> str:
        """Name for users."""
        return self.labels[0]

    @property
    def takes_second(self) -> bool:
        """Whether a volume may be on two devices, the second of which an option gives."""
        return any(option.kind == "image" for option in self.options)

    def tree(self, name: str) -> TreeTraits:
        """Return the facts about a tree by its name; general facts for an unknown name."""
        return next((tree for tree in self.trees if tree.name == name), TreeTraits(name, f"{name} B-tree"))

    @property
    def main_tree(self) -> str:
        """Name of the tree with names and inodes, which listings read; empty if there is none."""
        return next((tree.name for tree in self.trees if tree.role == "main"), "")

    @property
    def walked_trees(self) -> tuple[str, ...]:
        """Names of the trees that listings read."""
        return tuple(tree.name for tree in self.trees if tree.is_walked)


class OnDemand:
    """A module of this package that is imported when one of its members is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, member: str) -> Any:
        return getattr(import_module(f"layoutscope.{self._name}"), member)
