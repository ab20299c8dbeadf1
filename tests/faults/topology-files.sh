#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A program that a mount without a device compiled for a topology: an equal compile comes from the cache, and
# the mount with the devices loads the file, on any processor, if it has the same build of the plugin.
. "$srcdir/tests/words.sh"
cp "$build/tests/faults/faulty_plugin.so" first.so
cp first.so second.so
echo >>second.so # another file is another build
printf 'faulty: two devices\0' >two.pb

# mount BUILD FAULT...: the plugin, with these faults
mount()
{
	# shellcheck disable=SC2034 # for mount_pjrtfs
	faulty_options[1]=faulty=$work/$1.so
	faults serialize=works "${@:2}"
	mount_pjrtfs faulty
}
# mount_none [FAULT...]: the first build, without a device
mount_none()
{
	mount first client=error:UNAVAILABLE:'no card' topologies=any "$@"
	bounded cp two.pb "$mnt/topologies/"
}
# compiles NAME [OPTIONS]: the program add, as NAME, for the topology
compiles()
{
	bounded touch "$mnt/programs/$1.mlir"
	say "$mnt/executables/$1/options.json" "${2-"{\"topology\":\"two\"}"}"
	bounded cp "$data/add.mlir" "$mnt/programs/$1.mlir"
	shows "$mnt/executables/$1/state" compiled
}
# cache NAME: was it in the cache?
cache()
{
	bounded jq -r .cache "$mnt/executables/$1/info.json"
}
counts()
{
	bounded jq -c '[.hits, .misses, .entries]' "$mnt/cache/stats.json"
}
# facts NAME: all that its files say
facts()
{
	bounded cat "$mnt/executables/$1/"{signature.json,cost.json,memory.json,optimized.hlo.pb,serialized,options.pb}
	bounded jq -c 'del(.cache, .compile_seconds)' "$mnt/executables/$1/info.json"
}
# -- an equal program, for this topology, and not with other options
mount_none
compiles first
equal 'the first compile' "$(cache first)" miss
equal 'its topology' "$(bounded jq -c .topology "$mnt/executables/first/info.json")" \
	'{"platform":"faulty","platform_version":"1"}'
facts first >first.facts
settle
compiles second
equal 'an equal compile' "$(cache second)" hit
equal 'the hits, misses, entries' "$(counts)" '[1,1,1]'
facts second >second.facts
same first.facts second.facts
compiles other '{"topology":"two","num_replicas":2}'
equal 'with another option' "$(cache other)" miss

# -- what came from the cache needs neither the worker nor the cache
kill -KILL "$(bounded cat "$mnt/plugins/faulty/pid")"
eventually grep -qx compiler "$mnt/plugins/faulty/state"
say "$mnt/cache/clear" all
facts second >again.facts
same first.facts again.facts
equal 'the hits, misses, entries' "$(counts)" '[1,2,0]'
fails_with 'not supported' run second 'x y -> z'
tells "$mnt/error" 'it was compiled for a topology, not for devices of this mount'
bounded cat "$mnt/executables/second/serialized" >none.pjrtexe
unmount_pjrtfs

# -- with a version that other builds compare
mount_none api=abi
compiles add
bounded cat "$mnt/executables/add/serialized" >version.pjrtexe
unmount_pjrtfs

loads()
{
	runs_native "$1"
	bounded rm "$mnt/programs/native.pjrtexe"
}
refused()
{
	fails_with 'nvalid argument' cp "$1" "$mnt/programs/native.pjrtexe"
	tells "$mnt/executables/native/error" "$2"
}

# -- another build of the plugin, which has the devices: the plugin judges, if it can
one=$(sha256sum first.so) two=$(sha256sum second.so)
other="for a topology \(faulty, 1\) by a build of plugin faulty .* SHA-256 ${one:0:16}\.\.\., .* plugin faulty here has ${two:0:16}\.\.\.: compile"
mount second api=abi
refused none.pjrtexe "$other.*run it\$"
loads version.pjrtexe
faults serialize=works api=abi abi=error:FAILED_PRECONDITION:'built for 13 and not for 12'
refused version.pjrtexe "$other.*: built for 13 and not for 12\$"
unmount_pjrtfs

# -- the same build, also on another processor; it may still refuse, in its words
[ "$(nproc)" -eq 1 ] || taskset -cp "$(taskset -cp $$ | grep -o '[0-9]*$')" $$ >/dev/null
mount first
loads none.pjrtexe
faults serialize=works load=error:INVALID_ARGUMENT:'it is for four devices'
refused none.pjrtexe 'it is for four devices$'
shows "$mnt/health" ok
