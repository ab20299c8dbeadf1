#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 6 CPU-s
# --run: a mount for one command, its exit status, signals, and what remains after each end.
. "$srcdir/tests/lib.sh"
requires_mount
export TMPDIR=$work/tmp XDG_CACHE_HOME=$work/cache PJRTFS_PLUGIN_PATH=$plugins
mkdir "$TMPDIR"
name=${plugin:-cpu}

# runs STATUS COMMAND...: pjrtfs ends with the status of the command; its output is in out and err.
runs()
{
	local status=0
	"$patient" $((patience * 3)) "$pjrtfs" "$name" --run "${@:2}" >out 2>err </dev/null ||
		status=$?
	equal "status of ${*:2} ($(cat err))" "$status" "$1"
	nothing_left
}
nothing_left()
{
	eventually rmdir "$TMPDIR" # no mount point
	mkdir "$TMPDIR"
}

# -- the command's status, environment, user and mount
runs 7 sh -c 'cat "$PJRTFS_MOUNT/health" && grep -c " $PJRTFS_MOUNT fuse.pjrtfs " /proc/self/mounts &&
	cd / && ! grep " $PJRTFS_MOUNT " /proc/1/mounts && cat && exit 7'
shows out $'ok\n1'
equal "what pjrtfs prints" "$(cat err)" ''
runs 137 sh -c 'kill -KILL $$'
runs 127 nothing-of-this-name
tells err 'pjrtfs: error: --run nothing-of-this-name: No such file or directory'
runs 126 -- "$work"
tells err "--run $work: Permission denied"
runs 0 -- sh -c 'umount "$PJRTFS_MOUNT" 2>/dev/null || fusermount3 -u "$PJRTFS_MOUNT"'
# in a mount of its own, another one
runs 3 sh -c '"$1" "$2" --run sh -c "cat \$PJRTFS_MOUNT/health; exit 3"' - "$pjrtfs" "$name"
shows out ok

# -- bad input: one sentence, and the command does not start
refuses 2 '^pjrtfs: error: --run needs an argument: COMMAND [[]ARG...[]]$' "$name" --run
refuses 2 '^pjrtfs: error: --run needs a COMMAND$' "$name" --run --
refuses 2 "no second word '/mnt'" "$name" /mnt --run touch ran
refuses 2 'expected --run, or .* not both' --list-plugins --run touch ran
refuses 125 'plugin nothing: not found' nothing --run touch ran
refuses 125 'unknown option.*nothing_known' "$name" -o nothing_known --run touch ran
TMPDIR=$work/nowhere refuses 125 "make a directory for the mount, $work/nowhere/.*No such file" \
	"$name" --run touch ran
gone ran
nothing_left

# -- start COMMAND [TRAP]: in the background, in a process group of its own; $self is pjrtfs, $daemon the
# process of its mount, $worker that of the plugin, $command the command, as it says itself
start()
{
	rm -f started
	"$patient" $((patience * 3)) setsid "$pjrtfs" "$name" --run sh -c "
		cat \$PJRTFS_MOUNT/pid \$PJRTFS_MOUNT/plugins/$name/pid >pids
		sleep infinity & echo \$\$ \$! >>pids; ${2-:}; mv pids started; $1" >out 2>err </dev/null &
	timeout=$!
	eventually test -e started
	{ read -r daemon && read -r worker && read -r command sleeper; } <started
	self=$(ps -o ppid= -p "$command" | tr -d ' ')
}
# ended STATUS PROCESS...: pjrtfs has ended, and so have the processes
ended()
{
	local status=0 pid
	wait "$timeout" || status=$?
	equal "status ($(cat err))" "$status" "$1"
	for pid in "$daemon" "$worker" "$command" "${@:2}"; do
		lib_gone "$pid" || fail "process $pid stays"
	done
	nothing_left
}

# A launcher signals every process: the mount serves until the command has ended.
start 'wait; wait' 'trap "cat \$PJRTFS_MOUNT/plugins/*/pid; kill \$!; exit 5" TERM'
kill -TERM "$daemon" "$worker"
kill -INT "$daemon" "$worker"
kill -USR1 "$daemon" "$worker"
kill -TERM "$self"
ended 5
shows out "$worker"

# A signal reaches what the command has started.
start wait 'trap "" INT'
kill -TERM "$self"
ended 143 "$sleeper"

