#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --list-plugins, and plugins chosen by name: in each place, laid out as installers do; a plugin
# of another program is mounted and computes.
. "$srcdir/tests/lib.sh"
export PJRTFS_CACHE_DIR=$work/cache
so=$plugins/${plugin:-cpu}/pjrt_plugin.so
requires test -e "$so"
unset PJRTFS_PLUGIN_PATH PJRT_NAMES_AND_LIBRARY_PATHS PJRT_PLUGIN_LIBRARY_PATH PJRT_PLUGIN_PATH \
	LD_LIBRARY_PATH VIRTUAL_ENV CONDA_PREFIX
export HOME=$work/home

# The test hides plugins of this machine by mounts over the fixed places, which need a mount
# namespace.
if [ -z "${inside:-}" ] && unshare --mount true 2>/dev/null; then
	rm -rf "$work"
	trap - EXIT
	cd "$build" || exit
	inside=yes exec unshare --mount --propagation slave bash "$0"
fi
[ -z "${inside:-}" ] || forget_mounts

list()
{
	timeout -k 5 $((patience * 6)) "$pjrtfs" --list-plugins "$@" 2>err >out || {
		fail "--list-plugins fails: $(cat err out)"
	}
}

# of NAME FIELD...: these fields of the first plugin of that name in the JSON list, a line each.
of()
{
	python3 -c '
import json, sys
for p in json.load(open("out"))["plugins"]:
    if p["name"] == sys.argv[1]:
        for field in sys.argv[2:]:
            print(str(p.get(field, "")))
        break' "$@"
}

# listed NAME PATH SOURCE [PACKAGE]: the plugin is in the list, usable, and meant by its name.
listed()
{
	local said
	list --json
	mapfile -t said < <(of "$1" path source package ok error meant platform api_version devices)
	equal "facts of $1" "${#said[@]}" 9
	equal "path of $1" "${said[0]}" "$2"
	equal "source of $1" "${said[1]}" "$3"
	equal "package of $1" "${said[2]}" "${4:-}"
	equal "$1 is usable (${said[4]})" "${said[3]}" True
	equal "$1 is meant" "${said[5]}" True
	equal "platform of $1" "${said[6]}" cpu
	[[ ${said[7]} =~ ^0\.[0-9]+$ ]] || fail "API of $1: ${said[7]}"
	[ "${said[8]}" -gt 0 ] || fail "no devices: $1"
}

# -- $PJRT_NAMES_AND_LIBRARY_PATHS, as JAX reads it
mkdir -p jax/a
ln -s "$so" jax/a/anything.so
export PJRT_NAMES_AND_LIBRARY_PATHS=from_jax:$work/jax/a/anything.so
# shellcheck disable=SC2016 # the name of the variable
listed from_jax "$work/jax/a/anything.so" '$PJRT_NAMES_AND_LIBRARY_PATHS'
unset PJRT_NAMES_AND_LIBRARY_PATHS

# -- $PJRT_PLUGIN_LIBRARY_PATH and $PJRT_PLUGIN_PATH: directories and files
mkdir -p one two/below
ln -s "$so" one/pjrt_c_api_one_v0.83.1_plugin.so
ln -s "$so" two/below/pjrt_plugin.so
# shellcheck disable=SC2016
PJRT_PLUGIN_LIBRARY_PATH=$work/one listed one "$work/one/pjrt_c_api_one_v0.83.1_plugin.so" \
	'$PJRT_PLUGIN_LIBRARY_PATH'
equal "version" "$(of one version)" 0.83.1
# shellcheck disable=SC2016
PJRT_PLUGIN_PATH=$work/jax:$work/two listed below "$work/two/below/pjrt_plugin.so" \
	'$PJRT_PLUGIN_PATH'
# shellcheck disable=SC2016
PJRT_PLUGIN_PATH=$work/jax/a/anything.so listed anything "$work/jax/a/anything.so" \
	'$PJRT_PLUGIN_PATH'

# -- GoMLX's directory in the home, and $LD_LIBRARY_PATH
mkdir -p home/.local/lib/go-xla ld
ln -s "$so" home/.local/lib/go-xla/pjrt_c_api_gomlx_v0.83.4_plugin.so
listed gomlx "$HOME/.local/lib/go-xla/pjrt_c_api_gomlx_v0.83.4_plugin.so" GoMLX
ln -s "$so" ld/libpjrt_byld.so
# shellcheck disable=SC2016
LD_LIBRARY_PATH=/nothing:$work/ld listed byld "$work/ld/libpjrt_byld.so" '$LD_LIBRARY_PATH'

