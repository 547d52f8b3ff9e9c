#!/bin/sh
# Copies the files of a list in the order of the list, which is the order of their data on the disk.
#
#   sh @NAME@ tar SOURCE TARGET.tar    an archive, read in that order
#   sh @NAME@ cp SOURCE TARGET         a folder, read in that order
#   sh @NAME@ rsync SOURCE TARGET      a folder; rsync sorts the list by name before it reads
#
# SOURCE is where the volume is mounted. Empty folders are not in the list.
# Nothing in TARGET is replaced: the copy grows in a new folder .layoutscope.XXXXXX in it, from which each file and
# folder is moved in the end. What TARGET holds under the same name is refused before anything is copied.
set -eu

# shellcheck disable=SC2016  # a name may hold what looks like a variable
list=@LIST@

if [ "$#" -ne 3 ]; then
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
how=$1
source=$2
target=$3

fail() {
    printf '%s: %s\n' "$0" "$1" >&2
    exit 1
}
is_there() { [ -e "$1" ] || [ -L "$1" ]; }

case $how in
    tar | cp | rsync) ;;
    *)
        printf '%s: %s: tar, cp or rsync\n' "$0" "$how" >&2
        exit 2
        ;;
esac
case $list in /*) ;; *) list=$(pwd)/$list ;; esac
case $source in /*) ;; *) source=$(pwd)/$source ;; esac
case $target in /*) ;; *) target=$(pwd)/$target ;; esac

# The names of the list as lines, and each with a zero byte after it.
[ -s "$list" ] || fail "$list: no file, or no names in it"
@LINES@
wrong=$(lines | LC_ALL=C grep -aEn '^([^.]|\.[^/]|\.?$)|/\.{0,2}(/|$)' | LC_ALL=C cut -d : -f 1 | head -n 1)
[ -z "$wrong" ] || fail "$list: name $wrong does not begin with ./, or has an empty part, . or .. in it"

# A folder of the list that is a link would lead out of SOURCE. $into is the folder that must not hold the names yet.
cd "$source"
into=
[ "$how" = tar ] || into=$target
# shellcheck disable=SC2016  # these variables are those of the inner shell
names | xargs -0 sh -c '
    script=$1 into=$2 known= top=
    shift 2
    refuse() {
        printf "%s: %s: %s\n" "$script" "$1" "$2" | LC_ALL=C tr -c "\n -~" "?" >&2
        exit 255
    }
    for file do
        first=${file#./}
        first=${first%%/*}
        if [ -n "$into" ] && [ "$first" != "$top" ] && { [ -e "$into/$first" ] || [ -L "$into/$first" ]; }; then
            refuse "$into/$first" "exists; choose an empty folder"
        fi
        top=$first
        folder=${file%/*}
        [ "$folder" != "$known" ] || continue
        known=$folder
        while [ "$folder" != . ]; do
            if [ -L "$folder" ]; then
                refuse "$folder" "is a link in place of a folder"
            fi
            folder=${folder%/*}
        done
    done
' sh "$0" "$into" || exit 1

if [ "$how" = tar ]; then
    is_there "$target" && fail "$target: exists"
    into=$(dirname "$target")
else
    mkdir -p "$target"
    into=$target
fi
fresh=$(mktemp -d "$into/.layoutscope.XXXXXX")
trap '[ ! -d "$fresh" ] || printf "%s: what was copied and not moved is in %s\n" "$0" "$fresh" >&2' EXIT

# GNU tar takes names literally only with an option; the tar of macOS always does.
gnu=$(tar --version | grep GNU || true)
archive() { names | tar --null ${gnu:+--no-unquote} --no-recursion -cf "$1" -T -; }

case $how in
    tar)
        # What is no longer there is named, and the others are in the archive.
        lost=""
        archive "$fresh/archive.tar" || lost=yes
        is_there "$target" && fail "$target: exists"
        mv -n "$fresh/archive.tar" "$target"
        ;;
    cp)
        # The cp of macOS cannot create a file's parent folders; its tar reads in the same order.
        if cp --version 2>/dev/null | grep -q GNU; then
            names | xargs -0 cp -a --parents -t "$fresh" --
        else
            # What fails before a pipe is heard of through a third stream.
            failed=$({ { archive - || echo tar >&3; } | (cd "$fresh" && tar -xpf - >&2); } 3>&1)
            [ -z "$failed" ] || fail "$source: some files could not be read"
        fi
        ;;
    rsync) names | rsync -a --from0 --files-from=- ./ "$fresh"/ ;;
esac

if [ "$how" != tar ]; then
    for each in "$fresh"/* "$fresh"/.[!.]* "$fresh"/..?*; do
        is_there "$each" || continue
        is_there "$target/${each##*/}" || mv -n "$each" "$target"/
    done
fi
rmdir "$fresh" 2>/dev/null || fail "$target: holds a file or folder of the same name by now, which stays as it is"
[ -z "${lost-}" ] || fail "$source: some files could not be read"
