#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# docs/SECURITY.md has a row for each row of the table of vendors, with the same words.
exec python3 - "$srcdir/src/daemon/vendors.c" "$srcdir/docs/SECURITY.md" <<'END'
import re
import sys

code, page = (open(name, encoding="utf-8").read() for name in sys.argv[1:])
table = re.search(r"vendors\[\] = \{\n(.*?)\n\};", code, re.S)[1]
table = re.sub(r"/\*.*?\*/", "", table, flags=re.S)
rows = [" ".join(re.findall(r'"([^"]*)"', row)).split() for row in table.split("\n\t},")]
section = re.search(r"\n## What the plugins of a vendor get\n(.*?)\n## ", page, re.S)[1]
lines = [re.findall(r"`([^`]*)`", line) for line in section.splitlines() if line.startswith("| `")]
for row, line in zip([row for row in rows if row], lines, strict=True):
    if sorted(row) != sorted(line):
        sys.exit(f"the table of vendors has {' '.join(row)}; docs/SECURITY.md has {' '.join(line)}")
END