# -- SIGKILL: of the daemon, of the process that waits, of its group
start wait
kill -KILL "$daemon"
ended 124 "$sleeper"
tells err 'the mount failed \(signal 9\): sh gets SIGTERM'
# A command that does not end gets SIGKILL, after 10 seconds.
start 'until false; do wait; done' 'trap "" TERM'
before=$SECONDS # real time: the command has these seconds
kill -KILL "$daemon"
ended 124 "$sleeper"
[ $((SECONDS - before)) -ge 9 ] || fail "SIGKILL came after $((SECONDS - before)) s"
for group in '' -; do
	start wait
	kill -KILL -- "$group$self"
	ended 137 "$sleeper"
done

# -- as the first process of a container, which reaps orphans, and below one that reaps nothing else
if [ -n "$others" ]; then
	export zombies='grep -ls "^State:.Z" /proc/[0-9]*/status'
	inside=("$patient" $((patience * 3)) unshare --pid --fork --kill-child --mount-proc)
	status=0
	"${inside[@]}" "$pjrtfs" "$name" --run bash -c '[ "$PPID" = 1 ] || exit
		for i in 1 2 3; do (true & ) ; done
		while eval "$zombies"; do sleep 0.05; done
		kill -TERM 1
		sleep infinity' >out 2>&1 || status=$?
	equal "status in a container ($(cat out))" "$status" 143
	"${inside[@]}" perl -e 'my $run = fork // die; exec @ARGV or die unless $run;
		waitpid $run, 0; exit($? >> 8 != 6 or !system $ENV{zombies})' \
		"$pjrtfs" "$name" --run sh -c 'exit 6' || fail "zombies remain, or another status"
	nothing_left
fi

# -- an ordinary user, whose mount is in a user namespace, where that user is the same
run_ordinary='export TMPDIR=$HOME PJRTFS_CACHE_DIR=$HOME/cache && cd / &&
	"$build/pjrtfs" "cpu=$so" --run sh -c "id -u; id -g; cat \$PJRTFS_MOUNT/health
		grep \$PJRTFS_MOUNT /proc/1/mounts
		echo >\$HOME/made; stat -c %u:%g \$HOME/made; grep CapEff /proc/self/status; exit 4"
	echo "$?" && id -u && id -g && rm -r "$HOME/cache" "$HOME/made" && ls -A "$HOME"'
ordinary bash -c "$run_ordinary" >out 2>err || fail "$(cat err)"
mapfile -t said <out
user=${said[6]} group=${said[7]}
equal "an ordinary user's command" "${said[*]}" \
	"$user $group ok $user:$group $(printf 'CapEff:\t%016d' 0) 4 $user $group"

# -- root without the right to mount, no device, and no namespace
if [ -n "$others" ]; then
	setpriv --bounding-set -sys_admin --inh-caps -sys_admin \
		"$pjrtfs" "$name" --run sh -c 'cat "$PJRTFS_MOUNT/health"; id -u' >out
	shows out $'ok\n0'
	fails_with '/dev/fuse is missing' unshare --mount --propagation slave bash -euc 'mount -t tmpfs dev /dev
		mknod /dev/null c 1 3
		exec "$@"' - "$pjrtfs" "$name" --run touch ran
	ends_with 125 "^pjrtfs: error: --run: make a directory for the mount, $TMPDIR/.*No space left on device" \
		unshare --mount --propagation slave bash -euc 'mount -t tmpfs -o nr_inodes=1 full "$TMPDIR"
		exec "$@"' - "$pjrtfs" "$name" --run touch ran
	gone ran
	nothing_left
	# A directory that is no mount point as root: the mount is visible, and goes.
	unshare --mount --propagation slave bash -euc 'mkdir in && mount -t tmpfs in in && mkdir in/root && cd in/root
		for d in /*; do
			[ -d "$d" ] && [ ! -L "$d" ] && mkdir ".$d" && mount --rbind "$d" ".$d" ||
				cp -a "$d" .
		done
		exec chroot . "$@"' - "$pjrtfs" "$name" --run sh -c \
		'cat "$PJRTFS_MOUNT/health"; grep -c " $PJRTFS_MOUNT " /proc/1/mounts; exit 0' \
		>out 2>err || fail "in a chroot: $(cat err)"
	shows out $'ok\n0'
	tells err '--run: no mount namespace for the command: Invalid argument; the mount is visible'
	rmdir in
	nothing_left
fi

# -- on a terminal the command has it, and pjrtfs gives it back
if [ -n "$(command -v script)" ]; then
	printf 'one\ntwo\n' | "$patient" $((patience * 3)) script -qec \
		"'$pjrtfs' $name --run sh -c 'read x </dev/tty; echo got \$x'; read y; echo then \$y" \
		/dev/null >out
	tells out '^got one' '^then two'
fi
