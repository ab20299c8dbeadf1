#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# Create options, environment and default compile options reach plugins and programs.
. "$srcdir/tests/lib.sh"
name=${plugin:-cpu}
requires test -e "$plugins/$name/pjrt_plugin.so"
requires test -w /dev/fuse
mkdir m

# refused STATUS PATTERN [pjrtfs options]
refused()
{
	refuses "$1" "$2" "$name" m --plugin-dir "$plugins" "${@:3}"
	! bounded mountpoint -q m || fail "mounted with ${*:3}"
}

# -- a refusal of the plugin itself is shown in its words
refused 1 "plugin $name: .*exited with status 1; it printed last: .*Unknown flag in XLA_FLAGS: --xla_no_such_flag=1" \
	--plugin-env "$name:XLA_FLAGS=--xla_no_such_flag=1" -f
# also in the background, at the highest log level
refused 1 'Unknown flag in XLA_FLAGS: --xla_no_such_flag=1' --plugin-log-level 3 \
	--plugin-env "$name:XLA_FLAGS=--xla_no_such_flag=1"

# -- an unknown option is passed to the plugin unchanged
mount_or_not()
{
	bounded "$pjrtfs" "$name" m --plugin-dir "$plugins" \
		--plugin-option "$name:no_such_option:string=4" >out 2>&1 </dev/null
}
if mount_or_not; then
	shows "m/plugins/$name/options.json" '{"no_such_option":"4"}'
	bounded fusermount3 -u m
else
	grep -q "plugin $name: .*no_such_option" out || fail "'$(cat out)' does not name it"
fi

# -- devices; the variables of one plugin only
# (A sandboxed process hides its environment from the user who mounted.)
mount_pjrtfs --devices 2 --sandbox off --plugin-env "$name:XLA_FLAGS=--xla_dump_max_hlo_modules=7" \
	--plugin-env "$name:EMPTY="
equal "devices" "$(bounded ls "$mnt/devices/$name" | tr '\n' ' ')" '0 1 '
shows "$mnt/plugins/$name/options.json" '{"cpu_device_count":2}'
tr '\0' '\n' <"/proc/$(cat "$mnt/plugins/$name/pid")/environ" >environ
grep -qx 'XLA_FLAGS=--xla_dump_max_hlo_modules=7' environ || fail "no XLA_FLAGS"
grep -qx 'EMPTY=' environ || fail "no EMPTY"
! tr '\0' '\n' <"/proc/$daemon/environ" | grep -q '^XLA_FLAGS=' || fail "the daemon has it, too"
equal "no error" "$(bounded cat "$mnt/plugins/$name/error")" ''
# The next instance has them, too.
kill_worker "$name"
tr '\0' '\n' <"/proc/$(cat "$mnt/plugins/$name/pid")/environ" >environ
grep -qx 'XLA_FLAGS=--xla_dump_max_hlo_modules=7' environ || fail "no XLA_FLAGS"
equal "devices" "$(bounded ls "$mnt/devices/$name" | tr '\n' ' ')" '0 1 '
unmount_pjrtfs

# -- default compile options: a program's own precede them
sed 's/2x3x/3x/g; s/stablehlo.add/stablehlo.minimum/' "$data/add.mlir" >min.mlir
cat >config.json <<'END'
{"compile_options": {"device": 1},
 "debug_options": {"xla_cpu_enable_fast_min_max": false}}
END
chmod 600 config.json
mount_pjrtfs --config config.json
b=$mnt/devices/$name/1/buffers
echo 1 nan 3 >"$b/x.txt"
echo nan 2 5 >"$b/y.txt"
bounded cp min.mlir "$mnt/programs/"
run min "$name:1/x $name:1/y -> z"
equal "minimum with NaN, where the default says so" "$(bounded cat "$b/z.txt" | tr '\n' ' ')" \
	'nan nan 3 '
shows "$mnt/executables/min/options.json" '{}'
say "$mnt/executables/min/options.json" '{"device":0}'
bounded cp "$b/x.npy" "$b/y.npy" "$mnt/buffers/"
run min 'x y -> z'
equal "minimum with NaN on another device" "$(bounded cat "$mnt/buffers/z.txt" | tr '\n' ' ')" \
	'nan nan 3 '
unmount_pjrtfs

# -- flags in a file, for all programs: as text, as a message; the command line precedes them
cat >flags.txt <<'END'
# what jaxlib sets
xla_cpu_enable_fast_min_max: false, xla_backend_optimization_level: 0x1;
xla_cpu_max_isa: "AVX2"
END
echo 1 nan 3 >a.txt
echo nan 2 5 >b.txt
# least WANT [pjrtfs options]: the minimum with NaN in a mount with these options
least()
{
	mount_pjrtfs "${@:2}"
	bounded cp a.txt b.txt "$mnt/buffers/"
	bounded cp min.mlir "$mnt/programs/"
	run min 'a b -> z'
	equal "${*:2}" "$(bounded tr '\n' ' ' <"$mnt/buffers/z.txt" | grep -c '^nan nan 3 $')" "$1"
	unmount_pjrtfs
}
least 0
least 1 --xla-debug-options "$work/flags.txt"
least 1 --xla-debug-options "$top/tests/fuzz/corpus/debug_options/jaxlib"
least 0 --xla-debug-options "$work/flags.txt" \
	--compile-option env_option_overrides.xla_cpu_enable_fast_min_max=true
export XLA_DEBUG_OPTIONS=$work/flags.txt
least 1
unset XLA_DEBUG_OPTIONS
printf 'a: 1\nb: [1]\n' >list.txt
refused 2 'XLA.s debug options list.txt: line 2: expected a number, .* found \[1\]' \
	--xla-debug-options list.txt

# -- the program's error names a default that the plugin refuses
mount_pjrtfs --compile-option env_option_overrides.xla_no_such_flag=true
fails_with 'cp: ' cp "$data/add.mlir" "$mnt/programs/"
tells "$mnt/executables/add/error" 'xla_no_such_flag'
unmount_pjrtfs
mount_pjrtfs --compile-option device=99
fails_with 'Invalid argument' cp "$data/add.mlir" "$mnt/programs/"
tells "$mnt/executables/add/error" "option device: plugin $name has no device 99"
