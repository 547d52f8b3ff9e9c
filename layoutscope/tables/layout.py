"""VolumeLayout: one view of one volume as frozen tables.

Readers make it, and it is all that metrics, walks, reports and captures see.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import field

from layoutscope.display import Displayed, Struct
from layoutscope.findings import UNBOUNDED, Finding
from layoutscope.tables.columns import Table, build_table
from layoutscope.tables.schema import FLAG_INFERRED, TABLES

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from layoutscope.frames import pl
    from layoutscope.options import Workload
    from layoutscope.tables.frames import WalkCosts


class TreeFacts(Displayed, Struct, frozen=True):
    """One B-tree as its header declares it."""

    tree: str  # name as in the tables
    node_size_bytes: int  # size of its nodes
    height: int  # levels, 0 for an empty tree
    num_nodes: int  # number of nodes
    num_free_nodes: int  # number of allocated nodes that are not in use
    num_leaf_records: int  # number of records in the leaves
    root_node_id: int  # node number or oid of the root, 0 for none


class VolumeFacts(Displayed, Struct, frozen=True):
    """The facts that a volume declares about itself."""

    filesystem: str  # name of the file system that read it
    variant: str  # for people: a label of the file system, of one of its variants, or of a container
    volume: int | None  # number on the image from 1, as in the tables and for ``--volume``; None for a container
    name: str  # name of the volume; empty with ``--no-names``
    uuid: str  # identifier of the volume
    stack: tuple[str, ...]  # the layers around it, outermost first
    image_offset: int  # start of the volume or its container, in bytes from the start of the image
    size_bytes: int  # size of the volume or its container
    block_size_bytes: int  # size of its allocation blocks
    case_sensitive: bool  # whether its names are case-sensitive
    stamp: int  # number of this state: the transaction, or the number of writes of the volume
    num_files: int  # number of files, as the superblock counts them
    num_directories: int  # number of directories, as the superblock counts them
    features: tuple[str, ...] = ()  # names of the flags that are set
    # further facts in the order of reports
    details: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    trees: tuple[TreeFacts, ...] = ()  # B-trees as their headers declare them
    view: str = "live"  # ``live``, ``xid N`` or ``snapshot NAME``
    metadata_known_bytes: int = 0  # metadata that is known to exist
    metadata_read_bytes: int = 0  # the part of it that was read
    num_missing_entries: int = 0  # lower bound of the lost entries, according to the volume's own counts


class TableField:
    """A field of a layout that accepts a table or a frame, and returns a frame, made at the first access."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, layout: VolumeLayout | None, owner: type) -> pl.DataFrame:
        if layout is None:
            # `dataclass` asks for the default of the field in this way.
            if self._name == "node_views":
                return build_table(self._name, {})  # type: ignore[return-value]
            raise AttributeError(self._name)
        return layout.columns(self._name).frame

    def __set__(self, layout: VolumeLayout, value: Table | pl.DataFrame) -> None:
        vars(layout)[f"_{self._name}"] = value if isinstance(value, Table) else Table.of(self._name, value)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class VolumeLayout(Displayed):
    """Tables of one view of one volume; columns as in :data:`layoutscope.tables.schema.TABLES`.

    Each table is available as a frame, and as arrays (:meth:`columns`) for computations. For a volume that shares a
    container, `container` is the layout of everything outside the volumes.
    """

    _costs: ClassVar[Callable[[VolumeLayout, Any, dict[str, Any]], WalkCosts]]

    facts: VolumeFacts
    nodes: TableField = TableField()
    node_fragments: TableField = TableField()
    regions: TableField = TableField()
    extents: TableField = TableField()
    entries: TableField = TableField()
    free: TableField = TableField()
    findings: TableField = TableField()
    node_views: TableField = TableField()
    container: VolumeLayout | None = dataclasses.field(init=False, default=None)

    def __repr__(self) -> str:
        rows = ", ".join(f"{len(self.columns(name)):,} {name}" for name in ("nodes", "entries", "extents", "findings"))
        return f"VolumeLayout({self.facts.variant} {self.facts.name!r:.80}, {self.facts.view!r:.40}, {rows})"

    @staticmethod
    def set_cost_function(compute: Callable[[VolumeLayout, Any, dict[str, Any]], WalkCosts]) -> None:
        """Set the function that computes the costs of a walk from a layout, a drive and keywords of the workload."""
        VolumeLayout._costs = compute

    def costs(self, drive: str | os.PathLike[str], **work: Unpack[Workload]) -> WalkCosts:
        """Compute the cost of a walk of this volume on a drive, by node, by file and by directory.

        Parameters
        ----------
        drive : str or path
            A profile or a TOML file.
        **work
            The workload, see :class:`~layoutscope.options.Workload`; by default a cold enumeration from the root.

        Raises
        ------
        TypeError
            If a keyword is unknown.
        UsageError
            If there is no such drive, or the volume cannot be walked.

        Examples
        --------
        >>> import layoutscope
        >>> with layoutscope.open("fixtures/images/hfsplus-scattered.img.zst") as session:
        ...     costs = session.volume.costs("generic-7200")
        >>> round(costs.nodes["seconds"].sum(), 6) == round(costs.seconds, 6)
        True
        """
        return VolumeLayout._costs(self, drive, dict(work))

    def table(self, name: str) -> pl.DataFrame:
        """Return a table by its name.

        Raises
        ------
        KeyError
            If there is no such table.
        """
        return self.columns(name).frame

    def columns(self, name: str) -> Table:
        """Return a table by its name as arrays.

        Raises
        ------
        KeyError
            If there is no such table.
        """
        if name not in TABLES:
            raise KeyError(name)
        table: Table = vars(self)[f"_{name}"]
        return table

    def changed(self, *, facts: VolumeFacts | None = None, **tables: Table | pl.DataFrame) -> VolumeLayout:
        """Return a layout with other facts or tables; unchanged tables are not converted to frames.

        Parameters
        ----------
        facts : VolumeFacts, optional
            Replacement for the facts.
        **tables : Table or DataFrame
            Replacements for tables.
        """
        all_tables = {name: tables.get(name, self.columns(name)) for name in TABLES}
        return VolumeLayout(facts=self.facts if facts is None else facts, **all_tables).inside(self.container)

    def inside(self, container: VolumeLayout | None) -> VolumeLayout:
        """Return the layout as that of a volume in a container."""
        tables: dict[str, Any] = {name: self.columns(name) for name in TABLES}
        layout = VolumeLayout(self.facts, **tables)
        object.__setattr__(layout, "container", container)
        return layout

    @property
    def coverage(self) -> float | None:
        """Share of its metadata that could be read, 0 to 1; None if unknown."""
        return coverage_of([self])

    @property
    def num_errors(self) -> int:
        """Number of findings that are errors."""
        return self.columns("findings").texts("level").raw().count(b"error")


