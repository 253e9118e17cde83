#!/bin/bash
# Installs what is missing on Debian and its kin; silent where nothing is.
#
# Usage: setup.sh run|build|lint|fuzz|static|test|programs|web|page|platforms|image|rpm|recipes|fleet|bare…
#
#   run     what compiling needs
#   build   and clang where it can be had, for the kernel hooks
#   test    what the tests use; without a JDK, whose tests are skipped where there is none
#   programs  the part of that which the lab and the packages use as well: servers and tools
#   page    and what compiles for WebAssembly
#   platforms  what scripts/platforms.sh checks
#   image   what builds and runs a container image
#   rpm     what builds and tries RPM packages
#   recipes  what packaging/check-recipes.sh uses
#   fleet   what packaging/check-fleet.sh uses
#   bare    what makes a bare Debian (scripts/bare-debian.sh)
set -euo pipefail
# What root uses is not in the PATH of Debian's ordinary users.
PATH=$PATH:/usr/sbin:/sbin

rust_min=1.88
packages=()
targets=()

# need PROGRAM PACKAGE: the package, unless the program is there.
need() {
    # A file: bash has a kill of its own.
    type -P "$1" >/dev/null || packages+=("$2")
}

at_least() {
    [[ $1 == [0-9]* ]] && [ "$(printf '%s\n' "$rust_min" "$1" | sort -V | head -1)" = "$rust_min" ]
}

rust_is_here() {
    local version
    # A rustup without a toolchain has a cargo that only fails.
    version=$(cargo --version 2>/dev/null) && at_least "$(cut -d' ' -f2 <<<"$version")"
}

candidate() {
    apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ { print $2 }'
}

may_be_root() {
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "setup: root is needed, and there is no sudo; as root: $*" >&2
        exit 2
    fi
}

update_once() {
    if [ -z "${updated:-}" ]; then
        as_root apt-get -qq update
        updated=1
    fi
}

# Debian has a current Rust as rustc, as rustc-web (12, by its security updates), or by way of
# rustup (13).
choose_rust() {
    update_once
    if at_least "$(candidate cargo)"; then
        packages+=(cargo rustc rustfmt rust-clippy)
    elif at_least "$(candidate cargo-web)"; then
        packages+=(cargo-web rustc-web rustfmt-web rust-web-clippy)
    elif command -v rustup >/dev/null || [[ $(candidate rustup) == [0-9]* ]]; then
        need rustup rustup
        toolchain=stable
    else
        no_rust
    fi
}

no_rust() {
    echo "setup: Rust $rust_min or newer is needed and cannot be had from the system's packages:" \
        'install it from https://rustup.rs and call make again' >&2
    exit 2
}

has_apt() {
    command -v apt-get >/dev/null
}

for what in "$@"; do
    case $what in
    run | lint) ;;
    build) wants_clang=1 ;;
    fuzz) need c++ g++ ;;
    static)
        need musl-gcc musl-tools
        targets+=("$(uname -m)-unknown-linux-musl")
        ;;
    test | programs)
        need nginx nginx-light
        need tcpdump tcpdump
        need tshark tshark
        need redis-server redis-server
        need traceroute traceroute
        need ping iputils-ping
        need curl curl
        need openssl openssl
        need kill procps
        need dnsmasq dnsmasq-base
        need node nodejs
        need python3 python3
        # Packaging.
        need dpkg-shlibdeps dpkg-dev
        need strip binutils
        need ip iproute2
        need iptables iptables
        need nft nftables
        [ "$what" = test ] || continue
        need c++ g++
        wants_clang=1
        # The Python package is tested, and DuckDB reads the tables of --parquet: as wheels in a venv.
        python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3 python3-venv)
        wants_python=1
        # Spark's tests are skipped without Java, but not in CI.
        [ -z "${CI:-}" ] || need java default-jre-headless
        ;;
    web)
        need node nodejs
        need npm npm
        need chromium chromium
        ;;
    page)
        need node nodejs
        need npm npm
        # zstd for WebAssembly.
        need clang clang
        targets+=(wasm32-unknown-unknown)
        ;;
    platforms) targets+=(x86_64-pc-windows-gnu aarch64-apple-darwin) ;;
    image)
        need buildah buildah
        need readelf binutils
        ;;
    rpm) need rpmbuild rpm ;;
    recipes)
        need makepkg makepkg
        need pacman pacman-package-manager
        need bsdtar libarchive-tools
        need ruby ruby
        need setpriv util-linux
        ;;
    fleet)
        need prometheus prometheus
        need promtool prometheus
        need nginx nginx-light
        need ip iproute2
        need setpriv util-linux
        need systemd-analyze systemd
        need python3 python3
        ;;
    bare) need debootstrap debootstrap ;;
    *)
        echo "usage: setup.sh run|build|lint|fuzz|static|test|programs|web|page|platforms|image|rpm|recipes|fleet|bare…" >&2
        exit 2
        ;;
    esac
done
# zstd is compiled from C.
need cc gcc
[ -e /usr/include/stdlib.h ] || packages+=(libc6-dev)
if ! rust_is_here; then
    has_apt || no_rust
    choose_rust
fi

# A build without kernel hooks does all but a few things, and says where it cannot.
if [ -n "${wants_clang:-}" ] && ! command -v "${CLANG:-clang}" >/dev/null; then
    if has_apt && may_be_root && update_once && [[ $(candidate clang) == [0-9]* ]]; then
        packages+=(clang)
    else
        echo 'setup: clang cannot be installed: the build will have no kernel hooks' >&2
    fi
fi
if [ ${#packages[@]} -gt 0 ]; then
    if ! has_apt; then
        echo "setup: missing; install what Debian calls: ${packages[*]}" >&2
        exit 2
    fi
    update_once
    echo "setup: installing ${packages[*]}" >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
        "${packages[@]}" >/dev/null
fi
if [ -n "${wants_python:-}" ]; then
    scripts/test-python.sh --packages ||
        echo 'setup: Python packages cannot be installed; tests that use them are left out' >&2
fi
if [ -n "${toolchain:-}" ]; then
    rustup default "$toolchain"
fi

for target in "${targets[@]}"; do
    if ! [ -e "$(rustc --print target-libdir --target "$target")" ]; then
        if ! command -v rustup >/dev/null || ! rustup target add "$target"; then
            echo "setup: Rust for $target is missing: install Rust with https://rustup.rs and call" \
                'make again' >&2
            exit 2
        fi
    fi
done

if [[ " $* " == *" lint "* || " $* " == *" test "* ]]; then
    for component in fmt clippy; do
        if ! cargo "$component" --version >/dev/null 2>&1; then
            echo "setup: cargo $component is missing: rustup component add rustfmt clippy" >&2
            exit 2
        fi
    done
fi
