#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The thread that answers a client's calls runs on that client's processor, and on all of them when
# another client comes.
. "$srcdir/tests/lib.sh"
requires taskset --version
mapfile -t cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' |
	while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done)
requires test "${#cpus[@]}" -ge 2
mount_pjrtfs
bounded cp "$data/add.mlir" "$mnt/programs/"
cat "$data/x.npy" "$data/y.npy" >inputs
# pinned: the processors of the daemon's threads that may not use all
pinned()
{
	grep -h '^Cpus_allowed_list:' "/proc/$daemon/task"/*/status | cut -f 2 | sort | uniq |
		grep -Fxv "$(sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$daemon/status")" || :
}
# calls CPU: a client there that makes 200 calls
calls()
{
	bounded taskset -c "$1" python3 -c '
import os, sys
f = os.open(sys.argv[1], os.O_RDWR)
data = open("inputs", "rb").read()
for i in range(200):
    assert os.pwrite(f, data, 0) == len(data) and os.pread(f, 4096, 0)
' "$mnt/executables/add/call"
}
equal "pinned before" "$(pinned)" ''
for cpu in "${cpus[0]}" "${cpus[1]}" "${cpus[0]}"; do
	calls "$cpu"
	equal "pinned by a client of processor $cpu" "$(pinned)" "$cpu"
done

# -- another client: anywhere again; threads that the pinned one starts are not pinned
bounded cat "$mnt/health" >/dev/null
equal "pinned after another client" "$(pinned)" ''
calls "${cpus[1]}"
taskset -c "${cpus[0]}" bash -c '
	exec 3<>"$1/control"
	for ((i = 0; i < 200; i++)); do
		echo "{\"op\":\"stat\",\"buffer\":\"none\"}" >&3
		read -r -u 3 line
	done
	echo "{\"op\":\"compile\",\"program\":\"add\",\"as\":\"other\",\"options\":{\"device_ordinal\":1}}" >&3
	read -r -u 3 line
	echo "$line"' - "$mnt" >reply
bounded cat "$mnt/health" >/dev/null
equal "pinned after a compile ($(cat reply))" "$(pinned)" ''

# -- one that only reads is not followed
taskset -c "${cpus[0]}" python3 -c '
import os, sys
for i in range(200):
    os.stat(sys.argv[1])
' "$mnt/version"
equal "pinned by a client that only reads" "$(pinned)" ''

# -- a client beyond the processors of the daemon is not followed
taskset -cap "${cpus[0]}" "$daemon" >/dev/null
calls "${cpus[1]}"
equal "pinned outside of the affinity" "$(pinned)" ''

# -- one that executes another program while the kernel reads pages ahead for it: its stat file waits for
# the answer to the close, the close for that of the pages
bounded dd if=/dev/zero of="$mnt/buffers/pages" bs=1M count=8 status=none
status=0
bounded python3 "$top/tests/tools/exec_ahead.py" "$mnt/buffers/pages" "$daemon" || status=$?
if [ "$status" != 0 ]; then
	kill -KILL "$daemon" # which does not end with its mount
	fail "a process that executes another program stops the daemon"
fi
