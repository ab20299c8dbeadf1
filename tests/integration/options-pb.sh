#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# COST: 6 CPU-s
# Compile options as serialized messages, every field of them, and what the fields change.
. "$srcdir/tests/lib.sh"
requires jq --version
requires protoc-c --version
requires perl --version
mount_pjrtfs ${others:+-o allow_other}
chmod 755 "$work"
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

# -- each key has the number of its field, and plugins take it
# takes KEY VALUE RAW: options.json takes it, the program compiles, options.pb contains RAW.
takes()
{
	say "$x/options.json" "{\"$1\":$2}" || fail "$1 is refused: $(bounded cat "$x/error")"
	shows "$x/state" ready
	raw "$x/options.pb" | grep -qF -e "$3" || fail "$1: '$3' is not in '$(raw "$x/options.pb")'"
	# The same bytes mean the same.
	bounded cp "$x/options.pb" kept
	bounded cp kept "$x/options.pb"
	bounded cmp kept "$x/options.pb"
	equal "$1 from options.pb" "$(bounded jq -cS "[.$1]" "$x/options.json")" \
		"$(jq -cSn "[$2]")"
}
takes device_ordinal -1 '3 { 1: 18446744073709551615 4: 1 5: 1 } '
takes use_spmd_partitioning true '3 { 4: 1 5: 1 6: 1 } '
takes use_auto_spmd_partitioning true '7: 1 } '
takes deduplicate_hlo true '8: 1 } '
takes device_assignment '[[3]]' '9 { 1: 1 2: 1 3 { 1: "\003" } } '
takes alias_passthrough_params true '10: 1 } '
takes run_backend_only true '11: 1 } '
takes allow_spmd_sharding_propagation_to_output '[true]' '12: "\001" } '
takes fdo_profile '"AQI="' '14: "\001\002" } '
takes device_memory_size 1073741824 '15: 1073741824 } '
takes auto_spmd_partitioning_mesh_shape '[1]' '16: "\001" } '
takes auto_spmd_partitioning_mesh_ids '[1]' '17: "\001" } '
takes allow_spmd_sharding_propagation_to_parameters '[true,false]' '18: "\001\000" } '
takes use_shardy_partitioner true '19: 1 } '
takes exec_time_optimization_effort -0.5 '20: 0xbf000000 } '
takes memory_fitting_effort 1.0 '21: 0x3f800000 } '
takes process_index 1 '22: 1 } '
takes process_count 2 '23: 2 } '
takes optimization_level '"O3"' '24: 39 } '
takes memory_fitting_level '"O1"' '25: 19 } '
takes slice_size 2 '26: 2 } '
takes compile_portable_executable true '} 4: 1 '
takes profile_version -1 '} 5: 18446744073709551615 '
takes serialized_multi_slice_config '"AQI="' '} 6: "\001\002" '
takes env_option_overrides '{"xla_cpu_enable_fast_min_max":false}' \
	'} 7 { 1: "xla_cpu_enable_fast_min_max" 2 { 2: 0 } } '
takes target_config '"IgRDVURB"' '} 8 { 4: "CUDA" } '
takes allow_in_place_mlir_modification true '} 9: 1 '
takes matrix_unit_operand_precision '"highest"' '} 10: 2 '
takes compiler_variant '"v"' '} 11: "v" '
takes argument_layouts '["F32[2,3]{1,0}","F32[2,3]{1,0}"]' \
	'1 { 2: 11 3: "\002\003" 5 { 1: "\001\000" } } 1 { 2: 11'
takes result_layout '"F32[2,3]{1,0}"' '2 { 2: 11 3: "\002\003" 5 { 1: "\001\000" } } '
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run add 'x y -> z'

# -- what jaxlib writes: all flags by their numbers, and it computes with them
bounded cp "$top/tests/fuzz/corpus/options_pb/jaxlib" "$x/options.pb"
bounded cmp "$top/tests/fuzz/corpus/options_pb/jaxlib" "$x/options.pb"
bounded jq -e '.debug_options | length > 1000' "$x/options.json" >/dev/null ||
	fail "options.json: $(bounded cat "$x/options.json")"
run add 'x y -> sum'
bounded cmp "$mnt/buffers/z.npy" "$mnt/buffers/sum.npy"

# -- fields take effect: flags of debug_options, and one that is laid over them
cat >"$mnt/programs/min.mlir" <<'END'
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %z = stablehlo.minimum %x, %y : tensor<3xf32>
  return %z : tensor<3xf32>
}
END
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
bounded jq -e '.num_partitions == 2' "$x/info.json" >/dev/null || fail "not two partitions"

# -- refused without changes: no message, an unknown field, a value that plugins abort on
refused() # BYTES PATTERN
{
	fails_with 'Invalid argument' written "$1"
	tells "$x/error" "^options of add: .*$2"
	tells "$x/options.json" num_partitions.:2
}
refused 'text' 'expected a serialized CompileOptionsProto, found 4 bytes'
refused '\x1a\x04\x20' 'expected a serialized CompileOptionsProto'
refused '\x60\x01' 'field 12 of CompileOptionsProto is newer than this pjrtfs'
refused '\x1a\x0d\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01' \
	'device_ordinal: expected an integer from -1 to 2147483647, found -2'
refused '\x1a\x02\x20\x63' '99 replicas of 1 partition need 99 devices'
refused '\x1a\x03\xc0\x01\x07' 'optimization_level: expected .*"O3"'
refused '\x3a\x0a\x0a\x03a\xffb\x12\x03\x0a\x01v' 'UTF-8'
equal 'restarts' "$(bounded cat "$mnt"/plugins/*/restarts)" 0

# -- in pieces, and again from the start
perl -e 'open(my $f, "+<", $ARGV[0]) or die; for my $b ("\x1a", "\x04\x20\x01", "\x28\x01") {
	defined(syswrite($f, $b)) or die "$!" } sysseek($f, 0, 0); syswrite($f, "\x20\x01") or die "$!";
	close($f) or die "$!"' "$x/options.pb"
equal 'rewritten' "$(raw "$x/options.pb")" '3 { 4: 1 5: 1 } 4: 1 '

# -- other users have the program's rights, and may set no flags by number
if [ "$others" ]; then
	bounded chmod 666 "$mnt/programs/add.mlir"
	as() { timeout -k 5 "$patience" setpriv --reuid 1001 --regid 1001 --clear-groups "$@"; }
	cp "$top/tests/fuzz/corpus/options_pb/jaxlib" flags
	chmod 644 flags
	fails_with 'not permitted' as cp "$work/flags" "$x/options.pb"
	tells "$x/error" "option debug_options: only the mount's owner may set it"
	printf '\x1a\x02\x58\x01' >backend
	fails_with 'not permitted' as cp "$work/backend" "$x/options.pb"
	equal 'unchanged' "$(raw "$x/options.pb")" '3 { 4: 1 5: 1 } 4: 1 '
	printf '\x1a\x03\xc0\x01\x09' >level
	as cp "$work/level" "$x/options.pb"
	shows "$x/options.json" '{"optimization_level":"O0"}'
	bounded chmod 600 "$mnt/programs/add.mlir"
	fails_with 'denied' as cat "$x/options.pb"
fi
