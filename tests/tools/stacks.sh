#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Print where the threads of pjrtfs and its workers wait, of the processes PID..., or of all: how
# many threads, their name, the innermost functions of the kernel.
#
#     tests/tools/stacks.sh [PID...]
set -u
cd /proc || exit
[ $# != 0 ] || set -- [0-9]*
for pid; do
	name=$(cat "$pid/comm" 2>/dev/null) || continue
	case $name in pjrtfs*) ;; *) continue ;; esac
	echo "== $pid: $(tr '\0' ' ' <"$pid/cmdline" | cut -c 1-200)"
	for thread in "$pid"/task/*; do
		echo "$(cat "$thread/comm" 2>/dev/null): $(sed -n '1,4s/^.*\] \([^+]*\).*/\1/p' \
			"$thread/stack" 2>/dev/null | paste -sd ' ')"
	done | sort | uniq -c
done
exit 0
