#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several users of one mount: modes count, and the rights are those of who opened the file.
. "$srcdir/tests/words.sh"
requires test "$(id -u)" = 0
mount_pjrtfs -o allow_other
b=$mnt/buffers
# denied UID COMMAND
denied()
{
	ask_as "$@" >reply
	tells reply '"errno":"EACCES"'
}
put_add
own_data

# -- a user without write permission on a directory makes no files in it
fails_with 'ermission denied' as 1001 touch "$b/mine.npy"
fails_with 'ermission denied' as 1001 touch "$mnt/programs/mine.mlir"
fails_with 'ermission denied' as 1001 rm "$b/x.npy"
fails_with 'ermission denied' as_run 1001 add 'x y -> z'
tells "$mnt/version" .
gone "$b/z.npy"
bounded mkdir -m 1777 "$b/all" "$mnt/programs/all"

# -- reading what all may read, in a directory that is theirs
as 1001 cat "$b/x.npy" | cmp - x.npy
as 1001 cp y.npy "$b/all/"
equal "the owner" "$(bounded stat -c '%u %g' "$b/all/y.npy")" '1001 1001'
as_run 1001 add 'x all/y -> all/z'
equal "an output's owner" "$(bounded stat -c '%u %g %a' "$b/all/z.npy")" '1001 1001 644'
shows "$b/all/z.txt" "$sum"
as 1001 cp add.mlir "$mnt/programs/all/"
equal "a program's owner" "$(bounded stat -c %u "$mnt/programs/all/add.mlir")" 1001

# -- compile: "as" needs W_OK on the directory and R_OK on the program
denied 1001 '{"op":"compile","program":"add","as":"mine"}'
denied 1001 '{"op":"compile","program":"add","options":{}}'
allowed 1001 '{"op":"compile","program":"add","as":"all/mine"}'
equal "the owner of all/mine" "$(bounded stat -c %u "$mnt/executables/all/mine")" 1001
fails_with 'not permitted' as 1002 rmdir "$mnt/executables/all/mine"
as 1001 rmdir "$mnt/executables/all/mine"
as 1001 chmod 600 "$mnt/programs/all/add.mlir"
denied 1002 '{"op":"compile","program":"all/add","as":"all/theirs"}'
allowed 1001 '{"op":"compile","program":"all/add","as":"all/private"}'
denied 1002 '{"op":"execute","executable":"all/private","inputs":["x","y"],"outputs":["all/v"]}'
fails_with 'ermission denied' as 1002 cat "$mnt/executables/all/private/info.json"
as 1001 cat "$mnt/executables/all/private/info.json" >/dev/null
as 1001 chmod 644 "$mnt/programs/all/add.mlir"
bounded chmod 755 "$mnt/programs/all"
fails_with 'ermission denied' as 1001 rmdir "$mnt/executables/all/private"
bounded chmod 1777 "$mnt/programs/all"

# -- another user's 0600 is EACCES: to read, as an input, in each view, to stat by command
as 1001 chmod 600 "$b/all/z.npy"
for view in npy raw txt json; do
	fails_with 'ermission denied' as 1002 cat "$b/all/z.$view"
done
as 1001 cat "$b/all/z.txt" >/dev/null
fails_with 'ermission denied' as_run 1002 add 'x all/z -> all/w'
ask_as 1002 'x all/z -> all/w' "$mnt/executables/add/run" >reply
tells reply '^error: EACCES: add: input 1: .*all/z.*ermission'
denied 1002 '{"op":"stat","buffer":"all/z"}'
# as an output, and to delete: the directory is sticky, the file is not theirs
fails_with 'ermission denied' as_run 1002 add 'x y -> all/z'
ask_as 1002 '{"op":"delete","buffer":"all/z"}' >reply
tells reply '"ok":false' '"errno":"E(ACCES|PERM)"'
shows "$b/all/z.txt" "$sum"
gone "$b/all/w.npy"

# -- an array that another user may only read cannot be donated
as 1001 chmod 644 "$b/all/z.npy"
ask_as 1002 'x all/z -> all/w donate=all/z' "$mnt/executables/add/run" >reply
tells reply '^error: EACCES: add: input 1: .*all/z.*ermission'
shows "$b/all/z.txt" "$sum"
gone "$b/all/w.npy"
as 1001 chmod 600 "$b/all/z.npy"

