#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan tsan
# The queue of executions: a number of slots for each device, users round robin.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty ${others:+-o allow_other}
chmod 0755 "$work"
put_add
bounded mkdir -m 0777 "$mnt/buffers/all"
places=4 # the plugin's devices are not this host's processors

execute() # OUTPUT [MORE]: a command
{
	echo '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["all/'"$1"'"]'"${2-}"'}'
}
async() # COUNT: start that many jobs; the last one's number
{
	for n in $(seq "$1"); do
		execute "o$n" ',"async":true'
	done >asked
	ask "$(cat asked)" | jq -r .job | tail -n 1
}
state() # JOB
{
	cat "$mnt/jobs/$1/state"
}
is() # JOB STATE
{
	[ "$(state "$1")" = "$2" ]
}
place() # JOB
{
	jq -r '.position // "none"' "$mnt/jobs/$1/result.json"
}
waited() # JOB: what "wait" replies
{
	ask '{"op":"wait","job":'"$1"'}'
}
event() # EVENT JOB
{
	jq -e -s --arg e "$1" --arg o "jobs/$2" \
		'any(.[]; .event == $e and .object == $o)' "$mnt/events" >/dev/null
}

# -- all slots are held; queued jobs have a position
ask "$(execute once)" >told # the plugin has the arrays now
faults execute=held
last=$(async 40)
first=$((last - 39))
for n in $(seq 0 $((places - 1))); do
	equal "job $n" "$(state $((first + n)))" running
	equal "its place" "$(place $((first + n)))" none
done
for n in "$places" 20 39; do
	equal "job $n" "$(state $((first + n)))" queued
	equal "its place" "$(place $((first + n)))" $((n - places + 1))
done
event job.started "$first" || fail "the first has not started"
event job.queued "$last" || fail "the last is not queued"
! event job.queued "$first" || fail "the first was queued"
! event job.started "$last" || fail "the last has started"

# -- a cancelled execution leaves the queue at once, and those behind it advance
middle=$((first + 20))
told=$(ask '{"op":"cancel","job":'"$middle"'}')
equal "cancelled" "$(jq -r .state <<<"$told")" cancelled
told=$(waited "$middle")
equal "cancelled" "$(jq -r '.state, .result.error.errno' <<<"$told" | xargs)" \
	"cancelled ECANCELED"
event job.cancelled "$middle" || fail "that it was cancelled is not told"
! event job.started "$middle" || fail "what was cancelled has started"
equal "the last one's place" "$(place "$last")" $((39 - places))
say "$mnt/jobs/$((first + places))/cancel" now
equal "cancelled by its file" "$(state $((first + places)))" cancelled
equal "the last one's place" "$(place "$last")" $((38 - places))
# a running job is not cancelled
told=$(ask '{"op":"cancel","job":'"$first"'}')
equal "not cancelled" "$(jq -r .state <<<"$told")" running
# a batch that waits for its first step
told=$(ask '{"op":"batch","async":true,"steps":['"$(execute b),$(execute c)"']}')
batch=$(jq -r .job <<<"$told")
equal "a batch" "$(state "$batch")" queued
equal "its place" "$(place "$batch")" $((39 - places))
ask '{"op":"cancel","job":'"$batch"'}' >told
tells told '"state":"cancelled"'
waited "$batch" >told
tells told 'batch: step 0: execute: add: while waiting: cancelled before|batch: step 0: add: while waiting: cancelled before'
# and one that has a time limit
ask "$(execute t ',"timeout_ms":50')" >told
tells told '"errno":"ETIMEDOUT"'
equal "the last one's place" "$(place "$last")" $((38 - places))

# -- another user's command does not wait for all of them, only for a slot
if [ -n "$others" ]; then
	other=$(ask_as 12345 "$(execute mine ',"async":true')" | jq -r .job)
	theirs=$(place "$other")
	# running executions may have exceeded long_ms by now; then it runs
	[ "$theirs" = none ] || [ "$theirs" -le 2 ] || fail "its place is $theirs"
	# as soon as they are, it runs
	eventually is "$other" running
	equal "the last one's place" "$(place "$last")" $((38 - places))
	faults
	equal "the other user's" "$(waited "$other" | jq -r .state)" "done"
fi
faults
for n in $(seq 0 39); do
	want='done'
	[ "$n" != 20 ] && [ "$n" != "$places" ] || want=cancelled
	equal "job $n" "$(waited $((first + n)) | jq -r .state)" "$want"
done
jq -e '.result.queue_seconds > 0 and .result.seconds >= .result.queue_seconds' \
	"$mnt/jobs/$last/result.json" >/dev/null || fail "result.json has no time in the queue"

# -- endless programs delay their own user only
if [ -n "$others" ]; then
	faults 'execute=hang:here it hangs'
	last=$(async $((places + 2)))
	first=$((last - places - 1))
	hang()
	{
		[ "$(grep -c 'here it hangs' "$mnt/plugins/faulty/log")" = "$places" ]
	}
	eventually hang
	faults
	ask_as 12345 "$(execute free)" >told
	tells told '"ok":true'
	equal "those that hang" "$(state "$first")" running
	equal "their user's next" "$(place $((last - 1)))" 1
	# the end of the worker ends them, and queued jobs run in the next one
	say "$mnt/jobs/$first/cancel" force
	equal "the one" "$(waited "$first" | jq -r .state)" cancelled
	for n in $(seq $((places - 1))); do
		equal "job $n" "$(waited $((first + n)) | jq -r .state)" failed
	done
	equal "the last but one" "$(waited $((last - 1)) | jq -r .state)" "done"
	equal "the last" "$(waited "$last" | jq -r .state)" "done"
fi
shows "$mnt/health" ok
