#!/bin/bash
# Checks that a program built without clang says that kernel hooks are missing, where they would
# change the answer. `watch` and `treat`, which need traffic, have tests of their words.
#
# Usage: check-without-hooks.sh TCPWHY
set -euo pipefail
tcpwhy=$1

# says WORDS ARGUMENT…: the words are in the answer.
says() {
    if ! "$tcpwhy" "${@:2}" | grep -F "$1" >/dev/null; then
        echo "tcpwhy ${*:2} does not say '$1'" >&2
        exit 1
    fi
}

says 'built without kernel hooks' --version
says 'built without kernel hooks' drops --for 1s --no-progress --width 200
says 'built without kernel hooks' drops --for 1s --no-progress --json
