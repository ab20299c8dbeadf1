#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# FFI libraries are registered while the mount is served: programs call their handlers at once.
. "$srcdir/tests/lib.sh"
name=${plugin:-cpu}
read -ra cc <<<"${CC:-cc}" # it may have options
requires "${cc[@]}" --version
requires_mount
chmod 755 "$work"
cp "$top/docs/examples/ffi/"* .
build_library() # FILE OPTION...
{
	local file=$1
	shift
	"${cc[@]}" -shared -fPIC -O2 -I"$top/include" -o "$file" leaky_relu.c "$@"
}
build_library leaky_relu.so
build_library open.so -Dpjrtfs_ffi_library=unused -Dstatic=
# register LIBRARY [KEYS]
register()
{
	ask "{\"op\":\"register\",\"library\":\"$1\"${2:+,$2}}"
}
registers() # NAME LIBRARY [KEYS]
{
	equal "the reply for $2" "$(register "${@:2}")" "{\"ok\":true,\"library\":\"$1\"}"
}
# refused ERRNO SENTENCE LIBRARY [KEYS]: nothing changes
refused()
{
	local reply
	reply=$(register "${@:3}")
	grep -Eq "\"errno\":\"$1\".*\"message\":\"register: $2" <<<"$reply" ||
		fail "not $1, $2: $reply"
}
relu() # TARGET [SLOPE]: a program that calls it
{
	sed "s/@leaky_relu/@$1/; s/slope = [0-9.]*/slope = ${2:-0.5}/" leaky_relu.mlir >"$1.mlir"
}

mount_pjrtfs --keep ${others:+-o allow_other --isolate=user}
say "$mnt/buffers/x.txt" '1 -2 3 -4'
bounded cp "$data/add.mlir" "$data/x.npy" "$data/y.npy" . # named by the repetitions below
bounded cp add.mlir "$mnt/programs/"
bounded cp x.npy "$mnt/buffers/a.npy"
bounded cp y.npy "$mnt/buffers/b.npy"
run add 'a b -> c'

# -- what was refused, compiles afterwards; results stay, and executions in progress end as usual
fails_with 'Operation not supported' bounded cp leaky_relu.mlir "$mnt/programs/"
tells "$mnt/executables/leaky_relu/error" 'register'
if [ -n "$others" ]; then
	bounded mkdir -m 1777 "$mnt/buffers/all" "$mnt/programs/all"
	as_other() # COMMAND
	{
		as 1001 bash -c "$1" - "$mnt" "$work"
	}
	as_other 'cp "$2/add.mlir" "$1/programs/all/" && cp "$2/x.npy" "$1/buffers/all/" &&
		echo "all/x all/x -> all/y" >"$1/executables/all/add/run"'
	tells <(as_other 'exec 3<>"$1/control"
		printf "{\"op\":\"register\",\"library\":\"%s\"}\n" "$2/leaky_relu.so" >&3
		head -n 1 <&3') "\"EPERM\".*only the mount's owner may register"
fi
ask '{"op":"execute","executable":"add","inputs":["c","b"],"outputs":["c"],"repeat":30000}' \
	>series &
series=$!
registers leaky_relu "$work/leaky_relu.so"
shows "$mnt/ffi/leaky_relu/path" "$work/leaky_relu.so"
shows "$mnt/ffi/leaky_relu/targets" leaky_relu
tells "$mnt/plugins/$name/custom_calls" $'^leaky_relu\tleaky_relu$'
wait "$series"
tells series '"ok":true'
shows "$mnt/plugins/$name/restarts" 1
shows "$mnt/plugins/$name/state" ready
shows "$mnt/health" ok
eventually tells "$mnt.log" "FFI library $work/leaky_relu.so is registered"
! grep -q died "$mnt.log" || fail "$(cat "$mnt.log")"
tells <(ask '{"op":"compile","program":"leaky_relu"}') '"ok":true'
run leaky_relu 'x -> y'
shows "$mnt/buffers/y.txt" '1 -1 3 -2'
run add 'a b -> c'
if [ -n "$others" ]; then
	as_other 'cp "$2/leaky_relu.mlir" "$1/programs/all/" && echo "-1 1 1 -1" >"$1/buffers/all/v.txt" &&
		echo "all/v -> all/w" >"$1/executables/all/leaky_relu/run"'
	shows "$mnt/buffers/all/w.txt" '-0.5 1 1 -0.5'
fi

# -- what is refused changes nothing; check_commands.c has wrong keys
pid=$(bounded cat "$mnt/plugins/$name/pid")
refused EEXIST "FFI library $work/leaky_relu.so is here, as ffi/leaky_relu\"" "$work/leaky_relu.so"
printf x >>leaky_relu.so
refused EEXIST 'FFI library .*; the file has changed since: a new mount reads it anew' "$work/leaky_relu.so"
cp leaky_relu.so second.so
refused EEXIST "plugin $name: FFI library $work/second.so: custom call leaky_relu: shadowed by leaky_relu" \
	"$work/second.so"
refused ENODEV 'FFI library .* is for plugin other, which does not run' "$work/second.so" '"plugin":"other"'
refused ENOEXEC "plugin $name: FFI library $work/open.so: target a: expected a function none in the library, found none" \
	"$work/open.so" '"targets":{"a":"none"}'
refused ENOEXEC "plugin $name: FFI library .*expected a function pjrtfs_ffi_library" "$work/open.so"
shows "$mnt/plugins/$name/pid" "$pid"
equal 'the libraries' "$(bounded ls "$mnt/ffi" | grep -v lapack)" leaky_relu

# -- a map of targets, for one plugin; in a batch and as a job, which do not wait for themselves
tells <(ask "{\"op\":\"batch\",\"steps\":[{\"op\":\"register\",\"library\":\"$work/open.so\",
\"plugin\":\"$name\",\"platform\":\"cpu\",\"traits\":0,\"targets\":{\"mapped\":\"leaky_relu\"}},
{\"op\":\"stat\",\"buffer\":\"x\"}]}" | tr -d '\n') '"library":"open"},\{"ok":true,"buffer"'
relu mapped 0.25
bounded cp mapped.mlir "$mnt/programs/"
run mapped 'x -> y'
shows "$mnt/buffers/y.txt" '1 -0.5 3 -1'

# -- a daemon that follows has those whose files are as they were
before=$(bounded cat "$mnt/pid")
kill -KILL "$before"
tells "$mnt/plugins/$name/custom_calls" $'^mapped\topen$'
equal 'the libraries' "$(bounded ls "$mnt/ffi" | grep -v lapack)" open
run mapped 'x -> y'
shows "$mnt/buffers/y.txt" '1 -0.5 3 -1'
eventually tells "$mnt.log" "FFI library $work/leaky_relu.so: the file has changed"
registers leaky_relu "$work/leaky_relu.so"
before=$(bounded cat "$mnt/pid")
kill -KILL "$before"
equal 'the libraries' "$(bounded ls "$mnt/ffi" | grep -v lapack | paste -sd ' ')" 'leaky_relu open'
shows "$mnt/health" ok
