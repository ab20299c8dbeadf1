#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 25 CPU-s
# make check-bench: no operation takes more requests, copies or memory than the table says, and the
# benchmarks run, with results that are right.
. "$srcdir/tests/lib.sh"
requires_mount
"$patient" $((patience * 20)) make -C "$build" check-bench >out 2>&1 || fail "$(tail -n 60 out)"
