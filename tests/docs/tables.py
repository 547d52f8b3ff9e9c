"""Tables of the pages that are made from the code."""

from __future__ import annotations

import layoutscope
from layoutscope.drive import list_profiles, load_profile
from layoutscope.filesystems import registry
from layoutscope.metrics import DEFINITIONS
from layoutscope.tables import TABLES
from layoutscope.tables.frames import FRAMES
from layoutscope.walk.host import LINUX, MACOS, property_values, sources
from layoutscope.walk.orders import ORDERS
from tests.docs.imports import ROOT
from tests.docs.markdown import table


def placed(code: str, place: str = "") -> str:
    """Write a code so that it can be led to by itself, or by another name."""
    return f'<a id="{place or code}"></a>`{code}`'


def metrics() -> str:
    """Return the definitions of all metrics."""
    rows = [(placed(d.name), d.title, d.unit, d.denominator, d.text, d.citation) for d in DEFINITIONS.values()]
    return table("metric | title | unit | of what | definition | source", rows)


def findings() -> str:
    """Return every finding code."""
    return table("code | meaning", [(placed(code), text) for code, text in sorted(registry.finding_codes().items())])


def refusals() -> str:
    """Return the code of everything that is refused."""
    return table("code | what is refused", [(placed(code), text) for code, text in sorted(registry.refusals().items())])


def columns() -> str:
    """Return the columns of every table."""
    return "\n\n".join(
        f"## `{name}`\n\n"
        + table("column | unit | meaning", [(placed(c.name, f"{name}.{c.name}"), c.unit, c.doc) for c in columns])
        for name, columns in TABLES.items()
    )


def orders() -> str:
    """Return every order with what it does and what it needs."""
    needs = {"paths": "`--paths`", "file": "`--file`"}
    rows = [
        (placed(each.name), each.does, needs.get(each.needs, ""), "no" if each.is_done_once else "yes")
        for each in ORDERS.values()
    ]
    return table("order | what it gets | needs | again", rows)


def hosts() -> str:
    """Return the properties of the hosts, their values and where these come from."""
    rows, above, known = [], ("", ""), sources()
    for (name, linux), macos in zip(property_values(LINUX).items(), property_values(MACOS).values(), strict=True):
        words = ["as above" if one == old else one for one, old in zip(known[name], above, strict=True)]
        rows.append((placed(name), _shown(linux), _shown(macos), *words))
        above = known[name]
    systems = '<a id="linux"></a>linux | <a id="macos"></a>macos'
    return table(f"property | {systems} | source on linux | source on macos", rows)


def _shown(value: object) -> str:
    """Show a property as ``--host-property`` takes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(name.strip("\0\r") for name in value)
    return "unlimited" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def drives() -> str:
    """Return the drive profiles."""
    profiles = {name: load_profile(name) for name in list_profiles()}
    rows = [(placed(name), profile.take_for, profile.title) for name, profile in profiles.items()]
    return table("profile | take it for | drive", rows)


def json_fields() -> str:
    """Return the fields of the JSON of a scan."""
    from tests.docs.schemas import described_members, schemas

    members = dict(described_members(schemas()["scan"]))
    # Findings of a volume and metrics of a walk have the members of all others.
    again = ("volumes[].findings[].", "volumes[].walk.metrics[].", "findings[].cause.")
    rows = [(f"`{name}`", text) for name, text in members.items() if not name.startswith(again)]
    return table("field | meaning", rows)


COSTS = {"node": "nodes", "file": "files", "directory": "directories"}


def frames() -> str:
    """Return the columns of the frames of results."""
    costs = {f"{name}_costs": f"`layout.costs(drive).{field}`" for name, field in COSTS.items()}
    where = costs | {
        "metrics": "`result.metrics`",
        "times": "`result.times`, `prediction.times`",
        "directories": "`prediction.directories`",
        "reads": "`prediction.reads`",
        "comparison": "`comparison.frame`",
        "faults": "`checked.frame`",
        "remedies": "`plan.remedies`",
    }
    parts = []
    for name, columns in FRAMES.items():
        rows = [(f"`{column.name}`", column.kind, column.unit, column.doc) for column in columns]
        parts.append(f"### {where[name]}\n\n{table('column | type | unit | meaning', rows)}")
    return "\n\n".join(parts)


def parts_of_time() -> str:
    """Return what the time of a listing goes into, for both committed images on one drive."""
    causes, rows = ("seek", "rotation", "transfer", "overhead", "host"), []
    for title, name in (("HFS+", "hfsplus"), ("APFS", "apfs")):
        path = ROOT / "fixtures" / "images" / f"{name}-scattered.img.zst"
        volume = next(each for each in layoutscope.predict(path, drives="generic-5400-2.5").volumes if each.drives)
        seconds = dict(volume.drives[0].prediction.causes_s)
        rows.append((title, *(f"{seconds[cause]:.3f} s" for cause in causes), f"{sum(seconds.values()):.2f} s"))
    return table(" | seek | rotation | transfer | commands | computer | together", rows)
