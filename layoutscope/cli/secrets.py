"""Passwords: from a file, typed, asked for without an echo, or from the environment."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from layoutscope import inputs
from layoutscope.cli.running import warn
from layoutscope.errors import ImageError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def secret_of(name: str, typed: str | None, file: Path | None) -> str | None:
    """Return a secret: from its file, as typed, asked for without an echo, or from the environment."""
    if file is not None:
        return read_secret(file)
    if typed == "-":
        return _asked_for(name)
    if typed is None:
        return os.environ.get(f"LAYOUTSCOPE_{name.upper()}") or None
    warn(f"others on this machine can see what stands behind --{name}; --{name} - asks for it without showing it")
    return typed


def _asked_for(name: str) -> str:
    from getpass import getpass

    if not sys.stdin.isatty():
        raise UsageError(f"--{name} - asks at a terminal, and there is none; write --{name}-file FILE")
    return getpass(f"{name.capitalize()}: ")


def read_secret(path: Path) -> str:
    """Read a password from a file, without the line end that editors add."""
    try:
        return inputs.read_text(path, most_bytes=inputs.MOST_SECRET_BYTES).rstrip("\r\n")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ImageError(f"{path}: cannot be read as a password file: {reason}") from error
    except UnicodeDecodeError as error:
        raise ImageError(f"{path}: cannot be read as a password file") from error
