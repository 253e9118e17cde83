#!/bin/bash
# Builds two RPM packages: of the program that TCPWHY names, and of the lab beside it.
#
# Usage: packaging/rpm.sh OUT_DIR      Prints the packages' paths, a line each. Needs rpmbuild.
#
# A program that `make static` has built needs nothing of the system, so its package fits every
# distribution; of another one, rpmbuild reads what it is linked with.
set -euo pipefail
: "${TCPWHY:?the program to package}"
out=$(mkdir -p "$1" && realpath "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. packaging/packages.sh
# A hyphen divides the version from the release in a package's name.
version=$(version "$TCPWHY" | tr - '~')

# package NAME TARGET SUMMARY DESCRIPTION NEEDED: what `make TARGET` installs, as a package.
package() {
    local name=$1 target=$2 summary=$3 description=$4 needed=$5 root=$work/$1/root file
    staged "$target" "$root"
    mkdir -p "$root/usr/share/doc/$name"
    cp LICENSE-MIT LICENSE-APACHE CHANGELOG.md "$root/usr/share/doc/$name"
    {
        cat <<END_OF_HEAD
Name: $name
Version: $version
Release: 1
Summary: $summary
License: MIT OR Apache-2.0
${needed:+Requires: $needed = $version-1}

%description
$description

%files
END_OF_HEAD
        (cd "$root" && find . -type f -printf '/%P\n')
    } >"$work/$name.spec"
    # `make` has stripped the program; rpmbuild is to package it as it is.
    rpmbuild --quiet -bb --buildroot "$root" --define "_topdir $work/$name" --define "_rpmdir $work/$name" \
        --define '_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm' \
        --define '__os_install_post %{nil}' --define 'debug_package %{nil}' \
        ${RPM_PAYLOAD:+--define "_binary_payload $RPM_PAYLOAD"} "$work/$name.spec" >&2
    file=$(echo "$work/$name"/*.rpm)
    cp "$file" "$out"
    echo "$out/${file##*/}"
}

package "${tcpwhy[@]}"
package "${tcpwhy_lab[@]}"
