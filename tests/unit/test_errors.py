from __future__ import annotations

import ast
import pickle
import re

import pytest

import layoutscope
from fixtures.apfs import scenarios
from fixtures.apfs.plan import VolumePlan
from fixtures.apfs.writer import write
from layoutscope.errors import LockedError, UsageError, did_you_mean
from layoutscope.filesystems.registry import refusals
from layoutscope.partition.choice import select_name
from tests.docs.imports import read_modules

IMAGE = "fixtures/images/hfsplus-scattered.img.zst"


@pytest.mark.parametrize(
    ("word", "meant"), [("fst", "fts"), ("nams", "names"), ("NAMES", "names"), ("catalogue", "catalog")]
)
def test_a_word_like_another_is_suggested(word, meant):
    """A mistyped word is compared with the known words."""
    assert did_you_mean(word, ("fts", "names", "catalog")) == f" (did you mean {meant!r}?)"


def test_nothing_is_suggested_for_what_is_like_nothing():
    """A word unlike all known ones has no suggestion."""
    assert did_you_mean("xyzzy", ("fts", "names", "catalog")) == ""


@pytest.mark.parametrize(
    ("ask", "meant"),
    [
        (lambda: layoutscope.drives(["generic-720"]), "generic-7200"),
        (lambda: layoutscope.export(IMAGE, "nods", "nodes.csv"), "nodes"),
        (lambda: layoutscope.predict(IMAGE, workload={"order": "fst"}), "fts"),
        (lambda: layoutscope.predict(IMAGE, workload={"what_ifs": ["packd"]}), "packed"),
        (lambda: select_name(["System", "Data"], "Dat"), "Data"),
    ],
    ids=["drive", "table", "order", "what-if", "volume"],
)
def test_drives_tables_orders_what_ifs_and_volumes_are_suggested(ask, meant):
    with pytest.raises(UsageError, match=rf"did you mean '{meant}'\?"):
        ask()


def test_every_refusal_has_a_code_that_is_known():
    """If a package is missing, an unknown code would end in a traceback instead of a line."""
    calls = [
        node
        for module in read_modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "UnsupportedError"
    ]
    given = [word.value for call in calls for word in call.keywords if word.arg == "code"]
    codes = {value.value for value in given if isinstance(value, ast.Constant)}
    assert len(codes) > 5
    assert codes - set(refusals()) == set()


OPTION = re.compile(r"--[a-z]")


def test_a_keyword_stands_where_a_command_has_an_option():
    """The last of equal words is the keyword, whatever an image is called; a command's words survive pickling."""
    error = UsageError("force=True.img: exists; force=True overwrites it", options={"force=True": "--force"})
    assert str(error) == "force=True.img: exists; force=True overwrites it"
    assert error.typed == "force=True.img: exists; --force overwrites it"
    assert pickle.loads(pickle.dumps(error)).typed == error.typed  # noqa: S301  (what was made here)
    assert UsageError("no such thing").typed == "no such thing"


def test_no_error_of_the_library_names_an_option():
    """Every error text with an option in it belongs to the command only."""
    made = [
        (module.name, node)
        for module in read_modules().values()
        if not module.name.startswith(("layoutscope.cli", "layoutscope.structs.native"))
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error")
    ]
    texts = [
        (name, item.value)
        for name, call in made
        for part in call.args
        for item in ast.walk(part)
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    ]
    assert len(texts) > 300
    assert [(name, text) for name, text in texts if OPTION.search(text)] == []


@pytest.mark.parametrize(
    ("ask", "keyword", "option"),
    [
        (lambda path: layoutscope.plan(IMAGE, emit_script=path), "emit_order", "--emit-order FILE"),
        (lambda _: layoutscope.plan(IMAGE, lasts=0), "lasts", "--lasts"),
        (lambda _: layoutscope.plan(IMAGE, lasts=2, order="copy"), "lasts", "--lasts"),
        (lambda path: layoutscope.plan(IMAGE, emit_order=path), "force=True", "--force"),
        (lambda _: layoutscope.predict(IMAGE, order="paths"), "keyword paths", "(--paths)"),
        (lambda _: layoutscope.predict(IMAGE, order="read"), "keyword file", "(--file)"),
        (lambda _: layoutscope.predict(IMAGE, records=3), "records; that goes with order='read'", "--order read"),
        (
            lambda _: layoutscope.predict(IMAGE, order="ls", stat=False),
            "stat=False",
            "--no-stat; that goes with --order",
        ),
        (lambda _: layoutscope.inspect(IMAGE), "node, at, lba, cnid or file_path", "--node TREE:NUMBER"),
        (lambda path: layoutscope.extract(IMAGE, path.with_name("new"), names=False), "names=False", "--no-names"),
        (lambda path: layoutscope.extract(IMAGE, path, second_target=path), "second_target", "--second-output FILE"),
        (lambda _: layoutscope.fit("mine"), "fio, reads, random_ms or rate_mb_s", "--random-ms or --rate-mb-s"),
    ],
)
def test_a_keyword_is_named_to_who_calls_and_an_option_to_who_types(tmp_path, ask, keyword, option):
    """Callers see keywords and users of the command see options."""
    held = tmp_path / "held"
    held.write_text("a\n")
    with pytest.raises(UsageError) as raised:
        ask(held)
    assert keyword in str(raised.value)
    assert not OPTION.search(str(raised.value))
    assert option in raised.value.typed


def test_one_volume_is_chosen_by_a_keyword(tmp_path):
    """For two volumes, and for a locked one, the library's messages use its keywords."""
    write(scenarios.container(VolumePlan("A", scenarios.many(3)), VolumePlan("B", scenarios.many(3))), tmp_path / "two")
    with pytest.raises(UsageError, match=r"two: 2 volumes .* volume=NAME, or as IMAGE:VOLUME$") as raised:
        _ = layoutscope.scan(tmp_path / "two").volume
    assert "choose one with --volume, or" in raised.value.typed
    write(scenarios.container(scenarios.ENCRYPTED), tmp_path / "locked")
    for ask in (layoutscope.predict, layoutscope.plan, lambda path: layoutscope.scan(path).volume):
        with pytest.raises(LockedError, match=r"locked: .* is encrypted and locked; password=TEXT opens it$") as locked:
            ask(tmp_path / "locked")
        assert "--password - asks for what opens it (or use --password-file or" in locked.value.typed


@pytest.mark.parametrize("drive", [["generic-7200"], 7200])
def test_a_plan_is_for_one_drive(drive):
    """A list is refused before the image is read."""
    with pytest.raises(UsageError, match=r"^drive: a plan takes one drive, by its name or file: this is "):
        layoutscope.plan("there is none", drive=drive)
