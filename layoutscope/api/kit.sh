#!/bin/sh
# What a Mac does on a disk: how long its reads take, and what four listings read.
# Made by layoutscope @VERSION@; docs/drives.md tells what each file in the archive holds.
#
#   sudo sh kit.sh /Volumes/NAME
#
# Some minutes, more with many files. Uses Apple's own tools alone and changes no setting. Nothing is written to the disk
# under test: it is read as a raw device, and mounted read-only for the listings; before and after it is unmounted and
# mounted, as when it is ejected and plugged in. No names of files leave the machine. The archive goes into the folder you
# stand in.
set -u
PATH=${KIT_TOOLS:+$KIT_TOOLS:}/usr/bin:/bin:/usr/sbin:/sbin:/usr/libexec:$PATH # KIT_TOOLS, KIT_DEV: to try it elsewhere
LC_ALL=C
export PATH LC_ALL

volume=${1:-}
here=$PWD
started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d "${TMPDIR:-/tmp}/kit.XXXXXX") || exit 1
out=$work/kit
mkdir "$out"
recorder=
device=

pause() { sleep 2; }
fail() { echo "kit: $*" >&2; exit 1; }
say() { echo "kit: $*" >&2; }

# --- leaving: stop the recorder, mount the volume as it was, remove what was made -----------------------------------
leave() {
  status=$?
  trap '' HUP INT TERM
  trap - EXIT
  if [ -n "$recorder" ]; then kill "$recorder" 2>/dev/null; fi
  if [ -n "$device" ]; then diskutil mount "/dev/$device" >/dev/null 2>&1; fi
  rm -rf "$work"
  exit "$status"
}
trap leave EXIT
trap 'exit 130' INT TERM
trap 'exit 129' HUP # a terminal that was closed

# --- may we? ---------------------------------------------------------------------------------------------------------
[ "$(uname -s)" = Darwin ] || fail "this is for macOS"
[ "$(id -u)" = 0 ] || fail "run it with sudo; raw devices and fs_usage are for the administrator alone"
[ -n "$volume" ] || fail "name a volume: sudo sh kit.sh /Volumes/NAME"
[ -d "$volume" ] || fail "$volume is not mounted"
case $volume in
  / | /System/*) fail "not the startup disk: it cannot be unmounted" ;;
esac

# --- steps: what was tried, how it ended, how long it took -----------------------------------------------------------
printf 'step\tstatus\tseconds\tnote\n' >"$out/steps.tsv"
note() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$out/steps.tsv"; }
step() { # NAME COMMAND...
  name=$1
  shift
  begun=$(date +%s)
  "$@"
  ended_as=$?
  note "$name" "$ended_as" "$(($(date +%s) - begun))" ""
  return "$ended_as"
}

# --- names, serial numbers and identifiers are blanked in what diskutil says -------------------------------------------
blanked() {
  awk '/<key>(VolumeName|Name|MountPoint|SerialNumber|[A-Za-z]*UUID|[A-Za-z]*GroupID)<\/key>/ { hide = 1; print; next }
       hide && /<string>/ { sub(/<string>.*<\/string>/, "<string>-</string>") }
       { hide = 0; print }'
}
of_plist() { PlistBuddy -c "Print :$2" "$1" 2>/dev/null; }
physical_of() { # INFO: the disk itself, where a container of APFS makes another one of it
  of_plist "$1" APFSPhysicalStores:0:APFSPhysicalStore >"$work/disk" || of_plist "$1" ParentWholeDisk >"$work/disk"
  sed 's/^\(disk[0-9]*\).*/\1/' "$work/disk"
}

diskutil info -plist "$volume" >"$work/volume.plist" || fail "diskutil knows no volume at $volume"
device=$(of_plist "$work/volume.plist" DeviceIdentifier)
container=$(of_plist "$work/volume.plist" APFSContainerReference)
[ -n "$device" ] || fail "diskutil does not say on which device $volume is"
physical=$(physical_of "$work/volume.plist")
raw=${KIT_DEV:-/dev}/r$physical
for mounted in / /System/Volumes/Data; do
  diskutil info -plist "$mounted" >"$work/startup.plist" 2>/dev/null || continue
  [ "$(physical_of "$work/startup.plist")" != "$physical" ] || fail "$volume is on the startup disk"
