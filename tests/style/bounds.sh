#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# scripts/check-bench: a ratio beyond its bound fails, unless repeats show that it was noise.
set -eu
top=${srcdir:-.}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# row LOWEST BASELINE'S: append them, as a benchmark does
row()
{
	printf '{"program":"call","bench":"Call: it","row":"%s","lowest":%s,"ratio":%s}\n' \
		direct "$2" '{}' mount "$1" '{"to direct":{"base":"direct","lowest":0.1}}'
}

# check BOUND [COMMAND...]: does the run in rows have ratios within it?
check()
{
	echo "Call: | mount | to direct | $1" >"$dir/bounds"
	cp "$dir/rows" "$dir/bench.jsonl"
	shift
	"$top/scripts/check-bench" "$dir/bounds" "$dir/bench.jsonl" "$@" >"$dir/said" 2>&1
}

fail()
{
	cat "$dir/said"
	echo "FAIL: $*"
	exit 1
}

# two runs: of each row the lowest time counts, not the ratio of one run
{ row 3 1 && row 2 4; } >"$dir/rows"
check 2.1 || fail "2 to 1 is within 2.1"
if check 1.9; then fail "2 to 1 is not within 1.9"; fi

# a repeat of that benchmark alone, whose samples count
cat >"$dir/again" <<'END'
#!/bin/sh
echo "$2" >>"$1/asked"
cat "$1/faster" >>"$1/bench.jsonl"
END
chmod +x "$dir/again"
row 1.5 1.2 >"$dir/faster"
check 1.6 "$dir/again" "$dir" || fail "a repeat had 1.5"
[ "$(cat "$dir/asked")" = bench_again=call ] || fail "it asked for $(cat "$dir/asked")"
row 2.5 1.2 >"$dir/faster"
rm "$dir/asked"
if check 1.6 "$dir/again" "$dir"; then fail "no repeat was faster"; fi
[ "$(wc -l <"$dir/asked")" = 8 ] || fail "$(wc -l <"$dir/asked") repeats"

# a row that was not measured
sed -i s/mount/mounts/ "$dir/rows"
if check 3; then fail "there is no such row"; fi
grep -q 'not measured' "$dir/said" || fail "it does not say so"
