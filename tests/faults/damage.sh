#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A plugin that overwrites the memory in which its process and pjrtfs exchange messages: pjrtfs ends
# that process and counts it, the calls in progress fail, and everything else goes on.
. "$srcdir/tests/words.sh"
mount_pjrtfs "${plugin:-cpu}" "${faulty_options[@]}" --sandbox faulty:off
at=$mnt/plugins/faulty
far=$mnt/devices/faulty/0/buffers
put_add
cp "$data/x.npy" "$data/y.npy" "$far/"
good '{"op":"compile","program":"add","as":"far","options":{"plugin":"faulty"}}'
run far 'x y -> z'

faults 'execute=hang:here it hangs'
run far 'x y -> never' 2>slow &
slow=$!
eventually grep -q 'here it hangs' "$at/log"
faults execute=damage
fails_with 'Input/output error' run far 'x y -> never'
! wait "$slow" || fail "an execution of the process that was ended succeeded"
grep -q 'Input/output error' slow || fail "the other execution says $(cat slow)"
faults

damaged='it damaged its rings of requests and replies'
restarted 1 faulty # the calls fail before
tells "$at/log" "^FATAL: $damaged\$"
eventually tells "$mnt/metrics.prom" '^pjrtfs_worker_deaths_total\{plugin="faulty"\} 1$' \
	'^pjrtfs_worker_restarts_total\{plugin="faulty"\} 1$'
bounded jq -es "any(.event == \"worker.died\" and .object == \"plugins/faulty\" and (.error.message | contains(\"$damaged\")))" \
	"$mnt/events" >/dev/null || fail "no event says so: $(grep worker "$mnt/events")"
eventually grep -qx ok "$mnt/health"
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
same "$far/x.npy" "$data/x.npy"
run far 'x y -> z'
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
