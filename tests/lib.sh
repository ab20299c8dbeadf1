# SPDX-License-Identifier: Apache-2.0
# Help for the shell tests; a test starts with
#
#     . "$srcdir/tests/lib.sh"
#
# and ends well if nothing failed: every command that fails ends it (set -eu).  make check
# runs it in the build folder with srcdir set; by hand: cd build && srcdir=.. bash ../tests/….
#
# Set here: $work an empty folder, the working directory; $data tests/data; $build the build
# folder; $pjrtfs the daemon's program; $plugins the folder of the plugins; $others yes for
# root, who can try a mount as other users: mount_pjrtfs ${others:+-o allow_other}.
# shellcheck shell=bash
set -eEu
trap 'lib_failed $? "$BASH_COMMAND"' ERR

top=$(cd "${srcdir:?run by make check, or with srcdir set}" && pwd)
build=${build:-$(pwd)}
pjrtfs=$build/pjrtfs
plugins=${plugins:-$top/plugins}
# shellcheck disable=SC2034 # for the tests
data=$top/tests/data
# shellcheck disable=SC2034
if [ "$(id -u)" = 0 ]; then others=yes; else others=; fi

# Seconds that tests wait at most for an expected event.  Those in which the test could have run, but
# had no processor, do not count: patient runs a command for so long.
patience=${PJRTFS_TEST_PATIENCE:-20}
patient=$build/tests/tools/patient
# shellcheck disable=SC2034 # how often tests repeat what they do by chance: more in make check-deep
times=${PJRTFS_TEST_TIMES:-1}

work=$(mktemp -d "${TMPDIR:-/tmp}/pjrtfs-test.XXXXXX")
cd "$work"

export XDG_STATE_HOME=$work/.state
export XDG_CONFIG_HOME=$work/config # not that of the user who runs the tests
unset MAKEFLAGS MAKELEVEL MAKEOVERRIDES MFLAGS # of the make that runs the tests: make and rustc look for its job server

# Does the kernel have Landlock?  The same number everywhere: landlock_create_ruleset.
has_landlock()
{
	perl -e 'exit(syscall(444, 0, 0, 1) > 0 ? 0 : 1)'
}

mkdir "$work/.faulty"
faults=$work/.faulty/faults # the faults of the faulty plugin
# Options that load it.  The plugin reads the file of faults, and writes beside it, which a
# sandbox without Landlock forbids.
faulty_options=(--plugin "faulty=$build/tests/faults/faulty_plugin.so")
if has_landlock; then
	faulty_options+=(--sandbox-write "faulty:$work/.faulty")
else
	faulty_options+=(--sandbox faulty:off)
fi
lib_mounts=()  # every mount point, and at the same index
lib_daemons=() # the daemon that serves it, or '' once it has ended

# Say what failed, after the line of the test.
lib_says()
{
	echo "FAIL: ${0##*/}:${BASH_LINENO[${#BASH_LINENO[@]} - 2]}: $*" >&2
}

# A command failed, which ends the test but where set +e stands.
lib_failed()
{
	[[ $- != *e* ]] || lib_says "${2%%$'\n'*}: status $1"
}

# End the test as failed, with a sentence.
fail()
{
	lib_says "$*"
	exit 1
}

# End the test, for lack of patience: tests/run repeats it, to tell a hang from bad luck.
impatient()
{
	lib_says "$*"
	bash "$top/tests/tools/stacks.sh" >&2
	exit 75
}

# Seconds, of all time, for which the test could have run, but had no processor.
lib_waited()
{
	if [[ -r ${PJRTFS_TEST_PRESSURE-} && $(<"$PJRTFS_TEST_PRESSURE") =~ some\ .*total=([0-9]+) ]]; then
		echo $((BASH_REMATCH[1] / 1000000))
	else
		echo 0
	fi
}

# lib_over BEGUN BEFORE: has the patience ended, of what began at BEGUN, when lib_waited told BEFORE?
lib_over()
{
	local lasted=$((SECONDS - $1)) delay
	[ "$lasted" -ge "$patience" ] || return 1
	delay=$(($(lib_waited) - $2))
	[ "$lasted" -ge $((patience + (delay < patience * 4 ? delay : patience * 4))) ]
}

# requires COMMAND...: skip the test (exit 77) if the command fails.
requires()
{
	"$@" >/dev/null 2>&1 || {
		echo "SKIP: not so: $*"
		exit 77
	}
}

# Run a command that may hang: after the patience it ends and counts as failed.
bounded()
{
	if [ "$(type -t "$1")" = file ]; then
		"$patient" "$patience" "$@"
	else
		"$@"
	fi
}

