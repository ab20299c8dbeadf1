#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --check-plugin: the facts of a plugin that computes; the sentence about one that fails.
. "$srcdir/tests/lib.sh"
name=${plugin:-cpu}
so=$plugins/$name/pjrt_plugin.so
requires test -e "$so"
faulty=$build/tests/faults/faulty_plugin.so
long=$((patience * 6))

# By path, and by name.
"$patient" $long "$pjrtfs" --check-plugin "$so" >json 2>err || fail "$(cat err)"
equal "what is said beside it" "$(cat err)" ''
"$patient" $long "$pjrtfs" --check-plugin "$name" --plugin-dir "$plugins" --json >named
python3 - "$name" <<'END'
import json, sys

o = json.load(open("json"))
named = json.load(open("named"))
assert o["ok"] is True and o["name"] == sys.argv[1], o
assert o["path"].endswith("/pjrt_plugin.so") and named["path"] == o["path"]
assert o["api_version"].startswith("0.") and o["api_version"] == named["api_version"]
assert o["platform"] == "cpu" and len(o["devices"]) == 4
assert o["attributes"]["stablehlo_current_version"][0] == 1
memories = o["devices"][3]["memories"]
assert [m["kind"] for m in memories] == ["device", "pinned_host", "unpinned_host"]
assert o["devices"][3]["default_memory"] == 0
extensions = {e["name"]: e["functions"] for e in o["extension_details"]}
assert list(extensions) == o["extensions"]
assert extensions["Layouts"]["PJRT_Layouts_MemoryLayout_Serialize"] is True
assert extensions["FFI"]["PJRT_FFI_Register_Handler"] is True
assert extensions["PhaseCompile"]["PJRT_PhaseCompile_Get_Compiler"] is False
f = o["functions"]
assert f["present"] + len(f["missing"]) == f["known"] and f["in_table"] >= f["present"]
assert o["program"]["result"] == [20, -20, 135, -50], o["program"]
assert o["program"]["compile_seconds"] > 0 and o["program"]["execute_seconds"] > 0
END

# Custom calls of FFI libraries; those of a library for another plugin do not matter here.
cp "$build/tests/faults/ffi_library.so" library.so
cat >config.json <<END
{"ffi_libraries": ["$work/library.so", {"path": "$work/none.so", "plugin": "other"}]}
END
"$patient" $long "$pjrtfs" --check-plugin "$so" --config config.json --no-lapack >json 2>err || fail "$(cat err)"
python3 - "$work/library.so" <<'END'
import json, sys

o = json.load(open("json"))
assert o["custom_calls"]["test_fault"] == "library" and "test_newer" not in o["custom_calls"], o
assert o["refused_calls"]["test_newer"].startswith("the handler speaks version"), o
assert o["libraries"] == {sys.argv[1]: "ok"}, o
END

# refused PATTERN ARGUMENT...: status 1, one sentence.
refused()
{
	refuses 1 "$1" --check-plugin "${@:2}"
	equal "lines about ${*:2} ($(cat err))" "$(wc -l <err)" 1
}
# needs LIBRARY: make needs.so, which lacks it
needs()
{
	echo 'int f(void) { return 1; }' | ${CC:-cc} -shared -fPIC -x c -Wl,-soname,"$1" -o "$1" -
	echo 'int f(void); int g(void) { return f(); }' | ${CC:-cc} -shared -fPIC -x c -o needs.so - -x none "$1"
	rm "$1"
}
needs libmpi.so.12
refused 'plugin needs: libmpi.so.12 is missing: pip install impi-rt beside the plugin: .*No such file or directory$' ./needs.so
needs libmissing.so
refused 'plugin needs: .*libmissing.so: .*: install what has this library, or name its directory in LD_LIBRARY_PATH$' ./needs.so

# A plugin that starts and then gives wrong results, or none.
wrong()
{
	PJRTFS_FAULTY=$1 refused "$2" "$faulty" "${@:3}"
}
wrong none= 'plugin faulty_plugin: execute the program: faulty: argument 0'
wrong compile=error:INTERNAL:'cannot compile' 'compile a program: .*cannot compile'
wrong upload=error:INTERNAL:'cannot upload' 'upload an array: .*cannot upload'
wrong compile=abort:'dies now' 'compile a program: .*signal 6.*dies now'
wrong compile=hang 'compile a program: no answer within 1 s' --timeout 1
"$patient" $long "$pjrtfs" --check-plugin "$faulty" >out 2>err && fail "a wrong result is fine"
python3 -c '
import json
o = json.load(open("out"))
assert o["ok"] is False and "argument 0" in o["error"] and o["platform"] == "faulty", o'

# A plugin that makes no client tells what it is all the same.
PJRTFS_FAULTY=client=error:UNAVAILABLE:no "$patient" $long "$pjrtfs" --check-plugin "$faulty" >out 2>err &&
	fail "a plugin without a client is fine"
python3 -c '
import json
o = json.load(open("out"))
assert o["ok"] is False and o["error"] == "no" and o["api_version"] and o["extensions"], o'

# Wrong values; check_cmdline.c has wrong combinations.
fails_with 'timeout in seconds: expected a number from 1 to 3600, found 0' "$pjrtfs" --timeout 0 m
fails_with 'plugin nothing_such: not found' "$pjrtfs" --check-plugin nothing_such
