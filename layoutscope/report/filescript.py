"""A shell script that reads the files of a list in its order: with tar, cp or rsync."""

from __future__ import annotations

import shlex
from typing import Final

SCRIPT: Final = r"""#!/bin/sh
# Copies the files of a list in the order of the list, which is that in which they lie on the disk.
#
#   sh {name} tar SOURCE TARGET.tar    an archive, read in that order
#   sh {name} cp SOURCE TARGET         a folder, read in that order (GNU cp and xargs)
#   sh {name} rsync SOURCE TARGET      a folder; rsync sorts the list by name before it reads
#
# SOURCE is where the volume is mounted. Empty folders are not in the list.
set -eu

# shellcheck disable=SC2016  # a name may hold what looks like a variable
list={list}

if [ "$#" -ne 3 ]; then
    sed -n '2,9s/^# \{{0,1\}}//p' "$0" >&2
    exit 2
fi
how=$1
source=$2
target=$3

case $list in
    /*) ;;
    *) list=$(pwd)/$list ;;
esac
case $target in
    /*) ;;
    *) target=$(pwd)/$target ;;
esac

case $how in
    tar)
        # GNU tar has to be told to take names as they stand; that of macOS does.
        gnu=$(tar --version | grep GNU || true)
        {tar} --null ${{gnu:+--no-unquote}} --no-recursion -C "$source" -cf "$target" -T {names} ;;
    cp)
        mkdir -p "$target"
        cd "$source"
        {cp}
        ;;
    rsync) rsync -a {rsync}--files-from="$list" "$source"/ "$target"/ ;;
    *)
        echo "$0: $how: tar, cp or rsync" >&2
        exit 2
        ;;
esac
"""


def file_script(name: str, listed: str, *, is_null_separated: bool) -> str:
    """Write the script for a list.

    Parameters
    ----------
    name : str
        The script's own, as its help has it.
    listed : str
        Where the list lies.
    is_null_separated : bool
        Whether names in it end with a zero byte.
    """
    copy = 'xargs -0 cp -a --parents -t "$target" --'
    ended = "" if is_null_separated else "tr '\\n' '\\000' <\"$list\" | "
    return SCRIPT.format(
        name=shlex.quote(name).replace("\n", " "),
        list=shlex.quote(listed),
        tar=f"{ended}tar",
        names='"$list"' if is_null_separated else "-",
        cp=f"{ended}{copy}" if ended else f'{copy} <"$list"',
        rsync="--from0 " if is_null_separated else "",
    )
