"""Static facts about each file system: names, words, colours, types of partitions, feature bits.

Each file system has one table of the bits by which a volume or container says what it uses, in its ``features`` module;
docs/reference/features.md is made from it and the bits' meanings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import IntEnum

    from layoutscope.findings import FindingLog, Level


Scheme = Literal["gpt", "apm", "mbr"]

OptionKind = Literal["number", "text", "switch", "secret", "image"]
"""The command line also takes a secret from a file; an image is opened as the other device of a set."""

# Without slots, for which a class is built twice: helps and usage errors need all of these.


@dataclass(frozen=True)
class TreeTraits:
    """One of a file system's trees, or what is used in place of one."""

    name: str  # as in the tables
    label: str  # as the legend of the map calls it
    # `main` is what an enumeration walks: names and inodes. `map` holds the addresses of others' nodes.
    role: Literal["main", "map", "other"] = "other"
    is_walked: bool = False  # whether enumerations read it: the main tree, what maps it, what is looked up beside it
    words: str = ""  # how a sentence about it begins
    holds_several: bool = False  # whether several trees go by this name, so that their nodes have no common key order


@dataclass(frozen=True)
class PartitionTypes:
    """Types under which maps of partitions announce a file system."""

    gpt: Mapping[str, str] = field(default_factory=dict)  # GUID in lower case to its name
    # apm, mbr: names as the map, or the grammar of its types, has them
    apm: tuple[str, ...] = ()
    mbr: tuple[str, ...] = ()

    def named(self, scheme: Scheme, type_name: str) -> bool:
        """Whether a type of a scheme announces this file system."""
        return type_name in getattr(self, scheme)


@dataclass(frozen=True)
class ReadOption:
    """An option of reading that is a file system's own: the command line offers it, and every verb takes it."""

    name: str  # keyword of the library; with hyphens, the option of the command line
    kind: OptionKind  # what is given
    help: str = ""  # what it does; empty where `layoutscope.options.ReadOptions` says it
    default: int | str | bool | None = None  # what holds where it is not given
    # whether it asks for a state other than the newest, which a volume of another file system cannot have
    is_state: bool = False


@dataclass(frozen=True, slots=True)
class DriverVersion:
    """A version of a driver that reads otherwise than the one that a host is taken to have."""

    host: str  # whose driver it is
    name: str  # driver and version
    properties: Mapping[str, object]  # properties of the host that differ


@dataclass(frozen=True)
class Traits:
    """What is known of a file system without a volume of it."""

    labels: tuple[str, ...]  # what people call it and its variants, the usual one first
    trees: tuple[TreeTraits, ...] = ()
    stamp_word: str = "write count"  # what counts its states: `xid`, `write count`
    options: tuple[ReadOption, ...] = ()  # options of reading that it has besides those of every file system
    # relatives that its probe names and nobody reads, by the kind that it calls them: the code of the refusal, from
    # `declare_refusals`, and what users can do about it
    relatives: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # codes of findings that it alone makes, from `declare`
    finding_codes: Mapping[str, str] = field(default_factory=dict)
    partition_types: PartitionTypes = field(default_factory=PartitionTypes)  # types under which maps announce it
    # whether several volumes share the space of one container, which has a layout of its own
    has_containers: bool = False
    keeps_states: bool = False  # whether older states can be read beside the newest
    # whether every node is found through its map; otherwise only nodes beyond the first extents of a file are
    maps_every_node: bool = False
    may_end_within_block: bool = False  # whether a sound volume may end within its last block
    has_metadata_zone: bool = False  # whether its metadata is kept in a zone at the front of the volume
    driver_versions: tuple[DriverVersion, ...] = ()  # versions of its drivers that read otherwise than the usual ones

    @property
    def label(self) -> str:
        """What people call it."""
        return self.labels[0]

    @property
    def takes_second(self) -> bool:
        """Whether a volume may be on two devices, the other one given by an option."""
        return any(option.kind == "image" for option in self.options)

    def tree(self, name: str) -> TreeTraits:
        """Return what is known of a tree by its name; for a name that is not among its trees, general facts."""
        return next((tree for tree in self.trees if tree.name == name), TreeTraits(name, f"{name} B-tree"))

    @property
    def main_tree(self) -> str:
        """Name of the tree that an enumeration walks, empty if there is none."""
        return next((tree.name for tree in self.trees if tree.role == "main"), "")

    @property
    def walked_trees(self) -> tuple[str, ...]:
        """Names of the trees that enumerations read."""
        return tuple(tree.name for tree in self.trees if tree.is_walked)


class Feature(NamedTuple):
    """One bit."""

    bit: IntEnum  # its member in the grammar
    meaning: str  # what it means for reading, in one sentence
    code: str = ""  # of the finding that it is, if files may be missing where it is set
    message: str = ""  # what that finding says


class FeatureField(NamedTuple):
    """A field of such bits."""

    original: str  # its name in Apple's documentation
    title: str  # what it is
    unknown: str  # what is made of a bit that is not in the table, in one sentence
    features: tuple[Feature, ...] = ()  # its known bits

    @property
    def mask(self) -> int:
        """All known bits."""
        return sum(int(item.bit) for item in self.features)


def report_features(
    table: FeatureField,  # who does not know one of its bits is not to read the volume
    value: int,
    log: FindingLog,  # bound to the field
) -> None:
    """Report the bits of a field of incompatible features after which files may be missing."""
    level: Level = "error"
    for item in table.features:
        if item.code and value & int(item.bit):
            log.add(item.code, level, item.message)
    unknown = value & ~table.mask
    bits = [f"{1 << place:#x}" for place in range(unknown.bit_length()) if unknown >> place & 1]
    if bits:
        words = f"feature {bits[0]}" if len(bits) == 1 else f"features {', '.join(bits[:-1])} and {bits[-1]}"
        message = f"uses {words}, which layoutscope does not know: files may be missing"
        log.add("feature-unknown", level, message)
