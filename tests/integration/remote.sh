#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 14 CPU-s in 24 s
# docs/remote.md: what it shows works as it stands there, over an sshd of this test; and each row
# of its table is true.
. "$srcdir/tests/words.sh"
. "$top/tests/sshd.sh"
mount_pjrtfs
cp "$data"/{add.mlir,x.npy,y.npy} .
sshfs_mounts+=("$work/far")
rclone=
at_end '[ -z "$rclone" ] || kill "$rclone"'

# -- the page
for between in '## As files|## As lines' '## As lines|## What'; do
	run_page docs/remote.md "${between%|*}" "${between#*|}"
	tells said '^11 22 33$' '^44 55 66$'
	tail -c 24 z.npy | cmp - <(packed 'f<*' 11 22 33 44 55 66)
	rm z.npy
	bounded rm "$mnt/programs/add.mlir" "$mnt"/buffers/[xyz].npy
done

# -- the table
echo 'no program' >bad.mlir
command='{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"]}'
reply='^{"ok":true,"outputs":\[{"name":"z"'
put_add
# by_sshfs OPTIONS REFUSED REPLIES: a refused line of run ends with REFUSED; are there replies?
# shellcheck disable=SC2086 # a list of words
by_sshfs()
{
	bounded sshfs $1 "far:$mnt" far
	bounded cp bad.mlir far/programs/
	shows far/executables/bad/state failed
	fails_with 'fsync failed' dd if=bad.mlir of=far/programs/bad.mlir conv=fsync status=none
	tells far/error '^fsync programs/bad.mlir: '
	bounded dd if=add.mlir of=far/programs/synced.mlir conv=fsync status=none
	shows far/executables/synced/state ready
	bounded rm far/programs/synced.mlir
	bounded bash -c 'echo "x y -> z" >far/executables/add/run'
	same far/buffers/z.npy "$mnt/buffers/z.npy"
	equal "sshfs $1: a refused line" \
		"$(bounded bash -c 'echo "x -> z" >far/executables/add/run 2>/dev/null; echo $?')" "$2"
	tells far/error 'takes 2 inputs, 1 was given'
	local seconds=$patience
	if [ "$3" = 0 ]; then seconds=2; fi # real time: no reply comes, however long one waits
	bash -c 'exec 3<>far/control; echo "$1" >&3; exec timeout "$2" head -n 1 <&3' - "$command" "$seconds" >out || true
	equal "sshfs $1: a whole reply" "$(grep -c "$reply" out)" "$3"
	bounded fusermount3 -u far
	bounded rm "$mnt/programs/bad.mlir"
}
by_sshfs '-o direct_io,sshfs_sync' 1 1
by_sshfs '-o direct_io' 0 1
by_sshfs '' 0 0

fails_with 'Invalid argument' ssh far "cat $work/bad.mlir >$mnt/programs/bad.mlir"
fails_with 'Invalid argument' ssh far "echo 'x -> z' >$mnt/executables/add/run"
bounded ssh far "exec 3<>$mnt/control; echo '$command' >&3; head -n 1 <&3" >out
tells out "$reply"
fails_with 'failed to upload' scp bad.mlir "far:$mnt/programs/"
rm -f z.txt
# sftp: -b reads its commands, and ends at the first one that fails
echo "put add.mlir $mnt/programs/sum.mlir
put x.npy $mnt/buffers/s.npy
get $mnt/buffers/z.txt" >requests
bounded sftp -q -b requests far >out 2>&1 || fail "sftp: $(cat out)"
tells z.txt '^44 55 66$'
shows "$mnt/executables/sum/state" ready
same "$mnt/buffers/s.npy" x.npy
echo "put bad.mlir $mnt/programs/" >requests
fails_with 'bad.mlir' sftp -q -b requests far
rm z.txt
bounded scp "far:$mnt/buffers/z.txt" .
tells z.txt '^44 55 66$'
# The far rsync says "close failed"; the sentence can be lost when it ends.
fails_with '' rsync --inplace bad.mlir "far:$mnt/programs/bad.mlir"
bounded rsync bad.mlir "far:$mnt/programs/worse.mlir"
eventually grep -qx failed "$mnt/executables/worse/state"
bounded rsync x.npy "far:$mnt/buffers/r.npy"
bounded rsync "far:$mnt/buffers/r.npy" .
same r.npy x.npy

