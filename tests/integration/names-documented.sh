#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All files of a mount are in pjrtfs(5), and all files there are in a mount and described in some page;
# STABILITY.md names what is at the root.
. "$srcdir/tests/words.sh"
requires test "$(id -u)" = 0 # another user has a worker, too
mount_pjrtfs -o allow_other,mode=1777 --isolate user
p=${plugin:-cpu}
put_add
mkdir "$mnt/buffers/m" "$mnt/programs/m"
cp "$data/x.npy" "$mnt/devices/$p/1/buffers/"
cp "$data/add.mlir" "$mnt/programs/m/"
echo 'func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
	%0 = stablehlo.custom_call @pjrtfs_callback(%x) {api_version = 4 : i32,
		backend_config = {index = 0 : ui64}} : (tensor<4xf32>) -> tensor<4xf32>
	return %0 : tensor<4xf32> }' >calls.mlir
cp calls.mlir "$mnt/programs/"
run add 'x y -> z'
ask '{"op":"stat","buffer":"z","async":true}' >out
say "$mnt/users/$(id -u)/memory.max" 1G
cp "$data/add.mlir" theirs.mlir
as 1001 cp theirs.mlir "$mnt/programs/"
# -- the plugin of another mount is in a group
all=$mnt
redis-server --bind 127.0.0.1 --save '' --daemonize yes --pidfile "$work/redis.pid" >/dev/null
at_end "xargs kill <$work/redis.pid"
eventually test -s redis.pid
mount_pjrtfs faulty --group redis://127.0.0.1 --group-name names --group-process 0/1
"$patient" $((patience * 3)) python3 -B "$top/tests/tools/names.py" "$top/docs" \
	"$all" "$mnt" >out || fail "$(cat out)"

# -- a new file is found
mkdir -p copy/devices/x/0
touch copy/devices/x/0/new copy/new
fails_with 'SYNOPSIS: devices/x/0/new' \
	python3 -B "$top/tests/tools/names.py" "$top/docs" copy

for name in $(bounded ls "$mnt"); do
	grep -q "\`${name}[\`/]" "$top/docs/STABILITY.md" || fail "docs/STABILITY.md does not name $name"
done
