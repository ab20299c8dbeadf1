#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fifty processes at once, each with its language's usual calls: shell, C, Perl, Python and awk.
# Each process checks its results; none is wrong, none is lost.
# shellcheck disable=SC2016 # the other languages' words
. "$srcdir/tests/lib.sh"
mount_pjrtfs
name=${plugin:-cpu}
each=10 times=30
if sanitized; then
	times=6
fi
echo 'func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
%0 = stablehlo.add %x, %y : tensor<3xf32>
return %0 : tensor<3xf32> }' >add.mlir
bounded cp add.mlir "$mnt/programs/"
echo 1 1 1 >ones.txt
bounded cp ones.txt "$mnt/buffers/"

# -- shell: files and a line at run.  Text is read as it is meant: [3], not [1,3].
cat >sh.sh <<'END'
set -e
b=$1/buffers/$2 i=0
mkdir "$b"
while [ $i -lt "$3" ]; do
	echo $i $((i * 2)) $((i * 3)) >"$b/x.txt"
	echo "$2/x ones -> $2/z" >"$1/executables/add/run"
	z=$(cat "$b/z.txt")
	[ "$z" = "$((i + 1)) $((i * 2 + 1)) $((i * 3 + 1))" ] || { echo "$2: $z at $i"; exit 1; }
	i=$((i + 1))
done
END

# -- C: one descriptor of control, results by mmap
cat >c.c <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char text[4096], path[4096];
	int control, n = argc > 3 ? atoi(argv[3]) : 0;

	snprintf(path, sizeof(path), "%s/control", argv[1]);
	control = open(path, O_RDWR);
	for (int i = 0; i < n; i++) {
		const float *z;
		int len, fd;

		len = snprintf(text, sizeof(text),
			       "{\"op\":\"create\",\"buffer\":\"%s\",\"dtype\":\"F32\",\"shape\":[3],"
			       "\"fill\":%d}\n"
			       "{\"op\":\"execute\",\"executable\":\"add\",\"id\":%d,"
			       "\"inputs\":[\"%s\",\"ones\"],\"outputs\":[\"%s\"]}\n",
			       argv[2], i, i, argv[2], argv[2]);
		if (write(control, text, (size_t)len) != len)
			return perror("control"), 1;
		for (int k = 0; k < 2; k++) {
			ssize_t got = read(control, text, sizeof(text) - 1);

			text[got < 0 ? 0 : got] = '\0';
			for (char *at = text; (at = strchr(at, '\n')) && at[1]; at++)
				k++;
			if (!strstr(text, "\"ok\":true") || strstr(text, "\"ok\":false"))
				return printf("%s: %s\n", argv[2], text), 1;
		}
		snprintf(path, sizeof(path), "%s/buffers/%s.raw", argv[1], argv[2]);
		fd = open(path, O_RDONLY);
		z = mmap(NULL, 12, PROT_READ, MAP_SHARED, fd, 0);
		if (z == MAP_FAILED)
			return perror(path), 1;
		if (z[0] != (float)(i + 1) || z[2] != (float)(i + 1))
			return printf("%s: %g at %d\n", argv[2], (double)z[0], i), 1;
		munmap((void *)z, 12);
		close(fd);
		snprintf(path, sizeof(path), "%s/buffers/%s.npy", argv[1], argv[2]);
		if (unlink(path))
			return perror(path), 1;
	}
	return 0;
}
END
requires cc --version
cc -Wall -Wextra -Werror -o c c.c

# -- Perl: calls, which make no files in buffers/
cat >perl.pl <<'END'
use strict;
use warnings;
my ($mnt, $name, $times) = @ARGV;
sub npy {
	my $head = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
	$head .= " " x (-(length($head) + 11) % 64) . "\n";
	return pack("a6 C2 v a* f<*", "\x93NUMPY", 1, 0, length($head), $head, @_);
}
open(my $call, "+<:raw", "$mnt/executables/add/call") or die "$name: $!\n";
for my $i (0 .. $times - 1) {
	my @x = map { $i * $_ } 1 .. 3;
	syswrite($call, npy(@x) . npy(7, 8, 9)) or die "$name: $!\n";
	sysread($call, my $z, 65536) or die "$name: $!\n";
	my $got = join(" ", unpack("x8 v/x f<3", $z));
	my $want = join(" ", $i + 7, 2 * $i + 8, 3 * $i + 9);
	$got eq $want or die "$name: $got instead of $want\n";
}
END

# -- Python: batches of JSON, arrays as bytes
cat >python.py <<'END'
import json, os, struct, sys
mnt, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.mkdir(f"{mnt}/buffers/{name}")
with open(f"{mnt}/control", "r+b", buffering=0) as control:
    for i in range(times):
        control.write(json.dumps({"op": "batch", "id": f"{name} {i}", "steps": [
            {"op": "create", "buffer": f"{name}/x", "dtype": "F32", "shape": [3], "fill": i},
            {"op": "execute", "executable": "add", "repeat": 5,
             "inputs": [f"{name}/x", "ones"], "outputs": [f"{name}/x"]},
            {"op": "copy", "buffer": f"{name}/x", "as": f"{name}/z{i}"},
            {"op": "delete", "buffer": f"{name}/x"}]}).encode() + b"\n")
        reply = json.loads(control.read(65536))
        assert reply["ok"] and reply["id"] == f"{name} {i}", reply
for i in range(times):
    with open(f"{mnt}/buffers/{name}/z{i}.raw", "rb") as f:
        z = struct.unpack("<3f", f.read())
    assert z == (i + 5, i + 5, i + 5), (name, i, z)
END

# -- awk: print to a file, close, getline
cat >awk.awk <<'END'
BEGIN {
	x = mnt "/buffers/" name ".txt"
	run = mnt "/executables/add/run"
	z = mnt "/buffers/" name "-z.txt"
	for (i = 0; i < times; i++) {
		print i, i, i >x
		if (close(x)) exit 1
		print name " ones -> " name "-z" >run
		if (close(run)) exit 1
		if ((getline line <z) != 1) exit 1
		close(z)
		if (line != (i + 1) " " (i + 1) " " (i + 1)) {
			print name ": " line " at " i
			exit 1
		}
	}
}
END

pids=()
for k in $(seq $each); do
	bounded sh sh.sh "$mnt" "sh$k" $times &
	pids+=($!)
	bounded ./c "$mnt" "c$k" $times &
	pids+=($!)
	bounded perl perl.pl "$mnt" "perl$k" $times &
	pids+=($!)
	bounded python3 python.py "$mnt" "python$k" $times &
	pids+=($!)
	bounded awk -v mnt="$mnt" -v name="awk$k" -v times=$times -f awk.awk &
	pids+=($!)
done
equal "processes" ${#pids[@]} 50
failed=0
for pid in "${pids[@]}"; do
	wait "$pid" || failed=$((failed + 1))
done
equal "processes that failed" $failed 0

# -- the files that each process leaves are there, and no others
equal "what Python left" "$(bounded ls "$mnt/buffers/python$each" | wc -l)" $times
equal "what C left" "$(bounded ls "$mnt/buffers" | grep -c '^c[0-9]' || :)" 0
equal "what awk left" "$(bounded ls "$mnt/buffers" | grep -c '^awk')" $((each * 2))
shows "$mnt/buffers/sh$each/z.txt" "$times $((times * 2 - 1)) $((times * 3 - 2))"
shows "$mnt/health" ok
shows "$mnt/plugins/$name/restarts" 0
