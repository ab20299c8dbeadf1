#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Each of PJRT's codes has its errno, in every operation, and the plugin's sentence is reported.
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs faulty
b=$mnt/buffers
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$data/y.npy" "$b/"
run add 'x y -> z'
bounded cat "$b/z.npy" >z.npy

while read -r code errno text; do
	faults "execute=error:$code:it is $code"
	fails_with "$text" run add 'x y -> z'
	shows "$mnt/executables/add/run" "error: $errno: add: it is $code"
	ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["w"]}' |
		jq -c '[.ok, .error.errno, .error.code, .error.message]' >out
	equal "the reply to $code" "$(cat out)" \
		"[false,\"$errno\",\"$code\",\"add: it is $code\"]"
	faults "execute=event-error:$code:late $code"
	fails_with "$text" run add 'x y -> z'
	shows "$mnt/executables/add/run" "error: $errno: add: late $code"
	# Two codes mean something else when they are a compile's.
	compiled=$text lacks=
	case $code in
	UNKNOWN) compiled='Invalid argument' ;;
	NOT_FOUND)
		compiled='Operation not supported'
		lacks='the program calls a function that the plugin lacks: '
		;;
	esac
	faults "compile=error:$code:it is $code"
	fails_with "$compiled" cp "$data/add.mlir" "$mnt/programs/p.mlir"
	shows "$mnt/executables/p/error" "compile p: ${lacks}it is $code"
	faults "upload=error:$code:it is $code"
	fails_with "$text" cp "$data/x.npy" "$b/u.npy"
	equal "u after $code" "$(bounded jq -c '[.state, .error]' "$b/u.json")" \
		"[\"error\",\"it is $code\"]"
	fails_with '' run add 'x u -> w'
done <<'END'
CANCELLED ECANCELED Operation canceled
UNKNOWN EIO Input/output error
INVALID_ARGUMENT EINVAL Invalid argument
DEADLINE_EXCEEDED ETIMEDOUT Connection timed out
NOT_FOUND ENOENT No such file or directory
ALREADY_EXISTS EEXIST File exists
PERMISSION_DENIED EACCES Permission denied
RESOURCE_EXHAUSTED ENOSPC No space left on device
FAILED_PRECONDITION EBUSY Device or resource busy
ABORTED ECONNABORTED Software caused connection abort
OUT_OF_RANGE ERANGE Numerical result out of range
UNIMPLEMENTED EOPNOTSUPP Operation not supported
INTERNAL EIO Input/output error
UNAVAILABLE ENODEV No such device
DATA_LOSS EIO Input/output error
UNAUTHENTICATED EACCES Permission denied
END

# -- the plugin gets the number of the launch, which this one refuses
ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["w"],"launch_id":2147483647}' >out
grep -q '"message":"add: faulty: launch 2147483647"' out || fail "launch_id: $(cat out)"

# No buffer was replaced or made, and all operations work again.
faults
gone "$b/w.npy"
same "$b/z.npy" z.npy
bounded cp "$data/x.npy" "$b/u.npy"
run add 'x u -> w'
bounded cp "$data/add.mlir" "$mnt/programs/p.mlir"
run p 'x u -> w'
shows "$mnt/plugins/faulty/restarts" 0
shows "$mnt/health" ok
