"""The printed command that installs an optional feature works for every source of layoutscope."""

from __future__ import annotations

import importlib.metadata
import json
import shlex

import pytest

from layoutscope.errors import install_command

CHECKOUT = "file:///home/a%20user/layoutscope"
CASES = {
    "index": (None, ["layoutscope[crypto]"]),
    "checkout": ({"url": CHECKOUT, "dir_info": {}}, ["/home/a user/layoutscope[crypto]"]),
    "editable": ({"url": CHECKOUT, "dir_info": {"editable": True}}, ["-e", "/home/a user/layoutscope[crypto]"]),
    "archive": ({"url": "https://example.org/l.zip", "archive_info": {}}, ["layoutscope[crypto]"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_feature_comes_from_where_layoutscope_came_from(monkeypatch, case):
    """An index needs only the name, a checkout its path, which may contain spaces."""
    origin, expected = CASES[case]

    class Installed:
        def read_text(self, name):
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: Installed())
    assert shlex.split(install_command("crypto")) == ["pip", "install", *expected]
