#!/bin/bash
# Installs a package, runs what it installed, and removes it again. As root.
#
# Usage: packaging/check-deb.sh FILE.deb
set -euo pipefail
package=$(realpath "$1")
cd "$(dirname "$0")/.."
if dpkg-query --show tcpwhy >/dev/null 2>&1; then
    echo 'check-deb: tcpwhy is installed already; remove it first: apt-get remove tcpwhy' >&2
    exit 2
fi
trap 'dpkg --purge tcpwhy >/dev/null' EXIT
dpkg --install "$package" >/dev/null
status=0
/usr/bin/tcpwhy testdata/captures/nginx_nodelay_off.pcap --json >/dev/null || status=$?
[ "$status" -eq 1 ] || { echo "check-deb: the diagnosis ended with $status, not 1" >&2; exit 1; }
for file in share/man/man1/tcpwhy-watch.1.gz share/bash-completion/completions/tcpwhy \
    share/doc/tcpwhy/copyright; do
    [ -s "/usr/$file" ] || { echo "check-deb: /usr/$file is missing" >&2; exit 1; }
done
echo "check-deb: $(basename "$package") installs, diagnoses and leaves"
