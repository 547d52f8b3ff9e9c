"""Encrypted volumes: each command reports the lock and how to unlock it; a wrong password is an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from io import BytesIO

import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.scenarios import PASSWORD, SCENARIOS
from fixtures.apfs.structures.container import CONTAINER_FLAG_CRYPTO_SW, NX_SUPERBLOCK
from fixtures.apfs.structures.objects import OBJECT_HEADER_SIZE, ObjectType
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from fixtures.fault import planted
from fixtures.faults_apfs import FAULTS
from layoutscope import predict, scan
from layoutscope.errors import LockedError
from tests.cli.conftest import ROOT
from tests.sparse import write_sparse

SHOWING = ("scan --json", "check", "inspect --at 0", "export --table nodes", "map -o OUT")
"""Commands whose output needs no key."""
REFUSING = ("predict", "plan", "trace", "compare LOCKED", "series")
"""Verbs that need the names."""


@pytest.mark.parametrize("verb", [*SHOWING, *REFUSING])
def test_every_verb_says_that_it_is_locked_and_how_to_open_it(run, locked, tmp_path, verb):
    """A result is shown if possible and is an error if it needs the key; both name the way to unlock the volume."""
    name, *words = verb.replace("LOCKED", str(locked)).replace("OUT", str(tmp_path / "a.html")).split()
    result = run(name, locked, *words)
    assert result.exit_code == (1 if verb in REFUSING else result.exit_code)
    assert bool(result.stdout) == (verb in SHOWING and name != "map")
    assert "the volume 'Secret' is encrypted and locked; --password - asks for what opens it" in result.stderr
    assert "LAYOUTSCOPE_PASSWORD" in result.stderr


@pytest.mark.parametrize("verb", [*SHOWING, *REFUSING])
def test_a_wrong_password_is_an_error(run, locked, tmp_path, verb):
    """The exit code is 1, with one line on standard error and no result."""
    name, *words = verb.replace("LOCKED", str(locked)).replace("OUT", str(tmp_path / "a.html")).split()
    (tmp_path / "secret").write_text("wrong\n")
    result = run(name, locked, *words, "--password-file", tmp_path / "secret")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"layoutscope: {locked}: the password opens none of its encrypted volumes\n"


def test_ways_to_give_a_password_are_equal(run, locked, tmp_path, monkeypatch):
    """A file, the environment and the command line work alike; a password that others can see gives a warning."""
    (tmp_path / "secret").write_text(f"{PASSWORD}\n")
    by_file = run("trace", locked, "--password-file", tmp_path / "secret")
    typed = run("trace", locked, "--password", PASSWORD)
    monkeypatch.setenv("LAYOUTSCOPE_PASSWORD", PASSWORD)
    by_environment = run("trace", locked)
    assert by_file.exit_code == 0
    assert by_file.stdout == by_environment.stdout == typed.stdout
    assert (by_file.stderr, by_environment.stderr) == ("", "")
    assert "warning: a password on the command line is visible to other users" in typed.stderr
    assert PASSWORD not in typed.stderr
    monkeypatch.delenv("LAYOUTSCOPE_PASSWORD")
    with pytest.raises(LockedError, match="encrypted and locked"):
        predict(locked)
    with pytest.raises(LockedError, match="opens none"):
        scan(locked, password=PASSWORD[::-1])


def test_a_password_is_asked_for_without_echo(locked):
    """A hyphen prompts at the terminal, without echo."""
    pty = pytest.importorskip("pty", reason="this system has no terminals")
    main, other = pty.openpty()
    command = [sys.executable, "-m", "layoutscope", "predict", str(locked), "--password", "-", "--drive", "sata-ssd"]
    # A new session has this terminal as its only one, as after a login.
    process = subprocess.Popen(
        command, stdin=other, stdout=subprocess.PIPE, stderr=other, cwd=ROOT, start_new_session=True, text=True
    )
    os.close(other)
    shown = b""
    while b"Password: " not in shown:
        shown += os.read(main, 1024)
    os.write(main, f"{PASSWORD}\n".encode())
    # A progress line may be longer than an unread terminal can buffer.
    with suppress(OSError):  # how a terminal ends on Linux
        while piece := os.read(main, 1024):
            shown += piece
    result, _ = process.communicate(timeout=120)
    os.close(main)
    assert process.returncode == 0
    assert "On sata-ssd" in result
    assert PASSWORD.encode() not in shown


def test_nobody_is_asked_where_nobody_is(shell, locked):
    """Without a terminal a hyphen is refused immediately."""
    result = shell("predict", locked, "--password", "-", stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "--password-file" in result.stderr


def test_what_is_not_encrypted_is_not_called_locked(run, image, locked, tmp_path, monkeypatch):
    """Where a password is given for others, images and captures mention none; a locked volume's first screen does."""
    text = run("scan", locked).stdout
    assert " --password -  # or --password-file FILE\n" in text
    assert json.loads(run("scan", locked, "--json").stdout)["volumes"][-1]["details"]["locked"] is True
    run("scan", image, "--save", tmp_path / "a.lscope")
    monkeypatch.setenv("LAYOUTSCOPE_PASSWORD", "of another disk")
    assert run("scan", tmp_path / "a.lscope").exit_code == 0
    for name in ("basic", "volumes"):
        write(SCENARIOS[name], tmp_path / f"{name}.img")
        assert run("check", tmp_path / f"{name}.img").stderr == ""


