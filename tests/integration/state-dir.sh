#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 10 CPU-s in 25 s
# --state-dir: programs and buffers are files on disk, too, and in the next mount, whatever happens to names.
. "$srcdir/tests/words.sh"
requires getfattr --version
state=$work/state

begin()
{
	mount_pjrtfs --state-dir "$state" "$@"
	b=$mnt/buffers
}
# kept NAME...: DIR has the bytes of the mount
kept()
{
	local name
	for name; do
		cmp -s "$mnt/$name" "$state/$name" || return 1
	done
}
not_there()
{
	local name
	for name; do
		[ ! -e "$state/$name" ] || return 1
	done
}
# facts: what users see of all names, without the number of an inode
facts()
{
	(
		cd "$mnt" || exit
		find programs buffers -mindepth 1 | sort | while read -r name; do
			stat -c '%n %F %a %u %g %s %y' "$name"
			getfattr -d -m 'user\.pjrtfs\.(dtype|shape|memory)' "$name"
		done
	)
}

# -- all kinds of files
begin
mkdir -m 750 "$b/ns" "$b/ns/deep" "$mnt/programs/lib"
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/add.mlir" "$mnt/programs/lib/other.mlir"
say "$mnt/executables/add/options.json" '{"num_replicas":1}'
cp "$data/x.npy" "$data/y.npy" "$b/"
cp "$data/x.npy" "$b/ns/deep/"
printf '1 2 3\n4   5 6\n' >"$b/words.txt"
: >"$b/empty.npy"
echo 'not an array' >"$b/notes"
echo '{"op":"create","buffer":"bf","dtype":"BF16","shape":[2,3],"fill":1.5}' >"$mnt/control"
packed 's<*' 1 2 3 4 >"$b/typed.raw"
setfattr -n user.pjrtfs.dtype -v S16 "$b/typed.raw"
setfattr -n user.pjrtfs.shape -v 2,2 "$b/typed.raw"
packed 'f<*' 1 2 3 4 5 6 | npy '<f4' '(2, 3)' True >"$b/columns.npy"
cp "$b/x.safetensors" one.safetensors
cp one.safetensors "$b/one.safetensors"
run add 'x y -> z'
chmod 640 "$b/z.npy"
touch -d '2001-02-03 04:05:06.789' "$b/x.npy"
[ -z "$others" ] || chown 1001:1002 "$b/y.npy"
shows "$mnt/health" ok
facts >before
mkdir copy
cp -r "$b" "$mnt/programs" copy/
unmount_pjrtfs
# any program reads the files
same "$state/buffers/x.npy" "$data/x.npy"
same "$state/programs/add.mlir" "$data/add.mlir"
begin
facts >after
diff before after || fail "the next mount differs"
tells "$b/x.json" '"host_copy":false' '"made_by":"state-dir"'
diff -r copy/buffers "$b" || fail "other bytes"
diff -r copy/programs "$mnt/programs" || fail "other programs"
shows "$mnt/executables/add/options.json" '{"num_replicas":1}'
run add 'x y -> again'
shows "$b/again.txt" "$sum"
run lib/other 'ns/deep/x z -> more'
shows "$mnt/health" ok

# -- changes of names, of bytes and of attributes
eventually kept buffers/again.npy buffers/more.npy
mv "$b/x.npy" "$b/ns/moved.npy"
mv "$b/ns" "$b/space"
mv "$mnt/programs/lib" "$mnt/programs/library"
python3 - "$b" <<'END' # exchange two names
import ctypes, sys
names = [f"{sys.argv[1]}/{n}.npy".encode() for n in ("y", "z")]
assert ctypes.CDLL(None).renameat2(-100, names[0], -100, names[1], 2) == 0
END
echo 7 8 >"$b/words.txt"
rm "$b/notes" "$b/columns.npy"
mkdir "$b/notes"
chmod 600 "$b/again.npy"
eventually kept buffers/{space/moved,space/deep/x,y,z}.npy buffers/words.txt \
	programs/library/other.mlir
