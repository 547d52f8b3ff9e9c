"""File lists and workload documents, read by other programs."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import unicodedata
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import layoutscope
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope import read_layouts, scan, trace
from layoutscope.api.export import DOCUMENT_FORMATS, export
from layoutscope.api.save import save
from layoutscope.drive import simulate
from layoutscope.drive.uncertain import Host
from layoutscope.errors import UsageError
from tests.layouts import FIND_LETTERS

NAMESPACES = {"d": "http://www.forensicswiki.org/wiki/Category:Digital_Forensics_XML", "ls": "urn:layoutscope:dfxml"}
SCHEMA = Path(__file__).parent / "witnesses" / "dfxml.xsd"
"""Public domain: a work of the United States Government (https://github.com/dfxml-working-group/dfxml_schema)."""
SCATTERED = Path(__file__).parents[2] / "fixtures" / "images" / "hfsplus-scattered.img.zst"
STUBS = {"dc": "http://purl.org/dc/elements/1.1/", "xml": "http://www.w3.org/XML/1998/namespace"}
"""Namespaces that the schema imports without using their declarations."""


def exported(path, file_format, **options) -> str:
    """Return a document as text."""
    file = io.BytesIO()
    export(path, None, file, file_format=file_format, **options)
    return file.getvalue().decode()


def needs(program: str) -> str:
    """Skip if a program is not installed."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def body_rows(text: str) -> dict[tuple[str, str], list[str]]:
    """Split a body file into rows by inode and the last part of the path."""
    rows = [line.split("|") for line in text.splitlines()]
    assert all(len(row) == 11 for row in rows)
    return {(row[2], row[1].rpartition("/")[2]): row[3:] for row in rows}


def fls(*words: str) -> dict[tuple[str, str], list[str]]:
    """List the files of an image with sleuthkit's fls, in the same form."""
    done = subprocess.run([needs("fls"), "-r", "-p", "-m", "/", *words], capture_output=True, text=True, check=True)
    return body_rows(done.stdout)


@pytest.mark.parametrize("name", ["hfsplus-20000-c20", "hfsplus-frag", "hfsplus-journaled-pop"])
def test_times_owners_and_modes_of_hfsplus_are_those_of_fls(reference_image, name):
    """Each file that sleuthkit lists has the same mode, owner, group, size and four times here."""
    folder = "aged" if "20000" in name else "driver"
    path = reference_image(f"{folder}/{name}.img")
    mine, theirs = body_rows(exported(path, "bodyfile")), fls("-f", "hfs", str(path))
    shared = [key for key in theirs if key in mine and key[1] and not key[1].startswith(("$", "^"))]
    assert len(shared) > 100
    for key in shared:
        assert mine[key] == theirs[key], key


@pytest.mark.parametrize("name", ["apfs-snap", "apfs-20000-c20"])
def test_times_owners_and_modes_of_apfs_are_those_of_fls(reference_image, name):
    """The same for a container with one volume, which sleuthkit finds by its superblock."""
    path = str(reference_image(f"{'aged' if '20000' in name else 'driver'}/{name}.img"))
    told = subprocess.run([needs("pstat"), path], capture_output=True, text=True, check=True).stdout
    block = re.search(r"APSB Block Number: (\d+)", told)
    assert block
    mine, theirs = body_rows(exported(path, "bodyfile")), fls("-P", "apfs", "-B", block[1], path)
    shared = [key for key in theirs if key in mine and key[1]]
    assert len(shared) > 500
    for key in shared:
        # Sleuthkit's directory sizes are not those of stat.
        skipped = {3} if mine[key][0].startswith("d/") else set()
        assert [value for place, value in enumerate(mine[key]) if place not in skipped] == [
            value for place, value in enumerate(theirs[key]) if place not in skipped
        ], key


@pytest.fixture(scope="module")
def odd_names(tmp_path_factory) -> Path:
    """Return a volume with names that hold separators, line ends, control characters and lone surrogates."""
    target = tmp_path_factory.mktemp("odd") / "odd.img"
    write(SCENARIOS["odd-names"], target)
    return target


def test_mactime_reads_a_timeline(odd_names, tmp_path):
    """Sleuthkit's mactime shows every entry that has a time, including names with its separators."""
    (tmp_path / "body").write_text(exported(odd_names, "bodyfile"))
    done = subprocess.run(
        [needs("mactime"), "-d", "-y", "-b", tmp_path / "body"], capture_output=True, text=True, check=True
    )
    (layout,) = read_layouts(odd_names)
    shown = {line.split(",")[6] for line in done.stdout.splitlines()[1:]}
    assert shown == {str(number) for number in layout.entries["file_id"]}


def test_no_name_breaks_a_line_or_a_field_of_a_body_file(odd_names):
    """Eleven fields per line, and one line per entry, whatever names hold."""
    (layout,) = read_layouts(odd_names)
    assert any(set(name) & set("|%\n\r\t") for name in layout.entries["name"].drop_nulls())
    lines = exported(odd_names, "bodyfile").split("\n")
    assert [line.count("|") for line in lines] == [10] * layout.entries.height + [0]


def test_what_is_unknown_of_a_capture_is_not_made_up(odd_names, tmp_path):
    """A capture has no inodes: question marks for permissions, no owner, and no access or change time."""
    folder = tmp_path / "a.lscope"
    save(scan(odd_names), folder)
    for row in (line.split("|") for line in exported(folder, "bodyfile").splitlines()):
        assert row[3].endswith("?????????")
        assert row[4:6] == ["", ""]
        assert (row[7], row[9]) == ("0", "0")
        assert row[10] != "0"


def validated(text: str, folder: Path) -> None:
    """Validate a document against the schema of DFXML."""
    program = needs("xmllint")
    shutil.copy(SCHEMA, folder / "dfxml.xsd")
    (folder / "ref").mkdir(exist_ok=True)
    for name, namespace in STUBS.items():
        stub = f'<schema xmlns="http://www.w3.org/2001/XMLSchema" targetNamespace="{namespace}"/>'
        (folder / "ref" / f"{name}.xsd").write_text(stub)
    (folder / "a.xml").write_text(text)
    words = [program, "--noout", "--nonet", "--schema", folder / "dfxml.xsd", folder / "a.xml"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_dfxml_follows_its_schema(odd_names, reference_image, tmp_path):
    """The schema of DFXML 2.0 accepts volumes of both file systems, and names that XML cannot hold."""
    validated(exported(odd_names, "dfxml"), tmp_path)
    validated(exported(reference_image("driver/apfs-snap.img"), "dfxml"), tmp_path)
    validated(exported(reference_image("driver/gpt-both.img"), "dfxml"), tmp_path)


def test_byte_runs_are_the_extents(reference_image):
    """The byte runs in a document hold the file: for the fragmented volume they add up to its extents."""
    path = reference_image("driver/hfsplus-frag.img")
    (layout,) = read_layouts(path)
    root = ET.fromstring(exported(path, "dfxml"))  # noqa: S314  (our own text)
    runs = root.findall(".//d:fileobject/d:byte_runs/d:byte_run", NAMESPACES)
    data = layout.extents.filter(fork="data")
    links = layout.entries.group_by("file_id").len()
    data = data.join(links, on="file_id")
    assert len(runs) == data["len"].sum() > 1000
    found = {(int(run.get("img_offset")), int(run.get("len"))) for run in runs}
    assert found == set(data.select("image_offset", "length_bytes").iter_rows())
    assert all(int(run.get("img_offset")) - int(run.get("fs_offset")) == layout.facts.image_offset for run in runs)


def test_dfxml_has_an_object_for_each_entry(odd_names):
    """Entries are identified by numbers, names are escaped, and only the root has no parent."""
    (layout,) = read_layouts(odd_names)
    objects = ET.fromstring(exported(odd_names, "dfxml")).findall(".//d:fileobject", NAMESPACES)  # noqa: S314
    assert sorted(int(item.findtext("d:inode", None, NAMESPACES)) for item in objects) == sorted(
        layout.entries["file_id"].to_list()
    )
    orphans = [item for item in objects if item.find("d:parent_object", NAMESPACES) is None]
    assert [item.findtext("d:filename", None, NAMESPACES) for item in orphans] == [""]


@pytest.fixture(scope="module")
def walked():
    """Return the reads of a listing of the committed image, and their service on a drive."""
    reads = trace(SCATTERED)
    assert len(reads) > 20
    return reads, simulate(reads, "generic-7200", Host("macos"))


def test_speedscope_has_a_track_a_tree_and_balanced_events(walked):
    """Each profile is one tree's; its events are in time order, nest correctly, and end within the profile."""
    reads, result = walked
    document = json.loads(exported(SCATTERED, "speedscope", drives="generic-7200"))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert len(document["profiles"]) == len(np.unique(reads.tree))
    frames = document["shared"]["frames"]
    slices = 0
    for profile in document["profiles"]:
        assert profile["type"] == "evented"
        assert profile["startValue"] == 0
        times = [event["at"] for event in profile["events"]]
        assert times == sorted(times)
        assert times[-1] <= profile["endValue"]
        stack = []
        for event in profile["events"]:
            assert event["frame"] < len(frames)
            if event["type"] == "O":
                slices += not stack
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert not stack
    assert slices == len(reads)
    assert document["profiles"][0]["endValue"] == pytest.approx(result.seconds * 1e6, rel=1e-6)


def test_trace_events_are_the_reads(walked):
    """One slice per read: its service time and parts from the drive model, on the track of its tree."""
    reads, result = walked
    events = json.loads(exported(SCATTERED, "perfetto", drives="generic-7200"))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert [event["args"]["image_offset"] for event in slices] == reads.image_offset.tolist()
    assert [event["name"] for event in slices] == [reads.causes[code] for code in reads.cause.tolist()]
    assert [event["dur"] for event in slices] == pytest.approx((result.reads_ms.service_ms * 1000).tolist(), abs=1e-3)
    threads = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert [threads[event["tid"]] for event in slices] == [reads.trees[code] for code in reads.tree.tolist()]
    seeks = sum(event["args"].get("seek_us", 0) for event in slices)
    assert seeks == pytest.approx(result.reads_ms.seek_ms.sum() * 1000, rel=1e-4)
    ends = [event["ts"] + event["dur"] for event in slices]
    assert all(event["ts"] >= end - 1e-2 for event, end in zip(slices[1:], ends, strict=False))


def test_folded_stacks_add_up_to_the_walk(walked):
    """As flamegraph.pl splits them: a stack, a blank, an integer; together they give the total time."""
    reads, result = walked
    lines = exported(SCATTERED, "folded", drives="generic-7200").splitlines()
    parsed = [re.fullmatch(r"(.*)\s+?(\d+)", line) for line in lines]
    assert all(parsed)
    total = sum(int(match[2]) for match in parsed if match)
    assert total == pytest.approx(result.seconds * 1e6 - reads.after_us * result.host_factor, abs=len(lines))
    assert len(lines) == len(np.unique(reads.directory_id))


def test_walks_are_of_the_order_that_was_asked_for():
    """Names need fewer reads than attributes, in the document too."""
    count = {
        order: exported(SCATTERED, "perfetto", order=order).count('"ph":"X"') for order in ("names", "readdir-stat")
    }
    assert 0 < count["names"] <= count["readdir-stat"]
    assert count["names"] == len(trace(SCATTERED, order="names"))


@pytest.mark.parametrize("file_format", DOCUMENT_FORMATS)
def test_documents_have_no_control_characters(odd_names, file_format):
    """No document has characters that act on a terminal; tabs and returns are escaped, too."""
    text = exported(odd_names, file_format)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


def test_a_format_that_is_none_is_refused(odd_names):
    """The error lists the valid formats."""
    with pytest.raises(UsageError, match="did you mean 'bodyfile'"):
        export(odd_names, None, io.BytesIO(), file_format="bodyfiles")


# ``list`` compared with the listings of the drivers that mounted the same volumes, and with ``fls -r``.


LISTINGS = {
    **{
        name: (f"driver/{name}.img", {})
        for name in (
            *("apfs-ci", "apfs-frag", "apfs-normsens", "apfs-snap"),
            *("hfsplus-4k", "hfsplus-b512-n4096", "hfsplus-frag", "hfsplus-journaled-pop", "hfsx-cs"),
        )
    },
    "apfs-snap.snap1": ("driver/apfs-snap.img", {"snapshot": "snap1"}),
    "apfs-snap.snap2": ("driver/apfs-snap.img", {"snapshot": "snap2"}),
    "part-apfs": ("driver/gpt-both.img", {"volume": "2"}),
    "part-hfsplus": ("driver/gpt-both.img", {"volume": "1"}),
}
SLEUTHKIT = (
    *("dissect_case_sensitive_beta", "dissect_jhfs_converted", "goapfsv2_hfs-basic", "hdimac_apfs-c"),
    *("hdimac_hfsx_j", "hfsinspect_MBR", "hfsinspect_hfsj", "offsite_source_2snaps"),
    *("plaso_spotlight10.13", "ronin_apfs_content", "slate_20121008", "sparkle_apfs_lzma_aux"),
    *("apfs-empty", "apm-hfsplus", "hfsplus-empty-plain", "hybrid-hfsplus"),
    *("apfs-20000-c00", "apfs-20000-c20", "hfsplus-20000-c00", "hfsplus-20000-c20"),
    *(pytest.param(f"{filesystem}-200000-c20", marks=pytest.mark.slow) for filesystem in ("apfs", "hfsplus")),
)
"""Images that sleuthkit 4.11 lists; it cannot open the encrypted one of macOS."""
COMPRESSED_APFS = {"dissect_case_sensitive_beta": 2, "dissect_jhfs_converted": 6, "ronin_apfs_content": 1}
"""Compressed files of an image. On APFS fls shows the empty data stream of the inode, on HFS+ the size of the contents
(as stat does, and ``list``)."""
PLAIN_KEYS = "dissect_case_sensitive_beta"
"""fls takes plain directory keys for hashed ones, and loses the first two bytes of each name."""
LOST_LINKS = {"apm-hfsplus": ("/links/", "/unicode/")}
"""Folders with hard links made by the Linux driver, whose contents fls loses."""
OWN_FILES = re.compile(r"/(\$\w+File|\^{4}HFS\+ Private Data(/.*)?|\.HFS\+ Private Directory Data\^)")
"""Files of HFS+ itself, which fls shows as files."""


@pytest.mark.parametrize("name", LISTINGS)
def test_a_list_equals_the_drivers_listing(name, reference_image, truth):
    """Every path with its inode number, kind, links and size; the APFS driver shows symbolic links as empty.

    The HFS+ driver gives a folder the size of its entries and two.
    """
    image, options = LISTINGS[name]
    rows = layoutscope.list(reference_image(image), **options)
    found = rows.part(slice(None))
    layouts = read_layouts(reference_image(image), **options)
    (entries,) = (layout.entries for layout in layouts if layout.facts.volume is not None)
    links = dict(entries.select("file_id", "link_count").iter_rows())
    valence = dict(entries.select("file_id", "valence").iter_rows()) if "hfs" in name else {}
    columns = (found[column] for column in ("path", "file_id", "kind", "size_bytes"))
    listed = {}
    for path, number, kind, size in zip(*columns, strict=True):
        shown = size if kind == "file" else valence[number] + 2 if kind == "directory" and valence else None
        listed[unicodedata.normalize("NFD", path)] = (number, FIND_LETTERS[kind], links[number], shown)
    expected = {}
    for line in truth(f"{name}.find.tsv.zst").decode("utf-8", "surrogateescape").split("\n")[:-1]:
        number, kind, count, size, _, path = line.split("\t")
        shown = int(size) if kind == "f" or (kind == "d" and valence) else None
        expected[unicodedata.normalize("NFD", f"/{path}")] = (int(number), kind, int(count), shown)
    assert listed == expected
    assert len(rows) == len(expected)


@pytest.mark.parametrize("name", ["apfs-20000-c20", "hfsplus-20000-c20"])
def test_a_list_holds_the_paths_that_were_looked_up(name, reference_image, truth):
    """The paths were given to the driver in random order, from its own listing."""
    rows = layoutscope.list(reference_image(f"aged/{name}.img"))
    listed = set(rows.part(slice(None))["path"])
    wanted = truth(f"{name}-paths.list.zst").decode().splitlines()
    assert len(wanted) > 1000
    assert {f"/{path.lstrip('./')}" for path in wanted} <= listed


@pytest.mark.parametrize("name", SLEUTHKIT)
def test_a_list_equals_that_of_sleuthkit(name, reference_file, reference_image, peer):
    """Every path with its inode number, kind, size and times, on macOS volumes and on aged ones."""
    endings = ("img.zst", "img.tar.zst", "iso.zst", "raw.zst")
    packed = reference_file(*(f"{folder}/{name}.{end}" for folder in ("aged", "driver", "apple") for end in endings))
    kind = packed.name.removeprefix(name).split(".")[1]
    image = reference_image(f"{packed.parent.name}/{name}.{kind}")
    with layoutscope.open(image) as session:
        (facts,) = (layout.facts for layout in session.layouts if layout.facts.volume is not None)
        found = layoutscope.list(session).part(slice(None))
    expected = _listed_by_sleuthkit(image, facts, peer)
    listed, compressed = {}, 0
    for path, number, kind, size, changed, made in zip(
        *(found[name] for name in ("path", "file_id", "kind", "size_bytes", "modify_time", "create_time")), strict=True
    ):
        shown = _shown_by_sleuthkit(path, loses_two_bytes=name == PLAIN_KEYS)
        if path == "/" or shown.startswith(LOST_LINKS.get(name, "//")):
            continue
        key, row = (shown, number), [FIND_LETTERS[kind].replace("f", "r"), size if kind == "file" else None]
        if kind == "file" and size and key in expected and expected[key][1] == 0:
            compressed += 1
            row[1] = 0
        assert key not in listed
        listed[key] = (*row, *(int(time.timestamp()) if time else 0 for time in (changed, made)))
    assert listed == expected
    assert compressed == COMPRESSED_APFS.get(name, 0)


def _listed_by_sleuthkit(image, facts, peer):
    """List a volume with fls: kind, size and times by path and number."""
    at = ("-o", str(facts.image_offset // 512))
    if facts.filesystem == "apfs":
        told = subprocess.run([peer("pstat"), *at, image], capture_output=True, check=True).stdout
        words = ("-P", "apfs", "-B", re.search(rb"APSB Block Number: (\d+)", told)[1].decode())
    else:
        words = ("-f", "hfs")
    command = [peer("fls"), "-r", "-p", "-m", "/", *words, *at, image]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "surrogateescape")
    rows = {}
    for line in text.split("\n")[:-1]:
        _, path, number, mode, _, _, size, _, changed, _, made = line.split("|")
        path = path.partition(" -> ")[0]
        if facts.filesystem == "apfs" or not OWN_FILES.fullmatch(path):
            kind = mode[2]
            key = unicodedata.normalize("NFD", path), int(number.partition("-")[0])
            assert key not in rows
            rows[key] = kind, int(size) if kind == "r" else None, int(changed), int(made)
    return rows


def _shown_by_sleuthkit(path, *, loses_two_bytes):
    """Spell a path as fls does, with a circumflex for each control character."""
    parts = path.split("/")
    if loses_two_bytes:
        parts = [part.encode()[2:].decode("utf-8", "surrogateescape") for part in parts]
    return unicodedata.normalize("NFD", "".join("^" if ord(c) < 32 else c for c in "/".join(parts)))
