#!/bin/bash
# Builds two Debian packages: of the program that TCPWHY names, and of the lab beside it.
#
# Usage: packaging/deb.sh OUT_DIR      Prints the packages' paths, a line each. Needs dpkg-dev and binutils.
set -euo pipefail
: "${TCPWHY:?the program to package}"
out=$(mkdir -p "$1" && realpath "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$("$TCPWHY" --version | awk 'NR == 1 { print $2 }')
architecture=$(dpkg --print-architecture)

# package NAME TARGET DESCRIPTION [DEPENDENCY]: what `make TARGET` installs, as a package.
package() {
    local name=$1 target=$2 description=$3 root=$work/$1/root depends file
    make -s "$target" TCPWHY="$TCPWHY" DESTDIR="$root" PREFIX=/usr
    gzip -9n "$root"/usr/share/man/man1/*.1
    install -D -m 644 LICENSE-MIT "$root/usr/share/doc/$name/copyright"
    { echo; cat LICENSE-APACHE; } >>"$root/usr/share/doc/$name/copyright"
    gzip -9nc CHANGELOG.md | install -D -m 644 /dev/stdin "$root/usr/share/doc/$name/changelog.gz"

    # What the program is linked with tells on which packages it depends.
    mkdir -p "$work/$name/debian" "$root/DEBIAN"
    echo "Source: $name" >"$work/$name/debian/control"
    depends=$(cd "$work/$name" && dpkg-shlibdeps -O "root/usr/bin/$name" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
    cat >"$root/DEBIAN/control" <<END
Package: $name
Version: $version
Architecture: $architecture
Maintainer: tcpwhy contributors <tcpwhy@localhost>
Depends: $depends${4:-}
Section: net
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: $description
END
    file=$out/${name}_${version}_$architecture.deb
    dpkg-deb --root-owner-group --build "$root" "$file" >/dev/null
    echo "$file"
}

package tcpwhy install 'says why a request was slow
 tcpwhy reads packet captures, watches the running system or asks a server
 itself, gives the time of every request to an owner, and names the causes:
 what each one cost, which side has to change what, and the evidence.'
package tcpwhy-lab install-lab 'lab of network faults for tcpwhy
 tcpwhy-lab makes requests slow with real software in network namespaces, and
 says whether tcpwhy names the cause. It is not needed to use tcpwhy, and is
 run as root.' ", tcpwhy (= $version)"
