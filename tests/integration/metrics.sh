#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# metrics.prom: well-formed at every moment, and its numbers are what was done.
. "$srcdir/tests/words.sh"
tool=$top/tests/tools/prometheus.py
python3 "$tool" --selftest
mount_pjrtfs
m=$mnt/metrics.prom
b=$mnt/buffers
p=${plugin:-cpu}
# counts WANT SAMPLE...: the samples have these values, all of them at one moment.
counts()
{
	local wants=() samples=() got i
	while [ $# -gt 0 ]; do
		wants+=("$1")
		samples+=("$2")
		shift 2
	done
	bounded python3 "$tool" "$m" "${samples[@]}" >got
	mapfile -t got <got
	for i in "${!samples[@]}"; do
		equal "${samples[i]}" "${got[i]}" "${wants[i]}"
	done
}
! command -v promtool >/dev/null || bounded promtool check metrics <"$m"
counts 1 "pjrtfs_worker_up{plugin=\"$p\"}" \
	0 "pjrtfs_executions_total{plugin=\"$p\",result=\"ok\"}" \
	1 "pjrtfs_info{version=\"$(cat "$mnt/version")\"}"

# -- compiles, transfers, executions
bounded cp "$data/add.mlir" "$mnt/programs/"
echo 'func.func @main(' >bad.mlir
fails_with '' cp bad.mlir "$mnt/programs/"
counts 1 "pjrtfs_compiles_total{plugin=\"$p\",result=\"ok\"}" \
	1 "pjrtfs_compiles_total{plugin=\"$p\",result=\"failed\"}" \
	2 "pjrtfs_compile_seconds_count{plugin=\"$p\"}"
bounded cp "$data/x.npy" "$data/y.npy" "$b/"
for _ in 1 2 3; do
	run add 'x y -> z'
done
counts 2 "pjrtfs_uploads_total{plugin=\"$p\",device=\"$p:0\",result=\"ok\"}" \
	48 "pjrtfs_upload_bytes_total{plugin=\"$p\",device=\"$p:0\"}" \
	2 "pjrtfs_upload_seconds_count{plugin=\"$p\",device=\"$p:0\"}"
echo 1 >"$b/one.txt"
fails_with 'Invalid argument' run add 'x one -> z'
bounded rm "$b/one.txt"
counts 3 "pjrtfs_executions_total{plugin=\"$p\",result=\"ok\"}" \
	1 "pjrtfs_executions_total{plugin=\"$p\",result=\"failed\"}" \
	3 "pjrtfs_device_execution_seconds_count{plugin=\"$p\",device=\"$p:0\"}" \
	0 "pjrtfs_device_execution_seconds_count{plugin=\"$p\",device=\"$p:1\"}" \
	3 'pjrtfs_executable_execution_seconds_count{executable="add"}' \
	3 'pjrtfs_executable_executions_total{executable="add",result="ok"}' \
	1 'pjrtfs_executable_executions_total{executable="add",result="failed"}'
sum=$(bounded python3 "$tool" "$m" 'pjrtfs_executable_execution_seconds_sum{executable="add"}')
perl -e 'exit !($ARGV[0] > 0 && $ARGV[0] < 20)' "$sum" || fail "three executions took $sum s"
limit=$(bounded python3 "$tool" "$m" pjrtfs_memory_limit_bytes)
equal "the limit" "$((limit / 4096))" "$(bounded stat -f -c %b "$mnt")"

# -- calls count as well
cat "$data/x.npy" "$data/y.npy" >inputs
bounded bash -c 'for _ in 1 2 3 4 5; do cat inputs >&3; head -c 152 <&3 >out; done' 3<>"$mnt/executables/add/call"
counts 8 "pjrtfs_executions_total{plugin=\"$p\",result=\"ok\"}" \
	8 "pjrtfs_device_execution_seconds_count{plugin=\"$p\",device=\"$p:0\"}" \
	8 'pjrtfs_executable_execution_seconds_count{executable="add"}' \
	8 'pjrtfs_executable_executions_total{executable="add",result="ok"}'

# -- an executable has its current name; a removed one has no series
bounded mkdir "$mnt/programs/ns"
bounded mv "$mnt/programs/add.mlir" "$mnt/programs/ns/a\"d\\d.mlir"
counts 8 'pjrtfs_executable_execution_seconds_count{executable="ns/a\"d\\d"}' \
	none 'pjrtfs_executable_execution_seconds_count{executable="add"}'
bounded rm "$mnt/programs/ns/a\"d\\d.mlir"
counts none 'pjrtfs_executable_execution_seconds_count{executable="ns/a\"d\\d"}' \
	8 "pjrtfs_executions_total{plugin=\"$p\",result=\"ok\"}"

# -- a worker's death is counted, and reading metrics does not wait for a worker
kill_worker "$p"
counts 1 "pjrtfs_worker_restarts_total{plugin=\"$p\"}" 1 "pjrtfs_worker_deaths_total{plugin=\"$p\"}"
halt "$(cat "$mnt/plugins/$p/pid")"
bounded python3 "$tool" "$m" >/dev/null
kill -CONT "$(cat "$mnt/plugins/$p/pid")"

# -- well-formed during other operations
bounded cp "$data/add.mlir" "$mnt/programs/"
(
	for ((runs = 1;; runs++)); do
		run add 'x y -> z'
		[ ! -e enough ] || break
	done
	echo "$runs" >runs
) &
busy=$!
for _ in $(seq 10); do
	bounded python3 "$tool" "$m"
done
: >enough
wait "$busy"
counts "$(cat runs)" 'pjrtfs_executable_execution_seconds_count{executable="add"}'
! command -v promtool >/dev/null || bounded promtool check metrics <"$m"

# -- docs/metrics.md: each line of it works, and each name in its queries is there
mkdir collector
export HOME=$work
page docs/metrics.md '# ' 'end of the page' | sed "s|^collector=.*|collector=$work/collector|" >lines
bounded bash -eu lines >out 2>&1 || fail "docs/metrics.md: $(cat out)"
[ "$(tail -n 1 out)" -gt 50 ] || fail "the web server gives $(cat out)"
grep -q '^pjrtfs_info' collector/pjrtfs.prom
grep -o 'pjrtfs_[a-z_]*' "$top/docs/metrics.md" | sort -u | while read -r name; do
	[ "$name" = pjrtfs_ ] || grep -q "^$name\({\| \)" collector/pjrtfs.prom || fail "there is no $name"
done

# -- the lines for node_exporter where they cannot work: one sentence, and the collector keeps what it has
page docs/metrics.md '## Where node_exporter' '## ' | sed "s|^collector=.*|collector=$work/collector|" >lines
cp collector/pjrtfs.prom before
sed "s|$mnt|$work/no|" lines >nowhere
ends_with 1 "^cp: .*/no/metrics\.prom': No such file or directory$" bash -eu "$work/nowhere"
mkdir full
sed "s|$work/collector|$work/full|" lines >page_full
ends_with 1 "^cp: .*pjrtfs\.prom\.part.*: No space left on device$" unshare --map-root-user --mount bash -euc '
	mount -t tmpfs -o size=4k tmpfs "$1/full"
	bash -eu "$1/page_full"' - "$work"
if [ -n "$others" ]; then
	ends_with 1 "^cp: .*: Permission denied$" as 1001 bash -eu "$work/lines"
fi
same collector/pjrtfs.prom before
