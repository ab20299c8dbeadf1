#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan tsan
# COST: 5 CPU-s in 17 s
# The queue of compiles: a number of slots, users round robin, a time limit.
. "$srcdir/tests/lib.sh"
at()
{
	jq -r '.queue_position // "none"' "$mnt/executables/$1/info.json"
}
is_at()
{
	[ "$(at "$1")" = "$2" ]
}
compiling()
{
	grep -qx compiling "$mnt/executables/$1/state"
}

# -- one at a time; info.json has the queue position
mount_pjrtfs faulty --compile-jobs 1
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
faults compile=held
writers=()
for n in 1 2 3; do
	put_like_add "p$n" &
	writers+=($!)
	eventually compiling "p$n"
	[ "$n" = 1 ] || eventually is_at "p$n" $((n - 1))
done
equal "the place of what is being compiled" "$(at p1)" none
tells "$mnt/executables/p3/info.json" '"state":"compiling"' '"compiling_seconds":[0-9]'
faults
for pid in "${writers[@]}"; do
	wait "$pid"
done
run p3 'x y -> z'
unmount_pjrtfs

# -- a long compile is an event each 10 seconds, with the seconds so far
mount_pjrtfs faulty
faults compile=held
"$patient" $((patience * 3)) cp "$data/add.mlir" "$mnt/programs/long.mlir" &
writer=$!
goes_on()
{
	jq -r 'select(.event == "program.compiling" and .seconds >= 10) | .object' "$mnt/events" |
		grep -qx executables/long
}
eventually compiling long
patience=$((patience + 10)) eventually goes_on
equal "events when it began" "$(jq -r 'select(.event == "program.compiling" and .seconds == null) | .object' \
	"$mnt/events")" executables/long
faults
wait "$writer"
equal "the last event" "$(jq -r 'select(.object == "executables/long") | .event' "$mnt/events" | tail -n 1)" \
	program.finished
unmount_pjrtfs

# -- equal programs compile once
mount_pjrtfs faulty --compile-jobs 4
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
faults compile=held:one
bounded cp "$data/add.mlir" "$mnt/programs/one.mlir" &
first=$!
eventually compiling one
bounded cp "$data/add.mlir" "$mnt/programs/two.mlir" &
second=$!
eventually compiling two
faults
wait "$first"
wait "$second"
equal "compiles" "$(grep -cx one "$faults.reached")" 1
equal "one" "$(jq -r .cache "$mnt/executables/one/info.json")" miss
equal "two" "$(jq -r .cache "$mnt/executables/two/info.json")" hit
rm "$mnt/programs/one.mlir"
run two 'x y -> z'
unmount_pjrtfs

# -- users are served round robin: many compiles of one user do not delay one of another
if [ -n "$others" ]; then
	mount_pjrtfs faulty --compile-jobs 1 -o allow_other
	chmod 0777 "$mnt/programs"
	chmod 0755 "$work"
	faults compile=held
	writers=()
	for n in 1 2 3 4 5; do
		put_like_add "mine$n" &
		writers+=($!)
		eventually compiling "mine$n"
	done
	like_add theirs
	chmod 0644 theirs.mlir
	as 12345 cp theirs.mlir "$mnt/programs/theirs.mlir" &
	other=$!
	eventually compiling theirs
	eventually is_at theirs 2
	eventually is_at mine2 1
	eventually is_at mine3 3
	eventually is_at mine5 5
	faults 'compile=when:@mine4:held'
	wait "$other"
	compiling mine5 || fail "the other user came last"
	faults
	for pid in "${writers[@]}"; do
		wait "$pid"
	done
	# a command's compile counts for the user of the command, not of the program
	faults compile=held
	writers=()
	for n in 6 7 8; do
		put_like_add "mine$n" &
		writers+=($!)
		eventually compiling "mine$n"
	done
	ask_as 12345 '{"op":"compile","program":"mine1","as":"copy"}' >reply &
	other=$!
	eventually compiling copy
	eventually is_at copy 2
	eventually is_at mine8 3
	faults
	for pid in "$other" "${writers[@]}"; do
		wait "$pid"
	done
	tells reply '"ok":true'
	unmount_pjrtfs
fi

# -- the time limit: the program fails, and other programs compile meanwhile
export PJRTFS_FAULTY_CALLS=yes
mount_pjrtfs faulty --compile-jobs 1 --compile-timeout 5
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
faults compile=when:@endless:held
fails_with 'timed out' put_like_add endless
shows "$mnt/executables/endless/state" failed
tells "$mnt/executables/endless/error" '^compile endless: it did not compile within the 5 s of --compile-timeout'
put_like_add quick
run quick 'x y -> z'
fails_with '' run endless 'x y -> z'
shows "$mnt/plugins/faulty/restarts" 0
faults PJRT_LoadedExecutable_Destroy=held:dropped
reached dropped # a late result
faults
shows "$mnt/executables/endless/state" failed
put_like_add endless
run endless 'x y -> z'
unmount_pjrtfs

# -- a compile that was given up occupies a thread of the worker: their number is limited
mount_pjrtfs faulty --compile-jobs 32 --compile-timeout 2
faults compile=when:@endless:held
writers=()
for n in $(seq 16); do
	put_like_add "endless$n" 2>/dev/null &
	writers+=($!)
done
for pid in "${writers[@]}"; do
	! wait "$pid" || fail "an endless one compiles"
done
fails_with 'busy' put_like_add p
tells "$mnt/executables/p/error" '^compile p: plugin faulty still compiles 16 programs that were given up'
kill_worker faulty
put_like_add p
