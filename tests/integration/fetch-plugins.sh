#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 5 CPU-s in 7 s
# scripts/fetch-plugins: what each name brings, by each program that can download, and that nothing is fetched twice
# or written into a file that has other links; what it brought, it removes; the form that is installed; what is wrong is
# refused with a sentence.  An index made here has small wheels.
. "$srcdir/tests/lib.sh"
requires isolated
requires command -v curl
mkdir -p tree/scripts index/files
cp "$top/scripts/fetch-plugins" "$top/scripts/cuda.ffi.json" tree/scripts/
export HOME=$work/nobody PIP_INDEX_URL=http://127.0.0.1:8000/
/usr/bin/python3 -m http.server --bind 127.0.0.1 --directory index 8000 >served 2>&1 &
server=$!
eventually curl -fs http://127.0.0.1:8000/

# wheel NAME VERSION MEMBER...: a wheel in the index, whose members hold the name and their own, and its pin
wheel()
{
	/usr/bin/python3 - "$@" <<'END2'
import hashlib, os, sys, zipfile

padding = " " * int(os.environ.get("padding", 0))
name, version, *members = sys.argv[1:]
wheel = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
with zipfile.ZipFile(f"index/files/{wheel}", "w") as file:
    for n, member in enumerate(members):
        packed = zipfile.ZIP_STORED if n else zipfile.ZIP_DEFLATED
        file.writestr(member, f"{name} {version} {member}\n" + padding, packed)
    file.writestr("RECORD", ", ".join(members))
with open(f"index/files/{wheel}", "rb") as file:
    sha256 = hashlib.sha256(file.read()).hexdigest()
os.makedirs(f"index/{name}", exist_ok=True)
with open(f"index/{name}/index.html", "a", encoding="ascii") as file:
    file.write(f'<a href="../files/{wheel}#sha256={sha256}" data-dist-info-metadata="true">{wheel}</a><br/>\n')
print(f"{name}=={version} --hash=sha256:{sha256}")
END2
}
official=(xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h)
{
	wheel xla-cpu-pjrt 0.0.1 "${official[@]}"
	wheel fastatomstruct-xla-cpu 2026.6.23 fastatomstruct_xla_cpu/libpjrt_cpu.so
	wheel lammps-jax-pjrt-cpu 0.11.2 lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
} >tree/scripts/plugins.txt

fetch()
{
	"$patient" $((patience * 3)) tree/scripts/fetch-plugins "$@" >out 2>&1
}
# fetched N FILE...: N wheels were downloaded, and these are all files in DIR
fetched()
{
	local n=$1
	shift
	equal "downloads" "$(grep -c '^fetching ' out)" "$n"
	equal "files" "$(cd "$dir" && find . -type f ! -name '*.from' ! -name .lock | LC_ALL=C sort |
		tr '\n' ' ')" "$(printf './%s ' "$@")"
}
dir=some

# -- a name brings what is wanted and nothing beside it
fetch --dir some header || fail "header: $(cat out)"
fetched 1 include/pjrt_c_api.h
fetch --dir some header cpu || fail "cpu: $(cat out)"
fetched 1 cpu/pjrt_plugin.so include/pjrt_c_api.h
shows some/cpu/pjrt_plugin.so 'lammps-jax-pjrt-cpu 0.11.2 lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so'
fails_with 'cpu-0.116: expected a name of fetch-plugins --help' tree/scripts/fetch-plugins --dir some cpu-0.116

# -- without a name all of them, in the tree
fetch || fail "all: $(cat out)"
dir=tree/plugins
all=(cpu-0.106/pjrt_plugin.so cpu-0.115/pjrt_plugin.so cpu-0.81/pjrt_plugin.so cpu/pjrt_plugin.so include/pjrt_c_api.h)
fetched 3 "${all[@]}"
same tree/plugins/cpu/pjrt_plugin.so tree/plugins/cpu-0.115/pjrt_plugin.so
shows tree/plugins/include/pjrt_c_api.h "xla-cpu-pjrt 0.0.1 ${official[1]}"

