#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# --isolate=user: the holder has the memory of many users, so all files outlive the daemon.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
requires setpriv --version
users=150 # one descriptor each
chmod 755 "$work"
cp "$data/x.npy" .
chmod 644 x.npy
mount_pjrtfs --keep --isolate user --mode 1777 -o allow_other
b=$mnt/buffers

timeout -k 5 $((patience * 6)) bash -eu -c 'for ((user = 2001; user <= 2000 + $2; user++)); do
		setpriv --reuid $user --regid $user --clear-groups cp x.npy "$1/$user.npy"
	done' - "$b" "$users"
bounded ls -il "$b" >before
equal "files" "$(grep -c '\.npy$' before)" "$users"
for signal in KILL USR2; do
	pid=$(bounded cat "$mnt/pid")
	kill -"$signal" "$pid"
	eventually another "$pid"
	bounded ls -il "$b" >after
	diff before after || fail "files are lost: $(cat "$mnt.log")"
	for user in 2001 $((2000 + users / 2)) $((2000 + users)); do
		same "$b/$user.npy" x.npy
	done
done
shows "$mnt/health" ok
