#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: tsan
# A user whose programs end the worker again and again waits; the others go on.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
requires setpriv --version
mount_pjrtfs -o allow_other
chmod 755 "$work"
p=${plugin:-cpu}
as() # UID COMMAND...
{
	local uid=$1
	shift
	"$patient" $((patience + 60)) setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
}
restarts()
{
	bounded cat "$mnt/plugins/$p/restarts"
}
# overflow TEXT: a program on which compilers abort; TEXT makes it another one
overflow()
{
	echo "// $1"
	cat "$data/overflow.mlir"
}
bounded mkdir -m 1777 "$mnt/programs/all" "$mnt/buffers/all"
put_add
run add 'x y -> all/z'
bounded chmod 666 "$mnt/buffers/all/z.npy"

# -- the same bytes are refused, with the same sentence, and no worker ends
overflow once >once.mlir
chmod 644 once.mlir
fails_with 'Input/output error' as 1001 cp once.mlir "$mnt/programs/all/one.mlir"
error=$(bounded cat "$mnt/executables/all/one/error")
died='the worker of plugin .* died of signal 6 \(Aborted\); it printed last: .*'
[[ $error =~ ^compile\ all/one:\ ($died)$ ]] || fail "the first one says: $error"
words=${BASH_REMATCH[1]}
eventually grep -qx ready "$mnt/plugins/$p/state"
before=$(restarts)
fails_with 'Input/output error' as 1001 cp once.mlir "$mnt/programs/all/two.mlir"
error=$(bounded cat "$mnt/executables/all/two/error")
case $error in
"compile all/two: $words (the same is refused for another "*' s)') ;;
*) fail "the second one says: $error" ;;
esac
equal "restarts" "$(restarts)" "$before"
# another program of that user compiles, and so does the same one for others: it ends a worker
as 1001 cp "$data/add.mlir" "$mnt/programs/all/mine.mlir"
fails_with 'Input/output error' as 1002 cp once.mlir "$mnt/programs/all/three.mlir"
restarted $((before + 1))
# the mount's owner may have it tried again
fails_with 'Input/output error' cp once.mlir "$mnt/programs/four.mlir"
restarted $((before + 2))

# -- one user executes, alone and then while another user's programs, all different, end workers
seconds=$((3 + times))
executes() # prints how many there were
{
	as 1002 bash -c 'n=0 end=$((SECONDS + $2))
		while [ "$SECONDS" -lt "$end" ]; do
			if echo "x y -> all/z" 2>/dev/null >"$1"; then n=$((n + 1)); fi
		done
		echo "$n"' - "$mnt/executables/add/run" "$seconds"
}
alone=$(executes)
before=$(restarts)
setpriv --reuid 1001 --regid 1001 --clear-groups bash -c 'for ((i = 0;; i++)); do
		{ echo "// $i"; cat "$2"; } >"$1"
	done 2>/dev/null' - "$mnt/programs/all/bad.mlir" once.mlir &
other=$!
beside=$(executes)
kill "$other"
wait "$other" || true
echo "executions in $seconds s: $alone alone, $beside beside a user who ended" \
	"$(($(restarts) - before)) workers"
[ "$(restarts)" -gt "$before" ] || fail "no worker was ended meanwhile"
[ $((beside * 4)) -ge "$alone" ] || fail "the other user stopped them"
