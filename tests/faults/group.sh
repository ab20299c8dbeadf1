#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 19 CPU-s in 162 s
# --group: plugins of several processes make one client through a Redis server, which the test starts;
# what happens when a process, the server or the network between them is gone.
# shellcheck disable=SC2034 # what another shell expands; what members.sh uses
. "$srcdir/tests/lib.sh"
requires test -w /dev/fuse
requires isolated
. "$top/tests/members.sh"
# Its daemon ends with the status; a line of its log has the text.
ends()
{
	local m=${members[$1]} status=0 k
	lib_gone "${daemons[$1]}" || fail "member $1 of group $n stays: $(cat "$m.log")"
	wait "${daemons[$1]}" || status=$?
	equal "status of member $1 ($(cat "$m.log"))" "$status" "$2"
	for k in "${!lib_mounts[@]}"; do
		if [ "${lib_mounts[k]}" = "$m" ]; then lib_daemons[k]=; fi
	done
	tells "$m.log" "$3"
}
has_keys()
{
	ask_redis --scan | grep -q .
}
no_keys()
{
	ask_redis --scan --pattern "pjrtfs:*" >keys
	[ ! -s keys ]
}

redis

# -- four members, started in any order, have the same topology, and all devices
size=4
group ${others:+-o allow_other}
for i in 2 0 3 1; do member $i; done
complete
for m in "${members[@]}"; do
	equal "devices" "$(cd "$m/devices/faulty" && echo *)" "0 1 2 3 4 5 6 7"
	eventually grep -q 'topology ' "$m/plugins/faulty/log"
	grep -o 'topology .*' "$m/plugins/faulty/log" >>topologies
	tells "$m/events" group.complete
	sanitized || tells "$m/plugins/faulty/sandbox" '^device$'
done
equal "different topologies" "$(sort -u topologies)" \
	"topology node 0 has 2 devices;node 1 has 2 devices;node 2 has 2 devices;node 3 has 2 devices;"
shows "${members[1]}/devices/faulty/2/addressable" true
shows "${members[1]}/devices/faulty/0/addressable" false
shows "${members[1]}/devices/faulty/6/process_index" 3

# -- arrays stay with the process of their device
fails_with 'Object is remote' cp "$data/x.npy" "${members[1]}/devices/faulty/0/buffers/"
tells "${members[1]}/error" 'faulty:0 belongs to process 0 of the group'
cp "$data/x.npy" "${members[1]}/devices/faulty/3/buffers/"

# -- a program on all of them runs when all run it, for the owner only
for m in "${members[@]}"; do
	chmod 1777 "$m/buffers" "$m/executables"
	cp "$data/x.npy" "$m/buffers/"
	echo 'module @everywhere' >"$m/programs/all.mlir"
	shows "$m/executables/all/state" ready
done
everywhere()
{
	local m pids=()
	for m in "${members[@]}"; do
		mnt=$m run all "x x -> $1" &
		pids+=("$!")
	done
	for m in "${pids[@]}"; do wait "$m" || fail "an execution on all members failed"; done
}
for k in {1..5}; do everywhere "z$k"; done
rounds=()
for k in a b c; do # one after the other, although a device takes several programs at a time
	everywhere "$k" &
	rounds+=("$!")
done
for k in "${rounds[@]}"; do wait "$k" || fail "executions at once failed"; done
if [ -n "$others" ]; then
	chmod 755 "$work"
	said=$(mnt=${members[0]} as 1001 bash -c 'echo "x x -> w" >"$1/executables/all/run"' - "${members[0]}" 2>&1) &&
		fail "another user ran a program of all members"
	case $said in *'Operation not permitted'*) ;; *) fail "it failed with $said" ;; esac
fi
same "${members[0]}/buffers/z5.npy" "${members[3]}/buffers/z5.npy"

# -- a server that is away for a while, and comes back empty, ends nothing; nor does one that hangs
halt "$redis"
# real time: shorter than --group-lost
sleep 1
for m in "${members[@]}"; do eventually states "$m" connected; done
no_redis
# real time: longer than --group-lost
sleep $((lost + 1))
redis
for m in "${members[@]}"; do eventually states "$m" connected; done
# real time: the same, for what the members have not written again
sleep $((lost + 1))
for m in "${members[@]}"; do
	eventually states "$m" connected
	shows "$m/plugins/faulty/state" ready
done
everywhere again

# -- a member that leaves in order has ended; the others go on
unmount_pjrtfs "${members[3]}"
eventually states "${members[0]}" connected connected connected ended
shows "${members[0]}/plugins/faulty/state" ready
unset 'members[3]'
leave
eventually no_keys

# -- what the store must do: large, empty and late values, 64 threads that wait; and nothing shows the secret
faults client=store
whole 2
stores
m=${members[0]}
for pid in "${daemons[0]}" "$(cat "$m/plugins/faulty/pid")"; do
	tr '\0' '\n' <"/proc/$pid/cmdline" >>seen
	tr '\0' '\n' <"/proc/$pid/environ" >>seen
