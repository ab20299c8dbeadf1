#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Common tools work on arrays as on files: copied in and out again, edited, the
# bytes are the same, and each file copied in is an array on its device.
. "$srcdir/tests/words.sh"
requires rsync --version
requires getfattr --version
mount_pjrtfs
b=$mnt/buffers
cp "$data/add.mlir" "$mnt/programs/"

# -- a model's files: those of tools are scratch files, until a buffer needs the name
mkdir hf
echo '{"layers":2}' | tee hf/config.json >hf/model.safetensors.index.json
printf '#version: 0.2\nt h\nth e</w>\n' >hf/merges.txt
bounded cp -r hf "$b/"
bounded diff -r hf "$b/hf"
fails_with 'File exists' cp "$data/x.npy" "$b/hf/config.npy"
bounded cp "$data/x.npy" "$b/hf/merges.npy"
same "$b/hf/merges.npy" "$data/x.npy"
same "$b/hf/merges.txt" hf/merges.txt
bounded rm -r "$b/hf"

# -- arrays of several types, shapes and formats, in directories
mkdir -p in/ns/deep
cp "$data/x.npy" in/x.npy
packed 'S<*' 16256 49024 0 32640 | npy '<V2' '(2, 2)' >in/bf16.npy
packed 'd<*' 0.1 -1e300 | npy '<f8' '(2,)' >in/ns/f64.npy
packed 'q<*' {1..24} | npy '<i8' '(2, 3, 4)' >in/ns/deep/s64.npy
packed 'C*' 1 0 1 | npy '|b1' '(3,)' >in/pred.npy
packed 'f<*' 1 2 3 4 5 6 | npy '<f4' '(2, 3)' True >in/fortran.npy
packed 'f<' 7 | npy '<f4' '()' >in/scalar.npy
npy '<f4' '(0, 3)' </dev/null >in/empty.npy
head -c 3000001 /dev/urandom >in/bytes.raw
head -c 4194304 /dev/urandom | npy '<u4' '(1024, 1024)' >in/ns/big.npy
head -c 1048576 /dev/zero | npy '<i4' '(262144,)' >in/zeros.npy
printf '1 2.5\n-3 4e10\n' >in/text.txt
printf '\x40\0\0\0\0\0\0\0%-64s' '{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' \
	>in/one.safetensors
packed 'f<*' 1.5 -2 >>in/one.safetensors
head -c 777 /dev/urandom >in/notes # of no format: kept as it is
head -c 777 /dev/urandom >in/ns/x.npy.part
chmod 640 in/x.npy
find in -exec touch -d '2001-02-03 04:05:06.789 UTC' {} +
arrays=$(cd in && find . -type f ! -name notes ! -name '*.part' | sort)

# each array of the directory is ready
ready()
{
	local name
	for name in $arrays; do
		eventually jq -e '.state == "ready"' "$1/${name%.*}.json"
	done
}
# agrees DIR: it has the names and bytes of in
agrees()
{
	bounded diff -r in "$1" || fail "$1 differs"
	equal "names in $1" "$(cd "$1" && bounded find . | sort)" "$(cd in && find . | sort)"
}
# agrees_in_all DIR: also modes and times
agrees_in_all()
{
	local format='%P %y %m %T@\n'
	agrees "$1"
	equal "modes and times in $1" "$(bounded find "$1" -mindepth 1 -printf "$format" | sort)" \
		"$(find in -mindepth 1 -printf "$format" | sort)"
}
# in_and_out NAME: in and $b/NAME hold the same files; both are emptied
in_and_out()
{
	ready "$b/$1"
	agrees "$b/$1"
	agrees out
	bounded rm -r "${b:?}/$1" out
}

# -- cp
bounded cp -r in "$b/cp"
bounded cp -r "$b/cp" out
in_and_out cp
bounded cp -a in "$b/cp"
agrees_in_all "$b/cp"
bounded cp -a "$b/cp" out
agrees_in_all out
in_and_out cp
for option in --sparse=always --reflink=never; do
	bounded cp -r $option in "$b/cp"
	bounded cp -r $option "$b/cp" out
	in_and_out cp
done
# (copy-move.sh copies within the mount)
bounded cp -a in "$b/cp"
# mv out and in
bounded mv "$b/cp" out 2>said
gone "$b/cp"
agrees_in_all out
bounded mv out "$b/cp" 2>>said
[ ! -s said ] || fail "mv says: $(head -n 3 said)"
agrees_in_all "$b/cp"
ready "$b/cp"
bounded rm -r "$b/cp"

