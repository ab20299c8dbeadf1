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

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


class Wrong(Exception):
    pass


def unescape_help(text):
    if re.sub(r"\\[\\n]", "", text).count("\\"):
        raise Wrong("a backslash in HELP that escapes nothing")


def parse_labels(text, at):
    """The labels of TEXT from the brace at AT on, and where they end."""
    labels = {}
    at += 1
    while text[at] != "}":
        end = text.index("=", at)
        name = text[at:end]
        if not LABEL.match(name) or name.startswith("__"):
            raise Wrong(f"no label's name: {name!r}")
        if text[end + 1] != '"':
            raise Wrong("a label's value has no quotes")
        at = end + 2
        value = ""
        while text[at] != '"':
            if text[at] == "\\":
                at += 1
                if text[at] not in '\\"n':
                    raise Wrong(f"no escape: \\{text[at]}")
                value += "\n" if text[at] == "n" else text[at]
            else:
                value += text[at]
            at += 1
        at += 1
        if name in labels:
            raise Wrong(f"the label {name} is there twice")
        labels[name] = value
        if text[at] == ",":
            at += 1
        elif text[at] != "}":
            raise Wrong("expected a comma or a brace after a label")
    return labels, at + 1


def parse_value(text):
    if text in ("+Inf", "-Inf", "NaN"):
        return float(text.replace("Inf", "inf"))
    if not re.match(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\Z", text):
        raise Wrong(f"no value: {text!r}")
    return float(text)


def parse_sample(line):
    end = re.match(r"[^{ ]*", line).end()
    name, labels = line[:end], {}
    if not NAME.match(name):
        raise Wrong(f"no metric's name: {name!r}")
    try:
        if line[end : end + 1] == "{":
            labels, end = parse_labels(line, end)
    except (IndexError, ValueError):
        raise Wrong("the labels do not end") from None
    words = line[end:].split(" ")
    if len(words) != 2 or words[0]:
        raise Wrong("expected one space and a value after the name")
    return name, labels, parse_value(words[1])


def family_of(name, families):
    if name in families and families[name]["type"] != "histogram":
        return name
    for suffix in ("_bucket", "_sum", "_count"):
        base = name[: -len(suffix)]
        if name.endswith(suffix) and base in families:
            if suffix in SUFFIXES.get(families[base]["type"], ()):
                return base
    raise Wrong(f"{name} has no TYPE before it")


def check_histogram(name, samples):
    series = {}
    for sample, labels, value in samples:
        rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        one = series.setdefault(rest, {"buckets": []})
        if sample.endswith("_bucket"):
            if "le" not in labels:
                raise Wrong(f"a bucket of {name} has no le")
            one["buckets"].append((parse_value(labels["le"]), value))
        elif "le" in labels:
            raise Wrong(f"{sample} has le")
        else:
            one[sample[len(name) :]] = value
    for rest, one in series.items():
        what = f"{name}{dict(rest)}"
        bounds = [b for b, _ in one["buckets"]]
        counts = [c for _, c in one["buckets"]]
        if bounds != sorted(set(bounds)) or not bounds or bounds[-1] != math.inf:
            raise Wrong(f"{what}: the bounds do not rise to +Inf: {bounds}")
        if counts != sorted(counts):
            raise Wrong(f"{what}: the buckets do not rise: {counts}")
        if one.get("_count") != counts[-1]:
            raise Wrong(f"{what}: _count is {one.get('_count')}, +Inf {counts[-1]}")
        if "_sum" not in one or (not counts[-1] and one["_sum"]):
            raise Wrong(f"{what}: a wrong or missing _sum")


def parse(data):
    """All samples of DATA, bytes: a dictionary of (name, labels) to value."""
    text = data.decode("utf-8")
    if text and not text.endswith("\n"):
        raise Wrong("the last line has no newline")
    if "\r" in text:
        raise Wrong("a carriage return")
    families, samples, closed, current = {}, {}, set(), None
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP ") or line.startswith("# TYPE "):
            words = line.split(" ", 3)
            if len(words) < 4 or not NAME.match(words[2]):
                raise Wrong(f"no {words[1]}: {line!r}")
            one = families.setdefault(words[2], {"type": None, "samples": []})
            if words[1].lower() in one and one[words[1].lower()]:
                raise Wrong(f"{words[1]} of {words[2]} is there twice")
            if one["samples"]:
                raise Wrong(f"{words[1]} of {words[2]} comes after its samples")
            if words[1] == "TYPE" and words[3] not in TYPES:
                raise Wrong(f"no type: {words[3]}")
            if words[1] == "HELP":
                unescape_help(words[3])
            one[words[1].lower()] = words[3]
            continue
        if line.startswith("#"):
            continue
        if not line.strip():
            raise Wrong("an empty line")
        name, labels, value = parse_sample(line)
        base = family_of(name, families)
        if base != current:
            if base in closed:
                raise Wrong(f"the samples of {base} are not together")
            closed.add(base)
            current = base
        if families[base]["type"] is None or "help" not in families[base]:
            raise Wrong(f"{base} has no HELP or TYPE")
        key = (name, tuple(sorted(labels.items())))
        if key in samples:
            raise Wrong(f"twice: {line}")
        if families[base]["type"] == "counter" and (value < 0 or not base.endswith("_total")):
            raise Wrong(f"no counter's name or value: {line}")
        samples[key] = value
        families[base]["samples"].append((name, labels, value))
    for base, one in families.items():
        if one["type"] == "histogram":
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
