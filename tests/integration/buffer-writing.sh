#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# How bytes become an array: in pieces, out of order, and while other processes read the former value.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
requires python3 --version
mount_pjrtfs
b=$mnt/buffers
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$b/x.npy"
x=$data/x.npy
state()
{
	bounded jq -r .state "$b/$1.json"
}

# -- pieces by several programs through one descriptor
bounded bash -c '{ head -c 77 "$1"; tail -c +78 "$1"; } | cat >"$2"' - "$x" "$b/p.npy"
same "$b/p.npy" "$x"
# each program's exit flushes: the error of the incomplete ones is not the last word
bounded bash -c 'exec 3>"$2"; head -c 100 "$1" >&3 || true; tail -c +101 "$1" >&3' - "$x" "$b/q.npy"
same "$b/q.npy" "$x"
run add 'p q -> sum'
# tiny writes, and appending
bounded dd if="$x" of="$b/tiny.npy" bs=1 status=none
same "$b/tiny.npy" "$x"
head -c 140 "$x" >half
fails_with 'Invalid argument' cp half "$b/app.npy"
equal "incomplete" "$(state app | sed s/error/incomplete/)" incomplete
tail -c +141 "$x" | bounded tee -a "$b/app.npy" >/dev/null
same "$b/app.npy" "$x"
equal "complete" "$(state app)" ready

# -- out of order; a descriptor that also reads sees what was written
bounded python3 -c 'import os, sys
data = open(sys.argv[1], "rb").read()
f = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
os.pwrite(f, data[:128], 0)
os.pwrite(f, data[140:], 140)
os.pwrite(f, data[128:140], 128)
assert os.pread(f, 1000, 0) == data
assert os.pread(f, 1000, 150) == data[150:]
assert os.pread(f, 10, 152) == b""
os.close(f)' "$x" "$b/order.npy"
same "$b/order.npy" "$x"

# -- fsync commits
bounded dd if="$x" of="$b/dd.npy" bs=100 conv=fsync status=none
same "$b/dd.npy" "$x"

# -- close(2) reports a flush that fails; the next write through the same open revives it
bounded python3 -c 'import errno, os, sys
data = open(sys.argv[1], "rb").read()
f = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
os.write(f, data[:100])
try:
    os.close(os.dup(f))
    raise SystemExit("close of an incomplete array succeeded")
except OSError as e:
    assert e.errno == errno.EINVAL, e
try: # not written since: the error is reported again, as the former writer may have ignored it
    os.close(os.dup(f))
    raise SystemExit("the second close forgot")
except OSError:
    pass
os.write(f, data[100:])
os.close(os.dup(f))
os.close(f)' "$x" "$b/dup.npy"
same "$b/dup.npy" "$x"
equal "revived" "$(state dup)" ready

# -- truncate
fails_with 'Invalid argument' truncate -s 140 "$b/dup.npy"
equal "size" "$(bounded stat -c %s "$b/dup.npy")" 140
bounded truncate -s 0 "$b/dup.npy"
equal "emptied" "$(state dup)" empty
fails_with '' run add 'x dup -> never'

# -- open readers keep the old value when the name gets another
head -c 4194304 /dev/urandom >one.raw
head -c 4194304 /dev/urandom >two.raw
npy '<f4' '(1048576,)' <one.raw >one.npy
npy '<f4' '(1048576,)' <two.raw >two.npy
# reading NAME COMMAND...: begin to read NAME, do the command, read the rest: one.npy
reading()
{
	local view=$1
	shift
	exec 5<"$b/$view"
	head -c 1000 <&5 >got
	bounded "$@"
	bounded cat <&5 >>got
	exec 5<&-
	cmp got "one.${view##*.}" || fail "a reader of $view lost its value in: $*"
}
for view in big.npy big.raw; do
	bounded cp one.npy "$b/big.npy"
	reading "$view" cp two.npy "$b/big.npy"
	same "$b/big.npy" two.npy
done
# an output over the name
echo 'func.func @main(%x: tensor<1048576xi32>) -> tensor<1048576xi32> {
%0 = stablehlo.not %x : tensor<1048576xi32>
return %0 : tensor<1048576xi32> }' >neg.mlir
bounded cp neg.mlir "$mnt/programs/"
npy '<i4' '(1048576,)' <one.raw >one.npy
bounded cp one.npy "$b/big.npy"
reading big.npy bash -c 'echo "big -> big" >"$1/executables/neg/run"' - "$mnt"
! bounded cmp -s "$b/big.npy" one.npy || fail "the output did not take the name"
run neg 'big -> big'
same "$b/big.npy" one.npy

# -- two that write the same name at once: one of them is there, whole
for _ in 1 2 3; do
	bounded cp one.npy "$b/race.npy" &
	first=$!
	bounded cp two.npy "$b/race.npy" &
	wait "$first" || true
	wait $! || true
	bounded rm -f "$b/race.npy"
done
bounded cp one.npy "$b/race.npy"
same "$b/race.npy" one.npy
equal "health" "$(bounded cat "$mnt/health")" ok

# -- one view is open to write: another view cannot be opened so, the same view can
exec 5>"$b/race.npy"
fails_with 'busy' bash -c 'echo 1 2 3 >"$1"' - "$b/race.txt"
bounded cp one.npy "$b/race.npy"
exec 5>&-
eventually bash -c 'echo 1 2 3 >"$1"' - "$b/race.txt"
shows "$b/race.txt" '1 2 3'
