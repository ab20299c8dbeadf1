#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# No test guesses a time: what a slow machine does late, a test must await; and none takes a name that another may
# have.  Forbidden are, in tests/:
#
#   sleep N, time.sleep(), usleep(), nanosleep()   wait for the thing: eventually, reached; a process that
#                                                  only stays runs sleep infinity
#   timeout N                                      bounded, or timeout "$patience"
#   slow:N, late:N, late-event:N                   the fault held, or held:WORD, until faults takes it away
#   $$ %                                           a fixed port: each test has a network of its own
#   NAME-$$                                        pids are each test's own, so others may have the same: ${work##*/}
#
# Allowed are pauses below 0.2 s within a loop that looks again (while or until; in C also for); and what is the subject
# itself: a comment in the line, or in the one before, says "real time:" and why.
set -eu
cd "$srcdir"
find tests -name '*.sh' -o -name '*.py' -o -name '*.[ch]' | sort | xargs awk '
function wrong(what) {
	printf "%s:%d: %s: %s\n", FILENAME, FNR, what, $0
	failed = 1
}
# Is the line within a loop that looks again?  above[] has the lines that are indented less.
function polls(line, most,    i, number) {
	if (!match(line, /sleep[ (]*[0-9.]+/))
		return 0
	number = substr(line, RSTART, RLENGTH)
	sub(/sleep[ (]*/, "", number)
	if (number + 0 >= most)
		return 0
	if (line ~ loop)
		return 1
	for (i = 1; i <= depth; i++)
		if (above[i] ~ loop)
			return 1
	return 0
}
FNR == 1 {
	depth = 0
	before = ""
	loop = FILENAME ~ /\.[ch]$/ ? "(^|[ \t])(while|for) \\(|(^|[ \t])do \\{" : "(^|[^[:alnum:]_])(while|until) "
}
{
	match($0, /^[ \t]*/)
	indent = RLENGTH
	blank = $0 ~ /^[ \t]*$/
	while (!blank && depth && at[depth] >= indent)
		depth--
	excused = $0 before ~ /real time:/
	before = $0
	comment = $0 ~ /^[ \t]*(#|\*|\/\*|\/\/)/
	if (!excused && !comment) {
		if (FILENAME ~ /\.sh$/ && /(^|[^[:alnum:]_-])sleep "?[$0-9]/ && !polls($0, 0.2))
			wrong("a pause: wait for the thing with eventually")
		if (FILENAME ~ /\.py$/ && /time\.sleep\(/ && !polls($0, 0.2))
			wrong("a pause: wait for the thing with cases.eventually")
		if (FILENAME ~ /\.[ch]$/ && /(^|[^[:alnum:]_])(u|nano)?sleep\(/ && !polls($0, 200000))
			wrong("a pause: wait for the thing in a loop that looks again")
		if (/(^|[^[:alnum:]_-])timeout (-k [0-9]+ )?[0-9]/)
			wrong("a literal bound: use bounded, or timeout \"$patience\"")
		if (/[=:](slow|late):[$0-9]/ || /late-event:[${0-9]/)
			wrong("a time in the plugin: use held, or held:WORD and reached")
		if (/\$\$ %/)
			wrong("a port by pid: use a fixed one, the network is the test'\''s own")
		if (/[[:alnum:]]-\$\$/)
			wrong("a name by pid: two tests have the same pid, each in its namespace; ${work##*/} differs")
	}
	if (!blank && !comment) {
		at[++depth] = indent
		above[depth] = $0
	}
}
END { exit failed }'
