"""Keywords of the library: misspelt ones, those of workloads, and a single drive as a string."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from types import UnionType
from typing import Literal, Union, get_args, get_origin, is_typeddict

import numpy as np
import pytest

import layoutscope
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope import options
from layoutscope.api.map import write_map
from layoutscope.options import ReadOptions, fill, options_of
from tests.cases import for_each

IMAGE = str(Path(__file__).resolve().parents[2] / "fixtures" / "images" / "hfsplus-scattered.img.zst")

MISSPELT = {
    "batch": (lambda: layoutscope.batch([IMAGE], "nowhere", resme=True), "resume"),
    "check": (lambda: layoutscope.check(IMAGE, partitoin=1), "partition"),
    "checkpoints": (lambda: layoutscope.checkpoints(IMAGE, partitoin=1), "partition"),
    "compare": (lambda: layoutscope.compare(IMAGE, IMAGE, drive="generic-7200"), "drives"),
    "export": (lambda: layoutscope.export(IMAGE, "nodes", "nowhere", fileformat="csv"), "file_format"),
    "extract": (lambda: layoutscope.extract(IMAGE, "nowhere", forse=True), "force"),
    "fit": (lambda: layoutscope.fit("mine", randomms=3.0), "random_ms"),
    "forecast": (lambda: layoutscope.forecast(IMAGE, workloda="add"), "workload"),
    "inspect": (lambda: layoutscope.inspect(IMAGE, filepath="/"), "file_path"),
    "list": (lambda: layoutscope.list(IMAGE, foldr="/"), "folder"),
    "map": (lambda: layoutscope.map([IMAGE], "nowhere", drive="generic-7200"), "drives"),
    "open": (lambda: layoutscope.open(IMAGE, partitoin=1), "partition"),
    "plan": (lambda: layoutscope.plan(IMAGE, ordr="fts"), "order"),
    "predict": (lambda: layoutscope.predict(IMAGE, ordr="names"), "order"),
    "query": (lambda: layoutscope.query(IMAGE, "SELECT 1", partitoin=1), "partition"),
    "read_layouts": (lambda: layoutscope.read_layouts(IMAGE, volum="Data"), "volume"),
    "replay": (lambda: layoutscope.replay("nowhere", qeue_depth=2), "queue_depth"),
    "scan": (lambda: layoutscope.scan(IMAGE, snapshto="x"), "snapshot"),
    "series": (lambda: layoutscope.series([IMAGE], bye="time"), "by"),
    "trace": (lambda: layoutscope.trace(IMAGE, oder="names"), "order"),
    "verify": (lambda: layoutscope.verify(IMAGE, partitoin=1), "partition"),
    "validate": (lambda: layoutscope.validate("nowhere", drve="generic-7200"), "drive"),
    "write_map": (lambda: write_map([], "nowhere", allpaths=True), "all_paths"),
}


@for_each("verb", MISSPELT)
def test_misspelt_keywords_are_refused_with_what_was_meant(verb):
    """No verb ignores a keyword: an unknown one is an error that suggests a similar name."""
    call, meant = MISSPELT[verb]
    with pytest.raises(TypeError, match=rf"^{verb}\(\) has no keyword '\w+' \(did you mean '{meant}'\?\)"):
        call()


@pytest.mark.parametrize(
    ("call", "now"),
    [
        (lambda: layoutscope.scan(IMAGE, map_file="x"), "ddrescue_map"),
        (lambda: layoutscope.predict(IMAGE, cache_bytes=1), "memory_bytes"),
        (lambda: layoutscope.replay("nowhere", cache="own"), "buffer"),
        (lambda: layoutscope.fit("mine", figures={}), "datasheet"),
    ],
)
def test_keywords_of_earlier_versions_say_what_they_are_called_now(call, now):
    """The new names are those of the command-line options."""
    with pytest.raises(TypeError, match=rf"\(it is called '{now}' now\)"):
        call()


def test_every_verb_that_takes_options_is_held_to_them():
    """The list above has every verb with keywords of reading."""
    verbs = {name: getattr(layoutscope, name) for name in layoutscope.__all__ if name != "__version__"}
    takes = {name for name, verb in verbs.items() if hasattr(verb, "__wrapped__")}
    loose = {
        name
        for name, verb in verbs.items()
        if any(item.kind is item.VAR_KEYWORD for item in inspect.signature(verb).parameters.values())
    }
    assert takes == set(MISSPELT) - {"write_map"}  # the functions that `map` and `scan.map` call
    assert loose == set()


def test_keywords_in_a_workload_are_held_to_as_well():
    """A misspelt keyword in a workload is an error, and so is giving the same option in both ways."""
    with pytest.raises(TypeError, match=r"a workload has no 'ordr' \(did you mean 'order'"):
        layoutscope.predict(IMAGE, workload={"ordr": "names"})
    with pytest.raises(TypeError, match="'order' is given twice"):
        layoutscope.trace(IMAGE, order="names", workload={"order": "fts"})


@pytest.mark.parametrize(("keyword", "value", "meant"), [("order", "nams", "names"), ("host", "macOS", "macos")])
def test_misspelt_values_are_answered_with_what_was_meant(keyword, value, meant):
    """An unknown order or host is not replaced by a default; a similar name is suggested."""
    with pytest.raises(layoutscope.errors.UsageError, match=f"did you mean '{meant}'"):
        layoutscope.predict(IMAGE, **{keyword: value})


def test_a_workload_is_said_plainly_or_together():
    """``predict(image, order="names")`` predicts the listing by names, as with a workload."""
    plain = layoutscope.predict(IMAGE, order="names", top=3, drives="generic-7200", host="linux")
    together = layoutscope.predict(
        IMAGE, workload={"order": "names", "top": 3, "host": "linux"}, drives=["generic-7200"]
    )
    walked = layoutscope.predict(IMAGE, drives="generic-7200", host="linux")
    assert plain.volumes[0].walk.order == together.volumes[0].walk.order == "names"
    assert plain.volumes[0].drives[0].prediction.seconds == together.volumes[0].drives[0].prediction.seconds
    assert plain.volumes[0].drives[0].prediction.seconds < walked.volumes[0].drives[0].prediction.seconds
    assert len(plain.volumes[0].drives[0].directories) == 3
    assert len(layoutscope.trace(IMAGE, host="linux", order="names")) == plain.volumes[0].walk.reads


def test_one_value_needs_no_list():
    """A single drive, what-if or volume, and a number of any kind."""
    # A single name is one drive, for every verb that takes drives.
    assert [item.drive for item in layoutscope.scan(IMAGE, drives="generic-7200").volumes[0].predictions] == [
        "generic-7200"
    ]
    assert [facts.profile.name for facts in layoutscope.drives("generic-7200")] == ["generic-7200"]
    assert [row.drive for row in layoutscope.compare(IMAGE, IMAGE, drives="sata-ssd").times] == ["sata-ssd"]
    assert [row.drive for row in layoutscope.series(IMAGE, drives="sata-ssd").found.times] == ["sata-ssd"]
    # A single value needs no list, and a number no quotes.
    (case,) = layoutscope.predict(IMAGE, drives="generic-7200", what_ifs="ssd", volume=1).volumes
    assert [change.name for change in case.drives[0].what_ifs] == ["ssd"]
    with pytest.raises(layoutscope.errors.UsageError, match="no volume '2'"):
        layoutscope.predict(IMAGE, volume=2)
    # The drive is given as for other verbs.
    reads = layoutscope.trace(IMAGE)
    loaded = layoutscope.service(reads, layoutscope.load_profile("generic-7200"))
    assert layoutscope.service(reads, "generic-7200").service_s == loaded.service_s
    # A count that was computed with numpy is a whole number, too.
    (case,) = layoutscope.predict(IMAGE, drives="sata-ssd", top=np.int64(1)).volumes
    assert case
    # ``compare(a, b)`` is ``compare([a, b])``, and one image alone cannot be compared.
    assert layoutscope.compare(IMAGE, IMAGE, drives=()) == layoutscope.compare([IMAGE, IMAGE], drives=())
    with pytest.raises(layoutscope.errors.UsageError, match="at least two"):
        layoutscope.compare(IMAGE)


@pytest.mark.parametrize("verb", ["predict", "export"])
def test_prediction_without_a_drive_is_refused(verb, tmp_path):
    """An empty sequence of drives leaves nothing to predict for; other verbs, and all orders at once, do without."""
    given = () if verb == "predict" else ("times", tmp_path / "times.csv")
    with pytest.raises(layoutscope.errors.UsageError, match=r"^a prediction needs a drive: drives is empty\."):
        getattr(layoutscope, verb)(IMAGE, *given, drives=())
    assert not (tmp_path / "times.csv").exists()
    (case,) = layoutscope.predict(IMAGE, order="all", drives=()).orders
    assert {order.times for order in case.orders} == {()}


def test_unknown_host_is_refused_even_if_nothing_can_be_walked(tmp_path):
    """A typing error is reported whatever the image holds, here a locked volume."""
    write(SCENARIOS["encrypted"], tmp_path / "locked.img")
    for verb in (layoutscope.scan, layoutscope.compare, layoutscope.predict):
        images = [tmp_path / "locked.img"] * (2 if verb is layoutscope.compare else 1)
        with pytest.raises(layoutscope.errors.UsageError, match="unknown host 'vms'"):
            verb(*images, host="vms")


def test_help_calls_a_path_the_image_only_where_it_is_one():
    """Verbs share the description of an image's path; the path of a page has its own."""
    assert "\npath : path\n    The image.\n" in layoutscope.predict.__doc__
    assert "\npath : path or binary file\n    The page.\n" in write_map.__doc__
    assert "The image." not in write_map.__doc__


