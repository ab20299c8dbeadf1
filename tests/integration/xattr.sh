#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# What is known of a buffer as extended attributes; setting type, shape and memory.
. "$srcdir/tests/words.sh"
requires getfattr --version
mount_pjrtfs ${others:+-o allow_other}
b=$mnt/buffers
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$b/"
tail -c 24 "$data/x.npy" >x.raw
get() # FILE KEY
{
	bounded getfattr --only-values --absolute-names -n "user.pjrtfs.$2" "$1"
}
set_to() # FILE KEY VALUE
{
	bounded setfattr -n "user.pjrtfs.$2" -v "$3" "$1"
}
# is NAME JSON, shown NAME JSON: its type, shape and state, at some time or now
is()
{
	[ "$(bounded jq -c '[.dtype, .shape, .state]' "$b/$1.json")" = "$2" ]
}
shown()
{
	is "$@" || fail "$1 is not $2: $(bounded cat "$b/$1.json")"
}

# -- getfattr -d shows what x.json shows, of each view
for view in npy raw txt json; do
	for key in dtype shape state device memory bytes on_device_bytes layout; do
		equal "$key of x.$view" "$(get "$b/x.$view" $key)" "$(bounded jq -rc ".$key" "$b/x.json")"
	done
done
bounded getfattr --absolute-names -d "$b/x.npy" >dump
tells dump '^user.pjrtfs.dtype="F32"$' '^user.pjrtfs.shape="\[2,3\]"$' '^user.pjrtfs.bytes="24"$'
run add 'x x -> z'
equal "an output's" "$(get "$b/z.npy" dtype)$(get "$b/z.npy" shape)" 'F32[2,3]'
equal "a scalar's shape" "$(packed 'f<' 1 | npy '<f4' '()' | bounded tee "$b/s.npy" >/dev/null && get "$b/s.npy" shape)" '[]'

# -- attributes that do not exist
bounded touch "$b/scratch"
fails_with 'No such attribute' get "$b/scratch" dtype
bounded python3 -c 'import errno, os, sys
b = sys.argv[1]
def fails(names, fn, *args):
    try:
        fn(*args)
    except OSError as e:
        assert e.errno in [getattr(errno, n) for n in names.split()], (e, names, args)
    else:
        raise SystemExit(f"succeeded: {fn.__name__}{args}")
x = b + "/x.npy"
names = os.listxattr(x)
assert len(names) == len(set(names)), names
for name in names:
    assert os.getxattr(x, name), name
fails("EOPNOTSUPP EPERM", os.setxattr, x, "trusted.mine", b"1")
# read-only attributes: setting and removing them succeeds, for tools that copy, without effect
for name in names:
    before = os.getxattr(x, name)
    if name.split(".")[2] not in ("dtype", "shape", "memory"):
        os.setxattr(x, name, b"17")
    os.removexattr(x, name)
    assert os.getxattr(x, name) == before, name
fails("ENODATA", os.removexattr, x, "user.pjrtfs.none")
fails("ENODATA", os.removexattr, b + "/scratch", "user.pjrtfs.dtype")
with open(b + "/x.npy", "rb") as f, open(sys.argv[2], "rb") as g:
    assert f.read() == g.read()
' "$b" "$data/x.npy"
shown x '["F32",[2,3],"ready"]'

# -- a .raw file has no type: attributes set it beforehand
bounded touch "$b/r.raw"
set_to "$b/r.raw" dtype F32
set_to "$b/r.raw" shape '[2,3]'
fails_with 'Invalid argument' bounded tee "$b/r.raw" <<<abc
bounded cp x.raw "$b/r.raw"
shown r '["F32",[2,3],"ready"]'
run add 'x r -> z'
shows "$b/z.txt" $'2 4 6\n8 10 12'
# and afterwards: the bytes are a new array
bounded cp x.raw "$b/late.raw"
shown late '["U8",[24],"ready"]'
set_to "$b/late.raw" dtype float32
eventually is late '["F32",[6],"ready"]'
set_to "$b/late.raw" shape '[2,3]'
eventually is late '["F32",[2,3],"ready"]'
shows "$b/late.txt" $'1 2 3\n4 5 6'
same "$b/late.raw" x.raw
run add 'late r -> z'
shows "$b/z.txt" $'2 4 6\n8 10 12'
# the shape only, the type only
set_to "$b/late.raw" shape '[3,2]'
eventually is late '["F32",[3,2],"ready"]'
fails_with '' run add 'late r -> never'
set_to "$b/late.raw" dtype S32
eventually is late '["S32",[3,2],"ready"]'
shows "$b/late.txt" $'1065353216 1073741824\n1077936128 1082130432\n1084227584 1086324736'
# an impossible value changes nothing
fails_with 'Invalid argument' set_to "$b/late.raw" shape '[7]'
shown late '["S32",[3,2],"ready"]'
head -c 23 x.raw | bounded tee "$b/odd.raw" >/dev/null
fails_with 'Invalid argument' set_to "$b/odd.raw" dtype F32
shown odd '["U8",[23],"ready"]'

