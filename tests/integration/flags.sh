#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Only the mount's owner may set flags of XLA that name files.
. "$srcdir/tests/words.sh"
requires test "$(id -u)" = 0
requires perl --version
mount_pjrtfs -o allow_other --flags-for-all xla_dump_max_hlo_modules
p=$mnt/programs/all
x=$mnt/executables/all
mkdir -m 700 rootonly
cp "$data/add.mlir" .
chmod 644 add.mlir
bounded mkdir -m 1777 "$p"
dump='{"env_option_overrides":{"xla_dump_to":"'$work/rootonly/byB'","xla_dump_hlo_as_text":true}}'
only="xla_dump_to: only the mount's owner may set this flag"
nothing() # was written for the user
{
	[ -z "$(ls -A rootonly)" ] || fail "files were written: $(ls -R rootonly)"
}

# -- in options.json, at once and in pieces, with the sentence
as 1001 touch "$p/mine.mlir"
fails_with 'not permitted' as_write 1001 "$x/mine/options.json" "$dump"
tells "$x/mine/error" "^options of mine: .*$only|^options of all/mine: .*$only"
if as 1001 bash -c 'exec 3>"$1"; printf "%s" "${2:0:30}" >&3; printf "%s\n" "${2:30}" >&3' - \
	"$x/mine/options.json" "$dump"; then
	fail "written in pieces it is taken"
fi
shows "$x/mine/options.json" '{}'
as 1001 cp add.mlir "$p/mine.mlir"
shows "$x/mine/state" ready
nothing

# -- in the commands
ask_as 1001 '{"op":"compile","program":"all/mine","options":'"$dump"'}' >reply
tells reply '"errno":"EPERM"' "$only"
ask_as 1001 '{"op":"compile","program":"all/mine","as":"all/other","options":'"$dump"'}' >reply
tells reply '"errno":"EPERM"' "$only"
gone "$x/other"
nothing

# -- every user may set flags that change numbers, and those of --flags-for-all
as_write 1001 "$x/mine/options.json" '{"env_option_overrides":{"xla_cpu_enable_fast_min_max":false,
	"xla_dump_max_hlo_modules":7}}'
shows "$x/mine/state" ready
as_write 1001 "$x/mine/options.json" '{}'

# -- the owner sets a flag, then another user writes the program: it is compiled without the flag
bounded cp add.mlir "$p/shared.mlir"
bounded chmod 666 "$p/shared.mlir"
say "$x/shared/options.json" '{"env_option_overrides":{"xla_dump_max_hlo_modules":7,"xla_dump_hlo_as_text":false}}'
shows "$x/shared/state" ready
owners='xla_dump_hlo_as_text: only the mount.s owner'
fails_with 'not permitted' as 1001 bash -c 'cat add.mlir >"$1"' - "$p/shared.mlir"
tells "$x/shared/error" "^options of all/shared: .*$owners"
ask_as 1001 '{"op":"compile","program":"all/shared"}' >reply
tells reply '"errno":"EPERM"' "$owners"
# that user does not empty it, either
fails_with 'not permitted' as 1001 perl -e 'truncate($ARGV[0], 0) or die "$!\n"' "$p/shared.mlir"
bounded cmp add.mlir "$p/shared.mlir"
shows "$x/shared/state" ready
bounded cp add.mlir "$p/shared.mlir"
shows "$x/shared/state" ready
# an editor's way: a scratch file that takes the program's name takes its options
bounded chmod 777 "$p"
as 1001 cp add.mlir "$p/.scratch"
fails_with 'not permitted' as 1001 mv "$p/.scratch" "$p/shared.mlir"
# a user with write permission sets harmless options, and then the program compiles
as_write 1001 "$x/shared/options.json" '{}'
as 1001 bash -c 'cat add.mlir >"$1"' - "$p/shared.mlir"
shows "$x/shared/state" ready

# -- the owner may
bounded touch "$p/own.mlir"
say "$x/own/options.json" '{"env_option_overrides":{"xla_dump_hlo_as_text":true}}'
bounded cp add.mlir "$p/own.mlir"
shows "$x/own/state" ready
nothing
