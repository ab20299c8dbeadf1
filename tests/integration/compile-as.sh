#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# The compile command: a program once more, under another name, with other options.
. "$srcdir/tests/words.sh"
mount_pjrtfs
me=${plugin:-cpu}
x=$mnt/executables
put_add
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/devices/$me/2/buffers/"

# replies COMMAND FILTER: the reply to the command fulfils jq's filter.
replies()
{
	local reply
	reply=$(ask "$1")
	jq -e "$2" >/dev/null <<<"$reply" || fail "the reply to $1: $reply"
}

# refused ERRNO PATTERN COMMAND: it fails so, and says so.
refused()
{
	replies "$3" ".ok == false and .error.errno == \"$1\" and
		(.error.message | test(\"$2\"))"
}

# -- one program, several executables
replies '{"op":"compile","program":"add.mlir","as":"add-2","options":{"device":2},"id":7}' \
	'.ok and .executable == "add-2" and .seconds > 0 and .id == 7'
shows "$x/add-2/state" ready
knows "$x/add-2/info.json" '.devices == [2]'
shows "$x/add-2/options.json" '{"device":2}'
knows "$x/add/info.json" '.devices == [0]'
gone "$x/add-2/program" "$mnt/programs/add-2.mlir"
run add-2 'x y -> z'
tells "$x/add-2/run" "^ok: z F32\\[2,3\\] on $me:2 in "
run add 'x y -> z'
tells "$x/add/run" "^ok: z F32\\[2,3\\] on $me:0 in "
same "$mnt/buffers/z.npy" "$mnt/devices/$me/2/buffers/z.npy"
replies '{"op":"execute","executable":"add-2","inputs":["x","y"],"outputs":["w"]}' .ok
replies '{"op":"stat","executable":"add-2"}' '.executable.devices == [2]'
replies '{"op":"compile","program":"add","as":"plain"}' .ok
shows "$x/plain/options.json" '{}'

# It is a snapshot: the program may change and go.
echo 'func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }' >one.mlir
bounded cp one.mlir "$mnt/programs/add.mlir"
knows "$x/add/signature.json" '.inputs | length == 1'
knows "$x/add-2/signature.json" '.inputs | length == 2'
say "$x/add-2/options.json" '{"device":0}'
knows "$x/add-2/info.json" '.devices == [0]'
run add-2 'x y -> z'
rm "$mnt/programs/add.mlir"
gone "$x/add"
run add-2 'x y -> z'
kill_worker "$me"
run add-2 'x y -> z'

# -- only rmdir frees it
bounded rmdir "$x/plain"
gone "$x/plain"
bounded cp "$data/add.mlir" "$mnt/programs/"
fails_with 'not permitted' rmdir "$x/add"
fails_with 'not permitted' rm "$x/add-2/state"
fails_with 'not permitted' mkdir "$x/new"
fails_with 'not permitted' mv "$x/add-2" "$x/add-3"

# -- names: whose they are, on both sides
bounded mkdir "$mnt/programs/ns"
replies '{"op":"compile","program":"add","as":"ns/inner"}' '.executable == "ns/inner"'
run ns/inner 'x y -> z'
fails_with 'not empty' rmdir "$mnt/programs/ns"
fails_with 'File exists' cp "$data/add.mlir" "$mnt/programs/add-2.mlir"
fails_with 'File exists' mkdir "$mnt/programs/add-2"
for from in add.mlir ns; do
	to=add-2${from#"${from%.mlir}"}
	# mv(1) words it in several ways.
	fails_with 'File exists' perl -e 'rename $ARGV[0], $ARGV[1] or die "$!\n"' \
		"$mnt/programs/$from" "$mnt/programs/$to"
done
bounded mv "$mnt/programs/ns" "$mnt/programs/space"
run space/inner 'x y -> z'
bounded rmdir "$x/space/inner"
bounded rmdir "$mnt/programs/space"
gone "$x/space"
refused EEXIST 'there is an executable' '{"op":"compile","program":"add","as":"add-2"}'
bounded mkdir "$mnt/programs/dir"
refused EEXIST 'there is a directory' '{"op":"compile","program":"add","as":"dir"}'
refused ENOENT 'there is no program add-2' '{"op":"compile","program":"add-2","as":"b"}'

# -- a failed compile leaves no executable
echo 'func.func @main( {' >bad.mlir
cp bad.mlir "$mnt/programs/" 2>/dev/null || true
refused EINVAL '^compile: b: ' '{"op":"compile","program":"bad","as":"b"}'
gone "$x/b"

# -- without "as" it is the program's own, with these options from now on
replies '{"op":"compile","program":"add","options":{"device":1}}' '.ok and .executable == "add"'
knows "$x/add/info.json" '.devices == [1]'
shows "$x/add/options.json" '{"device":1}'
replies '{"op":"compile","program":"add"}' .ok
knows "$x/add/info.json" '.devices == [1]'
refused EINVAL 'unknown option' '{"op":"compile","program":"add","options":{"x":1}}'
knows "$x/add/info.json" '.devices == [1] and .state == "ready"'

# As a job, and in a batch with what it is for.
replies '{"op":"compile","program":"add","as":"later","async":true}' '.ok and (.job | type == "number")'
eventually grep -qx ready "$x/later/state"
run later 'x y -> z5'
replies '{"op":"batch","steps":[{"op":"compile","program":"add","as":"now","options":{"device":0}},
	{"op":"execute","executable":"now","inputs":["x","y"],"outputs":["z6"]}]}' '.ok'
same "$mnt/buffers/z6.npy" "$mnt/buffers/z.npy"

# A descriptor that only writes gets the failure, too.
fails_with 'File exists' say "$mnt/control" '{"op":"compile","program":"add","as":"add-2"}'

# -- rights: R_OK on the program is the right to run its executables
bounded chmod 600 "$mnt/programs/add.mlir"
replies '{"op":"compile","program":"add","as":"mine"}' .ok
equal "mode of mine" "$(bounded stat -c %a "$x/mine")" 500
bounded chmod 644 "$mnt/programs/add.mlir"
replies '{"op":"compile","program":"add","as":"ours"}' .ok
equal "mode of ours" "$(bounded stat -c %a "$x/ours")" 555