done

say "this will unmount all volumes of $physical, read it, mount $volume read-only, list it four times, and mount it again."
say "no program may use the disk meanwhile. Type yes to begin:"
read -r answer
[ "$answer" = yes ] || fail "nothing was done"
say "what are the disk and its case: makers, models, rpm? (Enter if not known)"
read -r disks || disks=
say "how was the volume filled: Finder, Carbon Copy Cloner, Time Machine or another; from which file system? (Enter if not known)"
read -r filled || filled=

# --- the system, the disk, the mount -----------------------------------------------------------------------------------
facts() {
  sw_vers >"$out/sw_vers.txt"
  uname -a | sed "s/$(uname -n)/-/" >"$out/uname.txt"
  sysctl hw.memsize hw.model hw.ncpu kern.maxvnodes kern.maxnbuf vm.swapusage >"$out/sysctl.txt" 2>/dev/null
  diskutil list -plist | blanked >"$out/list.plist"
  blanked <"$work/volume.plist" >"$out/volume.plist"
  diskutil info -plist "$physical" | blanked >"$out/physical.plist"
  if [ -n "$container" ]; then diskutil apfs list -plist "$container" | blanked >"$out/apfs.plist"; fi
  mount | awk -v disk="/dev/$device" '$1 == disk { sub(/ on .* \(/, " on - ("); print }' >"$out/mount.txt"
}
unmount_all() {
  if [ -n "$container" ]; then diskutil unmountDisk "/dev/$container" >/dev/null || return 1; fi
  diskutil unmountDisk "/dev/$physical" >/dev/null
}

# --- calibration: timed reads of the raw device ------------------------------------------------------------------------
# perl comes with macOS; python3 does not (it offers to install developer tools), and dd cannot time a single read.
calibrate() {
  perl - "$raw" "$(of_plist "$out/physical.plist" TotalSize)" >"$out/calibration.csv" <<'PERL'
use strict; use warnings; use Fcntl; use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);
my ($disk, $size) = @ARGV; my ($small, $large) = (4096, 1 << 20); srand(21);
sysopen(my $file, $disk, O_RDONLY) or die "kit: $disk: $!\n";
my @rows = ("step,offset,length,at_ns,ns\n", "capacity,0,$size,0,0\n"); END { print @rows } # what was read before an error, too
sub within { my ($offset, $length) = @_;
  $offset = $size - $length if $offset > $size - $length; $offset = 0 if $offset < 0; return int($offset / $small) * $small }
