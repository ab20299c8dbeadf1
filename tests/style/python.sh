#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# Every Python program is clean in the eyes of pyflakes: a name that is not there is found before a
# test comes to its line.
set -eu
command -v pyflakes3 >/dev/null || {
	echo "SKIP: pyflakes3 is missing: apt install pyflakes3"
	exit 77
}
cd "$srcdir"
{
	find tests docs demo python scripts -name '*.py'
	grep -rlE '^#!.*\bpython3?\b' scripts tests completions demo
} | sort -u | xargs pyflakes3
