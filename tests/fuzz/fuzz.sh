#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# LIMIT: 10000 s
# COST: 125 CPU-s in 127 s
# The fuzzers of the parsers find nothing, in their corpus and for a few seconds each; for a minute
# those whose parser has changed within a day.
. "$srcdir/tests/lib.sh"
requires command -v clang
seconds=${FUZZ_SECONDS:-$((times == 1 ? 5 : 600))}
for source in "$top"/tests/fuzz/fuzz_*.c; do
	name=${source##*/fuzz_}
	name=${name%.c}
	make -C "$build" "tests/fuzz/fuzz_$name" >said 2>&1 || fail "fuzz_$name: $(tail -n 40 said)"
	longer=$seconds
	[ -z "$(git -C "$top" log --since=1.day.ago --format=%h -- "$source" \
		"$top/src/formats/*/$name*.c" 2>/dev/null)" ] || longer=$((seconds * 12))
	make -C "$build" "fuzz-$name" FUZZ_SECONDS="$longer" >said 2>&1 || fail "$(cat said)"
done
