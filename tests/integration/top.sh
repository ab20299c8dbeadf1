#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pjrtfs-top shows what runs, as text, JSON and on a screen, where a key cancels a job.
. "$srcdir/tests/words.sh"
top_program=$build/pjrtfs-top
requires test -x "$top_program"
requires tmux -V
mount_pjrtfs ${others:+-o allow_other}
p=${plugin:-cpu}

# page CONDITION: jq's, of the page in JSON.
page()
{
	bounded "$top_program" --json --delay 0.1 "$mnt" >page.json && jq -e "$1" page.json
}

put_add
# (the program is ready before its entry of the cache is written, which queue shows)
eventually page '.health == "ok" and .queue == [] and .jobs == [] and .memory_used > 0'
job=$(ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["x"],"repeat":1000000000,"async":true}' |
	jq -e .job)

# -- text and JSON
eventually page "(.queue[0] | .device == \"$p:0\" and .executable == \"add\" and .user == $(id -u) and
	.state == \"running\" and .done > 10 and .of == 1000000000) and
	.devices[0].running == 1 and .plugins[0].state == \"ready\" and
	.jobs == [{job: $job, user: $(id -u), state: \"running\", command: \"execute add\"}] and
	(.users[] | select(.user == $(id -u)) | .executions == 1 and .buffers >= 2)"
bounded "$top_program" -1 -d 0.1 --sort name "$mnt" >out
tells out "^DEVICE +RUN" "^$p:0 +1 +0 " "^$p:0 .* running .*% +add\$" \
	"^$job .* running +execute add\$" '^health: ok$' "^$p: ready, process [0-9]+, 0 restarts"

sed -n 's/^    \(pjrtfs-top --json |\)/\1/p' "$top/docs/pjrtfs-top.1.pod" >lines
PJRTFS_MOUNT=$mnt PATH=$build:$PATH bounded bash -euo pipefail lines >out
jq -es ".[0] == {device: \"$p:0\", running: 1, waiting: 0}" out || fail "the manual's example: $(cat out)"

# -- another user sees what runs, but neither the job nor the account
if [ -n "$others" ]; then
	as 1001 "$top_program" --json -d 0.1 "$mnt" >page.json
	jq -e ".users == [] and .jobs[0].job == $job and .jobs[0].command == \"-\" and
		.queue[0].user == 0" page.json || fail "another user's page: $(cat page.json)"
fi

# -- the screen: choose the job, cancel it, quit
tmux=(tmux -S "$work/tmux" -f /dev/null)
screen()
{
	"${tmux[@]}" capture-pane -p >screen && grep -qE -e "$1" screen
}
"${tmux[@]}" new-session -d -x 120 -y 50 "$top_program -d 0.2 $mnt; echo status \$?; exec cat"
eventually screen "^$job +.* running +execute add"
eventually screen '^q quit .*sort \(busy\)'
"${tmux[@]}" capture-pane -e -p | "$top/scripts/draw-top" >top.svg
python3 - top.svg <<'END'
import sys, xml.etree.ElementTree as xml
texts = ["".join(e.itertext()) for e in xml.parse(sys.argv[1]).getroot()]
assert any(t.startswith("DEVICE") for t in texts) and any("execute add" in t for t in texts), texts
END
"${tmux[@]}" send-keys s c
eventually screen 'sort \(runs\)'
eventually screen 'choose a job first'
"${tmux[@]}" send-keys Down c
eventually screen "job $job is cancelled"
eventually shows "$mnt/jobs/$job/state" cancelled
eventually page '.jobs == [] and .queue == []'

# -- standard output is full
for form in --once --json; do
	status=0
	bounded "$top_program" "$form" -d 0.1 "$mnt" >/dev/full 2>err || status=$?
	equal "status with a full output" "$status" 1
	shows err 'pjrtfs-top: print a page: No space left on device'
done

# -- the plugin's process is another one; then the mount is gone
kill -KILL "$(bounded cat "$mnt/plugins/$p/pid")"
eventually screen "^$p: ready, process [0-9]+, [1-9][0-9]* restarts"
m=$mnt
unmount_pjrtfs
eventually screen "waiting for the mount: $m is not a mount of pjrtfs"
"${tmux[@]}" send-keys q
eventually screen 'status 0'
"${tmux[@]}" kill-server

# -- what others write moves no cursor, and a daemon that counts anew was never busy; FAKE has files as a mount
mkdir -p fake/jobs/1 fake/plugins/p fake/devices/p/0
echo 1 >fake/version
printf 'ok\e[1m\n' | tee fake/health fake/jobs/1/state fake/plugins/p/state fake/devices/p/0/kind
echo running >fake/jobs/1/state
echo '{"op":"execute","executable":"a\u001b[2Jb"}' >fake/jobs/1/request.json
counts()
{
	printf 'pjrtfs_executable_execution_seconds_count{executable="a"} %s\n' "$1"
}
counts 100 >fake/metrics.prom
bounded "$top_program" -1 -d 0.1 fake >out
tells out 'health: ok.\[1m$' '^p: ok.\[1m,' '^1 .* execute a.\[2Jb$' '^p:0 .*ok.\[1m$'
! grep -q $'\e' out || fail "a page with an escape"
(
	sleep 0.3 # real time: between the samples
	counts 5 >fake/metrics.prom
) &
bounded "$top_program" --json -d 1 fake | jq -e '.executables[0].runs_per_second == 0' ||
	fail "a rate below 0"
wait $!

# -- 32 devices on a small screen: one that works stands first, others come by keys; FAKE as above
for ((i = 0; i < 32; i++)); do
	mkdir -p "many/devices/p/$i"
	echo "kind$i" >"many/devices/p/$i/kind"
done
mkdir -p many/plugins/p many/jobs/{1,2,3}
echo ready >many/plugins/p/state
echo running | tee many/jobs/{1,2,3}/state
echo 1 | tee many/version many/health many/metrics.prom
echo '0 running 1.000 0 0/1 far' >many/devices/p/20/queue
echo '0 waiting 1.000 1 0/1 far' >many/devices/p/30/queue
bounded "$top_program" -1 -d 0.1 many >out
equal "the order of devices" "$(sed -n -e /^USER/q -e 's/^p:\([0-9][0-9]*\) .*/\1/p' out | paste -sd ' ')" \
	"20 30 $(seq -s ' ' 0 19) $(seq -s ' ' 21 29) 31"
bounded "$top_program" --json -d 0.1 many |
	jq -e '[.devices[].device] == [range(32) | "p:\(.)"] and .devices[20].running == 1' || fail "devices as JSON"

# rows FIRST REST: of the devices; how many are not shown
rows()
{
	screen '^DEVICE' && [ "$(grep -A 1 ^DEVICE screen | sed -n '2s/ .*//p')" = "p:$1" ] && grep -qx -e "$2" screen
}
keys()
{
	"${tmux[@]}" send-keys "$@"
}
"${tmux[@]}" new-session -d -x 80 -y 24 "$top_program -d 0.2 many; echo status \$?; exec cat"
eventually rows 20 '\.\.\. and 29 more'
keys NPage
eventually rows 1 '\.\.\. and 3 above, 26 below'
keys Down
eventually rows 2 '\.\.\. and 4 above, 25 below'
keys End
eventually rows 28 '\.\.\. and 29 above'
keys PPage
eventually rows 25 '\.\.\. and 26 above, 3 below'
keys Home
eventually rows 20 '\.\.\. and 29 more'
keys '?'
eventually screen '^tab, shift-tab +choose a table'
! grep -q ^DEVICE screen || fail "help beside the tables: $(cat screen)"
keys q
eventually rows 20 '\.\.\. and 29 more'
keys h
eventually screen '^MEAN/MS '
keys x

# chosen N: the line of job N is reversed
chosen()
{
	"${tmux[@]}" capture-pane -e -p >screen && grep -q "$(printf '\e\[7m%s ' "$1")" screen
}
# the tables from DEVICE are USER, QUEUE and JOB; keys without rows to go to stay where they are
keys Tab Tab Tab Down Down
eventually chosen 2
keys k
eventually chosen 1
keys BTab Up Down BTab BTab Down
eventually rows 30 '\.\.\. and 1 above, 28 below'
chosen 1 || fail "no job is chosen: $(cat screen)"
keys q
eventually screen 'status 0'
"${tmux[@]}" kill-server

# -- bad input
unset PJRTFS_MOUNT
ends_with 1 "$m is not a mount of pjrtfs" "$top_program" --once "$m"
ends_with 2 'MOUNT or PJRTFS_MOUNT must name a mount' "$top_program" --once
ends_with 2 'this is no terminal: give --once or --json' "$top_program" "$m"
ends_with 2 '--delay: expected 0.05 to 3600 seconds, found soon' "$top_program" -d soon "$m"
ends_with 2 '--sort: expected busy, runs, mean or name, found size' "$top_program" -s size "$m"
