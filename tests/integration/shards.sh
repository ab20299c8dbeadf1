#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# One array over several devices: split, joined, and as arguments and results of programs.
. "$srcdir/tests/lib.sh"

requires find_numpy
mount_pjrtfs ${others:+-o allow_other}
chmod 755 "$work" # other users take part
timeout -k 5 $((patience * 12)) "$python" -B "$top/tests/tools/shards.py" "$mnt"
shows "$mnt/health" ok
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0

# -- the memory limit: all shards or none
mount_pjrtfs --memory-limit 64M
b=$mnt/buffers
cpu=${plugin:-cpu}
ask '{"op":"create","buffer":"w","dtype":"F32","shape":[5120,2048],"fill":1}' >reply
tells reply '"ok":true'
ask '{"op":"shard","buffer":"w","as":"ws","mesh":{"x":4},"spec":[null,"x"]}' >reply
tells reply '"errno":"ENOSPC"' 'shard: '
equal "what is there" "$(bounded ls "$b" "$mnt/devices/$cpu/1/buffers" | grep -c .)" 3
bounded test -e "$b/w.npy"
ask '{"op":"shard","buffer":"w","as":"ws","mesh":{"x":4},"spec":["x"]}' >reply
tells reply '"ok":true'
ask '{"op":"gather","buffer":"ws","as":"w2"}' >reply
tells reply '"errno":"ENOSPC"' 'gather: '
gone "$b/w2.npy"
ask '{"op":"reshard","buffer":"ws","as":"wt","sharding":"{devices=[1,4]<=[4]}"}' >reply
tells reply '"errno":"ENOSPC"' 'reshard: '
equal "what is there" "$(bounded find "$mnt/devices/$cpu/" -name 'wt*' | wc -l)" 0
gone "$b/wt.sharding.json"
# and a worker's death: the arrays are uploaded again, and read from the host's copies
printf '1 2 3 4\n' | bounded tee "$b/s.txt" >/dev/null
ask '{"op":"shard","buffer":"s","as":"ss","mesh":{"x":2},"spec":["x"]}' >reply
kill_worker "$cpu"
ask '{"op":"gather","buffer":"ss","as":"s2"}' >reply
tells reply '"ok":true'
shows "$b/s2.txt" '1 2 3 4'
shows "$mnt/devices/$cpu/1/buffers/ss.txt" '3 4'
eventually grep -qx ok "$mnt/health"