# copied in the order of tmpfs: the shape awaits the type, as long as the file is open
python3 -c '
import errno, os, sys
path = sys.argv[1]
def refused(name, value):
    try:
        os.setxattr(path, "user.pjrtfs." + name, value)
    except OSError as e:
        return e.errno == errno.EINVAL
    return False
with open(path, "wb") as f:
    f.write(bytes(24))
    f.flush()
    assert refused("shape", b"[3,2]")
    for name, value in (("state", b"ready"), ("shape", b"[3,2]"), ("id", b"7"), ("dtype", b"S32")):
        os.setxattr(path, "user.pjrtfs." + name, value)
assert refused("shape", b"[7]")
' "$b/copied.raw"
shown copied '["S32",[3,2],"ready"]'

# -- attributes set a scratch file's later type and shape
bounded cp x.raw "$b/scratch"
set_to "$b/scratch" dtype S16
set_to "$b/scratch" shape '[3,4]'
equal "scratch" "$(get "$b/scratch" dtype)$(get "$b/scratch" shape)" 'S16[3,4]'
bounded mv "$b/scratch" "$b/no-scratch.raw"
eventually is no-scratch '["S16",[3,4],"ready"]'
bounded touch "$b/scratch"
set_to "$b/scratch" shape '[5]'
bounded cp x.raw "$b/scratch"
fails_with 'subdirectory of itself' mv "$b/scratch" "$b/scratch.raw"
same "$b/scratch" x.raw
bounded cp "$data/x.npy" "$b/scratch" # a .npy says itself what it is
bounded mv "$b/scratch" "$b/says.npy"
eventually is says '["F32",[2,3],"ready"]'

# -- a .npy that names no type; one that does is what it says
bounded touch "$b/v.npy"
set_to "$b/v.npy" dtype BF16
packed 'S<*' 16256 49024 | npy '|V2' '(2,)' >v.npy
bounded cp v.npy "$b/v.npy"
shown v '["BF16",[2],"ready"]'
same "$b/v.npy" v.npy
shows "$b/v.txt" '1 -1'
packed 'C*' 56 184 | npy '|V1' '(2,)' >w.npy
# set afterwards it cures the refusal
fails_with 'Invalid argument' cp w.npy "$b/w.npy"
set_to "$b/w.npy" dtype S4
shown w '["S4",[2],"ready"]'
# text
bounded touch "$b/t.txt"
set_to "$b/t.txt" dtype S8
bounded tee "$b/t.txt" >/dev/null <<<'1 -2'
shown t '["S8",[2],"ready"]'
for type in U8 PRED; do # which cannot be -2: the array stays
	fails_with 'Invalid argument' set_to "$b/t.txt" dtype $type
	shown t '["S8",[2],"ready"]'
done

# -- memory: it moves, and what is there stays
for memory in $(bounded ls "$mnt/devices/${plugin:-cpu}/0/memories") device; do
	set_to "$b/x.npy" memory "$memory"
	eventually eval "jq -e '[.memory, .state] == [\"$memory\", \"ready\"]' '$b/x.json'"
	equal "memory" "$(get "$b/x.npy" memory)" "$memory"
	same "$b/x.npy" "$data/x.npy"
	same "$b/x.raw" x.raw
done
run add 'x x -> z'
# before there are bytes
bounded touch "$b/p.npy"
set_to "$b/p.npy" memory pinned_host
bounded cp "$data/x.npy" "$b/p.npy"
equal "memory" "$(bounded jq -r '.memory + .state' "$b/p.json")" pinned_hostready
same "$b/p.npy" "$data/x.npy"

# -- kept by mv; tools.sh copies them
bounded mv "$b/p.npy" "$b/p2.npy"
equal "after mv" "$(get "$b/p2.npy" memory)" pinned_host

# -- rights: reading attributes needs read permission on the file, setting them write permission
if [ -n "$others" ]; then
	bounded cp x.raw "$b/r.raw"
	bounded chmod 644 "$b/r.raw"
	equal "another user" "$(as 1001 getfattr --only-values --absolute-names -n user.pjrtfs.dtype "$b/r.raw")" F32
	fails_with 'ermission denied' as 1001 setfattr -n user.pjrtfs.dtype -v S32 "$b/r.raw"
	fails_with 'ermission denied' as 1001 setfattr -n user.pjrtfs.memory -v pinned_host "$b/r.raw"
	bounded chmod 600 "$b/r.raw"
	fails_with 'ermission denied' as 1001 getfattr --absolute-names -n user.pjrtfs.dtype "$b/r.raw"
	bounded chmod 666 "$b/r.raw"
	as 1001 setfattr -n user.pjrtfs.dtype -v S32 "$b/r.raw"
	eventually is r '["S32",[2,3],"ready"]'
fi
shows "$mnt/health" ok
