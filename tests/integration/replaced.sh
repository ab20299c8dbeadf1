#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 12 CPU-s
# SIGUSR2, as for a new version of the program: clients that read, write, rename, map, list, call and
# command notice nothing, except that jobs that run have failed.
. "$srcdir/tests/words.sh"
# Before Linux 6.9 the kernel answers what the old daemon has read: kept.sh.
requires sort -CV <<<$'6.9\n'"$(uname -r)"
replacements=${PJRTFS_KILLS:-20}
mount_pjrtfs --keep
put_add
"$patient" $((patience * 6 + replacements * 2)) \
	python3 -B "$top/tests/tools/survive_clients.py" "$mnt" "$replacements" USR2
computes
shows "$mnt/health" ok

# A client that never ends its conversation does not prevent it; that client gets EIO once.
exec 5<>"$mnt/control"
echo '{"op":"stat","buffer":"x"}' >&5
next_daemon USR2
fails_with 'Input/output error' cat <&5
same "$mnt/buffers/x.npy" "$data/x.npy"
exec 5>&-
