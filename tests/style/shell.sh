#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# Every shell script is clean in the eyes of shellcheck.
set -eu
command -v shellcheck >/dev/null || {
	echo "shellcheck is missing: apt install shellcheck"
	exit 77
}
cd "$srcdir"
{
	echo tests/lib.sh
	grep -rlE '^#!.*\b(ba)?sh\b' scripts tests .ci completions debian demo mount 2>/dev/null
} | xargs -n 8 -P "$(nproc)" shellcheck
