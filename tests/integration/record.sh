#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: deep
# SANITIZE: none
# scripts/record makes the recording of README.md: all that it types is answered in it, and each line has its times.
. "$srcdir/tests/lib.sh"
requires_mount
requires tmux -V
requires test -e "$top/plugins/cpu/pjrt_plugin.so"

PJRTFS_BUILD=$build "$patient" $((patience * 5)) "$top/scripts/record" >recording.svg 2>said || fail "$(cat said)"
[ "$(wc -c <recording.svg)" -lt 150000 ] || fail "the recording is large: $(wc -c <recording.svg)"
python3 - recording.svg <<'END'
import re, sys, xml.etree.ElementTree as xml
root = xml.parse(sys.argv[1]).getroot()
texts = "\n".join("".join(e.itertext()) for e in root.iterfind(".//{*}text"))
for shown in (r"^\$ cp ~/add\.mlir programs/", "Invalid argument$", "^close programs/wrong.mlir: line 3, column ", "^11 22 33$",
              r"^cpu:0 .* running .*% +add$", r"^ok: z F32\[2,3\] on cpu:0 in "):
    assert re.search(shown, texts, re.M), (shown, texts)
rules = re.findall(r"@keyframes (\w+)", root.find("{*}style").text)
names = [e.get("style").partition(":")[2] for e in root.iterfind(".//{*}g")]
assert set(names) == set(rules), (names, rules)
END