# Repeat a command until it succeeds; fail when the patience ends.  It may be one that calls fail.
eventually()
{
	local lib_begun=$SECONDS lib_before
	lib_before=$(lib_waited)
	until (bounded "$@") >/dev/null 2>&1; do
		! lib_over "$lib_begun" "$lib_before" || impatient "not within $patience s: $*"
		sleep 0.05
	done
}

# make_alone TARGET [PATTERN]: make what writes archives in the build folder, one test at a time, and copy the
# files of the build folder that PATTERN matches here.
make_alone()
{
	exec 9>"$build/.dist.lock"
	flock 9
	make -C "$build" "$1" >out 2>&1 || fail "make $1: $(tail -n 40 out)"
	# shellcheck disable=SC2086 # a pattern
	[ -z "${2-}" ] || cp "$build"/$2 .
	exec 9>&-
}

# fails_with MESSAGE COMMAND...: the command must fail and print the message.
fails_with()
{
	local want=$1 said
	shift
	if said=$(bounded "$@" 2>&1); then
		fail "succeeded, but should have failed with '$want': $*"
	fi
	case $said in
	*"$want"*) ;;
	*) fail "failed with '$said' instead of '$want': $*" ;;
	esac
}

# In a mount namespace of the test's own: unmount the copies of others' mounts; as long as they exist, those
# daemons do not exit.  The other may be faster.
forget_mounts()
{
	local at
	while read -r _ at _; do
		umount -l "$at" || :
	done < <(grep ' fuse\.pjrtfs ' /proc/self/mounts || :)
}

# isolated: tests/run gave this test namespaces of its own; for requires.
isolated()
{
	[ "$(id -u)" = 0 ] && tr '\0' '\n' </proc/1/cmdline | grep -q '/tools/init\.py$'
}

