#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check Prometheus' text format 0.0.4 strictly, and print what was asked for.

    prometheus.py FILE                     check it
    prometheus.py FILE NAME{a="b"}...      and print the values of these samples
    prometheus.py --selftest               check that it finds errors

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import math
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'(?!__)[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
VALUE = r"[+-]Inf|NaN|[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL}(?:,|(?=\}})))*)\}})? ({VALUE})")
META = re.compile(rf"# (HELP|TYPE) ({NAME}) (.*)")
HELP = re.compile(r"(?:[^\\]|\\[\\n])*")
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


class Wrong(Exception):
    pass


def expect(what, holds):
    if not holds:
        raise Wrong(f"expected {what}")


def number(text):
    return float(text.replace("Inf", "inf"))


def parse_sample(line):
    found = SAMPLE.fullmatch(line)
    expect(f"a sample, not {line!r}", found)
    pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2] or "")
    labels = {k: re.sub(r"\\(.)", lambda m: m[1].replace("n", "\n"), v) for k, v in pairs}
    expect(f"each label once: {line}", len(labels) == len(pairs))
    return found[1], labels, number(found[3])


def family_of(name, families):
    for suffix in ("", "_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if name.endswith(suffix) and base in families and \
                suffix in SUFFIXES.get(families[base].get("TYPE"), ("",)):
            return base
    raise Wrong(f"{name} has no TYPE before it")


def check_histogram(name, samples):
    series = {}
    for sample, labels, value in samples:
        rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        one = series.setdefault(rest, {"buckets": []})
        expect(f"le in buckets alone: {sample}", ("le" in labels) == sample.endswith("_bucket"))
        if "le" in labels:
            one["buckets"].append((number(labels["le"]), value))
        else:
            one[sample[len(name):]] = value
    for rest, one in series.items():
        bounds, counts = [b for b, _ in one["buckets"]], [c for _, c in one["buckets"]]
        what = f"{name}{dict(rest)}: "
        expect(f"{what}bounds that rise to +Inf: {bounds}",
               bounds == sorted(set(bounds)) and bounds[-1:] == [math.inf])
        expect(f"{what}buckets that rise: {counts}", counts == sorted(counts))
        expect(f"{what}_count of +Inf: {one}", one.get("_count") == counts[-1])
        expect(f"{what}a _sum: {one}", "_sum" in one and (counts[-1] or not one["_sum"]))


def take_meta(line, families):
    found = META.fullmatch(line)
    expect(f"a name and more: {line!r}", found)
    kind, name, text = found.groups()
    one = families.setdefault(name, {"samples": []})
    expect(f"once, and before samples: {line}", kind not in one and not one["samples"])
    expect(f"a type: {line}", kind == "HELP" or text in TYPES)
    expect(f"escapes in: {line}", kind == "TYPE" or HELP.fullmatch(text))
    one[kind] = text


def parse(data):
    """All samples of DATA, bytes: a dictionary of (name, labels) to value."""
    text = data.decode("utf-8")
    expect("a newline at the end", text[-1:] in ("", "\n"))
    expect("no carriage return", "\r" not in text)
    families, samples, current = {}, {}, None
    for line in text.split("\n")[:-1]:
        if line.startswith(("# HELP ", "# TYPE ")):
            take_meta(line, families)
        elif not line.startswith("#"):
            name, labels, value = parse_sample(line)
            base = family_of(name, families)
            one = families[base]
            expect(f"samples of {base} together", base == current or not one["samples"])
            current = base
            expect(f"HELP and TYPE of {base}", "HELP" in one and "TYPE" in one)
            key = (name, tuple(sorted(labels.items())))
            expect(f"once: {line}", key not in samples)
            expect(f"a counter's name and value: {line}",
                   one["TYPE"] != "counter" or (value >= 0 and base.endswith("_total")))
            samples[key] = value
            one["samples"].append((name, labels, value))
    for base, one in families.items():
        if one.get("TYPE") == "histogram":
            check_histogram(base, one["samples"])
    return samples


GOOD = """# HELP a_total A \\\\ b.
# TYPE a_total counter
a_total{x="1",y="q\\"\\\\\\n"} 3
a_total{x="2",y=""} 4.5
# HELP h H.
# TYPE h histogram
h_bucket{le="0.1"} 1
h_bucket{le="+Inf"} 2
h_sum 0.3
h_count 2
"""

BAD = [
    ("a_total{x=", "a-total{x="),
    ('"1",y', '"1" ,y'),
    ('y="q', '9="q'),
    ('y="q', 'x="q'),
    ('\\"', "\\q"),
    ('x="2",y=""', 'x="1",y="q\\"\\\\\\n"'),
    (" 3", " 3x"),
    (" 3", "  3"),
    (" 4.5", " -1"),
    ("# TYPE a_total counter\n", ""),
    ("# HELP a_total A \\\\ b.\n", ""),
    ("counter", "counters"),
    ("a_total", "a"),
    ("A \\\\ b", "A \\ b"),
    ("h_sum 0.3\n", ""),
    ("h_count 2", "h_count 3"),
    ('"+Inf"} 2', '"+Inf"} 0'),
    ('"+Inf"', '"5"'),
    ('le="0.1"', 'lf="0.1"'),
    ("h_count 2\n", "h_count 2"),
    ("h_count 2\n", "h_count 2\n\n"),
    ("h_count 2\n", 'h_count 2\na_total{x="3",y=""} 1\n'),
    ("h_count 2\n", "h_count 2\n# TYPE h histogram\n"),
]


def selftest():
    samples = parse(GOOD.encode())
    assert samples[("a_total", (("x", "1"), ("y", 'q"\\\n')))] == 3
    for old, new in BAD:
        assert old in GOOD, old
        try:
            parse(GOOD.replace(old, new).encode())
        except Wrong:
            continue
        sys.exit(f"not found: {new!r} in place of {old!r}")


def main():
    if sys.argv[1] == "--selftest":
        selftest()
        return
    with open(sys.argv[1], "rb") as file:
        samples = parse(file.read())
    for asked in sys.argv[2:]:
        name, labels, _ = parse_sample(asked + " 0")
        value = samples.get((name, tuple(sorted(labels.items()))))
        print("none" if value is None else f"{value:.15g}")


try:
    main()
except Wrong as wrong:
    sys.exit(f"{sys.argv[1]}: {wrong}")
