#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pjrtfs-bench executes as often as it says, its figures are in order, and bad input is a sentence.
. "$srcdir/tests/lib.sh"
bench=$build/pjrtfs-bench
mount_pjrtfs
put_add

# ended STATUS MESSAGE COMMAND...: the command ends with the status and says the message.
ended()
{
	local status=0
	bounded "${@:3}" >said 2>&1 || status=$?
	equal "status of ${*:3} ($(cat said))" "$status" "$1"
	grep -qF -e "$2" said || fail "${*:3}: '$(cat said)' instead of '$2'"
}

# executions N: the mount has counted so many.
executions()
{
	grep -qxF "pjrtfs_executable_executions_total{executable=\"add\",result=\"ok\"} $1" \
		"$mnt/metrics.prom" || fail "not $1: $(grep ^pjrtfs_executable "$mnt/metrics.prom")"
}

# figures CONDITION: it holds for the report r in said.
figures()
{
	python3 - "$1" <<-'END' || fail "not $1: $(cat said)"
		import json, sys
		r = json.load(open("said"))
		for f in r["phases"].values():
		    assert 0 <= f["min"] <= f["p50"] <= f["p90"] <= f["p99"] <= f["max"] and \
		        f["min"] <= f["mean"] <= f["max"], f
		assert sum(step["runs"] for step in r["histogram"]) == r["runs"]
		assert r["seconds"] > 0 and r["runs_per_second"] > 0
		assert eval(sys.argv[1])
	END
}

# -- zeros by call.raw; clients side by side
PJRTFS_MOUNT=$mnt ended 0 '48 bytes in, 24 bytes out; 1 client, 20 runs' "$bench" -n 20 -w 2 add
executions 22
grep -q '^total .*[0-9]$' said || fail "no figures: $(cat said)"
ended 0 '"clients":3' "$bench" --json -n 10 -w 1 -c 3 "$mnt/executables/add/"
executions 55
figures 'r["runs"] == 30 and r["bytes_in"] == 48 and "wait" in r["phases"]'
figures 'r["execute_mean"] < r["phases"]["total"]["max"]'

# -- bound inputs are not sent, all of them neither
say "$mnt/executables/add/bind" 'x *'
ended 0 ' 24 bytes in, 24 bytes out' "$bench" -n 2 "$mnt/executables/add"
say "$mnt/executables/add/bind" 'x y'
ended 0 ' 0 bytes in, 24 bytes out' "$bench" -n 2 "$mnt/executables/add"
say "$mnt/executables/add/bind" ''

# -- a download of its own, and inputs of more than one write
cat >large.mlir <<'END'
func.func @main(%x: tensor<400000xf32>) -> tensor<400000xf32> {
  %y = stablehlo.add %x, %x : tensor<400000xf32>
  return %y : tensor<400000xf32>
}
END
bounded cp large.mlir "$mnt/programs/"
ended 0 '1600000' "$bench" -j -n 3 "$mnt/executables/large"
figures 'r["bytes_in"] == r["bytes_out"] == 1600000 and r["phases"]["download"]["min"] > 0'

# -- buffers by control; nothing stays
ended 0 'control' "$bench" -j -m "$mnt" -n 5 -c 2 add x y
figures 'r["runs"] == 10 and {"queue", "execute", "upload", "download"} < set(r["phases"])'
figures 'r["bytes_out"] == 24'
equal buffers "$(bounded ls "$mnt/buffers" | tr '\n' ' ')" 'x.npy y.npy '

# -- bad input
ended 2 'the name of a program is expected' "$bench" -m "$mnt"
ended 2 'a count is expected, found none' "$bench" -m "$mnt" -n none add
ended 2 'must name the mount of add' env -u PJRTFS_MOUNT "$bench" add
ended 1 "$work is not a mount of pjrtfs" "$bench" -m "$work" add
ended 1 "$mnt has no program nix" "$bench" -m "$mnt" nix
ended 1 'takes 2 inputs, 1 was given' "$bench" -m "$mnt" add x
ended 1 'nix' "$bench" -m "$mnt" add x nix
echo 'func.func @main(' >bad.mlir
fails_with '' cp bad.mlir "$mnt/programs/"
ended 1 'bad did not compile:' "$bench" -m "$mnt" bad
ended 0 'usage: pjrtfs-bench' "$bench" --help
for form in '' --json; do
	status=0
	# shellcheck disable=SC2086 # no word, or one
	bounded "$bench" $form -m "$mnt" -n 2 add >/dev/full 2>err || status=$?
	equal "status with a full output" "$status" 1
	shows err 'pjrtfs-bench: print the report: No space left on device'
done
m=$mnt
unmount_pjrtfs
ended 1 "$m is not a mount of pjrtfs" "$bench" -m "$m" add
