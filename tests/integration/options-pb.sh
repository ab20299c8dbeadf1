#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# COST: 6 CPU-s
# Compile options as serialized messages, every field of them, and what the fields change.
. "$srcdir/tests/words.sh"
requires protoc-c --version
mount_pjrtfs ${others:+-o allow_other}
x=$mnt/executables/add

raw() # FILE: protobuf's own reading of it, on one line
{
	bounded cat "$1" >bytes
	protoc-c --decode_raw <bytes | tr -s ' \n' ' '
}
written() # BYTES, as printf's escapes, to options.pb
{
	printf '%b' "$1" >message
	bounded cp message "$x/options.pb"
}

# -- empty until there is a program, then what the plugin was given
touch "$mnt/programs/add.mlir"
equal 'options.pb of no program' "$(raw "$x/options.pb")" ''
bounded cp "$data/add.mlir" "$mnt/programs/"
equal 'the defaults' "$(raw "$x/options.pb")" '3 { 4: 1 5: 1 } '
equal 'its size' "$(bounded stat -c %s "$x/options.pb")" 6

# -- plugins take each key, and the same bytes mean the same (check_options_proto.c has the fields' numbers)
while read -r key value; do
	say "$x/options.json" "{\"$key\":$value}" || fail "$key is refused: $(bounded cat "$x/error")"
	shows "$x/state" ready
	bounded cp "$x/options.pb" kept
	bounded cp kept "$x/options.pb"
	bounded cmp kept "$x/options.pb"
	equal "$key from options.pb" "$(bounded jq -cS "[.$key]" "$x/options.json")" "$(jq -cSn "[$value]")"
done <<'END'
device_ordinal -1
use_spmd_partitioning true
use_auto_spmd_partitioning true
deduplicate_hlo true
device_assignment [[3]]
alias_passthrough_params true
run_backend_only true
allow_spmd_sharding_propagation_to_output [true]
fdo_profile "AQI="
device_memory_size 1073741824
auto_spmd_partitioning_mesh_shape [1]
auto_spmd_partitioning_mesh_ids [1]
allow_spmd_sharding_propagation_to_parameters [true,false]
use_shardy_partitioner true
exec_time_optimization_effort -0.5
memory_fitting_effort 1.0
process_index 1
process_count 2
optimization_level "O3"
memory_fitting_level "O1"
slice_size 2
compile_portable_executable true
profile_version -1
serialized_multi_slice_config "AQI="
env_option_overrides {"xla_cpu_enable_fast_min_max":false}
target_config "IgRDVURB"
allow_in_place_mlir_modification true
matrix_unit_operand_precision "highest"
compiler_variant "v"
argument_layouts ["F32[2,3]{1,0}","F32[2,3]{1,0}"]
result_layout "F32[2,3]{1,0}"
END
equal 'the last one, as protobuf reads it' "$(raw "$x/options.pb")" \
	'3 { 2 { 2: 11 3: "\002\003" 5 { 1: "\001\000" } } 4: 1 5: 1 } '
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run add 'x y -> z'

# -- what jaxlib writes: all flags by their numbers, and it computes with them
bounded cp "$top/tests/fuzz/corpus/options_pb/jaxlib" "$x/options.pb"
bounded cmp "$top/tests/fuzz/corpus/options_pb/jaxlib" "$x/options.pb"
knows "$x/options.json" '.debug_options | length > 1000'
run add 'x y -> sum'
bounded cmp "$mnt/buffers/z.npy" "$mnt/buffers/sum.npy"

# -- fields take effect: flags of debug_options, and one that is laid over them
sed 's/2x3x/3x/g; s/stablehlo.add/stablehlo.minimum/' "$data/add.mlir" >"$mnt/programs/min.mlir"
echo 1 nan 3 >"$mnt/buffers/a.txt"
echo nan 2 5 >"$mnt/buffers/b.txt"
bounded cp "$top/tests/fuzz/corpus/options_pb/jaxlib" "$mnt/executables/min/options.pb"
run min 'a b -> least'
equal 'the minimum with flags of jaxlib' "$(bounded tr '\n' ' ' <"$mnt/buffers/least.txt")" \
	'nan nan 3 '
{
	bounded cat "$mnt/executables/min/options.pb"
	printf '\x3a\x21\x0a\x1bxla_cpu_enable_fast_min_max\x12\x02\x10\x01'
} >fast
bounded cp fast "$mnt/executables/min/options.pb"
run min 'a b -> least'
[ "$(bounded tr '\n' ' ' <"$mnt/buffers/least.txt")" != 'nan nan 3 ' ] ||
	fail "the flag by name does not change those by number"
key=$(bounded jq -r .cache_key "$x/info.json")
say "$x/options.json" '{"optimization_level":"O0"}'
[ "$(bounded jq -r .cache_key "$x/info.json")" != "$key" ] || fail "the same key"
# What a message does not say is false: a default of options.json is not added.
written '\x1a\x04\x28\x02\x30\x01'
equal 'partitions' "$(bounded jq -c . "$x/options.json")" \
	'{"num_partitions":2,"use_spmd_partitioning":true,"use_shardy_partitioner":false}'
knows "$x/info.json" '.num_partitions == 2'

# -- refused without changes: no message, an unknown field, a value that plugins abort on
refused() # BYTES PATTERN
{
	fails_with 'Invalid argument' written "$1"
	tells "$x/error" "^options of add: .*$2"
	tells "$x/options.json" num_partitions.:2
}
refused 'text' 'expected a serialized CompileOptionsProto, found 4 bytes'
refused '\x60\x01' 'field 12 of CompileOptionsProto is newer than this pjrtfs'
refused '\x1a\x02\x20\x63' '99 replicas of 1 partition need 99 devices'
equal 'restarts' "$(bounded cat "$mnt"/plugins/*/restarts)" 0

# -- in pieces, and again from the start
perl -e 'open(my $f, "+<", $ARGV[0]) or die; for my $b ("\x1a", "\x04\x20\x01", "\x28\x01") {
	defined(syswrite($f, $b)) or die "$!" } sysseek($f, 0, 0); syswrite($f, "\x20\x01") or die "$!";
	close($f) or die "$!"' "$x/options.pb"
equal 'rewritten' "$(raw "$x/options.pb")" '3 { 4: 1 5: 1 } 4: 1 '

# -- other users have the program's rights, and may set no flags by number
if [ "$others" ]; then
	bounded chmod 666 "$mnt/programs/add.mlir"
	cp "$top/tests/fuzz/corpus/options_pb/jaxlib" flags
	chmod 644 flags
	as 1001 cp "$work/flags" "$x/options.pb"
	equal 'flags of another user' "$(bounded jq 'has("debug_options")' "$x/options.json")" false
	fails_with 'not permitted' as 1001 bash -c 'echo "{\"debug_options\":\"AA==\"}" >"$1"' - "$x/options.json"
	tells "$x/error" "option debug_options: only the mount's owner may set it"
	printf '\x1a\x02\x58\x01' >backend
	fails_with 'not permitted' as 1001 cp "$work/backend" "$x/options.pb"
	equal 'unchanged' "$(bounded jq 'has("run_backend_only")' "$x/options.json")" false
	printf '\x1a\x03\xc0\x01\x09' >level
	as 1001 cp "$work/level" "$x/options.pb"
	shows "$x/options.json" '{"optimization_level":"O0"}'
	bounded chmod 600 "$mnt/programs/add.mlir"
	fails_with 'denied' as 1001 cat "$x/options.pb"
fi
