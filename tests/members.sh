# SPDX-License-Identifier: Apache-2.0
# Help for tests of groups: a Redis server, and members with the faulty plugin.  After lib.sh, in
# namespaces of the test's own.
# shellcheck shell=bash disable=SC2034,SC2154
requires redis-server --version
redis=
sleepers=() # other processes that the end kills
at_end 'kill -KILL ${redis:+"$redis"} "${sleepers[@]}" 2>/dev/null'
secret=eelDaeph7aiy
printf '%s\n' "$secret" >secret
chmod 600 secret
url=redis://127.0.0.1
lost=5
n=0    # groups so far
cache=(--no-cache)
again= # part of the names of members that are started anew

# redis [option...]: start the server, whose process is $redis
redis()
{
	redis-server --protected-mode no --requirepass "$secret" --save '' "$@" >>redis.log 2>&1 &
	redis=$!
	eventually ask_redis ping
}
ask_redis()
{
	redis-cli -a "$secret" --no-auth-warning "$@"
}
no_redis()
{
	kill -KILL "$redis"
	wait "$redis" 2>/dev/null || true
	redis=
}

# group [option...]: a new group, whose members have these options
group()
{
	n=$((n + 1)) options=("$@")
	members=()
}
# member I [command...]: start member I of the group of $size, with the command before pjrtfs, at ${members[I]}
member()
{
	local i=$1 m=$work/group$n-$1$again
	shift
	mkdir "$m"
	members[i]=$m
	lib_mounts+=("$m")
	PJRTFS_FAULTY_FILE=$faults "$@" "$pjrtfs" "$m" -f "${cache[@]}" "${faulty_options[@]}" \
		--group "$url" --group-secret secret --group-name "g$n" --group-process "$i/$size" \
		--group-lost "$lost" "${options[@]}" </dev/null >"$m.log" 2>&1 &
	daemons[i]=$!
	lib_daemons+=("$!")
}
complete()
{
	local m
	for m in "${members[@]}"; do
		eventually test -e "$m/version"
		eventually states "$m" connected
	done
}
# whole SIZE [option...]: a new group of so many members, who are all there
whole()
{
	local i
	size=$1
	group "${@:2}"
	for ((i = 0; i < size; i++)); do member "$i"; done
	complete
}
# stores: all members have found in the store, by the fault client=store, what they put there
stores()
{
	local m
	for m in "${members[@]}"; do
		eventually tells "$m/plugins/faulty/log" 'store: large same' 'store: empty same' \
			'store: twice 6, missing 5, late 4' 'store: 64 waiters woke'
	done
}
# states MOUNT STATE...: of the members, in processes.json; the last one is that of those that follow
states()
{
	python3 -B -c '
import json, sys
want = sys.argv[2:]
got = [p["state"] for p in json.load(open(sys.argv[1] + "/plugins/faulty/processes.json"))["processes"]]
want += want[-1:] * (len(got) - len(want))
sys.exit(f"{got} instead of {want}" if got != want else 0)' "$@"
}
# failed I PATTERN: the plugin of member I is failed for good, for this reason
failed()
{
	eventually grep -qx failed "${members[$1]}/plugins/faulty/state"
	tells "${members[$1]}/plugins/faulty/error" "$2"
}
leave()
{
	local m
	for m in "${members[@]}"; do
		unmount_pjrtfs "$m" || fail "$m ended with $?: $(cat "$m.log")"
	done
}
