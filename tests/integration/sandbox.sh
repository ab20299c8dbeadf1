#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# What a program that users write cannot do to the files of who mounted: read and write them.
. "$srcdir/tests/words.sh"
name=${plugin:-cpu}
requires has_landlock
echo $'line one\nline two, a secret' >secret
chmod 600 secret
mkfifo fifo
mkdir dumps
dump='{"env_option_overrides":{"xla_dump_to":"'$work/dumps/d'","xla_dump_hlo_as_text":true}}'

# A program whose faulty operation is at line 2 of FILE, as it says.
located() # FILE
{
	cat <<-END
		func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
		  %0 = "stablehlo.no_such_thing"(%x) : (tensor<3xf32>) -> tensor<3xf32> loc("$1":2:1)
		  return %0 : tensor<3xf32>
		}
	END
}

mount_pjrtfs
tells "$mnt/plugins/$name/sandbox" '^strict$' '^landlock [1-9]' '^seccomp yes$'
proc=/proc/$(cat "$mnt/plugins/$name/pid")
tells "$proc/status" '^CapEff:.0000000000000000$' '^NoNewPrivs:.1$' '^Seccomp:.2$'
tells "$proc/limits" '^Max core file size +0 +0 ' '^Max file size +0 +0 ' '^Max open files +64 +64 '
# The kernel kills it before the daemon, and lets no process of the same user look into it.
shows "$proc/oom_score_adj" "$(($(cat "/proc/$daemon/oom_score_adj") + 250))"
if [ "$(id -u)" = 0 ]; then
	as_owner=(setpriv --bounding-set=-all --inh-caps=-all)
else
	as_owner=()
fi
fails_with 'Permission denied' "${as_owner[@]}" cat "$proc/environ"

# -- locations: the plugin does not show the line, wait for a FIFO, or read without end
for file in "$work/secret" "$work/fifo" /dev/zero /proc/self/environ "$work/no-such-file"; do
	located "$file" >leak.mlir
	fails_with 'failed to close' cp leak.mlir "$mnt/programs/leak.mlir"
	tells "$mnt/executables/leak/error" "^compile leak: .*$file:2:1: error: "
	if grep -q 'a secret' <<<"$(bounded cat "$mnt/executables/leak/error" \
		"$mnt/plugins/$name/log")"; then
		fail "the secret is shown"
	fi
done
shows "$mnt/plugins/$name/restarts" 0

# -- a flag that names a directory: no file is written, the program is compiled
touch "$mnt/programs/p.mlir"
say "$mnt/executables/p/options.json" "$dump"
bounded cp "$data/add.mlir" "$mnt/programs/p.mlir"
shows "$mnt/executables/p/state" ready
equal "what was written" "$(ls -A dumps)" ''
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run p 'x y -> z'
shows "$mnt/buffers/z.txt" "$sum"
unmount_pjrtfs

# -- the owner may permit writes, to that directory only
mkdir elsewhere
mount_pjrtfs --sandbox-write "$name:$work/dumps" --no-cache
touch "$mnt/programs/p.mlir" "$mnt/programs/q.mlir"
say "$mnt/executables/p/options.json" "$dump"
bounded cp "$data/add.mlir" "$mnt/programs/p.mlir"
shows "$mnt/executables/p/state" ready
ls dumps/d/*.txt >/dev/null || fail "nothing was dumped"
say "$mnt/executables/q/options.json" "${dump//dumps/elsewhere}"
bounded cp "$data/add.mlir" "$mnt/programs/q.mlir"
shows "$mnt/executables/q/state" ready
equal "what was written elsewhere" "$(ls -A elsewhere)" ''
unmount_pjrtfs

# -- none at all
mount_pjrtfs --sandbox off
tells "$mnt/plugins/$name/sandbox" '^off$' '^seccomp no$'
located "$work/secret" >leak.mlir
fails_with 'failed to close' cp leak.mlir "$mnt/programs/leak.mlir"
tells "$mnt/executables/leak/error" 'a secret' # otherwise this test proves nothing
unmount_pjrtfs

# -- root's worker as another user
if [ "$(id -u)" = 0 ]; then
	mount_pjrtfs --sandbox-uid 65534
	tells "/proc/$(cat "$mnt/plugins/$name/pid")/status" '^Uid:.65534.65534.65534.65534$'
	put_add
	computes
	unmount_pjrtfs
fi

# -- what is said wrongly, with a sentence
mkdir m
refused() # STATUS PATTERN OPTION...
{
	refuses "$1" "$2" "$name" m -f --plugin-dir "$plugins" "${@:3}"
}
refused 2 'sandbox uid: expected the number of a user other than root' --sandbox-uid 0
refused 1 "sandbox_write $work/none: No such file or directory" --sandbox-write "$work/none"

# -- a kernel without Landlock: no file is opened at all, and what needs some is refused
[ "$(id -u)" = 0 ] || exit 0
with_landlock 0
refused 1 'sandbox_read needs a kernel with Landlock' --sandbox-read "$work/secret"
mount_pjrtfs
tells "$mnt/plugins/$name/sandbox" '^strict$' '^landlock 0$' '^seccomp yes$'
located "$work/secret" >leak.mlir
fails_with 'failed to close' cp leak.mlir "$mnt/programs/leak.mlir"
if grep -q 'a secret' <<<"$(bounded cat "$mnt/executables/leak/error")"; then
	fail "the secret is shown"
fi
touch "$mnt/programs/p.mlir"
say "$mnt/executables/p/options.json" "${dump//dumps/elsewhere}"
bounded cp "$data/add.mlir" "$mnt/programs/p.mlir"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run p 'x y -> z'
shows "$mnt/buffers/z.txt" "$sum"
equal "what was written elsewhere" "$(ls -A elsewhere)" ''
