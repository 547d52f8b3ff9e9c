"""Names that control terminals, images that must not be changed, interruptions, and refusals."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from fixtures.hfsplus.plan import File, Folder, Fork, VolumePlan
from fixtures.hfsplus.scenarios import LONE_SURROGATES, ODD_NAMES, SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope import inputs, scan
from layoutscope.drive.calibration.plan import MAX_LOG_BYTES
from layoutscope.errors import ImageError, UnsupportedError
from layoutscope.filesystems.registry import refusals
from layoutscope.image import MemorySource
from layoutscope.image.failing import _MAX_MAP_BYTES
from layoutscope.zstd import zstd
from tests.cases import for_each

UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u115f\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe0f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that control a terminal, except line ends."""
NAMES = (*ODD_NAMES, *LONE_SURROGATES, "\x1b]0;owned\x07", "<script>alert(1)</script>", "@SUM(1)", "-1+1",
         "\u2066isolate", "a\xadb\u180ec\U000e0041d\u3164e\ufe0f", "a\r\nb",
         "\x9b31m", "\ufeffmark", "'; DROP")  # fmt: skip


FOLDERS = ("dir\x1b[2J", "fol\u202eder", "\u2066isolated\u2069", "=cmd|' /C calc'!A0",
           "</script><script>alert(1)</script>", "$(touch owned)", "`id`", "two\nlines", "' onload='x")  # fmt: skip


@pytest.fixture(scope="module")
def odd_names(tmp_path_factory):
    """Return an image with such names for volume, folders and files, in a file with such a name."""
    files = tuple(File(name, Fork(1)) for name in NAMES)
    folders = tuple(Folder(name, files[:2]) for name in FOLDERS)
    plan = VolumePlan(name="=vol\x1b[31m\u202eume", total_blocks=4096, root=(*files, *folders))
    target = tmp_path_factory.mktemp("odd") / "im\x1b[31m\u202eage $(id) '</script>.img".replace("/", "")
    target.write_bytes(render(plan)[0].to_bytearray())
    return target


@pytest.fixture(scope="module")
def odd_apfs(tmp_path_factory):
    """Return a container whose volume, files and snapshot have such names."""
    from fixtures.apfs.plan import FilePlan, TakeSnapshot, TransactionPlan
    from fixtures.apfs.plan import VolumePlan as ApfsVolume
    from fixtures.apfs.scenarios import container
    from fixtures.apfs.writer import write

    names = [name for name in NAMES if ("/" not in name and not UNSAFE.search(name)) or "\x1b" in name]
    files = tuple(FilePlan(name) for name in dict.fromkeys(names) if 0 < len(name.encode("utf-8", "replace")) < 200)
    steps = (TransactionPlan((TakeSnapshot("=snap\x1b[31m\u202e"),)),)
    target = tmp_path_factory.mktemp("odd-apfs") / "odd.img"
    write(container(ApfsVolume("vol\x1b[31m\u202eume", files), transactions=steps), target)
    return target


def test_what_a_part_of_a_report_forgets_is_escaped_at_last(capsys):
    """The console that all commands print to passes no control characters but its own."""
    from rich.text import Text

    from layoutscope.report.text.console import make_console

    make_console(sys.stdout).print(Text("a\x1b[31mb\u202ec\nd", style="bold"))
    assert capsys.readouterr().out == "a\\u001b[31mb\\u202ec\nd\n"


def test_names_that_are_left_out_are_nowhere(run, tmp_path):
    """Neither headings nor findings contain the name of the volume or its snapshots."""
    from fixtures.apfs.scenarios import SCENARIOS as CONTAINERS
    from fixtures.apfs.writer import write

    path = tmp_path / "disk.img"
    write(CONTAINERS["encrypted"], path)
    for verb, *words in (("scan",), ("check",), ("scan", "--json"), ("check", "--json"), ("check", "--sweep")):
        assert "Secret" in run(verb, path, *words).stdout
        assert "Secret" not in run(verb, path, "--no-names", *words).stdout, (verb, words)


