"""The command line: one module a command, from arguments to the api to a report; no logic."""

from __future__ import annotations

from layoutscope.cli.application import app

__all__ = ["app"]
