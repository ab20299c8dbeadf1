#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# A program from the cache shows, and does, all that a compiled one does, whatever it was in.
. "$srcdir/tests/lib.sh"
requires jq --version
requires xz --version
export PJRTFS_CACHE_DIR=$work/kept
me=${plugin:-cpu}
tar -xJf "$top/tests/conformance/cases.tar.xz" cases/multi/matmul_2x2_gspmd
bytes=$data/jax/f.jax_exported
cat >alias.mlir <<'END'
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32> {tf.aliasing_output = 0 : i32})
    -> (tensor<2x3xf32>) {
  %0 = stablehlo.add %a, %b : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
END

# cached NAME: hit or miss
cached()
{
	bounded jq -r .cache "$mnt/executables/$1/info.json"
}
# put NAME FILE [OPTIONS]: compile it, with these options from the start
put()
{
	touch "$mnt/programs/$1.${2##*.}"
	[ -z "${3-}" ] || say "$mnt/executables/$1/options.json" "$3"
	bounded cp "$2" "$mnt/programs/$1.${2##*.}"
}
put_all()
{
	put add "$data/add.mlir"
	put alias alias.mlir
	put export "$bytes"
	put far "$data/add.mlir" '{"device":2}'
	put flags "$data/add.mlir" '{"env_option_overrides":{"xla_cpu_enable_fast_min_max":false}}'
	put two "$data/jax/two-replicas.mlirbc" '{"device_assignment":[[3],[1]]}'
	put four cases/multi/matmul_2x2_gspmd/program.mlir
	ask '{"op":"compile","program":"add","as":"as","options":{"device":"'"$me"':1"}}' >reply
	tells reply '"ok":true'
}
programs='add alias export far flags two four as'
# unnumbered: the bytes, sorted, of a HloModuleProto without its field 5, the number that a
# plugin gives to each module in turn; maps are in any order each time
unnumbered()
{
	perl -0777 -ne 'my $all = "";
	while (/\G([\x80-\xff]*[\0-\x7f])/gc) {
		my ($tag, $field) = ($1, $1);
		die "a field of type ", ord($tag) & 7 unless (ord($tag) & 5) == 0;
		/\G([\x80-\xff]*[\0-\x7f])/gc or die "cut";
		$field .= $1;
		if (ord($tag) & 2) {
			my ($len, $shift) = (0, 0);
			$len |= (ord($_) & 127) << $shift, $shift += 7 for split //, $1;
			$field .= substr($_, pos, $len);
			pos($_) += $len;
		}
		$all .= $field unless $tag eq "\x28";
	}
	print sort split //, $all'
}
# save INTO: what each of them shows
save()
{
	local name
	for name in $programs; do
		mkdir -p "$1/$name"
		for f in signature.json options.json cost.json memory.json; do
			bounded cat "$mnt/executables/$name/$f" >"$1/$name/$f"
		done
		bounded cat "$mnt/executables/$name/optimized.hlo.pb" >optimized
		bounded jq 'del(.compile_seconds, .cache)' "$mnt/executables/$name/info.json" \
			>"$1/$name/info.json"
		equal "size of $name's optimized program" \
			"$(bounded stat -c %s "$mnt/executables/$name/optimized.hlo.pb")" \
			"$(stat -c %s optimized)"
		unnumbered <optimized >"$1/$name/optimized.hlo.pb"
	done
}
entries_are()
{
	[ "$(jq -r .entries "$mnt/cache/stats.json")" = "$1" ]
}

mount_pjrtfs "$me"
put_all
for name in $programs; do
	equal "$name, the first time" "$(cached "$name")" miss
done
eventually entries_are 8
save compiled
[ -s compiled/export/optimized.hlo.pb ] || fail "no optimized program"
# The module of an export has another key than the export.
perl -0777 -ne 'my $at = index($_, "ML\xefR");
	print substr($_, $at, unpack("V", substr($_, $at - 4, 4)))' "$bytes" >module.mlirbc
put module module.mlirbc
equal "the module alone" "$(cached module)" miss
eventually entries_are 9
unmount_pjrtfs

mount_pjrtfs "$me"
put_all
for name in $programs; do
	equal "$name, the second time" "$(cached "$name")" hit
done
save loaded
diff -r compiled loaded || fail "programs from the cache show something else"
jq -e '.devices == [2]' loaded/far/info.json >/dev/null || fail "far is elsewhere"
jq -e '.device_assignment == [[3],[1]]' loaded/two/info.json >/dev/null || fail "two is elsewhere"

# -- they run where they were compiled for
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/devices/$me/2/buffers/"
run far 'x y -> z'
tells "$mnt/executables/far/run" "^ok: z F32\\[2,3\\] on $me:2 in "
shows "$mnt/devices/$me/2/buffers/z.txt" $'11 22 33\n44 55 66'
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/devices/$me/1/buffers/"
run as 'x y -> z'
tells "$mnt/executables/as/run" "^ok: z F32\\[2,3\\] on $me:1 in "
# and what they were optimized to can be compiled
bounded cp "$mnt/executables/add/optimized.hlo.pb" "$mnt/programs/again.hlo.pb"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run again 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
