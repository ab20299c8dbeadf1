#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Call a program that takes two F32[2,3] and gives one:
# perl call.pl /mnt/pjrt/executables/add/call.raw
use strict;
use warnings;

open(my $call, "+<:raw", $ARGV[0]) or die "$ARGV[0]: $!\n";
syswrite($call, pack("f<*", 1 .. 6, 10, 20, 30, 40, 50, 60));
unless (sysread($call, my $z, 24)) {
	sysread($call, my $why, 65536); # after a failed read the next one tells why
	die $why;
}
else {
	print join(" ", unpack("f<*", $z)), "\n";
}
