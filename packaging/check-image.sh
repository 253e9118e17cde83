#!/bin/bash
# Runs an image of packaging/image.sh on a capture, as its own user. As root.
#
# Usage: packaging/check-image.sh IMAGE.tar
set -euo pipefail
image=$(realpath "$1")
cd "$(dirname "$0")/.."
storage=$(mktemp -d)
export STORAGE_DRIVER=vfs
in_storage() {
    buildah --root "$storage/storage" --runroot "$storage/run" "$@"
}
trap 'in_storage rm --all >/dev/null; rm -rf "$storage"' EXIT
container=$(in_storage from --quiet "docker-archive:$image")
fail() {
    echo "check-image: $1" >&2
    exit 1
}
user=$(in_storage inspect --format '{{.OCIv1.Config.User}}' "$container")
[ "$user" = 65534:65534 ] || fail "its user is '$user'"
in_storage copy --quiet "$container" testdata/captures/nginx_nodelay_off.pcap /captures/slow.pcap >/dev/null
status=0
# buildah run takes no entry point of the image.
in_storage run --isolation chroot "$container" -- /usr/bin/tcpwhy slow.pcap --json \
    >"$storage/report.json" 2>"$storage/said" || status=$?
[ "$status" -eq 1 ] || fail "the diagnosis ended with $status, not 1: $(cat "$storage/said")"
grep -q '"cause": *"nagle_delayed_ack"' "$storage/report.json" || fail 'the cause is not in its report'
files=$(in_storage mount "$container")
[ "$(find "$files/usr" -type f)" = "$files/usr/bin/tcpwhy" ] || fail 'there is more in it than the program'
echo "check-image: $(stat -c %s "$image") bytes, diagnoses as user $user"