done
{
	find "$m" -type f ! -name control ! -name run -exec timeout "$patience" cat {} +
	"$pjrtfs" --dump-config --group "$url" --group-secret secret
	cat "$m.log"
} >>seen
[ "$(wc -l <seen)" -gt 50 ] || fail "nothing was looked at"
! grep "$secret" seen || fail "the secret is seen"
faults
leave

# -- a cache that all share: process 0 alone puts there what runs on all, each process what runs on it
# compiled MEMBER PROGRAM HIT-OR-MISS ENTRIES: the program compiles, and the cache has so many entries
compiled()
{
	local m=${members[$1]}
	echo "module @$2" >"$m/programs/$2.mlir"
	shows "$m/executables/$2/state" ready
	tells "$m/executables/$2/info.json" "\"cache\": *\"$3\""
	eventually tells "$m/cache/stats.json" "\"entries\": *$4,"
}
faults serialize=works
cache=(--cache-dir "$work/fleet")
size=2
group
member 0 env CUDA_VISIBLE_DEVICES=0
member 1 env CUDA_VISIBLE_DEVICES=1
complete
compiled 1 everywhere miss 0
compiled 1 here miss 1
compiled 0 everywhere miss 2
compiled 0 here miss 3
leave
group
member 1 env CUDA_VISIBLE_DEVICES=1
member 0 env CUDA_VISIBLE_DEVICES=0
complete
for i in 0 1; do
	compiled "$i" everywhere hit 3
	compiled "$i" here hit 3
	cp "$data/x.npy" "${members[i]}/buffers/"
done
mnt=${members[0]} run everywhere 'x x -> z' &
mnt=${members[1]} run everywhere 'x x -> z'
wait "$!" || fail "a program from the cache failed"
leave
cache=(--no-cache)
faults

# -- kill -9 of a worker, of a daemon, and SIGSTOP: the others end for good, for one reason
for how in worker daemon stop; do
	whole 3
	for m in "${members[@]}"; do
		cp "$data/x.npy" "$m/buffers/"
		echo 'module @everywhere' >"$m/programs/all.mlir"
	done
	worker=$(cat "${members[1]}/plugins/faulty/pid")
	case $how in
	worker) kill -KILL "$worker" ;;
	daemon) kill -KILL "${daemons[1]}" ;;
	stop)
		halt "$worker"
		fails_with 'timed out' cat "${members[1]}/plugins/faulty/processes.json"
		tells "${members[1]}/error" 'the worker of plugin faulty did not answer within 1000 ms'
		;;
	esac
	# what runs then fails; the faulty plugin learns that a process is gone
	said=$(mnt=${members[0]} run all 'x x -> z' 2>&1) && fail "a program ran without a member"
	case $said in *'Software caused connection abort'*) ;; *) fail "it failed with $said" ;; esac
	for i in 0 2; do
		failed $i "^process 1 of 3 \(.*\) is gone since [0-9]+ s: the group has ended$"
		eventually tells "${members[$i]}/plugins/faulty/log" 'faulty: process 1 is gone'
		tells "${members[$i]}/events" group.ended
		fails_with 'Software caused connection abort' cp "$data/y.npy" "${members[$i]}/buffers/"
		same "$data/x.npy" "${members[$i]}/buffers/x.npy"
	done
	same "${members[0]}/plugins/faulty/error" "${members[2]}/plugins/faulty/error"
	case $how in
	worker) failed 1 'died of signal 9 .*; so the group has ended$' ;;
	daemon)
		ends 1 137 .
		umount -l "${members[1]}"
		unset 'members[1]'
		;;
	stop)
		kill -CONT "$worker"
		failed 1 'the group has ended$'
		;;
	esac
	leave
	eventually no_keys
done

# -- a member that dies while the server is away is gone when it is back
whole 2
no_redis
kill -KILL "$(cat "${members[1]}/plugins/faulty/pid")"
# real time: twice --group-lost
sleep $((2 * lost))
shows "${members[0]}/plugins/faulty/state" ready
redis
failed 0 '^process 1 of 2 \(.*\) is gone since [0-9]+ s: the group has ended$'
leave
eventually no_keys

# -- the same name, anew, when the keys of the dead have expired; a second process with a number
whole 2
started=${daemons[0]}
refuses 1 "process 0 of group g$n runs already on .*, pid [0-9]+" -f --no-cache "${faulty_options[@]}" \
	"$work" --group "$url" --group-secret secret --group-name "g$n" --group-process 0/2 --group-lost "$lost"
kill -KILL "$started"
failed 1 'process 0 of 2 .* is gone'
ends 0 137 .
umount -l "${members[0]}"
unmount_pjrtfs "${members[1]}"
again=-again
member 0
member 1
complete
leave

# -- a wrong password, no server, and a member that does not come
echo wrong >wrong
chmod 600 wrong
few=("${faulty_options[@]}" "$work" -f --no-cache --group-name x --group-process 0/2)
refuses 1 "the group's store: redis 127.0.0.1:6379: WRONGPASS" "${few[@]}" --group "$url" --group-secret wrong
refuses 1 "the group's store: redis 127.0.0.1:7: Connection refused" "${few[@]}" --group "$url:7" --group-timeout 1
size=4
group --group-timeout 3
for i in 0 1 3; do member $i; done
for i in 0 1 3; do ends $i 1 "group g$n waited [23] s for process 2 of 4"; done

