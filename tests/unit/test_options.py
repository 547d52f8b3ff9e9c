"""Reading options: common ones and those of single file systems, and their path from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from layoutscope.api.reading import make_request
from layoutscope.cli.application import app
from layoutscope.cli.parameters import long_flag, parameters_of
from layoutscope.filesystems.registry import read_options
from layoutscope.options import ReadOptions, SharedReadOptions, options_of


def test_a_request_has_what_callers_may_say():
    """Each reading keyword is an option of all file systems, or is declared by a file system of the package."""
    own = set(read_options())
    assert own == {"xid", "snapshot", "second", "password", "no_journal"}
    assert set(options_of(SharedReadOptions)) | own == set(options_of(ReadOptions)) == set(make_request({}))
    # By default, all volumes are read with their names and each file system's defaults, without a sweep.
    request = make_request({})
    assert (request["partition"], request["volume"], request["names"], request["sweep"]) == (None, None, True, False)
    assert {name: request[name] for name in read_options()} == {
        name: option.default for name, (option, _) in read_options().items()
    }


OFFERED = {each.name: each for each in parameters_of(ReadOptions, {}) if each.name not in ("quiet", "evidence")}
"""Options that reach the reader; those for the terminal's progress and for output do not."""


def library_words(monkeypatch, words):
    """Return the library arguments of a scan given command-line words."""
    asked = {}
    monkeypatch.setattr("layoutscope.cli.parameters.usual_cache", lambda: Path("cache"))
    monkeypatch.setattr("layoutscope.inspect", lambda path, **options: asked.update(options) or path)
    monkeypatch.setattr("layoutscope.cli.commands.show", lambda *_, **__: None)
    command = typer.main.get_command(app)
    command.main(["inspect", "disk.img", "--at", "64KiB", *words], standalone_mode=False)
    return {name: value for name, value in asked.items() if not callable(value)}


@pytest.mark.parametrize("name", OFFERED)
def test_every_option_reaches_the_reader(name, monkeypatch, tmp_path):
    """Every option changes the library's arguments, and none is dropped on the way."""
    (tmp_path / "7").write_text("7")
    words = [long_flag(OFFERED[name])]
    if OFFERED[name].default is not False:
        words.append(str(tmp_path / "7") if name.endswith("_file") else "7")
    usual = library_words(monkeypatch, [])
    assert library_words(monkeypatch, words) != usual
    assert usual["at"] == 65536
    assert usual["cache_dir"] == Path("cache")