def coverage_of(
    layouts: Sequence[VolumeLayout],
    num_errors_outside: int = 0,  # findings outside the volumes that are errors
) -> float | None:
    """Return the smaller share of the metadata bytes known to exist and of the entries that must exist; or None.

    None if both are 1 despite an error, because then something is lost, but its size is unknown. None as well if a
    volume declares that files may be missing.
    """
    containers = [layout.container for layout in layouts if layout.container is not None]
    codes = [layout.columns("findings").texts("code").raw() for layout in (*layouts, *containers)]
    if any(code.encode() in known_codes for known_codes in codes for code in UNBOUNDED):
        return None
    facts = [layout.facts for layout in layouts]
    known, read = sum(item.metadata_known_bytes for item in facts), sum(item.metadata_read_bytes for item in facts)
    missing = sum(item.num_missing_entries for item in facts)
    # An entry without a record of its own has only its name left, so it counts as lost.
    flags = [layout.columns("entries")["flags"].filled(0) for layout in layouts] if missing else []
    num_listed = sum(int(((each & FLAG_INFERRED) == 0).sum()) for each in flags)
    share = min(read / known if known else 1.0, num_listed / (num_listed + missing) if missing else 1.0)
    is_contradicted = num_errors_outside + sum(layout.num_errors for layout in layouts) > 0
    return None if share >= 1 and is_contradicted else share


_FINDING_TEXTS: Final = ("code", "level", "structure", "expected", "found", "message")
_FINDING_PLACE: Final = ("device", "image_offset")


def findings_table(findings: Sequence[Finding]) -> Table:
    """Make the table of findings, in the order in which they were found."""
    names = (*_FINDING_TEXTS, *_FINDING_PLACE)
    return build_table("findings", {name: [getattr(item, name) for item in findings] for name in names})


def layout_findings(layout: VolumeLayout) -> tuple[Finding, ...]:
    """Turn the findings table of a layout back into findings."""
    table = layout.columns("findings")
    columns: dict[str, list[Any]] = {name: table.texts(name).to_list() for name in _FINDING_TEXTS}
    columns |= {name: table[name].to_list() for name in _FINDING_PLACE}
    return tuple(Finding(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


def attach_containers(layouts: Sequence[VolumeLayout]) -> list[VolumeLayout]:
    """Link volumes to their container: the layout without a volume at the same offset."""
    own = {(one.facts.filesystem, one.facts.image_offset): one for one in layouts if one.facts.volume is None}
    shared = [own.get((one.facts.filesystem, one.facts.image_offset)) for one in layouts]
    return [one if own_of in (None, one) else one.inside(own_of) for one, own_of in zip(layouts, shared, strict=True)]
