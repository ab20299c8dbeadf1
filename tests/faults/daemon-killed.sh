#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 15 CPU-s
# The daemon is killed while clients of all kinds work: no closed file is lost, no byte is wrong,
# no client hangs; and what becomes of arrays without a host copy.  By hand: PJRTFS_KILLS=200.
. "$srcdir/tests/words.sh"
mount_pjrtfs --keep
put_add
kills=${PJRTFS_KILLS:-20}
"$patient" $((patience * 6 + kills * 2)) \
	python3 -B "$top/tests/tools/survive_clients.py" "$mnt" "$kills" KILL
eventually grep -qx ready "$mnt/executables/add/state"
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
shows "$mnt/health" ok
unmount_pjrtfs

# Arrays that are only in a device's own memory: an upgrade fetches them first; they are lost with
# the daemon and its workers, and say so.
mount_pjrtfs faulty --keep
own='{"op":"create","buffer":"own","dtype":"F32","shape":[64,64],"uninitialized":true}'
faults pointer=error:UNIMPLEMENTED
good "$own"
tells "$mnt/buffers/own.json" '"host_copy":false'
pid=$(bounded cat "$mnt/pid")
kill -USR2 "$pid"
eventually another "$pid"
tells "$mnt/buffers/own.json" '"host_copy":true' '"state":"ready"'
equal "its bytes" "$(bounded cat "$mnt/buffers/own.raw" | wc -c)" 16384
if grep -q 'stay on their devices' "$mnt.log"; then fail "some were not fetched"; fi

bounded rm "$mnt/buffers/own.npy"
good "$own"
tells "$mnt/buffers/own.json" '"host_copy":false'
pid=$(bounded cat "$mnt/pid")
worker=$(bounded cat "$mnt/plugins/faulty/pid")
kill -KILL "$pid" "$worker"
eventually another "$pid"
tells "$mnt/buffers/own.json" '"state":"lost"'
fails_with 'Input/output error' cat "$mnt/buffers/own.raw"
tells "$mnt/error" 'its only copy was lost when the worker of plugin faulty died'
