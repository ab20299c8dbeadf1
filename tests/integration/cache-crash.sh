#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 6 CPU-s
# kill -9 while the cache's directory is filled, and two processes that share it: what is there is
# whole, counted and used.
. "$srcdir/tests/lib.sh"
requires_mount
stress=$build/tests/tools/cache_stress
m=$work/m
mkdir "$m"
pid=
at_end '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
	bounded fusermount3 -u -z "$m" 2>/dev/null'
begun()
{
	[ -n "$(find "$fills/entries" -type f -newer since)" ]
}
# killed COMMAND...: it writes an entry into $fills, and is killed at once or a while later
killed()
{
	touch since
	"$@" </dev/null >"$work/log" 2>&1 &
	pid=$!
	eventually begun
	perl -e 'select undef, undef, undef, rand 0.05'
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
	pid=
}
count()
{
	sed -n "s/.*$1 \([0-9]*\).*/\1/p" "$2"
}

# -- a process that fills the cache, again and again: no entry fails its check
fills=$work/killed
writing()
{
	[ -n "$(find killed/tmp -type f 2>/dev/null)" ]
}
kills=0
until [ "$kills" -ge $((20 * times)) ] && writing; do
	[ "$SECONDS" -lt $((patience * 10)) ] || fail "nobody was killed while writing"
	kills=$((kills + 1))
	killed "$stress" fill "$work/killed" "$kills"
	"$stress" verify "$work/killed" >said || fail "after $kills kills: $(cat said)"
done
"$stress" check "$work/killed" >said
tells said 'good [1-9].* damaged 0'
# the temporary files that they left are removed when old
touch -d '1 hour ago' "$work"/killed/tmp/*
"$stress" check "$work/killed" >said
! writing || fail "$(ls "$work/killed/tmp") stays"

# -- the daemon, while it compiles one program after another
export PJRTFS_CACHE_DIR=$work/kept
fill()
{
	local n
	eventually test -e "$m/version"
	for n in $(seq 500); do
		sed "s/@add/@add_$1_$n/" "$data/add.mlir" >"$work/p$n.mlir"
		bounded cp "$work/p$n.mlir" "$m/programs/" 2>/dev/null || return 0
	done
}
fills=$work/kept
most=0
for round in $(seq $((3 * times))); do
	fill "$round" &
	filler=$!
	killed "$pjrtfs" "${plugin:-cpu}" "$m" -f --plugin-dir "$plugins"
	bounded fusermount3 -u -z "$m"
	wait "$filler" || true
	"$stress" verify "$work/kept" >n || fail "after $round kills: $(cat n)"
	[ "$(cat n)" -gt "$most" ] || fail "entries were lost: $most, then $(cat n)"
	most=$(cat n)
done
# and the next daemon counts and uses them
mount_pjrtfs
equal "entries" "$(bounded jq .entries "$mnt/cache/stats.json")" "$most"
equal "damaged" "$(bounded jq .damaged "$mnt/cache/stats.json")" 0
one=$(bounded ls "$mnt/cache/entries" | head -n 1)
one=$(bounded jq -r .program "$mnt/cache/entries/$one")
put_like_add "$one"
equal "$one" "$(bounded jq -r .cache "$mnt/executables/$one/info.json")" hit

# -- two at once, puts, hits and evictions: none is lost
"$stress" mixed "$work/shared" 1 $((1000 * times)) 3000000 >one &
first=$!
"$stress" mixed "$work/shared" 2 $((1000 * times)) 3000000 >two
wait "$first"
"$stress" check "$work/shared" >said
equal hits "$(count hits said)" $(($(count hits one) + $(count hits two)))
equal misses "$(count misses said)" $(($(count misses one) + $(count misses two)))
[ "$(count hits said)" -gt $((200 * times)) ] || fail "hardly a hit: $(cat said)"
[ "$(count bytes said)" -le 3000000 ] || fail "beyond the maximum: $(cat said)"
[ "$(count evictions said)" -gt $(($(count removed one) + $(count removed two))) ] ||
	fail "nothing was evicted for room: $(cat said)"