@pytest.mark.parametrize("name", ["volume-keybag", "container-keybag"])
def test_a_password_is_not_called_wrong_where_its_keys_are_damaged(run, tmp_path, name):
    """The damage is reported with its place, and data that need no key are read."""
    fault = next(fault for fault in FAULTS if fault.name == name)
    victim = tmp_path / "victim.img"
    with planted(fault, {fault.scenario: (victim, write(VICTIMS[fault.scenario], victim))}) as image:
        result = run("scan", image.path, "--json", "--password", PASSWORD)
    assert result.exit_code == 3
    findings = [found for volume in json.loads(result.stdout)["volumes"] for found in volume["findings"]]
    assert any(found["level"] == "error" and "key bag" in found["structure"] for found in findings)
    assert "opens none" not in result.stderr


def test_a_key_that_asks_for_too_much_is_not_tried(run, locked, monkeypatch):
    """PBKDF2 rounds beyond a limit are damage of the keybag; an untried password is not called wrong."""
    monkeypatch.setattr("layoutscope.filesystems.apfs.keybag.MAX_ITERATIONS", 999)
    result = run("scan", locked, "--json", "--password", PASSWORD)
    assert result.exit_code == 3
    assert "rounds of PBKDF2" in result.stdout
    assert "opens none" not in result.stderr


# ``inspect`` on an encrypted APFS volume.


@pytest.fixture(scope="module")
def locked_views(tmp_path_factory):
    """Write an encrypted volume; return its image and planned layout."""
    path = tmp_path_factory.mktemp("locked") / "disk.img"
    return path, write(SCENARIOS["encrypted"], path)


@pytest.fixture(scope="module")
def locked(locked_views):
    """Return the image of an encrypted volume."""
    return locked_views[0]


def leaf_of(expected):
    """Return the first leaf of the file-system tree."""
    return next(n for n in expected.live.nodes if (n.tree, n.level, n.key_rank) == ("fs", 0, 0))


@pytest.mark.parametrize("by", ["address", "number"])
def test_with_the_password_the_plain_records_are_shown(run, locked_views, by):
    """The header has the planned identifier and transaction, and every record is decoded."""
    path, expected = locked_views
    leaf = leaf_of(expected)
    place = ("--at", leaf.paddr * 4096) if by == "address" else ("--node", f"fs:{leaf.oid}")
    result = run("inspect", path, "--json", "--password", PASSWORD, *place)
    assert result.exit_code == 0, result.stderr
    parts = json.loads(result.stdout)["structures"]
    head = {field["path"]: field["value"] for field in parts[0]["fields"]}
    assert (int(head["hdr.oid"]), int(head["hdr.xid"])) == (leaf.oid, leaf.xid)
    assert int(head["num_keys"]) == leaf.num_keys
    assert not any(part["error"] for part in parts)
    if by == "number":
        assert len([part for part in parts if " record " in part["title"]]) == leaf.num_keys


def test_a_file_is_found_by_its_path_and_without_a_password_no_record(run, locked_views):
    """Records are those of the inode's number; then the owner is known from the object map, and no ciphertext read."""
    path, expected = locked_views
    result = run("inspect", path, "--json", "--password", PASSWORD, "--path", "Folder/plain.txt")
    assert result.exit_code == 0, result.stderr
    entry = next(item for item in expected.live.entries if item.name == "plain.txt")
    values = [field["value"] for part in json.loads(result.stdout)["structures"] for field in part["fields"]]
    assert str(entry.file_id) in values
    leaf = leaf_of(expected)
    found = json.loads(run("inspect", path, "--json", "--at", leaf.paddr * 4096).stdout)
    assert found["owners"][0]["facts"]["node id"] == str(leaf.oid)
    (part,) = found["structures"]
    assert (part["fields"], "encrypted" in part["error"]) == ([], True)


# Volumes whose keys are known only to the hardware that made them.


BLOCK_BYTES = 4096
LOCKED = "volume-hardware-locked"


@pytest.fixture(scope="module")
def hardware_image(tmp_path_factory):
    """Write an encrypted volume, and clear the software encryption flag in every superblock."""
    path = tmp_path_factory.mktemp("hardware") / "disk.img"
    expected = write(SCENARIOS["encrypted"], path)
    data = bytearray(path.read_bytes())
    area = next(item for item in expected.live.regions if item.type == "checkpoint-descriptor-area")
    for block in (0, *range(area.paddr, area.paddr + area.num_blocks)):
        where = block * BLOCK_BYTES
        if int.from_bytes(data[where + 24 : where + 26], "little") == ObjectType.NX_SUPERBLOCK & 0xFFFF:
            start = where + OBJECT_HEADER_SIZE
            at.put_field(data, start, NX_SUPERBLOCK, "nx_flags", lambda old: old & ~CONTAINER_FLAG_CRYPTO_SW)
            at.fix_checksum(data, where, BLOCK_BYTES)
    write_sparse(path, BytesIO(data))
    return path


@pytest.mark.parametrize("password", [(), ("--password", PASSWORD)])
def test_hardware_encryption_is_named_with_advice(run, hardware_image, password):
    """No password is requested or tried: the finding gives advice, and data that need no key are shown."""
    for verb in ("scan", "check"):
        result = run(verb, hardware_image, "--json", *password)
        document = json.loads(result.stdout)
        told = [item for volume in document["volumes"] for item in volume["findings"] if item["code"] == LOCKED]
        assert result.exit_code == 3
        assert [item["level"] for item in told] == ["warning"]
        assert "bound to the hardware" in told[0]["message"]
        assert "on the Mac it belongs to" in told[0]["message"]
        assert "password or recovery key unlocks" not in result.stdout
        assert verb == "check" or document["volumes"][-1]["name"] == "Secret"
    text = " ".join(run("scan", hardware_image, *password).stdout.split())
    assert LOCKED in text
    assert "Mac it belongs to" in text
