#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Execute a program with two arrays that are uploaded, and print the reply:
# perl control.pl /mnt/pjrt
use strict;
use warnings;
use IO::Handle;

chdir($ARGV[0]) or die "$ARGV[0]: $!\n";
my %arrays = (x => "1 2 3\n4 5 6\n", y => "10 20 30\n40 50 60\n");
for my $name (keys %arrays) {
	open(my $file, ">", "buffers/$name.txt") or die "$name: $!\n";
	print $file $arrays{$name};
	close($file) or die "$name: $!\n";
}
open(my $control, "+<", "control") or die "control: $!\n";
$control->autoflush(1);
print $control '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"]}', "\n";
print scalar <$control>;
