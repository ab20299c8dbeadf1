#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: tsan
# queue: what runs on a device and what waits for it, whose it is, how far it is; and compiles.
. "$srcdir/tests/words.sh"
requires test "$(id -u)" = 0
p=${plugin:-cpu}
own_data
mount_pjrtfs "$p" -o allow_other --mode 1777
q=$mnt/devices/$p/0/queue
equal "the queue" "$(bounded cat "$q" "$mnt/plugins/$p/queue")" ''
equal "its size" "$(bounded stat -c '%s %a' "$q")" '0 444'

# -- more repeats than slots: each is listed once, those that wait by position
cp add.mlir "$mnt/programs/"
cp x.npy y.npy "$mnt/buffers/"
as 1001 mkdir -m 711 "$mnt/programs/1001" "$mnt/buffers/1001"
as 1001 cp add.mlir "$mnt/programs/1001/the sum.mlir"
as 1001 cp add.mlir "$mnt/programs/1001/secret.mlir"
as 1001 chmod 600 "$mnt/programs/1001/secret.mlir"
repeats() # UID EXECUTABLE INPUT: a job that repeats for ever
{
	local command='{"op":"execute","executable":"'$2'","inputs":["'$3'","y"],"outputs":["'$3'"],
		"repeat":1000000000,"async":true}'
	ask_as "$1" "${command//$'\n'/}" | jq -e .job >>started
}
n=$(nproc)
n=$((n < 4 ? 4 : n > 32 ? 32 : n)) # slots
for ((i = 0; i < n + 1; i++)); do
	cp x.npy "$mnt/buffers/x$i.npy"
	repeats 0 add "x$i"
done
as 1001 cp x.npy "$mnt/buffers/1001/x1.npy"
as 1001 cp x.npy "$mnt/buffers/1001/x2.npy"
repeats 1001 '1001/the sum' 1001/x1
repeats 1001 1001/secret 1001/x2
# One that goes on with its next repetitions just then is in neither state, so a list may lack it.
all() # UID: writes the list that this user sees to list, once all are in it
{
	as "$1" cat "$q" >list
	[ "$(wc -l <list)" = $((n + 3)) ]
}
format='^[0-9]+ (running [0-9]+\.[0-9]{3} 0|waiting [0-9]+\.[0-9]{3} [1-9][0-9]*) [0-9]+/1000000000 [^ ].*$'
# (one that runs for half a second, as on a busy machine, lets another one run)
few_run()
{
	all 0 && [ "$(grep -c running list)" -le "$n" ]
}
eventually few_run
[ "$(grep -Ecx "$format" list)" = $((n + 3)) ] || fail "lines of another form: $(cat list)"
equal "positions" "$(awk '$2 == "waiting" {print $4}' list)" "$(seq "$(grep -c waiting list)")"
equal "names, as root sees them" "$(cut -d' ' -f 1,6- list | sort -u)" \
	$'0 add\n1001 1001/secret\n1001 1001/the sum'
progresses() # some time has passed, and repetitions have been made
{
	awk '$2 == "running" && $3 > 0.3 && $5 + 0 > 10 && $6 == "add" {found = 1} END {exit !found}' "$q"
}
eventually progresses

# -- the names are for those who may read the programs
eventually all 1001
equal "names, as their user sees them" "$(cut -d' ' -f 1,6- list | sort -u)" \
	$'0 add\n1001 1001/secret\n1001 1001/the sum'
eventually all 1002
equal "names, as another user sees them" "$(cut -d' ' -f 1,6- list | sort -u)" \
	$'0 add\n1001 -\n1001 1001/the sum'
as 1001 chmod 700 "$mnt/programs/1001"
eventually all 1002
equal "names in a private directory" "$(cut -d' ' -f 1,6- list | sort -u)" $'0 add\n1001 -'

# -- the manual's example
example=$(sed -n 's/^    \(awk .*devices.*queue\)$/\1/p' "$top"/docs/*.pod)
(cd "$mnt" && bounded bash -c "$example") >sums
tells sums '^0 [1-9][0-9]* [0-9]+$' '^1001 [0-9]+ [0-9]+$'
cp "$q" copied
[ -s copied ]

# -- the same as metrics and in the jobs' results; each user sees their own memory
gauges()
{
	awk -v "device=$p:0" 'index($1, device) && /^pjrtfs_executions_(running|queued)/ {n += $2}
		END {exit n != '$((n + 3))'}' "$mnt/metrics.prom"
}
eventually gauges
users_of() # UID: the users whose memory this one sees in metrics.prom
{
	as "$1" sed -n 's/^pjrtfs_user_memory_bytes{user="\(.*\)"} [1-9][0-9]*$/\1/p' "$mnt/metrics.prom" | sort
}
equal "users, as root sees them" "$(users_of 0)" $'0\n1001'
equal "users, as user 1001 sees them" "$(users_of 1001)" 1001
equal "users, as user 1002 sees them" "$(users_of 1002)" ''
result() # JOB FILTER: the filter is true of the job's result.json
{
	jq -e "$2" "$mnt/jobs/$1/result.json"
}
eventually result "$(head -n 1 started)" '.done > 10 and .of == 1000000000'
step='{"op":"execute","executable":"add","inputs":["y","y"],"outputs":["z"]}'
batch=$(ask '{"op":"batch","async":true,"steps":['"$step,$step"',{"op":"execute","executable":"add",
	"inputs":["z","y"],"outputs":["z"],"repeat":1000000000}]}' | jq -e .job)
eventually result "$batch" '.done == 2 and .of == 3'
say "$mnt/jobs/$batch/cancel" 1
eventually result "$batch" '.state == "cancelled" and (has("done") or has("of") | not)'

# -- a removed program repeats no more; what has ended is in no list
rm "$mnt/programs/add.mlir"
eventually eval '! grep -q " add$" "$q"'
while read -r job; do
	say "$mnt/jobs/$job/cancel" 1
done <started
none() { [ -z "$(cat "$1")" ]; }
eventually none "$q"

# -- compiles: of the plugin that does them
mount_pjrtfs faulty --compile-jobs 1 --fault compile=held
cp add.mlir "$mnt/programs/slow.mlir" &
first=$!
q=$mnt/plugins/faulty/queue
eventually grep -Eqx '0 compiling [0-9]+\.[0-9]{3} 0 0/1 slow' "$q"
sed '1i // another' add.mlir >other.mlir
cp other.mlir "$mnt/programs/" &
second=$!
eventually grep -Eqx '0 waiting [0-9]+\.[0-9]{3} 1 0/1 other' "$q"
equal "executions" "$(bounded cat "$mnt/devices/faulty/0/queue")" ''
faults
wait "$first"
wait "$second"
eventually none "$q"

# -- a removed program keeps its name while it still runs
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
faults execute=held
ask '{"op":"execute","executable":"slow","inputs":["x","y"],"outputs":["z"],"async":true}' | jq -e .job >started
q=$mnt/devices/faulty/0/queue
eventually grep -Eqx '0 running [0-9]+\.[0-9]{3} 0 0/1 slow' "$q"
rm "$mnt/programs/slow.mlir"
grep -Eqx '0 running [0-9]+\.[0-9]{3} 0 0/1 slow' "$q" || fail "a removed program is listed as $(cat "$q")"
faults
eventually none "$q"
