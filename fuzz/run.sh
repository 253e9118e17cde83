#!/bin/sh
# Builds and runs every fuzz target for SECONDS (20 if not given) each; stops at the first crash,
# whose input then lies in fuzz/artifacts/. Works on a stable compiler: no sanitizer is used, the
# code under test has no `unsafe`. FUZZ_SEED fixes the order of what is tried; without it each run differs.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-20}
# It only starts builds and programs, and need not be optimised.
if ! cargo fuzz --version >/dev/null 2>&1; then
    cargo install cargo-fuzz --locked --quiet --debug
fi
for target in $(cargo fuzz list); do
    echo "fuzz: $target for $seconds s"
    mkdir -p "fuzz/corpus/$target"
    cargo fuzz run -s none "$target" -- "-max_total_time=$seconds" -timeout=10 -rss_limit_mb=1024 \
        -seed="${FUZZ_SEED:-0}" -verbosity=0 -print_final_stats=1
done
