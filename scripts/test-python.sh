#!/bin/bash
# Builds the Python package for a virtual environment in the target folder, and runs its tests. They
# compare it with the command of the same build. The build is that of tests; `make wheel` makes the
# wheel, and measures its size and start-up.
#
# Usage: test-python.sh [ARGUMENT OF PYTEST…]     Status: that of the tests.
#        test-python.sh --packages                only installs the packages that the tests use
#        test-python.sh --build                   only builds
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
venv=$target/python
wanted=crates/python/requirements.txt
# Spark has 490 MB and needs Java; its tests are skipped where there is none.
spark=crates/python/requirements-spark.txt

# install: the packages, with their versions, into the environment; nothing where they are there.
install() {
    if ! cmp -s "$wanted" "$venv/requirements.txt"; then
        python3 -m venv --clear "$venv" && install_from "$wanted" || return
    fi
    if command -v java >/dev/null && ! cmp -s "$spark" "$venv/requirements-spark.txt"; then
        install_from "$spark"
    fi
}

# install_from FILE: its packages; the copy of the file says that they are there.
install_from() {
    "$venv/bin/pip" -q --disable-pip-version-check install --no-deps -r "$1" && cp "$1" "$venv/"
}

if [ "${1:-}" = --packages ]; then
    install
    exit
fi
if ! install; then
    echo "$0: the packages of $wanted cannot be installed (python3-venv, a way to PyPI)" >&2
    # A test that was skipped in CI has failed.
    [ -z "${CI:-}" ]
    exit
fi
# One after the other: built together, the package would have the program's features. Beside all other
# crates it has the features of dependencies that the program has, so these are not built again for it.
cargo build --locked -p tcpwhy
cargo build --locked --workspace --exclude tcpwhy
[ "${1:-}" != --build ] || exit 0
# As a wheel would install it, but with the files of the sources.
package=$target/python-package/tcpwhy
rm -rf "$package"
mkdir -p "$package"
ln -s "$PWD"/crates/python/python/tcpwhy/* "$package"
ln -s "$target/debug/libtcpwhy_native.so" "$package/_native.abi3.so"
"$venv/bin/python" -c 'import sysconfig, sys
open(sysconfig.get_path("purelib") + "/tcpwhy.pth", "w").write(sys.argv[1] + "\n")' "${package%/*}"

export TCPWHY=$target/debug/tcpwhy PYTHONDONTWRITEBYTECODE=1
tests() {
    "$venv/bin/python" -m pytest -q -r s -p no:cacheprovider "$@"
}
if [ $# -gt 0 ]; then
    tests crates/python/tests "$@"
    exit
fi
# The tests of Spark mostly wait for it: the others run meanwhile.
on_spark=crates/python/tests/test_spark.py
output=$(mktemp)
tests "$on_spark" >"$output" 2>&1 &
trap 'kill $! 2>/dev/null || true; rm "$output"' EXIT
status=0
tests crates/python/tests --ignore "$on_spark" || status=$?
# pytest's status 5: no test, because Spark's were skipped; the output says why.
wait $! || [ $? -eq 5 ] || status=1
cat "$output"
exit "$status"
