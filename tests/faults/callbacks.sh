#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan tsan
# While a program waits for its host, the worker or the daemon dies: the execution ends with a
# sentence, the host's answer is refused, the program is no culprit, and the next execution works.
. "$srcdir/tests/words.sh"
name=${plugin:-cpu}
mount_pjrtfs ${others:+-o allow_other} --keep --mode 1777
chmod 755 "$work" # another user takes part, if there can be one: the owner is never a culprit
x=$mnt/executables/ask
user() # COMMAND...: by that user
{
	if [ "$others" ]; then as 1001 "$@"; else bounded "$@"; fi
}
cat >ask.mlir <<'END'
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.custom_call @pjrtfs_callback(%x) {api_version = 4 : i32,
    backend_config = {index = 0 : ui64}} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
END
user cp ask.mlir "$mnt/programs/"
user bash -c 'echo 1 2 3 >"$1"' - "$mnt/buffers/a.txt"

# begin: have the program run until it has asked its host, which has the file open as 3.
begin()
{
	user bash -c 'echo "a -> b" >"$1/run"' - "$x" 2>err &
	run=$!
	equal "request" "$(bounded head -n 1 <&3)" '1 2 3'
}

# works: the program runs, and gets the host's answer.
works()
{
	exec 3<>"$x/callbacks/0.txt"
	begin
	echo '4 5 6' >&3
	wait "$run" || fail "the program fails: $(cat err) $(user cat "$x/run")"
	shows "$mnt/buffers/b.txt" '4 5 6'
	exec 3>&-
}
works

# -- the worker is killed, more often than a culprit would be allowed to
for restarts in 1 2 3; do
	exec 3<>"$x/callbacks/0.txt"
	begin
	kill -9 "$(bounded cat "$mnt/plugins/$name/pid")"
	wait "$run" && fail "the execution outlives its worker"
	user cat "$x/run" >reply
	tells reply "^error: EIO: ask: while running: the worker of plugin $name"
	fails_with 'Input/output error' bash -c 'echo 4 5 6 >&3'
	restarted "$restarts"
	# The same open file serves the next execution.
	begin
	echo '7 8 9' >&3
	wait "$run" || fail "the program fails: $(cat err) $(user cat "$x/run")"
	shows "$mnt/buffers/b.txt" '7 8 9'
	exec 3>&-
done

# -- nor is it one if another program executed when the worker died
endless 'tensor<3xf32>' >"$mnt/programs/endless.mlir"
exec 3<>"$x/callbacks/0.txt"
begin
(echo 'a -> c' >"$mnt/executables/endless/run") 2>/dev/null &
other=$!
eventually grep -q ' running .* endless$' "$mnt/devices/$name/0/queue"
kill -9 "$(bounded cat "$mnt/plugins/$name/pid")"
wait "$run" && fail "the execution outlives its worker"
wait "$other" && fail "an endless program ended"
exec 3>&-
restarted 4
works

# -- the daemon is killed
exec 3<>"$x/callbacks/0.txt"
begin
kill -9 "$(bounded cat "$mnt/pid")"
wait "$run" || :
exec 3>&-
eventually grep -qx ready "$x/state"
works
shows "$mnt/health" ok
