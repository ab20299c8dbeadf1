#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# PLUGIN: each
# SANITIZE: asan
# COST: 5 CPU-s in 15 s
# What was compiled once is loaded the next time, and shows and does all that a compiled program does:
# after a restart, by others, by name, for any devices, not for another plugin.
. "$srcdir/tests/words.sh"
requires xz --version
p=${plugin:-cpu}
export PJRTFS_CACHE_DIR=$work/kept
tar -xJf "$top/tests/conformance/cases.tar.xz" cases/multi/matmul_2x2_gspmd
exported=$data/jax/f.jax_exported

# cached NAME: hit or miss
cached()
{
	bounded jq -r .cache "$mnt/executables/$1/info.json"
}
# stat_of KEY: a number of stats.json
stat_of()
{
	bounded jq -r ".$1" "$mnt/cache/stats.json"
}
# wants KEY NUMBER: it is that once all compiles have ended
wants()
{
	settle
	equal "$1" "$(stat_of "$1")" "$2"
}
# put NAME FILE [OPTIONS]: compile it, with these options from the start
put()
{
	touch "$mnt/programs/$1.${2##*.}"
	[ -z "${3-}" ] || say "$mnt/executables/$1/options.json" "$3"
	bounded cp "$2" "$mnt/programs/$1.${2##*.}"
}
# again: compile add once more
again()
{
	bounded rm "$mnt/programs/add.mlir"
	bounded cp "$data/add.mlir" "$mnt/programs/"
}
begin()
{
	mount_pjrtfs "$@"
	bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
}
cat >two.mlir <<'END'
func.func @main(%a: tensor<2x3xf32> {tf.aliasing_output = 1 : i32}, %b: tensor<2x3xf32>, %unused: tensor<4xi1>)
    -> (tensor<3x2xf32>, tensor<2x3xf32>) {
  %0 = stablehlo.transpose %b, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.multiply %a, %b : tensor<2x3xf32>
  return %0, %1 : tensor<3x2xf32>, tensor<2x3xf32>
}
END
cat >alias.mlir <<'END'
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32> {tf.aliasing_output = 0 : i32})
    -> (tensor<2x3xf32>) {
  %0 = stablehlo.add %a, %b : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
END

programs='add alias export far flags two replicas four as sum any'
put_all()
{
	bounded test -e "$mnt/programs/add.mlir" || put add "$data/add.mlir"
	put alias alias.mlir
	put export "$exported"
	put far "$data/add.mlir" '{"device":2}'
	put flags "$data/add.mlir" '{"env_option_overrides":{"xla_cpu_enable_fast_min_max":false}}'
	put two two.mlir
	put replicas "$data/jax/two-replicas.mlirbc" '{"device_assignment":[[3],[1]]}'
	put four cases/multi/matmul_2x2_gspmd/program.mlir
	put sum "$data/sum.mlir"
	put any "$data/add.mlir" '{"compile_portable_executable":true}'
	good '{"op":"compile","program":"add","as":"as","options":{"device":"'"$p"':1"}}'
}
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
# save INTO: what those of several kinds show
save()
{
	local name f
	for name in alias export far two four; do
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

# -- the first time
begin
put add "$data/add.mlir"
wants entries 1
key=$(ls "$work/kept/entries")
equal "the key's length" "${#key}" 64
put_all
for name in $programs; do
	equal "$name, the first time" "$(cached "$name")" miss
done
wants entries 11
equal "misses" "$(stat_of misses)" 11
equal "hits" "$(stat_of hits)" 0
save compiled
[ -s compiled/export/optimized.hlo.pb ] || fail "no optimized program"
# the same again, under another name, is not compiled again
put again two.mlir
equal "again" "$(cached again)" hit
equal "entries" "$(stat_of entries)" 11
# with other options it is another program
say "$mnt/executables/again/options.json" '{"device_assignment":[[1]]}'
equal "again on another device" "$(cached again)" miss
# the module of an export has another key than the export
perl -0777 -ne 'my $at = index($_, "ML\xefR");
	print substr($_, $at, unpack("V", substr($_, $at - 4, 4)))' "$exported" >module.mlirbc
put module module.mlirbc
equal "the module alone" "$(cached module)" miss
wants entries 13
unmount_pjrtfs

# -- another daemon: the same numbers, the same signature, the same facts
begin
put_all
for name in $programs; do
	equal "$name, the second time" "$(cached "$name")" hit
done
save loaded
diff -r compiled loaded || fail "programs from the cache show something else"
jq -e '.devices == [2]' loaded/far/info.json >/dev/null || fail "far is elsewhere"
bounded jq -e '.device_assignment == [[3],[1]]' "$mnt/executables/replicas/info.json" >/dev/null ||
	fail "replicas is elsewhere"
equal "misses" "$(stat_of misses)" 13
equal "directory" "$(stat_of directory)" "$work/kept"
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
packed 'C*' 1 0 1 0 | npy '|b1' '(4,)' >u.npy
bounded cp u.npy "$mnt/buffers/"
run two 'x y u -> t m'
shows "$mnt/buffers/t.txt" $'10 40\n20 50\n30 60'
shows "$mnt/buffers/m.txt" $'10 40 90\n160 250 360'
# what is given away is given away by a loaded program, too
bounded cp "$data/x.npy" "$mnt/buffers/gone.npy"
good '{"op":"execute","executable":"two","inputs":["gone","y","u"],"outputs":["t","m"],"donate":["gone"]}'
tells "$mnt/buffers/gone.json" '"state":"donated"'
shows "$mnt/buffers/m.txt" $'10 40 90\n160 250 360'
# they run where they were compiled for
for d in 1 2; do bounded cp "$data/x.npy" "$data/y.npy" "$mnt/devices/$p/$d/buffers/"; done
run far 'x y -> z'
tells "$mnt/executables/far/run" "^ok: z F32\\[2,3\\] on $p:2 in "
shows "$mnt/devices/$p/2/buffers/z.txt" $'11 22 33\n44 55 66'
run as 'x y -> z'
tells "$mnt/executables/as/run" "^ok: z F32\\[2,3\\] on $p:1 in "
for d in 0 1; do echo "1 2 $d" >"$mnt/devices/$p/$d/buffers/v.txt"; done
good '{"op":"execute","executable":"sum","inputs":[["v"],["v"]],"outputs":[["s"],["s"]]}'
shows "$mnt/devices/$p/1/buffers/s.txt" '2 4 1'
run any 'x y -> z'
tells "$mnt/executables/any/run" "^ok: z F32\\[2,3\\] on $p:0 in "
# and what they were optimized to can be compiled
bounded cp "$mnt/executables/add/optimized.hlo.pb" "$mnt/programs/optimized.hlo.pb"
run optimized 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
bounded rm "$mnt/programs/optimized.hlo.pb"

# -- a worker dies: the next one loads its programs from the cache
hits=$(stat_of hits)
kill_worker "$p"
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
equal "add" "$(cached add)" hit
equal "hits" "$(stat_of hits)" $((hits + 1))

# -- entries describe themselves
tells "$mnt/cache/entries/$key" '"plugin":"'"$p"'"' '"platform":"cpu"' '"uses":[2-9]' \
	'"size":[1-9]' '"last_use":[1-9][0-9]*\.' '"compile_seconds":'
equal "size" "$(stat -c %s "$work/kept/entries/$key")" \
	"$(bounded jq .size "$mnt/cache/entries/$key")"
equal "mtime" "$(stat -c %Y "$work/kept/entries/$key")" "$(bounded stat -c %Y "$mnt/cache/entries/$key")"
equal "mode" "$(stat -c %a "$work/kept")" 700
equal "mode of an entry" "$(stat -c %a "$work/kept/entries/$key")" 600
fails_with 'No such file' cat "$mnt/cache/entries/${key%?}x"
fails_with '' touch "$mnt/cache/entries/new"

# -- evicting one; clearing; the limit
entries=$(stat_of entries)
bounded rm "$mnt/cache/entries/$key"
gone "$work/kept/entries/$key" "$mnt/cache/entries/$key"
equal "entries" "$(stat_of entries)" $((entries - 1))
equal "evictions" "$(stat_of evictions)" 1
evicted()
{
	bounded grep -c '"cache.evicted","user":'"$(id -u)"',"object":"cache/entries/[0-9a-f]*","bytes":[1-9]' \
		"$mnt/events"
}
equal "evictions that are told" "$(evicted)" 1
bounded cp "$data/add.mlir" "$mnt/programs/new.mlir"
equal "new" "$(cached new)" miss
wants entries "$entries"
shows "$mnt/cache/max" 2147483648
say "$mnt/cache/max" 1G
shows "$mnt/cache/max" 1073741824
say "$mnt/cache/max" max
shows "$mnt/cache/max" max
fails_with 'Invalid argument' say "$mnt/cache/max" lots
fails_with 'Invalid argument' say "$mnt/cache/max" -1
shows "$mnt/cache/max" max
one=$(bounded jq .size "$mnt/cache/entries/$key")
say "$mnt/cache/max" $((one + 100))
equal "entries" "$(stat_of entries)" 1
[ -e "$work/kept/entries/$key" ] || fail "the one that was used last has gone"
say "$mnt/cache/max" 2G

# -- if another process holds the lock, only operations that need the lock wait
exec 9<"$work/kept/lock"
flock 9
served_meanwhile()
{
	local clearing served=0
	fails_with 'busy' say "$mnt/cache/clear" x &
	clearing=$!
	while kill -0 $clearing 2>/dev/null; do
		shows "$mnt/health" ok
		served=$((served + 1))
		sleep 0.05
	done
	wait $clearing && [ "$served" -gt 3 ] # one may begin before clear waits
}
eventually served_meanwhile
exec 9<&-
equal "clear" "$(bounded cat "$mnt/cache/clear")" ''
before=$(stat_of entries)
bounded ls "$mnt/cache/entries" >/dev/null # takes the evicted names away, which tar would note
bounded tar cf - -C "$mnt" cache >/dev/null # reading clear removes no entry
equal "entries before clear" "$(stat_of entries)" "$before"
say "$mnt/cache/clear" x
equal "entries" "$(stat_of entries)" 0
equal "bytes" "$(stat_of bytes)" 0
equal "entries/" "$(bounded ls "$mnt/cache/entries")" ''
equal "evictions that are told" "$(evicted)" "$(stat_of evictions)"
bounded grep -qx "pjrtfs_cache_evictions_total $(stat_of evictions)" "$mnt/metrics.prom"
equal "files" "$(find "$work/kept/entries" -type f | wc -l)" 0
run add 'x y -> z' # what is loaded stays


# -- what a plugin cannot load is compiled anew
again
wants entries 1
perl -e '
	use Digest::SHA qw(sha256);
	local $/;
	open(F, "+<", $ARGV[0]) or die; binmode F; my $b = <F>;
	my ($meta, $hlo, $code) = unpack("Q<3", substr($b, 80, 24));
	substr($b, 256 + $meta + $hlo, $code) = "?" x $code;
	substr($b, 48, 32) = sha256(substr($b, 256));
	substr($b, 216, 32) = sha256(substr($b, 0, 216));
	seek(F, 0, 0); print F $b; close F' "$work/kept/entries/$key"
again
equal "add" "$(cached add)" miss
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
equal "damaged" "$(stat_of damaged)" 1
wants entries 1
again
equal "add" "$(cached add)" hit

# -- one flipped byte is found before the plugin sees it
perl -e 'open(F, "+<", $ARGV[0]); seek(F, -1, 2); read(F, $c, 1); seek(F, -1, 2);
	print F chr(ord($c) ^ 16)' "$work/kept/entries/$key"
again
equal "add" "$(cached add)" miss
equal "damaged" "$(stat_of damaged)" 2
bounded grep -q "\"cache.damaged\".*\"object\":\"cache/entries/$key\"" "$mnt/events"
wants entries 1

unmount_pjrtfs

# -- none at all
mount_pjrtfs --no-cache
bounded cp "$data/add.mlir" "$mnt/programs/"
equal "add" "$(cached add)" miss
gone "$mnt/cache"
unmount_pjrtfs
equal "entries" "$(find "$work/kept/entries" -type f | wc -l)" 1

# -- with other compiler flags it is another program
XLA_FLAGS=--xla_cpu_enable_fast_min_max=false mount_pjrtfs --cache-dir "$work/kept"
bounded cp "$data/add.mlir" "$mnt/programs/"
equal "add" "$(cached add)" miss
unmount_pjrtfs

# -- three plugins of one platform, one cache: none runs what another compiled
# (here in the default directory)
for p in cpu-0.81 cpu-0.106; do
	requires test -e "$plugins/$p/pjrt_plugin.so"
done
PJRTFS_CACHE_DIR='' XDG_CACHE_HOME=$work/xdg mount_pjrtfs cpu,cpu-0.81,cpu-0.106
bounded cp "$data/add.mlir" "$mnt/programs/"
for round in miss hit; do
	for p in cpu cpu-0.81 cpu-0.106; do
		good '{"op":"compile","program":"add","as":"'"$round-$p"'","options":{"device":"'"$p"':0"}}'
		bounded cp "$data/x.npy" "$data/y.npy" "$mnt/devices/$p/0/buffers/"
		run "$round-$p" 'x y -> z'
		shows "$mnt/devices/$p/0/buffers/z.txt" $'11 22 33\n44 55 66'
		equal "$p" "$(cached "$round-$p")" $round
		bounded jq -r .fingerprint "$mnt/executables/$round-$p/info.json" >>fingerprints
	done
	wants entries 4 # with that of add itself, which is compiled without options
done
# Their own fingerprints would not have kept them apart.
[ "$(sort -u fingerprints | wc -l)" -lt 3 ] || fail "the fingerprints differ by now"
equal "plugins known" "$(wc -l <"$work/xdg/pjrtfs/plugins")" 3
equal "its mode" "$(stat -c %a "$work/xdg/pjrtfs")" 700