def test_documents_keep_names_and_csv_runs_no_formula(run, odd_names, tmp_path):
    """JSON is ASCII and has names as on the disk; a row of CSV is an entry, whatever line ends its name holds."""
    text = run("scan", odd_names, "--json").stdout
    assert text.isascii()
    assert json.loads(text)["volumes"][0]["name"] == "=vol\x1b[31m\u202eume"
    lines = run("export", odd_names, "--table", "entries", "--format", "jsonl").stdout.splitlines()
    assert any("\x1b" in json.loads(line)["name"] for line in lines)
    target = tmp_path / "entries.csv"
    assert run("export", odd_names, "--table", "entries", "-o", target).exit_code == 0
    rows = list(csv.reader(io.StringIO(target.read_text("utf-8"), newline="")))
    assert len(rows) - 1 == len(lines)
    place = rows[0].index("name")
    assert not [row[place] for row in rows[1:] if row[place][:1] in "=+-@\t\r" and row[place]]


def test_longest_name_fits_a_narrow_terminal(run, odd_names, monkeypatch):
    """Names of 255 units fit the lines."""
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, run("scan", odd_names).stdout.splitlines())) <= 80


class Changing(MemorySource):
    """An image whose volume header changes after a number of reads, as on a mounted volume."""

    def __init__(self, data: bytes, after: int) -> None:
        super().__init__(data)
        self._left = after

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        self._left -= 1
        super()._fetch_into(image_offset, target)
        place = 1024 + 68 - image_offset  # TN1150: the write count is at byte 68 of the volume header
        if self._left < 0 and 0 <= place <= len(target) - 4:
            target[place : place + 4] = (0xFFFF).to_bytes(4, "big")


def test_a_volume_that_changes_underneath_is_noticed():
    """A write count that rises while the trees are read gives a warning at its field; a constant one gives none."""
    from tests.hfsplus import read_layout

    data = bytes(render(SCENARIOS["populated"])[0].to_bytearray())
    calm, live = (read_layout(Changing(data, after)).findings for after in (10**9, 5))
    assert "changed-while-read" not in calm["code"]
    assert ("changed-while-read", "warning", 1024 + 68) in live["code", "level", "image_offset"].rows()


def interrupted(opened):
    """Write half of an output, then be interrupted."""
    with opened as file:
        file.write(b"half")
        raise KeyboardInterrupt


def test_an_interrupted_output_leaves_nothing(tmp_path, marks):
    """Ctrl-C while writing leaves neither the file nor a part of it, and does not change an older file."""
    from layoutscope.api.outputs import open_output

    older = marks(tmp_path / "older.csv", "older")
    for target in (tmp_path / "new.csv", older):
        with pytest.raises(KeyboardInterrupt):
            interrupted(open_output(target, force=True))
    assert [path.name for path in tmp_path.iterdir()] == ["older.csv"]
    assert older.read_text() == "older"


def test_an_interrupted_export_ends_with_130_and_leaves_nothing(run, odd_names, tmp_path, monkeypatch):
    """The same through the command line."""

    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("polars.DataFrame.write_parquet", interrupt)
    result = run("export", odd_names, "--table", "nodes", "-o", tmp_path / "nodes.parquet")
    assert result.exit_code == 130
    assert list(tmp_path.iterdir()) == []


def core_storage(group: bytes) -> bytes:
    """Write the header of a CoreStorage physical volume by libyal's description, padded to 1 MiB."""
    header = bytearray(1 << 20)
    header[8:12] = b"\x01\0\x10\0"
    header[88:90] = b"CS"
    header[320:336] = group
    return bytes(header)


REFUSED = {
    "core-storage": core_storage(bytes(range(16))),
    "classic-hfs": bytes(1024) + b"BD" + bytes(1 << 16),
    "foreign-file-system": bytes(1024 + 56) + b"\x53\xef" + bytes(1 << 16),
    "lfs-pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 5\n",
    "container": b"PK\x03\x04" + bytes(1 << 16),
    "encrypted-image": b"encrcdsa" + bytes(1 << 16),
}


