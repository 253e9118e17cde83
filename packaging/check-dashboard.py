#!/usr/bin/env python3
"""Checks the Grafana dashboard of packaging/fleet against a Prometheus that runs.

Usage: check-dashboard.py DASHBOARD.json PROMETHEUS_URL

Structure: what Grafana needs to load it, ids and places that do not collide, variables that exist.
Queries: Prometheus answers each of them, and those named below with at least one series.
"""

import itertools
import json
import re
import sys
import urllib.parse
import urllib.request

# Empty answers are right here: nothing was lost an hour ago.
MAY_BE_EMPTY = ("offset",)
VALUES = {"instance": ".*", "endpoint": ".*", "cause": ".*", "before": "1h"}


def fail(text):
    sys.exit(f"check-dashboard: {text}")


def check_structure(dashboard):
    for key, kind in {
        "uid": str, "title": str, "schemaVersion": int, "panels": list,
        "templating": dict, "annotations": dict, "time": dict,
    }.items():
        if not isinstance(dashboard.get(key), kind):
            fail(f"{key} is missing, or no {kind.__name__}")
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    if missing := set(VALUES) - names:
        fail(f"variables are missing: {missing}")
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) - {"__all"}
    if used - names:
        fail(f"unknown variables: {used - names}")
    panels = dashboard["panels"]
    if len({panel["id"] for panel in panels}) != len(panels):
        fail("two panels have the same id")
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] + place["w"] > 24:
            fail(f"{panel['title']}: wider than the 24 columns")
        if panel["type"] not in ("stat", "table", "timeseries") or not panel["targets"]:
            fail(f"{panel['title']}: its type or its queries")
    for one, two in itertools.combinations(panels, 2):
        a, b = one["gridPos"], two["gridPos"]
        if (a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"]
                and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]):
            fail(f"{one['title']} covers {two['title']}")


def ask(url, query):
    query = re.sub(r"\$(\w+)", lambda it: VALUES[it[1]], query)
    url = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        fail(f"{query}: {error.read().decode()}")


def main():
    path, url = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        dashboard = json.load(file)
    check_structure(dashboard)
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [it["expr"] for it in dashboard["annotations"]["list"] if "expr" in it]
    for query in queries:
        if not ask(url, query) and not any(word in query for word in MAY_BE_EMPTY):
            fail(f"no series: {query}")
    print(f"check-dashboard: Prometheus answers {len(queries)} queries")


main()
