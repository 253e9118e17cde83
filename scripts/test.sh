#!/bin/bash
# Runs the tests of all crates, and closes with which were skipped, why, and one line of all counts.
#
# Usage: test.sh [FILTER…]     Status: that of the tests.
#        test.sh --build        builds the tests, and runs none.
#
# The tests of the core compute: they run one binary after the other. Those of the other crates mostly wait
# for servers and timers, so their binaries run beside each other: cargo starts each through this script.
# What they measure may be spoilt by what runs beside them: the few that fail there run once more, alone at
# the end, and that result counts. The closing lines name them.
set -euo pipefail

build=
case ${1:-} in
--build)
    build=1
    shift
    ;;
--run)
    shift
    if [ "${PWD##*/}" = core ]; then
        exec "$@"
    fi
    : >"$TCPWHY_TESTS/${1##*/}.output"
    # Not as a job of bash, which would ignore Ctrl-C: tests send it to what they start. It does not hold
    # the pipe of this run's output, whose reader waits for its end.
    exec setsid --fork "$0" --beside "$@" >/dev/null 2>&1
    ;;
--beside)
    shift
    name=$TCPWHY_TESTS/${1##*/}
    echo $$ >"$name.pid"
    { declare -p PWD CARGO_MANIFEST_DIR | sed 's/^declare -[^ ]*/export/' && printf 'cd "$PWD"\n'; } \
        >"$name.environment"
    echo "$1" >"$name.binary"
    status=0
    RUST_TEST_THREADS=$((4 * $(nproc))) env --default-signal "$@" >"$name.output" 2>&1 || status=$?
    echo "$status" >"$name.status"
    exit
    ;;
esac

cd "$(dirname "$0")/.."
# `ip netns exec` wants a mount as its root, which that of a chroot is not: here it becomes one.
if [ -z "$build" ] && [ "$(id -u)" -eq 0 ] && ! mountpoint -q / && [ -z "${TCPWHY_ROOT_IS_MOUNT:-}" ]; then
    export TCPWHY_ROOT_IS_MOUNT=1
    exec unshare --mount --propagation unchanged sh -c \
        'mount --rbind / /mnt && exec chroot /mnt "$@"' sh "$PWD/scripts/test.sh" "$@"
fi
# Debian's ordinary users have nginx and ip installed, but not in PATH.
PATH=$PATH:/usr/sbin:/sbin
# The same random cases each time: a test that fails was broken by a change, not found by chance.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}
TCPWHY_TESTS=$(mktemp -d)
export TCPWHY_TESTS TCPWHY_SKIPPED=$TCPWHY_TESTS/skipped
touch "$TCPWHY_SKIPPED"

end() {
    for pid in "$TCPWHY_TESTS"/*.pid; do
        if [ -e "$pid" ] && ! [ -e "${pid%.pid}.status" ]; then
            kill -- "-$(cat "$pid")" || true
        fi
    done
    rm -r "$TCPWHY_TESTS"
}
trap end EXIT
trap 'exit 130' INT TERM HUP

status=0
# tests OPTION…: the tests of the targets that the options choose.
tests() {
    if [ -n "$build" ]; then
        cargo test --locked --no-run "$@"
        return
    fi
    cargo test --locked --no-fail-fast "$@" \
        --config "target.'cfg(all())'.runner = ['$PWD/scripts/test.sh', '--run']" \
        -- "${filters[@]}" | tee -a "$TCPWHY_TESTS/cargo" || status=$?
}
filters=("$@")
# The optimiser takes longer for the tests within the crates, and for what the programs of tests read,
# than it saves when they run; without it, they share their libraries with what `make run` has built.
plain=(--workspace --config profile.test.package.tcpwhy-core.opt-level=0)
tests "${plain[@]}" --lib --config profile.test.package.tcpwhy-probe.opt-level=0
tests "${plain[@]}" --exclude tcpwhy-core --bins --test '*'
for output in "$TCPWHY_TESTS"/*.output; do
    [ -e "$output" ] || continue
    until [ -e "${output%.output}.status" ]; do
        sleep 0.2
    done
    printf '\n     Beside it %s\n' "$(basename "$output" .output)"
    tee -a "$TCPWHY_TESTS/cargo" <"$output"
done
# By name in the workspace, so that what they use is as the other tests have built it. A test of that name is
# in tcpwhy-treat, too.
core=()
for path in crates/core/tests/*.rs crates/core/tests/*/main.rs; do
    name=${path#crates/core/tests/}
    name=${name%/main.rs}
    core+=(--test "${name%.rs}")
done
tests --workspace --exclude tcpwhy-treat "${core[@]}"
[ -z "$build" ] || exit 0
# Number of tests that may fail because of what runs beside them. More have another reason.
alone_max=5
alone=()
for output in "$TCPWHY_TESTS"/*.output; do
    [ -e "$output" ] && [ "$(cat "${output%.output}.status")" -ne 0 ] || continue
    mapfile -t names < <(awk '/^test .* FAILED$/ { print $2 }' "$output")
    # A binary that ends without a result of its tests has not failed in a test.
    if ! grep -q '^test result: ' "$output" || [ ${#names[@]} -eq 0 ] ||
        [ $((${#alone[@]} + ${#names[@]})) -gt $alone_max ]; then
        status=101
        continue
    fi
    for name in "${names[@]}"; do
        printf '\n     Alone %s\n' "$name"
        if (
            # shellcheck disable=SC1090
            . "${output%.output}.environment"
            env --default-signal "$(cat "${output%.output}.binary")" --exact "$name"
        ); then
            alone+=("$name")
        else
            status=101
        fi
    done
done

# count WORD: the sum of `N WORD` in the closing lines of all binaries.
count() {
    awk -v word="$1" '
        /^test result: / { for (i = 2; i <= NF; i++) if ($i ~ "^" word) sum += $(i - 1) }
        END { print sum + 0 }' "$TCPWHY_TESTS/cargo"
}
failed=$(($(count failed) - ${#alone[@]}))
if [ "${#alone[@]}" -gt 0 ]; then
    echo
    echo 'failed beside other tests, and passed alone:'
    printf '  %s\n' "${alone[@]}"
fi
if [ "$failed" -gt 0 ]; then
    echo
    echo 'failed:'
    awk '/^test .* FAILED$/ { print $2 }' "$TCPWHY_TESTS/cargo" |
        grep -vxFf <(printf '%s\n' "${alone[@]}") | sed 's/^/  /'
fi
skipped=$(cut -f 1 "$TCPWHY_SKIPPED" | sort -u | wc -l)
if [ "$skipped" -gt 0 ]; then
    echo
    echo 'skipped:'
    sort -u "$TCPWHY_SKIPPED" | awk -F '\t' '{ print "  " $1 ": " $2 }'
fi
echo
echo "$(($(count passed) + ${#alone[@]} - skipped)) passed, $failed failed, $skipped skipped"
exit "$status"
