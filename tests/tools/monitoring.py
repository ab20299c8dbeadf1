# SPDX-License-Identifier: Apache-2.0
"""monitoring.py DOCS: what docs/examples has for Prometheus asks for metrics that there are.  Needs PyYAML."""

import json
import pathlib
import re
import sys

import yaml

DOCS = pathlib.Path(sys.argv[1])
FAMILIES = json.loads((DOCS / "schema/metrics.json").read_text())["families"]
OTHERS = {"up": ["job", "instance"], "node_textfile_mtime_seconds": ["file", "instance"]}
PARTS = ("_bucket", "_sum", "_count")
wrong = []


def expect(what, holds):
    if not holds:
        wrong.append(f"expected {what}")


def labels_of(name):
    """The labels of the samples NAME, and those that Prometheus adds; None: there is no such metric."""
    if name in OTHERS:
        return OTHERS[name]
    family = next((name.removesuffix(part) for part in PARTS if name.endswith(part)), name)
    about = FAMILIES.get(family)
    if not about or (family != name) != (about["type"] == "histogram"):
        return None
    return [*about["labels"], "instance", "job", *(["le"] if name.endswith("_bucket") else [])]


def check_query(where, query):
    names = re.findall(r"\b(pjrtfs_\w+|up|node_\w+)\b(?:\{([^}]*)\})?", query)
    expect(f"a metric in {where}: {query}", names)
    known = set()
    for name, matchers in names:
        labels = labels_of(name)
        expect(f"a metric, not {name}, in {where}", labels is not None)
        known.update(labels or [])
        for label in re.findall(r"(\w+)\s*[=!]", matchers):
            expect(f"a label of {name}, not {label}, in {where}", label in (labels or []))
    for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
        for label in group.split(", "):
            expect(f"a label, not {label}, in {where}: {query}", label in known)
    return known


def check_text(where, text, known):
    """The labels that a message names are there."""
    for label in re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text):
        expect(f"a label of the query, not {label}, in {where}", label in known)


def check_alerts():
    rules = [rule for group in yaml.safe_load((DOCS / "examples/alerts.yml").read_text())["groups"] for rule in group["rules"]]
    tests = (DOCS / "examples/alerts_test.yml").read_text()
    expect(f"eight alerts or more, not {len(rules)}", len(rules) >= 8)
    for rule in rules:
        name = rule["alert"]
        known = check_query(name, rule["expr"])
        expect(f"a test of {name}", f'alertname="{name}", alertstate="firing"' in tests)
        for text in (rule["annotations"]["summary"], rule["annotations"]["description"]):
            check_text(name, text, known)


check_alerts()
sys.exit("\n".join(wrong) or 0)
