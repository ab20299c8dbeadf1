#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Execute a program with two arrays that are uploaded, and print the reply:
# control.sh /mnt/pjrt
cd "$1" || exit
printf '1 2 3\n4 5 6\n' >buffers/x.txt
printf '10 20 30\n40 50 60\n' >buffers/y.txt
exec 3<>control
echo '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"]}' >&3
head -n 1 <&3
