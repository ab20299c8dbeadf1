#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tools that walk the whole mount end, and find what is there, while it is busy.
. "$srcdir/tests/words.sh"
mount_pjrtfs
put_add
mkdir "$mnt/buffers/ns"
cp "$data/x.npy" "$mnt/buffers/ns/"
run add 'x y -> z'
head -c 4194304 /dev/zero | npy '<f4' '(1048576,)' >big.npy

# Executions, uploads and compiles go on until the file stop is there.
busy()
{
	local n=0
	while [ ! -e stop ]; do
		n=$((n + 1))
		"$@" "$n" || {
			echo "$* $n" >>busy.failed
			return
		}
	done
}
execute()
{
	run add "x y -> out$(($1 % 3))"
}
upload()
{
	bounded cp big.npy "$mnt/buffers/up.npy"
}
replace()
{
	bounded cp big.npy "$mnt/buffers/part" && bounded mv "$mnt/buffers/part" "$mnt/buffers/mv.npy"
}
compile()
{
	bounded cp "$data/add.mlir" "$mnt/programs/p$(($1 % 2)).mlir" &&
		bounded rm "$mnt/programs/p$(($1 % 2)).mlir"
}
jobs=()
for what in execute upload replace compile; do
	busy "$what" &
	jobs+=($!)
done
stop()
{
	touch "$work/stop"
	wait "${jobs[@]}"
}
at_end stop

# Names that disappear meanwhile may be missed, and the text of a file that counts may be shorter
# than stat said: each tool reports only those.
allowed='file changed as we read it|File shrank by|mlir|executables|up\.|mv\.|part|out[0-2]'
ends()
{
	local status=0
	"$patient" $((patience * 3)) "$@" >out 2>err || status=$?
	[ "$status" -lt 124 ] || fail "does not end: $*"
	grep -vE "$allowed" err >bad || true
	[ ! -s bad ] || fail "$*: $(cat bad)"
}
for _ in $(seq "$times"); do
	mkdir copy
	ends cp -r "$mnt/." copy
	same copy/buffers/x.npy "$data/x.npy"
	same copy/buffers/ns/x.npy "$data/x.npy"
	same copy/programs/add.mlir "$data/add.mlir"
	rm -rf copy
	ends grep -r stablehlo.add "$mnt"
	grep -q /programs/add.mlir out ||
		fail "grep -r does not find add.mlir: $(cat out)"
	ends tar -C "$mnt" -cf - .
	tar tf out >list
	grep -qx ./buffers/ns/x.npy list || fail "tar does not find buffers/ns/x.npy"
	ends find "$mnt" -ls
	grep -q /buffers/z.npy out || fail "find does not find z.npy"
	ends du -s "$mnt"
	ends ls -lR "$mnt"
done

stop
[ ! -e busy.failed ] || fail "failed meanwhile: $(cat busy.failed)"
unharmed
