#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# Programs that are compiled for devices that are not here, and run where they are.
. "$srcdir/tests/words.sh"
requires_mount
requires test -e "$plugins/cpu-0.106/pjrt_plugin.so"
two='{"topology":"two","num_replicas":2}'

# -- what a plugin says of its devices
mount_pjrtfs cpu --devices 2
far=$mnt
# told FILE: its copy told.json, once the worker answers in time
told()
{
	eventually cp "$1" told.json
}
told "$far/plugins/cpu/topology.json"
equal 'the devices of topology.json' "$(jq -c '[.platform, [.devices[].id]]' told.json)" '["cpu",[0,1]]'
knows told.json '.fingerprint | test("^[0-9a-f]{16}$")'
eventually cp "$far/plugins/cpu/topology.pb" two.pb
test -s two.pb || fail 'topology.pb is empty'

# -- on one device: a program for two replicas is compiled for the other mount's topology
mount_pjrtfs cpu --devices 1 --keep ${others:+-o allow_other}
p=$mnt/programs x=$mnt/executables/add
bounded cp "$data/add.mlir" "$p/"
fails_with 'nvalid argument' say "$x/options.json" "$two"
tells "$mnt/error" 'there is no topologies/two.pb'
bounded cp two.pb "$mnt/topologies/"
same two.pb "$mnt/topologies/two.pb"
equal 'what the plugin says of it' \
	"$(bounded jq -c '[.plugin, .platform, [.devices[].id]]' "$mnt/topologies/two.json")" \
	'["cpu","cpu",[0,1]]'
say "$x/options.json" "$two"
compiled()
{
	shows "$x/state" compiled
	equal 'replicas' "$(bounded jq -c '[.state, .num_replicas]' "$x/info.json")" '["compiled",2]'
	bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
	for line in 'x y -> z' 'x y -> z repeat=2'; do
		fails_with 'not supported' run add "$line"
	done
	tells "$mnt/error" 'EOPNOTSUPP: add: it was compiled for a topology'
	fails_with 'not supported' bash -c '{ cat "$2" "$3"; cat <&1; } 1<>"$1"' - "$x/call" \
		"$data/x.npy" "$data/y.npy"
	test "$(bounded cat "$x/optimized.hlo.pb" | wc -c)" -gt 100 || fail 'no optimized program'
	bounded cat "$x/serialized" >add.pjrtexe
	test -s add.pjrtexe || fail 'serialized is empty'
}
compiled
equal 'the executables of the device' "$(bounded cat "$mnt/devices/cpu/0/executables")" ''

# -- it runs in the mount that has those devices
bounded cp add.pjrtexe "$far/programs/"
bounded cp "$data/x.npy" "$far/buffers/"
bounded cp "$data/x.npy" "$far/devices/cpu/1/buffers/"
say "$far/executables/add/run" 'x x -> z' || fail "run: $(cat "$far/error")"
shows "$far/buffers/z.txt" $'2 4 6\n8 10 12'
shows "$far/devices/cpu/1/buffers/z.txt" $'2 4 6\n8 10 12'

# -- an equal program comes from the cache; for another topology, or with another option, it does not
eventually cp "$mnt/plugins/cpu/topology.pb" one.pb
bounded cp one.pb "$mnt/topologies/"
cached() # NAME OPTIONS
{
	bounded touch "$p/$1.mlir"
	say "$mnt/executables/$1/options.json" "$2"
	bounded cp "$data/add.mlir" "$p/$1.mlir"
	shows "$mnt/executables/$1/state" compiled
	bounded jq -r .cache "$mnt/executables/$1/info.json"
}
settle
equal 'an equal program' "$(cached equal "$two")" hit
equal 'for another topology' "$(cached another '{"topology":"one"}')" miss
equal 'with other options' "$(cached options '{"topology":"two","num_replicas":1}')" miss
bounded rm "$mnt/topologies/one.pb" "$p"/{equal,another,options}.mlir

# -- the worker dies: serialized comes from the cache, optimized.hlo.pb is made again
kill_worker cpu
compiled

