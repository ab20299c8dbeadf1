#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 6 CPU-s
# kill -9 of the daemon while it fills the cache: what is there is whole, and is used.
#
# PJRTFS_TEST_KILLS in the environment is how often; 15 if not set.
. "$srcdir/tests/lib.sh"
requires jq --version
requires test -w /dev/fuse
name=${plugin:-cpu}
requires test -e "$plugins/$name/pjrt_plugin.so"
export PJRTFS_CACHE_DIR=$work/kept
kills=${PJRTFS_TEST_KILLS:-15}
m=$work/m
mkdir "$m"
pid=
end()
{
	local status=$?
	set +e
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
	timeout 10 fusermount3 -u -z "$m" 2>/dev/null
	(exit "$status")
	lib_end
}
trap end EXIT

# fill ROUND: new programs, one after another, until it is killed
fill()
{
	local n
	for n in $(seq 500); do
		sed "s/@add/@add_$1_$n/" "$data/add.mlir" >"$work/p$n.mlir"
		timeout 5 cp "$work/p$n.mlir" "$m/programs/" 2>/dev/null || return 0
	done
}
# more: this daemon has put an entry
more()
{
	[ "$(find "$work/kept/entries" -type f | wc -l)" -gt "$most" ]
}
most=0
for round in $(seq "$kills"); do
	"$pjrtfs" "$name" "$m" -f --plugin-dir "$plugins" </dev/null >"$work/log" 2>&1 &
	pid=$!
	eventually test -e "$m/version"
	fill "$round" &
	filler=$!
	eventually more
	sleep "0.$((round % 4))$((RANDOM % 10))"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
	pid=
	timeout 10 fusermount3 -u -z "$m"
	wait "$filler" || true
	"$build/tests/tools/cache_stress" verify "$work/kept" >n || fail "after $round kills: $(cat n)"
	[ "$(cat n)" -ge "$most" ] || fail "entries were lost: $most, then $(cat n)"
	most=$(cat n)
done
[ "$most" -ge "$kills" ] || fail "only $most entries after $kills kills"
echo "$most entries after $kills kills"

# -- and the next daemon counts and uses them
mount_pjrtfs "$name"
equal "entries" "$(bounded jq .entries "$mnt/cache/stats.json")" "$most"
equal "damaged" "$(bounded jq .damaged "$mnt/cache/stats.json")" 0
one=$(bounded ls "$mnt/cache/entries" | head -n 1)
one=$(bounded jq -r .program "$mnt/cache/entries/$one")
sed "s/@add/@$one/" "$data/add.mlir" >p.mlir
bounded cp p.mlir "$mnt/programs/"
equal "$one" "$(bounded jq -r .cache "$mnt/executables/p/info.json")" hit
