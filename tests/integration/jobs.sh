#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/jobs.md: what it shows works as it stands there; the script for Slurm runs without Slurm.
. "$srcdir/tests/lib.sh"
requires_mount
requires parallel --version
export PJRTFS_PLUGIN_PATH=$plugins PATH=$build:$PATH PJRTFS_CACHE_DIR=$work/cache
mkdir demo
cp -r "$top/demo/mlp" demo/

# page FROM TO: run what stands between the two headings.
page()
{
	sed -n "/^$1/,/^$2/s/^    //p" "$top/docs/jobs.md" >block
	[ -s block ] || fail "docs/jobs.md shows nothing of $1"
	timeout -k 5 $((patience * 3)) bash -eu block >said 2>&1 </dev/null ||
		fail "docs/jobs.md, $1: $(cat said)"
}
# all_there: each file has the digits, and nothing else is there.
all_there()
{
	equal "what $1 writes ($(cat said))" "$(cd out && echo ./*)" "$(printf ' ./%s.txt' 1 2 3 4 5 6 | cut -c 2-)"
	for i in 1 2 3 4 5 6; do
		same "out/$i.txt" digits
	done
	rm out/*
}
page '# Jobs' '## GNU'
pjrtfs cpu --run ./digits.sh in/1.npy
mv out/1.txt digits
equal "pictures" "$(wc -w <digits)" 8
page '## GNU' '## make'
all_there parallel
page '## make' '## Ray'
all_there make
if python3 -c 'import ray' 2>/dev/null; then
	HOME=$work patience=$((patience * 3)) page '## Ray' '## Slurm'
	all_there Ray
fi

page '## Slurm' 'end of the page'
mkdir bin
printf '#!/bin/sh\nexec "$@"\n' >bin/srun
chmod +x bin/srun
for task in 0 1 2 3; do
	SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_ID=$task PATH=$work/bin:$PATH bounded sh digits.sbatch \
		>said 2>&1 || fail "$(cat said)"
done
all_there 'the array'
