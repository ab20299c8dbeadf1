#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# Programs that JAX exported for several platforms: pjrtfs passes the number of the platform, and
# no caller counts it.  The exports multiply by 3 on cuda, by 5 on tpu and by 2 on cpu.
. "$srcdir/tests/words.sh"
p=${plugin:-cpu}
export PJRTFS_CACHE_DIR=$work/kept
twice_and_y=$'12 24 36\n48 60 72' # 2 x + y

# begin OPTION...: a mount with the arrays
begin()
{
	mount_pjrtfs "$@"
	bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
}
# takes NAME WANT: the inputs of its signature.json
takes()
{
	equal "the inputs of $1" "$(bounded jq -c '[.inputs[] | [.name, .dtype, .shape, .donated,
		.alias_output // -1]]' "$mnt/executables/$1/signature.json")" "$2"
	knows "$mnt/executables/$1/info.json" \
		".input_memory_kinds | type == \"object\" or length == ($2 | length)"
}
# gives NAME: it computes what JAX does, in every way to run it
gives()
{
	takes "$1" '[["x","F32",[2,3],false,-1],["y","F32",[2,3],false,-1]]'
	run "$1" 'x y -> z'
	shows "$mnt/buffers/z.txt" "$twice_and_y"
	ask '{"op":"execute","executable":"'"$1"'","inputs":{"y":"y","x":"x"},"outputs":["z"]}' >told
	tells told '"ok":true'
	shows "$mnt/buffers/z.txt" "$twice_and_y"
	bash -c '{ cat "$2" "$3"; cat <&1 >z.npy; } 1<>"$1"' - "$mnt/executables/$1/call" \
		"$data/x.npy" "$data/y.npy"
	bounded cp z.npy "$mnt/buffers/called.npy"
	shows "$mnt/buffers/called.txt" "$twice_and_y"
	run "$1" 'x y -> y repeat=3'
	shows "$mnt/buffers/y.txt" $'16 32 48\n64 80 96'
	bounded cp "$data/y.npy" "$mnt/buffers/"
}
# consumes NAME: its first input is taken over, in single executions, repeated and in a batch
consumes()
{
	takes "$1" '[["state","F32",[2,3],true,0],["x","F32",[2,3],false,-1]]'
	bounded cp "$data/y.npy" "$mnt/buffers/state.npy"
	run "$1" 'state x -> new sum donate=state'
	shows "$mnt/buffers/new.txt" "$twice_and_y"
	shows "$mnt/buffers/sum.txt" 21
	fails_with 'nvalid argument' bash -c 'echo "state x -> a b" >"$1"' - \
		"$mnt/executables/$1/run"
	run "$1" 'new x -> new sum repeat=4'
	shows "$mnt/buffers/new.txt" $'20 40 60\n80 100 120'
	step='{"op":"execute","executable":"'$1'","inputs":["new","x"],"outputs":["new","sum"]}'
	ask '{"op":"batch","steps":['"$step,$step,$step"']}' >told
	tells told '"ok":true'
	shows "$mnt/buffers/new.txt" $'26 52 78\n104 130 156'
	shows "$mnt/buffers/x.txt" $'1 2 3\n4 5 6'
}
# cached NAME: hit or miss
cached()
{
	bounded jq -r .cache "$mnt/executables/$1/info.json"
}

# -- compiled
begin --devices 2
bounded cp "$data/jax/platforms.jax_exported" "$data/jax/platforms-donated.jax_exported" \
	"$data/jax/platforms-sharded.jax_exported" "$mnt/programs/"
equal "the first time" "$(cached platforms)" miss
gives platforms
consumes platforms-donated
fails_with 'nvalid argument' bash -c 'echo "x x y -> z" >"$1"' - "$mnt/executables/platforms/run"
bounded cat "$mnt/executables/platforms/serialized" >kept.pjrtexe

# -- on the device that its options name, and on any
bounded cp "$data/jax/platforms.jax_exported" "$mnt/programs/placed.jax_exported"
say "$mnt/executables/placed/options.json" '{"compile_portable_executable":true}'
shows "$mnt/executables/placed/state" ready
gives placed
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/devices/$p/1/buffers/"
for device in 0 1; do
	run placed "x y -> z device=$p:$device"
	shows "$mnt/devices/$p/$device/buffers/z.txt" "$twice_and_y"
done
say "$mnt/executables/placed/options.json" '{"device":"'"$p"':1"}'
shows "$mnt/executables/placed/state" ready
bounded rm "$mnt/devices/$p/1/buffers/z.npy"
run placed 'x y -> z'
shows "$mnt/devices/$p/1/buffers/z.txt" "$twice_and_y"

# -- on two devices at once
takes platforms-sharded '[["x","F32",[2,3],false,-1],["y","F32",[2,3],false,-1]]'
knows "$mnt/executables/platforms-sharded/signature.json" '[.inputs[].sharding.parts] == [[2, 1], [2, 1]]'
packed 'f<*' {1..12} | npy '<f4' '(4, 3)' >long.npy
bounded cp long.npy "$mnt/buffers/"
ask '{"op":"shard","buffer":"long","as":"parts","mesh":{"d":2},"spec":["d"]}' >told
tells told '"ok":true'
run platforms-sharded 'parts parts -> sums'
ask '{"op":"gather","buffer":"sums","as":"whole"}' >told
tells told '"ok":true'
shows "$mnt/buffers/whole.txt" $'3 6 9\n12 15 18\n21 24 27\n30 33 36'
unmount_pjrtfs

# -- from the cache, and in a worker after the first one
begin --devices 2
bounded cp "$data/jax/platforms.jax_exported" "$data/jax/platforms-donated.jax_exported" \
	"$mnt/programs/"
equal "the second time" "$(cached platforms)" hit
gives platforms
consumes platforms-donated
kill_worker "$p"
gives platforms

# -- as a compiled program, of the cache and of the plugin
bounded cp kept.pjrtexe "$mnt/programs/kept.pjrtexe"
gives kept
unmount_pjrtfs
begin --devices 2 --no-cache
bounded cp "$data/jax/platforms.jax_exported" "$mnt/programs/"
bounded cat "$mnt/executables/platforms/serialized" >own.pjrtexe
bounded cp own.pjrtexe "$mnt/programs/own.pjrtexe"
gives own

# -- for a topology, whose platform it is; it runs where its devices are
eventually cp "$mnt/plugins/$p/topology.pb" here.pb
if bounded cp here.pb "$mnt/topologies/"; then
	bounded touch "$mnt/programs/elsewhere.jax_exported"
	say "$mnt/executables/elsewhere/options.json" '{"topology":"here"}'
	bounded cp "$data/jax/platforms.jax_exported" "$mnt/programs/elsewhere.jax_exported"
	takes elsewhere '[["x","F32",[2,3],false,-1],["y","F32",[2,3],false,-1]]'
	bounded cat "$mnt/executables/elsewhere/serialized" >back.pjrtexe
	bounded cp back.pjrtexe "$mnt/programs/back.pjrtexe"
	gives back
fi

# -- a bare module does not list its platforms
echo 'func.func @main(%n: tensor<i32> {jax.global_constant = "_platform_index"},
    %x: tensor<2x3xf32>) -> tensor<2x3xf32> { return %x : tensor<2x3xf32> }' >bare.mlir
fails_with 'nvalid argument' cp bare.mlir "$mnt/programs/"
tells "$mnt/executables/bare/error" 'lowered for several.*\.jax_exported'
