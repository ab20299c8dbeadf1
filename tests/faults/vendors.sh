#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# What the plugin of each vendor may open in the sandbox device: the devices of its vendor, and of the Python
# that it is installed in what its libraries need.
. "$srcdir/tests/lib.sh"
requires has_landlock
requires isolated # it puts devices into /dev
faulty=$build/tests/faults/faulty_plugin.so
read -ra cc <<<"${CC:-cc}" # it may have options
paths=$work/.faulty/paths

# tries PATH...: what the plugins from now on try to open.
tries()
{
	printf '%s\n' "$@" >"$paths"
}

# lets NAME FILE [pjrtfs options]: mount the plugin FILE as NAME; what it may do with the paths, a line each, in
# the file got, and its log in the file log.
lets()
{
	local name=$1 file=$2
	shift 2
	mount_pjrtfs "$name=$file" --sandbox-write "$work/.faulty" --fault "client=paths:$paths" "$@"
	eventually grep -q '^paths: all$' "$mnt/plugins/$name/log"
	bounded cat "$mnt/plugins/$name/log" >log
	# All names below /dev can be seen.
	grep -E '^[./][^ ]*: ' log | grep -v ': list$' | sort >got || true
	faults
	unmount_pjrtfs
}

# is PATH...: these may be written as devices are, and in the directories files made; with nothing
# else something may be done.
is()
{
	local path
	for path; do
		if [ -d "$path" ]; then echo "$path: list make"; else echo "$path: read write"; fi
	done | sort | diff - got >differs || fail "$(cat differs)"
}

# -- /dev of a machine with the devices of each vendor, which are files here
mkdir dev
mount -t tmpfs none dev
for file in null zero full random urandom fuse; do
	touch "dev/$file"
	mount --bind "/dev/$file" "dev/$file"
done
mkdir dev/shm dev/accel dev/dri dev/hugepages dev/hugepages-1G dev/infiniband dev/nvidia-caps dev/tenstorrent dev/vfio
mount --bind /dev/shm dev/shm
ln -s /proc/self/fd dev/fd
tpu='/dev/accel/accel0 /dev/accel0 /dev/accel99 /dev/vfio/7'
nvidia='/dev/nvidia0 /dev/nvidiactl /dev/nvidia-caps/nvidia-cap1 /dev/nvidia-uvm'
others='/dev/dri/renderD128 /dev/kfd /dev/neuron3 /dev/tenstorrent/0'
for file in $tpu $nvidia $others /dev/infiniband/uverbs0 /dev/sda; do
	echo >".$file"
done
mount --rbind dev /dev
umount -R dev
# shellcheck disable=SC2086 # words
tries $tpu $nvidia $others /dev/infiniband/uverbs0 /dev/sda /dev/hugepages /dev/hugepages-1G

mkdir so
has() # FILE PATH...
{
	cp "$faulty" "so/$1"
	lets p "$work/so/$1" --sandbox device
	is "${@:2}"
}
# shellcheck disable=SC2086
{
	has libtpu.so $tpu
	has xla_cuda_plugin.so $nvidia
	has xla_rocm_plugin.so /dev/dri/renderD128 /dev/kfd
	has xla_oneapi_plugin.so /dev/dri/renderD128
	has libtt.so /dev/tenstorrent/0 /dev/hugepages /dev/hugepages-1G
	has libneuronpjrt.so /dev/neuron3
	has unknown.so $tpu $nvidia $others /dev/hugepages /dev/hugepages-1G
}
lets p "$work/so/unknown.so" --sandbox strict
is

# -- a group's plugin may use the network, so InfiniBand, too
redis-server --bind 127.0.0.1 --save '' --daemonize yes --pidfile "$work/redis.pid" >/dev/null
at_end "xargs kill <$work/redis.pid"
eventually test -s redis.pid
lets p "$work/so/libneuronpjrt.so" --group redis://127.0.0.1 --group-name vendors --group-process 0/1
is /dev/neuron3 /dev/infiniband/uverbs0

# -- what a plugin is called says as much as its file's name; libtpu needs the mode device, and its log says
# what else it gets
lets tpu "$work/so/unknown.so"
# shellcheck disable=SC2086
is $tpu
tells log '^pjrtfs: it runs with ALLOW_MULTIPLE_LIBTPU_LOAD=1 GOOGLE_LOGTOSTDERR=1( TPU_SKIP_MDS_QUERY=1)?, as '
lets tpu "$work/so/unknown.so" --plugin-env tpu:GOOGLE_LOGTOSTDERR=0
tells log '^pjrtfs: it runs with ALLOW_MULTIPLE_LIBTPU_LOAD=1( TPU_SKIP_MDS_QUERY=1)?, as '

# -- the current directory is one that the plugin may open, when it is loaded, too, and not the user's
tries .
faults open=paths:"$paths"
lets p "$work/so/unknown.so" --sandbox device
equal "what it may do in the current directory, at the start and later" "$(cat got)" $'.: list make\n.: list make'

# -- a plugin in a Python of the home directory gets the packages beside it, where ptxas is, and below the
# Python's libraries what its run path names; a run path opens nothing else
requires "${cc[@]}" --version
site=home/venv/lib/python3.11/site-packages
mkdir -p "$site/jax_plugins/xla_x" "$site/nvidia/cu13/bin" home/venv/lib/runtime home/venv/lib/other home/venv/share home/.ssh
for file in "$site/nvidia/cu13/bin/ptxas" home/venv/lib/runtime/x home/venv/lib/other/x home/venv/share/x home/.ssh/x; do
	printf '#!/bin/sh\nexit 7\n' >"$file"
	chmod +x "$file"
done
export HOME=$work/home
cp "$faulty" "$site/jax_plugins/xla_x/real.so"
link() # FILE RUNPATH: a plugin that has this run path
{
	"${cc[@]}" -shared -o "$1" -x c /dev/null -L"$work/$site/jax_plugins/xla_x" \
		-Wl,--no-as-needed -l:real.so -Wl,"-rpath,\$ORIGIN:$2"
}
# shellcheck disable=SC2016 # the linker's
up='$ORIGIN/../../../..'
link "$site/jax_plugins/xla_x/plugin.so" "$up/runtime:/:$up/..:$up/../share:$up/../../.ssh:$HOME:$up/runtime/../../../.ssh"
tries "$HOME"/{venv/{lib/{runtime,other},share},.ssh}/x "$work/$site/nvidia/cu13/bin/ptxas"
lets p "$work/$site/jax_plugins/xla_x/plugin.so" --sandbox device
equal "what it may do" "$(cat got)" "$HOME/venv/lib/python3.11/site-packages/nvidia/cu13/bin/ptxas: read run
$HOME/venv/lib/runtime/x: read run"

# -- a plugin in the home directory gets no other file there
cp "$faulty" home/plugin.so
lets p "$HOME/plugin.so" --sandbox device
equal "what it may do" "$(cat got)" ''
