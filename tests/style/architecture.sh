#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# The picture of the layers is the one that the sources give, and the tests that the documents name
# exist.
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
exit "$status"
