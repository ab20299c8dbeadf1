#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# JAX's linear algebra: the library that is loaded by default, without it, and without a LAPACK.
. "$srcdir/tests/lib.sh"
name=${plugin:-cpu}
library=libpjrtfs-lapack

# The Cholesky factor of a matrix of N x N, whose result has RESULT rows and columns.
cholesky() # N RESULT
{
	cat <<-END
		func.func @main(%a: tensor<$1x$1xf64>) -> (tensor<$2x$2xf64>, tensor<i32>) {
		  %l:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {
		    mhlo.backend_config = {uplo = 76 : ui8},
		    operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
		    result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]
		  } : (tensor<$1x$1xf64>) -> (tensor<$2x$2xf64>, tensor<i32>)
		  return %l#0, %l#1 : tensor<$2x$2xf64>, tensor<i32>
		}
	END
}

cholesky 2 2 >factor.mlir
cholesky 2 3 >wrong.mlir
packed 'd<*' 4 2 2 5 | npy '<f8' '(2, 2)' >a.npy

mount_pjrtfs
equal "the targets" "$(bounded grep -c "	$library\$" "$mnt/plugins/$name/custom_calls")" 62
equal 'its error' "$(bounded cat "$mnt/ffi/$library/error")" ''
bounded cp a.npy "$mnt/buffers/"
bounded cp factor.mlir wrong.mlir "$mnt/programs/"
# The triangle above the diagonal is as it was.
run factor 'a -> l info'
shows "$mnt/buffers/l.txt" $'2 2\n1 2'
shows "$mnt/buffers/info.txt" 0
# A plugin of an older StableHLO gets the custom calls of JAX 0.12 as those that it knows.
packed 'f<*' 2 0 0 0 0 2 0 0 0 0 2 0 0 0 0 2 0 0 0 0 0 0 0 0 | npy '<f4' '(6, 4)' >twos.npy
bounded cp twos.npy "$mnt/buffers/"
bounded cp "$data/jax/qr-1.18.jax_exported" "$mnt/programs/qr.jax_exported"
run qr 'twos -> q r'
shows "$mnt/buffers/r.txt" $'2 0 0 0\n0 2 0 0\n0 0 2 0\n0 0 0 2'
fails_with 'Invalid argument' run wrong 'a -> m info'
tells "$mnt/executables/wrong/run" \
	'lapack_dpotrf_ffi: result 0 \(l\): expected f64\[2,2\], found f64\[3,3\]'
unmount_pjrtfs

mount_pjrtfs --no-lapack
equal "the targets" "$(bounded grep -c "$library" "$mnt/plugins/$name/custom_calls")" 0
fails_with 'Operation not supported' cp factor.mlir "$mnt/programs/"
unmount_pjrtfs

# The mount works with a LAPACK that is not one; the library says why it does not.
mkdir broken
cp "$(ldconfig -p | sed -n 's/.*libm\.so\.6 (libc6,x86-64.*=> //p' | head -n 1)" broken/liblapack.so.3
LD_LIBRARY_PATH=$work/broken mount_pjrtfs
tells "$mnt/ffi/$library/error" 'liblapack\.so\.3 has no spotrf_'
shows "$mnt/health" ok
fails_with 'Operation not supported' cp factor.mlir "$mnt/programs/"
unmount_pjrtfs

# XLA has threads enough: a LAPACK starts none of its own, unless the user wants it.
threads() # WANT OPTION...
{
	mount_pjrtfs --ffi-library "$build/tests/faults/ffi_library.so" --plugin-env "$name:FFI_FAULT=threads" "${@:2}"
	tells "$mnt/ffi/ffi_library/error" "$1"
	unmount_pjrtfs
}
unset OPENBLAS_NUM_THREADS OMP_NUM_THREADS
threads 'OpenBLAS 1, OpenMP 1$'
threads 'OpenBLAS 2, OpenMP 1$' --plugin-env "$name:OPENBLAS_NUM_THREADS=2"