# -- an output over one's own name keeps owner and mode; root may everything
as_run 1001 add 'x x -> all/z'
equal "owner and mode" "$(bounded stat -c '%u %a' "$b/all/z.npy")" '1001 600'
run add 'x y -> all/z'
equal "owner and mode, by root" "$(bounded stat -c '%u %a' "$b/all/z.npy")" '1001 600'
# over a file that other users may write
as 1001 chmod 666 "$b/all/z.npy"
as_run 1002 add 'x x -> all/z'
equal "owner and mode, by another" "$(bounded stat -c '%u %a' "$b/all/z.npy")" '1001 666'

# -- other users cannot run a program that they cannot read
as 1001 chmod 600 "$mnt/programs/all/add.mlir"
fails_with 'ermission denied' as_run 1002 all/add 'x y -> all/n'
denied 1002 '{"op":"execute","executable":"all/add","inputs":["x","y"],"outputs":["all/n"]}'
as_run 1001 all/add 'x y -> all/m'

# -- a directory without search permission also protects its files from commands
as 1001 mkdir -m 700 "$b/all/home"
as 1001 cp x.npy "$b/all/home/"
fails_with 'ermission denied' as 1002 cat "$b/all/home/x.npy"
fails_with 'ermission denied' as_run 1002 add 'x all/home/x -> all/n'
fails_with 'ermission denied' as_run 1002 add 'x y -> all/home/n'
as_run 1001 add 'x all/home/x -> all/home/n'

# -- the rights are the opener's, taken at open
exec 3<>"$mnt/executables/add/run"
setpriv --reuid 1002 --regid 1002 --clear-groups bash -c 'echo "x all/home/x -> all/home/o" >&3'
bounded cat <&3 >reply
exec 3<&-
tells reply '^ok: all/home/o'

# -- supplementary groups count
bounded chown 0:2000 "$b/y.npy"
bounded chmod 640 "$b/y.npy"
fails_with 'ermission denied' as_run 1001 add 'x y -> all/g'
timeout "$patience" setpriv --reuid 1001 --regid 1001 --groups 2000 bash -c 'cat "$2/y.npy" >/dev/null
	echo "x y -> all/g" >"$1"' - "$mnt/executables/add/run" "$b"

# -- users who cannot read a program cannot read its executable's files
as 1001 bash -c 'umask 077; cp add.mlir "$1"' - "$mnt/programs/all/secret.mlir"
x=$mnt/executables/all/secret
equal "its rights" "$(bounded stat -c '%u %a' "$x")" '1001 500'
for f in optimized.hlo.pb optimized.mlir serialized info.json signature.json error program; do
	fails_with 'ermission denied' as 1002 cat "$x/$f"
	as 1001 cat "$x/$f" >/dev/null
done
as 1001 chmod 644 "$mnt/programs/all/secret.mlir"
equal "its rights" "$(bounded stat -c '%u %a' "$x")" '1001 555'
as 1002 cat "$x/info.json" >/dev/null
as 1001 chmod 640 "$mnt/programs/all/secret.mlir"
fails_with 'ermission denied' as 1002 cat "$x/info.json"
fails_with 'ermission denied' as_write 1002 "$x/options.json" '{}'
bounded chown 1002 "$mnt/programs/all/secret.mlir"
as 1002 cat "$x/info.json" >/dev/null
as_write 1002 "$x/options.json" '{}'
as 1002 chmod 666 "$mnt/programs/all/secret.mlir"
as_write 1001 "$x/options.json" '{}'
# a scratch name that gets its own keeps them
as 1001 bash -c 'umask 077; cp add.mlir "$1/part" && mv "$1/part" "$1/part.mlir"' - "$mnt/programs/all"
fails_with 'ermission denied' as 1002 cat "$mnt/executables/all/part/info.json"

# -- what is made of an array has its rights, in a directory with set-group-ID its group
as 1001 bash -c 'umask 022; cp x.npy "$1/all/private.npy"; chmod 600 "$1/all/private.npy"' - "$b"
allowed 1001 '{"op":"copy","buffer":"all/private","as":"all/private2"}'
equal "a copy's mode" "$(bounded stat -c %a "$b/all/private2.npy")" 600
bounded mkdir -m 2777 "$b/group"
bounded chown 0:2000 "$b/group"
bounded chmod 2777 "$b/group"
allowed 1001 '{"op":"create","buffer":"group/made","dtype":"F32","shape":[3],"fill":1}'
as_run 1001 add 'x all/y -> group/sum'
for f in made sum; do
	equal "the group of $f" "$(bounded stat -c '%u %g' "$b/group/$f.npy")" '1001 2000'
done

