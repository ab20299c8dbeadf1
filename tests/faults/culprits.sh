#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan tsan
# COST: 1 CPU-s in 30 s
# An execution ends the worker while no other runs: its user cannot run that program again at once,
# other users can.
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
mount_pjrtfs faulty -o allow_other --allow-native --fault serialize=works
at=$mnt/plugins/faulty
chmod 755 "$work"
run_as() # UID PROGRAM
{
	as "$1" bash -c 'echo "x y -> all/of$2" >"$1"' - "$mnt/executables/$2/run" "$1"
}
compile_as() # UID NAME [AS]
{
	like_add "$2"
	"$patient" "$((patience + 30))" setpriv --reuid "$1" --regid "$1" --clear-groups \
		cp "$2.mlir" "$mnt/programs/all/${3-$2}.mlir"
}
bounded mkdir -m 1777 "$mnt/buffers/all"
put_add
put_like_add other

faults execute=abort:'Check failed: 1 == 2'
fails_with 'Input/output error' run_as 1001 add
faults
eventually grep -qx ready "$at/state"
shows "$at/restarts" 1

# -- refused, though it would work now; the worker gets no request
fails_with 'Input/output error' run_as 1001 add
as 1001 cat "$mnt/executables/add/run" >reply
tells reply '^error: EIO: add: while running: the worker of plugin faulty died of signal 6 \(Aborted\); it printed last: Check failed: 1 == 2 \(the same is refused for another [0-9]+ s\)$'
shows "$at/restarts" 1
# -- that user can run another program, and other users can run that program
run_as 1001 other
run_as 1002 add
# -- once the mount's owner has run it, that user may again
run add 'x y -> all/mine'
run_as 1001 add

# -- a worker that was ended on purpose has no culprit
faults 'execute=hang:here it hangs'
ask_as 1001 \
	'{"op":"execute","executable":"other","inputs":["x","y"],"outputs":["all/h"],"async":true}' >reply
job=$(jq -e .job reply)
eventually grep -q 'here it hangs' "$at/log"
ask "{\"op\":\"cancel\",\"job\":$job,\"force\":true}" >reply
tells reply '"restarted":"faulty"'
faults
eventually grep -qx 2 "$at/restarts"
run_as 1001 other

# -- a compiled program that a user loads, and that ends the worker, is refused like another one
faults serialize=works
bounded cp "$mnt/executables/other/serialized" native.pjrtexe
bounded mkdir -m 1777 "$mnt/programs/all"
faults serialize=works load=abort:'LLVM ERROR: native'
native_as() # UID NAME
{
	as "$1" cp native.pjrtexe "$mnt/programs/all/$2.pjrtexe"
}
fails_with 'Input/output error' native_as 1001 one
eventually grep -qx 3 "$at/restarts"
faults serialize=works
fails_with 'Input/output error' native_as 1001 two
tells "$mnt/executables/all/two/error" 'while loading: .*LLVM ERROR: native \(the same is refused for another [0-9]+ s\)$'
native_as 1002 three

# -- and so is a program that ends the worker when it is compiled
faults compile=abort:'it overflows'
fails_with 'Input/output error' compile_as 1001 poor
eventually grep -qx 4 "$at/restarts"
faults
fails_with 'Input/output error' compile_as 1001 poor too
tells "$mnt/executables/all/too/error" 'it overflows \(the same is refused for another [0-9]+ s\)$'
shows "$at/restarts" 4
compile_as 1002 poor others

# -- a user with many culprits waits before compiles; a program of that user that was ready is
#    loaded again for others at once, and for that user
faults
for name in shared 1 2 3 4 5 6 7 8; do
	compile_as 1001 "$name"
done
faults execute=abort:ended
began=$SECONDS
for name in 1 2 3 4 5 6 7 8; do
	last=$(date +%s)
	fails_with 'Input/output error' run_as 1001 "all/$name"
done
took=$((SECONDS - began))
faults compile=when:@waits:held:waits
compile_as 1001 waits &
waits=$!
eventually grep -qx compiling "$mnt/executables/all/waits/state"
run_as 1002 all/shared
kill_worker faulty
run_as 1002 all/shared
kill_worker faulty
run_as 1001 all/shared
shows "$mnt/executables/all/waits/state" compiling
# Five deaths within a minute make it wait for a second, each later one for twice as long, up to 30 s.
patience=$((patience + 30)) reached waits
[ "$took" -ge 60 ] || [ "$(stat -c %Y "$faults.reached")" -ge $((last + 7)) ] || fail "it did not wait"
faults
wait "$waits" || fail "waits: $(cat "$mnt/executables/all/waits/error")"

# -- if a program ends the worker when it is loaded again, the user who runs it is the culprit
compile_as 1001 shared twin
kill_worker faulty
faults compile=when:@shared:abort:'shared no more'
fails_with 'Input/output error' run_as 1002 all/shared
shows "$mnt/executables/all/shared/state" failed
tells "$mnt/executables/all/shared/error" 'shared no more$'
faults
eventually grep -qx ready "$at/state"
# that user may not load it, and it stays ready for others
fails_with 'Input/output error' run_as 1002 all/twin
shows "$mnt/executables/all/twin/state" ready
fails_with 'Input/output error' compile_as 1002 shared mine
tells "$mnt/executables/all/mine/error" 'shared no more \(the same is refused for another [0-9]+ s\)$'
run_as 1001 all/twin
