#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# demo/continue and its twin in Python go on writing the poem that the model has learnt.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
go_on=$top/demo/continue

poem="'Twas brillig, and the slithy toves
Did gyre and gimble in the wabe:
All mimsy were the borogoves,"
bounded sh "$go_on" "'Twas bri" "$mnt" 90 >out
equal "the poem" "$(cat out)" "$poem"
bounded python3 "$go_on.py" "'Twas bri" "$mnt" 90 >out
equal "the poem through call.raw" "$(cat out)" "$poem"

pids=()
for i in 1 2 3; do
	bounded sh "$go_on" "'Twas bri" "$mnt" 90 >"out$i" &
	pids+=($!)
done
for i in 1 2 3; do
	wait "${pids[i - 1]}" || fail "one of three at once fails"
	same "out$i" out
done
equal "what is left" "$(bounded ls "$mnt/buffers" "$mnt/programs" | grep -c continue)" 0
# The cache is donated: each execution writes it where the last one was.
bounded cp "$top/demo/transformer/step/program.mlir" "$mnt/programs/step.mlir"
tells "$mnt/executables/step/signature.json" '"name":"keys"[^}]*"donated":true'

fails_with 'usage: demo/continue TEXT' sh "$go_on"
fails_with 'usage: demo/continue.py TEXT' python3 "$go_on.py"
mkdir empty
for place in nowhere empty; do
	for program in "sh $go_on" "python3 $go_on.py"; do
		# shellcheck disable=SC2086 # a command and its argument
		fails_with "$work/$place is not a mount of pjrtfs" $program "'Twas bri" "$work/$place"
		# shellcheck disable=SC2086
		$program "'Twas bri" "$work/$place" >out 2>&1 || :
		equal "what $program prints ($(cat out))" "$(wc -l <out)" 1
	done
done
equal "what they leave" "$(ls empty)" ''
