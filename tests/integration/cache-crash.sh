#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 6 CPU-s
# The cache's directory under processes that are killed, and under two that share it.
. "$srcdir/tests/lib.sh"
stress=$build/tests/tools/cache_stress

# -- kill -9 of a process that fills the cache, again and again: no entry fails its check
times=200
if sanitized; then
	times=40
fi
for i in $(seq "$times"); do
	"$stress" fill "$work/killed" "$i" &
	pid=$!
	sleep "0.0$((i % 4))$((i % 10))"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
done
"$stress" check "$work/killed" >said
tells said 'good [1-9].* damaged 0'
[ "$(find "$work/killed/tmp" -type f | wc -l)" -ge 1 ] || echo "nobody was killed while writing"

# -- the temporary files that they left are removed when old
touch -d '1 hour ago' "$work"/killed/tmp/* 2>/dev/null || true
"$stress" check "$work/killed" >said
equal "temporary files" "$(find "$work/killed/tmp" -type f | wc -l)" 0

# -- two at once, 10,000 puts, hits and evictions: none is lost
"$stress" mixed "$work/shared" 1 5000 3000000 >one &
first=$!
"$stress" mixed "$work/shared" 2 5000 3000000 >two
wait "$first"
"$stress" check "$work/shared" >said
count()
{
	sed -n "s/.*$1 \([0-9]*\).*/\1/p" "$2"
}
equal hits "$(count hits said)" $(($(count hits one) + $(count hits two)))
equal misses "$(count misses said)" $(($(count misses one) + $(count misses two)))
[ "$(count hits said)" -gt 1000 ] || fail "hardly a hit: $(cat said)"
[ "$(count bytes said)" -le 3000000 ] || fail "beyond the maximum: $(cat said)"
[ "$(count evictions said)" -gt $(($(count removed one) + $(count removed two))) ] ||
	fail "nothing was evicted for room: $(cat said)"
