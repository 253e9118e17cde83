#!/bin/bash
# Runs a command in a clone of this commit, in a new Debian 12 that has nothing but git, make and the
# certificates of the Web: what a newcomer's machine has. Whatever the command needs, it installs itself.
#
# Usage: bare-debian.sh [--as-user] [--rust] [--take FILE TO]… COMMAND    such as 'make run && make test'
#        bare-debian.sh --possible            whether it can, by its status
#
#   --as-user        as an ordinary user who may use sudo
#   --rust           with this machine's Rust in /opt/rust, read-only; it is not in the search path
#   --take FILE TO   copy a file of that clone to here when the command has succeeded
#
# Needs root, a Debian 12 with debootstrap, and 6 GB. Status: that of the command. How packages are
# reached (apt's sources, certificates, settings of cargo and pip, the environment) is taken over from
# this machine. The mounts exist in a mount namespace of their own, and end with it; /dev has devices of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

include=git,make,ca-certificates
user=root

# prepare ROOT RUST: in the mount namespace, the new system as a mount, with what it needs of the kernel
# and, unless RUST is empty, that toolchain of this machine.
prepare() {
    mount --bind "$1" "$1"
    mount --rbind /proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount -t tmpfs -o mode=755 tmpfs "$1/run"
    mount -t tmpfs -o mode=755 tmpfs "$1/dev"
    mkdir "$1"/dev/{pts,shm,net}
    cp -a /dev/{null,zero,full,random,urandom,tty} "$1/dev"
    [ ! -e /dev/net/tun ] || cp -a /dev/net/tun "$1/dev/net"
    chown -R root:root "$1/dev"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
    ln -s pts/ptmx "$1/dev/ptmx"
    ln -s /proc/self/fd "$1/dev/fd"
    for stream in 0:stdin 1:stdout 2:stderr; do
        ln -s "/proc/self/fd/${stream%%:*}" "$1/dev/${stream##*:}"
    done
    if [ -n "$2" ]; then
        mkdir "$1/opt/rust"
        mount --bind "$2" "$1/opt/rust"
        mount -o remount,bind,ro "$1/opt/rust"
    fi
}

if [ "${1:-}" = --in-namespace ]; then
    prepare "$2" "$6"
    # Unlike in a changed root alone, mount namespaces can be made here, and this machine's files
    # are out of reach.
    cd "$2"
    pivot_root . mnt
    umount -l /mnt
    # The search path is Debian's; the rest of the environment may say how packages are reached.
    exec /usr/bin/env --default-signal -u CARGO_HOME -u CARGO_TARGET_DIR -u RUSTUP_HOME -u TMPDIR \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$4" USER="$3" \
        runuser -u "$3" -- bash -lc "cd ~/tcpwhy && $5"
fi

if [ "${1:-}" = --as-user ]; then
    user=somebody
    include+=,sudo
    shift
fi
rust=
if [ "${1:-}" = --rust ]; then
    rust=$(rustc --print sysroot)
    shift
fi
taken=()
while [ "${1:-}" = --take ] && [ $# -gt 3 ]; do
    taken+=("$2" "$3")
    shift 3
done
if [ $# -ne 1 ]; then
    echo "usage: $0 [--as-user] [--rust] [--take FILE TO]… COMMAND | --possible" >&2
    exit 2
fi
if [ "$(. /etc/os-release && echo "$ID${VERSION_ID:-}")" != debian12 ] || [ "$(id -u)" -ne 0 ] ||
    ! unshare --mount true; then
    echo "$0: needs root that may mount, and a Debian 12 whose package sources it may take over" >&2
    exit 2
fi
[ "$1" != --possible ] || exit 0

# Debian's packages and security updates, from where this machine gets them.
debian_sources() {
    apt-get indextargets --format 'deb $(REPO_URI) $(CODENAME) main' 'Origin: Debian' | sort -u
}

# Ends what still runs in the new system, and removes it; nothing of it is mounted in this namespace.
remove() {
    local pid
    for pid in /proc/[0-9]*; do
        if [ "$pid/root" -ef "$root" ]; then
            kill -KILL "${pid#/proc/}" 2>/dev/null || true
        fi
    done
    if grep -qF " $root/" /proc/self/mounts; then
        echo "$0: something is mounted below $root, which is left as it is" >&2
        return
    fi
    rm -rf --one-file-system "$root" "$root.log"
}

root=$(mktemp -d /var/tmp/tcpwhy-bare.XXXXXX)
trap remove EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$root"
debootstrap --variant=minbase --include="$include" bookworm "$root" \
    "$(debian_sources | awk '$3 == "bookworm" { print $2; exit }')" >"$root.log" 2>&1 || {
    cat "$root.log" >&2
    exit 1
}

home=$root/root
if [ "$user" != root ]; then
    chroot "$root" useradd --create-home --shell /bin/bash "$user"
    echo "$user ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$user"
    home=$root/home/$user
fi
# take FOLDER FILE…: over from this machine, where it has them.
take() {
    local to=$1 file
    for file in "${@:2}"; do
        if [ -e "$file" ]; then
            mkdir -p "$to"
            cp -rL "$file" "$to"
        fi
    done
}
take "$root/etc" /etc/resolv.conf /etc/hosts /etc/pip.conf
take "$root/etc/ssl/certs" /etc/ssl/certs/ca-certificates.crt
debian_sources >"$root/etc/apt/sources.list"
apt-config dump | grep -E '^Acquire::(http|https|Check|Retries)' >"$root/etc/apt/apt.conf.d/90taken-over" || true
take "$home/.cargo" ~/.cargo/config.toml
take "$home/.config" ~/.config/pip
git clone -q --no-local . "$home/tcpwhy"
chown -R --reference="$home" "$home"

# In the background, so that a signal is obeyed at once.
unshare --mount --propagation private "$0" --in-namespace "$root" "$user" "${home#"$root"}" "$1" "$rust" <&0 &
wait $!
for ((at = 0; at < ${#taken[@]}; at += 2)); do
    cp "$home/tcpwhy/${taken[at]}" "${taken[at + 1]}"
done