# rclone serves the mount over HTTP; here curl asks
if command -v rclone >/dev/null; then
	rclone_port=$((port + 1))
	rclone serve webdav --dir-cache-time 0s --addr "127.0.0.1:$rclone_port" "$mnt" >rclone.log 2>&1 &
	rclone=$!
	# dav FILE [CURL OPTION...]: the status of the answer
	dav()
	{
		bounded curl -s -o dav.out -w '%{http_code}' "${@:2}" "http://127.0.0.1:$rclone_port/$1"
	}
	eventually curl -sf "http://127.0.0.1:$rclone_port/"
	echo 'x y -> dav' >line
	equal "rclone: a program" "$(dav programs/dav.mlir -T add.mlir)" 201
	shows "$mnt/executables/dav/state" ready
	equal "rclone: no program" "$(dav programs/bad.mlir -T bad.mlir)" 405
	equal "rclone: an array" "$(dav buffers/d.npy -T x.npy)" 201
	same "$mnt/buffers/d.npy" x.npy
	equal "rclone: run" "$(dav executables/add/run -T line)" 405
	shows "$mnt/buffers/dav.txt" "$sum"
	equal "rclone: a listed name" "$(dav buffers/dav.npy)" 200
	same dav.out "$mnt/buffers/dav.npy"
	equal "rclone: another name" "$(dav buffers/dav.txt)" 404
	kill "$rclone"
	wait "$rclone" || :
	rclone=
else
	echo "without rclone here: its row of the table"
fi

# -- from mount to mount: arrays of 4 MiB, and of types that NumPy lacks
at=$mnt
mount_pjrtfs
near=$mnt
cat >make.mlir <<'END'
func.func @main() -> (tensor<1024x1024xf32>, tensor<3x5xbf16>, tensor<7xf8E4M3FN>) {
  %0 = stablehlo.iota dim = 1 : tensor<1024x1024xf32>
  %1 = stablehlo.iota dim = 0 : tensor<3x5xbf16>
  %2 = stablehlo.iota dim = 0 : tensor<7xf8E4M3FN>
  return %0, %1, %2 : tensor<1024x1024xf32>, tensor<3x5xbf16>, tensor<7xf8E4M3FN>
}
END
bounded cp make.mlir "$near/programs/"
run make '-> wide half tiny'
files=(wide.npy half.npy tiny.safetensors)
mkdir made
bounded cp "${files[@]/#/$near/buffers/}" made/
bounded rm "$near"/buffers/{wide,half,tiny}.*
bounded cp "${files[@]/#/made/}" "$near/buffers/"
# arrived MOUNT HOW: all are there, with their types; there they go again
arrived()
{
	local file
	for file in "${files[@]}"; do
		same "made/$file" "$1/buffers/$file"
	done
	equal "types by $2" "$(bounded cat "$1"/buffers/{wide,half,tiny}.json | jq -r .dtype | xargs)" \
		'F32 BF16 F8E4M3FN'
	bounded rm "${files[@]/#/$1/buffers/}"
}
# both HOW COMMAND...: COMMAND FILE... DIR copies from near to far; from there they come back
both()
{
	bounded "${@:2}" "${files[@]/#/$near/buffers/}" "$there/buffers/"
	bounded rm "${files[@]/#/$near/buffers/}"
	bounded "${@:2}" "${files[@]/#/$there/buffers/}" "$near/buffers/"
	arrived "$at" "$1"
	arrived "$near" "$1"
	bounded cp "${files[@]/#/made/}" "$near/buffers/"
}
there=far
for options in '' '-o direct_io,sshfs_sync'; do
	# shellcheck disable=SC2086 # a list of words
	bounded sshfs $options "far:$at" far
	both "sshfs $options" cp
	bounded fusermount3 -u far
