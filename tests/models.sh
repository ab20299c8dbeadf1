# SPDX-License-Identifier: Apache-2.0
# Words of tests that run imported models, as tests/data/frontends/programs.py writes them: a test sources it in place of lib.sh.
# shellcheck shell=bash
. "$srcdir/tests/lib.sh"

# compares MODEL: the results of its line are those of its framework.
compares()
{
	local tolerance=2e-5
	[ "${1##*/}" != half ] || tolerance=1e-2 # bfloat16 has 8 bits
	bounded "$python" -B "$top/tests/tools/compare_arrays.py" \
		"$mnt/buffers/got" "$1/expected" "$(find "$1/expected" -type f | wc -l)" "$tolerance"
}

# runs MODEL: what is in the folder is copied in, the options first, and its line gives the framework's numbers, with the
# weights by their names.
runs()
{
	local program=$1/programs/${1##*/}
	program=$(echo "$program".*)
	bounded rm -rf "$mnt/buffers/got" "$mnt/buffers/x.npy"
	bounded cp -r "$1/buffers/." "$mnt/buffers/"
	if [ -d "$1/executables" ]; then
		bounded touch "$mnt/programs/${program##*/}"
		bounded cp "$1/executables/${1##*/}/options.json" "$mnt/executables/${1##*/}/"
	fi
	bounded cp "$program" "$mnt/programs/"
	bounded mkdir -p "$mnt/buffers/got"
	run "${1##*/}" "$(<"$1/run")"
	tells "$mnt/executables/${1##*/}/run" '^ok: .* s, by name$'
	compares "$1"
}