eventually not_there buffers/{x,columns}.npy buffers/ns programs/lib
eventually test -d "$state/buffers/notes"
eventually eval '[ "$(stat -c %a "$state/buffers/again.npy")" = 600 ]'
# what a process is still writing waits for its end
exec 4>"$b/half"
echo first >&4
echo other >"$b/meanwhile"
eventually kept buffers/meanwhile
not_there buffers/half || fail "half a file is kept"
echo second >&4
exec 4>&-
eventually kept buffers/half
# a result that is overwritten all the time is one file, whole at any time, and no run waits
for _ in {1..300}; do echo 'space/moved z -> hot'; done >"$mnt/executables/add/run"
eventually kept buffers/hot.npy
# All results have the same bytes: wait for the last one.
eventually eval '[ "$(stat -c %y "$b/hot.npy")" = "$(stat -c %y "$state/buffers/hot.npy")" ]'
facts >before
kill -KILL "$daemon"
unmount_pjrtfs || :
begin
facts >after
diff before after || fail "after SIGKILL the next mount differs"
run add 'space/moved y -> again'

# -- an array that was not used is read although its file is gone
cp "$b/space/deep/x.npy" "$b/copy.npy"
eventually kept buffers/copy.npy
unmount_pjrtfs
begin
mv "$b/copy.npy" "$b/renamed.npy"
eventually test -e "$state/buffers/renamed.npy"
mkdir "$b/dir"
mv "$b/renamed.npy" "$b/dir/"
mv "$b/dir" "$b/folder"
eventually test -e "$state/buffers/folder/renamed.npy"
same "$b/folder/renamed.npy" "$data/x.npy"
cp "$b/space/deep/x.npy" "$b/shared.npy"
rm "$b/space/deep/x.npy"
eventually not_there buffers/space/deep/x.npy
same "$b/shared.npy" "$data/x.npy"
unmount_pjrtfs

# -- the daemon's death with --keep: arrays that were not read yet come from DIR
mnt=$work/kept
b=$mnt/buffers
mkdir "$mnt"
bounded "$pjrtfs" "${plugin:-cpu}" "$mnt" --keep --plugin-dir "$plugins" --cache-dir "$work/cache" \
	--state-dir "$state" || fail "cannot mount with --keep"
at_end "fusermount3 -u -z $work/kept 2>/dev/null"
tells "$b/y.json" '"host_copy":false'
echo 5 6 >"$b/five.txt"
next_daemon KILL
same "$b/y.npy" "$state/buffers/y.npy"
shows "$b/five.txt" '5 6'
eventually kept buffers/five.txt
# what was moved, removed, or became another kind of file just before the death stays so
tells "$b/z.json" '"host_copy":false'
cp "$state/buffers/z.npy" unread.npy
mkdir "$b/was-dir"
echo 1 2 >"$b/was-file"
settle
mv "$b/z.npy" "$b/moved-unread.npy"
mv "$b/five.txt" "$b/moved.txt"
rm "$b/again.npy" "$b/was-file"
rmdir "$b/was-dir"
mkdir "$b/was-file"
echo 3 4 >"$b/was-dir"
echo 5 6 >"$b/was-file/in"
cp "$data/x.npy" "$state/buffers/by-hand.npy"
# the first daemon after it cannot read DIR, and leaves to the second what is known of the files
flock "$state/.lock" sleep 0.5 & # real time: it begins when the daemon's lock ends
next_daemon KILL
wait $!
gone "$b/z.npy" "$b/five.txt" "$b/again.npy"
same "$b/moved-unread.npy" unread.npy
same "$b/by-hand.npy" "$data/x.npy"
settle
shows "$mnt/health" ok
not_there buffers/z.npy buffers/five.txt buffers/again.npy || fail "removed names are on disk"
kept buffers/{moved-unread,by-hand}.npy buffers/moved.txt buffers/was-dir buffers/was-file/in ||
	fail "not kept after the death"
bounded fusermount3 -u "$mnt"
eventually flock -n "$state/.lock" true

# -- memory is taken when an array is used
rm -r "$state"
begin --memory-limit 64M
head -c 24M /dev/zero >"$b/big1.raw"
cp "$b/big1.raw" big
eventually kept buffers/big1.raw
unmount_pjrtfs
for n in 2 3 4 5; do cp -a "$state/buffers/big1.raw" "$state/buffers/big$n.raw"; done
begin --memory-limit 64M
equal "size" "$(stat -c %s "$b/big5.raw")" $((24 << 20))
used=$(sed -n 's/^pjrtfs_memory_used_bytes //p' "$mnt/metrics.prom")
[ "$used" -lt $((1 << 20)) ] || fail "$used bytes are used before the first read"
same "$b/big1.raw" big
fails_with 'No space left on device' grep -c x "$b/big"[12345].raw # more than the limit, at the use
rm "$b/big1.raw" "$b/big2.raw"
same "$b/big5.raw" big