# -- CUDA's plugin lies among the tools of its compiler, which run; nobody gets it who does not ask
{
	wheel libtpu 0.0.52 libtpu/libtpu.so
	wheel jax-cuda13-pjrt 0.12.0.1 jax_plugins/xla_cuda13/xla_cuda_plugin.so
	wheel nvidia-cuda-nvcc 13.5.37 nvidia/cu13/bin/ptxas
	wheel nvidia-nvvm 13.5.37 nvidia/cu13/nvvm/libdevice/libdevice.10.bc
	wheel nvidia-nvjitlink 13.5.37 nvidia/cu13/lib/libnvJitLink.so.13
	wheel jax-cuda13-plugin 0.12.0.1 jax_cuda13_plugin/_{linalg,prng,rnn,solver,sparse}.so
} >>tree/scripts/plugins.txt
fetch --dir gpu cuda tpu || fail "cuda: $(cat out)"
dir=gpu fetched 6 cuda/site-packages/jax_cuda13_plugin/_{linalg,prng,rnn,solver,sparse}.so \
	cuda/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so{,.ffi.json} \
	cuda/site-packages/nvidia/cu13/{bin/ptxas,lib/libnvJitLink.so.13,nvvm/libdevice/libdevice.10.bc} \
	tpu/pjrt_plugin.so
shows gpu/cuda/pjrt_plugin.so 'jax-cuda13-pjrt 0.12.0.1 jax_plugins/xla_cuda13/xla_cuda_plugin.so'
test -x gpu/cuda/site-packages/nvidia/cu13/bin/ptxas || fail 'ptxas cannot be run'
# The list of JAX's handlers is that of this pjrtfs, also where all else is there.
handlers=gpu/cuda/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so.ffi.json
echo older >$handlers
fetch --dir gpu cuda || fail "cuda, again: $(cat out)"
same "$top/scripts/cuda.ffi.json" $handlers

# -- what is complete is not fetched again; what another wheel gave is, and so is a part of a file
fetch || fail "again: $(cat out)"
fetched 0 "${all[@]}"
ln tree/plugins/cpu-0.106/pjrt_plugin.so linked
ln tree/plugins/cpu-0.106/pjrt_plugin.so.from linked.from
cp linked.from from
wheel fastatomstruct-xla-cpu 2027.1 fastatomstruct_xla_cpu/libpjrt_cpu.so >newer
sed -i '/^fastatomstruct/d' tree/scripts/plugins.txt
cat newer >>tree/scripts/plugins.txt
fetch || fail "newer: $(cat out)"
fetched 1 "${all[@]}"
shows tree/plugins/cpu-0.106/pjrt_plugin.so 'fastatomstruct-xla-cpu 2027.1 fastatomstruct_xla_cpu/libpjrt_cpu.so'
shows linked 'fastatomstruct-xla-cpu 2026.6.23 fastatomstruct_xla_cpu/libpjrt_cpu.so'
same linked.from from
truncate -s 3 tree/plugins/cpu-0.81/pjrt_plugin.so
fetch cpu-0.81 || fail "a part: $(cat out)"
fetched 1 "${all[@]}"
shows tree/plugins/cpu-0.81/pjrt_plugin.so "xla-cpu-pjrt 0.0.1 ${official[0]}"

# -- a wheel that is not the pinned one is refused, and what there was stays
wheel xla-cpu-pjrt 0.0.1 "${official[@]}" more >/dev/null
rm tree/plugins/cpu-0.81/pjrt_plugin.so.from
! fetch || fail "another wheel was taken"
tells out '^fetch-plugins: .*/xla_cpu_pjrt-0\.0\.1-py3-none-any\.whl: expected SHA-256 [0-9a-f]{64}, found [0-9a-f]{64}$'
shows tree/plugins/cpu-0.81/pjrt_plugin.so "xla-cpu-pjrt 0.0.1 ${official[0]}"
equal "left over" "$(find tree/plugins -name '.fetch*')" ''
rm index/xla-cpu-pjrt/index.html
wheel xla-cpu-pjrt 0.0.1 "${official[@]}" more >/dev/null
! fetch || fail "another wheel was taken"
tells out '^fetch-plugins: http://127\.0\.0\.1:8000/xla-cpu-pjrt/ has no xla-cpu-pjrt==0\.0\.1 of SHA-256 '

