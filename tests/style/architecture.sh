#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# The picture of the layers is the one that the sources give, the tests that the documents name
# exist, and nothing parses memory that a worker can write.
"$srcdir/scripts/draw-layers" | diff "$srcdir/docs/architecture.svg" - || {
	echo "make it anew: scripts/draw-layers > docs/architecture.svg"
	exit 1
}
status=0
tests=$(cd "$srcdir" && find tests)
for doc in "$srcdir"/docs/*.md; do
	while read -r name; do
		grep -qE "(^|/)${name//./\\.}(\\.c)?\$" <<<"$tests" || {
			echo "${doc##*/} names $name, which does not exist"
			status=1
		}
	done < <(grep -oE '`(tests/[a-z/_-]+/)?(check_[a-z_]+\.c|[a-z_-]+\.sh|tests/bench/[a-z.]+)' "$doc" |
		tr -d '`')
done
# Bytes that a worker can change are copied; these files hand them on, or walk through them once.
follow=$(cd "$srcdir" && grep -r '\.shared\b' src | grep -v '![a-z]*\.shared' | cut -d: -f1 | sort -u | tr '\n' ' ')
[ "$follow" = "src/base/shared.c src/formats/program/skeleton.c src/store/compile.c src/store/compile_cache.c " ] || {
	echo "expected the pointer of a struct pf_shared_bytes in the files that this test names, found it in $follow"
	status=1
}
exit "$status"
