#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A tool that writes a program which is refused says so; state and error tell why.  refused.sh tries more
# tools.
. "$srcdir/tests/words.sh"
mount_pjrtfs
cp "$data/add.mlir" "$mnt/programs/good.mlir"

cat >bad.mlir <<'END'
func.func @main(%x: tensor<3xf32>) -> tensor<4xf32> {
  return %x : tensor<3xf32>
}
END

# refused NAME ERRNO-TEXT COMMAND...: the command fails, and NAME cannot run.
refused()
{
	local x=$mnt/executables/$1
	fails_with "$2" "${@:3}"
	shows "$x/state" failed
	[ -s "$x/error" ] || fail "$1 has no error"
	bounded cat "$x/error" >why
	[[ $(head -n 1 why) == "compile $1: "* ]] || fail "$1's error begins with $(head -n 1 why)"
	bounded test ! -s "$x/signature.json" || tells "$x/signature.json" '^(\{\})?$'
	fails_with 'rror' run "$1" 'x -> y'
	tells "$x/run" "^error: E[A-Z]+: $1: "
	equal "lines of $1's reply" "$(bounded wc -l <"$x/run")" 1
	gone "$mnt/buffers/y.npy"
}

# MLIR's parser gives no better code than UNKNOWN, which is EINVAL of a compile.
refusal='Invalid argument'
to=$mnt/programs
refused cp "$refusal" cp bad.mlir "$to/cp.mlir"
refused dd "$refusal" dd if=bad.mlir of="$to/dd.mlir" bs=16 status=none
cp bad.mlir mv.mlir
refused mv "$refusal" mv mv.mlir "$to/mv.mlir"
[ -e mv.mlir ] || fail "mv removed what it could not move"

# The sentence says where the program is wrong.
tells "$mnt/executables/cp/error" '^compile cp: .*(tensor<3xf32>|return|type)'
# MLIR's message has several lines, and they stay.
[ "$(bounded wc -l <"$mnt/executables/cp/error")" -gt 1 ] ||
	fail "its lines are lost: $(bounded cat "$mnt/executables/cp/error")"

# That the plugin may be too old is said only of what it does not know.
tells "$mnt/executables/cp/error" '^compile cp: line 2, column 3: '
! bounded grep -q newer "$mnt/executables/cp/error" || fail "$(bounded cat "$mnt/executables/cp/error")"

# The bytes are kept: the file can be repaired where it is.
same "$to/cp.mlir" bad.mlir
bounded sed -i 's/tensor<4xf32>/tensor<3xf32>/' "$to/cp.mlir"
eventually grep -qx ready "$mnt/executables/cp/state"

