"""The table of limits in docs/dev/threat-model.md, made from the constants that hold them.

Each constant of the package that is a bound by its name is here, with what it protects, the message if it is
exceeded, and the test that exceeds it; or it is among those that bound nothing that a stranger could use.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "layoutscope"
NAME = re.compile(r"_?(MAX|MOST|KEPT|FREE|RESERVE|HIGHEST|LARGEST|MEMORY|READ_SECONDS|WAIT_SECONDS)(_|$)")
SILENT = "no message: the rest is skipped"
_UNITS = "tests/unit/image"


class Limit(NamedTuple):
    """One bound: its place, what it protects, the message if it is exceeded, and the test that exceeds it."""

    place: str
    protects: str
    message: str
    test: str


_LIMITS = "tests/unit/test_limits.py::"
LIMITS = tuple(
    Limit(*row)
    for row in (
        ("inputs.MAX_TEXT_BYTES", "memory, against endless lists, profiles and passwords", "which no such file is",
         "tests/unit/test_inputs.py::test_files_up_to_the_limit_are_read_whole"),
        ("inputs.MAX_PARSED_BYTES", "memory, against profiles and reports of fio that become objects without end",
         "which no such file is", "tests/cli/test_hostile.py::test_texts_longer_than_any_are_refused"),
        ("inputs.MAX_SECRET_BYTES", "memory", "which no such file is",
         "tests/cli/test_hostile.py::test_texts_longer_than_any_are_refused"),
        ("image.opening.MAX_DEPTH", "time and memory, against images in images", "holds disk images within disk images",
         f"{_UNITS}/containers/test_udif.py::test_nesting_is_bounded"),
        ("image.failing._MAX_MAP_BYTES", "memory", "too large for a ddrescue map file",
         f"{_LIMITS}test_maps_of_ddrescue"),
        ("image.failing.MAX_FAILED_READS", "a failing disk, and hours of waiting for it", "the disk fails too often:",
         f"{_UNITS}/test_failing.py::test_a_disk_that_fails_too_often_is_left_alone"),
        ("image.failing.MAX_ATTEMPTS", "time, against a disk that fails elsewhere each time",
         "other areas failed in each of", f"{_UNITS}/test_failing.py::test_attempts_have_an_end"),
        ("drive.hdd.MAX_THINK_S", "the clock, against logs whose moments are nonsense",
         "the reads stretch over more than", f"{_LIMITS}test_reads_that_stretch_over_years"),
        ("image.remote.MAX_REDIRECTS", "time, against servers that lead in a circle", "its server redirects more than",
         f"{_UNITS}/test_web.py::test_a_server_that_misbehaves_is_named_and_bounded"),
        ("image.cache.MAX_WINDOW_BYTES", "memory, against headers that ask for more",
         "they ask for too much memory",
         f"{_UNITS}/test_compressed.py::test_a_long_window_is_accepted"),
        ("image.cache._MAX_XZ_MEMORY_BYTES", "memory, against dictionaries of 4 GiB", "damaged {",
         f"{_LIMITS}test_dictionaries_of_xz"),
        ("image.cache.MAX_LEADING_ZEROS_BYTES", "disk and time, against bombs of zeros", "to nothing but zeros for",
         f"{_UNITS}/test_compressed.py::test_a_bomb_of_zeros_is_refused"),
        ("image.cache.MAX_IMAGE_BYTES", "time: zeros of a bomb look like those of a disk",
         "decompresses to more than",
         f"{_UNITS}/test_compressed.py::test_a_bomb_beyond_the_largest_size_is_refused"),
        ("image.cache.RESERVE_BYTES", "the disk that holds the cache", "does not fit decompressed into",
         f"{_UNITS}/test_compressed.py::test_a_full_disk_is_told_before_it_is_full"),
        ("image.containers.udif.MAX_PLIST_BYTES", "memory", "disk image property list",
         f"{_LIMITS}test_property_lists_of_disk_images"),
        ("image.containers.placed.MAX_PIECE_BYTES", "memory, against pieces that unpack to gigabytes",
         "is larger than any that is compressed", f"{_UNITS}/containers/test_udif.py::test_a_bomb_is_refused"),
        ("image.containers.asif.MAX_DIRECTORY_BYTES", "memory", "tables is impossible",
         f"{_UNITS}/containers/test_asif.py::test_impossible_headers_are_errors"),
        ("image.containers.asif.MAX_TABLE_BYTES", "memory", "has more tables than any ASIF image",
         f"{_LIMITS}test_tables_of_sparse_images"),
        ("image.containers.sparse.MAX_PLIST_BYTES", "memory", " is not that of a sparse bundle",
         f"{_LIMITS}test_property_lists_of_bundles"),
        ("image.containers.placed.MAX_DISK_BYTES", "arithmetic with 64 bits", "is impossible",
         f"{_UNITS}/containers/test_sparse.py::test_headers_that_cannot_be"),
        ("image.containers.placed.MAX_TABLE_BYTES", "memory", "the table of blocks is not within the file",
         f"{_LIMITS}test_tables_of_blocks"),
        ("image.containers.sparse.MAX_DESCRIPTION_BYTES", "memory", "names no file of the disk",
         f"{_LIMITS}test_descriptions_of_parallels"),
        ("image.containers.udif.MAX_SEARCHED_BYTES", "time and memory", SILENT,
         f"{_LIMITS}test_how_far_a_property_list_is_looked_for"),
        ("image.containers.witness.MAX_DISK_BYTES", "time, against disks that nobody stored", "is impossible",
         f"{_UNITS}/containers/test_witness.py::test_sizes_that_cannot_be"),
        ("image.containers.witness.MAX_CHUNK_BYTES", "memory", "is impossible",
         f"{_UNITS}/containers/test_witness.py::test_sizes_that_cannot_be"),
        ("image.containers.wrappers.MAX_CUE_BYTES", "memory", "names no track with data",
         f"{_LIMITS}test_lists_of_tracks"),
        ("image.containers.wrappers.MAX_CD_SECTORS", "memory", "raw sectors of a CD, which has at most",
         f"{_UNITS}/containers/test_wrappers.py::test_more_sectors_than_a_disc_has_are_refused"),
        ("image.containers.wrappers.MAX_APPLE_SINGLE_ENTRIES", "time", "the AppleSingle file has no data fork",
         f"{_LIMITS}test_entries_of_apple_single"),
        *((f"image.containers.encrypted.{name}", protects, message,
           f"{_UNITS}/containers/test_encrypted.py::test_headers_that_cannot_be")
          for name, protects, message in (
              ("MAX_ROUNDS", "time, against days of PBKDF2", "rounds of PBKDF2"),
              ("MAX_CHUNK_BYTES", "memory", "are impossible"),
              ("MAX_WRAPPED_BYTES", "memory", "the sizes of a wrapped key are impossible"))),
        ("image.containers.encrypted.MAX_KEYS", "time", SILENT, f"{_LIMITS}test_keys_of_encrypted_images"),
        ("image.containers.foreign.MAX_EXTENTS", "descriptors, against descriptions of millions", "claims more than",
         f"{_LIMITS}test_extents_of_descriptions"),
        ("image.containers.placed.MAX_UNPACKED_A_BYTE", "time, against tables that name one piece over and over",
         "which is not gone through",
         f"{_UNITS}/containers/test_allocation.py::test_more_than_a_file_can_hold_is_refused"),
        ("tables.capture.MAX_MANIFEST_BYTES", "memory", "the manifest is too long",
         f"{_LIMITS}test_manifests_of_captures"),
        ("tables.capture.MAX_BLOCK_BYTES", "arithmetic", "the facts are those of no volume",
         "tests/unit/tables/test_capture.py::test_hostile_facts_are_refused"),
        ("tables.capture.MAX_ADDRESS", "arithmetic with 64 bits", "beyond every disk",
         "tests/unit/tables/test_capture.py::test_hostile_tables_are_refused"),
        ("tables.capture.MAX_DEVICES", "walks and models of drives", "that a set has",
         "tests/unit/tables/test_capture.py::test_hostile_tables_are_refused"),
        ("tables.capture.MAX_NODE_BYTES", "memory, against nodes of which caches keep whole ones", "more than {",
         "tests/unit/tables/test_capture.py::test_hostile_tables_are_refused"),
        ("tables.capture.MAX_ROWS_A_BYTE", "memory, against rows that cost nothing to store", "rows in",
         "tests/unit/tables/test_capture.py::test_more_rows_than_bytes_are_refused_before_they_are_read"),
        ("tables.capture.MAX_UNPACKED_A_BYTE", "memory, against tables that unpack to gigabytes", "would take",
         "tests/unit/tables/test_capture.py::test_rows_that_are_few_bytes_are_counted_in_memory"),
        ("tables.capture.FREE_BYTES", "small tables from the limit above", "would take",
         "tests/unit/tables/test_capture.py::test_a_word_that_fills_the_memory_is_refused_before_it_is_unpacked"),
        ("tables.capture.MAX_WORD_BYTES", "output, against a word that every row repeats", "has a text of more than",
         "tests/unit/tables/test_capture.py::test_words_that_no_file_system_has_are_refused"),
        ("tables.parquet.MAX_NESTED", "the stack", "nests its headers too deeply",
         "tests/unit/tables/test_parquet.py::test_headers_that_nest_without_end"),
        ("partition.maps.MAX_ENTRIES_BYTES", "memory", "the array of entries is too large",
         f"{_LIMITS}test_entries_of_gpt"),
        ("partition.maps.MAX_PARTITIONS", "time", "partitions; the first", f"{_LIMITS}test_entries_of_gpt"),
        ("image.remembered.MEMORY_BYTES", "memory", "no message: what follows is read again",
         f"{_UNITS}/test_remembered.py::test_memory_is_bounded"),
        ("filesystems.apfs.btree.MAX_KEPT_BYTES", "memory", "no message: what follows is read again",
         "tests/images/test_reads.py::test_tables_are_those_of_reading_level_by_level"),
        ("partition.maps.MAX_ADDRESS", "arithmetic with 64 bits", SILENT, f"{_LIMITS}test_addresses_of_gpt"),
        ("partition.maps.MAX_APM_ENTRIES", "time", "entries; at most", f"{_LIMITS}test_entries_of_apple_maps"),
        ("partition.search.MAX_GAPS", "time, against maps full of holes", SILENT,
         "tests/unit/partition/test_gaps.py::test_a_map_full_of_holes_is_looked_at_in_part"),
        ("filesystems.recognition.MAX_HITS", "time, against disks that have the letters of a header in every sector",
         SILENT, "tests/images/test_partitions.py::test_chance_letters_are_no_volume"),
        ("filesystems.hfsplus.volume.MAX_BLOCK_BYTES", "time, against copies of headers with huge blocks",
         SILENT, "tests/unit/partition/test_probe.py::test_a_copy_that_claims_huge_blocks_leads_to_the_start"),
        ("partition.maps.MAX_LOGICAL", "time, against chains that lead back to themselves", "or never ends",
         f"{_LIMITS}test_chains_of_logical_partitions"),
        ("partition.corestorage.MAX_UNITS", "time", SILENT, f"{_LIMITS}test_metadata_of_core_storage"),
        ("partition.corestorage.MAX_LABEL_BYTES", "memory", SILENT, f"{_LIMITS}test_metadata_of_core_storage"),
        ("partition.corestorage.MAX_TEXT_BYTES", "memory, against texts that unpack to gigabytes", SILENT,
         "tests/unit/partition/test_filevault.py::test_a_text_that_unpacks_to_more_than_any_is_cut"),
        ("partition.filevault.MAX_ROUNDS", "time, against days of PBKDF2", "rounds of PBKDF2",
         "tests/unit/partition/test_filevault.py::test_more_rounds_than_any_are_refused"),
        ("partition.filevault.MAX_KEY_FILE_BYTES", "memory", SILENT,
         "tests/unit/partition/test_filevault.py::test_a_file_of_keys_larger_than_any_is_not_read"),
        ("filesystems.apfs.keybag.MAX_BAG_BLOCKS", "memory", "impossible length",
         f"{_LIMITS}test_bags_of_keys"),
        ("filesystems.apfs.keybag.MAX_ITERATIONS", "time, against days of PBKDF2", "rounds of PBKDF2",
         "tests/cli/test_encrypted.py::test_a_key_that_asks_for_too_much_is_not_tried"),
        ("filesystems.apfs.checkpoint.MAX_RING_BLOCKS", "memory", "impossibly large",
         f"{_LIMITS}test_rings_of_checkpoints"),
        ("filesystems.apfs.checkpoint.MAX_OBJECT_BYTES", "memory", "impossible size",
         f"{_LIMITS}test_ephemeral_objects"),
        ("filesystems.apfs.spaceman.MAX_BLOCKS", "arithmetic with 64 bits", "impossible address: block",
         f"{_LIMITS}test_regions_beyond_every_device"),
        ("filesystems.apfs.btree.MAX_LEVELS", "time and the stack", "levels", f"{_LIMITS}test_levels_of_trees"),
        ("filesystems.apfs.sweep.MAX_LEVELS", "time: a node is never higher", SILENT,
         f"{_LIMITS}test_levels_of_swept_nodes"),
        ("filesystems.apfs.sweep.LARGEST_NODE", "time: a node is never larger", SILENT,
         f"{_LIMITS}test_sizes_of_swept_nodes"),
        ("filesystems.apfs.nodes.MAX_LENGTH", "arithmetic", SILENT,
         "tests/unit/native/test_toc.py::test_the_same_records_are_found"),
        ("filesystems.hfsplus.tree.MAX_HEIGHT", "time: a node is never higher", SILENT,
         f"{_LIMITS}test_heights_of_a_sweep"),
        ("filesystems.hfsplus.rescue.MAX_ROOTS", "time", SILENT, f"{_LIMITS}test_roots_that_are_tried"),
        ("filesystems.hfsplus.rescue.MAX_HEADERS", "time, against a disk full of headers", SILENT,
         f"{_LIMITS}test_headers_that_are_tried"),
        ("filesystems.hfsplus.rescue.MAX_BLOCKS", "arithmetic with 32 bits", SILENT,
         f"{_LIMITS}test_blocks_of_a_made_up_header"),
        ("filesystems.hfsplus.sweep.MAX_COMPARED", "time", SILENT,
         f"{_LIMITS}test_nodes_that_are_compared_with_the_journal"),
        ("drive.profile.MAX_CYLINDERS", "time of a model", "cylinders",
         "tests/unit/drive/test_limits.py::test_impossible_figure_is_named"),
        ("drive.profile.MAX_HEADS", "time of a model", "heads",
         "tests/unit/drive/test_limits.py::test_impossible_figure_is_named"),
        ("drive.profile.MAX_UNPACKED_BYTES", "memory, against traces and maps that unpack to terabytes",
         "a compressed file holds more than",
         "tests/unit/drive/test_limits.py::test_compressed_trace_cannot_fill_the_memory"),
        ("drive.geometry.MAX_PACKED_BYTES", "memory", "it is longer than",
         "tests/unit/drive/test_sectormap.py::test_a_map_without_end_is_not_read"),
        *((f"drive.profile.{name}", protects, "spread is not a list of figures",
           "tests/unit/drive/test_spread.py::test_what_is_no_covariance_is_refused")
          for name, protects in (("MAX_FIGURES", "time and memory"), ("LARGEST", "arithmetic"))),
        *((f"drive.calibration.plan.{name}", protects, "has a number that no drive gives, or there are too many lines",
           f"{_LIMITS}test_logs_of_timed_reads")
          for name, protects in (("MAX_LINES", "time and memory"), ("_LARGEST", "arithmetic with 64 bits"))),
        ("drive.calibration.plan.MAX_LOG_BYTES", "memory", "which no such file is",
         "tests/cli/test_hostile.py::test_texts_longer_than_any_are_refused"),
        ("drive.profile.MAX_SETS", "time, against sets of sets", "is a member of itself, or of too many sets",
         "tests/unit/drive/test_profile.py::test_a_set_that_is_its_own_member_is_refused"),
        *((f"image.opening.{name}", "memory", "too large",
           "tests/cli/test_kit.py::test_an_archive_that_unpacks_without_end_is_refused")
          for name in ("MAX_MEMBERS", "MAX_MEMBER_BYTES", "MAX_UNPACKED_BYTES")),
        ("drive.recordings.HIGHEST_BLOCK", "arithmetic", "begins as one and is cut or damaged",
         "tests/unit/drive/test_recorded.py::test_a_trace_of_cut_lines_is_refused_with_the_first_of_them"),
        ("drive.recordings.MAX_TRACE_BYTES", "memory", "which no such file is",
         "tests/unit/test_inputs.py::test_files_up_to_the_limit_are_read_whole"),
        *((f"drive.recordings.{name}", "arithmetic", "bytes at",
           "tests/unit/drive/test_limits.py::test_reads_that_no_drive_could_serve_are_refused")
          for name in ("MAX_READ_BYTES", "MAX_DRIVE_BYTES", "MAX_THINK_US", "MAX_DEVICES")),
    )
)  # fmt: skip
"""Every limit, in the order in which the bytes come."""

ELSEWHERE = {
    "image.source": "how reads are put together",
    "image.containers.foreign.MAX_NAMED": "what the format allows",
    "image.direct": "how reads of a drive that is measured are put together",
    "drive.calibration.fitting": "how a profile is put together",
    "image.raw": "how reads are put together",
    "image.remote.MAX_CONNECTIONS": "how reads are put together",
    "image.remote.MAX_WORD": "how much of a server's words a message shows",
    "image.containers.sparse.KEPT_BANDS": "what is kept open",
    "image.containers.placed.KEPT_BYTES": "what is kept of what was read",
    "image.cache": "what is kept",
    "drive.uncertain.MAX_WORDS": "what is taken for a word, of our own draws",
    "filesystems.apfs.container.MAX_COPIES": "how many of the copies are tried that MAX_HITS bounds",
    "tables.parquet._MAX_VARINT_BYTES": "what the format allows",
    "filesystems.hfsplus.rescue.LARGEST_BLOCK_BYTES": "what the format allows",
    "aging.apfs.MAX_STARTS": "what the driver does",
}
"""Constants and modules whose bounds protect nothing from anybody, and why."""

SHOWN = re.compile(r"_(LISTED|REPORTED|NAMED)$|^MAX_(LOSSES|FOLDERS)$")
"""Constants that bound how many findings of one kind are listed, as all do in the rooms of the checks."""


def declared() -> dict[str, Path]:
    """List the constants of the rooms that read what strangers made, by their place."""
    rooms = ("inputs.py", "image", "tables", "partition", "filesystems", "drive")
    found = {}
    for path in sorted(path for room in rooms for path in [PACKAGE / room, *(PACKAGE / room).rglob("*.py")]):
        if path.suffix != ".py":
            continue
        place = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text()).body:
            names = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            for name in names:
                if isinstance(name, ast.Name) and NAME.match(name.id) and _is_number(place, name.id):
                    found[f"{place}.{name.id}"] = path
    return found


def _is_number(place: str, name: str) -> bool:
    return isinstance(getattr(import_module(f"layoutscope.{place}"), name), int | float)


def is_elsewhere(place: str) -> bool:
    """Whether a constant bounds what is shown, or nothing that a stranger could make use of."""
    module, _, name = place.rpartition(".")
    return place in ELSEWHERE or module in ELSEWHERE or ".check." in module or bool(SHOWN.search(name))


def value_of(limit: Limit) -> str:
    """Show a limit's value: powers of two as such, others with their digits."""
    module, _, name = limit.place.rpartition(".")
    value = getattr(import_module(f"layoutscope.{module}"), name)
    if "SECONDS" in name:
        return f"{value:g} s"
    number = int(value)
    if "BYTES" in name and number >= 1024 and number & (number - 1) == 0:
        power = (number.bit_length() - 1) // 10
        return f"{number >> 10 * power} {('', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"
    if number > 10**6 and number & (number - 1) == 0:
        return f"2^{number.bit_length() - 1}"
    return f"{number:,}"


def table() -> None:
    """Print the table."""
    print("| limit | value | protects | message | test |\n|---|---|---|---|---|")  # noqa: T201
    for limit in LIMITS:
        test = limit.test.removeprefix("tests/").replace("_", "\\_")
        message = limit.message if limit.message.startswith("no message") else f"… {limit.message} …"
        print(f"| `{limit.place}` | {value_of(limit)} | {limit.protects} | {message} | {test} |")  # noqa: T201
