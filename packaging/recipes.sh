#!/bin/bash
# Writes what Homebrew and Arch Linux's user repository (AUR) install a release from: tcpwhy.rb, PKGBUILD
# and .SRCINFO. Both take the archives of the release, by their checksums.
#
# Usage: packaging/recipes.sh HOME ADDRESS ARCHIVES OUT_DIR
#
#   HOME      the address of the project
#   ADDRESS   where the archives are, without the last slash
#   ARCHIVES  a folder with them: tcpwhy-vVERSION-TARGET.tar.gz
# Runs with the bash and the tools of macOS, too.
set -euo pipefail
home=$1
address=$2
archives=$3
out=$4
. "$(dirname "$0")/packages.sh"
summary=$(awk '{ print toupper(substr($0, 1, 1)) substr($0, 2) }' <<<"${tcpwhy[2]}")

one=$(cd "$archives" && echo tcpwhy-v*-x86_64-unknown-linux-musl.tar.gz)
version=${one#tcpwhy-v}
version=${version%-x86_64-unknown-linux-musl.tar.gz}
case $version in
'*' | *' '*)
    echo "$0: not one archive for x86_64-unknown-linux-musl in $archives" >&2
    exit 2
    ;;
esac

# archive TARGET: the name of an archive.
archive() {
    echo "tcpwhy-v$version-$1.tar.gz"
}

# sum TARGET: the checksum of an archive.
sum() {
    openssl dgst -sha256 -r "$archives/$(archive "$1")" | cut -d ' ' -f 1
}

# of_homebrew INDENT TARGET: address and checksum in a formula.
of_homebrew() {
    printf '%surl "%s/%s"\n%ssha256 "%s"\n' "$1" "$address" "$(archive "$2")" "$1" "$(sum "$2")"
}

mkdir -p "$out"
cat >"$out/tcpwhy.rb" <<END_OF_FORMULA
class Tcpwhy < Formula
  desc "$summary"
  homepage "$home"
  version "$version"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
$(of_homebrew '      ' aarch64-apple-darwin)
    end
    on_intel do
$(of_homebrew '      ' x86_64-apple-darwin)
    end
  end
  on_linux do
    on_arm do
$(of_homebrew '      ' aarch64-unknown-linux-musl)
    end
    on_intel do
$(of_homebrew '      ' x86_64-unknown-linux-musl)
    end
  end

  def install
    bin.install "tcpwhy"
    generate_completions_from_executable(bin/"tcpwhy", "completions")
    system bin/"tcpwhy", "man", man1
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tcpwhy --version")
  end
end
END_OF_FORMULA

# A hyphen divides the version from the release in a package's name.
cat >"$out/PKGBUILD" <<END_OF_BUILD
pkgname=tcpwhy-bin
pkgver=${version//-/_}
pkgrel=1
pkgdesc='$summary'
arch=(x86_64 aarch64)
url='$home'
license=(MIT Apache-2.0)
provides=(tcpwhy)
conflicts=(tcpwhy)
options=(!strip)
source_x86_64=('$address/$(archive x86_64-unknown-linux-musl)')
source_aarch64=('$address/$(archive aarch64-unknown-linux-musl)')
sha256sums_x86_64=($(sum x86_64-unknown-linux-musl))
sha256sums_aarch64=($(sum aarch64-unknown-linux-musl))

package() {
    cd "tcpwhy-v$version-\$CARCH-unknown-linux-musl"
    install -Dm755 tcpwhy "\$pkgdir/usr/bin/tcpwhy"
    install -Dm644 -t "\$pkgdir/usr/share/licenses/\$pkgname" LICENSE-MIT LICENSE-APACHE
    ./tcpwhy man "\$pkgdir/usr/share/man/man1"
    ./tcpwhy completions bash | install -Dm644 /dev/stdin "\$pkgdir/usr/share/bash-completion/completions/tcpwhy"
    ./tcpwhy completions zsh | install -Dm644 /dev/stdin "\$pkgdir/usr/share/zsh/site-functions/_tcpwhy"
    ./tcpwhy completions fish | install -Dm644 /dev/stdin "\$pkgdir/usr/share/fish/vendor_completions.d/tcpwhy.fish"
}
END_OF_BUILD

cat >"$out/.SRCINFO" <<END_OF_INFORMATION
pkgbase = tcpwhy-bin
	pkgdesc = $summary
	pkgver = ${version//-/_}
	pkgrel = 1
	url = $home
	arch = x86_64
	arch = aarch64
	license = MIT
	license = Apache-2.0
	provides = tcpwhy
	conflicts = tcpwhy
	options = !strip
	source_x86_64 = $address/$(archive x86_64-unknown-linux-musl)
	sha256sums_x86_64 = $(sum x86_64-unknown-linux-musl)
	source_aarch64 = $address/$(archive aarch64-unknown-linux-musl)
	sha256sums_aarch64 = $(sum aarch64-unknown-linux-musl)

pkgname = tcpwhy-bin
END_OF_INFORMATION
