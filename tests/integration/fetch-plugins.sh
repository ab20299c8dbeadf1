#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 11 CPU-s in 12 s
# scripts/fetch-plugins: what each name brings, and that nothing is fetched twice or written into a
# file that has other links; the form that is installed; what is wrong is refused with a sentence.
# pip takes small wheels made here.
. "$srcdir/tests/lib.sh"
requires isolated
requires /usr/bin/python3 -m pip --version
mkdir -p tree/scripts wheels
cp "$top/scripts/fetch-plugins" "$top/scripts/cuda.ffi.json" tree/scripts/
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$work/wheels

# wheel NAME VERSION MEMBER...: a wheel, whose members hold the name and their own, and its pin
wheel()
{
	/usr/bin/python3 - "$@" <<'END2'
import hashlib, os, sys, zipfile

padding = " " * int(os.environ.get("padding", 0))
name, version, *members = sys.argv[1:]
stem = f"{name.replace('-', '_')}-{version}"
path = f"wheels/{stem}-py3-none-any.whl"
with zipfile.ZipFile(path, "w") as file:
    for member in members:
        file.writestr(member, f"{name} {version} {member}\n" + padding)
    file.writestr(f"{stem}.dist-info/METADATA",
                  f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    file.writestr(f"{stem}.dist-info/WHEEL",
                  "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    file.writestr(f"{stem}.dist-info/RECORD", "")
print(f"{name}=={version} --hash=sha256:{hashlib.sha256(open(path, 'rb').read()).hexdigest()}")
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
tells out 'HASHES' '^fetch-plugins: pip could not download xla-cpu-pjrt'
shows tree/plugins/cpu-0.81/pjrt_plugin.so "xla-cpu-pjrt 0.0.1 ${official[0]}"
equal "left over" "$(find tree/plugins -name '.fetch*')" ''

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

# -- where Python has no pip, its wheel does: Debian's python3-venv brings that
if [ -e "$(echo /usr/share/python-wheels/pip-*.whl)" ]; then
	unshare --mount bash -euc 'mount -t tmpfs tmpfs /usr/lib/python3/dist-packages
		! /usr/bin/python3 -m pip --version 2>/dev/null
		PATH=/usr/bin:/bin "$@"' - ./installed --dir pipless cpu >out 2>&1 || fail "no pip: $(cat out)"
	dir=pipless
	fetched 1 cpu/pjrt_plugin.so
fi

# -- wrong words, and a folder that cannot be made
for word in 'cp*u' cpu-0 '' '..'; do
	fails_with "pjrtfs-fetch-plugins: $word: expected a name of" "$work/installed" --dir some "$word"
done
fails_with 'unknown option --all' "$work/installed" --all
fails_with '--dir: expected a folder' "$work/installed" --dir
fails_with 'cannot make the folder installed/x' "$work/installed" --dir installed/x cpu

# -- without a network
PIP_NO_INDEX='' PIP_FIND_LINKS='' PIP_RETRIES=0 PIP_INDEX_URL=http://127.0.0.1:9/ \
	fails_with 'pip could not download lammps-jax-pjrt-cpu into' "$work/installed" --dir unreached

# -- a full disk: nothing remains of a plugin that does not fit beside its wheel
padding=$((1 << 20)) wheel lammps-jax-pjrt-cpu 2028.1 lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so \
	>tree/scripts/plugins.txt
mkdir disk
mount -t tmpfs -o size=1536K tmpfs disk
fails_with "cannot extract lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so in $work/disk: OSError: [Errno 28] No space left" \
	./installed --dir disk cpu
equal "left over" "$(find disk -type f ! -name .lock)" ''
umount disk
