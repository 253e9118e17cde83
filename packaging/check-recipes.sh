#!/bin/bash
# Makes archives of a program as a release does, writes the recipes for Homebrew and Arch Linux of them, and
# tries these as far as this system can: makepkg builds the package, and Ruby parses the formula.
#
# Usage: packaging/check-recipes.sh PROGRAM      Needs makepkg with pacman, ruby and bsdtar.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. packaging/packages.sh
version=$(version "$program")
for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-apple-darwin aarch64-apple-darwin; do
    name=tcpwhy-v$version-$target
    mkdir -p "$work/archives" "$work/$name"
    cp LICENSE-* "$program" "$work/$name"
    tar -C "$work" -c --use-compress-program='gzip -1' -f "$work/archives/$name.tar.gz" "$name"
done
packaging/recipes.sh https://tcpwhy.example "file://$work/archives" "$work/archives" "$work/recipes"

ruby -c "$work/recipes/tcpwhy.rb" >/dev/null
# makepkg does not run as root.
as=()
if [ "$(id -u)" -eq 0 ]; then
    chown -R nobody "$work"
    as=(setpriv --reuid nobody --regid nogroup --clear-groups)
fi
made() {
    (cd "$work/recipes" && "${as[@]}" env HOME="$work" PKGEXT=.pkg.tar "$@")
}
made makepkg --nodeps >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
made makepkg --printsrcinfo | diff - "$work/recipes/.SRCINFO"
for file in bin/tcpwhy share/man/man1/tcpwhy-watch.1 share/zsh/site-functions/_tcpwhy \
    share/licenses/tcpwhy-bin/LICENSE-MIT; do
    bsdtar -tf "$work"/recipes/*.pkg.tar | grep -qE "^usr/$file(\.gz)?$" || {
        echo "check-recipes: /usr/$file is not in the package" >&2
        exit 1
    }
done
echo 'check-recipes: makepkg builds tcpwhy-bin, and the formula of Homebrew is Ruby'
