"""Result types, which users rely on, however they are made."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import sys
from inspect import getmembers, isclass
from pathlib import Path

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import astuple, replace

import layoutscope
from layoutscope.access.driver import Driver
from layoutscope.display import Struct as LibraryStruct
from layoutscope.display import StructType, describe_fields
from layoutscope.findings import Finding
from layoutscope.report.json import build_object, list_json, result_document, result_json
from layoutscope.results import check, compare, fleet, plan, predict, recorded, scan, verdict
from layoutscope.results import inspect as inspection
from layoutscope.results.compare import ChangeRow, Changes, NodeChanges
from layoutscope.results.fleet import FleetResult, SourceEnd
from layoutscope.results.inspect import Owner, StateLine
from layoutscope.results.plan import Pace
from layoutscope.results.verdict import Cause, Why
from layoutscope.tables import Values, VolumeFacts
from tests.layouts import layout

IMAGE = Path(__file__).resolve().parents[3] / "fixtures" / "images" / "hfsplus-scattered.img.zst"
CAUSE = Cause(Why.STAT, 2.0, 0.25)


@pytest.mark.parametrize("change", [lambda: setattr(CAUSE, "share", 1.0), lambda: delattr(CAUSE, "share")])
def test_no_field_of_a_result_can_be_changed(change):
    """No field can be deleted, and no attribute added."""
    with pytest.raises(AttributeError):
        change()
    with pytest.raises(AttributeError):
        CAUSE.other = 1
    assert Cause(Why.STAT, 2.0, 0.25) == CAUSE


def test_results_are_equal_by_their_fields_and_replaced_one_by_one():
    same, other = Cause(Why.STAT, 2.0, 0.25), replace(CAUSE, share=0.5)
    assert CAUSE == same == copy.copy(CAUSE) == copy.deepcopy(CAUSE)
    assert hash(CAUSE) == hash(same)
    assert other != CAUSE
    assert (other.name, other.seconds, other.share) == (Why.STAT, 2.0, 0.5)
    assert Cause(share=0.25, name=Why.STAT, seconds=2.0) == CAUSE
    with pytest.raises(TypeError):
        Cause(Why.STAT, 2.0)
    # Causes do not count in the hash either; everything else does.
    first = Finding("truncated", "error", "node 1", 4096, "cut")
    second = replace(first, causes=(Finding("truncated", "error", "image", None, "cut"),))
    assert first == second
    assert len({first, second}) == 1
    assert first != replace(first, device=1)
    assert first != replace(first, field="magic")
    with pytest.raises(ValueError, match="unknown finding code"):
        replace(first, code="none")
    # Nodes are arrays, which do not define equality.
    none = np.empty(0, np.uint64)
    empty = Values(np.empty(0, np.int64), None)
    followed = [NodeChanges(empty, none, empty, empty, empty, none.astype(np.uint8)) for _ in range(2)]
    rows = (ChangeRow("catalog", 1, 2, 3, 4),)
    assert Changes(rows, followed[0]) == Changes(rows, followed[1])
    assert Changes(rows, followed[0]) != Changes((), followed[0])


def test_results_reach_other_processes_whole():
    """A pickled result is equal after loading, arrays included."""
    result, trace = layoutscope.check(IMAGE), layoutscope.trace(IMAGE)
    again, other = pickle.loads(pickle.dumps((result, trace)))  # noqa: S301  (its own)
    assert again == result
    assert result_json(again) == result_json(result)
    pairs = zip(astuple(trace), astuple(other), strict=True)
    assert all(np.array_equal(one, two) if isinstance(one, np.ndarray) else one == two for one, two in pairs)


def test_print_shows_the_text_of_the_command_and_repr_a_line(capsys):
    """The first screen begins with the image, the repr with the type."""
    result = layoutscope.scan(IMAGE, drives=["sata-ssd"])
    print(result)  # noqa: T201  (what is tested)
    shown = capsys.readouterr().out
    assert shown.startswith("hfsplus-scattered.img.zst: 256 MiB\n")
    assert "listing all files" in shown
    assert "\x1b" not in shown
    assert repr(result).startswith("ScanResult(image=ImageFacts(")
    assert "\n" not in repr(result)


def test_no_type_of_the_library_is_left_without_its_short_form():
    """The repr of ``Displayed`` takes precedence over that of a struct, for any order of bases."""
    from layoutscope.display import Displayed

    kinds = {
        kind
        for name, module in list(sys.modules.items())
        if name.startswith("layoutscope.")
        for _, kind in getmembers(module, isclass)
        if issubclass(kind, Displayed) and issubclass(kind, Struct)
    }
    assert len(kinds) > 50
    assert [kind for kind in kinds if kind.__repr__ is Struct.__repr__] == []


def test_json_of_results():
    """Large numbers are strings, pairs objects, enumerations words."""
    # A reader with 53-bit numbers loses no digits; 2^63 + 1 has 19 digits.
    state = StateLine("GPT", "checkpoint", "xid", 2**63 + 1, "Data", 2**60 + 1, True, 3, 3)
    made = build_object(state)
    assert (made["xid"], made["time_ns"], made["num_nodes"]) == ("9223372036854775809", "1152921504606846977", 3)
    assert '"states": []' in list_json("layoutscope.checkpoints/1", "states", [])
    facts = replace(layout().facts, stamp=2**63 + 1)
    assert isinstance(facts, VolumeFacts)
    assert build_object(facts)["stamp"] == "9223372036854775809"
    # An empty tuple of pairs is an empty object, any other empty tuple an empty list.
    assert build_object(Owner("V", "file", None, 0, ()))["facts"] == {}
    assert build_object(Owner("V", "file", None, 0, (("tree", "catalog"),)))["facts"] == {"tree": "catalog"}
    batch = result_document(FleetResult("out", (), 0, 1.5))
    assert batch["sources"] == []
    assert batch["counts"] == {"complete": 0, "damaged": 0, "locked": 0, "refused": 0, "failed": 0}
    # JSON has the value of a cause's enumeration member; ``is_named`` is false if no volume names it.
    from layoutscope.results.scan import VolumeScan

    volume = VolumeScan(layout(), (), (), (), None, (), ())
    made = build_object(CAUSE, volume)
    assert made == {"name": "stat", "seconds": 2.0, "share": 0.25, "is_named": False}
    assert type(made["name"]) is str
    # The document begins with its schema; 10 s more in 5 cycles are 2 s more per cycle.
    batch = result_document(FleetResult("out", (SourceEnd("1", "a.img", "complete"),), 0, 1.5))
    assert [*batch] == ["schema", "folder", "seconds", "kept", "counts", "sources"]
    assert batch["schema"] == "layoutscope.batch/1"
    assert [*batch["sources"][0]] == ["source", "path", "status", "message", "seconds", "has_capture"]
    assert build_object(Pace(5, 0.1, 20.0, 30.0)) == {
        "cycles": 5, "share": 0.1, "now_s": 20.0, "then_s": 30.0, "per_cycle_s": 2.0,
    }  # fmt: skip


def test_help_shows_the_fields_of_results():
    """Annotations are names that only type checkers import; neither help() nor a signature evaluates them."""
    for module in (check, compare, fleet, inspection, plan, predict, recorded, scan):
        for _, kind in getmembers(module, isclass):
            assert pydoc.render_doc(kind)
    parameters = inspect.signature(scan.Prediction).parameters
    assert list(parameters) == list(scan.Prediction.__struct_fields__)
    assert parameters["interval"].annotation == "Interval | None"
    assert parameters["interval"].default is None
    assert parameters["seconds"].default is inspect.Parameter.empty
    assert {item.kind for item in inspect.signature(Driver).parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    # A comment after or above a field is its description; a class without a source keeps its docstring.
    text = inspect.getdoc(scan.Prediction)
    assert text.startswith(
        "The time of an enumeration on a drive, and its causes.\n\nAttributes\n----------\ndrive : str\n"
    )
    assert "\nseeks : int\n    Number of reads that moved the arm.\n" in text
    assert "\nseconds_low : float\n    Lower end of their 90 % range." in text
    made = type(CAUSE)("order", 1.0, 0.5)
    assert made.__doc__ == "The effect of one cause on the time."
    typed = {"Struct": LibraryStruct}
    # As in an interpreter.
    exec("class Typed(Struct):\n    '''Typed in.'''\n\n    name: str  # what it is\n", typed)  # noqa: S102
    assert typed["Typed"].__doc__ == "Typed in."
    # Results of one line, whose docstrings are complete, need no field descriptions.
    lacking = [
        f"{kind.__name__}.{name}"
        for module in (check, compare, fleet, plan, predict, recorded, scan, verdict)
        for _, kind in getmembers(module, isclass)
        if kind.__module__ == module.__name__ and isinstance(kind, StructType)
        for name, text in describe_fields(kind).items()
        if name in kind.__struct_fields__ and not text and any(describe_fields(kind).values())
    ]
    assert lacking == []