def test_keywords_stand_in_signature_and_help():
    """A scan's keywords are visible to Tab and ``help``, with unit, default and meaning."""
    shown = inspect.signature(layoutscope.scan).parameters
    assert set(ReadOptions.__annotations__) | {"drives", "host", "strict"} <= set(shown)
    assert (shown["host"].default, shown["sweep"].default, shown["volume"].default) == (None, False, None)
    text = layoutscope.scan.__doc__
    assert "\nvolume_at : int, bytes, optional\n    Read the volume that starts at this byte" in text
    assert "\nnames : bool, default True\n    False: leave out file names." in text
    assert "\ndrives : str or sequence of str, optional\n" in text
    assert "\nddrescue_map : path, optional\n" in text
    assert "\nplacement : {'known', 'unknown'}, default 'known'\n" in layoutscope.predict.__doc__
    assert "\nhost_properties : mapping of str to value, default {}\n" in layoutscope.predict.__doc__
    assert "\non_locked : callable, optional\n" in text
    assert "**options" not in text
    assert "\nReturns\n" in text
    assert "\norder : str, default 'fts'\n" in layoutscope.predict.__doc__


GROUPS = [item for item in vars(options).values() if is_typeddict(item)]


def fits(value, hint):
    """Return whether a value matches an annotation, as far as its class shows."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = [get_origin(part) or part for part in parts]
    return any(value in get_args(part) for part in parts if get_origin(part) is Literal) or any(
        isinstance(value, kind) and (kind is not int or not isinstance(value, bool))
        for kind in kinds
        if isinstance(kind, type)
    )


def test_options_have_one_default_of_their_type():
    """Defaults have the declared type, and one name has one."""
    # A request without keywords has values of the declared types; callables are not checked here.
    wrong = [
        f"{group.__name__}.{name}: {option.default!r}"
        for group in GROUPS
        for name, option in options_of(group).items()
        if option.kind != "callable" and not fits(option.default, get_args(group.__annotations__[name])[0])
    ]
    assert wrong == []
    assert len(GROUPS) > 20
    # Verbs that combine groups cannot have two defaults for one name.
    assert {options_of(group)["order"].default for group in GROUPS if "order" in options_of(group)} == {"fts"}
    assert {options_of(group)["host"].default for group in GROUPS if "host" in options_of(group)} == {None}
    # A group's declared options are all present, and no others.
    asked = fill(ReadOptions, {"sweep": True, "order": "names"})
    assert asked.keys() == ReadOptions.__annotations__.keys()
    assert (asked["sweep"], asked["partition"], asked["names"]) == (True, None, True)


def test_looking_around_shows_the_verbs():
    """Tab lists the verbs and loads nothing."""
    # ``dir`` lists every verb and none of the package's imports, and loads nothing.
    assert set(layoutscope.__all__) <= set(dir(layoutscope))
    assert {"import_module", "TYPE_CHECKING", "annotations"} & set(dir(layoutscope)) == set()
    # The message uses the package's public name.
    with pytest.raises(AttributeError, match=r"module 'layoutscope' has no attribute 'scna' \(did you mean 'scan'\?\)"):
        layoutscope.scna  # noqa: B018
    assert not hasattr(layoutscope, "_ipython_display_")
    # Importing the package and listing its verbs loads neither arrays nor frames nor the command line.
    heavy = "{'numpy', 'polars', 'typer', 'rich', 'layoutscope.api'}"
    script = f"import sys, layoutscope; dir(layoutscope); print(sorted({heavy} & {{*sys.modules}}))"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"paths": ["/Users"]}, "look at paths; that goes with order='backup-events' or order='paths'"),
        ({"file": "/Users"}, "look at file; that goes with order='read'"),
        ({"order": "names", "stat": False}, "look at stat=False; that goes with order='fts'"),
        ({"order": "copy", "records": 3}, "look at records; that goes with order='read'"),
    ],
)
@pytest.mark.parametrize("verb", [layoutscope.predict, layoutscope.trace])
def test_what_an_order_does_not_look_at_is_refused(verb, given, said):
    """An option without its order is refused instead of ignored; all orders at once take what each needs."""
    with pytest.raises(layoutscope.errors.UsageError, match=said):
        verb(IMAGE, **given)
    found = layoutscope.predict(IMAGE, drives="sata-ssd", **{**given, "order": "all", "file": None})
    assert found.orders


@pytest.mark.parametrize(
    ("verb", "given", "message"),
    [
        ("forecast", {"cycles": 10_001}, "cycles must be a whole number, 0 to 10,000: it is 10001"),
        ("forecast", {"seeds": 65}, "seeds must be a whole number, 1 to 64: it is 65"),
        ("forecast", {"seeds": 1.5}, "seeds must be a whole number, 1 to 64: it is 1.5"),
        ("predict", {"top": -1}, "top must be a whole number, 0 or more: it is -1"),
        ("plan", {"lasts": 0}, "lasts must be a whole number, 1 or more: it is 0"),
        ("batch", {"timeout_ms": float("nan")}, "timeout_ms must be a number, 0 or more: it is nan"),
    ],
)
def test_number_outside_the_bounds_of_its_option_is_refused(verb, given, message):
    """The library refuses what the command refuses, before it reads the image."""
    with pytest.raises(layoutscope.errors.UsageError, match=message):
        getattr(layoutscope, verb)("missing.img", **given)
