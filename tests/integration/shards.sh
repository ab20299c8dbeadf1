#!/usr/bin/env bash
# One array over several devices: split, joined, and as arguments and results of programs.
. "$srcdir/tests/lib.sh"

# The first python3 may be somebody's own, without numpy.
python=
for p in python3 /usr/bin/python3; do
	if "$p" -c 'import numpy' 2>/dev/null; then
		python=$p
		break
	fi
done
requires test -n "$python"
mount_pjrtfs -o allow_other
chmod 755 "$work" # other users take part
timeout -k 5 $((patience * 12)) "$python" -B "$top/tests/tools/shards.py" "$mnt"
shows "$mnt/health" ok
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
