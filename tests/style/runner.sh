#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# tests/run: what it counts as passed, failed, skipped and flaky, and what it refuses.
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
unset BASH_ENV PYTHONPATH # the tests that it runs are disturbed only where it asks for that

# A tree with tests of its own.
mkdir -p tree/tests/{unit,integration,tools,faults} tree/build tree/plugins/cpu
cp -r "$top"/tests/{run,chaos*} tree/tests/
cp "$top"/tests/tools/{init.py,stacks.sh} tree/tests/tools/
touch tree/tests/unit/layers tree/plugins/cpu/pjrt_plugin.so
printf '%s\n' 'SANITIZE = ' 'PJRT_INCLUDE = ../plugins/include' 'TEST_PLUGINS = ../plugins' >tree/build/Makefile

# test_of NAME TEXT: a test of the tree
test_of()
{
	printf '#!/bin/bash\n%s\n' "$2" >"tree/tests/integration/$1.sh"
}
# runs STATUS WHAT...: tests/run ends with the status; its output is in out
runs()
{
	local status=0
	"$patient" $((patience * 5)) tree/tests/run --build tree/build "${@:2}" >out 2>&1 || status=$?
	equal "status of ${*:2} ($(cat out))" "$status" "$1"
}

test_of good 'exit 0'
runs 0 good
tells out '^1 passed, 0 failed$'
runs 0 --list good
tells out '^full .*  integration/good  '
runs 0 --list smoke
equal "smoke tests" "$(cat out)" ""

# Here it is a test that runs tests: their groups are in its own.
if grep -q '^0::/.*pjrtfs-tests-' /proc/self/cgroup; then
	test_of groups 'grep "^0::'"$(sed -n 's/^0:://p' /proc/self/cgroup)"'/pjrtfs-tests-[0-9]*/1$" /proc/self/cgroup'
	runs 0 groups
	rm tree/tests/integration/groups.sh
fi

# A defect fails, is told by its last lines, and is not run again.
test_of bad 'echo once >>'"$work"'/bad; echo wrong bytes; exit 1'
runs 1 good integration/bad.sh
tells out '^wrong bytes$' '^failed: integration/bad ' '^1 passed, 1 failed$'
equal "runs of bad" "$(wc -l <bad)" 1

# So does what leaves a process, which is killed.
test_of leaves 'exec 3>'"$work"'/lock; flock 3; setsid tail -f /dev/null & exit 0'
runs 1 leaves
tells out '^left over: .* tail -f /dev/null' '^0 passed, 1 failed$'
bounded flock "$work/lock" true

# A skipped test passes, unless all are wanted.
test_of skips 'echo SKIP: not so; exit 77'
runs 0 skips
tells out '^skipped: integration/skips .*: not so$' '^0 passed, 0 failed$'
runs 1 --no-skip skips

# What ended for lack of patience runs again: it is flaky if it passes each time, else it failed.
test_of slow 'echo run >>'"$work"'/slow; [ $(wc -l <'"$work"'/slow) -gt 1 ] || exit 75'
runs 0 slow
tells out '^FLAKY integration/slow ' '^1 passed, 0 failed, 1 flaky$'
equal "runs of slow" "$(wc -l <slow)" 11
tells tree/tests/flaky '^integration/slow '
test_of hangs 'exit 75'
runs 1 hangs

# Full disturbs the tests that a day's commits touched, and five others: what fails then, and passes
# ten times afterwards, is flaky, unless it is a defect for certain.
rm tree/tests/integration/{bad,leaves,skips,hangs}.sh tree/tests/flaky
git -C tree init -q
git -C tree -c user.name=x -c user.email=x commit -q --allow-empty -m x
test_of once '[ ! -d "${PYTHONPATH-}" ] || [ -e '"$work"'/once ] || { touch '"$work"'/once; exit 1; }'
runs 0 --only plain full
tells out '^FLAKY integration/once ' '1 flaky$'
rm tree/tests/integration/once.sh

# A flaky test of an earlier commit fails.
git -C tree -c user.name=x -c user.email=x commit -q --allow-empty -m y
runs 1 good
tells out '^failed: tests/flaky has this line of an earlier commit; .*integration/once '

# Two tests have the same port, process IDs of their own, and no mount of the other.
test_of twins 'exec 3<>/dev/tcp/127.0.0.1/7 && exit 1
	mount -t tmpfs tmpfs /mnt && [ "$(ls /mnt)" = "" ] && touch /mnt/x && [ "$(pgrep -c bash)" = 1 ] || exit 1
	python3 -c "import socket, time; s = socket.socket(); s.bind((\"127.0.0.1\", 7)); time.sleep(0.2)"'
rm tree/tests/flaky
runs 0 --chaos twin twins
tells out '^3 passed, 0 failed$'

# Wrong words.
runs 2 nonsense
tells out "^tests/run: there is no tier and no test 'nonsense'"
runs 2 smoke good
tells out '^tests/run: smoke stands alone, without good$'
runs 2 --chaos storm good
tells out "^tests/run: there is no disturbance 'storm': late, "
runs 2 --build nowhere good
tells out '^tests/run: there is no build in .*: scripts/setup --tests makes one$'
test_of unknown '# TIER: daily'
runs 2 good
tells out '^tests/run: tests/integration/unknown.sh: its head '

# A folder that a test has bound in its own is not emptied with that.
mkdir bound
touch bound/file
bash -c '. "$srcdir/tests/lib.sh"; mkdir here; mount --bind "$1" here; exit 3' - "$work/bound" || equal status $? 3
[ -e bound/file ] || fail "the end of a test removed what it had not made"
