#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# --estimate: what a program costs on devices that are not here; it creates no client and leaves no file.
. "$srcdir/tests/lib.sh"
unset PJRTFS_PLUGIN_PATH PJRT_NAMES_AND_LIBRARY_PATHS PJRT_PLUGIN_LIBRARY_PATH LD_LIBRARY_PATH
so=$build/tests/faults/faulty_plugin.so
add=$data/add.mlir
mkdir home d
ln -s "$so" d/faulty_pjrt.so
export HOME=$work/home XDG_CACHE_HOME=$work/home
export PJRTFS_FAULTY=client=abort:'it was created',topologies=any,facts=peak:4096,attributes=limit:8192000000
estimates() # ARGUMENT...
{
	"$patient" $((patience * 6)) "$pjrtfs" --estimate v5e:2x2 "$@" >out 2>err || fail "status $?: $(cat err)"
}

# -- the lines, and that nothing is left
estimates "$add" --plugin "faulty=$so"
equal 'what is printed' "$(cat out)" "device   2 x faulty: 8.19 GB of memory each, it fits
memory   4.1 kB
time     250 ms
work     6 FLOP, memory traffic 72 B
program  optimized.hlo.pb and serialized of executables/NAME, in a mount of plugin faulty"
equal 'what else is printed' "$(cat err)" ''
equal 'files' "$(find home -mindepth 1)" ''

# -- JSON, and the plugin as SOURCE
estimates "faulty=$so" "$add" --json
equal 'the facts' "$(jq -c '[.plugin, .topology, .program, .for_topology, .fits, .memory_bytes]' out)" \
	"[\"faulty\",\"v5e:2x2\",\"$add\",true,true,4096]"

# -- a topology's file, as in topologies/: its bytes, a name, a name and options
costs() # FILE ARGUMENT...
{
	"$patient" $((patience * 6)) "$pjrtfs" --estimate "$@" "$add" --json >out 2>err || fail "status $?: $(cat err)"
	equal "the facts of $1" "$(jq -c '[.plugin, .topology, .devices[].devices]' out)" "[\"faulty\",\"$1\",2]"
}
printf 'faulty: two devices\0' >two.pb
echo two >two.txt
echo '{"plugin":"faulty","name":"","options":{"target_config":"h100_sxm"},"platform":"ignored"}' >two.json
any=$PJRTFS_FAULTY
export PJRTFS_FAULTY=${any/topologies=any/topologies=two}
costs two.pb --plugin "faulty=$so"
costs two.txt --plugin "faulty=$so"
costs two.json --plugin "first=$so" --plugin "faulty=$so"
export PJRTFS_FAULTY=$any

# -- the plugin is searched for: those that make no such topology are of no matter if one does
ln -s "$so" d/other_pjrt.so
PJRT_PLUGIN_PATH=$work/d estimates "$add" --plugin-env faulty:PJRTFS_FAULTY=init=error:INTERNAL --json
equal 'the plugin' "$(jq -r .plugin out)" other

# -- what is not known
PJRTFS_FAULTY=topologies=any estimates "$add" --plugin "faulty=$so"
equal 'what is not known' "$(grep -c 'not known' out)" 4
tells out '^device   2 x faulty: not known of memory each, whether it fits is not known$'

# -- refusals: the plugin's words, and files that are no programs
fails() # FAULTS SENTENCE ARGUMENT...
{
	PJRTFS_FAULTY=$1 refuses 1 "$2" --plugin "faulty=$so" "${@:3}"
}
PJRTFS_FAULTY_CALLS=yes fails PJRT_TopologyDescription_Create=error:INVALID_ARGUMENT:'no such name' \
	'a plugin makes: faulty: no such name' --estimate two "$add"
fails topologies=any,compile=error:INVALID_ARGUMENT:'no such thing' \
	"plugin faulty: compile $add: no such thing" --estimate two "$add"
PJRTFS_FAULTY_CALLS=yes fails PJRT_TopologyDescription_Create=error:INVALID_ARGUMENT:'no such name' \
	'no plugin here makes the topology two: "pjrtfs-fetch-plugins tpu" brings one' --estimate two "$add"
echo one >one.pb
fails topologies=any 'a plugin reads: faulty: faulty: that is no topology' --estimate one.pb "$add"
fails topologies=any 'none.pb: No such file' --estimate none.pb "$add"
: >empty.json
fails topologies=any 'empty.json: expected a topology, found an empty file' --estimate empty.json "$add"
head -c 5000 /dev/zero >long.txt
fails topologies=any 'long.txt: expected at most 4096 bytes' --estimate long.txt "$add"
echo '{"nom":"two"}' >wrong.json
fails topologies=any 'wrong.json: expected the members plugin, name and options, found "nom"' --estimate wrong.json "$add"
echo '{"plugin":"tpu","name":"two"}' >tpu.json
fails topologies=any 'tpu.json: there is no plugin tpu here .there are: faulty.: .*--plugin tpu=PATH' --estimate tpu.json "$add"
fails topologies=any 'none.mlir: No such file' --estimate two none.mlir
fails topologies=any 'x.npy: expected a program' --estimate two "$data/x.npy"
fails init=error:INTERNAL:'no driver' 'plugin faulty: .*no driver' --estimate two "$add"
