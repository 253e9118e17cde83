#!/bin/bash
# Installs the packages of tcpwhy and its lab, runs what they installed, and removes them again. As root.
#
# Usage: packaging/check-deb.sh TCPWHY.deb TCPWHY-LAB.deb
set -euo pipefail
package=$(realpath "$1")
lab=$(realpath "$2")
cd "$(dirname "$0")/.."
if dpkg-query --show tcpwhy >/dev/null 2>&1; then
    echo 'check-deb: tcpwhy is installed already; remove it first: apt-get remove tcpwhy' >&2
    exit 2
fi
trap 'dpkg --purge tcpwhy-lab tcpwhy >/dev/null 2>&1' EXIT
dpkg --install "$package" >/dev/null
status=0
/usr/bin/tcpwhy testdata/captures/nginx_nodelay_off.pcap --json >/dev/null || status=$?
[ "$status" -eq 1 ] || { echo "check-deb: the diagnosis ended with $status, not 1" >&2; exit 1; }
status=0
/usr/bin/tcpwhy lab list >/dev/null 2>&1 || status=$?
[ "$status" -eq 2 ] || { echo "check-deb: the lab is there without its package ($status)" >&2; exit 1; }
dpkg --install "$lab" >/dev/null
/usr/bin/tcpwhy lab list >/dev/null
for file in share/man/man1/tcpwhy-watch.1.gz share/bash-completion/completions/tcpwhy \
    share/man/man1/tcpwhy-lab-run.1.gz share/bash-completion/completions/tcpwhy-lab \
    share/doc/tcpwhy/copyright; do
    [ -s "/usr/$file" ] || { echo "check-deb: /usr/$file is missing" >&2; exit 1; }
done
echo "check-deb: $(basename "$package") and $(basename "$lab") install, work and leave"
