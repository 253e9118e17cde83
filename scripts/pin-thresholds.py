#!/usr/bin/env python3
"""Measures which tests depend on each threshold, and writes them into docs/thresholds.md.

Usage: pin-thresholds.py [NAME...]

It makes a copy of the core below target/pins in which every constant of the files thresholds.rs is
a function whose result can be changed at run time. Then it diagnoses all traces and stored captures
with each threshold lowered and raised: halved and doubled, counts up to 8 by one. Where neither
makes a trace fail, the other tests of the core run with the threshold changed.
With names, only these are measured. What each change did, also a change by a factor of a hundred, is in
target/pins/pins.txt.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "target/pins"
CORE = COPY / "crates/core"
LAYERS = ["judge", "tcp", "dns", "findings", "experiment", "state", "compare", "join"]
PUB = r"(?:pub(?:\([a-z]+\))? )?"
CONSTANT = re.compile(rf"^( *)({PUB})const ([A-Z][A-Z0-9_]*): (\w+) =\s*([^;]+);", re.M)
CONST_FN = re.compile(r"^( *)(?:pub(?:\([a-z: ]+\))? )?const fn .*?^\1\}", re.M | re.S)
# The value of each threshold as the source states it, by name.
STATED = {}
# Tests that run besides those of the library, and parts of both that are slow or read no threshold.
TESTS = ["captures", "report", "diagnosis"]
SKIPPED = ["pins::", "folders::", "vantages::", "drawn::", "names::", "parts::", "of_traces", "memory::",
           "any_split", "flood::", "many::", "wire::", "capture::", "app::", "pipeline::", "lookups_are_bounded"]
TABLE = ROOT / "docs/thresholds.md"


def copy_tree():
    """Copies what the tests of the core need. Files that did not change keep their times."""
    listed = ["git", "ls-files", "-z", "Cargo.toml", "Cargo.lock", "README.md", "docs", "crates"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for old in list((COPY / "crates").rglob("*")):
        if old.is_file() and str(old.relative_to(COPY)) not in names:
            old.unlink()
    for name in filter(None, names):
        target = COPY / name
        if (ROOT / name).exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    if not (COPY / "testdata").exists():
        (COPY / "testdata").symlink_to(ROOT / "testdata")


def threshold_names():
    text = "".join((CORE / f"src/{layer}/thresholds.rs").read_text() for layer in LAYERS)
    return [match[3] for match in CONSTANT.finditer(text)]


def called(text, names):
    """Replaces the use of each of these constants by a call; imports and links stay as they are."""
    if not names:
        return text
    use = re.compile(r"\b(" + "|".join(names) + r")\b(?!\()")
    imports = re.compile(rf"^ *{PUB}use [^;]+;|^ *//.*$", re.M)
    pieces, last = [], 0
    for match in imports.finditer(text):
        pieces += [use.sub(r"\1()", text[last:match.start()]), match[0]]
        last = match.end()
    return "".join(pieces) + use.sub(r"\1()", text[last:])


def adjustable(text, is_own, known):
    """Returns the names that become functions in a file: its thresholds and constants made of them."""
    imports = " ".join(re.findall(r"\buse ([^;]*);", text))
    names = known & set(re.findall(r"\w+", imports))
    constants = {match[3]: match[5] for match in CONSTANT.finditer(text)}
    names |= {name for name in constants if is_own}
    while True:
        made = {name for name, value in constants.items() if names & set(re.findall(r"\w+", value))} - names
        if not made:
            return names
        names |= made


def make_adjustable(text, names, indexes):
    """Turns constants of a file into functions."""
    def function(match):
        indent, visible, name, kind, value = match.groups()
        if name not in names:
            return match[0]
        if name in indexes:
            value = f"crate::pins::value({indexes[name]}, {value})"
        return f"{indent}{visible}fn {name}() -> {kind} {{ {value} }}"

    text = called(CONSTANT.sub(function, text), names)
    text = re.sub(r"\bconst (fn [^}]*\b[A-Z_0-9]{3,}\(\))", r"\1", text)
    return CONST_FN.sub(lambda match: stated(match[0], names), text)


def stated(text, names):
    """Replaces calls in a function that computes constants by the value in the source."""
    return re.sub(r"\b([A-Z][A-Z0-9_]*)\(\)", lambda m: STATED.get(m[1], m[0]) if m[1] in names else m[0], text)


def build():
    copy_tree()
    names = threshold_names()
    indexes = {name: index for index, name in enumerate(names)}
    own = {CORE / f"src/{layer}/thresholds.rs" for layer in LAYERS}
    texts = {path: path.read_text() for path in (CORE / "src").rglob("*.rs")}
    STATED.update({match[3]: match[5] for path in own for match in CONSTANT.finditer(texts[path])})
    known, before = set(names), 0
    while len(known) > before:
        before = len(known)
        of_file = {path: adjustable(text, path in own, known) for path, text in texts.items()}
        known = known.union(*of_file.values())
    for path, text in texts.items():
        if of_file[path]:
            path.write_text(make_adjustable(text, of_file[path], indexes if path in own else {}))
    values = (ROOT / "scripts/pins/values.rs").read_text()
    listed = "".join(f'    "{name}",\n' for name in names)
    (CORE / "src/pins.rs").write_text(f"{values}\npub const NAMES: [&str; {len(names)}] = [\n{listed}];\n")
    lib, main = CORE / "src/lib.rs", CORE / "tests/diagnosis/main.rs"
    lib.write_text(lib.read_text() + "pub mod pins;\n")
    main.write_text(main.read_text() + "mod pins;\n")
    shutil.copy(ROOT / "scripts/pins/traces.rs", CORE / "tests/diagnosis/pins.rs")
    return names


def executables():
    """Builds the tests of the copy; returns the path of each executable by its target's name."""
    command = ["cargo", "test", "-p", "tcpwhy-core", "--locked", "--no-run", "--message-format=json", "--lib"]
    done = subprocess.run(command + [word for name in TESTS for word in ("--test", name)], cwd=COPY,
                          env={**os.environ, "CARGO_TARGET_DIR": str(COPY / "target")}, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    built = [json.loads(line) for line in done.stdout.splitlines()]
    return {one["target"]["name"]: one["executable"] for one in built if one.get("executable")}


def run(executable, *arguments, **variables):
    environment = {**os.environ, "INSTA_UPDATE": "no", "PROPTEST_CASES": "4", **variables}
    return subprocess.run([executable, *arguments], cwd=CORE, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def traces_that_fail(names, built):
    """Returns, by threshold and change, what differs: pairs of a trace or capture and how it differs."""
    out = run(built["diagnosis"], "--exact", "pins::pins", "--nocapture", PINS_OF=",".join(names))
    (COPY / "pins.txt").write_text(out)
    differ = collections.defaultdict(list)
    for name, change, how, case in re.findall(r"^pin (\S+) (\S+) (\S+) (\S+)$", out, re.M):
        differ[name, change].append((case, how))
    return differ


def tests_that_fail(name, built):
    """Returns at most one test for each direction in which `name` is changed."""
    found = []
    for change in ["Lower", "Higher"]:
        for executable in built.values():
            skipped = [word for part in SKIPPED for word in ("--skip", part)]
            out = run(executable, *skipped, PIN=f"{name}={change}")
            failed = sorted(re.findall(r"^test (\S+) \.\.\. FAILED$", out, re.M))
            if failed:
                found += [test for test in failed[:1] if test not in found]
                break
    return found


def pins(name, differ, often):
    """Returns at most two traces, one for each direction if possible; those that state an expectation, and
    that depend on few other thresholds, come first."""
    found = []
    for change in ["Lower", "Higher"]:
        traces = [pair for pair in differ[name, change] if "." not in pair[0]]
        traces.sort(key=lambda pair: (pair[1] != "expectation", often[pair[0]], pair[0]))
        found += [trace for trace, _ in traces[:1] if trace not in found]
    return found


def main():
    names = build()
    asked = sys.argv[1:] or names
    built = executables()
    differ = traces_that_fail(asked, built)
    often = collections.Counter(case for cases in differ.values() for case, _ in cases)
    text = TABLE.read_text()
    for name in asked:
        pinned = ", ".join(f"`{one}`" for one in pins(name, differ, often) or tests_that_fail(name, built))
        pinned = pinned or "no test"
        print(f"{name}: {pinned}")
        text = re.sub(rf"^(\| `{name}` \|.*\|) [^|]* \|$", rf"\1 {pinned} |", text, flags=re.M)
    TABLE.write_text(text)


if __name__ == "__main__":
    main()