@pytest.mark.parametrize("code", sorted(REFUSED))
def test_what_is_refused_is_named_with_advice(run, tmp_path, code):
    """Each ends with 1 and one line; the library's error has the code and, if there is any, advice."""
    path = tmp_path / "disk.img"
    path.write_bytes(REFUSED[code])
    with pytest.raises(UnsupportedError) as caught:
        scan(path)
    assert caught.value.code == code
    assert caught.value.advice
    if code == "core-storage":
        assert "group 00010203-0405-0607-0809-0A0B0C0D0E0F (1.00 MiB)" in str(caught.value)
    result = run("scan", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert caught.value.advice in result.stderr


def test_every_code_of_a_refusal_is_known():
    """An unknown code is a programming error; every code has a message."""
    with pytest.raises(ValueError, match="unknown code"):
        UnsupportedError("message", code="no-such-code")
    assert all(text.endswith(".") for text in refusals().values())


def test_bombs_end_early(tmp_path):
    """A small file that would expand to gigabytes of zeros is refused."""
    compressor = zstd.ZstdCompressor(level=3)
    chunk = bytes(1 << 24)
    packed = b"".join(compressor.compress(chunk) for _ in range(80)) + compressor.flush()
    path = tmp_path / "bomb.img.zst"
    path.write_bytes(packed)
    assert len(packed) < 1 << 20
    with pytest.raises(ImageError):
        scan(path)


# Names that act on terminals, spreadsheets, pages and scripts, in every output that holds names.


WRITTEN = {
    **{name: ("export", "{image}", "--format", name, "-o") for name in
       ("bodyfile", "dfxml", "speedscope", "perfetto", "folded")},
    **{f"{table} as {form}": ("export", "{image}", "--table", table, "--format", form, "-o")
       for form in ("csv", "jsonl")
       for table in ("entries", "node_views", "extents", "findings", "directories", "times", "reads")},
    **{f"trace as {name}": ("trace", "{image}", "--format", name, "-o") for name in ("csv", "fio", "blkparse")},
    "ncdu": ("predict", "{image}", "--ncdu"),
    "map": ("map", "{image}", "-o"),
    "series": ("series", "{image}", "{image}", "--plot"),
    "evidence.txt": ("scan", "{image}", "--evidence"),
    "evidence.json": ("scan", "{image}", "--evidence"),
}  # fmt: skip
"""Every text file output."""
PRINTED = {
    **{f"check as {form}": ("check", "{image}", "--format", form) for form in ("text", "json", "csv", "sarif")},
    **{f"{verb} as JSON": (verb, "{image}", "--json") for verb in ("scan", "predict", "verify")},
    "compare": ("compare", "{image}", "{image}"),
    "compare as JSON": ("compare", "{image}", "{image}", "--json"),
    "series as JSON": ("series", "{image}", "{image}", "--json"),
    "inspect": ("inspect", "{image}", "--path", "/"),
    "inspect of a byte": ("inspect", "{image}", "--at", "1024"),
    "verify": ("verify", "{image}"),
    "sweep": ("check", "{image}", "--sweep"),
    "all of scan": ("scan", "{image}", "--details", "--explain"),
    **{f"{table} as {form}": ("export", "{image}", "--table", table, "--format", form)
       for form in ("csv", "jsonl") for table in ("entries", "node_views", "extents", "findings")},
}  # fmt: skip
OF_SNAPSHOTS = {
    "checkpoints": ("checkpoints", "{image}"), "scan": ("scan", "{image}", "--snapshot", "=snap\x1b[31m\u202e"),
}  # fmt: skip
"""Every command that prints."""
FORGED = ("..", ".", "..\u2215..\u2215above", "\u2215etc\u2215hostname")
"""Names that no path can hold, with another character in place of a slash."""


@pytest.fixture(scope="module", params=["HFS+", "APFS"])
def forged(request, tmp_path_factory):
    """Return a volume with such names of files and a folder; two files have ordinary names."""
    target = tmp_path_factory.mktemp("forged") / "forged.img"
    if request.param == "HFS+":
        # A colon on the disk is a slash in Unix paths, and a slash on the disk would be a colon.
        files = [File(name, Fork(1)) for name in (".", "nul\0l", "\0", "sound")]
        root = (
            *files,
            Folder("..", (File("below", Fork(1)),)),
            Folder("sub", (File("..", Fork(1)), File("a", Fork(1)))),
        )
        target.write_bytes(render(VolumePlan(total_blocks=4096, root=root))[0].to_bytearray())
        return target
    from fixtures.apfs import population
    from fixtures.apfs.plan import DirectoryPlan, FilePlan
    from fixtures.apfs.plan import VolumePlan as ApfsVolume
    from fixtures.apfs.scenarios import container
    from fixtures.apfs.writer import write

    def parent_of(volume, path):
        parent, name = plain(volume, path)
        return parent, name.replace("\u2215", "/")

    plain = population.parent_of
    entries = (
        DirectoryPlan(".."),
        DirectoryPlan("sub"),
        *map(FilePlan, (*FORGED[1:], "sound", "../below", "sub/..", "sub/a")),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(population, "parent_of", parent_of)
        write(container(ApfsVolume("forged", entries)), target)
    return target


def test_lists_for_copying_hold_no_name_that_leads_elsewhere(run, forged, tmp_path):
    """Two files are listed and five are counted, in the report, on standard error and in JSON; both file systems."""
    for words in ([], ["-0"]):
        result = run("plan", forged, "--emit-order", tmp_path / "list", "--force", "--format", "json", *words)
        names = (tmp_path / "list").read_bytes().replace(b"\0", b"\n").split(b"\n")
        assert sorted(names) == [b"", b"./sound", b"./sub/a"]
        (missing,) = json.loads(result.stdout)["emitted"]["missing"]
        assert (missing["reason"], missing["files"]) == ("their names cannot be part of a path", 5)
        assert "5 files are left out of the list: their names cannot be part of a path, such as /" in result.stderr
    result = run("plan", forged, "--emit-order", tmp_path / "again")
    assert result.exit_code == 0, result.stderr
    assert "5 files are left out of the list" in " ".join(result.stdout.split())


def test_paths_for_people_are_spelled_so_that_they_lead_nowhere_else(run, forged, tmp_path):
    """No output has a path with such a part; inspect finds a printed path, and a listing contains it."""
    spelled = [r"/\u002e\u002e/below", r"/\u002e", r"/sub/\u002e\u002e"]
    for form in ("bodyfile", "dfxml"):
        assert run("export", forged, "--format", form, "-o", tmp_path / form).exit_code in (0, 3)
    body = [line.split("|")[1] for line in (tmp_path / "bodyfile").read_text("utf-8").splitlines()]
    root = ET.fromstring((tmp_path / "dfxml").read_text("utf-8"))  # noqa: S314  (our own output)
    listed = [f"/{item.text or ''}" for item in root.iter() if item.tag.endswith("}filename")]
    assert set(spelled) <= set(body) & set(listed)
    assert {r"/..\u002f..\u002fabove", r"/\u0000"} & set(body)
    for name in (*body, *listed):
        assert name == "/" or not {"", ".", ".."} & set(name[1:].split("/")), name
    for path in spelled:
        assert run("inspect", forged, "--path", path).exit_code == 0, path
    for path in ("/../below", "/sub/..", "/../../above"):
        assert run("inspect", forged, "--path", path).exit_code == 2, path
    (tmp_path / "paths").write_text("\n".join([*spelled, "/sub/..", "/../below"]))
    told = json.loads(run("predict", forged, "--order", "paths", "--paths", tmp_path / "paths", "--json").stdout)
    assert [volume["missing_paths"] for volume in told["volumes"]] == [["/sub/..", "/../below"]]


SUFFIXES = {"map": "html", "series": "html", "evidence.txt": "txt", "evidence.json": "json"}


def filled(words, odd_names) -> list[str]:
    return [word.format(image=odd_names) for word in words]


@for_each("name", WRITTEN)
def test_what_is_written_acts_on_no_terminal(run, odd_names, tmp_path, name):
    """Output is safe to show with cat, less or mactime; line ends are those of the format."""
    target = tmp_path / f"out.{SUFFIXES.get(name, 'out')}"
    result = run(*filled(WRITTEN[name], odd_names), target)
    assert result.exit_code in (0, 3), result.stderr
    text = target.read_text("utf-8")
    assert UNSAFE.search(text) is None
    assert UNSAFE.search(result.stdout + result.stderr) is None
    assert list(tmp_path.iterdir()) == [target]


@for_each("words", [*PRINTED.values(), *OF_SNAPSHOTS.values()])
def test_what_is_printed_acts_on_no_terminal(run, odd_names, odd_apfs, words):
    """Also if the image's own path, or a snapshot, has such a name."""
    for image in (odd_names, odd_apfs) if words in PRINTED.values() else (odd_apfs,):
        result = run(*filled(words, image))
        assert result.exit_code in (0, 3), result.stderr
        assert UNSAFE.search(result.stdout + result.stderr) is None


def test_ncdu_reads_each_folder_as_text(run, odd_names, tmp_path):
    """The export is JSON whose names are escaped a second time, because ncdu prints them as read."""
    assert run("predict", odd_names, "--ncdu", tmp_path / "a.ncdu").exit_code == 0
    _, _, head, root = json.loads((tmp_path / "a.ncdu").read_text())
    assert head["progname"] == "layoutscope"
    names = [item[0]["name"] for item in root[1:]]
    assert len(names) == len(FOLDERS)
    assert {"dir\\u001b[2J", "fol\\u202eder", "\\u2066isolated\\u2069", "two\\u000alines"} <= set(names)
    assert not any(UNSAFE.search(name) or "\n" in name for name in names)


def test_an_xml_list_is_whole_and_an_entry_a_line_of_a_body_file(run, odd_names, tmp_path):
    """Names with markup, line ends and bars end neither an element nor a field."""
    assert run("export", odd_names, "--format", "dfxml", "-o", tmp_path / "a.xml").exit_code == 0
    root = ET.fromstring((tmp_path / "a.xml").read_text("utf-8"))  # noqa: S314  (our own output)
    assert len([item for item in root.iter() if item.tag.endswith("fileobject")]) > len(NAMES)
    assert run("export", odd_names, "--format", "bodyfile", "-o", tmp_path / "a.body").exit_code == 0
    lines = (tmp_path / "a.body").read_text("utf-8").splitlines()
    assert {line.count("|") for line in lines if not line.startswith("#")} == {10}


def test_pages_hold_names_as_text(run, odd_names, tmp_path):
    """No page has an element that comes from an image, and each forbids other sources."""
    for words in (("map", odd_names, "-o"), ("series", odd_names, odd_names, "--plot")):
        page = tmp_path / f"{words[0]}.html"
        assert run(*words, page).exit_code == 0
        text = page.read_text("utf-8")
        assert "<script>alert" not in text
        assert "Content-Security-Policy" in text
        assert not re.search(r"<[^>]* onload=", text)


def test_captures_come_back_as_they_were(run, odd_names, tmp_path):
    """Parquet preserves each name, and a report of the capture escapes names as a report of the image does."""
    assert run("scan", odd_names, "--save", tmp_path / "a.lscope").exit_code == 0
    saved = pl.read_parquet(tmp_path / "a.lscope" / "0" / "entries.parquet")["name"].to_list()
    assert "fol\u202eder" in saved
    again = run("scan", tmp_path / "a.lscope", "--details")
    assert again.exit_code == 0
    assert UNSAFE.search(again.stdout) is None


def test_no_path_is_made_of_a_name(run, odd_names, tmp_path):
    """Tables, captures and extracts: all created files have names chosen by the program."""
    shutil.copy(odd_names, tmp_path / "odd.img")
    assert run("export", tmp_path / "odd.img", "--table", "all", "-o", tmp_path / "tables").exit_code == 0
    assert run("scan", tmp_path / "odd.img", "--save", tmp_path / "a.lscope").exit_code == 0
    assert run("extract", tmp_path / "odd.img", "-o", tmp_path / "b.img").exit_code == 0
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert all(re.fullmatch(r"[a-z0-9_./]+", name) for name in names), names


# Text inputs longer than a limit are refused before they are parsed.


LONGEST = {
    ("drives", "fit", "mine", "--fio", "FILE"): inputs.MAX_PARSED_BYTES,
    ("drives", "fit", "mine", "--reads", "FILE"): MAX_LOG_BYTES,
    ("drives", "FILE.toml"): inputs.MAX_PARSED_BYTES,
    ("scan", "IMAGE", "--password-file", "FILE"): inputs.MAX_SECRET_BYTES,
    ("scan", "IMAGE", "--ddrescue-map", "FILE"): _MAX_MAP_BYTES,
}


@pytest.mark.parametrize("words", LONGEST, ids=" ".join)
def test_texts_longer_than_any_are_refused(run, image, tmp_path, words):
    """One byte more than the limit gives that error; a file at the limit fails for other reasons."""
    for more in (0, 1):
        name = f"{more}.toml"
        with (tmp_path / name).open("wb") as file:
            file.truncate(LONGEST[words] + more)
        places = {"FILE": tmp_path / name, "FILE.toml": tmp_path / name, "IMAGE": image}
        result = run(*(str(places.get(word, word)) for word in words))
        assert "Traceback" not in result.stderr
        assert ("longer than" in result.stderr or "too large" in result.stderr) == bool(more)
        if more:
            assert result.exit_code in (1, 2)
            assert result.stderr.count("\n") == 1
