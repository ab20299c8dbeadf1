#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# PLUGIN: each
# SANITIZE: asan
# COST: 5 CPU-s in 15 s
# What was compiled once is loaded the next time: after a restart, by others, and by name.
. "$srcdir/tests/lib.sh"
requires jq --version
p=${plugin:-cpu}
export PJRTFS_CACHE_DIR=$work/kept

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
# wants KEY NUMBER: it becomes that
wants()
{
	eventually test_stat "$1" "$2"
}
test_stat()
{
	[ "$(jq -r ".$1" "$mnt/cache/stats.json")" = "$2" ]
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

# -- the first time
begin
bounded cp "$data/add.mlir" two.mlir "$mnt/programs/"
equal "add" "$(cached add)" miss
equal "two" "$(cached two)" miss
run add 'x y -> z'
cp "$mnt/executables/two/signature.json" two.signature
jq 'del(.compile_seconds)' "$mnt/executables/two/info.json" >two.info
bounded cp "$mnt/executables/two/optimized.hlo.pb" .
wants entries 2
equal "misses" "$(stat_of misses)" 2
equal "hits" "$(stat_of hits)" 0
# the same again, under another name, is not compiled again
bounded cp two.mlir "$mnt/programs/again.mlir"
equal "again" "$(cached again)" hit
equal "entries" "$(stat_of entries)" 2
# with other options it is another program
say "$mnt/executables/again/options.json" '{"device_assignment":[[1]]}'
equal "again on another device" "$(cached again)" miss
wants entries 3
unmount_pjrtfs

# -- another daemon: the same numbers, the same signature, the same facts
begin
bounded cp "$data/add.mlir" two.mlir "$mnt/programs/"
equal "add" "$(cached add)" hit
equal "two" "$(cached two)" hit
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
same "$mnt/executables/two/signature.json" two.signature
jq 'del(.compile_seconds)' "$mnt/executables/two/info.json" | sed 's/"hit"/"miss"/' |
	cmp - two.info || fail "the facts of a loaded program are others"
packed 'C*' 1 0 1 0 | npy '|b1' '(4,)' >u.npy
bounded cp u.npy "$mnt/buffers/"
run two 'x y u -> t m'
shows "$mnt/buffers/t.txt" $'10 40\n20 50\n30 60'
shows "$mnt/buffers/m.txt" $'10 40 90\n160 250 360'
# what is given away is given away by a loaded program, too
bounded cp "$data/x.npy" "$mnt/buffers/gone.npy"
ask '{"op":"execute","executable":"two","inputs":["gone","y","u"],"outputs":["t","m"],"donate":["gone"]}' >reply
tells reply '"ok":true'
tells "$mnt/buffers/gone.json" '"state":"donated"'
shows "$mnt/buffers/m.txt" $'10 40 90\n160 250 360'
# what the compiler left of it can be had of a loaded one, too
bounded cp "$mnt/executables/two/optimized.hlo.pb" again.hlo.pb
equal "its size" "$(stat -c %s again.hlo.pb)" "$(stat -c %s optimized.hlo.pb)"
equal "its size" "$(stat -c %s again.hlo.pb)" \
	"$(bounded stat -c %s "$mnt/executables/two/optimized.hlo.pb")"
equal "misses" "$(stat_of misses)" 3
equal "directory" "$(stat_of directory)" "$work/kept"

# -- a worker dies: the next one loads its programs from the cache
hits=$(stat_of hits)
kill_worker "$p"
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
equal "add" "$(cached add)" hit
equal "hits" "$(stat_of hits)" $((hits + 1))

# -- entries describe themselves
key=$(cd "$mnt/cache/entries" && grep -l '"program":"add"' -- *)
equal "the key's length" "${#key}" 64
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
bounded rm "$mnt/cache/entries/$key"
gone "$work/kept/entries/$key" "$mnt/cache/entries/$key"
equal "entries" "$(stat_of entries)" 2
equal "evictions" "$(stat_of evictions)" 1
evicted()
{
	bounded grep -c '"cache.evicted","user":'"$(id -u)"',"object":"cache/entries/[0-9a-f]*","bytes":[1-9]' \
		"$mnt/events"
}
equal "evictions that are told" "$(evicted)" 1
bounded cp "$data/add.mlir" "$mnt/programs/new.mlir"
equal "new" "$(cached new)" miss
wants entries 3
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
served=0
for _ in 1 2 3 4 5; do
	fails_with 'busy' say "$mnt/cache/clear" x &
	clearing=$!
	sleep 0.5
	shows "$mnt/health" ok
	sleep 0.3 # had it waited for clear, that would have ended by now
	kill -0 $clearing 2>/dev/null && served=1
	wait $clearing
done
equal "served while clear waits" $served 1
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
bounded cp "$data/add.mlir" "$mnt/programs/"
wants entries 1
unmount_pjrtfs
perl -e '
	use Digest::SHA qw(sha256);
	local $/;
	open(F, "+<", $ARGV[0]) or die; binmode F; my $b = <F>;
	my ($meta, $hlo, $code) = unpack("Q<3", substr($b, 80, 24));
	substr($b, 256 + $meta + $hlo, $code) = "?" x $code;
	substr($b, 48, 32) = sha256(substr($b, 256));
	substr($b, 216, 32) = sha256(substr($b, 0, 216));
	seek(F, 0, 0); print F $b; close F' "$work/kept/entries/$key"
begin
bounded cp "$data/add.mlir" "$mnt/programs/"
equal "add" "$(cached add)" miss
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
equal "damaged" "$(stat_of damaged)" 1
wants entries 1
unmount_pjrtfs
begin
bounded cp "$data/add.mlir" "$mnt/programs/"
equal "add" "$(cached add)" hit
unmount_pjrtfs

# -- one flipped byte is found before the plugin sees it
perl -e 'open(F, "+<", $ARGV[0]); seek(F, -1, 2); read(F, $c, 1); seek(F, -1, 2);
	print F chr(ord($c) ^ 16)' "$work/kept/entries/$key"
begin
bounded cp "$data/add.mlir" "$mnt/programs/"
equal "add" "$(cached add)" miss
equal "damaged" "$(stat_of damaged)" 2
bounded grep -q "\"cache.damaged\".*\"object\":\"cache/entries/$key\"" "$mnt/events"
wants entries 1
unmount_pjrtfs

# -- none at all
begin --no-cache
bounded cp "$data/add.mlir" "$mnt/programs/"
equal "add" "$(cached add)" miss
gone "$mnt/cache"
unmount_pjrtfs
equal "entries" "$(find "$work/kept/entries" -type f | wc -l)" 1

# -- a directory that is removed is made again
begin
bounded cp "$data/add.mlir" "$mnt/programs/"
equal "add" "$(cached add)" hit
for what in "$work/kept" "$work/kept/entries $work/kept/tmp $work/kept/lock $work/kept/stats"; do
	# shellcheck disable=SC2086 # several words
	rm -r $what
	bounded rm "$mnt/programs/add.mlir"
	bounded cp "$data/add.mlir" "$mnt/programs/"
	equal "add" "$(cached add)" miss
	wants entries 1
	equal "entries" "$(find "$work/kept/entries" -type f | wc -l)" 1
	bounded rm "$mnt/programs/add.mlir"
	bounded cp "$data/add.mlir" "$mnt/programs/"
	equal "add" "$(cached add)" hit
done
unmount_pjrtfs

# -- with other compiler flags it is another program
XLA_FLAGS=--xla_cpu_enable_fast_min_max=false mount_pjrtfs --cache-dir "$work/kept"
bounded cp "$data/add.mlir" "$mnt/programs/"
equal "add" "$(cached add)" miss
unmount_pjrtfs
