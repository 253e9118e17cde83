#!/bin/bash
# Runs chosen tests again and again, first on the machine as it is and then beside busy loops, and
# lists how often each failed.
#
# Usage: [TIMES=20] [BUSY=2] repeat.sh [CARGO OPTION…] -- FILTER…
#   repeat.sh -p tcpwhy-probe -- a_server_that     (without options: the tests of all crates)
# Status: 0 if none failed. What each failed run printed is kept in target/repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
# Debian's ordinary users have nginx and ip installed, but not in PATH.
PATH=$PATH:/usr/sbin:/sbin
times=${TIMES:-20}
busy=${BUSY:-2}
threads=$((4 * $(nproc)))

options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
done
[ $# -gt 1 ] || { sed -n '2,8s/^# \?//p' "$0" >&2; exit 2; }
shift
[ ${#options[@]} -gt 0 ] || options=(--workspace)

kept=${CARGO_TARGET_DIR:-target}/repeat
rm -rf "$kept"
mkdir -p "$kept"
loops=()
trap '[ ${#loops[@]} -eq 0 ] || kill "${loops[@]}"' EXIT

# repeat WEATHER FILTER…: runs the tests, and keeps what failing runs print.
repeat() {
    local weather=$1 output passed=0
    shift
    for number in $(seq "$times"); do
        output=$kept/$weather.$number
        if cargo test --locked --no-fail-fast "${options[@]}" -- --test-threads "$threads" "$@" \
            >"$output" 2>&1; then
            passed=$(awk '/^test result: / { sum += $4 } END { print sum + 0 }' "$output")
            rm "$output"
        fi
    done
    echo "$weather: $times runs, $passed tests in the last good one"
}

cargo test --locked --no-run "${options[@]}"
repeat idle "$@"
for _ in $(seq "$busy"); do
    (while :; do :; done) &
    loops+=($!)
done
repeat busy "$@"

failed=$(cat "$kept"/* 2>/dev/null | grep -c '^test .* FAILED$' || true)
if [ "$(ls "$kept")" = '' ]; then
    echo "none failed"
    exit
fi
# A run that ended without a verdict on its tests counts, too.
echo "failures, of $times runs each ($failed in all; output in $kept):"
for file in "$kept"/*; do
    weather=$(basename "${file%.*}")
    awk -v weather="$weather" '
        /^test .* FAILED$/ { print weather " " $2; found = 1 }
        END { if (!found) print weather " (the run itself)" }' "$file"
done | sort | uniq -c
exit 1
