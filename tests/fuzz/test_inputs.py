"""Every input file of the command line is fuzzed."""

from __future__ import annotations

import typer
from typer.models import TyperPath

from layoutscope.cli import app
from tests.fuzz.runner import TARGETS

INPUTS = {
    "image": ("hfsplus", "apfs", "captures"),
    "images": ("hfsplus", "apfs", "captures", "forecasts"),
    "sources": ("hfsplus", "apfs", "captures"),
    "folder": ("captures",),
    "place": ("hfsplus", "apfs", "captures"),
    "later": ("hfsplus", "apfs", "captures"),
    "--against": ("hfsplus", "apfs", "captures"),
    "--second": ("fusion",),
    "--ddrescue-map": ("maps",),
    "--password-file": ("beside",),
    "--cache-dir": ("beside",),
    "--fio": ("beside",),
    "--paths": ("lists",),
    "kit": ("kits",),
    "--reads": ("timings",),
    "--offsets": ("lists",),
    "trace": ("traces",),
    "--drive": ("profiles", "beside"),
    "--base": ("profiles", "beside"),
    "names": ("profiles", "beside"),
}
"""Arguments and options that name a file, and the targets that change it."""

OUTPUTS = {"-o", "--second-output", "--evidence", "--map", "--save", "--png", "--plot", "--nodes", "--ncdu", "--log",
           "--emit-order", "--emit-script"}  # fmt: skip
"""Options that name an output."""

FILES_BY_NAME = {"--drive", "--base", "names"}
"""Options whose value may also be a file."""


def named() -> dict[str, bool]:
    """List the arguments and options of all commands, and whether they are paths."""
    commands = typer.main.get_command(app).commands.values()
    return {item.opts[0]: isinstance(item.type, TyperPath) for command in commands for item in command.params}


def test_every_input_has_a_target():
    """Every path that is not an output is listed as an input: name the target of ``tests/fuzz`` that changes it."""
    paths = {name for name, is_path in named().items() if is_path}
    assert paths - OUTPUTS - set(INPUTS) == set()
    assert (OUTPUTS | set(INPUTS)) - set(named()) == set()
    assert set(INPUTS) - paths == FILES_BY_NAME
    assert OUTPUTS & set(INPUTS) == set()


def test_every_target_changes_an_input():
    """Every named target exists, and no target is unused."""
    assert {target for targets in INPUTS.values() for target in targets} == set(TARGETS)
