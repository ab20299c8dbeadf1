# SPDX-License-Identifier: Apache-2.0
"""monitoring.py DOCS: what docs/examples has for Prometheus and Grafana asks for metrics that there are.

Prints the queries of the dashboard as rules, for promtool.  Needs PyYAML.
"""

import json
import pathlib
import re
import sys

import yaml

DOCS = pathlib.Path(sys.argv[1])
FAMILIES = json.loads((DOCS / "schema/metrics.json").read_text())["families"]
OTHERS = {"up": ["job", "instance"], "node_textfile_mtime_seconds": ["file", "instance"]}
PARTS = ("_bucket", "_sum", "_count")
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$instance": ".*"}
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
    """The labels that a title or message names are there."""
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


def check_panel(panel, datasource):
    title = panel["title"]
    for target in panel["targets"]:
        known = check_query(title, target["expr"])
        check_text(title, target["legendFormat"], known)
        expect(f"the chosen data source in {title}", target["datasource"] == panel["datasource"] == datasource)
    at = panel["gridPos"]
    expect(f"{title} within the 24 columns", 0 <= at["x"] and at["x"] + at["w"] <= 24)
    return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}


def check_dashboard():
    board = json.loads((DOCS / "examples/grafana.json").read_text())
    variables = {v["name"]: v for v in board["templating"]["list"]}
    expect("a data source to choose", variables["datasource"]["type"] == "datasource")
    expect("a query of instances", "label_values(pjrtfs_info, instance)" in variables["instance"]["definition"])
    expect("a number of the schema and no id", board["schemaVersion"] >= 36 and board["id"] is None)
    ids = [panel["id"] for panel in board["panels"]]
    expect(f"ids that differ, not {ids}", len(set(ids)) == len(ids))
    taken = set()
    for panel in board["panels"]:
        places = check_panel(panel, {"type": "prometheus", "uid": "${datasource}"})
        expect(f"a place of its own for {panel['title']}", not places & taken)
        taken |= places
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def as_rules(queries):
    for name, value in VARIABLES.items():
        queries = [query.replace(name, value) for query in queries]
    rules = [{"record": f"query{n}", "expr": query} for n, query in enumerate(queries)]
    return yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]})


check_alerts()
found = check_dashboard()
print(as_rules(found), end="")
sys.exit("\n".join(wrong) or 0)