sub take {                                        # one read, timed and logged; the first error ends it
  my ($step, $offset, $length) = @_; $length ||= $small; $offset = within($offset, $length);
  sysseek($file, $offset, 0) or die "kit: byte $offset: $!\n";
  my $began = clock_gettime(CLOCK_MONOTONIC);
  my $got = sysread($file, my $bytes, $length); my $ended = clock_gettime(CLOCK_MONOTONIC);
  die "kit: byte $offset: $!\n" unless defined $got; die "kit: byte $offset: $got bytes came\n" if $got != $length;
  push @rows, sprintf "%s,%d,%d,%.0f,%.0f\n", $step, $offset, $length, $began * 1e9, ($ended - $began) * 1e9;
  return $ended - $began;
}
sub take_both {                                   # two reads at once, the second by a process of its own
  my ($first, $second) = map { within($_, $small) } @_;
  my $began = clock_gettime(CLOCK_MONOTONIC); my $child = fork; die "kit: $!\n" unless defined $child;
  if (!$child) { my $own; sysopen($own, $disk, O_RDONLY) and sysseek($own, $second, 0) and sysread($own, my $bytes, $small); kill 9, $$ }
  sysseek($file, $first, 0); sysread($file, my $bytes, $small); waitpid($child, 0);
  my $took = clock_gettime(CLOCK_MONOTONIC) - $began;
  push @rows, sprintf "together,%d,%d,0,%.0f\n", $first, $small, $took * 1e9; return $took;
}
sub anywhere { return int(rand($size / $small - 1)) * $small }
sub near { return int($size / 3 / $small) * $small + int(rand(($size / 4 < 1 << 30 ? $size / 4 : 1 << 30) / $small)) * $small }
sub median { my @s = sort { $a <=> $b } @_; return $s[@s / 2] }
sub mean { my $sum = 0; $sum += $_ for @_; return $sum / @_ }
my ($turn, @hit, @seen);
sub quick { my $most = 3 * median(@hit); return $turn && $most > $turn / 3 ? $turn / 3 : $most }
sub turn_twice {                                  # places read twice: between the two reads pass whole turns
  my @places = map { near() } 1 .. 300; my (@first, @between, @done);
  for (0 .. 299) { push @first, take("turn", $places[$_]); $done[$_] = clock_gettime(CLOCK_MONOTONIC) }
  for (reverse 0 .. 299) { push @between, clock_gettime(CLOCK_MONOTONIC) - $done[$_] if take("turn", $places[$_]) > median(@first) / 3 }
  my ($best, $found) = (0, 0); return 0 if @between < 50; my ($longest) = sort { $b <=> $a } @between;
  for (my $rate = 1 / 0.017; $rate < 1 / 0.0035; $rate += 0.1 / $longest) { # the slowest of which all are about whole turns
    my ($c, $s) = (0, 0); for (@between) { $c += cos(6.2831853 * $rate * $_); $s += sin(6.2831853 * $rate * $_) }
    ($best, $found) = ($c * $c + $s * $s, 1 / $rate) if $c * $c + $s * $s > 1.2 * $best }
  return $found;
}
sub hits {
  for (1 .. $_[0]) { my $place = near();
    for my $number (0 .. 2) { my $length = $small << $number; my $at = $place + $number * 32 * $large;
      take("before", $at); sleep(0.025);
      for (0 .. 3) { my $took = take("hits", $at + $small + $_ * $length, $length); push @hit, $took unless $number }
      take("again", $at + $small + 3 * $length, $length) for 1 .. 3 } }
}
sub interleaved {                                 # 1, 2, 4 to 64 streams in turn, until the drive does not keep up
  for my $count (map { 1 << $_ } 0 .. 6) { my (@followed, @at); @at = map { near() } 1 .. $count;
    for my $k (0 .. 3) { for (@at) { my $took = take("streams$count", $_ + $k * $small); push @followed, $took if $k; sleep(0.0005) } }
    last if median(@followed) > quick() }
}
sub rates { my ($count, $each) = @_; my $turns = $turn || 0;
  return map { my $place = int(($size - 16 * $large) * $_ / ($count - 1) / $large) * $large;
    my $all = take("rates", $place, $large); my ($rest, $read) = (0, 0);
    for my $k (1 .. 7) { last if $k > 2 && $all > 0.2; my $took = take("rates", $place + $k * $large, $large); $all += $took; $rest += $took; $read++ }
    [$place, $read * $large / $rest * $turns * 1.1] } 0 .. $count - 1;
}
sub uniform { for (1 .. 400) { my $place = anywhere(); take("uniform", $place); push @seen, $place } } # nothing is fitted to these
sub back { my $misses = 0;                        # the last ones first: how many the buffer holds
  for (reverse @seen) { last if $misses == 8; $misses = take("back", $_) > quick() ? $misses + 1 : 0 } }

my $start = clock_gettime(CLOCK_MONOTONIC);
take("start", anywhere()) for 1 .. 10;                                            # spin up
my @kind = map { take("kind", anywhere()) } 1 .. 50;
if (median(@kind) < 0.002) {                      # flash
  for my $length (4, 16, 64, 128) { take("sizes", anywhere(), $length << 10) for 1 .. 60 }
  rates(32); exit;
}
my ($pairs, $free, @close, @in_turn, @at_once) = (16, 0);        # one disk or two: far places in turn, and at once
for my $pair (0 .. $pairs - 1) {
  my $share = $pair % 8 == 7 ? 0.3 : $pair % 2 ? 0.55 : 0.05; my ($one, $two) = map { ($_ + rand() / 20) * $size } $share, $share + 0.4;
  my $step = sub { $_[0] -= (4 << 20) * (1 + int(rand(8))); return int($_[0]) };
  for my $k (0 .. 2) { my $took = take("close", $step->($one)); push @close, $took if $k }
  my (@far, @both); for (1 .. 3) { push @far, take("apart", $step->($one)); push @far, take("apart", $step->($two)) }
  push @both, take_both($step->($one), $step->($two)) for 1 .. 3;
  push @in_turn, mean(@far[2 .. 5]); push @at_once, mean(@both[1, 2]);
}
for (0 .. $pairs - 1) { $free++ if $at_once[$_] < 2.2 * mean(@close) || $in_turn[$_] + $at_once[$_] < 3.7 * mean(@close) }
if ($free > $pairs / 5) { $turn = turn_twice(); hits(6); interleaved(); rates(3); uniform(); back(); exit } # a set, as a whole
my ($keeps, $first, $low) = (0, scalar @rows, $size / 3);        # a turn: each read lies lower than the one before by a stride
for my $wide (0, 1) { $low -= 4 * $large;
  my $took = median(map { take($wide ? "turn-wide" : "turn", $low - $_ * $small * ($wide ? 4 : 1)) } 0 .. 99);
  $turn = $took unless $wide; $keeps = $took < 0.001 }
