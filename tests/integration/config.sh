#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configuration files: which files are read, their settings, refusals.
. "$srcdir/tests/lib.sh"
name=${plugin:-cpu}
requires test -e "$plugins/$name/pjrt_plugin.so"
umask 022
mkdir m home config

# -- errors name file, line and column
echo '{"plugin_dir": 5,' >bad.json
refuses 2 'bad.json:2:1: expected a key in double quotes, found its end' "$name" m --config bad.json

# -- --dump-config prints a file with the same settings
cat >config/pjrtfs.json <<END
{
  "plugin-dir": "$plugins",
  "plugins": [{"name": "$name", "options": {"cpu_device_count": 3},
               "env": {"XLA_FLAGS": "--xla_dump_max_hlo_modules=7"}, "log_level": 0,
               "sandbox": "off"}],
  "memory_limit": "64M",
  "cache_dir": "$work/its-cache",
  "compile_jobs": 1,
  "allow_native": true,
  "mount_options": ["noatime", "nofail"],
  "debug_options": {"xla_cpu_enable_fast_min_max": false}
}
END
bounded "$pjrtfs" --dump-config >dump || fail "cannot dump"
python3 - "$name" "$plugins" "$work" <<'END'
import json, sys
name, plugins, work = sys.argv[1:]
got = json.load(open("dump"))
want = {
    "foreground": False, "debug": False, "mount_options": ["noatime"],
    "memory_limit": 64 << 20, "allow_native": True, "cache_dir": work + "/its-cache",
    "cache_size": 2 << 30, "no_cache": False, "cache_readonly": False, "keep": False, "no_keep": False, "no_lapack": False, "compile_jobs": 1, "plugin_dir": [plugins],
    "plugins": [{"name": name, "options": {"cpu_device_count": 3},
                 "env": {"XLA_FLAGS": "--xla_dump_max_hlo_modules=7"}, "log_level": 0,
                 "sandbox": "off"}],
    "compile_options": {"env_option_overrides": {"xla_cpu_enable_fast_min_max": False}},
}
assert got == want, got
END
bounded "$pjrtfs" --config dump --dump-config >again
same dump again
bounded "$pjrtfs" --dump-config -f --devices 2 --memory-limit 32M >changed
grep -q '"memory_limit": 33554432' changed || fail "the command line does not override"
grep -q '"foreground": true' changed || fail "the command line does not override"

# -- a mount with only the mount point on the command line
requires test -w /dev/fuse
mount_by_file()
{
	bounded "$pjrtfs" "$@" </dev/null >out 2>&1 || fail "$(cat out)"
}
mount_by_file m
at_end 'bounded fusermount3 -u "$work/m" 2>/dev/null'
equal "devices" "$(bounded ls "m/devices/$name" | tr '\n' ' ')" '0 1 2 '
equal "memory" "$(df --output=size -B1M m | tail -n 1 | tr -d ' ')" 64
shows "m/plugins/$name/options.json" '{"cpu_device_count":3}'
settle m
tells "m/plugins/$name/log" cpu_device_count # level 0 logs more than level 1
tr '\0' '\n' <"/proc/$(cat "m/plugins/$name/pid")/environ" >environ
grep -qx 'XLA_FLAGS=--xla_dump_max_hlo_modules=7' environ || fail "no XLA_FLAGS"
grep -qx 'TF_CPP_MIN_LOG_LEVEL=0' environ || fail "no level"
bounded cp "$data/add.mlir" m/programs/
shows m/executables/add/state ready
shows m/executables/add/options.json '{}'
bounded test -d its-cache
bounded fusermount3 -u m

# -- a wrong option is refused, whichever plugin it is for
cat >config/pjrtfs.json <<END
{"plugin_dir": "$plugins", "plugins": [
  {"name": "wrong", "path": "$plugins/$name/pjrt_plugin.so",
   "options": {"cpu_device_count": "four"}},
  "$name"]}
END
refuses 2 'pjrtfs.json:3:16: plugins\[0\].options.cpu_device_count: .*expected an integer from 1 to 1024, found the string "four"' \
	"$name" m

# -- the user's file in the home directory; /dev/null for none
mkdir -p home/.config
echo "{\"plugin_dir\": \"$plugins\", \"plugins\": \"$name\"}" >home/.config/pjrtfs.json
unset XDG_CONFIG_HOME
HOME=$work/home mount_by_file m
shows "m/plugins/$name/state" ready
bounded fusermount3 -u m
HOME=$work/home bounded "$pjrtfs" --config /dev/null --dump-config >dump
! grep -q "$plugins" dump || fail "the user's file was read, too"
