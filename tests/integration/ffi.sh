#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# FFI libraries: programs call handlers in C.
. "$srcdir/tests/lib.sh"
name=${plugin:-cpu}
read -ra cc <<<"${CC:-cc}" # it may have options
requires "${cc[@]}" --version
examples=$top/docs/examples/ffi
fault=$build/tests/faults/ffi_library.so

# A program that calls TARGET with the attributes.
calls() # TARGET ATTRIBUTES
{
	cat <<-END
		func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
		  %y = stablehlo.custom_call @$1(%x) {backend_config = {$2}, api_version = 4 : i32}
		    : (tensor<4xf32>) -> tensor<4xf32>
		  return %y : tensor<4xf32>
		}
	END
}

# -- the example, as its README has it
cp "$examples"/* .
sed -n 's/^  cc /${CC:-cc} -I"$top\/include" /p' README >build.sh
CC=${CC:-cc} top=$top bounded bash -eu build.sh
mount_pjrtfs --ffi-library leaky_relu.so
sanitized || tells "$mnt/plugins/$name/sandbox" '^strict$'
sed -n '/^  \(cp\|echo\)/p; /^  cat MOUNTPOINT/p' README | sed "s|MOUNTPOINT|$mnt|g" >use.sh
equal "what the README's lines print" "$(bounded bash -eu use.sh)" '1 -1 3 -2'
shows "$mnt/ffi/leaky_relu/path" "$work/leaky_relu.so"
shows "$mnt/ffi/leaky_relu/sha256" "$(sha256sum leaky_relu.so | cut -d' ' -f1)"
shows "$mnt/ffi/leaky_relu/targets" leaky_relu
equal 'its error' "$(bounded cat "$mnt/ffi/leaky_relu/error")" ''
tells "$mnt/plugins/$name/custom_calls" $'^leaky_relu\tleaky_relu$'

# An error of the handler is the execution's: its code and its sentence.
calls leaky_relu 'slop = 0.5 : f32' >wrong.mlir
bounded cp wrong.mlir "$mnt/programs/"
fails_with 'Invalid argument' run wrong 'x -> y'
tells "$mnt/executables/wrong/run" 'EINVAL: wrong: leaky_relu: expected an attribute slope of f32'

# What the program calls, and lacks, is among its facts.
calls_of() # EXECUTABLE
{
	bounded sed 's/.*\("custom_calls":.*\)}$/\1/' "$mnt/executables/$1/info.json"
}
equal 'the calls' "$(calls_of leaky_relu)" \
	'"custom_calls":[{"target":"leaky_relu","library":"leaky_relu"}],"missing":[]'
bounded cat "$mnt/executables/leaky_relu/optimized.hlo.pb" >leaky.hlo.pb

# Each life of the worker has the library, even if its file has gone.
rm leaky_relu.so
kill_worker "$name"
run leaky_relu 'x -> z'
shows "$mnt/buffers/z.txt" '1 -1 3 -2'
unmount_pjrtfs

# -- a library with other bytes is another key of the cache; that of other programs stays
compiled() # WANT OPTION...: how the example and a program without calls were compiled
{
	local want=$1
	shift
	mount_pjrtfs "$@"
	bounded cp leaky_relu.mlir "$data/add.mlir" "$mnt/programs/"
	tells "$mnt/executables/leaky_relu/info.json" "\"cache\":\"$want\""
	tells "$mnt/executables/add/info.json" "\"cache\":\"${add:-hit}\""
	unmount_pjrtfs
}
CC=${CC:-cc} top=$top bounded bash -eu build.sh
add=miss compiled hit --ffi-library leaky_relu.so
compiled hit --ffi-library leaky_relu.so
printf x >>leaky_relu.so
compiled miss --ffi-library leaky_relu.so
compiled hit --ffi-library leaky_relu.so

# -- what no library provides
mount_pjrtfs --no-lapack
fails_with 'Operation not supported' bounded cp leaky_relu.mlir leaky.hlo.pb "$mnt/programs/"
for x in leaky leaky_relu; do
	tells "$mnt/executables/$x/error" "$x: the program calls leaky_relu, which no FFI library provides: name one that does with --ffi-library"
	equal 'what is missing' "$(calls_of $x)" '"custom_calls":[],"missing":["leaky_relu"]'
done
calls lapack_spotrf_ffi 'uplo = 76 : ui8' >potrf.mlir
fails_with 'Operation not supported' bounded cp potrf.mlir "$mnt/programs/"
tells "$mnt/executables/potrf/error" 'potrf: the program calls lapack_spotrf_ffi \(LAPACK: Cholesky\), which no FFI library provides: pjrtfs was started with --no-lapack, or without its library'
equal 'what is missing' "$(calls_of potrf)" '"custom_calls":[],"missing":["lapack_spotrf_ffi"]'
# Names that are no calls refuse nothing, nor do the plugin's own targets.
cat >names.mlir <<-'END'
	// stablehlo.custom_call @lapack_spotrf_ffi(%x)
	module @lapack_sgetrf_ffi attributes {mhlo.note = "stablehlo.custom_call @lapack_sgeqrf_ffi \" //"} {
	  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
	    %y = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{replicated}"} : (tensor<4xf32>) -> tensor<4xf32>
	    %lapack_sgesdd_ffi = stablehlo.add %y, %y : tensor<4xf32>
	    return %lapack_sgesdd_ffi : tensor<4xf32>
	  }
	}
END
bounded cp names.mlir "$mnt/programs/"
equal 'what is missing' "$(calls_of names)" '"custom_calls":[],"missing":[]'
# The generic form names the target in an attribute.
cat >generic.mlir <<-'END'
	func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
	  %y = "stablehlo.custom_call"(%x) {call_target_name = "lapack_dgesdd_ffi", api_version = 4 : i32,
	    backend_config = {}} : (tensor<4xf32>) -> tensor<4xf32>
	  return %y : tensor<4xf32>
	}
END
fails_with 'Operation not supported' bounded cp generic.mlir "$mnt/programs/"
tells "$mnt/executables/generic/error" 'calls lapack_dgesdd_ffi \(LAPACK: singular values\)'
unmount_pjrtfs

# -- the map of a configuration, for a library that does not list its handlers
"${cc[@]}" -shared -fPIC -O2 -I"$top/include" -Dpjrtfs_ffi_library=unused -Dstatic= -o mapped.so leaky_relu.c
cat >config.json <<-END
	{"ffi_libraries": [{"path": "$work/mapped.so", "plugin": "$name", "platform": "cpu",
	                    "targets": {"relu.of$\"them": "leaky_relu", "leaky_relu": "leaky_relu",
	                                "lapack_spotrf_ffi": "leaky_relu"}}]}
END
mount_pjrtfs --no-lapack --config config.json
tells "$mnt/plugins/$name/custom_calls" $'^leaky_relu\tmapped$' $'^relu\.of\\$"them\tmapped$'
bounded cp leaky_relu.mlir "$mnt/programs/"
say "$mnt/buffers/x.txt" '1 -2 3 -4'
run leaky_relu 'x -> y'
shows "$mnt/buffers/y.txt" '1 -1 3 -2'
jax=$data/jax
bounded cp "$jax/cholesky.jax_exported" "$mnt/programs/"
bounded cat "$mnt/executables/cholesky/optimized.hlo.pb" >module.hlo.pb
unmount_pjrtfs

# -- the map of the command line
mount_pjrtfs --no-lapack --ffi-library "$name:mapped.so:leaky_relu=leaky_relu,my.op=leaky_relu"
tells "$mnt/plugins/$name/custom_calls" $'^leaky_relu\tmapped$' $'^my\.op\tmapped$'
bounded cp leaky_relu.mlir "$mnt/programs/"
say "$mnt/buffers/x.txt" '1 -2 3 -4'
run leaky_relu 'x -> y'
shows "$mnt/buffers/y.txt" '1 -1 3 -2'
unmount_pjrtfs

# -- in every format a well-known target is refused before the plugin compiles
events_of() # EVENT EXECUTABLE: how many there are
{
	bounded cat "$mnt/events" | grep "\"executables/$2\"" | grep -c "\"program.$1\"" || :
}
mount_pjrtfs --no-lapack
cp "$jax/calls.mlirbc" "$jax/cholesky.jax_exported" .
for f in calls.mlirbc cholesky.jax_exported module.hlo.pb potrf.mlir; do
	x=${f%%.*}
	fails_with 'Operation not supported' bounded cp "$f" "$mnt/programs/"
	tells "$mnt/executables/$x/error" \
		"$x: the program calls lapack_spotrf_ffi \(LAPACK: Cholesky\), which no FFI library provides: pjrtfs was started with --no-lapack"
	tells "$mnt/executables/$x/info.json" '"missing":\["lapack_spotrf_ffi"[],]'
	equal "$f was refused" "$(events_of failed "$x")" 1
	equal "$f was compiled" "$(events_of compiling "$x")" 0
done
unmount_pjrtfs

# -- several libraries: the first handler of a target counts, and all are shown
cp "$fault" one.so
cp "$fault" two.so.1
mkdir other
cp "$fault" other/one.so
mount_pjrtfs --ffi-library "$work/one.so" --ffi-library "$name:two.so.1" --ffi-library other/one.so \
	--plugin-env "$name:FFI_FAULT=many"
shows "$mnt/ffi/one-2/path" "$work/other/one.so"
tells "$mnt/plugins/$name/custom_calls" $'^test_fault\tone$' $'^many_999\tone$'
equal "targets of two" "$(bounded grep -c $'\tshadowed by one$' "$mnt/ffi/two/targets")" 1001
tells "$mnt/ffi/one/targets" '^many_0$' \
	$'^test_newer\tthe handler speaks version 0\\.'
eventually tells "$mnt.log" "plugin $name: custom call test_newer of one: the handler speaks version"
unmount_pjrtfs

# -- a library that cannot work here: the mount does
mount_pjrtfs --ffi-library one.so --plugin-env "$name:FFI_FAULT=why"
shows "$mnt/ffi/one/error" "plugin $name: it needs a library that is not there"
equal 'its targets' "$(bounded cat "$mnt/ffi/one/targets")" ''
shows "$mnt/health" ok
eventually tells "$mnt.log" "plugin $name: FFI library one: it needs a library that is not there"
unmount_pjrtfs
