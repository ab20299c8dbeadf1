#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# programs/ and executables/: mv, rm, mkdir, scratch names, new sources.  refused.sh has
# which names exclude each other.
. "$srcdir/tests/words.sh"
mount_pjrtfs
to=$mnt/programs
made=$mnt/executables
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"

# -- mv also renames the executable, without another compile
cp "$data/add.mlir" "$to/a.mlir"
bounded cat "$made/a/info.json" >info
bounded mv "$to/a.mlir" "$to/b.mlir"
gone "$made/a" "$to/a.mlir"
bounded cat "$made/b/info.json" >info.b
same info info.b
equal "b's program" "$(bounded readlink "$made/b/program")" ../../programs/b.mlir
run b 'x y -> z'
bounded cat "$mnt/buffers/z.txt" >sum
sed 's/stablehlo.add/stablehlo.multiply/' "$data/add.mlir" >mul.mlir

# -- rm
bounded rm "$to/b.mlir"
gone "$made/b" "$to/b.mlir"
fails_with 'No such file' run b 'x y -> z'

# -- a directory is a namespace in both
cp "$data/add.mlir" "$to/a.mlir"
bounded mkdir "$to/ns" "$to/ns/deep"
bounded test -d "$made/ns/deep"
cp "$data/add.mlir" "$to/ns/a.mlir"
cp mul.mlir "$to/ns/deep/a.mlir"
shows "$made/ns/a/state" ready
equal "ns/deep/a's program" "$(bounded realpath "$made/ns/deep/a/program")" "$to/ns/deep/a.mlir"
run ns/a 'x y -> z'
same "$mnt/buffers/z.txt" sum
run ns/deep/a 'x y -> z'
bounded cat "$mnt/buffers/z.txt" >product
! cmp -s sum product || fail "ns/deep/a is ns/a"
good '{"op":"execute","executable":"ns/deep/a","inputs":["x","y"],"outputs":["z2"]}'
same "$mnt/buffers/z2.txt" product
fails_with 'not empty' rmdir "$to/ns"
bounded mv "$to/ns" "$to/moved"
gone "$made/ns"
run moved/deep/a 'x y -> z'
bounded mv "$to/moved/deep/a.mlir" "$to/up.mlir"
run up 'x y -> z'
same "$mnt/buffers/z.txt" product
bounded rmdir "$to/moved/deep"
gone "$made/moved/deep"
bounded rm -r "$to/moved"
gone "$made/moved" "$to/moved"
fails_with 'No such file' ls "$made/moved/a"

# -- scratch names: kept, never compiled, and not in executables
bounded cp "$data/x.npy" "$to/p.mlir.part"
bounded cp "$data/add.mlir" "$to/notes"
same "$to/p.mlir.part" "$data/x.npy"
gone "$made/notes" "$made/p.mlir.part" "$made/p"
cp "$data/add.mlir" "$to/p.mlir.part"
bounded mv "$to/p.mlir.part" "$to/p.mlir"
eventually grep -qx ready "$made/p/state"
run p 'x y -> z'
# back to a scratch name: not runnable any more
bounded mv "$to/p.mlir" "$to/p.bak"
gone "$made/p"
same "$to/p.bak" "$data/add.mlir"
# -- a new source, good or bad: what is there is what was written last
x=$made/r
sed 's/stablehlo.add/stablehlo.nothing/' "$data/add.mlir" >bad.mlir

cp "$data/add.mlir" "$to/r.mlir"
run r 'x y -> sum'
bounded cp mul.mlir "$to/r.mlir"
same "$to/r.mlir" mul.mlir
run r 'x y -> product'
! bounded cmp -s "$mnt/buffers/sum.npy" "$mnt/buffers/product.npy" ||
	fail "the old program ran"

# -- a new source that does not compile: the program before goes on, and everything says so
not_updated()
{
	tells "$x/state" '^ready, update failed: .*nothing'
	tells "$x/error" '^compile r: .*nothing' '^r runs what was compiled before$'
	run r 'x y -> before'
	same "$mnt/buffers/before.npy" "$mnt/buffers/product.npy"
}
fails_with 'Invalid argument' cp bad.mlir "$to/r.mlir"
not_updated
same "$to/r.mlir" bad.mlir
tells "$mnt/events" '"program.failed".*"executables/r".*"kept":true'
tells "$mnt/metrics.prom" '^pjrtfs_program_updates_failed_total\{.*\} 1$'
kill_worker
not_updated

# -- nor does it replace one by a rename
fails_with 'Invalid argument' cp bad.mlir "$to/next.mlir"
fails_with 'Exec format error' mv "$to/next.mlir" "$to/r.mlir"
not_updated
bounded mv "$to/next.mlir" "$to/next.part"
bounded mv "$to/next.part" "$to/r.mlir"
eventually grep -q '^ready' "$x/state" # a scratch name that becomes a program compiles later
not_updated
same "$to/r.mlir" bad.mlir

# -- and a good one again
bounded cp "$data/add.mlir" "$to/r.mlir"
shows "$x/state" ready
[ ! -s "$x/error" ] || fail "the error stays: $(bounded cat "$x/error")"
run r 'x y -> again'
same "$mnt/buffers/again.npy" "$mnt/buffers/sum.npy"

# -- emptied
: >"$to/r.mlir"
shows "$x/state" 'ready, update failed: its file is empty'
run r 'x y -> again'
bounded cp "$data/add.mlir" "$to/r.mlir"
shows "$x/state" ready
: >"$to/empty.mlir"
shows "$made/empty/state" empty
fails_with 'rror' run empty 'x y -> stale'
gone "$mnt/buffers/stale.npy"

# -- closing without having written does not compile again
bounded cat "$x/info.json" >info
bounded cat "$to/r.mlir" >/dev/null
bounded touch "$to/r.mlir"
bounded bash -c 'exec 3>>"$1"' - "$to/r.mlir"
bounded cat "$x/info.json" >info2
same info info2

# -- appended to, written in the middle
printf '// a comment\n' | bounded tee -a "$to/r.mlir" >/dev/null
shows "$x/state" ready
tail -n 1 "$to/r.mlir" | grep -q 'a comment'
at=$(grep -bo stablehlo.add "$data/add.mlir" | cut -d: -f1)
printf 'stablehlo.sub' >sub
fails_with 'Invalid argument' dd if=sub of="$to/r.mlir" bs=1 seek="$at" conv=notrunc status=none
tells "$x/state" '^ready, update failed'
shows "$mnt/plugins/${plugin:-cpu}/restarts" 1
