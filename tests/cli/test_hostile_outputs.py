"""Names that act on terminals, spreadsheets, pages and scripts, in every output that holds names."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from fixtures.hfsplus.plan import File, Folder, Fork, VolumePlan
from fixtures.hfsplus.writer import render
from tests.cases import for_each
from tests.cli.test_hostile import NAMES, UNSAFE

FOLDERS = ("dir\x1b[2J", "fol\u202eder", "\u2066isolated\u2069", "=cmd|' /C calc'!A0",
           "</script><script>alert(1)</script>", "$(touch owned)", "`id`", "two\nlines", "' onload='x")  # fmt: skip


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Return an image with such names for volume, folders and files, in a file with such a name."""
    files = tuple(File(name, Fork(1)) for name in NAMES)
    folders = tuple(Folder(name, files[:2]) for name in FOLDERS)
    plan = VolumePlan(name="=vol\x1b[31m\u202eume", total_blocks=4096, root=(*files, *folders))
    target = tmp_path_factory.mktemp("odd") / "im\x1b[31m\u202eage $(id) '</script>.img".replace("/", "")
    target.write_bytes(render(plan)[0].to_bytearray())
    return target


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
    "all of scan": ("scan", "{image}", "--details", "--explain"),
}
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


def filled(words, odd) -> list[str]:
    return [word.format(image=odd) for word in words]


@for_each("name", WRITTEN)
def test_what_is_written_acts_on_no_terminal(run, odd, tmp_path, name):
    """Output is safe to show with cat, less or mactime; line ends are those of the format."""
    target = tmp_path / f"out.{SUFFIXES.get(name, 'out')}"
    result = run(*filled(WRITTEN[name], odd), target)
    assert result.exit_code in (0, 3), result.stderr
    text = target.read_text("utf-8")
    assert UNSAFE.search(text) is None
    assert UNSAFE.search(result.stdout + result.stderr) is None
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed_acts_on_no_terminal(run, odd, name):
    """Also if the image's own path has such a name."""
    result = run(*filled(PRINTED[name], odd))
    assert result.exit_code in (0, 3), result.stderr
    assert UNSAFE.search(result.stdout + result.stderr) is None


def test_ncdu_reads_each_folder_as_text(run, odd, tmp_path):
    """The export is JSON whose names are escaped a second time, because ncdu prints them as read."""
    assert run("predict", odd, "--ncdu", tmp_path / "a.ncdu").exit_code == 0
    _, _, head, root = json.loads((tmp_path / "a.ncdu").read_text())
    assert head["progname"] == "layoutscope"
    names = [item[0]["name"] for item in root[1:]]
    assert len(names) == len(FOLDERS)
    assert {"dir\\u001b[2J", "fol\\u202eder", "\\u2066isolated\\u2069", "two\\u000alines"} <= set(names)
    assert not any(UNSAFE.search(name) or "\n" in name for name in names)


def test_an_xml_list_is_whole_and_an_entry_a_line_of_a_body_file(run, odd, tmp_path):
    """Names with markup, line ends and bars end neither an element nor a field."""
    assert run("export", odd, "--format", "dfxml", "-o", tmp_path / "a.xml").exit_code == 0
    root = ET.fromstring((tmp_path / "a.xml").read_text("utf-8"))  # noqa: S314  (our own output)
    assert len([item for item in root.iter() if item.tag.endswith("fileobject")]) > len(NAMES)
    assert run("export", odd, "--format", "bodyfile", "-o", tmp_path / "a.body").exit_code == 0
    lines = (tmp_path / "a.body").read_text("utf-8").splitlines()
    assert {line.count("|") for line in lines if not line.startswith("#")} == {10}


def test_pages_hold_names_as_text(run, odd, tmp_path):
    """No page has an element that comes from an image, and each forbids other sources."""
    for words in (("map", odd, "-o"), ("series", odd, odd, "--plot")):
        page = tmp_path / f"{words[0]}.html"
        assert run(*words, page).exit_code == 0
        text = page.read_text("utf-8")
        assert "<script>alert" not in text
        assert "Content-Security-Policy" in text
        assert not re.search(r"<[^>]* onload=", text)


def test_captures_come_back_as_they_were(run, odd, tmp_path):
    """Parquet preserves each name, and a report of the capture escapes names as a report of the image does."""
    assert run("scan", odd, "--save", tmp_path / "a.lscope").exit_code == 0
    saved = pl.read_parquet(tmp_path / "a.lscope" / "0" / "entries.parquet")["name"].to_list()
    assert "fol\u202eder" in saved
    again = run("scan", tmp_path / "a.lscope", "--details")
    assert again.exit_code == 0
    assert UNSAFE.search(again.stdout) is None


def test_no_path_is_made_of_a_name(run, odd, tmp_path):
    """Tables, captures and extracts: all created files have names chosen by the program."""
    shutil.copy(odd, tmp_path / "odd.img")
    assert run("export", tmp_path / "odd.img", "--table", "all", "-o", tmp_path / "tables").exit_code == 0
    assert run("scan", tmp_path / "odd.img", "--save", tmp_path / "a.lscope").exit_code == 0
    assert run("extract", tmp_path / "odd.img", "-o", tmp_path / "b.img").exit_code == 0
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert all(re.fullmatch(r"[a-z0-9_./]+", name) for name in names), names
