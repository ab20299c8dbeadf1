# SPDX-License-Identifier: Apache-2.0
"""names.py MANUAL MOUNT...: the names in the mounts are those of the manual's SYNOPSIS.

Each file and directory of a mount must be named there, and each name there must be in one of the mounts.
"""

import itertools
import os
import re
import sys

# what users name: these need not be there, and STEM can have slashes
GIVEN = re.compile(r"^(programs|topologies|buffers|devices/NAME/N/buffers)/")


def synopsis(manual):
    """The names there: "plugins/NAME/path"."""
    with open(manual, encoding="utf-8") as f:
        text = f.read().split("=head1 SYNOPSIS\n")[1].split("\n=head1")[0]
    directory = ""
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if not line.startswith(" " * 8):
            directory = words.pop(0) if words[0].endswith("/") else ""
        for word in words:
            # devices' buffers are like the others
            inner = [f"buffers/STEM.{e}" for e in ("npy", "txt", "raw", "safetensors", "json")]
            for name in inner if word == "buffers/" else expanded(word):
                yield directory + name


def expanded(word):
    """a/{b,c}: a/b a/c."""
    parts = [p.split(",") for p in re.split(r"[{}]", word) if p]
    return ["".join(p) for p in itertools.product(*parts)]


def pattern(name):
    """A word in capitals is the user's, except the name README."""
    words = re.split(r"(?<![A-Za-z_])(?!README)([A-Z]+)(?![A-Za-z_])", name)
    return re.compile("".join(".+" if w == "STEM" else "[^/]+" if w.isupper() and w != "README"
                              else re.escape(w) for w in words))


def found(mount):
    for at, dirs, files in os.walk(mount, onerror=print):
        for name in dirs + files:
            path = os.path.join(at, name)
            yield os.path.relpath(path, mount), os.path.isdir(path), os.path.islink(path)


def main():
    names = list(synopsis(sys.argv[1]))
    files = {n: pattern(n) for n in names}
    dirs = {d: pattern(d) for n in names
            for d in itertools.accumulate(n.split("/")[:-1], lambda a, b: a + "/" + b)}
    seen, wrong = set(), []
    for mount in sys.argv[2:]:
        for path, is_dir, is_link in found(mount):
            # a link to a directory is named as a file, or as a directory
            tables = {**(dirs if is_dir else {}), **(files if is_link or not is_dir else {})}
            known = [n for n, p in tables.items() if p.fullmatch(path)]
            seen.update(known)
            if not known and not (is_dir and GIVEN.match(path)):
                wrong.append(f"not in the manual's SYNOPSIS: {path}")
    wrong += [f"in the manual's SYNOPSIS, and in no mount: {n}" for n in files
              if n not in seen and not GIVEN.match(n)]
    print(*wrong, f"{len(seen)} names", sep="\n")
    sys.exit(1 if wrong or len(seen) < 50 else 0)


main()
