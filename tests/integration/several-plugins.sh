#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Three plugins in one mount: programs choose one, arrays move between them with one copy at
# most, and errors name the plugin of each array and program.
. "$srcdir/tests/words.sh"
for p in cpu cpu-0.81 cpu-0.106; do
	requires test -e "$plugins/$p/pjrt_plugin.so"
done
first=${plugin:-cpu}
second=cpu-0.81 third=cpu-0.106
case $first in
"$second") second=cpu ;;
"$third") third=cpu ;;
esac
mount_pjrtfs "$first,$second,$third"
b1=$mnt/buffers
b2=$mnt/devices/$second/0/buffers
b3=$mnt/devices/$third/0/buffers

# -- each has a worker and devices; the first one's first device is the default
for dir in plugins devices; do
	equal "$dir" "$(bounded ls -I available.json "$mnt/$dir" | tr '\n' ' ')" "$(
		printf '%s\n' "$first" "$second" "$third" | LC_ALL=C sort | tr '\n' ' ')"
done
tells "$mnt/README" " $first:0 " " $second:0 "
for p in "$first" "$second" "$third"; do
	shows "$mnt/plugins/$p/path" "$(realpath "$plugins/$p/pjrt_plugin.so")"
	cat "$mnt/plugins/$p/pid"
done | sort -u >pids
equal "workers" "$(wc -l <pids)" 3
equal "the default" "$(bounded realpath "$mnt/devices/$first/0/buffers")" "$b1"

# -- a program chooses its plugin: by options.json, by the compile command, by a device's name
bounded cp "$data/add.mlir" "$mnt/programs/"
: >"$mnt/programs/add2.mlir"
say "$mnt/executables/add2/options.json" "{\"plugin\":\"$second\"}"
bounded cp "$data/add.mlir" "$mnt/programs/add2.mlir"
good "{\"op\":\"compile\",\"program\":\"add\",\"as\":\"add3\",\"options\":{\"plugin\":\"$third\"}}"
good "{\"op\":\"compile\",\"program\":\"add\",\"as\":\"at1\",\"options\":{\"device\":\"$third:1\"}}"
knows "$mnt/executables/add/info.json" ".plugin == \"$first\""
knows "$mnt/executables/add2/info.json" ".plugin == \"$second\""
knows "$mnt/executables/add3/info.json" ".plugin == \"$third\""
knows "$mnt/executables/at1/info.json" ".plugin == \"$third\" and .devices == [1]"
bad '{"op":"compile","program":"add","as":"no","options":{"plugin":"nobody"}}' \
	'there is no plugin nobody in this mount'
gone "$mnt/executables/no"

# -- each looks for its arrays on its own device; move brings them
bounded cp "$data/x.npy" "$data/y.npy" "$b1/"
run add 'x y -> z'
bad "{\"op\":\"execute\",\"executable\":\"add2\",\"inputs\":[\"$first:0/x\",\"$first:0/y\"],\"outputs\":[\"z\"]}" \
	"add2: input 0 \(.*\): $first:0/x is on device $first:0, the program runs on $second:[0-9]+: .*move"
bad '{"op":"execute","executable":"add2","inputs":["x","y"],"outputs":["z"]}' \
	"add2: input 0: .*x"
good "{\"op\":\"execute\",\"executable\":\"add2\",\"inputs\":[\"$first:0/x\",\"$first:0/y\"],\"outputs\":[\"z\"],\"move\":true}"
knows "$b2/z.json" ".device == \"$second:0\""
same "$b2/z.npy" "$b1/z.npy"
good "{\"op\":\"execute\",\"executable\":\"at1\",\"inputs\":[\"$first:0/x\",\"$second:0/z\"],\"outputs\":[\"w\"],\"move\":true}"
knows "$mnt/devices/$third/1/buffers/w.json" ".device == \"$third:1\""
bad "{\"op\":\"execute\",\"executable\":\"add2\",\"inputs\":[\"z\",\"z\"],\"outputs\":[\"$first:0/w\"]}" \
	"output 0: $first:0/w is on another device than $second:0"
bad "{\"op\":\"execute\",\"executable\":\"add2\",\"inputs\":[\"z\",\"z\"],\"outputs\":[\"w\"],\"device\":\"$first:0\"}" \
	"device $first:0 is not of the program's plugin $second"
bounded bash -c 'exec 3<>"$1" && cat "$2" "$3" >&3 && exec cat <&3' - \
	"$mnt/executables/add3/call" "$data/x.npy" "$data/y.npy" >called.npy
same called.npy "$b1/z.npy"

# -- cp, mv and copy between them; an array in the arena is not copied
segment()
{
	bounded jq -r '.segments[0].id' "$1"
}
bounded cp "$b1/x.npy" "$b2/x.npy"
bounded cp "$b2/x.npy" "$b3/x.npy"
good "{\"op\":\"copy\",\"buffer\":\"$third:0/x\",\"as\":\"x2\"}"
for b in "$b2/x" "$b3/x" "$b1/x2"; do
	same "$b.npy" "$data/x.npy"
	equal "where $b lies" "$(segment "$b.json")" "$(segment "$b1/x.json")"
	knows "$b.json" '.zero_copy and .state == "ready"'