# -- what no plugin compiles, and none says well
why()
{
	fails_with 'Invalid argument' cp "$1" "$to/why.${1##*.}"
	tells "$mnt/executables/why/error" "$2"
	bounded rm "$to/why.${1##*.}"
}
cat >shape.mlir <<'END'
func.func @main(%x: tensor<3xf32> {a.b = "?"}, // tensor<?xf32>
                %y: tensor<2x?xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
END
why shape.mlir 'line 2: expected fixed shapes, found a dimension of .*main.s types as "\?"'
sed 's/2x?xf32/2xf32/; s/-> tensor<3/-> tensor<?/' shape.mlir >result.mlir
why result.mlir 'line 2: expected fixed shapes'
sed 's/2x?xf32/2x!quant.uniform<i8:f32, 0.1:-30>/' shape.mlir >quant.mlir
why quant.mlir 'line 2: .*!quant.uniform: plugins know no quantized types'
sed 's/^  return/  %c = stablehlo.constant dense_resource<__elided__> : tensor<3xf32>\n&/' \
	shape.mlir | sed 's/2x?xf32/2xf32/' >elided.mlir
why elided.mlir 'line 3: expected the numbers of a constant, found dense_resource<__elided__>'
sed 's/@main/@forward/; s/2x?xf32/2xf32/' shape.mlir >forward.mlir
why forward.mlir '^compile why: expected a function called main, .* found none'
sed 's/2x?xf32/2xf32/; s/return/retrun/' shape.mlir >unknown.mlir
why unknown.mlir '^it is misspelt, or newer than the plugin, which has StableHLO v[0-9.]+: check it, or try a newer plugin$'
why "$data/jax/symbolic.mlirbc" 'expected fixed shapes, found symbolic dimensions'
# as PyTorch writes a dynamic batch, which asserts nothing: bytecode, and a portable artifact
for name in types portable; do
	why "$data/jax/symbolic-$name.mlirbc" 'expected fixed shapes, found symbolic dimensions: .* import_torch.py and import_jax.py'
done
# an infeed waits for ever, and an outfeed's array goes nowhere
feed='expected arrays that are inputs and results, found an infeed or an outfeed'
printf '%%5 = "stablehlo.outfeed"(%%4, %%3) : (tensor<f32>, !t) -> !t\n' >outfeed.mlir
why outfeed.mlir "line 1: $feed: .*, or return it as a result"
for name in infeed outfeed; do
	why "$data/jax/$name.mlirbc" "$feed"
done
fails_with 'Invalid argument' cp "$data/jax/infeed.hlo.pb" "$to/"
tells "$mnt/executables/infeed/error" "$feed"
# XLA aborts on a "while" whose only value has a bounded dimension
cat >loop.mlir <<'END'
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<i32> {
  %d = stablehlo.set_dimension_size %x, %n, dim = 0
    : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
  %r = stablehlo.while(%v = %d) : tensor<?xf32, #stablehlo.bounds<4>>
  cond {
    %p = stablehlo.compare LT, %n, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    stablehlo.return %v : tensor<?xf32, #stablehlo.bounds<4>>
  }
  return %n : tensor<i32>
}
END
loop='expected a "while" of fixed shapes or of several values, found one whose only value'
why loop.mlir "line 4: $loop"
printf '%%5 = "stablehlo.while"(%%4) ({\n^bb0(%%v: tensor<?xf32, #stablehlo.bounds<4>>):\n' >generic.mlir
why generic.mlir "line 1: $loop"
why "$data/jax/while-bounded.mlirbc" "$loop"
fails_with 'Invalid argument' cp "$data/jax/while-bounded.hlo.pb" "$to/"
tells "$mnt/executables/while-bounded/error" "$loop"
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
# of two values it is compiled
sed 's/%r = \(.*\)%d) : \(.*\)/%r:2 = \1%d, %i = %n) : \2, tensor<i32>/
	s/return %v : \(.*\)/return %v, %i : \1, tensor<i32>/' loop.mlir >"$to/two.mlir"
shows "$mnt/executables/two/state" ready
# the compiler checks the shapes within a program
cat >inner.mlir <<'END'
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @f(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %n = stablehlo.constant dense<3> : tensor<1xi32>
  %d = stablehlo.dynamic_reshape %x, %n : (tensor<3xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %x : tensor<3xf32>
}
END
bounded cp inner.mlir "$to/" || fail "shapes within: $(cat "$mnt/executables/inner/error")"

# -- files that are not programs
head -c 3000 /dev/urandom >random
printf 'ML\xefR' >magic
head -c 100 "$data/add.mlir" >half
echo 'module @empty {}' >nomain
for what in random magic half nomain; do
	refused "bad-$what" '' cp "$what" "$to/bad-$what.mlir"
done
refused bad-bc '' cp magic "$to/bad-bc.mlirbc"
refused bad-hlo '' cp "$data/x.npy" "$to/bad-hlo.hlo.pb"

# An empty file is not a failure: a shell's > makes one before the first write.
bounded touch "$to/empty.mlir"
shows "$mnt/executables/empty/state" empty
fails_with '' run empty 'x -> y'
tells "$mnt/executables/empty/run" '^error: .*empty'

# -- fsync compiles, and close then only repeats the error; what is written after it compiles again
bounded python3 - "$mnt" "$data/add.mlir" <<'END'
import errno, json, os, sys
mnt, good = sys.argv[1], open(sys.argv[2], "rb").read()

def code(call, *args):
    try:
        call(*args)
        return 0
    except OSError as e:
        return e.errno

def state(name):
    with open(f"{mnt}/executables/{name}/state") as f:
        return f.read()

def begin(name, data):
    f = os.open(f"{mnt}/programs/{name}.mlir", os.O_CREAT | os.O_WRONLY)
    os.write(f, data)
    return f

f = os.open(f"{mnt}/programs/synced.mlir", os.O_CREAT | os.O_WRONLY)
assert code(os.fsync, f) == 0, "an empty file"
assert os.write(f, b"no program") == 10
assert code(os.fsync, f) == code(os.fdatasync, f) == errno.EINVAL
assert open(f"{mnt}/error").read().startswith("fsync programs/synced.mlir: ")
assert state("synced") == "failed\n"
assert code(os.close, f) == errno.EINVAL
f = begin("synced", good[:40])
assert code(os.fsync, f) == errno.EINVAL, "half a program"
os.ftruncate(f, 0)
os.pwrite(f, good, 0)
assert code(os.fsync, f) == code(os.fsync, f) == 0
assert state("synced") == "ready\n"
assert code(os.close, f) == 0
f = os.open(f"{mnt}/events", os.O_RDONLY | os.O_NONBLOCK)
events = [json.loads(line) for line in os.read(f, 1 << 20).splitlines()]
commits = [e for e in events if e["event"] == "program.committed" and e.get("object") == "programs/synced.mlir"]
assert len(commits) == 3, commits
END
bounded rm "$to/synced.mlir"

# -- what would run wrong is refused with a sentence: bounded, tuple, token parameters
cat >bounded.mlir <<'END'
func.func @main(%x: tensor<?xf32, #stablehlo.bounds<8>>) -> tensor<?xf32, #stablehlo.bounds<8>> {
  return %x : tensor<?xf32, #stablehlo.bounds<8>>
}
END
cat >tuple.mlir <<'END'
func.func @main(%x: tuple<tensor<f32>, tensor<f32>>) -> tensor<f32> {
  %0 = stablehlo.get_tuple_element %x[0] : (tuple<tensor<f32>, tensor<f32>>) -> tensor<f32>
  return %0 : tensor<f32>
}
END
cat >token.mlir <<'END'
!t = !stablehlo.token
func.func @main(%x: !t) -> !t { return %x : !t }
END
for n in bounded tuple token; do
	refused "$n" '' cp "$n.mlir" "$to/"
done
tells "$mnt/executables/bounded/error" 'dynamic|bounded'
tells "$mnt/executables/tuple/error" 'tuple'
tells "$mnt/executables/token/error" '[Tt][Oo][Kk][Ee][Nn]'

# Nothing else has changed.
shows "$mnt/executables/good/state" ready
unharmed
