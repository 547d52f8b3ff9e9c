"""The reference set is fetched whole, checked, and not fetched twice."""

from __future__ import annotations

import hashlib

import pytest

from tests import fetch

FILES = {"driver/a b.img.zst": b"first", "traces/c.trace.zst": b"second"}


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Make a folder that offers two files, and a list of their checksums."""
    listing = tmp_path / "reference.sha256"
    listing.write_text("".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in FILES.items()))
    monkeypatch.setattr(fetch, "CHECKSUMS", listing)
    folder = tmp_path / "server"
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(data)
    return folder


def test_files_are_fetched_once(server, tmp_path, capsys):
    """Each file arrives with its content; a second run finds it complete, and a changed one is fetched again."""
    words = ["--from", str(server), "--to", str(tmp_path / "to")]
    assert fetch.main(words) == 0
    assert {name: (tmp_path / "to" / name).read_bytes() for name in FILES} == FILES
    (tmp_path / "to" / "traces" / "c.trace.zst").write_bytes(b"cut")
    capsys.readouterr()
    assert fetch.main(words) == 0
    assert capsys.readouterr().out == "complete driver/a b.img.zst\nfetched traces/c.trace.zst\n"


def test_wrong_and_missing_files_are_refused(server, tmp_path, capsys):
    """A file with another checksum and one that the server does not have are errors, and neither is kept."""
    (server / "driver" / "a b.img.zst").write_bytes(b"other")
    (server / "traces" / "c.trace.zst").unlink()
    assert fetch.main(["--from", str(server), "--to", str(tmp_path / "to")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith("error: driver/a b.img.zst: checksum differs: expected ")
    assert errors[1].startswith("error: traces/c.trace.zst: ")
    assert not [path for path in (tmp_path / "to").rglob("*") if path.is_file()]


def test_the_list_has_no_file_of_the_checkout():
    """Files in fixtures/images are not fetched, and each name has a SHA-256."""
    files = fetch.read_checksums()
    assert files
    assert all(len(digest) == 64 for digest in files.values())
    assert not [name for name in files if (fetch.Path("fixtures/images") / name).exists()]