done
bounded mv "$b3/x.npy" "$b1/x3.npy"
gone "$b3/x.npy"
same "$b1/x3.npy" "$data/x.npy"
knows "$b1/x3.json" ".device == \"$first:0\""

fails_with 'Invalid argument' run add "x $second:0/x -> w"
tells "$mnt/executables/add/run" "$second"

# -- a large result is copied once, out of its worker's memory; another copy shares that
used() # to the byte
{
	settle
	bounded awk '$1 == "pjrtfs_memory_used_bytes" { print $2 }' "$mnt/metrics.prom"
}
n=4194304 # 16 MiB
sed "s/2x3x/${n}x/g; s/@add/@large/" "$data/add.mlir" >large.mlir
bounded cp large.mlir "$mnt/programs/"
ask "{\"op\":\"create\",\"buffer\":\"l\",\"dtype\":\"F32\",\"shape\":[$n],\"fill\":2}" >/dev/null
run large 'l l -> r'
before=$(used)
bounded cp "$b1/r.npy" "$b2/r.npy"
once=$(($(used) - before))
bounded cp "$b2/r.npy" "$b3/r.npy"
if ! sanitized; then
	[ "$once" -le $((4 * n + 2048)) ] || fail "a copy takes $once bytes, not $((4 * n))"
	equal "another copy of the copy" "$(($(used) - before))" $((once + 2048)) # its file
fi
same "$b2/r.npy" "$b1/r.npy"
same "$b3/r.npy" "$b1/r.npy"
bounded mv "$b1/r.npy" "$b2/moved.npy"
same "$b2/moved.npy" "$b3/r.npy"
bounded rm "$b2/moved.npy" "$b2/r.npy" "$b3/r.npy"
if ! sanitized; then
	eventually uses_less $((before - 2 * n)) # the last copy's device lets go of it behind
fi
good "{\"op\":\"execute\",\"executable\":\"large\",\"inputs\":[\"l\",\"l\"],\"outputs\":[\"r\"]}"
good "{\"op\":\"copy\",\"buffer\":\"r\",\"as\":\"$third:2/r\"}"
same "$mnt/devices/$third/2/buffers/r.npy" "$b1/r.npy"

# -- a type that the other plugin does not know is refused, and no worker dies
for p in "$first" "$second" "$third"; do
	[ "$p" != cpu-0.81 ] || continue
	good "{\"op\":\"create\",\"buffer\":\"$p:0/s\",\"dtype\":\"S1\",\"shape\":[4],\"fill\":0,\"device\":\"$p:0\"}"
	fails_with 'not supported' cp "$mnt/devices/$p/0/buffers/s.npy" \
		"$mnt/devices/cpu-0.81/0/buffers/s-$p.npy"
	bad "{\"op\":\"copy\",\"buffer\":\"$p:0/s\",\"as\":\"cpu-0.81:0/s2\"}" \
		'element type S1'
done

# -- all three at once; one dies, and only its own executions fail
bounded cp "$data/y.npy" "$b2/"
bounded cp "$data/x.npy" "$data/y.npy" "$b3/"
# busy NAME: run it again and again, until there is the file enough; how each ended is in runs.NAME
busy()
{
	until [ -e enough ]; do
		if run "$1" 'x y -> o' 2>/dev/null; then echo ok; else echo failed; fi
	done >"runs.$1"
}
# all_run: from now on, a run of each succeeds
all_run()
{
	local name n
	for name in add add2 add3; do
		n=$(grep -c ok "runs.$name" || :)
		eventually eval '[ "$(grep -c ok "runs.$name")" -gt "$((n + 1))" ]'
	done
}
busy add &
busy1=$!
busy add2 &
busy2=$!
busy add3 &
busy3=$!
all_run
kill_worker "$second"
all_run
: >enough
wait "$busy1" "$busy2" "$busy3"
for name in add add3; do
	! grep failed "runs.$name" || fail "$name failed, whose worker lives"
done
eventually grep -qx ok "$mnt/health"
shows "$mnt/plugins/$first/restarts" 0
shows "$mnt/plugins/$third/restarts" 0
shows "$mnt/plugins/$second/restarts" 1
run add2 'x y -> o'
same "$b2/o.npy" "$b1/z.npy"
same "$b2/x.npy" "$data/x.npy"
for p in "$first" "$second" "$third"; do
	bounded awk -v "want=pjrtfs_executions_total{plugin=\"$p\",result=\"ok\"}" \
		'$1 == want && $2 > 0 { found = 1 } END { exit !found }' "$mnt/metrics.prom" ||
		fail "metrics.prom knows nothing of $p"
done