# -- what was brought is removed, and nothing beside it
touch tree/plugins/cpu/mine
fetch --remove cpu cpu-0.115 || fail "remove: $(cat out)"
dir=tree/plugins fetched 0 cpu-0.106/pjrt_plugin.so cpu-0.81/pjrt_plugin.so cpu/mine include/pjrt_c_api.h
tells out "^removed $work/tree/plugins/cpu/pjrt_plugin\.so$"
test ! -e tree/plugins/cpu-0.115 || fail "a folder is left: $(ls -a tree/plugins/cpu-0.115)"
fails_with "nothing in $work/tree/plugins was brought by fetch-plugins cpu" tree/scripts/fetch-plugins --remove cpu
fetch --dir gpu --remove || fail "remove: $(cat out)"
test ! -e gpu || fail "left over: $(find gpu)"
fails_with "there is no folder gpu" tree/scripts/fetch-plugins --dir gpu --remove

# -- the installed form fetches cpu to where pjrtfs searches: for a user, and for root
chmod 755 "$work"
mkdir home
[ -z "$others" ] || chown 1001:1001 home
sed "s|^pins=.*|pins=$work/tree/scripts/plugins.txt|" "$build/pjrtfs-fetch-plugins" >installed
chmod 755 installed
user()
{
	HOME=$work/home ${others:+as 1001} "$@"
}
user "$work/installed" >out 2>&1 || fail "installed: $(cat out)"
dir=home/.local/lib/pjrtfs/plugins
fetched 1 cpu/pjrt_plugin.so
chown "$(id -u)" home # pjrtfs takes no other user's
HOME=$work/home bounded "$pjrtfs" --list-plugins >out 2>/dev/null || : # it has no ELF header
tells out "^    the user's directory $work/$dir: 1\$"
if [ -n "$others" ]; then
	"$work/installed" --help >out
	tells out '^/.*/pjrtfs/plugins\. '
	fails_with "pjrtfs-fetch-plugins: may not write in $work/some" user "$work/installed" --dir "$work/some"
fi

# -- without curl, and without Python, too; the index is of pip's configuration, and its links begin with its name
mkdir -p "$HOME/.config/pip"
printf '[global]\ntimeout = 60\nindex-url = %s\n' "$PIP_INDEX_URL" >"$HOME/.config/pip/pip.conf"
sed -i 's|\.\./files|/files|' index/lammps-jax-pjrt-cpu/index.html
unset PIP_INDEX_URL XDG_CONFIG_HOME
mkdir upper overlay empty
mount -t overlay -o "lowerdir=/usr/bin,upperdir=$work/upper,workdir=$work/overlay" overlay /usr/bin
for missing in curl python3; do
	rm /usr/bin/$missing
	PATH=/usr/bin:/bin ./installed --dir "no-$missing" cpu >out 2>&1 || fail "without $missing: $(cat out)"
	dir=no-$missing
	fetched 1 cpu/pjrt_plugin.so
done
mount --bind empty /usr/lib/apt
PATH=/usr/bin:/bin fails_with 'neither curl nor python3 is here' ./installed --dir no-apt cpu
umount -l /usr/bin /usr/lib/apt

# -- wrong words, and a folder that cannot be made
for word in 'cp*u' cpu-0 '' '..' gpu; do
	fails_with "pjrtfs-fetch-plugins: $word: expected a name of pjrtfs-fetch-plugins --help: cpu cpu-0.106 cpu-0.81" \
		"$work/installed" --dir some "$word"
done
fails_with ' header tpu tt cuda' "$work/installed" --dir some nvidia
fails_with 'unknown option --all' "$work/installed" --all
fails_with '--dir: expected a folder' "$work/installed" --dir
fails_with 'cannot make the folder installed/x' "$work/installed" --dir installed/x cpu

# -- without an index
PIP_INDEX_URL=http://127.0.0.1:9 fails_with 'cannot download http://127.0.0.1:9/lammps-jax-pjrt-cpu/, and curl says why above' \
	"$work/installed" --dir unreached

# -- a full disk: nothing remains of a plugin that does not fit beside its wheel
rm index/lammps-jax-pjrt-cpu/index.html
padding=$((1 << 20)) wheel lammps-jax-pjrt-cpu 2028.1 lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so \
	>tree/scripts/plugins.txt
mkdir disk
mount -t tmpfs -o size=512K tmpfs disk
fails_with "cannot extract lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so in $work/disk: gzip: stdout: No space left" \
	./installed --dir disk cpu
equal "left over" "$(find disk -type f ! -name .lock)" ''
umount disk
kill "$server"