done
there=far:$at
both scp scp -q
both rsync rsync

# -- an array that the other mount refuses at close(2)
bounded head -c 1000 made/wide.npy >cut.npy
cut=$at/buffers/cut.npy
refused()
{
	tells "$at/buffers/cut.json" '"state":"incomplete"'
	bounded rm "$cut"
}
for options in '' '-o direct_io,sshfs_sync'; do
	# shellcheck disable=SC2086 # a list of words
	bounded sshfs $options "far:$at" far
	bounded cp cut.npy far/buffers/
	refused
	bounded fusermount3 -u far
done
fails_with 'failed to upload' scp cut.npy "far:$cut"
refused
fails_with '' rsync --inplace cut.npy "far:$cut"
refused
fails_with 'Invalid argument' ssh far "cat >$cut" <cut.npy
refused
fails_with 'rename' rsync cut.npy "far:$cut"
gone "$cut"

# -- what goes wrong: no mount there, no /dev/fuse here, no memory there
mnt=$at
first_lines()
{
	mnt=$1 page docs/remote.md '## As files' '## As lines' | sed -n 1,3p
}
first_lines "$work/nowhere" >block
ends_with 1 "nowhere: No such file or directory" bash -eu "$work/block"
first_lines "$mnt" >block
ends_with 1 "fuse: device not found" unshare --map-root-user --mount bash -euc '
	mount -t tmpfs dev /dev
	exec bash -eu "$1/block"' - "$work"
fails_with "nowhere/programs/\": No such file or directory" scp add.mlir "far:$work/nowhere/programs/"
ends_with 1 "nowhere.*No such file or directory" ssh far "echo 'x y -> z' >$work/nowhere/executables/add/run"
unmount_pjrtfs
mount_pjrtfs --quota "$(id -u):memory=16"
ends_with 1 "buffers/x.npy: Disk quota exceeded|write error: Disk quota exceeded" ssh far "cat $work/x.npy >$mnt/buffers/x.npy"
fails_with 'failed to upload' scp x.npy "far:$mnt/buffers/"
first_lines "$mnt" >block
ends_with 1 "far/programs/add.mlir': Operation not permitted$" bash -eu "$work/block"
tells far/error 'wants [0-9]+ more: users/'
bounded fusermount3 -u far

# -- no rights there: a mount of another user, and the files of another user
[ -n "$others" ] || exit 0
unmount_pjrtfs
mount_pjrtfs
there=nobody@far:$mnt
ends_with 1 "^$there: Permission denied$" sshfs -o direct_io,sshfs_sync "$there" far
fails_with 'Permission denied' scp add.mlir "$there/programs/"
equal "programs of a user without rights" "$(ls "$mnt/programs")" ''
unmount_pjrtfs
mount_pjrtfs -o allow_other
there=nobody@far:$mnt
bounded cp add.mlir "$mnt/programs/"
bounded cp x.npy y.npy "$mnt/buffers/"
bounded chmod 600 "$mnt/buffers/x.npy"
bounded sshfs -o direct_io,sshfs_sync "$there" far
same y.npy far/buffers/y.npy
ends_with 1 "far/programs/mine.mlir': Permission denied$" cp add.mlir far/programs/mine.mlir
ends_with 1 "far/buffers/mine.npy': Permission denied$" cp x.npy far/buffers/mine.npy
ends_with 1 "far/buffers/x.npy: Permission denied$" cat far/buffers/x.npy
ends_with 1 "write error: Input/output error$" bash -c 'echo "x y -> z" >far/executables/add/run'
tells far/error 'EACCES: add: input 0: buffer x: permission denied$'
fails_with 'Permission denied' scp add.mlir "$there/programs/mine.mlir"
gone "$mnt/programs/mine.mlir" "$mnt/buffers/mine.npy" "$mnt/buffers/z.npy"
bounded fusermount3 -u far
