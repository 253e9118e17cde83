#!/bin/bash
# Installs the RPM packages of tcpwhy and its lab below a folder of their own, runs what they installed, and
# removes them again. The system's packages are not touched. As root.
#
# Usage: packaging/check-rpm.sh TCPWHY.rpm TCPWHY-LAB.rpm
set -euo pipefail
package=$(realpath "$1")
lab=$(realpath "$2")
cd "$(dirname "$0")/.."
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# The folder has no C library, on which a program may depend that is not static.
in_root() {
    rpm --root "$root" --nodeps "$@"
}
fail() {
    echo "check-rpm: $*" >&2
    exit 1
}

rpm --root "$root" --initdb
in_root --install "$package"
status=0
"$root/usr/bin/tcpwhy" testdata/captures/nginx_nodelay_off.pcap --json >/dev/null || status=$?
[ "$status" -eq 1 ] || fail "the diagnosis ended with $status, not 1"
in_root --install "$lab"
"$root/usr/bin/tcpwhy" lab list >/dev/null || fail 'the lab does not run'
[ "$(rpm -qp --requires "$lab" | grep -c '^tcpwhy = ')" -eq 1 ] || fail 'the lab does not need tcpwhy'
for file in share/man/man1/tcpwhy-watch.1.gz share/bash-completion/completions/tcpwhy \
    share/man/man1/tcpwhy-lab-run.1.gz share/bash-completion/completions/tcpwhy-lab \
    share/doc/tcpwhy/LICENSE-MIT; do
    [ -s "$root/usr/$file" ] || fail "/usr/$file is missing"
done
in_root --erase tcpwhy-lab tcpwhy
left=$(find "$root/usr" -type f)
[ -z "$left" ] || fail "left behind: $left"
echo "check-rpm: $(basename "$package") and $(basename "$lab") install, work and leave"
