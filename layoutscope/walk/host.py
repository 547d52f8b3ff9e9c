"""Known hosts, their properties by name (including those of file system drivers), and their time.

Every property has a name and, for each host, a value with its source, so all differences between hosts can be looked
up. Users change properties by name. On flash, the host takes most of the time of a workload, so reports show host time
apart from the reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict, replace

from layoutscope.access.driver import Costs, HostProfile, sources_of, values_by_host
from layoutscope.display import Displayed, Struct
from layoutscope.filesystems.registry import filesystems
from layoutscope.units import KIB, MIB, parse_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from layoutscope.access.driver import DriverProperties, KnownProperties
    from layoutscope.filesystems.contract import FileSystem

_KNOWN: Final[KnownProperties] = {
    "node_read_bytes": (
        (4 * KIB, "block_read_full_folio of Linux 6.1 and sb_bread of linux-apfs-rw: one block a request"),
        (0, "GetBTreeBlock of Apple's hfs: buf_meta_bread of a whole node; elsewhere assumed the same"),
    ),
    "listing_buffer_bytes": (
        (32 * KIB, "glibc opendir: 32 KiB for getdents64"),
        (32 * KIB, "Apple Libc fts.c: 32 KiB for getattrlistbulk"),
    ),
    "listing_entry_bytes": (
        (19, "Linux fs/readdir.c: struct linux_dirent64, 19 bytes before the name"),
        (120, "assumed: length, returned attributes, name reference and the attributes of fts.c"),
    ),
    "listing_dots_bytes": (
        (48, "Linux fs/readdir.c: two entries of 24 bytes"),
        (0, "getattrlistbulk returns neither"),
    ),
    "listing_carries_attributes": (
        (False, "glibc fts.c: readdir, then fstatat of each entry"),
        (True, "Apple Libc fts.c, fts_build: getattrlistbulk, then fstatat of each directory"),
    ),
    "reads_decmpfs_for_stat": (
        (False, "Linux 6.1 hfsplus knows no compression; linux-apfs-rw reads the attribute on open only"),
        (True, "Apple's hfs: the size of a compressed file is that in com.apple.decmpfs"),
    ),
    "read_ahead_bytes": (
        (128 * KIB, "Linux default read_ahead_kb 128"),
        (1 * MIB, "assumed: MAXPHYS of 1 MiB"),
    ),
    "optimal_read_bytes": (
        (1280 * KIB, "Linux 6.1 block/blk-settings.c: BLK_DEF_MAX_SECTORS, 2560 of 512 bytes"),
        (1 * MIB, "assumed: MAXPHYS of 1 MiB"),
    ),
    "random_read_ahead": (
        (True, "Linux 6.1 mm/readahead.c, ondemand_readahead"),
        (False, "assumed"),
    ),
    "request_segments": (
        (64, "User-Mode Linux arch/um/drivers/ubd_kern.c: 64; disks have up to 256"),
        (256, "assumed: MAXPHYS of 1 MiB"),
    ),
    "elevator": (
        (True, "Linux 6.1 block/mq-deadline.c on one queue"),
        (False, "assumed: one request after the other"),
    ),
    "partition_scan_bytes": (
        (
            4 * KIB,
            "Linux 6.1 block/partitions/core.c: the first page (recorded); of GPT the entries, too, which are left out",
        ),
        (0, "left out: disks are divided long before a mount"),
    ),
    "scan_read_bytes": (
        (32 * KIB, "no Linux call; as macOS"),
        (32 * KIB, "assumed, after the scanner of Apple's hfs, which reads several nodes at once"),
    ),
    "cache_bytes": (
        (None, "assumed: memory does not run out; hfsplus keeps nodes until it is unmounted in any case (observed)"),
        (None, "assumed: memory does not run out"),
    ),
    "cache_keeps": (
        (0.0, "assumed: of pages that were used once the oldest goes first (mm/vmscan.c, inactive list)"),
        (0.0, "xnu bsd/vfs/vfs_bio.c: metadata buffers wait in the order of their use; assumed of APFS, too"),
    ),
    "name_cache_entries": (
        (
            None,
            (
                "Linux 6.1 fs/dcache.c, fs/inode.c: dentries and inodes outlive their pages (observed), until memory "
                "is short"
            ),
        ),
        (263_168, "xnu bsd/dev/unix_startup.c: a vnode for each 64 KiB of memory, 263,168 at most (16 GiB and more)"),
    ),
    "name_cache_keeps": (
        (0.0, "Linux 6.1 fs/dcache.c, prune_dcache_sb: the least recently used first"),
        (1.0, "assumed: xnu takes vnodes from several lists and passes over those in use, in no strict order"),
    ),
    "threads": (
        (1, "fts is one thread"),
        (1, "fts is one thread"),
    ),
    "processors": (
        (4, "assumed"),
        (4, "assumed: two cores with two threads each, as in the reports of 2017"),
    ),
}
"""Each property's value and its source, on Linux and macOS.