# ordinary COMMAND...: the command by an ordinary user, with $top, $build and $so, the plugin's
# file, where that user can read them, and HOME a folder in $work.  Root becomes one, in a mount
# namespace where others may read the tree, wherever it lies, and open /dev/fuse, as is usual.
ordinary()
{
	local so=$plugins/${plugin:-cpu}/pjrt_plugin.so
	export work build top so HOME=$work/home
	if [ "$(id -u)" != 0 ]; then
		mkdir -p home
		"$patient" $((patience * 6)) "$@"
		return
	fi
	mkdir -p "$work/home" "$work/seen"
	chmod 755 "$work"
	chmod 777 "$work/home"
	export -f forget_mounts
	"$patient" $((patience * 6)) unshare --mount --propagation private bash -eu -c '
		forget_mounts
		mount -t tmpfs -o mode=755 tmpfs "$work/seen"
		cd "$work/seen"
		mkdir top build plugin
		mount --rbind "$top" top
		mount --rbind "$build" build
		mount --rbind "${so%/*}" plugin
		mknod -m 666 fuse c 10 229
		mount --bind fuse /dev/fuse
		export top=$work/seen/top build=$work/seen/build
		export so=$work/seen/plugin/${so##*/}
		exec setpriv --reuid nobody --regid nogroup --clear-groups "$@"' - "$@"
}

# with_landlock ABI: mounts from now on are as on a kernel with that ABI of Landlock, or none (0).
with_landlock()
{
	printf '#!/bin/sh\nexec "%s" %s "%s" "$@"\n' "$top/tests/tools/landlock_abi.py" "$1" \
		"$build/pjrtfs" >"$work/.pjrtfs"
	chmod +x "$work/.pjrtfs"
	pjrtfs=$work/.pjrtfs
}

# The requirements of mount_pjrtfs, for a test that mounts in another way.
requires_mount()
{
	requires test -w /dev/fuse
	requires test -e "$plugins/${plugin:-cpu}/pjrt_plugin.so"
}

# requires_fetched NAME: skip the test without that plugin of scripts/fetch-plugins, which is large.
requires_fetched()
{
	requires test -w /dev/fuse
	[ -e "$plugins/$1/pjrt_plugin.so" ] || {
		echo "SKIP: there is no plugin $1; scripts/fetch-plugins $1 brings it"
		exit 77
	}
}

# faults SPEC...: set the faulty plugin's faults from now on; without SPEC it works.
faults()
{
	printf '%s\n' "$@" >"$faults.new"
	mv "$faults.new" "$faults"
}

# reached WORD [N]: wait until the faulty plugin has held N calls (1) at WORD, which is the test's
# word for nothing else.
reached()
{
	eventually lib_reached "$@"
}

lib_reached()
{
	[ "$(grep -cxF -e "$1" "$faults.reached")" -ge "${2:-1}" ]
}

# at_least N FILE: the number in the file, a counter, is N or more.
at_least()
{
	[ "$(bounded cat "$2")" -ge "$1" ]
}

# mount_pjrtfs [PLUGIN] [pjrtfs options]: mount in a new folder, $mnt; $daemon is the pid.
#
# PLUGIN is a name in $plugins ($plugin in the environment, or cpu, if not given), a path, NAME=PATH, or the
# word faulty, for which --fault SPEC sets what fails (see faults/plugin/plugin.h; repeatable).
# At the end of the test the mount is undone; a daemon that then does not exit with 0, or
# whose worker stays, fails the test.
mount_pjrtfs()
{
	local name=${plugin:-cpu} options=() lib_begun=$SECONDS lib_before
	lib_before=$(lib_waited)
	if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
		name=$1
		shift
	fi
	while [ $# -gt 0 ]; do
		case $1 in
		--fault)
			echo "$2" >>"$faults"
			shift
			;;
		*) options+=("$1") ;;
		esac
		shift
	done

	requires test -w /dev/fuse
	case $name in
	faulty)
		options+=("${faulty_options[@]}")
		name=
		;;
	*,* | *=*) ;; # several, or one with a name, which the test looks for
	*/*) requires test -e "$name" ;;
	*) requires test -e "$plugins/$name/pjrt_plugin.so" ;;
	esac

	mnt=$work/mnt${#lib_mounts[@]}
	mkdir "$mnt"
	lib_mounts+=("$mnt")
	# A cache of its own: what one test compiled is not there for the next.
	PJRTFS_CACHE_DIR=${PJRTFS_CACHE_DIR-$work/cache} PJRTFS_FAULTY_FILE=$faults \
		"$pjrtfs" ${name:+"$name"} "$mnt" -f --plugin-dir "$plugins" \
		${options[@]+"${options[@]}"} </dev/null >"$mnt.log" 2>&1 &
	daemon=$!
	lib_daemons+=("$daemon")
	until bounded test -e "$mnt/version"; do
		kill -0 "$daemon" 2>/dev/null || fail "pjrtfs ended instead of mounting"
		! lib_over "$lib_begun" "$lib_before" || impatient "pjrtfs did not mount within $patience s"
		sleep 0.05
	done
}

# Undo the mount MNT ($mnt if not given) and wait for its daemon.  Its exit status.
unmount_pjrtfs()
{
	local m=${1:-$mnt} i status=0 worker workers
	for i in "${!lib_mounts[@]}"; do
		if [ "${lib_mounts[i]}" = "$m" ] && [ -n "${lib_daemons[i]}" ]; then
			workers=$(pgrep -P "${lib_daemons[i]}" || true)
			bounded fusermount3 -u "$m" 2>/dev/null ||
				bounded fusermount3 -u -z "$m" 2>/dev/null || true
			lib_reap "${lib_daemons[i]}" || status=$?
			lib_daemons[i]=
			for worker in $workers; do
				lib_gone "$worker" || {
					echo "the worker $worker outlives its daemon" >&2
					status=1
				}
			done
		fi
	done
	return "$status"
}

# refuses STATUS PATTERN [pjrtfs options]: pjrtfs ends with the status and says why (grep -E); its
# output is in out and err.
refuses()
{
	local status=0
	"$patient" $((patience * 6)) "$pjrtfs" "${@:3}" >out 2>err </dev/null || status=$?
	equal "status of ${*:3} ($(cat err))" "$status" "$1"
	grep -Eq -e "$2" err || fail "${*:3}: '$(cat err)' instead of '$2'"
}

# ends_with STATUS PATTERN COMMAND...: the command ends with the status, and prints one line, with the
# pattern (grep -E).
ends_with()
{
	local status=0
	bounded "${@:3}" >"$work/said" 2>&1 </dev/null || status=$?
	equal "status of ${*:3} ($(cat "$work/said"))" "$status" "$1"
	equal "lines of ${*:3} ($(cat "$work/said"))" "$(wc -l <"$work/said")" 1
	grep -Eq -e "$2" "$work/said" || fail "${*:3}: '$(cat "$work/said")' instead of '$2'"
}

# as UID COMMAND...: as bounded, by the user with that number, which root becomes.
as()
{
	"$patient" "$patience" setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}

# kill_worker [PLUGIN]: end the plugin's worker, and wait for the one that follows.
kill_worker()
{
	local of=$mnt/plugins/${1:-${plugin:-cpu}} restarts
	restarts=$(bounded cat "$of/restarts")
	kill -KILL "$(bounded cat "$of/pid")"
	eventually at_least $((restarts + 1)) "$of/restarts"
	eventually grep -qx ready "$of/state"
}

# put_add [MNT]: the program add, and its inputs x and y, are in the mount.
put_add()
{
	bounded cp "$data/add.mlir" "${1:-$mnt}/programs/"
	bounded cp "$data/x.npy" "$data/y.npy" "${1:-$mnt}/buffers/"
}

# runs_native FILE: the compiled program add of the faulty plugin, whose results are zeros, is loaded and runs.
runs_native()
{
	bounded cp "$1" "$mnt/programs/native.pjrtexe"
	shows "$mnt/executables/native/state" ready
	bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
	run native 'x y -> z'
	shows "$mnt/buffers/z.txt" $'0 0 0\n0 0 0'
}

# like_add NAME: another program than add, which does the same, in the file NAME.mlir.
like_add()
{
	sed "s/@add/@$1/" "$data/add.mlir" >"$1.mlir"
}

# put_like_add NAME...: such programs are in the mount.
put_like_add()
{
	local name
	for name; do
		like_add "$name"
		bounded cp "$name.mlir" "$mnt/programs/"
	done
}

# restarted N [PLUGIN]: the plugin's worker has been started again N times, and is ready.
restarted()
{
	local of=$mnt/plugins/${2:-${plugin:-cpu}}
	eventually grep -qx "$1" "$of/restarts"
	eventually grep -qx ready "$of/state"
}

# waits PID: the process, or one that it started, waits for pjrtfs to answer its request.
waits()
{
	local pid
	grep -qs request_wait_answer "/proc/$1/wchan" && return
	for pid in $(pgrep -P "$1"); do
		waits "$pid" && return
	done
	return 1
}

# stopped PID: it has taken SIGSTOP, which each thread does when the kernel next runs it.
stopped()
{
	! grep -h '^State:' "/proc/$1/task/"*/status | grep -qv 'T (stopped)'
}

