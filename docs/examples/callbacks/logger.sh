#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Log what a program of a pjrtfs mount tells callback 0, a line with the time for each call:
# logger.sh /mnt/pjrt/executables/train/callbacks/0.txt >train.log
while read -r values; do
	printf '%s %s\n' "$(date +%FT%T)" "$values"
done <"$1"
