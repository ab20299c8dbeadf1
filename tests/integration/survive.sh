#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: tsan
# With --keep a mount outlives its daemon: everything that users made is there again, under the
# same names and inode numbers, and open files go on.
. "$srcdir/tests/words.sh"
mount_pjrtfs --keep ${others:+-o allow_other}
b=$mnt/buffers
p=$mnt/programs
x=$mnt/executables
cpu=${plugin:-cpu}
tool=$top/tests/tools/survive.py

# No program is being compiled.
compiled()
{
	! grep -rqx compiling "$x" --include=state
}
dump()
{
	eventually compiled
	settle # the cache has an entry of each program
	bounded python3 -B "$tool" dump "$mnt" >"$1"
}
# unchanged WHAT: the mount shows what it showed before.
unchanged()
{
	dump "$1.before"
	next_daemon KILL
	dump "$1.after"
	python3 -B "$tool" compare "$1.before" "$1.after" >"$1.differs" ||
		fail "$1: $(head -c 8000 "$1.differs")"
}

unchanged 'an empty mount'

# -- buffers: all formats, what is refused or incomplete, views, attributes, other names
bounded cp "$data/x.npy" "$data/y.npy" "$b/"
say "$b/t.txt" '1 2 3'
printf '\1\2\3\4\5\6\7\10' | bounded tee "$b/r.raw" >/dev/null
bounded python3 -B "$tool" make "$mnt"
say "$b/scratch" 'a scratch file'
bounded touch "$b/empty.npy"
head -c 100 "$data/x.npy" | bounded tee "$b/half.npy" >/dev/null 2>&1 || :
say "$b/wrong.txt" 'no number' 2>/dev/null || :
bounded mkdir -m 711 "$b/ns"
bounded mkdir -m 3775 "$b/ns/deep"
bounded cp -p "$data/x.npy" "$b/ns/deep/"
bounded cp "$data/x.npy" "$mnt/devices/$cpu/1/buffers/other.npy"
bounded cp "$data/x.npy" "$b/moved.part"
bounded mv "$b/moved.part" "$b/ns/moved.npy"
bounded cp "$data/x.npy" "$b/viewed.npy"
say "$b/viewed.txt" '4 5' # listed under that name now
bounded chmod 640 "$b/x.npy"
bounded touch -d @1000000000 "$b/y.npy"
[ -z "$others" ] || bounded chown 1001:1002 "$b/ns/moved.npy" "$b/ns/deep"
good '{"op":"create","buffer":"zeros","dtype":"S32","shape":[3,4],"fill":7}'
good '{"op":"shard","buffer":"zeros","as":"parts","mesh":{"x":2},"spec":[null,"x"]}'
unchanged buffers

# -- programs: compiled, refused, in directories, with options, with "as", scratch files
bounded cp "$data/add.mlir" "$p/"
bounded mkdir -m 750 "$p/dir" "$p/empty"
bounded cp "$data/add.mlir" "$p/dir/inner.mlir"
say "$p/bad.mlir" 'no program' || :
bounded cp "$data/add.mlir" "$p/updated.mlir"
say "$p/updated.mlir" 'no program' || :
bounded touch "$p/none.mlir" "$p/none-scratch"
bounded cp "$data/add.mlir" "$p/scratch"
bounded cp "$data/add.mlir" "$p/options.mlir"
say "$x/options/options.json" '{"num_replicas":1}' ||
	fail "options: $(bounded cat "$mnt/error")"
good '{"op":"compile","program":"add","as":"again"}'
good '{"op":"compile","program":"add","as":"dir/again"}'
bounded cp "$data/add.mlir" "$p/renamed.part"
bounded mv "$p/renamed.part" "$p/renamed.mlir"
bounded chmod 600 "$p/renamed.mlir"
eventually compiled
bounded cp "$x/add/serialized" "$p/native.pjrtexe"
say "$x/add/bind" 'x * -> *'
say "$x/dir/again/bind" '* y'
if [ -n "$others" ]; then
	bounded setpriv --reuid 1001 --clear-groups bash -c "echo '* *' >'$x/add/bind'"
fi
unchanged programs
[ -z "$others" ] || equal "the binding of another user" \
	"$(bounded setpriv --reuid 1001 --clear-groups cat "$x/add/bind")" '* *'
{ bounded cat "$data/y.npy"; bounded cat <&1 >sum.npy; } 1<>"$x/add/call"
run add 'x y -> z'
same sum.npy "$b/z.npy"
run dir/again 'x y -> ns/deep/w'
run updated 'x y -> updated'
same "$b/z.npy" "$b/updated.npy"
run native 'x y -> v'
shows "$b/z.txt" "$sum"
unchanged results
shows "$b/z.txt" "$sum"

# -- jobs: their results, and their numbers go on
ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["j"],"async":true}' >reply
tells reply '"job":1'
ask '{"op":"execute","executable":"add","inputs":["x"],"outputs":["j"],"async":true}' >reply
tells reply '"job":2'
ask '{"op":"wait","job":1}' >reply
ask '{"op":"wait","job":2}' >reply
shows "$mnt/jobs/2/state" failed
unchanged jobs
ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["j"],"async":true}' >reply
tells reply '"job":3'

