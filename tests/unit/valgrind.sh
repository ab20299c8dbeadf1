#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: deep
# SANITIZE: none
# LIMIT: 14400 s
# Unit tests under valgrind, without fork, so that it sees all; those that load a plugin would
# take hours, and wire and engine map more than valgrind can, which is less than 64 GiB.
. "$srcdir/tests/lib.sh"
requires valgrind --version
for layer in base discover telemetry formats cache store tree fuse daemon; do
	(cd "$build" && PJRTFS_TEST_PLUGIN='' CK_FORK=no CK_TIMEOUT_MULTIPLIER=20 valgrind -q --leak-check=full \
		--error-exitcode=9 "tests/unit/check_$layer") >"$layer" 2>&1 || fail "$layer: $(tail -n 60 "$layer")"
done
