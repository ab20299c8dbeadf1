#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: tsan
# The daemon's life: in the foreground and the background, and how it ends; what is left after.
. "$srcdir/tests/words.sh"
requires_mount
name=${plugin:-cpu}

# The processes whose executable is of this build, that use MNT, or had it as an argument.
processes()
{
	pgrep -f -- "^$pjrtfs .*$mnt( |\$)" || true
}
# The mount and both processes have ended.
nothing_left()
{
	local pid
	lib_gone "$daemon" || fail "the daemon $daemon stays"
	lib_gone "$worker" || fail "the worker $worker stays"
	! bounded mountpoint -q "$mnt" || fail "$mnt is still mounted"
	bounded rmdir "$mnt"
	for pid in $(processes); do # the daemon's holder ends after it
		lib_gone "$pid" || fail "the process $pid stays: $(cat "/proc/$pid/cmdline")"
	done
	ls -A "$TMPDIR" >left
	[ ! -s left ] || fail "left in the folder for temporary files: $(cat left)"
}
# Files that the daemon or the plugin might leave would be here.
export TMPDIR=$work/tmp
mkdir tmp
export PJRTFS_CACHE_DIR=$work/cache

use()
{
	put_add
	computes
}

# begin NAME [-f]: mount there, in the background or the foreground
begin()
{
	mnt=$work/$1
	mkdir -p "$mnt"
	if [ -n "${2-}" ]; then
		"$pjrtfs" "$name" "$mnt" -f --plugin-dir "$plugins" </dev/null >"$1.log" 2>&1 &
		daemon=$!
		eventually test -e "$mnt/version"
		shows "$mnt/pid" "$daemon"
	else
		bounded "$pjrtfs" "$name" "$mnt" --plugin-dir "$plugins" >"$1.log" 2>&1 </dev/null ||
			fail "in the background: $(cat "$1.log")"
		daemon=$(bounded cat "$mnt/pid")
	fi
	worker=$(bounded cat "$mnt/plugins/$name/pid")
}

# -- a directory that is not empty: a warning names what is hidden, and it is there again afterwards
mkdir -p full/buffers
begin full
equal 'what it said' "$(cat full.log)" \
	"pjrtfs: warning: $mnt is not empty: what is in it (buffers) is hidden until fusermount3 -u $mnt"
bounded fusermount3 -u "$mnt"
eventually rmdir full/buffers
touch full/a full/b
begin full
tells full.log '^pjrtfs: warning: .* \([ab], \.\.\.\) is hidden until '
bounded fusermount3 -u "$mnt"
eventually rm full/a full/b
nothing_left

# -- in the foreground; each way to end it
for way in fusermount SIGTERM SIGINT; do
	begin "$way" -f
	use
	case $way in
	fusermount) bounded fusermount3 -u "$mnt" ;;
	*) kill -"${way#SIG}" "$daemon" ;;
	esac
	status=0
	lib_gone "$daemon" || fail "$way does not end the daemon"
	wait "$daemon" || status=$?
	equal "status after $way" "$status" 0
	nothing_left
	# The log: what began and how it ended.
	tells "$way.log" "info: pjrtfs [0-9.]+ serves $mnt: $name \(API 0\.[0-9]+, [0-9]+ devices\); memory limit [0-9]+ bytes; options: \{.*\"foreground\":true.*\"plugin_dir\":\[\"$plugins\"\]"
	! grep -q 'allow_native' "$way.log" || fail "the log tells of defaults"
	case $way in
	fusermount) tells "$way.log" "info: $mnt ends: it was unmounted$" ;;
	*) tells "$way.log" "info: $mnt ends: $way from process $$ of user $(id -u)$" ;;
	esac
	# (what the plugin itself prints is its own affair)
	! grep -v ": plugin $name: " "$way.log" | grep -i error ||
		fail "$way: $(cat "$way.log")"
done

# -- in the background: when the command returns, the mount answers
exec 7>lock
flock 7
begin background
exec 7>&-
flock -n lock true || fail "the daemon has kept the caller's lock"
shows "$mnt/health" ok
equal "what it said" "$(cat background.log)" ''
use
equal "its folder" "$(readlink "/proc/$daemon/cwd")" /
equal "its session" "$(ps -o sid= -p "$daemon" | tr -d ' ')" "$daemon"
for fd in 0 1; do
	equal "descriptor $fd" "$(readlink "/proc/$daemon/fd/$fd")" /dev/null
done
# where there is no syslog, the log is a file of its own
case $(readlink "/proc/$daemon/fd/2") in
/dev/null) test -e /dev/log ;;
"$XDG_STATE_HOME"/pjrtfs/*.log) test ! -e /dev/log ;;
*) fail "descriptor 2 is $(readlink "/proc/$daemon/fd/2")" ;;
esac
bounded fusermount3 -u "$mnt"
nothing_left

# -- a terminal that closes does not end it
begin hup
kill -HUP "$daemon"
use
# -- it ends while much is under way
head -c 33554432 /dev/zero | npy '<f4' '(8388608,)' >large.npy
for i in 1 2 3; do
	bounded cp large.npy "$mnt/buffers/large$i.npy" 2>/dev/null &
	bounded cp "$data/add.mlir" "$mnt/programs/p$i.mlir" 2>/dev/null &
done
kill -TERM "$daemon"
wait
nothing_left

# -- after kill -9 of the daemon the worker exits
begin killed -f
use
kill -KILL "$daemon"
lib_gone "$worker" || fail "the worker outlives its daemon"
wait "$daemon" 2>/dev/null || true
fails_with 'not connected' ls "$mnt/devices"
bounded fusermount3 -u "$mnt"
nothing_left

# -- the same place can be mounted again at once
begin killed
bounded fusermount3 -u "$mnt"
nothing_left
