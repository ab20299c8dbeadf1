#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 1 CPU-s in 18 s
# --transfer-timeout ends a copy to or from a device that does not end, with the plugin's process: its caller gets
# EIO and a sentence, other arrays stay, and it can be done again.  Before, health names it.
. "$srcdir/tests/lib.sh"
chmod 0755 "$work" # another user reads health, too
# begin SECONDS: mount with that --transfer-timeout, two arrays, and one that only the device has
begin()
{
	faults memory=own
	mount_pjrtfs faulty ${others:+-o allow_other} --transfer-timeout "$1"
	b=$mnt/buffers
	put_add
	create own
}
# create NAME: an array that only the device has
create()
{
	ask '{"op":"create","buffer":"'"$1"'","dtype":"F32","shape":[2,3],"uninitialized":true}' >reply
	tells reply '"ok":true'
}
# held FAULT COMMAND...: it waits for a call that the fault holds at the word that is the fault's end
held()
{
	faults memory=own "$1"
	bounded "${@:2}" &
	client=$!
	reached "${1##*:}"
	same "$b/x.npy" "$data/x.npy"
}
# named LINE: health tells that, and no more once the transfer has ended, which it does well
named()
{
	eventually grep -Eqx "$1" "$mnt/health"
	[ -z "$others" ] || as 12345 cat "$mnt/health" >told
	[ -z "$others" ] || tells told '^buffer -: its transfer'
	faults memory=own
	wait "$client" || fail "a slow transfer fails"
	eventually grep -qx ok "$mnt/health"
}
# ended SENTENCE FAULT COMMAND...: it fails with EIO and that
ended()
{
	faults memory=own "$2"
	fails_with 'Input/output error' "${@:3}"
	reached "${2##*:}"
	tells "$mnt/error" "$1"
	faults memory=own
}
bytes="plugin faulty did not copy the array's 24 bytes"
limit='within 1 s \(--transfer-timeout\), and its process was ended'
put_slow()
{
	(umask 077 && cp "$data/x.npy" "$b/slow.npy")
}

# -- slow: health names it, and it may go on
begin 60
after='after 60 s \(--transfer-timeout\) the process of plugin faulty ends'
held upload=held:up put_slow
named "buffers/slow.npy: its transfer to faulty:0 has taken [0-9]+ s; $after"
same "$b/slow.npy" "$data/x.npy"
bounded chmod 600 "$b/own.npy"
held download=held:down cat "$b/own.npy" >/dev/null
named "buffers/own.npy: its transfer from faulty:0 has taken [0-9]+ s; $after"
shows "$mnt/plugins/faulty/restarts" 0
unmount_pjrtfs

# -- too slow: of an upload everything is there, and sent by the next use
begin 1
ended "^close buffers/slow.npy: while uploading: $bytes to faulty:0 $limit; it is sent again when it is used" upload=held:up2 put_slow
restarted 1 faulty
eventually tells "$mnt/plugins/faulty/log" 'a transfer took longer than the time of --transfer-timeout'
same "$b/slow.npy" "$data/x.npy"
same "$b/y.npy" "$data/y.npy"
run add 'slow y -> z'
# what only the device had is lost with the process
create own2
ended "^open buffers/own2.npy: $bytes from faulty:0 $limit; if only the device had it, make it again" \
	download=held:down2 cat "$b/own2.npy"
restarted 2 faulty
run add 'slow y -> z'
