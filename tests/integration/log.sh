#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lines on standard error: text, for journald, JSON.
. "$srcdir/tests/words.sh"

# begins PATTERN [COMMAND-LINE...]: a mount's first and last line match (grep -E), with the
# journal's stream in JOURNAL_STREAM if $stream is yes.
stream=
begins()
{
	local log=$work/mnt${#lib_mounts[@]}.log pattern=$1 line
	shift
	touch "$log"
	[ -z "$stream" ] || export JOURNAL_STREAM
	[ -z "$stream" ] || JOURNAL_STREAM=$(stat -c %d:%i "$log")
	mount_pjrtfs "$@"
	unmount_pjrtfs
	for line in "$(head -n 1 "$log")" "$(tail -n 1 "$log")"; do
		grep -Eq -e "$pattern" <<<"$line" || fail "expected $pattern, found $line"
	done
}
begins '^pjrtfs: info: .*(serves|ends)'
begins '^<6>.*(serves|ends)' -o log_format=journal
stream=yes begins '^<6>.*(serves|ends)'
stream=yes begins '^pjrtfs: info: .*(serves|ends)' --log-format text
# the journal's stream is not standard error
JOURNAL_STREAM=1:2 begins '^pjrtfs: info: '

# -- JSON, of the configuration: each line is an object, also with quotes in the message
echo '{"log_format": "json"}' >c.json
begins '^\{"time":[0-9]+\.[0-9]{9},"level":"info","pid":[0-9]+,"message":' --config c.json
log=$work/mnt$((${#lib_mounts[@]} - 1)).log
jq -es 'all(.[]; (keys == ["level", "message", "pid", "time"]) and (now - .time | fabs) < 1000)' \
	"$log" >out || fail "$(cat "$log")"
jq -es 'any(.[]; .message | contains("\"log_format\":\"json\""))' "$log" >out ||
	fail "no options in $(cat "$log")"

# -- messages before the mount; words that are none
refuses 2 '^<3>plugin such: ./no/such.so: No such file' ./no/such.so . --log-format journal
refuses 2 '^\{"time":.*"level":"error",.*"message":"memory limit' . --log-format json \
	--memory-limit 1
refuses 2 'log format: expected text, journal or json, found xml' . --log-format xml
