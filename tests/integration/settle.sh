#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command settle: after it each thing that it promises is there at the first look.
# TIER: full
. "$srcdir/tests/words.sh"
rounds=$((4 * times))
state=$work/state
mount_pjrtfs faulty --fault serialize=works
b=$mnt/buffers
log=$mnt/plugins/faulty/log
used()
{
	bounded sed -n 's/^pjrtfs_memory_used_bytes //p' "$mnt/metrics.prom"
}
entries()
{
	bounded ls "$mnt/cache/entries" | wc -l
}
# program N: another one each time
program()
{
	cat "$data/add.mlir"
	echo "// $1"
}

cp "$data/x.npy" "$data/y.npy" "$b/"
program 0 >"$mnt/programs/add.mlir"
settle
head -c 1048576 /dev/zero >zeros
for i in $(seq "$rounds"); do
	# -- what the plugin prints, in both logs
	# (more than a pipe holds)
	faults "execute=print:3000:this is what it prints in the round with the number $i" serialize=works
	run add 'x y -> z'
	settle
	tells "$log" "number $i 3000\$"
	[ "$i" != 1 ] || tells "$mnt.log" "plugin faulty: .* number 1 1\$"

	# -- events and numbers
	tells "$mnt/events" '"execution.finished".*executables/add'
	tells "$mnt/metrics.prom" "^pjrtfs_executions_total.*\"ok\"} $i\$"

	# -- the cache, though the plugin serializes slowly
	# real time: the entry is written that much after the answer
	faults serialize=late:500:works
	n=$(entries)
	program "$i" >"$mnt/programs/p$i.mlir"
	settle
	equal entries "$(entries)" $((n + 1))

	# -- the plugin has freed a program, though slowly
	# real time: it is freed that much after the answer
	faults serialize=works "destroy=late:50:print:1:freed $i"
	rm "$mnt/programs/p$i.mlir"
	settle
	tells "$log" "^freed $i 1\$"

	# -- memory of a file that was removed while it was open
	before=$(used)
	exec 4<>"$b/big.raw"
	cat zeros >&4
	rm "$b/big.raw"
	[ "$(used)" -gt "$before" ]
	exec 4>&-
	settle
	equal memory "$(used)" "$before"
done

# -- wrong keys; as a job and in a batch; many at a time
fails_with 'Invalid argument' say "$mnt/control" '{"op":"settle","x":1}'
equal batch "$(ask '{"op":"batch","steps":[{"op":"settle"},{"op":"settle"}]}')" \
	'{"ok":true,"replies":[{"ok":true},{"ok":true}]}'
for i in $(seq 20); do
	settle &
	jobs[i]=$!
done
for i in "${jobs[@]}"; do
	wait "$i"
done

# -- it does not wait for an execution that goes on
faults execute=held
run add 'x y -> held' &
held=$!
eventually tells "$mnt/metrics.prom" '^pjrtfs_executions_running.*faulty:0"} 1$'
settle
[ ! -e "$b/held.npy" ]
faults serialize=works
wait "$held"

# -- a plugin that is hung is named, and a command may end earlier
halt "$(cat "$mnt/plugins/faulty/pid")"
equal timeout "$(ask '{"op":"settle","timeout_ms":50}' | jq -r .error.message)" \
	'it did not end within 50 ms; what it waits for goes on'
equal hung "$(ask '{"op":"settle"}' | jq -r '.error.errno + ": " + .error.message')" \
	'ETIMEDOUT: settle: plugin faulty does not answer'
kill -CONT "$(cat "$mnt/plugins/faulty/pid")"
eventually settle

# -- the state directory; only some rounds, as each takes a second; no other mount, as
# the wait for it would hide what is missing elsewhere
mount_pjrtfs faulty --state-dir "$state"
for i in 1 2 3; do
	program "state $i" >"$mnt/programs/kept$i.mlir"
	mv "$mnt/programs/kept$i.mlir" "$mnt/programs/moved$i.mlir"
	settle
	same "$state/programs/moved$i.mlir" "$mnt/programs/moved$i.mlir"
	[ ! -e "$state/programs/kept$i.mlir" ]
done
