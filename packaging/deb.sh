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

. packaging/packages.sh
version=$(version "$TCPWHY")
architecture=$(dpkg --print-architecture)

# package NAME TARGET SUMMARY DESCRIPTION NEEDED: what `make TARGET` installs, as a package.
package() {
    local name=$1 target=$2 summary=$3 description=$4 needed=$5 root=$work/$1/root depends file
    staged "$target" "$root"
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
Depends: $depends${needed:+, $needed (= $version)}
Section: net
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: $summary
$(sed 's/^/ /' <<<"$description")
END
    file=$out/${name}_${version}_$architecture.deb
    dpkg-deb --root-owner-group --build "$root" "$file" >/dev/null
    echo "$file"
}

package "${tcpwhy[@]}"
package "${tcpwhy_lab[@]}"
