#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A device that is full at the nth call: ENOSPC there, the others stay, and later ones come.
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs faulty --no-cache --fault upload=enospc-at:4 --fault compile=enospc-at:2 \
	--fault execute=enospc-at:3
b=$mnt/buffers
for i in 1 2 3 4 5 6; do
	if [ "$i" = 4 ]; then
		fails_with 'No space left' cp "$data/x.npy" "$b/n$i.npy"
	else
		bounded cp "$data/x.npy" "$b/n$i.npy"
	fi
done
equal "the one that failed" "$(bounded jq -c '[.state, .error]' "$b/n4.json")" \
	'["error","faulty: out of memory at call 4 of upload"]'
for i in 1 2 3 5 6; do
	equal "n$i" "$(bounded jq -r .state "$b/n$i.json")" ready
	same "$b/n$i.npy" "$data/x.npy"
done

# Compiles and executions alike.
bounded cp "$data/add.mlir" "$mnt/programs/"
fails_with 'No space left' cp "$data/add.mlir" "$mnt/programs/b.mlir"
shows "$mnt/executables/b/error" 'compile b: faulty: out of memory at call 2 of compile'
bounded cp "$data/add.mlir" "$mnt/programs/b.mlir"
run add 'n1 n2 -> z'
run b 'n1 n2 -> z2'
bounded rm "$b/z2.npy"
fails_with 'No space left' run b 'n1 n2 -> z2'
shows "$mnt/executables/b/run" 'error: ENOSPC: b: faulty: out of memory at call 3 of execute'
gone "$b/z2.npy"
run b 'n5 n6 -> z2'
bounded cp "$data/x.npy" "$b/n4.npy"
run add 'n4 n4 -> z'
shows "$mnt/plugins/faulty/restarts" 0