Linux is 6.1 with its hfsplus driver and linux-apfs-rw 0.3.20; macOS has Apple's hfs and apfs drivers and Libc's fts.
"""

HOSTS: Final = {host: HostProfile(name=host, **values) for host, values in values_by_host(_KNOWN).items()}
LINUX, MACOS = HOSTS["linux"], HOSTS["macos"]
HOST_WORDS: Final = {"linux": "Linux", "macos": "macOS"}


def host_profile(host: str | HostProfile, **changes: object) -> HostProfile:
    """Return a host by name, with some properties changed.

    >>> property_values(host_profile("linux", apfs_looks_up_dstream=False))["apfs_looks_up_dstream"]
    False
    """
    profile = host if isinstance(host, HostProfile) else HOSTS[host]
    for name, value in changes.items():
        profile = with_property(profile, name, value)
    return profile


def _drivers(profile: HostProfile) -> Iterator[tuple[FileSystem, DriverProperties]]:
    """Yield each file system with the properties of its driver on a host."""
    for item in filesystems():
        yield item, profile.properties_of(item.name, item.hosts)


def property_values(profile: HostProfile) -> dict[str, object]:
    """Return the properties of a host by name; names of costs are prefixed with the file system."""
    found: dict[str, object] = {name: value for name, value in asdict(profile).items() if name not in ("name", "own")}
    for item, own in _drivers(profile):
        values = asdict(own)
        costs = asdict(values.pop("costs"))
        found |= values | {f"{item.name}.{name}": value for name, value in costs.items()}
    return found


def sources() -> dict[str, tuple[str, str]]:
    """Return the source of each property's value, on Linux and macOS."""
    found = sources_of(_KNOWN)
    for item in filesystems():
        found |= item.host_sources
    # A cost without its own source has that of its file system.
    return {name: found[name if name in found else name.partition(".")[0]] for name in property_values(LINUX)}


def with_property(profile: HostProfile, name: str, value: Any) -> HostProfile:
    """Change one property of a host."""
    if name in profile.__struct_fields__:
        return replace(profile, **{name: value})
    for item, own in _drivers(profile):
        part = name.removeprefix(f"{item.name}.")
        if part != name and part in Costs.__struct_fields__:
            made = replace(own, costs=replace(own.costs, **{part: value}))
        elif hasattr(own, name):
            made = replace(own, **{name: value})
        else:
            continue
        return replace(profile, own={**profile.own, item.name: made})
    raise TypeError(f"unknown host property {name!r}")


TRUTH: Final = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}

UNLIMITED: Final = ("cache_bytes", "hfs_node_cache_bytes", "name_cache_entries")
"""Properties that may have no limit."""


def set_properties(profile: HostProfile, given: Mapping[str, object]) -> HostProfile:
    """Return a host with some properties changed.

    >>> from layoutscope.walk.host import LINUX, property_values
    >>> other = set_properties(LINUX, {"read_ahead_bytes": "1MiB", "apfs_looks_up_dstream": "no"})
    >>> other.read_ahead_bytes, property_values(other)["apfs_looks_up_dstream"]
    (1048576, False)
    """
    values = property_values(profile)
    for name, value in given.items():
        if name not in values:
            raise ValueError(f"unknown host property {name!r}. Choose from: {', '.join(values)}")
        profile = with_property(profile, name, read_value(name, value, values[name]))
    return profile


def read_value(
    name: str,
    value: object,
    usual: object,  # one of its values, which determines the type; None means a size
) -> object:
    """Read the value of a property."""
    if not isinstance(value, str):
        return value
    if name in UNLIMITED and value.strip().lower() == "unlimited":
        return None
    try:
        if isinstance(usual, bool):
            return TRUTH[value.strip().lower()]
        if isinstance(usual, tuple):
            return tuple(filter(None, value.split(",")))
        return _positive(float(value)) if isinstance(usual, float) else int(_positive(parse_size(value)))
    except (KeyError, ValueError, OverflowError) as error:
        kind = "yes or no" if isinstance(usual, bool) else "number" if isinstance(usual, float) else "number or size"
        raise ValueError(f"{name}: {value!r} is not a {kind}") from error


def _positive(number: float) -> float:
    if not 0 <= number < float("inf"):
        raise ValueError(number)
    return number


class HostTime(Displayed, Struct, frozen=True):
    """Processor time of a workload, in seconds."""

    cpu_s: float  # processor seconds with all threads of the host, waiting for locks included
    wall_s: float  # time on the clock if the drive answered at once


def host_time(work_us: float, host: HostProfile) -> HostTime:
    """Spread host work over the threads of a host.

    >>> from layoutscope.walk.host import host_profile
    >>> host_time(9.2e6, host_profile("macos", threads=20))
    HostTime(cpu_s=9.2, wall_s=2.3)
    """
    cpu_s = work_us / 1e6
    return HostTime(cpu_s, round(cpu_s / host.parallel_threads, 9))
