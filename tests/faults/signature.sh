#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Plugins that give their optimized program as MLIR, or not at all: the arguments are those that the
# program declares, and all is as on the plugin that gives HLO.
. "$srcdir/tests/words.sh"
real=$plugins/cpu/pjrt_plugin.so
other=$build/tests/faults/no_hlo_plugin.so

# mount_other [OPTION...]: the plugin cpu, and the same one without HLO.
mount_other()
{
	mount_pjrtfs "cpu,other=$other" --sandbox-read "other:${real%/*}" \
		--plugin-env "other:REAL_PLUGIN=$real" "$@"
	x=$mnt/executables
}

# put FILE STEM EXTENSION: the program is STEM on the plugin cpu, and STEM-other on the other one.
put()
{
	bounded cp "$1" "$mnt/programs/$2.$3"
	touch "$mnt/programs/$2-other.$3"
	say "$x/$2-other/options.json" '{"plugin":"other"}'
	bounded cp "$1" "$mnt/programs/$2-other.$3"
	shows "$x/$2-other/state" ready
}

# types STEM: what its signature has that the program declares.
types()
{
	bounded jq -c '[.inputs, .outputs] | map(map({dtype, shape, layout, donated, alias_output}))' \
		"$x/$1/signature.json"
}

# alike STEM: both have one signature, and one result of x and y.
alike()
{
	equal "the types of $1" "$(types "$1-other")" "$(types "$1")"
	run "$1" 'x y -> z'
	run "$1-other" 'x y -> z'
	same "$mnt/devices/cpu/0/buffers/z.npy" "$mnt/devices/other/0/buffers/z.npy"
}

jax=$top/tests/data/jax
cat >donating.mlir <<'END'
func.func @main(%a: tensor<2x3xf32> {tf.aliasing_output = 1 : i32}, %b: tensor<2x3xf32>)
    -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %c = stablehlo.add %a, %b : tensor<2x3xf32>
  return %b, %c : tensor<2x3xf32>, tensor<2x3xf32>
}
END
# the bytecode in an export is a program, too
python3 - "$jax/f.jax_exported" >f.mlirbc <<'END'
import sys
data = open(sys.argv[1], "rb").read()
at = data.index(b"ML\xefR")
sys.stdout.buffer.write(data[at:at + int.from_bytes(data[at - 4:at], "little")])
END

for format in mlir other ''; do
	mount_other ${format:+--plugin-env "other:OPTIMIZED_FORMAT=$format"}
	bounded cp "$data/x.npy" "$data/y.npy" "$mnt/devices/cpu/0/buffers/"
	bounded cp "$data/x.npy" "$data/y.npy" "$mnt/devices/other/0/buffers/"
	put "$data/add.mlir" text mlir
	put f.mlirbc bytecode mlirbc
	put "$jax/f.jax_exported" export jax_exported
	put "$jax/platforms.jax_exported" platforms jax_exported
	for stem in text bytecode export platforms; do
		alike "$stem"
	done
	put donating.mlir donating mlir
	equal 'donations' "$(types donating-other)" "$(types donating)"
	knows "$x/donating-other/signature.json" '[.inputs[].name] == ["a", "b"]'
	equal 'the facts' "$(bounded jq -c 'keys' "$x/donating-other/info.json")" \
		"$(bounded jq -c 'keys' "$x/donating/info.json")"
	# the module of a program is a program, and declares its types, too
	bounded cp "$x/text/optimized.hlo.pb" text.hlo.pb
	put text.hlo.pb module hlo.pb
	alike module
	before=$(bounded cat "$x/donating-other/signature.json")

	# -- where the optimized program is
	shows "$x/text/optimized.mlir" \
		'// The plugin gives the optimized program as HLO: see optimized.hlo.pb'
	case $format in
	mlir)
		shows "$x/text-other/optimized.mlir" 'module @optimized {}'
		equal 'its size' "$(bounded stat -c %s "$x/text-other/optimized.mlir")" 21
		fails_with 'not supported' cat "$x/text-other/optimized.hlo.pb"
		tells "$mnt/error" 'gives the program as MLIR: read optimized.mlir'
		;;
	other)
		fails_with 'not supported' cat "$x/text-other/optimized.mlir"
		tells "$mnt/error" 'in format other, neither HLO nor MLIR'
		;;
	*)
		fails_with 'not supported' cat "$x/text-other/optimized.hlo.pb"
		tells "$mnt/error" 'no PJRT_Executable_OptimizedProgram'
		;;
	esac

	# -- loaded again from the cache, and from a file, it has the same
	kill_worker other
	run donating-other 'x y -> p q'
	shows "$x/donating-other/signature.json" "$before"
	bounded cp "$x/donating-other/serialized" donating.pjrtexe
	touch "$mnt/programs/native.pjrtexe"
	say "$x/native/options.json" '{"plugin":"other"}'
	bounded cp donating.pjrtexe "$mnt/programs/native.pjrtexe"
	shows "$x/native/signature.json" "$before"
	unmount_pjrtfs
	mount_other ${format:+--plugin-env "other:OPTIMIZED_FORMAT=$format"}
	put donating.mlir donating mlir
	tells "$x/donating-other/info.json" '"cache":"hit"'
	shows "$x/donating-other/signature.json" "$before"
	unmount_pjrtfs
done

# -- and after a restart of the daemon
mount_other --keep --plugin-env other:OPTIMIZED_FORMAT=mlir
put donating.mlir donating mlir
before=$(bounded cat "$x/donating-other/signature.json")
next_daemon KILL
eventually grep -qx ready "$x/donating-other/state"
shows "$x/donating-other/signature.json" "$before"

# -- what cannot be known
bounded sed 's/tensor<2x3xf32>/!a/g; 1i !a = tensor<2x3xf32>' "$data/add.mlir" >alias.mlir
touch "$mnt/programs/alias.mlir"
say "$x/alias/options.json" '{"plugin":"other"}'
fails_with 'not supported' cp alias.mlir "$mnt/programs/alias.mlir"
tells "$x/alias/error" 'plugin other does not tell what the program.s arguments are, and the program does not' \
	'known element type as main.s argument 0, found !a: give main such types'
cp "$jax/two-partitions.mlirbc" .
touch "$mnt/programs/two.mlirbc"
say "$x/two/options.json" '{"plugin":"other","num_partitions":2}'
fails_with 'not supported' cp two-partitions.mlirbc "$mnt/programs/two.mlirbc"
tells "$x/two/error" 'does not tell what the arguments of a partition are: compile'
unmount_pjrtfs

# -- a plugin that gives other results than the program
mount_pjrtfs faulty --fault optimized=mlir
fails_with 'not supported' cp donating.mlir "$mnt/programs/donating.mlir"
tells "$mnt/executables/donating/error" "plugin faulty gives 1 results, the program's main 2"
bounded cp "$data/add.mlir" "$mnt/programs/"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'0 0 0\n0 0 0'
# it gives none
faults optimized=missing
bounded cp "$data/add.mlir" "$mnt/programs/again.mlir"
shows "$mnt/health" ok