# -- another daemon, other directories
fails_with 'another pjrtfs uses it' "$pjrtfs" "${plugin:-cpu}" "$work" -f \
	--plugin-dir "$plugins" --state-dir "$state"
mkdir -m 755 open
fails_with 'mode 0700' "$pjrtfs" "${plugin:-cpu}" "$work" -f --plugin-dir "$plugins" \
	--state-dir open
fails_with 'not both' "$pjrtfs" --state-dir "$state" --isolate user "$work"
unmount_pjrtfs

# -- files of others, and damaged ones, stay as they are
mkfifo "$state/buffers/pipe"
ln -s /etc/passwd "$state/buffers/link.npy"
cp "$data/y.npy" "$state/buffers/by-hand.npy"
head -c 100 "$data/x.npy" >"$state/buffers/cut.npy"
head -c 100 "$data/x.npy" >"$state/buffers/"$'cut-\xff.npy'
cp "$data/x.npy" "$state/buffers/two.npy"
cp "$data/x.npy" "$state/buffers/two.raw"
truncate -s 3T "$state/buffers/huge.txt" # is refused before its bytes are read
# a daemon that ended while a file waited in .tmp: it goes where it was to go, but not outside
for n in 1 2; do
	cp "$data/y.npy" "$state/.tmp/$n"
	setfattr -n user.pjrtfs.place -v buffers/space/back.npy "$state/.tmp/$n"
done
setfattr -n user.pjrtfs.place -v buffers/../../out.npy "$state/.tmp/2"
begin
same "$b/space/back.npy" "$data/y.npy"
[ ! -e out.npy ] || fail "a file outside of the state directory"
tells "$mnt/health" 'state-dir: not read: 4 files; the first: buffers/cut-\?.npy'
iconv -f UTF-8 "$mnt/health" >/dev/null || fail "health is not UTF-8"
gone "$b/pipe" "$b/link.npy" "$b/cut.npy"
same "$b/by-hand.npy" "$data/y.npy"
grep -q 'buffers/cut.npy is not in the mount: ' "$mnt.log" || fail "the log is silent"
echo 1 2 >"$b/new.txt"
eventually kept buffers/new.txt
test -p "$state/buffers/pipe"
rm "$state/buffers/cut"*.npy "$state/buffers/two.raw" "$state/buffers/huge.txt"
echo 1 3 >"$b/new.txt"
eventually grep -qx ok "$mnt/health"
unmount_pjrtfs

# -- a copy of DIR at any moment is a state: each file is whole
rm -r "$state"
begin
put_add
eventually kept buffers/y.npy buffers/x.npy programs/add.mlir
(
	trap 'exit 0' TERM
	while :; do
		run add 'x y -> z'
		cp "$data/y.npy" "$b/w.npy"
		mv "$b/w.npy" "$b/v.npy"
	done
) &
busy=$!
for i in 1 2 3 4 5 6; do
	sleep "0.$((RANDOM % 10))" # real time: the copy is made at any moment
	cp -a "$state" "moment$i" 2>/dev/null || : # a name may go meanwhile
done
kill "$busy"
wait "$busy" || :
unmount_pjrtfs
for i in 1 2 3 4 5 6; do
	for file in "moment$i"/buffers/*.npy; do
		case $file in
		*/[vw].npy) same "$file" "$data/y.npy" ;;
		*) equal "bytes of $file" "$(stat -c %s "$file")" 152 ;;
		esac
	done
done
state=$work/moment6
begin
shows "$mnt/health" ok
run add 'x y -> last'
unmount_pjrtfs

# -- whatever happens to names, the state directory becomes the same, and the next mount, too
state=$work/names
names=$top/tests/tools/state_dir_names.py
seed=${SEED:-$RANDOM}
echo "SEED=$seed"

for round in 1 2; do
	mount_pjrtfs --state-dir "$state"
	[ "$round" = 1 ] || diff -r old "$mnt/buffers" || fail "the next mount differs"
	[ "$round" = 1 ] || unmount_pjrtfs
	[ "$round" = 1 ] || mount_pjrtfs --state-dir "$state"
	# from the second round on with arrays that were not read yet
	"$patient" $((patience * 3)) python3 -B "$names" "$mnt" "$state" 4 "$patience" \
		$((seed + round)) || fail "SEED=$seed, round $round"
	shows "$mnt/health" ok
	rm -rf old
	cp -r "$mnt/buffers" old
	unmount_pjrtfs
done
test -z "$(ls -A "$state/.tmp")"
