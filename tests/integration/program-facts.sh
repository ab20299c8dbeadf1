#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# What is known of a program: cost, memory, where it runs, and as what it was compiled.
. "$srcdir/tests/words.sh"
mount_pjrtfs
me=${plugin:-cpu}
x=$mnt/executables


# size FILE: stat's and that of what is read are one.
size()
{
	local told read
	told=$(bounded stat -c %s "$1")
	read=$(bounded wc -c <"$1")
	equal "size of $1" "$told" "$read"
	echo "$told"
}

# -- before there is a program, all of it can be read, and is empty
touch "$mnt/programs/add.mlir"
for f in signature cost memory; do
	shows "$x/add/$f.json" '{}'
done
equal "size of what is not compiled" "$(size "$x/add/optimized.hlo.pb")" 0
bounded cp -r "$x/add" copied
bounded cp "$data/add.mlir" "$mnt/programs/"

# -- facts that this plugin reports or omits: an omitted one is never shown as zero
case $me in
cpu-0.81) knows "$x/add/cost.json" '.flops == 6 and ."bytes accessed" == 72' ;;
*) shows "$x/add/cost.json" '{"unavailable":"GetCostAnalysis is not implemented."}' ;;
esac
knows "$x/add/memory.json" '.argument_size_in_bytes == 48 and .output_size_in_bytes == 24'
knows "$x/add/memory.json" '.requirements == .argument_size_in_bytes + .output_size_in_bytes
	+ .temp_size_in_bytes + .generated_code_size_in_bytes - .alias_size_in_bytes'
knows "$x/add/memory.json" '.host_requirements == 0'
case $me in
cpu-0.81) knows "$x/add/memory.json" 'has("peak_memory_in_bytes") and (has("total_allocation_bytes") | not)' ;;
*) knows "$x/add/memory.json" '.total_allocation_bytes >= 72 and .peak_unpadded_heap_bytes >= 72
	and has("total_size_in_bytes") and has("indefinite_allocations")' ;;
esac
case $me in
cpu-0.81) knows "$x/add/estimate.json" '.flops == 6 and .bytes_accessed == 72' ;;
*) knows "$x/add/estimate.json" '.flops == null and .optimal_seconds == null' ;;
esac
knows "$x/add/estimate.json" '.memory_bytes >= 72 and .fits == null and .devices[0].memory_limit_bytes == null'
knows "$x/add/info.json" '.cache_key | test("^[0-9a-f]{64}$")'
knows "$x/add/info.json" '.fingerprint | type == "string" and length > 10'
knows "$x/add/info.json" '.device_assignment == [[0]] and .devices == [0]'
case $me in
cpu) knows "$x/add/info.json" '.output_memory_kinds == ["device"]' ;;
*) knows "$x/add/info.json" '.output_memory_kinds.unavailable | length > 10' ;;
esac
case $me in
cpu | cpu-0.115) knows "$x/add/info.json" '.input_memory_kinds == ["device","device"]' ;;
cpu-0.106) knows "$x/add/info.json" '.input_memory_kinds.unavailable | test("not supported")' ;;
cpu-0.81) knows "$x/add/info.json" '.input_memory_kinds.unavailable | test("no PJRT_Executable_ParameterMemoryKinds")' ;;
esac
knows "$x/add/signature.json" '[.inputs[], .outputs[] | .memory] | unique == ["device"]'
# a result's memory is what the plugin says, also when the result is used again
sed 's/-> *\(tensor<[^>]*>\)/-> (\1 {mhlo.memory_kind = "pinned_host"})/' "$data/add.mlir" >"$mnt/programs/hosted.mlir"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run hosted 'x y -> hosted'
run hosted 'hosted y -> again'
case $me in
cpu) memory=pinned_host ;;
*) memory=device ;; # as these say
esac
knows "$mnt/buffers/hosted.json" ".memory == \"$memory\""
knows "$mnt/buffers/again.json" ".memory == \"$memory\""
say "$x/add/options.json" '{"device_assignment":[[2]]}'
knows "$x/add/info.json" '.device_assignment == [[2]]'
say "$x/add/options.json" '{"num_replicas":2,"num_partitions":2,"device_assignment":[[3,1],[0,2]]}'
knows "$x/add/info.json" '.device_assignment == [[3,1],[0,2]]'
say "$x/add/options.json" '{}'
for f in signature cost memory info; do
	size "$x/add/$f.json" >/dev/null
done

