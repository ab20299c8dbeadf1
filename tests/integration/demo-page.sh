#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# demo/README.md: its lines, pasted into one shell in the root of the repository, do what the page
# says.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
mkdir -p tests/data/jax
cp -r "$top/demo" .
cp -r "$data/jax/training" tests/data/jax/
chmod -R u+w demo tests
sed -i "s|/mnt/pjrt|$mnt|g" demo/README.md demo/continue

# One shell runs all; a line of the test's own marks where each heading begins.
sed -n 's/^## /echo "## /p; t head; s/^    //p; b; :head' demo/README.md | sed '/^echo "##/s/$/"/' >lines
[ "$(grep -vc '^echo "##' lines)" -ge 18 ] || fail "the page shows $(cat lines)"
"$patient" $((patience * 6)) bash -eu lines >out 2>err </dev/null || fail "demo/README.md: $(cat out err)"

# section HEADING: what the lines below it print
section()
{
	sed -n "/^## $1/,/^## /{/^## /d;p;}" out >section
}
section 'Which digits'
tells section '^3 1 4 1 5 9 2 6$'
equal "numbers of the page" "$(grep -c '^`digits.txt` says `3 1 4 1 5 9 2 6`' demo/README.md)" 1
section 'What comes next'
tells section "^'Twas brillig, and the slithy to$" '^Twas brillig, and the slithy tov$'
section 'And then'
tells section "^'Twas brillig, and the slithy toves$" '^And the mome raths outgrabe\.$'
section 'Training'
equal "steps" "$(tail -n 1 section)" 1000
head -n 1 section | awk '{ exit !($1 < 0.1) }' || fail "the loss after the training: $(cat section)"