# -- tools that copy attributes keep the type and shape of raw bytes
typed=$b/typed
bounded mkdir "$typed"
bounded cp in/text.txt in/x.npy in/bf16.npy "$typed/"
head -c 24 /dev/urandom >24.raw
bounded cp 24.raw "$typed/"
bounded setfattr -n user.pjrtfs.dtype -v S16 "$typed/24.raw"
bounded setfattr -n user.pjrtfs.shape -v 3,4 "$typed/24.raw"
out_and_in()
{
	local how="$1, $side"
	shift
	bounded "$@" "$typed/." "$side/out" 2>said || fail "$how, out: $(cat said)"
	bounded "$@" "$side/out/." "$b/in" 2>>said || fail "$how, in: $(cat said)"
	bounded "$@" "$side/out/." "$b/in" 2>>said || fail "$how, onto what is there: $(cat said)"
	[ ! -s said ] || fail "$how says: $(head -n 3 said)"
	bounded diff -r "$typed" "$b/in" || fail "$how: other bytes"
	equal "by $how" "$(bounded jq -c '[.dtype, .shape]' "$b/in/24.json")" '["S16",[3,4]]'
	equal "by $how" "$(bounded jq -c '[.dtype, .shape]' "$b/in/bf16.json")" '["BF16",[2,2]]'
	bounded rm -r "$b/in" "$side/out"
}
by_tar()
{
	mkdir -p "$2"
	tar --xattrs --xattrs-include='user.*' -C "$1" -cf - . |
		tar --xattrs --xattrs-include='user.*' -C "$2" -xf -
}
# here, and in a tmpfs, which lists attributes in another order
mkdir here memory
! isolated || mount -t tmpfs memory memory
for side in here memory; do
	touch "$side/probe"
	setfattr -n user.pjrtfs.probe -v 1 "$side/probe" 2>/dev/null || continue
	out_and_in 'cp -a' cp -a
	out_and_in 'cp --preserve=xattr' cp -r --preserve=xattr
	out_and_in 'rsync -X' rsync -aX
	out_and_in 'tar --xattrs' by_tar
done
! isolated || umount memory
bounded rm -r "$typed"

# -- tar
tar --format=posix -cf in.tar in
bounded tar -C "$b" -xf in.tar
agrees_in_all "$b/in"
bounded tar --format=posix -C "$b" -cf - in >out.tar
bounded tar -C "$b" -df in.tar
mkdir out
tar -C out --strip-components=1 -xf out.tar
agrees_in_all out
in_and_out in
# sparse, onto what is there
bounded tar -C "$b" -xf in.tar
bounded tar --sparse -C "$b" -cf out.tar in
bounded tar -C "$b" --overwrite -xf out.tar
mkdir out
tar -C out --strip-components=1 -xf out.tar
in_and_out in

# -- rsync: writes .x.npy.AbCdEf and renames it
rsync()
{
	"$patient" "$patience" rsync "$@"
}
rsync -a in/ "$b/rsync"
agrees_in_all "$b/rsync"
ready "$b/rsync"
equal "nothing to do" "$(rsync -ai in/ "$b/rsync")" ''
equal "nothing differs" "$(rsync -aic in/ "$b/rsync")" ''
rsync -a "$b/rsync/" out
agrees_in_all out
# changes: in place, whole, by blocks, deleted, partly there
cp -a in changed
printf '\x42' | dd of=changed/ns/big.npy bs=1 seek=3000000 conv=notrunc status=none
printf '5 6\n' >>changed/text.txt
rm changed/bf16.npy
head -c 100 /dev/urandom >changed/new.raw
for options in -a '-a --inplace --no-whole-file' '-a --append-verify' -aS '-a --delay-updates'; do
	# shellcheck disable=SC2086 # a list of words
	rsync $options --delete in/ "$b/rsync"
	# shellcheck disable=SC2086
	rsync $options --delete changed/ "$b/rsync"
	bounded diff -r changed "$b/rsync" || fail "rsync $options"
	eventually jq -e '.state == "ready"' "$b/rsync/ns/big.json"
	eventually jq -e '.state == "ready" and .shape == [3, 2]' "$b/rsync/text.json"
done
rsync -a --delete in/ "$b/rsync"
in_and_out rsync

# -- editors
bounded cp in/text.txt "$b/s.txt"
bounded sed -i 's/2/20/' "$b/s.txt"
shows "$b/s.txt" $'1 20.5\n-3 4e10'
for name in x bf16; do bounded cp --backup=simple "in/$name.npy" "$b/k.npy"; done
same "$b/k.npy" in/bf16.npy
same "$b/k.npy~" in/x.npy
bounded install -m 600 in/x.npy "$b/i.npy"
same "$b/i.npy" in/x.npy
vi=$(command -v vim.tiny || command -v vim || fail "there is no vim")
for options in 'set backupcopy=yes' 'set backupcopy=no' 'set backup'; do
	bounded cp in/text.txt "$b/vi.txt"
	bounded "$vi" -u NONE -es -c "$options" -c '1s/$/ 9/' -c '2s/$/ 9/' -c wq "$b/vi.txt" \
		</dev/null || fail "vi with '$options'"
	shows "$b/vi.txt" $'1 2.5 9\n-3 4e10 9'
	eventually jq -e '.state == "ready" and .shape == [2, 3]' "$b/vi.json"
done
fails_with '' test -e "$b/.vi.txt.swp"

shows "$mnt/health" ok
