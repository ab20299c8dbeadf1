#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# Memory runs short in a control group: the kernel kills a worker, then the daemon, and never the
# holder; users get EIO for what was under way, and all files stay.
. "$srcdir/tests/words.sh"
requires isolated
requires_mount
group=
end_group()
{
	if [ -n "$group" ]; then
		# shellcheck disable=SC2034 # for lib.sh
		unmount_pjrtfs || lib_status=1 # before its group ends
		echo $$ >"$outside/cgroup.procs"
		(eventually rmdir "$group")
	fi
	umount -l "$work/cgroups" 2>/dev/null # (or it is not mounted)
}
at_end end_group
# make_group: a control group whose memory can be limited; $limit and $kills are its files
make_group()
{
	mkdir cgroups
	if mount -t cgroup -o memory cgroup cgroups 2>/dev/null; then
		outside=$work/cgroups$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
		limit=memory.limit_in_bytes usage=memory.usage_in_bytes kills=memory.oom_control
	elif mount -t cgroup2 cgroup2 cgroups 2>/dev/null; then
		outside=$work/cgroups$(sed -n 's/^0:://p' /proc/self/cgroup)
		limit=memory.max usage=memory.current kills=memory.events
		echo +memory >cgroups/cgroup.subtree_control || return 1
	else
		return 1
	fi 2>/dev/null
	group=$work/cgroups/${work##*/}
	mkdir "$group" && [ -e "$group/$limit" ]
}
if make_group; then
	echo $$ >"$group/cgroup.procs"
else
	echo "no control group: only the order is tried"
	group=
fi

mount_pjrtfs --keep --memory-limit 8G
p=${plugin:-cpu}
b=$mnt/buffers
holder=$daemon
put_add
n=$((1 << 27)) # 512 MiB
cat >large.mlir <<END_OF_PROGRAM
func.func @main() -> tensor<${n}xf32> {
  %0 = stablehlo.iota dim = 0 : tensor<${n}xf32>
  return %0 : tensor<${n}xf32>
}
END_OF_PROGRAM
bounded cp large.mlir "$mnt/programs/"
run add 'x y -> z'
bounded ls -iR "$b" >before

pids()
{
	served=$(bounded cat "$mnt/pid")
	worker=$(bounded cat "$mnt/plugins/$p/pid")
}
# Which of the processes does the kernel kill first?
victim()
{
	local pid
	for pid in "$@"; do
		echo "$(cat "/proc/$pid/oom_score") $pid"
	done | sort -n | tail -n 1 | cut -d ' ' -f 2
}
killed()
{
	sed -n 's/^oom_kill //p' "$group/$kills"
}
# The files, and the holder, are as before, and programs run.
whole()
{
	eventually grep -qx ready "$mnt/plugins/$p/state"
	bounded ls -iR "$b" >after
	diff before after
	computes
	equal "the holder" "$(cat "/proc/$holder/comm")" pjrtfs-holder
	bounded ls -iR "$b" >before
}

# -- the order: the kernel adds thousandths of the memory to what each has
pids
for pid in "$worker" "$served" "$holder"; do
	cat "/proc/$pid/oom_score_adj"
done >scores
equal "the order of the scores ($(tr '\n' ' ' <scores))" "$(sort -rnu scores)" "$(cat scores)"
equal "the first" "$(victim "$worker" "$served" "$holder")" "$worker"
equal "the next" "$(victim "$served" "$holder")" "$served"
if [ -z "$group" ]; then
	kill -KILL "$worker"
	eventually at_least 1 "$mnt/plugins/$p/restarts"
	whole
	pids
	kill -KILL "$(victim "$served" "$holder")"
	eventually another "$served"
	whole
	exit
fi

# -- an execution needs more than there is: its worker dies
used=$(cat "$group/$usage")
echo $((used + (256 << 20))) >"$group/$limit"
fails_with 'Input/output error' run large '-> large'
eventually at_least 1 "$mnt/plugins/$p/restarts"
[ "$(killed)" -gt 0 ] || fail "nothing was killed: $(cat "$group/$kills")"
shows "$mnt/pid" "$served"
whole

# -- a file needs more than there is: a worker and the daemon die, and no worker starts until there is
# memory again; the writer waits, or gets EIO if its request has killed two daemons
# (what the group has includes pages of files, which the kernel takes back first: some 200 MiB of the plugin's)
echo $(($(cat "$group/$usage") + (64 << 20))) >"$group/$limit"
truncate -s 512M zeros # without blocks: in a tmpfs they would be the group's memory
"$patient" $((patience * 6)) cp --sparse=never zeros "$b/large.raw" 2>said &
writer=$!
eventually grep -q "the daemon of $mnt ended (signal 9 (Killed))" "$mnt.log"
eventually grep -q "the daemon of $mnt ended (status 75)" "$mnt.log"
echo $((used + (2 << 30))) >"$group/$limit"
if wait "$writer"; then
	bounded cmp zeros "$b/large.raw"
else
	tells said 'Input/output error'
fi
another "$served" || fail "the daemon was not killed"
bounded rm "$b/large.raw"
whole
[ "$(killed)" -gt 2 ] || fail "fewer were killed than died: $(cat "$group/$kills")"
