#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: tsan
# executables/NAME/callbacks/: programs ask, hosts answer; hosts in shell, awk and Python.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
chmod 755 "$work" # other users take part
"$patient" $((patience * 6)) python3 -B "$top/tests/tools/callbacks.py" "$mnt"
shows "$mnt/health" ok
equal "buffers" "$(bounded ls "$mnt/buffers")" ''

# callback TAKES GIVES: the text of a program that gives what callback 0 makes of its argument.
callback()
{
	echo "func.func @main(%x: tensor<$1>) -> tensor<$2> {
		%0 = stablehlo.custom_call @pjrtfs_callback(%x) {api_version = 4 : i32,
			backend_config = {index = 0 : ui64}} : (tensor<$1>) -> tensor<$2>
		return %0 : tensor<$2> }"
}
host= # the process id of a host
# stop: end it.
stop()
{
	kill "$host"
	wait "$host" || :
	host=
}
x=$mnt/executables
opened() # FILE: the host has it
{
	readlink "/proc/$host/fd/"* | grep -qx "$x/$1"
}

# -- the examples
callback 4xf32 4xf32 >smooth.mlir
callback i32 2x3xf32 >train.mlir
echo 'func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
	stablehlo.custom_call @pjrtfs_callback(%x) {api_version = 4 : i32, has_side_effect = true,
		backend_config = {index = 0 : ui64}} : (tensor<2x3xf32>) -> ()
	return %x : tensor<2x3xf32> }' >tell.mlir
bounded cp smooth.mlir train.mlir tell.mlir "$mnt/programs/"
awk -W interactive -f "$top/docs/examples/callbacks/operator.awk" \
	0<>"$x/smooth/callbacks/0.txt" 1>&0 &
host=$!
echo '2 4 6 8' >a.txt
bounded cp a.txt "$mnt/buffers/"
for _ in 1 2 3; do
	run smooth 'a -> b'
	shows "$mnt/buffers/b.txt" '2 3 4 5'
done
stop

"$top/docs/examples/callbacks/logger.sh" "$x/tell/callbacks/0.txt" >log &
host=$!
bounded cp "$data/x.npy" "$mnt/buffers/"
eventually opened tell/callbacks/0.txt
run tell 'x -> x2'
run tell 'x2 -> x3'
eventually eval '[ "$(wc -l <log)" = 2 ]'
tells log '^[-0-9T:]* 1 2 3 4 5 6$'
stop
"$patient" "$patience" cat "$x/tell/callbacks/0.txt" >log &
host=$! # not that of a shell, which would leave cat behind
eventually eval 'echo "x -> x2" >"$x/tell/run" && grep -qx "1 2 3 4 5 6" log'
stop

if find_numpy; then
	"$python" -c 'import numpy as np
np.save("data.npy", np.arange(15, dtype=np.float32).reshape(5, 3))'
	"$python" -B "$top/docs/examples/callbacks/loader.py" "$x/train/callbacks/0" data.npy &
	host=$!
	eventually opened train/callbacks/0
	for step in 0 1 2; do
		printf '%b' "\\0$step\\0\\0\\0" | npy '<i4' '()' >step.npy
		bounded cp step.npy "$mnt/buffers/"
		run train 'step -> batch'
		case $step in
		0) shows "$mnt/buffers/batch.txt" $'0 1 2\n3 4 5' ;;
		1) shows "$mnt/buffers/batch.txt" $'6 7 8\n9 10 11' ;;
		2) shows "$mnt/buffers/batch.txt" $'12 13 14\n0 1 2' ;;
		esac
	done
	stop
fi

# -- a host in shell, of .npy files: the answer is the argument
bounded bash -c 'exec 3<>"$1"; read -r -u 3 line; head -c 144 <&3 >got.npy; cat got.npy >&3' - \
	"$x/smooth/callbacks/0" &
host=$!
run smooth 'a -> c'
wait "$host"
same got.npy "$mnt/buffers/c.npy"

# -- a host that is slow does not end the worker, only what waits for it
mount_pjrtfs --execute-timeout 1
pid=$(bounded cat "$mnt/plugins/${plugin:-cpu}/pid")
x=$mnt/executables
bounded cp smooth.mlir "$mnt/programs/"
bounded cp a.txt "$mnt/buffers/"
exec 3<>"$x/smooth/callbacks/0.txt"
fails_with 'callbacks/0: no process has answered within the seconds of --execute-timeout' \
	bash -c 'echo "a -> b" >"$1/run" || { cat "$1/run"; exit 1; }' - "$x/smooth"
exec 3>&-
shows "$mnt/plugins/${plugin:-cpu}/pid" "$pid"

# -- unmounted while a program waits
bounded bash -c 'echo "a -> b" >"$1/run"' - "$x/smooth" 2>/dev/null &
run=$!
exec 3<>"$x/smooth/callbacks/0.txt"
read -r line <&3
equal "request" "$line" '2 4 6 8'
bounded fusermount3 -u -z "$mnt"
exec 3>&-
wait "$run" || :
unmount_pjrtfs
