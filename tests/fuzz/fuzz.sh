#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# LIMIT: 10000 s
# COST: 115 CPU-s
# The fuzzers of the parsers find nothing, in their corpus and for a few seconds each; those whose parser has changed
# within a day share a minute more.
. "$srcdir/tests/lib.sh"
requires command -v clang
seconds=${FUZZ_SECONDS:-$((times == 1 ? 2 : 600))}
names=()
changed=()
for source in "$top"/tests/fuzz/fuzz_*.c; do
	name=${source##*/fuzz_}
	name=${name%.c}
	names+=("$name")
	make -C "$build" "tests/fuzz/fuzz_$name" >said 2>&1 || fail "fuzz_$name: $(tail -n 40 said)"
	[ -z "$(git -C "$top" log --since=1.day.ago --format=%h -- "$source" \
		"$top/src/formats/*/$name*.c" 2>/dev/null)" ] || changed+=("$name")
done

# fuzzes SECONDS NAME...: each for so long
fuzzes()
{
	for name in "${@:2}"; do
		make -C "$build" "fuzz-$name" FUZZ_SECONDS="$1" >said 2>&1 || fail "$(cat said)"
	done
}
fuzzes "$seconds" "${names[@]}"
[ "${#changed[@]}" = 0 ] || fuzzes $((60 / ${#changed[@]})) "${changed[@]}"
