#!/bin/sh
# What a listing costs the computer when nothing has to be read: microseconds an entry. About ten seconds.
# Made by layoutscope @VERSION@; docs/drives.md says what it is good for.
#
#   sh warm.sh [FOLDER]
#
# On any Mac with any disk. Needs no sudo, writes nothing, and prints no name.
exec perl -MTime::HiRes=time -e '
my $folder = shift;
sub quickest { my ($what, $best, $until) = (@_, 1e9, time + 3);  # the first time the disk is read, later it is not
  do { my $began = time; $what->(); my $took = time - $began; $best = $took if $took < $best } while (time < $until);
  return $best }
open(my $found, "-|", "find", $folder, "-xdev", "-print0") or die "warm: find: $!\n";
$/ = "\0"; chomp(my @names = <$found>); $/ = "\n";
die "warm: $folder has fewer than 1,000 entries; name a larger folder\n" if @names < 1000;
printf "warm = 1\nsystem = %s\nentries = %d\n", join(" ", (split " ", `uname -srm`)), scalar @names;
my $list = quickest(sub { open(my $out, "-|", "find", $folder, "-xdev") or die; 1 while <$out> });
my $loop = quickest(sub { for (@names) { length $_ } });
my $stat = quickest(sub { for (@names) { lstat $_ } }) - $loop;
printf "list_us = %.2f\nlstat_us = %.2f\n", $list / @names * 1e6, $stat / @names * 1e6;
' "${1:-/usr}"
