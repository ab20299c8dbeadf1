# SPDX-License-Identifier: Apache-2.0
# BASH_ENV of a test that tests/chaos.py disturbs: one in 15 of its commands begins 0.7 s late when
# the script first comes to its place, which is the lines of the command and of the calls that led
# there; one in 60 the next nine times, and none later, so that loops end.  LATE_SEED decides for
# each visit; what else runs does not matter.  The tree's programs, and what pjrtfs starts, are not
# late.
# shellcheck shell=bash

late_step()
{
	local line hash=$LATE_SEED
	for line in "${BASH_LINENO[@]}"; do
		hash=$(((hash * 31 + line) & 0x7fffffff))
	done
	local visit=$((${late_visits[$hash]:-0} + 1))
	late_visits[$hash]=$visit
	hash=$(((hash + visit * 7919) * 1103515245 + 12345 & 0x7fffffff))
	if [ $((visit <= 10 && (hash >> 12) % (visit == 1 ? 15 : 60) == 0)) = 1 ]; then
		{ echo "$EPOCHREALTIME: ${BASH_SOURCE[1]:-$0}, line ${BASH_LINENO[0]}, visit $visit:" \
			"700 ms late" >>"$LATE_LOG"; } 2>/dev/null || :
		"$late_sleep" 0.7 || :
	fi
}

late_by=
case $0:$- in
*tests/*) late_by='test' ;;
*:*c*) read -r late_by <"/proc/$PPID/comm" || : ;; # bash -c
esac 2>/dev/null
case $late_by in
'' | pjrtfs*) ;;
*)
	late_sleep=$(type -P sleep)
	declare -A late_visits=()
	set -o functrace
	trap late_step DEBUG
	;;
esac
