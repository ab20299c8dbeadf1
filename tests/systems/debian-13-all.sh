#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: deep
# SANITIZE: none
# NEEDS: net
# COST: 870 CPU-s in 850 s
# LIMIT: 14400 s
# On Debian 13, in a system that the test makes and forgets, scripts/setup brings what the tests need, and every test passes, but
# for those of packages and other systems, which are made of Debian 12, of the fuzzers, of the soak and of the deep tier.
. "$srcdir/tests/lib.sh"
. "$top/tests/root.sh"

new_root trixie ca-certificates
as_here
put_tree
part "scripts/setup --tests" in_tree 'scripts/setup --tests'
part "the tests' programs" in_tree 'make -C build -j$(nproc) check-programs TESTS_CFLAGS='
# shellcheck disable=SC2016 # the other system expands it
part "every test" in_tree 'tests/run --build build --no-skip $(tests/run --list unit integration faults bench style |
	awk "\$1 != \"deep\" { print \$6 }")'
tail -n 1 said
