#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Call a program of a pjrtfs mount that takes two F32[2,3] and gives one:
# perl call.pl /mnt/pjrt/executables/add/call
use strict;
use warnings;

# The bytes of a .npy file of 32-bit floats.
sub npy {
	my ($shape, @numbers) = @_;
	my $head = "{'descr': '<f4', 'fortran_order': False, 'shape': $shape, }";
	$head .= " " x (-(length($head) + 11) % 64) . "\n";
	return pack("a6 C2 v a* f<*", "\x93NUMPY", 1, 0, length($head), $head, @numbers);
}

open(my $call, "+<:raw", $ARGV[0]) or die "$ARGV[0]: $!\n";
syswrite($call, npy("(2, 3)", 1 .. 6));
syswrite($call, npy("(2, 3)", map { 10 * $_ } 1 .. 6));
unless (sysread($call, my $z, 65536)) {
	sysread($call, my $why, 65536);
	die $why;
}
else {
	print join(" ", unpack("x8 v/x f<6", $z)), "\n";
}