# -- /etc/ld.so.conf.d, /usr/local/lib/gomlx/pjrt, /opt/aws/neuron/lib (unless the test itself
# lies in one of them)
covered=
case $so$build in */opt/* | */usr/local/*) covered=yes ;; esac
if [ -n "${inside:-}" ] && [ -z "$covered" ]; then
	mkdir -p conf.d opt/aws/neuron/lib local/lib/gomlx/pjrt elsewhere
	ln -s "$so" elsewhere/pjrt_plugin_byconf.so
	echo "$work/elsewhere # with a comment" >conf.d/x.conf
	ln -s "$so" opt/aws/neuron/lib/libneuronpjrt.so
	ln -s "$so" local/lib/gomlx/pjrt/pjrt_c_api_system_plugin.so
	mount --bind conf.d /etc/ld.so.conf.d
	mount --bind opt /opt
	mount --bind local /usr/local
	listed byconf "$work/elsewhere/pjrt_plugin_byconf.so" /etc/ld.so.conf
	listed neuron /opt/aws/neuron/lib/libneuronpjrt.so 'AWS Neuron'
	listed system /usr/local/lib/gomlx/pjrt/pjrt_c_api_system_plugin.so GoMLX
	umount /usr/local /opt /etc/ld.so.conf.d
fi

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
# shellcheck disable=SC2016
VIRTUAL_ENV=$work/venv listed xla_cpu "$site/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so" \
	'$VIRTUAL_ENV' 'xla_cpu_pjrt 0.0.1'
# shellcheck disable=SC2016
CONDA_PREFIX=$work/venv listed fast "$site/fastatomstruct_xla_cpu/libpjrt_fast.so" \
	'$CONDA_PREFIX' 'fastatomstruct_xla_cpu 2026.6.23'
# shellcheck disable=SC2016
PATH=$work/venv/bin:$PATH listed xla_cuda12 "$site/jax_plugins/xla_cuda12/xla_cuda_plugin.so" \
	'python3 on $PATH'

# -- the sentence about a plugin that is not found says what to do
VIRTUAL_ENV=$work/venv fails_with "; xla_cuda12 was found in \$VIRTUAL_ENV $site: pjrtfs xla_cuda12 MOUNTPOINT" \
	"$pjrtfs" cuda m --config /dev/null
fails_with '; pjrtfs --list-plugins shows which there are' "$pjrtfs" nothing_such m --config /dev/null

# -- a wheel that pip itself installs into a venv, whose python3 is the first one on $PATH
cat >wheel.py <<'END'
import sys, zipfile

so, name, version = sys.argv[1:]
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(f"{name}-{version}-py3-none-any.whl", "w") as wheel:
    wheel.write(so, f"jax_plugins/{name}/pjrt_c_api_{name}_plugin.so")
    wheel.writestr(f"jax_plugins/{name}/__init__.py", "")
    wheel.writestr(f"{info}/METADATA",
                   f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/entry_points.txt", f"[jax_plugins]\n{name} = jax_plugins.{name}\n")
    wheel.writestr(f"{info}/RECORD", "")
END
python3 wheel.py "$so" piped 1.2
python3 -m venv --without-pip pip-venv
pip=/usr/bin/python3 # Debian's; another that is first in $PATH need not have pip
"$pip" -m pip --version >pip-version 2>&1 || pip=python3
"$pip" -m pip --quiet --disable-pip-version-check --python pip-venv/bin/python3 install \
	--no-index --no-deps piped-1.2-py3-none-any.whl
rm piped-1.2-py3-none-any.whl
# shellcheck disable=SC2016
PATH=$work/pip-venv/bin:$PATH listed piped \
	"$(echo "$work"/pip-venv/lib/python3*/site-packages/jax_plugins/piped/pjrt_c_api_piped_plugin.so)" \
	'python3 on $PATH' 'piped 1.2'

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
cp "$so" real.so 2>/dev/null || ln -s "$so" real.so
ln -s "$work/real.so" one/libpjrt_again.so
ln -s "$so" three/libpjrt_again.so
list --json --plugin "mine=$so" --plugin-dir one --plugin-dir three
equal "named" "$(of mine source)" --plugin
equal "the first" "$(of twice path)" "$work/one/twice.so"
list --plugin-dir one --plugin-dir three
equal "others of that name" \
	"$(grep -c 'another one is meant by this name' out)" 1
rm -f real.so

# -- the newest of one name in one place: the plugins' own versions count first
if [ -e "$plugins/cpu-0.115/pjrt_plugin.so" ] && [ -e "$plugins/cpu/pjrt_plugin.so" ]; then
	mkdir versions
	ln -s "$plugins/cpu-0.115/pjrt_plugin.so" versions/pjrt_c_api_v_v0.1_plugin.so
	ln -s "$plugins/cpu/pjrt_plugin.so" versions/pjrt_c_api_v_v0.9_plugin.so
	PJRT_PLUGIN_PATH=$work/versions timeout -k 5 $((patience * 3)) "$pjrtfs" --check-plugin v \
		--json >out
	equal "the newest" "$(python3 -c 'import json; print(json.load(open("out"))["api_version"])')" \
		0.115
fi

# -- a plugin of another program is mounted by its name, and computes
if [ -w /dev/fuse ]; then
	export VIRTUAL_ENV=$work/venv
	mount_pjrtfs xla_cpu,fast
	cp "$data/add.mlir" "$mnt/programs/"
	cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
	run add 'x y -> z'
	bounded test -s "$mnt/buffers/z.npy"
	bounded test -d "$mnt/devices/fast/0"
	unmount_pjrtfs
fi