# -- the daemon dies: the topology and what is compiled for it are there again
next_daemon KILL
eventually grep -qx compiled "$x/state"
compiled
same two.pb "$mnt/topologies/two.pb"

# -- bad topologies: the close says why, and no program is compiled for them
bounded mv "$mnt/topologies/two.pb" "$mnt/topologies/pair.pb"
fails_with 'nvalid argument' say "$x/options.json" "$two"
say "$x/options.json" '{"topology":"pair","num_replicas":2}'
shows "$x/state" compiled
head -c 300 two.pb >cut.pb
fails_with 'failed to close' cp cut.pb "$mnt/topologies/pair.pb"
tells "$mnt/error" 'topologies/pair.pb: expected a topology that a plugin reads: cpu: '
fails_with 'nvalid argument' say "$x/options.json" '{"topology":"pair"}'
fails_with 'nvalid argument' say "$x/options.json" '{"topology":["pair"]}'
tells "$mnt/error" 'expected the name of a file in topologies/'
fails_with 'nvalid argument' bounded touch "$mnt/topologies/pair"
fails_with 'not permitted' bounded mkdir "$mnt/topologies/dir"
fails_with 'too large' bash -c 'head -c 200000 /dev/zero >"$1"' - "$mnt/topologies/large.pb"
fails_with 'not supported' bounded mv "$mnt/topologies/pair.pb" "$mnt/programs/"
bounded cp -f two.pb "$mnt/topologies/pair.pb"
say "$x/options.json" '{"topology":"pair","num_replicas":2}'
bounded rm "$mnt/topologies/pair.pb" "$mnt/topologies/large.pb"
equal 'names in topologies/' "$(bounded ls "$mnt/topologies")" ''
fails_with 'nvalid argument' say "$x/options.json" '{"topology":"pair"}'
shows "$mnt/plugins/cpu/restarts" 0
shows "$mnt/health" ok

# -- damaged bytes: each close succeeds or says why, and a worker that dies of them comes back
python3 - two.pb <<'END'
import random, sys

good = open(sys.argv[1], "rb").read()
random = random.Random(1)
for i in range(16):
    bad = bytearray(good)
    for _ in range(1 + i % 4):
        bad[random.randrange(len(bad))] ^= 1 << random.randrange(8)
    if i % 5 == 0:
        del bad[random.randrange(len(bad)) :]
    if i % 7 == 0:
        at = random.randrange(len(bad) + 1)
        bad[at:at] = bad[:at]
    open(f"damaged{i}.pb", "wb").write(bad)
END
refused=0
for f in damaged*.pb; do
	if bounded cp "$f" "$mnt/topologies/" 2>said; then # it still is one, of other devices perhaps
		say "$x/options.json" "{\"topology\":\"${f%.pb}\"}" || :
		eventually grep -qE '^(compiled|failed)' "$x/state"
		eventually grep -qx ready "$mnt/plugins/cpu/state"
		continue
	fi
	refused=$((refused + 1))
	tells said 'Invalid argument|Input/output error'
	tells "$mnt/error" "topologies/$f: (expected a topology that a plugin reads: cpu: |.*the worker of plugin cpu died)"
	eventually grep -qx ready "$mnt/plugins/cpu/state"
done
[ "$refused" -gt 0 ] || fail 'no damage was noticed'
bounded rm -f "$mnt"/topologies/*
bounded cp two.pb "$mnt/topologies/pair.pb"
say "$x/options.json" '{"topology":"pair","num_replicas":2}'
shows "$x/state" compiled
shows "$mnt/health" ok

# -- a plugin that cannot say so, and is well afterwards
mount_pjrtfs cpu-0.106
told "$mnt/plugins/cpu-0.106/topology.json"
knows told.json '.devices | length > 0'
fails_with 'not supported' cp two.pb "$mnt/topologies/"
tells "$mnt/error" 'expected a topology that a plugin reads: cpu-0\.106: No compiler'
shows "$mnt/health" ok