if ($keeps) { s/^turn(-wide)?,/arrival,/ for @rows[$first .. $#rows]; $turn = turn_twice() } # it keeps its track on arrival
my @place = rates(32); my (@track, @ladder);      # rates from the outer to the inner edge
for my $number (0 .. 31) {                        # tracks: downwards by an eighth of a turn
  my ($place, $track) = @{$place[$number]}; push @track, $track; my $stride = int($track / 8 / $small + 0.5) * $small || $small;
  push @ladder, map { [$number, $_, $place + 15 * $large - $_ * $stride] } 0 .. int(4 * $track / $stride);
}
# Of a drive that keeps its track each read is at another place, and the next one there on another track.
@ladder = sort { $a->[1] % 8 <=> $b->[1] % 8 || $a->[1] <=> $b->[1] || $a->[0] <=> $b->[0] } @ladder if $keeps;
take("tracks", $_->[2]) for @ladder;
hits(16);                                         # what the buffer holds
for my $k (0 .. 15) { my $at = near(); take("before", $at);                       # at once, or at a program's pace
  for (1 .. 120) { sleep(0.0001) if $k % 2; take($k % 2 ? "paced" : "stream", $at + $_ * $small) } }
interleaved();
for my $power (0 .. 10) { for my $k (0 .. 19) { my $at = near(); take("before", $at); sleep(0.025) if $k % 2;
  take($k % 2 ? "late" : "skips", $at + $small + ($small << $power) * (1 + rand)) } }
for (1 .. 24) { my $at = near(); take("before", $at + $_ * $large, $large) for 0 .. 3; sleep(0.025); my $share = 2 ** (rand() / 4);
  for my $k (8 .. 40) { last if take("behind", $at + 4 * $large - int($small * 2 ** ($k / 4) * $share)) > quick() } }
my ($at, $near) = (anywhere(), log(median(@track) * ($keeps ? 2 : 0.5)));         # pairs at all distances, for a minute in all
for my $k (map { $_ * 7 % 2880 } 1 .. 2880) {
  last if $k % 24 == 0 && @seen > 960 && clock_gettime(CLOCK_MONOTONIC) - $start > 60 - 450 * mean(@kind);
  my $distance = int(exp($near + ($k % 24 + rand) / 24 * (log($size * 0.97) - $near)));
  my $down = $at >= $distance; my $up = $at + $distance < $size - $small && ($distance > 32 * $large || !$down);
  unless ($up || $down) { $at = int(rand($size - $distance)); take("edge", $at); push @seen, $at; $up = 1 }
  $at += $up && (!$down || rand() < 0.5) ? $distance : -$distance; take("pairs", $at); push @seen, $at;
}
uniform(); back();
PERL
}
rates_by_dd() { # without perl: 32 MiB at 16 places
  megabytes=$(($(of_plist "$out/physical.plist" TotalSize) / 1048576))
  for k in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    dd if="$raw" of=/dev/null bs=1048576 count=32 iseek=$(((megabytes - 32) * k / 15)) 2>&1 || return 1
  done >"$out/rates.txt"
}

# --- a listing, the volume freshly mounted, under fs_usage ---------------------------------------------------------------
# Foundation asks for names and attributes of many entries at once, where find and ls go through the C library.
cat >"$work/bulk.js" <<'JAVASCRIPT'
ObjC.import('Foundation');
function run(arguments) {
  const keys = $([$.NSURLFileSizeKey, $.NSURLContentModificationDateKey, $.NSURLIsDirectoryKey]);
  const entries = $.NSFileManager.defaultManager.enumeratorAtURLIncludingPropertiesForKeysOptionsErrorHandler(
    $.NSURL.fileURLWithPath(arguments[0]), keys, 0, null);
  let count = 0;
  while (!entries.nextObject.isNil()) count += 1;
  return count;
}
JAVASCRIPT
# shellcheck disable=SC2016  # the inner shell puts in the volume and the script
listing() { # NAME: what is printed is counted, no name is kept
  case $1 in
    find*) echo 'find -x "$1" 2>/dev/null | wc -l' ;;
    ls) echo 'ls -lR "$1" 2>/dev/null | wc -l' ;;
    bulk) echo 'osascript -l JavaScript "$2" "$1"' ;;
  esac
}
recorded_walk() { # NAME
  diskutil unmount "/dev/$device" >/dev/null 2>&1
  fs_usage -w -f diskio >"$work/lines" 2>"$out/walk-$1.fs_usage.err.txt" &
  recorder=$!
  pause
  diskutil mount readOnly "/dev/$device" >/dev/null || return 1
  pause
  { time -p sh -c "$(listing "$1")" kit "$volume" "$work/bulk.js" >"$out/walk-$1.count.txt"; } 2>"$out/walk-$1.time.txt"
  ended=$?
  pause
  # A shell lets what it starts in the background ignore the interrupt; fs_usage ends tidily on this signal, too.
  kill -TERM "$recorder" 2>/dev/null
  wait "$recorder" 2>/dev/null
  recorder=
  # Paths stand between the device and the time that a read took; devices, times and processes stay.
  sed -E 's#(/dev/[^ ]+) .*[^ ]( +[0-9]+\.[0-9]{6}( W)? .*)$#\1  -\2#' "$work/lines" >"$out/walk-$1.fs_usage.txt"
  rm -f "$work/lines"
  return "$ended"
}

