#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Files that a plugin's call makes: where the call takes long, each open fails after a second, and a later
# one has what that call made.
. "$srcdir/tests/lib.sh"
export PJRTFS_FAULTY_CALLS=yes
mount_pjrtfs faulty --no-cache --fault serialize=works
at=$mnt/plugins/faulty
put_add

# timed_out FILE: it fails after the second that these files give the plugin
timed_out()
{
	fails_with 'Connection timed out' cat "$1"
	tells "$mnt/error" 'no answer within 1 s; the plugin goes on: try again$'
}

while read -r call file; do
	size=$(bounded cat "$file" | wc -c)
	[ "$size" -gt 0 ] || fail "$file is empty"
	faults "PJRT_$call=held" serialize=works
	timed_out "$file"
	shows "$mnt/health" ok
	run add 'x y -> z'
	timed_out "$file" # it waits for the same call
	# The call goes on and succeeds; another one would fail.
	faults "PJRT_$call=error:INTERNAL:it is called again" serialize=works
	equal "$call: the size of $file" "$(bounded cat "$file" | wc -c)" "$size"
	# Each later open calls the plugin, as always.
	fails_with 'Input/output error' cat "$file"
	tells "$mnt/error" 'it is called again$'
	faults serialize=works
	equal "the size of $file" "$(bounded cat "$file" | wc -c)" "$size"
done <<END
Executable_Serialize $mnt/executables/add/serialized
TopologyDescription_Serialize $at/topology.pb
Client_TopologyDescription $at/topology.json
END

# -- the optimized program, of which the file has a part, too
size=$(bounded cat "$mnt/executables/add/serialized" | wc -c)
faults PJRT_Executable_OptimizedProgram=held serialize=works
timed_out "$mnt/executables/add/serialized"
faults serialize=works
equal "the size of serialized" "$(bounded cat "$mnt/executables/add/serialized" | wc -c)" "$size"
shows "$at/restarts" 0

# -- the program goes, and the mount ends, while such a call is under way
faults PJRT_Executable_Serialize=held
timed_out "$mnt/executables/add/serialized"
bounded rm "$mnt/programs/add.mlir"
faults PJRT_TopologyDescription_Serialize=held
timed_out "$at/topology.pb"
