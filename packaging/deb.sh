#!/bin/bash
# Builds a Debian package of the program that TCPWHY names.
#
# Usage: packaging/deb.sh OUT_DIR      Prints the package's path. Needs dpkg-dev and binutils.
set -euo pipefail
: "${TCPWHY:?the program to package}"
out=$(mkdir -p "$1" && realpath "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$("$TCPWHY" --version | awk '{ print $2 }')
architecture=$(dpkg --print-architecture)
root=$work/root
make -s install TCPWHY="$TCPWHY" DESTDIR="$root" PREFIX=/usr
gzip -9n "$root"/usr/share/man/man1/*.1
install -D -m 644 LICENSE-MIT "$root/usr/share/doc/tcpwhy/copyright"
{ echo; cat LICENSE-APACHE; } >>"$root/usr/share/doc/tcpwhy/copyright"
gzip -9nc CHANGELOG.md | install -D -m 644 /dev/stdin "$root/usr/share/doc/tcpwhy/changelog.gz"

# What the program is linked with tells on which packages it depends.
mkdir -p "$work/debian" "$root/DEBIAN"
echo 'Source: tcpwhy' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/tcpwhy 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
cat >"$root/DEBIAN/control" <<END
Package: tcpwhy
Version: $version
Architecture: $architecture
Maintainer: tcpwhy contributors <tcpwhy@localhost>
Depends: $depends
Section: net
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: says why a request was slow
 tcpwhy reads packet captures, watches the running system or asks a server
 itself, gives the time of every request to an owner, and names the causes:
 what each one cost, which side has to change what, and the evidence.
END
package=$out/tcpwhy_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
