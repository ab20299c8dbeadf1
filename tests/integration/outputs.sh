#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# Where results go: new names, names that are taken, an input's own; what is donated; results as files.
. "$srcdir/tests/words.sh"
mount_pjrtfs
b=$mnt/buffers
cp "$data/add.mlir" "$mnt/programs/"
cat >swap.mlir <<'END'
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  return %y, %0 : tensor<2x3xf32>, tensor<2x3xf32>
}
END
bounded cp swap.mlir "$mnt/programs/"
fresh()
{
	bounded rm -rf "$b"/*
	cp "$data/x.npy" "$data/y.npy" "$b/"
}
one=$'1 2 3\n4 5 6' two=$'2 4 6\n8 10 12' ten=$'10 20 30\n40 50 60'

# -- new names
fresh
run swap 'x y -> p q'
shows "$b/p.txt" "$ten"
shows "$b/q.txt" "$two"
equal "listed" "$(bounded ls "$b" | tr '\n' ' ')" 'p.npy q.npy x.npy y.npy '
equal "made by" "$(bounded jq -r .made_by "$b/p.json")" swap
equal "size" "$(bounded stat -c %s "$b/p.npy")" 152

# -- a result's mode is by the umask; over a name, the inode is new, and the mode stays
(
	umask 027
	run add 'x y -> masked'
)
equal "a result's mode" "$(bounded stat -c %a "$b/masked.npy")" 640
ino=$(bounded stat -c %i "$b/masked.npy")
run add 'x x -> masked'
[ "$(bounded stat -c %i "$b/masked.npy")" != "$ino" ] || fail "a result keeps the inode"
equal "its mode" "$(bounded stat -c %a "$b/masked.npy")" 640

# -- an input's name: the input is read first
run add 'x y -> x'
shows "$b/x.txt" "$sum"
fresh
run swap 'x y -> y x'
shows "$b/x.txt" "$two"
shows "$b/y.txt" "$ten"
for _ in 1 2 3 4 5; do
	run add 'x x -> x'
done
shows "$b/x.txt" $'64 128 192\n256 320 384'

# -- a name of another format: the buffer has one name, and that is .npy
fresh
echo 5 | bounded tee "$b/t.txt" >/dev/null
run add 'x y -> t'
equal "listed" "$(bounded ls "$b" | tr '\n' ' ')" 't.npy x.npy y.npy '
shows "$b/t.txt" "$sum"

# -- one name for two results: refused, before any run or replacement
fails_with 'Invalid argument' run swap 'x y -> r r'
tells "$mnt/executables/swap/run" '^error: EINVAL: swap: outputs 0 and 1 are both called r$'
fails_with 'Invalid argument' run swap 'x y -> x x.npy'
gone "$b/r.npy"
same "$b/x.npy" "$data/x.npy"

# -- a failing command replaces no buffer
fails_with '' run swap 'x nothing -> x y'
fails_with '' run swap 'x y -> x nowhere/y'
same "$b/x.npy" "$data/x.npy"
same "$b/y.npy" "$data/y.npy"

# -- in a directory, on a device
bounded mkdir "$b/ns"
run swap 'x y -> ns/x ns/new'
shows "$b/ns/x.txt" "$ten"
same "$b/x.npy" "$data/x.npy"

# -- arguments are donated only on request, also where the program allows donation
sed 's/%arg0: tensor<2x3xf32>/%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}/' \
	"$data/add.mlir" >donor.mlir
bounded cp donor.mlir "$mnt/programs/"
equal "donated" "$(bounded jq -c '[.inputs[].donated]' "$mnt/executables/donor/signature.json")" \
	'[true,false]'
fresh
run donor 'x y -> z'
shows "$b/x.txt" "$one"
run donor 'x y -> z'
shows "$b/z.txt" "$sum"

# -- donate: the array is gone afterwards, and errors say so
run donor 'x y -> z donate=x'
shows "$b/z.txt" "$sum"
equal "state" "$(bounded jq -r .state "$b/x.json")" donated
fails_with '' run add 'x y -> w'
tells "$mnt/executables/add/run" 'add: input 0 .arg0.: x: .*donated'
fails_with '' cat "$b/x.npy"
fails_with '' cat "$b/x.txt"
same "$b/y.npy" "$data/y.npy"
# it may be written again
bounded cp "$data/x.npy" "$b/x.npy"
run donor 'x y -> z donate=x'
bounded rm "$b/x.npy"
# a failed execution consumes no argument
fresh
fails_with '' run donor 'x y -> z nothing donate=x'
same "$b/x.npy" "$data/x.npy"
good '{"op":"execute","executable":"donor","inputs":["x","y"],"outputs":["x"],"donate":["x"]}'
shows "$b/x.txt" "$sum"

# -- donate by number, and all
# donates WHAT STATE-OF-X STATE-OF-Y
donates()
{
	fresh
	good '{"op":"execute","executable":"donor","inputs":["x","y"],"outputs":["z"],"donate":'"$1}"
	equal "states after $1" "$(bounded jq -r .state "$b/x.json" "$b/y.json" | paste -sd ' ')" "$2"
}
donates '[1]' 'ready donated'
donates false 'ready ready'
donates true 'donated donated'
shows "$b/z.txt" "$sum"

# -- outputs of several types, none, scalars, empty ones, and large
cat >many.mlir <<'END'
func.func @main() -> (tensor<f64>, tensor<0x2xi32>, tensor<2xi1>, tensor<262145xi32>) {
  %0 = stablehlo.constant dense<0.1> : tensor<f64>
  %1 = stablehlo.constant dense<> : tensor<0x2xi32>
  %2 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %3 = stablehlo.iota dim = 0 : tensor<262145xi32>
  return %0, %1, %2, %3 : tensor<f64>, tensor<0x2xi32>, tensor<2xi1>, tensor<262145xi32>
}
END
bounded cp many.mlir "$mnt/programs/"
run many '-> a b c d'
shows "$b/a.txt" 0.1
equal "an empty output" "$(bounded jq -c '[.dtype, .shape]' "$b/b.json") $(
	bounded stat -c %s "$b/b.npy" "$b/b.raw" | tr '\n' ' ')" '["S32",[0,2]] 128 0 '
shows "$b/c.txt" 'true false'
perl -e 'print pack("l<*", 0..262144)' | npy '<i4' '(262145,)' >iota.npy
same "$b/d.npy" iota.npy
equal "size of a large output" "$(bounded stat -c %s "$b/d.npy")" "$(stat -c %s iota.npy)"

# -- a result is a file as others: opened, written in the middle, at its end, mapped, renamed
fresh
# One result inside the reply, one on the device, one in shared memory.
cat >wide.mlir <<'END'
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<100000xf32>, tensor<1000000xf32>) {
  %0 = stablehlo.constant dense<2.0> : tensor<100000xf32>
  %1 = stablehlo.constant dense<3.0> : tensor<1000000xf32>
  return %x, %0, %1 : tensor<2x3xf32>, tensor<100000xf32>, tensor<1000000xf32>
}
END
bounded cp wide.mlir "$mnt/programs/"
bounded python3 - "$mnt" <<'END'
import json, mmap, os, struct, subprocess, sys

mnt = sys.argv[1]
b = mnt + "/buffers/"
SEVEN = struct.pack("<f", 7)

def run():
    with open(mnt + "/executables/wide/run", "w") as f:
        f.write("x -> o0 o1 o2\n")

def content(name):
    with open(b + name, "rb") as f:
        return f.read()

def about(name):
    return json.loads(content(name + ".json"))

def check(what, ok):
    if not ok:
        raise SystemExit("not so: " + what)

run()
was = {f"o{i}.{view}": content(f"o{i}.{view}") for i in range(3) for view in ("npy", "raw", "txt")}
for name, bytes_ in was.items():
    stem, view = name.split(".")
    run()
    at = 128 + 8 if view == "npy" else 8

    # read first as any view
    check(f"{name}: what was computed", content(name) == bytes_)
    run()

    # opened to write, and not written: the same array
    for mode in "r+b", "ab":
        open(b + name, mode).close()
        check(f"{name}: {mode} changes nothing", about(stem)["state"] == "ready")
        check(f"{name}: the same bytes", content(name) == bytes_)
    check("it is listed as what was opened", name in os.listdir(b))

    # what is written is changed, the rest stays
    run()
    with open(b + name, "r+b", 0) as f:
        check(f"{name}: what is there is read", f.read(1 << 20) == bytes_[:1 << 20])
        if view == "txt":
            f.seek(0)
            f.write(b"7")
        else:
            f.seek(at)
            f.write(SEVEN)
    want = b"7" + bytes_[1:] if view == "txt" else bytes_[:at] + SEVEN + bytes_[at + 4:]
    check(f"{name}: written in the middle", content(name) == want)
    told = about(stem)
    check(f"{name}: {told}", told["state"] == "ready" and told["dtype"] == "F32")
    check("its other view", content(stem + ".raw").count(SEVEN) == 1)

    # through a mapping
    run()
    with open(b + name, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
        m[0:1] = m[0:1]
    check(f"{name}: through a mapping", content(name) == bytes_)

    # only written, not read, and at its end
    run()
    fd = os.open(b + name, os.O_WRONLY)
    if view == "raw":
        os.pwrite(fd, SEVEN, len(bytes_) - 4)
        want = bytes_[:-4] + SEVEN
    else:
        os.pwrite(fd, bytes_[-4:], len(bytes_) - 4)
        want = bytes_
    os.close(fd)
    check(f"{name}: its end", content(name) == want)

    # truncated: not an array, but the bytes are kept
    run()
    f = open(b + name, "r+b")
    size = {"npy": 100, "raw": 20, "txt": 4}[view]
    f.truncate(size)
    try:
        f.close()
        check(f"{name}: cut", view == "txt")
    except OSError as e:
        check(f"{name}: {e}", view != "txt" and e.errno == 22)
    check(f"{name}: the rest", content(name) == bytes_[:size])
    check(f"{name}: {about(stem)}", (about(stem)["state"] == "ready") == (view == "txt"))

    # a scratch file has the bytes
    run()
    subprocess.run(["mv", b + stem + ".npy", b + "scratch"], check=True)
    check(f"{stem} as scratch", content("scratch") == was[stem + ".npy"])
    os.unlink(b + "scratch")

# one without elements has a header all the same
fd = os.open(mnt + "/control", os.O_RDWR)
os.write(fd, b'{"op":"create","buffer":"none","dtype":"F32","shape":[3,0],"fill":0}\n')
check("created", json.loads(os.read(fd, 4096))["ok"])
was = content("none.npy")
with open(b + "none.npy", "r+b", 0) as f:
    check("its header", f.read() == was and len(was) == 128)
check(f"none: {about('none')}", about("none")["state"] == "ready")
with open(b + "none.raw", "r+b", 0) as f:
    check("no bytes", f.read() == b"")
END
unharmed
