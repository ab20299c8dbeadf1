# SPDX-License-Identifier: Apache-2.0
# Words of tests that see which array is which input, by programs and directories of scalars: a test sources it in
# place of lib.sh, mounts, and sets b, buffers/ of its mount.
# shellcheck shell=bash disable=SC2154 # b
. "$srcdir/tests/lib.sh"

# program NAME PATH...: of a scalar for each path, as JAX calls the leaves of its arguments,
# each result is its argument times ten
program()
{
	local name=$1 i=0 args='' body='' results='' types=''
	shift
	for path; do
		args+="${args:+, }%arg$i: tensor<f32> loc(\"$path\")"
		body+="  %$i = stablehlo.multiply %arg$i, %c : tensor<f32>"$'\n'
		results+="${results:+, }%$i"
		types+="${types:+, }tensor<f32>"
		i=$((i + 1))
	done
	cat >"$mnt/programs/$name.mlir" <<-END
		func.func @main($args) -> ($types) {
		  %c = stablehlo.constant dense<10.0> : tensor<f32>
		$body  return $results : $types
		}
	END
	shows "$mnt/executables/$name/state" ready
}

# scalars DIRECTORY NAME=VALUE...
scalars()
{
	local dir=$b/$1
	shift
	for scalar; do
		mkdir -p "$(dirname "$dir/${scalar%=*}")"
		echo "${scalar#*=}" >"$dir/${scalar%=*}.txt"
	done
}

# values NAME...: of scalars, in one line
values()
{
	for name; do
		bounded cat "$b/$name.txt"
	done | tr '\n' ' '
}
