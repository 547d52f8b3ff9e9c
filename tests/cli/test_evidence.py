"""``--evidence``: others can verify the report of an examination with other tools."""

from __future__ import annotations

import hashlib
import json
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render, write
from layoutscope.version import __version__
from tests.unit.image.containers.test_udif import ZLIB, udif

MIB = 1024**2


def sha256(path):
    """Return the SHA-256 digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def disk(tmp_path):
    """Return a small image."""
    write(SCENARIOS["hard-links"], tmp_path / "disk.img")
    return tmp_path / "disk.img"


def report(run, tmp_path, *words):
    """Run a command with a report; return the result and the report."""
    target = tmp_path / "report.json"
    result = run(*words, "--evidence", target)
    return result, json.loads(target.read_text())


VERBS = {
    "scan": ("scan", "{disk}"),
    "check": ("check", "{disk}"),
    "check of two": ("check", "{disk}", "{other}"),
    "map": ("map", "{disk}", "-o", "{out}.html"),
    "inspect": ("inspect", "{disk}", "--at", "1024"),
    "compare": ("compare", "{disk}", "{other}", "--plot", "{out}.html"),
    "series": ("series", "{disk}", "{other}"),
    "predict": ("predict", "{disk}"),
    "plan": ("plan", "{disk}", "--emit-order", "{out}.txt", "--emit-script", "{out}.sh"),
    "trace": ("trace", "{disk}", "-o", "{out}.csv"),
    "forecast": ("forecast", "{disk}", "--cycles", "2", "--seeds", "1", "--plot", "{out}.html"),
    "export": ("export", "{disk}", "--table", "nodes", "-o", "{out}.csv"),
    "list": ("list", "{disk}", "-o", "{out}.txt"),
    "extract": ("extract", "{disk}", "-o", "{out}.img"),
    "verify": ("verify", "{disk}"),
}
"""Every command that reads an image, and what it writes."""


def test_every_verb_that_reads_images_is_here():
    """A new command must be listed, too."""
    from layoutscope.cli.application import COMMANDS

    # Checkpoints need APFS; a trace and a kit are compared with an image only if one is named. A batch hashes no
    # source, because its tables record what it keeps of each; a query reads these tables.
    without = {"batch", "query", "report", "explain", "drives", "cache", "kit", "checkpoints", "replay", "validate"}
    without |= {"fit", "measure"}  # of drives
    assert {words[0] for words in VERBS.values()} == set(COMMANDS) - without


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_tells_what_it_read_and_wrote(run, disk, tmp_path, verb):
    """Hashes of each image before and after, and of each result, equal those of any other program."""
    write(SCENARIOS["hard-links"], tmp_path / "other.img")
    given = {"disk": disk, "other": tmp_path / "other.img", "out": tmp_path / "out"}
    words = [word.format(**given) for word in VERBS[verb]]
    result, told = report(run, tmp_path, *words)
    assert result.exit_code in (0, 3)
    assert (told["tool"], told["version"], told["exit_code"]) == ("layoutscope", __version__, result.exit_code)
    named = [word for word in words if word in (str(disk), str(tmp_path / "other.img"))]
    assert [image["named"] for image in told["images"]] == named
    for image in told["images"]:
        (file,) = image["files"]
        assert (file["path"], file["size_bytes"]) == (image["named"], disk.stat().st_size)
        assert file["sha256_before"] == file["sha256_after"] == sha256(disk)
        assert file["unchanged"]
    assert told["unchanged"]
    written = [path for path in tmp_path.iterdir() if path.name.startswith("out.")]
    assert {each["path"]: each["sha256"] for each in told["written"]} == {str(path): sha256(path) for path in written}


def test_times_and_words_are_told(run, disk, tmp_path):
    """The report has the time, the folder and the command line; a password in it is withheld."""
    before = datetime.now(UTC) - timedelta(seconds=1)
    command = ["scan", str(disk), "--password", "swordfish", "--evidence", str(tmp_path / "a.txt")]
    from layoutscope.api.evidence import without_secrets

    assert without_secrets(command) == ("scan", str(disk), "--password", "(withheld)", *command[4:])
    assert without_secrets(["--password=swordfish"]) == ("--password=(withheld)",)
    _, told = report(run, tmp_path, "scan", disk)
    assert before <= datetime.fromisoformat(told["started"]) + timedelta(seconds=1)
    assert datetime.fromisoformat(told["started"]) <= datetime.fromisoformat(told["ended"])
    assert told["system"]
    assert told["folder"]


def test_the_words_are_those_that_were_given(shell, disk, tmp_path):
    """The command can be run again from the report; the text has the same facts as the JSON, one per line."""
    text, document = tmp_path / "a.txt", tmp_path / "a.json"
    result = shell("scan", disk, "--volume", "1", "--password", "swordfish", "--evidence", text, "--evidence", document)
    assert result.returncode == 0
    words = ["scan", str(disk), "--volume", "1", "--password", "(withheld)"]
    words += ["--evidence", str(text), "--evidence", str(document)]
    assert json.loads(document.read_text())["command"] == words
    assert "swordfish" not in text.read_text() + document.read_text()
    lines = text.read_text().splitlines()
    assert lines[0] == f"Report of an examination by layoutscope {__version__}"
    assert f"  SHA-256:  {sha256(disk)} before" in lines
    assert f"            {sha256(disk)} after" in lines
    assert lines[-1] == "Every file examined has the same SHA-256 after the work as before it."


def test_each_part_of_a_split_image_is_hashed(run, disk, tmp_path):
    """Three parts, each with its hash, in order."""
    data = disk.read_bytes()
    size = -(-len(data) // 3 // 512) * 512
    parts = [tmp_path / f"set.00{number}" for number in (1, 2, 3)]
    for number, part in enumerate(parts):
        part.write_bytes(data[number * size : (number + 1) * size])
    _, told = report(run, tmp_path, "scan", parts[0])
    files = told["images"][0]["files"]
    assert [(file["path"], file["sha256_before"]) for file in files] == [(str(part), sha256(part)) for part in parts]


def test_each_segment_of_an_expert_witness_image_is_hashed(run, tmp_path, peer):
    """E01 and E02, as stored files."""
    data = bytes(render(SCENARIOS["hard-links"])[0].to_bytearray())
    (tmp_path / "raw").write_bytes(data.ljust(4 * MIB, b"\0"))
    command = [peer("ewfacquire"), "-u", "-q", "-c", "none", "-S", str(2 * MIB), "-t", tmp_path / "a", tmp_path / "raw"]
    subprocess.run(command, check=True, capture_output=True)
    _, told = report(run, tmp_path, "scan", tmp_path / "a.E01")
    segments = sorted(tmp_path.glob("a.E*"))
    assert len(segments) > 1
    files = told["images"][0]["files"]
    assert {file["path"]: file["sha256_after"] for file in files} == {str(path): sha256(path) for path in segments}


def test_containers_are_hashed_as_they_lie_there(run, disk, tmp_path):
    """The file of a disk image is hashed, not the disk inside, so anybody can compare it."""
    dmg = tmp_path / "a.dmg"
    data = disk.read_bytes()
    dmg.write_bytes(udif([(ZLIB, data + bytes(-len(data) % 512))]))
    _, told = report(run, tmp_path, "scan", dmg)
    assert told["images"][0]["files"][0]["sha256_before"] == sha256(dmg)


@pytest.mark.full
def test_both_images_of_a_set_are_hashed(run, tmp_path):
    """The second device is evidence, too."""
    pair = tmp_path / "main.img", tmp_path / "second.img"
    write_apfs(APFS["fusion"], *pair)
    _, told = report(run, tmp_path, "scan", pair[0], "--second", pair[1])
    found = {image["named"]: image["files"][0]["sha256_after"] for image in told["images"]}
    assert found == {str(path): sha256(path) for path in pair}


def test_an_image_that_changes_meanwhile_is_told(run, disk, tmp_path, monkeypatch):
    """Another program writes between the two hashes: exit 1, and the report names the file that differs."""
    from layoutscope.api import scan as verb

    real = verb.scan

    def scan_while_written(path, **options):
        found = real(path, **options)
        data = bytearray(disk.read_bytes())
        data[-1] ^= 1
        disk.write_bytes(data)
        return found

    monkeypatch.setattr("layoutscope.api.scan.scan", scan_while_written)
    before = sha256(disk)
    result, told = report(run, tmp_path, "scan", disk)
    assert result.exit_code == 1
    assert "is not what it was before the work" in result.stderr
    (file,) = told["images"][0]["files"]
    assert (file["sha256_before"], file["sha256_after"]) == (before, sha256(disk))
    assert not told["unchanged"]


def test_an_image_that_goes_away_meanwhile_is_told(run, disk, tmp_path, monkeypatch):
    """An unplugged disk cannot be hashed again, so no report calls it unchanged."""
    from layoutscope.api import scan as verb

    real = verb.scan

    def scan_and_unplug(path, **options):
        found = real(path, **options)
        disk.unlink()
        return found

    monkeypatch.setattr("layoutscope.api.scan.scan", scan_and_unplug)
    result, told = report(run, tmp_path, "scan", disk)
    assert (result.exit_code, told["unchanged"]) == (1, False)
    assert told["images"][0]["files"][0]["sha256_after"] == ""


def test_work_that_fails_is_reported(run, disk, tmp_path):
    """The report gives the end of the command, and says that the image is unchanged."""
    result, told = report(run, tmp_path, "scan", disk, "--volume", "nobody")
    assert (result.exit_code, told["exit_code"]) == (2, 2)
    assert "nobody" in told["error"]
    assert told["unchanged"]


def test_a_report_is_never_overwritten(run, disk, tmp_path):
    """Nor does a report overwrite an image: refused before the work, even with --force."""
    report(run, tmp_path, "scan", disk)
    for target in (tmp_path / "report.json", disk):
        before = sha256(target)
        result = run("export", disk, "--table", "nodes", "-o", tmp_path / "a.csv", "--force", "--evidence", target)
        assert (result.exit_code, sha256(target)) == (2, before)
    assert not (tmp_path / "a.csv").exists()


def test_sectors_that_cannot_be_read_are_counted(run, disk, tmp_path, monkeypatch):
    """Unreadable bytes are hashed as zeros, and the report gives their number."""
    from layoutscope.image import raw

    disk.write_bytes(disk.read_bytes())  # without holes, which are not read
    real, size = raw.pread_into, disk.stat().st_size
    bad = (size // 2) // 512 * 512

    def failing(descriptor, offset, target):
        if offset < bad + 512 and offset + len(target) > bad:
            raise OSError(5, "Input/output error")
        return real(descriptor, offset, target)

    monkeypatch.setattr(raw, "pread_into", failing)
    _, told = report(run, tmp_path, "scan", disk)
    (file,) = told["images"][0]["files"]
    data = bytearray(disk.read_bytes())
    data[bad : bad + 512] = bytes(512)
    assert (file["unread_bytes"], file["sha256_before"]) == (512, hashlib.sha256(data).hexdigest())
