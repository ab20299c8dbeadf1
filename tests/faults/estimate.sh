#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# estimate.json: what a program costs on devices of the mount and on those of a topology; what the plugin
# does not tell is null.
. "$srcdir/tests/lib.sh"
says() # FILTER EXPECTED: as values, for jq prints 6.0 as 6 or as it stands
{
	local said
	said=$(bounded jq -c "$1" "$x/estimate.json")
	jq -en "$said == $2" >/dev/null || fail "$1: '$said' instead of '$2'"
}
compiled() # OPTIONS
{
	settle # the same program would join a compile that still ends
	say "$x/options.json" "$1"
}
printf 'faulty: two devices\0' >two.pb

# -- a plugin that tells nothing
mount_pjrtfs faulty --no-cache
x=$mnt/executables/add
bounded touch "$mnt/programs/add.mlir"
shows "$x/estimate.json" '{}'
bounded cp "$data/add.mlir" "$mnt/programs/"
says . '{"plugin":"faulty","for_topology":false,"optimal_seconds":null,"flops":null,"bytes_accessed":null,"memory_bytes":null,"memory_from":null,"fits":null,"devices":[{"kind":"faulty","id":0,"memory_limit_bytes":null,"devices":1,"fits":null}]}'

# -- the peak and the limit of the statistics: equal, and one byte more
faults facts=peak:4096 stats=works:4096
compiled '{}'
says '[.optimal_seconds, .flops, .bytes_accessed, .memory_bytes, .memory_from]' '[0.25,6,72,4096,"peak_memory_in_bytes"]'
says '[.fits, .devices[].fits, .devices[].memory_limit_bytes]' '[true,true,4096]'
faults facts=peak:4096 stats=works:4095
says '[.fits, .devices[].fits, .devices[].memory_limit_bytes]' '[false,false,4095]'

# -- without a peak the sum of the sizes; 0 seconds and -1 operations are not known
faults facts=sizes:4096
compiled '{}'
says '[.optimal_seconds, .flops, .memory_bytes, .memory_from, .fits]' '[null,null,4096,"requirements",null]'

# -- a topology: the limit is an attribute, and the statistics of devices here are of no matter
bounded cp two.pb "$mnt/topologies/"
faults facts=peak:4096 stats=works:1 attributes=limit:8192
compiled '{"topology":"two"}'
says '[.for_topology, .fits, .devices]' '[true,true,[{"kind":"faulty","memory_limit_bytes":8192,"devices":2,"fits":true}]]'
faults facts=peak:4096
compiled '{"topology":"two"}'
says '[.fits, .devices]' '[null,[{"kind":"faulty","memory_limit_bytes":null,"devices":2,"fits":null}]]'

# -- a worker that does not answer delays the file by a second, and nothing else
faults facts=peak:4096 stats=works:4096
compiled '{}'
pid=$(cat "$mnt/plugins/faulty/pid")
halt "$pid"
says '[.memory_bytes, .fits]' '[4096,null]'
kill -CONT "$pid"