# -- the server dies while some wait, and comes back empty
size=3
group
member 0
member 1
both_wait()
{
	[ "$(ask_redis --scan --pattern "pjrtfs:g$n:*:member:*" | wc -l)" = 2 ]
}
eventually both_wait
no_redis
redis
member 2
complete
leave

# -- another group, and rights that end at a group's keys
ask_redis acl setuser ours on '>ourpassword' '~pjrtfs:ours:*' +@all >/dev/null
echo ours:ourpassword >ours
chmod 600 ours
refuses 1 'NOPERM' "${few[@]}" --group "$url" --group-secret ours
whole 1 --group-secret ours --group-name ours
first=("${members[@]}")
whole 2 --group-name another
eventually states "${first[0]}" connected

# -- no library is registered while the group is there
ask "{\"op\":\"register\",\"library\":\"$build/tests/faults/ffi_library.so\"}" "${members[0]}/control" >reply
tells reply '"errno":"EOPNOTSUPP".*"message":"register: plugin faulty is in a group, whose processes are not replaced'
for m in "${members[@]}"; do eventually states "$m" connected; done
leave
unmount_pjrtfs "${first[0]}"

# -- --run: the command gets SIGTERM, pjrtfs ends with 124, and nothing remains
mkdir tmp
runs=()
for i in 0 1; do
	TMPDIR=$work/tmp PJRTFS_FAULTY_FILE=$faults PJRTFS_GROUP=$url PJRTFS_GROUP_PASSWORD=$secret \
		PJRTFS_GROUP_LOST=$lost SLURM_PROCID=$i SLURM_NTASKS=2 SLURM_JOB_ID=42 SLURM_STEP_ID=0 \
		"$pjrtfs" "${faulty_options[@]}" --no-cache --run sh -c \
		'env >env$0; cat $PJRTFS_MOUNT/plugins/faulty/pid >pid$0.new; mv pid$0.new pid$0; sleep infinity' $i \
		>run$i.log 2>&1 </dev/null &
	runs[i]=$!
done
eventually test -e pid0 -a -e pid1
! grep "$secret" env0 env1 || fail "the command has the secret"
tells <(ask_redis --scan) '^pjrtfs:slurm-42\.0\.0:faulty:member:1$'
kill -KILL "$(cat pid1)"
for i in 0 1; do
	status=0
	lib_gone "${runs[i]}" || fail "pjrtfs --run stays"
	wait "${runs[i]}" || status=$?
	equal "status of --run $i ($(cat run$i.log))" "$status" 124
	tells run$i.log 'the group has ended'
done
rmdir tmp
eventually no_keys

# -- a plugin that makes a client of its own devices, whatever the group is
size=2
options_of_faulty=("${faulty_options[@]}")
faulty_options=(--plugin "cpu-0.81=$plugins/cpu-0.81/pjrt_plugin.so")
group
for i in 0 1; do member $i; done
for i in 0 1; do ends $i 1 'makes no client of several processes: expected devices of all 2 processes'; done
faulty_options=("${options_of_faulty[@]}")

# -- members in network namespaces of their own; the link of one of them is cut
for i in 0 1 2; do
	unshare --net sleep infinity &
	sleepers[i]=$!
done
ip link add bridge type bridge
ip addr add 10.7.0.1/24 dev bridge
ip link set bridge up
no_redis
redis
for i in 0 1 2; do
	eventually ip link add "link$i" type veth peer name eth0 netns "${sleepers[i]}"
	ip link set "link$i" master bridge up
	nsenter --net="/proc/${sleepers[i]}/ns/net" sh -c "ip link set lo up; ip addr add 10.7.0.1$i/24 dev eth0; ip link set eth0 up"
done
url=redis://10.7.0.1
size=3
group --group-timeout 6
for i in 0 1 2; do member $i nsenter --net="/proc/${sleepers[i]}/ns/net"; done
complete
ip link set link1 down
for i in 0 2; do failed $i '^process 1 of 3 .* is gone since'; done
failed 1 "the group's store has been away for [0-9]+ s, so the group has ended: redis 10.7.0.1:6379: "
leave
# a link that comes back when the others have ended
group
ip link set link1 up
for i in 0 1 2; do member $i nsenter --net="/proc/${sleepers[i]}/ns/net"; done
complete
ip link set link1 down
failed 0 '^process 1 of 3 .* is gone since'
# real time: so their keys, and why they have ended, are gone, too
sleep $((3 * lost))
shows "${members[1]}/plugins/faulty/state" ready
ip link set link1 up
failed 1 '^process [012] of 3 .* is gone since'
leave
# a member whose link is cut while it waits
group --group-timeout 4
for i in 0 1; do member $i nsenter --net="/proc/${sleepers[i]}/ns/net"; done
eventually has_keys
ip link set link1 down
ends 0 1 'waited [0-9]+ s for process'
ends 1 1 'redis 10.7.0.1:6379|waited [0-9]+ s for process'

no_redis
