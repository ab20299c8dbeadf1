# SPDX-License-Identifier: Apache-2.0
"""names.py DOCS MOUNT...: the names in the mounts are those of the SYNOPSIS of pjrtfs(5).

Each file and directory of a mount must be named there, and each name there must be in one of the mounts,
and in the text of one of the pages in DOCS.  A file that can be written has a mark there: + or *.
"""

import glob
import itertools
import os
import re
import stat
import sys

# what users name: these need not be there, and STEM can have slashes
GIVEN = re.compile(r"^(programs|topologies|buffers|devices/NAME/N/buffers)/")


def read(page):
    with open(page, encoding="utf-8") as f:
        return f.read()


def synopsis(docs):
    """The names there, with their marks: "plugins/NAME/path+"."""
    text = read(f"{docs}/pjrtfs.5.pod").split("=head1 SYNOPSIS\n")[1].split("\n=head1")[0]
    directory = ""
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if not line.startswith("    "):
            continue
        if not line.startswith(" " * 8):
            directory = words.pop(0) if words[0].endswith("/") else ""
        for word in words:
            # devices' buffers are like the others
            inner = [f"buffers/STEM.{e}" for e in ("npy+", "txt+", "raw+", "safetensors+", "json")]
            for name in inner if word == "buffers/" else expanded(word):
                yield directory + name


def expanded(word):
    """a/{b,c}: a/b a/c."""
    parts = [p.split(",") for p in re.split(r"[{}]", word) if p]
    return ["".join(p) for p in itertools.product(*parts)]


def own(name):
    """The parts of a name that pjrtfs gives, as ".max" of RESOURCE.max."""
    parts = [re.sub(r"(?!README)[A-Z]{3,}|\bN\b", "", part) for part in name.split("/")]
    return [part for part in parts if part]


def described(docs):
    """The names in the text of the pages, outside of a SYNOPSIS."""
    text = "".join(re.sub(r"=head1 SYNOPSIS\n.*?(?==head1)", "", read(page), flags=re.S)
                   for page in glob.glob(f"{docs}/*.pod"))
    return {part for words in re.findall(r"[BF]<([^<>]+)>", text) for word in words.split()
            for part in own(word)}


def pattern(name):
    """A word in capitals is the user's, except the name README."""
    words = re.split(r"(?<![A-Za-z_])(?!README)([A-Z]+)(?![A-Za-z_])", name)
    return re.compile("".join(".+" if w == "STEM" else "[^/]+" if w.isupper() and w != "README"
                              else re.escape(w) for w in words))


def found(mount):
    for at, dirs, files in os.walk(mount, onerror=print):
        for name in dirs + files:
            path = os.path.join(at, name)
            yield os.path.relpath(path, mount), os.path.isdir(path), os.path.islink(path), may_write(path)


def may_write(path):
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) and mode & 0o222


def main():
    marked = list(synopsis(sys.argv[1]))
    names = [name.rstrip("+*") for name in marked]
    written = {name.rstrip("+*") for name in marked if name[-1] in "+*"}
    files = {n: pattern(n) for n in names}
    dirs = {d: pattern(d) for n in names
            for d in itertools.accumulate(n.split("/")[:-1], lambda a, b: a + "/" + b)}
    seen, wrong = set(), []
    for mount in sys.argv[2:]:
        for path, is_dir, is_link, is_written in found(mount):
            # a link to a directory is named as a file, or as a directory
            tables = {**(dirs if is_dir else {}), **(files if is_link or not is_dir else {})}
            known = [n for n, p in tables.items() if p.fullmatch(path)]
            seen.update(known)
            if not known and not (is_dir and GIVEN.match(path)):
                wrong.append(f"not in the manual's SYNOPSIS: {path}")
            if is_written and known and not written.intersection(known):
                wrong.append(f"has no mark in the manual's SYNOPSIS, and can be written: {path}")
    wrong += [f"in the manual's SYNOPSIS, and in no mount: {n}" for n in files
              if n not in seen and not GIVEN.match(n)]
    words = described(sys.argv[1])
    wrong += [f"in the manual's SYNOPSIS, and in the text of no page: {n}" for n in files
              if own(n)[-1] not in words]
    print(*wrong, f"{len(seen)} names", sep="\n")
    sys.exit(1 if wrong or len(seen) < 50 else 0)


main()
