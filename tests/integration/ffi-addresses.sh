#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# An FFI library that exports no handler and is a module of Python, where there is no Python: programs call its
# handlers by their addresses.
. "$srcdir/tests/lib.sh"
name=${plugin:-cpu}
read -ra cc <<<"${CC:-cc}" # it may have options
requires "${cc[@]}" --version
requires nm --version
requires_mount
cp "$top/docs/examples/ffi/leaky_relu.mlir" .
cat >module.c <<-END
	#define pjrtfs_ffi_library unused
	#include "$top/docs/examples/ffi/leaky_relu.c"
	extern int PyExc_ValueError, PyType_Type;
	extern void PyVectorcall_Call(void), PyErr_Clear(void);
	static void *slots[] __attribute__((used)) = { &PyExc_ValueError, &PyType_Type, PyVectorcall_Call };
	__attribute__((used)) static void *silent(struct pjrtfs_ffi_frame *frame)
	{
		return frame->stage == 77 ? slots : NULL;
	}
	__attribute__((used)) static void *calls_python(struct pjrtfs_ffi_frame *frame)
	{
		PyErr_Clear();
		return frame;
	}
END
mkdir lib mnt
"${cc[@]}" -shared -fPIC -O2 -fvisibility=hidden -Wl,-z,lazy -I"$top/include" -o lib/module.so module.c
! nm -D --defined-only lib/module.so | grep leaky_relu || fail 'the library exports its handler'
sum=$(sha256sum lib/module.so | cut -d' ' -f1)
at() # FUNCTION: its address, as a target has it
{
	echo "+0x$(nm lib/module.so | awk -v name="$1" '$3 == name { print $1 }')"
}
# list TARGETS [KEYS]: the list of libraries
list()
{
	cat >list.json <<-END
		{"ffi_libraries": [{"path": "lib/module.so", "targets": {$1}${2-, \"sha256\": \"$sum\"}}]}
	END
}
good="\"leaky_relu\": \"$(at leaky_relu)\""

# refused PATTERN [OPTION...]: pjrtfs does not start with the list, and says why.
refused()
{
	local want=$1 status=0
	shift
	[ $# != 0 ] || set -- --ffi-library list.json
	bounded "$pjrtfs" "$name" mnt -f --plugin-dir "$plugins" --no-cache "$@" >said 2>&1 || status=$?
	[ "$status" = 1 ] || [ "$status" = 2 ] || fail "status $status: $(cat said)"
	tells said "$want"
}

# computes OPTION...: mount with these, and call the handler
computes()
{
	mount_pjrtfs --no-lapack "$@"
	shows "$mnt/ffi/module/targets" leaky_relu
	bounded cp leaky_relu.mlir "$mnt/programs/"
	say "$mnt/buffers/x.txt" '1 -2 3 -4'
	run leaky_relu 'x -> y'
	shows "$mnt/buffers/y.txt" '1 -1 3 -2'
	shows "$mnt/health" ok
	unmount_pjrtfs
}

# -- the handler computes, named by an option, or by what lies beside the plugin's file
list "$good"
computes --ffi-library "$name:list.json"
mkdir own
# No link: it would change the file's ctime, for which a worker of another test would keep no program.
cp --reflink=auto "$plugins/$name/pjrt_plugin.so" own/plugin.so
sed 's|"lib/|"../lib/|' list.json >own/plugin.so.ffi.json
source="$name=$work/own/plugin.so"
mount_pjrtfs "$source" --no-lapack
tells "$mnt/plugins/$name/custom_calls" $'^leaky_relu\tmodule$'
unmount_pjrtfs

# -- and by a command
register="{\"op\":\"register\",\"library\":\"$work/lib/module.so\",\"targets\":{$good},\"sha256\""
mount_pjrtfs --no-lapack
tells <(ask "$register:\"12ab\"}") '"ESTALE".*the file has changed: expected SHA-256 12ab'
tells <(ask "$register:\"$sum\"}") '"ok":true,"library":"module"'
shows "$mnt/ffi/module/targets" leaky_relu
unmount_pjrtfs

# -- a file that has changed is refused; a mount that has not named it does without
printf x >>lib/module.so
refused "list.json: FFI library $work/lib/module.so: the file has changed: expected SHA-256 $sum"
mount_pjrtfs "$source" --no-lapack
equal 'the libraries' "$(bounded ls "$mnt/ffi")" ''
tells "$mnt.log" "plugin $name has fewer custom calls: .*the file has changed"
unmount_pjrtfs
truncate -s -1 lib/module.so

# -- addresses that are none of a handler
data_at=$(at slots)
while read -r address want; do
	list "\"a\": \"$address\""
	refused "FFI library $work/lib/module.so: target a: expected $want"
done <<-END
	$data_at an address in the library's code \(an executable segment\), found \\$data_at
	+0x7fffffffffff an address in the library's code
	+0xffffffffffffffff an address in the library's code
	+0x a symbol, or an address as \+0x12ab, found \+0x
	+0x12g a symbol, or an address
	+12 a symbol, or an address
	+0x12345678901234567 a symbol, or an address
	leaky_relu a function leaky_relu in the library, found none
END
list "$good" ''
refused 'target leaky_relu is at \+0x[0-9a-f]+: expected "sha256" of the file that has it there, found none; that of this file is '"$sum"
refused 'expected "sha256"' --ffi-library "lib/module.so:leaky_relu=$(at leaky_relu)"
list "$(for ((i = 0; i < 4097; i++)); do printf '"t%d": "+0x0",' $i; done) $good"
refused 'expected at most 4096 targets, found 4098'
list "\"a\": \"$(at silent)\", $good"
mount_pjrtfs --no-lapack --ffi-library list.json
tells "$mnt/ffi/module/targets" $'^a\tthe handler does not answer when it is asked for its version' '^leaky_relu$'
unmount_pjrtfs
list "\"a\": \"$(at calls_python)\""
refused "module.so ended the process while it was loaded|undefined symbol: PyErr_Clear"

# -- a list that is none
list "$good"
chmod 666 list.json
refused 'list.json can name libraries to run: expected that only its owner may write to it, found mode 0666'
chmod 644 list.json
refused 'read the FFI libraries of .*none.json: No such file' --ffi-library none.json
while read -r text; do
	IFS=$'\t' read -r text want <<<"$text"
	echo "$text" >list.json
	refused "$work/list.json:1:$want"
done <<-'END'
	[]	1: expected a JSON object
	{"ffi_libraries": {}}	2: ffi_libraries: expected a list of libraries
	{"ffi_libraries": ["a.so"]}	20: ffi_libraries\[0\]: expected an object with a path
	{"plugins": []}	2: plugins: expected the key ffi_libraries alone
	{"ffi_libraries": [{"path": "a.so", "sha": ""}]}	37: ffi_libraries\[0\].sha: expected path, plugin, targets, sha256
END
