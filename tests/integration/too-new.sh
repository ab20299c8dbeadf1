#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program that the loaded plugin is too old for: the sentence names a plugin that was found
# and that can read it; mounted with that one, it runs.
. "$srcdir/tests/lib.sh"

# Newer StableHLO prints a large constant of booleans as a byte each; API 0.81 wants bits.
bytes=$(for i in $(seq 64); do printf '01%02x' $((i % 2)); done)
cat >newer.mlir <<END
func.func @main(%x: tensor<128xi1>) -> tensor<128xi1> {
  %c = stablehlo.constant dense<"0x$bytes"> : tensor<128xi1>
  %z = stablehlo.and %x, %c : tensor<128xi1>
  return %z : tensor<128xi1>
}
END

mount_pjrtfs cpu
requires test -e "$plugins/cpu-0.106/pjrt_plugin.so"
if bounded cp newer.mlir "$mnt/programs/"; then
	fail "the oldest plugin reads it: this test needs another program"
fi
error=$(bounded cat "$mnt/executables/newer/error")
[[ $error =~ "plugin cpu (API 0.81) cannot read this program, but plugin "(cpu-0.1[01][0-9]+|cpu-0.1[0-9]+) ]] ||
	fail "no other plugin is named: $error"
other=${BASH_REMATCH[1]}

# A program that nobody can read names nobody, and no worker of a question stays.
printf 'module { nonsense }\n' >bad.mlir
if bounded cp bad.mlir "$mnt/programs/"; then
	fail "nonsense compiles"
fi
error=$(bounded cat "$mnt/executables/bad/error")
[[ $error != *"but plugin"* ]] || fail "somebody reads nonsense: $error"
workers=$(pgrep -c -P "$daemon") || true
[ "$workers" = 1 ] || fail "$workers workers for one plugin"
unmount_pjrtfs

mount_pjrtfs "$other"
bounded cp newer.mlir "$mnt/programs/"
bounded grep -qx ready "$mnt/executables/newer/state"
