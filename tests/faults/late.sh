#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Time limits of commands: each ends as its sentence says.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs faulty --compile-jobs 1
b=$mnt/buffers
bounded cp "$data/add.mlir" "$mnt/programs/"
bounded cp "$data/x.npy" "$data/y.npy" "$b/"
# late SENTENCE COMMAND: its time is over before it has ended
late()
{
	ask "$(jq -c '. + {"timeout_ms":500}' <<<"$2")" >told
	equal "$2" "$(jq -r .error.errno told)" ETIMEDOUT
	tells told "did not end within 500 ms; $1"
}
# ended: the executions that a time limit left have ended, and what they gave has its name or is dropped
ended()
{
	faults
	eventually grep -qx 0 "$mnt/users/0/executions.current"
	run add 'x y -> later' # the answer of a later one
}
execute='{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"]}'

# -- results are dropped
faults execute=held:dropped
late 'what had begun goes on; its results are dropped' "$execute"
bounded bash -c 'echo "x y -> z timeout_ms=500" >"$1"' - "$mnt/executables/add/run" 2>told || true
tells told 'Connection timed out'
reached dropped 2
ended
gone "$b/z.npy"
# -- unless their source is lost
faults execute=held:donates
late 'what had begun goes on; its results are dropped, unless it consumes' \
	"$(jq -c '.donate = ["x"] | .outputs = ["kept"]' <<<"$execute")"
faults
eventually test -e "$b/kept.npy"
bounded cp "$data/x.npy" "$b/"

# -- in a batch the step that had begun has its effect, later ones have none
faults execute=held:step
late 'the steps that had begun go on, the others do not begin' \
	"$(jq -c '{"op":"batch","steps":[.,(.outputs = ["z2"])]}' <<<"$execute")"
ended
bounded test -e "$b/z.npy"
gone "$b/z2.npy"

# -- arrays that commands make are dropped, too
memory=$(bounded cat "$mnt/users/0/memory.current")
faults upload=held:array
late 'what it would have made is dropped' \
	'{"op":"create","buffer":"c","dtype":"F32","shape":[3],"fill":1}'
reached array
[ "$(bounded cat "$mnt/users/0/memory.current")" -gt "$memory" ] || fail "the array does not count"
faults
eventually grep -qx "$memory" "$mnt/users/0/memory.current"
gone "$b/c.npy"

# -- a compile continues; an execution that waits for it does not begin
faults compile=held
late 'the compile goes on' '{"op":"compile","program":"add"}'
late 'its program is being compiled, and it does not begin' "$execute"
j=$(ask "$(jq -c '.async = true' <<<"$execute")" | jq -r .job)
say "$mnt/jobs/$j/cancel" now
shows "$mnt/jobs/$j/state" cancelled
shows "$mnt/executables/add/state" compiling
faults
eventually grep -qx ready "$mnt/executables/add/state"
faults
run add 'x y -> z'
shows "$mnt/health" ok
