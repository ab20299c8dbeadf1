#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# docs/jobs.md: what it shows works as it stands there; the script for Slurm runs without Slurm.
. "$srcdir/tests/words.sh"
requires_mount
requires parallel --version
export PJRTFS_PLUGIN_PATH=$plugins PATH=$build:$PATH PJRTFS_CACHE_DIR=$work/cache
mkdir demo
cp -r "$top/demo/mlp" demo/

# all_there: each file has the digits, and nothing else is there.
all_there()
{
	equal "what $1 writes ($(cat said))" "$(cd out && echo ./*)" "$(printf ' ./%s.txt' 1 2 3 4 5 6 | cut -c 2-)"
	for i in 1 2 3 4 5 6; do
		same "out/$i.txt" digits
	done
	rm out/*
}
run_page docs/jobs.md '# Jobs' '## GNU'
pjrtfs cpu --run ./digits.sh in/1.npy
mv out/1.txt digits
equal "pictures" "$(wc -w <digits)" 8
run_page docs/jobs.md '## GNU' '## make'
all_there parallel
run_page docs/jobs.md '## make' '## Ray'
all_there make
if python3 -c 'import ray' 2>/dev/null; then
	HOME=$work RAY_TMPDIR=$work patience=$((patience * 3)) run_page docs/jobs.md '## Ray' '## Slurm'
	all_there Ray
fi

run_page docs/jobs.md '## Slurm' 'end of the page'
mkdir bin
printf '#!/bin/sh\nexec "$@"\n' >bin/srun
chmod +x bin/srun
for task in 0 1 2 3; do
	SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_ID=$task PATH=$work/bin:$PATH bounded sh digits.sbatch \
		>said 2>&1 || fail "$(cat said)"
done
all_there 'the array'

# -- what goes wrong: one sentence for each task, a status, and nothing in out/ that is not whole
ends_with 125 '^pjrtfs: error: .*plugin nothing: not found' pjrtfs nothing --run ./digits.sh in/1.npy
for tool in parallel make; do
	case $tool in
	parallel) between=('## GNU' '## make' 2) ;;
	make) between=('## make' '## Slurm' 2) ;;
	esac
	page docs/jobs.md "${between[@]:0:2}" | sed 's/pjrtfs cpu/pjrtfs nothing/' >block
	status=0
	bounded bash -eu block >said 2>&1 </dev/null || status=$?
	equal "status of $tool ($(cat said))" "$status" "${between[2]}"
	equal "sentences" "$(grep -c '^pjrtfs: error: .*plugin nothing: not found' said)" 2
	equal "what $tool leaves" "$(ls out)" ''
done
[ -z "$others" ] || ends_with 125 '/dev/fuse is missing' unshare --mount bash -euc '
	mount -t tmpfs dev /dev
	mknod /dev/null c 1 3
	exec pjrtfs cpu --run ./digits.sh in/1.npy'
ends_with 2 'out/1\.txt\.part: No space left on device' unshare --map-root-user --mount bash -euc '
	mount -t tmpfs -o size=4k,nr_inodes=2 tmpfs out
	echo >out/full
	exec pjrtfs cpu --run ./digits.sh in/1.npy'
chmod a-x digits.sh
ends_with 126 'digits\.sh: Permission denied' pjrtfs cpu --run ./digits.sh in/1.npy
