#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 3 CPU-s in 13 s
# Discovery among broken files: a sentence for each, status 1, good plugins are listed, and
# nothing hangs.
. "$srcdir/tests/lib.sh"
faulty=$build/tests/faults/faulty_plugin.so
so=$plugins/cpu/pjrt_plugin.so
requires test -e "$so"
unset PJRTFS_PLUGIN_PATH PJRT_NAMES_AND_LIBRARY_PATHS PJRT_PLUGIN_LIBRARY_PATH LD_LIBRARY_PATH
mkdir d
ln -s "$so" d/good_pjrt.so
export PJRT_PLUGIN_PATH=$work/d

# lists STATUS [OPTION...]: run, with everything bounded.
lists()
{
	local status=0
	"$patient" $((patience * 10)) "$pjrtfs" --list-plugins "${@:2}" >out 2>err || status=$?
	equal "status ($(cat err))" "$status" "$1"
	grep -A 5 '^good$' out | grep -q '^    platform  cpu' || fail "the good one is lost: $(cat out err)"
}
lists 0

# -- files that are not plugins
echo text >d/text_pjrt.so
mkfifo d/fifo_pjrt.so
ln -s loop_pjrt.so d/loop_pjrt.so
ln -s /dev/zero d/zero_pjrt.so
head -c 100000 "$so" >d/cut_pjrt.so
head -c 4 "$so" >d/short_pjrt.so
cp "$(ldconfig -p | sed -n 's/.* => \(.*libc\.so\.6\)$/\1/p' | head -n 1)" d/libc_pjrt.so
lists 1
for said in "text: $work/d/text_pjrt.so: expected a shared library, found no ELF header" \
	"fifo: $work/d/fifo_pjrt.so: expected a shared library, found a FIFO" \
	"loop: $work/d/loop_pjrt.so: Too many levels of symbolic links" \
	"zero: $work/d/zero_pjrt.so: expected a shared library, found a character device" \
	"cut: $work/d/cut_pjrt.so: .*: it is cut short: 100000 bytes of [0-9]+: download or copy it again" \
	"short: $work/d/short_pjrt.so: .*: it is cut short: 4 bytes of 64: " \
	"libc: $work/d/libc_pjrt.so: .*has no function GetPjrtApi"; do
	grep -Eq "plugin $said" err || fail "nothing of '$said': $(cat err)"
done
equal "sentences" "$(wc -l <err)" 7
for name in text fifo loop zero; do
	fails_with "plugin $name: $work/d/${name}_pjrt.so: " "$pjrtfs" "$name" "$work/d"
done
rm d/[!g]*

# -- plugins that crash while they are loaded or started, refuse, or never return
name=bad${work##*.} # that of no other test's plugin
bad()
{
	PJRTFS_FAULTY=$1 lists 1 "${@:3}"
	grep -Eq "plugin $name: $work/d/${name}_pjrt.so: .*$2" err || fail "$1: $(cat err)"
	equal "sentences of $1" "$(wc -l <err)" 1
}
ln -s "$faulty" "d/${name}_pjrt.so"
bad open=segv 'signal 11'
bad open=abort:'in its constructor' 'signal 6 .*in its constructor'
# ThreadSanitizer changes the status of an exit within dlopen.
sanitized || bad open=exit:3 'status 3'
bad api=null 'GetPjrtApi returned NULL'
bad api=major 'speaks PJRT 99'
bad api=short:20 'has no PJRT_Client_Compile, which nothing works without: it speaks PJRT 0\.81'
bad client=abort:'no devices at all' 'signal 6 .*no devices at all'
bad client=error:UNAVAILABLE:'nothing here' 'nothing here'
bad execute=error:INTERNAL:'no luck' 'execute the program: .*no luck' --check
tells out '^    program   was compiled and executed$'
# A busy machine gives the good one as much time.
bad client=hang:'waits for a driver' "it was not loaded within $((patience / 6)) s; --timeout gives it longer; it printed last: waits for a driver\$" \
	--timeout $((patience / 6))
# The process of a plugin that hangs ends with the list.
! pgrep -f "pjrtfs-worker $name" >/dev/null || fail "a worker stays"
# The JSON has what it printed, at most as many lines as the daemon's log would have; the last is the worker's.
PJRTFS_FAULTY=init=print:300:early,client=error:UNAVAILABLE:none \
	"$patient" $((patience * 10)) "$pjrtfs" --list-plugins --json >out 2>err || true
equal "printed" "$(jq -r '.plugins[] | .printed // empty | length, .[-2]' out)" $'100\nearly 300'
rm "d/${name}_pjrt.so"

# -- directories that cannot be read, are none, or hold too much
ln -s dirloop dirloop
mkdir many
seq 65600 | (cd many && xargs touch)
PJRT_PLUGIN_PATH=$work/dirloop:$work/missing:$work/many:$work/d lists 1
for said in "dirloop: Too many levels" 'missing: No such file' 'many: more than 65536 files'; do
	grep -q "PJRT_PLUGIN_PATH $work/$said" err || fail "nothing of '$said': $(cat err)"
done
equal "sentences" "$(wc -l <err)" 3
rm -r many
if [ "$(id -u)" = 0 ] && setpriv --version >/dev/null 2>&1; then
	mkdir closed
	chmod 700 closed
	chmod 755 "$work"
	# It must reach the programs, too.
	if setpriv --reuid 1001 --regid 1001 --clear-groups test -x "$pjrtfs" -a -r "$so"; then
		status=0
		PJRT_PLUGIN_PATH=$work/closed:$work/d "$patient" $((patience * 10)) \
			setpriv --reuid 1001 --regid 1001 --clear-groups \
			env HOME=/ PATH=/usr/bin "$pjrtfs" --list-plugins >out 2>err || status=$?
		equal "status as a user ($(cat err))" "$status" 1
		grep -q "PJRT_PLUGIN_PATH $work/closed: Permission denied" err || fail "$(cat err)"
		grep -q '^good$' out || fail "the good one is lost: $(cat out)"
	fi
fi
