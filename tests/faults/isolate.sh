#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 7 CPU-s in 8 s
# With --isolate=user the process that runs a user's programs has no other user's bytes, whichever
# way these came to the mount; without, it has them.
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
chmod 755 "$work"
# secret SEED: 4 KiB of the pattern that the faulty plugin searches for
secret()
{
	python3 -c 'import sys; s = int(sys.argv[1])
sys.stdout.buffer.write(bytes((s + 7 * (i % 64)) % 256 for i in range(4096)))' "$1"
}
for seed in 1 2 3 4 5; do
	secret "$seed" >"secret$seed.raw"
done
cp "$data/x.npy" "$data/y.npy" "$data/add.mlir" .
chmod 644 ./*.npy ./*.raw add.mlir

# begin OPTION...: mount, with a directory, a program and arrays of users 1001 and 1002
begin()
{
	mount_pjrtfs faulty -o allow_other --mode 1777 --sandbox off --memory-limit 256M "$@"
	for uid in 1001 1002; do
		as "$uid" mkdir "$mnt/buffers/$uid" "$mnt/programs/$uid"
		as "$uid" cp x.npy y.npy "$mnt/buffers/$uid/"
		as "$uid" cp add.mlir "$mnt/programs/$uid/"
	done
}
# search UID SEED COUNT: a program of UID finds the pattern of SEED so often in its process
search()
{
	faults "execute=search:$2"
	as "$1" bash -c 'echo "$2/x $2/y -> $2/z" >"$1"' - "$mnt/executables/$1/add/run" "$1"
	eventually grep -Eqx "searched for $2: found $3" "$log"
	faults
}

begin --isolate user
b=$mnt/buffers
log=$mnt/plugins/faulty/users/1001/log
# -- what a user writes is in the process of this user's programs, and in no other
as 1001 cp secret1.raw "$b/1001/"
as 1001 chmod 600 "$b/1001/secret1.raw"
search 1001 1 64
log=$mnt/plugins/faulty/users/1002/log
search 1002 1 0
log=$mnt/plugins/faulty/log
bounded cp add.mlir "$mnt/programs/"
bounded cp x.npy y.npy "$b/"
faults execute=search:1
run add 'x y -> z'
eventually grep -qx 'searched for 1: found 0' "$log"

# -- a file that began as a copy of another user's
log=$mnt/plugins/faulty/users/1002/log
as 1002 cp secret2.raw "$b/1002/"
as 1001 cp "$b/1002/secret2.raw" "$b/1001/copy.raw"
as 1001 dd if=secret3.raw of="$b/1001/copy.raw" conv=notrunc bs=4096 status=none
search 1002 3 0
search 1002 2 64
# -- a file whose content another user's result has replaced
as 1001 cp x.npy "$b/1001/shared.npy"
as 1001 chmod 666 "$b/1001/shared.npy"
as 1002 bash -c 'echo "1002/x 1002/y -> 1001/shared" >"$1"' - "$mnt/executables/1002/add/run"
equal "the owner" "$(bounded stat -c %u "$b/1001/shared.npy")" 1001
python3 -c 'import sys; head = b"{\"descr\": \"|u1\", \"fortran_order\": False, \"shape\": (4096,)}"
sys.stdout.buffer.write(b"\x93NUMPY\1\0\x76\0" + head.ljust(117) + b"\n")
sys.stdout.buffer.write(open("secret4.raw", "rb").read())' >secret4.npy
chmod 644 secret4.npy
as 1001 cp secret4.npy "$b/1001/shared.npy"
search 1002 4 0
# -- a file that another user had before
as 1002 cp x.npy "$b/1002/given.raw"
bounded chown 1001 "$b/1002/given.raw"
as 1001 cp secret5.raw "$b/1002/given.raw"
same "$b/1002/given.raw" secret5.raw
search 1002 5 0
log=$mnt/plugins/faulty/users/1001/log
for seed in 3 4 5; do
	search 1001 "$seed" 64
done
unmount_pjrtfs

# -- without isolation all users' bytes are there
begin
log=$mnt/plugins/faulty/log
as 1001 cp secret1.raw "$mnt/buffers/1001/"
as 1001 chmod 600 "$mnt/buffers/1001/secret1.raw"
search 1002 1 64
gone "$mnt/plugins/faulty/users"
