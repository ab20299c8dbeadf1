#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# The compiled program of another build of a plugin: it runs if the plugin says that both are compatible, and is
# refused otherwise.
. "$srcdir/tests/words.sh"
cp "$build/tests/faults/faulty_plugin.so" first.so
cp first.so second.so
echo >>second.so # another file is another build

# mount BUILD FAULT...: the plugin, with these faults
mount()
{
	# shellcheck disable=SC2034 # for mount_pjrtfs
	faulty_options[1]=faulty=$work/$1.so
	faults serialize=works "${@:2}"
	mount_pjrtfs faulty --no-cache
}
# makes FILE: the compiled program of the mount
makes()
{
	put_add
	bounded cat "$mnt/executables/add/serialized" >"$1"
	bounded jq -r .abi_version "$mnt/executables/add/info.json"
}
loads()
{
	runs_native "$1"
	bounded cat "$mnt/executables/native/serialized" >again.pjrtexe
	same "$1" again.pjrtexe
	bounded rm "$mnt/programs/native.pjrtexe"
}
foreign='compiled by plugin faulty .*runs nowhere else; this is plugin faulty .*compile the program here'
# refuses_file FILE WORDS: with what the plugin says
refuses_file()
{
	fails_with 'nvalid argument' cp "$1" "$mnt/programs/native.pjrtexe"
	tells "$mnt/executables/native/error" "$foreign: $2\$"
	shows "$mnt/plugins/faulty/restarts" 0
}
# as_ever FILE: the plugin is not asked
as_ever()
{
	fails_with 'nvalid argument' cp "$1" "$mnt/programs/native.pjrtexe"
	tells "$mnt/executables/native/error" "$foreign\$"
	shows "$mnt/plugins/faulty/restarts" 0
}

# -- files of the first build: with a version, without one, and with one that the plugin cannot read
mount first api=abi
equal 'the version' "$(makes one.pjrtexe)" "$(printf 'faulty\0version 1\0' | od -An -v -tx1 | tr -d ' \n')"
loads one.pjrtexe
faults serialize=works api=abi abi=other
makes other.pjrtexe >/dev/null
loads other.pjrtexe # its own build is not asked
for fault in long nothing; do
	faults serialize=works api=abi "abi=$fault"
	equal "$fault" "$(makes "$fault.pjrtexe")" null
	loads "$fault.pjrtexe"
done
unmount_pjrtfs
for fault in none abi:112; do
	mount first "api=$fault"
	equal "$fault" "$(makes without.pjrtexe)" null
	unmount_pjrtfs
done

# -- the second build: what the plugin says counts
mount second api=abi
loads one.pjrtexe
loads one.pjrtexe
faults serialize=works api=abi abi=error:FAILED_PRECONDITION:'built for 13 and not for 12'
refuses_file one.pjrtexe 'built for 13 and not for 12'
faults serialize=works api=abi
loads one.pjrtexe
refuses_file other.pjrtexe 'faulty: that is no version'
for file in long nothing without; do
	as_ever "$file.pjrtexe"
done
faults serialize=works api=abi abi=nothing
refuses_file one.pjrtexe '.*PJRT_Client_RuntimeAbiVersion.*'
# compatible, but it does not load
faults serialize=works api=abi load=error:INTERNAL:'not mine'
fails_with 'Input/output error' cp one.pjrtexe "$mnt/programs/native.pjrtexe"
tells "$mnt/executables/native/error" 'not mine$'
# a new worker loads it again, and asks again
faults serialize=works api=abi
loads one.pjrtexe
bounded cp one.pjrtexe "$mnt/programs/native.pjrtexe"
kill_worker faulty
run native 'x y -> z'
unmount_pjrtfs

# -- without the extension, or with a part of it
for fault in none abi:112; do
	mount second "api=$fault"
	refuses_file one.pjrtexe 'the plugin does not tell which builds of it are compatible: .*'
	as_ever without.pjrtexe
	unmount_pjrtfs
done

# -- another processor is not the plugin's to judge
[ "$(nproc)" -gt 1 ] || exit 0
taskset -cp "$(taskset -cp $$ | grep -o '[0-9]*$')" $$ >/dev/null
mount second api=abi
as_ever one.pjrtexe
