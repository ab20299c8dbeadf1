#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# A portable artifact of a newer StableHLO than the plugin's: when the plugin refuses it, the
# sentence begins with both versions and with what to do.
. "$srcdir/tests/lib.sh"
for p in cpu-0.81 cpu-0.115; do
	requires test -e "$plugins/$p/pjrt_plugin.so"
done

# artifact VERSION EDIT: one that says that it is of VERSION, otherwise changed by EDIT
artifact()
{
	LC_ALL=C sed "s/StableHLO_v1\.15\.0/StableHLO_v$1/; $2" "$data/jax/f.jax_exported"
}
spoil='s/vhlo/vhlX/g' # no plugin reads that
artifact 1.15.0 '' >good.jax_exported
artifact 1.18.0 "$spoil" >newer.jax_exported
artifact 1.99.0 "$spoil" >newest.jax_exported
artifact 1.10.0 "$spoil" >older.jax_exported
refused() # NAME
{
	fails_with 'Invalid argument' cp "$1.jax_exported" "$mnt/programs/"
	error=$(bounded cat "$mnt/executables/$1/error")
}

# -- a plugin of the mount is new enough: it is named, without starting anything
mount_pjrtfs cpu-0.81,cpu-0.115
bounded cp good.jax_exported "$mnt/programs/" # newer than the plugin, which reads it all the same
refused newer
case $error in
'compile newer: the program is StableHLO 1.18.0, plugin cpu-0.81 has 1.13.3: try plugin cpu-0.115 (options.json {"plugin":"cpu-0.115"}): '*vhlX*) ;;
*) fail "newer: $error" ;;
esac
workers=$(pgrep -c -P "$daemon") || true
equal "workers" "$workers" 2
# -- none is
refused newest
case $error in
'compile newest: the program is StableHLO 1.99.0, plugin cpu-0.81 has 1.13.3: try a newer plugin: '*vhlX*) ;;
*) fail "newest: $error" ;;
esac
# -- what is not newer has another reason
refused older
case $error in
*'the program is StableHLO'* | *' plugin cpu-0.115'*) fail "older: $error" ;;
*vhlX*) ;;
*) fail "older: $error" ;;
esac
# -- nor has a text a version
printf 'module { nonsense }\n' >bad.mlir
fails_with 'Invalid argument' cp bad.mlir "$mnt/programs/"
if grep -q 'the program is' "$mnt/executables/bad/error"; then
	fail "bad: $(bounded cat "$mnt/executables/bad/error")"
fi
# -- the plugin that is named compares with its own
echo '{"plugin":"cpu-0.115"}' >"$mnt/executables/newer/options.json"
refused newer
case $error in
*'the program is StableHLO'*) fail "newer, for the other plugin: $error" ;;
esac