# -- what was under way: open files go on, with and without a name; a job has failed
exec 3<"$b/x.npy" 4<>"$b/open.txt" 5<"$p/renamed.mlir"
echo '1 2' >&4
bounded rm "$b/x.npy" "$p/renamed.mlir"
ask '{"op":"execute","executable":"native","inputs":["y","y"],"outputs":["k"],
	"repeat":1000000000,"async":true}' >reply
tells reply '"job":4'
next_daemon KILL
bounded cmp "$data/x.npy" - <&3
bounded cmp "$data/add.mlir" - <&5
echo '3 4' >&4
exec 3<&- 4<&- 5<&-
shows "$b/open.txt" $'1 2\n3 4'
gone "$b/x.npy" "$p/renamed.mlir" "$x/renamed"
shows "$mnt/jobs/4/state" failed
tells "$mnt/jobs/4/result.json" '"errno":"EIO".*the daemon was restarted'
eventually compiled
run add 'y y -> z'
shows "$mnt/health" ok

# -- topologies: read by a plugin, or refused; programs that are compiled for them
if [ -e "$plugins/cpu/pjrt_plugin.so" ]; then
	mount_pjrtfs cpu --devices 2
	bounded cp "$mnt/plugins/cpu/topology.pb" two.pb
	mount_pjrtfs cpu --devices 1 --keep ${others:+-o allow_other}
	t=$mnt/topologies
	x=$mnt/executables
	unchanged 'no topology'
	bounded cp two.pb "$t/two.pb"
	bounded cp two.pb "$t/other.pb"
	bounded cp two.pb "$t/before.pb"
	bounded mv "$t/before.pb" "$t/moved.pb"
	bounded chmod 600 "$t/moved.pb"
	bounded touch -d @1000000000 "$t/two.pb"
	say "$t/wrong.pb" 'no topology' 2>/dev/null || :
	say "$t/again.pb" 'no topology' 2>/dev/null || :
	bounded cp two.pb "$t/again.pb"
	bounded touch "$t/empty.pb"
	[ -z "$others" ] || bounded chown 1001:1002 "$t/other.pb"
	bounded cp "$data/add.mlir" "$mnt/programs/"
	bounded mkdir "$mnt/programs/far"
	bounded cp "$data/add.mlir" "$mnt/programs/far/"
	say "$x/far/add/options.json" '{"topology":"two","num_replicas":2}' || fail "$(bounded cat "$mnt/error")"
	shows "$x/far/add/state" compiled
	good '{"op":"compile","program":"add","as":"far/other","options":{"topology":"moved"}}'
	unchanged topologies
	bounded rm "$t/moved.pb" "$t/other.pb"
	say "$t/two.pb" 'no topology any more' 2>/dev/null || :
	unchanged 'topologies that are gone'
	next_daemon KILL
	bounded cp two.pb "$t/two.pb"
	say "$x/add/options.json" '{"topology":"two","num_replicas":2}' || fail "$(bounded cat "$mnt/error")"
	shows "$x/add/state" compiled
fi

# -- users with workers and memory of their own
[ -n "$others" ] || exit 0
as_user()
{
	bounded setpriv --reuid 1001 --clear-groups bash -c "$1"
}
mount_pjrtfs --keep --isolate=user --mode 1777 -o allow_other
b=$mnt/buffers
x=$mnt/executables
bounded cp "$data/x.npy" "$b/"
own_data
as_user "cp x.npy $b/mine.npy && cp y.npy $b/ && cp add.mlir $mnt/programs/"
as_user "echo 'mine y -> z' >$x/add/run"
unchanged 'two homes'
as_user "echo 'mine y -> z2' >$x/add/run"
shows "$b/z.txt" "$(bounded cat "$b/z2.txt")"

# -- maxima, of the command line and set later, for users that have something and for others
mount_pjrtfs --keep -o allow_other --mode 1777 --quota memory=32M --quota 1002:buffers=100 \
	--quota "1002:$cpu:1/memory=1K"
b=$mnt/buffers
x=$mnt/executables
u=$mnt/users
unchanged 'no users'
as_user "cp x.npy $b/mine.npy && cp y.npy $b/ && cp add.mlir $mnt/programs/ && echo 1 2 >$b/t.txt"
bounded cp "$data/x.npy" "$b/"
bounded mkdir "$u/1009"
say "$u/1009/programs.max" 7
say "$u/1001/buffers.max" 3
say "$u/1001/$cpu:1/memory.max" 4K
say "$u/1002/buffers.max" max
say "$u/0/jobs.max" 50
as_user "echo 1 2 >$b/more.txt" 2>/dev/null && fail 'the maximum does not hold'
as_user "echo 'mine y -> y' >$x/add/run"
unchanged 'users with maxima'
as_user "echo 1 2 >$b/more.txt" 2>/dev/null && fail 'the maximum does not hold after a restart'
tells "$mnt/users/1001/buffers.current" '^3$'
as_user "rm $b/t.txt && echo 1 2 >$b/more.txt"
say "$u/1001/memory.max" 1K
unchanged 'a user beyond a maximum'
head -c 4096 /dev/zero >4K
chmod a+r 4K
as_user "rm $b/more.txt && cp 4K $b/z.raw" 2>/dev/null && fail 'the memory does not count after a restart'
bounded rm -r "$b"/* "$mnt/programs"/*
unchanged 'users that have nothing any more'
equal 'the buffers of the user' "$(bounded cat "$u/1001/buffers.current")" 0
