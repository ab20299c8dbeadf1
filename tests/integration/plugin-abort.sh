#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# Programs that abort a real plugin: their writers get an error, and other users' work goes on.
. "$srcdir/tests/words.sh"
mount_pjrtfs
p=${plugin:-cpu}
to=$mnt/programs
b=$mnt/buffers
put_add
run add 'x y -> z'

# Other users work meanwhile: their requests may wait, but none is lost.
others=()
for n in 1 2 3; do
	for _ in 1 2 3 4 5 6 7 8; do
		run add "x y -> other$n" 2>/dev/null || run add "x y -> other$n"
	done &
	others+=($!)
done
fails_with 'Input/output error' cp "$data/overflow.mlir" "$to/"
for n in "${others[@]}"; do
	wait "$n" || fail "an execution failed twice"
done
x=$mnt/executables/overflow
shows "$x/state" failed
tells "$x/error" "^compile overflow: while compiling: .*worker of plugin $p died of signal 6 \(Aborted\)" \
	'printed last: .*overflow'
equal "lines of the error" "$(bounded wc -l <"$x/error")" 1
tells "$mnt/plugins/$p/log" 'overflow'
fails_with '' run overflow '-> z2'
gone "$b/z2.npy"

eventually grep -qx ready "$mnt/plugins/$p/state"
eventually grep -qx ok "$mnt/health"
[ "$(bounded cat "$mnt/plugins/$p/restarts")" -ge 1 ] || fail "the death is not counted"
for n in 1 2 3; do
	shows "$b/other$n.txt" "$sum"
done
shows "$mnt/executables/add/state" ready
run add 'x y -> z'

run add 'x z -> z'
shows "$b/z.txt" $'12 24 36\n48 60 72'