# halt PID: stop it; each thread does so when it gets a processor, and until then goes on.
halt()
{
	kill -STOP "$1"
	eventually stopped "$1"
}

# another PID: another process than PID serves $mnt.
another()
{
	local now
	now=$(bounded cat "$mnt/pid") && [ "$now" != "$1" ]
}

# say FILE TEXT: write the line into the file.
say()
{
	bounded bash -c 'printf "%s\n" "$2" >"$1"' say "$1" "$2"
}

# run NAME LINE: have the executable run.
run()
{
	say "$mnt/executables/$1/run" "$2"
}

# ask TEXT: the replies to commands written in one piece to control, or to FILE if given.
ask()
{
	bounded bash -c 'exec 3<>"$1" && printf "%s\n" "$2" >&3 && exec cat <&3' ask \
		"${2:-$mnt/control}" "$1"
}

# ask_as UID TEXT [FILE]: as ask, by the user with that number.
ask_as()
{
	as "$1" bash -c 'exec 3<>"$1" && printf "%s\n" "$2" >&3 && exec cat <&3' ask \
		"${3:-$mnt/control}" "$2"
}

# settle [MNT]: all is visible that was done in the mount before: events, logs, the cache, frees.
settle()
{
	local said
	said=$(ask '{"op":"settle"}' "${1:-$mnt}/control")
	[ "$said" = '{"ok":true}' ] || fail "settle: $said"
}

# shows FILE TEXT: the file holds the text and a newline.
shows()
{
	local text
	text=$(bounded cat "$1" && echo .) || fail "cannot be read: $1"
	[ "$text" = "$2"$'\n'. ] || fail "$1 holds '${text%.}' instead of '$2'"
}