# -- a checkpoint's directory, its file and its tensors
head='{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}'
{ printf '\x80\0\0\0\0\0\0\0%-128s' "$head" && packed 'f<*' 1 2 3 4; } >two.safetensors
chmod 644 two.safetensors
as 1001 cp two.safetensors "$b/all/"
as 1002 cmp two.safetensors "$b/all/two.safetensors"
as 1001 chmod 700 "$b/all/two"
fails_with 'ermission denied' as 1002 cat "$b/all/two.safetensors"
as 1001 chmod 755 "$b/all/two"
as 1001 chmod 600 "$b/all/two/b.npy"
fails_with 'ermission denied' as 1002 cat "$b/all/two.safetensors"
as 1001 cmp two.safetensors "$b/all/two.safetensors"
as 1001 chmod 644 "$b/all/two/b.npy"
as 1002 cmp two.safetensors "$b/all/two.safetensors"
as 1001 chmod 600 "$b/all/two.safetensors"
fails_with 'ermission denied' as 1002 cat "$b/all/two/a.txt"
as 1001 cp two.safetensors "$b/group/"
equal "its directory" "$(bounded stat -c '%g %A' "$b/group/two")" '2000 drwxr-sr-x'
# a tensor that was changed is not written over
as_write 1001 "$b/group/two/a.txt" '7 8'
fails_with 'not empty' as 1001 cp two.safetensors "$b/group/"
shows "$b/group/two/a.txt" '7 8'

# -- a mount for all: --mode, --group
mount_pjrtfs -o allow_other,mode=1777 --devices 2
b=$mnt/buffers
for uid in 1001 1002; do
	as "$uid" cp add.mlir "$mnt/programs/of$uid.mlir"
	as "$uid" cp x.npy "$b/x$uid.npy"
	as_run "$uid" "of$uid" "x$uid x$uid -> z$uid"
	allowed "$uid" "{\"op\":\"compile\",\"program\":\"of$uid\",\"as\":\"as$uid\"}"
	as "$uid" cp x.npy "$mnt/devices/${plugin:-cpu}/1/buffers/x$uid.npy"
	as "$uid" mkdir "$b/home$uid"
done
fails_with 'not permitted' as 1002 rm "$b/x1001.npy"
fails_with 'not permitted' as 1002 rm "$mnt/programs/of1001.mlir"
for d in programs executables buffers "devices/${plugin:-cpu}/1/buffers"; do
	equal "$d" "$(bounded stat -c '%u %g %a' "$mnt/$d")" '0 0 1777'
done
equal "devices" "$(bounded stat -c %a "$mnt/devices" "$mnt/plugins" "$mnt" | tr '\n' ' ')" '555 755 755 '
echo '{"mount_options": "allow_other", "group": 2000}' >group.json
mount_pjrtfs --config group.json
b=$mnt/buffers
equal "buffers" "$(bounded stat -c '%u %g %a' "$b")" '0 2000 2775'
fails_with 'ermission denied' as 1001 cp x.npy "$b/"
timeout "$patience" setpriv --reuid 1001 --regid 1001 --groups 2000 cp x.npy "$b/"
equal "its group" "$(bounded stat -c '%u %g' "$b/x.npy")" '1001 2000'

# -- only the mount's owner reads files that name other users' programs
mount_pjrtfs -o allow_other
bounded cp add.mlir "$mnt/programs/"
p=$mnt/plugins/${plugin:-cpu}
settle # the copy returns before the program is in the cache
key=$(bounded ls "$mnt/cache/entries" | head -1)
[ -n "$key" ] || fail "the cache has no entry"
for file in "$p/log" "$p/error" "$mnt/cache/entries/$key"; do
	bounded cat "$file" >/dev/null
	fails_with 'ermission denied' as 1001 cat "$file"
done
fails_with 'ermission denied' as_write 1001 "$mnt/cache/clear" x

# -- pages are shared by users: what differs between them is in none while another one has it open
sent() # prints metrics.prom, as sendfile(2) reads it
{
	bounded python3 -c 'import os, sys
while os.sendfile(1, 3, None, 1 << 20):
    pass' 3<"$mnt/metrics.prom"
}
sent >pages
tells pages '^pjrtfs_'
mkfifo ends
as 1001 bash -c 'exec 5<"$1"; echo open; read -r _ || :' - "$mnt/metrics.prom" <ends >opened &
exec 7>ends
eventually grep -qx open opened
fails_with 'Input/output error' sent
exec 7>&-
wait "$!"

# -- without allow_other only the owner of the mount sees it
mount_pjrtfs
fails_with 'ermission denied' as 1001 ls "$mnt"
