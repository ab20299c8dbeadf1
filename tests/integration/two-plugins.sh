#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several plugins in one mount: each with its worker and devices; one's death is not the other's.
. "$srcdir/tests/lib.sh"
requires test -e "$plugins/cpu/pjrt_plugin.so"
requires test -e "$plugins/cpu-0.115/pjrt_plugin.so"
first=${plugin:-cpu}
second=cpu-0.115
[ "$first" != "$second" ] || second=cpu
mount_pjrtfs "$first,$second"

equal "plugins" "$(bounded ls "$mnt/plugins" | tr '\n' ' ')" "$(
	printf '%s\n' "$first" "$second" | LC_ALL=C sort | tr '\n' ' ')"
equal "devices" "$(bounded ls "$mnt/devices" | tr '\n' ' ')" "$(
	printf '%s\n' "$first" "$second" | LC_ALL=C sort | tr '\n' ' ')"
tells "$mnt/README" " $first:0 " " $second:0 "
pid1=$(bounded cat "$mnt/plugins/$first/pid")
pid2=$(bounded cat "$mnt/plugins/$second/pid")
[ "$pid1" != "$pid2" ] || fail "one worker for two plugins"
for p in "$first" "$second"; do
	shows "$mnt/plugins/$p/path" "$(realpath "$plugins/$p/pjrt_plugin.so")"
done

# One whose file is not there, or that nobody has, keeps the others from nothing.
mount_pjrtfs "none,$first" --plugin "wrong=$work/no/such.so"
shows "$mnt/plugins/none/state" failed
tells "$mnt/plugins/none/error" '^not found: looked for none/pjrt_plugin.so and none.so in '
shows "$mnt/plugins/wrong/state" failed
shows "$mnt/plugins/wrong/path" "$work/no/such.so"
tells "$mnt/plugins/wrong/error" "^$work/no/such.so: No such file or directory$"
tells "$mnt.log" 'error: plugin none: not found' "error: plugin wrong: $work/no/such.so: No such file"
shows "$mnt/plugins/$first/state" ready
shows "$mnt/health" 'plugin none is failed'
equal "the default" "$(bounded realpath "$mnt/devices/$first/0/buffers")" "$mnt/buffers"
unmount_pjrtfs
mnt=$work/mnt0

# The first one's first device is the default.
equal "the default" "$(bounded realpath "$mnt/devices/$first/0/buffers")" "$mnt/buffers"
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run add 'x y -> z'
tells "$mnt/buffers/z.json" "\"device\":\"$first:0\""

# Buffers of the second, and between the two.
b2=$mnt/devices/$second/0/buffers
cp "$data/x.npy" "$b2/"
tells "$b2/x.json" "\"device\":\"$second:0\""
bounded cp "$mnt/buffers/z.npy" "$b2/z.npy"
same "$b2/z.npy" "$mnt/buffers/z.npy"
fails_with 'Invalid argument' run add "x $second:0/x -> w"
tells "$mnt/executables/add/run" "$second"

# One dies: the other goes on.
kill -KILL "$pid2"
run add 'x y -> w'
eventually grep -qx ready "$mnt/plugins/$second/state"
eventually grep -qx 1 "$mnt/plugins/$second/restarts"
shows "$mnt/plugins/$first/restarts" 0
shows "$mnt/plugins/$first/pid" "$pid1"
same "$b2/x.npy" "$data/x.npy"
same "$b2/z.npy" "$mnt/buffers/z.npy"
eventually grep -qx ok "$mnt/health"
