"""Keeps truth.json, the compact truth about each capture, and writes README.md from it.

truth.py add NAME VANTAGE LABELS.json COMMAND    takes over what the lab says of a capture
truth.py copy NAME NEW COMMAND                   the same traffic, rewritten by COMMAND
truth.py readme                                  writes README.md
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
TRUTH = HERE / "truth.json"

INTRODUCTION = """\
# Captures with known truth

Small captures of real software, made for this project in network namespaces: on a veth cable, or
over the lab's link emulator where a round trip is given. `make.sh` makes them anew (or only those
named as arguments), from the list in `captures.txt`. What is true comes from the client's own clock,
from the set-up and from the healthy twin's run, never from an analysis of the packets; `truth.json`
holds it for the tests.

A file `NAME-healthy` is the same load without the fault, run right after. Each capture is one of the
two taken, at the named end; `NAME-client` and `NAME-server` are both of one run. `lost` is the time that the cause cost all requests together, `wall`
what all requests took. `oracle/` holds what tshark and tcptrace say of the same files.
"""


def load():
    return json.loads(TRUTH.read_text()) if TRUTH.exists() else []


def file_of(name):
    return next(p.name for p in sorted((HERE / "captures").iterdir()) if p.name.startswith(name + ".pcap"))


def add(name, vantage, labels, command):
    said = json.loads(pathlib.Path(labels).read_text())
    capture = next((c for c in said["captures"] if c["vantage"] == vantage), {})
    one = {
        "name": name,
        "file": file_of(name),
        "vantage": vantage,
        "packets": capture.get("packets"),
        "class": said["class"],
        "causes": [
            {key: cause[key] for key in
             ("cause", "culprit_role", "culprit_endpoint", "lost_ns", "also_right")}
            for cause in said["causes"]
        ],
        "exchanges": said["exchanges"],
        "failed": sum(1 for request in said["requests"] if request["error"]),
        "wall_ns": said["wall_ns"],
        "latency_ns": said["latency_ns"],
        "command": command,
        "params": said["params"],
        "versions": said["versions"],
    }
    keep(one)


def keep(one):
    rest = [other for other in load() if other["name"] != one["name"]]
    TRUTH.write_text(json.dumps(sorted(rest + [one], key=lambda o: o["name"]), indent=1) + "\n")


def copy(name, new, command):
    one = next(one for one in load() if one["name"] == name)
    keep(one | {"name": new, "file": file_of(new), "command": f"{command} on {one['file']}"})


def ms(ns):
    return "?" if ns is None else f"{ns / 1e6:.1f} ms"


def version(name, said):
    """`nginx 1.22.1`: the first word with a digit in what a program says of itself."""
    words = said.replace("/", " ").replace("v=", " ").split()
    number = next((word for word in words if word[:1].isdigit()), said)
    return f"{name} {number}"


def truth_in_words(one):
    if one["class"] == "none":
        return "no fault"
    words = []
    for cause in one["causes"]:
        also = f" (or {', '.join(cause['also_right'])})" if cause["also_right"] else ""
        where = f" {cause['culprit_endpoint']}" if cause["culprit_endpoint"] else ""
        words.append(f"{one['class']} `{cause['cause']}`{also} by {cause['culprit_role']}{where}, "
                     f"lost {ms(cause['lost_ns'])}")
    return "; ".join(words)


def readme():
    lines = [INTRODUCTION]
    for one in load():
        versions = ", ".join(version(name, said) for name, said in one["versions"].items())
        params = ", ".join(f"{k} {v}" for k, v in one["params"].items() if v)
        p50 = ms(one["latency_ns"]["p50_ns"])
        lines += [
            f"## {one['file']}",
            f"- truth: {truth_in_words(one)}",
            f"- at the {one['vantage']}; {one['exchanges']} requests, wall {ms(one['wall_ns'])}, "
            f"p50 {p50}",
            f"- `{one['command']}`",
            f"- parameters: {params}",
            f"- software: {versions}",
            "",
        ]
    (HERE / "README.md").write_text("\n".join(lines))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["add", name, vantage, labels, command]:
            add(name, vantage, labels, command)
        case ["copy", name, new, command]:
            copy(name, new, command)
        case ["readme"]:
            readme()
        case _:
            sys.exit(__doc__)