# --- the metadata, without names, where layoutscope is installed ------------------------------------------------------------
capture() { layoutscope scan "$raw" --save "$out/metadata.lscope" --no-names >/dev/null; }

say "1 of 4: the system and the disk"
step facts facts
say "2 of 4: calibration, one minute"
step unmount unmount_all || fail "$physical is in use; close what uses it, and start again"
if perl -MTime::HiRes -e 1 >/dev/null 2>&1; then # some have perl without its library
  step calibration calibrate || say "the calibration stopped at an error; the rest goes on"
else
  step rates rates_by_dd
fi
for name in find find-2 ls bulk; do # the same one twice: how much two walks differ
  say "3 of 4: listing with $name"
  step "walk-$name" recorded_walk "$name" || say "the listing with $name failed; the rest goes on"
done
diskutil unmount "/dev/$device" >/dev/null 2>&1
say "4 of 4: the metadata without names"
if command -v layoutscope >/dev/null 2>&1; then
  step metadata capture || say "the metadata could not be read whole"
else
  note metadata - 0 "layoutscope is not installed"
  say "layoutscope is not installed, so the metadata is left out; with it the listings can be scored read by read"
fi

{
  echo "kit = 1"
  echo "version = @VERSION@"
  echo "device = $device"
  echo "container = $container"
  echo "physical = $physical"
  printf 'disks = %s\nfilled = %s\n' "$disks" "$filled"
  echo "started = $started"
  echo "ended = $(date -u +%Y-%m-%dT%H:%M:%SZ)"
} >"$out/kit.txt"
archive=$here/layoutscope-kit-$(date -u +%Y%m%d-%H%M%S).tar.gz
tar -czf "$work/kit.tar.gz" -C "$work" kit || fail "the archive could not be written"
# Whoever may write into this folder could have laid a link there: nothing is written through one, nor over a file.
(set -C; cat "$work/kit.tar.gz" >"$archive") || fail "$archive: exists, or could not be written"
if [ -n "${SUDO_USER:-}" ]; then chown -h "$SUDO_USER" "$archive"; fi
say "done: $archive"
