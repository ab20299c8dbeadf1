#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --list-plugins, and plugins chosen by name: in each place, laid out as installers do; a plugin
# of another program is mounted and computes.
. "$srcdir/tests/words.sh"
export PJRTFS_CACHE_DIR=$work/cache
so=$plugins/${plugin:-cpu}/pjrt_plugin.so
requires test -e "$so"
unset PJRTFS_PLUGIN_PATH PJRT_NAMES_AND_LIBRARY_PATHS PJRT_PLUGIN_LIBRARY_PATH PJRT_PLUGIN_PATH \
	LD_LIBRARY_PATH VIRTUAL_ENV CONDA_PREFIX
export HOME=$work/home

list()
{
	"$patient" $((patience * 6)) "$pjrtfs" --list-plugins "$@" 2>err >out || {
		fail "--list-plugins fails: $(cat err out)"
	}
}

# of NAME FIELD...: these fields of the first plugin of that name in the JSON list, a line each.
of()
{
	jq -r --arg name "$1" 'first(.plugins[] | select(.name == $name)) as $p |
		$ARGS.positional[] | $p[.] // ""' out --args "${@:2}"
}

# listed NAME PATH SOURCE [PACKAGE]: the plugin is in the list, usable, and meant by its name.
listed()
{
	list --json
	equal "$1" "$(of "$1" path source package ok error meant platform)" \
		"$2"$'\n'"$3"$'\n'"${4-}"$'\n'"true"$'\n\n'"true"$'\n'cpu
	of "$1" api_version devices | xargs >said
	tells said '^0\.[0-9]+ [1-9][0-9]*$'
}

# -- by a variable; check_discover.c has all places
mkdir -p one two/below
ln -s "$so" one/pjrt_c_api_one_v0.83.1_plugin.so
ln -s "$so" two/below/pjrt_plugin.so
PJRT_PLUGIN_LIBRARY_PATH=$work/one listed one "$work/one/pjrt_c_api_one_v0.83.1_plugin.so" \
	'$PJRT_PLUGIN_LIBRARY_PATH'
equal "version" "$(of one version)" 0.83.1

# -- Python: wheels as pip unpacks them, found with only environment variables set
site=$work/venv/lib/python3.11/site-packages
mkdir -p "$site/xla_plugins/xla_cpu_pjrt" "$site/xla_cpu_pjrt-0.0.1.dist-info" venv/bin
touch "$site/xla_plugins/xla_cpu_pjrt/__init__.py"
ln -s "$so" "$site/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"
mkdir -p "$site/fastatomstruct_xla_cpu" "$site/fastatomstruct_xla_cpu-2026.6.23.dist-info"
ln -s "$so" "$site/fastatomstruct_xla_cpu/libpjrt_fast.so"
mkdir -p "$site/jax_plugins/xla_cuda12"
ln -s "$so" "$site/jax_plugins/xla_cuda12/xla_cuda_plugin.so"
printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >venv/pyvenv.cfg
ln -s /usr/bin/python3 venv/bin/python3
VIRTUAL_ENV=$work/venv listed xla_cpu "$site/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so" \
	'$VIRTUAL_ENV' 'xla_cpu_pjrt 0.0.1'
# -- one of JAX's packages is found by what its library exports, not by its name
mkdir "$site/jax_plugins/libtt"
ln -s "$so" "$site/jax_plugins/libtt/libtt.so"
echo 'int f(void) { return 1; }' | ${CC:-cc} -shared -fPIC -x c -o "$site/jax_plugins/libtt/libother.so" -
VIRTUAL_ENV=$work/venv listed tt "$site/jax_plugins/libtt/libtt.so" '$VIRTUAL_ENV'

# -- the sentence about a plugin that is not found says what to do
mkdir m
VIRTUAL_ENV=$work/venv fails_with "; xla_cuda12 was found in \$VIRTUAL_ENV $site: pjrtfs xla_cuda12 MOUNTPOINT" \
	"$pjrtfs" xla_cud m --config /dev/null
fails_with '; pjrtfs --list-plugins shows which there are' "$pjrtfs" nothing_such m --config /dev/null

# -- of the Python that is the first one on $PATH; tour.sh has what pip installs
PATH=$work/venv/bin:$PATH listed fast "$site/fastatomstruct_xla_cpu/libpjrt_fast.so" \
	'python3 on $PATH' 'fastatomstruct_xla_cpu 2026.6.23'

# -- the text names each place and the number of its plugins
PJRT_PLUGIN_PATH=$work/two VIRTUAL_ENV=$work/venv list
tells out '^below$' "^    path      $work/two/below/pjrt_plugin.so$" '^    platform  cpu, [0-9]+ devices$' \
	"^    from      .PJRT_PLUGIN_PATH $work/two$" '^    package   xla_cpu_pjrt 0.0.1$' \
	"^    .PJRT_PLUGIN_PATH $work/two: 1$" '^    .CONDA_PREFIX: not set$' '^    --plugin: names none$'
equal "what is said beside it" "$(cat err)" ''

# -- --plugin and --plugin-dir are listed, too; the first match wins
ln -s "$so" one/twice.so
mkdir -p three/twice
ln -s "$so" three/twice/pjrt_plugin.so
cp "$so" real.so
ln -s "$work/real.so" one/libpjrt_again.so
ln -s "$so" three/libpjrt_again.so
list --json --plugin "mine=$so" --plugin-dir one --plugin-dir three
equal "named" "$(of mine source)" --plugin
equal "the first" "$(of twice path)" "$work/one/twice.so"
list --plugin-dir one --plugin-dir three
equal "others of that name" \
	"$(grep -c 'another one is meant by this name' out)" 1

# -- the newest of one name in one place: the plugins' own versions count first
if [ -e "$plugins/cpu/pjrt_plugin.so" ] && [ -e "$plugins/cpu-0.106/pjrt_plugin.so" ]; then
	mkdir versions
	ln -s "$plugins/cpu/pjrt_plugin.so" versions/pjrt_c_api_v_v0.1_plugin.so
	ln -s "$plugins/cpu-0.106/pjrt_plugin.so" versions/pjrt_c_api_v_v0.9_plugin.so
	PJRT_PLUGIN_PATH=$work/versions "$patient" $((patience * 3)) "$pjrtfs" --check-plugin v \
		--json >out
	equal "the newest" "$(jq -r .api_version out)" 0.115
fi

# -- a plugin of another program is mounted by its name, and computes
if [ -w /dev/fuse ]; then
	export VIRTUAL_ENV=$work/venv
	plugins=$work/none mount_pjrtfs xla_cpu,fast,cuda # not scripts/fetch-plugins' cuda
	grep -q ', cuda (xla_cuda12, API 0' "$mnt.log" || fail "the log does not say which cuda is: $(cat "$mnt.log")"
	put_add
	computes
	bounded test -d "$mnt/devices/fast/0"
fi