# -- donated arguments, aliases, names
cat >alias.mlir <<'END'
func.func @main(%a: tensor<4xf32> loc("first"), %b: tensor<4xf32> {tf.aliasing_output = 1 : i32}
    loc("second")) -> (tensor<f32>, tensor<4xf32>) {
  %0 = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = stablehlo.add %a, %b : tensor<4xf32>
  return %0, %1 : tensor<f32>, tensor<4xf32>
}
END
bounded cp alias.mlir "$mnt/programs/"
knows "$x/alias/signature.json" '[.inputs[] | [.name, .donated, .alias_output]] ==
	[["first", false, null], ["second", true, 1]]'

# -- the optimized program is one that can be compiled
size "$x/alias/optimized.hlo.pb" >/dev/null
bounded cp "$x/add/optimized.hlo.pb" "$mnt/programs/again.hlo.pb"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run add 'x y -> z'
run again 'x y -> z2'
same "$mnt/buffers/z.npy" "$mnt/buffers/z2.npy"
bounded cp "$x/add/optimized.hlo.pb" once.pb
same "$x/add/optimized.hlo.pb" once.pb
bounded dd if="$x/add/optimized.hlo.pb" of=part bs=7 skip=3 count=2 status=none
bounded dd if=once.pb of=want bs=7 skip=3 count=2 status=none
same part want
fails_with 'Permission denied' sh -c "echo > '$x/add/optimized.hlo.pb'"
# With its configuration, as plugins give it, too.
perl -e 'local $/; $_ = <STDIN>; my $n = length; my $v = "";
	while ($n > 127) { $v .= chr($n & 127 | 128); $n >>= 7 }
	print "\x0a$v", chr($n), $_, "\x12\x02\x08\x01"' <once.pb >with-config.hlo.pb
bounded cp with-config.hlo.pb "$mnt/programs/"
run with-config 'x y -> z3'
same "$mnt/buffers/z.npy" "$mnt/buffers/z3.npy"

# -- a text of some MiB: its readers delay no other process, and each gets all of it
perl -e 'my $n = 1 << 21; my $t = "tensor<${n}xi32>"; print "func.func \@main(%x: $t) -> $t {\n",
	"%0 = stablehlo.constant dense<\"0x", unpack("H*", pack("l<*", 1 .. $n)), "\"> : $t\n",
	"%1 = stablehlo.add %0, %x : $t\nreturn %1 : $t\n}\n"' >large.mlir
bounded cp large.mlir "$mnt/programs/"
big=$x/large/optimized.hlo.pb
told=$(bounded stat -c %s "$big")
[ "$told" -gt 4194304 ] || fail "the large program has $told bytes"
readers=()
for i in 1 2 3 4; do
	bounded cat "$big" >"big$i" &
	readers+=($!)
done
run add 'x y -> z4'
for i in "${readers[@]}"; do
	wait "$i" || fail "a reader of the large program failed"
done
for i in 1 2 3 4; do
	equal "size of reader $i's" "$(stat -c %s "big$i")" "$told"
	same big1 "big$i"
done

# -- a reader keeps the text it opened; after a death the text is available again
exec 4<"$x/add/optimized.hlo.pb"
kill -KILL "$(bounded cat "$mnt/plugins/$me/pid")"
bounded cat <&4 >kept.pb
exec 4<&-
same kept.pb once.pb
bounded cp "$x/add/optimized.hlo.pb" after.pb
equal "size after a death" "$(stat -c %s after.pb)" "$(size "$x/add/optimized.hlo.pb")"
[ -s after.pb ] || fail "nothing is left after a death"

# A removed or failed program has none.
bounded rm "$mnt/programs/add.mlir"
if cp "$data/x.npy" "$mnt/programs/add.mlir" 2>/dev/null; then
	fail "an array compiled"
fi
equal "size of what failed" "$(size "$x/add/optimized.hlo.pb")" 0
shows "$x/add/memory.json" '{}'

# -- names of the inputs: a framework's, else those of the text
names()
{
	bounded jq -c '[.inputs[].name]' "$mnt/executables/$1/signature.json"
}
sed 's/%arg0/%left/g; s/%arg1/%right/g' "$data/add.mlir" >sides.mlir
bounded cp sides.mlir "$mnt/programs/"
say "$mnt/executables/sides/run" '{"inputs":{"right":"y","left":"x"},"outputs":["z"]}'
fails_with 'Invalid argument' run sides 'x -> z'
# the same from the cache
bounded rm "$mnt/programs/sides.mlir"
bounded cp sides.mlir "$mnt/programs/others.mlir"
equal "names" "$(names others)" '["left","right"]'
sed 's/%arg0/%x-left/g; s/%arg1/%x-right/g' "$data/add.mlir" >hyphens.mlir
bounded cp hyphens.mlir "$mnt/programs/"
equal "names with hyphens" "$(names hyphens)" '["x-left","x-right"]'
