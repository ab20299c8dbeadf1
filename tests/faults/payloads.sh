#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# What a plugin adds to an error is in its JSON form, in replies, results and events: bounded, and as clean text.
# An error that comes from the question itself is not asked in its turn.
. "$srcdir/tests/words.sh"
mount_pjrtfs faulty --no-cache
put_add
run add 'x y -> z'
execute='{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["q"]'
# The first two that are too long, and the numbers that are too many, are cut.
good='.code == "INTERNAL" and (.payloads
	| .kind == "an \"odd\" ? one" and .empty == "" and .["0"] == "value" and (tostring | length) < 512
	  and length > 10 and length < 100)'

# -- replies
faults 'execute=error:INTERNAL:it has payloads'
ask "$execute}" >reply
knows reply ".error | .message == \"add: it has payloads\" and $good"
ask "$execute,\"async\":true}" >reply
job=$(jq -r .job reply)
eventually grep -qx failed "$mnt/jobs/$job/state"
knows "$mnt/jobs/$job/result.json" ".result.error | $good"
fails_with 'Input/output error' bash -c 'echo "x y -> q" >"$1"' - "$mnt/executables/add/run"
tells "$mnt/error" 'it has payloads$'

# -- events, of compiles
faults 'compile=error:INTERNAL:it has payloads'
like_add other
fails_with 'Input/output error' cp other.mlir "$mnt/programs/"
bounded grep '"program.failed"' "$mnt/events" | tail -n 1 >event
knows event ".error | $good"

# -- none
for text in 'it has nothing to add' 'it tells no payloads'; do
	faults "execute=error:INTERNAL:$text"
	ask "$execute}" >reply
	knows reply ".error == {errno: \"EIO\", code: \"INTERNAL\", message: \"add: $text\"}"
done
faults
run add 'x y -> q'
shows "$mnt/plugins/faulty/restarts" 0
