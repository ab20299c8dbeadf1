#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A new source for a program, good or bad: what is there is what was written last.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs
to=$mnt/programs
x=$mnt/executables/p
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
sed 's/stablehlo.add/stablehlo.multiply/' "$data/add.mlir" >mul.mlir
sed 's/stablehlo.add/stablehlo.nothing/' "$data/add.mlir" >bad.mlir

cp "$data/add.mlir" "$to/p.mlir"
run p 'x y -> sum'
bounded cp mul.mlir "$to/p.mlir"
same "$to/p.mlir" mul.mlir
run p 'x y -> product'
! bounded cmp -s "$mnt/buffers/sum.npy" "$mnt/buffers/product.npy" ||
	fail "the old program ran"

# -- a failing new source: failed, and the old one does not run
fails_with 'Invalid argument' cp bad.mlir "$to/p.mlir"
shows "$x/state" failed
tells "$x/error" '^compile p: .*nothing'
fails_with 'write error' run p 'x y -> stale'
tells "$x/run" '^error: E[A-Z]+: p: .*nothing'
gone "$mnt/buffers/stale.npy"
same "$to/p.mlir" bad.mlir

# -- and a good one again
bounded cp "$data/add.mlir" "$to/p.mlir"
shows "$x/state" ready
[ ! -s "$x/error" ] || fail "the error stays: $(bounded cat "$x/error")"
run p 'x y -> again'
same "$mnt/buffers/again.npy" "$mnt/buffers/sum.npy"

# -- emptied
: >"$to/p.mlir"
shows "$x/state" empty
fails_with 'rror' run p 'x y -> stale'
gone "$mnt/buffers/stale.npy"
bounded cp "$data/add.mlir" "$to/p.mlir"

# -- closing without having written does not compile again
bounded cat "$x/info.json" >info
bounded cat "$to/p.mlir" >/dev/null
bounded touch "$to/p.mlir"
bounded bash -c 'exec 3>>"$1"' - "$to/p.mlir"
bounded cat "$x/info.json" >info2
same info info2

# -- appended to, written in the middle
printf '// a comment\n' | bounded tee -a "$to/p.mlir" >/dev/null
shows "$x/state" ready
tail -n 1 "$to/p.mlir" | grep -q 'a comment'
at=$(grep -bo stablehlo.add "$data/add.mlir" | cut -d: -f1)
printf 'stablehlo.sub' >sub
fails_with 'Invalid argument' dd if=sub of="$to/p.mlir" bs=1 seek="$at" conv=notrunc status=none
shows "$x/state" failed

# -- options.json before the program: the first compile uses these options
bounded touch "$to/o.mlir"
say "$mnt/executables/o/options.json" '{"num_replicas":2}'
shows "$mnt/executables/o/state" empty
bounded cp "$data/add.mlir" "$to/o.mlir"
shows "$mnt/executables/o/state" ready
bounded jq -e '.num_replicas == 2' "$mnt/executables/o/options.json" >/dev/null
bounded jq -e '.num_replicas == 2' "$mnt/executables/o/info.json" >/dev/null ||
	fail "compiled with other options: $(bounded cat "$mnt/executables/o/info.json")"
# writing them compiles again
say "$mnt/executables/o/options.json" '{"num_replicas":1}'
bounded jq -e '.num_replicas == 1' "$mnt/executables/o/info.json" >/dev/null
run o 'x y -> z'
same "$mnt/buffers/z.npy" "$mnt/buffers/sum.npy"
# wrong options are refused, error says why, and the compiled program stays
for bad in '[1]' '{"num_replicas":"two"}' '{"num_replicas":0}' '{"nothing":1}' '{"num_replicas":1' \
	'{"num_replicas":1,"num_replicas":2}' '{"num_replicas":-3}' '{"num_replicas":99}'; do
	fails_with 'Invalid argument' bash -c 'printf %s "$2" | tee "$1" >/dev/null' - \
		"$mnt/executables/o/options.json" "$bad"
	tells "$mnt/executables/o/error" '^options of o: '
	bounded jq -e '.num_replicas == 1' "$mnt/executables/o/options.json" >/dev/null
	run o 'x y -> z'
done
say "$mnt/executables/o/options.json" '{}'
shows "$mnt/executables/o/state" ready
bounded test ! -s "$mnt/executables/o/error" || fail "the error stays"
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
