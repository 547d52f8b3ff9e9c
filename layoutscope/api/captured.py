"""From a capture to layouts, as an image would have been opened: what only the image has is refused."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from layoutscope.api.images import Opened
from layoutscope.errors import ImageError, UsageError
from layoutscope.filesystems.registry import filesystem_names, read_options
from layoutscope.findings import Finding
from layoutscope.results.locked import is_locked
from layoutscope.results.scan import ImageFacts, PartitionFacts
from layoutscope.tables.capture import read_capture
from layoutscope.tables.manifest import check_values

if TYPE_CHECKING:
    from pathlib import Path

    from layoutscope.options import ReadRequest

IMAGE_ONLY: Final = ("partition", "volume_at", "ddrescue_map")
"""Options that choose among what only an image holds, besides those that single file systems have."""


def load_capture(path: Path, request: ReadRequest) -> Opened:
    """Open a capture."""
    layouts, manifest = read_capture(path)
    # What opens volumes may be told for many images at once; of a capture where all is open it has nothing to open.
    own, is_open = own_options(request), not any(map(is_locked, layouts))
    own = [name for name in own if not (is_open and read_options()[name][0].kind == "secret")]
    asked = [name for name in IMAGE_ONLY if getattr(request, name) is not None] + own
    if asked:
        raise UsageError(f"{path}: is a capture; {asked[0].replace('_', '-')} needs the image itself")
    unknown = [layout.facts.filesystem for layout in layouts if layout.facts.filesystem not in filesystem_names()]
    if unknown:
        raise ImageError(f"{path}: is a capture of the file system {unknown[0]!r:.40}, which is not known here")
    try:
        about = _saved_facts(manifest["image"])
        findings = tuple(map(_saved_finding, manifest["findings"]))
        return Opened(replace(about, name=about.name or str(path)), layouts, findings, capture=str(path))
    except ValueError as error:
        raise ImageError(f"{path}: is a damaged capture: {error}") from error


def _saved_facts(saved: dict[str, Any]) -> ImageFacts:
    kinds: dict[str, type | tuple[type, ...]] = {
        **{item.name: int for item in fields(ImageFacts)},
        **dict.fromkeys(("name", "metadata_sha256"), str),
        **dict.fromkeys(("partition_maps", "other_contents", "partitions"), list),
    }
    # Captures of earlier versions have no list of partitions.
    saved = {"partitions": [], **saved}
    check_values("image", saved, kinds)
    words = {name: tuple(map(str, saved[name])) for name in ("partition_maps", "other_contents")}
    return ImageFacts(**{**saved, **words, "partitions": tuple(map(_saved_partition, saved["partitions"]))})


def _saved_partition(saved: dict[str, Any]) -> PartitionFacts:
    kinds: dict[str, type | tuple[type, ...]] = {
        **dict.fromkeys(("scheme", "type_name", "name", "content"), str),
        **dict.fromkeys(("number", "image_offset", "size_bytes"), int),
        "content_size_bytes": (int, type(None)),
        "roles": list,
        "is_encrypted": (bool, type(None)),
    }
    check_values("partition", saved, kinds)
    return PartitionFacts(**{**saved, "roles": tuple(map(str, saved["roles"]))})


def _saved_finding(saved: dict[str, Any]) -> Finding:
    kinds: dict[str, type | tuple[type, ...]] = {item.name: str for item in fields(Finding) if item.name != "causes"}
    # Causes are found by a check, which a capture is not enough for.
    kinds |= {"image_offset": (int, type(None)), "device": int, "cause": type(None)}
    check_values("finding", saved, kinds)
    if saved["level"] not in ("info", "warning", "error"):
        raise ValueError("a finding has an unknown level")
    return Finding(**{name: value for name, value in saved.items() if name != "cause"})


def own_options(request: ReadRequest) -> list[str]:
    """Name the options of single file systems that ask for something else than they do by default."""
    known = read_options()
    return [name for name, value in request.own.items() if value != known[name][0].default]