# tells FILE PATTERN...: the file holds a line with each of the patterns (grep -E).
tells()
{
	local file=$1 text
	shift
	text=$(bounded cat "$file") || fail "cannot be read: $file"
	while [ $# -gt 0 ]; do
		grep -Eq -e "$1" <<<"$text" || fail "nothing like '$1' in $file: $text"
		shift
	done
}

# equal WHAT GOT WANT
equal()
{
	[ "$2" = "$3" ] || fail "$1: '$2' instead of '$3'"
}

# same FILE FILE: the two have the same bytes.
same()
{
	bounded cmp "$1" "$2" || fail "$1 is not $2"
}

# gone FILE...: none of the files exists.
gone()
{
	while [ $# -gt 0 ]; do
		if bounded test -e "$1"; then
			fail "is still there: $1"
		fi
		shift
	done
}

# Is the build one with sanitizers?
sanitized()
{
	grep -qs '^SANITIZE = ..*' "$build/Makefile"
}

# Set $python to a python3 that has NumPy; the first one may be the user's own, without it.
find_numpy()
{
	for python in python3 /usr/bin/python3; do
		"$python" -c 'import numpy' 2>/dev/null && return
	done
	python=
	return 1
}

# posix_cases NAME FACTOR: run tests/tools/posix_NAME.py on a mount, FACTOR times $patience long
# at most; with a third argument also as user 1001, if that can be tried.
posix_cases()
{
	local cases=$top/tests/tools/posix_$1.py limit=$((patience * $2))
	chmod 755 "$work" # other users take part
	"$patient" "$limit" python3 -B "$cases" "$mnt"
	if [ -n "${3:-}" ] && [ -n "$others" ]; then
		bounded chmod 1777 "$mnt/buffers"
		"$patient" "$limit" python3 -B "$cases" --as 1001 "$mnt"
	fi
	shows "$mnt/health" ok
}

# packed TEMPLATE VALUE...: the values as bytes; the template is of Perl's pack: f<* s<* C*.
packed()
{
	perl -e 'print pack(shift, @ARGV)' "$@"
}

# npy DESCR SHAPE [ORDER [VERSION]]: the bytes of standard input as a .npy file.
# ORDER is True for Fortran's; DESCR is quoted here, SHAPE is Python's: npy '<f4' '(2, 3)'.
npy()
{
	perl -e '
		my ($descr, $shape, $order, $version) = @ARGV;
		my $head = "{\x27descr\x27: \x27$descr\x27, \x27fortran_order\x27: $order, " .
			"\x27shape\x27: $shape, }";
		my $before = $version == 1 ? 10 : 12;
		$head .= " " x (-(length($head) + 1 + $before) % 64) . "\n";
		print "\x93NUMPY", chr($version), "\0",
			pack($version == 1 ? "v" : "V", length $head), $head;
		local $/;
		print <STDIN>' "$1" "$2" "${3:-False}" "${4:-1}"
}

# Wait for the end of process PID, which the test started; kill it when the patience ends.
lib_reap()
{
	local status=0
	lib_gone "$1" || {
		echo "the daemon $1 did not end with its mount" >&2
		kill -KILL "$1" 2>/dev/null || true
		status=1
	}
	wait "$1" || status=$?
	return "$status"
}

# Wait until no process PID runs (a zombie does not).
lib_gone()
{
	local lib_begun=$SECONDS lib_before
	lib_before=$(lib_waited)
	# (a process whose first thread has ended has its files until the last one has)
	while grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/task/"*/status; do
		! lib_over "$lib_begun" "$lib_before" || return 1
		sleep 0.05
	done
}

# The process $daemon, which the test did not start itself, ends.
daemon_ended()
{
	lib_gone "$daemon" || fail "the daemon $daemon stays"
	daemon=
}

# at_end COMMAND: it is run at the end of the test, the latest one first, before mounts are undone; lib_status
# is the test's status.
lib_at_end=
at_end()
{
	lib_at_end="$1; $lib_at_end"
}

lib_end()
{
	lib_status=$?
	local i
	trap - EXIT ERR
	set +e
	eval "$lib_at_end"
	exec 3>&- 4>&- 5>&- 6>&- # what a test holds open under a mount keeps it busy
	cd /
	for i in "${!lib_mounts[@]}"; do
		if [ -n "${lib_daemons[i]}" ]; then
			unmount_pjrtfs "${lib_mounts[i]}" || {
				echo "pjrtfs ended with status $?" >&2
				[ "$lib_status" != 0 ] || lib_status=1
			}
		fi
		if [ "$lib_status" != 0 ] && [ "$lib_status" != 77 ]; then
			echo "--- what pjrtfs said" >&2
			tail -n 100 "${lib_mounts[i]}.log" >&2
		fi
		# rmdir fails while a mount remains there, and then no file is removed.
		bounded rmdir "${lib_mounts[i]}" 2>/dev/null || {
			echo "still mounted: ${lib_mounts[i]}" >&2
			exit 1
		}
	done
	# rm would empty a folder of this system that the test has bound there.
	cut -d ' ' -f 5 /proc/self/mountinfo | grep "^$work/" | tac | xargs -r umount -l
	if grep -q " $work/" /proc/self/mountinfo; then
		echo "still mounted below $work" >&2
		exit 1
	fi
	rm -rf --one-file-system "$work"
	exit "$lib_status"
}
trap lib_end EXIT
requires jq --version
! isolated || forget_mounts
