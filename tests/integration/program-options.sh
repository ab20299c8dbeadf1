#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# Compile options: who compiles, for which devices, with which flags; what is refused.
. "$srcdir/tests/words.sh"
requires xz --version
mount_pjrtfs
me=${plugin:-cpu}
tar -xJf "$top/tests/conformance/cases.tar.xz" cases/multi cases/flags
to=$mnt/programs
x=$mnt/executables


# -- before there is a program, and across new ones
touch "$to/p.mlir"
say "$x/p/options.json" '{"device":2}'
shows "$x/p/state" empty
bounded cp "$data/add.mlir" "$to/p.mlir"
knows "$x/p/info.json" '.devices == [2]'
bounded cp "$data/add.mlir" "$to/p.mlir"
knows "$x/p/info.json" '.devices == [2]'
shows "$x/p/options.json" '{"device":2}'
bounded cp "$data/add.mlir" "$to/.p.new"
bounded mv "$to/.p.new" "$to/p.mlir"
eventually grep -qx ready "$x/p/state"
knows "$x/p/info.json" '.devices == [2]'

# Writing them compiles again, and names are looked for where the program runs.
say "$x/p/options.json" '{"device":"'"$me"':1"}'
knows "$x/p/info.json" '.devices == [1] and .num_replicas == 1 and .num_partitions == 1'
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/devices/$me/1/buffers/"
run p 'x y -> z'
tells "$x/p/run" "^ok: z F32\\[2,3\\] on $me:1 in "
bounded test -e "$mnt/devices/$me/1/buffers/z.npy"
say "$x/p/options.json" '{"device_assignment":[[3]]}'
knows "$x/p/info.json" '.devices == [3]'
bounded truncate -s 0 "$x/p/options.json"
knows "$x/p/info.json" '.devices == [3]'
say "$x/p/options.json" '{}'
knows "$x/p/info.json" '.devices == [0]'

say "$x/p/options.json" '{"compile_portable_executable":true}'
knows "$x/p/info.json" '.devices == []'
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run p 'x y -> z'
tells "$x/p/run" "^ok: z F32\\[2,3\\] on $me:0 in "

# -- refused before the plugin is called, with a sentence, and without changes
refused()
{
	fails_with 'Invalid argument' say "$x/p/options.json" "$1"
	tells "$x/p/error" "^options of p: .*$2"
	shows "$x/p/state" ready
	shows "$x/p/options.json" '{"compile_portable_executable":true}'
}
refused '{"num_replicas":8}' 'mount with --devices 8$'
tells "$x/p/error" '^options of p: 8 replicas of 1 partition need 8 devices, found 4: mount'
refused '{"plugin":"tpu"}' 'there is no plugin tpu in this mount'
printf '{}\0{}' >zero
fails_with 'Invalid argument' cp zero "$x/p/options.json"
tells "$x/p/error" 'byte 3: expected nothing behind the JSON object, found a zero byte'
# If only the plugin detects a wrong option, this compile alone fails.
if say "$x/p/options.json" '{"env_option_overrides":{"xla_no_such_flag":true}}' 2>/dev/null; then
	tells "$x/p/state" '^ready, update failed: .*xla_no_such_flag'
fi
tells "$x/p/error" 'xla_no_such_flag'
say "$x/p/options.json" '{}'
shows "$x/p/state" ready
bounded test ! -s "$x/p/error" || fail "an error is left: $(bounded cat "$x/p/error")"

# -- replicas and partitions are what the program says, in text and in bytecode
defaults()
{
	local f
	for f in program.mlir program.mlirbc program.vhlo.mlirbc; do
		bounded cp "cases/multi/$1/$f" "$to/m.${f##*.}"
		knows "$x/m/info.json" \
			"[.num_replicas, .num_partitions, (.devices | length)] == $2"
		rm "$to/m.${f##*.}"
	done
}
defaults all_reduce_4r '[4, 1, 4]'
defaults replicated_add_2r '[2, 1, 2]'
defaults matmul_2x2_gspmd '[1, 4, 4]'
defaults mlp_tensor_parallel_2p_shardy '[1, 2, 2]'
defaults shard_map_psum_scatter_2p '[1, 2, 2]'
touch "$to/m.mlir"
say "$x/m/options.json" '{"device_assignment":[[3],[1]]}'
bounded cp cases/multi/replicated_add_2r/program.mlir "$to/m.mlir"
knows "$x/m/info.json" '.num_replicas == 2 and (.devices | sort) == [1, 3]'
say "$x/m/options.json" '{"num_replicas":4}'
knows "$x/m/info.json" '.num_replicas == 4'
sed 's/mhlo.num_replicas = 2/mhlo.num_replicas = 65/' cases/multi/replicated_add_2r/program.mlir >many.mlir
fails_with 'Invalid argument' cp many.mlir "$to/"
tells "$x/many/error" 'need 65 devices'
