#!/bin/bash
# Builds the container image of a static binary with buildah, without a daemon or a registry. As root.
#
# Usage: packaging/image.sh TCPWHY OUT.tar      An archive for `podman load` or `docker load`.
set -euo pipefail
tcpwhy=$(realpath "$1")
out=$(realpath -m "$2")
cd "$(dirname "$0")"
if readelf --program-headers "$tcpwhy" | grep -q INTERP; then
    echo "image: $tcpwhy needs libraries of the system: make static" >&2
    exit 2
fi
context=$(mktemp -d)
# Storage of its own: nothing stays on the machine but the archive.
export STORAGE_DRIVER=vfs
storage=(--root "$context/storage" --runroot "$context/run")
trap 'rm -rf "$context"' EXIT
mkdir "$context/files"
install -s -m 755 "$tcpwhy" "$context/files/tcpwhy"
version=$("$tcpwhy" --version | awk 'NR == 1 { print $2 }')
buildah "${storage[@]}" bud --quiet --isolation chroot --file Dockerfile --format docker \
    --tag "tcpwhy:$version" "$context/files" >/dev/null
rm -f "$out"
buildah "${storage[@]}" push --quiet "tcpwhy:$version" "docker-archive:$out:tcpwhy:$version"
echo "$out"
