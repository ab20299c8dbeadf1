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

# -- bad input
unset PJRTFS_MOUNT
ends_with 1 "$m is not a mount of pjrtfs" "$top_program" --once "$m"
ends_with 2 'MOUNT or PJRTFS_MOUNT must name a mount' "$top_program" --once
ends_with 2 'this is no terminal: give --once or --json' "$top_program" "$m"
ends_with 2 '--delay: expected 0.05 to 3600 seconds, found soon' "$top_program" -d soon "$m"
ends_with 2 '--sort: expected busy, runs, mean or name, found size' "$top_program" -s size "$m"
