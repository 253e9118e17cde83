#!/bin/bash
# Builds the wheel of the Python package, optimised, into the target folder, installs it into a new
# environment that has nothing else, and checks its size and how long its import takes.
#
# Usage: wheel.sh     Needs what `test-python.sh --packages` installs.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# Bars: bytes of the wheel, and milliseconds of the fastest of ten imports.
wheel_bytes_max=$((6 * 1000 * 1000))
import_max_ms=50

rm -rf "$target/wheels"
PATH=$target/python/bin:$PATH maturin build --profile wheel --locked -m crates/python/Cargo.toml \
    -o "$target/wheels"
wheel=$(echo "$target"/wheels/tcpwhy-*.whl)
bytes=$(stat -c %s "$wheel")

python3 -m venv --clear "$target/wheel-alone"
"$target/wheel-alone/bin/pip" -q --disable-pip-version-check install --no-index "$wheel"
cd "$target"
import_ms=$(for _ in {1..10}; do
    wheel-alone/bin/python -c 'import time; t = time.perf_counter(); import tcpwhy
print(round((time.perf_counter() - t) * 1e3, 1))'
done | sort -n | head -1)
echo "$wheel: $bytes bytes (at most $wheel_bytes_max); import $import_ms ms (at most $import_max_ms)"
[ "$bytes" -le "$wheel_bytes_max" ] && awk "BEGIN { exit !($import_ms <= $import_max_ms) }"
