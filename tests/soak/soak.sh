#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan tsan
# COST: 100 CPU-s
# LIMIT: 6000 s
# Clients of all kinds and faults in one mount; SOAK_SECONDS says for how long, SOAK_SEED which
# schedule of faults; SOAK_FAULTS which faults, all if not set; SOAK_KINDS which clients.
. "$srcdir/tests/lib.sh"
if sanitized; then seconds=60; else seconds=30; fi
[ "$times" = 1 ] || seconds=3600
seconds=${SOAK_SECONDS:-$seconds}
fault_list=client,kill,stop,memory,force,abort,silent,daemon
own=()
if isolated; then
	export PJRTFS_CACHE_DIR=/mnt # of this namespace
	mount -t tmpfs -o size=4m,mode=700 soak "$PJRTFS_CACHE_DIR"
	own=(-o allow_other --mode 1777)
	fault_list+=,disk
fi
chmod 755 "$work"
faults 'compile=when:@soak_abort:abort:here it ends'
mount_pjrtfs "${faulty_options[@]}" "${own[@]}" --keep --memory-limit 512M \
	--worker-timeout 12
"$patient" $((seconds + patience * 6)) "$build/tests/soak/soak" --mount "$mnt" \
	--seconds "$seconds" --seed "${SOAK_SEED:-1}" --plugin "${plugin:-cpu}" --faulty \
	--cache "${PJRTFS_CACHE_DIR-}" --faults "${SOAK_FAULTS-$fault_list}" \
	${SOAK_KINDS:+--kinds "$SOAK_KINDS"}
eventually grep -qx ready "$mnt/plugins/${plugin:-cpu}/state"
